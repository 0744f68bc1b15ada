"""Reading Parquet files batch by batch; they need ``ordinalgp[tables]``."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordinalgp.tables.cells import BadInput, Table, cell_text, objects

_PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # row labels, stored beside the columns


def import_pyarrow() -> Any:
    """Import ``pyarrow``, or raise an error that says how to install it."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise BadInput(
            "Parquet needs pyarrow, which cannot be imported. "
            "Install it with: pip install 'ordinalgp[tables]'"
        ) from error
    return pyarrow


def n_rows(path: Path) -> int:
    """Number of rows, from the metadata of the file."""
    pa = import_pyarrow()
    try:
        return int(pa.parquet.read_metadata(path).num_rows)
    except pa.lib.ArrowException as error:
        raise BadInput(f"{path} is not a readable Parquet file: {error}") from error


def parquet_chunks(path: Path, rows: int | None) -> Iterator[Table]:
    """Yield ``rows`` at a time, or all rows for None."""
    pa = import_pyarrow()
    try:
        with pa.parquet.ParquetFile(path) as file:
            names = [name for name in file.schema_arrow.names if not _PANDAS_INDEX.fullmatch(name)]
            size, first = rows or max(1, file.metadata.num_rows), 1
            for batch in file.iter_batches(size, columns=names):
                yield _table(pa, batch, first)
                first += batch.num_rows
    except pa.lib.ArrowException as error:
        raise BadInput(f"{path} is not a readable Parquet file: {error}") from error


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
