"""Messy tables on the command line: fit, evaluate and predict without options where possible."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import ordinalgp

pytest.importorskip("typer")
pd = pytest.importorskip("pandas")
from ordinalgp.cli.main import build  # noqa: E402
from ordinalgp.tables.encoding import learn  # noqa: E402
from ordinalgp.tables.files import Format, TableFile  # noqa: E402
from ordinalgp.tables.training import BatchSettings, Source, encode_file  # noqa: E402

LEVELS = "low,mid,high"
FIT = ("-t", "grade", "--categories", LEVELS, "--kernel", "rbf", "--json")


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Call the command in a folder of its own; gives exit code, output and errors."""
    monkeypatch.chdir(tmp_path)

    def call(*args):
        with pytest.raises(SystemExit) as stopped:
            build()([str(arg) for arg in args])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return stopped.value.code or 0, out, err

    return call


def table(n=30):
    """Rows of two numbers with halves, a town, and a grade."""
    rng = np.random.default_rng(5)
    x, z = np.round(rng.normal(10, 3, (2, n)) * 8) / 8
    grade = np.array(LEVELS.split(","))[np.digitize(x + rng.normal(size=n), [8.5, 11.5])]
    town = np.array(["Aix", "Bonn"])[rng.integers(2, size=n)]
    return pd.DataFrame({"x": x, "z": z, "town": town, "grade": grade})


def comma(frame):
    return frame.map(lambda cell: str(cell).replace(".", ",") if isinstance(cell, float) else cell)


def probabilities(run, *args):
    code, out, err = run("predict", "model.ogp", *args, "--json")
    assert code == 0, err
    return [
        [row[f"p_{level}"] for level in LEVELS.split(",")]
        for row in map(json.loads, out.splitlines())
    ]


@pytest.fixture
def expected(run, tmp_path):
    """Probabilities by a model of the tidy table."""
    table().to_csv("tidy.csv", index=False)
    assert run("fit", "tidy.csv", *FIT)[0] == 0
    return probabilities(run, "tidy.csv")


WAYS = {
    "decimal commas": lambda: comma(table()).to_csv("t.csv", index=False, sep=";"),
    "decimal commas and tabs": lambda: comma(table()).to_csv("t.csv", index=False, sep="\t"),
    "decimal commas in quotes": lambda: comma(table()).to_csv("t.csv", index=False),
    "UTF-16": lambda: table().to_csv("t.csv", index=False, encoding="utf-16"),
    "another order": lambda: table()[["grade", "town", "z", "x"]].to_csv("t.csv", index=False),
    "an id": lambda: table().assign(id=range(1, 31)).to_csv("t.csv", index=False),
    "row labels of pandas": lambda: table().to_csv("t.csv"),
    "hashes": lambda: (
        table().assign(h=[f"{i * 7919 + 2**40:x}" for i in range(30)]).to_csv("t.csv", index=False)
    ),
    "an empty column": lambda: table().assign(void=None).to_csv("t.csv", index=False),
    "Excel": lambda: table().to_excel("t.csv", index=False, engine="openpyxl"),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_the_model_of_the_tidy_table(way, run, expected):
    """In the file that is fitted, and in the one that is predicted."""
    pytest.importorskip("openpyxl")
    if way == "Excel":
        table().to_excel("t.xlsx", index=False)
        name = "t.xlsx"
    else:
        WAYS[way]()
        name = "t.csv"
    assert_allclose(probabilities(run, name), expected, rtol=0, atol=1e-12)  # the tidy model
    code, _, err = run("fit", name, *FIT)
    assert code == 0, err
    for given in (name, "tidy.csv"):
        assert_allclose(probabilities(run, given), expected, rtol=0, atol=1e-6)
        assert run("evaluate", "model.ogp", given)[0] == 0


def test_decimal_commas_are_said_and_remembered(run):
    frame = comma(table())
    frame.to_csv("t.csv", index=False, sep=";")
    _, _, err = run("fit", "t.csv", *FIT)
    assert "t.csv: read with a decimal comma ('" in err
    assert ordinalgp.load("model.ogp").reading.decimal == ","
    frame.assign(x="9,125", z="7,125").to_csv("new.csv", index=False, sep=";")
    frame.assign(x=9.125, z=7.125).to_csv("same.csv", index=False, sep=",", quoting=2)
    found = probabilities(run, "new.csv")  # 9,125 alone may be a thousand
    assert_allclose(found, probabilities(run, "same.csv", "--decimal", "."), rtol=1e-12)


def test_thousands_that_may_be_decimals_are_asked_for(run):
    frame = table().assign(x=[f"1,{200 + 7 * i}" for i in range(30)], z=1)
    frame.to_csv("t.csv", index=False)
    code, _, err = run("fit", "t.csv", *FIT)
    assert code == 2
    assert "numbers such as '1,200', which may mean 1200 or 1.2." in err
    assert "--decimal . for 1200, --decimal , for 1.2." in err
    _, out, _ = run("fit", "t.csv", *FIT, "--decimal", ".")
    assert json.loads(out)["columns"][0]["rule"].startswith("number, 1302 ±")  # 1200 + 7 * 14.5


def test_words_for_gaps_are_remembered(run):
    frame = table()
    frame.assign(x=frame["x"].where(frame.index % 4 > 0, "-")).to_csv("t.csv", index=False)
    code, _, err = run("fit", "t.csv", *FIT)
    assert code == 2
    assert "If '-' means a missing value: --missing -." in err
    code, out, err = run("fit", "t.csv", *FIT, "--missing", "-,-9")
    assert (code, json.loads(out)["columns"][0]["missing"]) == (0, 8), err
    model = ordinalgp.load("model.ogp")
    gaps = frame.assign(x=frame["x"].where(frame.index % 4 > 0, None))
    assert_allclose(probabilities(run, "t.csv"), model.category_proba(gaps.iloc[:, :3]), rtol=1e-9)
    assert run("evaluate", "model.ogp", "t.csv")[0] == 0
    other = frame.assign(x="?x?")
    other.to_csv("new.csv", index=False)
    assert run("predict", "model.ogp", "new.csv")[0] == 2
    assert run("predict", "model.ogp", "new.csv", "--missing", "?x?")[0] == 0


def test_dates_and_units_are_told_in_the_summary(run):
    frame = table()
    frame["when"] = pd.date_range("2024-01-01", periods=30).strftime("%Y-%m-%d")
    frame["share"] = [f"{i % 7}%" for i in range(30)]
    frame.to_csv("t.csv", index=False)
    code, out, _ = run("fit", "t.csv", *FIT[:-1])
    assert code == 0
    assert "date as days, 2024-01-01 to 2024-01-30" in out
    share = np.arange(30) % 7
    assert f"number, {share.mean():.4g} ± {share.std():.4g} %" in out
    for kind in ("csv", "parquet", "xlsx"):
        if kind == "xlsx":
            pytest.importorskip("openpyxl")
        days = frame.assign(when=pd.to_datetime(frame["when"]))
        {"csv": days.to_csv, "parquet": days.to_parquet, "xlsx": days.to_excel}[kind](
            f"new.{kind}", index=False
        )
    expected = probabilities(run, "new.csv")
    assert_allclose(probabilities(run, "new.parquet"), expected, rtol=1e-9)
    assert_allclose(probabilities(run, "new.xlsx"), expected, rtol=1e-9)
    assert run("report", "model.ogp")[0] == 0


def test_large_tables_are_encoded_alike(tmp_path):
    """Dates, units, cuts and columns that are left out, whether read at once or in batches."""
    frame = table(60).drop(columns=["town", "grade"])
    frame["when"] = pd.date_range("2024-01-01", periods=60).strftime("%Y-%m-%d")
    frame["cost"] = [f"{i % 7} €" for i in range(60)]
    frame["name"] = [f"person {i}" for i in range(60)]
    frame["void"] = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    source = Source(TableFile(tmp_path / "t.csv", Format(missing=("none",))), "z", cut=3)
    settled, (X, y, order) = source.read()
    whole, said = learn(X), []
    settings = BatchSettings(batch_rows=25)
    encoded = encode_file(source, tmp_path, said.append, settings)
    assert list(X.columns) == ["x", "when", "cost"]
    assert set(encoded.left_out) == {"name", "void"}
    assert set(said) >= set(X.left_out.values())
    assert encoded.reading == settled.reading(X)
    assert encoded.reading.missing == ("none",)
    assert (encoded.categories, len(order)) == (order, 3)
    assert [c.rule for c in encoded.encoder.columns] == [c.rule for c in whole.columns]
    features, labels = encoded.read(0, 60)
    assert_allclose(features, whole.encode(X)[0], atol=1e-12)
    assert labels.tolist() == y.tolist()


def test_measured_targets_are_cut_into_levels(run):
    frame = table(40).assign(y=lambda t: 3 * t["x"]).drop(columns="grade")
    frame.to_csv("t.csv", index=False)
    code, _, err = run("fit", "t.csv", "-t", "y", "--kernel", "rbf")
    if frame["y"].nunique() > 50:
        assert (code, "--cut 5" in err) == (2, True)
    code, out, err = run("fit", "t.csv", "-t", "y", "--kernel", "rbf", "--json", "--cut", "4")
    assert code == 0, err
    told = json.loads(out)["levels"]
    assert all(8 <= level["rows"] <= 12 for level in told)
    names = [level["level"] for level in told]
    assert names[0].startswith("<= ")
    assert names[-1].startswith("> ")
    borders = ordinalgp.load("model.ogp").reading.borders
    counts = np.bincount(np.digitize(frame["y"], borders, right=True))
    assert [level["rows"] for level in told] == counts.tolist()
    code, out, err = run("evaluate", "model.ogp", "t.csv", "--json")
    assert code == 0, err
    assert np.sum(json.loads(out)["confusion"], axis=1).tolist() == counts.tolist()
    code, out, _ = run(
        "fit", "t.csv", "-t", "y", "--kernel", "rbf", "--json", "--cut-at", "25,32.5"
    )
    assert [level["level"] for level in json.loads(out)["levels"]] == [
        "<= 25",
        "25 to 32.5",
        "> 32.5",
    ]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--cut", "1"), "--cut must be at least 2"),
        (("--cut", "3", "--cut-at", "1"), "either --cut or --cut-at"),
        (("--cut-at", "3,x"), "--cut-at must be numbers such as 10,20,30, but is 3,x"),
        (("--cut-at", "3,1"), "must be numbers that increase"),
        (("--cut", "3", "--categories", "a,b"), "either --categories, or --cut or --cut-at"),
        (("--decimal", ";"), "--decimal must be one of ., ,"),
        (("--encoding", "rot13"), "There is no encoding 'rot13' of texts"),
        (("--encoding", "\0"), "There is no encoding"),
        (("--encoding", "utf-16"), "t.csv is not text in the encoding that was named"),
        (("--sheet", "a"), "t.csv is no Excel file, so it has no sheet 'a'"),
        (("--categories", "1,2,1"), "The level 1 is named more than once"),
        (("--nominal", "x", "--numeric", "z,x"), "Column x is in --nominal and in --numeric"),
    ],
)
def test_wrong_options_for_reading(options, says, run):
    table().to_csv("t.csv", index=False)
    code, out, err = run("fit", "t.csv", "-t", "x", *options)
    assert (code, out) == (2, "")
    assert says in err


def test_measurements_are_told_how_to_be_cut(run):
    table(60).assign(y=np.arange(60) / 7).to_csv("t.csv", index=False)
    code, _, err = run("fit", "t.csv", "-t", "y")
    assert code == 2
    assert "Cut it into levels: --cut 5 (levels of equally many rows) or --cut-at 10,20,30." in err


def test_numbers_of_rows_are_left_out_but_years_stay(run):
    frame = table().assign(
        id=np.arange(1, 31), year=np.arange(1990, 2020), patient_id=np.arange(30)[::-1] * 3
    )
    frame.to_csv("t.csv", index=False)
    code, out, err = run("fit", "t.csv", *FIT)
    assert code == 0
    assert "Column id numbers the rows: left out; keep it with --numeric id." in err
    told = json.loads(out)
    assert set(told["columns_left_out"]) == {"id", "patient_id"}
    assert [column["name"] for column in told["columns"]] == ["x", "z", "town", "year"]
    _, out, _ = run("fit", "t.csv", *FIT, "--numeric", "id,patient_id")
    assert json.loads(out)["columns_left_out"] == {}


def test_all_problems_come_in_one_message(run):
    frame = table().rename(columns={"town": "my town"})
    frame["z"] = frame["z"].astype(object).where(frame.index != 3, "deep")
    lines = frame.to_csv(index=False).splitlines()
    lines[0] += ",x"
    lines[1:] = [line + ",1" for line in lines[1:]]
    lines[8] += ",9"
    with open("t.csv", "w") as file:
        file.write("\n".join(lines))
    code, out, err = run(
        "fit", "t.csv", "-t", "mark", "--drop", "a b", "--nominal", "c", "--numeric", "d"
    )
    assert (code, out) == (2, "")
    for part in (
        "t.csv has 6 problems:",
        "names the column 'x' more than once: it is column 1 and 5",
        "There is no target column 'mark'. The columns are",
        "--drop names 'a b'",
        "--nominal names 'c'",
        "--numeric names 'd'",
        "line 5, column z: 'deep' is not a number (or use --nominal z)",
        "line 9, column x (5): the row goes on after it, with 6 cells",
    ):
        assert part in err


def test_levels_without_rows_are_named_and_scored_fairly(run):
    """The frequencies count half a row of each level, so that none is impossible to them."""
    frame = table()
    frame[frame["grade"] != "high"].to_csv("t.csv", index=False)
    frame.to_csv("all.csv", index=False)
    sparse = (*FIT[:4], "--model", "sparse", "--kernel", "rbf", "--json", "--folds", 0)
    code, _, err = run("fit", "t.csv", *sparse)
    assert code == 0
    assert "No row has the level high, so this model all but rules it out" in err
    told = json.loads(run("evaluate", "model.ogp", "all.csv", "--json")[1])
    counts = {level: int(np.sum(frame["grade"] == level)) for level in LEVELS.split(",")}
    known = counts | {"high": 0}
    share = {level: (n + 0.5) / (sum(known.values()) + 1.5) for level, n in known.items()}
    expected = -np.mean([np.log(share[level]) for level in frame["grade"]])
    assert_allclose(told["scores"]["baseline"]["log_score"], expected)
    for model in ("gp", "sequential"):
        code, _, err = run("fit", "t.csv", *FIT[:4], "--model", model, "--folds", 0, "--json")
        assert code == 0
        assert "No row has the level high: its probability is about that of one row in" in err
        assert "If it cannot occur, leave it out of --categories." in err
        told = json.loads(run("evaluate", "model.ogp", "all.csv", "--json")[1])
        assert told["scores"]["model"]["log_score"] < 3


def test_a_consequence_is_no_second_problem(run):
    frame = table()
    lines = frame.to_csv(index=False).splitlines()
    longer = [lines[0], *(f"{line},more" for line in lines[1:])]
    Path("long.csv").write_text("\n".join(longer))
    code, _, err = run("fit", "long.csv", *FIT)
    assert (code, "problems" in err) == (2, False)
    assert "30 rows that cannot be used" in err
    frame.to_csv("tilde.csv", index=False, sep="~")
    code, _, err = run("fit", "tilde.csv", *FIT)
    assert (code, "problems" in err) == (2, False)
    assert "The only column is x~z~town~grade" in err
    assert "--separator" in err
    assert run("fit", "tilde.csv", *FIT, "--separator", "~")[0] == 0


def test_a_table_cannot_command_the_terminal(run):
    """Control characters of names and cells are written out wherever people read them."""
    frame = table().rename(columns={"x": "x\x1b]0;title\x07", "grade": "grade\x9b2J"})
    frame["town"] = frame["town"] + "\x1b[31m"
    frame.to_csv("t.csv", index=False)
    for options in ((), ("--categories", LEVELS), ("--categories", LEVELS, "--json")):
        code, out, err = run("fit", "t.csv", "-t", "grade\x9b2J", "--kernel", "rbf", *options)
        assert code == (0 if options else 2)
        assert "\x1b" not in out + err
        assert "\x9b" not in err
    for command in (("evaluate",), ("explain", "--row", "1")):
        code, out, err = run(command[0], "model.ogp", "t.csv", *command[1:])
        assert (code, "\x1b" in out + err) == (0, False)
    assert "x\\x1b]0;title" in out


def test_letters_without_a_font_are_told_once(run):
    pytest.importorskip("matplotlib")
    frame = table().rename(columns={"x": "\U00012000"})  # a cuneiform sign
    frame["grade"] = frame["grade"] + "\U00012001"
    frame.to_csv("t.csv", index=False)
    levels = ",".join(f"{level}\U00012001" for level in LEVELS.split(","))
    options = ("-t", "grade", "--categories", levels, "--kernel", "rbf")
    assert run("fit", "t.csv", *options)[0] == 0
    code, _, err = run("report", "model.ogp")
    assert (code, err.count("Warning")) == (0, 1)
    assert "boxes in place of some characters" in err
    assert "\U00012001" in err


def test_accents_of_options_are_those_of_the_table(run):
    """A shell may write one character where the file has a letter and an accent."""
    frame = table().rename(columns={"grade": "de\u0301gre\u0301"})
    frame["de\u0301gre\u0301"] = frame["de\u0301gre\u0301"].replace("low", "cafe\u0301")
    frame.to_csv("t.csv", index=False)
    options = ("-t", "d\u00e9gr\u00e9", "--categories", "caf\u00e9,mid,high", "--kernel", "rbf")
    code, out, err = run("fit", "t.csv", *options, "--json")
    assert code == 0, err
    assert json.loads(out)["levels"][0]["rows"] == sum(table()["grade"] == "low")
    assert run("evaluate", "model.ogp", "t.csv", "--target", "de\u0301gre\u0301")[0] == 0


def test_what_is_suggested_can_be_pasted(run):
    """Names with blanks, commas and quotes."""
    name = "it's a, b"
    frame = table().rename(columns={"town": name})
    frame[name] = [f"person {i}" for i in range(30)]
    frame.to_csv("t.csv", index=False)
    code, _, err = run("fit", "t.csv", *FIT)
    assert code == 0
    line = next(line for line in err.splitlines() if "keep it with" in line)
    option = shlex.split(line.split("keep it with ")[1].removesuffix("."))
    code, out, err = run("fit", "t.csv", *FIT, *option)
    assert (code, "left out" in err) == (0, False)
    assert json.loads(out)["columns"][2]["name"] == name


def test_a_heavy_tail_costs_the_mixture_little(run):
    """A log-normal column predicts new rows about as well as its logarithm."""
    rng = np.random.default_rng(1)
    log = rng.normal(size=300)
    grade = np.digitize(log + 0.3 * rng.normal(size=300), [-0.5, 0.5])
    found = []
    for income in (np.exp(3 * log), log):
        frame = pd.DataFrame({"income": income, "grade": grade})
        frame[:60].to_csv("t.csv", index=False)
        frame[60:].to_csv("new.csv", index=False)
        run("fit", "t.csv", "-t", "grade")
        _, out, _ = run("evaluate", "model.ogp", "new.csv", "--json")
        found.append(json.loads(out)["scores"]["model"]["log_score"])
    assert found[0] < found[1] + 0.08


def test_useless_tables_say_why(run):
    pd.DataFrame({"name": [f"p {i}" for i in range(20)], "void": None, "y": [1, 2] * 10}).to_csv(
        "t.csv", index=False
    )
    code, _, err = run("fit", "t.csv", "-t", "y")
    assert code == 2
    assert "No column beside the target y can be used." in err
    assert "Column name has 20 different texts in 20 rows" in err
    code, _, err = run("fit", "t.csv", "-t", "name", "--cut", "3")
    assert (code, "problems" in err) == (2, False)
    assert "The target column name has no numbers to cut into levels." in err


def test_sheets_are_chosen(run):
    pytest.importorskip("openpyxl")
    with pd.ExcelWriter("t.xlsx") as book:
        pd.DataFrame({"note": ["see the next sheet"]}).to_excel(
            book, sheet_name="Read me", index=False
        )
        table().to_excel(book, sheet_name="Data", index=False)
    code, _, err = run("fit", "t.xlsx", *FIT)
    assert (code, "There is no target column 'grade'" in err) == (2, True)
    assert run("fit", "t.xlsx", *FIT, "--sheet", "Data")[0] == 0
    assert len(probabilities(run, "t.xlsx", "--sheet", "Data")) == 30
