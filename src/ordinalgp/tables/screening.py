"""Columns that are no features, dates, and numbers with a unit, found before columns are parsed."""

import re
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordinalgp.tables.advice import Advice
from ordinalgp.tables.cells import Table, gaps, objects, texts
from ordinalgp.tables.dates import dates, is_undecided
from ordinalgp.tables.numerals import number, unit, without_unit

_MOST_TEXTS = 500  # different texts in a column that is nominal by its look alone
_FEWEST_COUNTED = 10  # rows from which on 1, 2, 3, ... are numbers of rows
_ID = re.compile(r"(.*[\W_])?(id|ids|uid|uuid|guid|index|key|nr|no|row|rownum)([\W_].*)?", re.I)
_UNNAMED = re.compile(r"column \d+")  # an end of a line with a separator too many
_LONGEST_EXAMPLE = 40
_PROBE_ROWS = 200  # cells that tell whether many different texts are numbers


def screened(table: Table, nominal: Collection[str], numeric: Collection[str]) -> Table:
    """Leave out columns that are no features; turn dates and numbers with a unit into their kind.

    Left out are columns without any value, and texts that hardly repeat: they are names or
    remarks, and as features only noise. Columns in ``nominal`` stay as they are.
    """
    kept: dict[str, NDArray[Any]] = {}
    left_out, units = dict(table.left_out), dict(table.units)
    chosen, numbered = frozenset(nominal), frozenset(numeric)
    for name, cells in table.columns.items():
        present = ~gaps(cells)
        if not present.any():
            if not _UNNAMED.fullmatch(name):
                left_out[name] = f"Column {name} has no values: left out."
        elif cells.dtype != object or name in chosen:
            kept[name] = cells
        elif _are_dates(cells[present]):
            kept[name] = _as_dates(cells)
        elif sign := _common_unit(cells[present], table.decimal or "."):
            units[name] = sign
            kept[name] = objects(c if c is None else without_unit(c, sign) for c in cells.tolist())
        elif name not in numbered and _hardly_repeats(cells[present], table.decimal or "."):
            left_out[name] = _too_many(name, cells[present], table.advice)
        else:
            kept[name] = cells
    return replace(table, columns=kept, left_out=left_out, units=units)


def without_counters(table: Table, numeric: Collection[str]) -> Table:
    """Leave out columns that number the rows, unless they are named in ``numeric``."""
    found = {
        name: f"Column {name} numbers the rows: left out; "
        f"keep it with {table.advice.numeric(name)}."
        for name, cells in table.columns.items()
        if name not in numeric
        and name not in table.units
        and cells.dtype == float
        and _counts(name, cells)
    }
    return replace(table.without(found), left_out=table.left_out | found)


def _counts(name: str, cells: NDArray[Any]) -> bool:
    """Whether numbers go up by one from 0 or 1, or are whole and different in a column of ids."""
    if len(cells) < _FEWEST_COUNTED or np.isnan(cells).any():
        return False
    if cells[0] in (0, 1) and np.all(np.diff(cells) == 1):
        return True
    different = len(np.unique(cells)) == len(cells)
    return different and bool(np.all(cells % 1 == 0)) and _ID.fullmatch(name) is not None


def _are_dates(cells: NDArray[Any]) -> bool:
    _, bad = dates(cells[:1])  # most columns are no dates by their first cell
    if bad.any() and len(cells) > 1:
        bad = dates(cells[1:3])[1]
    return not bad.all() and 2 * int(dates(cells)[1].sum()) < len(cells)


def _as_dates(cells: NDArray[Any]) -> NDArray[Any]:
    found, bad = dates(cells)
    return cells if bad.any() else found  # bad cells are named later


def _common_unit(cells: NDArray[Any], decimal: str) -> str:
    """Currency or percent sign that all numbers of a column have, or an empty text."""
    sign = unit(cells[0])
    if not sign or any(unit(cell) != sign for cell in cells.tolist()):
        return ""
    fine = [number(without_unit(cell, sign), decimal) is not None for cell in cells.tolist()]
    return sign if 2 * sum(fine) > len(cells) else ""


def _hardly_repeats(cells: NDArray[Any], decimal: str) -> bool:
    different = set(cells.tolist())
    if len(different) <= min(_MOST_TEXTS, max(10, len(cells) // 2)):
        return False
    shown = cells[:_PROBE_ROWS].tolist()
    return 2 * sum(number(text, decimal) is not None for text in shown) <= len(shown)


def _too_many(name: str, cells: NDArray[Any], say: Advice) -> str:
    different = set(texts(cells).tolist())
    example = min(different)
    shown = example if len(example) <= _LONGEST_EXAMPLE else f"{example[:_LONGEST_EXAMPLE]}..."
    advice = f"keep it with {say.nominal(name)}"
    if is_undecided(example):
        advice = "dates are used if they are written as 2024-05-31"
    return (
        f"Column {name} has {len(different):,} different texts in {len(cells):,} rows, for example "
        f"{shown!r}: left out; {advice}."
    )
