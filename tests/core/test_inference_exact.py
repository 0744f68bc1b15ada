"""Inference against exact box probabilities, the papers' literal algorithms and dense formulas."""

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.stats import multivariate_normal
from sklearn.datasets import load_diabetes, load_iris
from sklearn.gaussian_process.kernels import RBF
from tests.reference.draws import normal_draws
from tests.reference.laplace_appendix_a import Parameters, appendix_a, covariance
from tests.reference.sequential_ep import sequential_ep

from ordinalgp.core import ep as ep_module
from ordinalgp.core.gaussian import Moments, Prior, Sites, condition
from ordinalgp.core.inference import infer
from ordinalgp.core.likelihoods import Gaussian, OrdinalProbit
from ordinalgp.core.linalg import square_root
from ordinalgp.core.objectives import ep_evidence, laplace_evidence
from ordinalgp.core.problem import Problem
from ordinalgp.core.projections import (
    Basis,
    Differences,
    Identity,
    RowSelection,
    SparseProjection,
    lift,
    sandwich,
    squared_lengths,
)
from ordinalgp.core.search import Task
from papers.data import DataUnavailableError, data_folder


def rbf(X, length_scale):
    return np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=-1) / length_scale**2)


def ordinal(K, y, likelihood, counts=None):
    n = len(y)
    return Problem(K, Identity(n), y, likelihood, np.ones(n) if counts is None else counts)


def ep(problem, **options):
    return infer(problem, smoothing="cavity", **options)


def laplace(problem, **options):
    return infer(problem, smoothing="mode", **options)


# ----------------------------------------------------------------- exact box probabilities


def log_box(covariance, likelihood, y):
    """Exact log P(y): the noisy latent vector falls into a box."""
    b = np.concatenate([[-np.inf], likelihood.thresholds, [np.inf]])
    n = len(y)
    noisy = covariance + likelihood.noise**2 * np.eye(n)
    p = multivariate_normal.cdf(
        b[y + 1],
        np.zeros(n),
        noisy,
        lower_limit=b[y],
        maxpts=3000 * n,
        abseps=1e-300,
        releps=1e-5,
    )
    return np.log(p)


def random_problem(seed, n_new=1):
    """Labels drawn from the model itself; kernel and noise over three orders of magnitude."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 16)) if seed % 5 == 0 else int(rng.integers(3, 11))
    r = int(rng.integers(2, 7))
    noise, length_scale = 10 ** rng.uniform(-1.5, 1), 10 ** rng.uniform(-1, 1)
    K = rbf(rng.normal(size=(n + n_new, 2)), length_scale)
    f = normal_draws(rng, K)
    noisy = f + noise * rng.normal(size=n + n_new)
    # Distinct cuts across the values, so that levels are neither all empty nor all equal.
    cuts = np.quantile(noisy, np.arange(1, r) / r) + 1e-3 * np.arange(r - 1)
    likelihood = OrdinalProbit.from_thresholds(cuts, noise)
    return K, np.searchsorted(cuts, noisy), likelihood


@pytest.fixture(scope="module")
def exact_comparison():
    """Errors of EP and Laplace in log evidence and in predictive probability, 50 problems."""
    rows = []
    for seed in range(50):
        K, y, likelihood = random_problem(seed)
        problem = ordinal(K[:-1, :-1], y[:-1], likelihood)
        truth, joint = log_box(K[:-1, :-1], likelihood, y[:-1]), log_box(K, likelihood, y)
        row = []
        for found, evidence in (
            (ep(problem), ep_evidence),
            (laplace(problem), laplace_evidence),
        ):
            new = found.posterior.predict(K[-1:, :-1], K[-1:, -1])
            proba = likelihood.probabilities(new.mean, new.var)[0, y[-1]]
            row += [evidence(problem, found).value - truth, proba - np.exp(joint - truth)]
        rows.append(row)
    return np.abs(rows)


def test_the_exact_probabilities_are_exact_enough():
    for seed in range(0, 50, 5):  # the largest among them
        K, y, likelihood = random_problem(seed)
        again = [log_box(K, likelihood, y) for _ in range(2)]
        assert abs(again[0] - again[1]) < 2e-3


def test_ep_evidence_is_nearly_exact(exact_comparison):
    of_ep, of_laplace = exact_comparison[:, 0], exact_comparison[:, 2]
    print("log evidence, median and largest error: ", end="")
    print(f"EP {np.median(of_ep):.1e}, {of_ep.max():.1e}; ", end="")
    print(f"Laplace {np.median(of_laplace):.1e}, {of_laplace.max():.1e}")
    assert np.median(of_ep) < 0.01
    assert of_ep.max() < 0.1
    assert np.median(of_ep) < np.median(of_laplace) / 3


def test_ep_predictions_are_nearly_exact(exact_comparison):
    of_ep, of_laplace = exact_comparison[:, 1], exact_comparison[:, 3]
    print("predictive probability, median and largest error: ", end="")
    print(f"EP {np.median(of_ep):.1e}, {of_ep.max():.1e}; ", end="")
    print(f"Laplace {np.median(of_laplace):.1e}, {of_laplace.max():.1e}")
    assert np.median(of_ep) < 0.01
    assert of_ep.max() < 0.03
    assert np.median(of_ep) < np.median(of_laplace)


def test_one_observation_is_exact():
    """With a single observation EP's tilted distribution is the posterior itself."""
    likelihood = OrdinalProbit.from_thresholds([-0.3, 0.8], 0.4)
    for y in range(3):
        problem = ordinal(np.array([[1.7]]), np.array([y]), likelihood)
        value = ep_evidence(problem, ep(problem, tol=1e-12)).value
        assert_allclose(value, log_box(problem.K, likelihood, problem.y), rtol=1e-12)


def test_independent_observations_are_exact():
    likelihood = OrdinalProbit.from_thresholds([-0.3, 0.8], 0.4)
    y = np.array([0, 1, 2, 1, 0])
    problem = ordinal(np.diag([1.0, 2.0, 0.5, 3.0, 1.0]), y, likelihood)
    truth = sum(log_box(problem.K[i : i + 1, i : i + 1], likelihood, y[[i]]) for i in range(5))
    assert_allclose(ep_evidence(problem, ep(problem, tol=1e-12)).value, truth, rtol=1e-12)


# -------------------------------------------------------------------- the papers' algorithms


def standardised(X):
    scale = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(scale == 0, 1, scale)


def metabolic():
    X, target = load_diabetes(return_X_y=True)
    return X[:120], np.searchsorted(np.quantile(target, [0.2, 0.4, 0.6, 0.8]), target[:120])


def petals():
    """The iris set with petal length, in five steps, as what is to be told from the rest."""
    X, _ = load_iris(return_X_y=True)
    return X[::2][:, [0, 1, 3]], np.digitize(X[::2, 2], [1.5, 3.5, 4.5, 5.2])


def published(name):
    """Training rows of the first published partition, five levels."""
    try:
        folder = data_folder()
    except DataUnavailableError as absent:
        pytest.skip(str(absent))
    table = pd.read_csv(folder / f"{name}.csv")
    train = pd.read_csv(folder / "partitions" / f"{name}_splits_5bins.csv")["split_1"] == 1
    labels = pd.read_csv(folder / "partitions" / f"{name}_labels.csv")["label_5"]
    X = table.drop(columns="target").to_numpy(dtype=float)[train]
    return X, labels.to_numpy()[train] - 1


REAL = {
    "diabetes (scikit-learn)": metabolic,
    "iris": petals,
    **{
        name: pytest.param(lambda name=name: published(name), marks=pytest.mark.data)
        for name in ("diabetes", "pyrimidines", "boston_housing")
    },
}


def real_problem(X, y, noise, length_scale):
    counts = np.bincount(y, minlength=5)
    likelihood = OrdinalProbit.from_counts(counts, noise)
    K = rbf(standardised(X), length_scale * np.sqrt(X.shape[1]))
    return ordinal(K, y, likelihood)


@pytest.mark.parametrize("load", REAL.values(), ids=REAL.keys())
@pytest.mark.parametrize(("noise", "length_scale"), [(1.0, 1.0), (0.3, 0.7)])
def test_parallel_ep_reaches_the_sequential_fixed_point(load, noise, length_scale):
    X, y = load()
    problem = real_problem(X, y, noise, length_scale)
    b = np.concatenate([[-np.inf], problem.likelihood.thresholds, [np.inf]])
    paper = sequential_ep(problem.K, y + 1, b, noise, tol=1e-9)
    assert paper.change <= 1e-9
    found = ep(problem, tol=1e-10)
    assert found.converged
    print(f"n = {len(y)}: {found.n_sweeps} parallel, {paper.n_sweeps} sequential sweeps")
    assert_allclose(found.sites.tau, paper.p, rtol=1e-6, atol=1e-6)
    assert_allclose(found.sites.nu, paper.p * paper.m, rtol=1e-6, atol=1e-6)
    assert_allclose(found.posterior.mean, paper.h, rtol=1e-6, atol=1e-6)
    assert_allclose(found.marginal.mean, paper.h, rtol=1e-6, atol=1e-6)
    assert_allclose(found.marginal.var, np.diag(paper.A), rtol=1e-6, atol=1e-6)
    assert_allclose(ep_evidence(problem, found).value, paper.log_evidence, rtol=1e-6)


@pytest.mark.parametrize("r", [2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_laplace_is_appendix_a(r, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(20, 2)), rng.permutation(np.arange(20) % r) + 1
    q = Parameters(
        kappa=10 ** rng.uniform(-1, 1),
        sigma=10 ** rng.uniform(-0.5, 0.5),
        b1=rng.normal(),
        Delta=rng.uniform(0.2, 2, r - 2),
    )
    value, gradient, f = appendix_a(X, y, q)
    Sigma, dSigma = covariance(X, q.kappa)
    problem = ordinal(Sigma, y - 1, OrdinalProbit(q.sigma, q.b1, q.Delta))
    found = laplace(problem, tol=1e-12)
    evaluation = laplace_evidence(problem, found)
    assert_allclose(found.posterior.mean, f, rtol=1e-8, atol=1e-9)
    assert_allclose(evaluation.value, -value, rtol=1e-10)
    ours = [q.kappa * np.sum(evaluation.d_kernel * dSigma), *evaluation.d_likelihood]
    assert_allclose(ours, -gradient, rtol=1e-7, atol=1e-8)


# ------------------------------------------------------------------------------- convergence


def extreme_problem(seed, *, copies=1):
    """Any length scale and noise, thresholds crowded or far apart, equal rows at odds."""
    rng = np.random.default_rng(seed)
    n, r = int(rng.integers(3, 41)), int(rng.integers(2, 8))
    X = rng.normal(size=(n, int(rng.integers(1, 4))))
    if seed % 4 == 0:
        X[: n // 2] = X[rng.integers(n // 2, n, n // 2)]
    gaps = 10 ** rng.uniform(-4, 2, r - 2)
    first = rng.normal(scale=10 ** rng.uniform(-1, 1))
    likelihood = OrdinalProbit(10 ** rng.uniform(-3, 2), first, gaps)
    counts = rng.integers(1, copies + 1, n).astype(float)
    K = 10 ** rng.uniform(-1, 1) * rbf(X, 10 ** rng.uniform(-3, 3))
    return ordinal(K, rng.integers(0, r, n), likelihood, counts)


def assert_finite(problem, found, objective):
    evaluation = objective(problem, found)
    assert np.isfinite(evaluation.value)
    assert np.isfinite(evaluation.d_kernel).all()
    assert np.isfinite(evaluation.d_likelihood).all()
    assert np.all(found.marginal.var > 0)
    new = found.posterior.predict(problem.K[:3] / 2, np.diagonal(problem.K)[:3])
    mean = np.concatenate([found.marginal.mean, new.mean, found.at.mean])
    var = np.concatenate([found.marginal.var, new.var, found.at.var])
    proba = problem.likelihood.probabilities(mean, var)
    assert np.isfinite(proba).all()
    assert np.abs(proba.sum(axis=1) - 1).max() < 1e-9


@pytest.mark.parametrize(
    ("smoothing", "objective"), [("cavity", ep_evidence), ("mode", laplace_evidence)]
)
def test_a_thousand_extreme_problems_converge(smoothing, objective):
    sweeps = []
    for seed in range(1000):
        problem = extreme_problem(seed)
        found = infer(problem, smoothing=smoothing)
        assert found.converged, f"seed {seed}: still moves by {found.change:.1e}"
        assert_finite(problem, found, objective)
        sweeps.append(found.n_sweeps)
    print(f"{smoothing}: {np.mean(sweeps):.1f} sweeps on average, {max(sweeps)} at most")


@pytest.mark.parametrize("copies", [5, 50])
@pytest.mark.parametrize(
    ("smoothing", "objective"), [("cavity", ep_evidence), ("mode", laplace_evidence)]
)
def test_repeated_observations_converge(smoothing, objective, copies):
    """Copies of an observation share a site, and all move at once: harder than single ones."""
    failed = []
    for seed in range(100):
        problem = extreme_problem(seed, copies=copies)
        found = infer(problem, smoothing=smoothing)
        assert_finite(problem, found, objective)
        if not found.converged:
            failed.append((seed, found.change))
    assert failed == []


@pytest.mark.parametrize(("least", "most"), [(0.1, 1.0), (0.5, 2.0), (0.1, 10.0)])
def test_fractional_weights_converge(least, most):
    """Unless the site of an observation that counts little is more than all that is known."""
    without = 0
    for seed in range(50):
        K, y, likelihood = random_problem(seed)
        draw = np.random.default_rng(seed).uniform(np.log(least), np.log(most), len(y))
        problem = ordinal(K, y, likelihood, np.exp(draw))
        found = ep(problem)
        assert found.converged == found.has_cavities, f"seed {seed}: moves by {found.change:.1e}"
        assert_finite(problem, found, ep_evidence)
        without += not found.has_cavities
    assert without <= 25  # these problems are extreme: small noise, few rows


# ----------------------------------------------------------------- counts, starts, fallbacks


@pytest.mark.parametrize(
    ("smoothing", "objective"), [("cavity", ep_evidence), ("mode", laplace_evidence)]
)
def test_counts_are_repeated_observations(smoothing, objective):
    """The engine's counts against the same rows written out, with a singular kernel matrix."""
    rng = np.random.default_rng(2)
    K, y = rbf(rng.normal(size=(8, 2)), 1.3), rng.integers(0, 3, 8)
    likelihood = OrdinalProbit.from_thresholds([-0.4, 0.5], 0.5)
    counts = np.array([1, 3, 1, 2, 1, 1, 4, 1])
    merged = ordinal(K, y, likelihood, counts.astype(float))
    rows = np.repeat(np.arange(8), counts)
    written = ordinal(K[np.ix_(rows, rows)], y[rows], likelihood)
    a, b = (
        objective(problem, infer(problem, smoothing=smoothing, tol=1e-11, max_sweeps=500))
        for problem in (merged, written)
    )
    assert_allclose(a.value, b.value, rtol=1e-9)
    assert_allclose(a.d_likelihood, b.d_likelihood, rtol=1e-7, atol=1e-8)
    back = RowSelection(rows, 8)
    assert_allclose(a.d_kernel, lift(back, b.d_kernel), rtol=1e-6, atol=1e-7)
    assert_allclose(a.approximation.marginal.var[rows], b.approximation.marginal.var, rtol=1e-7)
    assert_allclose(a.approximation.sites.tau[rows], b.approximation.sites.tau, rtol=1e-6)


def conditioned(seed, counts=1.0):
    """A problem, sites near EP's, and the posterior under them."""
    K, y, likelihood = random_problem(seed)
    problem = ordinal(K, y, likelihood, np.full(len(y), counts))
    sites = ep(problem).sites
    return problem, sites, problem.condition(sites)


@pytest.mark.parametrize("counts", [1.0, 2.0], ids=["single", "double"])
@pytest.mark.parametrize("seed", range(4))
def test_the_response_is_right_to_first_order(seed, counts):
    """Against factorisations anew: a tenth of the change leaves a hundredth of the error."""
    problem, sites, posterior = conditioned(seed, counts)
    rng = np.random.default_rng(seed)
    m = len(sites.tau)
    d_tau, d_nu = sites.tau * rng.uniform(-1, 1, m), sites.nu * rng.uniform(-1, 1, m)
    errors = []
    for share in (1e-2, 1e-3):
        tau, nu = sites.tau + share * d_tau, sites.nu + share * d_nu
        exact = problem.condition(Sites(tau, nu)).observed()
        found = posterior.response().moments(share * d_tau, share * d_nu)
        old = posterior.observed()
        assert np.max(np.abs(exact.mean - old.mean)) > 1e-5
        error = np.abs(found.mean - exact.mean) / np.sqrt(exact.var)
        # Conjugate gradients leave a part of the residual, which they begin with the next time.
        assert np.max(error) < 0.05 * np.max(np.abs(exact.mean - old.mean) / np.sqrt(exact.var))
        errors.append(np.max(np.abs(found.var / exact.var - 1.0)))
    assert errors[1] < 0.02 * errors[0]


@pytest.mark.parametrize("counts", [1.0, 2.0], ids=["single", "double"])
@pytest.mark.parametrize("seed", range(4))
def test_a_response_may_take_the_squares_of_another_one(seed, counts):
    """Means are as exact as before; variances are off by the product of both changes."""
    problem, sites, posterior = conditioned(seed, counts)
    rng = np.random.default_rng(seed)
    m = len(sites.tau)
    d_tau, d_nu = sites.tau * rng.uniform(-1, 1, m), sites.nu * rng.uniform(-1, 1, m)
    near, step = 1e-2, 1e-3
    other = problem.condition(Sites(sites.tau + near * d_tau, sites.nu)).response()
    exact = problem.condition(Sites(sites.tau + step * d_tau, sites.nu + step * d_nu)).observed()
    own = posterior.response().moments(step * d_tau, step * d_nu)
    found = posterior.response(other).moments(step * d_tau, step * d_nu)
    assert_allclose(found.mean, own.mean, rtol=1e-9, atol=1e-11)
    assert_allclose(found.var, exact.var, rtol=20 * near * step)
    assert not np.array_equal(found.var, own.var)


@pytest.mark.parametrize("seed", range(4))
def test_the_response_to_one_site_is_exact(seed):
    problem, sites, posterior = conditioned(seed)
    d_tau, d_nu = np.zeros((2, len(sites.tau)))
    d_tau[1], d_nu[1] = 0.4 * sites.tau[1], -0.3
    exact = problem.condition(Sites(sites.tau + d_tau, sites.nu + d_nu)).observed()
    response = posterior.response()
    for _ in range(3):  # means go on where they stopped
        found = response.moments(d_tau, d_nu)
    assert_allclose(found.var[1], exact.var[1], rtol=1e-10)
    assert_allclose(found.mean, exact.mean, rtol=1e-6, atol=1e-8)


def test_the_response_refuses_changes_that_are_too_large():
    """Ten sites on nearly one latent value: without nine tenths of each its variance is tenfold."""
    tau, nu = np.full(10, 10.0), np.zeros(10)
    X = np.linspace(0, 1e-3, 10)[:, None]
    problem = ordinal(rbf(X, 1.0), np.zeros(10, dtype=int), OrdinalProbit.from_thresholds([0], 1.0))
    response = problem.condition(Sites(tau, nu)).response()
    assert response.moments(-0.9 * tau, nu) is None
    assert response.moments(-0.1 * tau, nu) is not None


def in_turn(problem, max_sweeps, tol, block=32):
    """EP with nothing but updates in turn."""
    sites, stall = Sites.flat(problem.projection.shape[0]), ep_module._Stall()
    for sweep in range(1, max_sweeps + 1):
        found = stall.watch(ep_module._survey(problem, sites, sweep, tol))
        if found.converged:
            break
        sites = ep_module.update_in_turn(problem, found, block)
    return found


@pytest.mark.parametrize("counts", [1.0, 2.0], ids=["single", "double"])
@pytest.mark.parametrize("seed", range(6))
def test_one_site_at_a_time_agrees_with_all_at_once(seed, counts):
    K, y, likelihood = random_problem(seed)
    problem = ordinal(K, y, likelihood, np.full(len(y), counts))
    a = ep_module.propagate(problem, None, 1000, 1e-10)
    b = in_turn(problem, 1000, 1e-10)
    assert a.converged
    assert b.converged
    assert_allclose(b.sites.tau, a.sites.tau, rtol=1e-6, atol=1e-8)
    assert_allclose(b.sites.nu, a.sites.nu, rtol=1e-6, atol=1e-8)
    assert_allclose(
        ep_evidence(problem, b).value, ep_evidence(problem, a).value, rtol=1e-8, atol=1e-8
    )


@pytest.mark.parametrize("seed", range(4))
def test_blocks_of_any_size_are_one_site_at_a_time(seed):
    """One sweep, so that the order of updates shows; with prior mean and a block not full."""
    rng = np.random.default_rng(seed)
    n = 41
    X = rng.normal(size=(n, 2))
    y = np.digitize(X[:, 0] + 0.1 * rng.normal(size=n), [-0.5, 0.5])
    likelihood = OrdinalProbit.from_thresholds([-0.5, 0.5], 0.05)
    counts = np.where(np.arange(n) % 7 == 0, 3.0, 1.0)
    problem = Problem(rbf(X, 1.0), Identity(n), y, likelihood, counts, rng.normal(size=n) / 5)
    one, two = (in_turn(problem, 2, 1e-12, block) for block in (1, 8))
    assert not one.converged
    assert_allclose(two.sites.tau, one.sites.tau, rtol=1e-7, atol=1e-9)
    assert_allclose(two.sites.nu, one.sites.nu, rtol=1e-7, atol=1e-9)


def test_blocks_settle_many_copies_with_little_noise():
    """Copies that moved by the target of one of them would diverge."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = np.digitize(X[:, 0] * X[:, 1], [-0.3, 0.3])
    likelihood = OrdinalProbit.from_thresholds([-0.3, 0.3], 0.01)
    problem = ordinal(rbf(X, 1.0), y, likelihood, np.full(40, 20.0))
    found = in_turn(problem, 60, 1e-6)
    assert found.converged
    other = ep_module.propagate(problem, None, 300, 1e-8)
    assert other.converged
    assert_allclose(found.marginal.mean, other.marginal.mean, atol=1e-4)


def test_updates_in_turn_take_over_where_sweeps_circle(monkeypatch):
    K, y, likelihood = random_problem(3)
    problem = ordinal(K, y, likelihood)
    expected = ep(problem, tol=1e-9)
    turns = []

    def counted(*args):
        turns.append(1)
        return update(*args)

    update = ep_module.update_in_turn
    monkeypatch.setattr(ep_module, "update_in_turn", counted)
    # As if every sweep circled.
    found = ep_module.propagate(problem, None, 300, 1e-9, near=0.0, patience=0)
    assert found.converged
    assert len(turns) == found.n_sweeps - 1 > 1
    assert_allclose(found.sites.tau, expected.sites.tau, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("noise", "variance"), [(1e-3, 1e3), (1e-6, 1.0), (1e-8, 1e3)])
def test_one_site_at_a_time_survives_variances_without_digits(noise, variance):
    """Equal inputs, unequal labels, hardly any noise: rounding leaves variances below zero."""
    y = np.array([0, 1, 2, 1, 0, 2, 1, 1])
    likelihood = OrdinalProbit.from_thresholds([-0.5, 0.5], noise)
    problem = ordinal(np.full((8, 8), variance), y, likelihood)
    found = in_turn(problem, 60, 1e-6)
    for values in (found.sites.tau, found.sites.nu, found.marginal.mean, found.marginal.var):
        assert np.all(np.isfinite(values))


def extreme(seed):
    """A few equal inputs, noise from 1e-12 and variances up to 1e8: hardly a digit is left."""
    rng = np.random.default_rng(seed)
    n, distinct = rng.integers(3, 14), rng.integers(1, 4)
    noise, variance = 10.0 ** rng.uniform(-12, -2), 10.0 ** rng.uniform(-6, 8)
    X = rng.normal(size=(distinct, 1))[rng.integers(0, distinct, n)]
    K = variance * rbf(X, 1.0)
    if seed % 2:
        y = np.concatenate([[0, 1, 2], rng.integers(0, 3, n - 3)])
        return ordinal(K, y, OrdinalProbit.from_thresholds([-0.5, 0.5], noise))
    better = rng.integers(0, n, 2 * n)
    worse = (better + rng.integers(1, n, 2 * n)) % n
    likelihood = OrdinalProbit.from_thresholds([0.0], noise)
    y, counts = np.zeros(2 * n, dtype=int), np.ones(2 * n)
    return Problem(K, Differences(better, worse, n), y, likelihood, counts)


@pytest.mark.parametrize("way", ["mode", "cavity", "in turn"])
def test_no_rounding_stops_inference(way):
    """About a third of these precision matrices lose their definiteness, on any processor."""
    for seed in range(60):
        problem = extreme(seed)
        if way == "in turn":
            found = in_turn(problem, 10, 1e-6)
        else:
            found = infer(problem, smoothing=way, max_sweeps=10)
        sites, at = found.sites, found.marginal
        for values in (sites.tau, sites.nu, at.mean, at.var, found.posterior.half_log_det):
            assert np.all(np.isfinite(values)), seed


def test_an_evidence_without_digits_attracts_no_search():
    """Sites that circle over a factorisation that rounding spoiled can have any evidence."""
    X, y = np.arange(6.0)[:, None], np.array([0, 0, 1, 1, 2, 2])
    likelihood = OrdinalProbit.from_thresholds([-0.5, 0.5], 0.3)
    task = Task(X, RBF(1.0), likelihood, Identity(6), y, np.ones(6))
    value, found = task.value_and_posterior()
    assert -20 < value < 0
    assert value == pytest.approx(task.evaluate(task.theta).value, rel=1e-12)
    posterior = copy.copy(found.posterior)
    posterior.definite = False
    lost = replace(found, posterior=posterior, converged=False)
    spoiled = replace(ep_evidence(task.problem(), found), value=1e9, approximation=lost)
    assert spoiled.usable_value == -np.inf


@pytest.mark.parametrize("projection", [Differences([0, 1, 4, 2], [3, 2, 0, 5], 6), Identity(6)])
def test_one_site_at_a_time_with_any_projection(projection):
    rng = np.random.default_rng(0)
    m = projection.shape[0]
    likelihood = OrdinalProbit.from_thresholds([-0.2, 0.4], 0.3)
    problem = Problem(
        rbf(rng.normal(size=(6, 2)), 1.0),
        projection,
        rng.integers(0, 3, m),
        likelihood,
        np.ones(m),
        rng.normal(size=6),
    )
    a = ep_module.propagate(problem, None, 500, 1e-11)
    b = in_turn(problem, 500, 1e-11)
    assert_allclose(b.posterior.mean, a.posterior.mean, rtol=1e-8, atol=1e-9)
    assert_allclose(b.marginal.var, a.marginal.var, rtol=1e-8)


@pytest.mark.parametrize("smoothing", ["cavity", "mode"])
@pytest.mark.parametrize("seed", range(5))
def test_a_warm_start_changes_the_way_not_the_answer(smoothing, seed):
    K, y, likelihood = random_problem(seed)
    problem = ordinal(K, y, likelihood)
    cold = infer(problem, smoothing=smoothing, tol=1e-9)
    nearby = ordinal(1.1 * K, y, OrdinalProbit(1.2 * likelihood.noise, 0.1, likelihood.gaps))
    start = infer(nearby, smoothing=smoothing).start
    warm = infer(problem, smoothing=smoothing, tol=1e-9, start=start)
    assert warm.converged
    assert_allclose(warm.posterior.mean, cold.posterior.mean, rtol=1e-6, atol=1e-7)
    assert_allclose(warm.sites.tau, cold.sites.tau, rtol=1e-5, atol=1e-7)
    again = infer(problem, smoothing=smoothing, tol=1e-6, start=warm.start)
    assert again.n_sweeps <= 2


# ------------------------------------------------------------- projections and conditioning

RNG = np.random.default_rng(6)
N = 7


def some_sparse_rows(m):
    return sparse.csr_array(np.where(RNG.random((m, N)) < 0.5, RNG.normal(size=(m, N)), 0.0))


PROJECTIONS = {
    "identity": (Identity(N), np.eye(N)),
    "rows": (RowSelection(np.array([5, 1, 1, 0]), N), np.eye(N)[[5, 1, 1, 0]]),
    "rows-all-repeated": (
        RowSelection(np.array([0, 1, 2, 3, 4, 5, 6, 0, 3]), N),
        np.eye(N)[[0, 1, 2, 3, 4, 5, 6, 0, 3]],
    ),
    "differences": (
        Differences(np.array([0, 3, 6]), np.array([2, 1, 5]), N),
        np.eye(N)[[0, 3, 6]] - np.eye(N)[[2, 1, 5]],
    ),
    "differences-repeated": (
        Differences(np.array([0, 3, 0]), np.array([2, 1, 2]), N),
        np.eye(N)[[0, 3, 0]] - np.eye(N)[[2, 1, 2]],
    ),
    "differences-many": (
        Differences(*np.triu_indices(N, 1), N),
        np.eye(N)[np.triu_indices(N, 1)[0]] - np.eye(N)[np.triu_indices(N, 1)[1]],
    ),
    "basis-wide": (lambda B: (Basis(B), B))(RNG.normal(size=(4, N))),
    "basis-tall": (lambda B: (Basis(B), B))(RNG.normal(size=(12, N))),
    "sparse-threes": (lambda B: (SparseProjection(sparse.csr_array(B)), B))(
        np.eye(N)[:5] - 2 * np.eye(N)[1:6] + np.eye(N)[2:]
    ),
    "sparse": (lambda B: (SparseProjection(B), B.toarray()))(some_sparse_rows(5)),
    "sparse-repeated": (lambda B: (SparseProjection(B), B.toarray()))(
        some_sparse_rows(3)[[0, 1, 0, 2, 2]]
    ),
}


@pytest.fixture(params=PROJECTIONS.values(), ids=PROJECTIONS.keys())
def pair(request):
    return request.param


def test_projections_are_matrices(pair):
    projection, A = pair
    m, n = A.shape
    f, F, u, U = (RNG.normal(size=s) for s in (n, (n, 3), m, (m, 3)))
    tau = RNG.uniform(0.1, 2, m)
    H, G = RNG.normal(size=(n, n)), RNG.normal(size=(m, m))
    assert projection.shape == (m, n)
    assert_allclose(projection.apply(f), A @ f, atol=1e-14)
    assert_allclose(projection.apply(F), A @ F, atol=1e-14)
    assert_allclose(projection.adjoint(u), A.T @ u, atol=1e-14)
    assert_allclose(projection.adjoint(U), A.T @ U, atol=1e-14)
    assert_allclose(projection.scatter(tau), A.T @ np.diag(tau) @ A, atol=1e-13)
    assert_allclose(sandwich(projection, H + H.T), A @ (H + H.T) @ A.T, atol=1e-13)
    assert_allclose(lift(projection, G + G.T), A.T @ (G + G.T) @ A, atol=1e-13)
    assert_allclose(squared_lengths(projection, H), np.sum((H @ A.T) ** 2, axis=0), rtol=1e-12)


@pytest.mark.parametrize("apart", [1e-2, 1e-5, 1e-8])
def test_lengths_of_small_differences_keep_their_digits(apart):
    H = RNG.normal(size=(N, 1)) + apart * RNG.integers(-99, 99, size=(N, N)) / 64
    A = Differences(*np.triu_indices(N, 1), N)
    u = H[:, np.triu_indices(N, 1)[0]] - H[:, np.triu_indices(N, 1)[1]]
    assert_allclose(squared_lengths(A, H), np.sum(u**2, axis=0), rtol=1e-9)


def test_distinct_projections_are_those_of_the_matrix(pair):
    projection, A = pair
    distinct, where = projection.distinct
    dense = distinct.apply(np.eye(A.shape[1]))
    assert_allclose(dense if where is None else dense[where], A, atol=1e-15)
    if not isinstance(projection, Basis):
        assert len(np.unique(dense.round(12), axis=0)) == len(dense)


def test_scatter_works_in_chunks():
    B, tau = RNG.normal(size=(12, 3)), RNG.uniform(0.1, 1, 12)
    assert_allclose(Basis(B, chunk_rows=5).scatter(tau), B.T @ np.diag(tau) @ B, atol=1e-13)


@pytest.mark.parametrize("prior", ["zero", "given"])
@pytest.mark.parametrize("weak", [False, True], ids=["strong sites", "weak sites"])
def test_conditioning_is_the_textbook_formula(pair, prior, weak):
    """Posterior covariance (K^-1 + A' T A)^-1, with inverses written out."""
    projection, A = pair
    m, n = A.shape
    rng = np.random.default_rng(8)
    X = rng.normal(size=(n + 3, 2))
    full = rbf(X, 1.0) + 0.1 * np.eye(n + 3)
    K, cross, new = full[:n, :n], full[n:, :n], full[n:, n:]
    counts, tau = rng.choice([1.0, 2.0, 0.5], m), rng.uniform(0.2, 3, m)
    if weak:
        tau = tau * np.resize([1e-7, 1.0, 0.0], m)
    nu = rng.normal(size=m) * np.where(tau > 0, 1, 0.3)
    h = None if prior == "zero" else rng.normal(size=n)
    mean0 = np.zeros(n) if h is None else h
    posterior = condition(Prior(K, projection, counts, h), Sites(tau, nu))

    T = np.diag(counts * tau)
    covariance = np.linalg.inv(np.linalg.inv(K) + A.T @ T @ A)
    mean = covariance @ (np.linalg.inv(K) @ mean0 + A.T @ (counts * nu))
    assert_allclose(posterior.mean, mean, rtol=1e-9, atol=1e-10)
    weights = np.linalg.inv(K) @ (mean - mean0)
    assert_allclose(posterior.weights, weights, rtol=1e-8, atol=1e-9)
    log_det = np.linalg.slogdet(np.eye(m) + A @ K @ A.T @ T)[1]
    assert_allclose(posterior.half_log_det, log_det / 2, rtol=1e-9, atol=1e-12)
    observed = posterior.observed()
    assert_allclose(observed.mean, A @ mean, rtol=1e-9, atol=1e-10)
    assert_allclose(observed.var, np.diag(A @ covariance @ A.T), rtol=1e-9)
    gain = np.linalg.inv(K) - np.linalg.inv(K) @ covariance @ np.linalg.inv(K)
    assert_allclose(posterior.inverse(), gain, rtol=1e-8, atol=1e-9)
    known = posterior.preconditioner
    assert known is not None or A.shape[0] <= A.shape[1]
    if known is not None and not weak:
        v = rng.normal(size=n)
        expected = np.linalg.solve(np.eye(n) + A.T @ T @ A @ K, v)
        assert_allclose(known(v), expected, rtol=1e-9, atol=1e-10)
    for v in (rng.normal(size=n), rng.normal(size=(n, 2))):
        assert_allclose(posterior.covary(v), covariance @ v, rtol=1e-9, atol=1e-10)
    moments = posterior.predict(cross, np.diag(new))
    joint = new - cross @ gain @ cross.T
    assert_allclose(moments.mean, cross @ weights, rtol=1e-8, atol=1e-9)
    assert_allclose(moments.var, np.diag(joint), rtol=1e-8, atol=1e-10)
    assert_allclose(posterior.predict_covariance(cross, new), joint, rtol=1e-8, atol=1e-9)


def test_both_forms_are_tried():
    forms = {
        type(condition(Prior(np.eye(N), p, np.ones(p.shape[0])), Sites.flat(p.shape[0]))).__name__
        for p, _ in PROJECTIONS.values()
    }
    assert len(forms) == 2


def test_flat_sites_leave_the_prior(pair):
    projection, A = pair
    K, h = rbf(RNG.normal(size=(N, 2)), 1.0), RNG.normal(size=N)
    posterior = condition(Prior(K, projection, np.ones(len(A)), h), Sites.flat(len(A)))
    assert_allclose(posterior.mean, h, atol=1e-12)
    assert_allclose(posterior.observed().var, np.diag(A @ K @ A.T), rtol=1e-10)
    assert abs(posterior.half_log_det) < 1e-12


def test_square_root_of_a_singular_matrix():
    B = RNG.normal(size=(6, 2))
    F = square_root(B @ B.T)
    assert_allclose(F @ F.T, B @ B.T, atol=1e-13)


@pytest.mark.parametrize("rows", [5, 30], ids=["few rows", "many rows"])
@pytest.mark.parametrize("likelihood", ["ordinal", "gaussian"])
@pytest.mark.parametrize(
    ("smoothing", "objective"), [("cavity", ep_evidence), ("mode", laplace_evidence)]
)
def test_weight_space_is_function_space(rows, likelihood, smoothing, objective):
    """f = Phi w with w ~ N(0, diag(1/alpha)) is a Gaussian process with K = Phi diag Phi'."""
    rng = np.random.default_rng(rows)
    Phi, alpha = rng.normal(size=(rows, 8)), rng.uniform(0.5, 5, 8)
    new = rng.normal(size=(4, 8))
    K = Phi @ np.diag(1 / alpha) @ Phi.T
    if likelihood == "ordinal":
        y, model = rng.integers(0, 3, rows), OrdinalProbit.from_thresholds([-0.5, 0.6], 0.7)
    else:
        y, model = rng.normal(size=rows), Gaussian(0.7)
    weight_space = Problem(np.diag(1 / alpha), Basis(Phi), y, model, np.ones(rows))
    function_space = ordinal(K, y, model)
    a, b = (
        objective(problem, infer(problem, smoothing=smoothing, tol=1e-12, max_sweeps=500))
        for problem in (weight_space, function_space)
    )
    assert_allclose(a.value, b.value, rtol=1e-10)
    assert_allclose(a.d_likelihood, b.d_likelihood, rtol=1e-9, atol=1e-10)
    assert_allclose(a.approximation.marginal.mean, b.approximation.marginal.mean, atol=1e-10)
    assert_allclose(a.approximation.marginal.var, b.approximation.marginal.var, atol=1e-10)
    prior, cross = new @ np.diag(1 / alpha), new @ np.diag(1 / alpha) @ Phi.T
    diagonal = np.einsum("ij,ij->i", prior, new)
    ours = a.approximation.posterior.predict(prior, diagonal)
    theirs = b.approximation.posterior.predict(cross, diagonal)
    assert isinstance(ours, Moments)
    assert_allclose(ours.mean, theirs.mean, atol=1e-10)
    assert_allclose(ours.var, theirs.var, atol=1e-10)


def test_distinct_rows_leave_the_projection_as_it_was():
    """An item compared with its own twin: two entries in one column, which cancel."""
    A = Differences(np.array([0, 2, 0]), np.array([1, 2, 1]), 3)
    before = A.matrix.toarray()
    distinct, where = A.distinct
    assert_allclose(A.matrix.toarray(), before)
    assert_allclose(A.scatter(np.ones(3)), before.T @ before)
    assert_allclose(distinct.apply(np.eye(3))[where], before)
