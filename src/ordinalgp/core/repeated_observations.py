"""Copies of one observation under EP: their common site, given everything else.

With c copies the cavity of one of them holds the c - 1 others: its precision P and mean m solve
P = p0 + (c - 1) tau(m, 1/P) and P m = s0 + (c - 1) nu(m, 1/P), where p0 and s0 are all that is not
these copies. Moving all copies at once, each as if it were alone, overshoots c times; damping
that is strong enough for that takes c rounds. So this is solved by Newton's method, in log P and
in standard deviations of the mean, where the answer changes by little whenever c doubles.
"""

from dataclasses import dataclass, replace

import numpy as np

from ordinalgp._typing import BoolArray, FloatArray, IntArray
from ordinalgp.core.gaussian import Moments, Sites
from ordinalgp.core.problem import Problem, match

_ROUNDS = 12  # of Newton's method for one number of copies
_DOUBLINGS = 100
_ROUGH = 1e-2  # precise enough on the way to more copies
_EPS = float(np.finfo(float).eps)
_LEAST_VARIANCE = np.sqrt(np.finfo(float).tiny)  # has an inverse whose square is finite
_STEP = 1e-4  # of log P, for the one derivative that is not known in closed form


@dataclass(frozen=True, eq=False)
class _Rest:
    """All but the copies: precision p0, shift s0, and the number c - 1 of the others."""

    problem: Problem
    rows: BoolArray | IntArray
    p0: FloatArray
    s0: FloatArray
    others: FloatArray

    def cavity(self, sites: Sites) -> Moments:
        """The cavity of one copy, if all copies have the given site."""
        precision = self.p0 + self.others * sites.tau
        return Moments((self.s0 + self.others * sites.nu) / precision, 1 / precision)

    def residual(self, at: Moments) -> tuple[FloatArray, FloatArray, Sites]:
        """Distance of the cavities from those they imply, its slope in the mean, and the sites."""
        smoothed = self.problem.smooth_some(self.rows, at)
        sites = match(smoothed, at)
        new, sd = self.cavity(sites), np.sqrt(at.var)
        gap = np.array([np.log(at.var / new.var), (new.mean - at.mean) / sd])
        # The slope of tau is -d3 / (1 + v d2)^2, that of nu the same times m + v d1.
        bend = -smoothed.d3 * (1.0 + sites.tau * at.var) ** 2 * self.others * new.var
        slope = np.array([bend * sd, bend * (at.mean + at.var * smoothed.d1 - new.mean) - 1.0])
        return gap, slope, sites

    def newton(self, at: Moments, gap: FloatArray, slope: FloatArray) -> FloatArray:
        """Newton's step in log P and the mean, (2, m), by Cramer's rule."""
        near, _, _ = self.residual(Moments(at.mean, at.var * np.exp(-_STEP)))
        (a, c), (b, d) = (near - gap) / _STEP, slope
        det = a * d - b * c
        det = np.where(det == 0.0, 1.0, det)
        return np.array([b * gap[1] - d * gap[0], c * gap[0] - a * gap[1]]) / det

    def solve(self, at: Moments, tol: float) -> tuple[Moments, Sites, FloatArray]:
        """Cavities from the start ``at``, their sites, and how far they still are, (m,)."""
        gap, slope, sites = self.residual(at)
        reach = np.ones(len(self.p0))
        for _ in range(_ROUNDS):
            far = np.max(np.abs(gap), axis=0) > tol
            if not np.any(far):
                break
            step = self.newton(at, gap, slope)
            step *= far * np.minimum(1.0, reach / np.maximum(np.max(np.abs(step), axis=0), reach))
            trial = Moments(at.mean + step[1] * np.sqrt(at.var), at.var * np.exp(-step[0]))
            new = self.residual(trial)
            better = np.sum(new[0] ** 2, axis=0) < np.sum(gap**2, axis=0)
            reach = np.where(better, np.minimum(2 * reach, 1.0), reach / 4)
            at = Moments(*np.where(better, (trial.mean, trial.var), (at.mean, at.var)))
            sites = Sites(*np.where(better, (new[2].tau, new[2].nu), (sites.tau, sites.nu)))
            gap, slope = np.where(better, new[0], gap), np.where(better, new[1], slope)
        return at, sites, np.max(np.abs(gap), axis=0)

    def grown(self, tol: float) -> Sites:
        """Sites by way of fewer copies: from almost none, twice as many at a time."""
        alone = Moments(self.s0 / self.p0, 1 / self.p0)
        first = match(self.problem.smooth_some(self.rows, alone), alone)
        pull = np.abs(first.nu - first.tau * alone.mean) * np.sqrt(alone.var)
        some, at = 1.0 / (1.0 + first.tau * alone.var + pull), alone
        for _ in range(_DOUBLINGS):
            fewer = replace(self, others=np.minimum(some, self.others))
            whole = bool(np.all(some >= self.others))
            at, sites, _ = fewer.solve(at, tol if whole else _ROUGH)
            if whole:
                break
            some = 2 * some
        return sites


def common_site(
    problem: Problem, rows: BoolArray | IntArray, marginal: Moments, own: Sites, tol: float
) -> Sites:
    """Sites that agree with their own copies, for some observations, given their marginals."""
    c = problem.counts[rows]
    mean, var = marginal.mean, np.maximum(marginal.var, _LEAST_VARIANCE)
    p0 = np.maximum(1 / var - c * own.tau, _EPS / var)
    rest = _Rest(problem, rows, p0, mean / var - c * own.nu, c - 1)
    _, sites, off = rest.solve(rest.cavity(own), tol)
    lost = off > 0.1
    if np.any(lost):
        places = np.flatnonzero(rows) if rows.dtype == bool else rows
        again = _Rest(problem, places[lost], p0[lost], rest.s0[lost], rest.others[lost]).grown(tol)
        sites.tau[lost], sites.nu[lost] = again.tau, again.nu
    return sites
