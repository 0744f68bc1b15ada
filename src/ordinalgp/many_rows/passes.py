"""Passes over all rows: the posterior settles, and the likelihood moves with it.

One pass is a sweep over all chunks; each job reads a chunk and its sites, through joblib or dask.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from joblib import delayed

from ordinalgp._typing import FloatArray
from ordinalgp.core.ep import cavities
from ordinalgp.core.gaussian import Sites
from ordinalgp.core.likelihoods import Thresholds
from ordinalgp.core.problem import Smoothing
from ordinalgp.many_rows.chunks import CHUNK_ROWS, ArrayRows, Chunk, FactoryRows, workers
from ordinalgp.many_rows.induced_evidence import InducedTask
from ordinalgp.many_rows.inducing import (
    ChunkObservations,
    InducedPosterior,
    PosteriorView,
    SweepSums,
)
from ordinalgp.many_rows.likelihood_step import LikelihoodStep, likelihood_step, with_prior
from ordinalgp.many_rows.model import InducedGP
from ordinalgp.many_rows.settings import ManyRowsSettings
from ordinalgp.many_rows.site_store import SITE_COLUMNS, SiteStore, Slot
from ordinalgp.models.exact import SearchSummary
from ordinalgp.runtime.progress import Progress, Report, silent

_ROUND_TRIPS = 5


@dataclass(frozen=True, eq=False)
class Sweep:
    """The part of a sweep that all chunks share; small enough to be sent."""

    posterior: InducedPosterior | PosteriorView
    likelihood: Thresholds
    smoothing: Smoothing
    step: float
    offset: float = 0.0
    """by which thresholds and posterior were shifted since the sites were written"""
    log_scale: float = 0.0
    """by which likelihood and posterior grew since the sites were written"""
    chunk_rows: int = CHUNK_ROWS
    """rows processed at a time"""

    def prepared(self) -> "Sweep":
        """The sweep as workers need it, with the products of m x m matrices done."""
        return replace(self, posterior=self.posterior.view())


class Sweeps(ABC):
    """Rows with their sites, wherever they are."""

    rows: Any

    @abstractmethod
    def run(self, sweep: Sweep) -> SweepSums:
        """Move all sites by one sweep, and sum over them."""

    def left_out(self) -> FloatArray | None:
        """Latent mean and variance of each row without itself, (n, 2), where they are at hand."""
        return None


def sweep_chunk(
    chunk: Chunk, sites: FloatArray | None, sweep: Sweep
) -> tuple[FloatArray, SweepSums]:
    """One chunk's part of a sweep: its new sites, (c, 5), and sums of order m^2.

    Columns are precision and shift of the site, mean and variance of the row left out, residual.
    """
    view = sweep.posterior.view()
    if sites is None:
        rows, old = view.project(chunk.X), Sites.flat(len(chunk.codes))
    else:
        rows = view.project(chunk.X, sites[:, 4])
        tau, nu = sites[:, 0], sites[:, 1] + sweep.offset * sites[:, 0]
        old = Sites(tau, nu).rescaled(sweep.log_scale)
    observed = ChunkObservations(chunk.codes, chunk.counts, sweep.likelihood, sweep.smoothing)
    seen, sums = observed.sweep(rows, old, view, sweep.step)
    left = cavities(seen.marginal, old, np.minimum(chunk.counts, 1.0))
    columns = seen.sites.tau, seen.sites.nu, left.mean, left.var + rows.residual, rows.residual
    return np.column_stack(columns), sums


def sweep_pieces(
    chunk: Chunk, sites: FloatArray | None, sweep: Sweep
) -> tuple[FloatArray, SweepSums]:
    """The same for a chunk of any size, piece by piece so that memory does not grow with it."""
    new = np.empty((chunk.n_rows, SITE_COLUMNS))

    def sweep_piece(start: int) -> SweepSums:
        part = slice(start, start + sweep.chunk_rows)
        old = None if sites is None else sites[part]
        new[part], sums = sweep_chunk(chunk.take(part), old, sweep)
        return sums

    return new, reduce(add, map(sweep_piece, range(0, len(new), sweep.chunk_rows)))


def _job(chunk: Any, slot: Slot, sweep: Sweep) -> tuple[FloatArray | None, SweepSums]:
    """Read a chunk and its sites, sweep, and put the sites back; only sums need to return."""
    sites, sums = sweep_pieces(chunk.load(), slot.read(), sweep)
    return slot.write(sites), sums


@dataclass(eq=False)
class LocalSweeps(Sweeps):
    """Chunks through joblib: threads, or whatever backend is configured."""

    rows: ArrayRows | FactoryRows
    store: SiteStore
    n_jobs: int | None
    report: Report = silent
    report_seconds: float = 10.0

    def run(self, sweep: Sweep) -> SweepSums:
        """Move all sites by one sweep, and sum over them."""
        slots: list[Slot] = []
        found = workers(self.n_jobs)(self._jobs(sweep.prepared(), slots))
        total = reduce(add, self._stored(found, slots))
        self.store.finish_pass()
        return total

    def _stored(self, found: Iterable[Any], slots: list[Slot]) -> Iterator[SweepSums]:
        """Store the sites of each job, and report now and then how far the pass has come."""
        began, n = time.perf_counter(), self.rows.n_rows
        last = began
        for place, (sites, sums) in enumerate(found):
            if sites is not None:
                self.store.put(slots[place], sites)
            if (now := time.perf_counter()) - last >= self.report_seconds:
                last, done, seconds = now, slots[place].stop, max(now - began, 1e-9)
                text = f"{done:,} of {n:,} rows, {done / seconds:,.0f} rows/s"
                self.report(Progress("pass", done, n, None, seconds, text))
            yield sums

    def _jobs(self, sweep: Sweep, slots: list[Slot]) -> Iterator[Any]:
        start = 0
        for chunk in self.rows:
            slots.append(self.store.slot(start, start + chunk.n_rows))
            start += chunk.n_rows
            yield delayed(_job)(chunk, slots[-1], sweep)

    def left_out(self) -> FloatArray | None:
        """Latent mean and variance of each row without itself, where the rows are at hand too."""
        return self.store.left_out() if isinstance(self.rows, ArrayRows) else None


@dataclass(frozen=True, eq=False)
class PassState:
    """Progress of the passes, and the length of the next steps."""

    done: int = 0
    sites: float = 1.0
    """share of the way that sites go"""
    likelihood: float = 1.0
    """share of the way that the likelihood goes"""
    offset: float = 0.0
    """by which thresholds and latent function were shifted since sites were last written"""
    log_scale: float = 0.0
    """by which everything then grew"""
    moved: float = np.inf
    promised: float = 0.0
    """nats that were to be gained by the step before"""
    values: tuple[float, ...] = ()
    """the objective at every pass"""

    @classmethod
    def read(cls, saved: dict[str, Any]) -> "PassState":
        """From a checkpoint, or at the start."""
        return cls(**{f.name: saved[f.name].tolist() for f in fields(cls) if f.name in saved})

    def after(
        self, value: float, moved: float, promised: float, tolerated: float = 0.1
    ) -> "PassState":
        """After a pass: sites that move more than before, or evidence that fell, ask for care.

        ``tolerated`` is the share of what was promised by which evidence may fall.
        """
        # The first value belongs to a posterior that had not seen these rows.
        fell = len(self.values) > 1 and value < self.values[-1] - tolerated * self.promised
        shares = next_share(self.sites, moved > self.moved), next_share(self.likelihood, fell)
        moves = self.offset, self.log_scale, moved, promised
        return PassState(self.done + 1, *shares, *moves, (*self.values, value))

    def idle(self, gain: float, patience: int) -> bool:
        """Whether ``patience`` passes gained less than ``gain``, though each promised more."""
        if len(self.values) <= patience:
            return False
        return abs(self.values[-1] - self.values[-1 - patience]) <= gain


def next_share(share: float, less: bool) -> float:
    """Share of the way that the next step goes: half as much, or again more."""
    return max(0.5 * share, 0.1) if less else min(1.5 * share, 1.0)


@dataclass(frozen=True, eq=False)
class PassResult:
    """Outcome of one pass."""

    posterior: InducedPosterior
    value: float
    """objective under the sites that the pass began with"""
    moved: float
    """movement of the posterior mean, in standard deviations"""
    step: LikelihoodStep
    without_cavity: int
    """number of rows"""

    @property
    def promise(self) -> float:
        """Nats that a further pass promises."""
        return 0.5 * self.moved**2 * len(self.posterior.mean) + self.step.gain


@dataclass(eq=False)
class PassRunner:
    """Passes over all rows, with progress and a checkpoint after each."""

    sweeps: Sweeps
    task: InducedTask
    store: SiteStore
    settings: ManyRowsSettings
    report: Report
    learn: bool
    """whether passes move the likelihood's parameters"""

    def run(self, posterior: InducedPosterior, saved: dict[str, Any]) -> InducedGP:
        """Go over the rows until a further pass promises nothing."""
        task, state, limits = self.task, PassState.read(saved), self.settings
        if not saved:
            self._save(task, posterior, state)
        for number in range(state.done, max(task.max_sweeps, state.done + 2)):
            began = time.perf_counter()
            found = self._one_pass(task, posterior, state)
            state = state.after(found.value, found.moved, found.promise, limits.tolerated_fall)
            converged = self._promises_nothing(found, state)
            done = number > 0 and converged
            self._report(number, found, time.perf_counter() - began, done)
            used, posterior = task, found.posterior
            if done:
                break
            step = found.step.part(state.likelihood)
            task, posterior = as_read_again(_moved(task, step)), step.carry(posterior)
            state = replace(state, offset=step.offset, log_scale=step.log_scale)
            self._save(task, posterior, state)
        path = np.array(state.values)
        without = found.without_cavity
        summary = SearchSummary(path[-1], path, bool(converged and not without), number + 1)
        return InducedGP(used, posterior, summary, self.sweeps.left_out(), without)

    def _one_pass(
        self, task: InducedTask, posterior: InducedPosterior, state: PassState
    ) -> PassResult:
        """Move all sites once, and find the step of the likelihood."""
        likelihood, limits = task.likelihood, self.settings
        move = state.sites, state.offset, state.log_scale
        sweep = Sweep(posterior, likelihood, task.smoothing, *move, limits.chunk_rows)
        sums = with_prior(self.sweeps.run(sweep), task)
        new = posterior.after(sums)
        step = LikelihoodStep.none(len(likelihood.theta))
        if self.learn:  # the first pass had no sites whose scale and place could be judged
            together = limits.move_together and state.done > 0
            step = likelihood_step(sums, likelihood, posterior, new, together=together)
        # Laplace wants the curvatures at the mean that the pass began with: the new ones.
        at = new if task.smoothing == "mode" else posterior
        value, moved = sums.evidence - at.half_log_det, new.moved_from(posterior)
        return PassResult(new, value, moved, step, sums.without_cavity)

    def _promises_nothing(self, found: PassResult, state: PassState) -> bool:
        """Whether a further pass would gain too little for the number of rows."""
        n, limits = self.sweeps.rows.n_rows, self.settings
        many = n > limits.many_rows_per_point * len(found.posterior.mean)
        enough = limits.promise if many else limits.promise_few_rows
        idle = self.learn and state.idle(limits.idle_gain * n, limits.patience)
        still = not many and found.moved <= self.task.tol
        return found.promise <= enough * n or still or idle

    def _save(self, task: InducedTask, posterior: InducedPosterior, state: PassState) -> None:
        likelihood = task.likelihood
        scale = {"unit": likelihood.unit, "noise_bounds": likelihood.noise_bounds or ()}
        found = {"precision": posterior.precision, "shift": posterior.shift}
        self.store.save(theta=task.theta, Z=task.Z, **scale, **found, **asdict(state))

    def _report(self, number: int, found: PassResult, seconds: float, done: bool) -> None:
        n, value = self.sweeps.rows.n_rows, float(found.value)
        speed, gain = n / max(seconds, 1e-9), found.promise / n
        text = f"{n:,} rows, {speed:,.0f} rows/s, to gain {gain:.1e} per row"
        self.report(Progress("pass", number + 1, None, value, seconds, text, done))


def as_read_again(task: InducedTask) -> InducedTask:
    """The task with hyperparameters that a checkpoint hands back bit for bit.

    It keeps theta, and exp(log(x)) need not be x. After a round trip or two it mostly is.
    """
    for _ in range(_ROUND_TRIPS):
        task, before = task.at(task.theta), task
        if np.array_equal(task.theta, before.theta):
            break
    return task


def _moved(task: InducedTask, move: LikelihoodStep) -> InducedTask:
    """The task with its likelihood moved, within its bounds."""
    likelihood = task.likelihood.clone_with_theta(task.likelihood.theta + move.change)
    theta = likelihood.rescaled(move.log_scale).theta
    low, high = likelihood.bounds.T
    return replace(task, likelihood=likelihood.clone_with_theta(np.clip(theta, low, high)))


def with_rows(model: InducedGP, rows: ArrayRows) -> InducedGP:
    """The model with further rows taken in; hyperparameters and points stay."""
    posterior = model.posterior
    for chunk in rows:
        posterior = _absorb(chunk, posterior, model.task)
    return replace(model, posterior=posterior, apart=None)


def _absorb(chunk: Chunk, before: InducedPosterior, task: InducedTask) -> InducedPosterior:
    """EP (or Newton) on a chunk's rows, the sites of all other rows held."""
    sites, posterior, step, last = None, before, 1.0, np.inf
    for _ in range(task.max_sweeps):
        sweep = Sweep(posterior, task.likelihood, task.smoothing, step)
        sites, sums = sweep_chunk(chunk, sites, sweep)
        new = before.joined(*posterior.outward(sums))
        moved, posterior = new.moved_from(posterior), new
        if moved <= max(task.tol, 1e-4):
            break
        step = next_share(step, moved > last)
        last = moved
    return posterior
