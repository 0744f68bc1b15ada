"""EM for many raters with a common Gaussian prior (section 3 of [Yu06]_).

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
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import islice
from typing import Annotated, Any, Self

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy.optimize import minimize

from ordinalgp._typing import FINITE, Axes, FloatArray, IntArray
from ordinalgp.collaborative.acceleration import Point, extrapolated
from ordinalgp.collaborative.batch import (
    Batch,
    BatchResult,
    PenalisedFit,
    RowGaussian,
    RowProbit,
    bound,
    infer_batch,
    newton_step,
)
from ordinalgp.core.gaussian import Moments, Posterior, Sites
from ordinalgp.core.inference import infer
from ordinalgp.core.likelihoods import NOISE_BOUNDS, Gaussian, OrdinalProbit
from ordinalgp.core.linalg import Triangle, lower_factor, mirrored
from ordinalgp.core.objectives import ep_value
from ordinalgp.core.problem import Approximation, Problem, Start, match
from ordinalgp.core.projections import Identity, RowSelection
from ordinalgp.core.variational_bound import bound_value
from ordinalgp.persistence import saved_as
from ordinalgp.runtime.progress import Progress, Report, silent

# Largest number of tasks per iteration; the order of the sums does not depend on n_jobs.
_MAX_TASKS = 64
_RATERS_PER_TASK = 100  # at least, so that many matrices are of one size
_NEWTON_STEPS = 3  # per M-step of all raters at once
_M_STEP_ITERATIONS = 4  # of L-BFGS-B per M-step; the next E-step moves the cavities anyway
_NEWTON_STEP_LENGTHS = (1.0, 0.5, 0.25, 0.125)  # tried until the objective rises
_SITE_TOL = 1e-6  # of the inference for one rater, in posterior standard deviations
# The same during EM. EP's evidence is stationary in the sites, so that it is right to the square.
_EM_SITE_TOL = 1e-4
_SMALLEST_GAIN = 1e-10  # expected gain in log probability that rounding may hide

saved_as("likelihood.gaussian")(Gaussian)

# ------------------------------------------------------------------- parameters of raters
#
# A rater with many ratings has parameters of its own. One with few stays near the common centre,
# which is estimated from all raters. ``strength`` counts about as much as so many ratings. Both
# classes here have the same methods: updates of one rater's parameters, and of the centre.


@saved_as("raters.thresholds")
@dataclass(frozen=True, eq=False)
class SharedThresholds:
    """theta_j ~ N(theta_0, I / strength) for theta = [log noise, b_1, log gaps].

    Prior covariance, noise and thresholds share one scale. It is fixed by log noise = 0 at the
    centre: the typical rater has noise 1.
    """

    center: OrdinalProbit
    strength: Annotated[float, Axes("", 0.0, np.inf)]

    def first_sites(self, problem: Problem, last: Sites | None) -> Sites | None:
        """Sites from which inference starts: the rater's last ones."""
        return last

    def m_step(self, problem: Problem, found: Approximation) -> OrdinalProbit:
        """Maximise the summed log Z_m at fixed cavities, less the distance from the centre.

        The slope of the first step is that of EP's evidence itself. The paper's expected log
        likelihood has the same fixed points up to EP's error, and needs quadrature.
        """
        return self._climb(problem.y, found.at, problem.likelihood.theta)

    def _climb(self, y: IntArray, at: Moments, theta: FloatArray) -> OrdinalProbit:
        bounds = self.center.bounds

        def loss(theta: FloatArray) -> tuple[float, FloatArray]:
            value, slope, _ = self._evaluate(y, at, theta)
            return -value, -slope

        start = np.clip(theta, bounds[:, 0], bounds[:, 1])
        options = {"maxiter": _M_STEP_ITERATIONS}
        best = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return self.center.clone_with_theta(best.x)

    def rows(self, likelihoods: Sequence[OrdinalProbit], by: IntArray) -> RowProbit:
        """The likelihoods of rows whose raters are ``by``."""
        theta = np.array([each.theta for each in likelihoods])
        return RowProbit.of(theta, self.center.unit, by)

    def m_steps(
        self, batch: Batch, found: BatchResult, likelihoods: Sequence[OrdinalProbit]
    ) -> list[OrdinalProbit]:
        """The same as :meth:`m_step` for many raters: a few damped Newton steps of all at once."""
        low, high = self.center.bounds.T
        theta = np.clip([each.theta for each in likelihoods], low, high)
        lost = np.full(len(theta), self.strength == 0.0)
        if self.strength > 0.0:
            fit = PenalisedFit(batch, found.at, self.center.theta, self.center.unit, self.strength)
            limits = self.center.bounds, _NEWTON_STEP_LENGTHS, _SMALLEST_GAIN
            for _ in range(_NEWTON_STEPS):
                theta, lost = newton_step(fit, theta, *limits)
        new = [self.center.clone_with_theta(each) for each in theta]
        for j in np.flatnonzero(lost):
            own = slice(*batch.begins[j : j + 2])
            at = Moments(found.at.mean[own], found.at.var[own])
            new[j] = self._climb(batch.y[own], at, new[j].theta)
        return new

    def single_step(self, problem: Problem, found: Approximation) -> OrdinalProbit:
        """One damped Newton step on the objective of :meth:`m_step`: a few evaluations.

        The curvature is that of the penalty and of the ratings' own slopes. Without a penalty it
        may vanish in the direction of levels that the rater does not use. Then, and where no
        step length raises the objective, it is :meth:`m_step`.
        """
        if self.strength == 0.0:
            return self.m_step(problem, found)
        lower, upper = self.center.bounds.T
        start = np.clip(problem.likelihood.theta, lower, upper)
        value, slope, slopes = self._evaluate(problem.y, found.at, start)
        step = np.linalg.solve(slopes @ slopes.T + self.strength * np.eye(len(start)), slope)
        if step @ slope <= _SMALLEST_GAIN:
            return self.center.clone_with_theta(start)
        for length in _NEWTON_STEP_LENGTHS:
            theta = np.clip(start + length * step, lower, upper)
            if self._evaluate(problem.y, found.at, theta)[0] > value:
                return self.center.clone_with_theta(theta)
        return self.m_step(problem, found)

    def _evaluate(
        self, y: IntArray, at: Moments, theta: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        """Penalised log probability of one rater's ratings, its slope, and that of each rating."""
        likelihood, off = self.center.clone_with_theta(theta), theta - self.center.theta
        values, slopes = likelihood.value_and_slope(y, at.mean, at.var)
        value = float(values.sum() - 0.5 * self.strength * (off @ off))
        return value, slopes.sum(axis=1) - self.strength * off, slopes

    def log_density(self, likelihood: OrdinalProbit) -> float:
        """Log density of a rater's parameters, without constants: 0 at the centre."""
        off = likelihood.theta - self.center.theta
        return float(-0.5 * self.strength * (off @ off))

    def with_center_of(self, likelihoods: list[OrdinalProbit]) -> Self:
        """Centre at the mean of the raters' theta, with the noise kept at 1."""
        theta = np.mean([likelihood.theta for likelihood in likelihoods], axis=0)
        theta[0] = 0.0
        return replace(self, center=self.center.clone_with_theta(theta))


@saved_as("raters.noise")
@dataclass(frozen=True, eq=False)
class SharedNoise:
    """Noise of each rater as if it had ``strength`` more ratings of mean square center.noise^2.

    CGPR of [Yu06]_ has one noise variance for all users; here each rater has its own. All updates
    are exact, so EM never lowers the penalised log likelihood.
    """

    center: Gaussian
    strength: Annotated[float, Axes("", 0.0, np.inf)]

    def first_sites(self, problem: Problem, last: Sites | None) -> Sites:
        """The exact sites: a Gaussian likelihood is its own site."""
        at = Moments(np.zeros(len(problem.y)), np.zeros(len(problem.y)))
        return match(problem.smooth(at), at)

    def m_step(self, problem: Problem, found: Approximation) -> Gaussian:
        """Expected mean square of y - f over the rated items (section 3.1 of [Yu06]_)."""
        squares = np.sum((problem.y - found.marginal.mean) ** 2 + found.marginal.var)
        total = self.strength * self.center.noise**2 + squares
        noise = np.sqrt(total / (self.strength + len(problem.y)))
        return Gaussian(float(np.clip(noise, *NOISE_BOUNDS)))

    single_step = m_step  # it is cheap

    def rows(self, likelihoods: Sequence[Gaussian], by: IntArray) -> RowGaussian:
        """The likelihoods of rows whose raters are ``by``."""
        return RowGaussian(np.array([each.noise for each in likelihoods])[by])

    def m_steps(
        self, batch: Batch, found: BatchResult, likelihoods: Sequence[Gaussian]
    ) -> list[Gaussian]:
        """The same as :meth:`m_step` for many raters."""
        squares = batch.sums((batch.y - found.marginal.mean) ** 2 + found.marginal.var)
        total = self.strength * self.center.noise**2 + squares
        noise = np.sqrt(total / (self.strength + np.diff(batch.begins)))
        return [Gaussian(float(each)) for each in np.clip(noise, *NOISE_BOUNDS)]

    def log_density(self, likelihood: Gaussian) -> float:
        """strength / 2 (log q - q + 1) for q = center^2 / noise^2."""
        ratio = (self.center.noise / likelihood.noise) ** 2
        return float(0.5 * self.strength * (np.log(ratio) - ratio + 1.0))

    def with_center_of(self, likelihoods: list[Gaussian]) -> Self:
        """Centre at the harmonic mean of the raters' noise variances."""
        precision = np.mean([likelihood.noise**-2.0 for likelihood in likelihoods])
        return replace(self, center=Gaussian(float(precision**-0.5)))


RaterDistribution = SharedThresholds | SharedNoise
"""common distribution of the raters' parameters"""

# ------------------------------------------------------------------- prior and raters


@saved_as("prior.items")
@dataclass(frozen=True, eq=False)
class Prior:
    """N(mean, covariance) over the m items."""

    mean: Annotated[FloatArray, Axes("m", *FINITE)]
    covariance: Annotated[FloatArray, Axes("m m", *FINITE)]

    def check(self) -> None:
        """Raise ValueError unless the covariance is symmetric and, but for rounding, definite."""
        K, nugget = self.covariance, 1e-8 * float(np.max(np.diagonal(self.covariance)))
        if not np.max(np.abs(K - K.T)) <= abs(nugget):
            raise ValueError("the covariance of the items is not symmetric")
        lower_factor(lambda: K + nugget * np.eye(len(K)))


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
    """item of each rating, (n,); an item that was rated twice is there twice"""
    y: Any
    likelihood: Any
    sites: Sites | None = None

    @cached_property
    def items(self) -> IntArray:
        """Items that were rated, each once, in order."""
        return np.unique(self.index)

    def problem(self, prior: Prior) -> Problem:
        """The rater's inference problem: latent values of its items, seen by its ratings."""
        own, n = self.items, len(self.index)
        K, mean = prior.covariance[np.ix_(own, own)], prior.mean[own]
        seen = RowSelection(np.searchsorted(own, self.index), len(own))
        same = np.array_equal(own, self.index)
        projection = Identity(n) if same else seen
        return Problem(K, projection, self.y, self.likelihood, np.ones(n), mean)

    def posterior(self, prior: Prior) -> Posterior:
        """Posterior of the rated items under the sites found before."""
        sites = Sites.flat(len(self.index)) if self.sites is None else self.sites
        return self.problem(prior).condition(sites)


@dataclass(eq=False)
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

    def add(self, other: "ExpectationSums") -> None:
        """Add the sums over other raters."""
        for part in fields(self):
            setattr(self, part.name, getattr(self, part.name) + getattr(other, part.name))


def infer_rater(
    prior: Prior, rater: Rater, shared: RaterDistribution, site_tol: float
) -> tuple[Problem, Approximation]:
    """E-step of one rater; inference stops when no site moves further than ``site_tol``."""
    problem = rater.problem(prior)
    sites = shared.first_sites(problem, rater.sites)
    start = None if sites is None else Start(sites, np.zeros(len(problem.K)))
    return problem, infer(problem, smoothing="cavity", start=start, tol=site_tol)


def _group_expectation(
    prior: Prior, raters: Sequence[Rater], shared: RaterDistribution, site_tol: float
) -> tuple[ExpectationSums, list[tuple[Sites, Any]]]:
    """Sums over some raters; their sites and next likelihoods."""
    batch = Batch.of([rater.index for rater in raters], [rater.y for rater in raters])
    own: list[Any] = [rater.likelihood for rater in raters]
    rows, begins = shared.rows(own, batch.by), batch.begins
    start = None
    if raters[0].sites is not None:
        sites = [rater.sites or Sites.flat(len(rater.index)) for rater in raters]
        tau, nu = (np.concatenate([getattr(each, k) for each in sites]) for k in ("tau", "nu"))
        start = Sites(tau, nu)
    found = infer_batch(prior.mean, prior.covariance, batch, rows, start, site_tol)
    sums = ExpectationSums.zeros(len(prior.mean))
    values, bounds = found.value, bound(batch, rows, found, prior.mean)
    parts = [slice(*begins[j : j + 2]) for j in range(len(raters))]
    result = [Sites(found.sites.tau[part], found.sites.nu[part]) for part in parts]
    own = [*shared.m_steps(batch, found, own)]
    sums.weights += np.bincount(batch.index, found.weights, len(prior.mean))
    sums.slope += found.slope
    for j in np.flatnonzero(~found.converged).tolist():  # by sweeps that take more care
        part, rater = parts[j], replace(raters[j], sites=result[j])
        _replace(sums, (batch.index[part], found.weights[part], found.inverses[j]), -1.0)
        problem, again = infer_rater(prior, rater, shared, site_tol)
        weights, R = again.posterior.weights, again.posterior.upper_inverse()
        _replace(sums, (rater.items, weights, mirrored(R)), 1.0)
        values[j], bounds[j] = ep_value(problem, again), bound_value(problem, again)
        sums.n_failed += not again.converged
        result[j], own[j] = again.sites, shared.m_step(problem, again)
    sums.value, sums.bound = float(values.sum()), float(bounds.sum())
    return sums, list(zip(result, own, strict=True))


def _replace(
    sums: ExpectationSums, part: tuple[IntArray, FloatArray, FloatArray], sign: float
) -> None:
    """Add or take off one rater's part: its items, weights, and R."""
    items, weights, R = part
    np.add.at(sums.weights, items, sign * weights)
    np.add.at(sums.slope, np.ix_(items, items), 0.5 * sign * (np.outer(weights, weights) - R))


@dataclass(frozen=True, eq=False)
class EMState:
    """State of EM: prior, raters, the distribution of their parameters, and the objectives."""

    prior: Prior
    raters: Sequence[Rater]
    shared: RaterDistribution
    hyperprior: Hyperprior | None = None
    """of the prior; None: the prior stays as it is"""
    objectives: tuple[tuple[float, float, float], ...] = ()
    """penalised log evidence, log evidence and its lower bound at every iteration"""
    n_failed: int = 0
    """raters whose inference did not converge"""
    converged: bool = False

    def after_e_step(self, sums: ExpectationSums, raters: Sequence[Rater]) -> Self:
        """The state with the raters' new sites, and the objectives there."""
        penalty = sum(self.shared.log_density(rater.likelihood) for rater in raters)
        penalty += self.hyperprior.log_density(self.prior) if self.hyperprior else 0.0
        objectives = (*self.objectives, (sums.value + penalty, sums.value, sums.bound))
        return replace(self, raters=raters, objectives=objectives, n_failed=sums.n_failed)

    def after_m_step(self, sums: ExpectationSums, likelihoods: list[Any]) -> Self:
        """The state with new likelihoods, their new centre, and a new prior."""
        pairs = zip(self.raters, likelihoods, strict=True)
        raters = [replace(rater, likelihood=likelihood) for rater, likelihood in pairs]
        hyper, prior = self.hyperprior, self.prior
        prior = hyper.mode(prior, sums, len(raters)) if hyper else prior
        shared = self.shared  # without strength its centre stays
        shared = shared.with_center_of(likelihoods) if shared.strength > 0.0 else shared
        return replace(self, prior=prior, raters=raters, shared=shared)


def _groups(sizes: IntArray) -> list[IntArray]:
    """Raters by size in groups of about equal cost, the largest first; none for no raters."""
    order = np.argsort(-sizes, kind="stable")
    cost = np.cumsum((sizes**2.0 * (sizes + 50.0) + 5e3)[order])
    n = int(np.clip(len(sizes) // _RATERS_PER_TASK, 1, _MAX_TASKS))
    cuts = np.searchsorted(cost, cost[-1] * np.arange(1, n) / n)
    return [group for group in np.split(order, cuts) if len(group)]


def expectation(
    now: EMState, site_tol: float, parallel: Parallel
) -> tuple[ExpectationSums, list[Rater], list[Any]]:
    """E-step of all raters: sums, raters with their sites, and everyone's next likelihood.

    Only as many groups as there are workers run at a time, so that few (m, m) sums are in memory.
    """
    prior, raters, shared = now.prior, now.raters, now.shared
    groups = _groups(np.array([len(rater.index) for rater in raters]))
    sums, found = ExpectationSums.zeros(len(prior.mean)), dict[int, tuple[Sites, Any]]()
    todo, width = iter(groups), effective_n_jobs(parallel.n_jobs)
    while wave := list(islice(todo, width)):
        jobs = (
            delayed(_group_expectation)(prior, [raters[j] for j in group], shared, site_tol)
            for group in wave
        )
        for group, (some, own) in zip(wave, parallel(jobs), strict=True):
            sums.add(some)
            found.update(zip(group.tolist(), own, strict=True))
    updated = [replace(rater, sites=found[j][0]) for j, rater in enumerate(raters)]
    return sums, updated, [found[j][1] for j in range(len(raters))]


@dataclass(eq=False)
class _Climb:
    """A run of EM: E-steps, and the states that they accept."""

    site_tol: float
    parallel: Parallel
    best: EMState | None = None
    sums: ExpectationSums | None = None
    own: list[Any] = field(default_factory=list)

    def visit(self, now: EMState) -> float:
        """E-step; the gain over the best state, which this one becomes unless it is negative."""
        sums, updated, own = expectation(now, self.site_tol, self.parallel)
        now = now.after_e_step(sums, updated)
        gain = np.inf
        if self.best is not None:
            gain = now.objectives[-1][0] - self.best.objectives[-1][0]
        if not gain < 0.0:
            self.best, self.sums, self.own = now, sums, own
        return float(gain)

    def after(self) -> EMState:
        """The state after an M-step at the best one."""
        assert self.best is not None
        assert self.sums is not None
        return self.best.after_m_step(self.sums, self.own)


def learn(
    start: EMState,
    max_iter: int,
    tol: float,
    *,
    site_tol: float = _EM_SITE_TOL,
    n_jobs: int | None = None,
    report: Report = silent,
    extrapolate: bool = True,
) -> EMState:
    """Alternate E- and M-steps until the objective gains less than ``tol`` per rating.

    The objective is the summed log evidence plus the log densities of the prior and of the
    raters' own parameters. Iteration 0 is the start. After every two iterations the third E-step
    is made further ahead, and again where EM itself leads if that lowers the objective.
    """
    enough = tol * sum(len(rater.index) for rater in start.raters)
    begin = time.perf_counter()
    with Parallel(n_jobs=n_jobs) as parallel:
        climb = _Climb(site_tol, parallel)
        gain, iteration, trail, now = climb.visit(start), 0, list[EMState](), start
        waiting = pause = 0
        while True:
            best = climb.best
            assert best is not None
            done = bool(gain < 0.0 or gain <= enough or iteration >= max_iter)
            seconds = time.perf_counter() - begin
            value = float(best.objectives[-1][0])
            report(Progress("em", iteration, max_iter, value, seconds, done=done))
            if done:  # EP is not exact: a step that lowers the objective is undone
                return replace(best, converged=bool(abs(gain) <= enough))
            trail = [*trail[-1:], best]
            now = climb.after()
            ready = extrapolate and len(trail) == 2 and waiting == 0
            ahead = _ahead(trail[0], best, now) if ready else None
            iteration, waiting = iteration + 1, max(0, waiting - 1)
            if ahead is not None:
                trail = []
                gain = climb.visit(ahead)
                if gain > enough:
                    continue
                # Ahead it is lower: go where EM leads, and try again later each time.
                waiting = pause = 2 * pause + 2
            gain = climb.visit(now)


def _ahead(x0: EMState, x1: EMState, x2: EMState) -> EMState | None:
    """A state further ahead than three successive ones; None if there is none."""
    hyper = x2.hyperprior
    if hyper is None:
        return None
    rated = np.unique(np.concatenate([rater.index for rater in x2.raters]))
    share = hyper.for_covariance / (hyper.for_covariance + len(x2.raters))
    floor = share * hyper.base.covariance if share > 0 else None
    found = extrapolated(_point(x0), _point(x1), _point(x2), rated, floor)
    if found is None:
        return None
    own = zip(x2.raters, found.raters, strict=True)
    lower, upper = x2.shared.center.bounds.T
    raters = [
        replace(rater, likelihood=rater.likelihood.clone_with_theta(np.clip(theta, lower, upper)))
        for rater, theta in own
    ]
    covariance = 0.5 * (found.covariance + found.covariance.T)
    center: Any = x2.shared.center
    shared = replace(x2.shared, center=center.clone_with_theta(np.clip(found.center, lower, upper)))
    return replace(x2, prior=Prior(found.mean, covariance), raters=raters, shared=shared)


def _point(state: EMState) -> Point:
    """The parameters of a state."""
    raters = np.array([rater.likelihood.theta for rater in state.raters])
    return Point(state.prior.mean, state.prior.covariance, raters, state.shared.center.theta)


def settled(now: EMState, n_jobs: int | None = None) -> EMState:
    """The state with sites as precise as those of a single rater."""
    with Parallel(n_jobs=n_jobs) as parallel:
        sums, raters, _ = expectation(now, _SITE_TOL, parallel)
    return replace(now, raters=raters, n_failed=sums.n_failed)


def fit_rater(
    prior: Prior,
    rater: Rater,
    shared: RaterDistribution,
    tol: float,
    site_tol: float = _SITE_TOL,
    max_iter: int = 50,
) -> Rater:
    """Fit one rater's sites and parameters, with the prior and all other raters fixed.

    A step in theta is not taken where it would gain less than ``tol`` per rating: each rating, and
    each unit of ``strength``, has a curvature of about 1 in theta.
    """
    n = len(rater.index)
    for iteration in range(max_iter + 1):
        problem, found = infer_rater(prior, rater, shared, site_tol)
        rater = replace(rater, sites=found.sites)
        new = shared.single_step(problem, found)
        shift = new.theta - rater.likelihood.theta
        if 0.5 * (shared.strength + n) * (shift @ shift) <= tol * n or iteration == max_iter:
            break
        rater = replace(rater, likelihood=new)
    return rater
