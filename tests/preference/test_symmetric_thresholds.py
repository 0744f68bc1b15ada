"""Symmetric margins: the parameters map to thresholds as they say, and swapping sides is exact."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from ordinalgp import PreferenceGP
from ordinalgp.preference.symmetric_thresholds import SymmetricLogit, SymmetricProbit

H = 1e-5
CASES = {
    f"{r} levels{', biased' if biased else ''}{'' if free else ', noise kept'}": SymmetricProbit(
        0.7, np.linspace(0.3, 0.9, (r - 1) // 2), r, 0.4 * biased, biased, free, 1.3
    )
    for r, biased, free in [
        (2, False, True),
        (2, True, True),
        (3, False, True),
        (3, True, False),
        (4, False, True),
        (5, True, True),
        (6, False, False),
        (7, True, True),
    ]
}


@pytest.fixture(params=CASES)
def case(request):
    likelihood = CASES[request.param]
    rng = np.random.default_rng(3)
    y = rng.integers(0, likelihood.n_levels, 40)
    var = rng.uniform(0, 2, 40)
    var[:10] = 0.0
    return likelihood, y, rng.normal(scale=2, size=40), var


def test_margins_are_ordered_and_symmetric(case):
    likelihood = case[0]
    margins = likelihood.margins
    assert len(margins) == likelihood.n_levels - 1
    assert np.all(np.diff(margins) > 0)
    assert_allclose(margins, -margins[::-1], atol=0)
    assert_allclose(likelihood.spelled_out.thresholds, margins - likelihood.bias, atol=1e-14)


def test_the_definition_on_two_noisy_utilities(case):
    """P(y) of f_left + e_left - f_right - e_right + bias between margins, by scipy's normal."""
    likelihood, y, mean, var = case
    edges = np.concatenate([[-np.inf], likelihood.margins, [np.inf]])
    total = stats.norm(mean + likelihood.bias, np.sqrt(var + 2 * likelihood.noise**2))
    truth = total.cdf(edges[y + 1]) - total.cdf(edges[y])
    assert_allclose(np.exp(likelihood.log_expectation(y, mean, var).value), truth, rtol=1e-9)


def test_swapping_sides_reverses_the_levels(case):
    likelihood, _, mean, var = case
    if not likelihood.biased:
        forward = likelihood.probabilities(mean, var)
        assert_allclose(forward, likelihood.probabilities(-mean, var)[:, ::-1], rtol=1e-12)


@pytest.mark.parametrize("told", [False, True])
def test_theta_derivatives_are_slopes(case, told):
    likelihood, y, mean, var = case
    known = likelihood.log_expectation(y, mean, var) if told else None
    found = likelihood.theta_derivatives(y, mean, var, known)
    p = len(likelihood.theta)
    assert found.value.shape == (p, len(y))
    for k in range(p):
        shift = H * np.eye(p)[k]
        up, down = (
            likelihood.clone_with_theta(likelihood.theta + s).log_expectation(y, mean, var)
            for s in (shift, -shift)
        )
        for name in ("value", "d1", "d2"):
            slope = (getattr(up, name) - getattr(down, name)) / (2 * H)
            assert_allclose(getattr(found, name)[k], slope, rtol=1e-6, atol=1e-8)


def test_theta_round_trip_and_bounds(case):
    likelihood = case[0]
    theta = likelihood.theta
    again = likelihood.clone_with_theta(theta)
    assert_allclose(again.theta, theta, rtol=1e-14)
    assert_allclose(again.spelled_out.thresholds, likelihood.spelled_out.thresholds, rtol=1e-13)
    assert again.noise == pytest.approx(likelihood.noise)
    assert likelihood.bounds.shape == (len(theta), 2)
    assert np.all((likelihood.bounds[:, 0] < theta) & (theta < likelihood.bounds[:, 1]))


@pytest.mark.parametrize("counts", [[9, 1], [5, 3, 4], [1, 2, 3, 4], [9, 4, 2, 5, 6]])
def test_the_start_has_the_observed_frequencies_of_both_signs_together(counts):
    counts = np.array(counts, dtype=float)
    start = SymmetricProbit.from_counts(counts, 0.5, latent_var=1.7)
    prior = start.probabilities(np.zeros(1), np.array([2 * 1.7]))[0]
    even = (counts + counts[::-1]) / 2 + 0.5
    assert_allclose(prior, even / even.sum(), rtol=1e-10)


def test_levels_never_seen_still_start_with_room():
    start = SymmetricProbit.from_counts(np.array([1e6, 0, 0, 0, 1e6]), 0.5)
    assert np.all(start.steps > 0)
    assert np.all(np.isfinite(start.theta))


# ------------------------------------------------------------------------------- logistic noise


def test_two_levels_of_logistic_noise_are_bradley_terry():
    u = np.linspace(-4, 4, 9)
    found = SymmetricLogit(1.0, np.empty(0)).probabilities(u, np.zeros(9))
    assert_allclose(found[:, 1], np.exp(u) / (1 + np.exp(u)), rtol=1e-12)


def test_comparisons_with_logistic_noise():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2))
    pairs = np.array([rng.choice(12, 2, replace=False) for _ in range(60)])
    u = X[:, 0] - 0.5 * X[:, 1]
    outcomes = np.where(u[pairs[:, 0]] - u[pairs[:, 1]] + rng.logistic(0, 0.3, 60) > 0, 1, -1)
    probit, logit = (
        PreferenceGP(likelihood=word).fit(X, pairs, outcomes) for word in ("probit", "logit")
    )
    assert_allclose(
        logit.comparison_proba(X[:6], X[6:]), probit.comparison_proba(X[:6], X[6:]), atol=0.05
    )
    with pytest.raises(ValueError, match="strategy='information' computes"):
        logit.suggest_pairs(X)
    assert logit.suggest_pairs(X, 2, strategy="random").shape == (2, 2)
    given = SymmetricLogit(0.5, np.empty(0))
    kept = PreferenceGP(likelihood=given, optimizer=None).fit(X, pairs, outcomes)
    assert kept.noise_ == 0.5
    for wrong in ("magic", 3):
        with pytest.raises((ValueError, TypeError), match="likelihood must be one of"):
            PreferenceGP(likelihood=wrong).fit(X, pairs, outcomes)
