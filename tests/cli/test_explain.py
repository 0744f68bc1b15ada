"""``ordinalgp explain`` as people use it."""

import json

import pytest
from numpy.testing import assert_allclose
from tests.table_cases import LEVELS, school, write_csv

import ordinalgp
from ordinalgp import OrdinalGPClassifier
from ordinalgp.tables import TableModel, explain

pytest.importorskip("typer")
pd = pytest.importorskip("pandas")
from ordinalgp.cli.explain import bar, percent, signed  # noqa: E402
from ordinalgp.cli.main import build  # noqa: E402


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    columns, grade = school()
    classifier = OrdinalGPClassifier(categories=LEVELS)
    model = TableModel(classifier, kernel="rbf", target="grade")
    path = tmp_path_factory.mktemp("explain") / "model.ogp"
    model.fit(columns, [LEVELS[g - 1] for g in grade]).save(path)
    return path


@pytest.fixture
def rows(tmp_path):
    return write_csv(tmp_path / "rows.csv", school()[0])


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def call(*args):
        with pytest.raises(SystemExit) as stopped:
            build()(["explain", *map(str, args)])
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return call


def test_json_equals_python(run, model_file, rows):
    code, out, _ = run(model_file, rows, "--rows", "2", "--json")
    assert code == 0
    told = json.loads(out)
    columns, _ = school()
    found = explain(ordinalgp.load(model_file), {k: v[:2] for k, v in columns.items()})
    assert_allclose(told["average_expected_level"], found.average)
    for row, same in zip(told["rows"], found.rows, strict=True):
        assert row["level"] == same.level
        assert_allclose(row["expected_level"], same.expected)
        assert [each["column"] for each in row["columns"]] == [e.column for e in same.columns]
        sizes = [each["contribution"] for each in row["columns"]]
        assert_allclose(sizes, [each.contribution for each in same.columns], atol=1e-9)
        total = told["average_expected_level"] + sum(sizes)
        assert_allclose(total, row["expected_level"])


def test_a_readable_table_per_row(run, model_file, rows):
    code, out, err = run(model_file, rows)
    assert code == 0
    assert [line.split(":")[0] for line in out.splitlines() if line.startswith("Line")] == [
        "Line 2",
        "Line 3",
        "Line 4",
    ]
    assert "3 of 48 rows were explained" in err
    assert "home town" in out
    assert "units of the noise" in " ".join(out.split())
    assert "90% interval" in out
    assert max(map(len, out.splitlines())) <= 80


def test_rows_are_chosen_by_number(run, model_file, rows):
    code, out, _ = run(model_file, rows, "--row", "4", "--row", "7")
    assert code == 0
    assert "Line 5:" in out
    assert "Line 8:" in out
    assert "missing" in out  # hours of row 4
    assert out.count("Line ") == 2


def test_few_columns_are_printed_and_the_rest_is_added_up(run, model_file, rows):
    code, out, _ = run(model_file, rows, "--row", "1", "--columns", "2")
    assert code == 0
    assert "2 more" in out
    lines = [line for line in out.splitlines() if line.startswith("sum")]
    assert len(lines) == 1


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_results_and_pictures_are_written(run, model_file, rows, tmp_path, name):
    code, out, _ = run(model_file, rows, "--rows", "2", "-o", name, "--plot", "row.png")
    assert code == 0
    found = (pd.read_csv if name.endswith("csv") else pd.read_parquet)(tmp_path / name)
    assert len(found) == 2 * 4
    assert found["line"].tolist() == [2] * 4 + [3] * 4
    assert {"contribution", "contribution_se", "higher_value", "lower_level"} <= set(found)
    for picture in ("row-2.png", "row-3.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
        assert f"Written: {picture}" in out
    code, out, _ = run(model_file, rows, "--row", "1", "--plot", "row.svg")
    assert code == 0
    assert "<svg" in (tmp_path / "row.svg").read_text()


@pytest.mark.parametrize(
    "options, message",
    [
        (["--row", "49"], "--row 49 was given, but"),
        (["--row", "0"], "has the rows 1 to 48"),
        (["--plot", "row.doc"], "must end in one of"),
        (["--coverage", "2"], "--coverage must be between 0 and 1"),
        (["-o", "missing/out.csv"], "no folder"),
    ],
)
def test_errors_are_plain(run, model_file, rows, options, message):
    code, out, err = run(model_file, rows, *options)
    assert code == 2
    assert out == ""
    assert message in err
    assert "Traceback" not in err


def test_bad_rows_are_named_or_skipped(run, model_file, tmp_path):
    columns = {name: cells[:2] for name, cells in school()[0].items()}
    columns["sleep"] = ["long", columns["sleep"][1]]
    path = write_csv(tmp_path / "bad.csv", columns)
    code, _, err = run(model_file, path)
    assert code == 2
    assert "column sleep: 'long' is not a number" in err
    code, out, err = run(model_file, path, "--on-bad-rows", "skip")
    assert code == 0
    assert "Line 3" in out
    assert "Line 2" not in out


def test_inputs_are_spared(run, model_file, rows):
    before = model_file.read_bytes()
    for path in (model_file, rows):
        code, _, err = run(model_file, rows, "-o", path)
        assert code == 2
        assert "is the input" in err
    assert model_file.read_bytes() == before


def test_bars_point_to_their_side():
    assert bar(1.0) == "      │██████"
    assert bar(-0.5) == "   ▒▒▒│"
    assert bar(0.0) == "      │"
    assert [signed(x) for x in (0.004, -0.004, 0.126, -2.0)] == ["0.00", "0.00", "+0.13", "-2.00"]


def test_new_nominal_values_are_used_or_refused(run, model_file, tmp_path):
    columns = {name: cells[:1] for name, cells in school()[0].items()} | {"home town": ["Dorf"]}
    path = write_csv(tmp_path / "new.csv", columns)
    code, out, err = run(model_file, path)
    assert code == 0
    assert "Dorf" in out
    assert "training did not have" in err
    code, _, err = run(model_file, path, "--on-new-values", "stop")
    assert code == 2
    assert "'Dorf' did not occur in training" in err


def test_percentages_have_a_sign_unless_they_are_zero():
    shares = [0.152, -0.006, 0.0004, -0.0004]
    assert [percent(share) for share in shares] == ["+15.2%", "-0.6%", "0.0%", "0.0%"]
