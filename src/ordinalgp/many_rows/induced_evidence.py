"""The evidence of a model with inducing points, and its gradient in O(n m^2)."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.inference import infer
from ordinalgp.core.likelihoods import Smoothed, ThetaDerivatives, Thresholds
from ordinalgp.core.linalg import Workspace
from ordinalgp.core.objectives import ep_evidence, laplace_evidence, with_determinant
from ordinalgp.core.problem import Approximation, Problem, Smoothing, Start
from ordinalgp.core.projections import Basis
from ordinalgp.core.search import SEARCH_TOL, Step, Trainable
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

    def relaxed(self) -> Self:
        """Return the task at the precision that a search needs."""
        stationary = self.smoothing == "cavity"
        return replace(self, tol=max(self.tol, SEARCH_TOL["ep evidence"])) if stationary else self

    def step(self, start: Start | None = None, workspace: Workspace | None = None) -> Step:
        """Log evidence and its gradient."""
        return self.value_and_approximation(start)[0]

    def value_and_approximation(self, start: Start | None = None) -> tuple[Step, Approximation]:
        """Log evidence and gradient here, and the approximation of the whitened values."""
        inducing = self.inducing
        rows = inducing.rows(self.X)
        likelihood = ResidualLikelihood(self.likelihood, rows.residual)
        K, A = np.eye(len(self.Z)), Basis(rows.A.T)
        problem = Problem(K, A, self.y, likelihood, self.counts)
        found = infer(
            problem, smoothing=self.smoothing, start=start, max_sweeps=self.max_sweeps, tol=self.tol
        )
        objective = ep_evidence if self.smoothing == "cavity" else laplace_evidence
        value = objective(problem, found)
        d_basis, d_residual = self._row_gradients(problem, found, rows)
        slope = inducing.contract_rows(self.X, d_basis, d_residual)
        slope += inducing.contract_points(d_basis @ rows.A.T)
        gradient = np.concatenate([slope, value.d_likelihood])
        return Step(value.value, gradient, found.start, found.converged), found

    def _row_gradients(
        self, problem: Problem, found: Approximation, rows: WhitenedRows
    ) -> tuple[FloatArray, FloatArray]:
        """dL/dA, the residual's dependence on A included, (m, n), and dL/dr, (n,).

        With E = (w w' - R)/2 the gradient in the prior covariance A'A of the rows, dL/dA is
        2 A E, and A R = cov(u) A T. Laplace adds the movement of the mode.
        """
        counts, smoothed = self.counts, found.smoothed
        tau = counts * found.sites.tau
        mean, prior = found.posterior.mean, problem.K
        covariance = found.posterior.predict_covariance(prior, prior)
        pull = np.zeros_like(tau)
        if self.smoothing == "cavity":
            w = counts * (found.sites.nu - found.sites.tau * found.marginal.mean)
            d_residual = 0.5 * counts * (smoothed.d2 + smoothed.d1**2)
            e = np.zeros_like(mean)
        else:
            w = counts * smoothed.d1
            at, likelihood = found.at, problem.likelihood
            assert isinstance(likelihood, ResidualLikelihood)
            by_var = likelihood.variance_derivatives(self.y, at.mean, at.var, smoothed)
            slopes, tilt = with_determinant(by_var, smoothed, found.marginal.var)
            pull = counts * tilt
            e = covariance @ (rows.A @ pull)
            d_residual = counts * (slopes[0] + by_var.d1[0] * (rows.A.T @ e))
        c = pull - tau * (rows.A.T @ e)
        d_basis = np.outer(mean + e, w) + np.outer(mean, c)
        d_basis -= covariance @ (rows.A * tau)
        d_basis -= rows.A * (2.0 * d_residual)
        return np.asfortranarray(d_basis), d_residual
