"""Cholesky factors that turn into their inverses, against numpy's."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ordinalgp.core.linalg import (
    Triangle,
    Workspace,
    is_lower,
    lower_factor,
    multiply_lower,
    multiply_upper,
)


def covariance(n):
    A = np.random.default_rng(n).normal(size=(n, n))
    return A @ A.T / n + np.eye(n)


@pytest.mark.parametrize("n", [1, 2, 63, 65, 131, 300, 999, 1001])
def test_factor_inverse_and_solutions(n):
    M = covariance(n)
    inverse, b = np.linalg.inv(M), np.sin(np.arange(n) + 1.0)
    triangle = Triangle(M.copy)
    assert triangle.half_log_det == pytest.approx(0.5 * np.linalg.slogdet(M)[1], rel=1e-12)
    before = triangle.solve(b)
    assert_allclose(triangle.inverse, np.linalg.inv(np.linalg.cholesky(M)), atol=1e-12)
    for solution in (before, triangle.solve(b), triangle.solve(b[:, None])[:, 0]):
        assert_allclose(solution, inverse @ b, rtol=1e-10, atol=1e-12)
    for B in (
        np.outer(b, [1.0, 2.0]),
        np.asfortranarray(np.outer(b, [1.0, 2.0])),
        b[:, None][:, :0],
    ):
        expected = np.linalg.solve(np.linalg.cholesky(M), B)
        assert_allclose(triangle.half_product(B.copy(order="K")), expected, atol=1e-12)
    assert_allclose(triangle.full_inverse(), inverse, atol=1e-12)


def test_garbage_beside_the_triangle_does_not_matter():
    M, scale = covariance(200), np.linspace(0.5, 2.0, 200)
    garbage = np.triu(M) + np.tril(np.full(M.shape, np.nan), -1)
    upper = Triangle(lambda: garbage).upper_inverse(scale, Workspace())
    expected = scale[:, None] * np.linalg.inv(M) * scale
    assert_allclose(upper, np.triu(expected), atol=1e-12)


def test_a_factor_that_must_not_be_written_to_is_copied():
    triangle = Triangle(lambda: covariance(150))
    factor = triangle._lower.copy(order="F")
    factor.flags.writeable = False
    kept, triangle._lower = factor.copy(), factor
    inverse = triangle.inverse
    assert np.array_equal(factor, kept)
    assert_allclose(inverse @ np.tril(factor), np.eye(150), atol=1e-12)


def test_definiteness_lost_to_rounding_comes_back():
    """Pivots below zero by some eps of the diagonal are rounding; more is another matrix."""
    size = np.array([1.0, 1e4, 1e8])
    for loss in (0.0, 3e-16, 1e-14):
        M = np.outer(size, size) * (1.0 - loss * np.eye(3))
        factor = lower_factor(M.copy)
        assert_allclose(factor @ factor.T / np.outer(size, size), 1.0, rtol=1e-11)
    M = np.outer(size, size) * (1.0 - 1e-6 * np.eye(3))
    with pytest.raises(np.linalg.LinAlgError, match="far from positive semi-definite"):
        lower_factor(M.copy)


def test_a_matrix_made_with_care_is_taken_where_the_first_is_not_definite():
    triangle = Triangle(lambda: -np.eye(2), lambda: 4.0 * np.eye(2))
    assert not triangle.definite
    assert_allclose(triangle.solve(np.ones(2)), 0.25, rtol=1e-12)
    assert Triangle(lambda: np.eye(2)).definite


@pytest.mark.parametrize("m", [1, 7, 8, 9, 50])
def test_triangles_multiply_as_squares(m):
    rng = np.random.default_rng(m)
    square, B = rng.normal(size=(m, m)), rng.normal(size=(m, 5))
    assert_allclose(multiply_lower(np.tril(square), B), np.tril(square) @ B, atol=1e-12)
    assert_allclose(multiply_upper(np.triu(square), B), np.triu(square) @ B, atol=1e-12)
    assert is_lower(np.tril(square))
    assert is_lower(square) == (m == 1)
