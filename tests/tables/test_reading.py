"""Reading of tables as people have them: each case beside what a person reads in it."""

import csv
import gzip
import io
import os
import re
import sys
import threading
import time
import zipfile
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import ordinalgp
from ordinalgp import OrdinalGPClassifier
from ordinalgp.tables import Reading, TableModel, cut_levels
from ordinalgp.tables.advice import COMMAND_LINE, PYTHON, option
from ordinalgp.tables.cells import BadInput, Table
from ordinalgp.tables.encoding import learn, parse_columns, read_target
from ordinalgp.tables.files import Format, TableFile
from ordinalgp.tables.frames import as_table

pd = pytest.importorskip("pandas")


@pytest.fixture
def read(tmp_path):
    """Write bytes or text to a file and read it; gives cells, lines and what was said."""

    def call(content, name="t.csv", **style):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        said = []
        table = TableFile(path, Format(**style), say=said.append).read()
        cells = {key: values.tolist() for key, values in table.columns.items()}
        return cells, table, said

    return call


def features(cells, **options):
    """Parsed columns of a table of texts."""
    parsed, bad = parse_columns(as_table(cells), **options)
    return parsed, [str(cell) for cell in bad]


# ------------------------------------------------------------------------------- text layout

AB = {"a": ["1", "3"], "b": ["x", "y"]}
LAYOUTS = {
    "blanks around semicolons": "a ; b\n1 ; x\n3 ; y\n",
    "blanks around commas": "a , b\n1 , x\n3 , y\n",
    "blanks around quotes": '"a" ; "b"\n"1" ; "x"\n"3" ; "y" \n',
    "a quote after a blank": 'a, b\n1, "x"\n3, "y"\n',
    "columns of fixed width": "  a    b\n  1    x\n  3    y\n",
    "columns of fixed width, at the left": "a    b  \n1    x  \n3    y  \n",
    "blanks and tabs": "a \t b\n1 \t x\n3   y\n",
    "a line for Excel": "sep=;\r\na;b\r\n1;x\r\n3;y\r\n",
    "a quoted line for Excel": '"sep=;"\na;b\n1;x\n3;y\n',
    "comments": "# made by hand\n# at noon, by us\na,b\n1,x\n3,y\n",
    "empty lines": "\n\na,b\n\n1,x\n\n3,y\n\n",
    "separators at the ends of all lines": "a,b,\n1,x,\n3,y,\n",
    "separators at the ends of rows": "a,b\n1,x,\n3,y,\n",
    "separators after the names": "a,b,,\n1,x\n3,y\n",
    "old lines of Macintosh": "a,b\r1,x\r3,y\r",
    "lines of Windows": "a,b\r\n1,x\r\n3,y\r\n",
    "no last line end": "a\tb\n1\tx\n3\ty",
    "blanks in names": " a  ,  b \n1,x\n3,y\n",
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_of_text(name, read):
    cells, _, _ = read(LAYOUTS[name])
    named = {key: values for key, values in cells.items() if not key.startswith("column ")}
    assert named == AB
    assert all(set(cells[key]) == {None} for key in set(cells) - set(named))


def test_lines_are_counted_from_the_top(read):
    assert read("sep=;\na;b\n1;x\n3;y\n")[1].lines.tolist() == [3, 4]
    assert read("# one\n\n# two\n\na,b\n1,x\n")[1].lines.tolist() == [6]
    assert read('\na,b\n"1\n2",x\n3,y\n')[1].lines.tolist() == [3, 5]


def test_a_number_sign_may_be_part_of_a_name(read):
    assert read("#id,b\n1,x\n3,y\n")[0] == {"#id": ["1", "3"], "b": ["x", "y"]}


def test_blanks_inside_of_quotes_stay(read):
    text = 'a ; b\n"x ; "" ; y" ; 1\n"two\nlines" ; 2\n'
    assert read(text)[0] == {"a": ['x ; " ; y', "two\nlines"], "b": ["1", "2"]}


def test_very_long_cells_are_read(read):
    long, before = "x" * 300_000, csv.field_size_limit()
    assert read(f"a;b\n{long};1\n")[0] == {"a": [long], "b": ["1"]}
    assert csv.field_size_limit() == before, "a limit of the whole process stays as it was"


def test_the_limit_of_cells_is_not_raised_between_two_chunks(tmp_path):
    path, before = tmp_path / "table.csv", csv.field_size_limit()
    path.write_text("a,b\n1,2\n3,4\n")
    for _ in TableFile(path).chunks(1):
        assert csv.field_size_limit() == before


TITLES = {
    "a line of its own": "Survey 2024\n{}",
    "with an empty line": "Survey 2024\n\n{}",
    "two lines": "Survey 2024\nof all towns\n{}",
    "with separators": "Survey 2024,,\n,,\n{}",
}


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("form", TITLES)
def test_titles_are_left_out_and_said(form, separator, read):
    rows = "a,b,c\n1,x,2\n3,y,4\n5,x,6\n"
    cells, table, said = read(TITLES[form].format(rows).replace(",", separator))
    assert cells == {"a": ["1", "3", "5"], "b": ["x", "y", "x"], "c": ["2", "4", "6"]}
    assert table.lines[0] == TITLES[form].format("").count("\n") + 2
    assert said == [f"{said[0].split(':')[0]}: 'Survey 2024' was taken for a title, and left out."]


@pytest.mark.parametrize(
    "content", ["a\nx\ny\n", "a,,\n1,2,3\n4,5,6\n", "a\n1,2\n3,4\n", "a,\nx,y\nz,u\n"]
)
def test_single_names_are_no_titles(content, tmp_path):
    (tmp_path / "t.csv").write_text(content)
    said = []
    table = next(TableFile(tmp_path / "t.csv", say=said.append, tolerant=True).chunks())
    assert (next(iter(table.columns)), said) == ("a", [])


def test_titles_of_sheets_are_left_out(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book, said = openpyxl.Workbook(), []
    for row in (["Survey 2024"], [], ["a", "b", "c"], [1, "x", 2], [3, "y", 4]):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    table = TableFile(tmp_path / "t.xlsx", say=said.append).read()
    assert {name: cells.tolist() for name, cells in table.columns.items()} == {
        "a": [1, 3],
        "b": ["x", "y"],
        "c": [2, 4],
    }
    assert table.lines.tolist() == [4, 5]
    assert "'Survey 2024' was taken for a title" in said[0]


def test_wrong_quotes_are_told_with_the_line(read):
    with pytest.raises(BadInput, match="row that begins in line 4, a quote is never closed"):
        read('a,b\n1,"x\ny"\n2,"z\n3,y\n')
    with pytest.raises(BadInput, match="row that begins in line 3, ',' expected"):
        read('a,b\n1,x\n"2"3,y\n4,z\n')


@pytest.mark.parametrize(
    ("start", "told"),
    [
        (b"BZh91AY", "compressed by bzip2. Unpack"),
        (b"%PDF-1.4", "a PDF. Save it as CSV"),
        (b'{"a": 1}', "JSON"),
        (b'[{"a": 1}]', "JSON"),
        (b"<!DOCTYPE html>", "HTML"),
        (b"\xd0\xcf\x11\xe0 1", "an old Excel file. Save it as .xlsx"),
        (b"(\xb5/\xfd 1", "compressed by zstd"),
    ],
)
def test_other_formats_are_named(start, told, read):
    with pytest.raises(BadInput, match=told):
        read(start + b"\na,b\n1,2\n")


def test_letters_with_accents_are_the_same_in_both_forms(tmp_path):
    """An e and an accent, or one character: nobody sees the difference."""
    one, two = "caf\u00e9", "cafe\u0301"
    (tmp_path / "t.csv").write_text(f"{two}\n{one}\n{two}\n", encoding="utf-8")
    table = TableFile(tmp_path / "t.csv").read()
    assert {name: cells.tolist() for name, cells in table.columns.items()} == {one: [one, one]}
    assert as_table({two: [one, two]}).columns[one].tolist() == [one, one]


def test_ragged_rows_are_named(read):
    with pytest.raises(
        BadInput, match=r"line 3, column b: the row ends here, with 2 cells"
    ) as told:
        read("a,b,c\n1,2,3\n4,5\n6,7,8,9\n1\n")
    assert "line 4, column c: the row goes on after it, with 4 cells" in str(told.value)
    assert "line 5, column a: the row ends here, with 1 cell where" in str(told.value)


def test_names_that_repeat_are_told_with_their_places(read):
    with pytest.raises(BadInput, match=r"'a' more than once: it is column 1 and 3\. .*'b' more"):
        read("a,b, a,b\n1,2,3,4\n")


@pytest.mark.skipif(os.name == "nt", reason="named pipes are of Unix")
def test_a_pipe_can_be_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    content = gzip.compress(b"a;b\n1;x\n3;y\n")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(content,))
    writer.start()
    table = TableFile(tmp_path / "pipe").read()
    writer.join(10)
    assert {name: values.tolist() for name, values in table.columns.items()} == AB


# ------------------------------------------------------------------------------- encodings

WORDS = {"Größe": ["groß", "klein"], "n": ["1", "2"]}


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("utf-8", None),
        ("utf-8-sig", None),
        ("utf-16", None),
        ("utf-32", None),
        ("utf-16-le", "was read as utf-16-le"),
        ("utf-16-be", "was read as utf-16-be"),
        ("latin-1", "was read as cp1252 (Windows, Western Europe), with texts such as 'Größe'"),
        ("cp1252", "name its encoding with encoding="),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_encodings_are_found(encoding, said, zipped, read):
    text = ("Größe;n\r\ngroß;1\r\nklein;2\r\n").encode(encoding)
    cells, _, told = read(gzip.compress(text) if zipped else text)
    assert cells == WORDS
    assert (said in told[0]) if said else told == []


def test_a_strange_byte_after_a_megabyte_is_found(read):
    rows = b"1,plain\n" * 200_000
    cells, _, told = read(b"a,b\n" + rows + "2,größer\n".encode("cp1252"))
    assert cells["b"][-1] == "größer"
    assert "'größer'" in told[0]


def test_other_encodings_are_named(read):
    text = "a,b\n1,дом\n".encode("koi8-r")
    assert read(text, encoding="koi8-r")[0] == {"a": ["1"], "b": ["дом"]}
    with pytest.raises(BadInput, match="not text in ascii"):
        read(text, encoding="ascii")
    with pytest.raises(BadInput, match="null byte at 6"):
        read(b"a,b\n1,\0\0x\n")


# ------------------------------------------------------------------------------- gaps

GAPS = ["", "NA", "N/A", "n/a", "<NA>", "#N/A", "#N/A N/A", "NaN", "nan", "NULL", "null", "?", "."]


def test_usual_words_for_gaps_and_words_that_stay(read):
    words = [*GAPS, "#DIV/0!", "#VALUE!", "none", "None", "no", "-", "unknown"]
    cells, _, _ = read("a,b\n" + "".join(f"{word},1\n" for word in words))
    assert [cell for cell in cells["a"] if cell is not None] == words[-5:]


@pytest.mark.parametrize("suffix", ["csv", "parquet", "xlsx"])
def test_own_words_for_gaps(suffix, tmp_path):
    pytest.importorskip("openpyxl")
    frame = pd.DataFrame({"a": [1.5, -9.0, 3.0], "b": ["x", "none", "-9"]})
    path = tmp_path / f"t.{suffix}"
    write = {"csv": frame.to_csv, "parquet": frame.to_parquet, "xlsx": frame.to_excel}[suffix]
    write(path, index=False)
    table = TableFile(path, Format(missing=("-9", "-9.0", "none"))).read()
    parsed, _ = parse_columns(table)
    assert_array_equal(parsed.columns["a"], [1.5, np.nan, 3.0])
    assert parsed.columns["b"].tolist() == ["x", None, None]


def test_a_model_keeps_its_words_for_gaps(tmp_path):
    table = {"a": [1.0, 2.0, -9.0, 4.0, 5.0, 6.0], "b": ["x", "y", "none", "x", "y", "x"]}
    reading = Reading(missing=("-9", "none"))
    model = TableModel(OrdinalGPClassifier(optimizer=None), reading=reading)
    model.fit(table, [0, 0, 1, 1, 2, 2]).save(tmp_path / "m.ogp")
    loaded = ordinalgp.load(tmp_path / "m.ogp")
    assert loaded.reading == reading
    with_words = loaded.category_proba({"a": [-9], "b": ["none"]})
    assert_array_equal(with_words, loaded.category_proba({"a": [None], "b": [None]}))
    assert loaded.encoder_.columns[0].missing == 1


# ------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["1,5", "2,25"], [1.5, 2.25]),
        (["1.234,5", "2,25"], [1234.5, 2.25]),
        (["1.234", "2,25"], [1234.0, 2.25]),
        (["1,234.5", "2"], [1234.5, 2.0]),
        (["1,234", "2.5"], [1234.0, 2.5]),
        (["1,234,567", "8"], [1234567.0, 8.0]),
        (["1.234.567", "8"], [1234567.0, 8.0]),
        (["0,125", "0,250"], [0.125, 0.25]),
        (["1.125", "1.250"], [1.125, 1.25]),
        (["1 234,5", "12"], [1234.5, 12.0]),
        (["1'234.5", "12"], [1234.5, 12.0]),
        (["1\u202f234", "12"], [1234.0, 12.0]),
        (["+5", "'6"], [5.0, 6.0]),
        (["−5", "1e3"], [-5.0, 1000.0]),
        (["1,5e3", "2,5"], [1500.0, 2.5]),
        (["45%", "5.5 %"], [45.0, 5.5]),
        (["$1,200.50", "-$3"], [1200.5, -3.0]),
        (["3,50 €", "4 €"], [3.5, 4.0]),
    ],
)
def test_numbers_as_people_write_them(texts, values, read):
    """The second column shows nothing of its own; both readers agree."""
    rows = "".join(f"{text};{i}\n" for i, text in enumerate(texts))
    _, table, _ = read(f"a;b\n{rows}")
    for given in (table, as_table({"a": texts, "b": [0, 1]})):
        parsed, bad = parse_columns(given)
        assert bad == []
        assert_allclose(parsed.columns["a"], values, rtol=1e-15)


@pytest.mark.parametrize(
    "texts", [["1,5", "1.5"], ["12,34", "1"], ["1,23,456", "7"], ["1,2,3", "4"]]
)
def test_numbers_are_never_guessed_where_marks_contradict(texts):
    parsed, bad = features({"a": texts * 6, "b": ["1.5"] * 12})
    assert parsed.columns["a"].dtype == object or len(bad) == 6


def test_thousands_and_decimals_that_cannot_be_told_apart(read):
    text = "a;b\n1,234;1\n5,678;2\n"
    with pytest.raises(
        BadInput, match=r"'1,234', which may mean 1234 or 1\.234\. .* ',' for 1.234"
    ):
        parse_columns(read(text)[1])
    assert_allclose(parse_columns(read(text, decimal=".")[1])[0].columns["a"], [1234, 5678])
    assert_allclose(parse_columns(read(text, decimal=",")[1])[0].columns["a"], [1.234, 5.678])
    assert_allclose(parse_columns(read(text, usual_decimal=",")[1])[0].columns["a"], [1.234, 5.678])
    _, table, said = read("a;b\n1,234;1,5\n5,678;2,5\n")  # the other column tells
    assert_allclose(parse_columns(table)[0].columns["a"], [1.234, 5.678])
    assert said[0].endswith(
        "read with a decimal comma ('1,234' in column a is 1.234); '.' overrules this."
    )
    _, table, said = read("a;b\n1,234;1.5\n5,678;2.5\n")
    assert_allclose(parse_columns(table)[0].columns["a"], [1234, 5678])
    assert said[0].endswith("read with commas between thousands ('1,234' in column a is 1234).")


def test_units_must_agree_within_a_column_and_are_kept(tmp_path):
    parsed, _ = features({"p": ["45%", "0.45"] * 5})
    assert parsed.columns["p"].dtype == object  # nobody knows what 0.45 means
    table = {"p": ["10%", "20%", "30%", "40%", "50%", "60%"]}
    model = TableModel(OrdinalGPClassifier(optimizer=None)).fit(table, [0, 0, 1, 1, 2, 2])
    model.save(tmp_path / "m.ogp")
    loaded = ordinalgp.load(tmp_path / "m.ogp")
    assert loaded.encoder_.columns[0].rule.endswith("35 ± 17.08 %")
    expected = loaded.category_proba({"p": [25.0]})
    for text in ("25%", "25 %", "25"):
        assert_array_equal(loaded.category_proba({"p": [text]}), expected)
    with pytest.raises(BadInput, match=r"'\$25' is not a number"):
        loaded.predict({"p": ["$25"]})


# ------------------------------------------------------------------------------- dates

DAYS = [date(2024, 2, 28), date(2024, 3, 1), date(2023, 12, 31)]


@pytest.mark.parametrize(
    "form",
    [
        *("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"),
        *("%d-%b-%Y", "%d %B %Y", "%b %d, %Y", "%B %d %Y %H:%M"),
    ],
)
def test_dates_are_numbers_of_days(form):
    cells = [datetime(d.year, d.month, d.day).strftime(form) for d in DAYS]
    encoder = learn(features({"when": [*cells, None]})[0])
    assert encoder.columns[0].rule == "date as days, 2023-12-31 to 2024-03-01"
    assert encoder.columns[0].filler == "2024-02-28"
    days = np.array([d.toordinal() for d in (*DAYS, date(2024, 2, 28))], dtype=float)
    found, bad = encoder.encode(as_table({"when": [*cells, None]}))
    assert not bad
    assert_allclose(found[:, 0], (days - days.mean()) / days.std(), atol=1e-9)
    assert found[:, 1].tolist() == [0, 0, 0, 1]
    assert encoder.decode(found).columns["when"].tolist() == [*map(str, DAYS), None]


def test_times_of_day_count():
    cells = [
        "2024-01-01 06:00",
        "2024-01-01T18:00:00Z",
        "2024-01-02 06:00:00.5",
        "2024-01-02T18:00+02:00",
    ]
    found = learn(features({"when": cells})[0]).encode(as_table({"when": cells}))[0][:, 0]
    assert_allclose(np.diff(found) / (found[1] - found[0]), [1, 1, 1], atol=1e-4)


def test_dates_of_frames_and_files(tmp_path):
    pytest.importorskip("openpyxl")
    frame = pd.DataFrame({"when": pd.to_datetime([*map(str, DAYS)]), "n": [1, 2, 3]})
    tables = [as_table(frame), as_table({"when": DAYS, "n": [1, 2, 3]})]
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    frame.to_csv(tmp_path / "t.csv", index=False)
    tables += [TableFile(tmp_path / f"t.{kind}").read() for kind in ("parquet", "xlsx", "csv")]
    encoders = [learn(parse_columns(table)[0]) for table in tables]
    assert all(encoder == encoders[0] for encoder in encoders)
    assert encoders[0].columns[0].kind == "date"


def test_dates_are_saved_and_bad_ones_are_named(tmp_path):
    table = {"when": [f"2024-01-{day:02}" for day in range(1, 13)]}
    model = TableModel(OrdinalGPClassifier(optimizer=None)).fit(table, np.arange(12) // 4)
    model.save(tmp_path / "m.ogp")
    loaded = ordinalgp.load(tmp_path / "m.ogp")
    assert loaded.predict({"when": ["2024-01-02", "12.1.2024"]}).tolist() == [0, 2]
    for bad in ("2024-02-30", "soon", 5.0):
        with pytest.raises(BadInput, match="is not a date such as 2024-05-31"):
            loaded.predict({"when": [bad]})
    _, bad = features({"when": [*table["when"], "soon"]})
    assert bad == ["column when: 'soon' is not a date such as 2024-05-31"]
    assert features(table, nominal=["when"])[0].columns["when"].dtype == object


def test_months_are_dates():
    encoder = learn(features({"when": ["2024-03", "2023-12", "2024-01"]})[0])
    assert encoder.columns[0].rule == "date as days, 2023-12-01 to 2024-03-01"
    assert learn(features({"when": ["2024-13", "2024-99", "2024-13"]})[0]).columns[0].kind != "date"


def test_dates_with_an_unknown_month_are_left_out_and_said():
    parsed, _ = features(
        {"n": list(range(40)), "when": [f"{1 + i % 12}/{1 + i}/2024" for i in range(40)]}
    )
    assert "when" not in parsed.columns
    assert "written as 2024-05-31" in parsed.left_out["when"]


# ------------------------------------------------------------------------------- Excel, Parquet


def test_excel_files(tmp_path, monkeypatch):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append([])
    book.active.append(["n", " text ", "flag", "mixed", "empty", 2024])
    book.active.append([1, " a ", True, 3.0, None, "x"])
    book.active.append([2.5, "#N/A", False, "b", None])
    book.active.append([None, None, None, None, None, "y"])
    book.create_sheet("second").append(["other"])
    book["second"].append([7])
    book.save(tmp_path / "t.xlsx")
    table = TableFile(tmp_path / "t.xlsx").read()
    assert_array_equal(table.columns["n"], [1, 2.5, np.nan])
    found = {name: values.tolist() for name, values in table.columns.items() if name != "n"}
    assert found["text"] == ["a", None, None]
    assert found["flag"] == ["True", "False", None]
    assert found["mixed"] == ["3", "b", None]
    assert found["2024"] == ["x", None, "y"]
    assert (table.unit, table.lines.tolist()) == ("row", [3, 4, 5])
    second = TableFile(tmp_path / "t.xlsx", Format(sheet="second")).read()
    assert second.columns["other"].tolist() == [7.0]
    with pytest.raises(BadInput, match=r"no sheet 'third'\. Its sheets are Sheet, second"):
        TableFile(tmp_path / "t.xlsx", Format(sheet="third")).read()
    chunks = [chunk.lines.tolist() for chunk in TableFile(tmp_path / "t.xlsx").chunks(2)]
    assert chunks == [[3, 4], [5]]
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(
        ImportError, match=r"Excel files need openpyxl.*pip install 'ordinalgp\[tables\]'"
    ):
        TableFile(tmp_path / "t.xlsx").read()


def test_damaged_excel_files_are_refused(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["a"])
    buffer = io.BytesIO()
    book.save(buffer)
    content = buffer.getvalue()
    for name, broken in {"cut": content[: len(content) // 2], "zip": b"PK\3\4" + bytes(40)}.items():
        (tmp_path / name).write_bytes(broken)
        with pytest.raises(BadInput, match="zip file, but no Excel file"):
            TableFile(tmp_path / name).read()


def test_wrong_parts_of_excel_files_are_refused(tmp_path):
    """A byte changed in a part of the book, with the right checksum; or the part is not there."""
    openpyxl = pytest.importorskip("openpyxl")
    book, buffer = openpyxl.Workbook(), io.BytesIO()
    for row in (["a", "b"], [1, "x"], [2.5, date(2024, 1, 31)]):
        book.active.append(row)
    book.save(buffer)
    with zipfile.ZipFile(buffer) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    rng, refused = np.random.default_rng(0), []
    for part in sorted(parts) * 8:
        wrong = bytearray(parts[part])
        wrong[rng.integers(len(wrong))] = rng.integers(256)
        with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as archive:
            for name, content in parts.items():
                if name != part or rng.random() < 0.9:
                    archive.writestr(name, bytes(wrong) if name == part else content)
        try:
            assert set(TableFile(tmp_path / "t.xlsx").read().columns)
        except BadInput as told:
            refused.append(str(told))
    assert len(refused) > 10
    assert all(re.search(r"Excel file|zip file|first row|no rows", told) for told in refused)


def test_strange_types_of_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    stamps = np.array(["2024-01-01T00:00:00.000000001", "NaT"], "datetime64[ns]")
    columns = {
        "stamp": pa.array(stamps),
        "zone": pa.array([datetime(2024, 1, 1), None], pa.timestamp("ms", "Europe/Berlin")),
        "price": pa.array([Decimal("1.50"), None]),
        "code": pa.DictionaryArray.from_arrays([1, 0], [10, 20]),
        "list": pa.array([[1.0, 2.0], None]),
        "took": pa.array(np.array([90, "NaT"], "timedelta64[s]")),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    table = TableFile(tmp_path / "t.parquet").read()
    assert table.columns["stamp"].tolist() == ["2024-01-01 00:00:00", None]
    assert table.columns["zone"].tolist() == ["2024-01-01 01:00:00+01:00", None]
    assert_array_equal(table.columns["price"], [1.5, np.nan])
    assert_array_equal(table.columns["code"], [20, 10])
    assert table.columns["list"].tolist() == ["[1.0, 2.0]", None]
    assert_array_equal(table.columns["took"], [90, np.nan])


# ------------------------------------------------------------------------------- no features


def test_columns_that_are_no_features_are_left_out():
    n = 60
    table = {
        "id": [f"{i * 7919 % 9973:08x}-{i:04d}" for i in range(n)],
        "empty": [None] * n,
        "town": ["Aix", "Bonn", "Celle"] * (n // 3),
        "x": [float(i % 7) for i in range(n)],
    }
    parsed, bad = features(table)
    assert (list(parsed.columns), bad) == (["town", "x"], [])
    assert parsed.left_out["empty"] == "Column empty has no values: left out."
    told = parsed.left_out["id"]
    assert told.startswith("Column id has 60 different texts in 60 rows, for example '")
    assert told.endswith("': left out; keep it with nominal=['id'].")
    assert "id" in features(table, nominal=["id"])[0].columns
    model = TableModel(OrdinalGPClassifier(optimizer=None))
    with pytest.warns(UserWarning, match="left out") as warned:
        model.fit(table, [i % 3 for i in range(n)])
    assert len(warned) == 2
    assert len(model.predict({"town": ["Bonn"], "x": [3]})) == 1  # no other column is needed
    with pytest.raises(BadInput, match=r"Column empty has no values: .*\nNo column is left"):
        model.fit({"empty": [None] * 6}, [0, 0, 1, 1, 2, 2])
    with pytest.raises(BadInput, match="an array cannot lack a column at prediction"):
        model.fit([[None, 1.0]] * 6, [0, 0, 1, 1, 2, 2])


# ------------------------------------------------------------------------------- cuts


def test_cuts_at_borders():
    labels, levels = cut_levels([10, 10.1, 20, -5, 31, 30], cut_at=[10, 20, 30])
    assert levels == ["<= 10", "10 to 20", "20 to 30", "> 30"]
    assert labels.tolist() == ["<= 10", "10 to 20", "10 to 20", "<= 10", "> 30", "20 to 30"]
    assert cut_levels([1, 2], cut_at=[1.25])[1] == ["<= 1.25", "> 1.25"]


@pytest.mark.parametrize("n_levels", [2, 3, 5, 10])
def test_cuts_into_equal_shares(n_levels):
    values = np.random.default_rng(0).lognormal(size=300)
    labels, levels = cut_levels(values, cut=n_levels)
    counts = [int((labels == level).sum()) for level in levels]
    assert counts == [300 // n_levels] * n_levels
    order = [levels.index(label) for label in labels[np.argsort(values)]]
    assert order == sorted(order)


def test_cuts_of_values_that_repeat():
    labels, levels = cut_levels([1] * 50 + [2] * 3 + [3] * 3, cut=5)
    assert levels == ["<= 1", "> 1"] or len(levels) == 2
    assert (labels == levels[0]).sum() == 50
    assert len(cut_levels([0, 1e-300, 1], cut=3)[1]) == 3


@pytest.mark.parametrize(
    ("values", "options", "says"),
    [
        ([1, 2], {}, "Give either cut"),
        ([1, 2], {"cut": 2, "cut_at": [1]}, "Give either cut"),
        ([1, 1], {"cut": 2}, "All values are equal"),
        ([1, 2], {"cut": 1}, "At least 2 levels"),
        ([1, 2], {"cut_at": [2, 1]}, "numbers that increase"),
        ([1, 2], {"cut_at": []}, "numbers that increase"),
        ([1, np.nan, np.inf], {"cut": 2}, "2 values are missing or infinite, at 1, 2"),
        ([[1], [2]], {"cut": 2}, "shape"),
    ],
)
def test_cuts_that_cannot_be_made(values, options, says):
    with pytest.raises(BadInput, match=says):
        cut_levels(values, **options)


def test_measured_targets_are_told_how_to_be_cut():
    table = Table({"y": np.arange(60.0)}, np.arange(60))
    with pytest.raises(
        BadInput, match=r"60 different numbers.*ordinalgp.tables.cut_levels\(values, cut=5\)"
    ):
        read_target(table, "y")


def test_large_whole_numbers_are_levels():
    """Larger than the integers of 64 bits."""
    table = as_table({"y": [10**25, 2 * 10**25, 10**25]})
    assert read_target(table, "y")[0].tolist() == [1e25, 2e25, 1e25]
    named = read_target(table, "y", [str(10**25), str(2 * 10**25)])
    assert (named[0].tolist(), named[1]) == ([1e25, 2e25, 1e25], [1e25, 2e25])


def test_suggested_orders_go_by_the_numbers_in_levels():
    ages = ["30 to 65", "<18", "18 to 30", "100+", "65 to 100"]
    with pytest.raises(BadInput, match=r"<18, 18 to 30, 30 to 65, 65 to 100, 100\+\."):
        read_target(as_table({"y": ages}), "y")
    with pytest.raises(BadInput, match=r"\$5, \$10, \$100\."):
        read_target(as_table({"y": ["$10", "$100", "$5"]}), "y")


# ------------------------------------------------------------------------------- words


def test_python_speaks_python():
    cases = [
        lambda: TableModel().fit({"x": [1, 2, 3, 4, "deep", "deep"]}, [0, 0, 1, 1, 2, 2]),
        lambda: TableModel().fit({"x": ["1,234", "5,678"] * 3}, [0, 0, 1, 1, 2, 2]),
    ]
    for case in cases:
        with pytest.raises(BadInput) as told:
            case()
        assert "--" not in str(told.value)
    with pytest.raises(BadInput, match=r"is not a number \(or use nominal=\['x'\]\)"):
        cases[0]()


def test_suggested_options_are_quoted_for_the_shell():
    import csv
    import shlex

    for names in (["age"], ["my column"], ["a,b", "c"], ["it's"], ['say "x"'], ["$HOME", "`ls`"]):
        command, value = shlex.split(option("--drop", names))
        assert (command, next(csv.reader([value]))) == ("--drop", names)
    assert COMMAND_LINE.leave_out("my column") == "Leave it out with --drop 'my column'"
    assert PYTHON.leave_out("my column") == "Drop the column 'my column'"


# ------------------------------------------------------------------------------- many columns


def test_the_time_grows_linearly_with_the_columns(tmp_path):
    """Ten times the columns; a quadratic step would take a hundred times as long."""

    def seconds(n):
        path = tmp_path / f"{n}.csv"
        rows = [",".join(f"c{i}" for i in range(n)), *([",".join(["1.5"] * n)] * 2)]
        path.write_text("\n".join([*rows, ",".join(["2.5"] * n)]))
        best = np.inf
        for _ in range(2):
            began = time.perf_counter()
            parsed, _ = parse_columns(TableFile(path).read())
            encoder = learn(parsed)
            assert encoder.encode(parsed)[0].shape == (3, n)
            assert len(encoder.groups) == n
            best = min(best, time.perf_counter() - began)
        return best

    assert seconds(10_000) < 40 * seconds(1000)
