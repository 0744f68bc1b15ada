"""Inducing points: the exact model as a limit, slopes, sums that do not depend on the chunks."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern

from ordinalgp.core.gaussian import Sites
from ordinalgp.core.kernel_matrix import cross_covariance
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.problem import match
from ordinalgp.core.projections import Identity
from ordinalgp.core.search import Task, objective_named
from ordinalgp.many_rows.induced_evidence import InducedTask
from ordinalgp.many_rows.inducing import (
    ChunkObservations,
    InducedPosterior,
    Inducing,
    greedy_points,
)

KERNELS = {
    "isotropic": RBF(1.3),
    "ard": ConstantKernel(1.5) * RBF([1.0, 2.0, 3.0]),
    "matern": Matern(1.2, nu=2.5),
    "sum": RBF(1.0) + DotProduct(0.5),
    "without formula": RBF(1.0) * DotProduct(0.5),
}
RNG = np.random.default_rng(0)
N = 50
X = RNG.normal(size=(N, 3))
Y = np.digitize(X[:, 0] + 0.3 * RNG.normal(size=N), [-0.5, 0.5])
LIKELIHOOD = OrdinalProbit.from_thresholds([-0.5, 0.5], 0.4)


def tasks(kernel, inference, Z, counts=None, tol=1e-10):
    counts = np.ones(N) if counts is None else counts
    name = objective_named(inference, "evidence")
    exact = Task(X, kernel, LIKELIHOOD, Identity(N), Y, counts, name, tol=tol)
    induced = InducedTask(X, kernel, LIKELIHOOD, Z, Y, counts, smoothing=exact.smoothing, tol=tol)
    return exact, induced


@pytest.mark.parametrize("inference", ["ep", "laplace"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_point_at_every_row_is_the_exact_model(kernel, inference):
    exact, induced = tasks(KERNELS[kernel], inference, X)
    one, other = (task.evaluate(task.theta) for task in (exact, induced))
    assert_allclose(other.value, one.value, rtol=1e-9)
    assert_allclose(other.gradient, one.gradient, atol=1e-6)
    assert_allclose(other.start.sites.tau, one.start.sites.tau, atol=1e-6)
    assert_allclose(other.start.sites.nu, one.start.sites.nu, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("inference", ["ep", "laplace"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_are_slopes(kernel, inference, weighted):
    counts = RNG.uniform(1.0, 3.0, N) if weighted else None
    _, task = tasks(KERNELS[kernel], inference, X[:9] + 0.1, counts, tol=1e-11)
    theta, h = task.theta, 1e-5
    gradient = task.evaluate(theta).gradient
    slopes = [
        (task.evaluate(theta + h * e).value - task.evaluate(theta - h * e).value) / (2 * h)
        for e in np.eye(len(theta))
    ]
    assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6 * np.abs(gradient).max())


def test_small_weights_have_right_slopes_or_say_so():
    """As without inducing points: where a row leaves no cavity, nothing has converged."""
    right, refused = 0, []
    for weight in (0.1, 0.3, 0.6, 1.0):
        for noise in (0.01, 0.3, 1.0):
            likelihood = OrdinalProbit.from_thresholds([-0.5, 0.5], noise)
            data = X, KERNELS["isotropic"], likelihood, X[:9] + 0.1, Y, np.full(N, weight)
            task, h = InducedTask(*data, tol=1e-10), 1e-5
            found, step = task.evaluate(task.theta), np.eye(len(task.theta))[1] * h  # of the noise
            up, down = (task.evaluate(task.theta + s * step).value for s in (1, -1))
            off = abs(found.gradient[1] - (up - down) / (2 * h))
            if found.converged:
                assert off <= 1e-6 * (1 + abs(found.gradient[1])), (weight, noise, off)
                right += 1
            else:
                assert weight < 1
                refused.append(off)
    assert right >= 8
    assert max(refused) > 0.01  # what would have been called right


def test_the_prior_of_the_rows_is_the_low_rank_one_with_the_right_variances():
    kernel, Z = KERNELS["ard"], X[:7]
    rows = Inducing(kernel, Z).rows(X)
    K_xz = kernel(X, Z)
    assert_allclose(rows.A.T @ rows.A, K_xz @ np.linalg.solve(kernel(Z), K_xz.T), atol=1e-10)
    assert_allclose(np.einsum("mc,mc->c", rows.A, rows.A) + rows.residual, kernel.diag(X))


def test_equal_points_get_a_nugget():
    twice = Inducing(KERNELS["isotropic"], np.repeat(X[:6], 2, axis=0))
    once = Inducing(KERNELS["isotropic"], X[:6])
    assert_allclose(twice.rows(X).residual, once.rows(X).residual, atol=1e-8)


def test_greedy_points_leave_less_variance_than_the_first_rows():
    kernel = KERNELS["isotropic"]
    chosen = greedy_points(kernel, X, 12)
    assert len(set(chosen)) == 12
    left = [Inducing(kernel, X[rows]).rows(X).residual.sum() for rows in (chosen, slice(0, 12))]
    assert left[0] < left[1]
    # Each is where the points before it leave most: the literal definition, point by point.
    for k in range(1, 12):
        residual = Inducing(kernel, X[chosen[:k]]).rows(X).residual
        assert_allclose(residual[chosen[k]], residual.max(), rtol=1e-6)


def test_greedy_points_stop_where_nothing_is_left():
    assert len(greedy_points(RBF(1.0), np.repeat(X[:4], 5, axis=0), 10)) == 4


def test_greedy_points_stop_where_enough_is_known():
    kernel = KERNELS["isotropic"]
    few = greedy_points(kernel, X, 40, 0.05)
    residual = Inducing(kernel, X[few]).rows(X).residual
    assert residual.max() <= 0.05
    assert Inducing(kernel, X[few[:-1]]).rows(X).residual.max() > 0.05


@pytest.mark.parametrize("kernel", [*KERNELS, "far out"])
def test_cross_covariances_are_scikit_learns(kernel):
    far = RBF(1e-3)  # rows are thousands of length scales apart: pair by pair
    used = KERNELS.get(kernel, far)
    Z = np.vstack([X[:7], X[10] + 1e-9])
    assert_allclose(cross_covariance(used, Z, X), used(Z, X), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("smoothing", ["cavity", "mode"])
def test_a_pass_at_the_fixed_point_stays_there_and_reports_the_evidence(smoothing):
    inference = "ep" if smoothing == "cavity" else "laplace"
    _, task = tasks(KERNELS["ard"], inference, X[:9], tol=1e-12)
    evidence = task.inferred()
    found, step = evidence.found, evidence.step()
    value, gradient = step.value, step.gradient
    inducing = Inducing(task.kernel, task.Z)
    observed = ChunkObservations(Y, np.ones(N), LIKELIHOOD, smoothing)
    prior = InducedPosterior.prior(inducing)
    posterior = prior.given(inducing.rows(X), found.sites, np.ones(N))
    view = posterior.view()
    seen, sums = observed.sweep(view.project(X), found.sites, view)
    assert_allclose(posterior.mean, found.posterior.mean, atol=1e-9)
    assert_allclose(seen.sites.tau, found.sites.tau, rtol=1e-6)
    assert_allclose(sums.evidence - posterior.half_log_det, value, rtol=1e-8)
    assert posterior.after(sums).moved_from(posterior) < 1e-6
    slopes = sums.slopes + sums.coupling @ sums.pull
    assert_allclose(slopes[:-1], gradient[task.kernel.n_dims :], atol=1e-6)


@pytest.mark.parametrize("cuts", [[], [1, 17], [10, 20, 30, 40]])
def test_sums_do_not_depend_on_the_chunks(cuts):
    inducing = Inducing(KERNELS["isotropic"], X[:9])
    view = InducedPosterior.prior(inducing).view()
    parts = [
        ChunkObservations(y, np.ones(len(y)), LIKELIHOOD).sweep(
            view.project(x), Sites.flat(len(y)), view
        )[1]
        for x, y in zip(np.split(X, cuts), np.split(Y, cuts), strict=True)
    ]
    total = sum(parts[1:], parts[0])
    rows = inducing.rows(X)
    flat = Sites.flat(N)
    seen = ChunkObservations(Y, np.ones(N), LIKELIHOOD).survey(rows, flat, view)
    tau = match(seen.smoothed, seen.at).tau
    assert_allclose(total.precision, (rows.A * tau) @ rows.A.T, atol=1e-12)
    assert_allclose(total.shift, rows.A @ match(seen.smoothed, seen.at).nu, atol=1e-12)


def a_posterior(inducing):
    """The posterior under sites as they may be in mid-fit."""
    sites = Sites(RNG.uniform(0.1, 3.0, N), RNG.normal(size=N))
    return InducedPosterior.prior(inducing).given(inducing.rows(X), sites, np.ones(N)), sites


def test_a_view_shows_the_moments_of_the_posterior():
    """Against the textbook: S = (I + A T A')^-1, mean S A nu, both by numpy's own inverse."""
    inducing = Inducing(KERNELS["ard"], X[:9])
    posterior, sites = a_posterior(inducing)
    A = np.linalg.solve(np.linalg.cholesky(inducing.kernel(X[:9])), inducing.kernel(X[:9], X))
    S = np.linalg.inv(np.eye(9) + (A * sites.tau) @ A.T)
    view = posterior.view()
    seen = view.marginal(view.project(X))
    assert_allclose(seen.mean, A.T @ S @ A @ sites.nu, atol=1e-10)
    assert_allclose(seen.var, np.diagonal(A.T @ S @ A), atol=1e-12)
    rows = view.project(X)
    assert_allclose(rows.residual, inducing.kernel.diag(X) - np.sum(A**2, axis=0), atol=1e-10)
    assert_allclose(view.project(X, rows.residual).A, rows.A, rtol=0)


def test_sums_in_the_coordinates_of_a_posterior_come_back():
    inducing = Inducing(KERNELS["ard"], X[:9])
    posterior, _ = a_posterior(inducing)
    view = posterior.view()
    observed = ChunkObservations(Y, np.ones(N), LIKELIHOOD)
    seen, sums = observed.sweep(view.project(X), Sites.flat(N), view)
    direct = InducedPosterior.prior(inducing).given(inducing.rows(X), seen.sites, np.ones(N))
    assert_allclose(posterior.after(sums).precision, direct.precision, atol=1e-10)
    assert_allclose(posterior.after(sums).mean, direct.mean, atol=1e-10)


def test_the_coupling_is_the_slope_of_the_gradient_in_the_latent_values():
    """Move the posterior's mean, not its precision: cavities of flat sites move with it."""
    inducing = Inducing(KERNELS["ard"], X[:9])
    posterior, _ = a_posterior(inducing)
    observed = ChunkObservations(Y, np.ones(N), LIKELIHOOD)

    def sums(shift):
        view = dataclasses.replace(posterior, shift=shift).view()
        return observed.sweep(view.project(X), Sites.flat(N), view)[1]

    move = RNG.normal(size=9)
    up, down = (sums(posterior.shift + h * move) for h in (1e-5, -1e-5))
    expected = sums(posterior.shift).coupling @ (posterior.inverse_factor @ move)
    assert_allclose((up.slopes - down.slopes) / 2e-5, expected, rtol=1e-6, atol=1e-7)


def test_predictions_are_those_of_the_exact_posterior():
    exact, induced = tasks(KERNELS["ard"], "ep", X)
    new = RNG.normal(size=(8, 3))
    _, found = exact.value_and_posterior()
    expected = found.posterior.predict(exact.kernel(new, X), exact.kernel.diag(new))
    inducing = Inducing(induced.kernel, X)
    posterior = InducedPosterior.prior(inducing).given(inducing.rows(X), found.sites, np.ones(N))
    got = posterior.predict(induced.kernel(new, X), induced.kernel.diag(new))
    assert_allclose(got.mean, expected.mean, atol=1e-8)
    assert_allclose(got.var, expected.var, atol=1e-8)
