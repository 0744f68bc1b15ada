"""Losses of single rows, whose means are the scores of this folder."""

import numpy as np

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.decisions import decide


def ranked_probability_losses(codes: IntArray, probabilities: FloatArray) -> FloatArray:
    """Mean squared difference of cumulative probabilities from 0/1, over the r - 1 cuts; (n,)."""
    reached = codes[:, None] <= np.arange(probabilities.shape[1] - 1)
    squares = (probabilities.cumsum(axis=1)[:, :-1] - reached) ** 2
    return np.asarray(squares.mean(axis=1))


def log_losses(codes: IntArray, probabilities: FloatArray) -> FloatArray:
    """Minus the log probability of the true level, infinite where that is zero; (n,)."""
    with np.errstate(divide="ignore"):
        return -np.log(probabilities[np.arange(len(codes)), codes])


def row_losses(codes: IntArray, probabilities: FloatArray) -> dict[str, FloatArray]:
    """Every loss of every row, each error under the decision that minimises it.

    ``codes`` (n,) are ranks from 0, and ``probabilities`` (n, r) are in rank order.
    """
    mode, median = (decide(probabilities, rule) for rule in ("mode", "median"))
    return {
        "zero_one_error": (codes != mode).astype(float),
        "absolute_error": np.abs(codes - median).astype(float),
        "ranked_probability_score": ranked_probability_losses(codes, probabilities),
        "log_score": log_losses(codes, probabilities),
    }
