"""Ordered labels, absent levels and decisions."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import (
    RBF,
)
from tests.gp.common import LEVELS, in_levels, make_data, quick

from ordinalgp import OrdinalGPClassifier
from ordinalgp.decisions import decide
from ordinalgp.tables import cut_levels


@pytest.mark.parametrize(
    "give",
    [
        lambda y: in_levels(y),
        lambda y: in_levels(y).tolist(),
        lambda y: in_levels(y).astype(object),
        lambda y: pd.Series(in_levels(y)),
        lambda y: pd.Series(pd.Categorical(in_levels(y), LEVELS, ordered=True)),
        lambda y: pl.Series(in_levels(y).tolist(), dtype=pl.Enum(LEVELS)),
    ],
    ids=["array", "list", "object", "series", "ordered categorical", "polars Enum"],
)
def test_words_in_every_container_give_the_same_model(give):
    X, y = make_data()
    numbers = quick().fit(X, y)
    labels = give(y)
    declared = hasattr(labels, "dtype") and (
        getattr(labels.dtype, "ordered", False) or isinstance(labels.dtype, pl.Enum)
    )
    words = quick(categories=None if declared else LEVELS).fit(X, labels)
    assert_array_equal(words.categories_, LEVELS)
    assert_array_equal(words.classes_, ["high", "low", "mid"])
    assert_array_equal(words.category_proba(X), numbers.category_proba(X))
    # classes_ is sorted as scikit-learn sorts, and predict_proba follows it.
    assert_allclose(words.predict_proba(X), numbers.predict_proba(X)[:, [2, 0, 1]], rtol=1e-15)
    assert_array_equal(words.predict(X), in_levels(numbers.predict(X)))
    assert_allclose(words.loo_proba(), numbers.loo_proba()[:, [2, 0, 1]], rtol=1e-15)
    assert words.score(X, labels) == numbers.score(X, y) > 0.5


@pytest.mark.parametrize(
    "levels",
    [[-3, 0, 10], [0.5, 1.0, 4.5], [False, True], np.array([1, 2, 9], dtype=np.uint8)],
    ids=["integers", "half stars", "booleans", "unsigned"],
)
def test_numbers_and_booleans_are_their_own_order(levels):
    levels = np.asarray(levels)
    X, y = make_data(r=len(levels))
    model, codes = quick().fit(X, levels[y]), quick().fit(X, y)
    assert_array_equal(model.categories_, levels)
    assert_array_equal(model.classes_, levels)
    assert model.predict(X).dtype == levels.dtype
    assert_array_equal(model.predict(X), levels[codes.predict(X)])
    assert_allclose(model.predict_proba(X), codes.predict_proba(X), rtol=1e-14)
    assert_allclose(model.predict_proba(X), model.category_proba(X), rtol=1e-14)
    assert model.score(X, levels[y]) == codes.score(X, y)
    assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X), rtol=1e-12)


def test_ten_half_star_levels():
    X, y = make_data(n=60, r=10, noise=0.1)
    stars = 0.5 + y / 2
    model = quick().fit(X, stars)
    assert_array_equal(model.categories_, np.arange(0.5, 5.5, 0.5))
    assert set(model.predict(X)) <= set(model.categories_)
    assert 0 < model.score(X, stars) == np.mean(model.predict(X) == stars)


@pytest.mark.parametrize("absent", [0, 1, 2, 3], ids=["first", "second", "third", "last"])
def test_absent_levels_keep_their_place(inference, absent):
    names = np.array(["d", "c", "b", "a"])
    kept = np.delete(names, absent)
    X, y = make_data(n=40, r=3)
    model = OrdinalGPClassifier(inference=inference, categories=names).fit(X, kept[y])
    assert_array_equal(model.categories_, names)
    assert_array_equal(model.classes_, sorted(kept))
    assert model.thresholds_.shape == (3,)
    assert np.all(np.diff(model.thresholds_) > 0)
    everything = model.category_proba(X)
    assert everything.shape == (40, 4)
    assert_allclose(everything.sum(axis=1), 1, rtol=1e-12)
    observed = np.delete(everything, absent, axis=1)
    sorted_back = np.argsort(kept)
    scaled = (observed / observed.sum(axis=1, keepdims=True))[:, sorted_back]
    assert_allclose(model.predict_proba(X), scaled, rtol=1e-12)
    assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-12)
    assert model.loo_proba().shape == (40, 3)
    assert set(model.predict(X)) <= set(names)
    # Data speak against a level that never occurs where the others do.
    assert everything[:, absent].mean() < 0.1


def test_a_level_between_two_observed_ones_is_an_absent_threshold_gap():
    """Between levels 0 and 2 something would have been seen: the gap shrinks."""
    X, y = make_data(n=40, r=2)
    start = quick(categories=[0, 1, 2]).fit(X, 2 * y)
    found = OrdinalGPClassifier(RBF(1.2), categories=[0, 1, 2]).fit(X, 2 * y)
    assert found.likelihood_.gaps[0] < start.likelihood_.gaps[0]


COSTS = {
    "mode": "mode",
    "median": "median",
    "mean": "mean",
    "cost": np.array([[0, 1, 9, 9], [2, 0, 1, 9], [9, 2, 0, 1], [9, 9, 5, 0.0]]),
}


@pytest.mark.parametrize("rule", COSTS.values(), ids=COSTS.keys())
def test_predictions_follow_the_decision(inference, rule):
    X, y = make_data(n=30, r=4, noise=1.0)
    query = np.random.default_rng(2).normal(scale=2, size=(200, 2))
    names = np.array(["w", "z", "x", "y"])
    model = quick(inference=inference, decision=rule, categories=names).fit(X, names[y])
    proba = model.category_proba(query)
    assert_array_equal(model.predict(query), names[decide(proba, rule)])
    if not (isinstance(rule, str) and rule == "mode"):
        assert np.any(decide(proba, rule) != decide(proba, "mode"))


def test_the_decision_can_be_changed_after_the_fit():
    X, y = make_data(n=30, r=4, noise=1.0)
    model = quick().fit(X, y)
    for rule in COSTS.values():
        model.set_params(decision=rule)
        assert_array_equal(model.predict(X), decide(model.category_proba(X), rule))


def test_times_are_no_levels():
    days = np.datetime64("2024-01-01") + np.arange(60)
    for y in (days, days.tolist(), days.astype("M8[ns]")):
        with pytest.raises(ValueError, match=r"60 different times .2024-01-01.*cut_levels\(np"):
            OrdinalGPClassifier().fit(np.zeros((60, 1)), y)
    labels, levels = cut_levels(np.asarray(days, dtype="M8[s]").astype(float), 5)
    assert len(levels) == len(set(labels)) == 5
