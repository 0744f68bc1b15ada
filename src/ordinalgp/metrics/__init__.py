"""Scores for predictions of ordered levels, and scorers for cross-validation.

All metrics have two options. ``categories``, array-like of shape (r,), names the levels from lowest
to highest. Without it the order is that of ``y_true`` if this is an ordered pandas categorical or a
polars Enum, else that of the numbers in the data; strings raise an error. Name the levels whenever
the data may lack one, as distances in ranks would shrink. ``sample_weight``, array-like of shape
(n,), has the weights of the rows.
"""

from ordinalgp.metrics.scores import (
    OrdinalScorer,
    log_score,
    macro_mean_absolute_error,
    make_ordinal_scorer,
    mean_absolute_error,
    ranked_probability_score,
    weighted_kappa,
    zero_one_error,
)

__all__ = [
    "OrdinalScorer",
    "log_score",
    "macro_mean_absolute_error",
    "make_ordinal_scorer",
    "mean_absolute_error",
    "ranked_probability_score",
    "weighted_kappa",
    "zero_one_error",
]
