"""The slope dL/dK in parts, against the matrix that they add up to."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ordinalgp.core.objectives import LowRankMinusMatrix, UpperTriangle

N = 150  # more than two strips


def symmetric(seed):
    A = np.random.default_rng(seed).normal(size=(N, N))
    return A + A.T


def cases():
    rng = np.random.default_rng(3)
    R, w, c = symmetric(1), rng.normal(size=N), rng.normal(size=N)
    alone = 0.5 * (np.outer(w, w) - R)
    mixed = alone + 0.5 * (np.outer(w, c) + np.outer(c, w))
    hidden = np.triu(R) + np.tril(np.full((N, N), 7.0), -1)  # nobody may look below the diagonal
    return {
        "upper": (lambda: UpperTriangle(np.triu(R)), R),
        "weights": (lambda: LowRankMinusMatrix.of(hidden.copy(), w), alone),
        "weights and mixed": (lambda: LowRankMinusMatrix.of(hidden.copy(), w, c), mixed),
    }


@pytest.mark.parametrize("case", cases())
def test_the_whole_matrix(case):
    make, expected = cases()[case]
    assert_allclose(make().full(), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("case", cases())
@pytest.mark.parametrize("i", [0, 64, 140])
def test_sums_over_a_block_of_the_upper_triangle(case, i):
    make, expected = cases()[case]
    j = min(i + 64, N)
    block = np.triu(symmetric(5))[i:j, i:]
    assert make().meet(i, block) == pytest.approx(np.sum(expected[i:j, i:] * block), rel=1e-12)


@pytest.mark.parametrize("case", cases())
def test_strips_hold_every_pair_once(case):
    make, expected = cases()[case]
    other, total = symmetric(6), 0.0
    for rows, strip in make().strips():
        assert strip.shape == (rows.stop - rows.start, N - rows.start)
        total += np.sum(strip * other[rows, rows.start :])
    assert total == pytest.approx(np.sum(expected * other), rel=1e-11)
