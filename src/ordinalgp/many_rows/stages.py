"""Fitting with inducing points, in stages from a small subset to all rows.

1. Exact EP (or Laplace) on a subset finds the kernel, as it would on all rows.
2. Inducing points are chosen under that kernel.
3. The evidence of the model with inducing points is climbed on a larger sample.
4. Passes over all rows settle the posterior; each also moves the likelihood's parameters by one
   Newton step, from sums that the pass makes anyway. Very many rows begin with passes over
   samples of them, each several times larger than the last, so that two passes over all remain.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ordinalgp._typing import FloatArray
from ordinalgp.core.ep import cavities, lacks_cavity
from ordinalgp.core.likelihoods import Thresholds
from ordinalgp.core.problem import Start
from ordinalgp.core.quasi_newton import FIRST_PRECISION
from ordinalgp.many_rows.chunks import ArrayRows, Chunk, FactoryRows, scan
from ordinalgp.many_rows.dask_rows import DaskRows, DaskSweeps, blocks_of, is_dask
from ordinalgp.many_rows.induced_evidence import InducedEvidence, InducedTask
from ordinalgp.many_rows.inducing import InducedPosterior, greedy_points
from ordinalgp.many_rows.learned import Learned
from ordinalgp.many_rows.model import InducedGP
from ordinalgp.many_rows.passes import LocalSweeps, PassRunner, Sweeps, as_read_again
from ordinalgp.many_rows.settings import ManyRowsSettings
from ordinalgp.many_rows.site_store import SiteStore, fingerprint_of
from ordinalgp.models.exact import GPOptions, SearchSummary, warn_without_cavity
from ordinalgp.runtime.scratch import scratch_folder
from ordinalgp.runtime.warning import warn_user
from ordinalgp.validation.options import fit_generator


def check_threshold_model(likelihood: Any) -> None:
    """Raise unless a likelihood, a word or an object, can be used with inducing points."""
    if not isinstance(likelihood, str | Thresholds):
        raise TypeError(
            "Inducing points need a threshold model, because they change the variance and scale "
            f"of the likelihood, but likelihood is a {type(likelihood).__name__}. "
            "Use inducing=None, or inherit from ordinalgp.core.likelihoods.Thresholds."
        )


def remote_rows(
    X: Any, y: Any, sample_weight: Any, categories: Any, n_jobs: int | None
) -> DaskRows | FactoryRows | None:
    """Rows of a dask array or of a factory of chunks, read once; None for rows in memory."""
    if is_dask(X):
        return blocks_of(X, y, sample_weight, categories)
    if not callable(X):
        return None
    if y is not None or sample_weight is not None:
        raise ValueError(
            "A factory of chunks gives (X, y) or (X, y, sample_weight) itself, but y or "
            "sample_weight was passed beside it. Pass y=None."
        )
    return scan(X, categories, n_jobs)


@dataclass(frozen=True, eq=False)
class Stages:
    """A fit with inducing points."""

    rows: Any
    """rows in chunks, or dask blocks"""
    n_features: int
    n_levels: int
    points: Any
    """number of points, or the points"""
    auto: bool
    """whether fewer points may do"""
    options: GPOptions
    settings: ManyRowsSettings
    checkpoint: Any
    params: dict[str, Any]
    """parameters that a checkpoint must agree with"""
    first: Learned | None = None
    """the result of stage 1, if it is known"""

    def fit(self) -> InducedGP:
        """Run all stages."""
        n = self.rows.n_rows
        if isinstance(self.points, int) and self.points > n:
            raise ValueError(
                f"inducing={self.points} points were asked for, but there are {n} rows. "
                f"Use at most {n}, or inducing=None for the exact model."
            )
        found = self._run()
        if found.without_cavity:
            warn_without_cavity(f"of {found.without_cavity:,} rows")
        elif not found.summary.converged:
            passes = f"The posterior still moves after {found.summary.n_iter} passes"
            warn_user(f"{passes}; raise max_sweeps.", ConvergenceWarning)
        task = InducedTask.like(found.task, found.task.Z)
        if isinstance(self.rows, ArrayRows) and n <= self.settings.kept_rows:
            task = task.on(self.rows.rows.take(slice(None)))
        return replace(found, task=task)

    def _run(self) -> InducedGP:
        n_sample = self.settings.sample_rows
        with scratch_folder() as scratch:
            store = self._store(scratch)
            saved = store.load()
            if saved:
                task, start = self._from_checkpoint(saved)
            else:
                rng = fit_generator(self.options.search.random_state)
                # Read once, then drawn from.
                pool = ArrayRows(self.rows.sample(self.settings.pool_rows, rng))
                task, sites = self._model_of_sample(pool, rng)
                if self.rows.n_rows <= n_sample:
                    return _infer_at_once(task, sites)
                task, start = self._first_posterior(as_read_again(task), sites, pool, rng)
            try:
                found = self._passes(self.rows, task, store).run(start, saved)
            except KeyboardInterrupt as interrupt:
                if self.checkpoint is not None:
                    told = "Finished passes are kept in {!r}. The same fit resumes from there."
                    interrupt.add_note(told.format(str(self.checkpoint)))
                raise
            store.remove()
        return found

    def _passes(self, rows: Any, task: InducedTask, store: SiteStore) -> PassRunner:
        search, limits = self.options.search, self.settings
        if isinstance(rows, DaskRows):
            sweeps: Sweeps = DaskSweeps(rows)
        else:
            sweeps = LocalSweeps(rows, store, search.n_jobs, search.report, limits.report_seconds)
        learn = search.optimizer is not None
        return PassRunner(sweeps, task, store, limits, search.report, learn)

    def _store(self, scratch: Path) -> SiteStore:
        rows = self.rows
        if isinstance(rows, DaskRows) and self.checkpoint is not None:
            raise ValueError(
                "checkpoint keeps the sites of rows in a folder, but those of dask arrays stay "
                "with their workers. Pass checkpoint=None, or a factory of functions that read "
                "chunks, under joblib.parallel_config(backend='dask')."
            )
        if rows.n_rows <= self.settings.sample_rows or isinstance(rows, DaskRows):
            return SiteStore(0)
        if self.checkpoint is None:
            folder = scratch if isinstance(rows, FactoryRows) else None
            return SiteStore(rows.n_rows, folder)
        first = next(iter(rows)).load()
        mark = fingerprint_of(self.params, rows.n_rows, first)
        return SiteStore(rows.n_rows, Path(self.checkpoint), mark)

    def _model_of_sample(self, pool: ArrayRows, rng: Any) -> tuple[InducedTask, Start | None]:
        """Stages 1 to 3: kernel from a subset, inducing points, refinement on a sample.

        The second is a start for inference on that sample.
        """
        limits, search = self.settings, self.options.search
        subset = pool.sample(limits.subset_rows, rng)
        first = self.on_subset(subset) if self.first is None else self.first
        exact = first.task
        places = self._candidates(pool, rng)
        if places.shape[1] != self.n_features:
            raise ValueError(
                f"inducing points have {places.shape[1]} columns, but X has {self.n_features}."
            )
        few = pool.n_rows <= limits.subset_rows
        sample = subset if few else pool.sample(limits.sample_rows, rng)
        task = InducedTask.like(exact, self._chosen(exact, places)).on(sample)
        if search.optimizer is None:
            return task, None
        rows = float(sample.counts.sum())
        ends = first.limits(limits.refine_steps, limits.refine_gain, rows)
        found = search.search(task, [task.theta], ends)
        task = task.at(found.theta)
        task = replace(task, Z=self._chosen(task, places))
        # Laplace begins with weights of the points, which are others now.
        return task, found.start if task.smoothing == "cavity" else None

    def on_subset(self, subset: Chunk) -> Learned:
        """Stage 1: the task of a subset at its best hyperparameters."""
        rows = subset.X, subset.codes, subset.counts
        start, _ = self.options.starting_task(*rows, self.n_levels)
        exact, found = self.options.search_task(start)
        return Learned.of(exact, found, float(subset.counts.sum()))

    def _candidates(self, pool: ArrayRows, rng: Any) -> FloatArray:
        """Inputs among which inducing points are chosen, or the points themselves if given."""
        if not isinstance(self.points, int):
            return np.asarray(self.points, dtype=float)
        wanted = self.settings.candidates_per_point * self.points
        return pool.sample(max(wanted, self.settings.sample_rows), rng).X

    def _chosen(self, task: Any, X: FloatArray) -> FloatArray:
        """Inducing points: those given, or spread over ``X`` so that little variance is left."""
        if not isinstance(self.points, int):
            return X
        share = self.settings.unexplained_variance if self.auto else 0.0
        enough = share * task.likelihood.noise**2
        return X[greedy_points(task.kernel, X, self.points, enough)]

    def _from_checkpoint(self, saved: dict[str, Any]) -> tuple[InducedTask, InducedPosterior]:
        """The task and the posterior of the interrupted passes; a few rows tell their shape."""
        few = next(iter(self.rows)).load().take(slice(0, 2))
        exact, _ = self.options.starting_task(few.X, few.codes, few.counts, self.n_levels)
        task = InducedTask.like(exact, saved["Z"])
        bounds = tuple(saved["noise_bounds"].tolist()) or None
        likelihood = replace(task.likelihood, unit=float(saved["unit"]), noise_bounds=bounds)
        task = replace(task, likelihood=likelihood).at(saved["theta"])
        return task, InducedPosterior(task.inducing, saved["precision"], saved["shift"])

    def _first_posterior(
        self, task: InducedTask, sites: Start | None, pool: ArrayRows, rng: Any
    ) -> tuple[InducedTask, InducedPosterior]:
        """The posterior that passes over all rows begin with: after passes over samples."""
        limits = self.settings
        posterior = on_own_rows(task.relaxed(FIRST_PRECISION), sites)[0]
        for size in limits.warm_rows:
            if self.rows.n_rows < limits.warm_share * size:
                break
            part = ArrayRows(pool.sample(size, rng), limits.chunk_rows)
            warm = self._passes(part, task, SiteStore(size)).run(posterior, {})
            task, posterior = warm.task, warm.posterior
        return task, posterior


def on_own_rows(
    task: InducedTask, start: Start | None = None
) -> tuple[InducedPosterior, InducedEvidence]:
    """Posterior given the task's own rows, and the evidence of these."""
    evidence = task.inferred(start)
    prior = InducedPosterior.prior(task.inducing)
    return prior.given(evidence.rows, evidence.found.sites, task.counts), evidence


def _infer_at_once(task: InducedTask, start: Start | None) -> InducedGP:
    """The result where all rows fit into one inference."""
    posterior, evidence = on_own_rows(task, start)
    found = evidence.found
    cavity = cavities(found.marginal, found.sites, np.minimum(task.counts, 1.0))
    left = np.column_stack([cavity.mean, cavity.var + evidence.rows.residual])
    path = np.array([evidence.value])
    summary = SearchSummary(evidence.value, path, found.converged, found.n_sweeps)
    without = int(lacks_cavity(task.counts, found.marginal, found.sites).sum())
    return InducedGP(task, posterior, summary, left, without if task.smoothing == "cavity" else 0)
