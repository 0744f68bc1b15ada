"""Laplace's approximation: Gaussian sites matched to the likelihood at the posterior mode.

Its evidence and the gradients of App. A of [Chu05]_ are in `objectives`.
"""

from dataclasses import dataclass

import numpy as np

from ordinalgp._typing import FloatArray
from ordinalgp.core.gaussian import Moments, Posterior, Preconditioner
from ordinalgp.core.likelihoods import Smoothed
from ordinalgp.core.problem import Approximation, Problem, Start, match

_FROZEN_HESSIAN_STEPS = 6  # rounds with held curvatures between two Newton steps
# Newton steps by iteration, rounds of each, and the share of the residual that ends a step.
_ITERATIVE_STEPS, _ROUNDS_PER_STEP, _RESIDUAL_SHARE = 8, 10, 0.03
# Latent values up to which a factorisation costs less than the likelihood.
_CHEAP_FACTORISATION_SIZE = 50
_TOLERABLE_START_LOSS = 3.0  # nats per observation that a start may cost before another is tried
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class _Mode:
    """A candidate mode f = h + K weights, the likelihood and the log joint density there."""

    weights: FloatArray
    f: FloatArray
    at: Moments
    smoothed: Smoothed
    height: float


def climb(problem: Problem, start: Start | None, max_sweeps: int, tol: float) -> Approximation:
    """Newton's method for the posterior mode (Alg. 3.1 of [Rasmussen06]_), with halving."""
    mode = _first_mode(problem, start)
    costly = len(problem.K) > _CHEAP_FACTORISATION_SIZE
    known = None if problem.workspace is None else problem.workspace.preconditioner
    if costly and known is not None:
        # In a search the factorisation at the last hyperparameters will do for most of the way.
        # The one at the mode, which the gradient needs, is then the only one to make.
        mode = _approach(problem, mode, known, tol)
    change, stuck = np.inf, 0
    for sweep in range(1, max_sweeps + 1):  # noqa: B007 (read after the loop)
        sites = match(mode.smoothed, mode.at)
        posterior = problem.condition(sites)
        last, old = change, mode
        mode = _line_search(problem, old, posterior.weights, posterior.mean)
        change = float(np.max(_change(problem, old, mode.at.mean)))
        # Newton squares its error; one that neither moves closer nor climbs is at rounding.
        flat = mode.height - old.height <= _slack(old.height) and change >= last / 2
        stuck = stuck + 1 if flat else 0
        converged = change <= tol or stuck >= (1 if change**2 <= tol else 3)
        if converged:
            break
        known = posterior.preconditioner
        if costly and known is not None:
            mode = _approach(problem, mode, known, tol)
        elif costly:
            mode = _frozen_hessian_steps(problem, mode, posterior, sites.tau, tol)
    if np.any(_change(problem, mode, problem.projection.apply(posterior.mean)) > tol):
        # The line search stepped back from Newton's target, which is wrong by rounding.
        posterior = posterior.centred(mode.weights, mode.f)
    marginal = Moments(mode.at.mean, posterior.observed().var)
    return Approximation(
        posterior, sites, marginal, mode.at, mode.smoothed, sweep, change, converged
    )


def _slack(height: float) -> float:
    return _ROUNDING * (1.0 + abs(height))


def _mode_at(problem: Problem, weights: FloatArray, f: FloatArray) -> _Mode:
    u = problem.projection.apply(f)
    at = Moments(u, np.zeros_like(u))
    smoothed = problem.smooth(at)
    height = float(problem.counts @ smoothed.value - 0.5 * weights @ problem.offset(f))
    return _Mode(weights, f, at, smoothed, height)


def _first_mode(problem: Problem, start: Start | None) -> _Mode:
    """Start at the prior mean, or at the last mode's weights where they are higher."""
    n = len(problem.K)
    h = np.zeros(n) if problem.prior_mean is None else problem.prior_mean
    warm = None
    if start is not None:
        warm = _mode_at(problem, start.weights, h + problem.K @ start.weights)
        if warm.height > -_TOLERABLE_START_LOSS * np.sum(problem.counts):
            return warm
    cold = _mode_at(problem, np.zeros(n), h)
    return warm if warm is not None and warm.height > cold.height else cold


def _change(problem: Problem, old: _Mode, u: FloatArray) -> FloatArray:
    """Movements in standard deviations of a posterior that is at most as narrow as the true one."""
    prior_precision = len(problem.K) / max(np.trace(problem.K), np.finfo(float).tiny)
    scale = np.sqrt(prior_precision - old.smoothed.d2)
    return np.asarray(scale * np.abs(u - old.at.mean))


def _approach(problem: Problem, mode: _Mode, known: Preconditioner, tol: float) -> _Mode:
    """Newton's method, its equations solved by iteration with a factorisation that is at hand."""
    for _ in range(_ITERATIVE_STEPS):
        step, left = _newton_step(problem, mode, known)
        if not left < 0.5:
            break
        old = mode
        mode = _line_search(problem, old, old.weights + step, old.f + problem.K @ step)
        change = float(np.max(_change(problem, old, mode.at.mean)))
        # What remains: the part of the step not solved for, and Newton's own error.
        if change * max(change, left) <= tol:
            break
    return mode


def _newton_step(problem: Problem, mode: _Mode, known: Preconditioner) -> tuple[FloatArray, float]:
    """Solve (I + A' W A K) step = A' d1 - weights by conjugate residuals; the share that is left.

    In these variables an error of the solution is one of the posterior covariance times the
    residual: nothing magnifies it. ``known`` may belong to other hyperparameters.
    """
    K, A, W = problem.K, problem.projection, -problem.counts * mode.smoothed.d2
    rest = A.adjoint(problem.counts * mode.smoothed.d1) - mode.weights
    size = last = float(np.linalg.norm(rest))
    step = np.zeros_like(rest)
    directions, images = np.empty((2, _ROUNDS_PER_STEP, len(rest)))
    for k in range(_ROUNDS_PER_STEP):
        if not last > _RESIDUAL_SHARE * size:
            break
        direction = known(rest)
        image = direction + A.adjoint(W * A.apply(K @ direction))
        mix = images[:k] @ image
        image -= mix @ images[:k]
        direction -= mix @ directions[:k]
        length = np.linalg.norm(image)
        if not length > 0:
            break
        images[k], directions[k] = image / length, direction / length
        along = images[k] @ rest
        step += along * directions[k]
        rest = rest - along * images[k]
        last = float(np.linalg.norm(rest))
    return step, last / size if size > 0 else 0.0


def _line_search(problem: Problem, mode: _Mode, weights: FloatArray, f: FloatArray) -> _Mode:
    """Go to the Newton target, or half way, and so on, until the density does not fall."""
    step = 1.0
    while step > 1e-9:
        moved = mode.weights + step * (weights - mode.weights)
        new = _mode_at(problem, moved, mode.f + step * (f - mode.f))
        if new.height >= mode.height - _slack(mode.height):
            return new
        step /= 2
    return mode  # concave, so an ascent direction that does not ascend is rounding: at the top


def _frozen_hessian_steps(
    problem: Problem, mode: _Mode, posterior: Posterior, tau: FloatArray, tol: float
) -> _Mode:
    """Go on with the curvatures, and so the factorisation, of the last step: O(n^2) per round."""
    for _ in range(_FROZEN_HESSIAN_STEPS):
        target = posterior.shifted(mode.smoothed.d1 + tau * mode.at.mean)
        new = _mode_at(problem, target.weights, target.mean)
        if not new.height > mode.height:
            break
        old, mode = mode, new
        if np.max(_change(problem, old, mode.at.mean)) <= tol:
            break
    return mode
