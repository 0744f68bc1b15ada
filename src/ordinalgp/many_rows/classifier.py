"""Many rows: what ``OrdinalGPClassifier`` does when it uses inducing points."""

import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples, check_consistent_length

from ordinalgp._typing import FloatArray
from ordinalgp.core.ep import cavities
from ordinalgp.core.gaussian import Moments, Sites
from ordinalgp.core.search import Task
from ordinalgp.many_rows.chunks import ArrayRows, Chunk, ChunkedRows, FactoryRows, scan
from ordinalgp.many_rows.dask_rows import DaskRows, DaskSweeps, blocks_of, is_dask
from ordinalgp.many_rows.induced_evidence import InducedTask
from ordinalgp.many_rows.induced_posterior import InducedPosterior
from ordinalgp.many_rows.inducing import Inducing
from ordinalgp.many_rows.passes import (
    SAMPLE_ROWS,
    SUBSET_ROWS,
    InducedFit,
    PassRunner,
    absorb,
    candidates,
    choose_points,
    climb_sample,
    posterior_on_sample,
)
from ordinalgp.many_rows.site_store import SiteStore, fingerprint_of
from ordinalgp.many_rows.sweeps import LocalSweeps, one_thread
from ordinalgp.models.latent import LatentClassifier
from ordinalgp.models.training_rows import merge_rows
from ordinalgp.validation.labels import encode_levels
from ordinalgp.validation.weights import check_weights

_EXACT_ROWS, _AUTO_POINTS = 2000, 512
_POOL_ROWS = 100_000  # at least the largest number of rows that a stage before the last looks at
WARM_ROWS = (20_000, 100_000)  # rows of the first passes, where there are several times more
_WARM_SHARE = 3
_KEPT_ROWS = 20_000  # for log_marginal_likelihood at other hyperparameters


class LargeClassifier(LatentClassifier):
    """Fits exactly, or with inducing points where ``inducing`` asks for them."""

    inducing: Any
    checkpoint: Any
    max_sweeps: int
    tol: float
    _posterior: Any
    _sites: Sites
    _coming: Any

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        self._check_parameters()
        points = self._points_for(X)
        if points is None:
            self.__dict__.pop("inducing_points_", None)
            return super()._fit(X, y, sample_weight)
        return self._fit_points(X, y, sample_weight, points)

    def _fit_points(self, X: Any, y: Any, sample_weight: Any, points: Any) -> Self:
        rows = self._chunked(X, y, sample_weight)
        if isinstance(points, int) and points > rows.n_rows:
            raise ValueError(
                f"inducing={points} points were asked for, but there are {rows.n_rows} rows. "
                f"Use at most {rows.n_rows}, or inducing=None for the exact model."
            )
        return self._keep_settled(self._stages(rows, points), rows)

    def _points_for(self, X: Any) -> Any:
        """Number or array of inducing points, or None for the exact model."""
        chunks = callable(X) or is_dask(X)
        if self.inducing is None:
            if chunks:
                what = "a dask array" if is_dask(X) else "a factory of chunks"
                raise ValueError(
                    "inducing=None fits the exact model, which needs all rows at once, but X is "
                    f"{what}. Use inducing='auto' or a number."
                )
            return None
        if isinstance(self.inducing, str):
            return _AUTO_POINTS if chunks or _num_samples(X) > _EXACT_ROWS else None
        if np.ndim(self.inducing) == 0:
            return int(self.inducing)
        Z = np.asarray(self.inducing, dtype=float)
        if Z.ndim != 2 or len(Z) == 0 or not np.all(np.isfinite(Z)):
            raise ValueError(
                f"inducing must be a finite array of shape (m, n_features), but has shape "
                f"{Z.shape} or holds NaN or infinity."
            )
        return np.unique(Z, axis=0)

    def _chunked(self, X: Any, y: Any, sample_weight: Any) -> ChunkedRows:
        """Read levels and check inputs, of arrays or of chunks."""
        if is_dask(X):
            return self._remote(blocks_of(X, y, sample_weight, self.categories))
        if callable(X):
            if y is not None or sample_weight is not None:
                raise ValueError(
                    "A factory of chunks gives (X, y) or (X, y, sample_weight) itself, but y or "
                    "sample_weight was passed beside it. Pass y=None."
                )
            return self._remote(scan(X, self.categories, self.n_jobs))
        X = self._checked(X, [np.float64, np.float32], reset=True)  # as it is, to save memory
        levels = self._read_levels(X, y)
        weights = check_weights(sample_weight, len(X), levels.codes)
        return ArrayRows(Chunk(X, levels.codes, weights))

    def _remote(self, rows: Any) -> Any:
        self.categories_, self.classes_ = rows.categories, rows.classes
        self.n_features_in_ = rows.n_features
        return rows

    # ------------------------------------------------------------------------- stages

    def _stages(self, rows: ChunkedRows, points: Any) -> InducedFit:
        with tempfile.TemporaryDirectory() as scratch:
            store = self._store(rows, scratch)
            saved = store.load()
            if saved:
                task, start = self._from_checkpoint(saved, rows)
            else:
                rng = check_random_state(self.random_state)
                pool = ArrayRows(rows.sample(_POOL_ROWS, rng))  # read once, then drawn from
                with one_thread():  # 5 s where two threads, waiting for each other, took 16
                    task = self._points(pool, points, rng)
                if rows.n_rows <= SAMPLE_ROWS:
                    return self._settle_at_once(task)
                task, start = self._start(task, rows.n_rows, pool, rng)
            settled = self._passes(rows, task, store).run(start, saved)
            store.remove()
        return settled

    def _passes(self, rows: Any, task: InducedTask, store: SiteStore) -> PassRunner:
        local = not isinstance(rows, DaskRows)
        sweeps = LocalSweeps(rows, store, self.n_jobs, self.verbose) if local else DaskSweeps(rows)
        return PassRunner(sweeps, task, store, self.verbose, self.optimizer is not None)

    def _store(self, rows: ChunkedRows, scratch: str) -> SiteStore:
        if isinstance(rows, DaskRows) and self.checkpoint is not None:
            raise ValueError(
                "checkpoint keeps the sites of rows in a folder, but those of dask arrays stay "
                "with their workers. Pass checkpoint=None, or a factory of functions that read "
                "chunks, under joblib.parallel_config(backend='dask')."
            )
        if rows.n_rows <= SAMPLE_ROWS or isinstance(rows, DaskRows):
            return SiteStore(0)
        if self.checkpoint is None:
            folder = Path(scratch) if isinstance(rows, FactoryRows) else None
            return SiteStore(rows.n_rows, folder)
        first = next(iter(rows)).load()
        changeable = ("n_jobs", "verbose", "checkpoint", "decision")
        params = {k: v for k, v in self.get_params().items() if k not in changeable}
        mark = fingerprint_of(params, rows.n_rows, first)
        return SiteStore(rows.n_rows, Path(self.checkpoint), mark)

    def _points(self, rows: ArrayRows, points: Any, rng: Any) -> InducedTask:
        """Stages 1 to 3: kernel from a subset, inducing points, refinement on a sample."""
        subset = rows.sample(SUBSET_ROWS, rng)
        exact = self._on_subset(subset)
        places, enough = candidates(rows, points, rng), isinstance(self.inducing, str)
        if places.shape[1] != self.n_features_in_:
            raise ValueError(
                f"inducing points have {places.shape[1]} columns, but X has {self.n_features_in_}."
            )
        sample = subset if rows.n_rows <= SUBSET_ROWS else rows.sample(SAMPLE_ROWS, rng)
        Z = choose_points(exact, places, points, enough=enough)
        task = self._induced_task(exact, sample, Z)
        if self.optimizer is None:
            return task
        task = task.at(climb_sample(task, self.optimizer, self.verbose).theta)
        return replace(task, Z=choose_points(task, places, points, enough=enough))

    def _on_subset(self, subset: Chunk) -> Task:
        kernel = self._starting_kernel(subset.X)
        merged = merge_rows(subset.X, subset.codes, subset.counts, kernel)
        task: Task = self._task(merged, kernel, len(self.categories_))
        return task.at(self._maximise(task).theta)

    def _induced_task(self, exact: Task, sample: Chunk, Z: FloatArray) -> InducedTask:
        return InducedTask(
            sample.X,
            exact.kernel,
            exact.likelihood,
            Z,
            sample.codes,
            sample.counts,
            smoothing=exact.smoothing,
            max_sweeps=self.max_sweeps,
            tol=self.tol,
        )

    def _from_checkpoint(
        self, saved: dict[str, Any], rows: ChunkedRows
    ) -> tuple[InducedTask, InducedPosterior]:
        """Where the interrupted passes stood; a few rows tell the shape of things."""
        few = next(iter(rows)).load().take(slice(0, 2))
        kernel = self._starting_kernel(few.X)
        merged = merge_rows(few.X, few.codes, few.counts, kernel)
        task = self._induced_task(
            self._task(merged, kernel, len(self.categories_)), few, saved["Z"]
        )
        likelihood = replace(task.likelihood, unit=float(saved["unit"]))
        task = replace(task, likelihood=likelihood).at(saved["theta"])
        inducing = Inducing(task.kernel, task.Z)
        return task, InducedPosterior(inducing, saved["precision"], saved["shift"])

    def _start(
        self, task: InducedTask, n_rows: int, pool: ArrayRows, rng: Any
    ) -> tuple[InducedTask, InducedPosterior]:
        """Where the passes over all rows begin: after passes over samples, where there are many."""
        posterior = posterior_on_sample(task.relaxed())[0]
        for size in WARM_ROWS:
            if n_rows < _WARM_SHARE * size:
                break
            part = ArrayRows(pool.sample(size, rng))
            warm = self._passes(part, task, SiteStore(size)).run(posterior, {})
            task, posterior = warm.task, warm.posterior
        return task, posterior

    def _settle_at_once(self, task: InducedTask) -> InducedFit:
        posterior, found, value = posterior_on_sample(task)
        residual = posterior.inducing.rows(task.X).residual
        cavity = cavities(found.marginal, found.sites, np.minimum(task.counts, 1.0))
        left = np.column_stack([cavity.mean, cavity.var + residual])
        path = np.array([value])
        return InducedFit(task, posterior, value, path, found.n_sweeps, found.converged, left)

    # -------------------------------------------------------------------------- result

    def _keep_settled(self, settled: InducedFit, rows: ChunkedRows) -> Self:
        if not settled.converged:
            warnings.warn(
                f"The posterior still moves after {settled.n_passes} passes; raise max_sweeps.",
                ConvergenceWarning,
                stacklevel=4,
            )
        self.log_marginal_likelihood_value_ = settled.value
        self.evidence_path_ = settled.path
        self.converged_, self.n_iter_ = settled.converged, settled.n_passes
        self._observation = np.arange(0 if settled.left_out is None else rows.n_rows)
        self._left_out = np.empty((0, self.n_features_in_))
        self._apart = settled.left_out
        self._keep_induced(_with_rows(settled.task, rows), settled.posterior)
        return self

    def _keep_induced(self, task: InducedTask, posterior: InducedPosterior) -> None:
        self._fitted_task, self._posterior, self._support = task, posterior, task.Z
        self.inducing_points_ = task.Z
        self._name_likelihood(task)
        posterior.mean, posterior.inducing.inverse_factor  # noqa: B018 (then only read)

    def _name_likelihood(self, task: Any) -> None:
        raise TypeError(f"{type(self).__name__} does not say what its parameters are called")

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from further rows, as one more chunk.

        The first call is ``fit``. After it hyperparameters and inducing points stay as they are,
        and the posterior takes the new rows in; in an exact model the rows of the first call
        become the inducing points.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Further inputs.
        y : array-like of shape (n_samples,)
            Their levels, among those of the first call, of ``classes`` or of ``categories``.
        classes : array-like, default=None
            Numbers that ``y`` can hold, also in later calls; words are named by ``categories``.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts.

        Returns
        -------
        self
            The estimator itself.
        """
        if not hasattr(self, "kernel_"):
            return self._unless_it_fails(self._first_part, X, y, classes, sample_weight)
        return self._unless_it_fails(self._take_in, X, y, sample_weight)

    def _first_part(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Self:
        numbers = classes is not None and np.asarray(classes).dtype.kind in "biuf"
        self._coming = np.unique(classes) if numbers else None
        self._fit(X, y, sample_weight)
        del self._coming
        return self

    def _declared_levels(self) -> Any:
        return getattr(self, "_coming", None) if self.categories is None else self.categories

    def _rows_as_points(self) -> None:
        """Write the exact posterior as one with an inducing point at every input."""
        exact: Task = self._fitted_task
        inducing = Inducing(exact.kernel, exact.X)
        inputs = exact.projection.apply(np.arange(float(len(exact.X)))).astype(np.intp)
        rows = inducing.rows(exact.X[inputs])
        posterior = InducedPosterior.prior(inducing).given(rows, self._sites, exact.counts)
        empty = Chunk(exact.X[:0], exact.y[:0], exact.counts[:0])
        self._keep_induced(self._induced_task(exact, empty, exact.X), posterior)

    def _take_in(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """EP (or Newton) on the new rows, the old sites held."""
        X = self._check_inputs(X, reset=False)
        # With two known levels behind them, rows may all be of one level.
        codes = encode_levels(np.append(y, self.categories_[:2]), self.categories_).codes[:-2]
        check_consistent_length(X, codes)
        rows = ArrayRows(Chunk(X, codes, check_weights(sample_weight, len(X))))
        if not hasattr(self, "inducing_points_"):
            self._rows_as_points()
        task, posterior = self._fitted_task, self._posterior
        for chunk in rows:
            posterior = absorb(chunk, posterior, task)
        self.classes_ = np.unique(np.append(self.classes_, self.categories_[codes]))
        self._apart = None
        self._keep_induced(task, posterior)
        return self


def _with_rows(task: InducedTask, rows: ChunkedRows) -> InducedTask:
    """The task with all rows where they are few enough to be kept, else with none."""
    few = isinstance(rows, ArrayRows) and rows.n_rows <= _KEPT_ROWS
    kept = rows.rows.take(slice(None)) if isinstance(rows, ArrayRows) and few else None
    if kept is None:
        return replace(task, X=task.X[:0], y=task.y[:0], counts=task.counts[:0])
    return replace(task, X=kept.X, y=kept.codes, counts=kept.counts)


def leave_out(apart: FloatArray | None) -> Moments:
    """Moments of rows left out, where they were kept."""
    if apart is None:
        raise ValueError(
            "Leave-one-out moments of the rows were not kept: the model was loaded from a file, or "
            "its rows were read in chunks. Fit arrays in memory to have them."
        )
    return Moments(apart[:, 0], apart[:, 1])
