"""Effects: the posterior of each feature's own function, against a dense Gaussian."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

import ordinalgp
from ordinalgp import (
    LeastSquaresOrdinalClassifier,
    OrdinalGPClassifier,
    SparseBayesOrdinalClassifier,
)
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.datasets import make_additive_ranks
from ordinalgp.kernels import Additive, ARDLinear, PerColumn
from ordinalgp.kernels.feature_share import FeatureShare, feature_shares
from ordinalgp.models.exact import probabilities_along


@pytest.fixture(scope="module")
def rows():
    X, y, _ = make_additive_ranks(60, random_state=0)
    X[50:] = X[40:50]  # some inputs were observed twice
    return X, y


def fixed(kernel, **options):
    return OrdinalGPClassifier(kernel, optimizer=None, **options)


def dense_effects(model, X_new, shares, rest, weights):
    """Centred functions by brute force: the joint Gaussian of all function values and all rows.

    ``shares[l](a, b)`` is the covariance of the function of feature l at two columns of values.
    """
    fitted = model._result.model
    X, sites = fitted.task.X, fitted.sites
    A = fitted.task.projection.apply(np.eye(len(X)))
    everywhere = np.vstack([X_new, X])
    n, N, d = len(X_new), len(X), X.shape[1]
    size = n + N
    prior = np.zeros((d * size + N, d * size + N))  # functions, and what else f is made of
    for place in range(d):
        block = slice(place * size, (place + 1) * size)
        prior[block, block] = shares[place](everywhere[:, place], everywhere[:, place])
    prior[d * size :, d * size :] = rest(X)
    to_rows = np.hstack([*([np.zeros((N, n)), np.eye(N)] * d), np.eye(N)])
    B = A @ to_rows  # observations of the whole vector
    T = fitted.task.counts * sites.tau
    target = fitted.task.counts * sites.nu / T
    gain = prior @ B.T @ np.linalg.inv(B @ prior @ B.T + np.diag(1 / T))
    mean, cov = gain @ target, prior - gain @ B @ prior
    centring = np.zeros((d * n, len(prior)))
    for place in range(d):
        mine = slice(place * n, (place + 1) * n)
        centring[mine, place * size : place * size + n] = np.eye(n)
        centring[mine, place * size + n : (place + 1) * size] = -weights
    std = np.sqrt(np.diagonal(centring @ cov @ centring.T))
    return (centring @ mean).reshape(d, n).T, std.reshape(d, n).T


def gaussian(scale):
    return lambda a, b: np.exp(-((a[:, None] - b) ** 2) / (2 * scale**2))


def test_effects_are_those_of_the_dense_joint_gaussian(rows):
    X, y = rows
    rng = np.random.default_rng(1)
    counts = rng.integers(1, 4, len(X)).astype(float)
    kernel = (
        2.0 * Additive(0.8)
        + ConstantKernel(0.3) * (RBF(1.5) + 0.5 * ARDLinear([0.1, 0.2, 0.3, 0.4]))
        + DotProduct(0.7) * 0.2
        + WhiteKernel(0.1)
    )
    model = fixed(kernel).fit(X, y, sample_weight=counts)
    shares = [
        lambda a, b, r=r: 2.0 / 4 * gaussian(0.8)(a, b) + (0.15 * r + 0.2) * np.outer(a, b)
        for r in (0.1, 0.2, 0.3, 0.4)
    ]

    def rest(X):
        return 0.3 * RBF(1.5)(X) + 0.2 * 0.7**2 + 0.1 * np.eye(len(X))

    X_new = rng.uniform(-2, 2, (7, 4))
    mean, std = dense_effects(model, X_new, shares, rest, counts / counts.sum())
    found = model.effects(X_new)
    assert_allclose(found.mean, mean, atol=1e-9)
    assert_allclose(found.std, std, rtol=1e-6)


def test_repeated_rows_count_as_often_as_they_are_there(rows):
    X, y = rows
    model = fixed(Additive(0.8)).fit(X, y)
    inputs, counts = np.unique(X, axis=0, return_counts=True)
    assert_allclose(model._result.model.task.X, inputs)
    share = [lambda a, b: gaussian(0.8)(a, b) / 4] * 4
    X_new = X[:9] + 0.1
    mean, std = dense_effects(model, X_new, share, lambda X: np.zeros((50, 50)), counts / 60)
    found = model.effects(X_new)
    assert_allclose(found.mean, mean, atol=1e-9)
    assert_allclose(found.std, std, rtol=1e-6)
    assert_allclose(model.effects(X).mean.mean(axis=0), 0.0, atol=1e-12)


@pytest.mark.parametrize("classifier", [OrdinalGPClassifier, LeastSquaresOrdinalClassifier])
@pytest.mark.parametrize("kernel", [Additive(0.7) + 0.3 * ARDLinear(0.5), DotProduct() + 0.1])
def test_effects_and_constant_sum_to_the_latent_mean(classifier, kernel, rows):
    X, y = rows
    model = classifier(kernel).fit(X, y)
    found = model.effects(X + 0.2)
    assert_allclose(
        found.constant + found.mean.sum(axis=1), model.latent_mean_and_variance(X + 0.2)[0]
    )


def test_a_linear_kernel_has_straight_effects(rows):
    X, y = rows
    model = fixed(ARDLinear([1.0, 2.0, 3.0, 1e-9])).fit(X, y)
    line = np.linspace(-2, 2, 9)
    found = model.effects(np.tile(line[:, None], 4))
    assert_allclose(np.diff(found.mean, 2, axis=0), 0.0, atol=1e-9)
    away = np.abs(line[:, None] - X.mean(axis=0))
    assert_allclose(found.std / away, np.tile(found.std[0] / away[0], (9, 1)), rtol=1e-6)
    assert found.std[:, 3].max() < 1e-3


def test_one_feature_has_every_kernel_to_itself(rows):
    X, y = rows
    model = fixed(RBF(0.8) * RBF(2.0) + ConstantKernel(0.5) + WhiteKernel(0.1)).fit(X[:, :1], y)
    found = model.effects(X[:, :1])
    mean = model._result.model.kernel.k1.k1(X[:, :1], model._result.model.task.X)
    mean = mean @ model._result.model.posterior.weights
    assert_allclose(found.mean[:, 0], mean - mean.mean(), atol=1e-12)


def test_groups_add_the_functions_of_their_features(rows):
    X, y = rows
    model = fixed(Additive(0.8) + RBF(1.0)).fit(X, y)
    single, double = model.effects(X), model.effects(X, groups={"ab": [0, 1], "d": [3]})
    assert double.feature_names == ["ab", "d"]
    assert_allclose(double.mean, single.mean[:, [0, 3]] + single.mean[:, [1, 2]] * [1, 0])
    assert np.all(double.std[:, 0] <= single.std[:, 0] + single.std[:, 1] + 1e-12)
    assert_allclose(double.std[:, 1], single.std[:, 3])
    for wrong in ([4], [], [-1]):
        with pytest.raises(ValueError, match=r"groups\['x'\] must hold columns of X"):
            model.effects(X, groups={"x": wrong})


@pytest.mark.parametrize("kernel", [None, RBF(), Additive(size=2), Additive() * RBF()])
def test_without_an_additive_part_there_are_no_effects(kernel, rows):
    X, y = rows
    with pytest.raises(ValueError, match=r"no part of a single feature.*Additive"):
        OrdinalGPClassifier(kernel, optimizer=None).fit(X, y).effects(X)


def test_names_are_those_of_the_inputs(rows):
    pandas = pytest.importorskip("pandas")
    X, y = rows
    frame = pandas.DataFrame(X, columns=list("abcd"))
    assert fixed(Additive()).fit(frame, y).effects(frame).feature_names == list("abcd")
    assert fixed(Additive()).fit(X, y).effects(X).feature_names[1] == "feature 1"


def test_shares_of_all_features_are_the_kernel(rows):
    X = rows[0]
    for kernel in (Additive(0.6), 3.0 * Additive(0.6) + ARDLinear([1.0, 2.0, 0.0, 4.0]) * 2.0):
        whole = FeatureShare(feature_shares(kernel, 4))
        assert_allclose(whole(X, X[:5]), kernel(X, X[:5]), rtol=1e-12, atol=1e-12)
        assert_allclose(whole.diag(X), kernel.diag(X), rtol=1e-12)


# A number and a nominal column of three values.
TOWNS = np.column_stack([np.sin(np.arange(24.0)), np.eye(3)[np.arange(24) ** 2 % 7 % 3]])
RANKS = np.digitize(TOWNS @ [1.0, 0.8, -0.8, 0.0] + 0.3 * np.cos(9.0 * np.arange(24)), [-0.5, 0.5])


@pytest.mark.parametrize(
    "kernel", [Additive([0.6, 1.1]), 3.0 * Additive(0.6) + ARDLinear([1.0, 2.0]) * 2.0]
)
def test_shares_of_all_columns_are_the_kernel(kernel):
    kernel = PerColumn(kernel, [0, 1, 1, 1])
    shares = feature_shares(kernel, 4)
    assert set(shares) == {(0,), (1, 2, 3)}
    assert_allclose(FeatureShare(shares)(TOWNS, TOWNS[:5]), kernel(TOWNS, TOWNS[:5]), rtol=1e-12)
    assert_allclose(FeatureShare(shares).diag(TOWNS), kernel.diag(TOWNS), rtol=1e-12)


def test_a_column_has_one_function_whichever_of_its_features_is_named():
    model = fixed(PerColumn(Additive([0.8, 1.2]), [0, 1, 1, 1]) + 0.3 * DotProduct(0.0, "fixed"))
    model.fit(TOWNS, RANKS)
    found = model.effects(TOWNS)
    assert found.feature_names == ["feature 0", "feature 1 + feature 2 + feature 3"]
    latent = model.latent_mean_and_variance(TOWNS)[0]
    assert_allclose(found.constant + found.mean.sum(axis=1), latent)
    for town in np.eye(3):  # one value per town
        here = np.all(TOWNS[:, 1:] == town, axis=1)
        assert_allclose(found.mean[here, 1], found.mean[here, 1][0])
    parts = fixed(PerColumn(Additive([0.8, 1.2]), [0, 1, 1, 1])).fit(TOWNS, RANKS)
    named = [parts.effects(TOWNS, groups={"town": group}) for group in ([1, 2, 3], [2])]
    assert_allclose(named[0].mean, named[1].mean)
    assert_allclose(named[0].std, named[1].std)


def test_a_nominal_column_has_the_effects_of_a_random_intercept():
    """Alone it is f = constant + effect of the town: a Gaussian of as many dimensions as towns."""
    model = fixed(PerColumn(Additive(0.9), [0, 0, 0])).fit(TOWNS[:, 1:], RANKS)
    fitted = model._result.model
    codes = TOWNS[:, 1:].argmax(axis=1)
    prior = np.exp(-1 / 0.9**2) + (1 - np.exp(-1 / 0.9**2)) * np.eye(3)
    B = fitted.task.projection.apply(np.eye(3)[fitted.task.X.argmax(axis=1)])
    T = fitted.task.counts * fitted.sites.tau
    cov = np.linalg.inv(np.linalg.inv(prior) + B.T @ (T[:, None] * B))
    mean = cov @ B.T @ (fitted.task.counts * fitted.sites.nu)
    centring = np.eye(3) - np.bincount(codes) / 24
    found = model.effects(np.eye(3))
    assert_allclose(found.mean[:, 0], centring @ mean, atol=1e-9)
    assert_allclose(found.std[:, 0], np.sqrt(np.diag(centring @ cov @ centring.T)), atol=1e-9)


def test_inducing_points_at_all_rows_make_no_difference(rows):
    X, y = rows
    kernel, at = Additive(1.2) + 0.2 * ARDLinear(), np.unique(X, axis=0)
    exact, points = (fixed(kernel, inducing=how, tol=1e-9).fit(X, y) for how in (None, at))
    # The points count once each, the rows as often as they are there.
    shift = exact.effects(at).mean.mean(axis=0)
    assert_allclose(points.effects(X).mean, exact.effects(X).mean - shift, atol=1e-4)
    assert_allclose(points.effects(X).std, exact.effects(X).std, atol=0.02)
    joint = [model._result.model.joint(X[:9])[1] for model in (exact, points)]
    assert_allclose(*joint, atol=1e-5)


def test_a_saved_model_has_the_same_effects(rows, tmp_path):
    X, y = rows
    for inducing in (None, 20):
        model = fixed(Additive(0.8), inducing=inducing).fit(X, y)
        model.save(tmp_path / "model.ogp")
        loaded = ordinalgp.load(tmp_path / "model.ogp").effects(X)
        found = model.effects(X)
        assert_allclose(loaded.mean, found.mean, atol=1e-12)
        assert_allclose(loaded.std, found.std, rtol=1e-9)


def test_bands_hold_functions_from_the_prior_as_often_as_they_say():
    """Functions drawn from the prior, hyperparameters known: 90 % bands are right on average."""
    inside, kernel, scale = [], Additive(0.8), 0.3
    likelihood = OrdinalProbit.from_thresholds([-0.5, 0.0, 0.5], scale)
    for seed in range(25):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-2, 2, (60, 3))
        roots = [np.linalg.cholesky(gaussian(0.8)(x, x) / 3 + 1e-10 * np.eye(60)) for x in X.T]
        f = np.column_stack([root @ rng.normal(size=60) for root in roots])
        y = np.digitize(f.sum(axis=1) + scale * rng.normal(size=60), likelihood.thresholds)
        model = fixed(kernel, likelihood=likelihood, categories=range(4)).fit(X, y)
        found = model.effects(X)
        off = np.abs(found.mean - (f - f.mean(axis=0)))
        inside.append(np.mean(off < norm.ppf(0.95) * found.std))
    assert abs(np.mean(inside) - 0.9) < 0.03, np.mean(inside)


def test_bands_hold_a_known_additive_function():
    """Hyperparameters learned, in units of the noise, which sets the latent scale."""
    inside, error = [], []
    for seed in range(6):
        X, y, truth = make_additive_ranks(150, random_state=seed)
        model = OrdinalGPClassifier(ConstantKernel() * Additive()).fit(X, y)
        found, truth = model.effects(X), truth / 0.5
        off = np.abs(found.mean / model.noise_ - truth)
        inside.append(np.mean(off < norm.ppf(0.95) * found.std / model.noise_))
        error.append(np.sqrt(np.mean(off**2)) / truth.std())
    assert 0.75 < np.mean(inside) <= 1.0, inside
    assert np.mean(error) < 0.35, error


# ------------------------------------------------------------------ draws of the probabilities


@pytest.mark.parametrize(
    "model",
    [
        fixed(Additive(0.8)),
        fixed(Additive(0.8), inducing=15),
        LeastSquaresOrdinalClassifier(Additive(0.8), optimizer=None),
        SparseBayesOrdinalClassifier(RBF(1.5)),
    ],
)
def test_draws_have_the_moments_of_the_posterior(model, rows):
    X, y = rows
    model.fit(X, y)
    drawn = model.sample_proba(X[:3], 20_000, random_state=0)
    assert drawn.shape == (20_000, 3, 4)
    assert_allclose(drawn.sum(axis=2), 1.0)
    assert_allclose(drawn.mean(axis=0), model.category_proba(X[:3]), atol=0.01)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    for at, (m, v) in enumerate(np.transpose(model.latent_mean_and_variance(X[:3]))):
        p = model.likelihood_.probabilities(m + np.sqrt(v) * nodes, 0 * nodes)
        mean, square = (weights @ p**k / weights.sum() for k in (1, 2))
        assert_allclose(drawn[:, at].std(axis=0), np.sqrt(square - mean**2), atol=0.01)


def test_draws_are_joint_and_follow_their_seed(rows):
    X, y = rows
    model = fixed(Additive(0.8)).fit(X, y)
    near = np.vstack([X[0], X[0] + 1e-9])
    one, two = model.sample_proba(near, 50, random_state=3).transpose(1, 0, 2)
    assert_allclose(one, two, atol=1e-4)
    assert_allclose(model.sample_proba(near, 50, random_state=3)[:, 0], one)
    with pytest.raises(ValueError, match="n_samples"):
        model.sample_proba(near, 0)


@pytest.mark.parametrize("values", [[0.0, 3e-310, 5e-324], [1e-300, 2e-300, 0.0], [0.7, 0.7, 0.7]])
def test_probabilities_along_a_tiny_range(values):
    """Steps divided by a subnormal range are infinite."""
    likelihood, f = OrdinalProbit.from_thresholds([0.3], 0.5), np.array(values)
    truth = likelihood.probabilities(f, np.zeros(3))
    assert_allclose(probabilities_along(likelihood, f), truth, rtol=1e-12)
