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
    make_product_ranks,
    make_ratings,
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
    with pytest.raises(ValueError, match=r"one number per rank, 5 in all, but is \(3, 4\)"):
        make_five_ranks_1d((3, 4))


def test_product_ranks_have_the_papers_shares():
    X, y = make_product_ranks(21_000, random_state=1)
    assert X.shape == (21_000, 2)
    assert 0 <= X.min() < 0.01
    assert 9.99 < X.max() <= 10
    counts = np.array([4431, 4535, 3949, 3780, 4305])  # section 5.1.1
    sd = np.sqrt(counts * (1 - counts / 21_000))
    # Both are draws; four standard deviations of their difference.
    assert (np.abs(np.bincount(y)[1:] - counts) < 4 * np.sqrt(2) * sd).all()


def test_product_ranks_without_noise_follow_the_product():
    X, y = make_product_ranks(2000, noise=0.0, random_state=1)
    product = 10 * np.prod(X - 5, axis=1)
    for rank, (low, high) in enumerate([(-250, -60), (-60, -9), (-9, 15), (15, 60), (60, 250)], 1):
        assert low <= product[y == rank].min() <= product[y == rank].max() <= high


def test_ratings_are_cut_at_the_raters_own_thresholds():
    table = make_ratings(20, 30, noise=0.0, observed=0.5, random_state=1)
    for rater, item, rating in zip(table.raters, table.items, table.ratings, strict=True):
        cuts = np.concatenate([[-np.inf], table.thresholds[rater], [np.inf]])
        assert cuts[rating - 1] < table.utilities[rater, item] <= cuts[rating]
    pairs = set(zip(table.raters.tolist(), table.items.tolist(), strict=True))
    assert len(pairs) == len(table.ratings)
    assert_allclose(len(pairs), 300, atol=60)
    assert (np.diff(table.thresholds, axis=1) > 0).all()


@pytest.mark.parametrize("agreement", [0.0, 0.5, 1.0])
def test_raters_agree_as_much_as_asked(agreement):
    found = []
    for seed in range(40):
        utilities = make_ratings(12, 25, agreement=agreement, random_state=seed).utilities
        shared = utilities.mean(axis=0)
        found.append((utilities[0] @ utilities[1:].T).mean() / np.sum(utilities**2, axis=1).mean())
        if agreement == 1.0:
            assert_allclose(utilities, np.tile(shared, (12, 1)))
    assert_allclose(np.mean(found), agreement, atol=0.12)


def test_every_rater_and_item_of_a_sparse_table_is_rated():
    table = make_ratings(15, 9, observed=0.0, n_levels=3, n_features=2, random_state=0)
    assert set(table.raters.tolist()) == set(range(15))
    assert set(table.items.tolist()) == set(range(9))
    assert set(table.ratings.tolist()) <= {1, 2, 3}
    assert table.item_features.shape == (9, 2)
    with pytest.raises(ValueError, match="observed must be a share between 0 and 1, but is 40"):
        make_ratings(observed=40)


def test_ratings_follow_their_seed():
    one, again, other = (make_ratings(random_state=seed) for seed in (3, 3, 4))
    assert_array_equal(one.ratings, again.ratings)
    assert not np.array_equal(one.utilities, other.utilities)


@pytest.mark.parametrize("make", [make_three_ranks, make_five_ranks_1d, make_product_ranks])
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
    with pytest.raises(ValueError, match="n_items must be a number of at least 2"):
        make_sine_comparisons(5, n_items=1)
