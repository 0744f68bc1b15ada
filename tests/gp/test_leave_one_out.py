"""Leave-one-out probabilities without refitting."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from tests.gp.common import make_data, quick

from ordinalgp import OrdinalGPClassifier
from ordinalgp.core.inference import infer
from ordinalgp.core.problem import Problem
from ordinalgp.core.projections import Identity
from ordinalgp.metrics import log_score


def without_row(model, X, y, counts, i, smoothing):
    """Predict row ``i`` from the others (one copy less) at the model's hyperparameters."""
    left = counts - (np.arange(len(y)) == i)
    kept = left > 0
    K = model.kernel_(X)
    problem = Problem(
        K[np.ix_(kept, kept)], Identity(kept.sum()), y[kept], model.likelihood_, left[kept]
    )
    found = infer(problem, smoothing=smoothing, tol=1e-9, max_sweeps=500)
    assert found.converged
    moments = found.posterior.predict(K[i : i + 1, kept], np.diagonal(K)[i : i + 1])
    return model.likelihood_.probabilities(moments.mean, moments.var)[0]


LOO_TOLERANCE = {"ep": (0.02, 0.15), "laplace": (0.02, 0.15)}  # median, largest


@pytest.mark.parametrize("r", [2, 4])
def test_leave_one_out_without_refitting(inference, r):
    X, y = make_data(n=30, r=r, noise=0.5)
    counts = np.where(np.arange(30) % 7, 1.0, 2.0)
    model = OrdinalGPClassifier(inference=inference).fit(X, y, counts)
    smoothing = "cavity" if inference == "ep" else "mode"
    truth = np.array([without_row(model, X, y, counts, i, smoothing) for i in range(30)])
    error = np.abs(model.loo_proba() - truth).max(axis=1)
    print(f"{inference}, r = {r}: median {np.median(error):.1e}, largest {error.max():.1e}")
    median, largest = LOO_TOLERANCE[inference]
    assert np.median(error) < median
    assert error.max() < largest
    in_sample = np.abs(model.predict_proba(X) - truth).max(axis=1)
    assert np.median(error) < np.median(in_sample) / 3


def test_leave_one_out_in_rank_order_has_levels_without_rows():
    """Words sort otherwise than their ranks, and nobody has "none"; scores take rank order."""
    X, y = make_data(n=30, r=3)
    ranks = ["low", "mid", "high", "none"]
    words = np.array(ranks)[y]
    model = quick(categories=ranks).fit(X, words)
    proba = model.loo_category_proba()
    assert proba.shape == (30, 4)
    assert_allclose(proba.sum(axis=1), 1.0)
    alphabetical = proba[:, [2, 0, 1]]  # high, low, mid
    assert_allclose(model.loo_proba(), alphabetical / alphabetical.sum(axis=1, keepdims=True))
    expected = -np.log(proba[np.arange(30), y]).mean()
    assert_allclose(log_score(words, proba, categories=model.categories_), expected)


def test_leave_one_out_follows_the_rows(inference):
    X, y = make_data(n=20)
    order = np.random.default_rng(0).permutation(20)
    model = quick(inference=inference)
    straight = clone(model).fit(X, y).loo_proba()
    assert_allclose(clone(model).fit(X[order], y[order]).loo_proba(), straight[order], atol=1e-8)


@pytest.mark.parametrize("zero", [[0], [7, 8], [19], [0, 19]], ids=str)
def test_rows_of_weight_zero_are_left_out_already(inference, zero):
    """Such a row is no part of the model: its leave-one-out prediction is the model's."""
    X, y = make_data(n=20)
    weights = np.ones(20)
    weights[zero] = 0
    model = quick(inference=inference).fit(X, y, weights)
    proba = model.loo_proba()
    assert proba.shape == (20, 3)
    assert_allclose(proba[zero], model.predict_proba(X[zero]), rtol=1e-8)
    assert np.all(np.abs(proba - model.predict_proba(X)).max(axis=1)[weights > 0] > 1e-6)
