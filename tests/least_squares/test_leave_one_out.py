"""Leave-one-out regression: moments against refits, the objective against its definition."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern

from ordinalgp.core.curvature import MOST_OF_KERNEL
from ordinalgp.core.kernel_matrix import kernel_matrix
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.projections import Identity, RowSelection
from ordinalgp.least_squares.leave_one_out import LeastSquaresTask, RankLikelihood, _pull_back

SIGNS = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
THRESHOLDS = np.array([0.4, 1.6, 2.3])
KERNELS = {
    "ard": ConstantKernel(2.0) * RBF([1.0, 2.0, 0.7]),
    "isotropic": ConstantKernel(0.5) * RBF(1.3),
    "matern and linear": Matern(1.1, nu=2.5) + DotProduct(0.4),
}


def make_task(kernel=KERNELS["ard"], *, copies=False, noise=0.6, link_noise=0.5, seed=0, n=14):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    if copies:  # some inputs observed again, with other levels, and weights on both sides of one
        where = np.r_[np.arange(n), rng.integers(0, n, 8)]
        projection, counts = RowSelection(where, n), rng.uniform(0.3, 3.0, len(where))
    else:
        where, projection, counts = np.arange(n), Identity(n), np.ones(n)
    y = rng.integers(0, 4, len(where))
    likelihood = RankLikelihood(noise, OrdinalProbit.from_thresholds(THRESHOLDS, link_noise))
    task = LeastSquaresTask(X, kernel, likelihood, projection, y, counts, 1.3)
    return task, where


def refit_without(task, where, i):
    """Latent moments of observation i by scikit-learn, one copy of it taken away."""
    counts = task.counts.copy()
    counts[i] -= min(counts[i], 1.0)
    rest = counts > 0
    alpha = task.likelihood.noise**2 / counts[rest]
    model = GaussianProcessRegressor(task.kernel, alpha=alpha, optimizer=None)
    model.fit(task.X[where[rest]], task.y[rest] - task.prior_mean)
    mean, sd = model.predict(task.X[where[[i]]], return_std=True)
    return mean[0] + task.prior_mean, sd[0] ** 2


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_moments_are_those_of_refits(kernel, copies):
    task, where = make_task(KERNELS[kernel], copies=copies)
    left = task.leave_out(kernel_matrix(task.kernel, task.X)).moments
    mean, var = np.transpose([refit_without(task, where, i) for i in range(len(where))])
    assert_allclose(left.mean, mean, rtol=1e-9)
    assert_allclose(left.var, var, rtol=1e-8)


@pytest.mark.parametrize("copies", [False, True])
def test_the_objective_is_equation_11(copies):
    """Slope and thresholds as the paper writes them: a = 1/noise, beta = a b."""
    task, where = make_task(copies=copies)
    slope = 1 / task.likelihood.link.noise
    edges = slope * np.r_[-np.inf, THRESHOLDS, np.inf]
    total = 0.0
    for i, (level, count) in enumerate(zip(task.y, task.counts, strict=True)):
        mean, var = refit_without(task, where, i)
        scale = np.sqrt(1 + slope**2 * var)
        upper, lower = (norm.cdf((edges[level + k] - slope * mean) / scale) for k in (1, 0))
        total += count * np.log(upper - lower)
    assert_allclose(task.evaluate(task.theta).value, total, rtol=1e-10)


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("noise", "link_noise"), [(0.6, 0.5), (0.05, 0.1), (5.0, 2.0)])
def test_gradients_are_slopes(kernel, copies, noise, link_noise):
    task, _ = make_task(KERNELS[kernel], copies=copies, noise=noise, link_noise=link_noise)
    theta, h = task.theta, 1e-5
    gradient = task.evaluate(theta).gradient
    slopes = [
        (task.evaluate(theta + h * e).value - task.evaluate(theta - h * e).value) / (2 * h)
        for e in np.eye(len(theta))
    ]
    assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6 * np.abs(gradient).max())


@pytest.mark.parametrize("signs", ["both", "positive", "negative", "none"])
@pytest.mark.parametrize("n", [1, 40, 600])
def test_pull_back_is_the_product_whatever_the_signs(signs, n):
    rng = np.random.default_rng(n)
    R = rng.normal(size=(n, n))
    R += R.T
    g, w, d_w = rng.normal(size=(3, n))
    g = {"both": g, "positive": abs(g), "negative": -abs(g), "none": 0 * g}[signs]
    out = np.full((n, n), np.nan)  # nothing that was left in the room counts
    _pull_back(R, g, d_w, w, out)
    want = -R @ np.diag(g) @ R - (np.outer(R @ d_w, w) + np.outer(w, R @ d_w)) / 2
    assert_allclose(np.triu(out), np.triu(want), rtol=1e-12, atol=1e-12 * np.abs(want).max())


def test_a_count_of_two_is_an_observation_twice():
    task, _ = make_task()
    twice = replace(task, counts=np.where(np.arange(len(task.y)) < 5, 2.0, 1.0))
    where = np.r_[np.arange(len(task.y)), np.arange(5)]
    written = replace(
        task,
        projection=RowSelection(where, len(task.X)),
        y=task.y[where],
        counts=np.ones(len(where)),
    )
    one, other = twice.evaluate(task.theta), written.evaluate(task.theta)
    assert_allclose(one.value, other.value, rtol=1e-10)
    assert_allclose(one.gradient, other.gradient, rtol=1e-10)


def test_far_from_every_other_row_the_prior_returns():
    task, _ = make_task(KERNELS["isotropic"])
    apart = replace(task, X=np.r_[task.X[:-1], [[1e3, 0.0, 0.0]]])
    left = apart.leave_out(kernel_matrix(apart.kernel, apart.X)).moments
    assert_allclose([left.mean[-1], left.var[-1]], [task.prior_mean, 0.5], rtol=1e-12)


def test_the_posterior_is_gaussian_process_regression():
    task, where = make_task(copies=True)
    model = GaussianProcessRegressor(
        task.kernel, alpha=task.likelihood.noise**2 / task.counts, optimizer=None
    ).fit(task.X[where], task.y - task.prior_mean)
    query = np.random.default_rng(5).normal(size=(6, 3))
    mean, sd = model.predict(query, return_std=True)
    found = task.posterior(task.sites()).predict(
        task.kernel(query, task.X), task.kernel.diag(query)
    )
    assert_allclose(found.mean, mean, rtol=1e-9)
    assert_allclose(found.var, sd**2, rtol=1e-8)


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_curvatures_are_near_differences_of_slopes(kernel, copies):
    task, _ = make_task(KERNELS[kernel], copies=copies, n=40)
    theta, h = task.theta, 1e-5
    found = task.evaluate(theta).curvature()
    slopes = [
        (task.evaluate(theta - h * e).gradient - task.evaluate(theta + h * e).gradient) / (2 * h)
        for e in np.eye(len(theta))
    ]
    true = np.array(slopes)
    # The link moves no moments, and what the others lack does not touch it.
    link = task.kernel.n_dims + 1
    assert_allclose(found[link:], true[link:], atol=1e-3 * np.abs(true).max())

    def moments_and_slopes(theta):
        at = task.at(theta)
        left = at.leave_out(kernel_matrix(at.kernel, at.X)).moments
        here = at.likelihood.link.log_expectation(at.y, left.mean, left.var)
        slopes = here.d1, (here.d2 + here.d1**2) / 2  # in mean and variance
        return np.append(left.mean, left.var), np.append(*slopes) * np.tile(at.counts, 2)

    # What they lack: slopes of the objective in the moments times second differences of these.
    pull = moments_and_slopes(theta)[1]
    h, p = 1e-3, link
    bend = np.zeros((p, p))
    for i in range(p):
        for j in range(p):
            a, b = h * np.eye(len(theta))[i], h * np.eye(len(theta))[j]
            corners = [moments_and_slopes(theta + s * a + t * b)[0] for s, t in SIGNS]
            bend[i, j] = pull @ (corners[0] - corners[1] - corners[2] + corners[3]) / (4 * h**2)
    expected = true[:p, :p] + bend
    assert_allclose(found[:p, :p], expected, atol=2e-3 * np.abs(expected).max())


def test_kernels_with_very_many_hyperparameters_have_no_curvature():
    task, _ = make_task()
    wide = np.random.default_rng(0).normal(size=(14, MOST_OF_KERNEL + 1))
    task = replace(task, X=wide, kernel=RBF(np.full(MOST_OF_KERNEL + 1, 5.0)))
    assert task.evaluate(task.theta).curvature() is None
