"""Comparisons can be cross-validated, and nothing leaks from training into the test."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.utils.estimator_checks import check_no_attributes_set_in_init

from ordinalgp import PreferenceGP
from ordinalgp.datasets import make_sine_comparisons
from ordinalgp.metrics import make_ordinal_scorer
from ordinalgp.model_selection import ComparisonClassifier, ComparisonKFold

ITEMS, PAIRS = make_sine_comparisons(80, n_items=25, random_state=0)
OUTCOMES = np.tile([1, -1], 40)
PAIRS = np.where(OUTCOMES[:, None] > 0, PAIRS, PAIRS[:, ::-1])


def shared(pairs, train, test):
    """Unordered pairs that are on both sides."""
    left, right = ({tuple(sorted(p)) for p in pairs[rows].tolist()} for rows in (train, test))
    return left & right


@pytest.mark.parametrize("hold_out", ["pairs", "items", "comparisons"])
def test_every_comparison_is_tested_and_never_trained_on_at_once(hold_out):
    pairs = np.vstack([PAIRS, PAIRS[:20, ::-1]])
    times = np.zeros(len(pairs), dtype=int)
    for train, test in ComparisonKFold(4, hold_out=hold_out, random_state=0).split(pairs):
        assert not set(train) & set(test)
        assert len(train) + len(test) == len(pairs)
        times[test] += 1
        if hold_out == "items":
            # At least one item of every tested comparison was never seen.
            seen = set(pairs[train].ravel().tolist())
            assert all(not set(pair) <= seen for pair in pairs[test].tolist())
        elif hold_out == "pairs":
            assert not shared(pairs, train, test)
    assert np.all(times >= 1)
    assert np.all(times == 1) or hold_out == "items"


def test_repetitions_would_leak_if_comparisons_stood_alone():
    pairs = np.vstack([PAIRS, PAIRS[:, ::-1]])
    folds = ComparisonKFold(4, hold_out="comparisons", random_state=0).split(pairs)
    assert all(shared(pairs, *fold) for fold in folds)


def test_folds_are_repeatable_and_take_names():
    names = np.array(list("abcdefghijklmnopqrstuvwxy"))[PAIRS]
    folds = ComparisonKFold(3, random_state=1)
    for (train, test), (again, other) in zip(folds.split(PAIRS), folds.split(names), strict=True):
        assert_array_equal(train, again)
        assert_array_equal(test, other)
    assert folds.get_n_splits() == 3


@pytest.mark.parametrize(
    ("options", "X", "message"),
    [
        ({"hold_out": "pair"}, PAIRS, "Did you mean 'pairs'"),
        ({"n_splits": 1}, PAIRS, "n_splits must be from 2"),
        ({"n_splits": 99}, PAIRS, r"number of pairs, \d+, but is 99"),
        ({}, PAIRS[:, 0], r"shape \(m, 2\)"),
    ],
)
def test_bad_splits_are_answered(options, X, message):
    with pytest.raises(ValueError, match=message):
        next(ComparisonKFold(**options).split(X))


def test_the_classifier_says_what_the_model_says():
    classifier = ComparisonClassifier(PreferenceGP(), ITEMS).fit(PAIRS, OUTCOMES)
    model = PreferenceGP().fit(ITEMS, PAIRS, OUTCOMES)
    left, right = ITEMS[PAIRS].transpose(1, 0, 2)
    proba = classifier.predict_proba(PAIRS)
    assert_allclose(proba[:, 1], model.comparison_proba(left, right))
    assert_allclose(proba.sum(axis=1), 1)
    assert_allclose(classifier.score(PAIRS, OUTCOMES), model.score(ITEMS, PAIRS, OUTCOMES))
    check_no_attributes_set_in_init("ComparisonClassifier", clone(classifier))


def test_named_levels_keep_their_order_in_scores():
    words = np.where(OUTCOMES > 0, "win", "defeat")
    model = ComparisonClassifier(PreferenceGP(levels=["defeat", "draw", "win"]), ITEMS)
    model.fit(PAIRS, words)
    assert model.categories_.tolist() == ["defeat", "draw", "win"]
    assert_array_equal(model.classes_, np.unique(["defeat", "draw", "win"]))
    assert_allclose(model.predict_proba(PAIRS), model.category_proba(PAIRS))
    score = make_ordinal_scorer("log_score")(model, PAIRS, words)
    rows = np.arange(len(words)), np.where(words == "win", 2, 0)
    assert_allclose(score, np.log(model.category_proba(PAIRS)[rows]).mean())


def test_cross_validation_searches_and_predictions():
    model, folds = ComparisonClassifier(PreferenceGP(), ITEMS), ComparisonKFold(3, random_state=0)
    scoring = make_ordinal_scorer("log_score")
    scores = cross_val_score(model, PAIRS, OUTCOMES, cv=folds, scoring=scoring)
    assert scores.mean() > -0.4
    assert cross_val_score(model, PAIRS, OUTCOMES, cv=folds).mean() > 0.8
    coded = ComparisonClassifier(PreferenceGP(levels=[0, 1]), ITEMS)
    won = (OUTCOMES > 0).astype(int)
    proba = cross_val_predict(coded, PAIRS, won, cv=folds, method="predict_proba")
    assert np.mean(proba.argmax(axis=1) == (OUTCOMES > 0)) > 0.8
    grid = {"estimator__noise": [0.1, 5.0]}
    search = GridSearchCV(model, grid, cv=folds, scoring=scoring).fit(PAIRS, OUTCOMES)
    assert search.best_params_["estimator__noise"] == 0.1


def test_recoded_labels_are_not_taken_for_ties():
    model = ComparisonClassifier(PreferenceGP(), ITEMS)
    with pytest.raises(ValueError, match="recodes labels like this"):
        cross_val_predict(model, PAIRS, OUTCOMES, cv=2, method="predict_proba")
    named = ComparisonClassifier(PreferenceGP(levels=[0, 1]), ITEMS).fit(PAIRS, OUTCOMES > 0)
    assert_allclose(named.predict_proba(PAIRS), model.fit(PAIRS, OUTCOMES).predict_proba(PAIRS))


def test_items_without_features():
    model = ComparisonClassifier(PreferenceGP("independent"), 25)
    assert model.fit(PAIRS, OUTCOMES).score(PAIRS, OUTCOMES) > 0.9
    names = [f"item {k}" for k in range(25)]
    named = ComparisonClassifier(PreferenceGP("independent"), names)
    words = np.array(names)[PAIRS]
    assert_allclose(named.fit(words, OUTCOMES).predict_proba(words), model.predict_proba(PAIRS))
