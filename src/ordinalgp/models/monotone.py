"""Gaussian processes with monotone columns: the prior is conditioned on steps that never fall."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ordinalgp._typing import FINITE, Axes, FloatArray, IntArray
from ordinalgp.core.ep import cavities
from ordinalgp.core.gaussian import Moments, Sites
from ordinalgp.core.inference import infer
from ordinalgp.core.kernel_gradient import kernel_slope
from ordinalgp.core.kernel_matrix import kernel_matrix
from ordinalgp.core.linalg import Workspace
from ordinalgp.core.objectives import Evaluation, ep_evidence
from ordinalgp.core.problem import Approximation, Problem, Start
from ordinalgp.core.search import Limits, SearchResult, Step, Task
from ordinalgp.models.effects import Effects
from ordinalgp.models.exact import ExactGP, SearchOptions, SearchSummary, warn_unfinished
from ordinalgp.models.monotone_steps import (
    StepLikelihood,
    StepProjection,
    Steps,
    check_additive,
    first_steps,
    only_steps,
    with_knots,
)
from ordinalgp.models.training_rows import RowIndex
from ordinalgp.persistence import saved_as
from ordinalgp.runtime.threads import one_thread
from ordinalgp.runtime.warning import warn_user
from ordinalgp.validation.memory import check_memory

_SEARCH_STEPS = 200  # the search begins at the best noise and thresholds without steps
_ROUNDS = 8  # of further knots, where the mean falls between two
_FINE = 257  # points along a column at which the mean is looked at
_CLOSEST = 0.01  # distance of knots in the range of a column: closer ones differ by rounding alone
# Falls that ask for knots, and falls that are worth a warning, in the range of the mean along a
# column; and those that are rounding, in prior standard deviations.
_FALL, _WARNED_FALL, _ROUNDING = 1e-7, 1e-4, 1e-9


@dataclass(frozen=True, eq=False)
class MonotoneStart:
    """Warm starts of the two inferences of an evaluation."""

    levels: Start | None = None
    steps: Start | None = None


@saved_as("task.monotone")
@dataclass(frozen=True, eq=False)
class MonotoneTask(Task):
    """Evidence of the levels under the prior of functions that never fall over the steps.

    P(y | steps) = P(y, steps) / P(steps): two runs of EP, the second on virtual rows alone.
    """

    steps: Steps = field(kw_only=True)

    @cached_property
    def support(self) -> FloatArray:
        """Training inputs, then virtual rows."""
        return np.vstack([self.X, self.steps.rows])

    def problem(self, workspace: Workspace | None = None) -> Problem:
        """Levels and steps together."""
        n_steps = len(self.steps.lower)
        A = StepProjection(self.projection, self.steps.differences)
        y = np.concatenate([self.y, np.ones(n_steps, dtype=np.intp)])
        counts = np.concatenate([self.counts, np.ones(n_steps)])
        likelihood = StepLikelihood(self.likelihood, np.arange(len(y)) >= len(self.y))
        return Problem(kernel_matrix(self.kernel, self.support), A, y, likelihood, counts)

    def step_evaluation(self, start: MonotoneStart) -> tuple[Problem, Evaluation]:
        """Log prior probability of all steps."""
        problem = steps_alone(self.steps, kernel_matrix(self.kernel, self.steps.rows))
        return problem, ep_evidence(problem, self.infer(problem, start.steps))

    @one_thread()
    def value_and_posterior(self, start: Any = None) -> tuple[float, Approximation]:
        """The objective at the task's own hyperparameters, without its gradient."""
        start = start or MonotoneStart()
        value, found = super().value_and_posterior(start.levels)
        return value - self.step_evaluation(start)[1].usable_value, found

    def step(self, start: Any = None, workspace: Workspace | None = None) -> Step:
        """Log evidence given the steps, and its gradient in theta."""
        start = start or MonotoneStart()
        problem = self.problem()
        found = ep_evidence(problem, self.infer(problem, start.levels))
        alone, prior = self.step_evaluation(start)
        slope = kernel_slope(self.kernel, self.support, found.upstream, problem.K)
        slope = slope - kernel_slope(self.kernel, self.steps.rows, prior.upstream, alone.K)
        gradient = np.concatenate([slope, found.d_likelihood])
        ends = found.approximation, prior.approximation
        both = MonotoneStart(*(end.start for end in ends))
        converged = all(end.converged for end in ends)
        return Step(found.usable_value - prior.usable_value, gradient, both, converged)


@dataclass(frozen=True, eq=False)
class LevelsTask(MonotoneTask):
    """The same as a function of noise and thresholds alone, the kernel held.

    A search of all hyperparameters was better on one of five data sets of 40 to 150 rows (by 0.1 in
    log score, most of it from two splits), equal on three, and astray on a split of the fifth. It
    costs half as much again, and likes length scales so short that functions fall between knots.
    """

    log_steps: float = field(kw_only=True)
    """log prior probability of the steps, which the kernel decides"""

    @property
    def bounds(self) -> FloatArray:
        """Search bounds, shape (p, 2)."""
        bounds, held = super().bounds, np.asarray(self.kernel.theta)
        bounds[: len(held)] = held[:, None]
        return bounds

    def step(self, start: Any = None, workspace: Workspace | None = None) -> Step:
        """Log evidence given the steps, and its gradient in the likelihood's parameters."""
        problem = self.problem()
        found = ep_evidence(problem, self.infer(problem, start))
        gradient = np.concatenate([np.zeros(self.kernel.n_dims), found.d_likelihood])
        end = found.approximation
        return Step(found.usable_value - self.log_steps, gradient, end.start, end.converged)


def steps_alone(steps: Steps, K: FloatArray, mean: FloatArray | None = None) -> Problem:
    """Steps of latent values N(mean, K) at the virtual rows."""
    n = len(steps.lower)
    parts = steps.differences, np.ones(n, dtype=np.intp), only_steps(n), np.ones(n)
    return Problem(K, *parts, prior_mean=mean)


@saved_as("monotone.sites")
@dataclass(frozen=True, eq=False)
class StepSites:
    """Gaussian sites of the steps."""

    tau: Annotated[FloatArray, Axes("S", 0.0, np.inf)]
    nu: Annotated[FloatArray, Axes("S", *FINITE)]


@saved_as("model.monotone")
@dataclass(frozen=True, eq=False)
class MonotoneGP(ExactGP):
    """An exact model whose latent mean never falls, or rises, along some columns.

    Beyond the knots of a column its mean stays as it is at the last one.
    """

    step_sites: StepSites
    agreement: Annotated[FloatArray, Axes("d", *FINITE)]
    """log of how much more probable the levels made each column's steps; 0 for other columns"""
    free_value: float
    """log evidence without steps, at the best hyperparameters without them"""

    @classmethod
    def restored(  # type: ignore[override]
        cls,
        task: Any,
        sites: Sites,
        rows: RowIndex,
        summary: SearchSummary,
        step_sites: StepSites,
        agreement: FloatArray,
        free_value: float,
        *,
        derive: bool,
    ) -> Self:
        """The model, if asked for with its posterior derived; one factorisation."""
        check_memory(len(task.X), n_matrices=4)
        if not isinstance(task, MonotoneTask) or task.projection.shape != (
            len(task.y),
            len(task.X),
        ):
            raise ValueError("the projection and the rows disagree")
        posterior: Any = task.posterior(_joined(sites, step_sites)) if derive else None
        return cls(task, sites, rows, summary, posterior, step_sites, agreement, free_value)

    @classmethod
    def constrained(cls, free: ExactGP, directions: IntArray, search: SearchOptions) -> ExactGP:
        """The model with monotone columns, from the one without; itself if no column varies."""
        X = free.task.X
        for at in np.flatnonzero(directions):
            if np.ptp(X[:, at]) > 0:
                check_additive(free.kernel, X, int(at))
        kernel, steps = first_steps(free.kernel, X, directions)
        if steps is None:
            return free
        task, found = _search_levels(replace(free.task, kernel=kernel), steps, search)
        task, value, final = _with_enough_knots(task, MonotoneStart(found.start))
        warn_unfinished(task, final)
        path = np.concatenate([free.summary.path, found.path])
        converged = bool(final.converged and found.converged and free.summary.converged)
        summary = SearchSummary(value, path, converged, final.n_sweeps)
        m, sites = len(task.y), final.sites
        parts = Sites(sites.tau[:m], sites.nu[:m]), free.rows, summary, final.posterior
        step_sites = StepSites(sites.tau[m:], sites.nu[m:])
        return cls(task, *parts, step_sites, _agreement(free, steps), free.summary.value)

    def latent(self, X: FloatArray) -> Moments:
        """Posterior moments; beyond the knots the mean stays, and the variance may grow."""
        inside = self.task.steps.clipped(X)
        found = super().latent(inside)
        beyond = np.flatnonzero(np.any(inside != X, axis=1))
        if len(beyond) == 0:
            return found
        var = found.var.copy()
        var[beyond] = np.maximum(var[beyond], super().latent(X[beyond]).var)
        return Moments(found.mean, var)

    def effects(self, X: FloatArray, groups: Any) -> Effects:
        """Posterior of the own functions of groups of features, constant beyond the knots."""
        return super().effects(self.task.steps.clipped(X), groups)

    def left_out(self) -> Moments:
        """Latent moments of every observation without one copy of itself; steps stay."""
        seen, m = self.posterior.observed(), len(self.task.y)
        marginal = Moments(seen.mean[:m], seen.var[:m])
        return cavities(marginal, self.sites, np.minimum(self.task.counts, 1.0))


def _search_levels(
    task: Task, steps: Steps, search: SearchOptions
) -> tuple[MonotoneTask, SearchResult]:
    """Noise and thresholds under the steps, the kernel held."""
    data = task.X, task.kernel, task.likelihood, task.projection, task.y, task.counts
    limits = task.objective, task.max_sweeps, task.tol
    parts: Any = {"hyperprior": task.hyperprior, "steps": steps}
    bound = MonotoneTask(*data, *limits, **parts)
    log_steps = bound.step_evaluation(MonotoneStart())[1].usable_value
    held = LevelsTask(*data, *limits, **parts, log_steps=log_steps)
    found = search.search(held, [held.theta], Limits(_SEARCH_STEPS))
    return bound.at(found.theta), found


def _joined(sites: Sites, steps: StepSites) -> Sites:
    return Sites(np.concatenate([sites.tau, steps.tau]), np.concatenate([sites.nu, steps.nu]))


def _with_enough_knots(
    task: MonotoneTask, start: MonotoneStart | None
) -> tuple[MonotoneTask, float, Approximation]:
    """Add knots where the mean falls between them, until it does nowhere."""
    value, final = task.value_and_posterior(start)
    for _ in range(_ROUNDS):
        added = {at: _new_knots(task.steps.knots(at), fall) for at, fall in _falls(task, final)}
        if not any(added.values()):
            return task, value, final
        task = replace(task, steps=with_knots(task.steps, added))
        value, final = task.value_and_posterior()
    falling = [str(at) for at, _ in _falls(task, final, _WARNED_FALL)]
    if falling:
        warn_user(
            f"monotone: the mean still falls between knots of the features {', '.join(falling)}, "
            "because functions of this kernel are rough. Use a smoother one, such as Additive().",
            ConvergenceWarning,
        )
    return task, value, final


def _falls(
    task: MonotoneTask, found: Approximation, largest: float = _FALL
) -> list[tuple[int, FloatArray]]:
    """Columns along which the mean falls, each with the ends of the stretches, (k, 2)."""
    falling, steps = [], task.steps
    for at in np.unique(steps.column):
        first = np.flatnonzero(steps.column == at)[0]
        low, high = (steps.rows[end[first]] for end in (steps.lower, steps.upper))
        grid = _fine_grid(steps.knots(at))
        rows = np.tile(low, (len(grid), 1))
        rows[:, at] = grid
        mean = task.kernel(rows, task.support) @ found.posterior.weights
        mean *= np.sign(high[at] - low[at])
        least = _ROUNDING * np.sqrt(np.max(task.kernel.diag(rows)))
        falls = np.diff(mean) < -max(largest * np.ptp(mean), least)
        if falls.any():
            ends = np.flatnonzero(np.diff(np.concatenate([[0], falls, [0]])))
            falling.append((int(at), grid[ends].reshape(-1, 2)))
    return falling


def _fine_grid(knots: FloatArray) -> FloatArray:
    """Many points along a column, some close to each knot: falls often begin there."""
    even, gaps = np.linspace(knots[0], knots[-1], _FINE), np.diff(knots)
    near = np.concatenate([knots[:-1] + 0.01 * gaps, knots[1:] - 0.01 * gaps])
    return np.unique(np.concatenate([even, knots, near]))


def _new_knots(knots: FloatArray, falls: FloatArray) -> list[float]:
    """Ends of falls, their middles and those of their gaps, not too close to other knots."""
    gap = np.clip(np.searchsorted(knots, falls.mean(axis=1)), 1, len(knots) - 1)
    middles = np.concatenate([falls.mean(axis=1), (knots[gap - 1] + knots[gap]) / 2])
    kept, least = list(knots), _CLOSEST * np.ptp(knots)
    for value in np.concatenate([falls.ravel(), middles]):
        if np.min(np.abs(np.array(kept) - value)) >= least:
            kept.append(float(value))
    return kept[len(knots) :]


def _agreement(free: ExactGP, steps: Steps) -> FloatArray:
    """Log P(steps | levels) / P(steps) of each column, at hyperparameters without steps."""
    found = np.zeros(free.task.X.shape[1])
    for at in np.unique(steps.column):
        own = steps.of_column(at)
        mean, covariance = free.joint(own.rows)
        prior = steps_alone(own, free.kernel(own.rows))
        posterior = steps_alone(own, covariance, mean)
        after, before = (
            ep_evidence(problem, infer(problem, smoothing="cavity")).value
            for problem in (posterior, prior)
        )
        found[at] = after - before
    return found
