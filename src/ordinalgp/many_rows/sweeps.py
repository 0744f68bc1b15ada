"""One sweep over all chunks, through joblib: each job reads a chunk and its sites."""

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from ordinalgp._typing import FloatArray
from ordinalgp.core.ep import cavities
from ordinalgp.core.gaussian import Sites
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.many_rows import chunks as _chunks
from ordinalgp.many_rows.chunks import ArrayRows, Chunk, ChunkedRows
from ordinalgp.many_rows.induced_posterior import (
    ChunkObservations,
    InducedPosterior,
    PosteriorView,
    SweepSums,
)
from ordinalgp.many_rows.site_store import SITE_COLUMNS, SiteStore, Slot

TELL_SECONDS = 10.0  # between reports within a pass


@dataclass(frozen=True, eq=False)
class SweepTask:
    """A sweep as a worker needs it."""

    view: PosteriorView
    likelihood: OrdinalProbit
    smoothing: Any
    step: float
    offset: float
    log_scale: float


@dataclass(frozen=True, eq=False)
class Sweep:
    """What all chunks of a sweep share; small enough to be sent."""

    posterior: InducedPosterior
    likelihood: OrdinalProbit
    smoothing: Any
    step: float
    offset: float = 0.0
    """by which thresholds and posterior were shifted since the sites were written"""
    log_scale: float = 0.0
    """by which likelihood and posterior grew since the sites were written"""

    def prepared(self) -> SweepTask:
        """With the products of m x m matrices done."""
        view = self.posterior.view()
        return SweepTask(
            view, self.likelihood, self.smoothing, self.step, self.offset, self.log_scale
        )


class Sweeps(Protocol):
    """Rows with their sites, wherever they are."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def run(self, sweep: Sweep) -> SweepSums:
        """Move all sites by one sweep, and sum over them."""

    def left_out(self) -> FloatArray | None:
        """Latent mean and variance of each row without itself, (n, 2), where they are at hand."""


def sweep_chunk(
    chunk: Chunk, sites: FloatArray | None, sweep: SweepTask
) -> tuple[FloatArray, SweepSums]:
    """One chunk's part of a sweep: its new sites, (c, 5), and sums of order m^2.

    Columns are precision and shift of the site, mean and variance of the row left out, residual.
    """
    if sites is None:
        rows, old = sweep.view.project(chunk.X), Sites.flat(len(chunk.codes))
    else:
        rows = sweep.view.project(chunk.X, sites[:, 4])
        tau, nu = sites[:, 0], sites[:, 1] + sweep.offset * sites[:, 0]
        old = Sites(tau, nu).rescaled(sweep.log_scale)
    observed = ChunkObservations(chunk.codes, chunk.counts, sweep.likelihood, sweep.smoothing)
    seen, sums = observed.sweep(rows, old, sweep.view, sweep.step)
    left = cavities(seen.marginal, old, np.minimum(chunk.counts, 1.0))
    columns = seen.sites.tau, seen.sites.nu, left.mean, left.var + rows.residual, rows.residual
    return np.column_stack(columns), sums


def sweep_pieces(
    chunk: Chunk, sites: FloatArray | None, sweep: SweepTask
) -> tuple[FloatArray, SweepSums]:
    """The same for a chunk of any size, piece by piece so that memory does not grow with it."""
    new = np.empty((len(chunk.codes), SITE_COLUMNS))
    total = SweepSums.zero(len(sweep.view.centre), len(sweep.likelihood.theta))
    for i in range(0, len(new), _chunks.CHUNK_ROWS):
        part = slice(i, i + _chunks.CHUNK_ROWS)
        old = None if sites is None else sites[part]
        new[part], sums = sweep_chunk(chunk.take(part), old, sweep)
        total = total + sums
    return new, total


def _job(chunk: Any, slot: Slot, sweep: SweepTask) -> tuple[FloatArray | None, SweepSums]:
    """Read a chunk and its sites, sweep, and put the sites back; only sums need to return."""
    sites, sums = sweep_pieces(chunk.load(), slot.read(), sweep)
    return slot.write(sites), sums


@dataclass(eq=False)
class LocalSweeps:
    """Chunks through joblib: threads, or whatever backend is configured."""

    rows: ChunkedRows
    store: SiteStore
    n_jobs: int | None
    verbose: int = 0

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.n_rows

    def run(self, sweep: Sweep) -> SweepSums:
        """Move all sites by one sweep, and sum over them."""
        through = sweep.prepared()
        total = SweepSums.zero(len(sweep.posterior.shift), len(sweep.likelihood.theta))
        workers = Parallel(n_jobs=self.n_jobs, prefer="threads", return_as="generator")
        slots: list[Slot] = []
        clock = _Clock(self.n_rows, self.verbose)
        with _one_thread_each(self.n_jobs):
            for place, (sites, sums) in enumerate(workers(self._jobs(through, slots))):
                if sites is not None:
                    self.store.put(slots[place], sites)
                total = total + sums
                clock.tell(slots[place].stop)
        self.store.finish_pass()
        return total

    def _jobs(self, sweep: SweepTask, slots: list[Slot]) -> Iterator[Any]:
        start = 0
        for chunk in self.rows:
            slots.append(self.store.slot(start, start + chunk.n_rows))
            start += chunk.n_rows
            yield delayed(_job)(chunk, slots[-1], sweep)

    def left_out(self) -> FloatArray | None:
        """Latent mean and variance of each row without itself, where the rows are at hand too."""
        return self.store.left_out() if isinstance(self.rows, ArrayRows) else None


class _Clock:
    """Tells how far a long pass has come."""

    def __init__(self, n_rows: int, verbose: int) -> None:
        self._n_rows, self._verbose = n_rows, verbose
        self._began = self._told = time.perf_counter()

    def tell(self, done: int) -> None:
        """Say how many rows were done, unless something was said just now."""
        now = time.perf_counter()
        if not self._verbose or now - self._told < TELL_SECONDS:
            return
        self._told, rate = now, done / max(now - self._began, 1e-9)
        print(
            f"  {done:,} of {self._n_rows:,} rows, {rate:,.0f} rows/s", file=sys.stderr, flush=True
        )


def _one_thread_each(n_jobs: int | None) -> AbstractContextManager[Any]:
    """Several workers take one thread of linear algebra each: more would wait for each other."""
    return nullcontext() if effective_n_jobs(n_jobs) == 1 else one_thread()


def one_thread() -> AbstractContextManager[Any]:
    """One thread of linear algebra: for matrices of a few hundred rows more are slower."""
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    limits: AbstractContextManager[Any] = threadpool_limits(1, "blas")
    return limits
