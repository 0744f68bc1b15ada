"""What classifiers with one latent Gaussian process have in common."""

from typing import Any, Self

import numpy as np
from sklearn.gaussian_process.kernels import RBF
from sklearn.utils.validation import check_is_fitted

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.gaussian import Moments
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.search import SearchResult
from ordinalgp.models.base import OrdinalClassifier, in_class_order
from ordinalgp.models.exact import LatentSearch, unusual_spread
from ordinalgp.models.training_rows import MergedRows, merge_rows
from ordinalgp.validation.memory import check_memory
from ordinalgp.validation.weights import check_weights

_REACH = (1e-153, 1e153)  # spreads of inputs whose squares are numbers


class LatentClassifier(LatentSearch, OrdinalClassifier):
    """Rows in, hyperparameters searched, a latent posterior kept, levels predicted from it.

    Subclasses say what to search (``_task``, ``_starts``), what to keep (``_settle``) and what
    links the latent function to the levels (``likelihood_``).
    """

    likelihood_: OrdinalProbit
    _observation: IntArray
    _left_out: FloatArray

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        self._check_parameters()
        X = self._check_inputs(X, reset=True)
        levels = self._read_levels(X, y)
        weights = check_weights(sample_weight, len(X), levels.codes)
        kernel = self._starting_kernel(X)
        rows = merge_rows(X, levels.codes, weights, kernel)
        check_memory(len(rows.X))
        task = self._task(rows, kernel, len(levels.categories))
        found = self._maximise(task)
        self._observation, self._left_out = rows.observation, rows.left_out
        return self._settle(task, found)

    def _task(self, rows: MergedRows, kernel: Any, n_levels: int) -> Any:
        raise TypeError(f"{type(self).__name__} does not say what to search")

    def _settle(self, task: Any, found: SearchResult) -> Self:
        raise TypeError(f"{type(self).__name__} does not say what to keep")

    def _starting_kernel(self, X: FloatArray) -> Any:
        if self.kernel is not None:
            return self.kernel.clone_with_theta(self.kernel.theta)
        spread = unusual_spread(X)
        if not _REACH[0] < spread < _REACH[1]:
            raise ValueError(
                f"X has a standard deviation of about {spread:.0e}, whose square is out of the "
                "range of numbers. Standardise the inputs."
            )
        # Where to start within them is seen in _rescaled.
        bounds = 1e-3 * min(1.0, spread), 1e5 * max(1.0, spread)
        return RBF(np.sqrt(X.shape[1]), length_scale_bounds=bounds)

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

    def _level_proba(self, X: Any) -> FloatArray:
        return self.likelihood_.probabilities(*self.latent_mean_and_variance(X))

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
        proba = self.likelihood_.probabilities(left.mean, left.var)[self._observation]
        if len(self._left_out):
            apart = self._latent(self._left_out)
            unused = self._observation < 0
            proba[unused] = self.likelihood_.probabilities(apart.mean, apart.var)
        return in_class_order(proba, self.categories_, self.classes_)
