"""Levels that categories name and no row has: as probable as if half a row had them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ordinalgp import LeastSquaresOrdinalClassifier, OrdinalGPClassifier, SequentialOrdinalGP
from ordinalgp.core.gaussian import Moments
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.models.absent_levels import with_half_rows

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 1))
Y = np.digitize(X[:, 0] + 0.5 * RNG.normal(size=120), [-1.2, -0.5, 0.0, 0.6, 1.3])
MODELS = {
    "ep": OrdinalGPClassifier,
    "laplace": lambda **options: OrdinalGPClassifier(inference="laplace", **options),
    "logit": lambda **options: OrdinalGPClassifier(likelihood="logit", **options),
    "least squares": LeastSquaresOrdinalClassifier,
}
ABSENT = {"lowest": [0], "inside": [2], "highest": [5], "two inside": [2, 3], "both ends": [0, 5]}


@pytest.mark.parametrize("absent", ABSENT)
@pytest.mark.parametrize("model", MODELS)
def test_a_level_without_rows_is_expected_in_half_a_row(model, absent):
    kept = ~np.isin(Y, ABSENT[absent])
    found = MODELS[model](categories=range(6)).fit(X[kept], Y[kept])
    share = 0.5 / (kept.sum() + 3.0)
    # Left-out rows are those that the thresholds were moved for, before the posterior followed.
    expected = found.loo_category_proba().mean(axis=0)[ABSENT[absent]]
    assert_allclose(expected, share, rtol=0.2)
    named = MODELS[model](categories=np.unique(Y[kept])).fit(X[kept], Y[kept])
    p, own = found.predict_proba(X[kept]), np.searchsorted(found.classes_, Y[kept])
    q, rows = named.predict_proba(X[kept]), np.arange(kept.sum())
    lost = np.mean(np.log(q[rows, own]) - np.log(p[rows, own]))
    assert abs(lost) < 3 * share * len(ABSENT[absent])


def test_new_rows_with_the_level_are_no_surprise_without_bounds():
    kept = Y < 5
    gp, steps = (
        kind(categories=range(6)).fit(X[kept], Y[kept])
        for kind in (OrdinalGPClassifier, SequentialOrdinalGP)
    )
    scores = [-np.log(model.category_proba(X[~kept])[:, 5]).mean() for model in (gp, steps)]
    assert scores[0] < 6
    assert scores[0] < scores[1] + 1


def test_all_levels_with_rows_keep_their_thresholds():
    named, plain = (OrdinalGPClassifier(categories=c).fit(X, Y) for c in (range(6), None))
    assert_array_equal(named.thresholds_, plain.thresholds_)
    moments = Moments(X[:, 0], np.ones(120))
    link = OrdinalProbit.from_thresholds([-1.0, -1.0 + 1e-9, 1.0], 0.3)
    assert with_half_rows(link, moments, np.ones(120), np.full(4, 30.0)) is link


def test_thresholds_that_were_given_stay():
    kept = Y != 2
    found = OrdinalGPClassifier(
        likelihood=OrdinalProbit.from_thresholds([-1.0, -0.5, -0.499, 0.5, 1.0], 0.3),
        categories=range(6),
        optimizer=None,
    ).fit(X[kept], Y[kept])
    assert_allclose(found.thresholds_, [-1.0, -0.5, -0.499, 0.5, 1.0])


def test_a_level_whose_rows_all_have_weight_zero_has_none():
    kept = Y != 3
    weighted = OrdinalGPClassifier(categories=range(6)).fit(X, Y, kept.astype(float))
    without = OrdinalGPClassifier(categories=range(6)).fit(X[kept], Y[kept])
    assert_allclose(weighted.thresholds_, without.thresholds_, atol=1e-6)


def test_a_level_is_never_made_narrower():
    """One that the prior, or few rows, make wide already."""
    moments = Moments(np.zeros(4), np.ones(4))
    link = OrdinalProbit.from_thresholds([-1.0, 1.0], 1.0)
    assert with_half_rows(link, moments, np.ones(4), np.array([2.0, 0.0, 2.0])) is not None
    wide = with_half_rows(link, moments, np.ones(4), np.array([2.0, 0.0, 2.0]))
    assert_allclose(wide.thresholds, link.thresholds)


def test_many_levels_without_rows_leave_room_for_the_others():
    counts = np.array([0.0] * 20 + [3.0] + [0.0] * 20)
    thresholds = np.concatenate([-3 + 1e-6 * np.arange(20), 3 + 1e-6 * np.arange(20)])
    link = OrdinalProbit.from_thresholds(thresholds, 0.5)
    moments = Moments(np.zeros(3), np.full(3, 0.1))
    found = with_half_rows(link, moments, np.ones(3), counts)
    p = found.probabilities(moments.mean, moments.var)[0]
    assert np.all(np.diff(found.thresholds) > 0)
    assert 0.3 < p[20] < 0.4
    assert_allclose(p[:20], p[:20].mean(), rtol=1e-6)
