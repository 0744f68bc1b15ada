"""Scores for predictions of ordered levels, and scorers that know the order.

All take two options. ``categories``, array-like of shape (r,), names the levels from lowest to
highest. Without it the order is that of ``y_true`` if this is an ordered pandas categorical or a
polars Enum, else that of the numbers seen; strings raise an error. Give it whenever the data may
lack a level, or ranks close up. ``sample_weight``, array-like of shape (n,), weighs the rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import cohen_kappa_score
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.metadata_routing import MetadataRequest

from ordinalgp._typing import FloatArray, IntArray


def zero_one_error(
    y_true: Any, y_pred: Any, *, categories: Any = None, sample_weight: Any = None
) -> float:
    """Share of wrong labels, from 0 to 1; needs no ``categories``.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n,)
        True and predicted labels.
    categories, sample_weight : array-like, optional
        Order of the levels and weights of the rows; see the module's introduction.

    Examples
    --------
    >>> from ordinalgp.metrics import zero_one_error
    >>> zero_one_error([1, 2, 3, 3], [1, 2, 2, 1])
    0.5
    """
    order = _distinct(y_true, y_pred) if categories is None else _values(categories)
    true, predicted = _label_ranks(y_true, y_pred, order)
    return _mean(true != predicted, sample_weight)


def mean_absolute_error(
    y_true: Any, y_pred: Any, *, categories: Any = None, sample_weight: Any = None
) -> float:
    """Mean distance in ranks between true and predicted labels.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n,)
        True and predicted labels.
    categories, sample_weight : array-like, optional
        Order of the levels and weights of the rows; see the module's introduction.

    Examples
    --------
    >>> from ordinalgp.metrics import mean_absolute_error
    >>> levels = ["low", "mid", "high"]
    >>> mean_absolute_error(["low", "mid"], ["high", "mid"], categories=levels)
    1.0
    """
    true, predicted = _label_ranks(y_true, y_pred, _rank_order(categories, y_true, y_pred))
    return _mean(np.abs(true - predicted), sample_weight)


def macro_mean_absolute_error(
    y_true: Any, y_pred: Any, *, categories: Any = None, sample_weight: Any = None
) -> float:
    """Mean absolute error in ranks of each true level, averaged over the levels.

    Every level of ``y_true`` counts the same, however rare, so that always predicting the
    commonest level does not pay.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n,)
        True and predicted labels.
    categories, sample_weight : array-like, optional
        Order of the levels and weights of the rows; see the module's introduction.

    Examples
    --------
    >>> from ordinalgp.metrics import macro_mean_absolute_error
    >>> macro_mean_absolute_error([1, 1, 1, 2], [1, 1, 1, 1])
    0.5
    """
    true, predicted = _label_ranks(y_true, y_pred, _rank_order(categories, y_true, y_pred))
    weights = _weights(sample_weight, len(true))
    loss = np.bincount(true, weights * np.abs(true - predicted))
    mass = np.bincount(true, weights)
    return float(np.mean(loss[mass > 0] / mass[mass > 0]))


def weighted_kappa(
    y_true: Any,
    y_pred: Any,
    *,
    weights: str | None = "quadratic",
    categories: Any = None,
    sample_weight: Any = None,
) -> float:
    """Agreement beyond chance, from -1 to 1: scikit-learn's Cohen kappa, levels in rank order.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n,)
        True and predicted labels.
    weights : {"quadratic", "linear", None}, default="quadratic"
        How the cost of a confusion grows with the distance in ranks; None counts all alike.
    categories, sample_weight : array-like, optional
        Order of the levels and weights of the rows; see the module's introduction.

    Examples
    --------
    >>> from ordinalgp.metrics import weighted_kappa
    >>> print(f"{weighted_kappa([1, 2, 3, 3], [1, 2, 2, 3]):.2f}")
    0.80
    """
    order = _rank_order(categories, y_true, y_pred)
    true, predicted = _label_ranks(y_true, y_pred, order)
    kappa = cohen_kappa_score(
        true, predicted, labels=np.arange(len(order)), weights=weights, sample_weight=sample_weight
    )
    return float(kappa)


def ranked_probability_score(
    y_true: Any, probabilities: ArrayLike, *, categories: Any = None, sample_weight: Any = None
) -> float:
    """Squared difference between predicted and observed cumulative probabilities.

    The sum over the r - 1 thresholds is divided by r - 1, so that 0 is perfect and 1 is all
    probability on the wrong end; some authors leave the sum undivided.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels.
    probabilities : array-like of shape (n, r)
        Predicted probability of each level, columns from lowest to highest level.
    categories, sample_weight : array-like, optional
        Order of the levels and weights of the rows; see the module's introduction.

    Examples
    --------
    >>> from ordinalgp.metrics import ranked_probability_score
    >>> levels = ["low", "mid", "high"]
    >>> ranked_probability_score(["low"], [[0.5, 0.5, 0.0]], categories=levels)
    0.125
    >>> ranked_probability_score(["low"], [[0.5, 0.0, 0.5]], categories=levels)
    0.25
    """
    true, table = _probability_ranks(y_true, probabilities, categories)
    reached = true[:, None] <= np.arange(table.shape[1] - 1)
    return _mean(np.mean((table.cumsum(axis=1)[:, :-1] - reached) ** 2, axis=1), sample_weight)


def log_score(
    y_true: Any, probabilities: ArrayLike, *, categories: Any = None, sample_weight: Any = None
) -> float:
    """Mean negative logarithm of the probability of the true label.

    Infinite when some true label was given probability zero.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels.
    probabilities : array-like of shape (n, r)
        Predicted probability of each level, columns from lowest to highest level.
    categories, sample_weight : array-like, optional
        Order of the levels and weights of the rows; see the module's introduction.

    Examples
    --------
    >>> from ordinalgp.metrics import log_score
    >>> print(f"{log_score([1, 2], [[0.5, 0.5], [0.5, 0.5]]):.4f}")
    0.6931
    """
    true, table = _probability_ranks(y_true, probabilities, categories)
    with np.errstate(divide="ignore"):
        losses = -np.log(table[np.arange(len(true)), true])
    return _mean(losses, sample_weight)


def make_ordinal_scorer(metric: str, **options: Any) -> "OrdinalScorer":
    """Make one of this module's metrics a ``scoring`` for ``cross_val_score`` and searches.

    The result is called as ``scorer(estimator, X, y, sample_weight=None)``; greater is better,
    so errors are negated. The order of the levels is the model's own ``categories_``, also inside
    a pipeline or a search; a model without it is scored in the order of its numeric ``classes_``.

    Parameters
    ----------
    metric : str
        Name of a metric of this module.
    **options
        Passed on to the metric, such as ``weights="linear"``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_val_score
    >>> from ordinalgp.metrics import make_ordinal_scorer
    >>> y = np.repeat([1, 2, 3], 10)
    >>> scoring = make_ordinal_scorer("weighted_kappa")
    >>> cross_val_score(LogisticRegression(), 5.0 * y[:, None], y, scoring=scoring)
    array([1., 1., 1., 1., 1.])
    """
    if metric not in _METRICS:
        raise ValueError(f"metric must be one of {', '.join(_METRICS)}, but {metric!r} was given.")
    return OrdinalScorer(metric, options)


@dataclass(frozen=True, eq=False)
class OrdinalScorer:
    """A metric as scikit-learn's searches call it; made by :func:`make_ordinal_scorer`."""

    metric: str
    options: Mapping[str, Any]
    sample_weight_request: bool | str | None = None

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score a fitted ``estimator`` on rows ``X`` with labels ``y``; greater is better."""
        metric, order = _METRICS[self.metric], _model_order(estimator)
        on_labels = metric in _ON_LABELS
        predicted = estimator.predict(X) if on_labels else _category_proba(estimator, X, order)
        value = metric(y, predicted, categories=order, sample_weight=sample_weight, **self.options)
        return value if metric is weighted_kappa else -value

    def set_score_request(self, *, sample_weight: bool | str | None) -> "OrdinalScorer":
        """Return a scorer that asks metadata routing for weights (True, False or their name)."""
        return replace(self, sample_weight_request=sample_weight)

    def get_metadata_routing(self) -> MetadataRequest:
        """Return what this scorer asks of metadata routing."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="sample_weight", alias=self.sample_weight_request)
        return request


_ON_LABELS = (zero_one_error, mean_absolute_error, macro_mean_absolute_error, weighted_kappa)
_ON_PROBABILITIES = (ranked_probability_score, log_score)
_METRICS: dict[str, Any] = {metric.__name__: metric for metric in _ON_LABELS + _ON_PROBABILITIES}


def _unwrap(estimator: Any) -> tuple[list[Any], Any]:
    """Split searches and pipelines into the transformers passed on the way and the model."""
    if hasattr(estimator, "best_estimator_"):
        return _unwrap(estimator.best_estimator_)
    if not hasattr(estimator, "steps"):
        return [], estimator
    before = [step for _, step in estimator.steps[:-1] if hasattr(step, "transform")]
    inner, model = _unwrap(estimator.steps[-1][1])
    return before + inner, model


def _model_order(estimator: Any) -> NDArray[Any]:
    _, model = _unwrap(estimator)
    return _rank_order(getattr(model, "categories_", None), model.classes_)


def _category_proba(estimator: Any, X: Any, order: NDArray[Any]) -> FloatArray:
    """Probabilities with columns in rank order; levels unknown to the model get zero."""
    transformers, model = _unwrap(estimator)
    if hasattr(model, "category_proba"):
        for transformer in transformers:
            X = transformer.transform(X)
        return model.category_proba(X)
    probabilities = estimator.predict_proba(X)
    table = np.zeros((len(probabilities), len(order)))
    table[:, _ranks(model.classes_, order)] = probabilities
    return table


def _rank_order(categories: Any, *labels: Any) -> NDArray[Any]:
    """Levels from lowest to highest: as given, as declared by the first labels, or as numbers."""
    dtype = getattr(labels[0], "dtype", None)
    if categories is not None:
        return _values(categories)
    if dtype is not None and (getattr(dtype, "ordered", False) or type(dtype).__name__ == "Enum"):
        return _values(dtype.categories)
    observed = _distinct(*labels)
    if observed.dtype.kind not in "biuf":
        raise ValueError(
            f"The labels {observed[:8].tolist()} have no order of their own. Name the levels from "
            "lowest to highest, e.g. categories=['low', 'mid', 'high']."
        )
    return observed


def _values(labels: Any) -> NDArray[Any]:
    return column_or_1d(np.asarray(labels))


def _distinct(*labels: Any) -> NDArray[Any]:
    return np.unique(np.concatenate([_values(each) for each in labels]))


def _ranks(labels: Any, order: NDArray[Any]) -> IntArray:
    """Place of each label in ``order``, by value."""
    place = {level: rank for rank, level in enumerate(order.tolist())}
    values = _values(labels).tolist()
    unknown = [f"row {row} is {value!r}" for row, value in enumerate(values) if value not in place]
    if unknown or len(place) < len(order):
        raise ValueError(
            f"Labels must be among the levels {order[:8].tolist()}, each named once, "
            f"but {unknown[0] if unknown else 'one is repeated'}. "
            "Name every level in categories=[...], of the metric or of the model."
        )
    return np.array([place[value] for value in values], dtype=np.intp)


def _label_ranks(y_true: Any, y_pred: Any, order: NDArray[Any]) -> tuple[IntArray, IntArray]:
    check_consistent_length(y_true, y_pred)
    return _ranks(y_true, order), _ranks(y_pred, order)


def _probability_ranks(
    y_true: Any, probabilities: ArrayLike, categories: Any
) -> tuple[IntArray, FloatArray]:
    order, table = _rank_order(categories, y_true), np.asarray(probabilities, dtype=np.float64)
    check_consistent_length(y_true, table)
    if table.ndim != 2 or table.shape[1] != len(order):
        raise ValueError(
            f"probabilities must have one column for each of the {len(order)} levels "
            f"{order[:8].tolist()}, but has shape {table.shape}. "
            "Name every level, also one that y_true lacks, in categories=[...]."
        )
    bad = np.flatnonzero(~(np.abs(table.sum(axis=1) - 1) < 1e-5) | (table < 0).any(axis=1))
    if len(bad):
        raise ValueError(
            "Each row of probabilities must be non-negative and sum to one, "
            f"but row {bad[0]} is {table[bad[0]].tolist()}."
        )
    return _ranks(y_true, order), table


def _weights(sample_weight: Any, n: int) -> FloatArray:
    weights = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n,) or not (weights >= 0).all() or not weights.any():
        raise ValueError(
            f"sample_weight must hold a non-negative number for each of the {n} rows, "
            f"at least one of them positive, but {sample_weight!r} was given."
        )
    return weights


def _mean(losses: NDArray[Any], sample_weight: Any) -> float:
    """Weighted mean; rows of weight zero do not count even where their loss is infinite."""
    weights = _weights(sample_weight, len(losses))
    return float(np.average(losses[weights > 0], weights=weights[weights > 0]))
