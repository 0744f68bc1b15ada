"""Data frames, mappings of columns and arrays as tables.

Read are frames of pandas (with columns of numpy, nullable or pyarrow types) and polars, pyarrow
tables, mappings from names to columns, lists of mappings from names to cells, structured arrays and
plain arrays. No library of frames is imported: whoever has a frame has its library. The index of a
frame is ignored.

- Numbers become float64, with NaN for missing values. Durations count in seconds.
- Booleans become the texts "True" and "False", as in a file. Dates and times become ISO texts;
  of a period this is its start.
- Other cells become texts; a whole number among them is written without a point.
- A categorical column is declared nominal, also if its categories are numbers. If it is ordered,
  its order is declared instead; numbers that ascend are taken as numbers. A polars Enum counts as
  nominal: it always has an order, whether or not that means anything.
- Columns of an array are named x0, x1, ...
"""

import datetime
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.tables.cells import BadInput, Table, cell_text, composed, objects, texts

_MISSING = ("NoneType", "NAType", "NaTType")  # types of missing values
_MAYBE_MISSING = (float, np.floating, Decimal, np.datetime64, np.timedelta64)  # NaN, NaT
_CONTAINERS = (list, tuple, set, frozenset, dict, np.ndarray)
_FLAGS = (bool, np.bool_)


@dataclass(frozen=True, eq=False)
class _Cells:
    """Cells of a column, and the kind that its type declares."""

    values: NDArray[Any]
    levels: list[str] | None = None
    """values of an ordered categorical, from lowest to highest"""
    nominal: bool = False


def has_names(data: Any) -> bool:
    """Whether the columns of ``data`` have names; those of an array have none."""
    # Of the class: a frame that is evaluated later would have to look its columns up.
    named = isinstance(data, Table | Mapping) or hasattr(type(data), "columns")
    named = named or _is_records(data)
    return named or getattr(getattr(data, "dtype", None), "names", None) is not None


def _is_records(data: Any) -> bool:
    """Whether ``data`` is a list of rows that are mappings from names to cells."""
    return isinstance(data, list | tuple) and len(data) > 0 and isinstance(data[0], Mapping)


def _columns_of_records(rows: Sequence[Any]) -> dict[Any, list[Any]]:
    """Columns of rows that are mappings; a cell that a row lacks is missing."""
    for place, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise BadInput(
                f"Row {place + 1} is {row!r:.60}, where a dict is needed, as in the first row."
            )
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def as_table(data: Any) -> Table:
    """Convert a frame, a mapping from names to columns, or an array to a table."""
    if isinstance(data, Table):
        return data
    columns = _named(data) if has_names(data) else _numbered(data)
    if not columns:
        raise BadInput("The table has no columns, but at least one is needed.")
    cells = {name: _column(name, values) for name, values in columns.items()}
    sizes = {len(found.values) for found in cells.values()}
    if len(sizes) > 1:
        raise BadInput(f"Columns must be of one length, but have lengths {sorted(sizes)}.")
    if sizes == {0}:
        raise BadInput("The table has no rows, but at least one is needed.")
    return Table(
        {name: found.values for name, found in cells.items()},
        np.arange(1, sizes.pop() + 1),
        "row",
        levels={name: found.levels for name, found in cells.items() if found.levels is not None},
        nominal=frozenset(name for name, found in cells.items() if found.nominal),
    )


def _named(data: Any) -> dict[str, Any]:
    """Columns of a frame, a mapping or a list of mappings, by names that are texts."""
    if _is_records(data):
        data = _columns_of_records(data)
    for method in ("collect", "compute"):
        if not isinstance(data, Mapping) and hasattr(data, method):
            raise BadInput(
                f"A table in memory is needed, but {type(data).__module__}.{type(data).__name__} "
                f"is evaluated later. Give the result of its method {method}()."
            )
    if hasattr(data, "column_names"):  # pyarrow; by place, as names may repeat
        names = list(map(column_name, data.column_names))
        _require_different(names)
        return dict(zip(names, data.columns, strict=True))
    if isinstance(data, Mapping):
        keys = list(data)
    else:
        keys = list(data.columns if hasattr(type(data), "columns") else data.dtype.names)
    names = list(map(column_name, keys))
    _require_different(names)
    return {name: data[key] for name, key in zip(names, keys, strict=True)}


def column_name(key: Any) -> str:
    """Name of a column as text; the parts of a name with several levels are joined by "_"."""
    return composed("_".join(map(str, key)) if isinstance(key, tuple) else str(key))


def _require_different(names: Sequence[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise BadInput(
                f"The table has {count} columns named {name!r}, but columns are told apart by "
                "their names. Rename or drop all but one of them."
            )


def _numbered(data: Any) -> dict[str, Any]:
    """Columns of an array of two dimensions, or of a list of rows."""
    if data is None or isinstance(data, str | bytes) or hasattr(data, "__fspath__"):
        raise BadInput(
            f"A table is needed, but {data!r:.60} was given. Give a DataFrame, a dict from column "
            "names to columns, or an array; read a file first."
        )
    if isinstance(data, list | tuple):
        # Not by numpy's own choice of type, which writes None and 1.5 as texts among texts.
        data = np.array(data, dtype=object)
    options = {"dtype": None, "ensure_all_finite": False, "estimator": "TableModel"}
    array = check_array(data, **options)
    return {f"x{place}": array[:, place] for place in range(array.shape[1])}


def _column(name: str, values: Any) -> _Cells:
    """Cells of a column of any library."""
    dtype: Any = getattr(values, "dtype", None)
    if hasattr(dtype, "pyarrow_dtype") and hasattr(values, "array"):
        values = values.array.__arrow_array__()
    if hasattr(values, "to_pylist") and hasattr(values, "type"):
        return _from_arrow(name, values)
    if type(values).__module__.split(".")[0] == "polars":
        return _from_polars(name, values)
    if hasattr(dtype, "categories"):
        codes = values.cat.codes if hasattr(values, "cat") else values.codes
        return _categorical(name, dtype.categories, np.asarray(codes), dtype.ordered)
    return _Cells(_from_numpy(name, _as_array(name, values)))


def _from_polars(name: str, values: Any) -> _Cells:
    kind, word = values.dtype, values.dtype.base_type().__name__
    if word in ("Categorical", "Enum"):
        return _Cells(_from_objects(name, objects(values.to_list())), nominal=True)
    if getattr(kind, "time_zone", None) is not None:
        values = values.dt.replace_time_zone(None)  # the time on the wall
    plain = kind.is_numeric() or word in ("Datetime", "Date", "Duration")
    array = values.to_numpy() if plain else objects(values.to_list())
    return _Cells(_from_numpy(name, array))


def _from_arrow(name: str, values: Any) -> _Cells:
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(values, pa.ChunkedArray):
        if pa.types.is_dictionary(values.type):
            values = values.unify_dictionaries()
        values = values.combine_chunks()
    kind = values.type
    if pa.types.is_dictionary(kind):
        codes = pc.fill_null(values.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
        return _categorical(name, values.dictionary, codes, kind.ordered)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = values.cast(pa.float64(), safe=False)
    elif pa.types.is_timestamp(kind) and kind.tz is not None:
        values = pc.local_timestamp(values)  # the time on the wall
    elif not (pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_duration(kind)):
        return _Cells(_from_objects(name, objects(values.to_pylist())))
    return _Cells(_from_numpy(name, values.to_numpy(zero_copy_only=False)))


def _categorical(name: str, categories: Any, codes: IntArray, ordered: bool) -> _Cells:
    """Cells of a categorical column; the code of a missing value is -1."""
    found = _column(name, categories).values
    if ordered and found.dtype == float and np.all(np.diff(found) > 0):
        return _Cells(np.append(found, np.nan)[codes])
    words = texts(found)
    levels = list(dict.fromkeys(word for word in words.tolist() if word is not None))
    cells = np.append(words, np.array([None], dtype=object))[codes]
    return _Cells(cells, levels) if ordered else _Cells(cells, nominal=True)


def _as_array(name: str, values: Any) -> NDArray[Any]:
    """An array of one dimension, of objects where numpy has no type for the cells."""
    one_by_one = isinstance(values, Iterable) and not isinstance(values, Mapping | Set)
    if isinstance(values, str | bytes) or not one_by_one:
        raise BadInput(
            f"Column {name} is {values!r:.60}, where one value per row is needed. Give a list."
        )
    dtype = getattr(values, "dtype", None)
    if getattr(dtype, "tz", None) is not None and hasattr(values, "dt"):
        values = values.dt.tz_localize(None)  # the time on the wall
    if type(dtype).__name__ == "PeriodDtype":
        values = (values.dt if hasattr(values, "dt") else values).to_timestamp()
    if isinstance(values, np.ma.MaskedArray):
        array = objects(values.tolist())
    elif getattr(dtype, "kind", "O") in "iuf" and hasattr(values, "to_numpy"):
        array = values.to_numpy(dtype=float, na_value=np.nan)
    elif dtype is not None and hasattr(values, "__array__"):
        array = np.asarray(values, dtype=None if isinstance(dtype, np.dtype) else object)
    else:
        array = objects(values)
    if array.ndim == 2 and array.shape[1] == 1:
        return array[:, 0]
    if array.ndim != 1:
        raise BadInput(
            f"Column {name} has shape {array.shape}, where one value per row is needed. Give each "
            "of its columns a name of its own."
        )
    return array


def _from_numpy(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Cells of an array by its type."""
    kind = array.dtype.kind
    if kind in "iuf":
        return np.asarray(array, dtype=np.float64)
    if kind == "b":
        return array.astype(str).astype(object)
    if kind == "M":
        return _iso(array)
    if kind == "m":
        return _seconds(array)
    if kind == "S":
        array = np.char.decode(array, "utf-8", "replace")
    if kind == "c":
        raise BadInput(
            f"Column {name} holds complex numbers. Complex data not supported: give the real and "
            "the imaginary parts as columns."
        )
    return _from_objects(name, array.astype(object))


def _from_objects(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Cells of Python objects: numbers if all of them are, else texts."""
    cells = [None if is_missing(value) else value for value in array.tolist()]
    kinds = set(map(type, cells)) - {type(None)}
    if any(issubclass(kind, _CONTAINERS) for kind in kinds):
        row = next(i for i, value in enumerate(cells) if isinstance(value, _CONTAINERS))
        raise BadInput(
            f"Column {name} holds a {type(cells[row]).__name__} in row {row + 1} "
            f"({cells[row]!r:.60}), where one value per cell is needed. Make a column of each "
            "part, or drop the column."
        )
    flags = [issubclass(kind, _FLAGS) for kind in kinds]
    if kinds and not all(flags) and all(issubclass(kind, Real | Decimal) for kind in kinds):
        return np.array([np.nan if value is None else _float(value) for value in cells])
    times = kinds and all(issubclass(kind, datetime.datetime) for kind in kinds)
    if times and all(value is None or value.tzinfo is None for value in cells):
        return _iso(np.array(cells, dtype="datetime64[us]"))
    return objects(None if value is None else _text(value) for value in cells)


def is_missing(value: Any) -> bool:
    """Whether a value of any library stands for a missing one."""
    gap = isinstance(value, _MAYBE_MISSING) and bool(value != value)
    return gap or type(value).__name__ in _MISSING


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf


def _text(value: Any) -> str | None:
    """A cell as text; whole numbers without a point, so that 3.0 is "3"."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, datetime.date | datetime.time):
        value = value.isoformat()
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    return cell_text(str(value))


def _iso(array: NDArray[Any]) -> NDArray[Any]:
    """Dates and times as ISO texts, of the coarsest unit that holds all of them."""
    absent = np.isnat(array)
    for unit in ("D", "s", "us", "ns"):
        coarse = array.astype(f"datetime64[{unit}]")
        if np.array_equal(coarse[~absent], array[~absent]):
            break
    words = np.datetime_as_string(coarse).astype(object)
    words[absent] = None
    return words


def _seconds(array: NDArray[Any]) -> FloatArray:
    found = array / np.timedelta64(1, "s")
    return np.where(np.isnat(array), np.nan, found)


def label_values(y: Any) -> tuple[Any, list[Any] | None]:
    """Labels as classifiers take them, and the order of an ordered pyarrow dictionary.

    Labels of other libraries are returned as they are: classifiers know their order.
    """
    if not (hasattr(y, "to_pylist") and hasattr(y, "type")):
        return y, None
    order = None
    if getattr(y.type, "ordered", False):
        whole = y.unify_dictionaries().combine_chunks() if hasattr(y, "chunks") else y
        order = whole.dictionary.to_pylist()
    return y.to_pylist(), order
