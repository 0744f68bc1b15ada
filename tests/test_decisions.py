"""Decisions against the brute-force minimum of the expected loss; intervals grown by hand."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from ordinalgp.decisions import decide, interval_scores, interval_threshold, intervals

LOSSES = {
    "mode": lambda true, chosen: float(true != chosen),
    "median": lambda true, chosen: abs(true - chosen),
    "mean": lambda true, chosen: (true - chosen) ** 2,
}


def expected_losses(row, loss):
    """Expected loss of choosing each level, one at a time."""
    levels = range(len(row))
    return [sum(p * loss(true, chosen) for true, p in enumerate(row)) for chosen in levels]


@st.composite
def tables(draw):
    """Probabilities in 1/32, so that sums and ties are exact."""
    n_levels = draw(st.integers(2, 6))
    rows = draw(
        st.lists(
            st.lists(st.integers(0, 32), min_size=n_levels - 1, max_size=n_levels - 1),
            min_size=1,
            max_size=5,
        )
    )
    return np.array([np.diff([0, *sorted(cuts), 32]) / 32 for cuts in rows])


@pytest.mark.parametrize("rule", LOSSES)
@given(table=tables())
def test_a_rule_has_the_least_expected_loss_and_ties_go_low(rule, table):
    for row, chosen in zip(table, decide(table, rule), strict=True):
        assert chosen == np.argmin(expected_losses(row, LOSSES[rule]))


@given(table=tables(), seed=st.integers(0, 2**32 - 1))
def test_a_cost_matrix_has_the_least_expected_cost(table, seed):
    n_levels = table.shape[1]
    cost = np.random.default_rng(seed).integers(0, 9, size=(n_levels, n_levels))
    for row, chosen in zip(table, decide(table, cost), strict=True):
        assert chosen == np.argmin(expected_losses(row, lambda i, j: cost[i, j]))


@pytest.mark.parametrize("rule", LOSSES)
@given(table=tables())
def test_a_rule_agrees_with_its_cost_matrix(rule, table):
    levels = range(table.shape[1])
    cost = [[LOSSES[rule](true, chosen) for chosen in levels] for true in levels]
    assert_array_equal(decide(table, rule), decide(table, cost))


def test_certainty_is_followed_by_every_rule():
    for rule in (*LOSSES, 1 - np.eye(4)):
        assert_array_equal(decide(np.eye(4), rule), [0, 1, 2, 3])


def test_the_answer_is_integer_codes():
    codes = decide([[0.2, 0.8]], "mean")
    assert codes.dtype == np.intp
    assert codes.shape == (1,)


def test_no_rows_only_check_the_rule():
    assert decide(np.empty((0, 3)), "median").shape == (0,)
    with pytest.raises(ValueError, match=r"must have shape \(3, 3\)"):
        decide(np.empty((0, 3)), np.eye(2))


@pytest.mark.parametrize("rule", ["average", "", None, 3.0, len, [["a", "b"], ["c", "d"]]])
def test_an_unknown_rule_lists_the_known_ones(rule):
    known = "'mode', 'median', 'balanced', 'mean' or a matrix of costs, but"
    with pytest.raises(ValueError, match=known):
        decide([[0.5, 0.5]], rule)


@pytest.mark.parametrize("cost", [np.eye(3), np.zeros((2, 3)), [1, 2]])
def test_a_cost_matrix_of_another_shape_says_what_was_needed(cost):
    with pytest.raises(ValueError, match=r"for 2 levels must have shape \(2, 2\), but has"):
        decide([[0.5, 0.5]], cost)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_cost_that_is_not_finite_is_named(bad):
    with pytest.raises(ValueError, match=r"finite, but cost\[1, 0\] is (nan|inf)"):
        decide([[0.5, 0.5]], [[0, 1], [bad, 0]])


def test_probabilities_must_form_a_table():
    with pytest.raises(ValueError, match=r"one column per level, but has shape \(2,\)"):
        decide([0.5, 0.5])


@pytest.mark.parametrize("row", [[0.5, 0.6], [1.2, -0.2], [np.nan, 1.0]])
def test_a_row_that_is_no_distribution_is_named(row):
    with pytest.raises(ValueError, match="sum to one, but row 1 is"):
        decide([[0.5, 0.5], row])


# ---------------------------------------------------------------------------- balanced


def macro_errors(joint):
    """Expected absolute error, averaged over levels, of every map from inputs to levels."""
    inputs, n_levels = joint.shape
    levels = np.flatnonzero(joint.sum(axis=0))
    for chosen in product(range(n_levels), repeat=inputs):
        per_level = [joint[:, i] @ np.abs(i - np.array(chosen)) / joint[:, i].sum() for i in levels]
        yield np.mean(per_level), chosen


@pytest.mark.parametrize("seed", range(20))
def test_balanced_has_the_least_error_averaged_over_levels_of_all_maps(seed):
    rng = np.random.default_rng(seed)
    common = rng.exponential(size=4) ** 3  # some levels are rare
    joint = rng.exponential(size=(5, 4)) * common
    joint /= joint.sum()
    if seed % 4 == 0:
        joint[:, seed // 4 % 4] = 0.0  # a level that does not occur
        joint /= joint.sum()
    posterior = joint / joint.sum(axis=1, keepdims=True)
    chosen = decide(posterior, "balanced", joint.sum(axis=0))
    assert tuple(chosen) == min(macro_errors(joint))[1]


def test_balanced_beats_the_median_on_simulated_rows():
    rng = np.random.default_rng(0)
    rank = rng.choice(5, 20_000, p=[0.8, 0.1, 0.05, 0.03, 0.02])
    x = rank + rng.normal(size=len(rank))
    likelihood = np.exp(-0.5 * (x[:, None] - np.arange(5)) ** 2)
    shares = np.bincount(rank) / len(rank)
    posterior = likelihood * shares / (likelihood @ shares)[:, None]
    errors = {
        rule: [np.abs(decide(posterior, rule, shares) - rank)[rank == k].mean() for k in range(5)]
        for rule in ("median", "balanced")
    }
    assert np.mean(errors["balanced"]) < 0.8 * np.mean(errors["median"])


@given(table=tables())
def test_with_equal_frequencies_balanced_is_the_median(table):
    same = np.full(table.shape[1], 8)  # a power of two, so that ties stay exact
    assert_array_equal(decide(table, "balanced", same), decide(table, "median"))


def test_balanced_survives_levels_without_rows():
    with np.errstate(all="raise"):
        chosen = decide([[0.4, 0.6, 0.0], [0.0, 1.0, 0.0]], "balanced", [3, 0, 1])
    assert_array_equal(chosen, [0, 1])  # the second row is certain of a level without rows


def test_balanced_needs_frequencies():
    with pytest.raises(ValueError, match="needs the frequencies of the levels, but none"):
        decide([[0.5, 0.5]], "balanced")


@pytest.mark.parametrize("bad", [[1.0], [1, 2, 3], [-1, 2], [0, 0], [np.nan, 1], [[1, 2]]])
def test_frequencies_must_be_one_number_per_level(bad):
    with pytest.raises(ValueError, match="frequencies must be 2 non-negative numbers"):
        decide([[0.5, 0.5]], "balanced", bad)


# ---------------------------------------------------------------------------- intervals


def grown_by_hand(row, levels):
    """Levels in the order in which they join, and the mass of the run before each."""
    row = [row[k] for k in levels]
    first = max(range(len(row)), key=lambda k: (row[k], -k))
    run, joined = [first], [(first, 0.0)]
    while len(run) < len(row):
        beside = [k for k in (run[0] - 1, run[-1] + 1) if 0 <= k < len(row)]
        best = max(beside, key=lambda k: (row[k], -k))
        joined.append((best, sum(row[k] for k in run) / sum(row)))
        run = sorted([*run, best])
    return {levels[k]: mass for k, mass in joined}


@given(table=tables())
def test_scores_are_those_of_runs_grown_level_by_level(table):
    scores = interval_scores(table)
    for row, found in zip(table, scores, strict=True):
        expected = grown_by_hand(row, range(len(row)))
        assert found.tolist() == [expected[k] for k in range(len(row))]


def test_levels_without_rows_never_join_and_are_no_gap():
    scores = interval_scores([[0.4, 0.1, 0.45, 0.05]], [1, 0, 1, 1])[0]
    expected = grown_by_hand([0.4, 0.1, 0.45, 0.05], [0, 2, 3])
    assert np.isinf(scores[1])
    np.testing.assert_allclose([scores[k] for k in expected], list(expected.values()))
    assert intervals([[0.4, 0.1, 0.45, 0.05]], 0.6, [1, 0, 1, 1]) == (0, 2)
    assert intervals([[0.4, 0.1, 0.45, 0.05]], np.inf, [1, 0, 1, 0]) == (0, 3)


@given(table=tables(), cuts=st.lists(st.integers(0, 33), min_size=2, max_size=2))
def test_intervals_are_runs_and_nested(table, cuts):
    low, high = sorted(cuts)
    lower, upper = intervals(table, low / 32)
    wider = intervals(table, high / 32)
    assert np.all(wider[0] <= lower)
    assert np.all(upper <= wider[1])
    inside = interval_scores(table) <= low / 32
    assert_array_equal(inside.sum(axis=1), upper - lower + 1)
    mode = table.argmax(axis=1)
    assert np.all((lower <= mode) & (mode <= upper))


@given(table=tables(), wanted=st.integers(1, 32))
def test_a_run_stops_once_it_has_the_probability(table, wanted):
    """Without calibration: at least the coverage, and less without the last level."""
    lower, upper = intervals(table, np.nextafter(wanted / 32, 0))
    for row, i, j in zip(table, lower, upper, strict=True):
        assert row[i : j + 1].sum() >= wanted / 32
        assert i == j or row[i : j + 1].sum() - max(row[i], row[j]) < wanted / 32


def test_the_threshold_is_an_order_statistic():
    scores = np.arange(1, 20) / 100  # 19 of them
    for k in range(1, 20):
        assert interval_threshold(scores[::-1], k / 20) == k / 100  # (19 + 1) k / 20 = k
    assert interval_threshold(scores, 0.901) == 0.19  # ceil(18.02)
    assert interval_threshold(scores, 0.951) == np.inf  # the 20th of 19
    assert interval_threshold(scores, 1.0) == np.inf
    assert interval_threshold([], 0.5) == np.inf


def test_weights_are_copies_of_scores():
    rng = np.random.default_rng(0)
    scores, copies = rng.random(12), rng.integers(0, 4, 12)
    for coverage in (0.01, 0.3, 0.5, 0.8, 0.9, 0.95, 0.99):
        expected = interval_threshold(np.repeat(scores, copies), coverage)
        assert interval_threshold(scores, coverage, copies) == expected


def test_the_threshold_covers_new_rows_from_the_same_source():
    """Exactly P(coverage) = k / (n + 1) for continuous scores, whatever their distribution."""
    rng = np.random.default_rng(0)
    for n, coverage in ((9, 0.8), (39, 0.9), (50, 0.5)):
        draws = rng.random((4_000, n + 1)) ** 3
        limits = np.array([interval_threshold(row, coverage) for row in draws[:, 1:]])
        expected = np.ceil((n + 1) * coverage - 1e-9) / (n + 1)
        assert abs(np.mean(draws[:, 0] <= limits) - expected) < 0.025
