"""Reading and writing CSV and Parquet files, whole or in chunks.

Parquet needs ``ordinalgp[tables]``.
"""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ordinalgp.runtime.extras import import_extra
from ordinalgp.runtime.files import whole_file
from ordinalgp.tables.cells import BadCell, BadInput, BadRows, Table, cell_text, objects

_SEPARATORS = (",", ";", "\t", "|", " ")
_PROBE_LINES = 20  # lines that the separator is guessed from
_PARQUET = b"PAR1"
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # row labels, stored beside the columns
_UNREADABLE = (OSError, EOFError, zlib.error)

Rows = dict[str, list[Any]]


@dataclass(frozen=True)
class Format:
    """Format of a text file; a separator of None is detected."""

    separator: str | None = None
    decimal: str = "."
    encoding: str = "utf-8-sig"


@dataclass(frozen=True, eq=False)
class TableFile:
    """A CSV or Parquet file to read, its format, and the policy for its bad rows."""

    path: Path
    style: Format = Format()
    bad: BadRows = field(default_factory=BadRows)

    def read(self) -> Table:
        """Read all rows."""
        chunks = list(self.chunks(None))
        if not sum(map(len, chunks)):
            raise BadInput(f"{self.path} has no rows that can be used.")
        return chunks[0] if len(chunks) == 1 else chunks[0].append(*chunks[1:])

    def chunks(self, rows: int | None = 4096) -> Iterator[Table]:
        """Read ``rows`` at a time (None: all), in constant memory."""
        if not self.path.exists():
            raise BadInput(f"There is no file {self.path}. Check the path.")
        if self.path.is_dir():
            raise BadInput(f"{self.path} is a folder, where a CSV or Parquet file is needed.")
        with _refusing(self.path):
            magic = _first_bytes(self.path)
            if magic == _PARQUET:
                yield from _parquet_chunks(self.path, rows)
            else:
                yield from _csv_chunks(self, magic, rows)


def parquet_rows(path: Path) -> int | None:
    """Number of rows of a Parquet file, from its metadata; None for other files."""
    if _first_bytes(path) != _PARQUET:
        return None
    with _parquet_file(path) as file:
        return int(file.metadata.num_rows)


def _first_bytes(path: Path) -> bytes:
    with path.open("rb") as start:
        return start.read(4)


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


def _csv_chunks(file: TableFile, magic: bytes, rows: int | None) -> Iterator[Table]:
    path, style = file.path, file.style
    if magic.startswith(b"PK"):
        raise BadInput(f"{path} is a zip or Excel file. Save the sheet as CSV and give that.")
    if not magic:
        raise BadInput(f"{path} is empty. A first line with column names is needed.")
    opened = gzip.open if magic.startswith(b"\x1f\x8b") else open
    with opened(path, "rt", encoding=style.encoding, newline="") as text:
        separator = style.separator or _guess([*islice(text, _PROBE_LINES)])
        text.seek(0)
        try:
            yield from _split(csv.reader(text, delimiter=separator, strict=True), file.bad, rows)
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
        lines = np.array([at for at, _ in chunk], dtype=np.intp)
        ragged = [_ragged(at, names, row) for at, row in chunk if len(row) != len(names)]
        keep = bad_rows.drop(Table({}, lines), ragged)
        whole = [row for _, row in chunk if len(row) == len(names)]
        columns = {
            name: objects(map(cell_text, map(itemgetter(place), whole)))
            for place, name in enumerate(names)
        }
        yield Table(columns, lines[keep])


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


def _ragged(line: int, names: list[str], row: list[str]) -> BadCell:
    """Bad cell where a row is too short or too long."""
    ends = "the row goes on after it" if len(row) > len(names) else "the row ends here"
    last = names[min(len(row), len(names)) - 1]
    reason = f"{ends}, with {len(row)} cells where the first line names {len(names)}"
    return BadCell(line, last, reason)


def _pyarrow() -> Any:
    """Import ``pyarrow``, or raise an error that says how to install it."""
    import_extra("pyarrow.parquet", "Parquet needs", "tables")
    import pyarrow

    return pyarrow


@contextmanager
def _parquet_file(path: Path) -> Iterator[Any]:
    pa = _pyarrow()
    try:
        with pa.parquet.ParquetFile(path) as file:
            yield file
    except pa.lib.ArrowException as error:
        raise BadInput(f"{path} is not a readable Parquet file: {error}") from error


def _parquet_chunks(path: Path, rows: int | None) -> Iterator[Table]:
    with _parquet_file(path) as file:
        names = [name for name in file.schema_arrow.names if not _PANDAS_INDEX.fullmatch(name)]
        size, first = rows or max(1, file.metadata.num_rows), 1
        for batch in file.iter_batches(size, columns=names):
            yield _table(_pyarrow(), batch, first)
            first += batch.num_rows


def _table(pa: Any, batch: Any, first: int) -> Table:
    columns: dict[str, NDArray[Any]] = {}
    levels: dict[str, list[Any]] = {}
    for name, values in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_dictionary(values.type):
            if values.type.ordered:
                levels[name] = [_written(level) for level in values.dictionary.to_pylist()]
            values = values.dictionary_decode()
        if pa.types.is_boolean(values.type):
            levels[name] = ["False", "True"]
        columns[name] = _cells(pa, values)
    return Table(columns, np.arange(first, first + batch.num_rows), "row", levels)


def _cells(pa: Any, values: Any) -> NDArray[Any]:
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        # Not by Python numbers, which take a hundred times as long; gaps become NaN.
        found = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return np.array(found, dtype=float)
    return objects(map(_written, values.to_pylist()))


def _written(value: Any) -> str | None:
    return None if value is None else cell_text(str(value))


def records(rows: Rows) -> list[dict[str, Any]]:
    """Each row as a mapping from columns to cells."""
    return [dict(zip(rows, cells, strict=True)) for cells in zip(*rows.values(), strict=True)]


class Writer(Protocol):
    """Writer of a table chunk by chunk, always with the same columns."""

    def write(self, chunk: Rows) -> None:
        """Add rows."""


class CsvWriter:
    """Writer to an open text file; floats keep all digits."""

    def __init__(self, file: Any, separator: str = ",") -> None:
        self._writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        self._begun = False

    def write(self, chunk: Rows) -> None:
        """Add rows."""
        if not self._begun:
            self._writer.writerow(chunk)
            self._begun = True
        self._writer.writerows(zip(*chunk.values(), strict=True))


class _ParquetWriter:
    def __init__(self, file: Any) -> None:
        self._file, self._pa = file, _pyarrow()
        self._writer: Any = None

    def write(self, chunk: Rows) -> None:
        """Add rows; the types are those of the first."""
        schema = None if self._writer is None else self._writer.schema
        table = self._pa.table(chunk, schema=schema)
        if self._writer is None:
            self._writer = self._pa.parquet.ParquetWriter(self._file, table.schema)
        self._writer.write_table(table)

    def close(self) -> None:
        """Write the end of the file."""
        if self._writer is not None:
            self._writer.close()


@contextmanager
def table_writer(path: Path) -> Iterator[Writer]:
    """Open ``path`` for a table in the format of its suffix, by default CSV."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    with whole_file(path) as file:
        if suffixes[-1:] == [".parquet"]:
            writer = _ParquetWriter(file)
            yield writer
            writer.close()
            return
        zipped = suffixes[-1:] == [".gz"]
        binary = gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) if zipped else file
        text = io.TextIOWrapper(binary, encoding="utf-8", newline="")
        yield CsvWriter(text, "\t" if ".tsv" in suffixes else ",")
        text.flush()
        text.detach()
        if zipped:
            binary.close()
