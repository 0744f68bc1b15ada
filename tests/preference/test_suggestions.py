"""Information of answers, against integrals and sums by its definitions."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats
from scipy.special import entr

from ordinalgp.core.gaussian import Moments
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.preference.suggestions import (
    InformationGain,
    answer_information,
    pair_predictive_information,
)
from ordinalgp.preference.symmetric_thresholds import SymmetricProbit

CASES = {
    "wins": SymmetricProbit(0.5, np.empty(0)).spelled_out,
    "ties": SymmetricProbit(0.3, np.array([0.8]), 3).spelled_out,
    "narrow ties": SymmetricProbit(0.5, np.array([1e-3]), 3).spelled_out,
    "five grades, biased": SymmetricProbit(0.2, np.array([0.3, 1.1]), 5, 0.4, True).spelled_out,
    "little noise": SymmetricProbit(0.01, np.array([0.5]), 4).spelled_out,
}


def by_definition(likelihood: OrdinalProbit, mean: float, var: float) -> float:
    """H[E p] - E H[p], with probabilities by scipy and the mean by adaptive quadrature."""
    b = np.concatenate([[-np.inf], likelihood.thresholds, [np.inf]])

    def entropy(m, s):
        return entr(np.diff(stats.norm.cdf((b - m) / s))).sum()

    sd, s = np.sqrt(var), likelihood.noise
    # The entropy lives near thresholds only: tell the integrator where.
    ends = (likelihood.thresholds[:, None] + s * np.array([-8, -3, 0, 3, 8])).ravel()
    points = np.r_[ends, mean + sd * np.arange(-9, 10, 3)]
    cuts = np.unique(np.clip(points, mean - 9 * sd, mean + 9 * sd))
    after = sum(
        integrate.quad(lambda u: entropy(u, s) * stats.norm.pdf(u, mean, sd), lo, hi, epsabs=1e-10)[
            0
        ]
        for lo, hi in pairwise(cuts)
    )
    return entropy(mean, np.hypot(s, sd)) - after


@pytest.mark.parametrize("name", CASES)
def test_gain_is_the_mutual_information(name):
    likelihood = CASES[name]
    gain = InformationGain.of(likelihood)
    at = [(0.0, 1.0), (0.4, 0.3), (-1.5, 2.0), (0.7, 1e-3), (0.1, 1e-6), (3.0, 0.5)]
    truth = [by_definition(likelihood, *point) for point in at]
    mean, var = np.array(at).T
    assert_allclose(gain(Moments(mean, var)), truth, atol=2e-5)


def test_nothing_to_learn_where_nothing_is_uncertain():
    gain = InformationGain.of(CASES["ties"])
    assert_allclose(gain(Moments(np.linspace(-3, 3, 50), np.zeros(50))), 0, atol=2e-5)


def test_gain_of_a_win_grows_with_the_variance():
    """What makes a stale gain an upper bound in greedy batches."""
    gain = InformationGain.of(CASES["wins"])
    var = np.geomspace(1e-4, 10, 60)
    for mean in (0.0, 0.3, 2.0):
        assert np.diff(gain(Moments(np.full(60, mean), var))).min() > -1e-6


def test_gain_of_a_grade_need_not_grow():
    """Why batches of graded questions compute every gain again."""
    gain = InformationGain.of(CASES["little noise"])
    narrow, wide = gain(Moments(np.zeros(2), np.array([0.5, 10.0])))
    assert narrow > wide + 0.1


def test_wide_posteriors_over_two_levels_tell_one_bit():
    gain = InformationGain.of(SymmetricProbit(0.01, np.empty(0)).spelled_out)
    assert_allclose(gain(Moments(np.zeros(1), np.array([1e4]))), np.log(2), rtol=1e-3)


def test_many_at_once_equal_one_at_a_time():
    gain, rng = InformationGain.of(CASES["ties"]), np.random.default_rng(0)
    mean, var = rng.normal(size=40_000), rng.uniform(0, 2, 40_000)
    some = slice(32_760, 32_780)  # across the edge of a block
    assert_allclose(gain(Moments(mean, var))[some], gain(Moments(mean[some], var[some])), rtol=1e-9)


# ------------------------------------------------------------------ predictive information


def mutual_information(likelihood: OrdinalProbit, mean: np.ndarray, C: np.ndarray) -> float:
    """Of the answers about two jointly normal u, from the probabilities of all boxes."""
    b = np.concatenate([[-40.0], likelihood.thresholds, [40.0]])
    normal = stats.multivariate_normal(mean, C + likelihood.noise**2 * np.eye(2), seed=0)
    below = np.array([[normal.cdf([x, z]) for z in b] for x in b])
    joint = np.diff(np.diff(below, axis=0), axis=1)
    apart = joint.sum(axis=1)[:, None] * joint.sum(axis=0)
    return float(np.sum(joint * np.log(joint / apart)))


@pytest.mark.parametrize("name", ["wins", "ties", "five grades, biased"])
@pytest.mark.parametrize("mean", [(0.0, 0.3), (0.7, -0.4)])
def test_it_is_the_mutual_information_of_weakly_related_answers(name, mean):
    likelihood, var, c = CASES[name], np.array([0.8, 0.5]), 0.03
    J = answer_information(likelihood, Moments(np.array(mean), var))
    # The next order is odd in c: it leaves the mean of both signs.
    truth = [mutual_information(likelihood, mean, np.diag(var) + s) for s in off_diagonal(c)]
    assert_allclose(c**2 * J.prod() / 2, np.mean(truth), rtol=0.02)


def off_diagonal(c: float) -> list[np.ndarray]:
    return [np.array([[0, x], [x, 0]]) for x in (c, -c)]


def test_an_answer_that_is_known_tells_nothing():
    for likelihood in CASES.values():
        at = Moments(np.array([-1e3, 60.0, 1e3]), np.array([1.0, 0.0, 1e-9]))
        J = answer_information(likelihood, at)
        assert_allclose(J, 0, atol=1e-100)


def test_nothing_but_the_noise_limits_what_an_answer_tells():
    """At a threshold of two levels P = 1/2 and dP/dmean is the density of N(0, var + noise^2)."""
    likelihood = CASES["wins"]
    s2 = likelihood.noise**2 + 0.7
    J = answer_information(likelihood, Moments(np.zeros(1), np.array([0.7])))
    assert_allclose(J, 4 * stats.norm.pdf(0, scale=np.sqrt(s2)) ** 2)


def test_blocks_do_not_show():
    rng, some = np.random.default_rng(0), slice(32_760, 32_780)  # across the edge of a block
    mean, var = rng.normal(size=40_000), rng.uniform(0, 2, 40_000)
    whole = answer_information(CASES["ties"], Moments(mean, var))
    part = answer_information(CASES["ties"], Moments(mean[some], var[some]))
    assert_allclose(whole[some], part, rtol=1e-15)


def test_all_pairs_are_summed():
    rng = np.random.default_rng(1)
    root = rng.normal(size=(5, 5))
    C, J = root @ root.T, rng.uniform(size=(5, 5))
    J += J.T
    M = pair_predictive_information(J, C)
    a = rng.normal(size=5)
    total = sum(J[i, j] * (a @ (C[i] - C[j])) ** 2 for i in range(5) for j in range(i))
    assert_allclose(a @ M @ a, total)
