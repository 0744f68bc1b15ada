"""Approximate curvatures, against central differences of slopes and closed forms."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import eigh
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from ordinalgp.core.curvature import MOST_OF_KERNEL, differences
from ordinalgp.core.likelihoods import Gaussian, OrdinalProbit, ThetaDerivatives
from ordinalgp.core.ordinal_logit import OrdinalLogit
from ordinalgp.core.projections import Differences, Identity, RowSelection
from ordinalgp.core.quasi_newton import definite
from ordinalgp.core.search import Task
from ordinalgp.hyperpriors import HyperPrior
from ordinalgp.kernels import ARDLinear

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 2))
F = np.sin(1.5 * X[:, 0]) + 0.3 * X[:, 1]
Y = np.digitize(F + 0.3 * RNG.normal(size=N), [-0.6, 0.0, 0.6])
THRESHOLDS = [-0.6, 0.0, 0.6]
KERNEL = RBF(1.1)


def second_differences(task, h=1e-4):
    """Minus the second derivatives of the objective, by central differences of its slopes."""
    theta = task.theta
    rows = [
        (task.evaluate(theta - h * e).gradient - task.evaluate(theta + h * e).gradient) / (2 * h)
        for e in np.eye(len(theta))
    ]
    return 0.5 * (np.array(rows) + np.array(rows).T)


def ordinal_task(objective, likelihood, projection, y, counts=None):
    counts = np.ones(len(y)) if counts is None else counts
    return Task(X, KERNEL, likelihood, projection, y, counts, objective, tol=1e-10)


PROBIT = OrdinalProbit.from_thresholds(THRESHOLDS, 0.4)
LOGIT = OrdinalLogit.from_thresholds(THRESHOLDS, 0.25)
TASKS = {
    "rows": (PROBIT, Identity(N), Y, None),
    "logit": (LOGIT, Identity(N), Y, None),
    "copies": (PROBIT, Identity(N), Y, RNG.integers(1, 4, N).astype(float)),
    "repeated": (
        PROBIT,
        RowSelection(np.tile(np.arange(N), 2), N),
        np.append(Y, np.roll(Y, 1)),
        None,
    ),
    "comparisons": (
        OrdinalProbit.from_thresholds([-0.4, 0.4], 0.6),
        Differences(np.arange(N), np.roll(np.arange(N), 7), N),
        1 + np.sign(Y - np.roll(Y, 7)),
        None,
    ),
}


@pytest.mark.parametrize("objective", ["ep evidence", "laplace evidence"])
@pytest.mark.parametrize("name", TASKS)
def test_curvatures_are_near_differences_of_slopes(name, objective):
    task = ordinal_task(objective, *TASKS[name])
    step = task.evaluate(task.theta)
    found, true = step.curvature(), second_differences(task)
    assert_allclose(found, found.T, rtol=1e-3, atol=1e-3)
    # In units of what was found, true curvatures would all be 1: they are, but for the changes of
    # variances, along one direction of noise and length scale and another one.
    ratios = eigh(true, definite(found), eigvals_only=True)
    assert np.all((ratios[1:-1] > 0.85) & (ratios[1:-1] < 1.1))
    assert ratios[0] > -0.1
    assert ratios[-1] < 3.0


def test_of_normal_noise_the_kernels_part_is_the_average_information():
    likelihood, y = Gaussian(0.4), F + 0.4 * RNG.normal(size=N)
    kernel = ConstantKernel(1.2) * KERNEL
    task = Task(X, kernel, likelihood, Identity(N), y, np.ones(N), tol=1e-12)
    found = task.evaluate(task.theta).curvature()
    K, slopes = kernel(X, eval_gradient=True)
    slopes = np.dstack([slopes, 2 * 0.4**2 * np.eye(N)])  # that of log noise
    R = np.linalg.inv(K + 0.4**2 * np.eye(N))
    moves = np.einsum("ijp,j->ip", slopes, R @ y)
    average = 0.5 * moves.T @ R @ moves
    assert_allclose(found[:2, :2], average[:2, :2], rtol=1e-3)
    # The mean alone responds to the noise: twice the average information across.
    assert_allclose(found[:2, 2], 2 * average[:2, 2], rtol=1e-3)


def test_kernels_with_very_many_hyperparameters_have_none():
    many = ARDLinear(np.full(MOST_OF_KERNEL + 1, 0.1))
    wide = RNG.normal(size=(N, MOST_OF_KERNEL + 1))
    task = Task(wide, many, PROBIT, Identity(N), Y, np.ones(N))
    assert task.evaluate(task.theta).curvature() is None


def test_a_likelihood_without_hyperparameters_leaves_the_kernels_part():
    class Fixed(OrdinalProbit):
        theta, bounds = np.empty(0), np.empty((0, 2))

        def clone_with_theta(self, theta):
            return self

        def theta_derivatives(self, y, mean, var, known=None):
            found = super().theta_derivatives(y, mean, var, known)
            return ThetaDerivatives(found.value[:0], found.d1[:0], found.d2[:0])

    free = ordinal_task("ep evidence", PROBIT, Identity(N), Y)
    fixed = ordinal_task("ep evidence", Fixed.from_thresholds(THRESHOLDS, 0.4), Identity(N), Y)
    some, all_of_it = (task.evaluate(task.theta).curvature() for task in (fixed, free))
    assert some.shape == (1, 1)
    assert_allclose(some, all_of_it[:1, :1], rtol=1e-6)


def test_the_curvature_of_a_prior_is_added():
    free = ordinal_task("ep evidence", PROBIT, Identity(N), Y)
    held = replace(free, hyperprior=HyperPrior(length_scales=None, noise=(0.0, 0.1)))
    added = held.evaluate(held.theta).curvature() - free.evaluate(free.theta).curvature()
    assert_allclose(added, np.diag([0, 1 / 0.1**2, 0, 0, 0]), atol=1e-3)


def test_differences_are_second_derivatives():
    B, place = RNG.normal(size=(3, 3)), np.array([0.1, -0.2, 0.3])

    def slope(x):
        return (B + B.T) @ x + x**2

    found = differences(slope, place, slope(place))
    assert_allclose(found, B + B.T + 2 * np.diag([0.1, -0.2, 0.3]), atol=1e-4)
