"""The generators draw what they say, and the embedded rows are those of scikit-learn."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.datasets import load_diabetes

from ordinalgp import OrdinalGPClassifier
from ordinalgp.datasets import (
    load_demo,
    make_five_ranks_1d,
    make_sine_comparisons,
    make_three_ranks,
)


def border(X):
    return X[:, 1] + np.sin(2 * X[:, 0])


def test_three_ranks_without_noise_are_separated_by_their_borders():
    X, y = make_three_ranks(500, noise=0.0, random_state=1)
    assert X.shape == (500, 2)
    assert np.abs(X).max() <= 2
    latent = border(X)
    assert latent[y == 1].max() < -0.75 < latent[y == 2].min()
    assert latent[y == 2].max() < 0.75 < latent[y == 3].min()
    assert np.bincount(y)[1:].min() > 100


@pytest.mark.parametrize("noise", [0.1, 0.5])
def test_three_ranks_are_blurred_by_the_noise(noise):
    X, y = make_three_ranks(4000, noise=noise, random_state=1)
    near = np.abs(border(X) - 0.75) < 3 * noise
    above = norm.cdf((border(X)[near] - 0.75) / noise)
    z = (above - (y[near] == 3)) / np.sqrt(np.mean(above * (1 - above)))
    assert abs(z.mean()) < 4 / np.sqrt(near.sum())
    assert_allclose(np.mean(z**2), 1, atol=0.15)


def test_five_ranks_lie_in_the_papers_intervals():
    X, y = make_five_ranks_1d((30, 40, 50, 60, 70), random_state=1)
    assert X.shape == (250, 1)
    assert_array_equal(np.bincount(y)[1:], [30, 40, 50, 60, 70])
    for rank, (low, high) in enumerate([(2, 4), (4, 6), (8, 14), (14, 18), (18, 20)], 1):
        x = X[y == rank, 0]
        assert low <= x.min() < low + 0.5
        assert high - 0.5 < x.max() <= high
    assert_array_equal(make_five_ranks_1d()[1], np.repeat([1, 2, 3, 4, 5], [2, 3, 10, 5, 1]))


def test_five_ranks_need_five_counts():
    with pytest.raises(ValueError, match=r"for each of the 5 ranks, but is \(3, 4\)"):
        make_five_ranks_1d((3, 4))


@pytest.mark.parametrize("make", [make_three_ranks, make_five_ranks_1d])
def test_the_seed_decides(make):
    (X, y), (again, y_again) = make(random_state=7), make(random_state=7)
    other, _ = make(random_state=8)
    assert_array_equal(X, again)
    assert_array_equal(y, y_again)
    assert not np.array_equal(X, other)
    drawn, _ = make(random_state=np.random.RandomState(7))
    assert_array_equal(drawn, X)


@pytest.mark.parametrize("make", [make_three_ranks, make_five_ranks_1d])
def test_the_generated_ranks_can_be_learned(make):
    X, y = make(random_state=0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    assert OrdinalGPClassifier().fit(X, y).score(X, y) > 0.85


def test_demo_rows_are_the_diabetes_rows():
    demo, raw = load_demo(), load_diabetes(scaled=False)
    assert_array_equal(demo.X, raw.data)
    assert demo.X.shape == (442, len(demo.feature_names)) == (442, 10)
    low = {level: raw.target[demo.y == level].min() for level in demo.categories}
    high = {level: raw.target[demo.y == level].max() for level in demo.categories}
    assert [low[level] for level in demo.categories[1:]] == [100, 150, 252]
    for below, above in zip(demo.categories[:-1], demo.categories[1:], strict=True):
        assert high[below] < low[above]


def test_demo_says_what_it_holds():
    demo = load_demo()
    for level in demo.categories:
        count = int(np.sum(demo.y == level))
        assert f"{level} ({count}" in " ".join(demo.description.split())
    assert "442" in demo.description
    with pytest.raises(FrozenInstanceError):
        demo.X = None
    assert "array" not in repr(demo)


def test_sine_comparisons_are_won_by_the_larger_sine():
    X, pairs = make_sine_comparisons(400, n_items=30, random_state=1)
    assert X.shape == (30, 1)
    assert np.abs(X).max() <= np.pi
    assert np.all(np.sin(X[pairs[:, 0]]) > np.sin(X[pairs[:, 1]]))
    assert set(pairs.ravel().tolist()) == set(range(30))
    assert len(np.unique(np.sort(pairs, axis=1), axis=0)) > 200
    few, first = make_sine_comparisons(10, n_items=30, random_state=1)
    assert_array_equal(few, X)
    assert_array_equal(first, pairs[:10])


def test_sine_comparisons_need_two_items():
    _, pairs = make_sine_comparisons(5, n_items=2, random_state=0)
    assert_array_equal(np.sort(pairs, axis=1), [[0, 1]] * 5)
    with pytest.raises(ValueError, match="n_items must be at least 2"):
        make_sine_comparisons(5, n_items=1)
