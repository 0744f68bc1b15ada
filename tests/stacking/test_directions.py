"""Directions of the inputs learned from fits, against slopes of predictions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF

from ordinalgp import OrdinalGPClassifier, StackedOrdinalGP
from ordinalgp.kernels import Projected
from ordinalgp.stacking.default_models import DIRECTED
from ordinalgp.stacking.directions import learned_projection, with_directions
from ordinalgp.stacking.training import Rows


def rule(n=80, d=4, seed=0):
    """Levels that depend on the sum of the first two of ``d`` features alone."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.digitize(X[:, 0] + X[:, 1], [-1.0, 0.3])


def rows_of(X, y, weights=None):
    return Rows(X, y, np.ones(len(y)) if weights is None else weights, np.unique(y))


def identity(d=4):
    return OrdinalGPClassifier(Projected(RBF(2.0), np.eye(d)))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_projection_is_the_fourth_root_of_mean_squared_slopes(weighted):
    """Slopes of the posterior mean of the latent function by central differences."""
    X, y = rule()
    P = np.random.default_rng(1).normal(size=(4, 4))
    weights = np.arange(80) % 3 + 1.0 if weighted else np.ones(80)
    model = OrdinalGPClassifier(Projected(RBF(3.0), P)).fit(X, y, sample_weight=weights)
    h = 1e-4 * np.eye(4)
    slopes = [
        model.latent_mean_and_variance(X + e)[0] - model.latent_mean_and_variance(X - e)[0]
        for e in h
    ]
    g = np.array(slopes).T / 2e-4
    G = (g.T * weights) @ g
    found = learned_projection(model._result.model)
    fourth = np.linalg.matrix_power(found, 4)
    assert_allclose(fourth / np.trace(fourth), G / np.trace(G), atol=1e-6)
    assert_allclose(found, found.T)
    assert_allclose(np.sum(found**2), 4.0)


def test_the_direction_of_a_rule_is_found():
    X, y = rule()
    model = with_directions(identity(), rows_of(X, y), rounds=3)
    sizes, vectors = np.linalg.eigh(model.kernel.projection)
    assert sizes[-1] > 3 * sizes[-2]
    assert abs(vectors[:, -1] @ [1, 1, 0, 0]) > 0.98 * np.sqrt(2)


def test_rounds_go_on_from_a_known_kernel():
    X, y = rule()
    rows = rows_of(X, y)
    twice = with_directions(identity(), rows, rounds=2)
    once = with_directions(identity(), rows, rounds=1)
    more = with_directions(identity(), rows, rounds=1, start=once.kernel)
    assert_allclose(more.kernel.projection, twice.kernel.projection)
    assert with_directions(identity(), rows, rounds=0, start=once.kernel).kernel == once.kernel


def test_levels_that_do_not_depend_on_the_inputs_leave_them_as_they_are():
    X, y = np.zeros((12, 4)), np.arange(12) % 2
    assert_allclose(
        with_directions(identity(), rows_of(X, y), rounds=2).kernel.projection, np.eye(4)
    )


def test_a_mixture_learns_directions_of_all_rows_after_those_of_a_subset():
    X, y = rule(n=240, d=3)
    model = StackedOrdinalGP(random_state=0)
    small = {**vars(model._settings), "full_rows": 100, "screen_rows": 80}
    model._settings = type(model._settings)(**small)
    model.fit(X, y)
    kept = [name for name in DIRECTED if model.weights_[name] > 0]
    assert kept
    found = {model.models_[name].kernel.projection.tobytes() for name in kept}
    assert len(found) == 1  # both models have the same directions
    P = model.models_[kept[0]].kernel.projection
    inside = Rows(model._result.model.inputs.seen(X, "standardised"), y, np.ones(240), np.unique(y))
    start = Projected(RBF(np.sqrt(3)), np.eye(3))
    alone = with_directions(model.models_[kept[0]].__class__(start), inside, 4).kernel.projection
    assert_allclose(P / np.linalg.norm(P), alone / np.linalg.norm(alone), atol=0.1)
