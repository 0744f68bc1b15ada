"""What estimators with ``partial_fit`` share: later levels, and all or nothing."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_consistent_length

from ordinalgp._base import LevelClassifier
from ordinalgp._typing import IntArray
from ordinalgp._validation import Levels, encode_levels


class Growing(LevelClassifier):
    """Reads labels that may lack levels, and leaves a model whole when a fit fails."""

    def _whole_or_not(self, work: Callable[[], Self]) -> Self:
        before = self.__dict__.copy()
        try:
            return work()
        except BaseException:  # whatever stops a fit, an interrupt too, an old model stays whole
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

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
