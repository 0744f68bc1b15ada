"""One contract that every likelihood must pass, and the facts particular to each."""

import importlib
import inspect
import pkgutil

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats

import ordinalgp
from ordinalgp.core.likelihoods import Gaussian, OrdinalProbit, Thresholds, expected_log
from ordinalgp.core.ordinal_logit import OrdinalLogit
from ordinalgp.many_rows.induced_evidence import ResidualLikelihood
from ordinalgp.models.monotone_steps import StepLikelihood
from ordinalgp.preference.judges import JudgedComparisons
from ordinalgp.preference.symmetric_thresholds import SymmetricProbit, SymmetricThresholds

B = [-0.7, 0.1, 1.9]
H = 1e-5
M = 40
EXTRA = np.random.default_rng(8).uniform(0.1, 1.0, M)
BY_RATER = {"RowProbit", "RowGaussian"}
"""over the ratings of many raters, tested in tests/collaborative/test_batch.py"""
NOISE = {OrdinalProbit: stats.norm, OrdinalLogit: stats.logistic}
"""distribution with P(y <= j|u) = cdf((b_j - u) / noise); a new threshold model is added here"""


def implementations():
    """Every class of the package that is a likelihood: found, not listed."""
    found = {}
    for module in pkgutil.walk_packages(ordinalgp.__path__, "ordinalgp."):
        if module.name.split(".")[1] in ("ask", "cli", "tables", "report", "plots", "__main__"):
            continue
        for cls in vars(importlib.import_module(module.name)).values():
            is_one = inspect.isclass(cls) and hasattr(cls, "log_expectation")
            if getattr(cls, "of_points_only", False):  # without expectations: tests of their own
                continue
            if is_one and not inspect.isabstract(cls) and not getattr(cls, "_is_protocol", False):
                found[cls.__name__] = cls
    return {name: cls for name, cls in found.items() if name not in BY_RATER}


def examples(cls):
    """Instances to try. A threshold model has them already; another likelihood is added here."""
    if issubclass(cls, Thresholds):
        return [cls.from_thresholds(B, 0.8), cls.from_thresholds([0.3], 0.5)]
    if issubclass(cls, SymmetricThresholds) and hasattr(cls, "model"):
        return [cls(0.7, np.empty(0)), cls(0.6, np.array([0.3, 0.8]), 5, 0.2, True)]
    judges = np.array(["a", "b", "c"]), np.array([-0.4, 0.0, 0.7]), np.arange(M) % 3
    kinds = {
        JudgedComparisons: [JudgedComparisons(SymmetricProbit(0.6, np.array([0.3]), 3), *judges)],
        Gaussian: [Gaussian(0.6)],
        ResidualLikelihood: [ResidualLikelihood(OrdinalProbit.from_thresholds(B, 0.8), EXTRA)],
        StepLikelihood: [StepLikelihood(OrdinalProbit.from_thresholds(B, 0.8), np.zeros(M, bool))],
        SymmetricThresholds: [],  # the base of the two above
    }
    return kinds[cls]


CASES = {
    f"{name}-{place}": example
    for name, cls in implementations().items()
    for place, example in enumerate(examples(cls))
}


def test_the_implementations_are_found():
    known = {"OrdinalProbit", "OrdinalLogit", "SymmetricProbit", "SymmetricLogit", "Gaussian"}
    assert known <= set(implementations())


@pytest.fixture(params=CASES.items(), ids=lambda item: item[0])
def case(request):
    likelihood = request.param[1]
    rng = np.random.default_rng(3)
    if isinstance(likelihood, Gaussian):
        y = rng.normal(size=M)
    else:
        y = rng.integers(0, threshold_model(likelihood).n_levels, M)
    var = rng.uniform(0, 2, M)
    var[:10] = 0.0
    return likelihood, y, rng.normal(scale=2, size=M), var


def threshold_model(likelihood):
    """The threshold model behind a likelihood."""
    for name in ("inner", "levels", "spelled_out"):
        likelihood = getattr(likelihood, name, likelihood)
    return likelihood


def pointwise(likelihood, y, u, extra=0.0):
    """The definition of p(y|u), written independently with scipy's distributions."""
    if isinstance(likelihood, Gaussian):
        return stats.norm.pdf(y, u, likelihood.noise)
    model = threshold_model(likelihood)
    assert extra == 0.0 or isinstance(model, OrdinalProbit)
    law = NOISE[type(model)]
    b = np.concatenate([[-np.inf], model.thresholds, [np.inf]])
    noise = np.sqrt(model.noise**2 + extra)
    lo, hi = (b[y] - u) / noise, (b[y + 1] - u) / noise
    return law.sf(lo) - law.sf(hi) if lo > 0 else law.cdf(hi) - law.cdf(lo)


def extra_variance(likelihood, i):
    if isinstance(likelihood, JudgedComparisons):
        factor = np.exp(likelihood.log_factors[likelihood.by[i]])
        return likelihood.spelled_out.noise**2 * (factor**2 - 1)
    return EXTRA[i] if isinstance(likelihood, ResidualLikelihood) else 0.0


def test_value_is_the_log_of_the_expected_likelihood(case):
    likelihood, y, mean, var = case
    value = likelihood.log_expectation(y, mean, var).value
    for i in range(0, len(mean), 3):
        more = extra_variance(likelihood, i)
        if var[i] == 0:
            truth = pointwise(likelihood, y[i], mean[i], more)
        else:
            sd = np.sqrt(var[i])
            truth, _ = integrate.quad(
                lambda u, i=i, sd=sd, more=more: (
                    pointwise(likelihood, y[i], u, more) * stats.norm.pdf(u, mean[i], sd)
                ),
                mean[i] - 12 * sd,
                mean[i] + 12 * sd,
                epsabs=1e-14,
                epsrel=1e-11,
                limit=200,
            )
        if truth > 1e-280:
            assert_allclose(value[i], np.log(truth), rtol=1e-8, atol=1e-9)
        else:  # too small for a number, as a tail that falls like exp(-exp(t)) soon is
            assert not isinstance(threshold_model(likelihood), OrdinalProbit | OrdinalLogit)
            assert value[i] < np.log(1e-280)


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
            assert_allclose(np.asarray(getattr(found, name))[p], slope, rtol=1e-6, atol=1e-8)


def test_variance_derivative_is_free(case):
    likelihood, y, mean, var = case
    var = var + 0.1
    at = likelihood.log_expectation(y, mean, var)
    up, down = (likelihood.log_expectation(y, mean, var + h) for h in (H, -H))
    slope = (up.value - down.value) / (2 * H)
    assert_allclose((at.d2 + at.d1**2) / 2, slope, rtol=1e-6, atol=1e-8)


def test_variance_derivatives_are_slopes(case):
    """What a residual variance does to a likelihood: the condition for inducing points."""
    likelihood, y, mean, var = case
    if not hasattr(likelihood, "variance_derivatives"):
        assert not isinstance(likelihood, Thresholds)
        return
    var = var + 0.1
    at = likelihood.log_expectation(y, mean, var)
    up, down = (likelihood.log_expectation(y, mean, var + h) for h in (H, -H))
    for known in (None, at):
        found = likelihood.variance_derivatives(y, mean, var, known)
        for name in ("value", "d1", "d2"):
            slope = (getattr(up, name) - getattr(down, name)) / (2 * H)
            assert_allclose(getattr(found, name)[0], slope, rtol=1e-5, atol=1e-7)


def test_some_observations_are_some_of_all(case):
    likelihood, y, mean, var = case
    some = np.array([3, 17, 30])
    part = likelihood.of_rows(some).log_expectation(y[some], mean[some], var[some])
    assert_allclose(part.value, likelihood.log_expectation(y, mean, var).value[some], rtol=1e-13)


def test_without_noise_a_level_is_an_interval():
    """Eq. (4) of Chu and Ghahramani: one between two thresholds, else zero."""
    cuts = np.array([-0.7, 0.1, 0.6])
    likelihood = OrdinalProbit.from_thresholds(cuts, 1e-9)
    u = np.linspace(-2.0, 2.0, 101) + 0.003  # none at a threshold
    for level in range(4):
        y = np.full(len(u), level)
        p = np.exp(likelihood.log_expectation(y, u, np.zeros_like(u)).value)
        assert_array_equal(p, (np.searchsorted(cuts, u) == level).astype(float))


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
            truth = np.log(pointwise(likelihood, y[i], mean[i], extra_variance(likelihood, i)))
        else:
            one = likelihood.of_rows([i])
            truth, _ = integrate.quad(
                lambda u, i=i, sd=sd, one=one: (
                    one.log_expectation(y[[i]], np.array([u]), np.zeros(1)).value[0]
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


WITH_PROBABILITIES = [name for name, each in CASES.items() if hasattr(each, "probabilities")]


@pytest.mark.parametrize("name", WITH_PROBABILITIES)
def test_probabilities_sum_to_one_and_match_the_definition(name):
    likelihood = CASES[name]
    mean = np.array([-50.0, -1.0, 0.0, 2.0, 80.0])
    p = likelihood.probabilities(mean, np.zeros(5))
    truth = [[pointwise(likelihood, k, m) for k in range(likelihood.n_levels)] for m in mean]
    assert_allclose(p, truth, atol=1e-12)
    assert_allclose(p.sum(axis=1), 1.0, rtol=1e-14)


def test_a_step_has_the_probability_that_a_normal_variable_is_positive():
    levels = OrdinalProbit.from_thresholds(B, 0.8)
    is_step = np.array([True, False, True, False, True])
    likelihood = StepLikelihood(levels, is_step)
    y, mean = np.array([1, 3, 1, 0, 1]), np.array([-30.0, 0.4, 0.0, 1.2, 2.5])
    var = np.array([4.0, 0.3, 1e-4, 2.0, 0.5])
    found, plain = (each.log_expectation(y, mean, var) for each in (likelihood, levels))
    truth = stats.norm.logcdf(mean / np.sqrt(var))
    assert_allclose(found.value, np.where(is_step, truth, plain.value), rtol=1e-12)
    h = 1e-4 * np.sqrt(var)
    up, down = (likelihood.log_expectation(y, mean + sign * h, var) for sign in (1, -1))
    for slope, of in (("d1", "value"), ("d2", "d1"), ("d3", "d2")):
        measured = (getattr(up, of) - getattr(down, of)) / (2 * h)
        assert_allclose(getattr(found, slope), measured, rtol=1e-5, atol=1e-7)
    found, plain = (each.theta_derivatives(y, mean, var) for each in (likelihood, levels))
    for name in ("value", "d1", "d2"):
        expected = np.where(is_step, 0.0, getattr(plain, name))
        assert_allclose(getattr(found, name), expected, rtol=1e-12)


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


@pytest.mark.parametrize("gaps", [[], [0.7], [0.5, 2.0, 0.03], [1e-3, 0.4], [1e-5, 0.4]])
@pytest.mark.parametrize("noise", [1e-3, 0.3, 5.0])
def test_probabilities_from_tails_are_those_of_exact_logarithms(gaps, noise):
    likelihood = OrdinalProbit(noise, -0.4, np.array(gaps))
    mean, sd = (
        grid.ravel() for grid in np.meshgrid(np.linspace(-30, 30, 61), [0.0, 0.1, 1.0, 9.0])
    )
    found = likelihood.probabilities(mean, sd**2)
    exact = Thresholds.probabilities(likelihood, mean, sd**2)
    assert found.shape == (len(mean), len(gaps) + 2)
    assert_allclose(found.sum(axis=1), 1.0, rtol=1e-15)
    assert_allclose(found, exact, rtol=1e-9, atol=1e-300)
