"""Long-format ratings in, arrays of places out: ids of raters and items, and their checks."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Ids:
    """Ids in a fixed order, and the place of each."""

    values: tuple[Hashable, ...]
    place: Mapping[Hashable, int]

    @classmethod
    def of(cls, values: Iterable[Hashable]) -> "Ids":
        """Distinct ids in order of first appearance."""
        distinct = tuple(dict.fromkeys(values))
        return cls(distinct, {value: place for place, value in enumerate(distinct)})

    def __len__(self) -> int:
        return len(self.values)

    def places(self, wanted: Sequence[Hashable]) -> IntArray:
        """Place of each of ``wanted``, -1 where it has none."""
        return np.array([self.place.get(value, -1) for value in wanted], dtype=np.intp)

    def array(self, places: Any = slice(None)) -> NDArray[Any]:
        """Ids as an array: of numbers or strings where all are of one kind, else of objects."""
        chosen = np.empty(len(self.values), dtype=object)
        chosen[:] = self.values
        kinds = {type(value) for value in self.values}
        natural = len(kinds) == 1 and kinds <= {int, str, bool, float}
        return (np.array(self.values) if natural else chosen)[places]


def read_ids(column: Any, name: str) -> list[Hashable]:
    """One id for each row, as hashable Python objects."""
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
    """Raise unless all columns have the same number of rows."""
    if len({len(column) for column in columns.values()}) > 1:
        lengths = ", ".join(f"{name} {len(column)}" for name, column in columns.items())
        raise ValueError(
            f"Columns must have one entry for each rating, but have different lengths ({lengths})."
        )


def check_known(wanted: Sequence[Hashable], places: IntArray, what: str, remedy: str) -> None:
    """Raise a ValueError that names the first unknown id."""
    unknown = np.flatnonzero(places < 0)
    if len(unknown):
        raise ValueError(
            f"Unknown {what} {wanted[unknown[0]]!r} in row {unknown[0]} ({len(unknown)} such rows)."
            f" {remedy}"
        )


def last_of_each(raters: IntArray, items: IntArray) -> IntArray:
    """Rows to keep, in their order: the last of those with the same rater and item."""
    last = {pair: row for row, pair in enumerate(zip(raters.tolist(), items.tolist(), strict=True))}
    return np.sort(np.fromiter(last.values(), dtype=np.intp, count=len(last)))


def read_features(features: Any, *, gaps: bool) -> tuple[Ids, FloatArray]:
    """Ids and feature rows: of a data frame, a mapping from ids, or an array (ids 0, 1, ...)."""
    table = list(features.values()) if isinstance(features, Mapping) else features
    try:
        rows = np.asarray(table, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"item_features must be numbers, as many for each item as for all others: {error}"
        ) from None
    if isinstance(features, Mapping):
        ids = Ids.of(features)
    else:
        index = getattr(features, "index", None)
        ids = Ids.of(range(len(rows)) if index is None or callable(index) else index.tolist())
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
