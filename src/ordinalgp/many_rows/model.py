"""A fitted Gaussian process with inducing points."""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np

from ordinalgp._typing import FINITE, POSITIVE, Axes, FloatArray, Tagged
from ordinalgp.core.gaussian import Moments
from ordinalgp.core.hyperprior import LogPrior
from ordinalgp.many_rows.induced_evidence import InducedTask
from ordinalgp.many_rows.inducing import InducedPosterior, Inducing
from ordinalgp.models.base import NoLeaveOneOut
from ordinalgp.models.effects import Reference
from ordinalgp.models.exact import ExactGP, SearchSummary, SupportedModel
from ordinalgp.persistence import saved_as
from ordinalgp.validation.memory import check_memory


@dataclass(frozen=True, eq=False)
class InducedRecord:
    """The saved part of :class:`InducedGP`: points and posterior, no rows."""

    kernel: Annotated[Any, Tagged("kernel")]
    likelihood: Annotated[Any, Tagged("likelihood")]
    Z: Annotated[FloatArray, Axes("P d")]
    precision: Annotated[FloatArray, Axes("P P", *FINITE)]
    shift: Annotated[FloatArray, Axes("P", *FINITE)]
    smoothing: Literal["cavity", "mode"]
    max_sweeps: Annotated[int, Axes(low=1)]
    tol: Annotated[float, Axes("", *POSITIVE)]
    summary: SearchSummary
    hyperprior: Annotated[LogPrior, Tagged("hyperprior")] | None

    @classmethod
    def of(cls, model: "InducedGP") -> Self:
        """The record of a model."""
        task, posterior = model.task, model.posterior
        parts = task.kernel, task.likelihood, task.Z, posterior.precision, posterior.shift
        limits = task.smoothing, task.max_sweeps, float(task.tol)
        return cls(*parts, *limits, model.summary, task.hyperprior)

    derives: ClassVar[bool] = True

    def restored(self, *, derive: bool) -> "InducedGP":
        """The model, if asked for with its posterior derived; one factorisation."""
        check_memory(len(self.Z), n_matrices=4)
        task = InducedTask.like(self, self.Z)
        if not derive:
            without: Any = None
            return InducedGP(task, without, self.summary)
        lower = np.tril(self.precision)
        precision = lower + np.tril(lower, -1).T
        posterior = InducedPosterior(task.inducing, precision, self.shift)
        return InducedGP(task, posterior, self.summary)


@saved_as("model.inducing", record=InducedRecord)
@dataclass(frozen=True, eq=False)
class InducedGP(SupportedModel):
    """A Gaussian process with inducing points, and the posterior of their whitened values."""

    task: InducedTask
    """its rows are those kept in memory, or none"""
    posterior: InducedPosterior
    summary: SearchSummary
    apart: FloatArray | None = None
    """latent mean and variance of each row without itself, (n, 2), where they were kept"""
    without_cavity: int = field(default=0, metadata={"saved": False})
    """number of rows whose weight below one left them no cavity in training"""

    def __post_init__(self) -> None:
        """Complete the posterior, which is then only read."""
        if self.posterior is not None:
            self.posterior.mean, self.posterior.inducing.inverse_factor  # noqa: B018

    @classmethod
    def from_exact(cls, exact: ExactGP) -> Self:
        """The exact posterior as one with an inducing point at every input."""
        task = exact.task
        inducing = Inducing(task.kernel, task.X)
        inputs = task.projection.apply(np.arange(float(len(task.X)))).astype(np.intp)
        rows = inducing.rows(task.X[inputs])
        posterior = InducedPosterior.prior(inducing).given(rows, exact.sites, task.counts)
        return cls(InducedTask.like(task, task.X), posterior, exact.summary)

    def joint(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Joint posterior mean and covariance of new rows."""
        cross = self.kernel(X, self.task.Z)
        covariance = self.posterior.predict_covariance(cross, self.kernel(X))
        return self.latent(X).mean, (covariance + covariance.T) / 2

    @property
    def reference(self) -> Reference:
        """The inducing points, since files and chunks keep no rows."""
        m = len(self.task.Z)
        return Reference(self.task.Z, np.full(m, 1 / m))

    def left_out(self) -> Moments:
        """Latent moments of each row without itself, where they were kept."""
        if self.apart is None:
            raise NoLeaveOneOut(
                "Leave-one-out moments of the rows were not kept: the model was loaded from a "
                "file, or its rows were read in chunks. Fit arrays in memory to have them."
            )
        return Moments(self.apart[:, 0], self.apart[:, 1])

    def evaluate(self, theta: FloatArray | None) -> tuple[float, FloatArray]:
        """Log evidence and gradient, where the rows were kept."""
        if len(self.task.X) == 0:
            raise ValueError(
                "The evidence at other hyperparameters needs the training rows, which a model with "
                "inducing points keeps only up to 20,000 rows and not in a file."
            )
        return super().evaluate(theta)
