"""EP converges on random problems with little noise, and says so only then; Laplace with copies."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from ordinalgp.core.gaussian import Moments, Sites
from ordinalgp.core.inference import infer
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.problem import Problem, match
from ordinalgp.core.projections import Basis, Identity


def random_problem(seed):
    rng = np.random.default_rng(seed)
    n, r = rng.integers(5, 60), rng.integers(2, 6)
    X = rng.normal(size=(n, rng.integers(1, 5)))
    f = np.sin(2 * X[:, 0]) + X.sum(axis=1) / 3
    y = np.digitize(f, np.quantile(f, np.linspace(0, 1, r + 1)[1:-1]))
    b = np.sort(rng.normal(size=r - 1)) + 0.05 * np.arange(r - 1)
    likelihood = OrdinalProbit.from_thresholds(b, 10.0 ** rng.uniform(-3, 0))
    K = RBF(10.0 ** rng.uniform(-0.5, 1.0))(X)
    return Problem(K, Identity(n), y, likelihood, np.ones(n))


def change_by_definition(problem, sites):
    """How far EP would still move, by inverses instead of our factors."""
    T = np.diag(sites.tau)
    # (K^-1 + T)^-1 without K^-1, which need not exist.
    covariance = problem.K @ np.linalg.inv(np.eye(len(T)) + T @ problem.K)
    mean, var = covariance @ sites.nu, np.diagonal(covariance)
    precision = 1 / var - sites.tau
    at = Moments((mean / var - sites.nu) / precision, 1 / precision)
    new = match(problem.smooth(at), at)
    d_tau = new.tau - sites.tau
    d_nu = new.nu - sites.nu - d_tau * mean
    return max(np.max(np.abs(d_tau) * var), np.max(np.abs(d_nu) * np.sqrt(var)))


@pytest.mark.parametrize("seed", range(60))
def test_ep_converges(seed):
    problem = random_problem(seed)
    found = infer(problem, smoothing="cavity", tol=1e-5)
    assert found.converged
    assert change_by_definition(problem, found.sites) < 2e-5


def test_ep_does_not_claim_what_it_has_not_reached():
    problem = random_problem(0)
    found = infer(problem, smoothing="cavity", tol=1e-9, max_sweeps=2)
    assert not found.converged
    assert change_by_definition(problem, found.sites) > 1e-9
    assert change_by_definition(problem, Sites.flat(len(problem.y))) > 1e-3


@pytest.mark.parametrize("alpha", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("copies", [1e8, 1e12])
def test_laplaces_posterior_has_its_mean_at_the_mode_whatever_the_copies(copies, alpha):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = np.digitize(X[:, 0] + 0.05 * rng.normal(size=40), [-0.7, 0.7])
    phi, likelihood = RBF(3.0)(X), OrdinalProbit.from_thresholds([-0.1, 2.0], 1.0)
    problem = Problem(np.eye(40) / alpha, Basis(phi), y, likelihood, np.full(40, copies))
    found = infer(problem, smoothing="mode")
    # The rows can be told apart, and Newton's equations have lost all digits.
    np.testing.assert_array_equal(np.digitize(found.at.mean, likelihood.thresholds), y)
    np.testing.assert_allclose(phi @ found.posterior.mean, found.at.mean, atol=1e-6)
