"""What classifiers with one latent Gaussian process have in common."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.gaussian_process.kernels import RBF
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ordinalgp._base import OrdinalClassifier
from ordinalgp._rows import MergedRows, merge_rows
from ordinalgp._typing import FloatArray, IntArray
from ordinalgp._validation import (
    allows_missing,
    check_kernel,
    check_memory,
    check_number,
    check_option,
    check_weights,
)
from ordinalgp.core.gaussian import Moments, Posterior
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.search import Found, Trainable, maximise, perturbed

_PREDICT_BLOCK = 2**23  # numbers in one block of cross-covariances: 64 MB


class LatentClassifier(OrdinalClassifier):
    """Rows in, hyperparameters searched, a latent posterior kept, levels predicted from it.

    Subclasses say what to search (``_task``, ``_starts``), what to keep (``_settle``) and what
    links the latent function to the levels (``_link``).
    """

    kernel: Any
    optimizer: Any
    n_restarts_optimizer: int
    n_jobs: int | None
    random_state: Any
    verbose: int
    kernel_: Any
    _link: OrdinalProbit
    _posterior: Posterior
    _support: FloatArray
    """inputs whose covariance with new ones the posterior asks for"""
    _prior_mean: float = 0.0
    _fitted_task: Any
    _observation: IntArray
    _left_out: FloatArray

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find hyperparameters and posterior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training inputs; standardise them for the default kernel.
        y : array-like of shape (n_samples,)
            Ordered levels: numbers, booleans, an ordered categorical, or any labels named
            by ``categories``.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts.

        Returns
        -------
        self
            The fitted estimator itself.
        """
        return self._unless_it_fails(self._fit, X, y, sample_weight)

    def _unless_it_fails(self, learn: Callable[..., Self], *data: Any) -> Self:
        before = self.__dict__.copy()
        try:
            return learn(*data)
        except BaseException:  # whatever stops a fit, an interrupt too, an old model stays whole
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        self._check_parameters()
        X = self._check_inputs(X, reset=True)
        levels = self._read_levels(X, y)
        weights = check_weights(sample_weight, len(X), levels.codes)
        kernel = self._starting_kernel(X)
        rows = merge_rows(X, levels.codes, weights, kernel)
        check_memory(len(rows.X))
        task = self._task(rows, kernel, len(levels.categories))
        found = maximise(
            task,
            self._starts(task),
            optimizer=self.optimizer,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )
        self._observation, self._left_out = rows.observation, rows.left_out
        return self._settle(task, found)

    def _task(self, rows: MergedRows, kernel: Any, n_levels: int) -> Any:
        raise TypeError(f"{type(self).__name__} does not say what to search")

    def _settle(self, task: Any, found: Found) -> Self:
        raise TypeError(f"{type(self).__name__} does not say what to keep")

    def _check_parameters(self) -> None:
        if self.kernel is not None:
            check_kernel(self.kernel)
        if self.optimizer is not None and not callable(self.optimizer):
            check_option("optimizer", self.optimizer, ("fmin_l_bfgs_b",))
        check_number("n_restarts_optimizer", self.n_restarts_optimizer, least=0)

    def _check_inputs(self, X: Any, *, reset: bool, single: bool = False) -> FloatArray:
        """Check inputs; ``single`` precision stays as it is where asked for, to save memory."""
        gaps = self.kernel is not None and allows_missing(self.kernel)
        checked: FloatArray = validate_data(
            self,
            X,
            reset=reset,
            dtype=[np.float64, np.float32] if single else np.float64,
            ensure_all_finite="allow-nan" if gaps else True,
        )
        return checked

    def _starting_kernel(self, X: FloatArray) -> Any:
        if self.kernel is not None:
            return self.kernel.clone_with_theta(self.kernel.theta)
        return RBF(np.sqrt(X.shape[1]), length_scale_bounds=(1e-3, 1e5))

    def _starts(self, task: Trainable) -> list[FloatArray]:
        rng = check_random_state(self.random_state)
        first = task.theta if self.kernel is not None else self._rescaled(task)
        return [first] + [perturbed(task, first, rng) for _ in range(self.n_restarts_optimizer)]

    def _rescaled(self, task: Trainable) -> FloatArray:
        """The default start; for inputs far from standardised the better of it and one to scale."""
        theta, spread = task.theta, float(np.sqrt(np.mean(np.var(task.X, axis=0))))
        if 1 / 3 < spread < 3 or spread == 0 or not np.isfinite(spread):
            return theta
        to_scale = theta.copy()
        place = task.kernel.n_dims - 1  # the default kernel's length scale is its last parameter
        to_scale[place] = np.clip(theta[place] + np.log(spread), *task.bounds[place])
        return max(theta, to_scale, key=lambda start: task.evaluate(start)[0])

    # --------------------------------------------------------------------- prediction

    def latent_mean_and_variance(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and variance of the latent function, without noise.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points.

        Returns
        -------
        mean, variance : ndarrays of shape (n_samples,)
            On the scale of ``thresholds_``.
        """
        check_is_fitted(self)
        found = self._latent(self._check_inputs(X, reset=False))
        return found.mean, found.var

    def _latent(self, X: FloatArray) -> Moments:
        """Posterior moments, block by block: memory stays flat in the rows of ``X``."""
        block = max(1, _PREDICT_BLOCK // len(self._support))
        parts = [self._latent_block(X[i : i + block]) for i in range(0, len(X), block)]
        mean, var = (np.concatenate([getattr(p, k) for p in parts]) for k in ("mean", "var"))
        return Moments(self._prior_mean + mean, var)

    def _latent_block(self, X: FloatArray) -> Moments:
        cross = self.kernel_(X, self._support)
        return self._posterior.predict(cross, self.kernel_.diag(X))

    def _level_proba(self, X: Any) -> FloatArray:
        return self._link.probabilities(*self.latent_mean_and_variance(X))

    def _without_own_row(self) -> Moments:
        """Latent moments of each merged observation, one copy of it left out."""
        raise TypeError(f"{type(self).__name__} does not say how to leave a row out")

    def loo_proba(self) -> FloatArray:
        """Leave-one-out probabilities of the training rows, without refitting.

        Each row is predicted from the posterior with its own part removed (one copy of it,
        if it was repeated), at the hyperparameters found from all rows. Rows of weight zero
        had no part in the fit and are predicted like new ones.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``.
        """
        check_is_fitted(self)
        left = self._without_own_row()
        proba = self._link.probabilities(left.mean, left.var)[self._observation]
        if len(self._left_out):
            apart = self._latent(self._left_out)
            unused = self._observation < 0
            proba[unused] = self._link.probabilities(apart.mean, apart.var)
        return self._in_class_order(proba)

    def _checked_theta(self, theta: Any) -> FloatArray:
        """Hyperparameters as given, or those found."""
        task = self._fitted_task
        theta = task.theta if theta is None else np.asarray(theta, dtype=float)
        if theta.shape != task.theta.shape:
            raise ValueError(
                f"theta must have shape {task.theta.shape}: {task.kernel.n_dims} kernel and "
                f"{len(task.likelihood.theta)} likelihood parameters, but has {theta.shape}."
            )
        return theta
