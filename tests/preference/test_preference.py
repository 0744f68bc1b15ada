"""PreferenceGP against exact orthant probabilities, choix and central differences."""

import functools
import pickle
import warnings
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal, assert_array_less
from scipy import sparse
from scipy.stats import multivariate_normal, norm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from tests.model_files import damaged_copy
from tests.reference.draws import normal_draws

from ordinalgp import OrdinalGPClassifier, PreferenceGP, load
from ordinalgp.core.gaussian import Moments
from ordinalgp.core.problem import match
from ordinalgp.datasets import make_sine_comparisons
from ordinalgp.kernels import Independent
from ordinalgp.preference.suggestions import (
    InformationGain,
    Questions,
    candidate_pairs,
    most_informative,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 2))
PAIRS = np.array([[i, j] for i in range(12) for j in range(i + 1, 12)])[RNG.permutation(66)[:30]]
UTILITY = X[:, 0] - 0.5 * X[:, 1] ** 2
DIFFERENCE = UTILITY[PAIRS[:, 0]] - UTILITY[PAIRS[:, 1]] + 0.3 * RNG.normal(size=30)
WINS = np.where(DIFFERENCE > 0, 1, -1)
TIES = np.digitize(DIFFERENCE, [-0.4, 0.4]) - 1
GRADES = np.array(["--", "-", "0", "+", "++"])[np.digitize(DIFFERENCE, [-1.2, -0.4, 0.4, 1.2])]
LEVELS = ["--", "-", "0", "+", "++"]


def fixed(*args, **options):
    """A model whose hyperparameters stay at the start."""
    return PreferenceGP(*args, optimizer=None, **options)


# ------------------------------------------------------------------------------ exact inference


def log_orthant(model, X, pairs, codes):
    """Exact log evidence: the noisy differences fall into a box."""
    A = np.zeros((len(pairs), len(X)))
    A[np.arange(len(pairs)), pairs[:, 0]] = 1
    A[np.arange(len(pairs)), pairs[:, 1]] = -1
    m = len(pairs)
    noisy = A @ model.kernel_(X) @ A.T + 2 * model.noise_**2 * np.eye(m)
    b = np.concatenate([[-np.inf], model.margins_ - model.position_bias_, [np.inf]])
    p = multivariate_normal.cdf(
        b[codes + 1],
        np.zeros(m),
        noisy,
        lower_limit=b[codes],
        maxpts=3000 * m,
        abseps=1e-300,
        releps=1e-5,
    )
    return np.log(p)


def random_problem(seed):
    """Up to 12 comparisons drawn from a model with 2 to 5 levels, at random hyperparameters."""
    rng = np.random.default_rng([seed, 3])
    n, m, r = int(rng.integers(3, 9)), int(rng.integers(2, 13)), int(rng.integers(2, 6))
    kernel = RBF(10 ** rng.uniform(-0.7, 0.7))
    noise = 10 ** rng.uniform(-1, 0.5)
    points = rng.normal(size=(n, 2))
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(m)])
    f = normal_draws(rng, kernel(points))
    u = f[pairs[:, 0]] - f[pairs[:, 1]] + np.sqrt(2) * noise * rng.normal(size=m)
    cuts = np.linspace(-0.6, 0.6, r - 1) if r > 2 else np.zeros(1)
    codes = np.digitize(u, cuts)
    if np.all(2 * codes == r - 1):
        codes[0] = r - 1
    return kernel, noise, points, pairs, codes, list(range(r))


@pytest.fixture(scope="module")
def exact_comparison():
    """Noise, and errors of log evidence and of the probability of one more comparison."""
    rows = []
    for seed in range(40):
        kernel, noise, points, pairs, codes, levels = random_problem(seed)
        errors = [noise]
        for inference in ("ep", "laplace"):
            model = fixed(kernel, noise=noise, levels=levels, inference=inference)
            # The last comparison is predicted from the others, if these are not all ties.
            kept = slice(None, -1) if not np.all(2 * codes[:-1] == len(levels) - 1) else slice(None)
            model.fit(points, pairs[kept], codes[kept])
            truth = log_orthant(model, points, pairs[kept], codes[kept])
            joint = log_orthant(model, points, pairs, codes)
            left, right = points[pairs[-1:]].transpose(1, 0, 2)
            proba = np.reshape(model.comparison_proba(left, right), (1, -1))
            p = proba[0, codes[-1]] if len(levels) > 2 else abs(1 - codes[-1] - proba[0, 0])
            errors += [model.log_marginal_likelihood() - truth]
            errors += [p - np.exp(joint - truth) if kept != slice(None) else 0.0]
        rows.append(errors)
    return np.abs(rows)


def test_ep_against_exact_orthant_probabilities(exact_comparison):
    """The noise smooths the cuts that EP replaces by normal factors: its errors fall with it.

    The bounds were set by 320 problems; the errors of 160 others were at most two thirds of them.
    """
    noise, evidence, proba, *_ = exact_comparison.T
    assert np.median(evidence) < 0.01
    assert_array_less(evidence, np.minimum(0.35, 0.02 / noise**2))
    assert np.median(proba) < 0.002
    assert_array_less(proba, np.minimum(0.08, 0.012 / noise))


def test_laplace_is_near_and_ep_is_nearer(exact_comparison):
    _, ep, _, laplace, proba = exact_comparison.T
    assert np.median(laplace) < 0.2
    assert np.median(proba) < 0.02
    assert np.median(ep) < np.median(laplace) / 3


@pytest.mark.parametrize("inference", ["ep", "laplace"])
@pytest.mark.parametrize(
    ("outcomes", "options"),
    [
        (WINS, {}),
        (TIES, {"position_bias": "learned"}),
        (GRADES, {"levels": LEVELS, "noise": 0.4}),
        (np.where(WINS > 0, "B", "b"), {"levels": ["a", "b", "B", "A"]}),
    ],
)
def test_gradients_are_slopes(inference, outcomes, options):
    kernel = ConstantKernel(1.5) * RBF([1.0, 2.0])
    model = fixed(kernel, inference=inference, tol=1e-10, max_sweeps=1000, **options)
    model.fit(X, PAIRS, outcomes)
    theta = np.concatenate([model.kernel_.theta, model.likelihood_.theta])
    value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
    assert_allclose(value, model.log_marginal_likelihood(), rtol=1e-9)
    for k in range(len(theta)):
        h = 1e-5 * np.eye(len(theta))[k]
        up, down = (model.log_marginal_likelihood(theta + s) for s in (h, -h))
        assert_allclose(gradient[k], (up - down) / 2e-5, rtol=1e-5, atol=1e-6)


def test_one_comparison_by_hand():
    """Two items, one win: all moments of the posterior are those of a cut normal."""
    model = fixed("independent", noise=1.0).fit(2, [[0, 1]])
    mean, covariance = model.latent_mean_and_covariance(2)
    # u = f_0 - f_1 ~ N(0, 2) given u + e > 0, e ~ N(0, 2): E u = 2 phi(0) / (Phi(0) sqrt(4)).
    assert_allclose(mean[0] - mean[1], 2 * norm.pdf(0) / 0.5 / 2, rtol=1e-6)
    assert_allclose(model.log_marginal_likelihood_value_, np.log(0.5), rtol=1e-9)
    assert_allclose(covariance @ np.ones(2), np.ones(2), rtol=1e-9)  # the sum is untouched


# ---------------------------------------------------------------------------- other libraries


@pytest.mark.parametrize("seed", range(4))
def test_independent_items_equal_choix(seed, monkeypatch):
    choix = pytest.importorskip("choix")
    ep = choix.ep
    monkeypatch.setattr(ep, "_converged", functools.partial(ep._converged, threshold=1e-11))
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 15))
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(5 * n)])
    alpha = 10 ** rng.uniform(-1, 1)
    # choix's probit has unit noise on the difference and the prior variance 1 / alpha.
    mean, covariance = choix.ep_pairwise(n, pairs.tolist(), alpha, model="probit", max_iter=1000)
    scale = 1 / np.sqrt(alpha)
    model = PreferenceGP("independent", noise=1 / np.sqrt(2) / scale, tol=1e-10).fit(n, pairs)
    found, joint = model.latent_mean_and_covariance(n)
    assert_allclose(scale * found, mean, atol=1e-6)
    assert_allclose(scale**2 * joint, covariance, atol=1e-6)


def test_comparisons_with_a_reference_item_are_classification():
    """All items against one of known utility 0: an ordinal regression with two levels."""
    kernel = RBF(1.3)
    model = fixed(kernel, noise=0.5, tol=1e-9)
    A = sparse.csr_array(np.eye(12))
    labels = np.where(UTILITY > 0, 1, -1)
    model.fit_relations(X, A, labels)
    # The same likelihood, from the classifier's side: noise sqrt(2) * 0.5, threshold 0.
    other = OrdinalGPClassifier(kernel, tol=1e-9).fit(X, labels)
    theta = np.concatenate([kernel.theta, [np.log(np.sqrt(2) * 0.5), 0.0]])
    assert_allclose(model.log_marginal_likelihood(), other.log_marginal_likelihood(theta))


# ------------------------------------------------------------------- what comparisons amount to


def n_observations(model):
    return len(model._result.model.sites.tau)


def assert_same_posterior(a, b, at=X, rtol=1e-6):
    for left, right in zip(
        a.latent_mean_and_covariance(at), b.latent_mean_and_covariance(at), strict=True
    ):
        assert_allclose(left, right, rtol=rtol, atol=1e-7)


@pytest.mark.parametrize(
    ("outcomes", "options"), [(WINS, {}), (TIES, {}), (GRADES, {"levels": LEVELS})]
)
def test_sides_can_be_swapped(outcomes, options):
    model = PreferenceGP(**options).fit(X, PAIRS, outcomes)
    levels = model.levels_.tolist()
    mirrored = [levels[len(levels) - 1 - levels.index(y)] for y in outcomes.tolist()]
    half = np.arange(30) % 2 == 0
    pairs = np.where(half[:, None], PAIRS, PAIRS[:, ::-1])
    swapped = [
        y if keep else m for y, m, keep in zip(outcomes.tolist(), mirrored, half, strict=True)
    ]
    again = PreferenceGP(**options).fit(X, pairs, swapped)
    assert_same_posterior(model, again)
    assert n_observations(again) == n_observations(model)


def test_none_means_the_left_was_preferred():
    winners_first = np.where((WINS > 0)[:, None], PAIRS, PAIRS[:, ::-1])
    assert_same_posterior(PreferenceGP().fit(X, PAIRS, WINS), PreferenceGP().fit(X, winners_first))
    assert_same_posterior(
        PreferenceGP().fit(X, PAIRS, WINS), PreferenceGP().fit(X, PAIRS, WINS > 0)
    )


def test_weights_are_copies_and_copies_are_merged():
    weights = RNG.integers(0, 4, 30)
    repeated = np.repeat(np.arange(30), weights)
    model = PreferenceGP(tol=1e-9).fit(X, PAIRS, TIES, sample_weight=weights)
    copies = PreferenceGP(tol=1e-9).fit(X, PAIRS[repeated], TIES[repeated])
    assert_same_posterior(model, copies)
    assert n_observations(copies) <= np.sum(weights > 0)
    assert_allclose(model.log_marginal_likelihood(), copies.log_marginal_likelihood())


@pytest.mark.parametrize("weighted", [True, False])
def test_relations_of_two_items_are_comparisons(weighted):
    weights = np.arange(1, 31) % 3 + 1.0 if weighted else None
    A = np.zeros((30, 12))
    A[np.arange(30), PAIRS[:, 0]], A[np.arange(30), PAIRS[:, 1]] = 1, -1
    model = fixed(noise=0.3).fit(X, PAIRS, WINS, weights)
    for matrix in (A, sparse.coo_matrix(A), sparse.csr_array(A)):
        assert_same_posterior(model, fixed(noise=0.3).fit_relations(X, matrix, WINS, weights))


def test_relations_of_three_items_against_exact_orthants():
    A = np.array(
        [[1.0, -2, 1, 0], [0, 1, -2, 1], [0.5, 0.5, -1, 0], [1, 0, 0, -1], [1.0, -2, 1, 0]]
    )
    signs = np.array([1, -1, 1, 1, 1])
    model = fixed(RBF(1.0), noise=0.8).fit_relations(X[:4], A, signs)
    S = signs[:, None] * A
    noisy = S @ RBF(1.0)(X[:4]) @ S.T + 2 * 0.8**2 * np.eye(5)
    truth = multivariate_normal.logcdf(np.zeros(5), np.zeros(5), noisy)
    assert_allclose(model.log_marginal_likelihood(), truth, atol=0.01)
    assert n_observations(model) == 4  # the last repeats the first


def test_disconnected_groups_are_left_to_the_prior():
    model = PreferenceGP("independent", noise=1.0).fit(6, [[0, 1], [1, 0], [2, 3], [2, 3]])
    mean, covariance = model.latent_mean_and_covariance(6)
    assert_allclose(covariance[:2, 2:], 0, atol=1e-12)
    assert_allclose(mean[:2], 0, atol=1e-9)
    assert mean[2] > 0.3 > -0.3 > mean[3]
    assert_allclose([mean[4:], np.diagonal(covariance)[4:]], [[0, 0], [1, 1]], atol=1e-12)
    assert_allclose(model.comparison_proba([0], [5]), 0.5)


def test_cycles_are_noise():
    cycle = [[0, 1], [1, 2], [2, 0]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PreferenceGP("independent").fit(3, cycle * 3)
    assert_allclose(model.predict(3), 0, atol=1e-6)
    assert model.noise_ > 1.0
    assert model.converged_


def test_equal_items_share_their_utility():
    doubled = np.vstack([X, X])
    pairs = PAIRS + 12 * (RNG.random(PAIRS.shape) < 0.5)
    assert_same_posterior(
        PreferenceGP().fit(X, PAIRS, WINS), PreferenceGP().fit(doubled, pairs, WINS)
    )


def test_equal_items_may_be_compared():
    doubled = np.vstack([X, X[:1]])
    pairs = np.vstack([PAIRS, [[0, 12], [12, 0], [0, 12]]])
    model = PreferenceGP().fit(doubled, pairs, np.r_[WINS, 1, 1, -1])
    assert_allclose(model.comparison_proba(X[:1], doubled[12:]), 0.5)
    plain = fixed(noise=0.3).fit(X, PAIRS, WINS)
    with_copies = fixed(noise=0.3).fit(doubled, pairs, np.r_[WINS, 1, 1, -1])
    assert_same_posterior(plain, with_copies)
    evidence = with_copies.log_marginal_likelihood() - plain.log_marginal_likelihood()
    assert_allclose(evidence, 3 * np.log(0.5), rtol=1e-6)


def test_white_noise_tells_equal_items_apart():
    kernel = RBF(1.0) + WhiteKernel(0.5)
    doubled = np.vstack([X[:2], X[:2]])
    model = fixed(kernel, noise=0.5).fit(doubled, [[0, 2], [0, 1]])
    assert model._result.model.task.X.shape == (4, 2)


# ------------------------------------------------------------------------------- what is learned


def simulated(seed=0, *, n=40, m=1500, noise=0.2, margins=(), bias=0.0):
    rng = np.random.default_rng(seed)
    items = rng.uniform(-2, 2, (n, 1))
    f = np.sin(2 * items[:, 0])
    f /= f.std()
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(m)])
    u = f[pairs[:, 0]] - f[pairs[:, 1]] + np.sqrt(2) * noise * rng.normal(size=m) + bias
    return items, pairs, np.digitize(u, margins), f


def test_margins_noise_and_bias_are_recovered():
    margins = [-1.5, -0.5, 0.5, 1.5]
    items, pairs, codes, f = simulated(margins=margins, bias=0.4, noise=0.4)
    model = PreferenceGP(levels=range(5), position_bias="learned").fit(items, pairs, codes)
    scale = model.predict(items).std() / f.std()
    assert_allclose(model.margins_, np.multiply(margins, scale), rtol=0.1)
    assert_allclose(model.position_bias_, 0.4 * scale, rtol=0.2)
    assert_allclose(model.noise_, 0.4 * scale, rtol=0.1)
    assert np.corrcoef(model.predict(items), f)[0, 1] > 0.99
    unbiased = PreferenceGP(levels=range(5)).fit(items, pairs, codes)
    assert unbiased.position_bias_ == 0
    gain = model.log_marginal_likelihood_value_ - unbiased.log_marginal_likelihood_value_
    assert gain > 20


def test_ties_are_calibrated():
    items, pairs, codes, _ = simulated(1, margins=[-0.6, 0.6], noise=0.4)
    model = PreferenceGP().fit(items, pairs[:1000], codes[:1000] - 1)
    proba = model.comparison_proba(items[pairs[1000:, 0]], items[pairs[1000:, 1]])
    observed = np.eye(3)[codes[1000:]]
    # Chi-square of each level's total against its prediction.
    z = (proba - observed).sum(axis=0) / np.sqrt((proba * (1 - proba)).sum(axis=0))
    assert np.abs(z).max() < 3


def test_the_start_does_not_matter_much():
    first = PreferenceGP(RBF(0.3)).fit(X, PAIRS, WINS)
    second = PreferenceGP(RBF(5.0), n_restarts_optimizer=2, random_state=0).fit(X, PAIRS, WINS)
    assert_allclose(
        first.log_marginal_likelihood_value_, second.log_marginal_likelihood_value_, rtol=1e-3
    )


def test_the_papers_parameters_are_the_same_model():
    """gamma in front of the kernel with noise 1, as in section 3 of the paper."""
    free = PreferenceGP("features").fit(X, PAIRS, WINS)
    paper = PreferenceGP(ConstantKernel(1.0) * RBF(np.sqrt(2)), noise=1.0).fit(X, PAIRS, WINS)
    gamma = paper.kernel_.k1.constant_value
    assert_allclose(free.noise_, gamma**-0.5, rtol=0.05)
    assert_allclose(
        free.log_marginal_likelihood_value_, paper.log_marginal_likelihood_value_, atol=1e-4
    )


# ---------------------------------------------------------------- values of the items' own


def gaussian(A, B, length):
    """The Gaussian kernel, by its definition."""
    return np.exp(-0.5 * np.sum((A[:, None] - B) ** 2, axis=2) / length**2)


def own_and_length(model):
    """Variance of own values and length scale of the default kernel."""
    return model.kernel_.k1.k1.constant_value, model.kernel_.k2.length_scale


@pytest.mark.parametrize("noise", [1.0, 2.0])
def test_the_default_prior_has_a_value_of_each_items_own(noise):
    """The evidence of the default is the exact one of a prior that is written out."""
    rng = np.random.default_rng(2)
    pairs = np.array([rng.choice(12, 2, replace=False) for _ in range(6)])
    model = fixed(noise=noise).fit(X, pairs)
    own, length = own_and_length(model)
    A = np.eye(12)[pairs[:, 0]] - np.eye(12)[pairs[:, 1]]
    prior = gaussian(X, X, length) + own * np.eye(12)
    noisy = A @ prior @ A.T + 2 * noise**2 * np.eye(6)
    truth = multivariate_normal.logcdf(np.zeros(6), np.zeros(6), noisy)
    without = multivariate_normal.logcdf(np.zeros(6), np.zeros(6), noisy - own * A @ A.T)
    assert_allclose(model.log_marginal_likelihood(), truth, atol=abs(truth - without) / 10)


def test_known_items_have_their_own_values_and_new_ones_do_not(fitted):
    """New items follow from the posterior of the known ones, by the rules of normal variables."""
    own, length = own_and_length(fitted)
    new = np.vstack([X[:2] + 1e-3, [[4.0, -3.0]]])
    mean, covariance = fitted.latent_mean_and_covariance(X)
    K, cross = gaussian(X, X, length) + own * np.eye(12), gaussian(new, X, length)
    gain = np.linalg.solve(K, cross.T).T
    prior = gaussian(new, new, length) + own * np.eye(3)
    found, joint = fitted.latent_mean_and_covariance(new)
    assert_allclose(found, gain @ mean, atol=1e-7)
    assert_allclose(joint, prior - gain @ (K - covariance) @ gain.T, atol=1e-7)
    # A copy of a known item is that item, whatever else is asked about.
    assert_allclose(fitted.predict(np.vstack([new, X[[5]]]))[-1], mean[5], rtol=1e-9)
    assert fitted.latent_mean_and_variance(new)[1].min() > own
    apart = fitted.suggest_pairs(np.vstack([X, new[:1]]), 1)  # a new own value can be asked about
    assert apart.shape == (1, 2)


def drawn_comparisons(own, noise, seed=0, n=60, m=1000):
    """Comparisons of items whose utilities are a smooth function and values of their own."""
    rng = np.random.default_rng([seed, 9])
    items = rng.normal(size=(n, 2))
    f = normal_draws(rng, gaussian(items, items, 1.5)) + np.sqrt(own) * rng.normal(size=n)
    pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(m)])
    u = f[pairs[:, 0]] - f[pairs[:, 1]] + np.sqrt(2) * noise * rng.normal(size=m)
    return items, np.where((u > 0)[:, None], pairs, pairs[:, ::-1])


@pytest.mark.parametrize(("own", "noise"), [(0.5, 0.1), (0.5, 0.8), (0.0, 0.1), (0.0, 0.8)])
def test_the_evidence_finds_the_share_of_own_values(own, noise):
    items, pairs = drawn_comparisons(own, noise)
    model, plain = (PreferenceGP(kernel).fit(items, pairs) for kernel in (None, "features"))
    found = own_and_length(model)[0]
    # What is known best is the ratio to the noise: the scale of a smooth function is not.
    if own:
        assert_allclose(np.log(found / model.noise_**2), np.log(own / noise**2), atol=1.0)
    else:
        assert found < 0.1 * max(noise**2, 0.1)
    assert model.log_marginal_likelihood_value_ > plain.log_marginal_likelihood_value_ - 0.1


def test_features_and_particulars_add():
    kernel = RBF(1.0) + ConstantKernel(0.2) * Independent()
    model = PreferenceGP(kernel).fit(X, PAIRS, WINS)
    assert np.all(np.isfinite(model.predict(X)))
    assert model.converged_


# ------------------------------------------------------------------------------------ prediction


@pytest.fixture(scope="module")
def fitted():
    return PreferenceGP(random_state=0).fit(X, PAIRS, WINS)


@pytest.fixture(scope="module")
def tied():
    return PreferenceGP(random_state=0).fit(X, PAIRS, TIES)


def test_joint_and_marginal_moments_agree(fitted):
    new = np.vstack([X[:3], X[:2] + 0.1])
    mean, var = fitted.latent_mean_and_variance(new)
    joint_mean, covariance = fitted.latent_mean_and_covariance(new)
    assert_allclose(mean, joint_mean)
    assert_allclose(var, np.diagonal(covariance), rtol=1e-8)
    assert_array_equal(covariance, covariance.T)
    assert_array_equal(fitted.predict(new), mean)


def test_comparison_probabilities_follow_from_the_joint_posterior(fitted, tied):
    mean, covariance = fitted.latent_mean_and_covariance(X)
    i, j = np.triu_indices(12, 1)
    sd = np.sqrt(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j] + 2 * fitted.noise_**2)
    assert_allclose(fitted.comparison_proba(X[i], X[j]), norm.cdf((mean[i] - mean[j]) / sd))
    proba = tied.comparison_proba(X[i], X[j])
    assert proba.shape == (66, 3)
    assert_allclose(proba.sum(axis=1), 1)
    assert_allclose(proba, tied.comparison_proba(X[j], X[i])[:, ::-1], rtol=1e-7)


@pytest.mark.parametrize("kernel", [None, RBF(2.0) + WhiteKernel(0.3)])
def test_few_and_many_comparisons_are_computed_alike(kernel):
    """300 pairs of new items go block by block; 600 of the 12 by their joint posterior."""
    model = PreferenceGP(kernel).fit(X, PAIRS, WINS)
    rng = np.random.default_rng(1)
    for left, right in (rng.normal(size=(2, 300, 2)), X[rng.integers(0, 12, (2, 600))]):
        whole = model.comparison_proba(left, right)
        for row in (0, 255, 256, len(left) - 1):
            mean, covariance = model.latent_mean_and_covariance([left[row], right[row]])
            var = np.array([1, -1]) @ covariance @ [1, -1] + 2 * model.noise_**2
            assert_allclose(whole[row], norm.cdf((mean[0] - mean[1]) / np.sqrt(var)), rtol=1e-9)


def test_rank_is_by_utility_and_being_best_by_draws(fitted):
    ranking = fitted.rank(X)
    mean, covariance = fitted.latent_mean_and_covariance(X)
    assert_array_equal(ranking.order, np.argsort(-mean))
    assert_array_equal(ranking.items, ranking.order)
    assert_allclose(ranking.mean, np.sort(mean)[::-1])
    assert_allclose(ranking.sd**2, np.diagonal(covariance)[ranking.order])
    assert_allclose(ranking.best_proba.sum(), 1)
    assert np.all(ranking.best_proba_error > 0)
    assert_array_equal(fitted.rank(X).best_proba, ranking.best_proba)


def test_intervals_of_ranks_and_groups_are_those_of_draws(fitted):
    ranking = fitted.rank(X, coverage=0.8)
    mean, covariance = fitted.latent_mean_and_covariance(X)
    draws = np.random.default_rng(5).multivariate_normal(mean, covariance, 100_000)
    ranks = 1 + np.sum(draws[:, None, :] > draws[:, :, None], axis=2)[:, ranking.order]
    inside = np.mean((ranks >= ranking.rank_low) & (ranks <= ranking.rank_high), axis=0)
    assert np.all(inside > 0.79)
    for end, tail in ((ranking.rank_low, 0.1), (ranking.rank_high, 0.9)):
        assert np.all(np.mean(ranks <= end, axis=0) > tail - 0.01)
        assert np.all(np.mean(ranks < end, axis=0) < tail + 0.01)
    wide = fitted.rank(X, coverage=0.99)
    assert np.all(wide.rank_low <= ranking.rank_low)
    assert np.all(wide.rank_high >= ranking.rank_high)

    assert ranking.group[0] == 1
    first = 0
    for place in range(1, len(X)):
        a, b = ranking.order[[first, place]]
        sd = np.sqrt(covariance[a, a] + covariance[b, b] - 2 * covariance[a, b])
        ahead = norm.cdf((mean[a] - mean[b]) / sd)
        if abs(ahead - 0.95) > 0.01:  # else the draws decide
            assert (ranking.group[place] > ranking.group[place - 1]) == (ahead > 0.95)
        if ranking.group[place] > ranking.group[place - 1]:
            first = place


def test_a_certain_ranking_has_no_intervals():
    names, games = ["a", "b", "c"], [("a", "b"), ("b", "c"), ("a", "c")]
    model = PreferenceGP("independent", noise=0.001).fit(names, games, sample_weight=[1e4] * 3)
    ranking = model.rank(names, coverage=0.9)
    assert ranking.rank_low.tolist() == ranking.rank_high.tolist() == [1, 2, 3]
    assert ranking.group.tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="coverage must be a number between 0 and 1"):
        model.rank(names, coverage=90)


def test_the_interval_of_the_position_bias_covers_it():
    """20 leagues: a 90 % interval misses 5 or more times with probability 0.04."""
    names, inside = np.array([f"team {i}" for i in range(8)]), 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        strength = rng.normal(size=8)
        home, away = rng.integers(0, 8, (2, 300))
        pairs = np.column_stack([home, away])[home != away]
        margin = strength[pairs] @ [1, -1] + 0.6 + rng.normal(size=len(pairs))
        model = PreferenceGP("independent", position_bias="learned", noise=np.sqrt(0.5))
        low, high = model.fit(names, names[pairs], np.sign(margin)).position_bias_interval()
        inside += low <= 0.6 <= high
    assert inside >= 16


def test_the_interval_of_the_position_bias_is_the_curvature_of_the_evidence():
    names = np.array(["a", "b", "c", "d"])
    rng = np.random.default_rng(0)
    pairs = np.array([rng.choice(4, 2, replace=False) for _ in range(200)])
    outcomes = np.sign(
        np.array([1.0, 0.5, 0.0, -0.5])[pairs] @ [1, -1] + 0.4 + rng.normal(size=200)
    )
    model = PreferenceGP("independent", position_bias="learned", noise=0.7)
    low, high = model.fit(names, names[pairs], outcomes).position_bias_interval(0.9)
    (best,) = model.likelihood_.theta  # the kernel has no parameter, the noise is held
    values = [model.log_marginal_likelihood([best + step]) for step in (-0.1, 0.0, 0.1)]
    sd = 0.1 / np.sqrt(2 * values[1] - values[0] - values[2]) * model.likelihood_.unit
    assert_allclose(high - low, 2 * norm.ppf(0.95) * sd, rtol=0.01)
    with pytest.raises(ValueError, match="Fit with position_bias='learned'"):
        PreferenceGP("independent").fit(names, names[pairs], outcomes).position_bias_interval()


def test_probability_of_being_best_against_exact_orthants(fitted):
    some = X[:4]
    ranking = fitted.rank(some)
    mean, covariance = fitted.latent_mean_and_covariance(some)
    for place, item in enumerate(ranking.order):
        others = [k for k in range(4) if k != item]
        A = np.eye(4)[others] - np.eye(4)[item]
        truth = multivariate_normal.cdf(np.zeros(3), A @ mean, A @ covariance @ A.T)
        error = ranking.best_proba_error[place]
        assert abs(ranking.best_proba[place] - truth) < 4 * error
        assert error < 0.006


def test_names_are_ranked_and_new_names_are_strangers():
    teams = np.array(["a", "b", "c"])
    model = PreferenceGP("independent", noise=0.5).fit(teams, [("a", "b"), ("b", "c"), ("a", "c")])
    assert model.rank(teams).items.tolist() == ["a", "b", "c"]
    assert model.rank(["c", "a"]).items.tolist() == ["a", "c"]
    mean, covariance = model.latent_mean_and_covariance(["x", "a", "y", "x"])
    assert_allclose(mean[[0, 2, 3]], 0, atol=1e-12)
    assert_allclose(covariance[0], [1, 0, 0, 1], atol=1e-12)
    assert model.comparison_proba(["a"], ["x"])[0] > 0.5
    assert_array_equal(model.items_, teams)


def test_score_is_the_share_of_most_probable_outcomes(fitted, tied):
    wins = fitted.comparison_proba(X[PAIRS[:, 0]], X[PAIRS[:, 1]]) > 0.5
    assert fitted.score(X, PAIRS, WINS) == np.mean(wins == (WINS > 0))
    best = tied.comparison_proba(X[PAIRS[:, 0]], X[PAIRS[:, 1]]).argmax(axis=1) - 1
    assert tied.score(X, PAIRS, TIES) == np.mean(best == TIES)


# ------------------------------------------------------------------------------ active choice


def test_suggested_pairs_are_the_most_informative(fitted):
    mean, covariance = fitted.latent_mean_and_covariance(X)
    i, j = np.triu_indices(12, 1)
    var = covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]
    at = Moments(mean[i] - mean[j], var)
    gain = InformationGain.of(fitted.likelihood_.spelled_out)(at)
    assert_array_equal(fitted.suggest_pairs(X)[0], [i[gain.argmax()], j[gain.argmax()]])


def answered(probit, mean, var, a, covariance):
    """The posterior covariance after one more answer about a f ~ N(mean, var), by inversion."""
    at = Moments(np.array([mean]), np.array([var]))
    tau = 0.0
    for level, p in enumerate(probit.probabilities(at.mean, at.var)[0]):
        smoothed = probit.log_expectation(np.array([level]), at.mean, at.var)
        tau += p * match(smoothed, at).tau[0]
    return np.linalg.inv(np.linalg.inv(covariance) + tau * np.outer(a, a))


def slow_batch(model, items, n):
    """The greedy batch, with every gain and the whole posterior computed anew for each pair."""
    mean, covariance = model.latent_mean_and_covariance(items)
    probit = model.likelihood_.spelled_out
    i, j = np.triu_indices(len(items), 1)
    chosen = []
    for _ in range(n):
        var = covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]
        gain = InformationGain.of(probit)(Moments(mean[i] - mean[j], var))
        gain[[k for k in range(len(i)) if (i[k], j[k]) in chosen]] = -1
        k = gain.argmax()
        chosen.append((i[k], j[k]))
        a = np.eye(len(items))[i[k]] - np.eye(len(items))[j[k]]
        covariance = answered(probit, mean[i[k]] - mean[j[k]], var[k], a, covariance)
    return np.array(chosen)


@pytest.mark.parametrize("outcomes", ["wins", "ties"])
def test_batches_are_greedy_and_without_repeats(outcomes):
    kernel = RBF(1.0) + ConstantKernel(0.1) * Independent()
    model = fixed(kernel, noise=0.3).fit(X, PAIRS, WINS if outcomes == "wins" else TIES)
    found, slow = model.suggest_pairs(X, 15), slow_batch(model, X, 15)
    assert_array_equal(found, slow)
    left, right = candidate_pairs(len(X), None)
    at = model.latent_mean_and_covariance(X)
    questions = Questions(left, right, *at, model.likelihood_.spelled_out)
    chosen = most_informative(questions, 15, refresh=3)  # many blocks
    assert_array_equal(np.column_stack([left[chosen], right[chosen]]), slow)
    assert len(np.unique(found, axis=0)) == 15


def slow_foresight(model, items, n):
    """The batch that foretells, with loops over all questions and all other pairs."""
    mean, covariance = model.latent_mean_and_covariance(items)
    probit, pairs = model.likelihood_.spelled_out, list(combinations(range(len(items)), 2))
    contrasts = np.array([np.eye(len(items))[i] - np.eye(len(items))[j] for i, j in pairs])
    chosen = []
    for _ in range(n):
        m, v = contrasts @ mean, np.einsum("ki,ij,kj->k", contrasts, covariance, contrasts)
        J = np.zeros(len(pairs))
        for level in range(probit.n_levels):
            one = probit.log_expectation(np.full(len(pairs), level), m, v)
            J += np.exp(one.value) * one.d1**2
        gains = [
            J[k] * np.sum(J * (contrasts @ covariance @ a) ** 2) for k, a in enumerate(contrasts)
        ]
        k = max((k for k in range(len(pairs)) if k not in chosen), key=gains.__getitem__)
        chosen.append(k)
        covariance = answered(probit, m[k], v[k], contrasts[k], covariance)
    return np.array([pairs[k] for k in chosen])


@pytest.mark.parametrize("outcomes", ["wins", "ties"])
def test_a_batch_that_foretells_is_that_of_slow_loops(outcomes):
    kernel = RBF(1.0) + ConstantKernel(0.1) * Independent()
    model = fixed(kernel, noise=0.3).fit(X, PAIRS, WINS if outcomes == "wins" else TIES)
    found = model.suggest_pairs(X, 15, strategy="prediction")
    assert_array_equal(found, slow_foresight(model, X, 15))


@pytest.mark.parametrize("strategy", ["information", "prediction"])
def test_excluded_pairs_are_not_asked_again(fitted, strategy):
    first = fitted.suggest_pairs(X, 20, strategy=strategy)
    second = fitted.suggest_pairs(X, 46, strategy=strategy, exclude=first[:, ::-1])
    assert len(np.unique(np.vstack([first, second]), axis=0)) == 66
    with pytest.raises(ValueError, match="only 46 that are not excluded"):
        fitted.suggest_pairs(X, 47, strategy=strategy, exclude=first)


def test_random_pairs_are_different_and_repeatable(fitted):
    pairs = fitted.suggest_pairs(X, 60, strategy="random")
    assert len(np.unique(pairs, axis=0)) == 60
    assert_array_equal(pairs, fitted.suggest_pairs(X, 60, strategy="random"))
    assert np.all(pairs[:, 0] < pairs[:, 1])


# --------------------------------------------------------------------------- scikit-learn habits


def test_constructor_only_stores_and_clone_copies():
    options = {"kernel": RBF(2.0), "levels": LEVELS, "noise": 0.5, "position_bias": "learned"}
    model = PreferenceGP(**options, inference="laplace", random_state=3)
    again = clone(model)
    assert again.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert again.get_params()["kernel__length_scale"] == 2.0
    assert [name for name in vars(again) if name.endswith("_")] == []
    assert "PreferenceGP(" in repr(model)


def test_fit_changes_no_parameter_and_learns_anew():
    model = PreferenceGP(RBF(1.0))
    before = model.get_params()
    model.fit(X, PAIRS, TIES)
    assert model.get_params() == before
    refit = model.set_params(kernel="independent").fit(12, PAIRS, WINS)
    assert refit.levels_.tolist() == [-1, 1]
    assert_array_equal(
        refit.predict(12), PreferenceGP("independent").fit(12, PAIRS, WINS).predict(12)
    )


def test_unfitted_models_say_so():
    for call in (
        lambda m: m.predict(X),
        lambda m: m.rank(X),
        lambda m: m.comparison_proba(X, X),
        lambda m: m.suggest_pairs(X),
        lambda m: m.log_marginal_likelihood(),
        lambda m: m.score(X, PAIRS),
        lambda m: m.save("never.ogp"),
    ):
        with pytest.raises(NotFittedError):
            call(PreferenceGP())


@pytest.mark.parametrize("bad", [X[:, :1], np.full((12, 2), np.nan)])
def test_a_failed_fit_leaves_the_old_model_whole(bad):
    model = PreferenceGP().fit(X, PAIRS, TIES)
    before = model.predict(X)
    with pytest.raises(ValueError):
        model.fit(bad, [[0, 99]])
    assert_array_equal(model.predict(X), before)
    assert model.levels_.tolist() == [-1, 0, 1]


def test_unfinished_inference_warns():
    with pytest.warns(ConvergenceWarning, match="raise max_sweeps"):
        model = fixed(noise=1e-2, max_sweeps=1).fit(X, PAIRS, WINS)
    assert not model.converged_


def test_pandas_names_are_kept():
    frame = pd.DataFrame(X, columns=["price", "size"])
    model = PreferenceGP().fit(frame, PAIRS, pd.Series(WINS))
    assert model.feature_names_in_.tolist() == ["price", "size"]
    assert_array_equal(model.predict(frame), PreferenceGP().fit(X, PAIRS, WINS).predict(X))


def test_an_ordered_categorical_names_the_levels():
    grades = pd.Series(pd.Categorical(GRADES, categories=LEVELS, ordered=True))
    by_dtype = PreferenceGP().fit(X, PAIRS, grades)
    assert by_dtype.levels_.tolist() == LEVELS
    assert_same_posterior(by_dtype, PreferenceGP(levels=LEVELS).fit(X, PAIRS, GRADES))


SAVED = {
    "wins": (PreferenceGP(), X, PAIRS, WINS, X),
    "ties": (PreferenceGP(RBF([1.0, 2.0]), position_bias="learned"), X, PAIRS, TIES, X),
    "grades": (PreferenceGP(levels=LEVELS, inference="laplace"), X, PAIRS, GRADES, X),
    "names": (
        PreferenceGP("independent", noise=1.0),
        list("abcdefghijkl"),
        PAIRS,
        WINS,
        ["a", "z"],
    ),
    "numbers": (PreferenceGP("independent"), 12, PAIRS, WINS, 12),
    "frame": (PreferenceGP(), pd.DataFrame(X, columns=["u", "v"]), PAIRS, WINS, None),
}


@pytest.mark.parametrize("name", SAVED)
@pytest.mark.parametrize("way", ["file", "pickle"])
def test_saved_models_come_back_as_they_were(name, way, tmp_path):
    model, items, pairs, outcomes, new = SAVED[name]
    model = clone(model).fit(items, pairs, outcomes)
    if way == "file":
        model.save(tmp_path / "model.ogp")
        again = load(tmp_path / "model.ogp")
    else:
        again = pickle.loads(pickle.dumps(model))
    new = items if new is None else new
    for left, right in zip(
        model.latent_mean_and_covariance(new), again.latent_mean_and_covariance(new), strict=True
    ):
        assert_array_equal(left, right)
    for attribute in (
        *("noise_", "margins_", "position_bias_", "levels_", "converged_", "n_iter_"),
        *("log_marginal_likelihood_value_", "evidence_path_", "n_features_in_"),
    ):
        assert_array_equal(getattr(model, attribute), getattr(again, attribute))
    assert str(again.kernel_) == str(model.kernel_)
    theta = np.concatenate([model.kernel_.theta, model.likelihood_.theta])
    assert again.log_marginal_likelihood(theta) == model.log_marginal_likelihood(theta)
    assert hasattr(again, "items_") == hasattr(model, "items_")
    assert getattr(again, "feature_names_in_", None) is None or list(again.feature_names_in_) == [
        "u",
        "v",
    ]


def test_relations_are_saved_too(tmp_path):
    A = np.array([[1.0, -2, 1], [1, -1, 0]])
    model = fixed(RBF(1.0), noise=0.4).fit_relations(X[:3], A)
    model.save(tmp_path / "model.ogp")
    assert_array_equal(load(tmp_path / "model.ogp").predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("part", "entry", "value", "message"),
    [
        ("task", "y", np.array([0, 7]), r"task.evidence.y must lie"),
        ("task.projection", "columns", np.array([0, 1, 2, 0, 9]), "columns must lie"),
        ("task.projection", "lengths", np.array([3, 3]), "sparse matrix disagree"),
        ("task.likelihood", "noise", -1.0, "noise must lie"),
        ("task.likelihood", "steps", np.array([1.0]), "likelihood and the levels disagree"),
        ("task", "objective", "magic", "objective is not what it must be"),
        ("sites", "tau", np.array([-1.0, 1.0]), "tau must lie"),
    ],
)
def test_inconsistent_models_are_refused(part, entry, value, message):
    model = fixed(RBF(1.0), noise=0.4).fit_relations(X[:3], [[1.0, -2, 1], [1, -1, 0]], [1, -1])

    def damage(result):
        fields = result["fields"]["model"]["fields"]
        for name in part.split("."):
            fields = fields[name]["fields"]
        fields[entry] = value

    with pytest.raises(ValueError, match=message):
        damaged_copy(model, damage)


# ------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X, [[0, 12]]), r"index the 12 rows of X, but comparisons\[0, 1\] is 12"),
        ((X, [[-1, 2]]), r"comparisons\[0, 0\] is -1"),
        ((X, [[0, 1], [3, 3]]), r"compared with itself, but comparisons\[1\] is \[3, 3\]"),
        ((X, [0, 1]), r"shape \(m, 2\).*but has shape \(2,\)"),
        ((X, [[0, 1, 2]]), r"but has shape \(1, 3\)"),
        ((X, np.empty((0, 2))), "comparisons is empty"),
        ((X, [[0.5, 1]]), "whole numbers"),
        ((X, [[np.nan, 1]]), "whole numbers"),
        ((X, [["a", "b"]]), "known only with kernel='independent'"),
        ((X, PAIRS, np.zeros(30)), "Every comparison is a tie"),
        ((X, PAIRS, WINS[:-1]), "each of the 30 comparisons, but has 29"),
        ((X, PAIRS, np.where(WINS > 0, 1, 0.5)), r"row \d+ is 0.5 .*levels=\[0, 0.5, 1\]"),
        ((X, PAIRS, ["won"] * 30), "row 0 is 'won'"),
        ((X, PAIRS, [None] * 30), "must not have missing values"),
        ((X, PAIRS, WINS, -np.ones(30)), "sample_weight must be finite and not negative"),
        ((X, PAIRS, TIES, (TIES == 0) * 1.0), "Every comparison is a tie"),
        ((np.where(X > 1, np.nan, X), PAIRS), "contains NaN"),
        ((X[0], PAIRS), "Expected 2D array"),
    ],
)
def test_bad_comparisons_are_answered(arguments, message):
    with pytest.raises(ValueError, match=message):
        PreferenceGP().fit(*arguments)


@pytest.mark.parametrize(
    ("A", "y", "message"),
    [
        (np.ones((2, 5)), None, "a column for each of the 12 rows of X"),
        (np.zeros((2, 12)), None, "row 0 is all zero"),
        (np.full((1, 12), np.inf), None, "A must be finite"),
        (np.ones(12), None, "must be a matrix"),
        (np.eye(12), [1, 2], "each of the 12 comparisons"),
    ],
)
def test_bad_relations_are_answered(A, y, message):
    with pytest.raises(ValueError, match=message):
        PreferenceGP().fit_relations(X, A, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inference": "vb"}, "inference must be one of"),
        ({"kernel": "independant"}, "Did you mean 'independent'"),
        ({"noise": 0.0}, "noise must be a number above 0"),
        ({"noise": "learnt"}, "Did you mean 'learned'"),
        ({"position_bias": True}, "position_bias must be one of"),
        ({"levels": ["a", "a", "b"]}, "levels must name each level once"),
        ({"levels": ["a"]}, "levels must name at least 2 levels"),
        ({"levels": "ab"}, "levels must be a list"),
        ({"levels": ["lose", "win"]}, "Add this level to levels"),
        ({"optimizer": "adam"}, "optimizer must be one of"),
        ({"tol": 0}, "tol must be a number above 0"),
    ],
)
def test_bad_parameters_are_answered(options, message):
    with pytest.raises(ValueError, match=message):
        PreferenceGP(**options).fit(X, PAIRS, WINS)
    with pytest.raises(TypeError, match="scikit-learn kernel object"):
        PreferenceGP(RBF).fit(X, PAIRS, WINS)


@pytest.mark.parametrize(
    ("items", "pairs", "message"),
    [
        (X, PAIRS, "takes no features"),
        (["a", "b", "a"], [[0, 1]], "repeats 'a'"),
        (0, [[0, 1]], "at least 1"),
        (["a", "b"], [["a", "c"]], "'c', which is not an item of X"),
        (2, [[0, 2]], "index the 2 rows"),
    ],
)
def test_bad_items_without_features_are_answered(items, pairs, message):
    with pytest.raises(ValueError, match=message):
        PreferenceGP("independent").fit(items, pairs)


def test_bad_queries_are_answered(fitted):
    with pytest.raises(ValueError, match="3 features"):
        fitted.predict(np.ones((2, 3)))
    with pytest.raises(ValueError, match="have 2 and 3 rows"):
        fitted.comparison_proba(X[:2], X[:3])
    with pytest.raises(ValueError, match="strategy must be one of"):
        fitted.suggest_pairs(X, strategy="best")
    with pytest.raises(ValueError, match="n must be a number of at least 1"):
        fitted.suggest_pairs(X, 0)
    with pytest.raises(ValueError, match="theta must have shape"):
        fitted.log_marginal_likelihood([1.0])


def test_extreme_data_give_no_nan():
    """Separable wins, many of each, one item far from all others."""
    far = np.vstack([X, [[1e6, -1e6]]])
    winners = np.where(
        (UTILITY[PAIRS[:, 0]] > UTILITY[PAIRS[:, 1]])[:, None], PAIRS, PAIRS[:, ::-1]
    )
    model = PreferenceGP().fit(far, winners, sample_weight=np.full(30, 100))
    mean, var = model.latent_mean_and_variance(far)
    assert np.all(np.isfinite(mean))
    assert np.all(var >= 0)
    assert np.all(np.isfinite(model.comparison_proba(far[:2], far[1:3])))


def test_the_sine_is_learned():
    items, pairs = make_sine_comparisons(30, random_state=0)
    model = PreferenceGP().fit(items, pairs)
    assert model.score(items, make_sine_comparisons(30, random_state=0)[1]) == 1.0
    assert np.corrcoef(model.predict(items), np.sin(items[:, 0]))[0, 1] > 0.9
