"""Expectation propagation: Gaussian sites matched to the likelihood at the cavity.

The cavity is the posterior with one copy of the observation's own site removed. EP's evidence and
its gradient are in `objectives`.
"""

from dataclasses import dataclass, replace

import numpy as np

from ordinalgp._typing import BoolArray, FloatArray
from ordinalgp.core.gaussian import Moments, Posterior, Sites
from ordinalgp.core.linalg import solve_definite
from ordinalgp.core.posterior import Response
from ordinalgp.core.problem import Approximation, Problem, Start, match
from ordinalgp.core.repeated_observations import common_site

# Of eleven policies tried on 1,000 extreme random problems this one needed the fewest sweeps
# (6 on average, 47 at most) and always converged.
_SMALLEST_STEP, _SHRINK, _GROW = 0.1, 0.5, 1.5
# Rounds on the means between two factorisations, and sweeps that an extrapolation looks back on.
# On the Stocks data (600 rows, small noise) an evaluation took 31 factorisations with neither,
# 14 with two rounds, 9 with both; more of either changed nothing.
_ROUNDS, _DEPTH = 2, 3
_COPIES_TOL = 0.1  # precision of the common site of copies, in relation to its change
_COLLINEAR = 1e-12  # added to squares of unit length, so that equal sweeps do no harm
_CLOSE = 0.5  # extrapolate only within this distance of the fixed point
# The linear response is used within this distance, for so many rounds. On twelve data sets of 100
# to 500 rows it halved the factorisations; on Car (400 rows, no noise) it left a quarter of them.
_NEAR, _RESPONSE_ROUNDS = 1.0, 6
_NEAREST = 1e-3  # distance within which squares of the last response will do
_ROUNDING_CHANGE = 1e-6  # a change below this that does not shrink any more is rounding
_LOST = 30.0  # change at a warm start above which a cold one is nearer
_CIRCLING = 8  # sweeps without a smaller change after which the sites are updated in turn
_BLOCK = 32  # sites that move before one product carries their changes to the rest
_LARGEST_CAVITY = 1e8  # in units of the marginal variance
# Weight whose share in the evidence, at most some log(_LARGEST_CAVITY) / 2 times it, is below the
# tolerance of a search.
_NEGLIGIBLE = 1e-5
_EPS = float(np.finfo(float).eps)


def cavities(marginal: Moments, sites: Sites, copies: FloatArray | float = 1.0) -> Moments:
    """Moments of u with one copy of its own site taken out (App. B of [Chu05]_).

    EP takes out one whole copy also of an observation that counts less than once: only then is
    its evidence stationary in the sites and the gradient exact. There may be no cavity then, see
    `lacks_cavity`. ``copies`` takes out another
    number, such as all there is, to predict what was left out.
    """
    tau, nu = copies * sites.tau, copies * sites.nu
    kept = np.maximum(1.0 - tau * marginal.var, 1.0 / _LARGEST_CAVITY)
    var = marginal.var / kept
    return Moments(marginal.mean + var * (tau * marginal.mean - nu), var)


def lacks_cavity(counts: FloatArray, marginal: Moments, sites: Sites) -> BoolArray:
    """Whether each observation counts less than once and leaves no cavity of positive variance.

    The posterior has only part of its site. Without the whole site a negative precision may be
    left, in place of which `cavities` has a very large variance. The evidence is not stationary
    there, and its gradient is wrong, by less than matters where the weight is negligible.
    """
    part = (counts < 1.0) & (counts > _NEGLIGIBLE)
    return np.asarray(part & (1.0 - sites.tau * marginal.var <= 1.0 / _LARGEST_CAVITY))


def _distance(old: Sites, new: Sites, marginal: Moments, counts: FloatArray | None) -> float:
    """Largest change of a site, all copies, in units of its posterior standard deviation."""
    d_tau, d_nu, var = new.tau - old.tau, new.nu - old.nu, marginal.var
    if counts is not None:
        d_tau, d_nu = counts * d_tau, counts * d_nu
    d_nu -= d_tau * marginal.mean
    return float(max((np.abs(d_tau) * var).max(), (np.abs(d_nu) * np.sqrt(var)).max()))


def _target(problem: Problem, found: Approximation) -> Sites:
    """Sites to which EP moves, given the rest of the posterior.

    Copies of one observation would overshoot if each moved as if it were alone; they settle
    among themselves first.
    """
    target = found.matched or match(found.smoothed, found.at)
    many = problem.copied
    if many is None:
        return target
    tau, nu = target.tau.copy(), target.nu.copy()
    marginal = Moments(found.marginal.mean[many], found.marginal.var[many])
    own = Sites(found.sites.tau[many], found.sites.nu[many])
    common = common_site(problem, many, marginal, own, _COPIES_TOL * min(found.change, 1e-3))
    tau[many], nu[many] = common.tau, common.nu
    return Sites(tau, nu)


def _survey(problem: Problem, sites: Sites, sweep: int, tol: float) -> Approximation:
    """Posterior, cavities and tilted moments under ``sites``, and how far they are from fixed."""
    return _settled(problem, problem.condition(sites), sites, sweep, tol)


def _settled(
    problem: Problem, posterior: Posterior, sites: Sites, sweep: int, tol: float
) -> Approximation:
    return _matched(problem, posterior, sites, posterior.observed(), sweep, tol)


def _matched(
    problem: Problem, posterior: Posterior, sites: Sites, marginal: Moments, sweep: int, tol: float
) -> Approximation:
    at = cavities(marginal, sites)
    smoothed = problem.smooth(at)
    matched = match(smoothed, at)
    change = _distance(sites, matched, marginal, problem.several)
    moments = marginal, at, smoothed
    return Approximation(posterior, sites, *moments, sweep, change, change <= tol, matched)


def _relax(problem: Problem, found: Approximation, tol: float) -> Approximation:
    """Match the tilted means with all precisions held, so that the factorisation is kept.

    Variances and cavity variances stay as they are; only the shifts move, at O(n^2) per round.
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
    """Detector of convergence that rounding, not the tolerance, limits."""

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

    images: tuple[FloatArray, ...] = ()
    """where EP would send the sites, one vector in units of posterior standard deviations"""
    residuals: tuple[FloatArray, ...] = ()
    """distances from the sites to there"""
    scale: FloatArray | None = None

    def after(self, marginal: Moments, sites: Sites, target: Sites) -> "_Past":
        """Remember one more sweep."""
        var, scale = marginal.var, self.scale
        if scale is None:
            scale = np.concatenate([var, np.sqrt(var)])
        image = scale * np.concatenate([target.tau, target.nu])
        residual = image - scale * np.concatenate([sites.tau, sites.nu])
        kept = slice(-_DEPTH, None)
        return _Past((*self.images[kept], image), (*self.residuals[kept], residual), scale)

    def extrapolated(self) -> Sites | None:
        """Sites at which a linear residual would vanish; None if these are no sites."""
        if self.scale is None or len(self.images) < 2:
            return None
        rest, last = self.residuals[-1], self.images[-1]
        # Differences to the last sweep: their span is that of differences between neighbours.
        moved = np.array(self.residuals[:-1]) - rest
        gram = moved @ moved.T
        square = gram.diagonal().copy()
        gram.reshape(-1)[:: len(gram) + 1] += _COLLINEAR * square
        mix = solve_definite(gram, moved @ rest) if square.all() else None
        if mix is None:
            return None
        best = (last - mix @ (np.array(self.images[:-1]) - last)) / self.scale
        m = len(best) // 2
        return Sites(best[:m], best[m:]) if best[:m].min() >= 0 else None


def propagate(
    problem: Problem,
    start: Start | None,
    max_sweeps: int,
    tol: float,
    *,
    in_turn: bool = True,
    near: float = _NEAR,
    patience: int = _CIRCLING,
) -> Approximation:
    """EP with all sites updated at once; a sweep that moves further than the last is damped.

    Near the fixed point the linear response of the posterior takes over. Where sweeps circle, the
    sites are updated ``in_turn``, if that is allowed. ``near`` is the distance within which there
    is a linear response, and ``patience`` the number of sweeps without a smaller change. Where
    an observation leaves no cavity, the result has not converged, however small the change.
    """
    sites = Sites.flat(problem.projection.shape[0]) if start is None else start.sites
    step, last, past, stall = 1.0, np.inf, _Past(), _Stall()
    circling, reused, response = False, False, None
    for sweep in range(1, max_sweeps + 1):
        found = stall.watch(_survey(problem, sites, sweep, tol))
        if found.converged:
            break
        if sweep == 1 and start is not None and found.change > _LOST:
            sites = Sites.flat(len(sites.tau))
            continue
        circling = circling or (in_turn and stall.sweeps >= patience)
        closer = found.change < last
        if found.change > near and not circling:
            found = _relax(problem, found, tol)
        if closer and found.change <= near:
            # Squares serve twice: those of three sweeps ago can lead around a fixed point for ever.
            known = response if found.change <= _NEAREST and not reused else None
            response, reused = found.posterior.response(known), known is not None
            nearer = None if response is None else _respond(problem, found, response, tol)
            if nearer is not None:
                sites, last, past = nearer, found.change, _Past()
                continue
        if circling:
            sites, last = update_in_turn(problem, found), np.inf
            continue
        found = stall.watch(_relax(problem, found, tol))
        if found.converged:
            break
        step = max(_SHRINK * step, _SMALLEST_STEP) if found.change > last else min(_GROW * step, 1)
        target = _target(problem, found)
        steady = last >= found.change <= _CLOSE
        past = past.after(found.marginal, found.sites, target) if steady else _Past()
        last = found.change
        sites = past.extrapolated() or found.sites.towards(target, step)
    without = problem.has_parts and lacks_cavity(problem.counts, found.marginal, found.sites).any()
    return replace(found, converged=False, has_cavities=False) if without else found


def _respond(
    problem: Problem, found: Approximation, response: Response, tol: float
) -> Sites | None:
    """Sites near the fixed point, from rounds with the posterior's linear response to sites.

    A round costs O(n^2) and the likelihood. None where the rounds do not come closer.
    """
    old, state, past, best, last = found.sites, found, _Past(), None, found.change
    for _ in range(_RESPONSE_ROUNDS):
        target = _target(problem, state)
        past = past.after(state.marginal, state.sites, target)
        sites = past.extrapolated() or target
        marginal = response.moments(sites.tau - old.tau, sites.nu - old.nu)
        if marginal is None:
            break
        state = _matched(problem, found.posterior, sites, marginal, found.n_sweeps, tol)
        if not state.change < 10 * found.change:
            break
        if state.change < (found if best is None else best).change:
            best = state
        # One step more is taken without a look at where it leads.
        if state.change * min(1.0, state.change / last) <= tol:
            break
        last = state.change
    return None if best is None else _target(problem, best)


def update_in_turn(problem: Problem, found: Approximation, block: int = _BLOCK) -> Sites:
    """Update every site once, each seeing the updates before it, as in App. B of [Chu05]_.

    Sites of a block move one by one within their own marginal; the rest of the posterior follows
    by one product per block. Every size of blocks gives the same sites, up to rounding.
    """
    K, A = problem.K, problem.projection
    sites = Sites(found.sites.tau.copy(), found.sites.nu.copy())
    mean = found.posterior.mean.copy()
    covariance = K - K @ found.posterior.inverse() @ K
    tol = 1e-3 * min(found.change, 1e-3)
    for first in range(0, len(sites.tau), block):
        rows = np.arange(first, min(first + block, len(sites.tau)))
        seen = np.column_stack([A.adjoint(np.eye(1, len(sites.tau), int(i))[0]) for i in rows])
        least = _EPS * np.einsum("ib,ib->b", seen, K @ seen)
        C, shrunk = covariance @ seen, np.zeros(len(rows))
        S, m = seen.T @ C, seen.T @ mean
        for k, row in enumerate(rows):
            if S[k, k] <= least[k]:
                continue  # all digits are lost: an update would be noise without end
            d_tau, d_nu = _move(
                problem, int(row), sites, Moments(m[k : k + 1], S[k, k : k + 1]), tol
            )
            # The rank-one change of the posterior, for this block alone; C[:, k] stays behind.
            shrunk[k] = d_tau / (1.0 + d_tau * S[k, k])
            shift = (d_nu - d_tau * m[k]) / (1.0 + d_tau * S[k, k])
            along = S[k].copy()
            mean += shift * C[:, k]
            m += shift * along
            C[:, k + 1 :] -= np.outer(shrunk[k] * C[:, k], along[k + 1 :])
            S -= np.outer(shrunk[k] * along, along)
        covariance -= (C * shrunk) @ C.T
    return sites


def _move(
    problem: Problem, row: int, sites: Sites, marginal: Moments, tol: float
) -> tuple[float, float]:
    """Update one site in place, given its marginal; the change of all its copies."""
    here, count = np.array([row]), problem.counts[row]
    old = Sites(sites.tau[here], sites.nu[here])
    if count > 1.0:
        new = common_site(problem, here, marginal, old, tol)
    else:
        at = cavities(marginal, old)
        new = match(problem.smooth_some(here, at), at)
    sites.tau[row], sites.nu[row] = new.tau[0], new.nu[0]
    return float(count * (new.tau - old.tau)[0]), float(count * (new.nu - old.nu)[0])
