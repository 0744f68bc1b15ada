"""Approximate curvatures of an evidence in the hyperparameters, for the first steps of a search.

At the fixed point of inference, u = A f has the mean A K A' w with w = d log t / du, and posterior
covariance C = (P^-1 + T)^-1, P = A K A'. With T held, a change of a likelihood's parameter moves
w by D (its derivative at fixed u) and so the mean by C D; a change of the kernel moves the mean by
(I - C T) dP w. To first order in these changes, minus the second derivatives of the evidence are

    likelihood, likelihood   E + sum V D D' - D'C D
    kernel, likelihood       -(dK w)'(I - R K) A'D
    kernel, kernel           (dK w)'R (dK w) / 2

E are minus the second derivatives of the smoothed log likelihoods at fixed cavities, and V is the
variance of a cavity over 1 + V T: a cavity does not follow the site that it lacks. In the last
line the half is that of the average information of [Gilmour95]_: the rest is its expectation,
the same half from the log determinant, with the sign of a loss.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ordinalgp._typing import FloatArray
from ordinalgp.core.hyperparameters import n_free
from ordinalgp.core.kernel_gradient import kernel_moves
from ordinalgp.core.problem import Approximation, Problem

# Hyperparameters of a kernel up to which their changes are computed; each takes a kernel matrix.
MOST_OF_KERNEL = 40
_MOST_OF_LIKELIHOOD = 40
_STEP = 1e-5  # of finite differences


def evidence_curvature(
    kernel: Any, X: Any, problem: Problem, found: Approximation
) -> FloatArray | None:
    """Minus the second derivatives in [kernel.theta, likelihood.theta], nearly, (p, p).

    None where there are very many hyperparameters.
    """
    if n_free(kernel) > MOST_OF_KERNEL or len(problem.likelihood.theta) > _MOST_OF_LIKELIHOOD:
        return None
    A, counts, tau = problem.projection, problem.counts, found.sites.tau
    posterior, w = found.posterior, found.posterior.weights
    spread = 1.0 + tau * found.at.var
    D = np.asarray(problem.theta_derivatives(found).d1) * spread
    kept, moved = posterior.carry(A.adjoint((counts * D).T))
    own = np.einsum("pm,m,qm->pq", D, counts * found.at.var / spread, D)
    of_likelihood = _information(problem, found) + own - (counts * D) @ A.apply(moved)
    if n_free(kernel) == 0:
        return of_likelihood
    moves = kernel_moves(kernel, X, problem.K, w, problem.workspace)
    across = -moves.T @ kept
    pull = A.adjoint(((counts * tau) * A.apply(moves).T).T)
    back = A.adjoint(((counts * tau) * A.apply(posterior.covary(pull)).T).T)
    of_kernel = 0.5 * moves.T @ (pull - back)
    return np.block([[of_kernel, across], [across.T, of_likelihood]])


def _information(problem: Problem, found: Approximation) -> FloatArray:
    """Minus the second derivatives of the smoothed log likelihoods, summed up, (p, p)."""
    likelihood, at = problem.likelihood, found.at

    def slope(theta: FloatArray) -> FloatArray:
        near = likelihood.clone_with_theta(theta)
        return near.theta_derivatives(problem.y, at.mean, at.var).value @ problem.counts

    here = problem.theta_derivatives(found).value @ problem.counts
    return -differences(slope, likelihood.theta, here)


def differences(
    slope: Callable[[FloatArray], FloatArray], theta: FloatArray, here: FloatArray
) -> FloatArray:
    """Symmetric second derivatives, (p, p), from differences of slopes to those ``here``."""
    near = [slope(theta + _STEP * unit) for unit in np.eye(len(theta))]
    found = (np.reshape(near, (len(theta), len(theta))) - here) / _STEP
    return 0.5 * (found + found.T)
