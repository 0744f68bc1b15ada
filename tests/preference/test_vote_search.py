"""The search for hyperparameters of many comparisons per item, against the general one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import fmin_l_bfgs_b

from ordinalgp import PreferenceGP
from ordinalgp.core.objectives import laplace_evidence
from ordinalgp.preference import vote_search
from ordinalgp.preference.vote_search import counted, has_many_votes


def votes(n=12, m=900, seed=0, levels=3, bias=0.0):
    rng = np.random.default_rng(seed)
    f = rng.normal(size=n)
    left = rng.integers(0, n, m)
    right = (left + rng.integers(1, n, m)) % n
    u = f[left] - f[right] + bias + rng.normal(size=m)
    cuts = {2: [0.0], 3: [-0.4, 0.4], 4: [-1.0, 0.0, 1.0]}[levels]
    return np.column_stack([left, right]), np.digitize(u, cuts)


def fit(pairs, outcomes, levels, **options):
    model = PreferenceGP("independent", levels=list(range(levels)), **options)
    return model.fit(12, pairs, outcomes)


def general(obj_func, theta, bounds):
    """A search of the user's own: it takes the general way."""
    found = fmin_l_bfgs_b(lambda t: obj_func(t), theta, bounds=bounds, factr=10, pgtol=1e-9)
    return found[0], found[1]


@pytest.mark.parametrize("levels", [2, 3, 4])
@pytest.mark.parametrize("inference", ["ep", "laplace"])
@pytest.mark.parametrize("position_bias", ["none", "learned"])
def test_the_maximum_is_that_of_the_general_search(levels, inference, position_bias):
    data = *votes(levels=levels, bias=0.3 * (position_bias == "learned")), levels
    options = {"inference": inference, "position_bias": position_bias}
    fast = fit(*data, **options)
    slow = fit(*data, optimizer=general, **options)
    assert has_many_votes(fast._result.model.task)
    value = slow.log_marginal_likelihood_value_
    assert_allclose(fast.log_marginal_likelihood_value_, value, atol=2e-5)
    assert fast.log_marginal_likelihood_value_ < value + 1e-6
    assert len(fast.evidence_path_) < len(slow.evidence_path_)
    assert_allclose(fast.noise_, slow.noise_, rtol=5e-3)
    assert fast.converged_


def test_counted_evidence_and_gradient_are_those_of_single_comparisons():
    model = fit(*votes(), 3, inference="laplace", position_bias="learned")
    task = model._result.model.task
    theta = task.theta + np.array([0.2, -0.1, 0.3])
    single, together = task.evaluate(theta), counted(task).evaluate(theta)
    assert_allclose(together.value, single.value, rtol=1e-12)
    assert_allclose(together.gradient, single.gradient, rtol=1e-6, atol=1e-7)


def test_metric_is_near_the_curvature_of_the_evidence():
    model = fit(*votes(m=4000), 3, inference="laplace", position_bias="learned")
    task = model._result.model.task
    metric = vote_search.Mode.of(task, counted(task)).metric()
    h, curvature = 1e-4, []
    for step in h * np.eye(len(metric)):
        up, down = (task.evaluate(task.theta + sign * step).gradient for sign in (1, -1))
        curvature.append(-(up - down) / (2 * h))
    relative = np.linalg.solve(metric, np.array(curvature))
    values = np.linalg.eigvals(relative)
    assert np.all((values > 0.5) & (values < 2.0))


def test_fixed_noise_and_two_levels_leave_nothing_to_search():
    model = fit(*votes(levels=2), 2, noise=1.0)
    assert model.noise_ == 1.0
    assert len(model.evidence_path_) == 0


def test_fixed_noise_with_ties():
    fast, slow = (fit(*votes(), 3, noise=0.7, optimizer=o) for o in ("fmin_l_bfgs_b", general))
    assert_allclose(fast.margins_, slow.margins_, rtol=1e-3)


def test_few_votes_take_the_general_way():
    pairs, outcomes = votes(m=100)
    assert not has_many_votes(fit(pairs, outcomes, 3)._result.model.task)


def test_many_votes_of_many_items_are_dense():
    rng = np.random.default_rng(0)
    n, m = 400, 20_000
    f, left = rng.normal(size=n), rng.integers(0, n, m)
    right = (left + rng.integers(1, n, m)) % n
    pairs, outcome = np.column_stack([left, right]), f[left] > f[right] + rng.normal(size=m)
    assert PreferenceGP("independent").fit(n, pairs, outcome).solver_ == "dense"
    few = slice(0, 3000)
    sparse = PreferenceGP("independent", noise=0.7).fit(n, pairs[few], outcome[few])
    assert sparse.solver_ == "sparse"


def test_evidence_of_laplace_is_the_same_function():
    task = fit(*votes(), 3, inference="laplace")._result.model.task
    together = counted(task)
    problem = together.problem()
    value = laplace_evidence(problem, together.infer(problem)).value
    assert_allclose(value, task.value_and_posterior()[0], rtol=1e-12)
