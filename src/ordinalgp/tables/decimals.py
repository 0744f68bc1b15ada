"""Decimal mark of a table.

"1,234" is a thousand or a little more than one. A mark is taken for the decimal one if some column
has numbers that can be read in no other way, such as "1,5" or "1,234.5"; else the user is asked.
"""

from collections.abc import Iterable
from typing import Any

from ordinalgp.tables.cells import BadInput, Table
from ordinalgp.tables.numerals import NUMBERS, TWO_READINGS, number, unit, without_unit

_PROBE_ROWS = 2000  # rows that the decimal mark is found from


def decimal_mark(table: Table, names: Iterable[str], usual: str | None = None) -> str | None:
    """Decimal mark of the numbers in some columns, None if none of them shows it.

    ``usual`` decides where numbers can be read in two ways; without it commas are an error.
    """
    sure: set[str] = set()
    unsure: dict[str, str] = {}
    for name in names:
        cells = table.columns[name]
        if cells.dtype == object:
            _inspect(name, cells[:_PROBE_ROWS].tolist(), sure, unsure)
    if sure:  # if both, then commas stand in texts, and points in numbers
        return "," if sure == {","} else "."
    commas = {name: text for name, text in unsure.items() if "," in text}
    if not unsure:
        return None
    if usual == "." or (not commas and usual is None):
        return "."
    if usual == "," and len(commas) == len(unsure):
        return ","
    name, text = next(iter((commas or unsure).items()))
    raise BadInput(_two_ways(table, name, text))


def example(table: Table, decimal: str, mark: str) -> str | None:
    """Sentence on a number that has some mark: its column, its text and its value."""
    for name, cells in table.columns.items():
        if cells.dtype == object:
            for cell in cells[:_PROBE_ROWS].tolist():
                plain = "" if cell is None or mark not in cell else without_unit(cell, unit(cell))
                if plain and (value := number(plain, decimal)) is not None:
                    return f"{cell!r} in column {name} is {value:.10g}"
    return None


def _inspect(name: str, cells: list[Any], sure: set[str], unsure: dict[str, str]) -> None:
    """Add the decimal mark of a column to ``sure``, or a cell that has two readings."""
    if not any(cell is not None and ("," in cell or "." in cell) for cell in cells):
        return
    present = [without_unit(cell, unit(cell)) for cell in cells if cell is not None]
    marked = [cell for cell in present if "," in cell or "." in cell]
    plain = [cell for cell in marked if any(p.fullmatch(cell) for p in NUMBERS.values())]
    whole = sum(number(cell) is not None for cell in present if "," not in cell and "." not in cell)
    if not plain or 2 * (len(plain) + whole) <= len(present):
        return
    telling = [cell for cell in plain if not TWO_READINGS.fullmatch(cell)]
    found = {
        mark
        for mark, other in (".,", ",.")
        if any(not NUMBERS[other].fullmatch(cell) for cell in telling)
    }
    if len(found) == 1:
        sure |= found
    elif not telling:
        unsure[name] = next((cell for cell in plain if "," in cell), plain[0])


def _two_ways(table: Table, name: str, text: str) -> str:
    point, comma = (number(text, mark) for mark in ".,")
    say = table.advice
    return (
        f"Column {name} has numbers such as {text!r}, which may mean {point:g} or {comma:g}. Name "
        f"the decimal mark: {say.decimal('.')} for {point:g}, {say.decimal(',')} for {comma:g}."
    )
