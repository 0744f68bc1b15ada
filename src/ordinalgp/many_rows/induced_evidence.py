"""The evidence of a model with inducing points, and its gradient in O(n m^2)."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.inference import infer
from ordinalgp.core.likelihoods import Smoothed, ThetaDerivatives, Thresholds
from ordinalgp.core.linalg import Workspace
from ordinalgp.core.objectives import (
    Evaluation,
    ep_evidence,
    laplace_evidence,
    with_determinant,
)
from ordinalgp.core.problem import Approximation, Problem, Smoothing, Start
from ordinalgp.core.projections import Basis
from ordinalgp.core.search import FINEST, Step, Trainable, objective_named, search_tolerance
from ordinalgp.many_rows.chunks import Chunk
from ordinalgp.many_rows.inducing import Inducing, WhitenedRows


@dataclass(frozen=True, eq=False)
class ResidualLikelihood:
    """A likelihood whose observations carry further Gaussian noise, each its own variance."""

    inner: Thresholds
    extra: FloatArray

    @property
    def theta(self) -> FloatArray:
        """The inner likelihood's parameters."""
        return np.asarray(self.inner.theta)

    @property
    def bounds(self) -> FloatArray:
        """The inner likelihood's bounds."""
        return np.asarray(self.inner.bounds)

    def of_rows(self, rows: Any) -> Self:
        """The likelihood of some observations."""
        return replace(self, extra=self.extra[rows])

    def clone_with_theta(self, theta: FloatArray) -> Self:
        """Return the same with other parameters."""
        return replace(self, inner=self.inner.clone_with_theta(theta))

    def log_expectation(self, y: Any, mean: FloatArray, var: FloatArray) -> Smoothed:
        """Noise that is Gaussian widens the smoothing Gaussian."""
        return self.inner.log_expectation(y, mean, var + self.extra)

    def theta_derivatives(
        self, y: Any, mean: FloatArray, var: FloatArray, known: Smoothed | None = None
    ) -> ThetaDerivatives:
        """Likewise."""
        return self.inner.theta_derivatives(y, mean, var + self.extra, known)

    def variance_derivatives(
        self, y: Any, mean: FloatArray, var: FloatArray, known: Smoothed | None = None
    ) -> ThetaDerivatives:
        """Likewise."""
        return self.inner.variance_derivatives(y, mean, var + self.extra, known)


@dataclass(frozen=True, eq=False)
class InducedTask(Trainable):
    """The evidence of rows under inducing points, which stay the same while it is searched."""

    Z: FloatArray
    y: IntArray
    counts: FloatArray
    smoothing: Smoothing = "cavity"
    max_sweeps: int = 100
    tol: float = 1e-6

    @classmethod
    def like(cls, model: Any, Z: FloatArray) -> Self:
        """The model of an exact task, or of a file, with inducing points and without rows."""
        same = {
            name: getattr(model, name) for name in ("smoothing", "max_sweeps", "tol", "hyperprior")
        }
        codes = np.empty(0, dtype=np.intp)
        return cls(Z[:0], model.kernel, model.likelihood, Z, codes, np.empty(0), **same)

    def on(self, rows: Chunk) -> Self:
        """The same model with these rows."""
        return replace(self, X=rows.X, y=rows.codes, counts=rows.counts)

    @property
    def support(self) -> FloatArray:
        """Inputs whose covariance with new rows gives predictions: the inducing points."""
        return self.Z

    @property
    def inducing(self) -> Inducing:
        """Kernel and inducing points."""
        return Inducing(self.kernel, self.Z)

    def relaxed(self, precision: float = FINEST) -> Self:
        """Return the task with slopes that are right to a precision."""
        inference = "ep" if self.smoothing == "cavity" else "laplace"
        least = search_tolerance(objective_named(inference), precision)
        return replace(self, tol=max(self.tol, least))

    def step(self, start: Start | None = None, workspace: Workspace | None = None) -> Step:
        """Log evidence and its gradient."""
        return self.inferred(start).step()

    def inferred(self, start: Start | None = None) -> "InducedEvidence":
        """Log evidence, and the approximation of the whitened values behind it."""
        rows = self.inducing.rows(self.X)
        likelihood = ResidualLikelihood(self.likelihood, rows.residual)
        K, A = np.eye(len(self.Z)), Basis(rows.A.T)
        problem = Problem(K, A, self.y, likelihood, self.counts)
        found = infer(
            problem, smoothing=self.smoothing, start=start, max_sweeps=self.max_sweeps, tol=self.tol
        )
        return InducedEvidence(self, rows, problem, found)


@dataclass(frozen=True, eq=False)
class InducedEvidence:
    """The evidence of a task at its own hyperparameters, and what it came from."""

    task: InducedTask
    rows: WhitenedRows
    problem: Problem
    found: Approximation

    @cached_property
    def objective(self) -> Evaluation:
        """The evidence, as an objective of the whitened values."""
        objective = ep_evidence if self.task.smoothing == "cavity" else laplace_evidence
        return objective(self.problem, self.found)

    @property
    def value(self) -> float:
        """Log evidence and log prior density of the hyperparameters."""
        return self.objective.value + self.task.log_prior

    def step(self) -> Step:
        """Log evidence of the rows, and its gradient."""
        task, found, inducing = self.task, self.found, self.task.inducing
        d_basis, d_residual = self._row_gradients()
        slope = inducing.contract_rows(task.X, d_basis, d_residual)
        slope += inducing.contract_points(d_basis @ self.rows.A.T)
        gradient = np.concatenate([slope, self.objective.d_likelihood])
        return Step(self.objective.value, gradient, found.start, found.converged)

    def _row_gradients(self) -> tuple[FloatArray, FloatArray]:
        """dL/dA, the residual's dependence on A included, (m, n), and dL/dr, (n,).

        With E = (w w' - R)/2 the gradient in the prior covariance A'A of the rows, dL/dA is
        2 A E, and A R = cov(u) A T. Laplace adds the movement of the mode.
        """
        counts, smoothed, found = self.task.counts, self.found.smoothed, self.found
        tau, rows = counts * found.sites.tau, self.rows
        mean, prior = found.posterior.mean, self.problem.K
        covariance = found.posterior.predict_covariance(prior, prior)
        if self.task.smoothing == "cavity":
            w = counts * (found.sites.nu - found.sites.tau * found.marginal.mean)
            d_residual = 0.5 * counts * (smoothed.d2 + smoothed.d1**2)
            low_rank = np.outer(mean, w)
        else:
            w = counts * smoothed.d1
            at, likelihood = found.at, self.problem.likelihood
            assert isinstance(likelihood, ResidualLikelihood)
            by_var = likelihood.variance_derivatives(self.task.y, at.mean, at.var, smoothed)
            slopes, tilt = with_determinant(by_var, smoothed, found.marginal.var)
            pull = counts * tilt
            e = covariance @ (rows.A @ pull)
            moved = rows.A.T @ e
            d_residual = counts * (slopes[0] + by_var.d1[0] * moved)
            low_rank = np.outer(mean + e, w) + np.outer(mean, pull - tau * moved)
        d_basis = covariance @ rows.A
        d_basis *= tau
        d_basis += rows.A * (2.0 * d_residual)
        return np.asfortranarray(low_rank - d_basis), d_residual
