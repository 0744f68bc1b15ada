"""Weights of mixtures against their optimality conditions and a general optimiser."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from ordinalgp.stacking.weights import mixture_weights, optimality_gap, sharpened, sharpness

SHRINKAGES = [0.0, 1e-3, 1.0, 15.0, 1e4]


def problem(seed, n=80, K=5):
    rng = np.random.default_rng(seed)
    return rng.beta(0.7, 0.7, size=(n, K)) ** 2, rng.integers(0, 4, n).astype(float)


def objective(w, proba, counts, shrinkage, prior=None):
    """The definition, written out."""
    prior = np.full(len(w), 1 / len(w)) if prior is None else prior
    divergence = sum(a * np.log(a / b) for a, b in zip(w, prior, strict=True) if a > 0)
    return float(counts @ np.log(proba @ w)) - shrinkage * divergence


@pytest.mark.parametrize("shrinkage", SHRINKAGES)
@pytest.mark.parametrize("seed", range(3))
def test_against_a_general_optimiser(seed, shrinkage):
    proba, counts = problem(seed)
    w = mixture_weights(proba, counts, shrinkage)
    scale = counts.sum() + shrinkage
    found = minimize(
        lambda v: -objective(np.maximum(v, 1e-300), proba, counts, shrinkage) / scale,
        np.full(5, 0.2),
        method="SLSQP",
        bounds=[(1e-12, 1)] * 5,
        constraints={"type": "eq", "fun": lambda v: v.sum() - 1},
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert_allclose(w, found.x / found.x.sum(), atol=1e-4)
    ours = objective(w, proba, counts, shrinkage)
    assert ours >= objective(found.x / found.x.sum(), proba, counts, shrinkage) - 1e-6


@pytest.mark.parametrize("shrinkage", SHRINKAGES)
def test_optimality_conditions(shrinkage):
    rng = np.random.default_rng(0)
    for seed in range(20):
        n, K = int(rng.integers(1, 200)), int(rng.integers(1, 13))
        proba, counts = problem(seed, n, K)
        counts[0] = 1.0
        w = mixture_weights(proba, counts, shrinkage)
        assert_allclose(w.sum(), 1)
        assert np.all(w >= 0)
        # By central differences: no direction along the simplex leads upwards.
        here = objective(w, proba, counts, shrinkage)
        for k in range(K):
            towards = w + 1e-4 * (np.eye(K)[k] - w)
            assert objective(towards, proba, counts, shrinkage) <= here + 1e-6
        assert optimality_gap(proba, counts, shrinkage, w) < 1e-6 * (counts.sum() + shrinkage + 1)


def test_much_shrinkage_gives_equal_weights():
    proba, counts = problem(0)
    assert_allclose(mixture_weights(proba, counts, 1e9), 0.2, atol=1e-5)


def test_without_shrinkage_the_best_model_may_take_all():
    proba = np.column_stack([np.full(50, 0.9), np.full(50, 0.5), np.full(50, 0.1)])
    assert_allclose(mixture_weights(proba, np.ones(50), 0.0), [1, 0, 0], atol=1e-6)


@pytest.mark.parametrize("shrinkage", SHRINKAGES)
def test_equal_models_share_their_weight(shrinkage):
    proba, counts = problem(1)
    w = mixture_weights(np.column_stack([proba, proba[:, 0]]), counts, shrinkage)
    assert_allclose(w[0], w[-1], atol=1e-4)


@pytest.mark.parametrize("shrinkage", SHRINKAGES[1:])
def test_a_prior_weight_counts_as_copies_of_a_model(shrinkage):
    proba, counts = problem(2)
    w = mixture_weights(proba, counts, shrinkage, np.array([3.0, 1, 1, 2, 1]))
    copies = mixture_weights(proba[:, [0, 0, 0, 1, 2, 3, 3, 4]], counts, shrinkage)
    expected = [copies[:3].sum(), copies[3], copies[4], copies[5:7].sum(), copies[7]]
    assert_allclose(w, expected, atol=1e-4)
    prior = np.array([3.0, 1, 1, 2, 1])
    assert optimality_gap(proba, counts, shrinkage, w, prior) < 1e-6 * (counts.sum() + shrinkage)
    best = objective(w, proba, counts, shrinkage, prior / 8)
    for k in range(5):
        towards = w + 1e-4 * (np.eye(5)[k] - w)
        assert objective(towards, proba, counts, shrinkage, prior / 8) <= best + 1e-6


def test_much_shrinkage_gives_the_prior_weights():
    proba, counts = problem(0, K=2)
    w = mixture_weights(proba, counts, 1e9, np.array([3.0, 1.0]))
    assert_allclose(w, [0.75, 0.25], atol=1e-5)


def test_one_model_has_all_the_weight():
    assert_allclose(mixture_weights(np.array([[0.3], [0.2]]), np.ones(2), 15.0), [1.0])


def test_counts_are_copies():
    proba, counts = problem(2)
    copies = np.repeat(proba, counts.astype(int), axis=0)
    w = mixture_weights(proba, counts, 5.0)
    assert_allclose(mixture_weights(copies, np.ones(len(copies)), 5.0), w, atol=1e-6)


def test_probabilities_that_underflow():
    proba = np.array([[0.0, 0.0], [0.5, 0.0], [1e-320, 1e-310], [0.2, 0.9]])
    w = mixture_weights(proba, np.ones(4), 1.0)
    grid = np.linspace(1e-4, 1 - 1e-4, 9999)
    values = [objective(np.array([a, 1 - a]), proba[[1, 3]], np.ones(2), 1.0) for a in grid]
    assert_allclose(w[0], grid[np.argmax(values)], atol=2e-4)


def sharpness_problem(true, seed=0, n=4000):
    """Levels drawn from p^true, and the flatter probabilities p."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(4), n)
    q = p**true / np.sum(p**true, axis=1, keepdims=True)
    return p, np.array([rng.choice(4, p=row) for row in q])


def test_sharpness_finds_the_exponent_of_flattened_probabilities():
    p, codes = sharpness_problem(true=2.0)
    found = sharpness(p, codes, np.ones(len(p)))
    # Less than what the rows show, by the factor by which leave-one-out overstates it.
    assert_allclose(np.log(found), np.log(2.0) - 0.15, atol=0.06)


def test_sharpness_of_calibrated_and_of_too_sharp_probabilities_is_one():
    for true in (1.0, 0.5):
        p, codes = sharpness_problem(true)
        assert sharpness(p, codes, np.ones(len(p))) == 1.0


def test_sharpness_counts_copies_and_needs_rows():
    p, codes = sharpness_problem(3.0, n=60)
    copies = np.random.default_rng(1).integers(0, 4, 60)
    weighted = sharpness(p, codes, copies.astype(float))
    repeated = sharpness(
        np.repeat(p, copies, axis=0), np.repeat(codes, copies), np.ones(copies.sum())
    )
    assert_allclose(weighted, repeated, rtol=1e-3)
    assert sharpness(p[:2], codes[:2], np.ones(2)) < weighted


def test_sharpened_probabilities():
    p = np.array([[0.2, 0.8, 0.0], [1.0, 0.0, 0.0]])
    assert_allclose(sharpened(p, 2.0), [[0.04 / 0.68, 0.64 / 0.68, 0.0], [1.0, 0.0, 0.0]])
    assert_allclose(sharpened(p, 1.0), p)
    tiny = np.array([[1e-200, 2e-200]])
    assert_allclose(sharpened(tiny / tiny.sum(), 5.0), [[1 / 33, 32 / 33]])
