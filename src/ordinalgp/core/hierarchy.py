"""EM for a Gaussian prior that many raters share (section 3 of [Yu06]_).

Rater j has latent values f_j ~ N(h, K) on all m items and rated some of them. With w and R of
its own rated items (glossary), moved to the places P_j of these items among all,

    E[f_j] = h + K P_j' w_j        cov(f_j) = K - K P_j' R_j P_j K

so the M-step, eq. (3), needs only two sums over raters, s = sum P_j' w_j and
G = sum P_j' (w_j w_j' - R_j) P_j, whatever n is:

    h_new = h + d,  d = K s / n        K_new = K + K G K / n - d d'

G is twice the slope of the log evidence in K: EM climbs along it, measured by K itself.

.. [Yu06] S. Yu, K. Yu and V. Tresp, "Collaborative ordinal regression", 2006.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.bound import bound_value
from ordinalgp.core.gaussian import Posterior, Sites, Triangle
from ordinalgp.core.inference import infer
from ordinalgp.core.objectives import ep_value
from ordinalgp.core.problem import Approximation, Problem, Start
from ordinalgp.core.projections import Identity, Rows, sandwich
from ordinalgp.core.raters import RaterModel
from ordinalgp.core.upstream import Parts

_PARTS = 64  # at most so many tasks an iteration; the order of sums does not depend on n_jobs


@dataclass(frozen=True, eq=False)
class Prior:
    """N(mean, covariance) over the m items."""

    mean: FloatArray
    covariance: FloatArray

    def restricted(self, index: IntArray) -> "Prior":
        """The prior of some items."""
        rows = Rows(index, len(self.mean))
        return Prior(rows.apply(self.mean), sandwich(rows, self.covariance))


@dataclass(frozen=True, eq=False)
class Hyperprior:
    """Normal-Inverse-Wishart smoothing: virtual raters that follow the starting prior.

    ``for_mean`` and ``for_covariance`` say how many there are. With any of the latter the
    covariance stays above for_covariance / (for_covariance + n) of the starting one, hence
    positive definite for any number of steps.
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

    def mode(self, prior: Prior, sums: "Sums", n: int) -> Prior:
        """M-step for the prior: eq. (3) of [Yu06]_ with the virtual raters among the others."""
        K, away = prior.covariance, self.base.mean - prior.mean
        d = (K @ sums.weights + self.for_mean * away) / (n + self.for_mean)
        new = n * K + 2.0 * (K @ sums.slope @ K) + self.for_covariance * self.base.covariance
        new += self.for_mean * np.outer(away, away) - (n + self.for_mean) * np.outer(d, d)
        new /= n + self.for_covariance
        return Prior(prior.mean + d, 0.5 * (new + new.T))


@dataclass(frozen=True, eq=False)
class Rater:
    """Rated items, their ratings, own likelihood, and sites to start from."""

    index: IntArray
    y: Any
    likelihood: Any
    start: Start | None = None

    def problem(self, prior: Prior) -> Problem:
        """The rater's inference problem, in the space of its own ratings."""
        seen, n = prior.restricted(self.index), len(self.index)
        return Problem(seen.covariance, Identity(n), self.y, self.likelihood, np.ones(n), seen.mean)

    def posterior(self, prior: Prior) -> Posterior:
        """Posterior of the rated items under the sites found before."""
        sites = Sites.flat(len(self.index)) if self.start is None else self.start.sites
        return self.problem(prior).condition(sites)


@dataclass(frozen=True)
class Limits:
    """When inference for one rater ends."""

    max_sweeps: int = 100
    tol: float = 1e-6


@dataclass(frozen=True, eq=False)
class Sums:
    """What the M-step needs of a group of raters: m^2 numbers, however many they are."""

    value: float
    """summed log evidence"""
    bound: float
    """summed lower bound, eq. (2) of [Yu06]_"""
    weights: FloatArray
    """s, (m,)"""
    slope: FloatArray
    """G / 2, (m, m)"""
    unsettled: int
    """raters whose inference did not converge"""

    @classmethod
    def nothing(cls, m: int) -> "Sums":
        """No raters yet."""
        return cls(0.0, 0.0, np.zeros(m), np.zeros((m, m)), 0)

    def add(self, other: "Sums") -> "Sums":
        """Sum, written over ``self``'s arrays."""
        np.add(self.weights, other.weights, out=self.weights)
        np.add(self.slope, other.slope, out=self.slope)
        value, bound = self.value + other.value, self.bound + other.bound
        unsettled = self.unsettled + other.unsettled
        return replace(self, value=value, bound=bound, unsettled=unsettled)


def observe(
    prior: Prior, rater: Rater, model: RaterModel, limits: Limits
) -> tuple[Problem, Approximation]:
    """E-step of one rater."""
    problem = rater.problem(prior)
    found = infer(
        problem,
        smoothing="cavity",
        start=model.begin(problem, rater.start),
        max_sweeps=limits.max_sweeps,
        tol=limits.tol,
    )
    return problem, found


def _visit(
    prior: Prior, raters: Sequence[Rater], model: RaterModel, limits: Limits
) -> tuple[Sums, list[tuple[Start, Any]]]:
    """Sums over some raters, their sites, and their next parameters."""
    sums, own = Sums.nothing(len(prior.mean)), []
    for rater in raters:
        problem, found = observe(prior, rater, model, limits)
        weights = found.posterior.weights
        slope = Parts.of(found.posterior.upper_inverse(), weights).full()
        sums.weights[rater.index] += weights
        sums.slope[np.ix_(rater.index, rater.index)] += slope
        sums = replace(
            sums,
            value=sums.value + ep_value(problem, found),
            bound=sums.bound + bound_value(problem, found),
            unsettled=sums.unsettled + (not found.converged),
        )
        own.append((found.start, model.refit(problem, found)))
    return sums, own


def expectation(
    prior: Prior,
    raters: Sequence[Rater],
    model: RaterModel,
    limits: Limits,
    parallel: Parallel,
) -> tuple[Sums, list[Rater], list[Any]]:
    """E-step of all raters: sums, raters with their sites, and everyone's next likelihood.

    Parts are as many at a time as there are workers, so that few (m, m) sums are held at once.
    """
    order = np.argsort([-len(rater.index) for rater in raters], kind="stable")
    parts = [order[place::_PARTS] for place in range(min(_PARTS, len(raters)))]
    sums, found = Sums.nothing(len(prior.mean)), dict[int, tuple[Start, Any]]()
    todo, width = iter(parts), effective_n_jobs(parallel.n_jobs)
    while wave := list(islice(todo, width)):
        jobs = (delayed(_visit)(prior, [raters[j] for j in part], model, limits) for part in wave)
        for part, (some, own) in zip(wave, parallel(jobs), strict=True):
            sums = sums.add(some)
            found.update(zip(part.tolist(), own, strict=True))
    visited = [replace(rater, start=found[j][0]) for j, rater in enumerate(raters)]
    return sums, visited, [found[j][1] for j in range(len(raters))]


@dataclass(frozen=True, eq=False)
class Learned:
    """Where EM stands: prior, raters, what their own parameters share, and the way so far."""

    prior: Prior
    raters: Sequence[Rater]
    model: Any
    path: tuple[float, ...] = ()
    """penalised log evidence at every iteration"""
    evidence_path: tuple[float, ...] = ()
    """log evidence alone"""
    bound_path: tuple[float, ...] = ()
    """the lower bound on it"""
    unsettled: int = 0
    """raters whose inference did not converge"""
    converged: bool = False

    def visited(self, sums: Sums, raters: Sequence[Rater], hyperprior: Hyperprior | None) -> Self:
        """The same after an E-step."""
        held = sum(self.model.log_density(rater.likelihood) for rater in raters)
        held += hyperprior.log_density(self.prior) if hyperprior else 0.0
        return replace(
            self,
            raters=raters,
            path=(*self.path, sums.value + held),
            evidence_path=(*self.evidence_path, sums.value),
            bound_path=(*self.bound_path, sums.bound),
            unsettled=sums.unsettled,
        )

    def moved(self, sums: Sums, own: Sequence[Any], hyperprior: Hyperprior | None) -> Self:
        """The same after an M-step."""
        pairs = zip(self.raters, own, strict=True)
        raters = [replace(rater, likelihood=likelihood) for rater, likelihood in pairs]
        prior = hyperprior.mode(self.prior, sums, len(raters)) if hyperprior else self.prior
        return replace(self, prior=prior, raters=raters, model=self.model.recentred(list(own)))


def learn(
    prior: Prior,
    raters: Sequence[Rater],
    model: RaterModel,
    hyperprior: Hyperprior | None,
    *,
    max_iter: int,
    tol: float,
    limits: Limits,
    n_jobs: int | None = None,
    report: Callable[[int, float], None] = lambda iteration, value: None,
) -> Learned:
    """Alternate E- and M-steps until the objective gains less than ``tol`` a rating.

    The objective is the summed log evidence plus the log densities of the prior and of the
    raters' own parameters. Without a hyperprior the prior stays as it is.
    """
    enough = tol * sum(len(rater.index) for rater in raters)
    best, now = None, Learned(prior, raters, model)
    with Parallel(n_jobs=n_jobs) as parallel:
        for iteration in range(max_iter + 1):
            sums, visited, own = expectation(now.prior, now.raters, now.model, limits, parallel)
            now = now.visited(sums, visited, hyperprior)
            report(iteration, now.path[-1])
            gain = now.path[-1] - best.path[-1] if best else np.inf
            if best and gain < 0.0:  # EP is not exact: a step that lowers the objective goes back
                return replace(best, converged=-gain <= enough)
            best = replace(now, converged=gain <= enough)
            if best.converged or iteration == max_iter:
                return best
            now = now.moved(sums, own, hyperprior)
    raise ValueError(f"max_iter must not be negative, but is {max_iter}")


def settle(
    prior: Prior, rater: Rater, model: RaterModel, *, tol: float, limits: Limits, max_iter: int = 50
) -> Rater:
    """One rater's sites and own parameters, with the prior and all others held.

    A step in theta is not taken where it would gain less than ``tol`` a rating: each rating, and
    each unit of ``strength``, has a curvature of about 1 in theta.
    """
    n = len(rater.index)
    for iteration in range(max_iter + 1):
        problem, found = observe(prior, rater, model, limits)
        rater = replace(rater, start=found.start)
        new = model.step(problem, found)
        shift = new.theta - rater.likelihood.theta
        if 0.5 * (model.strength + n) * (shift @ shift) <= tol * n or iteration == max_iter:
            break
        rater = replace(rater, likelihood=new)
    return rater
