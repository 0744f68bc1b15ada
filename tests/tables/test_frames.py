"""Frames of pandas, polars and pyarrow, mappings and arrays as tables."""

import datetime as dt
import time
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from ordinalgp.tables.cells import BadInput, Table
from ordinalgp.tables.encoding import learn, parse_columns
from ordinalgp.tables.frames import as_table

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

DAYS = [dt.datetime(2020, 1, day) for day in (1, 2, 3)]
COLUMNS = {
    "whole": [1, None, 3],
    "real": [0.5, None, 2.0],
    "flag": [True, None, False],
    "text": ["a", None, " b "],
    "day": [*DAYS[:2], None],
}
CELLS = {
    "whole": [1.0, None, 3.0],
    "real": [0.5, None, 2.0],
    "flag": ["True", None, "False"],
    "text": ["a", None, "b"],
    "day": ["2020-01-01", "2020-01-02", None],
}
FRAMES = {
    "dict": lambda: COLUMNS,
    "records": lambda: pd.DataFrame(COLUMNS, dtype=object).to_dict("records"),
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "pandas objects": lambda: pd.DataFrame(COLUMNS, dtype=object),
    "pandas NA": lambda: pd.DataFrame(COLUMNS, dtype=object).fillna(pd.NA),
    "convert_dtypes": lambda: pd.DataFrame(COLUMNS).convert_dtypes(),
    "pandas on pyarrow": lambda: pd.DataFrame(COLUMNS).convert_dtypes(dtype_backend="pyarrow"),
    "pandas with an index": lambda: pd.DataFrame(COLUMNS, index=[7, 7, 3]),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "pyarrow": lambda: pa.table(COLUMNS),
    "pyarrow chunks": lambda: pa.concat_tables([pa.table(COLUMNS)[:1], pa.table(COLUMNS)[1:]]),
    "record batch": lambda: pa.RecordBatch.from_pydict(COLUMNS),
}


def cells(table):
    """Cells by column, None for gaps."""
    return {
        name: [None if cell != cell else cell for cell in values.tolist()]
        for name, values in table.columns.items()
    }


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_every_frame_holds_the_same_cells(make):
    table = as_table(make())
    assert cells(table) == CELLS
    kinds = {name: values.dtype.kind for name, values in table.columns.items()}
    assert kinds == {"whole": "f", "real": "f", "flag": "O", "text": "O", "day": "O"}
    assert (table.unit, table.lines.tolist()) == ("row", [1, 2, 3])


SINGLE = {
    "nullable whole": (lambda: pd.array([1, None], dtype="Int64"), [1.0, None]),
    "nullable boolean": (lambda: pd.array([True, None], dtype="boolean"), ["True", None]),
    "nullable string": (lambda: pd.array(["x", None], dtype="string"), ["x", None]),
    "booleans": (lambda: np.array([True, False]), ["True", "False"]),
    "whole numbers": (lambda: np.array([1, 2], dtype=np.uint8), [1.0, 2.0]),
    "half precision": (lambda: np.array([1.5, np.nan], dtype=np.float16), [1.5, None]),
    "bytes": (lambda: np.array([b"x", b"y"]), ["x", "y"]),
    "fixed width": (lambda: np.array(["x", "NA"]), ["x", None]),
    "decimals": (lambda: [Decimal("1.5"), Decimal("NaN")], [1.5, None]),
    "polars decimals": (lambda: pl.Series(["1.5", None]).cast(pl.Decimal(9, 2)), [1.5, None]),
    "pyarrow decimals": (lambda: pa.array([Decimal("1.5"), None]), [1.5, None]),
    "masked": (lambda: np.ma.array([1, 2], mask=[False, True]), [1.0, None]),
    "sparse": (lambda: pd.arrays.SparseArray([0.0, 2.0]), [0.0, 2.0]),
    "range": (lambda: range(2), [0.0, 1.0]),
    "one column of two dimensions": (lambda: np.array([[1], [2]]), [1.0, 2.0]),
    "NaN among objects": (lambda: np.array([1, np.nan], dtype=object), [1.0, None]),
    "infinite": (lambda: [np.inf, None], [np.inf, None]),
    "larger than any double": (lambda: [10**400, 1], [np.inf, 1.0]),
    "numbers and texts": (lambda: [1, 2.0, 2.5, "x", True], ["1", "2", "2.5", "x", "True"]),
    "texts for gaps": (lambda: ["?", "", "none"], [None, None, "none"]),
    "dates": (lambda: [dt.date(2020, 1, 2), None], ["2020-01-02", None]),
    "hours": (lambda: [dt.datetime(2020, 1, 2, 3), pd.NaT], ["2020-01-02T03:00:00", None]),
    "polars dates": (lambda: pl.Series([dt.date(2020, 1, 2), None]), ["2020-01-02", None]),
    "pyarrow dates": (lambda: pa.array([dt.date(2020, 1, 2), None]), ["2020-01-02", None]),
    "time of day": (lambda: pl.Series([dt.time(1, 2)]), ["01:02:00"]),
    "wall time": (
        lambda: pd.Series(pd.to_datetime(["2020-01-02 01:00"]).tz_localize("Europe/Berlin")),
        ["2020-01-02T01:00:00"],
    ),
    "polars wall time": (
        lambda: pl.Series([dt.datetime(2020, 1, 2, 1)]).dt.replace_time_zone("Europe/Berlin"),
        ["2020-01-02T01:00:00"],
    ),
    "durations": (lambda: pd.Series(pd.to_timedelta(["2s", None])), [2.0, None]),
    "polars durations": (lambda: pl.Series([dt.timedelta(seconds=2), None]), [2.0, None]),
    "pyarrow durations": (lambda: pa.array([dt.timedelta(seconds=2), None]), [2.0, None]),
    "periods": (lambda: pd.Series(pd.period_range("2020-01", periods=1, freq="M")), ["2020-01-01"]),
    "nothing": (lambda: pl.Series([None, None]), [None, None]),
    "pyarrow nothing": (lambda: pa.nulls(2), [None, None]),
}


@pytest.mark.parametrize(("make", "expected"), SINGLE.values(), ids=SINGLE)
def test_columns_of_every_type(make, expected):
    table = as_table({"x": make()})
    assert cells(table)["x"] == expected
    assert (table.levels, table.nominal) == ({}, frozenset())


WORDS, ORDER = ["low", "high", None, "low"], ["low", "mid", "high"]
DICTIONARY = pa.array([0, 2, None, 0]), pa.array(ORDER)
CATEGORICALS = {
    "pandas": (lambda: pd.Series(pd.Categorical(WORDS, ORDER)), False),
    "pandas ordered": (lambda: pd.Series(pd.Categorical(WORDS, ORDER, ordered=True)), True),
    "bare": (lambda: pd.Categorical(WORDS, ORDER, ordered=True), True),
    "index": (lambda: pd.CategoricalIndex(WORDS, ORDER, ordered=True), True),
    "polars": (lambda: pl.Series(WORDS, dtype=pl.Categorical), False),
    "polars Enum": (lambda: pl.Series(WORDS, dtype=pl.Enum(ORDER)), False),
    "pyarrow": (lambda: pa.DictionaryArray.from_arrays(*DICTIONARY), False),
    "pyarrow ordered": (lambda: pa.DictionaryArray.from_arrays(*DICTIONARY, ordered=True), True),
    "pandas on pyarrow": (
        lambda: pd.Series(
            pd.arrays.ArrowExtensionArray(pa.DictionaryArray.from_arrays(*DICTIONARY, ordered=True))
        ),
        True,
    ),
}


@pytest.mark.parametrize(("make", "ordered"), CATEGORICALS.values(), ids=CATEGORICALS)
def test_categoricals_are_nominal_or_ordered(make, ordered):
    table = as_table({"size": make()})
    assert table.columns["size"].tolist() == WORDS
    assert table.levels == ({"size": ORDER} if ordered else {})
    assert table.nominal == (frozenset() if ordered else {"size"})
    (column,) = learn(parse_columns(table)[0]).columns
    assert column.kind == ("ordered" if ordered else "nominal")
    if ordered:
        assert column.values == tuple(ORDER)  # with the level that did not occur


def test_ordered_values_are_encoded_by_their_ranks():
    table = as_table({"size": pd.Categorical(WORDS, ORDER, ordered=True)})
    encoder = learn(parse_columns(table)[0])
    features, bad = encoder.encode(table)
    ranks = np.array([0.0, 2, 0, 0])  # the median, low, fills the gap
    assert bad == []
    expected = np.column_stack([(ranks - ranks.mean()) / ranks.std(), [0, 0, 1, 0]])
    np.testing.assert_allclose(features, expected, atol=1e-15)
    assert encoder.features == ["size", "size missing"]
    assert encoder.decode(features).columns["size"].tolist() == WORDS
    # Plain texts are ranked by the order of training; a value without a rank is like a gap.
    again = as_table({"size": ["mid", "huge"]})
    mid, huge = encoder.encode(again)[0]
    np.testing.assert_allclose(mid, [(1 - ranks.mean()) / ranks.std(), 0], atol=1e-15)
    assert_array_equal(huge[0], features[2, 0])
    assert encoder.new_values(again) == {"size": ["huge"]}
    assert [cell.line for cell in encoder.encode(again, new_values="error")[1]] == [2]
    assert learn(parse_columns(table, nominal=["size"])[0]).columns[0].kind == "nominal"


def test_numbers_in_categoricals():
    """Unordered they are names; ordered and ascending they are numbers; else they have ranks."""
    table = as_table(
        {
            "code": pd.Categorical([1, 5, None]),
            "dose": pd.Categorical([1, 5, None], [1, 2, 5], ordered=True),
            "grade": pd.Categorical([1, 5, None], [5, 2, 1], ordered=True),
            "half": pd.Categorical([1.5, 2.0, None]),
        }
    )
    assert cells(table) == {
        "code": ["1", "5", None],
        "dose": [1.0, 5.0, None],
        "grade": ["1", "5", None],
        "half": ["1.5", "2", None],
    }
    assert table.levels == {"grade": ["5", "2", "1"]}
    assert table.nominal == {"code", "half"}
    kinds = {c.name: c.kind for c in learn(parse_columns(table)[0]).columns}
    assert kinds == {"code": "nominal", "dose": "number", "grade": "ordered", "half": "nominal"}
    kinds = {c.name: c.kind for c in learn(parse_columns(table, numeric=["code"])[0]).columns}
    assert kinds["code"] == "number"


def test_intervals_of_pandas_are_ordered():
    cut = pd.cut([1.0, 2, 3, 30], [0, 2, 10, 50])
    table = as_table({"age": cut})
    assert table.levels == {"age": ["(0, 2]", "(2, 10]", "(10, 50]"]}


def test_names_of_columns():
    pairs = pd.MultiIndex.from_tuples([("size", "mm"), ("size", "kg")])
    assert list(as_table(pd.DataFrame([[1, 2]], columns=pairs)).columns) == ["size_mm", "size_kg"]
    assert list(as_table(pd.DataFrame([[1, 2]], columns=[0, 1])).columns) == ["0", "1"]
    assert list(as_table({3: [1], "a": [2]}).columns) == ["3", "a"]
    assert list(as_table(np.ones((2, 2))).columns) == ["x0", "x1"]
    fields = np.array([(1, "x")], dtype=[("n", float), ("s", "U3")])
    assert cells(as_table(fields)) == {"n": [1.0], "s": ["x"]}
    assert cells(as_table([[1, "a"], [None, "b"]])) == {"x0": [1.0, None], "x1": ["a", "b"]}
    table = as_table({"a": [1]})
    assert as_table(table) is table


NO_TABLES = {
    "a name twice": (lambda: pd.DataFrame([[1, 2]], columns=["a", "a"]), "2 columns named 'a'"),
    "pyarrow, a name twice": (
        lambda: pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]),
        "2 columns named 'a'",
    ),
    "1 and '1'": (lambda: {1: [1], "1": [2]}, "2 columns named '1'.*Rename or drop"),
    "no rows": (lambda: pd.DataFrame({"a": []}), "no rows, but at least one"),
    "polars without rows": (lambda: pl.DataFrame({"a": []}), "no rows"),
    "no columns": (lambda: pd.DataFrame(index=[0, 1]), "no columns, but at least one"),
    "an empty dict": (dict, "no columns"),
    "an empty array": (lambda: np.empty((0, 2)), r"0 sample\(s\)"),
    "an array without columns": (lambda: np.empty((2, 0)), r"0 feature\(s\)"),
    "two lengths": (lambda: {"a": [1], "b": [1, 2]}, r"of one length, but have lengths \[1, 2\]"),
    "lists in cells": (lambda: {"a": [[1], [2, 3]]}, r"a list in row 1 \(\[1\]\).*one value per"),
    "rows of lists": (lambda: {"a": [[1, 2], [2, 3]]}, "holds a list in row 1"),
    "polars lists": (lambda: pl.DataFrame({"a": [[1], [2]]}), "holds a list"),
    "pyarrow lists": (lambda: pa.table({"a": [None, [2]]}), "holds a list in row 2"),
    "polars structs": (lambda: pl.DataFrame({"a": [{"b": 1}]}), "holds a dict"),
    "a wide column": (lambda: {"a": np.ones((3, 2))}, r"has shape \(3, 2\)"),
    "a number for a column": (lambda: {"a": 1}, "Column a is 1, where one value per row"),
    "a text for a column": (lambda: {"a": "abc"}, "Column a is 'abc'"),
    "a set for a column": (lambda: {"a": {1, 2}}, "one value per row"),
    "complex numbers": (lambda: {"a": np.array([1j])}, "complex numbers.*give the real and"),
    "polars lazy": (lambda: pl.LazyFrame({"a": [1]}), r"LazyFrame is evaluated later.*collect\(\)"),
    "a path": (lambda: "data.csv", "'data.csv' was given.*read a file first"),
    "nothing": (lambda: None, "None was given"),
    "a series": (lambda: pd.Series([1, 2]), "2-dimensional"),
    "one dimension": (lambda: np.ones(3), "Expected 2D array"),
    "three dimensions": (lambda: np.ones((2, 2, 2)), "dim 3"),
}


@pytest.mark.parametrize(("make", "message"), NO_TABLES.values(), ids=NO_TABLES)
def test_what_is_no_table_is_refused_with_the_reason(make, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        as_table(make())


def test_a_record_without_a_cell_has_a_gap():
    assert cells(as_table([{"a": 1}, {"b": "x", "a": 2}])) == {"a": [1.0, 2.0], "b": [None, "x"]}
    with pytest.raises(BadInput, match=r"Row 2 is \[1\], where a dict is needed"):
        as_table([{"a": 1}, [1]])


def test_periods_are_their_first_days():
    months = pd.period_range("2024-01", periods=2, freq="M")
    for column in (months, pd.Series(months)):
        assert cells(as_table({"month": column})) == {"month": ["2024-01-01", "2024-02-01"]}


def test_infinite_numbers_are_named():
    for column in ([1, np.inf, None], [np.inf] * 3):
        table = as_table({"x": column})
        _, bad = parse_columns(table)
        assert [cell.column for cell in bad] == ["x"] * sum(v == np.inf for v in column)
        assert "'inf' is not finite (if it means a gap, use None in place of 'inf')" in str(bad[0])
        # As names they are fine.
        assert parse_columns(table, nominal=["x"])[0].columns["x"][1] == "inf"


def test_numbers_do_not_go_cell_by_cell():
    """A frame of 200,000 numbers takes a small part of the time of a loop over its cells."""
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(10_000, 20)))
    forms = {
        "pandas": frame,
        "nullable": frame.convert_dtypes(),
        "pandas on pyarrow": frame.convert_dtypes(dtype_backend="pyarrow"),
        "polars": pl.DataFrame({f"x{i}": frame[i].to_numpy() for i in frame}),
        "pyarrow": pa.table({f"x{i}": frame[i].to_numpy() for i in frame}),
        "array": frame.to_numpy(),
    }

    def seconds(work):
        took = []
        for _ in range(3):
            began = time.perf_counter()
            work()
            took.append(time.perf_counter() - began)
        return min(took)

    loop = seconds(lambda: [float(v) if v == v else None for i in frame for v in frame[i].tolist()])
    for name, form in forms.items():
        assert seconds(lambda form=form: as_table(form)) < loop, name


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(-(10**30), 10**30),
            st.floats(),
            st.text(max_size=4),
            st.dates(),
            st.datetimes(),
            st.timedeltas(),
            st.decimals(allow_nan=False),
            st.binary(max_size=3),
            st.just(pd.NA),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_any_cells_become_numbers_or_texts(values):
    """And a column is learned and encoded, or refused with a message."""
    table = as_table({"x": values})
    (column,) = table.columns.values()
    assert len(column) == len(values)
    assert column.dtype == float or all(c is None or isinstance(c, str) for c in column)
    absent = [value is None or value is pd.NA for value in values]
    gaps = np.isnan(column) if column.dtype == float else np.array([c is None for c in column])
    assert gaps[absent].all()
    try:
        parsed, bad = parse_columns(table)
    except BadInput:
        assert gaps.all() or len(set(column.tolist())) > 10  # nothing, or remarks
        return
    if not bad:
        features, wrong = learn(parsed).encode(table)
        assert np.isfinite(features).all()
        assert wrong == []


def test_tables_are_renamed_by_place():
    table = Table({"a": np.ones(1), "b": np.zeros(1)}, np.array([1]))
    assert {k: v.tolist() for k, v in table.renamed(["c", "d"]).columns.items()} == {
        "c": [1.0],
        "d": [0.0],
    }
