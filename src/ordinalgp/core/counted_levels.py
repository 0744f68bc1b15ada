"""Many observations of one projection, counted by level: their product as one likelihood.

At a point u all observations of a projection see the same thresholds, so that their common
log likelihood sum_k c_k log p(k|u) needs the normal distribution once per threshold, not twice
per observation. Laplace's approximation with the product is that with the single observations.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import ndtr

from ordinalgp._typing import BoolArray, FloatArray
from ordinalgp.core.likelihoods import Likelihood, OrdinalProbit, Smoothed, ThetaDerivatives
from ordinalgp.core.truncated_normal import cut_normal

_SQRT_2PI = float(np.sqrt(2 * np.pi))
# Nearer edges up to here, and levels at least as wide, lose no digits by differences of the normal
# distribution; `truncated_normal` takes the others.
_NEAR, _WIDE = 4.0, 0.25
_BLOCK = 4096  # projections at a time: their temporaries stay in the cache


@dataclass(frozen=True, eq=False)
class CountedLevels(Likelihood):
    """Likelihood of counts of each level, for inference at the mode."""

    probit: OrdinalProbit
    counts: FloatArray
    """(r, M)"""

    of_points_only: ClassVar[bool] = True
    """whether there is no expectation for u ~ N(mean, var) with var > 0"""

    @property
    def theta(self) -> FloatArray:
        """Parameters of the threshold model."""
        return self.probit.theta

    @property
    def bounds(self) -> FloatArray:
        """Their bounds."""
        return self.probit.bounds

    def clone_with_theta(self, theta: FloatArray) -> Self:
        """Return the same counts under other parameters."""
        return replace(self, probit=self.probit.clone_with_theta(theta))

    def of_rows(self, rows: Any) -> Self:
        """The counts of some projections."""
        return replace(self, counts=self.counts[:, rows])

    def log_expectation(self, y: Any, mean: FloatArray, var: FloatArray) -> Smoothed:
        """Summed log probability at u = mean, and its derivatives; ``var`` must be zero."""
        out, s = np.empty((4, len(mean))), self.probit.noise
        for rows, c, at in self._blocks(mean):
            parts = at.log_mass, at.mean, -at.information, at.third
            for total, part in zip(out, parts, strict=True):
                total[rows] = np.einsum("km,km->m", c, part)
        return Smoothed(out[0], out[1] / s, out[2] / s**2, out[3] / s**3)

    def theta_derivatives(
        self, y: Any, mean: FloatArray, var: FloatArray, known: Smoothed | None = None
    ) -> ThetaDerivatives:
        """Derivatives in theta of the sums."""
        out, s = np.empty((3, len(self.theta), len(mean))), self.probit.noise
        for rows, c, at in self._blocks(mean):
            lo_var, hi_var = at.lo * (at.var - at.below**2), at.hi * (at.above**2 - at.var)
            stretch = (at.mean - at.below) * lo_var + (at.mean + at.above) * hi_var
            slopes = (
                (-at.lo, at.hi, at.mean**2 - at.information),
                (at.lo * at.below, at.hi * at.above, at.third - 2 * at.mean * at.information),
                (lo_var, hi_var, 2 * at.information - stretch),
            )
            for order, (lo, hi, noise) in enumerate(slopes):
                edges = c[:-1] * hi[:-1] + c[1:] * lo[1:]
                self._pack(out[order][:, rows], edges / s, np.einsum("km,km->m", c, noise))
                out[order][:, rows] /= s**order
        return ThetaDerivatives(*out)

    def information(self, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Minus the second derivatives of the summed value: in theta, (r, r), and with u, (r, M).

        Standardised edges are taken as linear in theta and u, as in Gauss-Newton: together with
        those in u twice, which are exact, they are positive semi-definite.
        """
        probit, r = self.probit, len(self.counts)
        total, mixed = np.zeros((r, r)), np.empty((r, len(mean)))
        for rows, c, at in self._blocks(mean):
            # Of each level: in the lower edge, both, and the upper edge; then along the edges
            # themselves, which is how they move with log noise, and with both at once, as with u.
            below, above = at.mean - at.below, at.mean + at.above
            low, high = c * at.lo * (at.lo - below), c * at.hi * (at.hi + above)
            cross = -c * at.lo * at.hi
            low_along, high_along = low * below + cross * above, cross * below + high * above
            along = low_along * below + high_along * above
            total[0, 0] += along.sum()
            mixed[0, rows] = (low_along + high_along).sum(axis=0)
            total[0, 1:] -= (low_along[1:] + high_along[:-1]).sum(axis=1)
            mixed[1:, rows] = -(low + cross)[1:] - (cross + high)[:-1]
            total[1:, 1:].flat[::r] += (low[1:] + high[:-1]).sum(axis=1)
            total[1:, 1:].flat[1::r] += cross[1:-1].sum(axis=1)
        total[1:, 1:] += np.triu(total[1:, 1:], 1).T
        total[1:, 0] = total[0, 1:]
        # From [log noise, thresholds / noise] to theta.
        chain = np.zeros((r, r))
        chain[0, 0], chain[1:, 1] = 1.0, probit.unit / probit.noise
        chain[1:, 2:] = np.tril(np.ones((r - 1, r - 2)), -1) * (probit.gaps / probit.noise)
        return chain.T @ total @ chain, chain.T @ mixed / probit.noise

    def _pack(self, out: FloatArray, edges: FloatArray, noise: FloatArray) -> None:
        """Chain slopes in the thresholds, (r - 1, m), and in log noise to theta."""
        beyond = np.cumsum(edges[::-1], axis=0)[::-1]
        out[0], out[1] = noise, self.probit.unit * beyond[0]
        out[2:] = self.probit.gaps[:, None] * beyond[1:]

    def _blocks(self, mean: FloatArray) -> "Iterator[tuple[slice, FloatArray, _Levels]]":
        for start in range(0, len(mean), _BLOCK):
            rows = slice(start, start + _BLOCK)
            counts = self.counts[:, rows]
            yield rows, counts, _Levels.of(self.probit, mean[rows], counts > 0)


@dataclass(frozen=True, eq=False)
class _Levels:
    """The normal distribution cut to each level, see `Interval`; all of shape (r, m).

    Densities are zero at infinite edges; distances to these are any finite numbers.
    """

    log_mass: FloatArray
    mean: FloatArray
    var: FloatArray
    third: FloatArray
    information: FloatArray
    lo: FloatArray
    hi: FloatArray
    below: FloatArray
    above: FloatArray

    @classmethod
    def of(cls, probit: OrdinalProbit, u: FloatArray, used: BoolArray) -> Self:
        """All levels at the points ``u``; those not ``used`` may be anything finite."""
        z = (probit.thresholds[:, None] - u) / probit.noise
        width = probit.gaps / probit.noise
        mass = _masses(z)
        density = np.exp(-0.5 * z * z) / _SQRT_2PI
        hard = np.empty(mass.shape, dtype=bool)
        hard[0], hard[-1] = z[0] < -_NEAR, z[-1] > _NEAR
        hard[1:-1] = (z[:-1] > _NEAR) | (z[1:] < -_NEAR) | (width < _WIDE)[:, None]
        any_hard = bool(hard.any())
        if any_hard:
            mass[hard] = 1.0  # keeps what is not used finite
        lo, hi, below, above = np.zeros((4, *mass.shape))
        lo[1:], hi[:-1] = density / mass[1:], density / mass[:-1]
        mean = lo - hi
        below[1:], above[:-1] = mean[1:] - z, z - mean[:-1]
        information = above * hi + below * lo
        var = 1.0 - information
        third = lo * (below * below - var) - hi * (above * above - var)
        found = cls(np.log(mass), mean, var, third, information, lo, hi, below, above)
        if any_hard:
            found._replace(probit, z, hard, used)
        return found

    def _replace(
        self, probit: OrdinalProbit, z: FloatArray, hard: BoolArray, used: BoolArray
    ) -> None:
        """Fill in what differences are not exact for, in place."""
        parts = [self.log_mass, self.mean, self.var, self.third, self.information]
        parts += [self.lo, self.hi, self.below, self.above]
        level, row = np.nonzero(hard & used)
        if len(level) == 0:
            return
        end = np.full((1, z.shape[1]), np.inf)
        lower, upper = np.concatenate([-end, z]), np.concatenate([z, end])
        width = np.concatenate([[np.inf], probit.gaps / probit.noise, [np.inf]])
        cut = cut_normal(lower[level, row], upper[level, row], width[level])
        exact = [cut.log_mass, cut.mean, cut.var, cut.third, cut.information]
        exact += [cut.lo_density, cut.hi_density, cut.below, cut.above]
        for part, values in zip(parts, exact, strict=True):
            part[level, row] = values


def _masses(z: FloatArray) -> FloatArray:
    """Probability of each level between increasing edges, (r, m), by the smaller tails."""
    tail, right = ndtr(-np.abs(z)), z > 0
    mass = np.empty((len(z) + 1, z.shape[1]))
    mass[0] = np.where(right[0], 1.0 - tail[0], tail[0])
    mass[-1] = np.where(right[-1], tail[-1], 1.0 - tail[-1])
    # Both edges on one side: the difference of two tails; else all but the two tails.
    beyond = np.where(right, tail, -tail)
    mass[1:-1] = beyond[:-1] - beyond[1:] + (right[1:] & ~right[:-1])
    return mass
