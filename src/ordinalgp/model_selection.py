"""Ordered labels and comparisons inside scikit-learn's tools.

Bagging, voting and stacking replace labels by their places among all sorted labels, which is not
the order of most words. :class:`OrderedTargetClassifier` gives them ranks.

Tools split the rows of ``X`` and ``y`` together. Comparisons must be split while all items keep
their places. Hence the ``X`` of :class:`ComparisonClassifier` is the (m, 2) comparisons, and its
``y`` the outcomes.
"""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.validation.labels import class_positions, encode_levels
from ordinalgp.validation.options import check_option

__all__ = ["ComparisonClassifier", "ComparisonKFold", "OrderedTargetClassifier"]


class OrderedTargetClassifier(ClassifierMixin, BaseEstimator):
    """Classifier that gives another one ranks in place of labels, so that no order is lost.

    For scikit-learn's ``BaggingClassifier``, ``VotingClassifier``, ``StackingClassifier`` and other
    classifiers that sort labels. The models inside get the ranks 0, 1, ... as their labels.

    Parameters
    ----------
    estimator : classifier
        Classifier of ranks, for example a ``VotingClassifier``. It, and the models in it, must not
        name ``categories``: their labels are ranks.
    categories : sequence, default=None
        Levels from lowest to highest. None takes the order of an ordered pandas categorical or a
        polars Enum, or that of the numbers.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier.
    categories_ : ndarray of shape (n_categories,)
        All levels in rank order.
    classes_ : ndarray of shape (n_classes,)
        Observed levels, sorted as scikit-learn sorts them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import VotingClassifier
    >>> from sklearn.linear_model import LogisticRegression
    >>> from ordinalgp import OrdinalGPClassifier
    >>> from ordinalgp.model_selection import OrderedTargetClassifier
    >>> X = np.linspace(-2, 2, 30)[:, None]
    >>> y = np.array(["low", "mid", "high"])[np.digitize(X[:, 0], [-1, 1])]
    >>> both = [("gp", OrdinalGPClassifier()), ("linear", LogisticRegression())]
    >>> vote = VotingClassifier(both, voting="soft")
    >>> model = OrderedTargetClassifier(vote, categories=["low", "mid", "high"]).fit(X, y)
    >>> model.predict([[-1.8], [0.0], [1.8]]).tolist()
    ['low', 'mid', 'high']
    """

    def __init__(self, estimator: Any, categories: Any = None) -> None:
        self.estimator = estimator
        self.categories = categories

    def __sklearn_tags__(self) -> Any:
        """Tags of the inputs are those of ``estimator``."""
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    @property
    def n_features_in_(self) -> int:
        """Number of features seen during fit."""
        return int(self.estimator_.n_features_in_)

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Fit a clone of ``estimator`` to the ranks of labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The inputs.
        y : array-like of shape (n_samples,)
            Ordered levels.
        **fit_params : dict
            Parameters of the ``fit`` of ``estimator``, such as ``sample_weight``.
        """
        for name, value in self.estimator.get_params().items():
            if name.split("__")[-1] == "categories" and value is not None:
                raise ValueError(
                    f"{name}={value!r} names levels, but the models in OrderedTargetClassifier get "
                    "ranks. Give categories to OrderedTargetClassifier, and None to the models."
                )
        levels = encode_levels(y, self.categories)
        self.estimator_ = clone(self.estimator).fit(X, levels.codes, **fit_params)
        self.categories_, self.classes_ = levels.categories, levels.classes
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the level of each row as ``estimator`` does.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The inputs.
        """
        check_is_fitted(self)
        return self.categories_[self.estimator_.predict(X)]

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))
    def category_proba(self, X: Any) -> FloatArray:
        """Probability of every level, columns in the order of ``categories_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The inputs.
        """
        check_is_fitted(self)
        proba = self.estimator_.predict_proba(X)
        found = np.zeros((len(proba), len(self.categories_)))
        found[:, self.estimator_.classes_] = proba
        return found

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))
    def predict_proba(self, X: Any) -> FloatArray:
        """Probability of every class, columns in the order of ``classes_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The inputs.
        """
        proba = self.category_proba(X)
        return proba[:, class_positions(self.categories_, self.classes_)]


class ComparisonClassifier(ClassifierMixin, BaseEstimator):
    """Classifier of comparisons: a preference model for scikit-learn's cross-validation.

    Parameters
    ----------
    estimator : PreferenceGP
        The model; its parameters are ``estimator__kernel`` and so on in searches.
    items : array-like of shape (n_items, n_features)
        All items, as ``X`` of ``PreferenceGP.fit``. They are not split: only comparisons and
        outcomes have information about preferences.

    Attributes
    ----------
    estimator_ : PreferenceGP
        The fitted model.
    categories_ : ndarray
        Possible outcomes, from "right preferred" to "left preferred".
    classes_ : ndarray
        The same outcomes, sorted as scikit-learn sorts labels.

    Notes
    -----
    ``cross_val_predict(..., method="predict_proba")`` recodes labels to 0, 1, ... before fitting.
    Code the outcomes like that yourself, with for example ``levels=[0, 1]`` in the estimator.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from ordinalgp import PreferenceGP
    >>> from ordinalgp.datasets import make_sine_comparisons
    >>> from ordinalgp.metrics import make_ordinal_scorer
    >>> from ordinalgp.model_selection import ComparisonClassifier, ComparisonKFold
    >>> items, pairs = make_sine_comparisons(60, random_state=0)
    >>> outcomes = np.tile([1, -1], 30)
    >>> pairs = np.where(outcomes[:, None] > 0, pairs, pairs[:, ::-1])
    >>> model = ComparisonClassifier(PreferenceGP(), items)
    >>> scoring = make_ordinal_scorer("log_score")  # higher is better: negated
    >>> scores = cross_val_score(model, pairs, outcomes, scoring=scoring, cv=ComparisonKFold(3))
    >>> bool(scores.mean() > np.log(0.5))
    True
    """

    def __init__(self, estimator: Any, items: Any) -> None:
        self.estimator = estimator
        self.items = items

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit a clone of ``estimator``.

        Parameters
        ----------
        X : array-like of shape (n_comparisons, 2)
            Rows of ``items``, left and right.
        y : array-like of shape (n_comparisons,), default=None
            Outcomes, as in ``PreferenceGP.fit``.
        sample_weight : array-like of shape (n_comparisons,), default=None
            Number of times that each comparison counts.
        """
        values = None if y is None or self.estimator.levels is not None else np.unique(y)
        if values is not None and values.tolist() == [0, 1]:
            raise ValueError(
                "y holds 0 and 1 but no -1, where 0 would mean a tie. If it is a tie, set "
                "levels=[-1, 0, 1]; if 0 means that the right was preferred, levels=[0, 1]. "
                "(cross_val_predict recodes labels like this: give it 0, 1 with levels=[0, 1].)"
            )
        fitted = clone(self.estimator).fit(self.items, X, y, sample_weight)
        self.estimator_, self.categories_ = fitted, fitted.levels_
        self.classes_ = np.unique(fitted.levels_)
        return self

    def category_proba(self, X: Any) -> FloatArray:
        """Probability of every outcome, columns in the order of ``categories_``.

        Parameters
        ----------
        X : array-like of shape (n_comparisons, 2)
            Rows of ``items``, left and right.
        """
        check_is_fitted(self)
        return self.estimator_._outcome_proba(self.items, X)

    def predict_proba(self, X: Any) -> FloatArray:
        """Probability of every outcome, columns in the order of ``classes_``.

        Parameters
        ----------
        X : array-like of shape (n_comparisons, 2)
            Rows of ``items``, left and right.
        """
        proba = self.category_proba(X)
        return proba[:, class_positions(self.categories_, self.classes_)]

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable outcome.

        Parameters
        ----------
        X : array-like of shape (n_comparisons, 2)
            Rows of ``items``, left and right.
        """
        return self.categories_[self.category_proba(X).argmax(axis=1)]


class ComparisonKFold(BaseCrossValidator):
    """K-fold cross-validator of comparisons that keeps pairs or items of the test unseen.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds.
    hold_out : {"pairs", "items", "comparisons"}, default="pairs"
        Unit that training and test must not share. "pairs": all comparisons of the same two items,
        in either order, are in the same fold. "items": a fold tests the comparisons of its items
        and trains on comparisons among the other items, which measures predictions of new items.
        "comparisons": each is a unit, so repetitions can be in training and in test.
    shuffle : bool, default=True
        Whether to draw the folds at random.
    random_state : int, RandomState instance or None, default=None
        Seed of the random folds.

    Examples
    --------
    >>> import numpy as np
    >>> from ordinalgp.model_selection import ComparisonKFold
    >>> pairs = np.array([[0, 1], [1, 0], [1, 2], [2, 3]])
    >>> for train, test in ComparisonKFold(2, shuffle=False).split(pairs):
    ...     print(train, test)
    [2] [0 1 3]
    [0 1 3] [2]
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        hold_out: str = "pairs",
        shuffle: bool = True,
        random_state: Any = None,
    ) -> None:
        self.n_splits = n_splits
        self.hold_out = hold_out
        self.shuffle = shuffle
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds."""
        return self.n_splits

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the training and test rows of each fold.

        Parameters
        ----------
        X : array-like of shape (n_comparisons, 2)
            Left and right item of each comparison, numbers or names.
        y, groups : ignored
            For compatibility with scikit-learn.
        """
        check_option("hold_out", self.hold_out, ("pairs", "items", "comparisons"))
        pairs = np.asarray(X)
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise ValueError(f"X must be comparisons of shape (m, 2), but has shape {pairs.shape}.")
        _, items = np.unique(pairs, return_inverse=True)
        units = self._units(items.reshape(pairs.shape))
        n_units = int(units.max()) + 1
        if not 2 <= self.n_splits <= n_units:
            raise ValueError(
                f"n_splits must be from 2 to the number of {self.hold_out}, {n_units}, "
                f"but is {self.n_splits}."
            )
        fold = np.arange(n_units) % self.n_splits
        if self.shuffle:
            check_random_state(self.random_state).shuffle(fold)
        for k in range(self.n_splits):
            touched = (fold[units] == k).any(axis=1)
            yield np.flatnonzero(~touched), np.flatnonzero(touched)

    def _units(self, items: IntArray) -> IntArray:
        """Units of each comparison that training and test must not share, (m, 1) or (m, 2)."""
        if self.hold_out == "items":
            return items
        if self.hold_out == "comparisons":
            return np.arange(len(items))[:, None]
        _, which = np.unique(np.sort(items, axis=1), axis=0, return_inverse=True)
        return which.reshape(-1, 1)
