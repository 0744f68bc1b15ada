"""Tables of cells, numbers or texts; bad cells are named by line and column."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import BoolArray, FloatArray, IntArray

MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "NULL", "null", "?"})
"""texts that mean a missing value; anything else is a value, also "none" """
_MOST_EXAMPLES = 5  # bad cells that a message names


class BadInput(ValueError):
    """Input that cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class BadCell:
    """One cell that cannot be used."""

    line: int
    column: str
    reason: str

    def __str__(self) -> str:
        return f"column {self.column}: {self.reason}"


@dataclass(frozen=True, eq=False)
class Table:
    """Rows in columns: float64 with NaN for gaps, or texts with None for gaps."""

    columns: dict[str, NDArray[Any]]
    lines: IntArray
    """place of each row in its file, from 1"""
    unit: str = "line"
    """unit of ``lines``: lines of a text file, or rows"""
    levels: dict[str, list[Any]] = field(default_factory=dict)
    """order of levels, for columns whose source declares one"""
    nominal: frozenset[str] = frozenset()
    """columns that their source declares nominal"""

    def __len__(self) -> int:
        return len(self.lines)

    def take(self, rows: BoolArray) -> "Table":
        """Return the rows where the mask ``rows`` is true."""
        columns = {name: values[rows] for name, values in self.columns.items()}
        return replace(self, columns=columns, lines=self.lines[rows])

    def append(self, *tables: "Table") -> "Table":
        """Return the rows of this table and of others with the same columns."""
        parts = self, *tables
        columns = {name: np.concatenate([p.columns[name] for p in parts]) for name in self.columns}
        return replace(self, columns=columns, lines=np.concatenate([p.lines for p in parts]))

    def without(self, names: Iterable[str]) -> "Table":
        """Return the table without some of its columns."""
        gone = set(names)
        columns = {name: values for name, values in self.columns.items() if name not in gone}
        return replace(self, columns=columns)

    def renamed(self, names: Sequence[str]) -> "Table":
        """Return the table with other names for its columns, one by one."""
        columns = dict(zip(names, self.columns.values(), strict=True))
        return Table(columns, self.lines, self.unit)

    def require(self, names: Iterable[str], complaint: str) -> None:
        """Raise ``complaint``, which may use {name} and {columns}, if a column is missing."""
        for name in names:
            if name not in self.columns:
                raise BadInput(complaint.format(name=repr(name), columns=", ".join(self.columns)))

    def bad_cells(self, column: str, bad: Any, reason: Callable[[Any], str]) -> list[BadCell]:
        """Cells of a column where the mask ``bad`` is true, each with its reason."""
        cells = self.columns[column]
        return [
            BadCell(int(self.lines[row]), column, reason(cells[row])) for row in np.flatnonzero(bad)
        ]


@dataclass(eq=False)
class BadRows:
    """Policy of ``--on-bad-rows``: raise an error that names bad rows, or skip and count them."""

    policy: str = "error"
    source: str = "the table"
    skipped: int = 0
    examples: list[str] = field(default_factory=list)

    def drop(self, table: Table, cells: list[BadCell]) -> BoolArray:
        """Mask of the rows to keep, or an error that names the bad ones."""
        cells = sorted(cells, key=lambda cell: cell.line)
        bad = {cell.line for cell in cells}
        named = [f"{table.unit} {cell.line}, {cell}" for cell in cells]
        if bad and self.policy == "error":
            raise BadInput(_describe(self.source, named, len(bad)))
        self.skipped += len(bad)
        self.examples += named[: _MOST_EXAMPLES - len(self.examples)]
        return ~np.isin(table.lines, list(bad))


def _describe(source: str, named: list[str], n_rows: int) -> str:
    rows = "1 row" if n_rows == 1 else f"{n_rows} rows"
    shown = "".join(f"\n  {text}" for text in named[:_MOST_EXAMPLES])
    more = f"\n  ... and {len(named) - _MOST_EXAMPLES} more" if len(named) > _MOST_EXAMPLES else ""
    return (
        f"{source} has {rows} that cannot be used:{shown}{more}\n"
        "Correct them, or skip them with --on-bad-rows skip."
    )


def number(text: str, decimal: str = ".") -> float | None:
    """The finite number that ``text`` writes, or None."""
    try:
        value = float(text if decimal == "." else text.replace(decimal, "."))
    except ValueError:
        return None
    # Python reads 1_2 as twelve, but in a table it is somebody's code.
    return value if math.isfinite(value) and "_" not in text else None


def numbers(values: NDArray[Any], decimal: str = ".") -> tuple[FloatArray, BoolArray]:
    """Cells as numbers, NaN for gaps, and the mask of those that hold something else."""
    if values.dtype != object:
        return values, np.isinf(values)
    parsed = [np.nan if text is None else number(text, decimal) for text in values]
    bad = np.array([value is None for value in parsed], dtype=bool)
    return np.array([np.nan if value is None else value for value in parsed], dtype=float), bad


def texts(values: NDArray[Any]) -> NDArray[Any]:
    """Cells as texts, None for gaps; whole numbers without a point, so that 3.0 is "3"."""
    if values.dtype == object:
        return values
    found, place = np.unique(values, return_inverse=True)
    whole = [int(v) if v.is_integer() else v for v in found.tolist()]
    return objects(None if v != v else repr(v) for v in whole)[place]


def objects(values: Iterable[Any]) -> NDArray[Any]:
    """A one-dimensional array that holds the values as they are."""
    return np.array([*values, None], dtype=object)[:-1]


def gaps(values: NDArray[Any]) -> BoolArray:
    """Mask of the missing cells."""
    if values.dtype == object:
        return np.array([value is None for value in values], dtype=bool)
    return np.isnan(values)


def cell_text(text: str) -> str | None:
    """A cell without the spaces around it, or None for a missing value."""
    stripped = text.strip()
    return None if stripped in MISSING else stripped
