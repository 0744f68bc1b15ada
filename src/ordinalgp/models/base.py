"""What every classifier of ordered levels has in common: labels in, decisions out."""

from collections.abc import Callable
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.decisions import decide
from ordinalgp.validation.labels import Levels, class_positions, encode_levels
from ordinalgp.validation.options import allows_missing
from ordinalgp.validation.weights import check_weights


class WholeOrNot:
    """A model stays whole when a fit fails."""

    def _unless_it_fails(self, learn: Callable[..., Self], *data: Any) -> Self:
        before = self.__dict__.copy()
        try:
            return learn(*data)
        except BaseException:  # whatever stops a fit, an interrupt too, an old model stays whole
            self.__dict__.clear()
            self.__dict__.update(before)
            raise


class LevelClassifier(WholeOrNot, ClassifierMixin, BaseEstimator):
    """Rows and labels in, a share of right ones out.

    Subclasses have the parameters ``kernel`` and ``categories``, learn by ``_fit`` and predict by
    ``_predicted_ranks``.
    """

    kernel: Any
    categories: Any
    categories_: NDArray[Any]
    classes_: NDArray[Any]
    _fit: Callable[..., Self]
    _predicted_ranks: Callable[[Any], IntArray]

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from rows whose levels are known.

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

    def _check_inputs(self, X: Any, *, reset: bool) -> FloatArray:
        return self._checked(X, [np.float64], reset=reset)

    def _checked(self, X: Any, precisions: list[Any], *, reset: bool) -> FloatArray:
        """Inputs as numbers, in the first of the precisions unless they have another of them."""
        if hasattr(X, "__next__"):
            raise TypeError(
                f"X is a {type(X).__name__}, which can be read only once, but an array is needed "
                "(for OrdinalGPClassifier, or a function that returns a new iterator of chunks)."
            )
        # None and words are kernels of numbers.
        gaps = isinstance(self.kernel, Kernel) and allows_missing(self.kernel)
        finite = "allow-nan" if gaps else True
        checked: FloatArray = validate_data(
            self, X, reset=reset, dtype=precisions, ensure_all_finite=finite
        )
        return checked

    def _read_levels(self, X: Any, y: Any) -> Levels:
        """Encode ``y`` and remember the levels."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        levels = encode_levels(y, self._declared_levels())
        check_consistent_length(X, levels.codes)
        self.categories_, self.classes_ = levels.categories, levels.classes
        return levels

    def _declared_levels(self) -> Any:
        return self.categories

    def predict(self, X: Any) -> NDArray[Any]:
        """Most suitable level of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels, of the kind that ``fit`` was given.
        """
        check_is_fitted(self)
        labels: NDArray[Any] = self.categories_[self._predicted_ranks(X)]
        return labels

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of rows whose level is predicted exactly.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points.
        y : array-like of shape (n_samples,)
            True levels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        float
            Accuracy; :mod:`ordinalgp.metrics` has scores that know the order.
        """
        # scikit-learn's accuracy takes half-star ratings for a continuous target.
        predicted, truth = self.predict(X), column_or_1d(np.asarray(y))
        check_consistent_length(predicted, truth)
        weights = check_weights(sample_weight, len(truth))
        return float(np.average(predicted == truth, weights=weights))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted estimator to a file, for :func:`ordinalgp.load`.

        The file is a zip of JSON and arrays, without pickle. It is written beside ``path`` and
        moved there when complete, so that a failure leaves no file, or the old one untouched.

        Parameters
        ----------
        path : str or path-like
            Where to; any suffix, for example "model.ogp".

        Notes
        -----
        The file holds the training inputs. Kernels of scikit-learn and of
        :mod:`ordinalgp.kernels` can be saved; kernels of your own and a callable ``optimizer``
        raise a ``TypeError``. A ``RandomState`` given as ``random_state`` belongs to the running
        program and comes back as None; predictions do not depend on it.
        """
        from ordinalgp.persistence import save

        save(self, path)


class OrdinalClassifier(LevelClassifier):
    """Labels, probabilities and decisions on top of one method, ``_level_proba``.

    Subclasses have the parameters ``categories`` and ``decision``, set ``categories_`` and
    ``classes_`` by ``_read_levels``, and give probabilities in the rank order of the levels.
    """

    decision: Any

    def _level_proba(self, X: Any) -> FloatArray:
        raise TypeError(f"{type(self).__name__} does not say how to predict")

    def _read_levels(self, X: Any, y: Any) -> Levels:
        levels = super()._read_levels(X, y)
        decide(np.full((1, len(levels.categories)), 1 / len(levels.categories)), self.decision)
        return levels

    def category_proba(self, X: Any) -> FloatArray:
        """Probability of every level, columns in the order of ``categories_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points.

        Returns
        -------
        ndarray of shape (n_samples, n_categories)
            Rows sum to one. Levels that were named but never observed have their column.
        """
        check_is_fitted(self)
        return self._level_proba(X)

    def predict_proba(self, X: Any) -> FloatArray:
        """Probability of every class, columns in the order of ``classes_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            scikit-learn sorts labels, so strings are in alphabetical order here;
            :meth:`category_proba` keeps the rank order. Rows sum to one: levels that were
            named but never observed are left out, and the rest is scaled up.
        """
        return in_class_order(self.category_proba(X), self.categories_, self.classes_)

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithm of :meth:`predict_proba`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Log probabilities, columns in the order of ``classes_``.
        """
        # The smallest normal number stands for what underflows: a log score stays finite.
        return np.log(np.maximum(self.predict_proba(X), np.finfo(float).tiny))

    def _predicted_ranks(self, X: Any) -> IntArray:
        return decide(self.category_proba(X), self.decision)


def in_class_order(
    proba: FloatArray, categories: NDArray[Any], classes: NDArray[Any]
) -> FloatArray:
    """Probabilities of the observed levels alone, as scikit-learn sorts them; rows sum to one."""
    columns = proba[:, class_positions(categories, classes)]
    scaled: FloatArray = columns / columns.sum(axis=1, keepdims=True)
    return scaled
