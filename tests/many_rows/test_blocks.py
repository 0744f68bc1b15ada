"""Blocks of rows: a partition, routes to it, and near rows."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial import cKDTree
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern, WhiteKernel

from ordinalgp.kernels import Additive
from ordinalgp.many_rows.blocked_rows import BlockedRows
from ordinalgp.many_rows.blocks import Blocks, feature_weights
from ordinalgp.models.training_rows import merge_rows


def clouds(n=1500, d=3, seed=0):
    """Two clouds of different density, a column with three values and one that is constant."""
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal(size=(n // 2, d)), 0.1 * rng.normal(size=(n - n // 2, d)) + 3.0])
    return np.column_stack([X, rng.integers(0, 3, n), np.ones(n)])


INPUTS = {
    "clouds": clouds(),
    "two values": np.unique(np.random.default_rng(1).integers(0, 2, (3000, 11)), axis=0) * 1.0,
    "equal": np.ones((500, 2)),
    "one row": np.ones((1, 2)),
    "huge": clouds() * 1e150,
}


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("size", [1, 40, 10_000])
def test_every_row_is_in_one_block_of_at_most_so_many(name, size):
    X = INPUTS[name]
    blocks, order = Blocks.cut(X, np.ones(X.shape[1]), size)
    blocks.check()
    assert_array_equal(np.sort(order), np.arange(len(X)))
    sizes = np.diff(blocks.starts)
    assert sizes.min() >= 1
    assert sizes.max() <= size
    assert blocks.n_rows == len(X)
    for block in range(len(blocks)):
        Z = np.clip(X[order[blocks.rows(block)]], -1e140, 1e140)
        assert np.all(blocks.boxes[0, block] <= Z)
        assert np.all(blocks.boxes[1, block] >= Z)


@pytest.mark.parametrize("name", ["clouds", "two values"])
def test_rows_find_their_own_block(name):
    """Where values differ at each cut; equal values can only be cut by the order of rows."""
    X = INPUTS[name]
    blocks, order = Blocks.cut(X, np.linspace(1, 2, X.shape[1]), 40)
    own = np.repeat(np.arange(len(blocks)), np.diff(blocks.starts))
    assert_array_equal(blocks.places(X[order]), own)


def test_near_rows_are_those_of_a_tree_of_all_rows():
    X, new = clouds(6000, seed=2), clouds(200, seed=3)
    weights = np.array([1.0, 0.5, 2.0, 0.1, 1.0])
    blocks, order = Blocks.cut(X, weights, 100)
    X, found = X[order], []
    nearest = cKDTree(X * weights).query(new * weights, k=50)[1]
    for row, truth in zip(new, nearest, strict=True):
        near = blocks.nearest(X, row[None], 50)
        assert len(near) == 50
        assert np.all(np.diff(near) > 0)
        found.append(np.isin(truth, near).mean())
    assert np.mean(found) > 0.98


def test_all_rows_are_near_if_as_many_are_wanted():
    X = clouds(700)
    blocks, order = Blocks.cut(X, np.ones(5), 50)
    assert_array_equal(blocks.nearest(X[order], X[:1], 700), np.arange(700))
    allowed = np.arange(len(blocks)) < 3
    near = blocks.nearest(X[order], X[:1], 700, allowed)
    assert_array_equal(near, np.arange(blocks.starts[3]))
    assert len(blocks.nearest(X[order], X[:1], 5, allowed=False)) == 0


def test_damaged_blocks_are_refused():
    X = clouds(700)
    blocks = Blocks.cut(X, np.ones(5), 50)[0]
    circle, twice = blocks.parts.copy(), blocks.parts.copy()
    circle[2, 0] = 0
    twice[np.argmax(twice.min(axis=1) < 0)] = -1
    falling = blocks.starts.copy()
    falling[1] = falling[2]
    for wrong in ({"parts": circle}, {"parts": twice}, {"starts": falling}):
        with pytest.raises(ValueError, match="cuts and the blocks disagree"):
            replace(blocks, **wrong).check()


def test_weights_are_how_fast_the_prior_function_changes():
    X = np.random.default_rng(0).normal(size=(400, 3)) * [1.0, 2.0, 0.0]
    linear = feature_weights(DotProduct(), X)
    assert_allclose(linear[:2], 1.0)  # x'x changes by delta^2, whatever the step
    assert linear[2] == 0.0  # a constant column
    smooth = feature_weights(RBF([100.0, 300.0, 1.0]), X)
    assert_allclose(smooth[:2], [1 / 100, 1 / 300], rtol=1e-4)  # so far that only slopes matter
    noisy = feature_weights(RBF([100.0, 300.0, 1.0]) + WhiteKernel(0.5), X)
    assert_allclose(noisy, smooth, rtol=1e-6)
    both = feature_weights(Matern([0.1, 1.0, 1.0], nu=0.5) + 9.0 * Additive([30.0, 1.0, 1.0]), X)
    assert both[0] > 0
    assert both[1] > 0
    assert_allclose(feature_weights(WhiteKernel(), X)[:2], [1 / 0.3, 1 / 0.6], rtol=0.1)


def test_rows_in_blocks_keep_their_observations():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, (300, 2)).astype(float)
    y, weights = rng.integers(0, 4, 300), rng.integers(0, 3, 300).astype(float)
    merged = merge_rows(X, y, weights, RBF())
    rows = BlockedRows.cut(merged, np.ones(2), 7)
    rows.check()
    used = weights > 0
    observation = rows.index.observation[used]
    assert_array_equal(rows.X[rows.latent[observation]], X[used])
    assert_array_equal(rows.codes[observation], y[used])
    assert_allclose(np.bincount(observation, weights[used]), rows.counts)
    assert np.all(rows.index.observation[~used] == -1)

    some = rng.permutation(len(rows.X))[:9]
    local = rows.take(some)
    assert_array_equal(local.X, rows.X[some])
    for place, one in enumerate(some):
        assert_array_equal(local.codes[local.latent == place], rows.codes[rows.latent == one])
        assert_array_equal(local.counts[local.latent == place], rows.counts[rows.latent == one])
    block = rows.observations(2)
    assert_array_equal(np.unique(rows.latent[block]), rows.blocks.rows(2))
