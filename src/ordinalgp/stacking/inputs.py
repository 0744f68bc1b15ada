"""Inputs as the default models see them: standardised, or with normal scores for heavy tails."""

from dataclasses import dataclass
from typing import Annotated, Literal, Self

import numpy as np
from scipy.special import ndtri

from ordinalgp._typing import FINITE, POSITIVE, Axes, FloatArray, IntArray
from ordinalgp.persistence import saved_as

View = Literal["standardised", "normal scores"]

_HEAVY = 5.0  # fourth moment of a standardised column with heavy tails; 3 if it is normal
_LEAST_VALUES = 12  # different values of a column that is not a scale with few answers
_MOST_KNOTS = 200  # values at which a column's normal scores are kept


@saved_as("stacking.inputs")
@dataclass(frozen=True, eq=False)
class Inputs:
    """Scaling of columns that is learned from the training rows.

    Numbers get mean 0 and standard deviation 1. Columns with two values become 0 and 1. In the
    view "normal scores", columns with heavy tails are replaced by the normal quantiles of their
    ranks, interpolated between training values.
    """

    centre: Annotated[FloatArray, Axes("d", *FINITE)]
    scale: Annotated[FloatArray, Axes("d", *POSITIVE)]
    heavy: Annotated[IntArray, Axes("h", 0, "d")]
    """columns with heavy tails"""
    knots: Annotated[FloatArray, Axes("h k", *FINITE)]
    """ascending standardised values of these columns"""
    scores: Annotated[FloatArray, Axes("h k", *FINITE)]
    """normal scores of the knots"""

    @classmethod
    def learn(cls, X: FloatArray, weights: FloatArray) -> Self:
        """Learn from training rows, each counted ``weights`` times."""
        X, weights = X[weights > 0], weights[weights > 0]
        centre, scale = np.transpose([_centre_and_scale(column, weights) for column in X.T])
        Z = (X - centre) / scale
        fourth = np.average(Z**4, axis=0, weights=weights)
        values = [len(np.unique(column)) for column in Z.T]
        heavy = np.flatnonzero((fourth > _HEAVY) & (np.array(values) >= _LEAST_VALUES))
        curves = [_normal_scores(Z[:, column], weights) for column in heavy]
        width = max((len(knots) for knots, _ in curves), default=1)
        knots, scores = np.zeros((2, len(heavy), width))
        for row, (at, score) in enumerate(curves):  # the last knot fills the rest of a row
            knots[row], scores[row] = at[-1], score[-1]
            knots[row, : len(at)], scores[row, : len(at)] = at, score
        return cls(centre, scale, heavy, knots, scores)

    def seen(self, X: FloatArray, view: View) -> FloatArray:
        """Rows in one of the views, (n, d)."""
        Z = (X - self.centre) / self.scale
        if view == "normal scores":
            for column, knots, scores in zip(self.heavy, self.knots, self.scores, strict=True):
                Z[:, column] = np.interp(Z[:, column], knots, scores)
        return Z


def _centre_and_scale(x: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Mean and standard deviation; of two values the lower one and their difference."""
    values = np.unique(x)
    if len(values) < 3:
        return float(values[0]), float(values[-1] - values[0]) or 1.0
    largest = float(np.max(np.abs(x)))  # squares of very large numbers overflow
    share = x / largest
    mean = float(np.average(share, weights=weights))
    spread = float(np.sqrt(np.average((share - mean) ** 2, weights=weights)))
    return largest * mean, largest * spread or 1.0


def _normal_scores(z: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Values of a column and the normal quantiles of their mean ranks, standardised."""
    knots, place = np.unique(z, return_inverse=True)
    counts = np.bincount(place.ravel(), weights)
    scores = ndtri((np.cumsum(counts) - 0.5 * counts) / np.sum(counts))
    mean = np.average(scores, weights=counts)
    scores = (scores - mean) / np.sqrt(np.average((scores - mean) ** 2, weights=counts))
    kept = np.unique(np.linspace(0, len(knots) - 1, _MOST_KNOTS).astype(np.intp))
    return knots[kept], scores[kept]
