"""Training objectives: a number, and its gradient in the kernel matrix and the likelihood."""

from dataclasses import dataclass

import numpy as np

from ordinalgp._typing import FloatArray
from ordinalgp.core.gaussian import Moments, Sites
from ordinalgp.core.likelihoods import Smoothed, ThetaDerivatives
from ordinalgp.core.problem import Approximation, Problem

_STRIP = 64  # rows at a time that stay in the cache


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What every objective returns."""

    value: float
    d_kernel: FloatArray
    """dL/dK, (N, N), symmetric"""
    d_likelihood: FloatArray
    """dL/d likelihood.theta, (p,)"""
    approximation: Approximation


def prior_offset(problem: Problem, found: Approximation) -> FloatArray:
    """Posterior mean less prior mean, (N,)."""
    mean = found.posterior.mean
    return mean if problem.prior_mean is None else mean - problem.prior_mean


def gaussian_gradient(
    weights: FloatArray, R: FloatArray, mixed: FloatArray | None = None
) -> FloatArray:
    """(w w' - R)/2, written over R, and (w c' + c w')/2 for ``mixed`` = c."""
    left, right = weights[:, None], weights[None]
    if mixed is not None:
        left, right = np.column_stack([weights + mixed, weights]), np.vstack([weights, mixed])
    half = 0.5 * right
    for i in range(0, len(R), _STRIP):
        strip = R[i : i + _STRIP]
        strip *= -0.5
        strip += left[i : i + _STRIP] @ half
    return R


def laplace_evidence(problem: Problem, found: Approximation) -> Evaluation:
    """Eq. (11) of [Chu05]_ with the gradients of App. A, mode shift included."""
    posterior, counts = found.posterior, problem.counts
    value = (
        counts @ found.smoothed.value
        - 0.5 * posterior.weights @ prior_offset(problem, found)
        - posterior.half_log_det
    )
    var, A, K = found.marginal.var, problem.projection, problem.K
    # The factorisation is from one Newton step before the mode: its first-order change.
    value += 0.5 * (counts * var) @ (found.smoothed.d2 + found.sites.tau)
    theta = problem.likelihood.theta_derivatives(problem.y, found.at.mean, found.at.var)
    # The log determinant depends on the mode; c carries that dependence back to K and theta.
    slopes, tilt = with_determinant(theta, found.smoothed, var)
    pull = A.adjoint(counts * tilt)
    R = posterior.inverse()
    c = pull - R @ (K @ pull)
    d_likelihood = slopes @ counts + theta.d1 @ (counts * A.apply(posterior.covary(pull)))
    G = gaussian_gradient(posterior.weights, R, mixed=c)
    return Evaluation(float(value), G, d_likelihood, found)


def with_determinant(
    theta: ThetaDerivatives, smoothed: Smoothed, var: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Each row's slopes in theta of log p(y|u) - log |I + P T| / 2: at a fixed mode, and in it.

    Shapes (p, M) and (M,); ``var`` is the posterior variance of u.
    """
    return theta.value + 0.5 * theta.d2 * var, 0.5 * var * smoothed.d3


def log_overlap(sites: Sites, at: Moments) -> FloatArray:
    """Log integral of each cavity times its site, (M,)."""
    tau, nu, m, v = sites.tau, sites.nu, at.mean, at.var
    spread = 1.0 + tau * v
    return 0.5 * ((nu * (nu * v + 2 * m) - tau * m**2) / spread - np.log(spread))


def site_share(sites: Sites, u: FloatArray, at: Moments) -> FloatArray:
    """Each row's share in the log integral of prior times sites, less that of cavity times site.

    ``u`` is the posterior mean, for a prior of mean zero; what remains is -half_log_det.
    """
    return 0.5 * sites.nu * u - log_overlap(sites, at)


def _site_normaliser(problem: Problem, found: Approximation) -> float:
    """Log integral of prior times sites, minus that of each cavity times its site."""
    sites, u, counts, h = found.sites, found.marginal.mean, problem.counts, problem.prior_mean
    total = counts @ site_share(sites, u, found.at) - found.posterior.half_log_det
    if h is not None:
        g0 = problem.projection.apply(h)
        total += 0.5 * counts @ (g0 * (sites.nu - sites.tau * u))
    return float(total)


def ep_value(problem: Problem, found: Approximation) -> float:
    """EP's approximate log evidence (App. B of [Chu05]_)."""
    return float(problem.counts @ found.smoothed.value + _site_normaliser(problem, found))


def ep_evidence(problem: Problem, found: Approximation) -> Evaluation:
    """EP's approximate evidence with its gradient, which is exact at the fixed point."""
    theta = problem.likelihood.theta_derivatives(problem.y, found.at.mean, found.at.var)
    G = gaussian_gradient(found.posterior.weights, found.posterior.inverse())
    return Evaluation(ep_value(problem, found), G, theta.value @ problem.counts, found)
