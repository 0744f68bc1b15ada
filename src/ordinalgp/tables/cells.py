"""Tables of cells, numbers or texts; bad cells are named by line and column."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import BoolArray, FloatArray, IntArray
from ordinalgp.tables.advice import PYTHON, Advice, listed
from ordinalgp.tables.numerals import number

MISSING = frozenset(
    {
        *("", "?", ".", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "NaT", "NULL", "null"),
        *("#N/A", "#N/A N/A", "#NA", "#NULL!", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!"),
    }
)
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
    value: str | None = None
    """text in a place of something else, which may mean a missing value"""

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
    decimal: str | None = None
    """decimal mark of numbers in texts, if it is known"""
    units: dict[str, str] = field(default_factory=dict)
    """currency or percent sign of numbers, which was left out"""
    left_out: dict[str, str] = field(default_factory=dict)
    """columns that are no features, and the reason"""
    advice: Advice = PYTHON
    """words for what can be done, in messages"""
    problems: tuple[str, ...] = ()
    """what is wrong with the table as a whole"""
    bad: "tuple[BadCell, ...]" = ()
    """cells of rows that are not in the table, as they could not be read"""

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
                known = listed(list(self.columns))
                raise BadInput(complaint.format(name=repr(name), columns=known))

    def without_words(self, words: Iterable[str]) -> "Table":
        """Return the table with gaps where a cell is one of some words."""
        gone = frozenset(words)
        if not gone:
            return self
        codes = [value for word in gone if (value := number(word)) is not None]
        columns = {name: _emptied(cells, gone, codes) for name, cells in self.columns.items()}
        return replace(self, columns=columns)

    def bad_cells(self, column: str, bad: Any, reason: Callable[[Any], str]) -> list[BadCell]:
        """Cells of a column where the mask ``bad`` is true, each with its reason."""
        cells = self.columns[column]
        found = [(int(self.lines[row]), cells[row]) for row in np.flatnonzero(bad)]
        return [
            BadCell(line, column, reason(cell), cell if isinstance(cell, str) else None)
            for line, cell in found
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
        named = [f"{table.unit} {cell.line}, {cell}" for cell in cells[:_MOST_EXAMPLES]]
        if bad and self.policy == "error":
            raise BadInput(describe_rows(self.source, table, cells))
        self.skipped += len(bad)
        self.examples += named[: _MOST_EXAMPLES - len(self.examples)]
        return ~np.isin(table.lines, list(bad))


def describe_rows(source: str, table: Table, cells: list[BadCell]) -> str:
    """Message that names bad cells and says what to do."""
    cells = sorted(cells, key=lambda cell: cell.line)
    n_rows = len({cell.line for cell in cells})
    rows = "1 row" if n_rows == 1 else f"{n_rows} rows"
    shown = "".join(f"\n  {table.unit} {cell.line}, {cell}" for cell in cells[:_MOST_EXAMPLES])
    more = f"\n  ... and {len(cells) - _MOST_EXAMPLES} more" if len(cells) > _MOST_EXAMPLES else ""
    return (
        f"{source} has {rows} that cannot be used:{shown}{more}\n"
        f"{table.advice.skip_rows()}{_likely_gap(table, cells)}"
    )


def _likely_gap(table: Table, cells: list[BadCell]) -> str:
    """Advice if one word is in several bad cells: it may mean a missing value."""
    words = Counter(cell.value for cell in cells if cell.value is not None)
    for word, count in words.most_common(1):
        if count > 1 and len(word) < 20:
            return f" If {word!r} means a missing value: {table.advice.missing(word)}."
    return ""


def _emptied(cells: NDArray[Any], words: frozenset[str], codes: list[float]) -> NDArray[Any]:
    if cells.dtype == object:
        return objects(None if cell in words else cell for cell in cells.tolist())
    return np.where(np.isin(cells, codes), np.nan, cells) if codes else cells


def numbers(values: NDArray[Any], decimal: str = ".") -> tuple[FloatArray, BoolArray]:
    """Cells as numbers, NaN for gaps, and the mask of those that hold something else."""
    if values.dtype.kind == "M":
        return np.full(len(values), np.nan), ~np.isnat(values)
    if values.dtype != object:
        return values, np.isinf(values)
    parsed = [np.nan if text is None else number(text, decimal) for text in values]
    bad = np.array([value is None for value in parsed], dtype=bool)
    return np.array([np.nan if value is None else value for value in parsed], dtype=float), bad


def texts(values: NDArray[Any]) -> NDArray[Any]:
    """Cells as texts, None for gaps; whole numbers without a point, so that 3.0 is "3"."""
    if values.dtype == object:
        return values
    if values.dtype.kind == "M":
        days = np.isnat(values) | (values == values.astype("M8[D]"))
        shown = np.datetime_as_string(values, "D" if days.all() else "s").tolist()
        return objects(None if day == "NaT" else day for day in shown)
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
    return np.isnat(values) if values.dtype.kind == "M" else np.isnan(values)


def cell_text(text: str) -> str | None:
    """A cell without the spaces around it, or None for a missing value."""
    stripped = text.strip()
    return None if stripped in MISSING else composed(stripped)


def composed(text: str) -> str:
    """Text in which an accent is part of its letter: the same word is written in two ways."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)
