"""Fitting with inducing points, in stages from a small subset to all rows.

1. Exact EP (or Laplace) on a subset finds the kernel, as it would on all rows.
2. Inducing points are chosen under that kernel.
3. The evidence of the model with inducing points is climbed on a larger sample.
4. Passes over all rows settle the posterior; each also moves the likelihood's parameters by one
   Newton step, from sums that the pass makes anyway. Very many rows begin with passes over 100,000
   of them, so that two passes over all remain.
"""

import sys
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from ordinalgp._chunks import Chunk, ChunkedRows
from ordinalgp._site_store import SiteStore
from ordinalgp._typing import FloatArray
from ordinalgp.core.ep import cavities
from ordinalgp.core.gaussian import Sites
from ordinalgp.core.induced_evidence import InducedTask
from ordinalgp.core.inducing import Inducing, greedy_points
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.search import Found, maximise
from ordinalgp.core.streaming import InducedPosterior, Observed, Sums

SUBSET_ROWS, SAMPLE_ROWS, WARM_ROWS = 800, 4096, 100_000
_CANDIDATES = 20  # rows from which each inducing point is chosen
_REFINE_STEPS = 10  # of the search on the sample, whose start is already good
_SETTLED = 2e-5  # nats a row: a pass that promises less than this is the last


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


def sweep_chunk(
    chunk: Chunk,
    sites: FloatArray,
    posterior: InducedPosterior,
    likelihood: OrdinalProbit,
    smoothing: Any,
    step: float,
) -> tuple[FloatArray, Sums]:
    """One chunk's part of a pass: its new sites (c, 4), and sums of order m^2."""
    rows = posterior.inducing.rows(chunk.X)
    observed = Observed(chunk.codes, chunk.counts, likelihood, smoothing)
    old = Sites(sites[:, 0], sites[:, 1])
    seen, sums = observed.sweep(rows, old, posterior, step)
    left = cavities(seen.marginal, old, np.minimum(chunk.counts, 1.0))
    columns = seen.sites.tau, seen.sites.nu, left.mean, left.var + rows.residual
    return np.column_stack(columns), sums


@dataclass(eq=False)
class Passes:
    """Passes over all rows, each through joblib, with progress and a checkpoint after each."""

    rows: ChunkedRows
    task: InducedTask
    store: SiteStore
    n_jobs: int | None
    verbose: int
    learn: bool
    """whether passes move the likelihood's parameters"""

    def settle(self, posterior: InducedPosterior, saved: dict[str, Any]) -> Settled:
        """Go over the rows until a further pass promises nothing."""
        task, n, done = self.task, self.rows.n_rows, int(saved.get("done", 0))
        step, last = float(saved.get("step", 1.0)), float(saved.get("last", np.inf))
        values, converged = list(saved.get("values", ())), False
        for number in range(done, max(self.task.max_sweeps, done + 2)):
            began = time.perf_counter()
            sums = self._pass(posterior, task.likelihood, step)
            self.store.finish_pass()
            new = InducedPosterior.of(posterior.inducing, sums)
            # Laplace wants the curvatures at the mean that the pass began with: the new ones.
            at = new if task.smoothing == "mode" else posterior
            values.append(sums.evidence - at.half_log_det)
            moved = new.moved_from(posterior)
            change, gain = _newton(sums) if self.learn else (0.0 * task.likelihood.theta, 0.0)
            posterior, used = new, task
            promise = (0.5 * moved**2 * len(new.mean) + gain) / n
            self._say(number, values[-1], promise, time.perf_counter() - began)
            converged = number > 0 and (
                promise <= _SETTLED if n > 20 * len(new.mean) else moved <= task.tol
            )
            if converged:
                break
            step = max(0.5 * step, 0.1) if moved > last else min(1.5 * step, 1.0)
            last = moved
            # Sites and parameters move at once, each as if the other stood still. Along most
            # directions that is right; along the common scale a whole step goes twice too far.
            # Two thirds leave a third of the error on either.
            pace = 1.0 if number == 0 else 2.0 / 3.0
            task = replace(
                task,
                likelihood=task.likelihood.clone_with_theta(
                    _inside(task.likelihood.theta + pace * change, task.likelihood.bounds)
                ),
            )
            self.store.save(
                theta=task.theta,
                Z=task.Z,
                done=number + 1,
                step=step,
                last=last,
                values=values,
                precision=posterior.precision,
                shift=posterior.shift,
            )
        return Settled(
            used,
            posterior,
            values[-1],
            np.array(values),
            number + 1,
            converged,
            self.store.old[:, 2:],
        )

    def _pass(self, posterior: InducedPosterior, likelihood: Any, step: float) -> Sums:
        posterior.factor, posterior.mean, posterior.inducing.factor  # noqa: B018 (shared by all workers)
        work = delayed(sweep_chunk)
        old, new, start = self.store.old, self.store.new, 0
        jobs = (
            work(chunk, np.array(sites), posterior, likelihood, self.task.smoothing, step)
            for chunk, sites in _beside(self.rows, old)
        )
        total = Sums.zero(len(posterior.mean), len(likelihood.theta))
        for sites, sums in Parallel(n_jobs=self.n_jobs, prefer="threads", return_as="generator")(
            jobs
        ):
            new[start : start + len(sites)] = sites
            start += len(sites)
            total = total + sums
        return total

    def _say(self, number: int, value: float, promise: float, seconds: float) -> None:
        if self.verbose:
            rate = self.rows.n_rows / max(seconds, 1e-9)
            print(
                f"pass {number + 1}: {self.rows.n_rows:,} rows, {rate:,.0f} rows/s, log evidence "
                f"{value:.1f}, still to gain {promise:.1e} a row",
                file=sys.stderr,
                flush=True,
            )


def _beside(rows: ChunkedRows, sites: FloatArray) -> Any:
    """Chunks with their part of the sites."""
    start = 0
    for chunk in rows:
        stop = start + len(chunk.codes)
        yield chunk, sites[start:stop]
        start = stop


def _newton(sums: Sums) -> tuple[FloatArray, float]:
    """Newton step of the likelihood's parameters at fixed cavities, and what it promises."""
    # A parameter that no row informs (an absent level) stays.
    live = np.diagonal(sums.information) > 1e-12 * np.max(np.diagonal(sums.information))
    step = np.zeros_like(sums.d_likelihood)
    F = sums.information[np.ix_(live, live)]
    step[live] = np.linalg.lstsq(F, sums.d_likelihood[live], rcond=1e-10)[0]
    step = np.clip(step, -1.0, 1.0)
    return step, float(0.5 * abs(step @ sums.d_likelihood))


def _inside(theta: FloatArray, bounds: FloatArray) -> FloatArray:
    return np.clip(theta, bounds[:, 0], bounds[:, 1])


def choose_points(kernel: Any, rows: ChunkedRows, points: Any, rng: Any) -> FloatArray:
    """Inducing points: those given, or spread over a sample so that little variance is left."""
    if not isinstance(points, int | np.integer):
        return np.asarray(points, dtype=float)
    X = rows.sample(max(_CANDIDATES * int(points), SAMPLE_ROWS), rng).X
    Z: FloatArray = X[greedy_points(kernel, X, int(points))]
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
    observed = Observed(task.y, task.counts, task.likelihood, task.smoothing)
    rows = inducing.rows(task.X)
    sums = observed.sums(
        rows, observed.survey(rows, found.sites, InducedPosterior.prior(inducing)), found.sites
    )
    return InducedPosterior.of(inducing, sums), found, value


def absorb(chunk: Chunk, before: InducedPosterior, task: InducedTask) -> InducedPosterior:
    """The posterior with a chunk's rows taken in, the sites of all other rows held."""
    sites, posterior, step, last = np.zeros((len(chunk.codes), 4)), before, 1.0, np.inf
    for _ in range(task.max_sweeps):
        sites, sums = sweep_chunk(chunk, sites, posterior, task.likelihood, task.smoothing, step)
        new = replace(
            before,
            precision=before.precision + sums.precision,
            shift=before.shift + sums.shift,
        )
        moved, posterior = new.moved_from(posterior), new
        if moved <= max(task.tol, 1e-4):
            break
        step = max(0.5 * step, 0.1) if moved > last else min(1.5 * step, 1.0)
        last = moved
    return posterior
