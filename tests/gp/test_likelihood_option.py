"""``OrdinalGPClassifier(likelihood=...)``: words, objects, and likelihoods of the user's own."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import logistic
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

import ordinalgp
from ordinalgp import OrdinalGPClassifier
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.ordinal_logit import OrdinalLogit
from ordinalgp.many_rows.induced_evidence import InducedTask
from ordinalgp.many_rows.settings import ManyRowsSettings
from ordinalgp.metrics import log_score


def make_data(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    latent = np.sin(X[:, 0]) + 0.5 * X[:, 1] + logistic.rvs(scale=0.25, size=n, random_state=rng)
    return X, np.digitize(latent, [-0.6, 0.5])


X, Y = make_data()
X_NEW, Y_NEW = make_data(200, seed=1)


@pytest.mark.parametrize("inference", ["ep", "laplace"])
def test_the_logit_predicts_about_as_the_probit(inference):
    probit, logit = (
        OrdinalGPClassifier(likelihood=word, inference=inference).fit(X, Y)
        for word in ("probit", "logit")
    )
    assert isinstance(logit.likelihood_, OrdinalLogit)
    scores = [log_score(Y_NEW, model.category_proba(X_NEW)) for model in (probit, logit)]
    assert_allclose(scores[1], scores[0], atol=0.05)
    assert logit.converged_
    value, gradient = logit.log_marginal_likelihood(eval_gradient=True)
    assert np.isfinite(value)
    assert np.abs(gradient).max() < 0.05


def test_an_object_is_where_the_search_begins():
    given = OrdinalProbit.from_thresholds([-0.5, 0.7], 0.4)
    kept = OrdinalGPClassifier(RBF(1.0), likelihood=given, optimizer=None).fit(X, Y)
    assert_array_equal(kept.thresholds_, given.thresholds)
    assert kept.noise_ == given.noise
    assert clone(kept).likelihood is not None
    searched = OrdinalGPClassifier(RBF(1.0), likelihood=given).fit(X, Y)
    assert searched.log_marginal_likelihood_value_ > kept.log_marginal_likelihood_value_
    with pytest.raises(ValueError, match="likelihood is for 3 levels, but there are 4"):
        OrdinalGPClassifier(likelihood=given, categories=[0, 1, 2, 3]).fit(X, Y)


@pytest.mark.parametrize("wrong", ["magic", 3, OrdinalProbit, RBF(1.0)])
def test_what_is_no_likelihood_is_refused(wrong):
    with pytest.raises(
        (ValueError, TypeError), match="likelihood must be one of 'probit', 'logit'"
    ):
        OrdinalGPClassifier(likelihood=wrong).fit(X, Y)


@pytest.mark.parametrize("inducing", [None, 12])
def test_a_model_with_the_logit_comes_back_from_its_file(inducing, tmp_path):
    model = OrdinalGPClassifier(RBF(1.0), likelihood="logit", inducing=inducing, optimizer=None)
    model.fit(X, Y).save(tmp_path / "model.ogp")
    again = ordinalgp.load(tmp_path / "model.ogp")
    assert_array_equal(again.category_proba(X_NEW), model.category_proba(X_NEW))


# ------------------------------------------------------------------------- inducing points


@pytest.mark.parametrize("smoothing", ["cavity", "mode"])
def test_gradients_of_the_logit_with_residuals_are_slopes(smoothing):
    """Few points leave residual variances, which are not noise for the logistic."""
    likelihood = OrdinalLogit.from_thresholds([-0.6, 0.5], 0.3)
    counts = np.where(np.arange(60) % 3, 1.0, 2.0)
    task = InducedTask(X, RBF(0.8), likelihood, X[:6], Y, counts, smoothing=smoothing, tol=1e-11)
    theta, h = task.theta, 1e-5
    found = task.evaluate(theta).gradient
    slopes = [
        (task.evaluate(theta + h * e).value - task.evaluate(theta - h * e).value) / (2 * h)
        for e in np.eye(len(theta))
    ]
    assert_allclose(found, slopes, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("inference", ["ep", "laplace"])
def test_a_point_at_every_row_is_the_exact_model(inference):
    options = {"likelihood": "logit", "inference": inference, "optimizer": None, "tol": 1e-10}
    exact = OrdinalGPClassifier(RBF(1.0), inducing=None, **options).fit(X, Y)
    points = OrdinalGPClassifier(RBF(1.0), inducing=X, **options).fit(X, Y)
    assert_allclose(points.category_proba(X_NEW), exact.category_proba(X_NEW), atol=1e-7)


def test_passes_over_chunks_settle_where_one_inference_does():
    many, levels = make_data(900, seed=2)
    small = ManyRowsSettings(subset_rows=100, sample_rows=300, chunk_rows=200, promise=1e-22)
    options = {"likelihood": "logit", "optimizer": None, "inducing": many[:10], "random_state": 0}
    chunked = OrdinalGPClassifier(RBF(1.0), **options)
    chunked.many_rows_settings = small
    at_once = OrdinalGPClassifier(RBF(1.0), **options)
    at_once.many_rows_settings = replace(small, sample_rows=10_000)
    assert_allclose(
        chunked.fit(many, levels).category_proba(X_NEW),
        at_once.fit(many, levels).category_proba(X_NEW),
        atol=1e-6,
    )
    assert chunked.n_iter_ > 1


# --------------------------------------------------------------------- one of the user's own


class Wrapped:
    """An ordinal likelihood that is no threshold model of ours."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        if name in ("inner", "unit", "__setstate__"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def clone_with_theta(self, theta):
        return Wrapped(self.inner.clone_with_theta(theta))


def test_a_likelihood_of_ones_own_needs_only_the_protocol():
    inner = OrdinalProbit.from_thresholds([-0.5, 0.7], 0.4)
    own, ours = (
        OrdinalGPClassifier(RBF(1.0), likelihood=each).fit(X, Y) for each in (Wrapped(inner), inner)
    )
    assert_allclose(own.category_proba(X_NEW), ours.category_proba(X_NEW), rtol=1e-12)
    with pytest.raises(TypeError, match="Inducing points need a threshold model"):
        OrdinalGPClassifier(RBF(1.0), likelihood=Wrapped(inner), inducing=5).fit(X, Y)
    with pytest.raises(TypeError, match="Inducing points need a threshold model"):
        own.partial_fit(X[:5], Y[:5])
