"""What must hold for any data: symmetries, repetitions, degenerate shapes, extreme scales."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from ordinalgp import OrdinalGPClassifier, SequentialOrdinalGP, StackedOrdinalGP
from ordinalgp.kernels import ARDLinear

seeds = st.integers(0, 2**32 - 1)
inferences = st.sampled_from(["ep", "laplace"])


def examples(number):
    return settings(
        max_examples=number,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


@st.composite
def datasets(draw, rows=(3, 16), features=(1, 3), levels=(2, 4)):
    """Inputs on a coarse grid, so that rows repeat, and a noisy trend cut into levels."""
    rng = np.random.default_rng(draw(seeds))
    n, d = draw(st.integers(*rows)), draw(st.integers(*features))
    r = draw(st.integers(levels[0], min(levels[1], n)))
    X = rng.normal(size=(n, d)).round(draw(st.sampled_from([0, 1, 6])))
    f = X[:, 0] + draw(st.sampled_from([0.1, 1.0])) * rng.normal(size=n)
    y = np.searchsorted(np.sort(f)[np.arange(1, r) * n // r], f, side="right")
    return X, y, r


@st.composite
def kept_kernels(draw):
    """Kernels that treat every feature alike, for models without a search."""
    scale = draw(st.floats(0.2, 5))
    return draw(
        st.sampled_from(
            [RBF(scale), 2.0 * RBF(scale), Matern(scale, nu=1.5), RBF(scale) + WhiteKernel(0.1)]
        )
    )


def keep(kernel, inference="ep", **options):
    return OrdinalGPClassifier(
        kernel, inference=inference, optimizer=None, tol=1e-10, max_sweeps=1000, **options
    )


def assert_sound(model, X):
    """Everything finite, probabilities proper, predictions among the levels: near and far."""
    rng = np.random.default_rng(0)
    spread = np.abs(X).max() + 1
    elsewhere = rng.uniform(-2 * spread, 2 * spread, size=(5, X.shape[1]))
    for rows in (X, elsewhere, 1e6 * elsewhere):
        mean, variance = model.latent_mean_and_variance(rows)
        assert np.isfinite(mean).all()
        assert np.isfinite(variance).all()
        assert np.all(variance >= 0)
        assert np.isfinite(model.predict_log_proba(rows)).all()
        for proba in (model.category_proba(rows), model.predict_proba(rows)):
            assert np.isfinite(proba).all()
            assert np.all((proba >= 0) & (proba <= 1))
            assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=1e-9)
        assert set(model.predict(rows).tolist()) <= set(model.categories_.tolist())
    loo = model.loo_proba()
    assert loo.shape == (len(X), len(model.classes_))
    assert np.isfinite(loo).all()
    assert_allclose(loo.sum(axis=1), 1, rtol=0, atol=1e-9)
    assert np.isfinite(model.log_marginal_likelihood_value_)
    assert np.isfinite(model.thresholds_).all()
    assert np.all(np.diff(model.thresholds_) >= 0)
    assert 0 < model.noise_ < np.inf


# ------------------------------------------------------------------------------- symmetries


@examples(25)
@given(datasets(), kept_kernels(), inferences, seeds)
def test_the_order_of_rows_does_not_matter(data, kernel, inference, seed):
    X, y, _ = data
    order = np.random.default_rng(seed).permutation(len(y))
    straight = keep(kernel, inference).fit(X, y)
    shuffled = keep(kernel, inference).fit(X[order], y[order])
    assert_allclose(shuffled.category_proba(X), straight.category_proba(X), rtol=0, atol=1e-8)
    assert_allclose(shuffled.loo_proba(), straight.loo_proba()[order], rtol=0, atol=1e-8)
    assert_allclose(
        shuffled.log_marginal_likelihood_value_, straight.log_marginal_likelihood_value_, rtol=1e-8
    )


@examples(8)
@given(datasets(), inferences, seeds)
def test_the_order_of_rows_does_not_matter_to_the_search(data, inference, seed):
    X, y, _ = data
    order = np.random.default_rng(seed).permutation(len(y))
    straight = OrdinalGPClassifier(inference=inference).fit(X, y)
    shuffled = OrdinalGPClassifier(inference=inference).fit(X[order], y[order])
    assert_allclose(shuffled.category_proba(X), straight.category_proba(X), rtol=0, atol=1e-8)


@examples(25)
@given(datasets(), kept_kernels(), inferences)
def test_reversed_levels_give_reversed_probabilities(data, kernel, inference):
    X, y, r = data
    up = keep(kernel, inference, categories=range(r)).fit(X, y)
    down = keep(kernel, inference, categories=range(r)[::-1]).fit(X, y)
    assert_allclose(down.category_proba(X)[:, ::-1], up.category_proba(X), rtol=0, atol=1e-6)
    assert_allclose(down.predict_proba(X), up.predict_proba(X), rtol=0, atol=1e-6)
    assert_allclose(down.thresholds_[::-1], -up.thresholds_, rtol=1e-6, atol=1e-9)
    assert_allclose(
        down.log_marginal_likelihood_value_, up.log_marginal_likelihood_value_, rtol=1e-8
    )


def noisy_curve(seed):
    """Data whose evidence has its maximum well inside the bounds."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 1))
    f = np.sin(2 * X[:, 0]) + 0.5 * rng.normal(size=40)
    return X, np.searchsorted(np.quantile(f, [0.33, 0.67]), f)


def assert_same_maximum(one, two, X_one, X_two):
    """Two searches met at one maximum, each to its own accuracy.

    They end where a step gains less than 1e-8 of the objective, about 1e-6 in all. The
    objective is flat there: parameters differ by the root of that, and probabilities by less.
    """
    assert_allclose(
        one.log_marginal_likelihood_value_, two.log_marginal_likelihood_value_, rtol=0, atol=1e-4
    )
    assert_allclose(one.predict_proba(X_one), two.predict_proba(X_two), rtol=0, atol=5e-3)


@examples(8)
@given(seeds, inferences)
def test_reversed_levels_and_the_search(seed, inference):
    """The searches see different coordinates: the first threshold and the gaps above it."""
    X, y = noisy_curve(seed)
    model = OrdinalGPClassifier(inference=inference)
    up = clone(model).set_params(categories=[0, 1, 2]).fit(X, y)
    down = clone(model).set_params(categories=[2, 1, 0]).fit(X, y)
    assert_same_maximum(down, up, X, X)


@examples(25)
@given(datasets(), st.floats(1e-6, 1e6), st.floats(0.3, 3), inferences)
def test_features_and_length_scale_share_one_unit(data, unit, scale, inference):
    X, y, _ = data
    plain = keep(RBF(scale), inference).fit(X, y)
    scaled = keep(RBF(unit * scale), inference).fit(unit * X, y)
    assert_allclose(scaled.category_proba(unit * X), plain.category_proba(X), rtol=0, atol=1e-8)
    assert_allclose(scaled.loo_proba(), plain.loo_proba(), rtol=0, atol=1e-8)
    assert_allclose(
        scaled.log_marginal_likelihood_value_, plain.log_marginal_likelihood_value_, rtol=1e-8
    )


@examples(8)
@given(seeds, st.sampled_from([1e-4, 700.0]), inferences)
def test_the_search_does_not_see_the_unit(seed, unit, inference):
    X, y = noisy_curve(seed)
    plain, scaled = (
        OrdinalGPClassifier(RBF(u, (u / 20, 20 * u)), inference=inference).fit(u * X, y)
        for u in (1.0, unit)
    )
    assert_same_maximum(scaled, plain, unit * X, X)


@examples(25)
@given(datasets(), kept_kernels(), inferences, st.floats(-1e3, 1e3), st.integers(1, 20))
def test_constant_columns_say_nothing(data, kernel, inference, value, number):
    X, y, _ = data
    wide = np.hstack([X, np.full((len(X), number), value)])
    plain, padded = keep(kernel, inference).fit(X, y), keep(kernel, inference).fit(wide, y)
    assert_allclose(padded.category_proba(wide), plain.category_proba(X), rtol=0, atol=1e-8)


@examples(15)
@given(datasets(), st.data(), inferences, st.booleans())
def test_repeated_rows_are_weights(data, draw, inference, searched):
    X, y, _ = data
    copies = np.array(draw.draw(st.lists(st.integers(1, 4), min_size=len(y), max_size=len(y))))
    optimizer = "fmin_l_bfgs_b" if searched else None
    model = OrdinalGPClassifier(RBF(1.0), inference=inference, optimizer=optimizer)
    weighted = clone(model).fit(X, y, copies)
    repeated = clone(model).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    assert_allclose(weighted.category_proba(X), repeated.category_proba(X), rtol=0, atol=1e-9)
    one_by_one = np.repeat(weighted.loo_proba(), copies, axis=0)
    assert_allclose(one_by_one, repeated.loo_proba(), rtol=0, atol=1e-9)
    assert_allclose(
        weighted.log_marginal_likelihood_value_,
        repeated.log_marginal_likelihood_value_,
        rtol=1e-9,
    )


# ------------------------------------------------------------------------- degenerate shapes


@examples(15)
@given(datasets(), inferences)
def test_any_data_give_sound_predictions(data, inference):
    X, y, _ = data
    assert_sound(OrdinalGPClassifier(inference=inference).fit(X, y), X)


@examples(8)
@given(seeds, st.integers(2, 8), inferences)
def test_one_row_for_each_level(seed, r, inference):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(r, 2)), rng.permutation(r)
    assert_sound(OrdinalGPClassifier(inference=inference).fit(X, y), X)


@examples(7)
@given(seeds, inferences, st.sampled_from(["default", "ard", "linear"]))
def test_more_features_than_rows(seed, inference, kernel):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(6, 50)), np.array([0, 1, 2, 0, 1, 2])
    kernels = {"default": None, "ard": RBF(np.full(50, 7.0)), "linear": ARDLinear(np.full(50, 0.1))}
    model = OrdinalGPClassifier(kernels[kernel], inference=inference).fit(X, y)
    assert_sound(model, X)


@examples(4)
@given(seeds, inferences)
def test_fifty_levels(seed, inference):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 1))
    y = np.concatenate([np.arange(50), rng.integers(0, 50, 30)])
    y = y[np.argsort(np.argsort(X[:, 0] + 0.3 * rng.normal(size=80)))] if seed % 2 else y
    model = OrdinalGPClassifier(inference=inference).fit(X, y)
    assert model.thresholds_.shape == (49,)
    assert_sound(model, X)


@examples(12)
@given(datasets(levels=(2, 3)), st.integers(0, 4), st.integers(0, 4), inferences, seeds)
def test_absent_levels_anywhere(data, before, after, inference, seed):
    """Levels below, above and between the observed ones; observed ones stay in order."""
    X, y, r = data
    between = int(np.random.default_rng(seed).integers(0, 4))
    shifted = before + y * (between + 1)
    number = before + (r - 1) * (between + 1) + 1 + after
    model = OrdinalGPClassifier(inference=inference, categories=range(number)).fit(X, shifted)
    assert model.category_proba(X).shape == (len(X), number)
    assert_sound(model, X)


@examples(12)
@given(
    datasets(),
    st.lists(st.sampled_from([1e-10, 1.0, 1e10, 1e150]), min_size=3, max_size=3),
    inferences,
    st.sampled_from(["default", "ard"]),
)
def test_any_scale_of_features(data, scales, inference, kernel):
    X, y, _ = data
    d = X.shape[1]
    X = X * scales[:d]
    given_kernel = None if kernel == "default" else ConstantKernel() * RBF(np.ones(d))
    model = OrdinalGPClassifier(given_kernel, inference=inference).fit(X, y)
    mean, variance = model.latent_mean_and_variance(X)
    proba = model.category_proba(X)
    for values in (mean, variance, proba, model.log_marginal_likelihood_value_):
        assert np.isfinite(values).all()
    assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=1e-9)
    assert set(model.predict(X)) <= set(model.categories_)


@examples(8)
@given(
    st.lists(st.integers(1, 12), min_size=2, max_size=5),
    inferences,
    st.sampled_from([0.0, 1.0, -1e8]),
    st.sampled_from(["default", "constant"]),
)
def test_equal_rows_with_different_labels(counts, inference, value, kernel):
    """Inputs that say nothing: the prediction is the share of each level."""
    y = np.repeat(np.arange(len(counts)), counts)
    X = np.full((len(y), 2), value)
    given_kernel = None if kernel == "default" else ConstantKernel() * RBF()
    model = OrdinalGPClassifier(given_kernel, inference=inference).fit(X, y)
    proba = model.category_proba(X)
    assert np.isfinite(proba).all()
    assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=1e-9)
    assert_allclose(proba[0], np.array(counts) / len(y), rtol=0, atol=0.15)


def test_equal_rows_at_zero_under_a_linear_kernel():
    """There the kernel gives the latent function no variance at all."""
    y = np.array([0, 1, 1, 2])
    model = OrdinalGPClassifier(ARDLinear(1.0)).fit(np.zeros((4, 2)), y)
    assert_allclose(model.category_proba([[0.0, 0.0]])[0], [0.25, 0.5, 0.25], atol=0.15)


@pytest.mark.parametrize("inference", ["ep", "laplace"])
@pytest.mark.parametrize("weight", [1e-12, 1e-6, 100.0])
def test_tiny_and_huge_weights(inference, weight):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2))
    y = (X[:, 0] > 0) + (X[:, 0] > 0.7).astype(int)
    weights = np.ones(12)
    weights[3] = weight
    assert_sound(OrdinalGPClassifier(inference=inference).fit(X, y, weights), X)


# ------------------------------------------------------------------------------- several functions


def sequential(kernel, direction):
    return SequentialOrdinalGP(
        kernel, direction=direction, optimizer=None, tol=1e-10, max_sweeps=1000
    )


def mixed(kernel):
    return StackedOrdinalGP({"one": keep(kernel), "several": sequential(kernel, "middle")})


@examples(12)
@given(datasets(), kept_kernels(), st.sampled_from(["up", "down", "middle", "mixed"]), seeds)
def test_the_order_of_rows_does_not_matter_to_several_functions(data, kernel, kind, seed):
    X, y, r = data
    order = np.random.default_rng(seed).permutation(len(X))
    model = mixed(kernel) if kind == "mixed" else sequential(kernel, kind)
    model.set_params(categories=range(r)).fit(X, y)
    again = clone(model).fit(X[order], y[order])
    assert_allclose(again.category_proba(X), model.category_proba(X), rtol=0, atol=1e-6)
    assert_allclose(again.loo_proba(), model.loo_proba()[order], rtol=0, atol=1e-6)


@examples(12)
@given(datasets(), kept_kernels())
def test_reversed_levels_reverse_the_steps(data, kernel):
    """Steps upwards are steps downwards of the reversed levels."""
    X, y, r = data
    up = sequential(kernel, "up").set_params(categories=range(r)).fit(X, y)
    down = sequential(kernel, "down").set_params(categories=range(r)).fit(X, r - 1 - y)
    assert_allclose(down.category_proba(X)[:, ::-1], up.category_proba(X), rtol=0, atol=1e-6)
    assert_allclose(
        down.log_marginal_likelihood_value_, up.log_marginal_likelihood_value_, atol=1e-6
    )


@examples(6)
@given(datasets(rows=(6, 16)), st.sampled_from(["sequential", "mixture"]))
def test_any_data_give_sound_probabilities(data, kind):
    X, y, r = data
    model = SequentialOrdinalGP() if kind == "sequential" else StackedOrdinalGP()
    model.set_params(categories=range(r)).fit(X, y)
    for rows in (X, 1e6 * X):
        proba = model.category_proba(rows)
        assert np.all((proba >= 0) & (proba <= 1))
        assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=1e-9)
        lower, upper = model.predict_interval(rows).T
        assert np.all(lower <= upper)
    assert np.isfinite(model.loo_proba()).all()
