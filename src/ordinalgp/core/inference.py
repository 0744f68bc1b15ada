"""One loop for two approximations: match Gaussian sites to a smoothed likelihood.

Laplace smooths at the posterior mode, expectation propagation (EP) at the cavity: the
posterior with one copy of the observation's own site removed. Nothing else differs,
except how a step is kept in check.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ordinalgp._typing import BoolArray, FloatArray
from ordinalgp.core.gaussian import Moments, Posterior, Sites, condition
from ordinalgp.core.likelihoods import Likelihood, Smoothed
from ordinalgp.core.projections import Projection

Smoothing = Literal["mode", "cavity"]

# Of eleven policies tried on 1,000 extreme random problems this one needed the fewest sweeps
# (6 on average, 47 at most) and always converged.
_SMALLEST_STEP, _SHRINK, _GROW = 0.1, 0.5, 1.5
# Rounds on the means between two factorisations, and sweeps that an extrapolation looks back on.
# On the Stocks data (600 rows, small noise) an evaluation took 31 factorisations with neither,
# 14 with two rounds, 9 with both; more of either changed nothing.
_ROUNDS, _DEPTH = 2, 3
_SETTLE = 30  # rounds among the copies of one observation
_ROUNDING_CHANGE = 1e-6  # a change below this that does not shrink any more is rounding
_COAST = 6  # rounds with held curvatures between two Newton steps
_NEAR = 0.5  # extrapolate only within this distance of the fixed point
_LARGEST_CAVITY = 1e8  # in units of the marginal variance
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Problem:
    """A latent Gaussian, what each observation sees of it, and what was observed."""

    K: FloatArray
    projection: Projection
    y: Any
    likelihood: Likelihood
    counts: FloatArray
    prior_mean: FloatArray | None = None

    def condition(self, sites: Sites) -> Posterior:
        """Posterior under Gaussian sites."""
        return condition(self.K, self.projection, sites, self.counts, self.prior_mean)

    def smooth(self, at: Moments) -> Smoothed:
        """The smoothed log likelihood of every observation."""
        return self.likelihood.log_expectation(self.y, at.mean, at.var)


@dataclass(frozen=True, eq=False)
class Start:
    """What one problem's answer tells the next: small, so that it can be kept and sent."""

    sites: Sites
    weights: FloatArray


@dataclass(frozen=True, eq=False)
class Approximation:
    """A Gaussian posterior, the sites that made it, and how they were found."""

    posterior: Posterior
    sites: Sites
    marginal: Moments
    """posterior moments of u"""
    at: Moments
    """where the likelihood was smoothed: the mode with zero variance, or the cavity"""
    smoothed: Smoothed
    n_sweeps: int
    change: float
    """largest movement of a site in the last sweep, in posterior standard deviations"""
    converged: bool

    @property
    def start(self) -> Start:
        """Where to begin on a similar problem."""
        return Start(self.sites, self.posterior.weights)


def match(smoothed: Smoothed, at: Moments) -> Sites:
    """Gaussian sites with the tilted distribution's first two moments."""
    # Log-concavity: 1 + v d2 > 0. What is smaller than a rounding error counts as one.
    scale = np.maximum(1.0 + at.var * smoothed.d2, np.finfo(float).eps)
    return Sites(-smoothed.d2 / scale, (smoothed.d1 - at.mean * smoothed.d2) / scale)


def cavities(marginal: Moments, sites: Sites, counts: FloatArray) -> Moments:
    """Moments of u with one copy of its own site taken out (App. B of [Chu05]_).

    Of an observation that counts less than once, all there is is taken out. That keeps the
    cavity proper, but EP's evidence is then no longer stationary in such sites and its gradient
    is approximate.
    """
    share = np.minimum(counts, 1.0)
    tau, nu = share * sites.tau, share * sites.nu
    kept = np.maximum(1.0 - tau * marginal.var, 1.0 / _LARGEST_CAVITY)
    var = marginal.var / kept
    return Moments(marginal.mean + var * (tau * marginal.mean - nu), var)


def infer(
    problem: Problem,
    *,
    smoothing: Smoothing,
    start: Start | None = None,
    max_sweeps: int = 100,
    tol: float = 1e-6,
) -> Approximation:
    """Approximate the posterior; ``start`` is the answer to a similar problem."""
    if smoothing == "mode":
        return _climb(problem, start, max_sweeps, tol)
    found = _propagate(problem, start, max_sweeps, tol)
    return found if found.converged else _propagate_in_turn(problem, max_sweeps, tol)


# ---------------------------------------------------------------------------- Laplace


@dataclass(frozen=True, eq=False)
class _Mode:
    """A candidate mode f = h + K weights, the likelihood and the log joint density there."""

    weights: FloatArray
    f: FloatArray
    at: Moments
    smoothed: Smoothed
    height: float


def _climb(problem: Problem, start: Start | None, max_sweeps: int, tol: float) -> Approximation:
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
        converged = change <= tol or stuck == 3
        if converged:
            break
        mode = _coast(problem, mode, posterior, sites.tau, tol / scale)
    marginal = posterior.observed()
    at = _point(marginal.mean)
    smoothed = problem.smooth(at)
    return Approximation(posterior, sites, marginal, at, smoothed, sweep, change, converged)


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


# --------------------------------------------------------------------------------- EP


def _distance(old: Sites, new: Sites, marginal: Moments, counts: FloatArray) -> float:
    """Largest change of a site, all copies, in units of its posterior standard deviation."""
    d_tau = counts * (new.tau - old.tau)
    d_nu = counts * (new.nu - old.nu) - d_tau * marginal.mean
    return float(
        max(np.max(np.abs(d_tau) * marginal.var), np.max(np.abs(d_nu) * marginal.var**0.5))
    )


def _target(problem: Problem, found: Approximation) -> Sites:
    """Where EP sends the sites, given the rest of the posterior.

    Copies of one observation would overshoot if each moved as if it were alone; they settle
    among themselves first, which is a scalar iteration.
    """
    target = match(found.smoothed, found.at)
    many = problem.counts > 1.0
    if not np.any(many):
        return target
    tau, nu = target.tau.copy(), target.nu.copy()
    tau[many], nu[many] = _settle_copies(problem, found, many)
    return Sites(tau, nu)


def _settle_copies(
    problem: Problem, found: Approximation, many: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Sites that agree with their own copies, each iteration damped as its change demands."""
    counts, y = problem.counts[many], problem.y[many]
    mean, var = found.marginal.mean[many], found.marginal.var[many]
    tau, nu = found.sites.tau[many], found.sites.nu[many]
    outer, shift = 1 / var - counts * tau, mean / var - counts * nu
    step, last = np.ones_like(tau), np.full_like(tau, np.inf)
    for _ in range(_SETTLE):
        precision = np.maximum(outer + (counts - 1) * tau, 1 / (_LARGEST_CAVITY * var))
        at = Moments((shift + (counts - 1) * nu) / precision, 1 / precision)
        new = match(problem.likelihood.log_expectation(y, at.mean, at.var), at)
        d_tau, d_nu = new.tau - tau, new.nu - nu
        change = np.abs(d_tau) * at.var + np.abs(d_nu - d_tau * at.mean) * np.sqrt(at.var)
        grew = change > last
        step = np.where(grew, np.maximum(0.5 * step, 0.5 / counts), np.minimum(1.2 * step, 1.0))
        last, tau, nu = change, tau + step * d_tau, nu + step * d_nu
        if np.max(counts * change) <= 1e-3 * min(found.change, 1e-3):
            break
    return tau, nu


def _blend(old: Sites, new: Sites, step: float) -> Sites:
    return Sites(old.tau + step * (new.tau - old.tau), old.nu + step * (new.nu - old.nu))


def _survey(problem: Problem, sites: Sites, sweep: int, tol: float) -> Approximation:
    """Posterior, cavities and tilted moments under ``sites``, and how far they are from fixed."""
    return _settled(problem, problem.condition(sites), sites, sweep, tol)


def _settled(
    problem: Problem, posterior: Posterior, sites: Sites, sweep: int, tol: float
) -> Approximation:
    marginal = posterior.observed()
    at = cavities(marginal, sites, problem.counts)
    smoothed = problem.smooth(at)
    change = _distance(sites, match(smoothed, at), marginal, problem.counts)
    return Approximation(posterior, sites, marginal, at, smoothed, sweep, change, change <= tol)


def _relax(problem: Problem, found: Approximation, tol: float) -> Approximation:
    """Match the tilted means with all precisions held, so that the factorisation is kept.

    Variances and cavity variances stay as they are; only the shifts move, at O(n^2) a round.
    """
    for _ in range(_ROUNDS):
        tau, at = found.sites.tau, found.at
        nu = tau * at.mean + found.smoothed.d1 * (1.0 + tau * at.var)
        moved = np.max(np.abs(nu - found.sites.nu) * np.sqrt(found.marginal.var))
        if moved <= tol:
            break
        new = _settled(problem, found.posterior.shifted(nu), Sites(tau, nu), found.n_sweeps, tol)
        if new.change >= found.change:
            break
        found = new
    return found


@dataclass(eq=False)
class _Stall:
    """Tells when rounding, not the tolerance, limits how still the sites can stand."""

    best: float = np.inf
    sweeps: int = 0

    def watch(self, found: Approximation) -> Approximation:
        """Call it converged where many sweeps brought no progress on an already small change."""
        self.sweeps = 0 if found.change < self.best else self.sweeps + 1
        self.best = min(self.best, found.change)
        at_rounding = found.change < _ROUNDING_CHANGE and self.sweeps >= 10
        return replace(found, converged=True) if at_rounding else found


@dataclass(frozen=True, eq=False)
class _Past:
    """The last sweeps, for Anderson's extrapolation of a linearly converging iteration."""

    points: tuple[FloatArray, ...] = ()
    """sites as one vector, in units of posterior standard deviations"""
    images: tuple[FloatArray, ...] = ()
    """where EP would send them"""
    scale: FloatArray | None = None

    def after(self, found: Approximation, target: Sites) -> "_Past":
        """Remember one more sweep."""
        var = found.marginal.var
        scale = np.concatenate([var, np.sqrt(var)]) if self.scale is None else self.scale
        point = scale * np.concatenate([found.sites.tau, found.sites.nu])
        image = scale * np.concatenate([target.tau, target.nu])
        kept = slice(-_DEPTH, None)
        return _Past((*self.points[kept], point), (*self.images[kept], image), scale)

    def extrapolated(self) -> Sites | None:
        """Where the residual would vanish if it were linear; None if that is no site."""
        if self.scale is None or len(self.points) < 2:
            return None
        images = np.array(self.images)
        residuals = images - np.array(self.points)
        mix, *_ = np.linalg.lstsq(np.diff(residuals, axis=0).T, residuals[-1], rcond=1e-8)
        tau, nu = np.split((images[-1] - mix @ np.diff(images, axis=0)) / self.scale, 2)
        return Sites(tau, nu) if np.all(tau >= 0) else None


def _propagate(problem: Problem, start: Start | None, max_sweeps: int, tol: float) -> Approximation:
    """EP with all sites updated at once; a sweep that moves further than the last is damped."""
    sites = Sites.flat(problem.projection.shape[0]) if start is None else start.sites
    step, last, past, stall = 1.0, np.inf, _Past(), _Stall()
    for sweep in range(1, max_sweeps + 1):
        found = _survey(problem, sites, sweep, tol)
        if not found.converged:
            found = stall.watch(_relax(problem, found, tol))
        if found.converged:
            break
        step = max(_SHRINK * step, _SMALLEST_STEP) if found.change > last else min(_GROW * step, 1)
        target = _target(problem, found)
        past = past.after(found, target) if last >= found.change <= _NEAR else _Past()
        last = found.change
        sites = past.extrapolated() or _blend(found.sites, target, step)
    return found


def _propagate_in_turn(problem: Problem, max_sweeps: int, tol: float) -> Approximation:
    """EP one site at a time, as App. B of [Chu05]_: slower, for where parallel sweeps circle."""
    sites, stall = Sites.flat(problem.projection.shape[0]), _Stall()
    for sweep in range(1, max_sweeps + 1):
        found = stall.watch(_survey(problem, sites, sweep, tol))
        if found.converged:
            break
        sites = _one_round(problem, found)
    return found


def _one_round(problem: Problem, found: Approximation) -> Sites:
    """Update every site once, each seeing the updates before it, by rank-one changes."""
    K, A, counts = problem.K, problem.projection, problem.counts
    tau, nu = found.sites.tau.copy(), found.sites.nu.copy()
    mean = found.posterior.mean.copy()
    covariance = K - K @ found.posterior.inverse() @ K
    for i in range(len(tau)):
        a = A.adjoint(np.eye(1, len(tau), i)[0])
        column = covariance @ a
        marginal = Moments(np.array([a @ mean]), np.array([max(a @ column, np.finfo(float).tiny)]))
        at = cavities(marginal, Sites(tau[i : i + 1], nu[i : i + 1]), counts[i : i + 1])
        smoothed = problem.likelihood.log_expectation(problem.y[i : i + 1], at.mean, at.var)
        new = match(smoothed, at)
        d_tau, d_nu = counts[i] * (new.tau[0] - tau[i]), counts[i] * (new.nu[0] - nu[i])
        shrink = 1.0 + d_tau * marginal.var[0]
        mean += column * ((d_nu - d_tau * marginal.mean[0]) / shrink)
        covariance -= np.outer(column * (d_tau / shrink), column)
        tau[i], nu[i] = new.tau[0], new.nu[0]
    return Sites(tau, nu)
