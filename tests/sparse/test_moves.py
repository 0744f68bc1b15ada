"""Moves of basis functions against brute force, in double and in 50 digits; the training loop."""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar

from ordinalgp.core.gaussian import Prior, Sites, condition
from ordinalgp.core.inference import infer
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.objectives import laplace_evidence
from ordinalgp.core.problem import Problem
from ordinalgp.core.projections import Basis, Identity
from ordinalgp.models.training_rows import first_rows
from ordinalgp.sparse.basis_matrix import BasisMatrix
from ordinalgp.sparse.moves import Expansion, WeightPosterior, improve, shrink
from ordinalgp.sparse.training import (
    LINEARISE,
    ActiveBasis,
    SparseTask,
    TrainingLimits,
    distinct_columns,
    find_mode,
    score_candidates,
    train,
)


def gaussian_bumps(n, width, seed=0, d=2):
    X = np.random.default_rng(seed).normal(size=(n, d))
    return X, np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(-1) / width**2)


def make_local(n=14, p=7, seed=0, width=1.0):
    """An expansion around any point, with the matrices that it stands for."""
    rng = np.random.default_rng(seed)
    phi = gaussian_bumps(n, width, seed)[1][:, :p]
    H, delta = rng.uniform(0.1, 0.9, n), 1.5 * rng.normal(size=n)
    point = np.where(np.arange(p) < 4, rng.normal(size=p), 0.0)
    expansion = Expansion(phi.T @ (H[:, None] * phi), phi.T @ delta, point, 0.0)
    return expansion, phi, H, phi @ point + delta / H


def brute_evidence(phi, H, t, alpha):
    """Eq. (16) as it stands: -(log |C| + t' C^-1 t) / 2."""
    inside = np.isfinite(alpha)
    C = np.diag(1 / H) + (phi[:, inside] / alpha[inside]) @ phi[:, inside].T
    return -0.5 * (np.linalg.slogdet(C)[1] + t @ np.linalg.solve(C, t))


def exact_evidence(phi, H, t, alpha):
    """The same in 50 digits."""
    with mpmath.workdps(50):
        n = len(t)
        C = mpmath.zeros(n)
        for j in np.flatnonzero(np.isfinite(alpha)):
            column = mpmath.matrix(phi[:, j].tolist())
            C += column * column.T / mpmath.mpf(float(alpha[j]))
        for i in range(n):
            C[i, i] += 1 / mpmath.mpf(float(H[i]))
        T = mpmath.matrix(t.tolist())
        return -(mpmath.log(mpmath.det(C)) + (T.T * mpmath.lu_solve(C, T))[0]) / 2


def random_alpha(p, seed, low=-1.0, high=1.0):
    rng = np.random.default_rng(seed)
    alpha = 10 ** rng.uniform(low, high, p)
    alpha[rng.permutation(p)[: p // 2]] = np.inf
    return alpha


@pytest.mark.parametrize("seed", range(6))
def test_every_gain_is_the_change_of_the_evidence(seed):
    expansion, phi, H, t = make_local(seed=seed)
    alpha = random_alpha(7, seed)
    found = WeightPosterior(expansion, alpha).gains()
    before = brute_evidence(phi, H, t, alpha)
    for j in range(7):
        moved = alpha.copy()
        moved[j] = found.alpha[j]
        change = (
            0.0
            if np.isinf(moved[j]) and np.isinf(alpha[j])
            else (brute_evidence(phi, H, t, moved) - before)
        )
        assert_allclose(found.gain[j], change, atol=1e-8)


def test_the_gains_test_meets_every_kind_of_move():
    seen = set()
    for seed in range(6):
        alpha = random_alpha(7, seed)
        found = WeightPosterior(make_local(seed=seed)[0], alpha).gains()
        seen |= set(
            zip(np.isfinite(alpha).tolist(), np.isfinite(found.alpha).tolist(), strict=True)
        )
    assert seen == {(True, True), (True, False), (False, True), (False, False)}


@pytest.mark.parametrize("seed", range(3))
def test_gains_keep_their_digits_where_precisions_are_extreme(seed):
    """Nearly collinear functions and precisions from 1e-6 to 1e6, against 50 digits."""
    expansion, phi, H, t = make_local(seed=seed, width=2.0, p=6)
    alpha = random_alpha(6, seed, -6, 6)
    found = WeightPosterior(expansion, alpha).gains()
    before = exact_evidence(phi, H, t, alpha)
    for j in np.flatnonzero(np.isfinite(alpha) | np.isfinite(found.alpha)):
        moved = alpha.copy()
        moved[j] = found.alpha[j]
        change = float(exact_evidence(phi, H, t, moved) - before)
        assert_allclose(found.gain[j], change, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_the_new_precision_is_the_best_one(seed):
    expansion, phi, H, t = make_local(seed=seed)
    alpha = random_alpha(7, seed)
    found = WeightPosterior(expansion, alpha).gains()

    def loss(log_alpha, j):
        moved = alpha.copy()
        moved[j] = np.exp(log_alpha)
        return -brute_evidence(phi, H, t, moved)

    for j in np.flatnonzero(np.isfinite(found.alpha)):
        best = minimize_scalar(loss, args=(j,), bounds=(-12, 20), method="bounded")
        assert loss(np.log(found.alpha[j]), j) <= best.fun + 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_value_mean_and_covariance_are_the_linear_models(seed):
    expansion, phi, H, t = make_local(seed=seed)
    alpha, other = random_alpha(7, seed), random_alpha(7, seed + 10)
    here, there = WeightPosterior(expansion, alpha), WeightPosterior(expansion, other)
    change = brute_evidence(phi, H, t, other) - brute_evidence(phi, H, t, alpha)
    assert_allclose(there.value - here.value, change, atol=1e-10)
    inside = here.inside
    A = phi[:, inside]
    sigma = np.linalg.inv(np.diag(alpha[inside]) + A.T @ (H[:, None] * A))
    assert_allclose(here.covariance, sigma, rtol=1e-9, atol=1e-12)
    assert_allclose(here.mean[inside], sigma @ A.T @ (H * t), rtol=1e-9, atol=1e-12)
    assert np.all(here.mean[np.isinf(alpha)] == 0)


@pytest.mark.parametrize("seed", range(3))
def test_improving_rises_to_where_nothing_gains(seed):
    expansion, phi, H, t = make_local(n=30, p=30, seed=seed, width=0.7)
    alpha = np.full(30, np.inf)
    alpha[:2] = 1e-3
    free = {"max_adds": 30, "max_moves": 1000, "frozen": np.zeros(30, dtype=bool)}
    moved = improve(WeightPosterior(expansion, alpha), 1e-6, **free)
    assert np.all(np.diff([WeightPosterior(expansion, alpha).value, *moved.values]) > 0)
    assert moved.posterior.gains().gain.max() <= 1e-6
    final = moved.posterior.alpha
    for j in range(30):  # by brute force, no precision of any function does better
        for new in (1e-4, 1e-2, 1.0, 1e2, np.inf):
            other = final.copy()
            other[j] = new
            if np.isfinite(other).any():
                gain = brute_evidence(phi, H, t, other) - brute_evidence(phi, H, t, final)
                assert gain <= 2e-6


def test_limits_of_improving_are_kept():
    expansion = make_local(n=30, p=30, width=0.7)[0]
    alpha = np.full(30, np.inf)
    alpha[0] = 1.0
    frozen = np.zeros(30, dtype=bool)
    frozen[3:] = True
    few = improve(WeightPosterior(expansion, alpha), 1e-6, max_adds=1, max_moves=50, frozen=frozen)
    assert np.isfinite(few.posterior.alpha).sum() <= 2
    assert set(few.places) <= {0, 1, 2}
    assert (
        len(
            improve(
                WeightPosterior(expansion, alpha), 1e-6, max_adds=9, max_moves=2, frozen=~frozen
            ).kinds
        )
        <= 2
    )


@pytest.mark.parametrize("seed", range(3))
def test_shrinking_all_at_once_never_lowers_the_evidence(seed):
    expansion = make_local(n=30, p=30, seed=seed, width=0.7)[0]
    alpha = np.full(30, 1e-3)
    last = WeightPosterior(expansion, alpha).value
    for _ in range(20):
        moved = shrink(WeightPosterior(expansion, alpha))
        assert moved.values[-1] >= last
        alpha, last = moved.posterior.alpha, moved.values[-1]
    assert np.isinf(alpha).any()


def test_the_last_function_stays():
    """Data that say nothing would delete every function; a model keeps one."""
    expansion = Expansion(np.eye(2), np.zeros(2), np.zeros(2), 0.0)
    free = {"max_adds": 2, "max_moves": 50, "frozen": np.zeros(2, dtype=bool)}
    moved = improve(WeightPosterior(expansion, np.ones(2)), 1e-9, **free)
    assert len(moved.posterior.inside) == 1
    assert len(shrink(WeightPosterior(expansion, np.full(2, 1e9))).posterior.inside) >= 1


# ---------------------------------------------------------------------- weights and functions


@pytest.mark.parametrize("p", [4, 9])
def test_weight_space_is_function_space(p):
    """Weights with prior covariance diag(1/alpha) and their function with covariance P."""
    rng = np.random.default_rng(p)
    n = 12
    phi = gaussian_bumps(n, 1.0, p)[1][:, :p] + 0.1 * rng.normal(size=(n, p))
    alpha = 10 ** rng.uniform(-1, 1, p)
    y, likelihood = rng.integers(0, 3, n), OrdinalProbit(1.0, -0.5, np.array([1.0]))
    P = (phi / alpha) @ phi.T
    weights = Problem(np.diag(1 / alpha), Basis(phi), y, likelihood, np.ones(n))
    function = Problem(P, Identity(n), y, likelihood, np.ones(n))
    sites = Sites(rng.uniform(0.1, 1, n), rng.normal(size=n))
    one, two = weights.condition(sites), function.condition(sites)
    assert_allclose(one.observed().mean, two.observed().mean, atol=1e-10)
    assert_allclose(one.observed().var, two.observed().var, atol=1e-10)
    assert_allclose(one.half_log_det, two.half_log_det, atol=1e-10)
    found = [infer(problem, smoothing="mode", tol=1e-11) for problem in (weights, function)]
    values = [laplace_evidence(*pair) for pair in zip((weights, function), found, strict=True)]
    assert_allclose(values[0].value, values[1].value, atol=1e-10)
    assert_allclose(found[0].at.mean, found[1].at.mean, atol=1e-10)
    # dlogZ/d(1/alpha_j) = phi_j' (dlogZ/dP) phi_j
    pulled = np.einsum("ij,ik,kj->j", phi, values[1].d_kernel, phi)
    assert_allclose(np.diagonal(values[0].d_kernel), pulled, atol=1e-9)
    # Prediction at the observations through the weights alone.
    K = np.diag(1 / alpha)
    Sigma = condition(Prior(K, Basis(phi), np.ones(len(phi))), sites).predict_covariance(K, K)
    assert_allclose(np.einsum("ij,jk,ik->i", phi, Sigma, phi), two.observed().var, atol=1e-10)


# --------------------------------------------------------------------------- the training loop


def make_task(n=80, width=1.0, seed=0, memory=1e9, tol=1e-3, noise=0.5, max_basis=500):
    rng = np.random.RandomState(seed)
    X, K = gaussian_bumps(n, width, seed)
    f = 2 * np.sin(X[:, 0]) + X[:, 1] + noise * rng.normal(size=n)
    y = np.searchsorted([-1.0, 1.0], f)
    places = np.arange(n)
    matrix = BasisMatrix(lambda rows, index: K[rows][:, index], places, places, memory)
    task = SparseTask(matrix, y, np.ones(n), TrainingLimits(tol, 100, max_basis, memory))
    index = first_rows(y, rng)
    start = OrdinalProbit.from_counts(np.bincount(y).astype(float))
    return task, ActiveBasis(index, np.full(len(index), 1e-3), np.zeros(len(index)), start), K


def test_the_expansion_at_the_mode_has_laplaces_evidence():
    task, model, K = make_task()
    now = find_mode(task, model, K[:, model.index])
    local = WeightPosterior(now.expansion(now.phi), now.basis.alpha)
    assert_allclose(local.value, now.value, atol=1e-6)
    assert_allclose(local.mean, now.basis.weights, atol=1e-5)


@pytest.mark.parametrize("memory", [1e9, 100.0])
def test_scores_of_candidates_are_the_gains_of_the_whole_expansion(memory):
    """One pass over blocks of columns, held or computed, equals all functions at once."""
    task, model, K = make_task(memory=memory)
    assert task.matrix.held == (memory > 1e6)
    now = find_mode(task, model, task.matrix.columns(model.index))
    every = np.concatenate([model.index, np.setdiff1d(np.arange(len(K)), model.index)])
    alpha = np.concatenate([model.alpha, np.full(len(K) - len(model.alpha), np.inf)])
    whole = WeightPosterior(now.expansion(K[:, every]), alpha).gains().gain
    scores = score_candidates(task.matrix, now)[every]
    outside = np.isinf(alpha)
    assert_allclose(scores[outside], whole[outside], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("grow", [True, False])
def test_training_ends_where_no_move_gains(grow):
    task, model, K = make_task()
    n = len(K)
    if not grow:
        alpha = np.full(n, np.sum(K**2) / n)  # unit variance of the whole
        model = ActiveBasis(np.arange(n), alpha, np.zeros(n), model.likelihood)
    found = train(task, model, grow=grow)
    assert found.converged
    assert len(found.basis.index) < 20
    # Every candidate at the final mode, from the likelihood's derivatives, by brute force.
    inside = found.basis
    u = K[:, inside.index] @ inside.weights
    smoothed = inside.likelihood.log_expectation(task.y, u, np.zeros(n))
    H, t = -smoothed.d2, u - smoothed.d1 / smoothed.d2
    alpha = np.full(n, np.inf)
    alpha[inside.index] = inside.alpha
    here = brute_evidence(K, H, t, alpha)
    candidates = range(n) if grow else inside.index
    for j in candidates:
        for new in (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, np.inf):
            moved = alpha.copy()
            moved[j] = new
            assert brute_evidence(K, H, t, moved) - here <= 2 * task.limits.tol
    sigma = np.linalg.inv(
        np.diag(inside.alpha) + K[inside.index] @ (H[:, None] * K[:, inside.index])
    )
    assert_allclose(found.covariance, sigma, rtol=1e-5, atol=1e-6)


def test_the_path_rises_except_where_it_says_so():
    task, model, _ = make_task()
    path = train(task, model, grow=True).path
    falls = np.flatnonzero(np.diff(path.values) < -1e-9) + 1
    assert {path.kinds[i] for i in falls} <= {LINEARISE}
    rounds = [v for k, v in zip(path.kinds, path.values, strict=True) if k == "thresholds"]
    assert np.all(np.diff(rounds) >= -1e-9)  # from mode to mode it rises as well


def test_thresholds_are_stationary():
    """Central differences of the evidence in each threshold parameter vanish."""
    task, model, K = make_task()
    found = train(task, model, grow=True).basis
    phi, theta = K[:, found.index], found.likelihood.theta
    assert found.likelihood.noise == 1.0

    def value(theta):
        likelihood = found.likelihood.clone_with_theta(theta)
        problem = Problem(np.diag(1 / found.alpha), Basis(phi), task.y, likelihood, task.counts)
        return laplace_evidence(problem, infer(problem, smoothing="mode")).value

    for k in range(1, len(theta)):
        h = 1e-4 * (np.arange(len(theta)) == k)
        assert abs(value(theta + h) - value(theta - h)) / 2e-4 < 0.02


@pytest.mark.parametrize("alpha", [1e-3, 1e-6, 1e-9])
def test_slopes_in_the_thresholds_keep_their_digits_under_flat_priors(alpha):
    """Central differences of the log evidence where weights are thousands of times the noise."""
    X = np.random.default_rng(1).uniform(-1.7, 1.7, (200, 2))
    centres = np.array([[-1.5, -1.5], [1.5, 1.5], [-1.5, 1.5], [1.5, -1.5]])
    phi = np.exp(-0.5 * ((X[:, None] - centres) ** 2).sum(-1) / 6.0**2)
    y = np.searchsorted([-0.4, 0.4], X[:, 0] * X[:, 1])

    def evaluate(theta):
        likelihood = OrdinalProbit(1.0, -5.0, np.array([10.0])).clone_with_theta(theta)
        problem = Problem(np.eye(4) / alpha, Basis(phi), y, likelihood, np.ones(200))
        return laplace_evidence(problem, infer(problem, smoothing="mode", tol=1e-9))

    theta = np.array([0.0, -4.0, np.log(8.0)])
    slope = evaluate(theta).d_likelihood
    for k in (1, 2):
        h = 1e-3 * (
            np.arange(3) == k
        )  # long, for little rounding; the fourth order makes up for it
        near, far = (evaluate(theta + s * h).value - evaluate(theta - s * h).value for s in (1, 2))
        assert_allclose(slope[k], (8 * near - far) / 12e-3, rtol=1e-4, atol=1e-4)


def test_the_curvature_in_the_thresholds_is_that_of_the_log_likelihood():
    """Central differences of the gradient; log gaps bend the thresholds by their own slope."""
    rng = np.random.default_rng(0)
    n = 40
    y, u, counts = rng.integers(0, 4, n), rng.normal(size=n), rng.uniform(0.5, 2, n)
    likelihood = OrdinalProbit(1.0, -0.7, np.array([0.6, 1.1]))

    def slope(theta, u):
        at = likelihood.clone_with_theta(theta)
        return at.theta_derivatives(y, u, np.zeros(n)).value[1:]

    own, cross = likelihood.threshold_curvature(y, u, counts)
    theta, h = likelihood.theta, 1e-5
    steps = h * np.eye(4)[1:]
    up, down = (np.stack([slope(theta + s * d, u) @ counts for d in steps]) for s in (1, -1))
    bend = np.diag(np.concatenate([[0.0], (slope(theta, u) @ counts)[1:]]))
    assert_allclose(own, bend - (up - down) / (2 * h), atol=1e-6)
    assert_allclose(
        cross, -counts * (slope(theta, u + h) - slope(theta, u - h)) / (2 * h), atol=1e-6
    )
    assert np.linalg.eigvalsh(own)[0] > 0


def test_entrants_differ_in_what_they_add():
    """Two copies of a direction outside the model: one enters; a third direction enters, too."""
    rng = np.random.default_rng(0)
    inside, new = rng.normal(size=(50, 3)), rng.normal(size=(50, 2))
    mixed = inside @ rng.normal(size=(3, 3)) * 100
    sample = mixed + np.column_stack([new[:, 0], new[:, 0], new[:, 1]])
    assert_allclose(distinct_columns(sample, inside, 9), [0, 2])
    assert_allclose(distinct_columns(sample, inside, 1), [0])


def test_the_number_of_functions_can_be_bounded():
    task, model, _ = make_task(max_basis=4)
    assert len(train(task, model, grow=True).basis.index) <= 4
