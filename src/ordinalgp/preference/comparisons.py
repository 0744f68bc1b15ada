"""Comparisons as users give them: checked, coded, and merged into counts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ordinalgp._typing import FINITE, Axes, FloatArray, IntArray
from ordinalgp.core.projections import Differences, Projection, SparseProjection
from ordinalgp.persistence import saved_as
from ordinalgp.validation.labels import (
    check_categories,
    class_positions,
    declared_order,
    label_values,
    show,
)
from ordinalgp.validation.weights import check_weights

_TABLE_PER_ROW, _SMALL_TABLE = 8, 2**16  # cells that cost no more than to sort the rows
_WINS = np.array([-1, 1])
_TIES = np.array([-1, 0, 1])
_ADVICE_TO_ADD_LEVEL = "Add this level to levels or drop such rows."
_ADVICE_TO_NAME_LEVELS = (
    "Without levels, outcomes are -1 (right preferred), 0 (tie) and +1 (left preferred). For "
    "others name them, from right to left preferred, e.g. levels=[0, 0.5, 1] or levels=['worse', "
    "'same', 'better']."
)


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Levels from "right much preferred" to "left much preferred"; code and weight of each row."""

    levels: NDArray[Any]
    codes: IntArray
    weights: FloatArray


@dataclass(frozen=True, eq=False)
class Judges:
    """Names of judges, and the judge of each comparison."""

    names: NDArray[Any]
    by: IntArray


@dataclass(frozen=True, eq=False)
class Observations:
    """Distinct observations of linear combinations of items, with their counts."""

    levels: NDArray[Any]
    projection: Projection
    codes: IntArray
    counts: FloatArray
    judges: NDArray[Any] | None = None
    """names of all judges; None: comparisons have no judges"""
    by: IntArray | None = None
    """judge of each"""

    @property
    def level_counts(self) -> FloatArray:
        """Number of observations of each level."""
        return np.bincount(self.codes, self.counts, len(self.levels)).astype(float)


@dataclass(frozen=True, eq=False)
class SparseRecord:
    """Saved form of a sparse projection."""

    columns: Annotated[IntArray, Axes("entries", 0, "N")]
    coefficients: Annotated[FloatArray, Axes("entries", *FINITE)]
    lengths: Annotated[IntArray, Axes("M", 0)]
    """number of entries of each row"""
    n_columns: Annotated[int, Axes(low=1)]

    @classmethod
    def of(cls, projection: SparseProjection) -> Self:
        """Return the record of a projection."""
        matrix = sparse.csr_array(projection.matrix)
        columns, lengths = matrix.indices.astype(np.intp), np.diff(matrix.indptr).astype(np.intp)
        return cls(columns, matrix.data, lengths, matrix.shape[1])

    def restored(self) -> SparseProjection:
        """Return the projection of a record."""
        total = len(self.columns)  # lengths whose sum is beyond any integer must not get through
        if np.any(self.lengths > total) or np.sum(self.lengths) != total:
            raise ValueError("the rows of the sparse matrix disagree")
        ends = np.concatenate([[0], np.cumsum(self.lengths)])
        entries, shape = (self.coefficients, self.columns, ends), (len(ends) - 1, self.n_columns)
        return SparseProjection(sparse.csr_array(entries, shape=shape))


@dataclass(frozen=True, eq=False)
class PairsRecord:
    """Saved form of the differences of pairs of items."""

    left: Annotated[IntArray, Axes("M", 0, "N")]
    right: Annotated[IntArray, Axes("M", 0, "N")]
    n: Annotated[int, Axes(low=1)]

    @classmethod
    def of(cls, projection: Differences) -> Self:
        """Return the record of a projection."""
        left, right = projection.matrix.indices.astype(np.intp).reshape(-1, 2).T
        return cls(left, right, projection.shape[1])

    def restored(self) -> Differences:
        """Return the projection of a record."""
        return Differences(self.left, self.right, self.n)


saved_as("projection.sparse", record=SparseRecord)(SparseProjection)
saved_as("projection.differences", record=PairsRecord)(Differences)


def check_items(names: Any) -> NDArray[Any]:
    """Names of items without features: those given, or 0 .. n-1 for a number n."""
    if isinstance(names, int | np.integer) and not isinstance(names, bool):
        if names < 1:
            raise ValueError(f"The number of items must be at least 1, but X is {names}.")
        return np.arange(int(names))
    values = np.asarray(names, dtype=object if isinstance(names, list | tuple) else None)
    if values.ndim != 1:
        raise ValueError(
            "kernel='independent' takes no features: X must be the number of items or a list of "
            f"their names, but has shape {values.shape}. For features use another kernel."
        )
    values = label_values(names, "X")
    distinct, counts = np.unique(values, return_counts=True)
    if (counts > 1).any():
        raise ValueError(
            f"X must name each item once, but repeats {show(distinct[counts > 1])}. "
            "Remove the repetition."
        )
    if len(values) == 0:
        raise ValueError("X names no items. Give the number of items or their names.")
    return values


def check_comparisons(
    comparisons: Any, n_items: int, names: NDArray[Any] | None = None
) -> NDArray[np.intp]:
    """Return (m, 2) row numbers of items; strings are looked up in ``names``, if given."""
    pairs = np.asarray(comparisons)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(
            "comparisons must have shape (m, 2), the rows of X that were compared, left and right, "
            f"but has shape {pairs.shape}."
        )
    if len(pairs) == 0:
        raise ValueError("comparisons is empty. Give at least one pair of items.")
    if pairs.dtype.kind in "OUS":
        pairs = _look_up(pairs, names)
    return _check_pairs(pairs, n_items)


def _look_up(pairs: NDArray[Any], names: NDArray[Any] | None) -> NDArray[Any]:
    if names is None:
        raise ValueError(
            f"comparisons must be row numbers of X, but holds {show(pairs[0])}. Names of items "
            "are known only with kernel='independent', where X is the list of them."
        )
    found = class_positions(names, pairs.ravel()).reshape(pairs.shape)
    if (found < 0).any():
        row, col = np.argwhere(found < 0)[0]
        raise ValueError(
            f"comparisons[{row}, {col}] is {show(pairs[row, [col]])}, which is not an item of "
            f"X ({show(names)}). Add it to X or drop this comparison."
        )
    return found


def _check_pairs(pairs: NDArray[Any], n_items: int) -> NDArray[np.intp]:
    whole = pairs.dtype.kind in "iu" or (
        pairs.dtype.kind == "f" and np.all(pairs == np.floor(pairs))
    )
    if not whole:
        raise ValueError(
            f"comparisons must be whole numbers, rows of X, but has dtype {pairs.dtype} and begins "
            f"with {pairs[0].tolist()}."
        )
    bad = np.argwhere((pairs < 0) | (pairs >= n_items))
    if len(bad):
        row, col = bad[0]
        raise ValueError(
            f"comparisons must index the {n_items} rows of X, but comparisons[{row}, {col}] is "
            f"{pairs[row, col]:.0f}. Add the missing item to X or drop this comparison."
        )
    same = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if len(same):
        raise ValueError(
            f"An item cannot be compared with itself, but comparisons[{same[0]}] is "
            f"{pairs[same[0]].tolist()} ({len(same)} such rows in all). Drop them."
        )
    return pairs.astype(np.intp)


def encode_outcomes(
    outcomes: Any, levels: Any, n: int, sample_weight: Any = None, *, name: str = "outcomes"
) -> Outcomes:
    """Code ``n`` outcomes by their place in ``levels``; None means that the left was preferred."""
    if outcomes is None:
        ranked = _WINS if levels is None else check_categories(levels, np.asarray(levels), "levels")
        return Outcomes(ranked, np.full(n, len(ranked) - 1), check_weights(sample_weight, n))
    values = label_values(outcomes, name)
    if len(values) != n:
        raise ValueError(
            f"{name} must have one entry for each of the {n} comparisons, but has {len(values)}."
        )
    if values.dtype.kind == "b" and levels is None:
        values = np.where(values, 1, -1)  # whether the left was preferred
    declared = declared_order(outcomes)
    if levels is not None or declared is not None:
        given = declared if levels is None else levels
        ranked = check_categories(given, np.unique(values), "levels")
    else:
        ranked = _TIES if (values == 0).any() else _WINS
    codes = class_positions(ranked, values)
    unknown = np.flatnonzero(codes < 0)
    if len(unknown):
        advice = _ADVICE_TO_NAME_LEVELS if levels is None else _ADVICE_TO_ADD_LEVEL
        raise ValueError(
            f"{name} must be among [{show(ranked)}], but row {unknown[0]} is "
            f"{show(values[unknown[:1]])} ({len(unknown)} such rows in all). {advice}"
        )
    return Outcomes(ranked, codes, check_weights(sample_weight, n))


def check_relations(A: Any, n_items: int) -> sparse.csr_array:
    """Return the (m, n_items) matrix of relations, finite and without empty rows."""
    if sparse.issparse(A):
        matrix = sparse.csr_array(A, dtype=np.float64)
    else:
        dense = np.asarray(A, dtype=np.float64)
        if dense.ndim != 2:
            raise ValueError(f"A must be a matrix, but has shape {dense.shape}.")
        matrix = sparse.csr_array(dense)
    if matrix.shape[1] != n_items or matrix.shape[0] == 0:
        raise ValueError(
            f"A must have at least one row and a column for each of the {n_items} rows of X, "
            f"but has shape {matrix.shape}."
        )
    if not np.isfinite(matrix.data).all():
        raise ValueError("A must be finite, but holds NaN or infinity. Drop these relations.")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    empty = np.flatnonzero(np.diff(matrix.indptr) == 0)
    if len(empty):
        raise ValueError(
            f"Each row of A must relate items, but row {empty[0]} is all zero. Drop this relation."
        )
    return matrix


def encode_judges(judges: Any, n: int) -> Judges | None:
    """Names of the judges of ``n`` comparisons, and the judge of each; None if there are none."""
    if judges is None:
        return None
    values = label_values(judges, "judges")
    if len(values) != n:
        raise ValueError(
            f"judges must have one entry for each of the {n} comparisons, but has {len(values)}."
        )
    names, by = np.unique(values, return_inverse=True)
    return Judges(names, by.ravel().astype(np.intp))


def merge_comparisons(
    pairs: IntArray,
    outcomes: Outcomes,
    n_items: int,
    *,
    swapped: bool,
    judges: Judges | None = None,
) -> Observations:
    """Merge equal comparisons of items; with ``swapped`` also a pair with itself swapped.

    Those of different judges stay apart.
    """
    (left, right), codes = pairs.T, outcomes.codes
    if swapped:
        swap = left > right
        left, right = np.minimum(left, right), np.maximum(left, right)
        codes = np.where(swap, len(outcomes.levels) - 1 - codes, codes)
    shape: tuple[int, ...] = n_items, n_items, len(outcomes.levels)
    columns: tuple[IntArray, ...] = left, right, codes
    if judges is not None:
        columns, shape = (*columns, judges.by), (*shape, len(judges.names))
    (left, right, codes, *by), counts = _count(columns, shape, outcomes.weights)
    _reject_all_ties(outcomes.levels, codes)
    found = Observations(outcomes.levels, Differences(left, right, n_items), codes, counts)
    return found if judges is None else replace(found, judges=judges.names, by=by[0])


def merge_relations(
    matrix: sparse.csr_array, outcomes: Outcomes, item_of_row: IntArray
) -> Observations:
    """Merge equal relations of the same level, and equal items."""
    rows, used = np.arange(len(item_of_row)), np.flatnonzero(outcomes.weights > 0)
    fold = sparse.csr_array((np.ones(len(rows)), (rows, item_of_row)))
    matrix, codes = sparse.csr_array(matrix @ fold)[used], outcomes.codes[used]
    which = SparseProjection(matrix).distinct[1]
    which = np.arange(len(used)) if which is None else which
    shape = int(which.max(initial=0)) + 1, len(outcomes.levels)
    (row, codes), counts = _count((which, codes), shape, outcomes.weights[used])
    _reject_all_ties(outcomes.levels, codes)
    first = np.unique(which, return_index=True)[1]
    projection = SparseProjection(matrix[first[row]])
    return Observations(outcomes.levels, projection, codes, counts)


def _count(
    columns: Sequence[IntArray], shape: tuple[int, ...], weights: FloatArray
) -> tuple[tuple[IntArray, ...], FloatArray]:
    """Distinct rows, sorted, and the total weight of each; rows of weight zero are left out.

    ``shape`` bounds the numbers of each column. Rows are counted in a table of all possible rows
    where that is not much larger than the rows themselves, and sorted otherwise.
    """
    keys = np.ravel_multi_index(tuple(columns), shape)
    if np.any(weights == 0):
        keys, weights = keys[weights > 0], weights[weights > 0]
    size = int(np.prod(shape, dtype=object))
    if size <= _TABLE_PER_ROW * len(keys) + _SMALL_TABLE:
        total = np.bincount(keys, weights, size).astype(float, copy=False)
        distinct = np.flatnonzero(total)
        counts = total[distinct]
    else:
        distinct, which = np.unique(keys, return_inverse=True)
        counts = np.bincount(which.ravel(), weights, len(distinct)).astype(float)
    return np.unravel_index(distinct, shape), counts


def _reject_all_ties(levels: NDArray[Any], codes: IntArray) -> None:
    """Raise if every observation is a tie: the margin would be undetermined."""
    middle = (len(levels) - 1) / 2
    if (codes == middle).all():
        raise ValueError(
            f"Every comparison is a tie ({show(levels[[int(middle)]])}), so neither the order of "
            "the items nor the width of a tie can be learned. Add comparisons that were won."
        )
