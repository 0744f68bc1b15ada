"""Counts of cells, ranks among others, decisions and encodings: by hand and by brute force."""

import csv
import math
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from ordinalgp.metrics import macro_mean_absolute_error, weighted_kappa
from papers import gpor, tocuco
from papers.__main__ import EXPERIMENTS
from papers.data import DataUnavailableError, data_folder, fetch_benchmark, read_survey
from papers.models import Forest
from papers.pages import make_page, to_markdown
from papers.real_tables import (
    ORDERED,
    as_ranks,
    compute_survey,
    encode,
    load_survey,
    load_table,
    split_rows,
)
from papers.runner import Cell
from papers.statistics import published, ranks_among


@pytest.fixture
def shared():
    try:
        return data_folder()
    except DataUnavailableError as absent:
        pytest.skip(str(absent))


def cells_of(text: str, name: str) -> list[str]:
    (line,) = (line for line in text.splitlines() if line.startswith(f"| {name} "))
    return [cell.strip() for cell in line.strip("|").split("|")]


# ------------------------------------------------ cells at or below the best published figure


def fits(dataset, bins, model, *scores):
    """Records of partitions 1, 2, ... with (zero-one, absolute by median, log score)."""
    names = ("zero_one", "absolute_median", "log_score")
    stamp = {"version": "1.2", "absolute": 0.5, "rps": 0.1, "fit_seconds": 1.0}
    return [
        Cell(dataset, bins, split, model)._asdict() | dict(zip(names, each, strict=True)) | stamp
        for split, each in enumerate(scores, start=1)
    ]


def test_the_best_published_figure_is_that_of_any_of_four_methods():
    assert gpor.best_published("diabetes", 5) == {
        "zero_one": (48.46, "plsor"),
        "absolute": (62.0, "plsor"),
    }
    assert gpor.best_published("stocks", 10) == {
        "zero_one": (17.74, "svm"),
        "absolute": (18.04, "svm"),
    }


def test_cells_are_counted_as_printed():
    records = [
        # 48.46 and 62.00 are published: 48.464 % is printed the same, 62.006 % is not.
        *fits("diabetes", 5, "ep", (0.48, 0.61, 1.0), (0.48928, 0.63012, 2.0)),
        # 17.74 and 18.04 are published: below, and above.
        *fits("stocks", 10, "ep", (0.17, 0.19, 0.5), (0.17, 0.19, 0.7)),
    ]
    zero_one = gpor.compare_cells(records, "ep", "zero_one")
    assert (str(zero_one), zero_one.lost) == ("2 of 2", [])
    absolute = gpor.compare_cells(records, "ep", "absolute_median")
    assert str(absolute) == "0 of 2"
    assert absolute.lost[1] == "stocks, 10 bins, absolute 19.00 (SVM 18.04)"
    assert str(gpor.compare_cells(records, "map", "zero_one")) == "0 of 0"


def test_cells_without_a_published_figure_are_not_compared(monkeypatch):
    tables = {
        "gpor-table2": {"diabetes": {"zero_one": {"svm": [50.0, 1.0]}}, "stocks": {}},
        "plsor-table3": {"diabetes": {"zero_one": {}, "absolute": {"plsor": [60.0, 1.0]}}},
    }
    empty = {"figures": {}}
    monkeypatch.setattr(
        gpor, "published", lambda name: {"figures": tables[name]} if name in tables else empty
    )
    records = [
        *fits("diabetes", 5, "ep", (0.49, 0.61, 1.0)),
        *fits("stocks", 5, "ep", (0.01, 0.01, 0.1)),
    ]
    assert str(gpor.compare_cells(records, "ep", "zero_one")) == "1 of 1"
    assert str(gpor.compare_cells(records, "ep", "absolute_median")) == "0 of 1"


def test_log_scores_are_compared_on_the_partitions_of_both():
    records = [
        *fits("diabetes", 5, "ep", (0.5, 0.6, 1.0), (0.5, 0.6, 2.0), (0.5, 0.6, 0.0)),
        *fits("diabetes", 5, "plsor", (0.5, 0.6, 0.9), (0.5, 0.6, 1.9)),  # lower on both
        *fits("stocks", 5, "ep", (0.1, 0.1, 0.3), (0.1, 0.1, 0.3)),
        *fits("stocks", 5, "plsor", (0.1, 0.1, 0.25), (0.1, 0.1, 0.4)),  # higher by 0.025
        *fits("abalone", 5, "plsor", (0.1, 0.1, 0.1), (0.1, 0.1, 0.1)),  # EP was not run
    ]
    found = gpor.compare_log_scores(records, "plsor")
    assert str(found) == "1 of 2"
    assert found.lost == ["stocks, 5 bins, log score +0.0250"]
    text = to_markdown(make_page(EXPERIMENTS["gpor-cells"], records))
    counts = next(part for part in text.split("\n## ") if part.startswith("Cells at or below"))
    assert cells_of(counts, "EP") == ["EP", "2–3", "1 of 2", "2 of 2", "3 of 4", "–"]
    assert cells_of(counts, "PLSOR")[-1] == "1 of 2"
    assert "- diabetes, 5 bins, zero-one 50.00 (PLSOR 48.46)" in text


# ----------------------------------------------------------------------------------- ranks


def test_models_without_probabilities_have_no_log_scores():
    ep = fits("stocks", 5, "ep", (0.1, 0.1, 0.3), (0.1, 0.1, 0.4))
    records = ep + fits("stocks", 5, "svm", (0.1, 0.1, None), (0.1, 0.1, None))
    found = gpor.compare_log_scores(records, "svm")
    assert (found.compared, found.lost) == (0, [])


def test_ours_do_not_compete_with_each_other():
    ours = {"new": [1.0, 5.0, 3.0], "old": [1.5, 6.0, 3.0]}
    others = {"a": [2.0, 4.0, 3.0], "b": [3.0, 7.0, 1.0]}
    ranks = ranks_among(ours, others)
    assert_allclose([ranks["new"], ranks["old"]], [(1 + 2 + 2.5) / 3, (1 + 2 + 2.5) / 3])
    assert_allclose([ranks["a"], ranks["b"]], [(2 + 1 + 2.5) / 3, (3 + 3 + 1) / 3])
    assert ranks_among({}, others) == {}


def drawn(dataset, model, **errors):
    """Thirty equal records, all errors 0.5 under every decision unless given."""
    every = {f"{m}_{rule}": 0.5 for m in tocuco.MEASURES for rule in tocuco.RULES}
    known = {"log_score": 1.0, "rps": 0.1, "version": "1.2"}
    return [
        Cell(dataset, 0, split, model)._asdict() | every | errors | known for split in (1, 2, 3)
    ]


def test_ranks_beside_published_methods():
    """On Car the eight published accuracies are .999, .996, .995, .974 twice, .924, .923, .770."""
    records = [
        *drawn("car", "ep", ccr_mode=0.9741, mae_median=0.0004, qwk_kappa=1.0, amae_balanced=9.0),
        *drawn("car", "forest", ccr_mode=0.9, mae_median=0.001, mae_mode=0.0001),
    ]
    found = tocuco.standing(records, "ccr")
    assert found.sets == ["car"]
    ranks = found.ranks(found.decided, True)
    assert ranks["EP"] == 5  # 4, 5 and 6 share, as 0.9741 is printed 0.974
    assert ranks["MLP-T"] == ranks["MLP-CLM"] == 5
    assert ranks["random forest"] == 9
    assert ranks["OEAB"] == 1
    found = tocuco.standing(records, "mae")
    assert found.ranks(found.decided, False)["EP"] == 1
    assert found.ranks(found.own, False)["EP"] == 1.5  # both are printed 0.000
    text = to_markdown(make_page(EXPERIMENTS["tocuco"], records))
    means = next(part for part in text.split("\n## ") if part.startswith("Mean ranks"))
    assert cells_of(means, "EP")[1:] == [
        "1.00 (1.50)",
        "5.00 (5.00)",
        "10.00 (10.00)",
        "1.00 (1.00)",
    ]
    assert "- Accuracy, car: MLP 0.996, OEAB 0.999, XGB 0.995; ours 0.974." in text
    assert "absolute error, car" not in text


def test_data_sets_that_a_model_lacks_are_left_out():
    records = [*drawn("car", "ep"), *drawn("swd", "ep"), *drawn("swd", "forest")]
    assert tocuco.standing(records, "mae").sets == ["swd"]
    lone = to_markdown(make_page(EXPERIMENTS["tocuco"], drawn("swd", "forest")))
    assert "there are none of ours" in lone


@pytest.mark.data
def test_published_methods_are_those_of_the_file(shared):
    names = {"balanceScale": "balance_scale", "winequalityRed": "winequality_red"}
    figures = published("tocuco")["figures"]
    with open(shared / "tocuco_published.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    seen = 0
    for row in rows:
        dataset = names.get(row["dataset"], row["dataset"])
        if dataset in tocuco.DATASETS:
            assert all(figures[m][dataset][row["method"]] == float(row[m.upper()]) for m in figures)
            seen += 1
    assert seen == sum(len(methods) for methods in figures["mae"].values()) == 48


@pytest.mark.data
@pytest.mark.parametrize(
    "name, n_inputs, counts",
    [
        ("esl", 4, [52, 100, 116, 135, 62, 23]),
        ("winequality_red", 11, [63, 681, 638, 199, 18]),
        ("car", 21, [1210, 384, 69, 65]),
    ],
)
def test_levels_and_inputs_are_those_of_toc_uco(name, n_inputs, counts, shared):
    labels = tocuco.merged_labels(fetch_benchmark(name, shared))
    assert np.bincount(labels).tolist() == counts
    data = tocuco.load_split(Cell(name, 0, 1, "ep"), shared)
    assert data.X_train.shape == (round(0.7 * len(labels)), n_inputs)
    assert_allclose(np.bincount(data.y_train) / 0.7, counts, atol=1)
    again = tocuco.load_split(Cell(name, 0, 1, "forest"), shared)
    assert_array_equal(again.y_test, data.y_test)  # the same rows for every model


# ------------------------------------------------------------------------------- decisions


@pytest.fixture
def beliefs():
    rng = np.random.default_rng(3)
    proba = rng.dirichlet([0.6, 0.6, 0.6], size=7)
    return proba, np.array([0.7, 0.25, 0.05])


def test_the_balanced_choice_has_the_least_absolute_error_averaged_over_levels(beliefs):
    proba, shares = beliefs
    cost = np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
    expected = (proba / shares) @ cost
    assert_array_equal(tocuco.RULES["balanced"](proba, shares), expected.argmin(axis=1))


def test_no_other_choice_has_a_greater_expected_kappa(beliefs):
    """All 3^7 choices: one minus the ratio of expected squared error to that of chance."""
    proba, shares = beliefs
    squared = np.subtract.outer(np.arange(3), np.arange(3)) ** 2.0

    def kappa(chosen):
        rows = np.arange(len(proba))
        return 1 - (proba @ squared)[rows, chosen].sum() / (shares @ squared)[chosen].sum()

    best = max(kappa(np.array(each)) for each in product(range(3), repeat=len(proba)))
    found = kappa(tocuco.decide_kappa(proba, shares))
    assert_allclose(found, best)
    assert found > kappa(proba.argmax(axis=1))


def test_the_ratio_is_one_minus_kappa_when_labels_are_sure():
    labels = np.array([0, 1, 2, 2, 1, 0, 2])
    proba, shares = np.eye(3)[labels], np.bincount(labels) / len(labels)
    assert_array_equal(tocuco.decide_kappa(proba, shares), labels)
    found = tocuco.errors(labels, np.roll(proba, 1, axis=0), np.bincount(labels))
    wrong = np.roll(labels, 1)
    assert_allclose(found["qwk_mode"], weighted_kappa(labels, wrong), atol=1e-6)
    assert_allclose(found["amae_mode"], macro_mean_absolute_error(labels, wrong), atol=1e-6)
    assert_allclose(found["ccr_mode"], np.mean(labels == wrong), atol=1e-6)


def test_a_forest_gives_no_level_probability_zero():
    X, y = np.arange(20.0)[:, None], np.repeat([1, 2], 10)
    model = Forest(0, n_trees=9).fit(X, y)
    proba = model.predict_proba([[-5.0], [25.0]])
    # All nine trees agree; the tenth does not know.
    assert_allclose(proba, [[9.5 / 10, 0.5 / 10], [0.5 / 10, 9.5 / 10]])


# -------------------------------------------------------------------------------- encoding


def test_columns_are_encoded_as_by_scikit_learn():
    rng = np.random.default_rng(0)
    numbers = np.where(rng.uniform(size=40) < 0.2, np.nan, rng.normal(5, 2, size=40))
    words = rng.choice(["", "a", "b", "c"], size=40, p=[0.2, 0.4, 0.2, 0.2])
    whole = rng.choice(["x", "y"], size=40)
    train = rng.permutation(40) < 30
    found = encode({"n": numbers, "w": words, "v": whole}, train)
    table = np.column_stack([numbers.astype(object), words.astype(object), whole.astype(object)])
    table[:, 1] = [word or None for word in words]
    frequent = SimpleImputer(missing_values=None, strategy="most_frequent")
    rule = ColumnTransformer(
        [
            ("n", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), [0]),
            ("n gaps", MissingIndicator(), [0]),
            ("w", make_pipeline(frequent, OneHotEncoder(sparse_output=False)), [1]),
            ("w gaps", MissingIndicator(missing_values=None), [1]),
            ("v", OneHotEncoder(sparse_output=False), [2]),
        ]
    )
    assert_allclose(found, rule.fit(table[train]).transform(table).astype(float))


def test_new_texts_get_zeros_and_ordered_ones_their_places():
    train = np.array([True, True, False])
    assert_array_equal(encode({"w": np.array(["a", "b", "c"])}, train), [[1, 0], [0, 1], [0, 0]])
    assert_array_equal(as_ranks(np.array(["low", "", "high"]), ("low", "high")), [0, math.nan, 1])
    with pytest.raises(KeyError, match="mid"):
        as_ranks(np.array(["mid"]), ("low", "high"))


def test_a_survey_is_read_encoded_and_scored(tmp_path):
    data, surveys = tmp_path / "data", tmp_path / "surveys"
    data.mkdir()
    (data / "datasets.json").write_text('{"datasets": []}')
    with pytest.raises(DataUnavailableError, match="Put the folder surveys beside"):
        read_survey("happiness", data)
    surveys.mkdir()
    rng = np.random.default_rng(1)
    mood = rng.integers(3, size=90)
    levels = ORDERED["happiness"]["target"]
    attends = [ORDERED["happiness"]["attend"][2 * m] if rng.uniform() > 0.1 else "" for m in mood]
    rows = (f"{m},{a},{levels[m]}" for m, a in zip(mood, attends, strict=True))
    (surveys / "happiness.csv").write_text("\n".join(["age,attend,target", *rows, ""]))
    columns, y = load_survey("happiness", data)
    assert_array_equal(y, mood)
    assert list(columns) == ["age", "attend"]
    cell = Cell("happiness", 0, 1, "logistic", 60)
    split = split_rows(columns, y, cell)
    assert split.X_train.shape == (60, 3)  # a mark for the gaps of one column
    assert split.X_test.shape == (30, 3)
    record = compute_survey(cell, data)
    assert record["zero_one"] == 0
    assert record["log_score"] < 0.3


@pytest.mark.data
@pytest.mark.parametrize(
    "load, name, n_rows, n_levels",
    [
        (load_table, "computer_small", 8192, 5),
        (load_table, "diamonds", 53940, 8),
        (load_survey, "happiness", 17137, 3),
        (load_survey, "personality", 2764, 6),
    ],
)
def test_every_table_has_its_rows_and_levels(load, name, n_rows, n_levels, shared):
    if load is load_survey and not (shared.parent / "surveys").is_dir():
        pytest.skip("There is no folder surveys beside the data.")
    columns, y = load(name, shared)
    assert len(y) == n_rows
    assert len(np.unique(y)) == n_levels
    texts = {key for key, values in columns.items() if values.dtype.kind != "f"}
    assert texts == ({"workstat", "region", "owngun"} if name == "happiness" else set())
    first, other = (split_rows(columns, y, Cell(name, 0, 1, m, 1000)) for m in ("ep", "forest"))
    assert len(first.y_train) == 1000
    assert len(first.y_test) == min(2000, n_rows - 1000)
    assert_array_equal(first.X_test, other.X_test)
