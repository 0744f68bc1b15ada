"""Folds of a table's rows: levels in equal shares, and rows that belong together in one fold."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.tables.cells import BadInput, Table, gaps
from ordinalgp.tables.frames import is_missing

Folds = list[tuple[IntArray, IntArray]]
"""training rows and test rows of each fold, ascending"""

# Pairs of equal rows that chance alone would make, up to which equal rows are taken for copies.
_CHANCE_PAIRS = 0.5


def make_folds(
    codes: Any,
    n_folds: int,
    groups: Any = None,
    table: Table | None = None,
    random_state: int = 0,
) -> Folds:
    """Split rows into folds, each with nearly the same share of every level.

    Parameters
    ----------
    codes : array-like of shape (n_samples,)
        Rank of each row's level, from 0.
    n_folds : int
        Number of folds, at least 2.
    groups : array-like of shape (n_samples,), default=None
        Group of each row, such as the person who gave it. All rows of a group are in one fold.
    table : Table, default=None
        The rows. Without ``groups``, copies among them stay in one fold; see :func:`copies`.
    random_state : int, default=0
        Seed of the order in which rows are dealt out.

    Returns
    -------
    list of pairs of ndarrays
        Training rows and test rows of each fold. Every row is in one test set.

    Examples
    --------
    >>> from ordinalgp.tables.folds import make_folds
    >>> folds = make_folds([0, 0, 1, 1, 1, 1], 2)
    >>> [len(test) for _, test in folds]
    [3, 3]
    """
    codes = np.asarray(codes, dtype=np.intp)
    if n_folds < 2:
        raise ValueError(f"n_folds must be at least 2, but is {n_folds}.")
    if groups is not None:
        units = group_numbers(groups, len(codes))
    else:
        units = np.arange(len(codes)) if table is None else copies(table, codes)
    n_units = int(units.max(initial=-1)) + 1
    if n_units < n_folds:
        what = "rows that differ" if groups is None else "groups"
        raise BadInput(
            f"{n_folds} folds need at least {n_folds} {what}, but there are {n_units}. "
            "Use fewer folds."
        )
    fold = _dealt(codes, units, n_folds, np.random.default_rng(random_state))[units]
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]


def group_numbers(groups: Any, n_rows: int) -> IntArray:
    """Groups numbered from 0; a row without one is a group of its own."""
    cells = np.asarray(groups, dtype=object)
    if cells.shape != (n_rows,):
        raise ValueError(
            f"groups must name one group per row, {n_rows} in all, but has shape {cells.shape}."
        )
    numbers: dict[Any, int] = {}
    found = np.empty(n_rows, dtype=np.intp)
    for row, cell in enumerate(cells.tolist()):
        key = (row,) if is_missing(cell) else cell
        found[row] = numbers.setdefault(key, len(numbers))
    return found


def copies(table: Table, codes: IntArray) -> IntArray:
    """Numbers of the rows, equal ones where rows are copies of each other.

    Copies agree in every column and in their level. A table with few different values has equal
    rows by chance, which are no copies. Two different rows agree in a column with some
    probability; if the product over the columns makes half a pair or less in the whole table,
    equal rows are copies.
    """
    columns = [*map(_numbered, table.columns.values()), codes]
    rows = np.column_stack(columns)
    _, first, place = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    if len(first) == len(codes):
        return np.arange(len(codes))
    different = rows[first]
    shares = [np.bincount(column) / len(different) for column in different.T]
    agree = float(np.exp(sum(np.log(np.sum(share**2)) for share in shares)))
    pairs = agree * len(different) * (len(different) - 1) / 2
    return np.asarray(place.ravel() if pairs <= _CHANCE_PAIRS else np.arange(len(codes)))


def _numbered(cells: NDArray[Any]) -> IntArray:
    """Values of a column as numbers from 0, gaps the last."""
    found, absent = np.zeros(len(cells), dtype=np.intp), gaps(cells)
    values, place = np.unique(cells[~absent], return_inverse=True)
    found[~absent], found[absent] = place.ravel(), len(values)
    return found


def _dealt(codes: IntArray, units: IntArray, n_folds: int, rng: np.random.Generator) -> IntArray:
    """Fold of each unit: large units first, each where its levels are rarest so far."""
    n_units, n_levels = int(units.max()) + 1, int(codes.max()) + 1
    counts: FloatArray = np.zeros((n_units, n_levels))
    np.add.at(counts, (units, codes), 1.0)
    order = rng.permutation(n_units)
    # Within equal sizes level by level, so that single rows are dealt out in turn.
    keys = counts[order].argmax(axis=1), -counts[order].sum(axis=1)
    order = order[np.lexsort(keys)]
    scale = 1 / np.maximum(counts.sum(axis=0), 1.0)
    held, sizes = np.zeros((n_folds, n_levels)), np.zeros(n_folds)
    fold = np.empty(n_units, dtype=np.intp)
    for unit in order:
        # Growth of the sum of squared shares, of each level and of all rows.
        size = counts[unit].sum()
        growth = held @ (counts[unit] * scale) + sizes * size / len(codes)
        fold[unit] = at = int(np.argmin(growth))
        held[at] += counts[unit]
        sizes[at] += size
    return fold
