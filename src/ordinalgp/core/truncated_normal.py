"""The normal distribution cut to an interval: log mass, cumulants and edge densities.

Everything an ordinal probit needs. If x ~ N(0, 1) is cut to (lo, hi), then
log P(lo < x + t < hi) is, up to -t^2/2, the cumulant generating function of the cut
variable. Its first three derivatives in t at 0 are therefore the cut variable's mean,
its variance minus one, and its third cumulant.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import ndtr

from ordinalgp._typing import BoolArray, FloatArray, IntArray

_SQRT_2PI = float(np.sqrt(2 * np.pi))
_LOG_SQRT_2PI = float(np.log(_SQRT_2PI))
# Beyond this distance from the nearer edge the density is zero in double precision.
_FAR = 1e4
_WIDEST = 3e4  # beyond it, both edges are far enough
_FARTHEST = 1e150  # the square of the nearer edge stays finite
# exp(-40) = 4e-18: what lies beyond contributes nothing to a double.
_NEGLIGIBLE = 40.0
_FEW_INTERVALS = 64  # below this number the calls cost more than the nodes
_TAIL = 4.0  # nearer edges beyond this lie in the tail
_NARROW = 0.25  # narrower intervals cost the formulas more than three digits of sixteen
_NONE = np.empty((5, 0))
_MILD_EXPONENT = 10.0  # up to this exponent across the interval half the nodes will do


@dataclass(frozen=True, eq=False)
class Interval:
    """A standard normal cut to an interval; every quantity has the same shape.

    Intervals are computed with their nearer edge on the left. What the reflection changes is
    changed back when it is asked for, and what few ask for is computed then.
    """

    edges: FloatArray
    """the nearer edges and the others, (2, m)"""
    moments: FloatArray
    """mass, mean and 1 - variance, (3, m)"""
    densities: FloatArray
    """at the nearer edges and the others, over the mass, (2, m)"""
    flip: BoolArray
    """whether an interval was reflected, (m,)"""
    smooth: IntArray
    """intervals that were integrated by quadrature; their edges and masses here are others"""
    of_smooth: FloatArray
    """log mass, third cumulant, variance, mean - lo and hi - mean of these, (5, k)"""

    @cached_property
    def log_mass(self) -> FloatArray:
        """log[Phi(hi) - Phi(lo)]."""
        mass = self.moments[0]
        beyond = ndtr(self.edges[0]) + ndtr(-self.edges[1])
        return self._with_smooth(0, np.where(mass < 0.5, np.log(mass), np.log1p(-beyond)))

    @property
    def mean(self) -> FloatArray:
        """Mean of the cut variable."""
        return self._reflected(self.moments[1])

    @property
    def information(self) -> FloatArray:
        """1 - variance, kept apart because the difference cancels when little is cut off."""
        return self.moments[2]

    @cached_property
    def var(self) -> FloatArray:
        """Variance of the cut variable."""
        return self._with_smooth(2, 1.0 - self.information)

    @cached_property
    def third(self) -> FloatArray:
        """Third cumulant."""
        (near, far), (below, above), var = self.densities, self._distances, self.var
        third = near * (below * below - var) - far * (above * above - var)
        return self._reflected(self._with_smooth(1, third))

    @cached_property
    def lo_density(self) -> FloatArray:
        """phi(lo) / mass, and 0 at an infinite edge."""
        return np.where(self.flip, self.densities[1], self.densities[0])

    @cached_property
    def hi_density(self) -> FloatArray:
        """phi(hi) / mass, and 0 at an infinite edge."""
        return np.where(self.flip, self.densities[0], self.densities[1])

    @cached_property
    def below(self) -> FloatArray:
        """mean - lo, without cancellation; finite where the edge is not."""
        return np.where(self.flip, self._distances[1], self._distances[0])

    @cached_property
    def above(self) -> FloatArray:
        """hi - mean, without cancellation; finite where the edge is not."""
        return np.where(self.flip, self._distances[0], self._distances[1])

    @cached_property
    def _distances(self) -> tuple[FloatArray, FloatArray]:
        """From the mean to both edges, before the reflection."""
        mean = self.moments[1]
        below, above = mean - self.edges[0], self.edges[1] - mean
        return self._with_smooth(3, below), self._with_smooth(4, above)

    def _with_smooth(self, row: int, found: FloatArray) -> FloatArray:
        """Overwrite what quadrature knows better."""
        found[self.smooth] = self.of_smooth[row]
        return found

    def _reflected(self, odd: FloatArray) -> FloatArray:
        """An odd moment after the reflection, as a new array."""
        return np.negative(odd, out=odd.copy(), where=self.flip)


def cut_normal(lo: FloatArray, hi: FloatArray, width: FloatArray | None = None) -> Interval:
    """Cut a standard normal to (lo, hi); all shapes (m,), edges may be infinite.

    ``width`` is hi - lo; pass it where it is known better than the difference.
    """
    width = np.subtract(hi, lo) if width is None else width
    # Reflect so that the interval leans to the right: its nearer edge is then ``lo``. Not so for
    # the whole line.
    near = np.maximum(lo, -hi)
    flip = near > lo
    np.minimum(np.maximum(near, -_FAR, out=near), _FARTHEST, out=near)
    width = np.minimum(width, _WIDEST)
    # Formulas in Phi and phi cancel where the cut variable's variance is small: in the
    # tail and in narrow intervals. There the density is smooth: integrate it instead.
    smooth = ((near > _TAIL) | (width < _NARROW)).nonzero()[0]
    if len(smooth) == 0:
        return Interval(*_by_formula(near, width), flip, smooth, _NONE)
    integrated = _integrated(near[smooth], width[smooth])
    near[smooth], width[smooth] = 0.0, 1.0  # anything harmless
    edges, moments, densities = _by_formula(near, width)
    moments[1:, smooth], densities[:, smooth] = integrated[:2], integrated[2:4]
    return Interval(edges, moments, densities, flip, smooth, integrated[4:])


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


def _by_formula(lo: FloatArray, width: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Edges, moments and densities by the error function.

    lo + hi >= 0, and the interval is wide and not in the tail.
    """
    edges, moments = np.empty((2, len(lo))), np.empty((3, len(lo)))
    mass, mean, information = moments
    edges[0] = lo
    np.add(lo, width, out=edges[1])
    upper, beyond = ndtr(-edges)
    np.subtract(upper, beyond, out=mass)
    densities = edges * edges
    densities *= -0.5
    np.exp(densities, out=densities)
    densities /= mass * _SQRT_2PI
    np.subtract(densities[0], densities[1], out=mean)
    # hi phi(hi) - lo phi(lo) + mean^2, over the mass
    near, far = edges * densities
    np.add(far - near, mean * mean, out=information)
    return edges, moments, densities


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
    known = log_mass, third, var, below, width - below
    return np.array([mean, 1 - var, lo_density, hi_density, *known])


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
