"""Fitting with inducing points, in stages from a small subset to all rows.

1. Exact EP (or Laplace) on a subset finds the kernel, as it would on all rows.
2. Inducing points are chosen under that kernel.
3. The evidence of the model with inducing points is climbed on a larger sample.
4. Passes over all rows settle the posterior; each also moves the likelihood's parameters by one
   Newton step, from sums that the pass makes anyway. Very many rows begin with passes over
   samples of them, each several times larger than the last, so that two passes over all remain.
"""

import sys
import time
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from ordinalgp._typing import FloatArray
from ordinalgp.core.search import SearchResult, maximise
from ordinalgp.many_rows.chunks import Chunk, ChunkedRows
from ordinalgp.many_rows.induced_evidence import InducedTask
from ordinalgp.many_rows.induced_posterior import InducedPosterior
from ordinalgp.many_rows.inducing import Inducing, greedy_points
from ordinalgp.many_rows.likelihood_step import LikelihoodStep, likelihood_step
from ordinalgp.many_rows.site_store import SiteStore
from ordinalgp.many_rows.sweeps import Sweep, Sweeps, sweep_chunk

SUBSET_ROWS, SAMPLE_ROWS = 800, 4096
_CANDIDATES = 20  # rows from which each inducing point is chosen
_ENOUGH = 1e-4  # of the noise variance: costs about half as many nats a row
_REFINE_STEPS = 10  # of the search on the sample, whose start is already good
_MANY = 20  # rows for each inducing point: then the posterior is better known than the model
_CARE = 0.1  # of what a step promised: evidence that falls by more shows it was too long
_SETTLED, _SETTLED_FEW = 2e-5, 2e-8  # nats a row: a pass that promises less is the last
_PATIENCE, _IDLE = 10, 2e-6  # passes that together gain less than so many nats a row are in vain


@dataclass(frozen=True, eq=False)
class InducedFit:
    """The result of all stages."""

    task: InducedTask
    posterior: InducedPosterior
    value: float
    path: FloatArray
    n_passes: int
    converged: bool
    left_out: FloatArray | None
    """latent mean and variance of each row without itself, (n, 2), where rows are in memory"""


@dataclass(frozen=True, eq=False)
class PassState:
    """How far passes have come, and how far the next one goes."""

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
    """the log evidence of every pass"""

    @classmethod
    def read(cls, saved: dict[str, Any]) -> "PassState":
        """From a checkpoint, or at the start."""
        return cls(**{f.name: saved[f.name].tolist() for f in fields(cls) if f.name in saved})

    def after(self, value: float, moved: float, promised: float) -> "PassState":
        """After a pass: sites that move more than before, or evidence that fell, ask for care."""
        # The first value belongs to a posterior that had not seen these rows.
        fell = len(self.values) > 1 and value < self.values[-1] - _CARE * self.promised
        return replace(
            self,
            done=self.done + 1,
            sites=_changed(self.sites, moved > self.moved),
            likelihood=_changed(self.likelihood, fell),
            moved=moved,
            promised=promised,
            values=(*self.values, value),
        )

    def idle(self, n_rows: int) -> bool:
        """Whether many passes gained nothing, though each promised more than the tolerance."""
        if len(self.values) <= _PATIENCE:
            return False
        return abs(self.values[-1] - self.values[-1 - _PATIENCE]) <= _IDLE * n_rows


def _changed(share: float, less: bool) -> float:
    return max(0.5 * share, 0.1) if less else min(1.5 * share, 1.0)


@dataclass(eq=False)
class PassRunner:
    """Passes over all rows, with progress and a checkpoint after each."""

    sweeps: Sweeps
    task: InducedTask
    store: SiteStore
    verbose: int
    learn: bool
    """whether passes move the likelihood's parameters"""

    def run(self, posterior: InducedPosterior, saved: dict[str, Any]) -> InducedFit:
        """Go over the rows until a further pass promises nothing."""
        task, pace, n = self.task, PassState.read(saved), self.sweeps.n_rows
        if not saved:
            self._save(task, posterior, pace)
        for number in range(pace.done, max(self.task.max_sweeps, pace.done + 2)):
            began = time.perf_counter()
            sweep = Sweep(
                posterior,
                task.likelihood,
                task.smoothing,
                pace.sites,
                pace.offset,
                pace.log_scale,
            )
            sums = self.sweeps.run(sweep)
            new = posterior.after(sums)
            # Laplace wants the curvatures at the mean that the pass began with: the new ones.
            at = new if task.smoothing == "mode" else posterior
            move = LikelihoodStep.none(len(task.likelihood.theta))
            if self.learn:  # the first pass had no sites whose scale and place could be judged
                likelihood = task.likelihood
                move = likelihood_step(sums, likelihood, posterior, new, together=number > 0)
            moved = new.moved_from(posterior)
            promise = 0.5 * moved**2 * len(new.mean) + move.gain
            pace = pace.after(sums.evidence - at.half_log_det, moved, promise)
            posterior, used = new, task
            self._say(number, pace.values[-1], promise / n, time.perf_counter() - began)
            enough = _SETTLED if n > _MANY * len(new.mean) else _SETTLED_FEW
            converged = promise <= enough * n or (enough == _SETTLED_FEW and moved <= task.tol)
            if number > 0 and (converged := converged or (self.learn and pace.idle(n))):
                break
            move = move.part(pace.likelihood)
            task, posterior = _moved(task, move), move.carry(posterior)
            pace = replace(pace, offset=move.offset, log_scale=move.log_scale)
            self._save(task, posterior, pace)
        path, kept = np.array(pace.values), self.sweeps.left_out()
        return InducedFit(used, posterior, path[-1], path, number + 1, bool(converged), kept)

    def _save(self, task: InducedTask, posterior: InducedPosterior, pace: "PassState") -> None:
        self.store.save(
            theta=task.theta,
            unit=getattr(task.likelihood, "unit", 1.0),
            Z=task.Z,
            precision=posterior.precision,
            shift=posterior.shift,
            **asdict(pace),
        )

    def _say(self, number: int, value: float, promise: float, seconds: float) -> None:
        if self.verbose:
            n = self.sweeps.n_rows
            rate = n / max(seconds, 1e-9)
            print(
                f"pass {number + 1}: {n:,} rows, {rate:,.0f} rows/s, log evidence "
                f"{value:.1f}, still to gain {promise:.1e} a row",
                file=sys.stderr,
                flush=True,
            )


def _moved(task: InducedTask, move: LikelihoodStep) -> InducedTask:
    """The task with its likelihood moved, within its bounds."""
    likelihood = task.likelihood.clone_with_theta(task.likelihood.theta + move.change)
    theta = likelihood.rescaled(move.log_scale).theta
    low, high = likelihood.bounds.T
    return replace(task, likelihood=likelihood.clone_with_theta(np.clip(theta, low, high)))


def candidates(rows: ChunkedRows, points: Any, rng: Any) -> FloatArray:
    """Inputs among which inducing points are chosen, or the points themselves if given."""
    if not isinstance(points, int | np.integer):
        return np.asarray(points, dtype=float)
    return rows.sample(max(_CANDIDATES * int(points), SAMPLE_ROWS), rng).X


def choose_points(task: Any, X: FloatArray, points: Any, *, enough: bool) -> FloatArray:
    """Inducing points: those given, or spread over ``X`` so that little variance is left.

    ``enough``: fewer points where what they leave of the prior variance is nothing beside noise.
    """
    if not isinstance(points, int | np.integer):
        return X
    least = _ENOUGH * task.likelihood.noise**2 if enough else 0.0
    Z: FloatArray = X[greedy_points(task.kernel, X, int(points), least)]
    return Z


def climb_sample(task: InducedTask, optimizer: Any, verbose: int) -> SearchResult:
    """Refine hyperparameters on the evidence with inducing points."""
    return maximise(
        task, [task.theta], optimizer=optimizer, verbose=verbose, max_iterations=_REFINE_STEPS
    )


def posterior_on_sample(task: InducedTask) -> tuple[InducedPosterior, Any, float]:
    """Posterior given the task's own rows, the approximation behind it, and the evidence."""
    value, _, found = task.evaluate(task.theta)
    inducing = Inducing(task.kernel, task.Z)
    prior = InducedPosterior.prior(inducing)
    return prior.given(inducing.rows(task.X), found.sites, task.counts), found, value


def absorb(chunk: Chunk, before: InducedPosterior, task: InducedTask) -> InducedPosterior:
    """The posterior with a chunk's rows taken in, the sites of all other rows held."""
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
