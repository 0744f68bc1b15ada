"""The variational bound of App. C of [Chu05]_ at EP's posterior, with its whole gradient.

The paper differentiates with the posterior q held fixed and neglects that EP moves q with the
hyperparameters. That would be exact if q maximised the bound; EP's q does not quite, and a
search that is told a slightly wrong slope stops early. The remainder is the bound's slope in
the marginals of q times their movement, which follows from EP's fixed point by one linear
solve (iterative: each step costs two products with the n x n posterior covariance).
"""

from functools import partial

import numpy as np
from scipy.sparse.linalg import LinearOperator, gmres

from ordinalgp._typing import FloatArray
from ordinalgp.core.likelihoods import ExpectedLog, expected_log, fourth_derivative, variance_slopes
from ordinalgp.core.objectives import Evaluation, LowRankMinusMatrix, Slopes, UpperTriangle
from ordinalgp.core.problem import Approximation, Problem
from ordinalgp.core.projections import sandwich
from ordinalgp.core.truncated_normal import hermite


def ep_bound(problem: Problem, found: Approximation) -> Evaluation:
    """F of eq. (27), a lower bound on the log evidence, and its total gradient."""
    counts = problem.counts
    expected = expected_log(problem.likelihood, problem.y, found.marginal.mean, found.marginal.var)
    value = counts @ expected.value - _divergence(problem, found)
    return Evaluation(float(value), found, partial(_slopes, problem, found, expected))


def _slopes(problem: Problem, found: Approximation, expected: ExpectedLog) -> Slopes:
    R = found.posterior.inverse()
    moved_K, moved_theta = _remainder(problem, found, expected, R)
    G = LowRankMinusMatrix.of(R, found.posterior.weights).full()  # eq. (28); overwrites R
    G += moved_K
    return UpperTriangle(G), expected.d_theta @ problem.counts + moved_theta


def bound_value(problem: Problem, found: Approximation, order: int = 32) -> float:
    """F alone, without the gradient: E_q[log p(y|u)] by quadrature, minus KL(q || prior)."""
    nodes, log_weights = hermite(order)
    u = found.marginal.mean + nodes[:, None] * np.sqrt(found.marginal.var)
    flat, ys = u.ravel(), np.tile(problem.y, order)
    point = problem.likelihood.log_expectation(ys, flat, np.zeros_like(flat)).value
    fit = np.exp(log_weights) @ point.reshape(u.shape) @ problem.counts
    return float(fit - _divergence(problem, found))


def _divergence(problem: Problem, found: Approximation) -> float:
    """KL(q || prior): half of log |I + P T| - trace(T cov(u)) + (mean - h)' K^-1 (mean - h)."""
    posterior = found.posterior
    trace = (problem.counts * found.sites.tau) @ found.marginal.var
    shift = posterior.weights @ problem.offset(posterior.mean)
    return float(posterior.half_log_det - 0.5 * trace + 0.5 * shift)


def _site_response(problem: Problem, found: Approximation) -> tuple[FloatArray, FloatArray]:
    """Slopes of sites (nu, tau) in their marginals (mean, var), (M, 2, 2), and theta, (p, M, 2).

    They follow from the fixed point: marginal moments = tilted moments at the cavity.
    """
    m, v = found.at.mean, found.at.var
    s = found.smoothed
    h = 1e-4 * np.sqrt(-1 / np.minimum(s.d2, -1e-12))
    by_var = variance_slopes(s, fourth_derivative(problem.likelihood, problem.y, m, v, h))
    d1_var, d2_var = by_var.d1[0], by_var.d2[0]
    # Tilted mean m + v d1 and variance v + v^2 d2, differentiated in (m, v).
    jacobian = np.empty((len(m), 2, 2))
    jacobian[:, 0] = np.stack([1 + v * s.d2, s.d1 + v * d1_var], axis=1)
    jacobian[:, 1] = np.stack([v**2 * s.d3, 1 + 2 * v * s.d2 + v**2 * d2_var], axis=1)
    to_cavity = np.linalg.inv(jacobian)
    cavity = _natural_slope(m, v)
    theta = problem.theta_derivatives(found)
    tilted = np.stack([v * theta.d1, v**2 * theta.d2], axis=-1)
    back = cavity @ to_cavity
    by_marginal = _natural_slope(found.marginal.mean, found.marginal.var) - back
    return by_marginal, np.einsum("mij,pmj->pmi", back, tilted)


def _natural_slope(mean: FloatArray, var: FloatArray) -> FloatArray:
    """Derivative of (mean/var, 1/var) in (mean, var), shape (M, 2, 2)."""
    slope = np.zeros((len(mean), 2, 2))
    slope[:, 0, 0] = 1 / var
    slope[:, 0, 1] = -mean / var**2
    slope[:, 1, 1] = -1 / var**2
    return slope


def _remainder(
    problem: Problem, found: Approximation, expected: ExpectedLog, R: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The part of the gradient in K and in theta that the movement of q adds."""
    K, A, counts = problem.K, problem.projection, problem.counts
    tau, nu = found.sites.tau, found.sites.nu
    mean = found.marginal.mean
    # Slope of the bound in the marginals of q: zero if q maximised it.
    slope = np.concatenate(
        [counts * (expected.d_mean - nu + tau * mean), counts * (expected.d_var + tau / 2)]
    )
    covariance = sandwich(A, K - K @ R @ K)
    by_marginal, by_theta = _site_response(problem, found)

    def to_sites(x: FloatArray) -> FloatArray:
        """Pull (mean, var) sensitivities back to those of (nu, tau), shape (M, 2)."""
        x_mean, x_var = np.split(x, 2)
        d_nu = counts * (covariance @ x_mean)
        return np.stack([d_nu, -mean * d_nu - counts * ((covariance**2) @ x_var)], axis=1)

    def residual(x: FloatArray) -> FloatArray:
        back = np.einsum("mij,mi->mj", by_marginal, to_sites(x.ravel()))
        return x.ravel() - back.T.ravel()

    system = LinearOperator((2 * len(mean),) * 2, matvec=residual, dtype=float)
    x, _ = gmres(system, slope, rtol=1e-10, atol=0.0, restart=100, maxiter=10)
    x_mean, x_var = np.split(x, 2)
    weights, keep = found.posterior.weights, np.eye(len(K)) - R @ K
    mixed = np.outer(0.5 * (keep @ A.adjoint(x_mean)), weights)
    moved_K = mixed + mixed.T + keep @ A.scatter(x_var) @ keep.T
    return moved_K, np.einsum("pmi,mi->p", by_theta, to_sites(x))
