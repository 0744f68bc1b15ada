"""Importance of a table's columns: the loss of predictions when one column is shuffled.

A model predicts rows that it has not seen, once as they are and once with one column permuted
among them, all encoded features of the column together. The importance of the column is the mean
increase of minus the log probability of the true level. A column without influence has zero on
average, and may come out below zero.

Of a table with hundreds of columns, only those are shuffled that are most associated with the level
in other rows; the rest count as zero.

Columns that tell the same stand in for each other: if one of them is shuffled, the other still
knows. Each of two equal columns therefore has less importance than one of them alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy.stats import rankdata

from ordinalgp._typing import FINITE, Axes, FloatArray, IntArray
from ordinalgp.persistence import saved_as

_CELLS_PER_CALL = 100_000  # cells that are predicted at once: enough that calls cost little


@dataclass(frozen=True)
class ImportanceSettings:
    """Limits of the cost of importances."""

    rows: int = 500
    """most rows that are predicted, of all folds together"""
    repetitions: int = 5
    """permutations of each column"""
    columns: int = 20
    """columns above which fewer rows and permutations are taken, in proportion"""
    measured: int = 100
    """most columns that are permuted"""

    def for_columns(self, n_columns: int) -> tuple[int, int]:
        """Rows and repetitions for a table with so many columns."""
        share = min(1.0, self.columns / max(min(n_columns, self.measured), 1))
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

    Examples
    --------
    >>> import numpy as np
    >>> from ordinalgp.tables import TableModel
    >>> rng = np.random.default_rng(0)
    >>> table = {"hours": rng.normal(size=90), "noise": rng.normal(size=90)}
    >>> model = TableModel(kernel="rbf", folds=3).fit(table, table["hours"] > 0)
    >>> mean, error = model.importance_.as_dict()["hours"]
    >>> bool(mean > 2 * error)
    True
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


def most_associated(
    X: FloatArray, codes: IntArray, groups: Mapping[str, Sequence[int]], most: int
) -> dict[str, Sequence[int]]:
    """Features of at most so many columns: those that explain most of the variance of ranks."""
    if len(groups) <= most:
        return dict(groups)
    # Ranks, so that heavy tails do not hide an association, and their squares, so that a turn of
    # direction does not; adjusted for their number.
    ranks, left = rankdata(X, axis=0), codes - codes.mean()
    ranks -= ranks.mean(axis=0)
    unexplained = {}
    for name, features in groups.items():
        own = ranks[:, list(features)]
        both = np.column_stack([own, own**2 - (own**2).mean(axis=0)])
        weights, _, rank, _ = np.linalg.lstsq(both, left, rcond=None)
        rest = left - both @ weights
        unexplained[name] = (rest @ rest) / max(len(codes) - rank - 1, 1)
    chosen = set(sorted(groups, key=lambda name: unexplained[name])[:most])
    return {name: features for name, features in groups.items() if name in chosen}


def increases(
    predict: Callable[[FloatArray], FloatArray],
    X: FloatArray,
    codes: IntArray,
    groups: Mapping[str, Sequence[int]],
    repetitions: int,
    rng: np.random.Generator,
    rows: IntArray | None = None,
    cells_per_call: int = _CELLS_PER_CALL,
) -> FloatArray:
    """Increase of the loss of each row when a column is permuted, (n_rows, n_columns).

    ``groups`` has the features of each column. Of the rows ``X``, those in ``rows`` are predicted;
    the values that they get instead of their own are those of any row.
    """
    rows = np.arange(len(X)) if rows is None else rows
    before = losses(predict(X[rows]), codes[rows])
    found = np.zeros((len(rows), len(groups)))
    # A column that has one value changes nothing.
    varied = [
        (k, list(g)) for k, g in enumerate(groups.values()) if np.ptp(X[:, list(g)], axis=0).any()
    ]
    per_call = max(1, cells_per_call // (repetitions * max(X[rows].size, 1)))
    for start in range(0, len(varied), per_call):
        block = varied[start : start + per_call]
        shuffled = np.tile(X[rows], (len(block), repetitions, 1, 1))
        for own, (_, columns) in zip(shuffled, block, strict=True):
            for copy in own:
                copy[:, columns] = X[rng.permutation(len(X))[rows]][:, columns]
        proba = predict(shuffled.reshape(-1, X.shape[1]))
        known = np.tile(codes[rows], len(block) * repetitions)
        after = losses(proba, known).reshape(len(block), repetitions, -1).mean(axis=1)
        found[:, [place for place, _ in block]] = after.T - before[:, None]
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
