"""OrdinalGPClassifier: scikit-learn's contract, labels, weights, gradients, limits, messages."""

import inspect
import itertools
import pickle
import re
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import ndtri
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_classifiers_classes, parametrize_with_checks

from ordinalgp import OrdinalGPClassifier
from ordinalgp.core.gaussian import Sites, condition
from ordinalgp.core.inference import infer
from ordinalgp.core.likelihoods import Gaussian, OrdinalProbit
from ordinalgp.core.objectives import ep_evidence, laplace_evidence
from ordinalgp.core.ordinal_logit import OrdinalLogit
from ordinalgp.core.problem import Problem
from ordinalgp.core.projections import Identity
from ordinalgp.decisions import decide
from ordinalgp.kernels import ARDLinear
from ordinalgp.metrics import make_ordinal_scorer
from ordinalgp.models.exact import latent_in_blocks
from ordinalgp.validation import memory as _validation

INFERENCES = ["ep", "laplace"]
LEVELS = ["low", "mid", "high"]  # alphabetical order is high, low, mid


def make_data(n=30, r=3, d=2, seed=0, noise=0.3):
    """Standard normal inputs, a curved latent function, levels of equal frequency."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    f = X[:, 0] + 0.5 * X[:, -1] ** 2 + noise * rng.normal(size=n)
    return X, np.searchsorted(np.quantile(f, np.arange(1, r) / r), f)


def quick(**options):
    """Return a model that keeps its kernel: for what does not depend on the search."""
    return OrdinalGPClassifier(**{"kernel": RBF(1.2), "optimizer": None, **options})


@pytest.fixture(params=INFERENCES)
def inference(request):
    return request.param


# ------------------------------------------------------------------- scikit-learn's contract

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


# ----------------------------------------------------------------------------------- labels


def in_levels(y):
    return np.array(LEVELS)[y]


@pytest.mark.parametrize(
    "give",
    [
        lambda y: in_levels(y),
        lambda y: in_levels(y).tolist(),
        lambda y: in_levels(y).astype(object),
        lambda y: pd.Series(in_levels(y)),
        lambda y: pd.Series(pd.Categorical(in_levels(y), LEVELS, ordered=True)),
        lambda y: pl.Series(in_levels(y).tolist(), dtype=pl.Enum(LEVELS)),
    ],
    ids=["array", "list", "object", "series", "ordered categorical", "polars Enum"],
)
def test_words_in_every_container_give_the_same_model(give):
    X, y = make_data()
    numbers = quick().fit(X, y)
    labels = give(y)
    declared = hasattr(labels, "dtype") and (
        getattr(labels.dtype, "ordered", False) or isinstance(labels.dtype, pl.Enum)
    )
    words = quick(categories=None if declared else LEVELS).fit(X, labels)
    assert_array_equal(words.categories_, LEVELS)
    assert_array_equal(words.classes_, ["high", "low", "mid"])
    assert_array_equal(words.category_proba(X), numbers.category_proba(X))
    # classes_ is sorted as scikit-learn sorts, and predict_proba follows it.
    assert_allclose(words.predict_proba(X), numbers.predict_proba(X)[:, [2, 0, 1]], rtol=1e-15)
    assert_array_equal(words.predict(X), in_levels(numbers.predict(X)))
    assert_allclose(words.loo_proba(), numbers.loo_proba()[:, [2, 0, 1]], rtol=1e-15)
    assert words.score(X, labels) == numbers.score(X, y) > 0.5


@pytest.mark.parametrize(
    "levels",
    [[-3, 0, 10], [0.5, 1.0, 4.5], [False, True], np.array([1, 2, 9], dtype=np.uint8)],
    ids=["integers", "half stars", "booleans", "unsigned"],
)
def test_numbers_and_booleans_are_their_own_order(levels):
    levels = np.asarray(levels)
    X, y = make_data(r=len(levels))
    model, codes = quick().fit(X, levels[y]), quick().fit(X, y)
    assert_array_equal(model.categories_, levels)
    assert_array_equal(model.classes_, levels)
    assert model.predict(X).dtype == levels.dtype
    assert_array_equal(model.predict(X), levels[codes.predict(X)])
    assert_allclose(model.predict_proba(X), codes.predict_proba(X), rtol=1e-14)
    assert_allclose(model.predict_proba(X), model.category_proba(X), rtol=1e-14)
    assert model.score(X, levels[y]) == codes.score(X, y)
    assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X), rtol=1e-12)


def test_ten_half_star_levels():
    X, y = make_data(n=60, r=10, noise=0.1)
    stars = 0.5 + y / 2
    model = quick().fit(X, stars)
    assert_array_equal(model.categories_, np.arange(0.5, 5.5, 0.5))
    assert set(model.predict(X)) <= set(model.categories_)
    assert 0 < model.score(X, stars) == np.mean(model.predict(X) == stars)


@pytest.mark.parametrize("absent", [0, 1, 2, 3], ids=["first", "second", "third", "last"])
def test_absent_levels_keep_their_place(inference, absent):
    names = np.array(["d", "c", "b", "a"])
    kept = np.delete(names, absent)
    X, y = make_data(n=40, r=3)
    model = OrdinalGPClassifier(inference=inference, categories=names).fit(X, kept[y])
    assert_array_equal(model.categories_, names)
    assert_array_equal(model.classes_, sorted(kept))
    assert model.thresholds_.shape == (3,)
    assert np.all(np.diff(model.thresholds_) > 0)
    everything = model.category_proba(X)
    assert everything.shape == (40, 4)
    assert_allclose(everything.sum(axis=1), 1, rtol=1e-12)
    observed = np.delete(everything, absent, axis=1)
    sorted_back = np.argsort(kept)
    scaled = (observed / observed.sum(axis=1, keepdims=True))[:, sorted_back]
    assert_allclose(model.predict_proba(X), scaled, rtol=1e-12)
    assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-12)
    assert model.loo_proba().shape == (40, 3)
    assert set(model.predict(X)) <= set(names)
    # Data speak against a level that never occurs where the others do.
    assert everything[:, absent].mean() < 0.1


def test_a_level_between_two_observed_ones_is_an_absent_threshold_gap():
    """Between levels 0 and 2 something would have been seen: the gap shrinks."""
    X, y = make_data(n=40, r=2)
    start = quick(categories=[0, 1, 2]).fit(X, 2 * y)
    found = OrdinalGPClassifier(RBF(1.2), categories=[0, 1, 2]).fit(X, 2 * y)
    assert found.likelihood_.gaps[0] < start.likelihood_.gaps[0]


# -------------------------------------------------------------------------------- decisions

COSTS = {
    "mode": "mode",
    "median": "median",
    "mean": "mean",
    "cost": np.array([[0, 1, 9, 9], [2, 0, 1, 9], [9, 2, 0, 1], [9, 9, 5, 0.0]]),
}


@pytest.mark.parametrize("rule", COSTS.values(), ids=COSTS.keys())
def test_predictions_follow_the_decision(inference, rule):
    X, y = make_data(n=30, r=4, noise=1.0)
    query = np.random.default_rng(2).normal(scale=2, size=(200, 2))
    names = np.array(["w", "z", "x", "y"])
    model = quick(inference=inference, decision=rule, categories=names).fit(X, names[y])
    proba = model.category_proba(query)
    assert_array_equal(model.predict(query), names[decide(proba, rule)])
    if not (isinstance(rule, str) and rule == "mode"):
        assert np.any(decide(proba, rule) != decide(proba, "mode"))


def test_the_decision_can_be_changed_after_the_fit():
    X, y = make_data(n=30, r=4, noise=1.0)
    model = quick().fit(X, y)
    for rule in COSTS.values():
        model.set_params(decision=rule)
        assert_array_equal(model.predict(X), decide(model.category_proba(X), rule))


# ---------------------------------------------------------------------------------- weights

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


# -------------------------------------------------------------------------------- gradients

KERNELS = {
    "default": None,
    "ard": RBF([0.8, 1.9]),
    "matern": ConstantKernel(1.7) * Matern([1.1, 0.6], nu=1.5) + WhiteKernel(0.2),
    "quadratic": RationalQuadratic(0.9, 1.4),
    "linear": ARDLinear([0.7, 0.2]),
    "polynomial": DotProduct(0.8) ** 2,
}
OBJECTIVES = [("ep", "evidence"), ("laplace", "evidence"), ("ep", "bound")]


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


# ---------------------------------------------------------------------------- leaving one out


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


# ------------------------------------------------------------ other libraries, limits, identities


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
    posterior = condition(kernel(X), Identity(len(X)), sites)
    whole, parts = (
        latent_in_blocks(posterior, kernel, X, query, size) for size in (10**6, 4 * len(X))
    )
    assert_allclose(parts.mean, whole.mean, rtol=1e-12)
    assert_allclose(parts.var, whole.var, rtol=1e-12)


# ------------------------------------------------------------------------------- the search


def test_fixed_hyperparameters_stay(inference):
    X, y = make_data()
    kernel = ConstantKernel(1.5, "fixed") * RBF(0.7, "fixed")
    model = OrdinalGPClassifier(kernel, inference=inference).fit(X, y)
    assert model.kernel_ == kernel
    assert model.kernel_.theta.size == 0
    start = clone(model).set_params(optimizer=None).fit(X, y)
    assert model.log_marginal_likelihood_value_ > start.log_marginal_likelihood_value_ + 0.1
    half = RBF(0.7, "fixed") * ConstantKernel(1.5)
    found = OrdinalGPClassifier(half, inference=inference).fit(X, y).kernel_
    assert found.k1.length_scale == 0.7
    assert found.k2.constant_value != 1.5


@pytest.mark.parametrize("bounds", [(0.05, 0.1), (30.0, 50.0)])
def test_bounds_are_honoured(inference, bounds):
    X, y = make_data()
    kernel = RBF(np.mean(bounds), bounds)
    model = OrdinalGPClassifier(kernel, inference=inference).fit(X, y)
    assert bounds[0] * (1 - 1e-9) <= model.kernel_.length_scale <= bounds[1] * (1 + 1e-9)
    low, high = model.likelihood_.bounds.T
    assert np.all((model.likelihood_.theta >= low) & (model.likelihood_.theta <= high))


def test_a_start_outside_the_bounds_is_moved_inside(inference):
    X, y = make_data()
    model = OrdinalGPClassifier(RBF(5.0, (0.5, 2.0)), inference=inference).fit(X, y)
    assert 0.5 * (1 - 1e-9) <= model.kernel_.length_scale <= 2 * (1 + 1e-9)


@pytest.mark.parametrize("variance", [1e-6, 1e6])
def test_the_unit_of_the_latent_function_does_not_matter(inference, variance):
    """Latent variance, noise and thresholds share one scale: the fit may take any."""
    X, y = make_data()
    unit = OrdinalGPClassifier(RBF(), inference=inference).fit(X, y)
    kernel = ConstantKernel(variance, "fixed") * RBF()
    model = OrdinalGPClassifier(kernel, inference=inference).fit(X, y)
    assert_allclose(
        model.log_marginal_likelihood_value_, unit.log_marginal_likelihood_value_, rtol=1e-4
    )
    assert_allclose(model.category_proba(X), unit.category_proba(X), atol=0.01)
    assert_allclose(model.thresholds_ / np.sqrt(variance), unit.thresholds_, atol=0.05)


@pytest.mark.parametrize("kernel", [RBF(3.0), ConstantKernel(0.7) * RBF([3.0, 0.3])], ids=str)
def test_without_an_optimizer_the_kernel_stays(inference, kernel):
    X, y = make_data()
    model = OrdinalGPClassifier(kernel, inference=inference, optimizer=None).fit(X, y)
    assert_allclose(model.kernel_.theta, kernel.theta, rtol=1e-14, atol=1e-15)
    assert model.converged_
    assert len(model.evidence_path_) == 0


def test_a_callable_optimizer_is_used(inference):
    X, y = make_data()
    seen = []

    def climb(obj_func, initial_theta, bounds):
        seen.append((initial_theta.copy(), np.asarray(bounds)))
        result = minimize(obj_func, initial_theta, jac=True, method="L-BFGS-B", bounds=bounds)
        return result.x, result.fun

    model = OrdinalGPClassifier(inference=inference, optimizer=climb).fit(X, y)
    ((start, bounds),) = seen
    assert bounds.shape == (len(start), 2)
    built_in = OrdinalGPClassifier(inference=inference).fit(X, y)
    assert_allclose(
        model.log_marginal_likelihood_value_, built_in.log_marginal_likelihood_value_, rtol=1e-5
    )


def test_a_callable_optimizer_may_do_without_the_gradient(inference):
    """scikit-learn hands its optimisers a function with the flag ``eval_gradient``."""
    X, y = make_data()

    def compass(obj_func, initial_theta, bounds):
        best, value = initial_theta, obj_func(initial_theta, eval_gradient=False)
        assert np.ndim(value) == 0
        assert_allclose(obj_func(initial_theta, eval_gradient=True)[0], value, rtol=1e-6)
        for step in 0.3 * np.vstack([np.eye(len(best)), -np.eye(len(best))]):
            trial = np.clip(best + step, *np.transpose(bounds))
            if obj_func(trial, eval_gradient=False) < value:
                best, value = trial, obj_func(trial, eval_gradient=False)
        return best, value

    model = OrdinalGPClassifier(inference=inference, optimizer=compass).fit(X, y)
    start = OrdinalGPClassifier(inference=inference, optimizer=None).fit(X, y)
    assert model.log_marginal_likelihood_value_ > start.log_marginal_likelihood_value_


@pytest.mark.parametrize("kernel", [None, ConstantKernel() * RBF() + WhiteKernel()], ids=str)
@pytest.mark.parametrize(("inference", "objective"), OBJECTIVES)
def test_every_corner_of_the_bounds_has_a_value(inference, objective, kernel):
    X, y = make_data(n=12)
    values = []

    def visit(obj_func, initial_theta, bounds):
        for corner in itertools.product(*bounds):
            value, gradient = obj_func(np.array(corner))
            assert np.isfinite(value)
            assert np.isfinite(gradient).all()
            values.append(-value)
        return initial_theta, obj_func(initial_theta)[0]

    model = OrdinalGPClassifier(kernel, inference=inference, objective=objective, optimizer=visit)
    model.fit(X, y)
    assert len(values) == 2 ** len(np.r_[model.kernel_.theta, model.likelihood_.theta])
    assert model.log_marginal_likelihood_value_ >= max(values) - 1e-6
    assert np.isfinite(model.category_proba(X)).all()


@pytest.mark.parametrize(("inference", "objective"), OBJECTIVES)
@pytest.mark.parametrize("kernel", ["default", "matern", "linear"])
def test_the_search_ends_higher_than_it_began(inference, objective, kernel):
    X, y = make_data(n=25, r=4)
    options = {"inference": inference, "objective": objective}
    model = OrdinalGPClassifier(KERNELS[kernel], **options).fit(X, y)
    start = OrdinalGPClassifier(KERNELS[kernel], optimizer=None, **options).fit(X, y)
    value = model.log_marginal_likelihood_value_
    assert value > start.log_marginal_likelihood_value_
    assert_allclose(model.evidence_path_[0], start.log_marginal_likelihood_value_, rtol=1e-6)
    assert value >= model.evidence_path_.max() - 1e-5 * abs(value)


@pytest.mark.parametrize(("verbose", "lines"), [(0, 0), (1, 1), (2, 2)])
def test_verbose_speaks_on_the_error_stream(capsys, verbose, lines):
    X, y = make_data(n=15)
    model = OrdinalGPClassifier(inference="laplace", verbose=verbose).fit(X, y)
    out, err = capsys.readouterr()
    assert out == ""
    assert (len(err.splitlines()) >= lines) if lines else err == ""
    assert err.count("CONVERGENCE") == (verbose > 0)
    expected = [0, 1, len(model.evidence_path_) + 1][verbose]
    assert err.count("search: evaluation ") == expected


@pytest.mark.parametrize("scale", [1e10, 1e5, 1e-10])
def test_the_default_kernel_survives_unscaled_features(inference, scale):
    X, y = make_data()
    model = OrdinalGPClassifier(inference=inference).fit(scale * X, y)
    assert np.isfinite(model.log_marginal_likelihood_value_)
    proba = model.category_proba(np.vstack([scale * X, X, 0 * X]))
    assert np.isfinite(proba).all()
    assert_allclose(proba.sum(axis=1), 1, rtol=1e-9)


def test_an_unfinished_inference_warns(inference):
    X, y = make_data()
    with pytest.warns(ConvergenceWarning, match=rf"{inference}: sites still move .*max_sweeps"):
        model = quick(inference=inference, max_sweeps=2, tol=1e-12).fit(X, y)
    assert not model.converged_
    assert model.n_iter_ == 2


# --------------------------------------------------------------------------------- bad input

PUBLIC = {
    "predict": lambda model, X, y: model.predict(X),
    "predict_proba": lambda model, X, y: model.predict_proba(X),
    "predict_log_proba": lambda model, X, y: model.predict_log_proba(X),
    "category_proba": lambda model, X, y: model.category_proba(X),
    "latent_mean_and_variance": lambda model, X, y: model.latent_mean_and_variance(X),
    "log_marginal_likelihood": lambda model, X, y: model.log_marginal_likelihood(),
    "loo_proba": lambda model, X, y: model.loo_proba(),
    "score": lambda model, X, y: model.score(X, y),
    "save": lambda model, X, y: model.save("never-written"),
}
TAKES_ROWS = ["predict", "predict_proba", "predict_log_proba", "category_proba", "score"]


def own_methods():
    inherited = set(dir(BaseEstimator)) | set(dir(ClassifierMixin)) - {"score"}
    return {
        name
        for name, member in inspect.getmembers(OrdinalGPClassifier, callable)
        if not name.startswith("_") and name not in inherited and not name.startswith("set_")
    } - {"fit", "partial_fit"}


def test_every_public_method_is_tried_before_fit():
    assert own_methods() <= set(PUBLIC)


@pytest.mark.parametrize("name", sorted(own_methods()))
def test_methods_ask_for_fit_first(name):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        PUBLIC[name](OrdinalGPClassifier(), *make_data())


@pytest.mark.parametrize("name", [*TAKES_ROWS, "latent_mean_and_variance"])
def test_methods_check_the_width(name):
    X, y = make_data()
    model = quick().fit(X, y)
    with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 2 features"):
        PUBLIC[name](model, np.hstack([X, X[:, :1]]), y)


BAD_X = {
    "nan": (lambda X: np.where(np.arange(len(X))[:, None] == 3, np.nan, X), "contains NaN"),
    "inf": (lambda X: np.where(np.arange(len(X))[:, None] == 3, np.inf, X), "infinity"),
    "empty": (lambda X: X[:0], r"Found array with 0 sample"),
    "no columns": (lambda X: X[:, :0], r"0 feature\(s\)"),
    "one-dimensional": (lambda X: X[:, 0], "Expected 2D array, got 1D array"),
    "three-dimensional": (lambda X: X[:, :, None], "dim 3"),
    "strings": (lambda X: np.full(X.shape, "a"), "could not convert string to float"),
}


@pytest.mark.parametrize(("spoil", "message"), BAD_X.values(), ids=BAD_X.keys())
def test_bad_inputs(spoil, message):
    X, y = make_data()
    with pytest.raises(ValueError, match=message):
        quick().fit(spoil(X), y[: len(spoil(X))])
    model = quick().fit(X, y)
    with pytest.raises(ValueError, match=message):
        model.predict(spoil(X))


def test_sparse_inputs_are_refused():
    X, y = make_data()
    with pytest.raises(TypeError, match="Sparse data was passed"):
        quick().fit(sparse.csr_array(X), y)


BAD_Y = {
    "none": (lambda y: None, {}, "requires y to be passed"),
    "too short": (lambda y: y[:-1], {}, "inconsistent numbers of samples"),
    "one class": (lambda y: 0 * y, {}, "at least 2 classes are needed"),
    "nan": (lambda y: np.where(y == 2, np.nan, y), {}, "must not have missing values, but row"),
    "infinity": (lambda y: np.where(y == 2, np.inf, y), {}, "must be finite, but row"),
    "words": (lambda y: in_levels(y), {}, r"must say how its labels are ordered.*categories="),
    "measurements": (lambda y: y + np.linspace(0, 1, len(y)) ** 2, {}, "continuous.*Bin the"),
    "unknown": (lambda y: y, {"categories": [0, 1]}, r"only the levels of categories, \[0, 1\]"),
    "unknown word": (
        lambda y: in_levels(y),
        {"categories": ["low", "high"]},
        r"but row \d+ is 'mid'. Add this level",
    ),
    "repeated category": (lambda y: y, {"categories": [0, 1, 2, 2]}, "repeats 2"),
    "two columns": (lambda y: np.stack([y, y], axis=1), {}, "1d array"),
}


@pytest.mark.parametrize(("spoil", "options", "message"), BAD_Y.values(), ids=BAD_Y.keys())
def test_bad_labels(spoil, options, message):
    X, y = make_data()
    with pytest.raises(ValueError, match=message):
        quick(**options).fit(X, spoil(y))


BAD_WEIGHTS = {
    "negative": (lambda w: w - 1.5, "finite and not negative, but row 0 is -0.5"),
    "nan": (lambda w: w * np.nan, "finite and not negative, but row 0 is nan"),
    "zero": (lambda w: 0 * w, "zero for every row"),
    "short": (lambda w: w[1:], r"must be a number or have shape \(30,\)"),
    "one class left": (lambda w: np.where(make_data()[1] == 1, w, 0), "classes"),
}


@pytest.mark.parametrize(("spoil", "message"), BAD_WEIGHTS.values(), ids=BAD_WEIGHTS.keys())
def test_bad_weights(spoil, message):
    X, y = make_data()
    with pytest.raises(ValueError, match=message):
        quick().fit(X, y, sample_weight=spoil(np.ones(30)))


BAD_OPTIONS = {
    "kernel word": ({"kernel": "rbf"}, TypeError, "one scikit-learn kernel object, but 'rbf'"),
    "kernel class": ({"kernel": RBF}, TypeError, "but the class RBF was given"),
    "kernel number": ({"kernel": 1.0}, TypeError, "but 1.0 was given. Use for example"),
    "kernel list": ({"kernel": CompoundKernel([RBF()])}, TypeError, "CompoundKernel"),
    "inference": ({"inference": "EP"}, ValueError, "one of 'ep', 'laplace'.*mean 'ep'"),
    "inference number": ({"inference": 3}, ValueError, "inference must be one of .* but 3"),
    "objective": ({"objective": "elbo"}, ValueError, "one of 'evidence', 'bound', but 'elbo'"),
    "decision": ({"decision": "mediam"}, ValueError, "'mode', 'median', 'mean' or a matrix"),
    "costs": ({"decision": np.eye(2)}, ValueError, r"shape \(3, 3\), but has shape \(2, 2\)"),
    "optimizer": ({"optimizer": "adam"}, ValueError, "optimizer must be one of 'fmin_l_bfgs_b'"),
    "bound": (
        {"inference": "laplace", "objective": "bound"},
        ValueError,
        "defined for EP, but inference='laplace' was given. Use",
    ),
    "inducing": ({"inducing": 100}, ValueError, "inducing=100 points .* but there are 30 rows"),
    "inducing array": ({"inducing": np.eye(3)}, ValueError, "3 columns, but X has 2"),
    "max_sweeps": ({"max_sweeps": 0}, ValueError, "max_sweeps must be .*0"),
    "tol": ({"tol": -1.0}, ValueError, "tol must be .*-1"),
    "restarts": ({"n_restarts_optimizer": -1}, ValueError, "n_restarts_optimizer must be .*-1"),
    "categories": ({"categories": "abc"}, ValueError, "categories must be a list of levels"),
}


@pytest.mark.parametrize(
    ("options", "error", "message"), BAD_OPTIONS.values(), ids=BAD_OPTIONS.keys()
)
def test_bad_options(options, error, message):
    X, y = make_data()
    with pytest.raises(error, match=message):
        OrdinalGPClassifier(**options).fit(X, y)


@pytest.mark.parametrize("shape", [(), (1,), (5,), (1, 4)])
def test_theta_of_the_wrong_shape(shape):
    model = quick().fit(*make_data())
    message = r"theta must have shape \(4,\): 1 kernel and 3 likelihood parameters, but has "
    with pytest.raises(ValueError, match=message + re.escape(str(shape))):
        model.log_marginal_likelihood(np.zeros(shape))


def test_too_many_rows_are_refused_before_anything_is_allocated(monkeypatch):
    X, y = make_data(n=500)
    monkeypatch.setattr(_validation, "available_memory", lambda: 8 * 8 * 100**2)

    def no_matrix(*_args, **_kwargs):
        raise AssertionError("a kernel matrix was asked for")

    monkeypatch.setattr("ordinalgp.core.search.kernel_matrix", no_matrix)
    with pytest.raises(MemoryError, match=r"500 rows need .* subsample of at most 100 rows"):
        quick().fit(X, y)


@pytest.mark.parametrize("labels", [[1], [1, 2], np.ones((30, 2))], ids=["one", "two", "matrix"])
def test_score_needs_a_label_for_every_row(labels):
    X, y = make_data()
    with pytest.raises(ValueError, match=r"inconsistent|1d array"):
        quick().fit(X, y).score(X, labels)


def test_a_failed_fit_leaves_the_old_model_whole():
    X, y = make_data()
    model = quick().fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(X, y + 10, sample_weight=-np.ones(30))
    assert_array_equal(model.predict(X), before)
    assert_array_equal(model.classes_, [0, 1, 2])


def test_a_failed_first_fit_leaves_no_model():
    X, y = make_data()
    model = quick()
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(X, y, sample_weight=-np.ones(30))
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_feature_names_are_checked():
    X, y = make_data()
    frame = pd.DataFrame(X, columns=["age", "dose"])
    model = quick().fit(frame, y)
    assert_array_equal(model.feature_names_in_, ["age", "dose"])
    assert_array_equal(model.predict(frame), quick().fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["dose", "age"]])
