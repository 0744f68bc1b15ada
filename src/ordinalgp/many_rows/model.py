"""A fitted Gaussian process with inducing points."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self

import numpy as np

from ordinalgp._typing import FINITE, POSITIVE, Axes, FloatArray, Tagged
from ordinalgp.core.gaussian import Moments
from ordinalgp.many_rows.chunks import ArrayRows, Chunk, ChunkedRows
from ordinalgp.many_rows.induced_evidence import InducedTask
from ordinalgp.many_rows.induced_posterior import InducedPosterior
from ordinalgp.many_rows.inducing import Inducing
from ordinalgp.many_rows.passes import InducedFit
from ordinalgp.many_rows.sweeps import Sweep, sweep_chunk
from ordinalgp.models.exact import (
    ExactGP,
    RowIndex,
    SearchSummary,
    check_finite,
    check_rows,
    checked_theta,
    latent_in_blocks,
)
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

    @classmethod
    def of(cls, model: "InducedGP") -> Self:
        """The record of a model."""
        task, posterior = model.task, model.posterior
        return cls(
            task.kernel,
            task.likelihood,
            task.Z,
            posterior.precision,
            posterior.shift,
            task.smoothing,
            task.max_sweeps,
            float(task.tol),
            model.summary,
        )

    def restored(self) -> "InducedGP":
        """The model again, one factorisation later."""
        check_memory(len(self.Z), n_matrices=4)
        task = InducedTask(
            self.Z[:0],
            self.kernel,
            self.likelihood,
            self.Z,
            np.empty(0, dtype=np.intp),
            np.empty(0),
            smoothing=self.smoothing,
            max_sweeps=self.max_sweeps,
            tol=self.tol,
        )
        lower = np.tril(self.precision)
        precision = lower + np.tril(lower, -1).T
        posterior = InducedPosterior(Inducing(task.kernel, task.Z), precision, self.shift)
        return InducedGP.of(task, posterior, self.summary)


@saved_as("model.inducing", record=InducedRecord)
@dataclass(frozen=True, eq=False)
class InducedGP:
    """A Gaussian process with inducing points, and the posterior of their whitened values."""

    task: InducedTask
    """its rows are those kept in memory, or none"""
    posterior: InducedPosterior
    rows: RowIndex
    summary: SearchSummary
    apart: FloatArray | None
    """latent mean and variance of each row without itself, (n, 2), where they were kept"""

    @classmethod
    def of(
        cls,
        task: InducedTask,
        posterior: InducedPosterior,
        summary: SearchSummary,
        apart: FloatArray | None = None,
    ) -> Self:
        """The model with a posterior that is complete and then only read."""
        posterior.mean, posterior.inducing.inverse_factor  # noqa: B018
        none = np.empty((0, task.Z.shape[1]))
        index = RowIndex(np.arange(0 if apart is None else len(apart)), none)
        return cls(task, posterior, index, summary, apart)

    @classmethod
    def from_fit(cls, found: InducedFit, rows: ChunkedRows, kept_rows: int) -> Self:
        """The result of all stages; few enough rows in memory are kept."""
        task = replace(found.task, X=found.task.X[:0], y=found.task.y[:0], counts=np.empty(0))
        if isinstance(rows, ArrayRows) and rows.n_rows <= kept_rows:
            kept = rows.rows.take(slice(None))
            task = replace(task, X=kept.X, y=kept.codes, counts=kept.counts)
        summary = SearchSummary(found.value, found.path, found.converged, found.n_passes)
        return cls.of(task, found.posterior, summary, found.left_out)

    @classmethod
    def from_exact(cls, exact: ExactGP) -> Self:
        """The exact posterior as one with an inducing point at every input."""
        task = exact.task
        inducing = Inducing(task.kernel, task.X)
        inputs = task.projection.apply(np.arange(float(len(task.X)))).astype(np.intp)
        rows = inducing.rows(task.X[inputs])
        posterior = InducedPosterior.prior(inducing).given(rows, exact.sites, task.counts)
        empty = Chunk(task.X[:0], task.y[:0], task.counts[:0])
        return cls.of(InducedTask.like(task, empty, task.X), posterior, exact.summary)

    def with_rows(self, rows: ArrayRows) -> Self:
        """The model with further rows taken in; hyperparameters and points stay."""
        posterior = self.posterior
        for chunk in rows:
            posterior = _absorb(chunk, posterior, self.task)
        return self.of(self.task, posterior, self.summary)

    @property
    def kernel(self) -> Any:
        """Kernel with the hyperparameters found."""
        return self.task.kernel

    @property
    def likelihood(self) -> Any:
        """Likelihood with the parameters found."""
        return self.task.likelihood

    def latent(self, X: FloatArray) -> Moments:
        """Posterior moments, block by block: memory stays flat in the rows of ``X``."""
        return latent_in_blocks(self.posterior, self.kernel, self.task.Z, X)

    def left_out(self) -> Moments:
        """Latent moments of each row without itself, where they were kept."""
        if self.apart is None:
            raise ValueError(
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
        step = self.task.evaluate(checked_theta(self.task, theta))
        return step.value, step.gradient

    def check(self, n_features: int, n_levels: int) -> None:
        """Raise ValueError unless the parts of a saved model agree."""
        check_rows(self.task.Z, self.kernel, n_features)
        if self.likelihood.n_levels != n_levels:
            raise ValueError("the likelihood and the levels disagree")
        found = self.latent(self.task.Z[:1])
        check_finite(found.mean, found.var)


def _absorb(chunk: Chunk, before: InducedPosterior, task: InducedTask) -> InducedPosterior:
    """EP (or Newton) on a chunk's rows, the sites of all other rows held."""
    sites, posterior, step, last = None, before, 1.0, np.inf
    for _ in range(task.max_sweeps):
        sweep = Sweep(posterior, task.likelihood, task.smoothing, step)
        sites, sums = sweep_chunk(chunk, sites, sweep.prepared())
        new = before.joined(*posterior.outward(sums))
        moved, posterior = new.moved_from(posterior), new
        if moved <= max(task.tol, 1e-4):
            break
        step = max(0.5 * step, 0.1) if moved > last else min(1.5 * step, 1.0)
        last = moved
    return posterior
