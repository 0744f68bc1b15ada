"""Laplace's false maximum at small noise: found by EP's evidence, and left."""

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from ordinalgp import OrdinalGPClassifier
from ordinalgp.metrics import log_score
from ordinalgp.runtime.progress import listening

RNG = np.random.default_rng(0)
X_ALL = RNG.normal(size=(560, 30))
UTILITY = np.sin(X_ALL[:, :8].sum(axis=1) / 2.5) + 0.6 * RNG.normal(size=560)
Y_ALL = np.digitize(UTILITY, [-1.0, -0.4, 0.4, 1.0])
X, Y, X_NEW, Y_NEW = X_ALL[:60], Y_ALL[:60], X_ALL[60:], Y_ALL[60:]
"""few rows, many inputs, much noise"""


def laplace(**options):
    return OrdinalGPClassifier(inference="laplace", **options)


def excess(model):
    """Laplace's log evidence less EP's per row, by two models that only infer."""
    options = {"likelihood": model.likelihood_, "optimizer": None}
    values = [
        OrdinalGPClassifier(model.kernel_, inference=name, **options)
        .fit(X, Y)
        .log_marginal_likelihood_value_
        for name in ("laplace", "ep")
    ]
    return (values[0] - values[1]) / len(Y)


def fitted_and_told(model, X, y):
    """The fitted model, and whether its progress spoke of a false maximum."""
    seen = []
    with listening(seen.append):
        model.fit(X, y)
    return model, any("false maximum" in progress.text for progress in seen)


def test_the_search_leaves_the_false_maximum():
    model, told = fitted_and_told(laplace(), X, Y)
    assert told
    stuck = laplace(noise_bounds=(1e-3, 1e3)).fit(X, Y)
    assert excess(stuck) > 0.3
    assert excess(model) <= 0.02
    assert model.noise_ > 2 * stuck.noise_
    ep = OrdinalGPClassifier().fit(X, Y)
    scores = [log_score(Y_NEW, m.category_proba(X_NEW)) for m in (model, stuck, ep)]
    assert scores[0] < scores[1] - 0.1
    assert scores[0] < scores[2] + 0.05


def test_where_both_agree_nothing_changes():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(80, 2))
    y = np.digitize(rows[:, 0] + 0.3 * rng.normal(size=80), [-0.5, 0.5])
    model, told = fitted_and_told(laplace(), rows, y)
    assert not told
    plain = laplace(noise_bounds=(1e-3, 1e3)).fit(rows, y)
    assert_array_equal(model.likelihood_.theta, plain.likelihood_.theta)
    assert_array_equal(model.kernel_.theta, plain.kernel_.theta)


def test_weights_are_repetitions_there_too():
    weights = np.arange(60) % 3 + 1
    one = laplace().fit(X, Y, weights)
    other = laplace().fit(X.repeat(weights, axis=0), Y.repeat(weights))
    assert_allclose(one.log_marginal_likelihood_value_, other.log_marginal_likelihood_value_)
    assert_allclose(one.category_proba(X_NEW), other.category_proba(X_NEW), atol=1e-3)


def test_nothing_is_checked_without_a_search():
    stuck = laplace(noise_bounds=(1e-3, 1e3)).fit(X, Y)
    start = replace(stuck.likelihood_, noise_bounds=None)
    options = {"kernel": stuck.kernel_, "likelihood": start, "optimizer": None}
    model, told = fitted_and_told(laplace(**options), X, Y)
    assert excess(model) > 0.3  # where a search would not stay
    assert not told
    assert_allclose(model.likelihood_.theta, start.theta, rtol=1e-12)  # exp(log x) may not be x
