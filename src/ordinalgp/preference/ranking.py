"""Posterior of items and of pairs: differences of utilities, probabilities, rankings."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.gaussian import Moments
from ordinalgp.core.linalg import square_root
from ordinalgp.models.exact import ExactGP

_PAIR_BLOCK = 256  # pairs at a time: scikit-learn's kernels cannot be evaluated pair by pair
_DRAWS = 10_000  # of the joint posterior
_DRAW_BLOCK = 2**22  # numbers at a time


def differences(mean: FloatArray, covariance: FloatArray, i: IntArray, j: IntArray) -> Moments:
    """Moments of f[i] - f[j] for jointly normal f."""
    own = np.diagonal(covariance)
    var = own[i] + own[j] - 2 * covariance[i, j]
    return Moments(mean[i] - mean[j], np.maximum(var, 0.0))


def pair_moments(model: ExactGP, rows: FloatArray, pairs: IntArray) -> Moments:
    """Posterior moments of the differences of pairs of rows.

    A pair costs O(N^2), and all items together, with k rows, O(k^2 N): the cheaper way is taken.
    """
    if len(rows) ** 2 <= len(pairs) * len(model.task.X):
        return differences(*model.joint(rows), *pairs.T)
    blocks = (pairs[i : i + _PAIR_BLOCK] for i in range(0, len(pairs), _PAIR_BLOCK))
    parts = [_block_moments(model, *(rows[side] for side in block.T)) for block in blocks]
    return Moments(*np.hstack([(part.mean, part.var) for part in parts]))


def _block_moments(model: ExactGP, left: FloatArray, right: FloatArray) -> Moments:
    """Posterior moments of f(left) - f(right), pair by pair."""
    items, kernel = model.task.X, model.kernel
    cross = kernel(left, items) - kernel(right, items)
    prior = kernel.diag(left) + kernel.diag(right) - 2 * np.diagonal(kernel(left, right))
    return model.posterior.predict(cross, np.maximum(prior, 0.0))


def pair_probabilities(model: ExactGP, rows: FloatArray, pairs: IntArray) -> FloatArray:
    """Probabilities of all levels for pairs of rows, eq. (6) of [Wang10]_; equal pairs once."""
    distinct, which = np.unique(pairs, axis=0, return_inverse=True)
    at = pair_moments(model, rows, distinct)
    return np.asarray(model.likelihood.probabilities(at.mean, at.var)[which.ravel()])


@dataclass(frozen=True, eq=False)
class Ranking:
    """Items from best to worst, as :meth:`PreferenceGP.rank` returns them.

    All arrays have one entry for each item, the best first.

    Examples
    --------
    >>> from ordinalgp import PreferenceGP
    >>> teams = ["Ajax", "Bayern", "Celtic"]
    >>> games = [("Bayern", "Ajax"), ("Bayern", "Celtic"), ("Ajax", "Celtic")]
    >>> model = PreferenceGP("independent", noise=1.0, random_state=0).fit(teams, games)
    >>> ranking = model.rank(teams)
    >>> ranking.items.tolist()
    ['Bayern', 'Ajax', 'Celtic']
    >>> print(f"{ranking.best_proba[0]:.1f}, give or take {ranking.best_proba_error[0]:.3f}")
    0.7, give or take 0.005
    """

    order: IntArray = field(repr=False)
    """row of each item in the ``X`` that was ranked"""
    items: NDArray[Any]
    """its name, if items have names, else its row"""
    mean: FloatArray = field(repr=False)
    """expected utility"""
    sd: FloatArray = field(repr=False)
    """posterior standard deviation of the utility"""
    best_proba: FloatArray = field(repr=False)
    """probability that this item's utility is the largest of all"""
    best_proba_error: FloatArray = field(repr=False)
    """standard error of ``best_proba``, which is an average over random draws"""


def best_probabilities(
    mean: FloatArray, covariance: FloatArray, rng: np.random.RandomState
) -> tuple[FloatArray, FloatArray]:
    """Share of draws in which each of jointly normal values is the largest, and its error."""
    root = square_root(covariance)
    wins, block = np.zeros(len(mean)), max(1, _DRAW_BLOCK // len(mean))
    for start in range(0, _DRAWS, block):
        normal = rng.standard_normal((min(block, _DRAWS - start), root.shape[1]))
        draws = mean + normal @ root.T
        wins += np.bincount(draws.argmax(axis=1), minlength=len(mean))
    # Half a draw more for and against: an item never on top in 10,000 is not certain to lose.
    share = (wins + 0.5) / (_DRAWS + 1)
    return wins / _DRAWS, np.sqrt(share * (1 - share) / _DRAWS)
