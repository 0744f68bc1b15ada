"""Search for the hyperparameters of many comparisons per item, without features.

Laplace's evidence comes first: counts of the levels of each pair enter it as one factor
(`CountedLevels`). EP's sites hardly couple where items have many comparisons, so that EP's maximum
is near. The curvature of either is known beforehand: Fisher's information of the comparisons on
the hyperparameters, less what the utilities take up of it. A search then needs few evaluations.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np

from ordinalgp._typing import FloatArray
from ordinalgp.core.counted_levels import CountedLevels
from ordinalgp.core.likelihoods import Likelihood, OrdinalProbit, Smoothed, ThetaDerivatives
from ordinalgp.core.posterior import Moments
from ordinalgp.core.problem import Approximation, Start, match
from ordinalgp.core.search import SearchResult, Task, climb_by_metric
from ordinalgp.preference.symmetric_thresholds import LEAST_CURVATURE, SymmetricProbit
from ordinalgp.runtime.progress import Report

_FEWEST_PER_ITEM = 20  # comparisons, on average, from which on Laplace's maximum is a good start


def has_many_votes(task: Task) -> bool:
    """Whether a task has no features and many comparisons per item."""
    plain = task.kernel.n_dims == 0 and task.hyperprior is None and len(task.theta) > 0
    many = float(np.sum(task.counts)) >= _FEWEST_PER_ITEM * len(task.X)
    return plain and many and type(task.likelihood) is SymmetricProbit


@dataclass(frozen=True, eq=False)
class CountedComparisons(Likelihood):
    """Likelihood of the outcomes of each pair, counted; for inference at the mode."""

    each: SymmetricProbit
    outcomes: FloatArray
    """(r, pairs)"""

    of_points_only: ClassVar[bool] = True
    """whether there is no expectation for u ~ N(mean, var) with var > 0"""

    @property
    def theta(self) -> FloatArray:
        """Parameters of a single comparison."""
        return self.each.theta

    @property
    def bounds(self) -> FloatArray:
        """Their bounds."""
        return self.each.bounds

    def clone_with_theta(self, theta: FloatArray) -> Self:
        """Return the same counts under other parameters."""
        return replace(self, each=self.each.clone_with_theta(theta))

    @property
    def counted(self) -> CountedLevels:
        """The same in the parameters of a threshold model."""
        return CountedLevels(cast(OrdinalProbit, self.each.spelled_out), self.outcomes)

    def log_expectation(self, y: Any, mean: FloatArray, var: FloatArray) -> Smoothed:
        """Summed log probability at u = mean, and its derivatives; ``var`` must be zero."""
        return self.counted.log_expectation(y, mean, var)

    def theta_derivatives(
        self, y: Any, mean: FloatArray, var: FloatArray, known: Smoothed | None = None
    ) -> ThetaDerivatives:
        """Derivatives in theta, by the chain rule from those of the threshold model."""
        return self.each.chained(self.counted.theta_derivatives(y, mean, var))


def counted(task: Task) -> Task:
    """Laplace's evidence of the same comparisons, with one factor per pair."""
    pairs, where = task.projection.distinct
    which = np.arange(len(task.y)) if where is None else where
    m, r = pairs.shape[0], task.likelihood.n_levels
    outcomes = np.bincount(task.y * m + which, task.counts, r * m).astype(float, copy=False)
    likelihood = CountedComparisons(task.likelihood, outcomes.reshape(r, m))
    changed: dict[str, Any] = {"projection": pairs, "y": np.arange(m), "counts": np.ones(m)}
    return replace(task, likelihood=likelihood, objective="laplace evidence", **changed)


@dataclass(frozen=True, eq=False)
class Mode:
    """Laplace's answer at some hyperparameters."""

    task: Task
    """of single comparisons"""
    counts: Task
    """of counted ones"""
    found: Approximation

    @classmethod
    def of(cls, task: Task, counts: Task, start: Start | None = None) -> Self:
        """The answer at the task's own hyperparameters."""
        counts = counts.at(task.theta)
        return cls(task, counts, counts.infer(counts.problem(), start))

    def single_sites(self) -> Start:
        """Sites of the single comparisons."""
        task, posterior = self.task, self.found.posterior
        u = task.projection.apply(posterior.mean)
        at = Moments(u, np.zeros_like(u))
        smoothed = task.likelihood.log_expectation(task.y, at.mean, at.var)
        return Start(match(smoothed, at), posterior.weights)

    def metric(self) -> FloatArray:
        """Information of the comparisons on the hyperparameters, (p, p).

        The utilities follow the hyperparameters, which takes up most of it. Nothing but the prior
        says on which scale all of them are: by half its distance from utilities of zero, as the
        evidence is their density, and by as much again, as it is the volume of their posterior.
        """
        likelihood, posterior = self.counts.likelihood, self.found.posterior
        J = likelihood.each.jacobian()
        own, mixed = likelihood.counted.information(self.found.at.mean)
        shared = self.counts.projection.matrix.T @ (J.T @ mixed).T  # type: ignore[attr-defined]
        left = J.T @ own @ J - shared.T @ posterior.covary(shared)
        left.flat[:: len(left) + 1] += LEAST_CURVATURE
        if not likelihood.each.free_noise:
            return left
        scale = likelihood.each.scale_direction
        dual = scale / (scale @ scale)
        return left + (posterior.weights @ posterior.mean) * np.outer(dual, dual)


def search_votes(task: Task, report: Report, start: Start | None = None) -> SearchResult:
    """Maximise the evidence of many comparisons from the task's own hyperparameters."""
    counts = counted(task)
    first = Mode.of(task, counts, start)
    found = climb_by_metric(first.counts, first.metric(), first.found.start, report)
    if not np.isfinite(found.value):
        return found
    best = Mode.of(task.at(found.theta), counts, found.start)
    sites = best.single_sites()
    if task.objective == "laplace evidence":
        return replace(found, start=sites)
    return climb_by_metric(best.task, best.metric(), sites, report)
