"""The search: which evaluations it believes."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ordinalgp.core.search import Search, Step
from ordinalgp.runtime.progress import silent


@dataclass(frozen=True, eq=False)
class Hill:
    """-(x - 1)^2 in one parameter, with a false peak where inference does not converge."""

    edge: float
    """above it inference does not converge, and reports values that are far too high"""
    theta = np.zeros(1)
    bounds = np.array([[-5.0, 5.0]])

    def relaxed(self, precision=None):
        return self

    def evaluate(self, theta, start=None, workspace=None):
        x = float(theta[0])
        if x > self.edge:
            return Step(100.0 + x, np.ones(1), None, converged=False)
        return Step(-((x - 1.0) ** 2), np.array([-2.0 * (x - 1.0)]), None)


@pytest.mark.parametrize("start", [0.0, -4.0])
def test_a_value_that_has_not_converged_is_no_maximum(start):
    found = Search("fmin_l_bfgs_b", None, silent).search(Hill(1.5), [np.array([start])])
    assert_allclose(found.theta, 1.0, atol=1e-3)
    assert_allclose(found.value, 0.0, atol=1e-5)
    assert found.converged
    assert max(found.path) <= 0.0


def test_a_false_start_gives_way_to_any_value_that_has_converged():
    """It begins where nothing converges; what it says there is above all that is true."""

    def optimizer(value_and_slope, start, bounds):
        assert start[0] > 1.5
        value_and_slope(start)
        value_and_slope(np.array([-3.0]))
        return np.array([-3.0]), value_and_slope(np.array([4.0]))[0]

    found = Search(optimizer, None, silent).search(Hill(1.5), [np.array([3.0])])
    assert_allclose(found.theta, -3.0)
    assert found.value == -16.0
    assert found.converged


def test_a_search_without_any_convergence_says_so():
    found = Search("fmin_l_bfgs_b", None, silent).search(Hill(-9.0), [np.zeros(1)])
    assert not found.converged
    assert found.message == "inference converged nowhere"
    assert np.isfinite(found.value)
