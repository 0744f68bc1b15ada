"""Scores for predicted labels."""

from typing import Any

import numpy as np
from sklearn.metrics import cohen_kappa_score

from ordinalgp.metrics.ranks import (
    checked_weights,
    distinct,
    label_ranks,
    rank_order,
    values,
    weighted_mean,
)


def zero_one_error(
    y_true: Any, y_pred: Any, *, categories: Any = None, sample_weight: Any = None
) -> float:
    """Error rate: share of wrong labels, from 0 to 1; lower is better.

    The order plays no part, so ``categories`` is not needed.

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
    order = distinct(y_true, y_pred) if categories is None else values(categories)
    true, predicted = label_ranks(y_true, y_pred, order)
    return weighted_mean(true != predicted, sample_weight)


def mean_absolute_error(
    y_true: Any, y_pred: Any, *, categories: Any = None, sample_weight: Any = None
) -> float:
    """Mean absolute error in ranks between true and predicted labels; lower is better.

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
    true, predicted = label_ranks(y_true, y_pred, rank_order(categories, y_true, y_pred))
    return weighted_mean(np.abs(true - predicted), sample_weight)


def macro_mean_absolute_error(
    y_true: Any, y_pred: Any, *, categories: Any = None, sample_weight: Any = None
) -> float:
    """Mean absolute error in ranks of each true level, averaged over the levels; lower is better.

    Every level of ``y_true`` has the same weight, however rare. Hence a model that always predicts
    the most frequent level scores badly.

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
    true, predicted = label_ranks(y_true, y_pred, rank_order(categories, y_true, y_pred))
    weights = checked_weights(sample_weight, len(true))
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
    """Cohen's kappa: agreement beyond chance, from -1 to 1; higher is better.

    It is scikit-learn's, with the levels in rank order.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n,)
        True and predicted labels.
    weights : {"quadratic", "linear", None}, default="quadratic"
        Growth of the cost of an error with the distance in ranks; None: all errors cost the same.
    categories, sample_weight : array-like, optional
        Order of the levels and weights of the rows; see the module's introduction.

    Examples
    --------
    >>> from ordinalgp.metrics import weighted_kappa
    >>> print(f"{weighted_kappa([1, 2, 3, 3], [1, 2, 2, 3]):.2f}")
    0.80
    """
    order = rank_order(categories, y_true, y_pred)
    true, predicted = label_ranks(y_true, y_pred, order)
    mass = checked_weights(sample_weight, len(true))
    if len(np.unique(np.concatenate([true[mass > 0], predicted[mass > 0]]))) < 2:
        only = order.tolist()[true[mass > 0][0]]
        raise ValueError(
            f"Kappa is not defined if all true and predicted labels are {only!r}: it compares "
            "with chance, which is then always right. Use another metric."
        )
    kappa = cohen_kappa_score(
        true, predicted, labels=np.arange(len(order)), weights=weights, sample_weight=mass
    )
    return float(kappa)
