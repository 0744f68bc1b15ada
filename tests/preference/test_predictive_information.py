"""What one answer tells of another, against the mutual information by its definition."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.preference.predictive_information import (
    answer_information,
    pair_predictive_information,
)
from ordinalgp.preference.symmetric_thresholds import SymmetricProbit

CASES = {
    "wins": SymmetricProbit(0.5, np.empty(0)).spelled_out,
    "ties": SymmetricProbit(0.3, np.array([0.8]), 3).spelled_out,
    "five grades, biased": SymmetricProbit(0.2, np.array([0.3, 1.1]), 5, 0.4, True).spelled_out,
}


def mutual_information(likelihood: OrdinalProbit, mean: np.ndarray, C: np.ndarray) -> float:
    """Of the answers about two jointly normal u, from the probabilities of all boxes."""
    b = np.concatenate([[-40.0], likelihood.thresholds, [40.0]])
    normal = stats.multivariate_normal(mean, C + likelihood.noise**2 * np.eye(2), seed=0)
    below = np.array([[normal.cdf([x, z]) for z in b] for x in b])
    joint = np.diff(np.diff(below, axis=0), axis=1)
    apart = joint.sum(axis=1)[:, None] * joint.sum(axis=0)
    return float(np.sum(joint * np.log(joint / apart)))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mean", [(0.0, 0.3), (0.7, -0.4)])
def test_it_is_the_mutual_information_of_weakly_related_answers(name, mean):
    likelihood, var, c = CASES[name], np.array([0.8, 0.5]), 0.03
    J = answer_information(likelihood, np.array(mean), var)
    # The next order is odd in c: it leaves the mean of both signs.
    truth = [mutual_information(likelihood, mean, np.diag(var) + s) for s in off_diagonal(c)]
    assert_allclose(c**2 * J.prod() / 2, np.mean(truth), rtol=0.02)


def off_diagonal(c: float) -> list[np.ndarray]:
    return [np.array([[0, x], [x, 0]]) for x in (c, -c)]


def test_an_answer_that_is_known_tells_nothing():
    for likelihood in CASES.values():
        J = answer_information(likelihood, np.array([-1e3, 60.0, 1e3]), np.array([1.0, 0.0, 1e-9]))
        assert_allclose(J, 0, atol=1e-100)


def test_nothing_but_the_noise_limits_what_an_answer_tells():
    """At a threshold of two levels P = 1/2 and dP/dmean is the density of N(0, var + noise^2)."""
    likelihood = CASES["wins"]
    s2 = likelihood.noise**2 + 0.7
    J = answer_information(likelihood, np.zeros(1), np.array([0.7]))
    assert_allclose(J, 4 * stats.norm.pdf(0, scale=np.sqrt(s2)) ** 2)


def test_blocks_do_not_show(monkeypatch):
    mean, var = np.random.default_rng(0).normal(size=(2, 50))
    whole = answer_information(CASES["ties"], mean, var**2)
    monkeypatch.setattr("ordinalgp.preference.predictive_information._BLOCK", 7)
    assert_allclose(answer_information(CASES["ties"], mean, var**2), whole, rtol=1e-15)


def test_all_pairs_are_summed():
    rng = np.random.default_rng(1)
    root = rng.normal(size=(5, 5))
    C, J = root @ root.T, rng.uniform(size=(5, 5))
    J += J.T
    M = pair_predictive_information(J, C)
    a = rng.normal(size=5)
    total = sum(J[i, j] * (a @ (C[i] - C[j])) ** 2 for i in range(5) for j in range(i))
    assert_allclose(a @ M @ a, total)
