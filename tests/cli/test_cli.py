"""The command line, as people use it: from raw files to predictions, and every way to go wrong."""

import csv
import io
import json
import os
import re
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF
from tests.table_cases import LEVELS, encoded, school, write_csv

import ordinalgp
from ordinalgp import OrdinalGPClassifier, metrics
from ordinalgp.core import search
from ordinalgp.kernels import ARDLinear, Exponential, PerColumn

pytest.importorskip("typer")
pd = pytest.importorskip("pandas")
from ordinalgp.cli.main import build, main  # noqa: E402

OWNER = np.repeat([0, 1, 2, 3], [2, 1, 4, 4])
"""column of each feature of the school: hours, sleep, tutor (with gaps) and home town"""


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Call the command in a folder of its own; gives exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*args):
        if args[0] == "fit" and "--folds" not in args:
            args = (*args, "--folds", "0")  # most tests need no scores; one has the default
        with pytest.raises(SystemExit) as stopped:
            build()([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return stopped.value.code or 0, out, err

    return call


@pytest.fixture
def fails(run):
    """Call the command with bad input; gives the message."""

    def call(*args):
        code, out, err = run(*args)
        assert code == 2
        assert out == ""
        assert err.startswith("Error: ")
        assert "Traceback" not in err
        return err

    return call


def labels(kind, grade):
    if kind == "texts":
        return [LEVELS[g - 1] for g in grade]
    return [float(g) / 2 + 0.5 for g in grade] if kind == "halves" else [int(g) for g in grade]


def write(path, columns, target):
    """Write a table in the format of the suffix; texts as levels of an ordered dictionary."""
    if path.suffix != ".parquet":
        separator = {".ssv": ";", ".tsv": "\t"}.get(path.suffix, ",")
        return write_csv(path, columns | {"grade": target}, separator)
    frame = pd.DataFrame(columns)
    is_text = isinstance(target[0], str)
    frame["grade"] = pd.Categorical(target, LEVELS, ordered=True) if is_text else target
    frame.to_parquet(path)
    return path


def read_output(path):
    """Columns of a file of predictions."""
    frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    return frame


@pytest.fixture
def files(tmp_path):
    """A model fitted on the command line, with its table."""

    def make(name="train.csv", kind="texts"):
        columns, grade = school()
        return write(tmp_path / name, columns, labels(kind, grade))

    return make


# ------------------------------------------------------------------------------- round trip


@pytest.mark.parametrize("kind", ["texts", "whole numbers", "halves"])
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".ssv", ".tsv", ".parquet"])
def test_fit_then_predict_equals_the_python_api(suffix, kind, run, tmp_path):
    """Nominal columns and gaps are in the table; its encoding is done again by scikit-learn."""
    columns, grade = school()
    y = labels(kind, grade)
    path = write(tmp_path / f"train{suffix}", columns, y)
    declared = kind == "texts" and suffix != ".parquet"
    order = ["--categories", ",".join(LEVELS)] if declared else []
    assert run("fit", path, "--target", "grade", "--kernel", "rbf", "-o", "m.ogp", *order)[0] == 0
    out = tmp_path / ("out.parquet" if suffix == ".parquet" else "out.csv")
    assert run("predict", "m.ogp", path, "-o", out)[0] == 0

    X = encoded(columns)
    categories = LEVELS if kind == "texts" else None
    model = OrdinalGPClassifier(categories=categories).fit(X, y)
    mean, var = model.latent_mean_and_variance(X)
    found = read_output(out)
    shown = found[[f"p_{level}" for level in model.categories_.tolist()]].to_numpy()
    assert_allclose(shown, model.category_proba(X), rtol=0, atol=1e-12)
    assert_allclose(found["latent_mean"], mean, rtol=0, atol=1e-12)
    assert_allclose(found["latent_sd"], np.sqrt(var), rtol=0, atol=1e-12)
    assert found["level"].tolist() == model.predict(X).tolist()


def test_new_rows_are_encoded_as_in_training(run, tmp_path, files):
    columns, grade = school()
    new, _ = school(20, seed=1)
    new["sleep"][4] = None  # had no gaps in training: filled, but there is no mark for it
    run("fit", files(), "-t", "grade", "--categories", ",".join(LEVELS), "--kernel", "rbf")
    shuffled = {name: new[name] for name in reversed(new)}
    write_csv(tmp_path / "new.csv", shuffled | {"remark": ["x"] * 20})
    code, _, err = run("predict", "model.ogp", "new.csv", "-o", "out.csv")
    assert code == 0
    assert "Columns ignored, as the model was trained without: remark." in err
    assert "Column sleep: 1 missing value was filled" in err
    model = OrdinalGPClassifier(categories=LEVELS).fit(encoded(columns), labels("texts", grade))
    expected = model.category_proba(encoded(new, train=columns))
    found = read_output(tmp_path / "out.csv")
    assert_allclose(found[[f"p_{level}" for level in LEVELS]], expected, rtol=0, atol=1e-12)
    assert found["line"].tolist() == list(range(2, 22))


@pytest.mark.parametrize("kernel", ["ard", "linear", "exponential"])
def test_kernels(kernel, run, files):
    columns, grade = school()
    run("fit", files(), "-t", "grade", "--categories", ",".join(LEVELS), "--kernel", kernel)
    loaded = ordinalgp.load("model.ogp")
    X = loaded.encode(columns)  # to the last digit: the search magnifies rounding errors
    assert_allclose(X, encoded(columns), rtol=0, atol=1e-13)
    d = X.shape[1]
    starts = {
        "ard": PerColumn(RBF([2.0] * 4, (1e-3, 1e5)), OWNER),
        "linear": PerColumn(ARDLinear([0.25] * 4), OWNER),
        "exponential": Exponential(2 * d, (1e-3, 1e5)),
    }
    model = OrdinalGPClassifier(starts[kernel], categories=LEVELS).fit(X, labels("texts", grade))
    assert_allclose(loaded.category_proba(columns), model.category_proba(X), rtol=0, atol=1e-12)


def test_models_and_decisions(run, files):
    columns, grade = school()
    order = ["--categories", ",".join(LEVELS), "--kernel", "rbf"]
    run("fit", files(), "-t", "grade", *order, "--model", "laplace", "--decision", "median")
    model = OrdinalGPClassifier(categories=LEVELS, inference="laplace", decision="median")
    X = encoded(columns)
    model.fit(X, labels("texts", grade))
    loaded = ordinalgp.load("model.ogp")
    assert_array_equal(loaded.predict(columns), model.predict(X))
    assert loaded.classifier_.verbose == 0
    run("predict", "model.ogp", "train.csv", "-o", "out.csv", "--decision", "mean")
    expected = model.set_params(decision="mean").predict(X).tolist()
    assert pd.read_csv("out.csv")["level"].tolist() == expected


def test_decimal_commas_and_encodings(run, tmp_path):
    columns, grade = school()
    y = ["größer" if g == 3 else "klein" if g == 1 else "mittel" for g in grade]
    path = write_csv(tmp_path / "train.csv", columns | {"grade": y}, ";", ",")
    path.write_text(path.read_text(encoding="utf-8"), encoding="latin-1")
    style = ["--decimal", ",", "--encoding", "latin-1"]
    order = ["--categories", "klein,mittel,größer", "--kernel", "rbf"]
    assert run("fit", path, "-t", "grade", *order, *style)[0] == 0
    assert run("predict", "model.ogp", path, *style, "-o", "out.csv")[0] == 0
    model = OrdinalGPClassifier(categories=["klein", "mittel", "größer"]).fit(encoded(columns), y)
    expected = model.category_proba(encoded(columns))
    found = pd.read_csv("out.csv")[["p_klein", "p_mittel", "p_größer"]]
    assert_allclose(found, expected, rtol=0, atol=1e-12)


# ---------------------------------------------------------------------------- what is printed


def test_the_summary_tells_all(run, files):
    columns, _ = school()
    order = ["--categories", ",".join(LEVELS), "--model", "gp"]
    code, out, err = run("fit", files(), "-t", "grade", *order, "--folds", 3)
    assert code == 0
    told = (*LEVELS, *columns, "importance", "missing", "filled with the median", "Noise sd")
    for word in (*told, "Scores on rows not seen", "Slightly pessimistic", "± standard error"):
        assert word in " ".join(out.split())
    assert "relevance" not in out
    assert "fold 2 of 3" in err
    assert "log evidence" in err
    assert f"7 -> {np.median([h for h in columns['hours'] if h is not None]):.4g}" in out
    assert "Saved in model.ogp after" in out


@pytest.mark.parametrize("folds", [0, 2])
def test_the_summary_of_a_wide_table_has_its_most_important_columns(run, tmp_path, folds):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 105)).round(3)
    y = np.digitize(X[:, 101], [-0.5, 0.5])
    frame = pd.DataFrame(X, columns=[f"x{place}" for place in range(105)]).assign(grade=y)
    frame.to_csv(tmp_path / "wide.csv", index=False)
    options = ["--model", "laplace", "--kernel", "linear", "--folds", folds]
    code, out, _ = run("fit", "wide.csv", "-t", "grade", *options)
    assert code == 0
    shown = re.findall(r"^ *(x\d+) ", out, re.MULTILINE)
    assert len(shown) == 40
    assert shown[0] == ("x101" if folds else "x0")
    assert "65 more, all with --json" in out
    assert ("Only the 100 columns" in " ".join(out.split())) == bool(folds)
    told = json.loads(run("fit", "wide.csv", "-t", "grade", *options, "--json")[1])
    assert len(told["columns"]) == 105


def test_the_summary_for_machines_holds_the_right_numbers(run, files):
    columns, grade = school()
    order = ["--categories", ",".join(LEVELS), "--model", "gp"]
    _, out, _ = run("fit", files(), "-t", "grade", *order, "--json")
    told = json.loads(out)
    X, y = ordinalgp.load("model.ogp").encode(columns), labels("texts", grade)
    assert_allclose(X, encoded(columns), rtol=0, atol=1e-13)
    start = PerColumn(RBF([2.0] * 4, (1e-3, 1e5)), OWNER)
    model = OrdinalGPClassifier(start, categories=LEVELS).fit(X, y)
    assert [level["level"] for level in told["levels"]] == LEVELS
    assert [level["rows"] for level in told["levels"]] == [y.count(level) for level in LEVELS]
    assert_allclose(told["thresholds"], model.thresholds_)
    assert_allclose(told["noise"], model.noise_)
    assert_allclose(told["log_evidence"], model.log_marginal_likelihood_value_)
    # Classes are sorted: fair, good, poor.
    loo = model.loo_proba()[:, [2, 0, 1]]
    shares = [(y.count(level) + 0.5) / (len(y) + 1.5) for level in LEVELS]  # half a row added
    naive = np.tile(shares, (len(y), 1))
    for name, p in {"model": loo, "baseline": naive}.items():
        assert_allclose(
            told["leave_one_out"][name]["log_score"], metrics.log_score(y, p, categories=LEVELS)
        )
        wrong = np.mean(np.array(LEVELS)[p.argmax(axis=1)] != np.array(y))
        assert_allclose(told["leave_one_out"][name]["zero_one_error"], wrong)
    assert "flatters" in told["leave_one_out"]["method"]
    assert told["cross_validation"] is None
    assert all(column["importance"] is None for column in told["columns"])


def test_folds_are_the_default_and_for_machines_too(capsys, run, files):
    order = ["--categories", ",".join(LEVELS), "--model", "gp", "--kernel", "rbf", "--json"]
    path = files()
    with pytest.raises(SystemExit):
        build()(["fit", str(path), "-t", "grade", *order])
    told = json.loads(capsys.readouterr().out)
    found = told["cross_validation"]
    assert (found["folds"], found["models"], found["rows"]) == (5, 5, 48)
    assert told["leave_one_out"] is None
    scores = found["model"]["log_score"], found["baseline"]["log_score"]
    # Shares with half a row added, of the other folds: their log score is not theirs to a digit.
    assert_allclose(scores[1] - scores[0], found["gain"]["log_score"])
    assert found["gain"]["standard_error"] > 0
    known = {column["name"]: column["importance"] for column in told["columns"]}
    assert max(known, key=known.get) == "hours"
    assert all(column["importance_error"] >= 0 for column in told["columns"])
    again = run("fit", path, "-t", "grade", *order, "--folds", 5)
    assert json.loads(again[1])["cross_validation"] == found


def test_groups_stay_together_and_are_no_feature(run, fails, tmp_path):
    columns, grade = school()
    columns["person"] = [f"p{row // 2}" for row in range(48)]
    path = write(tmp_path / "t.csv", columns, labels("whole numbers", grade))
    options = ["fit", path, "-t", "grade", "--kernel", "rbf", "--folds", 3]
    told = json.loads(run(*options, "--groups", "person", "--json")[1])
    assert told["cross_validation"]["together"] == "groups"
    assert "person" not in [column["name"] for column in told["columns"]]
    held = ordinalgp.load(tmp_path / "model.ogp").held_out_
    assert_array_equal(held.fold[::2], held.fold[1::2])
    assert "--groups names 'who', but the columns are" in fails(*options, "--groups", "who")
    assert "--folds must be 0 or at least 2, but is 1" in fails(*options, "--folds", "1")


def test_evaluate_scores_new_rows(run, tmp_path, files):
    columns, grade = school()
    new, new_grade = school(30, seed=2)
    truth = labels("texts", new_grade)
    run("fit", files(), "-t", "grade", "--categories", ",".join(LEVELS), "--kernel", "rbf")
    write_csv(tmp_path / "test.csv", new | {"grade": truth})
    code, out, _ = run("evaluate", "model.ogp", "test.csv", "--json")
    assert code == 0
    told = json.loads(out)
    p = OrdinalGPClassifier(categories=LEVELS).fit(encoded(columns), labels("texts", grade))
    p = p.category_proba(encoded(new, train=columns))
    found = np.array(LEVELS)[p.argmax(axis=1)]
    rps = metrics.ranked_probability_score(truth, p, categories=LEVELS)
    assert_allclose(told["scores"]["model"]["ranked_probability_score"], rps, rtol=1e-9)
    assert told["confusion"] == [
        [int(np.sum((np.array(truth) == a) & (found == b))) for b in LEVELS] for a in LEVELS
    ]
    for k, row in enumerate(told["calibration"]):
        assert_allclose(row["expected"], p[:, k].sum(), rtol=1e-9)
        assert row["observed_up_to"] == sum(t in LEVELS[: k + 1] for t in truth)
    _, out, _ = run("evaluate", "model.ogp", "test.csv", "--plots", "pictures")
    assert "Weighted kappa" in out
    assert {path.suffix for path in (tmp_path / "pictures").iterdir()} == {".png"}


def test_evaluate_warns_of_training_rows(run, tmp_path, files):
    path = files()
    run("fit", path, "-t", "grade", "--categories", ",".join(LEVELS), "--kernel", "rbf")
    code, _, err = run("evaluate", "model.ogp", path)
    assert code == 0
    assert "Warning: 48 of 48 training rows that were looked for are in this file." in err
    new, grade = school(30, seed=2)
    write_csv(tmp_path / "new.csv", new | {"grade": labels("texts", grade)})
    assert "training rows" not in run("evaluate", "model.ogp", "new.csv")[2]
    # Rows of which chance makes copies say nothing.
    write_csv(tmp_path / "few.csv", {"x": [0, 1, 2] * 10, "grade": [1, 2, 3] * 10})
    run("fit", "few.csv", "-t", "grade", "--kernel", "rbf")
    assert "training rows" not in run("evaluate", "model.ogp", "few.csv")[2]


def test_costs_decide(run, files, tmp_path):
    """A model that keeps costs, and a file of them, give the same levels as Python."""
    table = files()
    run(
        "fit", table, "-t", "grade", "--categories", ",".join(LEVELS), "--model", "gp", "--folds", 0
    )
    true, chosen = np.indices((len(LEVELS), len(LEVELS)))
    cost = np.where(chosen > true, 5 * (chosen - true), true - chosen)
    model = ordinalgp.load("model.ogp").set_params(decision=cost)
    model.save("careful.ogp")
    run("predict", "careful.ogp", table, "-o", "kept.csv")
    turned = LEVELS[::-1]
    rows = [[cost[LEVELS.index(t), LEVELS.index(p)] for p in turned] for t in LEVELS]
    lines = [",".join(map(str, [t, *row])) for t, row in zip(LEVELS, rows, strict=True)]
    Path("costs.csv").write_text("\n".join([",".join(["true", *turned]), *lines]) + "\n")
    code, _, err = run("predict", "model.ogp", table, "-o", "given.csv", "--decision", "costs.csv")
    assert code == 0, err
    run("predict", "model.ogp", table, "-o", "mode.csv")
    kept, given, mode = (Path(f"{name}.csv").read_text() for name in ("kept", "given", "mode"))
    assert kept == given != mode


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("true,a,b\na,0,1\nb,1,0\n", "must have one of its columns for each of the levels"),
        (None, "or a file of costs, but there is neither such a rule nor a file 'costs.csv'"),
        ("true,LEVELS\nROWS", "needs a number in every cell of the column"),
    ],
)
def test_bad_costs_are_named(run, files, text, words):
    table = files()
    run(
        "fit", table, "-t", "grade", "--categories", ",".join(LEVELS), "--model", "gp", "--folds", 0
    )
    if text is not None:
        rows = "".join(f"{level}{',x' * len(LEVELS)}\n" for level in LEVELS)
        text = text.replace("LEVELS", ",".join(LEVELS)).replace("ROWS", rows)
        Path("costs.csv").write_text(text)
    code, _, err = run("predict", "model.ogp", table, "--decision", "costs.csv")
    assert code == 2
    assert words in " ".join(err.split())


def test_evaluate_compares_decisions_and_measures_intervals(run, tmp_path, files):
    columns, grade = school()
    new, new_grade = school(30, seed=2)
    truth = labels("texts", new_grade)
    run("fit", files(), "-t", "grade", "--categories", ",".join(LEVELS), "--kernel", "rbf")
    write_csv(tmp_path / "test.csv", new | {"grade": truth})
    told = json.loads(run("evaluate", "model.ogp", "test.csv", "--json")[1])
    y, X, X_new = labels("texts", grade), encoded(columns), encoded(new, train=columns)
    model = OrdinalGPClassifier(categories=LEVELS).fit(X, y)
    assert [row["decision"] for row in told["decisions"]] == ["mode", "median", "balanced", "mean"]
    for row in told["decisions"]:
        found = model.set_params(decision=row["decision"]).predict(X_new)
        error = metrics.macro_mean_absolute_error(truth, found, categories=LEVELS)
        assert_allclose(row["macro_absolute_error"], error)
        assert_allclose(row["zero_one_error"], metrics.zero_one_error(truth, found))
    rank = {level: place for place, level in enumerate(LEVELS)}
    codes = np.array([rank[level] for level in truth])
    assert [row["coverage"] for row in told["intervals"]] == [0.5, 0.8, 0.9, 0.95]
    for row in told["intervals"]:
        ends = np.vectorize(rank.get)(model.predict_interval(X_new, row["coverage"]))
        inside = (ends[:, 0] <= codes) & (codes <= ends[:, 1])
        assert_allclose([row["inside"], row["levels"]], [inside.mean(), 1 + np.ptp(ends, 1).mean()])
    run("predict", "model.ogp", "test.csv", "-o", "out.csv", "--coverage", "0.8")
    out = pd.read_csv("out.csv")[["lower", "upper"]]
    assert_array_equal(out, model.predict_interval(X_new, 0.8))
    run("predict", "model.ogp", "test.csv", "-o", "out.csv", "--decision", "balanced")
    balanced = model.set_params(decision="balanced").predict(X_new)
    assert pd.read_csv("out.csv")["level"].tolist() == balanced.tolist()


def test_the_default_is_a_mixture_that_says_what_its_weights_mean(run, files):
    columns, grade = school()
    fit = ["fit", files(), "-t", "grade", "--categories", ",".join(LEVELS)]
    code, out, _ = run(*fit)
    assert code == 0
    assert "StackedOrdinalGP" in out
    assert "latent" not in out
    mixture = ordinalgp.load("model.ogp").classifier_
    told = json.loads(run(*fit, "--json")[1])
    assert_allclose(list(told["weights"].values()), list(mixture.weights_.values()), atol=1e-6)
    share = sum(w for name, w in told["weights"].items() if name.endswith("sequential"))
    assert told["mixture"].startswith(f"Sequential models have {100 * share:.0f} % of the weight: ")
    assert told["mixture"] in " ".join(out.split())
    assert told["thresholds"] is told["noise"] is told["kernel"] is None
    again = ordinalgp.StackedOrdinalGP(categories=LEVELS, feature_groups=OWNER, random_state=0)
    X = ordinalgp.load("model.ogp").encode(columns)
    assert_allclose(X, encoded(columns), rtol=0, atol=1e-13)
    p = again.fit(X, labels("texts", grade)).category_proba(X)
    run("predict", "model.ogp", "train.csv", "-o", "out.csv")
    found = pd.read_csv("out.csv")
    assert_allclose(found[[f"p_{level}" for level in LEVELS]], p, atol=1e-9)
    assert "latent_mean" not in found
    assert run("report", "model.ogp", "-o", "report.html")[0] == 0
    page = Path("report.html").read_text(encoding="utf-8")
    assert told["mixture"] in page
    assert page.count("<img ") == 5  # confusion, calibration twice, intervals, effects


def test_predict_prints_without_an_output(run, files):
    run("fit", files(), "-t", "grade", "--categories", ",".join(LEVELS), "--kernel", "rbf")
    _, out, _ = run("predict", "model.ogp", "train.csv", "--keep", "home town")
    rows = list(csv.DictReader(out.splitlines()))
    assert rows[0]["home town"] == school()[0]["home town"][0]
    assert len(rows) == 48
    _, out, _ = run("predict", "model.ogp", "train.csv", "--json")
    first = json.loads(out.splitlines()[0])
    assert first["level"] == rows[0]["level"]
    assert first["p_poor"] == float(rows[0]["p_poor"])
    _, out, _ = run("predict", "model.ogp", "train.csv", "--json", "-o", "out.csv")
    assert sum(json.loads(out)["levels"].values()) == json.loads(out)["rows"] == 48


def test_a_sequential_model_is_fitted_and_summarised(run, files):
    order = ["--categories", ",".join(LEVELS), "--model", "sequential"]
    code, out, _ = run("fit", files(), "-t", "grade", *order)
    assert code == 0
    assert "converged.\n" in out  # every step has a noise of its own, so none is printed
    assert "Saved in model.ogp" in out


def test_names_that_cannot_be_told_apart(fails, files):
    assert "is not a list of names" in fails("fit", files(), "-t", "grade", "--drop", "a\rb")


@pytest.mark.parametrize("model", ["gp", "least-squares", "sparse"])
def test_predict_visits_every_row_once(model, run, files, monkeypatch):
    run("fit", files(), "-t", "grade", "--categories", ",".join(LEVELS), "--model", model)
    fitted = ordinalgp.load("model.ogp")
    visits, latent = [], type(fitted.classifier_).latent_mean_and_variance

    def counted(self, X):
        visits.append(len(X))
        return latent(self, X)

    features = fitted.encode(pd.read_csv("train.csv"))
    expected = fitted.classifier_.category_proba(features)
    monkeypatch.setattr(type(fitted.classifier_), "latent_mean_and_variance", counted)
    run("predict", "model.ogp", "train.csv", "-o", "out.csv")
    assert visits == [48]
    found = pd.read_csv("out.csv", dtype=str)[[f"p_{level}" for level in LEVELS]]
    assert_array_equal(found.to_numpy(dtype=object).astype(float), expected)  # to the last digit


@pytest.mark.parametrize(
    ("word", "kernel"), [(None, "auto"), ("rbf", "gaussian"), ("exponential", "exponential")]
)
def test_a_sparse_model_finds_its_width(word, kernel, run, files):
    order = ["--categories", ",".join(LEVELS), "--model", "sparse"]
    given = [] if word is None else ["--kernel", word]
    code, out, _ = run("fit", files(), "-t", "grade", *order, *given)
    fitted = ordinalgp.load("model.ogp").classifier_
    assert code == 0
    assert f"the functions are {fitted.kernel_}" in " ".join(out.split())
    assert "--kernel ard" not in out  # which a sparse model does not take
    assert fitted.kernel == kernel
    widths, values = fitted.width_path_.T
    assert fitted.kernel_.length_scale == widths[values.argmax()]


def test_version(run):
    assert run("--version")[:2] == (0, f"ordinalgp {ordinalgp.__version__}\n")


@pytest.mark.parametrize("command", ["fit", "predict", "evaluate"])
def test_every_command_has_help_with_an_example(command, run):
    code, out, _ = run(command, "--help")
    assert code == 0
    assert f"Example: ordinalgp {command}" in " ".join(out.split())


# ---------------------------------------------------------------------------------- bad rows

BAD = (
    'hours,tutor,grade\n1,no,1\n2,yes,2\nmany,no,1\n4,yes,\n"5\n",no,9x\n6,yes,2,7\n7,no,3\n8,yes\n'
)


def test_bad_rows_are_named_by_line_and_column(fails, run, tmp_path):
    (tmp_path / "bad.csv").write_text(BAD)
    told = fails("fit", "bad.csv", "-t", "grade")
    # A row with too many or too few cells stops the reading first.
    assert "line 8, column grade: the row goes on after it, with 4 cells" in told
    assert "line 10, column tutor: the row ends here, with 2 cells" in told
    (tmp_path / "bad.csv").write_text(BAD.replace("2,7\n", "2\n").replace("yes\n", "yes,3\n"))
    told = fails("fit", "bad.csv", "-t", "grade")
    assert "4 rows" not in told
    assert "3 rows that cannot be used" in told
    assert "line 4, column hours: 'many' is not a number" in told
    assert "line 5, column grade: the target is missing" in told
    assert "line 6, column grade: '9x' is not a number" in told
    assert "--on-bad-rows skip" in told
    assert not (tmp_path / "model.ogp").exists()


def test_bad_rows_are_skipped_on_request(run, tmp_path):
    (tmp_path / "bad.csv").write_text(BAD)
    code, out, err = run("fit", "bad.csv", "-t", "grade", "--on-bad-rows", "skip", "--json")
    assert code == 0
    assert "Skipped 5 bad rows of bad.csv:" in err
    assert json.loads(out)["skipped_rows"] == 5
    assert json.loads(out)["rows"] == 3
    code, _, err = run("predict", "model.ogp", "bad.csv", "--on-bad-rows", "skip", "-o", "o.csv")
    assert pd.read_csv("o.csv")["line"].tolist() == [2, 3, 5, 6, 9]  # the target is not needed


def test_unknown_levels_and_values_are_named(fails, run, tmp_path, files):
    path = files()
    run("fit", path, "-t", "grade", "--categories", ",".join(LEVELS), "--kernel", "rbf")
    text = path.read_text().splitlines()
    text[3] = text[3].rsplit(",", 1)[0] + ",superb"
    (tmp_path / "new.csv").write_text("\n".join(text))
    told = fails("evaluate", "model.ogp", "new.csv")
    assert "line 4, column grade: 'superb' is not a level (poor, fair, good)" in told
    told = fails("fit", "new.csv", "-t", "grade", "--categories", ",".join(LEVELS))
    assert "line 4, column grade: 'superb' is not a level" in told
    text[2] = text[2].replace('"no"', '"maybe"').replace('"yes"', '"maybe"')
    (tmp_path / "new.csv").write_text("\n".join(text))
    stop = ["--on-new-values", "stop"]
    told = fails("predict", "model.ogp", "new.csv", "-o", "out.csv", *stop)
    assert "line 3, column tutor: 'maybe' did not occur in training (no, yes)" in told
    assert not (tmp_path / "out.csv").exists()
    _, _, err = run("evaluate", "model.ogp", "new.csv", "--on-bad-rows", "skip", *stop)
    assert "2 bad rows" in err
    assert "training did not have" not in err
    told = fails("predict", "model.ogp", "new.csv", "--on-new-values", "guess")
    assert "--on-new-values" in told


def test_new_values_are_used_and_counted(run, tmp_path, files):
    """Also over chunks, and not in rows that are skipped."""
    columns, grade = school()
    path = files()
    run("fit", path, "-t", "grade", "--categories", ",".join(LEVELS), "--kernel", "rbf")
    new = {name: cells[:8] for name, cells in columns.items()}
    new["tutor"] = ["maybe", "no", "perhaps", "yes", "maybe", None, "no", "maybe"]
    new["home town"] = ["Celle"] * 6 + [None, "Celle"]  # there were no gaps in training
    new["sleep"] = [*new["sleep"][:7], "long"]
    write_csv(tmp_path / "new.csv", new | {"grade": labels("texts", grade)[:8]})
    skip = ["--on-bad-rows", "skip"]
    code, _, err = run("predict", "model.ogp", "new.csv", "-o", "out.csv", *skip)
    assert code == 0
    assert "3 in column tutor ('maybe', 'perhaps'), 1 in column home town (missing)" in err
    features = encoded(new | {"sleep": [*new["sleep"][:7], 0.0]}, train=columns)[:7]
    assert features[0, -5] == features[6, -1] == 1  # the features of new values
    model = OrdinalGPClassifier(categories=LEVELS).fit(encoded(columns), labels("texts", grade))
    told = pd.read_csv("out.csv")[[f"p_{level}" for level in LEVELS]]
    assert_allclose(told, model.category_proba(features), rtol=0, atol=1e-7)
    _, _, err = run("evaluate", "model.ogp", "new.csv", *skip)
    assert "3 in column tutor" in err


def test_outputs_are_written_whole_or_not_at_all(fails, run, tmp_path, files):
    run("fit", files(), "-t", "grade", "--categories", ",".join(LEVELS), "--kernel", "rbf")
    columns, _ = school(6000)
    columns["sleep"][5500] = "deep"  # in the second chunk, when the first has been written
    write_csv(tmp_path / "new.csv", columns)
    (tmp_path / "out.csv").write_text("as it was")
    before = sorted(tmp_path.iterdir())
    told = fails("predict", "model.ogp", "new.csv", "-o", "out.csv")
    assert "line 5502, column sleep: 'deep' is not a number" in told
    assert (tmp_path / "out.csv").read_text() == "as it was"
    assert sorted(tmp_path.iterdir()) == before


# ------------------------------------------------------------------------------- wrong inputs


@pytest.fixture
def ready(run, files, tmp_path):
    """A folder with a table and a model."""
    path = files()
    run("fit", path, "-t", "grade", "--categories", ",".join(LEVELS), "--kernel", "rbf")
    return tmp_path


def test_missing_files(fails, ready):
    assert "There is no file no.csv" in fails("fit", "no.csv", "-t", "grade")
    assert "There is no file 'no.ogp'" in fails("predict", "no.ogp", "train.csv")
    assert "There is no file no.csv" in fails("evaluate", "model.ogp", "no.csv")
    assert "There is no folder" in fails(
        "predict", "model.ogp", "train.csv", "-o", "nowhere/out.csv"
    )
    assert "is a folder" in fails("fit", ".", "-t", "grade")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04 a spreadsheet", "is a zip file, but no Excel file"),
        (b"\xd0\xcf\x11\xe0 a spreadsheet", "is an old Excel file. Save it as .xlsx or CSV"),
        (b"a,grade\n\x81\x8d,1\n", "Name its encoding with --encoding"),
        (b"a,grade\n1,\x00\x00,1\n", "has a null byte at 10, so it is not a text file"),
        (b"\x1f\x8b\x08 not gzip at all", "cannot be read"),
        (b"PAR1 not parquet at all PAR1", "not a readable Parquet"),
        (b'a,grade\n"1,2\n3,4\n', "Check its quotes"),
        (b"a,grade\n", "no rows"),
        (b"a,a,grade\n1,2,3\n", "names the column 'a' more than once"),
        (b"grade\n1\n2\n", "no columns beside the target"),
        (b"a,grade\n1,2\n2,2\n", "only the level 2"),
        (b"a,grade\n1,\n2,\n", "no values at all"),
        (b"a,grade\n,1\n,2\n", "Column a has no values: left out."),
        (b"a,grade\n1,low\n2,high\n", "--categories high,low"),
    ],
)
def test_unreadable_and_useless_files(content, says, fails, tmp_path):
    (tmp_path / "given").write_bytes(content)
    assert says in fails("fit", "given", "-t", "grade")


def test_columns_that_are_not_there(fails, run, ready):
    told = fails("fit", "train.csv", "-t", "mark")
    assert "no target column 'mark'. The columns are hours, sleep, tutor, home town" in told
    for option in ("--drop", "--nominal", "--numeric"):
        order = ["--categories", ",".join(LEVELS)]
        assert "'mark'" in fails("fit", "train.csv", "-t", "grade", *order, option, "mark")
    assert "--keep names 'mark'" in fails("predict", "model.ogp", "train.csv", "--keep", "mark")
    columns, _ = school()
    del columns["sleep"], columns["tutor"]
    write_csv(ready / "less.csv", columns)
    told = fails("predict", "model.ogp", "less.csv")
    assert "lacks the columns 'sleep', 'tutor' that the model was trained with" in told
    told = fails("evaluate", "model.ogp", "less.csv")
    assert "no target column 'grade'" in told


def test_names_and_remarks_are_no_features(run, tmp_path):
    columns, grade = school()
    columns["name"] = [f"person {i}" for i in range(48)]
    write_csv(tmp_path / "t.csv", columns | {"grade": labels("whole", grade)})
    code, out, err = run("fit", "t.csv", "-t", "grade", "--kernel", "rbf")
    assert code == 0
    told = "Column name has 48 different texts in 48 rows, for example 'person 0': left out"
    assert f"{told}; keep it with --nominal name." in err
    assert "Columns left out automatically: name." in out
    del columns["name"]  # which the model does not need
    write_csv(tmp_path / "new.csv", columns)
    assert run("predict", "model.ogp", "new.csv")[0] == 0
    code, out, _ = run("fit", "t.csv", "-t", "grade", "--kernel", "rbf", "--nominal", "name")
    assert (code, "nominal, 48 values" in out) == (0, True)


def test_wrong_options(fails, ready):
    fit = ["fit", "train.csv", "-t", "grade", "--categories", ",".join(LEVELS)]
    assert "--model must be one of auto, gp, laplace" in fails(*fit, "--model", "svm")
    assert "--kernel must be one of rbf, ard, linear" in fails(*fit, "--kernel", "cubic")
    sparse = (*fit, "--model", "sparse")
    assert "--kernel must be one of rbf, exponential, auto" in fails(*sparse, "--kernel", "ard")
    assert "mixes several kernels" in fails(*fit, "--model", "auto", "--kernel", "rbf")
    assert "--decision must be one of" in fails(*fit, "--decision", "guess")
    predict = ("predict", "model.ogp", "train.csv", "--coverage", "90")
    assert "--coverage must be between 0 and 1, but is 90" in fails(*predict)
    assert "--on-bad-rows must be one of error, skip" in fails(*fit, "--on-bad-rows", "fix")
    assert "--separator must be one character" in fails(*fit, "--separator", "ab")
    assert "no encoding 'martian'" in fails(*fit, "--encoding", "martian")
    assert "level" in fails("fit", "train.csv", "-t", "grade", "--categories", "poor")


def test_measurements_are_no_levels(fails, tmp_path):
    rows = "\n".join(f"{i},{i / 7}" for i in range(60))
    (tmp_path / "t.csv").write_text(f"a,grade\n{rows}\n")
    assert "60 different numbers" in fails("fit", "t.csv", "-t", "grade")


def test_other_files_are_no_models(fails, ready):
    assert "is not a zip file" in fails("predict", "train.csv", "train.csv")
    X, y = np.arange(6.0)[:, None], [0, 0, 0, 1, 1, 1]
    OrdinalGPClassifier().fit(X, y).save("bare.ogp")
    assert "saved from Python" in fails("predict", "bare.ogp", "train.csv")


def test_a_model_from_a_newer_schema(fails, ready):
    with zipfile.ZipFile("model.ogp") as old, zipfile.ZipFile("newer.ogp", "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "model.json":
                content = re.sub(rb'"schema": \d+', b'"schema": 99', content)
            new.writestr(name, content)
    for command in ("predict", "evaluate"):
        told = fails(command, "newer.ogp", "train.csv")
        assert "written by a newer version of ordinalgp" in told
        assert "Upgrade ordinalgp" in told


def test_a_damaged_model(fails, ready):
    content = (ready / "model.ogp").read_bytes()
    (ready / "half.ogp").write_bytes(content[: len(content) // 2])
    assert "damaged" in fails("predict", "half.ogp", "train.csv")


def test_a_model_whose_parts_disagree(fails, ready):
    with zipfile.ZipFile("model.ogp") as old, zipfile.ZipFile("other.ogp", "w") as new:
        for name in old.namelist():
            document = old.read(name)
            if name == "model.json":
                told = json.loads(document)
                told["result"]["fields"]["encoder"]["fields"]["columns"]["items"].pop()
                document = json.dumps(told).encode()
            new.writestr(name, document)
    assert "disagree" in fails("predict", "other.ogp", "train.csv")


# ---------------------------------------------------------------------------------- the rest


def test_memory_stays_flat_in_the_rows(run, tmp_path):
    """Three times the rows take no more memory, though the table is far larger than a chunk."""
    (tmp_path / "train.csv").write_text("a,b,y\n" + "1,2,1\n2,1,2\n3,5,3\n4,4,3\n" * 5)
    run("fit", "train.csv", "-t", "y", "--kernel", "rbf")
    peaks = []
    for n in (9_000, 27_000):
        rows = (f"{i % 97},{i % 89}\n" for i in range(n))
        (tmp_path / "new.csv").write_text("a,b\n" + "".join(rows))
        tracemalloc.start()
        code, _, _ = run("predict", "model.ogp", "new.csv", "-o", "out.csv")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert code == 0
    assert peaks[1] < 1.1 * peaks[0]
    with open(tmp_path / "out.csv") as file:
        assert sum(1 for _ in file) == 27_001


def test_without_typer_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit, match=r"pip install 'ordinalgp\[cli\]'"):
        main()


def test_the_module_runs_and_a_closed_pipe_is_no_error(ready):
    command = [sys.executable, "-m", "ordinalgp"]
    with subprocess.Popen(
        [*command, "predict", "model.ogp", "train.csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as process:
        process.stdout.close()
        told = process.stderr.read()
    assert process.returncode == 1
    assert b"Error" not in told


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_the_evidence_is_shown_live_on_terminals_only(stream, monkeypatch):
    from ordinalgp.cli.common import showing_progress

    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    shown = stream()
    monkeypatch.setattr(sys, "stderr", shown)
    X = np.linspace(-2, 2, 20)[:, None]
    with showing_progress():
        model = OrdinalGPClassifier().fit(X, np.digitize(X[:, 0], [-1, 1]))
        print("something else", file=sys.stderr)
    text = shown.getvalue()
    assert "something else" in text
    best = model.evidence_path_.max()
    if stream is Terminal:
        assert f"{best:.3f}" in text
        assert f"{len(model.evidence_path_)} evaluations" in text
        assert "\x1b" in text
    else:
        n = len(model.evidence_path_)
        first = model.evidence_path_[0]
        assert f"log evidence {first:.3f} -> {best:.3f} in {n} evaluations\n" in text
        assert "\x1b" not in text
        assert text.count("\n") == 2


def test_passes_are_lines_and_stages_are_summed_up():
    from rich.console import Console

    from ordinalgp.cli.common import ProgressView
    from ordinalgp.runtime.progress import Progress

    shown = io.StringIO()
    view = ProgressView(Console(file=shown), None)
    for step, value in enumerate((-9.0, -8.0, -8.5), 1):  # a run that another one follows
        view.show(Progress("search", step, None, value, 0.1))
    for step, value in enumerate((-90.0, -70.0, -80.0), 1):
        view.show(Progress("search", step, None, value, 0.1))
    view.show(Progress("search", 3, None, -70.0, 0.1, "converged", done=True))
    view.show(Progress("pass", 500, 1000, None, 12.0, "500 of 1,000 rows, 42 rows/s"))
    view.show(Progress("pass", 1, None, -60.0, 24.0, "1,000 rows, 42 rows/s"))
    view.finish()
    assert shown.getvalue().splitlines() == [
        "500 of 1,000 rows, 42 rows/s",
        "pass 1: 1,000 rows, 42 rows/s",
        "log evidence -90.000 -> -70.000 in 3 evaluations",
    ]


def test_a_fit_that_has_not_converged_says_what_to_do(run, files, monkeypatch):
    climb = search._run
    monkeypatch.setattr(search, "_run", lambda *given: (climb(*given)[0], "steps"))
    order = ["--categories", ",".join(LEVELS), "--model", "gp"]
    code, out, _ = run("fit", files(), "-t", "grade", *order)
    assert code == 0
    told = " ".join(out.split())
    assert "NOT converged" in told
    assert "Leave out columns that say little (--drop), or choose a kernel" in told
