"""The quasi-Newton search: steps within bounds, updates, and where it ends."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize, rosen, rosen_der

from ordinalgp.core.quasi_newton import definite, minimise, step_within, updated


def definite_matrix(rng, p, spread=2.0):
    basis, _ = np.linalg.qr(rng.normal(size=(p, p)))
    return (basis * 10.0 ** rng.uniform(-spread, spread, p)) @ basis.T


def best_of_all_faces(B, g, lower, upper):
    """The minimum of g'd + d'Bd/2 in a box: the best point of all faces that is inside."""
    best, value = None, np.inf
    for face in product((-1, 0, 1), repeat=len(g)):
        face = np.array(face)
        d = np.where(face < 0, lower, upper).astype(float)
        free = face == 0
        if free.any():
            pull = g[free] + B[np.ix_(free, ~free)] @ d[~free]
            d[free] = -np.linalg.solve(B[np.ix_(free, free)], pull)
        if np.all((d >= lower - 1e-12) & (d <= upper + 1e-12)):
            here = g @ d + 0.5 * d @ B @ d
            if here < value:
                best, value = d, here
    return best


@pytest.mark.parametrize("seed", range(40))
def test_steps_within_bounds_are_the_best_there(seed):
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 6))
    B, g = definite_matrix(rng, p), rng.normal(size=p) * 10.0 ** rng.uniform(-1, 1)
    lower, upper = -rng.uniform(0, 1, p), rng.uniform(0, 1, p)
    lower[rng.random(p) < 0.3] = 0.0  # at the bound already
    assert_allclose(
        step_within(B, g, lower, upper), best_of_all_faces(B, g, lower, upper), atol=1e-7
    )


def test_a_step_without_bounds_is_newtons():
    rng = np.random.default_rng(0)
    B, g = definite_matrix(rng, 5, 1.0), rng.normal(size=5)
    wide = np.full(5, 1e6)
    assert_allclose(step_within(B, g, -wide, wide), -np.linalg.solve(B, g))


@pytest.mark.parametrize("bend", [1.0, -2.0, 0.0])
def test_updates_stay_definite_and_know_the_curvature_along_the_step(bend):
    rng = np.random.default_rng(1)
    B, step = definite_matrix(rng, 4, 1.0), rng.normal(size=4)
    change = bend * B @ step + (0.1 * rng.normal(size=4) if bend > 0 else 0.0)
    new = updated(B, step, change)
    assert np.linalg.eigvalsh(new).min() > 0
    if bend > 0:
        assert_allclose(new @ step, change)
    else:  # not believed, but the curvature falls as far as the damping allows
        assert_allclose(step @ new @ step, 0.2 * step @ B @ step)


def test_definite_keeps_definite_matrices_and_turns_others_up():
    rng = np.random.default_rng(2)
    B = definite_matrix(rng, 4, 1.0)
    assert_allclose(definite(B), B)
    values, vectors = np.linalg.eigh(B)
    turned = (vectors * (values * [1, -1, 1, -1])) @ vectors.T
    assert_allclose(definite(turned), B)
    assert np.linalg.eigvalsh(definite(np.zeros((3, 3)))).min() > 0


class Counted:
    """An objective that notes where it is asked, and with what precision."""

    def __init__(self, value, slope):
        self.value, self.slope, self.places, self.precisions = value, slope, [], []

    def __call__(self, x, precision):
        self.places.append(x.copy())
        self.precisions.append(precision)
        return self.value(x), self.slope(x)


def search(objective, x, known, bounds, steps=200, gain=1e-10, curvature=lambda: None):
    first = objective(x, 1e-3)
    return minimise(objective, x, first, known, curvature, bounds, steps=steps, gain=gain)


def test_a_parabola_whose_curvature_is_known_takes_one_step():
    B = definite_matrix(np.random.default_rng(3), 4, 0.5)
    top = np.full(4, 0.3)
    parabola = Counted(lambda x: 0.5 * (x - top) @ B @ (x - top), lambda x: B @ (x - top))
    end = search(parabola, np.zeros(4), B, np.tile([-2.0, 2.0], (4, 1)))
    assert end.end == "top"
    assert len(parabola.places) == 2
    assert_allclose(parabola.places[-1], top, atol=1e-8)


@pytest.mark.parametrize("upper", [3.0, 0.5])
def test_the_valley_of_rosenbrock_ends_where_scipy_ends(upper):
    bounds = np.tile([-2.0, upper], (4, 1))
    valley = Counted(rosen, rosen_der)
    found = search(valley, np.array([-1.2, 0.4, -0.5, 0.2]), np.eye(4), bounds, gain=1e-14)
    true = minimize(rosen, np.zeros(4), jac=rosen_der, method="L-BFGS-B", bounds=bounds, tol=1e-14)
    last = min(valley.places, key=rosen)
    assert found.end == "top"
    assert_allclose(rosen(last), true.fun, atol=1e-9)
    assert_allclose(last, true.x, atol=1e-4)
    assert np.all((np.array(valley.places) >= -2.0) & (np.array(valley.places) <= upper))
    # It learns the curvature on its way; at a bound there is nothing to learn.
    if upper > 1:
        assert_allclose(np.linalg.eigvalsh(found.curvature).max(), 1800, rtol=0.3)


def test_curvatures_that_are_told_on_the_way_shorten_it():
    wide = np.tile([-9.0, 9.0], (3, 1))
    A = np.array([[1.0, 0.5, 0.0], [0.0, 2.0, -0.7], [0.4, 0.0, 1.5]])
    alone, told = (
        Counted(lambda x: np.cosh(A @ x).sum(), lambda x: A.T @ np.sinh(A @ x)) for _ in "ab"
    )
    asked, start = [], np.array([3.0, -2.0, 2.5])

    def second(x):
        return (A.T * np.cosh(A @ x)) @ A

    def curvature():
        asked.append(told.places[-1])
        return second(told.places[-1])

    for bowl, how in ((alone, {}), (told, {"curvature": curvature})):
        end = search(bowl, start, second(start), wide, **how)
        assert end.end == "top"
        assert_allclose(bowl.places[-1], 0.0, atol=1e-4)
    assert len(told.places) < len(alone.places)
    # It asks far from where it was told last, and there only.
    assert asked
    for old, new in zip([start, *asked[:-1]], asked, strict=True):
        assert np.abs(new - old).max() > 0.7


def test_coarse_slopes_at_first_and_fine_ones_at_the_end():
    valley = Counted(rosen, rosen_der)
    search(valley, np.array([-1.2, 0.4]), np.eye(2), np.tile([-2.0, 2.0], (2, 1)))
    assert max(valley.precisions) == 1e-2
    assert valley.precisions[-1] < 1e-5


def test_it_steps_back_from_where_the_objective_fails():
    def value(x):
        return -np.log(0.5 - x[0]) - 4.0 * x[0] if x[0] < 0.45 else 1e3

    def slope(x):
        return np.array([1 / (0.5 - x[0]) - 4.0]) if x[0] < 0.45 else np.zeros(1)

    barrier = Counted(value, slope)
    end = search(barrier, np.array([-2.0]), np.eye(1) * 1e-3, np.array([[-5.0, 5.0]]))
    assert end.end == "top"
    assert_allclose(min(barrier.places, key=value), 0.25, atol=1e-4)


def test_it_says_when_steps_run_out_and_when_there_is_no_way_down():
    valley = Counted(rosen, rosen_der)
    wide = np.tile([-2.0, 2.0], (2, 1))
    assert search(valley, np.array([-1.2, 1.0]), np.eye(2), wide, steps=3).end == "steps"
    wrong = Counted(rosen, lambda x: -rosen_der(x))
    assert search(wrong, np.array([-1.2, 1.0]), np.eye(2), wide).end == "line search"
