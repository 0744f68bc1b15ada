"""Thresholds around levels that no training row has.

Nothing in the evidence keeps such a level wide: its probability goes to zero, and a new row that
has it would be a surprise without bounds. So after the search each of them gets the probability of
half a row, as it has in the frequencies that the search starts from.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import brentq

from ordinalgp._typing import FloatArray
from ordinalgp.core.gaussian import Moments
from ordinalgp.core.likelihoods import Thresholds


def with_half_rows(link: Any, moments: Moments, weights: FloatArray, counts: FloatArray) -> Any:
    """Threshold model in which every level has at least the probability of half a row.

    It is the mean over rows with these latent moments, each left out, and weights, (m,). ``counts``
    (r,) are the rows of the levels. A likelihood that is no threshold model stays as it is.
    """
    absent = np.flatnonzero(counts == 0)
    known = np.all(np.isfinite(moments.mean)) and np.all(np.isfinite(moments.var))
    if not len(absent) or not known or not isinstance(link, Thresholds):
        return link
    share = 0.5 / (np.sum(counts) + 0.5 * len(counts))
    weights = weights / np.sum(weights)

    def up_to(threshold: float) -> float:
        """Probability of a level below a threshold."""
        one = type(link).from_thresholds([threshold], link.noise, link.unit)
        return float(weights @ one.probabilities(moments.mean, moments.var)[:, 0])

    wanted = _wanted(np.array([up_to(b) for b in link.thresholds]), absent, share)
    spread = np.sqrt(np.max(moments.var) + (link.noise * link.noise_sd) ** 2)
    ends = np.min(moments.mean) - 40 * spread, np.max(moments.mean) + 40 * spread
    moved = [
        b if p is None else brentq(lambda b, p=p: up_to(b) - p, *ends)
        for b, p in zip(link.thresholds.tolist(), wanted, strict=True)
    ]
    if np.any(np.diff(moved) <= 0):
        return link
    return replace(link, first=float(moved[0]), gaps=np.diff(moved))


def _wanted(below: FloatArray, absent: Any, share: float) -> list[float | None]:
    """Probability below each threshold, (r - 1,); None where the threshold stays.

    A run of levels without rows takes from the levels beside it, at most a third of what they have.
    """
    edges = np.concatenate([[0.0], below, [1.0]])
    wanted: list[float | None] = [None] * len(below)
    for run in np.split(absent, np.flatnonzero(np.diff(absent) > 1) + 1):
        low, high = run[0], run[-1] + 1  # the run is between these edges
        have = edges[high] - edges[low]
        most = (edges[min(high + 1, len(edges) - 1)] - edges[max(low - 1, 0)]) / 3
        width = min(len(run) * share, most)
        if have >= width:
            continue
        centre = (edges[low] + edges[high]) / 2
        start = 0.0 if low == 0 else 1.0 - width if high == len(below) + 1 else centre - width / 2
        for edge in range(low, high + 1):
            if 0 < edge <= len(below):
                wanted[edge - 1] = start + width * (edge - low) / len(run)
    return wanted
