"""The normal distribution cut to an interval: log mass, cumulants and edge densities.

Everything an ordinal probit needs. If x ~ N(0, 1) is cut to (lo, hi), then
log P(lo < x + t < hi) is, up to -t^2/2, the cumulant generating function of the cut
variable. Its first three derivatives in t at 0 are therefore the cut variable's mean,
its variance minus one, and its third cumulant.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

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
_TAIL = 4.0  # nearer edges beyond this lie in the tail
_NARROW = 0.25  # narrower intervals cost the formulas more than three digits of sixteen
_MILD_EXPONENT = 10.0  # up to this exponent across the interval half the nodes will do


@dataclass(frozen=True, eq=False)
class Interval:
    """A standard normal cut to an interval; every quantity has the same shape.

    Intervals are computed with their nearer edge on the left. What the reflection changes is
    changed back when it is asked for.
    """

    parts: FloatArray
    """of the intervals with the nearer edge on the left, (9, m)"""
    flip: np.ndarray
    """whether an interval was reflected, (m,)"""

    @property
    def log_mass(self) -> FloatArray:
        """log[Phi(hi) - Phi(lo)]."""
        return self.parts[0]

    @property
    def var(self) -> FloatArray:
        """Variance of the cut variable."""
        return self.parts[2]

    @property
    def information(self) -> FloatArray:
        """1 - var, kept apart because the difference cancels when little is cut off."""
        return self.parts[4]

    @cached_property
    def _sign(self) -> FloatArray:
        return 1.0 - 2.0 * self.flip

    @cached_property
    def mean(self) -> FloatArray:
        """Mean of the cut variable."""
        return self._sign * self.parts[1]

    @cached_property
    def third(self) -> FloatArray:
        """Third cumulant."""
        return self._sign * self.parts[3]

    @cached_property
    def lo_density(self) -> FloatArray:
        """phi(lo) / mass, and 0 at an infinite edge."""
        return np.where(self.flip, self.parts[6], self.parts[5])

    @cached_property
    def hi_density(self) -> FloatArray:
        """phi(hi) / mass, and 0 at an infinite edge."""
        return np.where(self.flip, self.parts[5], self.parts[6])

    @cached_property
    def below(self) -> FloatArray:
        """mean - lo, without cancellation; finite where the edge is not."""
        return np.where(self.flip, self.parts[8], self.parts[7])

    @cached_property
    def above(self) -> FloatArray:
        """hi - mean, without cancellation; finite where the edge is not."""
        return np.where(self.flip, self.parts[7], self.parts[8])


def cut_normal(lo: FloatArray, hi: FloatArray, width: FloatArray | None = None) -> Interval:
    """Cut a standard normal to (lo, hi); all shapes (m,), edges may be infinite.

    ``width`` is hi - lo; pass it where it is known better than the difference.
    """
    width = np.subtract(hi, lo) if width is None else width
    # Reflect so that the interval leans to the right: its nearer edge is then ``lo``. Not so for
    # the whole line.
    flip = lo < -hi
    near = np.where(flip, -hi, lo)
    np.minimum(np.maximum(near, -_FAR, out=near), _FARTHEST, out=near)
    width = np.minimum(width, np.abs(near) + _FAR)
    # Formulas in Phi and phi cancel where the cut variable's variance is small: in the
    # tail and in narrow intervals. There the density is smooth: integrate it instead.
    smooth = np.flatnonzero((near > _TAIL) | (width < _NARROW))
    if len(smooth) == 0:
        return Interval(_by_formula(near, width), flip)
    near_smooth, width_smooth = near[smooth], width[smooth]
    near[smooth], width[smooth] = 0.0, 1.0  # anything harmless
    parts = _by_formula(near, width)
    parts[:, smooth] = _integrated(near_smooth, width_smooth)
    return Interval(parts, flip)


def _integrated(lo: FloatArray, width: FloatArray) -> FloatArray:
    """Integrate, with half the nodes wherever they will do and there are enough to gain by it."""
    mild = width * (lo + 0.5 * width) < _MILD_EXPONENT
    if mild.all():
        return _by_quadrature(16, lo, width)
    if np.count_nonzero(mild) < _FEW_INTERVALS:
        return _by_quadrature(32, lo, width)
    parts = np.empty((9, len(lo)))
    for order, where in ((16, np.flatnonzero(mild)), (32, np.flatnonzero(~mild))):
        parts[:, where] = _by_quadrature(order, lo[where], width[where])
    return parts


def _by_formula(lo: FloatArray, width: FloatArray) -> FloatArray:
    """Use the error function; lo + hi >= 0, and the interval is wide and not in the tail."""
    edges = np.empty((2, len(lo)))
    edges[0] = lo
    hi = np.add(lo, width, out=edges[1])
    log_upper, log_beyond = log_ndtr(-edges)
    parts = np.empty((9, len(lo)))
    log_mass, mean, var, third, information, lo_density, hi_density, below, above = parts
    np.add(log_upper, np.log1p(-np.exp(log_beyond - log_upper)), out=log_mass)
    np.exp(-0.5 * edges * edges - (log_mass + _LOG_SQRT_2PI), out=parts[5:7])
    np.subtract(lo_density, hi_density, out=mean)
    np.subtract(mean, lo, out=below)
    np.subtract(hi, mean, out=above)
    # hi phi(hi) - lo phi(lo) + mean^2, over the mass
    np.add(above * hi_density, below * lo_density, out=information)
    np.subtract(1.0, information, out=var)
    np.subtract(lo_density * (below * below - var), hi_density * (above * above - var), out=third)
    return parts


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


@lru_cache(maxsize=4)
def hermite(order: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and log weights for E[g(x)], x ~ N(0, 1)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    return nodes, np.log(weights) - _LOG_SQRT_2PI
