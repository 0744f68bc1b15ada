"""What estimators with ``partial_fit`` share: later rows and levels."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_consistent_length

from ordinalgp._typing import IntArray
from ordinalgp.models.base import LevelClassifier
from ordinalgp.validation.labels import Levels, encode_levels


class Growing(LevelClassifier):
    """Rows in parts.

    Subclasses have ``_fit`` for the first rows and ``_continue`` for more, and set ``_rows``.
    """

    _continue: Callable[..., Self]

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Go on with more rows, from the model of those before; without one, ``fit``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            More training inputs.
        y : array-like of shape (n_samples,)
            Their levels, among those of ``categories_``.
        classes : array-like, default=None
            For the first call: every level that later rows may have, from lowest to highest
            unless ``categories`` says otherwise. Later calls ignore it.
        sample_weight : array-like of shape (n_samples,), default=None
            How many times each row counts.

        Returns
        -------
        self
            The fitted estimator itself.
        """
        if not hasattr(self, "_rows"):
            return self._unless_it_fails(self._fit, X, y, sample_weight, classes)
        return self._unless_it_fails(self._continue, X, y, sample_weight)

    def _read_levels(self, X: Any, y: Any, classes: Any = None) -> Levels:
        if classes is None or self.categories is not None:
            return super()._read_levels(X, y)
        given = self.categories
        try:  # the levels that scikit-learn's partial_fit names, for this one call
            self.categories = classes
            return super()._read_levels(X, y)
        finally:
            self.categories = given

    def _read_more(self, X: Any, y: Any) -> IntArray:
        """Codes of labels that may all be of one level."""
        labels = column_or_1d(np.asarray(y), warn=True)
        check_consistent_length(X, labels)
        known = self.categories_.astype(object if labels.dtype == object else None, copy=False)
        return encode_levels(np.concatenate([labels, known]), self.categories_).codes[: len(labels)]
