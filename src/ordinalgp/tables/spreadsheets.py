"""Reading of Excel files, which needs ``ordinalgp[tables]``."""

import datetime
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ordinalgp.runtime.extras import import_extra
from ordinalgp.tables.cells import BadInput, Table, cell_text, objects
from ordinalgp.tables.text import header, left_out_title, titles

_NUMBERS = (int, float)
_MOST_ROWS = 20  # rows that titles are looked for in


def is_spreadsheet(file: BinaryIO) -> bool:
    """Whether an open zip file is an Excel file."""
    try:
        with zipfile.ZipFile(file) as archive:
            found = "xl/workbook.xml" in archive.namelist()
    except zipfile.BadZipFile:
        return False
    file.seek(0)
    return found


def read_sheet(
    path: Path, file: BinaryIO, sheet: str | None, rows: int | None, say: Callable[[str], None]
) -> Iterator[Table]:
    """Read a sheet, by default the first; its first row that is not empty names the columns.

    Titles above this row are left out, which is said.
    """
    openpyxl = import_extra("openpyxl", "Excel files need", "tables")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on styles and the like
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            lines = _sheet(path, book, sheet)
        book.close()
    except (BadInput, MemoryError):
        raise
    except Exception as error:  # by zipfile, the parser of XML or openpyxl, whatever it met
        raise BadInput(
            f"{path} is not a readable Excel file ({type(error).__name__}: {error}). Save it again "
            "from Excel, or as CSV."
        ) from error
    if n_titles := titles([[_name(cell) for cell in row] for _, row in lines[:_MOST_ROWS]]):
        title = next(filter(None, map(_name, lines[0][1])))
        say(f"{path}: {left_out_title(title)}")
    table = _table(path, lines[n_titles:])
    for first in range(0, len(table), rows or max(1, len(table))):
        place = np.arange(len(table))
        last = first + (rows or len(table))
        yield table.take((place >= first) & (place < last))
    if not len(table):
        yield table


def _sheet(path: Path, book: Any, sheet: str | None) -> list[tuple[int, tuple[Any, ...]]]:
    """Rows that are not empty, with their numbers in the sheet."""
    names = book.sheetnames
    if sheet is not None and sheet not in names:
        raise BadInput(f"{path} has no sheet {sheet!r}. Its sheets are {', '.join(names)}.")
    found = book[sheet if sheet is not None else names[0]]
    if hasattr(found, "reset_dimensions"):
        found.reset_dimensions()  # other programs write wrong ones
    rows = enumerate(found.iter_rows(values_only=True), start=1)
    return [(at, row) for at, row in rows if any(cell is not None for cell in row)]


def _table(path: Path, lines: list[tuple[int, tuple[Any, ...]]]) -> Table:
    if not lines:
        raise BadInput(f"{path}: the sheet is empty. A first row with column names is needed.")
    width = max(len(row) for _, row in lines)
    names, problems = header([_name(cell) for cell in lines[0][1]] + [""] * width, "row", width)
    body = [row + (None,) * (width - len(row)) for _, row in lines[1:]]
    columns = {name: _column([row[place] for row in body]) for place, name in enumerate(names)}
    numbers = np.array([at for at, _ in lines[1:]], dtype=np.intp)
    return Table(columns, numbers, "row", problems=problems)


def _name(cell: Any) -> str:
    return "" if cell is None else str(_cell(cell))


def _column(cells: list[Any]) -> NDArray[Any]:
    """Numbers if all cells are, else texts; dates as ISO texts."""
    kinds = {type(cell) for cell in cells} - {type(None)}
    if kinds and kinds <= set(_NUMBERS):
        return np.array([np.nan if cell is None else float(cell) for cell in cells])
    return objects(None if cell is None else cell_text(_cell(cell)) for cell in cells)


def _cell(cell: Any) -> str:
    if isinstance(cell, datetime.datetime):
        return cell.isoformat(" ") if cell.time() != datetime.time() else str(cell.date())
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell)
