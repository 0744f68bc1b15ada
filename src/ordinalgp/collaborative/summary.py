"""Summaries of a fitted model: items as a typical rater sees them, and the use of the scale."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.posterior import Moments
from ordinalgp.decisions import intervals


@dataclass(frozen=True, eq=False)
class ItemSummary:
    """Items, the one with the highest expected rating first.

    Arrays have one entry for each item. Expected ratings and intervals are for a rater of whom
    nothing is known.
    """

    items: NDArray[Any]
    expected: FloatArray
    low: NDArray[Any]
    """lowest level of an interval"""
    high: NDArray[Any]
    ratings: IntArray
    """number of ratings"""


@dataclass(frozen=True, eq=False)
class RaterSummary:
    """Raters in the order of the model, and how they use the scale."""

    raters: NDArray[Any]
    ratings: IntArray
    """number of ratings"""
    mean: FloatArray
    """mean of the rater's ratings as numbers"""
    noise: FloatArray
    """in units of the typical rater's"""
    shares: FloatArray
    """probability of each level for an item of average appeal, (raters, levels)"""


def summarise_items(model: Any, threshold: float) -> ItemSummary:
    """Items under a model of many raters."""
    m, typical = len(model.items), model.with_rater(object(), *_nothing(), 0.0)
    place = np.full(m, len(model.rater_ids))
    at: Moments = typical.latent(place, list(model.items.values), None)
    proba = typical.probabilities(place, at)
    expected = proba @ model.values
    order = np.argsort(-expected, kind="stable")
    low, high = intervals(proba[order], threshold, model.counts)
    rated = [model.rated(j) for j in range(len(model.rater_ids))]
    counts = np.bincount(np.concatenate(rated), minlength=m)[order]
    levels = model.categories
    return ItemSummary(model.items.array(order), expected[order], levels[low], levels[high], counts)


def summarise_raters(model: Any) -> RaterSummary:
    """Raters under a model of many raters."""
    n = len(model.rater_ids)
    links = [model.link(j) for j in range(n)]
    zero = np.zeros(1)
    appeal = np.full(1, float(np.mean(model.average)))
    shares = np.array([link.probabilities(appeal, zero)[0] for link in links])
    noise = np.array([link.noise for link in links])
    counts = np.array([len(model.rated(j)) for j in range(n)], dtype=np.intp)
    means = np.array([np.mean(model.given(j)) if counts[j] else np.nan for j in range(n)])
    typical = float(np.exp(np.mean(np.log(noise))))
    return RaterSummary(model.rater_ids.array(), counts, means, noise / typical, shares)


def _nothing() -> tuple[IntArray, IntArray]:
    """No ratings."""
    return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
