"""Passes over all rows: the posterior settles, and the likelihood moves with it."""

import time
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from ordinalgp._typing import FloatArray
from ordinalgp.many_rows.induced_evidence import InducedTask
from ordinalgp.many_rows.induced_posterior import InducedPosterior
from ordinalgp.many_rows.likelihood_step import LikelihoodStep, likelihood_step
from ordinalgp.many_rows.settings import ManyRowsSettings
from ordinalgp.many_rows.site_store import SiteStore
from ordinalgp.many_rows.sweeps import Sweep, Sweeps
from ordinalgp.runtime.progress import Progress, Report


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

    def after(
        self, value: float, moved: float, promised: float, tolerated: float = 0.1
    ) -> "PassState":
        """After a pass: sites that move more than before, or evidence that fell, ask for care.

        ``tolerated`` is the share of what was promised by which evidence may fall.
        """
        # The first value belongs to a posterior that had not seen these rows.
        fell = len(self.values) > 1 and value < self.values[-1] - tolerated * self.promised
        return replace(
            self,
            done=self.done + 1,
            sites=_changed(self.sites, moved > self.moved),
            likelihood=_changed(self.likelihood, fell),
            moved=moved,
            promised=promised,
            values=(*self.values, value),
        )

    def idle(self, gain: float, patience: int) -> bool:
        """Whether ``patience`` passes gained less than ``gain``, though each promised more."""
        if len(self.values) <= patience:
            return False
        return abs(self.values[-1] - self.values[-1 - patience]) <= gain


def _changed(share: float, less: bool) -> float:
    return max(0.5 * share, 0.1) if less else min(1.5 * share, 1.0)


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

    def run(self, posterior: InducedPosterior, saved: dict[str, Any]) -> InducedFit:
        """Go over the rows until a further pass promises nothing."""
        task, pace, n, limits = self.task, PassState.read(saved), self.sweeps.n_rows, self.settings
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
                limits.chunk_rows,
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
            value = sums.evidence - at.half_log_det
            pace = pace.after(value, moved, promise, limits.tolerated_fall)
            posterior, used = new, task
            many = n > limits.many_rows_per_point * len(new.mean)
            enough = limits.promise if many else limits.promise_few_rows
            idle = self.learn and pace.idle(limits.idle_gain * n, limits.patience)
            converged = promise <= enough * n or (not many and moved <= task.tol) or idle
            done = number > 0 and converged
            self._report(number, value, promise / n, time.perf_counter() - began, done)
            if done:
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

    def _report(
        self, number: int, value: float, promise: float, seconds: float, done: bool
    ) -> None:
        n = self.sweeps.n_rows
        text = f"{n:,} rows, {n / max(seconds, 1e-9):,.0f} rows/s, to gain {promise:.1e} per row"
        self.report(Progress("pass", number + 1, None, float(value), seconds, text, done))


def _moved(task: InducedTask, move: LikelihoodStep) -> InducedTask:
    """The task with its likelihood moved, within its bounds."""
    likelihood = task.likelihood.clone_with_theta(task.likelihood.theta + move.change)
    theta = likelihood.rescaled(move.log_scale).theta
    low, high = likelihood.bounds.T
    return replace(task, likelihood=likelihood.clone_with_theta(np.clip(theta, low, high)))
