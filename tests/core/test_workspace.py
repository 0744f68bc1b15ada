"""A search that writes over its own matrices must not see what was in them."""

import gc
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from ordinalgp.core.kernel_gradient import kernel_slope
from ordinalgp.core.kernel_matrix import kernel_matrix
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.linalg import Workspace
from ordinalgp.core.objectives import UpperTriangle
from ordinalgp.core.projections import Identity
from ordinalgp.core.search import Task, objective_named
from ordinalgp.least_squares.leave_one_out import LeastSquaresTask, RankLikelihood

KERNELS = [
    RBF(0.7),
    ConstantKernel(2.0) * RBF(0.7),
    RBF(0.7) * ConstantKernel(0.1),
    ConstantKernel(2.0) * RBF([0.5, 1.0, 2.0]),
    ConstantKernel(2.0) * Matern(0.7, nu=2.5),
    RBF(0.7) * RBF(1.4),
    ConstantKernel(2.0, "fixed") * RBF(0.7),
    RBF(0.7, "fixed") * ConstantKernel(2.0),
    ConstantKernel(2.0) * RBF(0.7) + WhiteKernel(0.3),
]


def rows(n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.digitize(X[:, 0] + 0.3 * rng.normal(size=n), [-0.5, 0.5])


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_matrices_are_those_of_scikit_learn(kernel):
    workspace = Workspace()
    for seed, n in ((0, 150), (1, 150), (2, 70)):
        X, _ = rows(n, seed)
        for shift in (0.0, 0.4, -0.4):
            moved = kernel.clone_with_theta(kernel.theta + shift)
            assert_allclose(kernel_matrix(moved, X, workspace), moved(X), rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("scale", [1e-180, 1e180])
def test_far_out_rows_give_finite_matrices(scale):
    X, _ = rows(20)
    K = kernel_matrix(ConstantKernel(2.0) * RBF(1e-3), scale * X, Workspace())
    assert np.all(np.isfinite(K))
    assert_allclose(np.diagonal(K), 2.0)


def symmetric(n, seed=4):
    A = np.random.default_rng(seed).normal(size=(n, n))
    return A + A.T


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_slopes_are_those_of_scikit_learn(kernel):
    X, _ = rows(70)
    K, gradient = kernel(X, eval_gradient=True)
    slope = kernel_slope(kernel, X, UpperTriangle(symmetric(70)), K, Workspace())
    assert_allclose(slope, np.einsum("ij,ijp->p", symmetric(70), gradient), rtol=1e-10)


def test_far_out_rows_give_finite_slopes():
    X, _ = rows(20)
    upstream, kernel = symmetric(20), ConstantKernel(2.0) * RBF(1e-3)
    K = kernel_matrix(kernel, 1e180 * X, Workspace())  # twice the identity
    slope = kernel_slope(kernel, 1e180 * X, UpperTriangle(upstream), K, Workspace())
    assert_allclose(slope, [2.0 * np.trace(upstream), 0.0])


@pytest.mark.parametrize("far", [0.3, 3.0])
def test_the_mode_does_not_depend_on_the_last_factorisation(far):
    X, y = rows()
    likelihood = OrdinalProbit.from_thresholds([-0.5, 0.5], 0.4)
    ones = np.ones(len(X))
    args = X, RBF(0.7), likelihood, Identity(len(X)), y, ones, "laplace evidence"
    assert_same_along_a_search(Task(*args, tol=1e-10), far=far, steps=12)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("objective", ["laplace evidence", "ep evidence", "ep bound"])
def test_evidence_does_not_depend_on_the_workspace(kernel, objective):
    X, y = rows()
    likelihood = OrdinalProbit.from_thresholds([-0.5, 0.5], 0.4)
    ones = np.ones(len(X))
    task = Task(X, kernel, likelihood, Identity(len(X)), y, ones, objective, tol=1e-10)
    assert_same_along_a_search(task)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_least_squares_do_not_depend_on_the_workspace(kernel):
    X, y = rows()
    likelihood = RankLikelihood(0.5, OrdinalProbit.from_thresholds([0.5, 1.5], 0.4))
    plain = LeastSquaresTask(X, kernel, likelihood, Identity(len(X)), y, np.ones(len(X)), 1.0)
    assert_same_along_a_search(plain)


def assert_same_along_a_search(task, far=0.3, steps=4):
    rng = np.random.default_rng(3)
    start, workspace = None, Workspace()
    for _ in range(steps):
        theta = task.theta + far * rng.normal(size=len(task.theta))
        plain, other = task.evaluate(theta, start), task.evaluate(theta, start, workspace)
        assert_allclose(other.value, plain.value, rtol=1e-12)
        scale = np.abs(plain.gradient).max()
        assert_allclose(other.gradient, plain.gradient, rtol=1e-9, atol=1e-9 * scale)
        start = plain.start


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_a_workspace_is_free_as_soon_as_its_search_ends(inference):
    """Its matrices are as large as all the rest of a fit, so none may wait for the collector."""
    X, y = rows()
    likelihood = OrdinalProbit.from_thresholds([-0.5, 0.5], 0.4)
    ones = np.ones(len(X))
    workspace = Workspace()
    name = objective_named(inference, "evidence")
    task = Task(X, RBF(), likelihood, Identity(len(X)), y, ones, name)
    seen = weakref.ref(workspace)
    gc.disable()
    try:
        task.evaluate(task.theta, None, workspace)
        del workspace
        assert seen() is None
    finally:
        gc.enable()
