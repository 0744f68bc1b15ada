"""Other libraries, limits and identities."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtri
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
)
from tests.gp.common import make_data, quick

from ordinalgp import OrdinalGPClassifier
from ordinalgp.core.gaussian import Prior, Sites, condition
from ordinalgp.core.inference import infer
from ordinalgp.core.likelihoods import Gaussian, OrdinalProbit
from ordinalgp.core.objectives import ep_evidence, laplace_evidence
from ordinalgp.core.ordinal_logit import OrdinalLogit
from ordinalgp.core.problem import Problem
from ordinalgp.core.projections import Identity
from ordinalgp.models.exact import latent_in_blocks


@pytest.mark.parametrize("smoothing", ["cavity", "mode"])
def test_gaussian_likelihood_is_gaussian_process_regression(smoothing):
    X, _ = make_data(n=25)
    y = np.sin(X[:, 0]) + 0.3 * np.random.default_rng(1).normal(size=25)
    query = np.random.default_rng(2).normal(size=(6, 2))
    kernel = 1.7 * RBF([0.7, 1.5])
    noise = 0.35
    peer = GaussianProcessRegressor(kernel, alpha=noise**2, optimizer=None).fit(X, y)
    problem = Problem(kernel(X), Identity(25), y, Gaussian(noise), np.ones(25))
    found = infer(problem, smoothing=smoothing, tol=1e-12)
    objective = ep_evidence if smoothing == "cavity" else laplace_evidence
    assert_allclose(
        objective(problem, found).value, peer.log_marginal_likelihood_value_, rtol=1e-10
    )
    mean, covariance = peer.predict(query, return_cov=True)
    cross = kernel(query, X)
    moments = found.posterior.predict(cross, kernel.diag(query))
    assert_allclose(moments.mean, mean, rtol=1e-8, atol=1e-10)
    assert_allclose(moments.var, np.diag(covariance), rtol=1e-8)
    joint = found.posterior.predict_covariance(cross, kernel(query))
    assert_allclose(joint, covariance, rtol=1e-8, atol=1e-10)


def test_binary_logit_is_scikit_learns_classifier():
    """Both are Laplace's approximation of the same logistic model: mode and evidence agree."""
    X, y = make_data(n=30, r=2)
    kernel = 2.3 * RBF(0.9)
    peer = GaussianProcessClassifier(kernel, optimizer=None).fit(X, y).base_estimator_
    logit = OrdinalLogit.from_thresholds([0.0], 1.0)
    problem = Problem(kernel(X), Identity(30), y, logit, np.ones(30))
    found = infer(problem, smoothing="mode", tol=1e-12)
    evaluation = laplace_evidence(problem, found)
    value, gradient = peer.log_marginal_likelihood(kernel.theta, eval_gradient=True)
    assert_allclose(evaluation.value, value, rtol=1e-8)
    K_gradient = kernel(X, eval_gradient=True)[1]
    ours = np.einsum("ij,ijp->p", evaluation.d_kernel, K_gradient)
    assert_allclose(ours, gradient, rtol=1e-5, atol=1e-7)
    assert_allclose(expit_slope(found.posterior.mean, y), peer.y_train_ - peer.pi_, atol=1e-5)


def expit_slope(f, y):
    return y - 1 / (1 + np.exp(-f))


def test_binary_levels_agree_with_scikit_learns_classifier(inference):
    X, y = make_data(n=60, r=2, noise=0.05)
    query, truth = make_data(n=200, r=2, noise=0.0, seed=1)
    peer = GaussianProcessClassifier(ConstantKernel() * RBF()).fit(X, y)
    model = OrdinalGPClassifier(inference=inference).fit(X, y)
    assert np.mean(model.predict(query) == peer.predict(query)) >= 0.95
    ours, theirs = (m.predict_proba(query)[:, 1] for m in (model, peer))
    assert np.corrcoef(ours, theirs)[0, 1] > 0.95
    assert np.mean(model.predict(query) == truth) >= 0.9


def test_far_from_the_data_the_prior_frequencies_return(inference):
    """The start sets the thresholds so that the prior predicts the smoothed shares."""
    X, y = make_data(n=30, r=3)
    y = np.minimum(y, 1) * 2  # shares 1/3, 0, 2/3
    model = quick(inference=inference, categories=[0, 1, 2]).fit(X, y)
    shares = (np.bincount(y) + 0.5) / (30 + 1.5)
    assert_allclose(model.category_proba([[1e3, -1e3]])[0], shares, rtol=1e-10)


def test_pure_noise_is_the_multinomial(inference):
    """With noise far above the latent spread, rows are independent draws from the shares."""
    X, y = make_data(n=30, r=4)
    shares = np.bincount(y) / 30
    thresholds = 1e3 * ndtri(np.cumsum(shares)[:-1])
    theta = OrdinalProbit.from_thresholds(thresholds, 1e3).theta
    model = quick(inference=inference).fit(X, y)
    value = model.log_marginal_likelihood(np.concatenate([model.kernel_.theta, theta]))
    assert_allclose(value, np.bincount(y) @ np.log(shares), rtol=1e-4)


def test_latent_moments_make_the_probabilities(inference):
    X, y = make_data()
    query = np.random.default_rng(2).normal(size=(11, 2))
    model = quick(inference=inference).fit(X, y)
    mean, variance = model.latent_mean_and_variance(query)
    assert mean.shape == variance.shape == (11,)
    assert np.all((variance > 0) & (variance < 1))
    draws = np.random.default_rng(0).normal(size=(200_000, 2)) @ np.stack(
        [np.sqrt(variance), np.full(11, model.noise_)]
    )
    levels = np.searchsorted(model.thresholds_, mean + draws)
    shares = np.stack([np.mean(levels == k, axis=0) for k in range(3)], axis=1)
    assert_allclose(model.category_proba(query), shares, atol=0.005)


def test_predictions_in_blocks_are_predictions():
    X, y = make_data()
    query = np.random.default_rng(2).normal(size=(23, 2))
    kernel = RBF(0.7)
    sites = Sites(np.ones(len(X)), y - 1.0)
    posterior = condition(Prior(kernel(X), Identity(len(X)), np.ones(len(X))), sites)
    whole, parts = (
        latent_in_blocks(posterior, kernel, X, query, size) for size in (10**6, 4 * len(X))
    )
    assert_allclose(parts.mean, whole.mean, rtol=1e-12)
    assert_allclose(parts.var, whole.var, rtol=1e-12)
