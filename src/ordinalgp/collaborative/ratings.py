"""Ratings in long format: ids, item features, and the starting covariance of the items."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from ordinalgp._typing import POSITIVE, Axes, FloatArray, IntArray, Plain, Tagged
from ordinalgp.collaborative.batch import Batch
from ordinalgp.imputation import MeanImputer
from ordinalgp.persistence import saved_as
from ordinalgp.validation.labels import Levels, class_positions, encode_levels
from ordinalgp.validation.options import allows_missing, check_kernel

# Share of the cosines between items that is taken for noise, as they come from finitely many
# raters, and variance of a rater's overall level. See docs/collaborative.md.
SHRINKAGE, LEVEL_VARIANCE = 0.5, 0.3
_NUGGET = 1e-6  # share of an item's variance that is added, so that K is positive definite

# ------------------------------------------------------------------------------- ids


@saved_as("ids.distinct")
@dataclass(frozen=True, eq=False)
class Ids:
    """Distinct ids in a fixed order, and the place of each."""

    values: Annotated[tuple[Any, ...], Plain()]
    place: Mapping[Hashable, int] = field(metadata={"saved": False})

    @classmethod
    def of(cls, values: Iterable[Hashable]) -> Self:
        """Distinct ids in order of first appearance."""
        distinct = tuple(dict.fromkeys(values))
        return cls(distinct, {value: place for place, value in enumerate(distinct)})

    @classmethod
    def restored(cls, values: tuple[Hashable, ...]) -> Self:
        """Return the ids of a file."""
        if len(found := cls.of(values)) < len(values):
            raise ValueError("ids are repeated")
        return found

    def __len__(self) -> int:
        return len(self.values)

    def places(self, wanted: Sequence[Hashable]) -> IntArray:
        """Place of each of ``wanted``, -1 where it has none."""
        return np.array([self.place.get(value, -1) for value in wanted], dtype=np.intp)

    def known(self, wanted: Sequence[Hashable], what: str, remedy: str) -> IntArray:
        """Place of each of ``wanted``; ValueError if one has none."""
        check_known(wanted, places := self.places(wanted), what, remedy)
        return places

    def array(self, places: Any = slice(None)) -> NDArray[Any]:
        """Ids as an array: of numbers or strings if all have one type, else of objects."""
        chosen = np.empty(len(self.values), dtype=object)
        chosen[:] = self.values
        kinds = {type(value) for value in self.values}
        natural = len(kinds) == 1 and kinds <= {int, str, bool, float}
        return (np.array(self.values) if natural else chosen)[places]

    def unused(self) -> Hashable:
        """A new id: the next number if all are numbers, else "rater" and a number."""
        numbers = [value for value in self.values if isinstance(value, int)]
        if len(numbers) == len(self):
            return max(numbers) + 1
        place = len(self)
        while f"rater {place}" in self.place:
            place += 1
        return f"rater {place}"


def read_ids(column: Any, name: str) -> list[Hashable]:
    """Read a column of ids as hashable Python objects."""
    if isinstance(column, str | bytes) or not isinstance(column, Iterable):
        raise ValueError(
            f"{name} must be a column of ids, one for each rating, but {column!r} was given. "
            f"Use [{column!r}] for a single one."
        )
    if (shape := getattr(column, "shape", (0,))) and len(shape) != 1:
        raise ValueError(f"{name} must be one column of ids, but has shape {shape}. Choose one.")
    ids = list(column.tolist() if hasattr(column, "tolist") else column)
    for row, value in enumerate(ids):
        missing = value is None or type(value).__name__ in ("NAType", "NaTType") or value != value
        if missing or not isinstance(value, Hashable):
            raise ValueError(
                f"{name} must hold ids such as numbers or strings, but row {row} is {value!r}. "
                "Drop this row or give it an id."
            )
    return ids


def check_same_length(**columns: Any) -> None:
    """Raise ValueError unless all columns have the same number of rows."""
    if len({len(column) for column in columns.values()}) > 1:
        lengths = ", ".join(f"{name} {len(column)}" for name, column in columns.items())
        raise ValueError(
            f"Columns must have one entry for each rating, but have different lengths ({lengths})."
        )


def check_known(wanted: Sequence[Hashable], places: IntArray, what: str, remedy: str) -> None:
    """Raise ValueError if an id has no place; the message names the first."""
    unknown = np.flatnonzero(places < 0)
    if len(unknown):
        first = f"{wanted[unknown[0]]!r} in row {unknown[0]}"
        raise ValueError(f"Unknown {what} {first} ({len(unknown)} such rows). {remedy}")


def numeric_levels(categories: NDArray[Any]) -> FloatArray:
    """Levels as numbers: their own values, or ranks 0, 1, ... of names."""
    numeric = categories.dtype.kind in "biuf"
    return (categories if numeric else np.arange(len(categories))).astype(float)


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings, as places of raters, items and levels; a rater may rate an item several times."""

    rater_ids: Ids
    item_ids: Ids
    levels: Levels
    """all levels, and the codes of the ratings as given"""
    by: IntArray
    """rater of each rating"""
    index: IntArray
    """item of each rating"""
    codes: IntArray
    """level of each rating"""

    @classmethod
    def read(
        cls, raters: Any, items: Any, ratings: Any, categories: Any, kernel: Any, features: Any
    ) -> tuple[Self, FloatArray | None]:
        """Ratings, and the features of the items or the kernel matrix if these were given."""
        who, what = read_ids(raters, "raters"), read_ids(items, "items")
        levels = encode_levels(ratings, categories, name="ratings")
        check_same_length(raters=who, items=what, ratings=levels.codes)
        item_ids, given = read_items(kernel, what, features)
        remedy = "Give item_features, or the kernel matrix, a row for every rated item."
        rater_ids, index = Ids.of(who), item_ids.known(what, "item", remedy)
        by = rater_ids.places(who)
        return cls(rater_ids, item_ids, levels, by, index, levels.codes), given

    @property
    def values(self) -> FloatArray:
        """The ratings as numbers."""
        return numeric_levels(self.levels.categories)[self.codes]

    @property
    def counts(self) -> FloatArray:
        """Number of ratings of each level."""
        return np.bincount(self.codes, minlength=len(self.levels.categories)).astype(float)

    def starting_covariance(
        self, kernel: Any, given: FloatArray | None, scale: float
    ) -> "tuple[ItemCovariance | None, FloatArray]":
        """Covariance as a function of item features, if there are any, and its matrix."""
        if is_matrix(kernel) and given is not None:
            return None, given
        features = self.table() if given is None else given
        covariance: ItemCovariance = CorrelationCovariance(features, scale)
        if not isinstance(kernel, str):
            covariance = KernelCovariance(features, clone(kernel))
        # Without features, new items have no ratings by these raters to be compared by.
        return None if given is None else covariance, covariance.matrix()

    def batch(self) -> Batch:
        """Ratings rater by rater."""
        order = np.argsort(self.by, kind="stable")
        ends = np.cumsum(np.bincount(self.by, minlength=len(self.rater_ids)))[:-1]
        index, codes = np.split(self.index[order], ends), np.split(self.codes[order], ends)
        return Batch.of(index, codes)

    def table(self) -> FloatArray:
        """Ratings as a table, items x raters, with means of repeated ones and NaN for gaps."""
        total, number = np.zeros((2, len(self.item_ids), len(self.rater_ids)))
        np.add.at(total, (self.index, self.by), self.values)
        np.add.at(number, (self.index, self.by), 1.0)
        return np.where(number > 0, total / np.maximum(number, 1.0), np.nan)


# ------------------------------------------------------------------------------- items


def read_items(
    kernel: Any, rated: Sequence[Hashable], item_features: Any
) -> tuple[Ids, FloatArray | None]:
    """All items, and their features or the kernel matrix if these were given."""
    if is_matrix(kernel):
        return _read_matrix(kernel)
    by_name = isinstance(kernel, str)
    if not by_name:
        check_kernel(kernel)
    if item_features is not None:
        return read_features(item_features, gaps=by_name or allows_missing(kernel))
    if not by_name:
        raise ValueError(
            f"The kernel {kernel!r} compares item features, but item_features is None. Give them "
            "as a data frame indexed by item, a mapping from item to its features, or an array "
            "whose row i belongs to item i."
        )
    return Ids.of(rated), None


def read_own_ratings(
    items: Any, ratings: Any, known: Ids, categories: NDArray[Any]
) -> tuple[IntArray, IntArray]:
    """Places and codes of one rater's ratings of known items."""
    what, given = read_ids(items, "items"), np.asarray(ratings)
    index, codes = known.places(what), class_positions(categories, given)
    check_same_length(items=what, ratings=codes)
    check_known(what, index, "item", "Leave it out, or fit again with this item.")
    shown = ", ".join(map(repr, categories.tolist()))
    check_known(given.tolist(), codes, "level", f"Levels are {shown}.")
    return index, codes


def is_matrix(kernel: Any) -> bool:
    """Whether ``kernel`` is a matrix."""
    return not isinstance(kernel, str) and np.ndim(kernel) == 2


def _read_matrix(kernel: Any) -> tuple[Ids, FloatArray]:
    """Ids (of a data frame, else 0, 1, ...) and values of a covariance between items."""
    K = np.array(kernel, dtype=float)
    ids = _row_ids(kernel, len(K))
    if K.shape != (len(ids), len(ids)) or not np.allclose(K, K.T, rtol=1e-8, atol=1e-12):
        raise ValueError(
            f"A kernel matrix must be square, symmetric and finite, one row for each item, but has "
            f"shape {K.shape}. Give covariances between all items, as a data frame whose index "
            "holds the item ids or as an array for ids 0, 1, ..."
        )
    least, most = np.linalg.eigvalsh(K)[[0, -1]]
    if not most > 0 or least < -1e-8 * most or np.diagonal(K).min() <= 0:
        raise ValueError(
            f"A kernel matrix must be positive definite, but its eigenvalues reach from "
            f"{least:.3g} to {most:.3g}. Add a multiple of the identity."
        )
    return ids, _with_nugget(K)


def _row_ids(table: Any, n: int) -> Ids:
    """Ids of rows: keys of a mapping, index of a data frame, else 0, 1, ..."""
    if isinstance(table, Mapping):
        return Ids.of(table)
    index = getattr(table, "index", None)  # of a list it is a method
    return Ids.of(range(n) if index is None or callable(index) else index.tolist())


def _with_nugget(K: FloatArray) -> FloatArray:
    """Return K with slightly more variance for every item."""
    K = 0.5 * (K + K.T)
    K.flat[:: len(K) + 1] += _NUGGET * np.diagonal(K)
    return K


def read_features(features: Any, *, gaps: bool) -> tuple[Ids, FloatArray]:
    """Ids and feature rows: of a data frame, a mapping from ids, or an array (ids 0, 1, ...)."""
    table = list(features.values()) if isinstance(features, Mapping) else features
    try:
        rows = np.asarray(table, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"item_features must be numbers, as many for each item as for all others: {error}"
        ) from None
    ids = _row_ids(features, len(rows))
    if rows.ndim != 2 or len(rows) != len(ids):
        raise ValueError(
            "item_features must have one row for each item, all of the same length, with distinct "
            f"ids, but gives {len(ids)} ids and an array of shape {rows.shape}."
        )
    bad = np.isinf(rows) if gaps else ~np.isfinite(rows)
    if bad.any():
        row = int(np.argwhere(bad)[0, 0])
        raise ValueError(
            f"item_features must be finite, but those of item {ids.values[row]!r} are not. Fill "
            "gaps first, for example with ordinalgp.imputation."
        )
    return ids, rows


# ------------------------------------------------------------------- starting covariance


@saved_as("covariance.correlation")
@dataclass(frozen=True, eq=False)
class CorrelationCovariance:
    """Cosines between items after each rater's mean is subtracted, gaps as zero ([Yu06]_).

    They are shrunk towards independent items of equal variance; a constant is added for a
    rater's level; all is multiplied by ``scale``. An item without ratings is independent.
    """

    features: Annotated[FloatArray, Axes("m d")]
    """ratings, items x raters"""
    scale: Annotated[float, Axes("", *POSITIVE)] = 1.0

    def _directions(self, rows: FloatArray) -> FloatArray:
        means = MeanImputer(by="rater").fit(self.features).rater_means_
        centred = np.where(np.isnan(rows), 0.0, rows - means)
        length = np.linalg.norm(centred, axis=1, keepdims=True)
        return centred / np.where(length == 0.0, 1.0, length)

    def cross(self, rows: FloatArray) -> FloatArray:
        """Covariance of new items with the known ones."""
        cosines = self._directions(rows) @ self._directions(self.features).T
        return self.scale * ((1.0 - SHRINKAGE) * cosines + LEVEL_VARIANCE)

    def variance(self, rows: FloatArray) -> FloatArray:
        """Variance of new items: the same for all."""
        return np.full(len(rows), self.scale * (1.0 + LEVEL_VARIANCE))

    def matrix(self) -> FloatArray:
        """Covariance of the known items."""
        K = self.cross(self.features)
        np.fill_diagonal(K, self.variance(self.features))
        return K


@saved_as("covariance.kernel")
@dataclass(frozen=True, eq=False)
class KernelCovariance:
    """A scikit-learn kernel on item features, as given."""

    features: Annotated[FloatArray, Axes("m d")]
    kernel: Annotated[Any, Tagged("kernel")]

    def cross(self, rows: FloatArray) -> FloatArray:
        """Covariance of new items with the known ones."""
        return np.asarray(self.kernel(rows, self.features))

    def variance(self, rows: FloatArray) -> FloatArray:
        """Variance of new items."""
        return np.asarray(self.kernel.diag(rows)) * (1.0 + _NUGGET)

    def matrix(self) -> FloatArray:
        """Covariance of the known items, with a nugget."""
        return _with_nugget(np.asarray(self.kernel(self.features)))


ItemCovariance = CorrelationCovariance | KernelCovariance
"""starting covariance of items as a function of their features"""
