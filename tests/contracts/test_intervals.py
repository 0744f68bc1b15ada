"""Intervals and balanced decisions of every classifier with probabilities."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

import ordinalgp
from ordinalgp import (
    CollaborativeOrdinalGP,
    LeastSquaresOrdinalClassifier,
    OrdinalGPClassifier,
    SparseBayesOrdinalClassifier,
)
from ordinalgp.datasets import make_ratings
from ordinalgp.decisions import decide, interval_scores, interval_threshold, intervals

NAMES = np.array(["poor", "fair", "good", "best"])  # alphabetical order differs
CALIBRATED = {
    "ep": OrdinalGPClassifier(RBF(1.0), optimizer=None),
    "laplace": OrdinalGPClassifier(RBF(1.0), inference="laplace", optimizer=None),
    "points": OrdinalGPClassifier(RBF(1.0), inducing=20, optimizer=None),
    "least squares": LeastSquaresOrdinalClassifier(RBF(1.0), optimizer=None),
}
MODELS = CALIBRATED | {"sparse": SparseBayesOrdinalClassifier(RBF(1.0), random_state=0)}
COVERAGES = (0.0, 0.3, 0.5, 0.8, 0.9, 0.95, 0.999, 1.0)


def noisy_levels(n, seed=0, cuts=(-1.2, 0.2, 1.0), noise=0.8):
    """Inputs on a grid, so that rows repeat, and levels that they do not determine."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)).round(1)
    return X, np.digitize(X[:, 0] + np.sin(2 * X[:, 1]) + noise * rng.normal(size=n), cuts)


def fitted(name, n=60, **options):
    X, y = noisy_levels(n, **options)
    return clone(MODELS[name]).set_params(categories=NAMES).fit(X, NAMES[y])


def ranks(labels):
    return np.argsort(NAMES)[np.searchsorted(np.sort(NAMES), labels)]


@pytest.mark.parametrize("name", CALIBRATED)
def test_the_threshold_comes_from_left_out_rows(name):
    y, model, new = noisy_levels(60)[1], fitted(name), noisy_levels(40, seed=1)[0]
    left = model.loo_proba()[:, ranks(np.sort(NAMES)).argsort()]
    scores = interval_scores(left)[np.arange(60), y]
    for coverage in COVERAGES:
        threshold = interval_threshold(scores, coverage)
        expected = np.column_stack(intervals(model.category_proba(new), threshold))
        assert_array_equal(ranks(model.predict_interval(new, coverage)), expected)


def test_without_left_out_rows_the_probabilities_are_trusted():
    model, new = fitted("sparse"), noisy_levels(40, seed=1)[0]
    p = model.category_proba(new)
    for row, (low, high) in zip(p, ranks(model.predict_interval(new, 0.8)), strict=True):
        assert row[low : high + 1].sum() >= 0.8
        assert low == high or row[low : high + 1].sum() - max(row[low], row[high]) < 0.8


@pytest.mark.parametrize("name", MODELS)
def test_intervals_are_nested_and_hold_the_most_probable_level(name):
    model, new = fitted(name), noisy_levels(40, seed=1)[0]
    mode = ranks(model.set_params(decision="mode").predict(new))
    found = [ranks(model.predict_interval(new, coverage)).T for coverage in COVERAGES]
    for (low, high), (lower, higher) in pairwise(found):
        assert np.all(lower <= low)
        assert np.all(high <= higher)
    assert np.all((found[0][0] <= mode) & (mode <= found[0][1]))
    assert_array_equal(found[-1], np.array([[0], [3]]) * np.ones((1, 40)))
    if name != "sparse":  # its runs have their own probability, not a rank among scores
        assert_array_equal(found[0], [mode, mode])


@pytest.mark.parametrize("name", MODELS)
def test_intervals_and_frequencies_are_saved(name, tmp_path):
    model, new = fitted(name), noisy_levels(40, seed=1)[0]
    model.save(tmp_path / "model.ogp")
    again = ordinalgp.load(tmp_path / "model.ogp")
    for coverage in (0.5, 0.9):
        interval = model.predict_interval(new, coverage)
        assert_array_equal(again.predict_interval(new, coverage), interval)
    balanced = [each.set_params(decision="balanced").predict(new) for each in (model, again)]
    assert_array_equal(*balanced)


@pytest.mark.parametrize("name", CALIBRATED)
def test_weighted_rows_are_copies(name):
    X, y = noisy_levels(40)
    copies = np.random.default_rng(2).integers(0, 3, 40)
    weighted = clone(MODELS[name]).fit(X, y, copies)
    repeated = clone(MODELS[name]).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    known = [each._result.interval_scores for each in (weighted, repeated)]
    totals = [np.sum(each.weights) for each in known]
    assert totals == [copies.sum(), copies.sum()]
    for coverage in (0.5, 0.8, 0.9):
        limits = [interval_threshold(each.scores, coverage, each.weights) for each in known]
        # Inducing points depend on the rows that they are chosen from.
        assert abs(limits[0] - limits[1]) < (0.1 if name == "points" else 1e-6)
    counts = [each._result.signature.counts for each in (weighted, repeated)]
    assert_array_equal(*counts)


def test_measured_coverage_is_near_the_nominal_one():
    X, y = noisy_levels(2200, seed=3)
    model = OrdinalGPClassifier().fit(X[:200], y[:200])
    for coverage in (0.8, 0.9, 0.95):
        low, high = model.predict_interval(X[200:], coverage).T
        covered = np.mean((low <= y[200:]) & (y[200:] <= high))
        # At least (n + 1) coverage of scores of 200 rows: a standard deviation of 0.02 to 0.03.
        assert coverage - 0.06 < covered < coverage + 0.07


def test_intervals_of_a_model_that_is_too_sure_are_widened():
    """Fourth powers of the probabilities: nominal runs cover too little, calibrated ones do not."""
    X, y = noisy_levels(1200, seed=4, noise=2.0)
    model = OrdinalGPClassifier(RBF(0.15), optimizer=None).fit(X[:300], y[:300])
    p, truth = model.category_proba(X[300:]), y[300:]
    sharp = p**4 / np.sum(p**4, axis=1, keepdims=True)
    low, high = intervals(sharp, np.nextafter(0.9, 0))
    assert np.mean((low <= truth) & (truth <= high)) < 0.8
    left = model.loo_proba() ** 4
    scores = interval_scores(left / left.sum(axis=1, keepdims=True))[np.arange(300), y[:300]]
    low, high = intervals(sharp, interval_threshold(scores, 0.9))
    assert np.mean((low <= truth) & (truth <= high)) > 0.85


def test_few_rows_give_all_levels():
    X, y = noisy_levels(8, seed=5)
    y[:2] = 0, 3
    model = OrdinalGPClassifier(RBF(1.0), categories=range(5), optimizer=None).fit(X, y)
    assert_array_equal(model.predict_interval(X, 0.9), [[0, 4]] * 8)  # the 9th of 8 scores
    assert model.predict_interval(X, 0.88).shape == (8, 2)  # ceil(7.92) = 8
    assert np.all(model.predict_interval(X, 0.88) < 4)  # level 4 has no rows


@pytest.mark.parametrize("coverage", [-0.1, 1.1, np.nan, "0.9", None, [0.5]])
def test_coverage_is_a_share(coverage):
    with pytest.raises(ValueError, match="coverage must be a number between 0 and 1, but is"):
        fitted("ep").predict_interval([[0.0, 0.0]], coverage)


@pytest.mark.parametrize("name", ["ep", "sparse"])
def test_partial_fit_counts_the_levels_of_all_rows(name):
    X, y = noisy_levels(80)
    model = clone(MODELS[name]).set_params(categories=range(4))
    model.partial_fit(X[:50], y[:50])
    first = model.predict_interval(X[:5])
    weights = np.arange(30) % 3
    model.partial_fit(X[50:], y[50:], sample_weight=weights)
    expected = np.bincount(y[:50], minlength=4) + np.bincount(y[50:], weights, minlength=4)
    assert_array_equal(model._result.signature.counts, expected)
    assert model.predict_interval(X[:5]).shape == first.shape
    model.set_params(decision="balanced")
    p = model.category_proba(X)
    assert_array_equal(model.predict(X), decide(p, "balanced", expected))


def test_rows_in_chunks_are_counted_too():
    X, y = noisy_levels(90)
    weights = np.arange(90) % 4
    parts = [slice(0, 40), slice(40, 42), slice(42, 90)]
    model = OrdinalGPClassifier(RBF(1.0), inducing=10, optimizer=None, random_state=0)
    model.fit(lambda: iter([(X[k], y[k], weights[k]) for k in parts]), None)
    assert_array_equal(model._result.signature.counts, np.bincount(y, weights))
    p = model.category_proba(X)
    low, high = intervals(p, np.nextafter(0.9, 0))
    assert_array_equal(model.predict_interval(X), np.column_stack([low, high]))


def test_balanced_predictions_err_less_on_rare_levels():
    X, y = noisy_levels(900, seed=6, cuts=(0.5, 1.5, 2.3))  # few rows of the upper levels
    model = OrdinalGPClassifier(RBF(1.0), optimizer=None).fit(X[:400], y[:400])
    error = {}
    for rule in ("median", "balanced"):
        off = np.abs(model.set_params(decision=rule).predict(X[400:]) - y[400:])
        error[rule] = np.mean([off[y[400:] == k].mean() for k in range(4)])
    assert error["balanced"] < 0.9 * error["median"]


def test_many_raters_have_both():
    ratings = make_ratings(n_raters=12, n_items=10, random_state=0)
    raters, items, values = ratings.raters, ratings.items, ratings.ratings
    model = CollaborativeOrdinalGP(max_iter=2, tol=1.0, decision="balanced").fit(
        raters, items, values
    )
    p, counts = model.category_proba(raters, items), np.unique(values, return_counts=True)[1]
    expected = model.categories_[decide(p, "balanced", counts)]
    assert_array_equal(model.predict(raters, items), expected)
    found = model.predict_interval(raters, items, coverage=0.7)
    low, high = intervals(p, np.nextafter(0.7, 0))
    assert_array_equal(found, model.categories_[np.column_stack([low, high])])
