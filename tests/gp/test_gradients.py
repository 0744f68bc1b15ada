"""The objectives and their gradients."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.gp.common import KERNELS, OBJECTIVES, make_data, quick

from ordinalgp import OrdinalGPClassifier


def slopes_at(model, theta, step=1e-5):
    """Central differences of the objective."""
    return [
        (model.log_marginal_likelihood(theta + e) - model.log_marginal_likelihood(theta - e))
        / (2 * step)
        for e in step * np.eye(len(theta))
    ]


def assert_gradients_are_slopes(inference, objective, kernel, weights):
    X, y = make_data(n=18, r=4, noise=0.6)
    model = OrdinalGPClassifier(
        kernel,
        inference=inference,
        objective=objective,
        optimizer=None,
        tol=1e-12,
        max_sweeps=1000,
    ).fit(X, y, np.resize(weights, 18))
    theta = np.concatenate([model.kernel_.theta, model.likelihood_.theta])
    theta = theta + np.random.default_rng(0).uniform(-0.2, 0.2, len(theta))
    value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
    assert value == model.log_marginal_likelihood(theta)
    assert_allclose(gradient, slopes_at(model, theta), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("inference", "objective"), OBJECTIVES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_are_slopes(inference, objective, kernel):
    assert_gradients_are_slopes(inference, objective, KERNELS[kernel], [1.0, 2.0, 1.5])


@pytest.mark.parametrize(("inference", "objective"), OBJECTIVES)
def test_gradients_are_slopes_with_weights_below_one(inference, objective):
    assert_gradients_are_slopes(inference, objective, None, [1.0, 0.5, 0.8])


def test_the_search_with_weights_below_one_ends_at_a_maximum(inference):
    """Weights that balance classes are often below one; a wrong slope would end the search."""
    X, y = make_data(n=40, noise=0.5)
    model = OrdinalGPClassifier(inference=inference, tol=1e-9).fit(X, y, 0.5)
    theta = np.concatenate([model.kernel_.theta, model.likelihood_.theta])
    assert_allclose(slopes_at(model, theta, 1e-4), 0, atol=0.02)


@pytest.mark.parametrize(("inference", "objective"), OBJECTIVES)
def test_the_value_found_is_the_value_reported(inference, objective):
    X, y = make_data()
    model = OrdinalGPClassifier(inference=inference, objective=objective, tol=1e-10).fit(X, y)
    value = model.log_marginal_likelihood_value_
    assert model.log_marginal_likelihood() == value
    theta = np.concatenate([model.kernel_.theta, model.likelihood_.theta])
    assert_allclose(model.log_marginal_likelihood(theta), value, rtol=1e-9)
    value_none, gradient = model.log_marginal_likelihood(eval_gradient=True)
    assert_allclose(value_none, value, rtol=1e-9)
    assert np.abs(gradient).max() < 0.01  # and it is a maximum


def test_bound_is_below_the_evidence():
    X, y = make_data()
    evidence, bound = (quick(objective=word).fit(X, y) for word in ("evidence", "bound"))
    assert bound.log_marginal_likelihood_value_ < evidence.log_marginal_likelihood_value_
    assert_allclose(bound.category_proba(X), evidence.category_proba(X), rtol=1e-12)
