"""Scaling of the inputs of the default models, against scikit-learn's and scipy's."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm, rankdata
from sklearn.preprocessing import StandardScaler

from ordinalgp.stacking.inputs import Inputs

RNG = np.random.default_rng(0)
N = 150
HEAVY = RNG.standard_cauchy(N)
X = np.column_stack([RNG.normal(3.0, 2.0, N), RNG.choice([-5.0, 7.0], N), np.full(N, 4.0), HEAVY])


def test_numbers_are_standardised_and_two_values_become_zero_and_one():
    Z = Inputs.learn(X, np.ones(N)).seen(X, "standardised")
    assert_allclose(Z[:, [0, 3]], StandardScaler().fit_transform(X[:, [0, 3]]), atol=1e-12)
    assert_allclose(Z[:, 1], X[:, 1] > 0)
    assert_allclose(Z[:, 2], 0)


def test_heavy_tails_become_normal_scores():
    found = Inputs.learn(X, np.ones(N))
    assert found.heavy.tolist() == [3]
    Z = found.seen(X, "normal scores")
    scores = norm.ppf((rankdata(HEAVY) - 0.5) / N)
    assert_allclose(Z[:, 3], scores / scores.std(), atol=1e-10)
    assert_allclose(Z[:, :3], found.seen(X, "standardised")[:, :3])
    beyond = X[:2].copy()
    beyond[:, 3] = -1e9, 1e9  # stays at the lowest and highest score
    assert_allclose(found.seen(beyond, "normal scores")[:, 3], [Z[:, 3].min(), Z[:, 3].max()])


def test_scores_of_many_values_are_interpolated():
    many = np.random.default_rng(1).standard_cauchy((3000, 1))
    found = Inputs.learn(many, np.ones(3000))
    Z = found.seen(many, "normal scores")[:, 0]
    scores = norm.ppf((rankdata(many[:, 0]) - 0.5) / 3000)
    middle = np.abs(scores) < 1.5  # 200 knots, 15 ranks apart: 0.04 in score at the ends of this
    assert_allclose(Z[middle], scores[middle], atol=0.04)
    order = np.argsort(many[:, 0])
    assert np.all(np.diff(Z[order]) >= 0)


def test_weights_are_copies_and_rows_of_weight_zero_are_not_seen():
    copies = RNG.integers(0, 4, N)
    weighted = Inputs.learn(X, copies.astype(float))
    repeated = Inputs.learn(np.repeat(X, copies, axis=0), np.ones(copies.sum()))
    for view in ("standardised", "normal scores"):
        assert_allclose(weighted.seen(X, view), repeated.seen(X, view), atol=1e-10)


@pytest.mark.parametrize("scale", [1e-200, 1e150])
def test_extreme_scales(scale):
    Z = Inputs.learn(scale * X, np.ones(N)).seen(scale * X, "normal scores")
    assert_allclose(Z, Inputs.learn(X, np.ones(N)).seen(X, "normal scores"), atol=1e-8)
