"""Warm starts extrapolated along a search."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ordinalgp.core.gaussian import Sites
from ordinalgp.core.problem import Start
from ordinalgp.core.trail import Trail


def linear_start(theta):
    """Sites and weights that are linear in two hyperparameters."""
    tau = 5.0 + theta @ np.array([[1.0, 0.5, -0.2], [0.3, -1.0, 0.1]])
    nu = theta @ np.array([[2.0, -0.5, 0.7], [0.0, 1.0, 0.4]])
    return Start(Sites(tau, nu), 2.0 * nu)


def trail_of(places):
    trail = Trail()
    for place in places:
        trail.add(place, linear_start(place))
    return trail


def test_linear_sites_are_extrapolated_along_the_steps():
    places = np.array([[0.0, 0.0], [0.5, 0.0], [0.5, 0.5]])
    trail, best = trail_of(places), places[-1]
    theta = np.array([0.8, 0.9])
    found = trail.start_at(theta, best, linear_start(best))
    true, old = linear_start(theta), linear_start(best)
    for name in ("tau", "nu"):
        error = getattr(found.sites, name) - getattr(true.sites, name)
        moved = getattr(true.sites, name) - getattr(old.sites, name)
        assert np.abs(error).max() < 0.1 * np.abs(moved).max()
    assert_allclose(found.weights, 2.0 * found.sites.nu, rtol=1e-12)


def test_nothing_is_said_about_directions_without_steps():
    places = np.array([[0.0, 0.0], [0.5, 0.0]])
    trail = trail_of(places)
    best = linear_start(places[-1])
    found = trail.start_at(np.array([0.5, 0.7]), places[-1], best)
    assert_allclose(found.sites.tau, best.sites.tau, rtol=1e-12)


@pytest.mark.parametrize("far", [[3.0, 0.5], [0.5, -2.0]])
def test_far_moves_start_from_the_best(far):
    places = np.array([[0.0, 0.0], [0.5, 0.5]])
    trail = trail_of(places)
    best = linear_start(places[-1])
    assert trail.start_at(np.array(far), places[-1], best) is best


def test_precisions_stay_positive():
    trail = Trail()
    one, two = (Start(Sites(np.array([t, 1.0]), np.zeros(2)), np.zeros(2)) for t in (1.0, 0.3))
    trail.add(np.array([0.0]), one)
    trail.add(np.array([0.5]), two)
    found = trail.start_at(np.array([1.0]), np.array([0.5]), two)
    assert found.sites.tau.min() > 0


def test_other_starts_and_first_evaluations_are_left_alone():
    trail = Trail()
    assert trail.start_at(np.zeros(1), None, None) is None
    trail.add(np.zeros(1), "other")
    assert trail.start_at(np.ones(1), np.zeros(1), "other") == "other"


def test_the_last_ten_answers_are_kept_and_others_of_another_size_forgotten():
    trail = trail_of(np.linspace(0.0, 1.0, 30).reshape(15, 2))
    assert trail.places.shape == (10, 2)
    assert_allclose(trail.places[-1], [28 / 29, 1.0])
    assert_allclose(trail.answers[-1, :3], linear_start(trail.places[-1]).sites.tau)
    trail.add(np.zeros(2), Start(Sites(np.ones(2), np.ones(2)), np.ones(2)))
    assert len(trail.places) == len(trail.answers) == 1
