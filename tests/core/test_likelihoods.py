"""One contract that every likelihood must pass, and the facts particular to each."""

import inspect

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats
from scipy.special import expit

from ordinalgp.core import likelihoods
from ordinalgp.core import ordinal_logit as logit
from ordinalgp.core.likelihoods import Gaussian, OrdinalProbit, expected_log
from ordinalgp.core.ordinal_logit import OrdinalLogit

B = [-0.7, 0.1, 1.9]
CASES = {
    "probit": OrdinalProbit.from_thresholds(B, 0.8),
    "probit-binary": OrdinalProbit.from_thresholds([0.3], 0.5),
    "logit": OrdinalLogit.from_thresholds(B, 0.8),
    "gaussian": Gaussian(0.6),
}
H = 1e-5


@pytest.fixture(params=CASES.items(), ids=lambda item: item[0])
def case(request):
    name, likelihood = request.param
    rng = np.random.default_rng(3)
    m = 40
    y = rng.normal(size=m) if name == "gaussian" else rng.integers(0, len(likelihood.theta), m)
    var = rng.uniform(0, 2, m)
    var[:10] = 0.0
    return likelihood, y, rng.normal(scale=2, size=m), var


def pointwise(likelihood, y, u):
    """The definition of p(y|u), written independently with scipy's distributions."""
    if isinstance(likelihood, Gaussian):
        return stats.norm.pdf(y, u, likelihood.noise)
    cdf = stats.norm.cdf if isinstance(likelihood, OrdinalProbit) else expit
    b = np.concatenate([[-np.inf], likelihood.thresholds, [np.inf]])
    return cdf((b[y + 1] - u) / likelihood.noise) - cdf((b[y] - u) / likelihood.noise)


def test_every_likelihood_is_in_the_contract():
    defined = {
        cls
        for module in (likelihoods, logit)
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if hasattr(cls, "log_expectation") and cls.__name__ not in ("Likelihood", "Thresholds")
    }
    assert defined == {type(likelihood) for likelihood in CASES.values()}


def test_value_is_the_log_of_the_expected_likelihood(case):
    likelihood, y, mean, var = case
    value = likelihood.log_expectation(y, mean, var).value
    for i in range(0, len(mean), 3):
        if var[i] == 0:
            truth = pointwise(likelihood, y[i], mean[i])
        else:
            sd = np.sqrt(var[i])
            truth, _ = integrate.quad(
                lambda u, i=i, sd=sd: (
                    pointwise(likelihood, y[i], u) * stats.norm.pdf(u, mean[i], sd)
                ),
                mean[i] - 12 * sd,
                mean[i] + 12 * sd,
                epsabs=1e-14,
                epsrel=1e-11,
                limit=200,
            )
        assert_allclose(value[i], np.log(truth), rtol=1e-8, atol=1e-9)


def test_derivatives_are_slopes(case):
    likelihood, y, mean, var = case
    up, down = (likelihood.log_expectation(y, mean + h, var) for h in (H, -H))
    at = likelihood.log_expectation(y, mean, var)
    assert_allclose(at.d1, (up.value - down.value) / (2 * H), rtol=1e-6, atol=1e-8)
    assert_allclose(at.d2, (up.d1 - down.d1) / (2 * H), rtol=1e-6, atol=1e-8)
    assert_allclose(at.d3, (up.d2 - down.d2) / (2 * H), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("told", [False, True])
def test_theta_derivatives_are_slopes(case, told):
    likelihood, y, mean, var = case
    known = likelihood.log_expectation(y, mean, var) if told else None
    found = likelihood.theta_derivatives(y, mean, var, known)
    for p in range(len(likelihood.theta)):
        shift = H * np.eye(len(likelihood.theta))[p]
        up, down = (
            likelihood.clone_with_theta(likelihood.theta + sign * shift).log_expectation(
                y, mean, var
            )
            for sign in (1, -1)
        )
        for name in ("value", "d1", "d2"):
            slope = (getattr(up, name) - getattr(down, name)) / (2 * H)
            assert_allclose(getattr(found, name)[p], slope, rtol=1e-6, atol=1e-8)


def test_variance_derivative_is_free(case):
    likelihood, y, mean, var = case
    var = var + 0.1
    at = likelihood.log_expectation(y, mean, var)
    up, down = (likelihood.log_expectation(y, mean, var + h) for h in (H, -H))
    slope = (up.value - down.value) / (2 * H)
    assert_allclose((at.d2 + at.d1**2) / 2, slope, rtol=1e-6, atol=1e-8)


def test_log_concave_within_its_bounds(case):
    likelihood, y, mean, var = case
    at = likelihood.log_expectation(y, 30 * mean, var)
    assert np.all(at.d2 <= 0)
    assert np.all(1 + var * at.d2 > 0)


def test_theta_round_trip_and_bounds(case):
    likelihood = case[0]
    theta = likelihood.theta
    assert_allclose(likelihood.clone_with_theta(theta).theta, theta, rtol=1e-14)
    assert likelihood.bounds.shape == (len(theta), 2)
    assert np.all((likelihood.bounds[:, 0] < theta) & (theta < likelihood.bounds[:, 1]))


def test_expected_log_against_quadrature_and_slopes(case):
    likelihood, y, mean, var = case
    found = expected_log(likelihood, y, mean, var, order=64)
    for i in (0, 12, 25):
        sd = np.sqrt(var[i])
        if sd == 0:
            truth = np.log(pointwise(likelihood, y[i], mean[i]))
        else:
            truth, _ = integrate.quad(
                lambda u, i=i, sd=sd: (
                    likelihood.log_expectation(y[[i]], np.array([u]), np.zeros(1)).value[0]
                    * stats.norm.pdf(u, mean[i], sd)
                ),
                mean[i] - 10 * sd,
                mean[i] + 10 * sd,
                limit=200,
            )
        assert_allclose(found.value[i], truth, rtol=1e-6)
    var = var + 0.1
    found = expected_log(likelihood, y, mean, var)
    steps = {"d_mean": (H, 0), "d_var": (0, H)}
    for name, (dm, dv) in steps.items():
        up = expected_log(likelihood, y, mean + dm, var + dv).value
        down = expected_log(likelihood, y, mean - dm, var - dv).value
        assert_allclose(getattr(found, name), (up - down) / (2 * H), rtol=1e-6, atol=1e-8)
    shift = H * np.eye(len(likelihood.theta))[0]
    up, down = (
        expected_log(likelihood.clone_with_theta(likelihood.theta + s), y, mean, var).value
        for s in (shift, -shift)
    )
    assert_allclose(found.d_theta[0], (up - down) / (2 * H), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["probit", "probit-binary", "logit"])
def test_probabilities_sum_to_one_and_match_the_definition(name):
    likelihood = CASES[name]
    mean = np.array([-50.0, -1.0, 0.0, 2.0, 80.0])
    p = likelihood.probabilities(mean, np.zeros(5))
    truth = [[pointwise(likelihood, k, m) for k in range(likelihood.n_levels)] for m in mean]
    assert_allclose(p, truth, atol=1e-12)
    assert_allclose(p.sum(axis=1), 1.0, rtol=1e-14)


def test_starts():
    paper = OrdinalProbit.paper_start(4)
    assert_allclose(paper.thresholds, [-1, -0.5, 0])
    assert paper.noise == 1.0
    counts = np.array([10.0, 70.0, 20.0])
    fitted = OrdinalProbit.from_counts(counts, noise=0.5)
    prior = fitted.probabilities(np.zeros(1), np.ones(1))[0]
    assert_allclose(prior, (counts + 0.5) / 101.5, rtol=1e-12)


def test_a_narrow_level_keeps_its_width():
    narrow = OrdinalProbit(1.0, 5.0, np.array([1e-13]))
    value = narrow.log_expectation(np.array([1]), np.zeros(1), np.zeros(1)).value[0]
    assert_allclose(value, stats.norm.logpdf(5.0) + np.log(1e-13), rtol=1e-12)
