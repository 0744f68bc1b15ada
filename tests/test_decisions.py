"""Decisions against the brute-force minimum of the expected loss."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from ordinalgp.decisions import decide

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
    with pytest.raises(ValueError, match="'mode', 'median', 'mean' or a matrix of costs, but"):
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
