"""Writing tables in chunks: CSV, gzipped CSV, tab-separated text, Parquet."""

import csv
import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from ordinalgp.runtime.files import whole_file
from ordinalgp.tables.parquet import import_pyarrow

Rows = dict[str, list[Any]]


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
        self._file, self._pa = file, import_pyarrow()
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
