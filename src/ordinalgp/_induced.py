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
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ordinalgp._chunks import Chunk, ChunkedRows
from ordinalgp._site_store import SiteStore
from ordinalgp._sweeps import Sweep, Sweeps, sweep_chunk
from ordinalgp._typing import FloatArray
from ordinalgp.core.induced_evidence import InducedTask
from ordinalgp.core.inducing import Inducing, greedy_points
from ordinalgp.core.search import Found, maximise
from ordinalgp.core.streaming import InducedPosterior, Sums

SUBSET_ROWS, SAMPLE_ROWS = 800, 4096
_CANDIDATES = 20  # rows from which each inducing point is chosen
_ENOUGH = 1e-4  # of the noise variance: costs about half as many nats a row
_REFINE_STEPS = 10  # of the search on the sample, whose start is already good
_MANY = 20  # rows for each inducing point: then the posterior is better known than the model
_SETTLED, _SETTLED_FEW = 2e-5, 2e-8  # nats a row: a pass that promises less is the last


@dataclass(frozen=True, eq=False)
class Settled:
    """The result of all stages."""

    task: InducedTask
    posterior: InducedPosterior
    value: float
    path: FloatArray
    n_passes: int
    converged: bool
    left_out: FloatArray | None
    """latent mean and variance of each row without itself, (n, 2), where rows are in memory"""


@dataclass(eq=False)
class Passes:
    """Passes over all rows, with progress and a checkpoint after each."""

    sweeps: Sweeps
    task: InducedTask
    store: SiteStore
    verbose: int
    learn: bool
    """whether passes move the likelihood's parameters"""

    def settle(self, posterior: InducedPosterior, saved: dict[str, Any]) -> Settled:
        """Go over the rows until a further pass promises nothing."""
        task, n, done = self.task, self.sweeps.n_rows, int(saved.get("done", 0))
        step, last = float(saved.get("step", 1.0)), float(saved.get("last", np.inf))
        values, converged = list(saved.get("values", ())), False
        if not saved:
            self._save(task, posterior)
        for number in range(done, max(self.task.max_sweeps, done + 2)):
            began = time.perf_counter()
            sweep = Sweep(posterior, task.likelihood, task.smoothing, step)
            sums = self.sweeps.run(sweep)
            new = posterior.after(sums)
            # Laplace wants the curvatures at the mean that the pass began with: the new ones.
            at = new if task.smoothing == "mode" else posterior
            values.append(sums.evidence - at.half_log_det)
            moved = new.moved_from(posterior)
            change, gain = np.zeros_like(task.likelihood.theta), 0.0
            if self.learn:
                change, gain = _newton(sums, posterior.factor.T @ (new.mean - posterior.mean))
            posterior, used = new, task
            promise = (0.5 * moved**2 * len(new.mean) + gain) / n
            self._say(number, values[-1], promise, time.perf_counter() - began)
            many = n > _MANY * len(new.mean)
            still = promise <= _SETTLED_FEW or moved <= task.tol
            converged = number > 0 and (promise <= _SETTLED if many else still)
            if converged:
                break
            step = max(0.5 * step, 0.1) if moved > last else min(1.5 * step, 1.0)
            last = moved
            theta = _inside(task.likelihood.theta + change, task.likelihood.bounds)
            task = replace(task, likelihood=task.likelihood.clone_with_theta(theta))
            self._save(task, posterior, done=number + 1, step=step, last=last, values=values)
        path, kept = np.array(values), self.sweeps.left_out()
        return Settled(used, posterior, values[-1], path, number + 1, converged, kept)

    def _save(self, task: InducedTask, posterior: InducedPosterior, **state: Any) -> None:
        self.store.save(
            theta=task.theta,
            unit=getattr(task.likelihood, "unit", 1.0),
            Z=task.Z,
            precision=posterior.precision,
            shift=posterior.shift,
            **state,
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


def _newton(sums: Sums, moved: FloatArray) -> tuple[FloatArray, float]:
    """Newton step of the likelihood's parameters at fixed cavities, and what it promises.

    The sums are those of the posterior that the pass began with. Meanwhile the latent values have
    ``moved`` (in its coordinates), and the gradient with them: without that the latent function
    and the thresholds would each follow where the other was, and swap their scales for ever.
    """
    gradient = sums.d_likelihood + sums.coupling @ moved
    # A parameter that no row informs (an absent level) stays.
    live = np.diagonal(sums.information) > 1e-12 * np.max(np.diagonal(sums.information))
    step = np.zeros_like(gradient)
    F = sums.information[np.ix_(live, live)]
    step[live] = np.linalg.lstsq(F, gradient[live], rcond=1e-10)[0]
    step = np.clip(step, -1.0, 1.0)
    return step, float(0.5 * abs(step @ gradient))


def _inside(theta: FloatArray, bounds: FloatArray) -> FloatArray:
    return np.clip(theta, bounds[:, 0], bounds[:, 1])


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


def climb_sample(task: InducedTask, optimizer: Any, verbose: int) -> Found:
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
