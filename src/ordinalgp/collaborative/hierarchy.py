"""EM for a Gaussian prior that many raters share (section 3 of [Yu06]_).

Rater j has latent values f_j ~ N(h, K) on all m items and rated some of them. With w and R of
its own rated items (glossary), moved to the places P_j of these items among all,

    E[f_j] = h + K P_j' w_j        cov(f_j) = K - K P_j' R_j P_j K

so the M-step, eq. (3), needs only two sums over raters, s = sum P_j' w_j and
G = sum P_j' (w_j w_j' - R_j) P_j, whatever n is:

    h_new = h + d,  d = K s / n        K_new = K + K G K / n - d d'

G is twice the slope of the log evidence in K: EM climbs along it, measured by K itself.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, Any, Self

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from ordinalgp._typing import FINITE, Axes, FloatArray, IntArray
from ordinalgp.collaborative.raters import RaterDistribution
from ordinalgp.core.gaussian import Posterior, Sites
from ordinalgp.core.inference import infer
from ordinalgp.core.linalg import Triangle, lower_factor
from ordinalgp.core.objectives import LowRankMinusMatrix, ep_value
from ordinalgp.core.problem import Approximation, Problem, Start
from ordinalgp.core.projections import Identity, RowSelection, sandwich
from ordinalgp.core.variational_bound import bound_value
from ordinalgp.persistence import saved_as
from ordinalgp.runtime.progress import Progress, Report, silent

# Largest number of tasks per iteration; the order of the sums does not depend on n_jobs.
_MAX_TASKS = 64


@saved_as("prior.items")
@dataclass(frozen=True, eq=False)
class Prior:
    """N(mean, covariance) over the m items."""

    mean: Annotated[FloatArray, Axes("m", *FINITE)]
    covariance: Annotated[FloatArray, Axes("m m", *FINITE)]

    def check(self) -> None:
        """Raise ValueError unless the covariance is symmetric and, but for rounding, definite."""
        K, nugget = self.covariance, 1e-8 * float(np.max(np.diagonal(self.covariance)))

        def build() -> FloatArray:
            raised = K.copy()
            raised.flat[:: len(K) + 1] += nugget
            return raised

        if not np.max(np.abs(K - K.T)) <= abs(nugget):
            raise ValueError("the covariance of the items is not symmetric")
        lower_factor(build)

    def restricted(self, index: IntArray) -> "Prior":
        """The prior of some items."""
        rows = RowSelection(index, len(self.mean))
        return Prior(rows.apply(self.mean), sandwich(rows, self.covariance))


@dataclass(frozen=True, eq=False)
class Hyperprior:
    """Normal-Inverse-Wishart smoothing: virtual raters that follow the starting prior.

    ``for_mean`` and ``for_covariance`` are their numbers. If the latter is above 0, the covariance
    stays above for_covariance / (for_covariance + n) of the starting one. Hence it is positive
    definite after any number of steps.
    """

    base: Prior
    for_mean: float
    for_covariance: float

    def log_density(self, prior: Prior) -> float:
        """Log density of ``prior``, 0 at ``base``."""
        if self.for_mean == self.for_covariance == 0.0:
            return 0.0
        triangle, own = (Triangle(each.covariance.copy) for each in (prior, self.base))
        shift = prior.mean - self.base.mean
        spread = np.sum(triangle.full_inverse() * self.base.covariance) - len(shift)
        spread += 2 * (triangle.half_log_det - own.half_log_det)
        distance = shift @ triangle.solve(shift)
        return float(-0.5 * (self.for_covariance * spread + self.for_mean * distance))

    def mode(self, prior: Prior, sums: "ExpectationSums", n: int) -> Prior:
        """M-step for the prior: eq. (3) of [Yu06]_ with the virtual raters among the others."""
        K, away = prior.covariance, self.base.mean - prior.mean
        d = (K @ sums.weights + self.for_mean * away) / (n + self.for_mean)
        new = n * K + 2.0 * (K @ sums.slope @ K) + self.for_covariance * self.base.covariance
        new += self.for_mean * np.outer(away, away) - (n + self.for_mean) * np.outer(d, d)
        new /= n + self.for_covariance
        return Prior(prior.mean + d, 0.5 * (new + new.T))


@dataclass(frozen=True, eq=False)
class Rater:
    """Rated items, their ratings, the rater's likelihood, and its sites once they are found."""

    index: IntArray
    y: Any
    likelihood: Any
    sites: Sites | None = None

    def problem(self, prior: Prior) -> Problem:
        """The rater's inference problem, in the space of its own ratings."""
        own, n = prior.restricted(self.index), len(self.index)
        return Problem(own.covariance, Identity(n), self.y, self.likelihood, np.ones(n), own.mean)

    def posterior(self, prior: Prior) -> Posterior:
        """Posterior of the rated items under the sites found before."""
        sites = Sites.flat(len(self.index)) if self.sites is None else self.sites
        return self.problem(prior).condition(sites)


@dataclass(frozen=True)
class InferenceLimits:
    """Largest number of sweeps, and tolerance, of the inference for one rater."""

    max_sweeps: int = 100
    tol: float = 1e-6


DEFAULT_LIMITS = InferenceLimits()


@dataclass(frozen=True, eq=False)
class ExpectationSums:
    """Sums over a group of raters that the M-step needs: m^2 numbers for any number of raters."""

    value: float
    """summed log evidence"""
    bound: float
    """summed lower bound, eq. (2) of [Yu06]_"""
    weights: FloatArray
    """s, (m,)"""
    slope: FloatArray
    """G / 2, (m, m)"""
    n_failed: int
    """raters whose inference did not converge"""

    @classmethod
    def zeros(cls, m: int) -> "ExpectationSums":
        """Sums over no raters."""
        return cls(0.0, 0.0, np.zeros(m), np.zeros((m, m)), 0)

    def add(self, other: "ExpectationSums") -> "ExpectationSums":
        """Sum, written over ``self``'s arrays."""
        np.add(self.weights, other.weights, out=self.weights)
        np.add(self.slope, other.slope, out=self.slope)
        value, bound = self.value + other.value, self.bound + other.bound
        return replace(self, value=value, bound=bound, n_failed=self.n_failed + other.n_failed)


def infer_rater(
    prior: Prior, rater: Rater, shared: RaterDistribution, limits: InferenceLimits
) -> tuple[Problem, Approximation]:
    """E-step of one rater."""
    problem = rater.problem(prior)
    sites = shared.first_sites(problem, rater.sites)
    found = infer(
        problem,
        smoothing="cavity",
        start=None if sites is None else Start(sites, np.zeros(len(sites.tau))),
        max_sweeps=limits.max_sweeps,
        tol=limits.tol,
    )
    return problem, found


def _group_expectation(
    prior: Prior, raters: Sequence[Rater], shared: RaterDistribution, limits: InferenceLimits
) -> tuple[ExpectationSums, list[tuple[Sites, Any]]]:
    """Sums over some raters; their sites and next likelihoods."""
    sums, own = ExpectationSums.zeros(len(prior.mean)), []
    for rater in raters:
        problem, found = infer_rater(prior, rater, shared, limits)
        weights = found.posterior.weights
        slope = LowRankMinusMatrix.of(found.posterior.upper_inverse(), weights).full()
        sums.weights[rater.index] += weights
        sums.slope[np.ix_(rater.index, rater.index)] += slope
        sums = replace(
            sums,
            value=sums.value + ep_value(problem, found),
            bound=sums.bound + bound_value(problem, found),
            n_failed=sums.n_failed + (not found.converged),
        )
        own.append((found.sites, shared.m_step(problem, found)))
    return sums, own


def expectation(
    prior: Prior,
    raters: Sequence[Rater],
    shared: RaterDistribution,
    limits: InferenceLimits,
    parallel: Parallel,
) -> tuple[ExpectationSums, list[Rater], list[Any]]:
    """E-step of all raters: sums, raters with their sites, and everyone's next likelihood.

    Only as many groups as there are workers run at a time, so that few (m, m) sums are in memory.
    """
    order = np.argsort([-len(rater.index) for rater in raters], kind="stable")
    groups = [order[place::_MAX_TASKS] for place in range(min(_MAX_TASKS, len(raters)))]
    sums, found = ExpectationSums.zeros(len(prior.mean)), dict[int, tuple[Sites, Any]]()
    todo, width = iter(groups), effective_n_jobs(parallel.n_jobs)
    while wave := list(islice(todo, width)):
        jobs = (
            delayed(_group_expectation)(prior, [raters[j] for j in group], shared, limits)
            for group in wave
        )
        for group, (some, own) in zip(wave, parallel(jobs), strict=True):
            sums = sums.add(some)
            found.update(zip(group.tolist(), own, strict=True))
    updated = [replace(rater, sites=found[j][0]) for j, rater in enumerate(raters)]
    return sums, updated, [found[j][1] for j in range(len(raters))]


@dataclass(frozen=True, eq=False)
class EMState:
    """State of EM: prior, raters, the distribution of their parameters, and the objectives."""

    prior: Prior
    raters: Sequence[Rater]
    shared: RaterDistribution
    path: tuple[float, ...] = ()
    """penalised log evidence at every iteration"""
    evidence_path: tuple[float, ...] = ()
    """log evidence alone"""
    bound_path: tuple[float, ...] = ()
    """the lower bound on it"""
    n_failed: int = 0
    """raters whose inference did not converge"""
    converged: bool = False

    def after_e_step(
        self, sums: ExpectationSums, raters: Sequence[Rater], hyperprior: Hyperprior | None
    ) -> Self:
        """The state with the raters' new sites, and the objectives there."""
        penalty = sum(self.shared.log_density(rater.likelihood) for rater in raters)
        penalty += hyperprior.log_density(self.prior) if hyperprior else 0.0
        return replace(
            self,
            raters=raters,
            path=(*self.path, sums.value + penalty),
            evidence_path=(*self.evidence_path, sums.value),
            bound_path=(*self.bound_path, sums.bound),
            n_failed=sums.n_failed,
        )

    def after_m_step(
        self, sums: ExpectationSums, likelihoods: list[Any], hyperprior: Hyperprior | None
    ) -> Self:
        """The state with new likelihoods, their new centre, and a new prior."""
        pairs = zip(self.raters, likelihoods, strict=True)
        raters = [replace(rater, likelihood=likelihood) for rater, likelihood in pairs]
        prior = hyperprior.mode(self.prior, sums, len(raters)) if hyperprior else self.prior
        shared = self.shared.with_center_of(likelihoods)
        return replace(self, prior=prior, raters=raters, shared=shared)


def learn(
    prior: Prior,
    raters: Sequence[Rater],
    shared: RaterDistribution,
    hyperprior: Hyperprior | None,
    *,
    max_iter: int,
    tol: float,
    limits: InferenceLimits = DEFAULT_LIMITS,
    n_jobs: int | None = None,
    report: Report = silent,
) -> EMState:
    """Alternate E- and M-steps until the objective gains less than ``tol`` per rating.

    The objective is the summed log evidence plus the log densities of the prior and of the
    raters' own parameters. Without a hyperprior the prior stays as it is. Iteration 0 is the
    start.
    """
    enough = tol * sum(len(rater.index) for rater in raters)
    begin, iteration = time.perf_counter(), 0
    best, now = None, EMState(prior, raters, shared)
    with Parallel(n_jobs=n_jobs) as parallel:
        while True:
            sums, updated, own = expectation(now.prior, now.raters, now.shared, limits, parallel)
            now = now.after_e_step(sums, updated, hyperprior)
            value = now.path[-1]
            gain = value - best.path[-1] if best else np.inf
            done = bool(gain < 0.0 or gain <= enough or iteration >= max_iter)
            seconds = time.perf_counter() - begin
            report(Progress("em", iteration, max_iter, float(value), seconds, done=done))
            if best and gain < 0.0:  # EP is not exact: a step that lowers the objective is undone
                return replace(best, converged=bool(-gain <= enough))
            best = replace(now, converged=bool(gain <= enough))
            if done:
                return best
            now = now.after_m_step(sums, own, hyperprior)
            iteration += 1


def fit_rater(
    prior: Prior,
    rater: Rater,
    shared: RaterDistribution,
    *,
    tol: float,
    limits: InferenceLimits = DEFAULT_LIMITS,
    max_iter: int = 50,
) -> Rater:
    """Fit one rater's sites and parameters, with the prior and all other raters fixed.

    A step in theta is not taken where it would gain less than ``tol`` per rating: each rating, and
    each unit of ``strength``, has a curvature of about 1 in theta.
    """
    n = len(rater.index)
    for iteration in range(max_iter + 1):
        problem, found = infer_rater(prior, rater, shared, limits)
        rater = replace(rater, sites=found.sites)
        new = shared.single_step(problem, found)
        shift = new.theta - rater.likelihood.theta
        if 0.5 * (shared.strength + n) * (shift @ shift) <= tol * n or iteration == max_iter:
            break
        rater = replace(rater, likelihood=new)
    return rater
