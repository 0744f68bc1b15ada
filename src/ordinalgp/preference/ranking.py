"""Posterior of items and of pairs: differences of utilities, probabilities, rankings."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.gaussian import Moments
from ordinalgp.core.linalg import square_root
from ordinalgp.models.exact import ExactGP
from ordinalgp.preference.many_items import ManyItemsGP
from ordinalgp.runtime.progress import Progress, Report

_PAIR_BLOCK = 256  # pairs at a time: scikit-learn's kernels cannot be evaluated pair by pair
_DRAWS = 10_000  # of the joint posterior
_RANKED = 2**23  # numbers in the draws whose ranks are kept: all draws of up to 838 items
_FEWEST_RANKED = 500  # draws
_AHEAD = 0.95  # probability from which on an item is ahead of another
_DRAW_BLOCK = 2**22  # numbers at a time
_MANY_ITEMS = 2000  # whose draws take long enough to be reported


def differences(mean: FloatArray, covariance: FloatArray, i: IntArray, j: IntArray) -> Moments:
    """Moments of f[i] - f[j] for jointly normal f."""
    own = np.diagonal(covariance)
    var = own[i] + own[j] - 2 * covariance[i, j]
    return Moments(mean[i] - mean[j], np.maximum(var, 0.0))


def pair_moments(model: ExactGP | ManyItemsGP, rows: FloatArray, pairs: IntArray) -> Moments:
    """Posterior moments of the differences of pairs of rows.

    A pair costs O(N^2), and all items together, with k rows, O(k^2 N): the cheaper way is taken.
    """
    if isinstance(model, ManyItemsGP):
        return model.differences(rows, pairs)
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


def pair_probabilities(
    model: ExactGP | ManyItemsGP, rows: FloatArray, pairs: IntArray
) -> FloatArray:
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
    >>> ranking.rank_low.tolist(), ranking.rank_high.tolist(), ranking.group.tolist()
    ([1, 1, 1], [3, 3, 3], [1, 1, 1])
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
    rank_low: IntArray = field(repr=False)
    """best rank of the item's interval"""
    rank_high: IntArray = field(repr=False)
    """worst rank of the item's interval"""
    group: IntArray = field(repr=False)
    """number of the group, 1 for the best: its first item is ahead of none of the others with a
    probability of 0.95, and so cannot be told apart from them"""


@dataclass(frozen=True, eq=False)
class Standings:
    """Order of n items by draws of their utilities."""

    best_share: FloatArray
    """share of draws in which each item is the largest"""
    ranks: IntArray
    """ranks of all items in some draws, 1 for the largest, (draws, n)"""

    @property
    def best_error(self) -> FloatArray:
        """Standard error of the shares."""
        # Half a draw more for and against: an item never on top in 10,000 is not certain to lose.
        share = (self.best_share * _DRAWS + 0.5) / (_DRAWS + 1)
        error: FloatArray = np.sqrt(share * (1 - share) / _DRAWS)
        return error

    def interval(self, coverage: float) -> IntArray:
        """Smallest and largest rank of each item, equal tails left out, (2, n)."""
        tails = 0.5 * (1 - coverage), 0.5 * (1 + coverage)
        # The inverse of the distribution function is a rank that occurs, and covers enough.
        return np.quantile(self.ranks, tails, axis=0, method="inverted_cdf").astype(np.intp)

    def groups(self, order: IntArray) -> IntArray:
        """Number of the group of each item, for items in this order.

        A group ends before the first item that its own first item is ahead of.
        """
        number = np.ones(len(order), dtype=np.intp)
        first = 0
        for place in range(1, len(order)):
            ahead = np.mean(self.ranks[:, order[first]] < self.ranks[:, order[place]])
            if ahead >= _AHEAD:
                first = place
            number[place] = number[place - 1] + (first == place)
        return number


def utilities(
    model: ExactGP | ManyItemsGP, rows: FloatArray, rng: np.random.RandomState
) -> tuple[Moments, Iterable[FloatArray]]:
    """Moments of the utilities of rows, and draws from their joint posterior, block by block."""
    if isinstance(model, ManyItemsGP):
        return model.latent(rows), model.draws(rows, _DRAWS, _DRAW_BLOCK, rng)
    mean, covariance = model.joint(rows)
    var = np.maximum(np.diagonal(covariance), 0.0)
    return Moments(mean, var), joint_draws(mean, covariance, rng)


def joint_draws(
    mean: FloatArray, covariance: FloatArray, rng: np.random.RandomState
) -> Iterator[FloatArray]:
    """Draws of jointly normal values, block by block, (draws, n)."""
    root = square_root(covariance)
    block = max(1, _DRAW_BLOCK // len(mean))
    for start in range(0, _DRAWS, block):
        normal = rng.standard_normal((min(block, _DRAWS - start), root.shape[1]))
        yield mean + normal @ root.T


def standings(draws: Iterable[FloatArray], n: int, report: Report) -> Standings:
    """Count how often each of n values is the largest, and rank them in the first draws."""
    wins, done, began = np.zeros(n), 0, time.perf_counter()
    kept: list[IntArray] = []
    left = min(_DRAWS, max(_RANKED // n, _FEWEST_RANKED))
    for some in draws:
        wins += np.bincount(some.argmax(axis=1), minlength=n)
        done += len(some)
        if left > 0:
            kept.append(_ranks(some[:left]))
            left -= len(kept[-1])
        if n > _MANY_ITEMS:
            seconds = time.perf_counter() - began
            text = f"probability of being best, {done} of {_DRAWS} draws ({seconds:.0f} s)"
            report(Progress("pass", done, _DRAWS, None, seconds, text))
    return Standings(wins / done, np.concatenate(kept))


def _ranks(draws: FloatArray) -> IntArray:
    """Rank of each value within its draw, 1 for the largest."""
    order = np.argsort(-draws, axis=1)
    places = np.arange(1, draws.shape[1] + 1, dtype=np.int32)
    ranks: IntArray = np.empty(draws.shape, dtype=np.int32)
    np.put_along_axis(ranks, order, np.broadcast_to(places, draws.shape), axis=1)
    return ranks
