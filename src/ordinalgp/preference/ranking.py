"""Items from best to worst, and how probably each of them is the best."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.linalg import square_root

_DRAWS = 10_000  # of the joint posterior
_DRAW_BLOCK = 2**22  # numbers at a time


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
