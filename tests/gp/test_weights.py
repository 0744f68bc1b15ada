"""Sample weights are copies of rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from tests.gp.common import make_data, quick

from ordinalgp import OrdinalGPClassifier

COPIES = np.array([2, 1, 0, 1, 3, 1, 1, 0, 2, 1, 1, 1, 2, 1, 0])


@pytest.fixture
def few():
    return make_data(n=len(COPIES), seed=7, noise=0.5)


def assert_same_model(got, expected, query, tol):
    assert_allclose(got.kernel_.theta, expected.kernel_.theta, rtol=tol, atol=tol)
    assert_allclose(got.likelihood_.theta, expected.likelihood_.theta, rtol=tol, atol=tol)
    assert_allclose(got.category_proba(query), expected.category_proba(query), rtol=0, atol=tol)
    assert_allclose(
        got.log_marginal_likelihood_value_, expected.log_marginal_likelihood_value_, rtol=tol
    )
    theta = np.concatenate([expected.kernel_.theta, expected.likelihood_.theta]) + 0.1
    ours, theirs = (
        np.hstack(model.log_marginal_likelihood(theta, eval_gradient=True))
        for model in (got, expected)
    )
    assert_allclose(ours, theirs, rtol=tol, atol=tol)


@pytest.mark.parametrize("optimizer", ["fmin_l_bfgs_b", None])
def test_weights_are_copies(inference, optimizer, few):
    X, y = few
    query = np.random.default_rng(3).normal(size=(9, 2))
    model = OrdinalGPClassifier(inference=inference, optimizer=optimizer)
    weighted = clone(model).fit(X, y, COPIES)
    repeated = clone(model).fit(np.repeat(X, COPIES, axis=0), np.repeat(y, COPIES))
    assert_same_model(weighted, repeated, query, 1e-10)


def test_weight_two_is_every_row_twice(inference, few):
    X, y = few
    model = quick(inference=inference)
    twice = clone(model).fit(np.vstack([X, X]), np.tile(y, 2))
    assert_same_model(clone(model).fit(X, y, np.full(len(y), 2.0)), twice, X, 1e-10)
    assert_same_model(clone(model).fit(X, y, 2), twice, X, 1e-10)


def test_weight_zero_is_no_row(inference, few):
    X, y = few
    weights = np.where(np.arange(len(y)) % 3, 1.0, 0.0)
    model = OrdinalGPClassifier(inference=inference)
    zeroed = clone(model).fit(X, y, weights)
    assert_same_model(zeroed, clone(model).fit(X[weights > 0], y[weights > 0]), X, 1e-10)


@pytest.mark.filterwarnings("ignore:EP has no cavity")  # says that the evidence is inexact
def test_fractional_weights_lie_between(inference, few):
    X, y = few
    weights = np.ones(len(y))
    values = []
    for weights[4] in (1.0, 1.3, 2.0):
        model = quick(inference=inference, tol=1e-9).fit(X, y, weights)
        values.append(model.category_proba(X[4:5])[0, y[4]])
        assert np.isfinite(model.log_marginal_likelihood_value_)
    assert values[0] < values[1] < values[2]
    for least, optimizer in ((0.3, "fmin_l_bfgs_b"), (1e-3, None)):
        random = np.random.default_rng(0).uniform(least, 2, len(y))
        model = OrdinalGPClassifier(inference=inference, optimizer=optimizer).fit(X, y, random)
        assert np.isfinite(model.log_marginal_likelihood_value_)
        assert np.isfinite(model.category_proba(X)).all()


def test_a_tiny_weight_is_almost_no_row(inference, few):
    X, y = few
    weights = np.where(np.arange(len(y)) % 4, 1.0, 1e-7)
    model = quick(inference=inference, tol=1e-9)
    tiny = clone(model).fit(X, y, weights)
    removed = clone(model).fit(X[weights == 1], y[weights == 1])
    assert_allclose(tiny.category_proba(X), removed.category_proba(X), atol=1e-6)
    assert_allclose(
        tiny.log_marginal_likelihood_value_, removed.log_marginal_likelihood_value_, rtol=1e-6
    )


@pytest.mark.parametrize("weight", [10.0, 100.0])
def test_large_weights_converge(inference, weight, few):
    X, y = few
    model = quick(inference=inference).fit(X, y, np.full(len(y), weight))
    assert model.converged_


def test_weights_do_not_depend_on_the_order_of_rows(inference, few):
    X, y = few
    order = np.random.default_rng(5).permutation(len(y))
    model = OrdinalGPClassifier(inference=inference)
    straight, shuffled = (
        clone(model).fit(X[rows], y[rows], COPIES[rows]) for rows in (np.arange(len(y)), order)
    )
    assert_same_model(shuffled, straight, X, 1e-10)
