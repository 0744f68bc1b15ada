"""A sequence of binary steps between ordered levels, and its fitted model.

A step (low, cut, high) asks, of the levels low, ..., high - 1, whether the level is at least
``cut``. The steps form a tree: each side of a step with several levels has a step of its own. The
probability of a level is the product of the answers that lead to it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from ordinalgp._typing import Axes, FloatArray
from ordinalgp.many_rows.model import InducedGP
from ordinalgp.many_rows.neighbour_model import NeighbourGP
from ordinalgp.models.base import NoLeaveOneOut
from ordinalgp.models.exact import ExactGP
from ordinalgp.persistence import saved_as

Direction = Literal["up", "down", "middle"]
Split = tuple[int, int, int]
"""low, cut, high"""


def splits(counts: FloatArray, direction: Direction) -> list[Split]:
    """Steps between levels with these (weighted) row counts, (r,), from the whole to its parts."""
    below = np.concatenate([[0.0], np.cumsum(counts)])
    found, pending = [], [(0, len(counts))]
    while pending:
        low, high = pending.pop()
        if high - low < 2:
            continue
        cut = _cut(below, low, high, direction)
        found.append((low, cut, high))
        pending += [(cut, high), (low, cut)]
    return found


def _cut(below: FloatArray, low: int, high: int, direction: Direction) -> int:
    """First level of the upper side; ``below`` counts the rows below each level."""
    if direction == "up":
        return low + 1
    if direction == "down":
        return high - 1
    cuts = np.arange(low + 1, high)
    if below[high] == below[low]:  # no rows: halve the levels
        return (low + high) // 2
    uneven = np.abs(2 * below[cuts] - below[low] - below[high])
    return int(cuts[np.argmin(uneven)])


@saved_as("sequential.step")
@dataclass(frozen=True, eq=False)
class Step:
    """A binary step: whether one of the levels low, ..., high - 1 is at least ``cut``.

    If the rows of the step are all on one side, there is nothing to learn: the other side has
    half a row of n + 1, the share that Jeffreys' prior gives it.
    """

    low: Annotated[int, Axes(low=0)]
    cut: Annotated[int, Axes(low=1)]
    high: Annotated[int, Axes(low=2)]
    weights: Annotated[FloatArray, Axes("two", 0.0, np.inf)]
    """total weight of the rows on the lower and on the upper side"""
    model: ExactGP | InducedGP | NeighbourGP | None
    """Gaussian process with the two sides as levels; None if a side has no rows"""

    @property
    def split(self) -> Split:
        """Low, cut and high."""
        return self.low, self.cut, self.high

    @property
    def value(self) -> float | None:
        """Log evidence, if there was something to learn."""
        return None if self.model is None else self.model.summary.value

    def probabilities(self, X: FloatArray) -> FloatArray:
        """Probability of the lower and of the upper side at new rows, (n, 2)."""
        if self.model is None:
            return np.tile(_shares(self.weights), (len(X), 1))
        return self.model.probabilities(X)

    def probability_draws(self, X: FloatArray, n: int, rng: Any) -> FloatArray:
        """The same under ``n`` draws of the latent function, (n, rows, 2)."""
        if self.model is None:
            return np.tile(self.probabilities(X), (n, 1, 1))
        return self.model.probability_draws(X, n, rng)

    def left_out_probabilities(self, X: FloatArray, within: Any) -> FloatArray:
        """The same at the training rows; those ``within`` the step are left out of it."""
        proba = np.empty((len(X), 2))
        if not within.all():
            proba[~within] = self.probabilities(X[~within])
        if self.model is None:  # one copy less, on the only side that there is
            proba[within] = _shares(np.maximum(self.weights - 1.0, 0.0))
        else:
            proba[within] = self.model.left_out_probabilities()
        return proba

    def check(self, n_features: int) -> None:
        """Raise ValueError unless the parts of a saved step agree."""
        if self.weights.shape != (2,) or not self.low < self.cut < self.high:
            raise ValueError("a step is not between two sides")
        if self.model is not None:
            self.model.check(n_features, 2)
        if isinstance(self.model, ExactGP) and np.any(self.model.task.y > 1):
            raise ValueError("a step has more than two sides")


def _shares(weights: FloatArray) -> FloatArray:
    """Shares of two sides with these rows, half a row added to each."""
    return (weights + 0.5) / (np.sum(weights) + 1.0)


def level_probabilities(
    steps: Sequence[Step], n_levels: int, sides: Iterator[FloatArray]
) -> FloatArray:
    """Probability of every level, (..., r), from that of the sides of each step, (..., 2)."""
    proba: Any = 1.0
    for step, two in zip(steps, sides, strict=True):
        factor = np.ones((*two.shape[:-1], n_levels))
        factor[..., step.low : step.cut] = two[..., :1]
        factor[..., step.cut : step.high] = two[..., 1:]
        proba = proba * factor
    return np.asarray(proba)


@saved_as("model.sequential")
@dataclass(frozen=True, eq=False)
class SequentialModel:
    """A fitted sequential model: its steps, and predictions of the rows that it was fitted on."""

    steps: tuple[Step, ...]
    left_out: Annotated[FloatArray, Axes("rows r", 0.0, 2.0)]
    """probabilities of each training row without itself, or no rows where they were not kept"""

    @property
    def n_levels(self) -> int:
        """Number r of levels."""
        return len(self.steps) + 1

    def probabilities(self, X: FloatArray) -> FloatArray:
        """Probability of every level at new rows, (n, r)."""
        sides = (step.probabilities(X) for step in self.steps)
        return level_probabilities(self.steps, self.n_levels, sides)

    def probability_draws(self, X: FloatArray, n: int, rng: Any) -> FloatArray:
        """The same under ``n`` draws of the latent function of every step, (n, rows, r)."""
        sides = (step.probability_draws(X, n, rng) for step in self.steps)
        return level_probabilities(self.steps, self.n_levels, sides)

    def left_out_probabilities(self) -> FloatArray:
        """Probability of every level at each training row without itself, (n, r)."""
        if len(self.left_out) == 0:
            raise NoLeaveOneOut(
                "Leave-one-out probabilities are kept up to 20,000 rows, but the model was fitted "
                "on more. Fit fewer rows to have them."
            )
        return self.left_out

    def check(self, n_features: int, n_levels: int) -> None:
        """Raise ValueError unless the parts of a saved model agree."""
        pending = {(0, n_levels)}
        for step in self.steps:
            step.check(n_features)
            if (step.low, step.high) not in pending:
                raise ValueError("the steps do not lead to every level once")
            pending -= {(step.low, step.high)}
            sides = (step.low, step.cut), (step.cut, step.high)
            pending |= {(low, high) for low, high in sides if high - low > 1}
        if pending or self.left_out.shape[1] != n_levels:
            raise ValueError("the steps and the levels disagree")
