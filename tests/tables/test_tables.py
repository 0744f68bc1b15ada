"""Tables: reading, encoding, and models that keep both."""

import csv
import gzip
import io
import json
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from tests.table_cases import LEVELS, encoded, school, write_csv

import ordinalgp
from ordinalgp import OrdinalGPClassifier
from ordinalgp.persistence import archive
from ordinalgp.tables import TableModel
from ordinalgp.tables.cells import MISSING, BadInput, Table, number
from ordinalgp.tables.encoding import learn, parse_columns, read_target
from ordinalgp.tables.files import Format, TableFile, table_writer
from ordinalgp.tables.frames import as_table

pd = pytest.importorskip("pandas")


def read(path, **style):
    return TableFile(path, Format(**style)).read()


def cells(table):
    return {name: values.tolist() for name, values in table.columns.items()}


# -------------------------------------------------------------------------------- reading


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", " ", ":", "#"])
@pytest.mark.parametrize("zipped", [False, True])
def test_any_separator(separator, zipped, tmp_path):
    text = "a,b,c\n1,x,3\n4,,6\n".replace(",", separator)
    path = tmp_path / "t"
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    style = {} if separator in ",;\t| " else {"separator": separator}
    expected = {"a": ["1", "4"], "b": ["x", None], "c": ["3", "6"]}
    assert cells(read(path, **style)) == expected


def test_the_separator_is_found_where_others_are_in_the_cells(tmp_path):
    (tmp_path / "t").write_text("name;size\n1,5;2,5\n3,5;4,5\n")
    assert cells(read(tmp_path / "t")) == {"name": ["1,5", "3,5"], "size": ["2,5", "4,5"]}
    (tmp_path / "t").write_text("body mass index\n1\n2\n")
    assert cells(read(tmp_path / "t")) == {"body mass index": ["1", "2"]}


def test_marks_quotes_and_lines(tmp_path):
    """A byte order mark, Windows line ends, quoted separators and line breaks, empty lines."""
    text = '\ufeffa,b\r\n"x\r\ny",1\r\n\r\n"say ""no"", please",2\r\n'
    (tmp_path / "t").write_bytes(text.encode())
    table = read(tmp_path / "t")
    assert cells(table) == {"a": ["x\r\ny", 'say "no", please'], "b": ["1", "2"]}
    assert table.lines.tolist() == [2, 5]


def test_columns_without_a_name_are_named(tmp_path):
    (tmp_path / "t").write_text(",a\n1,2\n")
    assert list(read(tmp_path / "t").columns) == ["column 1", "a"]


WORDS_FOR_GAPS = MISSING - {""}
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=8).filter(
    lambda text: text.strip() not in WORDS_FOR_GAPS
)


@pytest.mark.parametrize("word", sorted(WORDS_FOR_GAPS))
def test_words_for_gaps_are_gaps(word, tmp_path):
    (tmp_path / "t").write_text(f"a,b\n{word},1\n x{word} ,2\n")
    assert cells(read(tmp_path / "t"))["a"] == [None, f"x{word}"]


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=12),
    chunk=st.integers(1, 5),
    zipped=st.booleans(),
)
def test_what_the_csv_module_writes_is_read(rows, chunk, zipped, tmp_path_factory):
    """Whatever the cells hold; "strip" and None for empty cells are the only changes."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, quoting=csv.QUOTE_ALL)
    writer.writerows([["first", "second", "third"], *rows])
    content = buffer.getvalue().encode()
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_bytes(gzip.compress(content) if zipped else content)
    found = list(TableFile(path, Format(separator=",")).chunks(chunk))
    assert all(len(table) <= chunk for table in found)
    for place, name in enumerate(("first", "second", "third")):
        expected = [row[place].strip() for row in rows]
        seen = [cell for table in found for cell in table.columns[name].tolist()]
        assert seen == [text or None for text in expected]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.5", 1.5),
        (" -2e3 ", -2000.0),
        ("1_000", None),
        ("inf", None),
        ("nan", None),
        ("1,5", None),
    ],
)
def test_numbers_are_finite_and_plain(text, value):
    assert number(text) == value


def test_numbers_with_a_decimal_comma():
    assert number("1,5", ",") == 1.5


def test_parquet_types(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    columns = {
        "whole": pa.array([1, None, 3]),
        "flag": pa.array([True, False, None]),
        "text": pa.array([" a ", "NA", "b"]),
        "day": pa.array(np.array(["2020-01-01", "2020-01-02", "NaT"], "datetime64[D]")),
        "level": pa.DictionaryArray.from_arrays([1, 0, 1], ["high", "low"], ordered=True),
        "code": pa.DictionaryArray.from_arrays([1, 0, None], ["x", "y"]),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=2)
    for table in (read(tmp_path / "t.parquet"),):
        assert_array_equal(table.columns["whole"], [1, np.nan, 3])
        assert table.columns["flag"].tolist() == ["True", "False", None]
        assert table.columns["text"].tolist() == ["a", None, "b"]
        assert table.columns["day"].tolist() == ["2020-01-01", "2020-01-02", None]
        assert table.columns["code"].tolist() == ["y", "x", None]
        assert table.levels == {"flag": ["False", "True"], "level": ["high", "low"]}
        assert table.lines.tolist() == [1, 2, 3]
    chunks = list(TableFile(tmp_path / "t.parquet").chunks(1))
    assert [len(chunk) for chunk in chunks] == [1, 1, 1]
    assert [chunk.lines[0] for chunk in chunks] == [1, 2, 3]
    assert all(chunk.levels["level"] == ["high", "low"] for chunk in chunks)


def test_the_order_of_a_pandas_categorical_survives_many_row_groups(tmp_path):
    levels = ["low", "mid", "high", "never seen"]
    frame = pd.DataFrame({"x": np.arange(50.0)}, index=np.arange(50) * 3)
    frame["y"] = pd.Categorical(np.array(levels[:3])[np.arange(50) % 3], levels, ordered=True)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=7)
    table = read(tmp_path / "t.parquet")
    assert table.levels["y"] == levels
    assert list(table.columns) == ["x", "y"]  # the index is not a column
    labels, order, bad = read_target(table, "y")
    assert order == levels
    assert labels.tolist() == frame["y"].tolist()
    assert bad == []


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.tsv", "t.parquet", "plain"])
def test_what_is_written_is_read(name, tmp_path):
    path = tmp_path / name
    with table_writer(path) as writer:
        writer.write({"n": [0.1, 1e-300], "text": ["a,b", 'c"d']})
        writer.write({"n": [1 / 3], "text": ["e\nf"]})
    table = read(path)
    assert [float(v) for v in table.columns["n"]] == [0.1, 1e-300, 1 / 3]
    assert table.columns["text"].tolist() == ["a,b", 'c"d', "e\nf"]
    assert [p.name for p in tmp_path.iterdir()] == [name]


# ------------------------------------------------------------------------------- encoding


def test_frames_dicts_and_tables_are_encoded_alike():
    columns, _ = school()
    polars = pytest.importorskip("polars")
    expected = encoded(columns)
    for data in (columns, pd.DataFrame(columns), polars.DataFrame(columns)):
        table = as_table(data)
        encoder = learn(parse_columns(table)[0])
        features, bad = encoder.encode(table)
        assert bad == []
        assert_allclose(features, expected, rtol=0, atol=1e-13)
        assert len(encoder.features) == len(encoder.owner) == features.shape[1]


def test_codes_can_be_nominal_and_texts_numeric():
    table = as_table({"code": [1.0, 2.0, 2.5, 1.0], "size": ["1", "2", "x", "y"]})
    parsed, bad = parse_columns(table, nominal=["code"], numeric=["size"])
    kinds = {column.name: column.kind for column in learn(parsed).columns}
    assert kinds == {"code": "nominal", "size": "number"}
    assert [(cell.line, cell.column) for cell in bad] == [(3, "size"), (4, "size")]
    encoder = learn(parsed.without(["size"]))
    assert encoder.features == ["code = 1", "code = 2", "code = 2.5", "code new"]
    # A file of texts with the same codes.
    texts = as_table({"code": ["1", "2.5", "7"]})
    again, bad = encoder.encode(texts)
    assert_array_equal(again, [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    assert bad == []
    _, bad = encoder.encode(texts, new_values="error")
    assert [(cell.line, cell.column) for cell in bad] == [(3, "code")]


def test_constant_columns_stay_finite():
    for value in (0.0, 0.1, 1e30):
        table = as_table({"flat": [value] * 7})
        encoder = learn(parse_columns(table)[0])
        assert_array_equal(encoder.encode(table)[0], 0)
        assert "always" in encoder.columns[0].rule
        assert np.isfinite(encoder.encode(as_table({"flat": [5.0]}))[0]).all()


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1.0, 1e200, 1e300])
def test_numbers_of_any_size_are_scaled(size):
    table = as_table({"x": [size, -size, size, -size]})
    features, _ = learn(parse_columns(table)[0]).encode(table)
    assert_allclose(features[:, 0], [1, -1, 1, -1])


def test_numbers_far_from_those_of_training_stay_finite():
    for training in ([1e308, -1e308, 1e308], [1e-300, 2e-300, 3e-300], [0.0, 5e-324, None]):
        encoder = learn(parse_columns(as_table({"x": training}))[0])
        values = [1.7e308, -1.7e308, *training[:2]]
        features, _ = encoder.encode(as_table({"x": values}))
        assert np.isfinite(features**2).all()
        order = np.argsort(values, kind="stable")
        assert (np.diff(features[order, 0]) >= 0).all()


def test_columns_are_of_one_length():
    with pytest.raises(BadInput, match="of one length"):
        as_table({"a": [1], "b": [1, 2]})


@settings(max_examples=50, deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=2).filter(lambda v: v[0]))
def test_numbers_are_encoded_as_scikit_learn_does(values):
    table = as_table({"x": values})
    features, _ = learn(parse_columns(table)[0]).encode(table)
    filled = np.array([np.nan if v is None else v for v in values])
    filled[np.isnan(filled)] = np.nanmedian(filled)
    # scikit-learn takes columns whose variance underflows for constant.
    if np.ptp(filled) > max(1e-6 * np.abs(filled).max(), 1e-100):
        assert_allclose(features, encoded({"x": values}), rtol=1e-9, atol=1e-9)


# --------------------------------------------------------------------------------- target


def labels_of(values, **options):
    table = Table({"y": np.array([*values, None], object)[:-1]}, np.arange(2, 2 + len(values)))
    return read_target(table, "y", **options)


def test_labels_take_their_kind_from_the_levels():
    labels, order, bad = labels_of(["2", "1.0", "3"], categories=["1", "2", "3"])
    assert (labels.tolist(), order, bad) == ([2, 1, 3], [1, 2, 3], [])
    assert labels.dtype.kind == "i"
    labels, order, _ = labels_of(["0.5", "1"])
    assert (labels.tolist(), order) == ([0.5, 1.0], None)
    labels, order, _ = labels_of(["b", "a"], categories=["b", "a"])
    assert (labels.tolist(), order) == (["b", "a"], ["b", "a"])


def test_bad_labels_are_named():
    _, _, bad = labels_of(["1", "2", None, "x"])
    assert [str(cell) for cell in bad] == [
        "column y: the target is missing",
        "column y: 'x' is not a number, as the other levels are",
    ]
    assert [cell.line for cell in bad] == [4, 5]
    with pytest.raises(BadInput, match=r"categories=\['high', 'low'\]"):
        labels_of(["low", "high", "low"])
    with pytest.raises(BadInput, match=r"51 different texts \('name 0', ...\), too many"):
        labels_of([f"name {i}" for i in range(51)])
    days = [str(np.datetime64("2024-01-01") + day) for day in range(60)]
    with pytest.raises(BadInput, match=r"60 different dates .*as numbers, such as days, and cut"):
        labels_of(days)


# ---------------------------------------------------------------------------------- model


@pytest.fixture(scope="module")
def fitted():
    columns, grade = school()
    classifier = OrdinalGPClassifier(categories=[1, 2, 3, 4])  # level 4 is never seen
    return TableModel(classifier, kernel="ard", target="grade").fit(columns, grade), columns, grade


def test_a_saved_model_is_the_same_model(fitted, tmp_path):
    model, columns, _ = fitted
    model.save(tmp_path / "m.ogp")
    again = ordinalgp.load(tmp_path / "m.ogp")
    assert isinstance(again, TableModel)
    assert_array_equal(again.category_proba(columns), model.category_proba(columns))
    assert_array_equal(again.loo_proba_, model.loo_proba_)
    assert again.encoder_ == model.encoder_
    assert repr(again.get_params()) == repr(model.get_params())
    again.save(tmp_path / "n.ogp")
    assert (tmp_path / "m.ogp").read_bytes() == (tmp_path / "n.ogp").read_bytes()


def test_fifty_thousand_columns_fit_into_a_file(tmp_path):
    """Each has at most its share of the bytes and values that model.json may have."""
    n = 4000
    X = np.random.default_rng(0).normal(size=(10, n))
    model = TableModel(OrdinalGPClassifier(optimizer=None), kernel="rbf", folds=2)
    model.fit({f"gene {k}": column for k, column in enumerate(X.T)}, np.arange(10) % 2)
    model.save(tmp_path / "wide.ogp")
    with zipfile.ZipFile(tmp_path / "wide.ogp") as file:
        text = file.read("model.json")
    assert len(text) / n < archive._LARGEST_DOCUMENT / 50_000
    assert sum(map(text.count, (b",", b"[", b"{"))) / n < archive._MOST_VALUES / 50_000
    again = ordinalgp.load(tmp_path / "wide.ogp")
    assert_array_equal(again.importance_.mean, model.importance_.mean)


def test_leave_one_out_is_in_rank_order_with_all_levels(fitted):
    model, columns, grade = fitted
    assert model.loo_proba_.shape == (48, 4)
    assert_array_equal(model.loo_proba_[:, 3], 0)
    direct = OrdinalGPClassifier(model.classifier_.kernel, categories=[1, 2, 3, 4])
    assert_allclose(model.loo_proba_[:, :3], direct.fit(encoded(columns), grade).loo_proba())
    assert_array_equal(model.codes_, grade - 1)


def test_models_are_cloned_and_need_fitting(fitted):
    unfitted = clone(fitted[0])
    assert unfitted.target == "grade"
    with pytest.raises(NotFittedError):
        unfitted.predict(fitted[1])
    with pytest.raises(NotFittedError):
        unfitted.save("never.ogp")


def test_bad_cells_are_named_in_python_too(fitted):
    model, columns, grade = fitted
    broken = columns | {"sleep": ["long", *columns["sleep"][1:]]}
    with pytest.raises(BadInput, match="row 1, column sleep: 'long' is not a number"):
        model.predict(broken)
    with pytest.raises(BadInput, match="row 1, column sleep"):
        clone(model).fit(broken, grade)
    with pytest.raises(BadInput, match="lacks the column 'sleep'"):
        model.predict({name: columns[name] for name in columns if name != "sleep"})
    with pytest.raises(ValueError, match="kernel must be one of"):
        TableModel(kernel="cubic").fit(columns, grade)


def test_labels_of_every_kind_are_kept():
    columns, grade = school()
    y = pd.Series(pd.Categorical(np.array(LEVELS)[grade - 1], LEVELS, ordered=True))
    model = TableModel(kernel="rbf").fit(columns, y)
    assert model.categories_.tolist() == LEVELS
    assert model.predict(columns)[0] in LEVELS
    assert_array_equal(model.codes_, grade - 1)


# ---------------------------------------------------------------------------------- files


def test_every_number_is_parsed_once(fitted, tmp_path, monkeypatch):
    from ordinalgp.tables import cells as module
    from ordinalgp.tables.training import Source

    _, columns, grade = fitted
    parsed, parse = [], module.number
    monkeypatch.setattr(module, "number", lambda *given: parsed.append(given[0]) or parse(*given))
    numbers = {name: columns[name] for name in ("hours", "sleep")}
    path = write_csv(tmp_path / "t.csv", numbers | {"grade": [int(g) for g in grade]})
    _, (X, y, _) = Source(TableFile(path), "grade").read()
    model = TableModel(OrdinalGPClassifier(optimizer=None)).fit(X, y)
    assert model.encoder_.features == ["hours", "hours missing", "sleep"]
    assert len(parsed) == 3 * 48 - columns["hours"].count(None)


def column(told, name):
    columns = told["result"]["fields"]["encoder"]["fields"]["columns"]["items"]
    return next(c["fields"] for c in columns if c["fields"]["name"] == name)


CHANGES = {
    "a column less": lambda told: told["result"]["fields"]["encoder"]["fields"]["columns"][
        "items"
    ].pop(),
    "a value that fills gaps and is none": lambda told: column(told, "tutor").update(frequent="x"),
    "a value more": lambda told: column(told, "tutor")["values"]["items"].append("maybe"),
    "a scale of zero": lambda told: column(told, "sleep").update(scale=0.0),
    "a count below zero": lambda told: column(told, "sleep").update(missing=-1),
    "text for a number": lambda told: column(told, "sleep").update(mean="7"),
    "no encoder": lambda told: told["result"]["fields"].pop("encoder"),
    "latent means for codes": lambda told: told["result"]["fields"].update(
        codes=told["result"]["fields"]["latent_mean"]
    ),
    "counts for codes": lambda told: told["result"]["fields"].update(
        codes=told["result"]["fields"]["level_counts"]
    ),
    "a model that is not fitted": lambda told: told["result"]["fields"]["classifier"].update(
        result=None
    ),
    "a record for the classifier": lambda told: told["result"]["fields"].update(
        classifier=told["result"]["fields"]["encoder"]
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_file_whose_parts_disagree_is_refused(change, fitted, tmp_path):
    fitted[0].save(tmp_path / "m.ogp")
    with (
        zipfile.ZipFile(tmp_path / "m.ogp") as old,
        zipfile.ZipFile(tmp_path / "n.ogp", "w") as new,
    ):
        for name in old.namelist():
            content = old.read(name)
            if name == "model.json":
                told = json.loads(content)
                change(told)
                content = json.dumps(told).encode()
            new.writestr(name, content)
    with pytest.raises(ValueError, match="cannot be loaded"):
        ordinalgp.load(tmp_path / "n.ogp")
