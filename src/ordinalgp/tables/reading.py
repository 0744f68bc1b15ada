"""Reading CSV and Parquet files, whole or in chunks."""

import csv
import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ordinalgp.tables.cells import (
    BadCell,
    BadInput,
    BadRows,
    Table,
    cell_text,
    concatenate,
    objects,
)

_SEPARATORS = (",", ";", "\t", "|", " ")
_PROBE_LINES = 20  # lines that the separator is guessed from
_PARQUET = b"PAR1"
_UNREADABLE = (OSError, EOFError, zlib.error)


@dataclass(frozen=True)
class Format:
    """Format of a text file; a separator of None is detected."""

    separator: str | None = None
    decimal: str = "."
    encoding: str = "utf-8-sig"


@dataclass(frozen=True, eq=False)
class TableFile:
    """A file to read, its format, and the policy for its bad rows."""

    path: Path
    style: Format
    bad: BadRows

    def read(self) -> Table:
        """Read all rows."""
        return read_table(self.path, self.bad, self.style)

    def chunks(self) -> Iterator[Table]:
        """Read the rows in chunks."""
        return read_chunks(self.path, self.bad, self.style)


def read_table(path: str | Path, bad_rows: BadRows, style: Format | None = None) -> Table:
    """Read all rows of a CSV or Parquet file."""
    chunks = list(read_chunks(path, bad_rows, style, rows=None))
    if not sum(map(len, chunks)):
        raise BadInput(f"{os.fspath(path)} has no rows that can be used.")
    return chunks[0] if len(chunks) == 1 else concatenate(chunks)


def is_parquet(path: Path) -> bool:
    """Whether the file starts like a Parquet file."""
    with path.open("rb") as start:
        return start.read(4) == _PARQUET


def read_chunks(
    path: str | Path, bad_rows: BadRows, style: Format | None = None, rows: int | None = 4096
) -> Iterator[Table]:
    """Read a CSV or Parquet file, ``rows`` at a time (None: all), in constant memory."""
    file = Path(path)
    if not file.exists():
        raise BadInput(f"There is no file {os.fspath(path)}. Check the path.")
    if file.is_dir():
        raise BadInput(f"{os.fspath(path)} is a folder, where a CSV or Parquet file is needed.")
    with _refusing(file):
        with file.open("rb") as start:
            magic = start.read(4)
        if magic == _PARQUET:
            from ordinalgp.tables.parquet import parquet_chunks

            yield from parquet_chunks(file, rows)
        else:
            yield from _csv_chunks(file, magic, bad_rows, style or Format(), rows)


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Turn the errors of files into plain messages."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{path} is not text in {error.encoding} (byte {error.start} is "
            f"0x{error.object[error.start]:02x}). Name its encoding, e.g. --encoding latin-1, or "
            "check that it is a CSV or Parquet file."
        ) from error
    except LookupError as error:
        raise BadInput(f"There is no such encoding: {error}.") from error
    except PermissionError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from error
    except _UNREADABLE as error:
        raise BadInput(f"{path} cannot be read: {error}. It may be damaged.") from error


def _csv_chunks(
    path: Path, magic: bytes, bad_rows: BadRows, style: Format, rows: int | None
) -> Iterator[Table]:
    if magic.startswith(b"PK"):
        raise BadInput(f"{path} is a zip or Excel file. Save the sheet as CSV and give that.")
    if not magic:
        raise BadInput(f"{path} is empty. A first line with column names is needed.")
    opened = gzip.open if magic.startswith(b"\x1f\x8b") else open
    with opened(path, "rt", encoding=style.encoding, newline="") as file:
        separator = style.separator or _guess([*islice(file, _PROBE_LINES)])
        file.seek(0)
        try:
            yield from _split(csv.reader(file, delimiter=separator, strict=True), bad_rows, rows)
        except csv.Error as error:
            raise BadInput(
                f"{path} is not a well-formed CSV: {error}. Check its quotes."
            ) from error


def _guess(lines: list[str]) -> str:
    """Separator that cuts all first lines into equally many cells, else the first into most."""
    counts = {}
    for separator in _SEPARATORS:
        try:
            cut = [len(row) for row in csv.reader(lines, delimiter=separator) if row]
        except csv.Error:
            continue
        counts[separator] = (len(set(cut)) == 1 and cut[0] > 1, cut[0] if cut else 0)
    if not counts.get(" ", (False, 0))[0]:
        counts.pop(" ", None)  # spaces also stand inside of names
    return max(counts, key=lambda s: (counts[s], -_SEPARATORS.index(s)), default=",")


def _split(reader: Any, bad_rows: BadRows, rows: int | None) -> Iterator[Table]:
    names = _header(next(reader, []))
    records = _records(reader, len(names))
    while chunk := list(islice(records, rows)):
        ragged = [(at, row) for at, row in chunk if len(row) != len(names)]
        whole = [(at, row) for at, row in chunk if len(row) == len(names)]
        cells = [BadCell(at, _last(names, row), _ragged(names, row)) for at, row in ragged]
        bad_rows.drop(Table({}, np.array([at for at, _ in chunk])), cells)
        by_column = zip(*(row for _, row in whole), strict=True) if whole else ([] for _ in names)
        columns = {
            name: objects(map(cell_text, cells))
            for name, cells in zip(names, by_column, strict=True)
        }
        yield Table(columns, np.array([at for at, _ in whole], dtype=np.intp))


def _records(reader: Any, width: int) -> Iterator[tuple[int, list[str]]]:
    """Every record with the line that it starts on; a quoted cell may span several lines."""
    before = reader.line_num
    for row in reader:
        if row or width == 1:  # an empty line is no row, except where it is an empty cell
            yield before + 1, row or [""]
        before = reader.line_num


def _header(names: list[str]) -> list[str]:
    found = [name.strip() or f"column {place + 1}" for place, name in enumerate(names)]
    twice = sorted({name for name in found if found.count(name) > 1})
    if twice:
        raise BadInput(
            f"The first line names the column {twice[0]!r} more than once. "
            "Every column needs its own name."
        )
    return found


def _last(names: list[str], row: list[str]) -> str:
    return names[min(len(row), len(names)) - 1]


def _ragged(names: list[str], row: list[str]) -> str:
    ends = "the row goes on after it" if len(row) > len(names) else "the row ends here"
    return f"{ends}, with {len(row)} cells where the first line names {len(names)}"
