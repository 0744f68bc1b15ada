"""Monotone features: against brute force, Genz's integrals, refits and fine grids."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

import ordinalgp
from ordinalgp import OrdinalGPClassifier
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.kernels import Additive, ARDLinear, PerColumn
from ordinalgp.metrics import log_score
from ordinalgp.models.monotone import _agreement
from ordinalgp.models.monotone_steps import first_steps


def rows(n=60, seed=0, sign=1.0, noise=0.5):
    """Three features: rising, rising and level, and a wave that is neither."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    f = sign * (np.tanh(1.5 * X[:, 0]) + X[:, 1]) + np.sin(2 * X[:, 2])
    f += noise * rng.normal(size=n)
    return X, np.digitize(f, np.quantile(f, [0.25, 0.5, 0.75]))


def largest_fall(model, X, at, sign=1):
    """Largest fall of the latent mean over any distance on a fine grid, per range of the mean."""
    low, high = X[:, at].min(), X[:, at].max()
    # The rows' own values, too: with a very short length scale the mean differs only there.
    values = np.append(np.linspace(low - 1.0, high + 1.0, 2000), X[:, at])
    grid = np.tile(X[3], (len(values), 1))
    grid[:, at] = np.sort(values)
    mean = sign * model.latent_mean_and_variance(grid)[0]
    return np.max(np.maximum.accumulate(mean) - mean) / np.ptp(mean)


@pytest.mark.parametrize("seed", range(3))
def test_the_mean_never_falls_whatever_the_data_say(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(35, 3)), rng.integers(0, 3, 35)  # pure noise
    X[:, 1] = rng.integers(1, 6, 35)
    model = OrdinalGPClassifier(Additive(0.7), monotone=[1, -1, 0]).fit(X, y)
    assert largest_fall(model, X, 0) < 1e-4
    assert largest_fall(model, X, 1, sign=-1) < 1e-4
    free = OrdinalGPClassifier(Additive(0.7)).fit(X, y)
    assert max(largest_fall(free, X, 0), largest_fall(free, X, 1, sign=-1)) > 0.1
    grid = np.tile(X[0], (50, 1))
    grid[:, 0] = np.linspace(-4, 4, 50)
    effects = model.effects(grid)
    assert np.all(np.diff(effects.mean[:, 0]) > -1e-4)
    assert np.all(effects.std[:, 0] > 0)


@pytest.mark.parametrize("kernel", [Matern(1.0, nu=1.5), RBF(0.01), ARDLinear()])
def test_any_kernel_of_one_feature(kernel):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 1))
    y = np.digitize(np.sin(3 * X[:, 0]), [-0.5, 0.5])
    model = OrdinalGPClassifier(kernel, optimizer=None, monotone=[1]).fit(X, y)
    assert largest_fall(model, X, 0) < 1e-4


def test_evidence_and_mean_against_brute_force():
    X = np.array([[-1.0], [0.0], [1.0]])
    y = np.array([1, 0, 2])  # the first two would rather fall
    levels = OrdinalProbit.from_thresholds([-0.5, 0.5], noise=0.4)
    options = {"likelihood": levels, "optimizer": None}
    model = OrdinalGPClassifier(RBF(1.0), monotone=[1], **options).fit(X, y)
    knots = np.unique(model._result.model.task.steps.rows)[:, None]
    assert {-1.0, 0.0, 1.0} <= set(knots[:, 0])
    f = np.random.default_rng(0).multivariate_normal(np.zeros(len(knots)), RBF(1.0)(knots), 2**20)
    f = f[np.all(np.diff(f, axis=1) > 0, axis=1)][:, np.isin(knots[:, 0], X)]
    each = [levels.log_expectation(np.full(len(f), y[i]), f[:, i], 0.0).value for i in range(3)]
    p = np.exp(np.sum(each, axis=0))
    mean, var = model.latent_mean_and_variance(X)
    truth = p @ f / p.sum()
    assert_allclose(model.log_marginal_likelihood_value_, np.log(p.mean()), atol=0.1)
    assert_allclose(mean, truth, atol=0.03)
    assert_allclose(var, p @ (f - truth) ** 2 / p.sum(), rtol=0.1)
    free = OrdinalGPClassifier(RBF(1.0), **options).fit(X, y)
    assert np.max(np.abs(free.latent_mean_and_variance(X)[0] - truth)) > 0.2  # it matters
    assert_allclose(model.free_log_marginal_likelihood_value_, free.log_marginal_likelihood_value_)


@pytest.mark.parametrize("sign", [1, -1])
def test_evidence_of_a_feature_against_exact_integrals(sign):
    X, y = rows(sign=sign, noise=3.0)
    kernel = Additive([2.0, 2.5, 0.9])
    free = OrdinalGPClassifier(kernel, optimizer=None).fit(X, y)._result.model
    steps = first_steps(kernel, X, np.array([1, 1, 0]))[1]
    found = _agreement(free, steps)
    for at in (0, 1):
        knots = steps.of_column(at).rows
        moments = free.joint(knots), (np.zeros(len(knots)), kernel(knots))
        after, before = (_all_rise(*each) for each in moments)
        # EP counts twice what neighbouring steps share, before and after.
        assert_allclose(found[at], after - before, atol=0.15, rtol=0.01)
    assert found[2] == 0.0


def _all_rise(mean, covariance):
    """Log probability that a Gaussian vector rises, by the method of Genz."""
    D = np.diff(np.eye(len(mean)), axis=0)
    spread = D @ covariance @ D.T
    p = multivariate_normal.cdf(
        D @ mean, cov=spread, maxpts=10**5, abseps=1e-300, releps=1e-3, rng=0
    )
    return np.log(p)


@pytest.mark.parametrize("seed", range(3))
def test_data_agree_with_the_truth_and_object_to_its_reverse(seed):
    X, y = rows(seed=seed)
    for monotone, agrees in (([1, 1, 0], True), ([-1, -1, 0], False)):
        model = OrdinalGPClassifier(Additive(), monotone=monotone).fit(X, y)
        gain = model.log_marginal_likelihood_value_ - model.free_log_marginal_likelihood_value_
        assert (gain > 0) is agrees
        assert np.all(model.monotone_evidence_[:2] > -1) if agrees else gain < -10
        assert agrees or np.all(model.monotone_evidence_[:2] < -3)


def test_gradient_is_the_slope_of_the_evidence():
    X, y = rows(30)
    kernel = ConstantKernel(1.3) * Additive([1.1, 1.4, 0.8])
    model = OrdinalGPClassifier(kernel, optimizer=None, tol=1e-9, monotone=[1, -1, 0]).fit(X, y)
    model = model._result.model
    _, gradient = model.evaluate(None)
    theta, step = model.task.theta, 1e-4
    for place in range(len(theta)):
        h = step * np.eye(len(theta))[place]
        slope = (model.evaluate(theta + h)[0] - model.evaluate(theta - h)[0]) / (2 * step)
        assert_allclose(gradient[place], slope, rtol=1e-4, atol=1e-5)


def test_leave_one_out_is_a_fit_without_the_row():
    X, y = rows(40)
    levels = OrdinalProbit.from_thresholds([-0.7, 0.0, 0.7], noise=0.5)
    options = {"likelihood": levels, "optimizer": None, "monotone": [1, 1, 0]}
    model = OrdinalGPClassifier(Additive([1.2, 1.2, 0.8]), **options).fit(X, y)
    left_out = model.loo_proba()
    inner = np.flatnonzero(np.all(np.abs(X) < 1.2, axis=1))[:6]  # the knots stay
    for row in inner:
        others = np.arange(len(X)) != row
        without = OrdinalGPClassifier(Additive([1.2, 1.2, 0.8]), **options).fit(
            X[others], y[others]
        )
        assert_allclose(left_out[row], without.predict_proba(X[[row]])[0], atol=0.01)


def test_a_weight_is_a_repetition():
    X, y = rows(25)
    weights = np.arange(25) % 3 + 1
    model = OrdinalGPClassifier(Additive(), optimizer=None, monotone=[1, 0, 0])
    weighted = model.fit(X, y, weights).predict_proba(X)
    repeated = model.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights)).predict_proba(X)
    assert_allclose(weighted, repeated, rtol=0, atol=1e-9)


def test_few_rows_are_predicted_better_where_the_truth_rises():
    def drawn(n, seed):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 5))
        f = X @ [1, 0.5, 0.25, 0.7, 0.0] + 0.7 * rng.normal(size=n)
        return X, np.digitize(f, [-1, 0, 1])

    X_new, y_new = drawn(1000, 99)
    gains = []
    for seed in range(4):
        X, y = drawn(40, seed)
        free, rising = (
            OrdinalGPClassifier(Additive(), monotone=each).fit(X, y).category_proba(X_new)
            for each in (None, np.ones(5, dtype=int))
        )
        gains.append(log_score(y_new, free) - log_score(y_new, rising))
    assert np.mean(gains) > 0.02


def test_beyond_the_training_range_the_mean_stays_and_the_variance_grows():
    X, y = rows()
    model = OrdinalGPClassifier(Additive([1.0, 1.0, 1.0]), optimizer=None, monotone=[1, 0, 0])
    model.fit(X, y)
    edge = X[[np.argmax(X[:, 0])]]
    beyond = edge + np.array([5.0, 0.0, 0.0])
    (m0, v0), (m1, v1) = (model.latent_mean_and_variance(each) for each in (edge, beyond))
    assert_allclose(m1, m0)
    assert v1 > v0


def test_names_directions_and_files(tmp_path):
    X, y = rows(30)
    table = pd.DataFrame(X, columns=["age", "dose", "phase"])
    model = OrdinalGPClassifier(Additive(), optimizer=None, monotone={"dose": 1, "age": -1})
    by_name = model.fit(table, y)
    by_place = OrdinalGPClassifier(Additive(), optimizer=None, monotone=[-1, 1, 0]).fit(X, y)
    assert_allclose(by_name.predict_proba(table), by_place.predict_proba(X))
    by_name.save(tmp_path / "model.ogp")
    loaded = ordinalgp.load(tmp_path / "model.ogp")
    assert np.array_equal(loaded.predict_proba(table), by_name.predict_proba(table))
    assert np.array_equal(loaded.loo_proba(), by_name.loo_proba())
    assert np.array_equal(loaded.monotone_evidence_, by_name.monotone_evidence_)
    draws = loaded.sample_proba(table, n_samples=400, random_state=0)
    assert_allclose(draws.mean(axis=0), loaded.category_proba(table), atol=0.1)
    free = loaded.set_params(monotone=None).fit(table, y)
    assert not hasattr(free, "monotone_evidence_")


def test_decreasing_is_increasing_of_the_mirrored_feature():
    X, y = rows(30)
    mirrored = X * [-1, 1, 1]
    down = OrdinalGPClassifier(Additive(), optimizer=None, monotone=[-1, 0, 0]).fit(X, y)
    up = OrdinalGPClassifier(Additive(), optimizer=None, monotone=[1, 0, 0]).fit(mirrored, y)
    assert_allclose(down.predict_proba(X), up.predict_proba(mirrored), rtol=0, atol=1e-6)


def test_a_constant_feature_asks_for_nothing():
    X, y = rows(25)
    X[:, 1] = 2.0
    options = {"kernel": Additive(), "optimizer": None}
    model = OrdinalGPClassifier(monotone=[0, 1, 0], **options).fit(X, y)
    free = OrdinalGPClassifier(**options).fit(X, y)
    assert np.array_equal(model.predict_proba(X), free.predict_proba(X))


@pytest.mark.parametrize("wrap", [lambda kernel: kernel, lambda kernel: kernel + ARDLinear()])
def test_only_the_rough_column_becomes_smoother(wrap):
    X = rows(30)[0]
    inner = Additive([2.0, 1e-3])
    kernel = first_steps(wrap(PerColumn(inner, [0, 0, 1])), X, np.array([0, 0, 1]))[0]
    plain = first_steps(wrap(Additive([2.0, 2.0, 1e-3])), X, np.array([0, 0, 1]))[0]
    scales, expected = np.exp(kernel.theta[:2]), np.exp(plain.theta[:3])
    assert_allclose(scales[0], 2.0)
    assert scales[1] > 0.1
    assert_allclose(scales[1], expected[2], rtol=0.3)  # 1/2 and 1/3 of the variance


@pytest.mark.parametrize(
    ("kernel", "sums"),
    [
        (Additive() + ARDLinear() + ConstantKernel(), True),
        (0.5 * Additive(), True),
        (RBF(), False),
        (Additive() + RBF(), False),
        (Additive(size=3), False),
        (Additive() + WhiteKernel(), False),
        (Additive() * ARDLinear(), False),
    ],
)
def test_the_kernel_must_add_up_functions_of_single_features(kernel, sums):
    X, y = rows(20)
    model = OrdinalGPClassifier(kernel, optimizer=None, monotone=[1, 0, 0])
    if sums:
        model.fit(X, y)
        return
    with pytest.raises(ValueError, match=r"adds up functions of single features.*Additive"):
        model.fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"monotone": [1, 2, 0]}, "must be None, a dict of feature names or an array"),
        ({"monotone": "age"}, "must be None, a dict of feature names or an array"),
        ({"monotone": {"age": "up"}}, "must be None, a dict of feature names or an array"),
        ({"monotone": {0: 1}}, "must be None, a dict of feature names or an array"),
        ({"monotone": [1, 0]}, "has 2 numbers, but X has 3 features"),
        ({"monotone": {"age": 1}}, "names 'age', but X has no feature names"),
        ({"monotone": [1, 0, 0], "inference": "laplace"}, "needs the defaults 'ep'"),
        ({"monotone": [1, 0, 0], "objective": "bound"}, "needs the defaults 'ep'"),
        ({"monotone": [1, 0, 0], "inducing": 10}, "needs the exact model"),
    ],
)
def test_errors(options, message):
    X, y = rows(20)
    with pytest.raises(ValueError, match=message):
        OrdinalGPClassifier(Additive(), **options).fit(X, y)


def test_later_rows_are_refused():
    X, y = rows(20)
    model = OrdinalGPClassifier(Additive(), optimizer=None, monotone=[1, 0, 0]).fit(X, y)
    with pytest.raises(ValueError, match="fit all rows at once"):
        model.partial_fit(X, y)
