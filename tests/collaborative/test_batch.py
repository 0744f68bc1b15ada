"""Likelihoods of the ratings of many raters, against one rater at a time and slopes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ordinalgp.collaborative.batch import RowGaussian, RowProbit
from ordinalgp.core.likelihoods import Gaussian, OrdinalProbit

UNIT, H = 1.5, 1e-5
FIELDS = ("value", "d1", "d2", "d3")


@pytest.fixture
def ratings():
    """Parameters of four raters with five levels, and ratings of theirs in any order."""
    rng = np.random.default_rng(4)
    theta = np.column_stack([rng.normal(-0.4, 0.3, 4), rng.normal(-1, 0.3, 4), np.zeros((4, 3))])
    theta[:, 2:] = rng.normal(-0.5, 0.4, (4, 3))
    by, y = rng.integers(0, 4, 60), rng.integers(0, 5, 60)
    var = np.where(rng.random(60) < 0.2, 0.0, rng.uniform(0, 2, 60))
    return theta, by, y, rng.normal(scale=2, size=60), var


def edges(theta):
    return np.concatenate([[UNIT * theta[1]], UNIT * theta[1] + np.cumsum(np.exp(theta[2:]))])


def test_every_row_has_the_model_of_its_rater(ratings):
    theta, by, y, mean, var = ratings
    likelihood = RowProbit.of(theta, UNIT, by)
    found = likelihood.log_expectation(y, mean, var)
    for rater in range(len(theta)):
        rows = np.flatnonzero(by == rater)
        alone = OrdinalProbit.from_thresholds(edges(theta[rater]), np.exp(theta[rater, 0]))
        truth = alone.log_expectation(y[rows], mean[rows], var[rows])
        part = likelihood.take(rows).log_expectation(y[rows], mean[rows], var[rows])
        for name in FIELDS:
            assert_allclose(getattr(found, name)[rows], getattr(truth, name), rtol=1e-9, atol=1e-12)
            assert_allclose(getattr(part, name), getattr(found, name)[rows], rtol=1e-13)


def test_slopes_in_the_parameters_are_central_differences(ratings):
    theta, by, y, mean, var = ratings
    value, slope, _ = RowProbit.of(theta, UNIT, by).newton(y, mean, var)
    assert_allclose(value, RowProbit.of(theta, UNIT, by).log_expectation(y, mean, var).value)
    for p in range(theta.shape[1]):
        moved = [theta + h * np.eye(theta.shape[1])[p] for h in (H, -H)]
        up, down = (RowProbit.of(t, UNIT, by).log_expectation(y, mean, var).value for t in moved)
        assert_allclose(slope[p], (up - down) / (2 * H), rtol=1e-6, atol=1e-8)


def test_roots_are_of_the_curvature_in_the_edges(ratings):
    """Where theta moves both edges alike, and for the top level, edges are linear in theta."""
    theta, by, y, mean, var = ratings
    _, _, roots = RowProbit.of(theta, UNIT, by).newton(y, mean, var)
    moved = [theta + h * np.eye(theta.shape[1])[1] for h in (1e-4, 0, -1e-4)]
    up, at, down = (RowProbit.of(t, UNIT, by).log_expectation(y, mean, var).value for t in moved)
    curvature = sum(root[1] ** 2 for root in roots)
    assert_allclose(curvature, (2 * at - up - down) / 1e-8, rtol=1e-4, atol=1e-5)


def test_gaussian_rows_have_the_noise_of_their_rater(ratings):
    _, by, _, mean, var = ratings
    noise, y = np.array([0.3, 0.5, 1.0, 2.0]), mean + 0.7
    found = RowGaussian(noise[by]).log_expectation(y, mean, var)
    for rater in range(4):
        rows = by == rater
        truth = Gaussian(noise[rater]).log_expectation(y[rows], mean[rows], var[rows])
        for name in FIELDS:
            values = np.broadcast_to(getattr(found, name), y.shape)[rows]
            assert_allclose(values, np.broadcast_to(getattr(truth, name), values.shape))
