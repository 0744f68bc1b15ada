"""Scores of predicted labels and probabilities, and scorers for scikit-learn's searches."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import cohen_kappa_score
from sklearn.utils.metadata_routing import MetadataRequest

from ordinalgp.metrics import ranks
from ordinalgp.metrics.ranks import label_ranks, probability_ranks, rank_order, weighted_mean
from ordinalgp.metrics.row_losses import log_losses, ranked_probability_losses
from ordinalgp.validation.weights import check_weights

# ------------------------------------------------------------------------------- labels


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
    order = ranks.distinct(y_true, y_pred) if categories is None else ranks.values(categories)
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
    weights = check_weights(sample_weight, len(true))
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
    mass = check_weights(sample_weight, len(true))
    if len(np.unique(np.concatenate([true[mass > 0], predicted[mass > 0]]))) < 2:
        only = order.tolist()[true[mass > 0][0]]
        raise ValueError(
            f"Kappa is not defined if all true and predicted labels are {only!r}: it compares "
            "with chance, which is then always right. Use another metric."
        )
    every = np.arange(len(order))
    return float(
        cohen_kappa_score(true, predicted, labels=every, weights=weights, sample_weight=mass)
    )


# ------------------------------------------------------------------------------- probabilities


def ranked_probability_score(
    y_true: Any, probabilities: ArrayLike, *, categories: Any = None, sample_weight: Any = None
) -> float:
    """Ranked probability score, from 0 to 1; lower is better.

    It is the mean squared difference between predicted and observed cumulative probabilities over
    the r - 1 thresholds. 0 is perfect; 1 is all probability at the wrong end. Some authors take
    the sum in place of the mean.

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
    true, table = probability_ranks(y_true, probabilities, categories)
    if table.shape[1] < 2:
        raise ValueError(
            "The ranked probability score needs at least 2 levels, but there is 1. Name every "
            "level, also those that y_true lacks, in categories=[...]."
        )
    return weighted_mean(ranked_probability_losses(true, table), sample_weight)


def log_score(
    y_true: Any, probabilities: ArrayLike, *, categories: Any = None, sample_weight: Any = None
) -> float:
    """Log score: mean negative log probability of the true label; lower is better.

    It is infinite if the predicted probability of a true label is zero.

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
    true, table = probability_ranks(y_true, probabilities, categories)
    return weighted_mean(log_losses(true, table), sample_weight)


# ------------------------------------------------------------------------------- scorers

_ON_LABELS = (zero_one_error, mean_absolute_error, macro_mean_absolute_error, weighted_kappa)
_ON_PROBABILITIES = (ranked_probability_score, log_score)
_METRICS: dict[str, Any] = {metric.__name__: metric for metric in _ON_LABELS + _ON_PROBABILITIES}


def make_ordinal_scorer(metric: str, **options: Any) -> "OrdinalScorer":
    """Make a scorer from one of this module's metrics, for ``cross_val_score`` and searches.

    The result is called as ``scorer(estimator, X, y, sample_weight=None)``. Higher is better, so
    errors are negated. The order of the levels is the model's own ``categories_``, also inside a
    pipeline or a search. For a model without it, it is the order of its numeric ``classes_``.

    Parameters
    ----------
    metric : str
        Name of a metric of this module.
    **options
        Options of the metric, such as ``weights="linear"``.

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
    """Scorer for cross-validation and searches; made by :func:`make_ordinal_scorer`.

    Examples
    --------
    >>> import numpy as np
    >>> from ordinalgp import OrdinalGPClassifier
    >>> from ordinalgp.metrics import make_ordinal_scorer
    >>> X = np.linspace(-2, 2, 30)[:, None]
    >>> y = np.digitize(X[:, 0], [-1, 1])
    >>> scorer = make_ordinal_scorer("zero_one_error")
    >>> bool(scorer(OrdinalGPClassifier().fit(X, y), X, y) > -0.1)  # higher is better: negated
    True
    """

    metric: str
    options: Mapping[str, Any]
    sample_weight_request: bool | str | None = None

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score a fitted ``estimator`` on rows ``X`` with labels ``y``; higher is better."""
        metric, order = _METRICS[self.metric], ranks.model_order(estimator)
        on_labels = metric in _ON_LABELS
        predicted = estimator.predict(X) if on_labels else ranks.category_proba(estimator, X, order)
        value = metric(y, predicted, categories=order, sample_weight=sample_weight, **self.options)
        return value if metric is weighted_kappa else -value

    def set_score_request(self, *, sample_weight: bool | str | None) -> "OrdinalScorer":
        """Return a scorer that requests weights (True, False or their name) as metadata."""
        return replace(self, sample_weight_request=sample_weight)

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the metadata that this scorer requests."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="sample_weight", alias=self.sample_weight_request)
        return request
