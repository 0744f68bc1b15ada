"""The normal distribution cut to an interval: log mass, cumulants and edge densities.

Everything an ordinal probit needs. If x ~ N(0, 1) is cut to (lo, hi), then
log P(lo < x + t < hi) is, up to -t^2/2, the cumulant generating function of the cut
variable. Its first three derivatives in t at 0 are therefore the cut variable's mean,
its variance minus one, and its third cumulant.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr

from ordinalgp._typing import FloatArray

_LOG_SQRT_2PI = 0.5 * np.log(2 * np.pi)
# Beyond this distance from the nearer edge the density is zero in double precision.
_FAR = 1e4
_FARTHEST = 1e150  # the square of the nearer edge stays finite
# exp(-40) = 4e-18: what lies beyond contributes nothing to a double.
_NEGLIGIBLE = 40.0
_FEW_INTERVALS = 64  # below this number the calls cost more than the nodes
_MILD_EXPONENT = 10.0  # up to this exponent across the interval half the nodes will do


@dataclass(frozen=True)
class Interval:
    """A standard normal cut to an interval; every field has the same shape."""

    log_mass: FloatArray
    """log[Phi(hi) - Phi(lo)]"""
    mean: FloatArray
    var: FloatArray
    third: FloatArray
    """third cumulant"""
    information: FloatArray
    """1 - var, kept apart because the difference cancels when little is cut off"""
    lo_density: FloatArray
    """phi(lo) / mass, and 0 at an infinite edge"""
    hi_density: FloatArray
    below: FloatArray
    """mean - lo, without cancellation; finite where the edge is not"""
    above: FloatArray


def cut_normal(lo: FloatArray, hi: FloatArray, width: FloatArray | None = None) -> Interval:
    """Cut a standard normal to (lo, hi); all shapes (m,), edges may be infinite.

    ``width`` is hi - lo; pass it where it is known better than the difference.
    """
    width = np.subtract(hi, lo) if width is None else width
    # Reflect so that the interval leans to the right: its nearer edge is then ``lo``.
    with np.errstate(invalid="ignore"):
        flip = lo + hi < 0  # false for the whole line, where the sum is not a number
    near = np.clip(np.where(flip, -hi, lo), -_FAR, _FARTHEST)
    width = np.minimum(width, np.abs(near) + _FAR)
    # Formulas in Phi and phi cancel where the cut variable's variance is small: in the
    # tail and in narrow intervals. There the density is smooth: integrate it instead.
    smooth = np.flatnonzero((near > 2.0) | (width < 1.0))
    if len(smooth) == 0:
        return _reflected(_by_formula(near, width), flip)
    near_smooth, width_smooth = near[smooth], width[smooth]
    near[smooth], width[smooth] = 0.0, 1.0  # anything harmless
    parts = _by_formula(near, width)
    parts[:, smooth] = _integrated(near_smooth, width_smooth)
    return _reflected(parts, flip)


def _integrated(lo: FloatArray, width: FloatArray) -> FloatArray:
    """Integrate, with half the nodes wherever they will do and there are enough to gain by it."""
    mild = width * (lo + 0.5 * width) < _MILD_EXPONENT
    if np.count_nonzero(mild) < _FEW_INTERVALS:
        return _by_quadrature(32, lo, width)
    if np.all(mild):
        return _by_quadrature(16, lo, width)
    parts = np.empty((9, len(lo)))
    for order, where in ((16, np.flatnonzero(mild)), (32, np.flatnonzero(~mild))):
        parts[:, where] = _by_quadrature(order, lo[where], width[where])
    return parts


def _by_formula(lo: FloatArray, width: FloatArray) -> FloatArray:
    """Use the error function; lo + hi >= 0, and the interval is wide and not in the tail."""
    hi = lo + width
    log_upper = log_ndtr(-lo)
    log_mass = log_upper + np.log1p(-np.exp(log_ndtr(-hi) - log_upper))
    lo_density = np.exp(-0.5 * lo**2 - _LOG_SQRT_2PI - log_mass)
    hi_density = np.exp(-0.5 * hi**2 - _LOG_SQRT_2PI - log_mass)
    mean = lo_density - hi_density
    information = hi * hi_density - lo * lo_density + mean**2
    var = 1.0 - information
    below, above = mean - lo, hi - mean
    third = lo_density * (below**2 - var) - hi_density * (above**2 - var)
    return np.array([log_mass, mean, var, third, information, lo_density, hi_density, below, above])


def _by_quadrature(order: int, lo: FloatArray, width: FloatArray) -> FloatArray:
    """Integrate exp(-lo x - x^2/2) over the offset x in (0, width) by Gauss-Legendre."""
    nodes, weights = _legendre(order)
    # lo * reach + reach^2 / 2 = 40 is where the density stops mattering.
    reach = 2 * _NEGLIGIBLE / (lo + np.sqrt(lo**2 + 2 * _NEGLIGIBLE))
    length = np.minimum(width, reach)
    x = nodes[:, None] * length
    p = weights[:, None] * np.exp(-x * (lo + 0.5 * x))
    total = p.sum(axis=0)
    p /= total
    mass = total * length
    below = np.einsum("km,km->m", p, x)
    x -= below
    px = p * x
    var = np.einsum("km,km->m", px, x)
    x *= x
    third = np.einsum("km,km->m", px, x)
    lo_density = 1.0 / mass
    hi_density = np.exp(-width * (lo + 0.5 * width)) / mass
    log_mass = np.log(mass) - 0.5 * lo**2 - _LOG_SQRT_2PI
    mean = lo + below
    return np.array(
        [log_mass, mean, var, third, 1 - var, lo_density, hi_density, below, width - below]
    )


@lru_cache(maxsize=2)
def _legendre(order: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights on (0, 1): 32 integrate exp(-40 x) to 1e-20, 16 exp(-10 x)."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    return (nodes + 1) / 2, weights / 2


def _reflected(parts: FloatArray, flip: np.ndarray) -> Interval:
    """Undo the reflection: the mean and third cumulant change sign, the edges swap."""
    parts[[1, 3]] *= np.where(flip, -1.0, 1.0)
    parts[5:] = np.where(flip, parts[[6, 5, 8, 7]], parts[5:])
    return Interval(*parts)


@lru_cache(maxsize=4)
def hermite(order: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and log weights for E[g(x)], x ~ N(0, 1)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    return nodes, np.log(weights) - _LOG_SQRT_2PI
