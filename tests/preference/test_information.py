"""The expected information gain against brute-force integration of its definition."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats
from scipy.special import entr

from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.preference.information import InformationGain
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
    assert_allclose(gain(mean, var), truth, atol=2e-5)


def test_nothing_to_learn_where_nothing_is_uncertain():
    gain = InformationGain.of(CASES["ties"])
    assert_allclose(gain(np.linspace(-3, 3, 50), np.zeros(50)), 0, atol=2e-5)


def test_gain_of_a_win_grows_with_the_variance():
    """What makes a stale gain an upper bound in greedy batches."""
    gain = InformationGain.of(CASES["wins"])
    var = np.geomspace(1e-4, 10, 60)
    for mean in (0.0, 0.3, 2.0):
        assert np.diff(gain(np.full(60, mean), var)).min() > -1e-6


def test_gain_of_a_grade_need_not_grow():
    """Why batches of graded questions compute every gain again."""
    gain = InformationGain.of(CASES["little noise"])
    narrow, wide = gain(np.zeros(2), np.array([0.5, 10.0]))
    assert narrow > wide + 0.1


def test_wide_posteriors_over_two_levels_tell_one_bit():
    gain = InformationGain.of(SymmetricProbit(0.01, np.empty(0)).spelled_out)
    assert_allclose(gain(np.zeros(1), np.array([1e4])), np.log(2), rtol=1e-3)


def test_many_at_once_equal_one_at_a_time():
    gain, rng = InformationGain.of(CASES["ties"]), np.random.default_rng(0)
    mean, var = rng.normal(size=40_000), rng.uniform(0, 2, 40_000)
    some = slice(32_760, 32_780)  # across the edge of a block
    assert_allclose(gain(mean, var)[some], gain(mean[some], var[some]), rtol=1e-9)
