"""Posterior moments and probabilities of pairs of items."""

import numpy as np

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.gaussian import Moments
from ordinalgp.models.exact import ExactGP
from ordinalgp.preference.suggestions import differences

_PAIR_BLOCK = 256  # pairs at a time: sklearn's kernels cannot be evaluated pair by pair


def pair_moments(model: ExactGP, rows: FloatArray, pairs: IntArray) -> Moments:
    """Posterior moments of the differences of pairs of rows.

    A pair costs O(N^2), and all items together, with k rows, O(k^2 N): the cheaper way is taken.
    """
    if len(rows) ** 2 <= len(pairs) * len(model.task.X):
        return differences(*model.joint(rows), *pairs.T)
    blocks = (pairs[i : i + _PAIR_BLOCK] for i in range(0, len(pairs), _PAIR_BLOCK))
    parts = [_block_moments(model, *(rows[side] for side in block.T)) for block in blocks]
    mean, var = (np.concatenate([getattr(p, k) for p in parts]) for k in ("mean", "var"))
    return Moments(mean, var)


def _block_moments(model: ExactGP, left: FloatArray, right: FloatArray) -> Moments:
    """Posterior moments of f(left) - f(right), pair by pair."""
    items, kernel = model.task.X, model.kernel
    cross = kernel(left, items) - kernel(right, items)
    prior = kernel.diag(left) + kernel.diag(right) - 2 * np.diagonal(kernel(left, right))
    return model.posterior.predict(cross, np.maximum(prior, 0.0))


def pair_probabilities(model: ExactGP, rows: FloatArray, pairs: IntArray) -> FloatArray:
    """Probabilities of all levels for pairs of rows, each distinct pair computed once."""
    distinct, which = np.unique(pairs, axis=0, return_inverse=True)
    at = pair_moments(model, rows, distinct)
    proba: FloatArray = model.likelihood.probabilities(at.mean, at.var)[which.ravel()]
    return proba
