"""Folds: each row once, levels in equal shares, groups and copies together."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import StratifiedKFold

from ordinalgp.tables.cells import BadInput
from ordinalgp.tables.folds import copies, make_folds
from ordinalgp.tables.frames import as_table

RNG = np.random.default_rng(0)


def parts(folds, n):
    tests = np.concatenate([test for _, test in folds])
    assert np.array_equal(np.sort(tests), np.arange(n))
    for train, test in folds:
        assert np.array_equal(np.sort(np.append(train, test)), np.arange(n))
    return [test for _, test in folds]


@pytest.mark.parametrize(("n", "k"), [(20, 2), (103, 5), (500, 10)])
def test_levels_have_equal_shares_as_in_scikit_learn(n, k):
    codes = np.concatenate([np.repeat(np.arange(4), k), RNG.choice(4, n, p=[0.1, 0.2, 0.3, 0.4])])
    found = parts(make_folds(codes, k), len(codes))
    other = StratifiedKFold(k, shuffle=True, random_state=0).split(codes, codes)
    ours = np.array([np.bincount(codes[test], minlength=4) for test in found])
    theirs = np.array([np.bincount(codes[test], minlength=4) for _, test in other])
    assert np.all(np.ptp(ours, axis=0) <= 1), "a level's rows differ by at most one"
    assert np.array_equal(np.sort(ours, axis=0), np.sort(theirs, axis=0))
    assert np.ptp(ours.sum(axis=1)) <= 1, "and so do all rows"


def test_folds_depend_on_the_seed_alone():
    codes = RNG.integers(3, size=60)
    first, same, other = (make_folds(codes, 5, random_state=s) for s in (0, 0, 1))
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(first, same, strict=True))
    assert not all(np.array_equal(a[1], b[1]) for a, b in zip(first, other, strict=True))


def test_a_group_is_in_one_fold_and_levels_are_near_their_shares():
    groups = np.repeat(np.arange(60), RNG.integers(1, 9, size=60))
    codes = RNG.integers(3, size=len(groups))
    found = parts(make_folds(codes, 5, groups=[f"person {g}" for g in groups]), len(codes))
    for group in range(60):
        assert sum(group in groups[test] for test in found) == 1
    expected = np.bincount(codes) / 5
    counts = np.array([np.bincount(codes[test], minlength=3) for test in found])
    assert np.all(np.abs(counts - expected) <= 0.25 * expected)


@pytest.mark.parametrize("gap", [None, float("nan"), pd.NA, pd.NaT])
def test_rows_without_a_group_stand_alone(gap):
    groups = pd.Series(["a"] * 4 + [None, gap, gap, "b"], dtype=object)
    found = parts(make_folds([0, 1] * 4, 5, groups=groups), 8)
    assert sorted(map(len, found)) == [1, 1, 1, 1, 4]


def test_too_few_groups():
    with pytest.raises(BadInput, match="5 folds need at least 5 groups, but there are 2"):
        make_folds([0, 1, 0, 1], 5, groups=["a", "a", "b", "b"])
    with pytest.raises(ValueError, match="groups must name one group per row, 4 in all"):
        make_folds([0, 1, 0, 1], 2, groups=["a"])
    with pytest.raises(ValueError, match="n_folds must be at least 2"):
        make_folds([0, 1, 0, 1], 1)


def test_copies_of_rows_that_chance_does_not_repeat():
    x = RNG.normal(size=(50, 3))
    rows = np.concatenate([np.arange(50), np.arange(50), np.arange(10)])
    words = [f"{v:.3f}" for v in x[rows, 2]]
    table = as_table({"a": x[rows, 0], "b": x[rows, 1], "c": words})
    codes = (rows % 3).astype(np.intp)
    found = copies(table, codes)
    assert np.array_equal(found[:50], found[50:100])
    assert len(np.unique(found)) == 50
    for train, test in make_folds(codes, 5, table=table):
        assert not set(rows[train]) & set(rows[test])
    other = codes.copy()
    other[50:100] = (codes[50:100] + 1) % 3  # equal rows with another level are no copies
    assert len(np.unique(copies(table, other))) == 100


def test_equal_rows_of_few_values_are_no_copies():
    sex, yes = RNG.integers(2, size=(2, 200)).astype(float)
    table, codes = as_table({"sex": sex, "yes": yes}), RNG.integers(3, size=200)
    assert np.array_equal(copies(table, codes), np.arange(200))
    found = parts(make_folds(codes, 5, table=table), 200)
    assert set(map(len, found)) == {40}


def test_gaps_are_equal_to_gaps():
    a = np.append(RNG.normal(size=30), [np.nan, np.nan])
    b = np.append(RNG.normal(size=30), [7.25, 7.25])
    found = copies(as_table({"a": a, "b": b}), np.zeros(32, dtype=np.intp))
    assert found[30] == found[31]
    assert len(np.unique(found)) == 31
