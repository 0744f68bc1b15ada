"""Counts of levels per projection, against the single observations and central differences."""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

from ordinalgp.core.counted_levels import CountedLevels
from ordinalgp.core.likelihoods import OrdinalProbit

CASES = {
    "two levels": OrdinalProbit.from_thresholds([0.3], 0.5),
    "three": OrdinalProbit.from_thresholds([-0.4, 0.5], 0.8, unit=1.7),
    "narrow": OrdinalProbit.from_thresholds([-0.01, 0.01], 0.8),
    "five": OrdinalProbit.from_thresholds([-2.0, -0.3, 0.1, 1.5], 0.6),
}


@pytest.fixture(params=CASES)
def case(request):
    probit = CASES[request.param]
    rng = np.random.default_rng(3)
    u = np.concatenate([rng.normal(size=50), [-30.0, -5.0, 5.0, 30.0, 0.0]])
    counts = rng.poisson(1.0, size=(probit.n_levels, len(u))).astype(float)
    return CountedLevels(probit, counts), u


def singles(case):
    """Every observation by itself, and the projection it belongs to."""
    counted, u = case
    level, row = np.nonzero(counted.counts)
    return level, row, counted.counts[level, row], u[row]


def test_value_and_slopes_are_the_sums_over_single_observations(case):
    counted, u = case
    level, row, c, at = singles(case)
    found = counted.log_expectation(None, u, np.zeros_like(u))
    single = counted.probit.log_expectation(level, at, np.zeros_like(at))
    for name in ("value", "d1", "d2", "d3"):
        expected = np.bincount(row, c * getattr(single, name), len(u))
        assert_allclose(getattr(found, name), expected, rtol=1e-9, atol=1e-11)


def test_theta_derivatives_are_the_sums_over_single_observations(case):
    counted, u = case
    level, row, c, at = singles(case)
    found = counted.theta_derivatives(None, u, np.zeros_like(u))
    single = counted.probit.theta_derivatives(level, at, np.zeros_like(at))
    for name in ("value", "d1", "d2"):
        expected = [np.bincount(row, c * part, len(u)) for part in getattr(single, name)]
        assert_allclose(getattr(found, name), expected, rtol=1e-8, atol=1e-8)


def test_value_against_fifty_digits():
    counted = CountedLevels(CASES["three"], np.array([[1.0], [2.0], [3.0]]))
    with mpmath.workdps(50):
        b, s = [mpmath.mpf(x) for x in (-0.4, 0.5)], mpmath.mpf(0.8)
        for u in (-3.0, -0.2, 0.1, 2.9):
            p = [mpmath.ncdf((edge - mpmath.mpf(u)) / s) for edge in b]
            expected = mpmath.log(p[0]) + 2 * mpmath.log(p[1] - p[0]) + 3 * mpmath.log(1 - p[1])
            found = counted.log_expectation(None, np.array([u]), np.zeros(1))
            assert_allclose(found.value[0], float(expected), rtol=1e-13)


def test_information_is_that_of_linear_edges(case):
    """The second derivatives of log [Phi(z_hi) - Phi(z_lo)], by central differences in the edges.

    With u it is exact in the steps of the thresholds: then edges are linear in both.
    """
    counted, u = case
    near = np.abs(u) < 3
    counted, u = CountedLevels(counted.probit, counted.counts[:, near]), u[near]
    own, mixed = counted.information(u)
    h, theta = 1e-5, counted.theta
    step = np.eye(len(theta))[1] * h
    up, down = (
        counted.clone_with_theta(theta + sign * step).log_expectation(None, u, np.zeros_like(u))
        for sign in (1, -1)
    )
    assert_allclose(mixed[1], -(up.d1 - down.d1) / (2 * h), rtol=1e-5, atol=1e-6)
    middle = counted.log_expectation(None, u, np.zeros_like(u)).value
    bend = -np.sum(up.value - 2 * middle + down.value) / h**2
    assert_allclose(own[1, 1], bend, rtol=1e-3)
    tau = -counted.log_expectation(None, u, np.zeros_like(u)).d2
    joint = np.block([[own, mixed], [mixed.T, np.diag(tau)]])
    assert np.linalg.eigvalsh(joint).min() > -1e-9 * np.abs(joint).max()
    # A common factor of noise and thresholds does what a movement of u by -u does.
    scale = np.ones(len(theta))
    scale[1] = theta[1]
    if len(theta) > 2:
        assert_allclose(scale @ mixed, -u * tau, rtol=1e-7, atol=1e-8)


def test_of_rows_takes_some_projections(case):
    counted, u = case
    some = np.array([4, 1])
    whole = counted.log_expectation(None, u, np.zeros_like(u)).value[some]
    part = counted.of_rows(some).log_expectation(None, u[some], np.zeros(2)).value
    assert_allclose(part, whole, rtol=1e-14)
