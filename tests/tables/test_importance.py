"""Importance of columns: what predictions of unseen rows lose."""

from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax

from ordinalgp import (
    LeastSquaresOrdinalClassifier,
    OrdinalGPClassifier,
    SequentialOrdinalGP,
    SparseBayesOrdinalClassifier,
    StackedOrdinalGP,
)
from ordinalgp.plots import ImportanceDisplay
from ordinalgp.tables import TableModel
from ordinalgp.tables.cross_validation import ValidationSettings, hold_out
from ordinalgp.tables.encoding import Encoder, NumberColumn
from ordinalgp.tables.importance import (
    ImportanceSettings,
    increases,
    losses,
    mean_and_error,
    most_associated,
)
from ordinalgp.tables.summary import importance_in_words


def table(n=150, seed=0):
    """Two true columns, and noise with gaps and noise of words."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n))
    f = 1.5 * (a + np.sin(1.2 * b))
    y = np.digitize(f + 0.7 * rng.normal(size=n), np.quantile(f, [0.33, 0.67]))
    noise = rng.normal(size=(2, n))
    noise[rng.random((2, n)) < 0.15] = np.nan
    words = rng.choice(list("uvw"), n).astype(object)
    return {"gaps 1": noise[0], "a": a, "gaps 2": noise[1], "b": b, "words": words}, y


WORDS = {
    "auto": (StackedOrdinalGP(random_state=0), None),
    "gp": (OrdinalGPClassifier(), "ard"),
    "laplace": (OrdinalGPClassifier(inference="laplace"), "ard"),
    "one length scale": (OrdinalGPClassifier(), "rbf"),
    "sequential": (SequentialOrdinalGP(), "ard"),
    "least-squares": (LeastSquaresOrdinalClassifier(random_state=0), "ard"),
    "sparse": (SparseBayesOrdinalClassifier("auto", random_state=0), None),
}


@pytest.mark.parametrize("word", WORDS)
def test_true_columns_come_first_and_noise_is_near_zero(word):
    classifier, kernel = WORDS[word]
    rows = table(80 if word == "auto" else 150)  # six models each take their time
    found = TableModel(classifier, kernel=kernel, folds=3).fit(*rows).importance_.as_dict()
    assert set(sorted(found, key=lambda name: -found[name][0])[:2]) == {"a", "b"}
    for name in ("a", "b"):
        mean, error = found[name]
        assert mean > 0.1
        assert mean > 3 * error
    for name in ("gaps 1", "gaps 2", "words"):
        mean, error = found[name]
        assert mean <= 3 * error
        assert abs(mean) < 0.2 * found["b"][0]


def test_equal_columns_share_the_importance():
    """Each stands in for the other: a low importance does not say that a column is unrelated."""
    columns, y = table()
    alone = TableModel(kernel="rbf", folds=3).fit(columns, y).importance_.as_dict()
    rng = np.random.default_rng(5)
    twice = columns | {"a again": columns["a"] + 0.05 * rng.normal(size=len(y))}
    both = TableModel(kernel="rbf", folds=3).fit(twice, y).importance_.as_dict()
    for name in ("a", "a again"):
        assert both[name][0] < 0.75 * alone["a"][0]
        assert both[name][0] > 3 * both[name][1]


def test_increases_are_those_of_every_other_value():
    """The mean over permutations is that over all rows whose value could take the place."""
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(12, 3)), rng.integers(3, size=12)
    weights = rng.normal(size=(3, 3))

    def predict(rows):
        return softmax(rows @ weights, axis=1)

    groups = {"pair": [0, 2], "single": [1]}
    found = increases(predict, X, codes, groups, 4000, np.random.default_rng(1))
    for place, features in enumerate(groups.values()):
        expected = np.empty(12)
        for row in range(12):
            changed = np.tile(X[row], (12, 1))
            changed[:, features] = X[:, features]
            expected[row] = losses(predict(changed), np.full(12, codes[row])).mean()
        expected -= losses(predict(X), codes)
        assert_allclose(found[:, place], expected, atol=0.1)
        assert_allclose(found[:, place].mean(), expected.mean(), atol=0.01)


@pytest.mark.parametrize("rows", [np.arange(30), np.array([3, 4, 17])])
@pytest.mark.parametrize("cells_per_call", [1, 500, 10**9])
def test_predictions_in_blocks_are_those_of_one_column_at_a_time(rows, cells_per_call):
    """The same permutations, one call per column or one call for all."""
    rng = np.random.default_rng(3)
    X, codes = rng.normal(size=(30, 6)), rng.integers(4, size=30)
    weights = rng.normal(size=(6, 4))
    groups = {"a": [5], "none": [], "b": [0, 2], "c": [1], "d": [3, 4]}

    def predict(table):
        return softmax(table @ weights, axis=1)

    options = 2, np.random.default_rng(7), rows, cells_per_call
    found = increases(predict, X, codes, groups, *options)
    again, known = np.random.default_rng(7), codes[rows]
    for place, features in enumerate(groups.values()):
        expected = -losses(predict(X[rows]), known) if features else np.zeros(len(rows))
        for _ in range(2 * bool(features)):
            changed, order = X[rows].copy(), again.permutation(30)
            changed[:, features] = X[order[rows]][:, features]
            expected += losses(predict(changed), known) / 2
        assert_allclose(found[:, place], expected, atol=1e-12)


def wide(n=200, seed=0):
    """Noise, and five columns that the level depends on, each in another way."""
    rng = np.random.default_rng(seed)
    X, codes = rng.normal(size=(n, 300)), rng.integers(4, size=n)
    X[:, 7] += codes  # rises
    X[:, 100] = np.exp(3 * (X[:, 100] - codes))  # falls, with a heavy tail
    X[:, 150] = rng.choice([-1, 1], n) * (2 * codes + X[:, 150])  # high at both ends
    X[:, 298] = codes == rng.integers(4, size=n)  # noise of zeros and ones
    X[:, 299] = (codes > 1) ^ (rng.random(n) < 0.2)  # true most of the time
    names = [f"column {place}" for place in range(299)]
    groups = {name: [place] for place, name in enumerate(names)}
    groups["column 298"] = [298, 299]  # two features of one column
    return X, codes, groups


@pytest.mark.parametrize("seed", range(5))
def test_columns_that_the_level_depends_on_are_found_among_many(seed):
    true = ["column 7", "column 100", "column 150", "column 298"]
    X, codes, groups = wide(seed=seed)
    assert list(most_associated(X, codes, groups, 4)) == true
    found = most_associated(X, codes, groups, 20)
    assert len(found) == 20
    assert set(true) <= set(found)
    assert all(groups[name] == features for name, features in found.items())
    assert most_associated(X, codes, groups, 299) == groups


def test_many_features_of_noise_are_not_associated():
    """Forty features and their squares explain two fifths of the variance of any 200 rows."""
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=200)
    X = np.column_stack([rng.normal(size=(200, 40)), codes + 1.5 * rng.normal(size=200)])
    groups = {"many": list(range(40)), "true": [40]}
    assert list(most_associated(X, codes, groups, 1)) == ["true"]


def test_a_wide_table_has_the_importance_of_its_true_columns():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 130))
    y = np.digitize(X[:, 20] + X[:, 110] + 0.3 * rng.normal(size=120), [-0.7, 0.7])
    columns = {f"x{place}": values for place, values in enumerate(X.T)}
    model = TableModel(OrdinalGPClassifier(inference="laplace"), kernel="linear", folds=2)
    found = model.fit(columns, y).importance_.as_dict()
    assert list(found) == list(columns)
    assert set(sorted(found, key=lambda name: -found[name][0])[:2]) == {"x20", "x110"}
    assert all(found[name][0] > 3 * found[name][1] for name in ("x20", "x110"))
    assert 0 < sum(pair == (0, 0) for pair in found.values()) <= 30  # never among the hundred


@pytest.mark.parametrize("n", [1, 2, 40])
def test_rows_that_were_kept_out_choose_columns_and_others_measure_them(n):
    """Were they the same rows, columns of noise would be chosen for what they then measure."""
    rng = np.random.default_rng(2)
    X, codes = rng.normal(size=(n, 30)), rng.integers(2, size=n)
    columns = tuple(NumberColumn(f"x{k}", 0.0, 0.0, 1.0, -3.0, 3.0, 0) for k in range(30))

    class Seen:
        rows: ClassVar = []

        def category_proba(self, rows):
            self.rows.append(len(rows))
            p = 1 / (1 + np.exp(-rows.sum(axis=1)))
            return np.column_stack([1 - p, p])

    limits = ImportanceSettings(measured=5)
    parts = Seen(), Encoder(columns), X, codes, np.array([10.0, 10.0])
    found = hold_out(*parts, ValidationSettings(importance=limits)).importance
    assert Seen.rows[:2] == [n, max(1, n // 2)]  # all rows are scored, half of them shuffled
    Seen.rows.clear()
    assert len(found.mean) == 30
    assert np.isfinite(found.mean).all()
    assert np.count_nonzero(found.mean) <= 5
    assert (np.count_nonzero(found.mean) == 5) == (n == 40)  # of two rows, none may change places


def test_a_wide_table_is_told_that_not_all_columns_were_shuffled():
    assert "Only the 100 columns" in importance_in_words(101)
    assert "the rest count as zero" in importance_in_words(101)
    assert "Only" not in importance_in_words(100)


def test_a_column_that_never_changes_has_none():
    X = np.ones((6, 2))
    X[:, 1] = np.arange(6)
    found = increases(
        lambda rows: softmax(rows, axis=1),
        X,
        np.zeros(6, dtype=int),
        {"constant": [0], "gone": [], "steps": [1]},
        3,
        np.random.default_rng(0),
    )
    assert_allclose(found[:, :2], 0)
    assert np.abs(found[:, 2]).max() > 0


def test_copies_do_not_make_an_error_smaller():
    d, fold = np.random.default_rng(0).normal(size=40), np.zeros(40, dtype=int)
    mean, error = mean_and_error(d, np.arange(40), fold)
    assert_allclose([mean, error], [d.mean(), d.std(ddof=1) / np.sqrt(40)])
    again = np.tile(np.arange(40), 3)
    assert_allclose(mean_and_error(d[again], again, fold[again]), [mean, error])


def test_models_that_differ_between_folds_make_an_error_larger():
    d = np.repeat([-1.0, 0.0, 0.0, 1.0], 25) + 0.01 * np.random.default_rng(0).normal(size=100)
    fold = np.repeat(np.arange(4), 25)
    error = mean_and_error(d, np.arange(100), fold)[1]
    assert_allclose(error, np.std([-1, 0, 0, 1], ddof=1) / 2, rtol=0.02)


def test_the_cost_has_a_limit():
    settings = ImportanceSettings()
    assert settings.for_columns(3) == (500, 5)
    for n in (50, 200, 5000):
        rows, repetitions = settings.for_columns(n)
        shuffled = min(n, settings.measured)
        assert rows >= 100
        assert rows * repetitions * shuffled <= 500 * 5 * 20 + 100 * shuffled


def test_the_picture_has_bars_with_errors():
    pytest.importorskip("matplotlib")
    model = TableModel(OrdinalGPClassifier(optimizer=None), kernel="rbf", folds=3)
    columns, y = table(60)
    columns["price in $ or $US"] = columns.pop("words")
    display = ImportanceDisplay.from_estimator(model.fit(columns, y))
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert names[-1] in ("a", "b")
    assert len(display.bars_) == 5
    found = model.importance_.as_dict()
    widths = [bar.get_width() for bar in display.bars_]
    assert_allclose(widths, sorted(mean for mean, _ in found.values()))
    lines = display.bars_.errorbar.lines[2][0].get_segments()
    spans = [segment[1, 0] - segment[0, 0] for segment in lines]
    assert_allclose(spans[-1], 4 * found[names[-1]][1])
    with pytest.raises(ValueError, match=r"Fit TableModel\(\.\.\., folds=5\)"):
        ImportanceDisplay.from_estimator(
            TableModel(OrdinalGPClassifier(optimizer=None), kernel="rbf").fit(columns, y)
        )
