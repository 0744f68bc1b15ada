"""The commands: their grids, their models, and real runs of small ones."""

import importlib
import json
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from papers import gpor
from papers.__main__ import EXPERIMENTS, find_experiment, main, reproduce
from papers.models import MODELS, find_models
from papers.pages import make_page, to_markdown
from papers.runner import Cell, Split, read_records, score
from papers.statistics import published


def test_grids():
    table = EXPERIMENTS["gpor-table2"]
    cells = table.cells()
    assert len(cells) == len(set(cells)) == 9 * 20 * 6
    some = table.cells(trials=2, models=["ep", "ep-bound"], datasets=["stocks", "diabetes"])
    assert some[0] == Cell("diabetes", 5, 1, "ep")  # in the paper's order
    assert len(some) == 8
    assert len(EXPERIMENTS["plsor-table5"].cells()) == 9 * 2 * 20 * 3


def test_grids_that_vary_what_is_trained_on():
    curve = EXPERIMENTS["order-figure2"].cells(trials=3, models=["gpep2"])
    assert [cell.size for cell in curve[::3]] == list(range(100, 1001, 100))
    assert len({cell.seed for cell in curve}) == len(curve) == 30
    # The seeds of cells without a size are those of records that were made before there were sizes.
    assert Cell("stocks", 5, 1, "ep").seed == Cell("stocks", 5, 1, "ep", 0).seed == 3498637201
    growth = EXPERIMENTS["isbor-figure2"]
    assert {cell.size for cell in growth.cells() if cell.model == "ep"} == {1000, 2000}
    assert {cell.size for cell in growth.cells(models=["ep"])} == set(range(1000, 10_001, 1000))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: find_experiment("table9"), "no benchmark 'table9'. Choose from: gpor-table2"),
        (lambda: EXPERIMENTS["peers"].cells(models=["svmm"]), r"no model \['svmm'\] here. Choose"),
        (lambda: EXPERIMENTS["peers"].cells(datasets=["iris"]), r"no data set \['iris'\] here"),
        (lambda: EXPERIMENTS["peers"].cells(trials=0), "at least 1, but is 0"),
        (lambda: find_models(["nobody"]), r"no model \['nobody'\]. Choose from: map"),
    ],
)
def test_what_is_unknown_is_answered_with_what_there_is(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_registry_is_consistent():
    for name, experiment in EXPERIMENTS.items():
        assert name == experiment.name
        assert set(experiment.models) <= set(experiment.registry)
        assert set(experiment.sizes) <= set(experiment.datasets)
        cells = experiment.cells()
        assert len(cells) == len(set(cells)) > 0
        assert {cell.model for cell in cells} <= set(experiment.registry)
        assert {cell.dataset for cell in cells} <= set(experiment.datasets)
        for table in experiment.published:
            assert published(table)["source"]
        assert experiment.trials >= 1


def test_a_model_that_is_not_installed_is_named(monkeypatch):
    real = importlib.import_module

    def without_mord(name, *rest):
        if name == "mord":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without_mord)
    assert not MODELS["mord"].is_available
    with pytest.raises(ImportError, match=r"mord \(mord\). Install the extra with pip install"):
        find_models(["ep", "mord"])


def line(n=60):
    X = np.linspace(-2, 2, n)[:, None] + np.zeros((1, 2))
    y = np.digitize(X[:, 0], [-1.2, -0.4, 0.4, 1.2]) + 1
    return Split(X[::2], y[::2], X[1::2], y[1::2], "drawn")


@pytest.mark.parametrize("name", MODELS)
def test_every_model_learns_an_easy_line(name):
    if not MODELS[name].is_available:
        pytest.skip(f"{MODELS[name].needs} is not installed")
    data = line(600 if name == "sklearn-boosting" else 60)  # it wants 20 rows in a leaf
    with warnings.catch_warnings(record=True):  # peers warn as they like, some whatever we say
        warnings.simplefilter("ignore")
        model = MODELS[name].build(0, 2).fit(data.X_train, data.y_train)
    found = score(model, data, np.arange(1, 6))
    assert found["zero_one"] <= 0.3  # guessing errs in 0.8
    assert found["absolute"] <= 0.3
    if found["rps"] is not None:
        assert 0 <= found["rps"] < 0.12
        assert found["log_score"] > 0
    assert json.loads(json.dumps(found)) == found


def test_a_level_that_was_not_in_training_has_probability_zero():
    data = line()
    seen = data.y_train != 3
    model = MODELS["ep"].build(0, 2).fit(data.X_train[seen], data.y_train[seen])
    found = score(model, data, np.arange(1, 6))
    assert found["log_score"] == np.inf
    assert 0.1 < found["zero_one"] < 0.4


def test_the_figure_is_drawn_and_its_errors_are_those_of_fresh_points(tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    outcome = reproduce("gpor-figure2", trials=1, output=tmp_path)
    assert (tmp_path / "gpor-figure2.png").stat().st_size > 10_000
    found = {(r["dataset"], r["model"]): r["zero_one"] for r in outcome.records}
    low, high = gpor.NOISE
    for model in {name for _, name in found}:
        assert found[low, model] < 0.3
        assert found[low, model] < found[high, model] < 0.5
    one, again = (gpor.load_ranks(Cell(low, 3, 1, model)) for model in ("map", "ep"))
    assert np.array_equal(one.X_train, again.X_train)


def test_simulated_genes_have_the_papers_shape():
    X, y = gpor.simulate_genes(0)
    assert X.shape == (52, 12_600)
    assert np.bincount(y).tolist() == [0, 26, 20, 6]


def test_elimination_keeps_the_genes_that_matter(monkeypatch):
    def small(cell, data_home=None):
        rng = np.random.default_rng(cell.split)
        X = rng.normal(size=(120, 16))
        y = np.digitize(X[:, :2].sum(axis=1), [-0.8, 0.8]) + 1
        return Split(X[:60], y[:60], X[60:], y[60:], "drawn")

    monkeypatch.setattr(gpor, "load_genes", small)
    record = gpor.compute_genes(Cell("gene_glucose", 0, 1, "ep"))
    steps = {step["genes"]: step for step in record["steps"]}
    assert list(steps) == [16, 8, 4, 2, 1]
    assert steps[2]["zero_one"] < 0.15  # the two that matter are left
    assert steps[2]["zero_one"] < steps[16]["zero_one"]
    assert steps[1]["zero_one"] > 0.2
    assert json.loads(json.dumps(record)) == record
    cell = Cell("gene_glucose", 0, 1, "map")
    record = gpor.compute_genes(cell)  # with a machine on the same genes
    steps = {step["genes"]: step for step in record["steps"]}
    assert steps[2]["zero_one_svm"] < 0.15
    text = to_markdown(make_page(EXPERIMENTS["gpor-genes"], [cell._asdict() | record]))
    row = next(line for line in text.splitlines() if line.startswith("| 2 "))
    shown = [float(entry.strip(" *")) for entry in row.split("|")[2:6]]
    wanted = [steps[2][e + kind] for e in ("zero_one", "absolute") for kind in ("", "_svm")]
    assert_allclose(shown, np.multiply(wanted, 100), atol=0.006)


# --------------------------------------------------------------------------- command line


def test_the_command_prints_records_as_json(tmp_path, capsys):
    options = ["--trials", "1", "--datasets", "three-ranks-low-noise", "--models", "ep"]
    assert main(["gpor-figure2", *options, "--output", str(tmp_path), "--json"]) == 0
    done = capsys.readouterr()
    printed = json.loads(done.out)
    assert printed["records"] == read_records(tmp_path / "gpor-figure2.jsonl")
    assert len(printed["records"]) == 1
    assert "1/1" in done.err
    assert "gpor-figure2.html" in done.err


def test_names_can_be_repeated_or_separated_by_commas(tmp_path, capsys):
    where = ["--output", str(tmp_path), "--report-only"]
    (tmp_path / "gpor.jsonl").touch()
    sets = ["--datasets", "stocks,diabetes", "--datasets", "abalone", "--models", "ep"]
    assert main(["gpor-table2", *sets, *where]) == 0
    assert main(["gpor-table2", *sets, "--datasets", "iris", *where]) == 2
    assert "no data set ['iris'] here" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["table9"], "There is no benchmark 'table9'"),
        (["gpor-table2", "--models", "svmm"], "There is no model ['svmm']"),
        (["gpor-table2", "--trials", "0"], "must be at least 1"),
    ],
)
def test_bad_input_is_an_error_with_code_2(arguments, message, tmp_path, capsys):
    assert main([*arguments, "--output", str(tmp_path / "none")]) == 2
    done = capsys.readouterr()
    assert message in done.err
    assert "Traceback" not in done.err
    assert done.out == ""
    assert not (tmp_path / "none").exists()


def test_an_option_that_does_not_exist_ends_with_code_2(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["gpor-table2", "--tirals", "3"])
    assert stopped.value.code == 2
    assert "--tirals" in capsys.readouterr().err
