"""Scores for predicted probabilities."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ordinalgp.metrics.ranks import probability_ranks, weighted_mean


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
    reached = true[:, None] <= np.arange(table.shape[1] - 1)
    return weighted_mean(
        np.mean((table.cumsum(axis=1)[:, :-1] - reached) ** 2, axis=1), sample_weight
    )


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
    with np.errstate(divide="ignore"):
        losses = -np.log(table[np.arange(len(true)), true])
    return weighted_mean(losses, sample_weight)
