"""Reading and writing tables: CSV, Parquet and Excel files, whole or in chunks.

Parquet and Excel files need ``ordinalgp[tables]``.
"""

import csv
import gzip
import io
import re
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from ordinalgp.runtime.extras import import_extra
from ordinalgp.runtime.files import check_output, whole_file
from ordinalgp.tables.advice import PYTHON, Advice
from ordinalgp.tables.cells import BadInput, BadRows, Table, cell_text, objects
from ordinalgp.tables.decimals import decimal_mark, example
from ordinalgp.tables.encodings import find_encoding
from ordinalgp.tables.spreadsheets import is_spreadsheet, read_sheet
from ordinalgp.tables.text import TextLayout, left_out_title, text_chunks

_PARQUET = b"PAR1"
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # row labels, stored beside the columns
_UNREADABLE = (OSError, EOFError, zlib.error)
_GZIP = b"\x1f\x8b"
_UNPACK, _SAVE = "Unpack it first.", "Save it as CSV or Parquet."
_OTHER_FORMATS = {
    b"\xd0\xcf\x11\xe0": "an old Excel file. Save it as .xlsx or CSV.",
    b"BZh": f"compressed by bzip2. {_UNPACK}",
    b"\xfd7zX": f"compressed by xz. {_UNPACK}",
    b"\x28\xb5\x2f\xfd": f"compressed by zstd. {_UNPACK}",
    b"7z\xbc\xaf": f"a 7z archive. {_UNPACK}",
    b"Rar!": f"a RAR archive. {_UNPACK}",
    b"%PDF": f"a PDF. {_SAVE}",
    b"SQLi": f"an SQLite database. {_SAVE}",
    b"ARRO": f"a Feather or Arrow file. {_SAVE}",
    b"\x89HDF": f"an HDF5 file. {_SAVE}",
    b"\x93NUM": f"a file of numpy. {_SAVE}",
    b'{"': f"JSON. {_SAVE}",
    b"[{": f"JSON. {_SAVE}",
    b"<htm": f"a page in HTML. {_SAVE}",
    b"<!do": f"a page in HTML. {_SAVE}",
    b"<tab": f"a page in HTML. {_SAVE}",
    b"<?xm": f"XML. {_SAVE}",
}
"""formats that are not read, by their first bytes"""

Rows = dict[str, list[Any]]


@dataclass(frozen=True)
class Format:
    """Format of a file; what is None is detected."""

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    missing: tuple[str, ...] = ()
    """words for a missing value, beside the usual ones"""
    sheet: str | None = None
    """sheet of an Excel file, by default the first"""
    usual_decimal: str | None = None
    """decimal mark if the file's numbers can be read in two ways"""


def _silent(text: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, eq=False)
class TableFile:
    """A file to read, its format, and the policy for its bad rows."""

    path: Path
    style: Format = Format()
    bad: BadRows = field(default_factory=BadRows)
    advice: Advice = PYTHON
    """words for what can be done, in messages"""
    say: Callable[[str], None] = _silent
    """receives notes on how the file was read"""
    tolerant: bool = False
    """whether tables hold their problems, where otherwise these are errors"""

    def read(self) -> Table:
        """Read all rows."""
        chunks = list(self.chunks(None))
        if not sum(len(chunk) + len(chunk.bad) for chunk in chunks):
            raise BadInput(f"{self.path} has no rows that can be used.")
        return chunks[0] if len(chunks) == 1 else chunks[0].append(*chunks[1:])

    def chunks(self, rows: int | None = 4096) -> Iterator[Table]:
        """Read ``rows`` at a time (None: all), in constant memory."""
        if not self.path.exists():
            raise BadInput(f"There is no file {self.path}. Check the path.")
        if self.path.is_dir():
            raise BadInput(f"{self.path} is a folder, where a CSV or Parquet file is needed.")
        decimal = self.style.decimal
        with _refusing(self.path), _opened(self.path) as file:
            for table in self._tables(file, rows):
                table = replace(table, advice=self.advice).without_words(self.style.missing)
                if not self.tolerant:
                    table = self._refused(table)
                decimal = decimal or self._decimal(table)
                yield replace(table, decimal=decimal)

    def _tables(self, file: BinaryIO, rows: int | None) -> Iterator[Table]:
        magic = file.read(4)
        file.seek(0)
        if not magic:
            raise BadInput(f"{self.path} is empty. A first line with column names is needed.")
        if magic == _PARQUET and self.style.sheet is None:
            yield from _parquet_chunks(self.path, file, rows)
        elif (what := _other_format(magic)) is not None:
            raise BadInput(f"{self.path} is {what}")
        elif self.style.sheet is not None and not magic.startswith(b"PK"):
            raise BadInput(
                f"{self.path} is no Excel file, so it has no sheet {self.style.sheet!r}."
            )
        elif magic.startswith(b"PK"):
            if not is_spreadsheet(file):
                raise BadInput(f"{self.path} is a zip file, but no Excel file. Unpack it first.")
            yield from read_sheet(self.path, file, self.style.sheet, rows, self.say)
        elif magic.startswith(_GZIP):
            with gzip.open(file) as unpacked:
                yield from self._text(unpacked, rows)
        else:
            yield from self._text(file, rows)

    def _text(self, file: Any, rows: int | None) -> Iterator[Table]:
        style = self.style
        if style.encoding is not None:
            _check_encoding(style.encoding)
        encoding = style.encoding or find_encoding(self.path, file, self.advice, self.say)
        text = io.TextIOWrapper(file, encoding=encoding, newline="")
        try:
            layout = TextLayout.find(text, style.separator)
            if layout.title:
                self.say(f"{self.path}: {left_out_title(layout.title)}")
            yield from text_chunks(text, layout, rows)
        except csv.Error as error:
            raise BadInput(
                f"{self.path} is not a well-formed CSV: {error}. Check its quotes."
            ) from error
        finally:
            text.detach()

    def _refused(self, table: Table) -> Table:
        """Raise an error, or skip and count rows, where something is wrong."""
        if table.problems:
            raise BadInput(" ".join(table.problems))
        self.bad.drop(table, list(table.bad))
        return replace(table, bad=())

    def _decimal(self, table: Table) -> str | None:
        """Decimal mark that the numbers of a table show, said if it is a comma."""
        try:
            found = decimal_mark(table, table.columns, self.style.usual_decimal)
        except BadInput:  # raised again where a column is needed as a number
            return None
        shown = None if found is None else example(table, found, ",")
        if shown is not None and found == ",":
            overruled = f"; {self.advice.decimal('.')} overrules this"
            self.say(f"{self.path}: read with a decimal comma ({shown}){overruled}.")
        elif shown is not None:
            self.say(f"{self.path}: read with commas between thousands ({shown}).")
        return found


def parquet_rows(path: Path) -> int | None:
    """Number of rows of a Parquet file, from its metadata; None for other files."""
    with path.open("rb") as file:
        if file.read(4) != _PARQUET:
            return None
        with _parquet_file(path, file) as parquet:
            return int(parquet.metadata.num_rows)


def _check_encoding(name: str) -> None:
    """Raise unless there is such an encoding of texts."""
    try:
        "".encode(name)
    except (LookupError, ValueError):
        raise BadInput(
            f"There is no encoding {name!r} of texts. Use for example utf-8, utf-16 or cp1252, or "
            "leave it out."
        ) from None


def _other_format(magic: bytes) -> str | None:
    """Format that is not read, and what to do."""
    for start, told in _OTHER_FORMATS.items():
        if magic.startswith(start) or (start[:1] == b"<" and magic.lower().startswith(start)):
            return told
    return None


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file; what comes through a pipe is first put into a file of its own."""
    with path.open("rb") as file:
        if path.is_file():
            yield file
            return
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(file, copy)
            copy.seek(0)
            yield copy


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Turn the errors of files into plain messages."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{path} is not text in {error.encoding} (byte {error.start} is "
            f"0x{error.object[error.start]:02x}). Leave out its encoding, or name another one."
        ) from error
    except UnicodeError as error:
        raise BadInput(
            f"{path} is not text in the encoding that was named: {error}. Leave out its encoding, "
            "or name another one."
        ) from error
    except PermissionError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from error
    except _UNREADABLE as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"{path} cannot be read: {reason}. It may be damaged.") from error


def _pyarrow() -> Any:
    """Import ``pyarrow``, or raise an error that says how to install it."""
    import_extra("pyarrow.parquet", "Parquet needs", "tables")
    import pyarrow

    return pyarrow


@contextmanager
def _parquet_file(path: Path, file: BinaryIO) -> Iterator[Any]:
    pa = _pyarrow()
    try:
        # Not by Python's file, whose buffers grow with the file.
        with pa.parquet.ParquetFile(path if path.is_file() else file) as parquet:
            yield parquet
    except pa.lib.ArrowException as error:
        raise BadInput(f"{path} is not a readable Parquet file: {error}") from error


def _parquet_chunks(path: Path, file: BinaryIO, rows: int | None) -> Iterator[Table]:
    with _parquet_file(path, file) as parquet:
        names = [name for name in parquet.schema_arrow.names if not _PANDAS_INDEX.fullmatch(name)]
        size, first = rows or max(1, parquet.metadata.num_rows), 1
        for batch in parquet.iter_batches(size, columns=names):
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
    if pa.types.is_duration(kind):  # in seconds
        seconds = values.cast(pa.duration("us"), safe=False).cast(pa.int64()).cast(pa.float64())
        return np.array(seconds.to_numpy(zero_copy_only=False), dtype=float) / 1e6
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        # Not by Python numbers, which take a hundred times as long; gaps become NaN.
        found = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return np.array(found, dtype=float)
    if pa.types.is_timestamp(kind):  # nanoseconds have no type in Python
        values = values.cast(pa.timestamp("us", kind.tz), safe=False)
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


def check_table_output(path: Path, inputs: Iterable[Path] = ()) -> None:
    """Raise unless a table can be written at ``path`` that is none of ``inputs``."""
    suffix = path.suffix.lower()
    if suffix in (".xlsx", ".xls", ".ods"):
        raise BadInput(
            f"{path} would be a spreadsheet, but tables are written as .csv, .csv.gz, .tsv or "
            ".parquet. Excel opens .csv files."
        )
    if suffix == ".parquet":
        _pyarrow()
    check_output(path, inputs)


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
