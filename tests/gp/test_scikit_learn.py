"""scikit-learn's contract: checks, pipelines, clones, pickles."""

import pickle
import subprocess
import sys

import joblib
import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
)
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_classifiers_classes, parametrize_with_checks
from tests.gp.common import INFERENCES, make_data, quick

from ordinalgp import OrdinalGPClassifier
from ordinalgp.metrics import make_ordinal_scorer

NEEDS_AN_ORDER = {
    "check_classifiers_classes": "feeds the strings 'one', 'two', 'three' without an order, "
    "and this model does not guess one"
}


@parametrize_with_checks(
    [OrdinalGPClassifier(), OrdinalGPClassifier(inference="laplace")],
    expected_failed_checks=lambda estimator: NEEDS_AN_ORDER,
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


class Alphabetical(OrdinalGPClassifier):
    """The same model with the order that scikit-learn's check silently assumes."""

    def fit(self, X, y, sample_weight=None):
        self.categories = np.unique(y)
        return super().fit(X, y, sample_weight)


def test_the_expected_failure_is_about_the_order_alone(inference):
    model = OrdinalGPClassifier(inference=inference)
    with pytest.raises(ValueError, match=r"y must say how its labels are ordered, but 'one'"):
        check_classifiers_classes("OrdinalGPClassifier", model)
    check_classifiers_classes("Alphabetical", Alphabetical(inference=inference))


def test_pipeline_and_cross_validation(inference):
    X, y = load_iris(return_X_y=True)
    model = make_pipeline(StandardScaler(), OrdinalGPClassifier(inference=inference))
    scores = cross_val_score(model, X[::2], y[::2], cv=3)
    assert scores.mean() > 0.9
    loss = -cross_val_score(
        model, X[::2], y[::2], cv=3, scoring=make_ordinal_scorer("mean_absolute_error")
    )
    assert_allclose(loss, 1 - scores, atol=1e-12)  # no error of two ranks on this set


def test_grid_search_over_inference_and_decision():
    X, y = make_data(n=36, seed=1)
    search = GridSearchCV(
        Pipeline([("scale", StandardScaler()), ("gp", quick())]),
        {"gp__inference": INFERENCES, "gp__decision": ["mode", "median", 1 - np.eye(3)]},
        cv=2,
        error_score="raise",
    ).fit(X, y)
    by_rule = np.reshape(search.cv_results_["mean_test_score"], (3, 2))
    assert_array_equal(by_rule[0], by_rule[2])  # zero-one costs are the mode
    assert search.best_score_ == by_rule.max()
    assert set(search.predict(X)) <= {0, 1, 2}


def test_metadata_routing_delivers_the_weights():
    X, y = make_data(n=24)
    weights = np.tile([1.0, 1.0, 0.0, 2.0], 6)
    Z = StandardScaler().fit(X[:12]).transform(X)
    by_hand = quick().fit(Z[:12], y[:12], weights[:12])
    with sklearn.config_context(enable_metadata_routing=True):
        model = quick().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        results = cross_validate(
            model,
            Z,
            y,
            params={"sample_weight": weights},
            cv=[(np.arange(12), np.arange(12, 24))],
            return_estimator=True,
            error_score="raise",
        )
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, clone(model)).fit(
            X[:12], y[:12], sample_weight=weights[:12]
        )
    for got in (results["estimator"][0], pipeline[-1]):
        assert_allclose(got.category_proba(Z), by_hand.category_proba(Z), rtol=1e-12)
    expected = by_hand.score(Z[12:], y[12:], weights[12:])
    assert results["test_score"][0] == pytest.approx(expected)
    assert expected != by_hand.score(Z[12:], y[12:])  # the weights made a difference


def test_clone_keeps_parameters_and_forgets_the_fit():
    cost = np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
    model = quick(decision=cost, categories=[0, 1, 2], tol=1e-7).fit(*make_data())
    copy = clone(model)
    assert not hasattr(copy, "kernel_")
    assert_array_equal(copy.decision, cost)
    assert (copy.categories, copy.tol, copy.kernel) == ([0, 1, 2], 1e-7, RBF(1.2))


def test_fit_leaves_the_parameters_alone():
    X, y = make_data()
    kernel = ConstantKernel(2.0) * RBF([0.5, 3.0])
    model = OrdinalGPClassifier(kernel)
    before = {name: repr(value) for name, value in model.get_params().items()}
    model.fit(X, y)
    assert {name: repr(value) for name, value in model.get_params().items()} == before
    assert model.kernel is kernel
    assert model.kernel_ is not kernel


def test_pickle_round_trip(inference):
    X, y = make_data()
    query = np.random.default_rng(1).normal(size=(7, 2))
    model = quick(inference=inference).fit(X, y)
    unused = pickle.loads(pickle.dumps(model))  # before any prediction
    used = pickle.loads(pickle.dumps(model.fit(X, y)))
    assert_array_equal(unused.predict_proba(query), model.predict_proba(query))
    again = pickle.loads(pickle.dumps(model))  # after a prediction
    for copy in (used, again):
        assert_array_equal(copy.predict_proba(query), model.predict_proba(query))
        assert_array_equal(copy.loo_proba(), model.loo_proba())
        value, gradient = model.log_marginal_likelihood(eval_gradient=True)
        copied, copied_gradient = copy.log_marginal_likelihood(eval_gradient=True)
        assert copied == value
        assert_array_equal(copied_gradient, gradient)


def test_a_model_on_read_only_memory_predicts(tmp_path):
    """In a process of its own: writing to such memory ends the interpreter, not the test."""
    X, y = make_data()
    model = quick().fit(X, y)
    joblib.dump(model, tmp_path / "model.joblib")
    code = (
        "import joblib, numpy as np; "
        f"m = joblib.load({str(tmp_path / 'model.joblib')!r}, mmap_mode='r'); "
        "print(repr(float(m.predict_proba(np.zeros((1, 2)))[0, 0])))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == model.predict_proba(np.zeros((1, 2)))[0, 0]


def test_restarts_in_parallel_give_the_same_model():
    X, y = make_data(n=20)
    one, two = (
        OrdinalGPClassifier(
            ConstantKernel() * RBF([1.0, 1.0]),
            inference="laplace",
            n_restarts_optimizer=2,
            n_jobs=n_jobs,
            random_state=3,
        ).fit(X, y)
        for n_jobs in (1, 2)
    )
    assert_allclose(two.kernel_.theta, one.kernel_.theta, rtol=1e-10)
    assert_allclose(two.likelihood_.theta, one.likelihood_.theta, rtol=1e-10)
    assert_allclose(two.evidence_path_, one.evidence_path_, rtol=1e-10)


def test_restarts_never_lose_and_follow_the_seed():
    X, y = make_data(n=20, seed=4)
    fits = {
        (restarts, seed): OrdinalGPClassifier(
            inference="laplace", n_restarts_optimizer=restarts, random_state=seed
        ).fit(X, y)
        for restarts, seed in ((0, 0), (3, 0), (3, 1))
    }
    again = clone(fits[3, 0]).fit(X, y)
    assert_array_equal(again.kernel_.theta, fits[3, 0].kernel_.theta)
    plain = fits[0, 0].log_marginal_likelihood_value_
    for seed in (0, 1):
        assert fits[3, seed].log_marginal_likelihood_value_ >= plain - 1e-6
