"""Fitting many rows by blocks and neighbours, in stages.

1. Exact EP (or Laplace) on a subset searches the hyperparameters, from two starts.
2. The evidence of a few blocks, each given its halo, decides between the two and is climbed on.
3. The evidence of more blocks is climbed for a few steps.
4. Inference in every block gives the sites of all rows.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ordinalgp._typing import FloatArray
from ordinalgp.core.hyperprior import HyperPrior
from ordinalgp.core.search import Limits, Task, perturbed
from ordinalgp.many_rows.block_evidence import BlockEvidence, on_all_rows, on_blocks
from ordinalgp.many_rows.block_sites import BlockInference
from ordinalgp.many_rows.blocked_rows import BlockedRows
from ordinalgp.many_rows.blocks import feature_weights
from ordinalgp.many_rows.chunks import ArrayRows, Chunk
from ordinalgp.many_rows.dask_rows import DaskRows
from ordinalgp.many_rows.learned import Learned
from ordinalgp.many_rows.neighbour_model import NeighbourGP, learned_noise
from ordinalgp.many_rows.settings import ManyRowsSettings
from ordinalgp.many_rows.site_store import SiteStore, fingerprint_of
from ordinalgp.models.default_kernel import rough_kernel
from ordinalgp.models.exact import GPOptions, SearchSummary
from ordinalgp.models.training_rows import MergedRows, merge_rows
from ordinalgp.runtime.warning import warn_user
from ordinalgp.validation.options import fit_generator

_COLD = 100  # steps that only a search without a model to begin from may take
_SHORTER = np.log(4.0)  # of log length scales: the second start is for rougher functions


@dataclass(frozen=True, eq=False)
class Found:
    """Hyperparameters, and what their search left."""

    task: Any
    """with the kernel and the likelihood found"""
    weights: FloatArray
    """of the features in distances"""
    path: FloatArray
    """objective at the evaluations of the last stage"""


@dataclass(frozen=True, eq=False)
class _Climbed:
    """End of a search: what it learned, the objective, and its path."""

    learned: Learned
    value: float
    path: FloatArray


@dataclass(frozen=True, eq=False)
class NeighbourStages:
    """A fit by blocks and neighbours."""

    rows: Any
    """rows in chunks, or dask blocks"""
    n_levels: int
    neighbours: int
    options: GPOptions
    settings: ManyRowsSettings
    checkpoint: Any
    params: dict[str, Any]
    """parameters that a checkpoint must agree with"""
    first: Learned | None = None
    """result of a short fit, from which the search begins"""

    def fit(self) -> NeighbourGP:
        """Run all stages."""
        rng = fit_generator(self.options.search.random_state)
        every = _every_row(self.rows, rng)
        start = self.starting_task(every, rng)
        merged = merge_rows(every.X, every.codes, every.counts, start.kernel)
        store = self._store(every)
        saved = store.load()
        found = _from_checkpoint(start, saved) if saved else self._search(start, merged)
        rows = self._cut(merged, found.weights)
        try:
            model = self._infer(found, rows, store, saved)
        except KeyboardInterrupt as interrupt:
            if self.checkpoint is not None:
                told = "Finished blocks are kept in {!r}. The same fit resumes from there."
                interrupt.add_note(told.format(str(self.checkpoint)))
            raise
        store.remove()
        return model

    def starting_task(self, every: Chunk, rng: Any) -> Task:
        """A subset's task at the start, with a kernel of rough functions if none was given."""
        few, options = ArrayRows(every).sample(self.settings.subset_rows, rng), self.options
        X = np.asarray(few.X, dtype=float)
        if options.kernel is None:
            prior = options.hyperprior or HyperPrior(self.settings.length_scale_sd)
            options = replace(options, kernel=rough_kernel(X), hyperprior=prior)
        return options.starting_task(X, few.codes, few.counts, self.n_levels)[0]

    def _cut(self, merged: MergedRows, weights: FloatArray) -> BlockedRows:
        return BlockedRows.cut(merged, weights, self.settings.block_rows)

    def _store(self, every: Chunk) -> SiteStore:
        if self.checkpoint is None:
            return SiteStore(0)
        first = every.take(slice(0, self.settings.chunk_rows))
        return SiteStore(0, Path(self.checkpoint), fingerprint_of(self.params, every.n_rows, first))

    # ------------------------------------------------------------------------ hyperparameters

    def _search(self, start: Task, merged: MergedRows) -> Found:
        """Stages 1 to 3."""
        limits, options = self.settings, self.options
        if options.search.optimizer is None:
            return Found(start, feature_weights(start.kernel, start.X), np.empty(0))
        if self.first is None:
            known = self.on_subset(start)
        else:
            known = [replace(self.first, task=start.at(self.first.task.theta))]
        rows = self._cut(merged, feature_weights(known[0].task.kernel, start.X))
        few = on_blocks(start, rows, limits.halo_rows, limits.block_search_rows).patches
        same: dict[str, Any] = {"patches": few, "n_jobs": options.search.n_jobs}
        trials = [replace(each, task=BlockEvidence.like(each.task, **same)) for each in known]
        if len(trials) > 1:
            climbed = [self._climbed(each, limits.trial_steps) for each in trials]
            trials = [max(climbed, key=lambda each: each.value).learned]
        best = self._climbed(trials[0], limits.block_search_steps).learned
        weights = feature_weights(best.task.kernel, start.X)
        rows, jobs = self._cut(merged, weights), options.search.n_jobs
        many = on_blocks(best.task, rows, limits.halo_rows, limits.refine_rows, jobs)
        last = self._climbed(replace(best, task=many), limits.refine_steps)
        return Found(last.learned.task, weights, last.path)

    def on_subset(self, start: Task) -> list[Learned]:
        """The subset's task at its best hyperparameters, from two starts or more."""
        search, steps = self.options.search, self.options.steps
        starts = search.starts(start, default=False, towards=self.options.towards)
        if steps >= _COLD:
            starts.append(_rougher(start, starts[0]))
        steps = min(steps, self.settings.subset_steps)
        found = (search.search_evidence(start, [theta], Limits(steps)) for theta in starts)
        n_rows = float(start.counts.sum())
        return [Learned.of(task, result, n_rows) for task, result in found]

    def _climbed(self, start: Learned, steps: int) -> "_Climbed":
        """Climb the evidence of a start's task, with the curvatures of fewer rows."""
        task, steps = start.task, min(steps, self.options.steps)
        ends = start.limits(steps, self.settings.refine_gain, task.n_rows)
        found = self.options.search.search(task, [task.theta], ends)
        return _Climbed(Learned.of(task, found, task.n_rows), found.value, found.path)

    # ------------------------------------------------------------------------ sites

    def _infer(
        self, found: Found, rows: BlockedRows, store: SiteStore, saved: dict[str, Any]
    ) -> NeighbourGP:
        """Stage 4, and what leave-one-out predictions tell of the noise."""
        search, limits = self.options.search, self.settings
        like = BlockEvidence.like(found.task)
        remote = isinstance(self.rows, DaskRows)
        work = BlockInference(rows, like, limits.halo_rows, search.n_jobs, search.report, remote)
        columns, moving = work.run(store, saved, _notes(found))
        if moving:
            warn_user(
                f"Inference has not converged in {moving} of {len(rows.blocks)} blocks after "
                f"{like.max_sweeps} sweeps; raise max_sweeps.",
                ConvergenceWarning,
            )
        noise = learned_noise(like.likelihood, rows, columns, self.neighbours)
        every = on_all_rows(like, rows, limits.halo_rows, search.n_jobs)
        value = every.evaluate(every.theta).value
        path = found.path if len(found.path) else np.array([value])
        summary = SearchSummary(value, path, not moving, 1)
        sizes = self.neighbours, limits.halo_rows
        return NeighbourGP(like, rows, columns, *sizes, noise, summary)


def _every_row(rows: Any, rng: Any) -> Chunk:
    """All rows at once, also those without weight, wherever they are."""
    if isinstance(rows, ArrayRows):
        return rows.rows.take(slice(None))
    every: Chunk = rows.sample(rows.n_rows, rng)
    return every


def _rougher(task: Task, theta: FloatArray) -> FloatArray:
    """A start with shorter length scales; a random one where the kernel has none."""
    found, place = theta.copy(), 0
    for each in task.kernel.hyperparameters:
        if each.fixed:
            continue
        if each.name.split("__")[-1] == "length_scale":
            found[place : place + each.n_elements] -= _SHORTER
        place += each.n_elements
    if np.array_equal(found, theta):
        return perturbed(task, theta, np.random.RandomState(0))
    return np.asarray(np.clip(found, *task.bounds.T))


def _notes(found: Found) -> dict[str, Any]:
    """State of the search that a checkpoint keeps."""
    likelihood = found.task.likelihood
    bounds = getattr(likelihood, "noise_bounds", None) or ()
    theta, unit = found.task.theta, getattr(likelihood, "unit", 1.0)
    notes = {"theta": theta, "unit": unit, "noise_bounds": bounds}
    return {**notes, "weights": found.weights, "path": found.path}


def _from_checkpoint(start: Task, saved: dict[str, Any]) -> Found:
    """The hyperparameters of an interrupted fit."""
    likelihood = start.likelihood
    if hasattr(likelihood, "noise_bounds"):
        bounds = tuple(saved["noise_bounds"].tolist()) or None
        likelihood = replace(likelihood, unit=float(saved["unit"]), noise_bounds=bounds)
    task = replace(start, likelihood=likelihood).at(saved["theta"])
    return Found(task, saved["weights"], saved["path"])
