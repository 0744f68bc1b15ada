"""Thousands of copies of one comparison, against quadrature of the one difference they see."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_ndtr

from ordinalgp import PreferenceGP


def moments(log_density, centre, width):
    """Log mass, mean and variance of a density on the line, by sums over a fine grid."""
    u = centre + width * np.linspace(-12, 12, 400_001)
    logs = log_density(u)
    p = np.exp(logs - logs.max())
    mass = np.sum(p) * (u[1] - u[0])
    share = p * (u[1] - u[0]) / mass
    mean = share @ u
    return logs.max() + np.log(mass), mean, share @ (u - mean) ** 2


def log_normal(u, mean, var):
    return -0.5 * ((u - mean) ** 2 / var + np.log(2 * np.pi * var))


def difference(noise, pairs, weights):
    """Posterior moments of f0 - f1 and the log evidence; anything that does not settle is told."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PreferenceGP("independent", noise=noise, optimizer=None, max_sweeps=30)
        model.fit(2, pairs, sample_weight=weights)
    assert model.converged_
    mean, covariance = model.latent_mean_and_covariance([0, 1])
    contrast = np.array([1, -1])
    return contrast @ mean, contrast @ covariance @ contrast, model.log_marginal_likelihood_value_


@pytest.mark.parametrize("copies", [1, 1.5, 20, 1e3, 1e6])
@pytest.mark.parametrize("noise", [3.0, 0.3, 0.01])
def test_copies_are_at_the_fixed_point(copies, noise):
    """The cavity of one copy times the likelihood has the posterior's mean and variance."""
    mean, var, evidence = difference(noise, [[0, 1]], [copies])
    prior = 2.0
    tau, nu = (1 / var - 1 / prior) / copies, mean / var / copies
    cavity_var = 1 / (1 / var - tau)
    cavity_mean = cavity_var * (mean / var - nu)

    def tilted(u):
        return log_ndtr(u / (np.sqrt(2) * noise)) + log_normal(u, cavity_mean, cavity_var)

    log_z, tilted_mean, tilted_var = moments(tilted, cavity_mean, np.sqrt(cavity_var))
    assert_allclose(tilted_mean, mean, rtol=1e-6)
    assert_allclose(tilted_var, var, rtol=1e-5)

    # EP's evidence: each copy's site, scaled to the mass of its tilted distribution.
    def site(u):
        return nu * u - tau * u**2 / 2

    overlap, *_ = moments(
        lambda u: site(u) + log_normal(u, cavity_mean, cavity_var), mean, np.sqrt(var)
    )
    whole, *_ = moments(lambda u: copies * site(u) + log_normal(u, 0.0, prior), mean, np.sqrt(var))
    # The sums over the grid are good to ten digits, and multiplied by the copies.
    assert_allclose(evidence, whole + copies * (log_z - overlap), atol=1e-5 + 1e-10 * copies)


@pytest.mark.parametrize("copies", [1, 1e3, 1e6])
def test_many_wins_and_losses_are_almost_exact(copies):
    """Contradictory copies leave nearly a normal posterior: EP is then as good as quadrature."""
    wins, losses, noise = 5 * copies, 2 * copies, 0.7
    mean, var, evidence = difference(noise, [[0, 1], [1, 0]], [wins, losses])

    def exact(u):
        z = u / (np.sqrt(2) * noise)
        return wins * log_ndtr(z) + losses * log_ndtr(-z) + log_normal(u, 0.0, 2.0)

    log_z, true_mean, true_var = moments(exact, mean, np.sqrt(var))
    assert_allclose(mean, true_mean, rtol=1e-2 if copies == 1 else 1e-4)
    assert_allclose(var, true_var, rtol=2e-2 if copies == 1 else 1e-2)
    assert_allclose(evidence, log_z, atol=5e-3, rtol=1e-9)


@pytest.mark.parametrize("n_items", [3, 6])
@pytest.mark.parametrize("copies", [1e3, 1e6])
def test_separable_wins_repeated_many_times_converge(copies, n_items):
    """All items in one order, hyperparameters learned: the order, and no warning."""
    pairs = np.column_stack(np.triu_indices(n_items, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PreferenceGP("independent").fit(
            n_items, pairs, sample_weight=np.full(len(pairs), copies)
        )
    assert model.converged_
    assert np.all(np.diff(model.predict(n_items)) < 0)
