"""Laplace's approximation: Gaussian sites matched to the likelihood at the posterior mode."""

from dataclasses import dataclass

import numpy as np

from ordinalgp._typing import FloatArray
from ordinalgp.core.gaussian import Moments, Posterior
from ordinalgp.core.likelihoods import Smoothed
from ordinalgp.core.problem import Approximation, Problem, Start, match

_COAST = 6  # rounds with held curvatures between two Newton steps
_CHEAP = 50  # latent values up to which a factorisation costs less than the likelihood
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
    prior_precision = len(problem.K) / max(np.trace(problem.K), np.finfo(float).tiny)
    change, stuck = np.inf, 0
    for sweep in range(1, max_sweeps + 1):  # noqa: B007 (read after the loop)
        sites = match(mode.smoothed, mode.at)
        posterior = problem.condition(sites)
        scale = np.sqrt(sites.tau + prior_precision)
        last, old = change, mode
        mode = _line_search(problem, old, posterior)
        change = float(np.max(scale * np.abs(mode.at.mean - old.at.mean)))
        # Newton squares its error; one that neither moves closer nor climbs is at rounding.
        flat = mode.height - old.height <= _slack(old.height) and change >= last / 2
        stuck = stuck + 1 if flat else 0
        converged = change <= tol or stuck >= (1 if change**2 <= tol else 3)
        if converged:
            break
        if len(problem.K) > _CHEAP:
            mode = _coast(problem, mode, posterior, sites.tau, tol / scale)
    marginal = Moments(mode.at.mean, posterior.observed().var)
    return Approximation(
        posterior, sites, marginal, mode.at, mode.smoothed, sweep, change, converged
    )


def _slack(height: float) -> float:
    return _ROUNDING * (1.0 + abs(height))


def _point(u: FloatArray) -> Moments:
    return Moments(u, np.zeros_like(u))


def _mode_at(problem: Problem, weights: FloatArray, f: FloatArray) -> _Mode:
    at = _point(problem.projection.apply(f))
    smoothed = problem.smooth(at)
    away = f if problem.prior_mean is None else f - problem.prior_mean
    height = float(problem.counts @ smoothed.value - 0.5 * weights @ away)
    return _Mode(weights, f, at, smoothed, height)


def _first_mode(problem: Problem, start: Start | None) -> _Mode:
    """Start at the prior mean, or at the last mode's weights where they are higher."""
    n = len(problem.K)
    h = np.zeros(n) if problem.prior_mean is None else problem.prior_mean
    cold = _mode_at(problem, np.zeros(n), h)
    if start is None:
        return cold
    weights = start.weights
    warm = _mode_at(problem, weights, h + problem.K @ weights)
    return warm if warm.height > cold.height else cold


def _line_search(problem: Problem, mode: _Mode, target: Posterior) -> _Mode:
    """Go to the Newton target, or half way, and so on, until the density does not fall."""
    step = 1.0
    while step > 1e-9:
        weights = mode.weights + step * (target.weights - mode.weights)
        new = _mode_at(problem, weights, mode.f + step * (target.mean - mode.f))
        if new.height >= mode.height - _slack(mode.height):
            return new
        step /= 2
    return mode  # concave, so an ascent direction that does not ascend is rounding: at the top


def _coast(
    problem: Problem, mode: _Mode, posterior: Posterior, tau: FloatArray, tol: FloatArray
) -> _Mode:
    """Go on with the curvatures, and so the factorisation, of the last step: O(n^2) a round."""
    for _ in range(_COAST):
        target = posterior.shifted(mode.smoothed.d1 + tau * mode.at.mean)
        new = _mode_at(problem, target.weights, target.mean)
        if not new.height > mode.height:
            break
        moved = np.abs(new.at.mean - mode.at.mean)
        mode = new
        if np.all(moved <= tol):
            break
    return mode
