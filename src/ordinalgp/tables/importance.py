"""Importance of a table's columns: the loss of predictions when one column is shuffled.

A model predicts rows that it has not seen, once as they are and once with one column permuted
among them, all encoded features of the column together. The importance of the column is the mean
increase of minus the log probability of the true level. A column without influence has zero on
average, and may come out below zero.

Columns that tell the same stand in for each other: if one of them is shuffled, the other still
knows. Each of two equal columns therefore has less importance than one of them alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from ordinalgp._typing import FINITE, Axes, FloatArray, IntArray
from ordinalgp.persistence import saved_as


@dataclass(frozen=True)
class ImportanceSettings:
    """Limits of the cost of importances."""

    rows: int = 500
    """most rows that are predicted, of all folds together"""
    repetitions: int = 5
    """permutations of each column"""
    columns: int = 20
    """columns above which fewer rows and permutations are taken, in proportion"""

    def for_columns(self, n_columns: int) -> tuple[int, int]:
        """Rows and repetitions for a table with so many columns."""
        share = min(1.0, self.columns / max(n_columns, 1))
        repetitions = max(1, round(self.repetitions * share))
        rows = self.rows * self.repetitions * share / repetitions
        return max(100, min(self.rows, round(rows))), repetitions


@saved_as("result.importance")
@dataclass(frozen=True, eq=False)
class Importance:
    """Importance of each column of a table, in nats of log score, with its standard error.

    Attributes
    ----------
    columns : tuple of str
        Names of the columns, in the order of the table.
    mean : ndarray of shape (n_columns,)
        Mean increase of the log score when the column is permuted.
    standard_error : ndarray of shape (n_columns,)
        Standard error of the mean, over rows and folds.
    """

    columns: tuple[str, ...]
    mean: Annotated[FloatArray, Axes("c", *FINITE)]
    standard_error: Annotated[FloatArray, Axes("c", 0.0, np.inf)]

    def as_dict(self) -> dict[str, tuple[float, float]]:
        """Mean and standard error of each column, by its name."""
        pairs = zip(self.mean.tolist(), self.standard_error.tolist(), strict=True)
        return dict(zip(self.columns, pairs, strict=True))


def losses(proba: FloatArray, codes: IntArray) -> FloatArray:
    """Minus the log probability of each row's level, finite."""
    own = proba[np.arange(len(codes)), codes]
    return -np.log(np.maximum(own, np.finfo(float).tiny))


def increases(
    predict: Callable[[FloatArray], FloatArray],
    X: FloatArray,
    codes: IntArray,
    groups: Mapping[str, Sequence[int]],
    repetitions: int,
    rng: np.random.Generator,
    rows: IntArray | None = None,
) -> FloatArray:
    """Increase of the loss of each row when a column is permuted, (n_rows, n_columns).

    ``groups`` has the features of each column. Of the rows ``X``, those in ``rows`` are predicted;
    the values that they get instead of their own are those of any row.
    """
    rows = np.arange(len(X)) if rows is None else rows
    known = np.tile(codes[rows], repetitions)
    before = losses(predict(X[rows]), codes[rows])
    found = np.zeros((len(rows), len(groups)))
    for place, features in enumerate(groups.values()):
        columns = list(features)
        values = X[:, columns]
        if not columns or not np.ptp(values, axis=0).any():
            continue  # nothing changes
        shuffled = np.tile(X[rows], (repetitions, 1))
        drawn = [rng.permutation(len(X))[rows] for _ in range(repetitions)]
        shuffled[:, columns] = values[np.concatenate(drawn)]
        after = losses(predict(shuffled), known).reshape(repetitions, -1)
        found[:, place] = after.mean(axis=0) - before
    return found


def mean_and_error(values: FloatArray, units: IntArray, fold: IntArray) -> tuple[Any, Any]:
    """Mean of rows and its standard error, of each column of ``values``, (n, ...).

    Rows of one unit, such as a person, count as one draw. Rows of one fold share a model; where
    folds differ by more than their rows explain, the error is that of the folds' means.
    """
    n = len(values)
    mean = values.mean(axis=0)
    error = _clustered(values - mean, units)
    _, sizes = np.unique(fold, return_counts=True)
    if len(sizes) > 2:
        # The same estimate with folds as units, corrected for their small number.
        between = _clustered(values - mean, fold)
        error = np.maximum(error, between)
    return mean, error if n > 1 else np.zeros_like(mean)


def _clustered(residuals: FloatArray, units: IntArray) -> Any:
    """Standard error of a mean whose rows are drawn in units."""
    _, place = np.unique(units, return_inverse=True)
    n_units = int(place.max()) + 1
    sums = np.zeros((n_units, *residuals.shape[1:]))
    np.add.at(sums, place.ravel(), residuals)
    correction = n_units / max(n_units - 1, 1)
    return np.sqrt(correction * np.sum(sums**2, axis=0)) / len(residuals)
