"""Explanations: Shapley values against their definition, and the nearest other levels."""

from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.table_cases import LEVELS, school

from ordinalgp import OrdinalGPClassifier, SequentialOrdinalGP
from ordinalgp.tables import TableModel, explain
from ordinalgp.tables.cells import BadInput
from ordinalgp.tables.explanation import Game, level_scale, round_values


def interacting(X):
    """Two outputs that no sum of functions of single columns can make."""
    first = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) * X[:, 3] * X[:, 4] + X[:, 4]
    return np.column_stack([first, np.tanh(first) + X[:, 3] ** 2])


def by_definition(predict, background, places, x):
    """Mean gain of each column over all orders, one permutation after the other."""
    orders = list(permutations(range(len(places))))
    total = 0.0
    for order in orders:
        mixed, gain = background.copy(), [0.0] * len(places)
        for column in order:
            before = predict(mixed).mean(axis=0)
            mixed[:, places[column]] = x[places[column]]
            gain[column] = predict(mixed).mean(axis=0) - before
        total = total + np.array(gain)
    return total / len(orders)


@pytest.fixture(scope="module")
def game():
    rng = np.random.RandomState(0)
    places = [np.array([0, 1]), np.array([2]), np.array([3]), np.array([4])]
    return Game(interacting, rng.randn(7, 5), places), rng.randn(5)


def test_exact_contributions_follow_the_definition(game):
    rules, x = game
    values, errors = rules.contributions(x, np.random.RandomState(0))
    expected = by_definition(interacting, rules.background, rules.places, x)
    assert_allclose(values, expected, atol=1e-12)
    assert not errors.any()


def test_sampled_contributions_are_unbiased_with_honest_errors(game):
    rules, x = game
    exact = rules.contributions(x, None)[0]
    sampler = Game(interacting, rules.background, rules.places, most_exact=1)
    draws = [sampler.contributions(x, np.random.RandomState(seed)) for seed in range(300)]
    values, errors = (np.array(part) for part in zip(*draws, strict=True))
    spread = values.std(axis=0)
    assert_allclose(values.mean(axis=0), exact, atol=4 * (spread / np.sqrt(300)).max())
    assert_allclose(np.sqrt((errors**2).mean(axis=0)), spread, rtol=0.2, atol=1e-12)
    assert spread[:, 1].min() > 0.001  # of the second output, which pairs do not make exact


def test_sampled_contributions_sum_exactly(game):
    rules, x = game
    sampler = Game(interacting, rules.background, rules.places, most_exact=1)
    values = sampler.contributions(x, np.random.RandomState(3))[0]
    away = interacting(x[None])[0] - interacting(rules.background).mean(axis=0)
    assert_allclose(values.sum(axis=0), away, atol=1e-12)


# ------------------------------------------------------------------------------ models


@pytest.fixture(scope="module")
def fitted():
    """Model of numbers and nominal columns with gaps, and its rows."""
    columns, grade = school()
    classifier = OrdinalGPClassifier(categories=LEVELS)
    model = TableModel(classifier, kernel="rbf").fit(columns, [LEVELS[g - 1] for g in grade])
    return model, columns


def first(columns, n):
    return {name: cells[:n] for name, cells in columns.items()}


def test_contributions_sum_to_prediction_minus_average(fitted):
    model, columns = fitted
    found = explain(model, first(columns, 5))
    p = model.category_proba(first(columns, 5))
    average = model.classifier_.category_proba(model.sample_).mean(axis=0)
    assert found.exact
    assert_allclose(found.average_probabilities, average)
    assert_allclose(found.probability_contributions.sum(axis=1), p - average, atol=1e-12)
    ranks = np.array([1, 2, 3])
    assert_allclose(found.contributions.sum(axis=1), (p - average) @ ranks, atol=1e-12)
    mean = model.latent_mean_and_variance(first(columns, 5))[0]
    assert found.latent_contributions is not None
    assert found.average_latent is not None
    assert_allclose(found.latent_contributions.sum(axis=1), mean - found.average_latent, atol=1e-9)


def test_an_additive_function_is_explained_by_its_effects():
    """Of a sum of functions of single columns, each contribution is its own function's."""
    columns, grade = school()
    model = TableModel(OrdinalGPClassifier(), kernel="additive").fit(columns, grade)
    found = explain(model, first(columns, 4))
    background = model.encoder_.decode(model.sample_)
    effects = model.effects(first(columns, 4)).mean - model.effects(background).mean.mean(axis=0)
    assert_allclose(found.latent_contributions, effects, atol=1e-8)


def test_a_column_that_changes_nothing_contributes_nothing():
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    table = {"x": x, "always": np.ones(40), "word": ["same"] * 40}
    model = TableModel(OrdinalGPClassifier()).fit(table, np.digitize(x, [-0.5, 0.5]))
    found = explain(model, {"x": [0.7], "always": [1.0], "word": ["same"]})
    assert_array_equal(found.contributions[0, 1:], 0)
    moved = {each.column: (each.higher, each.lower) for each in found.rows[0].columns}
    assert moved["always"] == moved["word"] == (None, None)


def test_many_columns_are_sampled_and_repeatable():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 8))
    table = {f"x{k}": X[:, k] for k in range(8)}
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2], [-0.5, 0.5])
    model = TableModel(OrdinalGPClassifier()).fit(table, y)
    row = {name: cells[:1] for name, cells in table.items()}
    one, again = explain(model, row), explain(model, row)
    assert not one.exact
    assert_array_equal(one.contributions, again.contributions)
    assert one.errors.max() > 0
    few = explain(model, row, max_background=7)
    assert few.n_background == 7
    away = few.probabilities[0] - few.average_probabilities
    assert_allclose(few.probability_contributions[0].sum(axis=0), away, atol=1e-12)


def test_models_without_a_latent_function_are_explained():
    columns, grade = school()
    model = TableModel(SequentialOrdinalGP()).fit(columns, grade)
    found = explain(model, first(columns, 2))
    assert found.latent_contributions is None
    assert found.rows[0].latent is None
    assert found.rows[0].level == model.predict(first(columns, 2))[0]


def test_rows_tell_level_interval_and_value(fitted):
    model, columns = fitted
    found = explain(model, first(columns, 6), coverage=0.8)
    assert [row.level for row in found.rows] == model.predict(first(columns, 6)).tolist()
    ends = model.predict_interval(first(columns, 6), 0.8).tolist()
    assert [[row.lower, row.upper] for row in found.rows] == ends
    values = {each.column: each.value for each in found.rows[3].columns}
    assert values["hours"] is None
    assert values["sleep"] == columns["sleep"][3]
    assert values["home town"] == columns["home town"][3]
    sizes = [abs(each.contribution) for each in found.rows[0].columns]
    assert sizes == sorted(sizes, reverse=True)
    assert len(found.records()) == 6 * 4


def test_the_latent_position_is_measured_in_noise(fitted):
    model, columns = fitted
    for row, mean in zip(
        explain(model, first(columns, 8)).rows,
        model.latent_mean_and_variance(first(columns, 8))[0],
        strict=True,
    ):
        away = (model.thresholds_ - mean) / model.noise_
        up, down = away[away > 0], -away[away <= 0]
        assert row.latent is not None
        assert row.latent.to_higher == (pytest.approx(up.min()) if len(up) else None)
        assert row.latent.to_lower == (pytest.approx(down.min()) if len(down) else None)


# ------------------------------------------------------------------------------ other levels


def replaced(columns, row, name, values):
    one = {other: [cells[row]] * len(values) for other, cells in columns.items()}
    return one | {name: list(values)}


def ranks_with(model, columns, row, name, values):
    found = model.predict(replaced(columns, row, name, values))
    return np.array([LEVELS.index(level) for level in found])


@pytest.mark.parametrize("row", [0, 3, 8, 20])
def test_changes_of_numbers_are_the_nearest(fitted, row):
    """Against all values of a fine grid: none nearer leads to that side, and the value does."""
    model, columns = fitted
    alone = {name: cells[row : row + 1] for name, cells in columns.items()}
    found = explain(model, alone).rows[0]
    level = LEVELS.index(found.level)
    for name in ("hours", "sleep"):
        each = next(each for each in found.columns if each.column == name)
        cells = [cell for cell in columns[name] if cell is not None]
        now = np.median(cells) if columns[name][row] is None else columns[name][row]
        grid = np.linspace(min(cells), max(cells), 2001)
        levels = ranks_with(model, columns, row, name, grid)
        step = (grid[-1] - grid[0]) / 500
        for sign, change in ((1, each.higher), (-1, each.lower)):
            hits = np.abs(grid[np.sign(levels - level) == sign] - now)
            if change is None:
                assert not len(hits)
                continue
            assert min(cells) <= change.value <= max(cells)
            reached = ranks_with(model, columns, row, name, [change.value])[0]
            assert LEVELS[reached] == change.level
            assert np.sign(reached - level) == sign
            assert abs(abs(change.value - now) - hits.min()) <= 1.01 * step


def test_changes_of_nominal_columns_are_all_tried(fitted):
    model, columns = fitted
    n = 12
    for row, found in enumerate(explain(model, first(columns, n)).rows):
        level = LEVELS.index(found.level)
        for name in ("tutor", "home town"):
            each = next(each for each in found.columns if each.column == name)
            others = sorted({c for c in columns[name] if c is not None} - {columns[name][row]})
            levels = ranks_with(model, columns, row, name, others)
            for sign, change in ((1, each.higher), (-1, each.lower)):
                away = [abs(k - level) for k in levels if np.sign(k - level) == sign]
                assert (change is None) == (not away)
                if change is not None:
                    reached = levels[others.index(change.value)]
                    assert LEVELS[reached] == change.level
                    assert abs(reached - level) == min(away)


def test_some_rows_have_changes_in_both_directions(fitted):
    """So that the tests above have something to test."""
    model, columns = fitted
    rows = explain(model, columns).rows
    both = [each for row in rows for each in row.columns if each.higher and each.lower]
    assert len(both) >= 3


def test_whole_numbers_stay_whole():
    rng = np.random.default_rng(0)
    age = rng.integers(20, 70, 60)
    model = TableModel(OrdinalGPClassifier()).fit({"age": age}, np.digitize(age, [35, 50]))
    found = explain(model, {"age": [40]}).rows[0].columns[0]
    assert found.higher is not None
    assert found.lower is not None
    assert abs(found.higher.value - 50) <= 1
    assert abs(found.lower.value - 34) <= 1
    assert found.higher.value % 1 == found.lower.value % 1 == 0


def test_a_value_beyond_the_range_is_led_back_into_it():
    x = np.linspace(0, 1, 40)
    model = TableModel(OrdinalGPClassifier()).fit({"x": x}, np.digitize(x, [0.3, 0.6]))
    found = explain(model, {"x": [1.4]}).rows[0].columns[0]
    assert found.lower is not None
    assert found.lower.value <= 1


@pytest.mark.parametrize(
    "low, high", [(0, 1), (-3.7, 12.25), (1e-9, 3e-9), (1e7, 1e7 + 1), (-5e12, 9e12), (0.1, 0.3)]
)
def test_round_values_cover_the_range(low, high):
    values = round_values(low, high)
    assert values[0] == low
    assert values[-1] == high
    assert 500 <= len(values) <= 5002
    assert np.all(np.diff(values) > 0)
    assert np.diff(values).max() <= (high - low) / 500 * (1 + 1e-6)


@pytest.mark.parametrize(
    "low, high",
    [(0, 5e-324), (0, 1e-308), (-1e308, 1e308), (1e300, 1.0000000000000002e300), (1e16, 1e16 + 8)],
)
def test_round_values_at_the_limits_of_numbers(low, high):
    values = round_values(low, high)
    assert np.all(np.isfinite(values))
    assert (values[0], values[-1]) == (low, high)
    assert len(values) <= 5002


def test_round_values_are_round():
    assert 0.3 in round_values(0.1, 0.7)
    assert round_values(2, 5, whole=True).tolist() == [2, 3, 4, 5]
    assert len(round_values(0, 10**6, whole=True)) <= 5002


@pytest.mark.parametrize(
    "levels, scale",
    [
        ([3, 4, 5], [3, 4, 5]),
        ([1.0, 2.0], [1, 2]),
        ([1, 2, 4], [1, 2, 3]),
        ([0.5, 1.5], [1, 2]),
        (["low", "high"], [1, 2]),
    ],
)
def test_the_scale_of_levels(levels, scale):
    assert level_scale(np.array(levels)).tolist() == scale


# ------------------------------------------------------------------------------ bad input


def test_bad_input_is_explained(fitted):
    model, columns = fitted
    with pytest.raises(BadInput, match="lacks the column 'sleep'"):
        explain(model, {name: cells for name, cells in columns.items() if name != "sleep"})
    with pytest.raises(BadInput, match="'many' is not a number"):
        explain(model, replaced(columns, 0, "sleep", ["many"]))
    with pytest.raises(ValueError, match="coverage"):
        explain(model, columns, coverage=1.5)
    with pytest.raises(ValueError, match="max_background"):
        explain(model, columns, max_background=0)


# ------------------------------------------------------------------------------ kinds of columns


def test_dates_and_ordered_columns_change_to_their_neighbours():
    """The level rises with the date, and with the size; others must not be skipped."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    day, size = rng.integers(0, 400, 80), rng.integers(0, 4, 80)
    sizes = ["s", "m", "l", "xl"]
    table = pd.DataFrame(
        {
            "day": pd.Timestamp("2023-01-01") + pd.to_timedelta(day, "D"),
            "size": pd.Categorical.from_codes(size, sizes, ordered=True),
        }
    )
    y = np.digitize(day / 100 + size, [2.5, 4.5])
    model = TableModel(OrdinalGPClassifier()).fit(table, y)
    row = table.iloc[[0]].assign(day=pd.Timestamp("2023-05-31"), size="m")  # 1.5 + 1: at the border
    found = explain(model, row).rows[0]
    columns = {each.column: each for each in found.columns}
    assert columns["day"].value == "2023-05-31"
    assert columns["size"].value == "m"
    change = columns["size"].higher or columns["size"].lower
    assert change is not None
    assert change.value in ("s", "l")
    moved = columns["day"].lower or columns["day"].higher
    assert moved is not None
    assert model.predict(row.assign(day=pd.Timestamp(moved.value)))[0] == moved.level
    assert len(moved.value) == len("2023-05-31")


def test_a_new_nominal_value_is_explained(fitted):
    model, columns = fitted
    found = explain(model, replaced(columns, 0, "home town", ["Dorf"])).rows[0]
    assert {each.column: each.value for each in found.columns}["home town"] == "Dorf"
