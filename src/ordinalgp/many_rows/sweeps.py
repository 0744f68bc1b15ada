"""One sweep over all chunks, through joblib: each job reads a chunk and its sites."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from joblib import Parallel, delayed

from ordinalgp._typing import FloatArray
from ordinalgp.core.ep import cavities
from ordinalgp.core.gaussian import Sites
from ordinalgp.core.likelihoods import Thresholds
from ordinalgp.many_rows.chunks import CHUNK_ROWS, ArrayRows, Chunk, ChunkedRows
from ordinalgp.many_rows.induced_posterior import (
    ChunkObservations,
    InducedPosterior,
    PosteriorView,
    SweepSums,
)
from ordinalgp.many_rows.site_store import SITE_COLUMNS, SiteStore, Slot
from ordinalgp.runtime.progress import Progress, Report, silent
from ordinalgp.runtime.threads import one_thread_per_worker


@dataclass(frozen=True, eq=False)
class SweepTask:
    """A sweep as a worker needs it."""

    view: PosteriorView
    likelihood: Thresholds
    smoothing: Any
    step: float
    offset: float
    log_scale: float
    chunk_rows: int


@dataclass(frozen=True, eq=False)
class Sweep:
    """What all chunks of a sweep share; small enough to be sent."""

    posterior: InducedPosterior
    likelihood: Thresholds
    smoothing: Any
    step: float
    offset: float = 0.0
    """by which thresholds and posterior were shifted since the sites were written"""
    log_scale: float = 0.0
    """by which likelihood and posterior grew since the sites were written"""
    chunk_rows: int = CHUNK_ROWS
    """rows processed at a time"""

    def prepared(self) -> SweepTask:
        """With the products of m x m matrices done."""
        return SweepTask(
            self.posterior.view(),
            self.likelihood,
            self.smoothing,
            self.step,
            self.offset,
            self.log_scale,
            self.chunk_rows,
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
    for i in range(0, len(new), sweep.chunk_rows):
        part = slice(i, i + sweep.chunk_rows)
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
    report: Report = silent
    report_seconds: float = 10.0

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
        progress = _PassReport(self.n_rows, self.report, self.report_seconds)
        with one_thread_per_worker(self.n_jobs):
            for place, (sites, sums) in enumerate(workers(self._jobs(through, slots))):
                if sites is not None:
                    self.store.put(slots[place], sites)
                total = total + sums
                progress.rows_done(slots[place].stop)
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


@dataclass(eq=False)
class _PassReport:
    """Reports how far a long pass has come, now and then."""

    n_rows: int
    report: Report
    every: float
    began: float = field(default_factory=time.perf_counter)
    last: float = field(default_factory=time.perf_counter)

    def rows_done(self, done: int) -> None:
        """Report the number of rows, unless something was reported just now."""
        now = time.perf_counter()
        if now - self.last < self.every:
            return
        self.last, seconds = now, max(now - self.began, 1e-9)
        text = f"{done:,} of {self.n_rows:,} rows, {done / seconds:,.0f} rows/s"
        self.report(Progress("pass", done, self.n_rows, None, seconds, text))
