"""Evidence against exact box probabilities, every gradient against central differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from ordinalgp.core.inference import infer
from ordinalgp.core.likelihoods import Gaussian, OrdinalProbit
from ordinalgp.core.objectives import ep_evidence, laplace_evidence
from ordinalgp.core.ordinal_logit import OrdinalLogit
from ordinalgp.core.problem import Problem
from ordinalgp.core.projections import Basis, Differences, Identity, RowSelection, SparseProjection
from ordinalgp.core.variational_bound import ep_bound

H = 1e-5
N = 9
OBJECTIVES = {
    "laplace": ("mode", laplace_evidence),
    "ep": ("cavity", ep_evidence),
    "bound": ("cavity", ep_bound),
}
RNG = np.random.default_rng(11)
PROJECTIONS = {
    "identity": Identity(N),
    "selected": RowSelection(np.array([7, 2, 0, 5]), N),
    "repeated": RowSelection(RNG.integers(0, N, 14), N),
    "differences-few": Differences(np.arange(5), np.arange(5) + 3, N),
    "differences-many": Differences(np.r_[np.zeros(8, int), 3, 3], np.r_[1:9, 5, 5], N),
    "differences-more-than-items": Differences(*np.triu_indices(N, 1), N),
    "sparse": SparseProjection(sparse.csr_array(RNG.random((6, N)) * (RNG.random((6, N)) < 0.4))),
    "basis-tall": Basis(RNG.normal(size=(20, N)) / 3),
}
LIKELIHOODS = {
    "probit": OrdinalProbit.from_thresholds([-0.4, 0.3, 0.9], 0.6),
    "logit": OrdinalLogit.from_thresholds([-0.4, 0.3, 0.9], 0.6),
    "gaussian": Gaussian(0.7),
}


def covariance(seed=0):
    X = np.random.default_rng(seed).normal(size=(N, 2))
    return 1.3 * np.exp(-((X[:, None] - X) ** 2).sum(-1) / 2) + 0.05 * np.eye(N)


def make_problem(projection, likelihood, *, K=None, prior_mean=True):
    rng = np.random.default_rng(5)
    m = projection.shape[0]
    y = rng.normal(size=m) if isinstance(likelihood, Gaussian) else rng.integers(0, 4, m)
    counts = rng.choice([1.0, 1.0, 2.0, 1.5], m)
    h = 0.3 * rng.normal(size=N) if prior_mean else None
    return Problem(covariance() if K is None else K, projection, y, likelihood, counts, h)


def evaluate(problem, name, start=None):
    smoothing, objective = OBJECTIVES[name]
    found = infer(problem, smoothing=smoothing, max_sweeps=500, tol=1e-11, start=start)
    return objective(problem, found)


def with_changes(problem, *, K=None, likelihood=None, prior_mean=None):
    return Problem(
        problem.K if K is None else K,
        problem.projection,
        problem.y,
        problem.likelihood if likelihood is None else likelihood,
        problem.counts,
        problem.prior_mean if prior_mean is None else prior_mean,
    )


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(
    ("likelihood", "projection"),
    # What a projection does is the same for all likelihoods; the logit's quadrature is slow.
    [
        (likelihood, projection)
        for likelihood in LIKELIHOODS
        for projection in PROJECTIONS
        if likelihood != "logit" or projection in ("identity", "differences-many", "basis-tall")
    ],
)
def test_gradients_are_slopes(objective, likelihood, projection):
    problem = make_problem(PROJECTIONS[projection], LIKELIHOODS[likelihood])
    at = evaluate(problem, objective)
    near = at.approximation.start  # for problems that differ by H: the same answer, but sooner
    assert_allclose(at.d_kernel, at.d_kernel.T, atol=1e-10)
    rng = np.random.default_rng(1)
    for _ in range(3):
        E = rng.normal(size=(N, N))
        E = E + E.T
        up, down = (
            evaluate(with_changes(problem, K=problem.K + s * H * E), objective, near).value
            for s in (1, -1)
        )
        assert_allclose(np.sum(at.d_kernel * E), (up - down) / (2 * H), rtol=1e-6, atol=1e-7)
    theta = problem.likelihood.theta
    for p in range(len(theta)):
        shift = H * np.eye(len(theta))[p]
        up, down = (
            evaluate(
                with_changes(
                    problem, likelihood=problem.likelihood.clone_with_theta(theta + s * shift)
                ),
                objective,
                near,
            ).value
            for s in (1, -1)
        )
        assert_allclose(at.d_likelihood[p], (up - down) / (2 * H), rtol=1e-6, atol=1e-7)


def test_small_weights_have_right_slopes_or_say_so():
    """Without a cavity the slope is wrong, and the inference does not call itself converged."""
    right, refused = 0, []
    for weight in (0.1, 0.3, 0.6, 1.0):
        for noise in (0.05, 0.3, 1.0):
            for seed in range(2):
                rng = np.random.default_rng(seed)
                likelihood = OrdinalProbit.from_thresholds([-0.4, 0.3, 0.9], noise)
                y, K = rng.integers(0, 4, N), covariance(seed)
                problem = Problem(K, Identity(N), y, likelihood, np.full(N, weight))
                at = evaluate(problem, "ep")
                near = at.approximation.start
                up, down = (
                    evaluate(with_changes(problem, K=K + s * H * K), "ep", near).value
                    for s in (1, -1)
                )
                off = abs(np.sum(at.d_kernel * K) - (up - down) / (2 * H))
                if at.approximation.converged:
                    assert off <= 1e-6 * (1 + abs(up - down) / (2 * H)), (weight, noise, seed, off)
                    right += 1
                else:
                    assert not at.approximation.has_cavities
                    assert weight < 1
                    refused.append(off)
    assert right >= 8
    assert max(refused) > 0.01  # what would have been called right
