"""``ordinalgp compare`` as people use it."""

import json
import shlex

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.table_cases import LEVELS, school, write_csv

from ordinalgp.tables import compare

pytest.importorskip("typer")
pd = pytest.importorskip("pandas")
from ordinalgp.cli.main import build  # noqa: E402
from ordinalgp.tables.comparison import ComparisonPlan  # noqa: E402
from ordinalgp.tables.training import BatchSettings  # noqa: E402

ORDER = ["--categories", ",".join(LEVELS)]
QUICK = ["--models", "logistic,frequencies", "--jobs", "1", "--folds", "3"]


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def call(*args, **options):
        with pytest.raises(SystemExit) as stopped:
            build()(["compare", *map(str, args)], **options)
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return call


@pytest.fixture
def path(tmp_path):
    columns, grade = school()
    columns["pupil"] = [f"p{i // 2}" for i in range(48)]
    return write_csv(tmp_path / "a b.csv", columns | {"grade": [LEVELS[g - 1] for g in grade]})


def test_tables_recommendation_and_progress(run, path):
    code, out, err = run(path, "-t", "grade", *ORDER, "--drop", "pupil", *QUICK)
    assert code == 0
    assert "48 rows, 3 folds; poor < fair < good" in out
    assert "Behind the best of each score" in out
    assert "has the lowest log score" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80
    assert "1/6  fold 1 of 3: logistic regression" in err
    assert "6/6  fold 3 of 3: level frequencies" in err


def test_json_equals_python(run, path):
    code, out, _ = run(path, "-t", "grade", *ORDER, "--drop", "pupil", *QUICK, "--json")
    assert code == 0
    told = json.loads(out)
    columns, grade = school()
    labels = [LEVELS[g - 1] for g in grade]
    models = ["logistic", "frequencies"]
    result = compare(columns, labels, categories=LEVELS, models=models, cv=3)
    for row, same in zip(told["models"], result.table(), strict=True):
        assert row["model"] == same["model"]
        assert_allclose(row["log_score"], same["log_score"], rtol=1e-6)
        assert_allclose(row["log_score_se"], same["log_score_se"], rtol=1e-5)
    assert told["recommendation"].split(";")[0] == result.recommendation.split(";")[0]
    assert told["folds"] == told["planned_folds"] == 3


@pytest.mark.parametrize("name", ["results.csv", "results.parquet"])
def test_results_and_picture_are_written(run, path, tmp_path, name):
    options = "-o", name, "--plot", "compare.png"
    code, out, _ = run(path, "-t", "grade", *ORDER, "--drop", "pupil", *QUICK, *options)
    assert code == 0
    found = (pd.read_csv if name.endswith("csv") else pd.read_parquet)(tmp_path / name)
    assert found["model"].tolist() == ["logistic", "frequencies"]
    assert found["log_score"].is_monotonic_increasing
    assert (tmp_path / "compare.png").read_bytes().startswith(b"\x89PNG")
    assert "Written: compare.png" in out


def test_groups_stay_together_and_are_no_feature(run, path, monkeypatch):
    plans = []
    of = ComparisonPlan.of
    monkeypatch.setattr(
        ComparisonPlan, "of", lambda *args, **kw: plans.append(of(*args, **kw)) or plans[-1]
    )
    code, _, err = run(path, "-t", "grade", *ORDER, "--groups", "pupil", *QUICK)
    assert code == 0
    assert "24 groups by pupil, which is not used as a feature." in err
    assert "pupil" not in plans[0].table.columns
    assert all(not np.any(np.isin(test // 2, train // 2)) for train, test in plans[0].folds)


def test_large_tables_are_sampled(run, path):
    code, out, err = run(path, "-t", "grade", *ORDER, "--drop", "pupil", *QUICK, "--rows", "30")
    assert code == 0
    assert "30 of 48 rows, drawn at random. --rows sets their number." in err
    assert "30 rows, 3 folds" in out


def test_files_larger_than_memory_are_sampled(run, path):
    settings = BatchSettings(large_bytes=100, batch_rows=16, sample_rows=40)
    args = path, "-t", "grade", *ORDER, "--drop", "pupil", *QUICK, "--rows", "30"
    code, out, err = run(*args, obj=settings)
    assert code == 0
    assert "sample of 40" in err
    assert "30 rows, 3 folds" in out


def test_an_interrupt_shows_the_folds_that_are_complete(run, path, monkeypatch):
    real, calls = ComparisonPlan.outcome, []

    def stopped(plan, name, fold):
        calls.append(name)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return real(plan, name, fold)

    monkeypatch.setattr(ComparisonPlan, "outcome", stopped)
    code, out, _ = run(path, "-t", "grade", *ORDER, "--drop", "pupil", *QUICK)
    assert code == 130
    assert "Interrupted: 1 of 3 folds are complete." in out
    assert "logistic regression" in out


def test_an_interrupt_before_anything_is_finished(run, path, monkeypatch):
    def stopped(plan, name, fold):
        raise KeyboardInterrupt

    monkeypatch.setattr(ComparisonPlan, "outcome", stopped)
    code, out, _ = run(path, "-t", "grade", *ORDER, "--drop", "pupil", *QUICK)
    assert code == 130
    assert "nothing to compare" in out


def test_the_next_command_is_quoted_and_complete(run, path):
    options = "--models", "gp,frequencies", "--jobs", "1", "--folds", "2", "--drop", "pupil"
    code, out, _ = run(path, "-t", "grade", *ORDER, "--nominal", "home town", *options)
    assert code == 0
    line = next(line for line in out.splitlines() if line.startswith("Fit it"))
    words = shlex.split(line.partition(": ")[2])
    assert words[:5] == ["ordinalgp", "fit", str(path), "--target", "grade"]
    assert words[words.index("--model") + 1] == "gp"
    assert words[words.index("--categories") + 1] == "poor,fair,good"
    assert words[words.index("--nominal") + 1] == "home town"
    assert words[words.index("--drop") + 1] == "pupil"


def test_the_next_command_keeps_groups_and_all_digits_of_borders(run, tmp_path):
    columns, _ = school()
    columns["pupil"] = [f"p{i // 2}" for i in range(48)]
    metres = [1e6 * hours + 0.125 for hours in columns.pop("sleep")]
    path = write_csv(tmp_path / "far.csv", columns | {"metres": metres})
    border = f"{np.median(metres):.3f}"
    options = "--models", "gp", "--jobs", "1", "--folds", "2", "--groups", "pupil"
    code, out, err = run(path, "-t", "metres", "--cut-at", border, *options)
    assert code == 0, err
    line = next(line for line in out.splitlines() if line.startswith("Fit it"))
    words = shlex.split(line.partition(": ")[2])
    assert float(words[words.index("--cut-at") + 1]) == float(border)
    assert words[words.index("--groups") + 1] == "pupil"
    assert "--drop" not in words


def test_a_spreadsheet_is_not_written_as_text(run, path, tmp_path):
    code, _, err = run(path, "-t", "grade", *ORDER, *QUICK, "-o", tmp_path / "scores.xlsx")
    assert code == 2
    assert "would be a spreadsheet" in err


def test_no_next_command_where_no_model_beats_the_frequencies(run, tmp_path):
    grades = np.repeat(LEVELS, 12)  # every value has every level equally often
    path = write_csv(tmp_path / "n.csv", {"x": [*range(12)] * len(LEVELS), "grade": list(grades)})
    options = "--models", "gp,frequencies", "--jobs", "1", "--folds", "2"
    code, out, _ = run(path, "-t", "grade", *ORDER, *options)
    assert (code, "No model predicts better" in " ".join(out.split())) == (0, True)
    assert "Fit it" not in out


def test_bad_rows_are_named_or_skipped(run, path):
    path.write_text(path.read_text() + '"x","y","no","Celle","p30","fair"\n')
    args = path, "-t", "grade", *ORDER, "--drop", "pupil", *QUICK
    code, _, err = run(*args)
    assert code == 2
    assert "column hours: 'x' is not a number" in err
    code, out, err = run(*args, "--on-bad-rows", "skip")
    assert code == 0
    assert "Skipped 1 bad row of" in err
    assert "48 rows" in out


@pytest.mark.parametrize(
    "options, message",
    [
        (["--models", "gpp"], "--models must be one of auto, gp"),
        (["--groups", "person"], "--groups names 'person'"),
        (["--plot", "picture.txt"], "must end in one of"),
        (["-o", "missing/out.csv"], "no folder"),
        (["-t", "mark"], "no target column 'mark'"),
        (["--folds", "40", "--groups", "pupil"], "40 groups, but there are 24"),
    ],
)
def test_errors_are_plain(run, path, options, message):
    code, out, err = run(path, "-t", "grade", *ORDER, *QUICK, *options)
    assert code == 2
    assert out == ""
    assert message in err
    assert "Traceback" not in err


def test_the_input_is_spared(run, path):
    before = path.read_bytes()
    code, _, err = run(path, "-t", "grade", *ORDER, *QUICK, "-o", path)
    assert code == 2
    assert "is the input" in err
    assert path.read_bytes() == before


def test_a_measured_target_is_cut(run, tmp_path):
    columns, _ = school()
    sleep = columns.pop("sleep")
    path = write_csv(tmp_path / "sleep.csv", columns | {"sleep": sleep})
    code, out, _ = run(path, "-t", "sleep", "--cut", "3", *QUICK)
    assert code == 0
    assert "48 rows, 3 folds" in out
    code, out, _ = run(path, "-t", "sleep", "--cut-at", "6.5,7.5", *QUICK, "--json")
    assert code == 0
    assert len(json.loads(out)["levels"]) == 3


def test_words_for_missing_values(run, path):
    path.write_text(path.read_text() + '"none","7.0","no","Celle","p30","fair"\n')
    args = path, "-t", "grade", *ORDER, "--drop", "pupil", *QUICK
    assert run(*args)[0] == 2
    code, out, _ = run(*args, "--missing", "none")
    assert code == 0
    assert "49 rows" in out
