"""LeastSquaresOrdinalClassifier: scikit-learn's contract, weights, search, limits, messages."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from ordinalgp import LeastSquaresOrdinalClassifier, OrdinalGPClassifier
from ordinalgp.core.projections import Identity
from ordinalgp.least_squares.leave_one_out import LeastSquaresTask, RankLikelihood
from ordinalgp.metrics import log_score
from ordinalgp.models.exact import latent_in_blocks
from ordinalgp.plots import ContourDisplay, LatentDisplay

LEVELS = ["low", "mid", "high"]  # alphabetical order is high, low, mid
KERNEL = ConstantKernel(1.0) * RBF(1.2)


def make_data(n=40, r=3, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    f = X[:, 0] + 0.5 * X[:, 1] ** 2 + noise * rng.normal(size=n)
    return X, np.searchsorted(np.quantile(f, np.arange(1, r) / r), f)


def model(**options):
    return LeastSquaresOrdinalClassifier(**options)


def quick(**options):
    return LeastSquaresOrdinalClassifier(**{"kernel": KERNEL, "optimizer": None, **options})


@parametrize_with_checks(
    [LeastSquaresOrdinalClassifier()],
    expected_failed_checks=lambda estimator: {
        "check_classifiers_classes": "feeds strings without an order, which this model refuses"
    },
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_pipeline_and_cross_validation():
    X, y = load_iris(return_X_y=True)
    assert cross_val_score(make_pipeline(StandardScaler(), model()), X[::2], y[::2]).mean() > 0.9


def test_probabilities_are_equation_9():
    """Regression by scikit-learn, then the link with slope and thresholds as printed."""
    X, y = make_data()
    fitted = quick().fit(X, y)
    mean = y.mean()
    regression = GaussianProcessRegressor(
        fitted.kernel_, alpha=fitted.noise_**2, optimizer=None
    ).fit(X, y - mean)
    query = np.random.default_rng(1).normal(size=(9, 2))
    f, sd = regression.predict(query, return_std=True)
    slope, scale = fitted.slope_, np.sqrt(1 + fitted.slope_**2 * sd**2)
    edges = slope * np.r_[-np.inf, fitted.thresholds_, np.inf]
    cumulative = norm.cdf((edges[:, None] - slope * (f + mean)) / scale)
    assert_allclose(fitted.category_proba(query), np.diff(cumulative, axis=0).T, atol=1e-9)
    assert_allclose(fitted.latent_mean_and_variance(query)[0], f + mean, rtol=1e-8)


def test_the_objective_is_the_score_of_left_out_rows():
    X, y = make_data(n=25)
    fitted = model().fit(X, y)
    assert_allclose(fitted.loo_log_score_, log_score(y, fitted.loo_proba()), rtol=1e-10)
    assert_allclose(fitted.loo_log_score_, -fitted.loo_log_probability() / len(y), rtol=1e-12)
    assert_allclose(fitted.objective_path_.max(), fitted.loo_log_probability(), rtol=1e-9)
    # Really leave rows out, with the hyperparameters (and the prior mean) held.
    rest = np.arange(25) != 7
    likelihood = RankLikelihood(fitted.noise_, fitted.likelihood_)
    apart = LeastSquaresTask(
        X[rest], fitted.kernel_, likelihood, Identity(24), y[rest], np.ones(24), y.mean()
    )
    at = latent_in_blocks(apart.posterior(apart.sites()), fitted.kernel_, X[rest], X[[7]])
    expected = fitted.likelihood_.probabilities(y.mean() + at.mean, at.var)[0]
    assert_allclose(fitted.loo_proba()[7], expected, rtol=1e-8)


def test_the_search_ends_at_a_maximum():
    X, y = make_data(n=60, r=4)
    fitted = model().fit(X, y)
    value, gradient = fitted.loo_log_probability(eval_gradient=True)
    task = fitted._result.model.task
    inside = (task.theta > task.bounds[:, 0] + 1e-6) & (task.theta < task.bounds[:, 1] - 1e-6)
    assert fitted.converged_
    assert np.abs(gradient[inside]).max() < 0.05
    for step in 0.1 * np.vstack([np.eye(len(task.theta)), -np.eye(len(task.theta))])[:, inside]:
        moved = task.theta.copy()
        moved[inside] += step
        assert fitted.loo_log_probability(moved) <= value + 1e-6


def test_more_starts_never_lose_and_follow_the_seed():
    X, y = make_data(n=30, r=4, noise=1.0, seed=3)
    scores = [
        model(n_restarts_optimizer=k, random_state=0).fit(X, y).loo_log_score_ for k in range(4)
    ]
    assert np.all(np.diff(scores) <= 1e-9)
    twice = [model(n_restarts_optimizer=3, random_state=5).fit(X, y) for _ in range(2)]
    assert_array_equal(twice[0].kernel_.theta, twice[1].kernel_.theta)


@pytest.mark.parametrize("options", [{}, {"kernel": KERNEL, "optimizer": None}])
def test_weights_are_copies(options):
    X, y = make_data(n=24)
    counts = np.arange(24) % 3 + 1
    one = model(**options).fit(X, y, counts)
    other = model(**options).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    assert_allclose(one.category_proba(X), other.category_proba(X), atol=1e-8)
    assert_allclose(one.loo_log_score_, other.loo_log_score_, rtol=1e-10)
    assert_allclose(np.repeat(one.loo_proba(), counts, axis=0), other.loo_proba(), atol=1e-8)


def test_weight_zero_is_no_row():
    X, y = make_data(n=24)
    weights = np.where(np.arange(24) % 4, 1.0, 0.0)
    one, other = quick().fit(X, y, weights), quick().fit(X[weights > 0], y[weights > 0])
    assert_allclose(one.category_proba(X), other.category_proba(X), rtol=1e-10)
    assert_allclose(one.loo_proba()[::4], other.category_proba(X[::4]), rtol=1e-8)


def test_order_of_levels_is_the_one_given():
    X, y = make_data()
    numbers = quick().fit(X, y)
    words = quick(categories=LEVELS).fit(X, np.array(LEVELS)[y])
    assert_array_equal(words.category_proba(X), numbers.category_proba(X))
    assert_array_equal(words.predict(X), np.array(LEVELS)[numbers.predict(X)])
    with pytest.raises(ValueError, match="categories"):
        quick().fit(X, np.array(LEVELS)[y])


def test_absent_levels_keep_their_place():
    X, y = make_data()
    fitted = model(categories=range(5)).fit(X, y + 1)
    proba = fitted.category_proba(X)
    assert proba.shape == (len(X), 5)
    assert_allclose(proba.sum(axis=1), 1.0)
    assert proba[:, [0, 4]].max() < 0.5
    assert fitted.score(X, y + 1) > 0.8


def test_reversed_levels_give_reversed_probabilities():
    X, y = make_data(n=50)
    one, other = model().fit(X, y), model().fit(X, 2 - y)
    assert_allclose(one.loo_log_score_, other.loo_log_score_, rtol=1e-5)
    assert_allclose(one.category_proba(X), other.category_proba(X)[:, ::-1], atol=5e-3)


def test_every_corner_of_the_bounds_has_a_value():
    X, y = make_data(n=20)
    fitted = quick().fit(X, y)
    bounds = fitted._result.model.task.bounds
    rng = np.random.default_rng(0)
    for _ in range(200):
        theta = bounds[np.arange(len(bounds)), rng.integers(0, 2, len(bounds))]
        value, gradient = fitted.loo_log_probability(theta, eval_gradient=True)
        assert np.isfinite(value)
        assert np.all(np.isfinite(gradient))


@pytest.mark.parametrize("case", ["one row a level", "constant", "huge", "wide", "copies", "50"])
def test_hard_data_give_sound_answers(case):
    rng = np.random.default_rng(0)
    X, y = make_data(n=30)
    if case == "one row a level":
        X, y = X[:4], np.arange(4)
    elif case == "constant":
        X = np.c_[X, np.full(30, 7.0)]
    elif case == "huge":
        X = X * [1e8, 1e-8]
    elif case == "wide":
        X = rng.normal(size=(30, 200))
    elif case == "copies":
        X = np.repeat(X[:3], 10, axis=0)
    elif case == "50":
        X, y = rng.normal(size=(120, 2)), np.arange(120) % 50
    fitted = model().fit(X, y)
    proba = fitted.category_proba(np.r_[X, 1e3 * X[:2]])
    assert np.all(np.isfinite(proba))
    assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-9)
    assert np.isfinite(fitted.loo_log_score_)
    assert np.all(np.diff(fitted.thresholds_) > 0)


def test_beside_expectation_propagation():
    """Two models of the same data: much the same probabilities where data are plenty."""
    X, y = make_data(n=150, r=4, noise=0.5)
    new, _ = make_data(n=100, r=4, seed=9)
    gap = model().fit(X, y).category_proba(new) - OrdinalGPClassifier().fit(X, y).category_proba(
        new
    )
    assert np.abs(gap).mean() < 0.05


def test_pickle_and_clone():
    X, y = make_data(n=20)
    fitted = quick().fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.category_proba(X), fitted.category_proba(X))
    with pytest.raises(NotFittedError):
        clone(fitted).predict(X)


def test_displays_take_it():
    X, y = make_data(n=30)
    fitted = quick().fit(X, y)
    assert ContourDisplay.from_estimator(fitted, X, y=y).ax_ is not None
    assert LatentDisplay.from_estimator(fitted, X, y).ax_ is not None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernel": "rbf"}, "kernel must be one scikit-learn kernel"),
        ({"optimizer": "adam"}, "optimizer must be"),
        ({"n_restarts_optimizer": -1}, "n_restarts_optimizer must be"),
        ({"decision": "best"}, "mode"),
    ],
)
def test_bad_options(change, message):
    X, y = make_data()
    with pytest.raises((ValueError, TypeError), match=message):
        model(**change).fit(X, y)


def test_theta_of_the_wrong_shape():
    X, y = make_data()
    with pytest.raises(ValueError, match=r"shape \(6,\): 2 kernel and 4 likelihood"):
        quick().fit(X, y).loo_log_probability([0.0])


def test_a_failed_fit_leaves_the_old_model_whole():
    X, y = make_data()
    fitted = quick().fit(X, y)
    before = fitted.category_proba(X)
    with pytest.raises(ValueError, match="NaN"):
        fitted.fit(np.full_like(X, np.nan), y)
    assert_array_equal(fitted.category_proba(X), before)


def test_the_picture_blurs_by_the_link_not_by_the_regression():
    X, y = make_data(n=30)
    fitted = quick().fit(X, y)
    display = LatentDisplay.from_estimator(fitted, X, y)
    assert_allclose(display.noise, 1 / fitted.slope_)
    assert display.noise != fitted.noise_


def test_no_level_becomes_impossible():
    """Rows far apart say nothing of the noise, and a new row may equal one of them."""
    rng = np.random.default_rng(0)
    X = 40.0 * np.arange(30)[:, None] + rng.normal(size=(30, 1))
    y = rng.integers(0, 5, 30)
    model = LeastSquaresOrdinalClassifier(RBF(1.0, (0.5, 2.0))).fit(X, y)
    assert model.noise_ >= 12**-0.5 * (1 - 1e-9)
    assert model.category_proba(X).min() > 0


def test_log_probabilities_do_not_underflow():
    X = np.linspace(-2, 2, 30)[:, None]
    y = np.digitize(X[:, 0] ** 3, [-1, 1])
    model = LeastSquaresOrdinalClassifier(noise_bounds=(1e-3, 1e-2)).fit(X, y)
    logs, (mean, var) = model.predict_log_proba(X), model.latent_mean_and_variance(X)
    sd = np.sqrt(var + model.slope_**-2)
    low, high = model.thresholds_
    assert_allclose(logs[:, 0], norm.logcdf((low - mean) / sd), rtol=1e-9)
    assert_allclose(logs[:, 2], norm.logsf((high - mean) / sd), rtol=1e-9)
    assert logs.min() < -800  # the probability itself underflows, but is not zero
    proba = model.predict_proba(X)
    assert proba.min() == np.finfo(float).tiny
    assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)
    wrong = np.where(y == 0, 2, 0)
    assert 500 < log_score(wrong[y != 1], proba[y != 1], categories=[0, 1, 2]) < 709
