"""Expectation propagation for many raters at once.

Ratings of all raters lie one after another. Likelihoods, cavities and sites are arrays over all
ratings; the small matrices of raters with about equally many ratings are stacked, padded to one
size by ratings that say nothing. A sweep updates all sites of all raters that have not converged.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from scipy.linalg import lapack

from ordinalgp._typing import BoolArray, FloatArray, IntArray
from ordinalgp.core.ep import cavities
from ordinalgp.core.likelihoods import Gaussian, Smoothed, SmoothedProbit
from ordinalgp.core.linalg import mirrored
from ordinalgp.core.objectives import site_share
from ordinalgp.core.posterior import Moments, Sites
from ordinalgp.core.problem import match
from ordinalgp.core.truncated_normal import Interval, cut_normal, hermite

_GROWTH = 1.2  # sizes of stacks, each so much larger than the last
_STACKED = 2**22  # numbers in the matrices of one stack: 32 MB
_LOOPED = 48  # ratings from which on a call of LAPACK per rater costs less than numpy's stacks
_TINY_SHARE = 1e-6  # of a prior variance in a site's precision, below which 1 - B^-1 has no digits
_SMALLEST_STEP, _SHRINK, _GROW = 0.1, 0.5, 1.5  # as in `core.ep`
_HERMITE = 16
_QUADRATURE_BLOCK = 2**15  # ratings times nodes at a time


# ------------------------------------------------------------------------------ likelihoods


@dataclass(frozen=True, eq=False)
class RowProbit:
    """Ordinal probit of rows, each with thresholds and noise of its rater."""

    by: IntArray
    """rater of each row, (M,)"""
    noise: FloatArray
    """(J,)"""
    gaps: FloatArray
    """(J, r - 2)"""
    lower: FloatArray
    """lower edge of each level, (J, r)"""
    upper: FloatArray
    width: FloatArray
    unit: float
    """of the first threshold in theta"""

    @classmethod
    def of(cls, theta: FloatArray, unit: float, by: IntArray) -> Self:
        """Raters with the parameters [log noise, b_1 / unit, log gaps], (J, r)."""
        gaps, first, end = (
            np.exp(theta[:, 2:]),
            unit * theta[:, 1:2],
            np.full((len(theta), 1), np.inf),
        )
        b = np.concatenate([first, first + np.cumsum(gaps, axis=1)], axis=1)
        lower, upper = np.concatenate([-end, b], axis=1), np.concatenate([b, end], axis=1)
        width = np.concatenate([end, gaps, end], axis=1)
        return cls(by, np.exp(theta[:, 0]), gaps, lower, upper, width, unit)

    def take(self, rows: Any) -> Self:
        """Some rows."""
        return replace(self, by=self.by[rows])

    def _cut(
        self, y: IntArray, mean: FloatArray, var: FloatArray
    ) -> tuple[Interval, FloatArray, FloatArray]:
        """Each row's level as an interval, the scale, and the noise."""
        noise = self.noise[self.by]
        rate = 1.0 / np.sqrt(noise**2 + var)
        lower, upper = self.lower[self.by, y] - mean, self.upper[self.by, y] - mean
        return cut_normal(lower * rate, upper * rate, self.width[self.by, y] * rate), rate, noise

    def log_expectation(self, y: IntArray, mean: FloatArray, var: FloatArray) -> Smoothed:
        """Log probability that N(mean, var + noise^2) falls between the thresholds of y."""
        cut, rate, _ = self._cut(y, mean, var)
        return SmoothedProbit(cut, 1.0 / rate)

    def newton(
        self, y: IntArray, mean: FloatArray, var: FloatArray
    ) -> tuple[FloatArray, FloatArray, tuple[FloatArray, FloatArray]]:
        """Log E[p(y|u)], (M,), its derivatives in theta, (r, M), and roots of its curvature.

        Minus the second derivatives are the sum of outer products of each column of the two
        roots with itself, edges taken as linear in theta, as in Gauss-Newton.
        """
        cut, rate, noise = self._cut(y, mean, var)
        lo, hi, share = cut.lo_density, cut.hi_density, (noise * rate) ** 2
        z_lo, z_hi = cut.mean - cut.below, cut.mean + cut.above
        low, high = np.maximum(lo * (lo - z_lo), 0.0), np.maximum(hi * (hi + z_hi), 0.0)
        root = np.sqrt(low)
        across = np.where(root > 0, -lo * hi / np.where(root > 0, root, 1.0), 0.0)
        rest = np.sqrt(np.maximum(high - across**2, 0.0))
        first = self._packed(y, root * rate, across * rate, -share * (root * z_lo + across * z_hi))
        second = self._packed(y, 0.0 * rate, rest * rate, -share * rest * z_hi)
        slope = self._packed(y, -lo * rate, hi * rate, share * (cut.mean**2 - cut.information))
        return cut.log_mass, slope, (first, second)

    def _packed(
        self, y: IntArray, d_lo: FloatArray, d_hi: FloatArray, d_log_noise: FloatArray
    ) -> FloatArray:
        """Chain derivatives in the two edges to theta, (r, M)."""
        gaps = self.gaps[self.by].T
        out = np.empty((len(gaps) + 2, len(y)))
        out[0], out[1] = d_log_noise, self.unit * ((y > 0) * d_lo + d_hi)
        j = np.arange(len(gaps))[:, None]
        out[2:] = gaps * ((y > j) * d_hi + (y > j + 1) * d_lo)
        return out


@dataclass(frozen=True, eq=False)
class RowGaussian:
    """Gaussian likelihood with the noise of each row's rater."""

    noise: FloatArray

    def take(self, rows: Any) -> Self:
        """Some rows."""
        return replace(self, noise=self.noise[rows])

    def log_expectation(self, y: FloatArray, mean: FloatArray, var: FloatArray) -> Smoothed:
        """Log density of y under N(mean, var + noise^2)."""
        return Gaussian(self.noise).log_expectation(y, mean, var)  # type: ignore[arg-type]


RowLikelihood = RowProbit | RowGaussian


# ----------------------------------------------------------------------------------- layout


@dataclass(frozen=True, eq=False)
class Stack:
    """Raters with about equally many ratings, and where their ratings lie among all."""

    raters: IntArray
    """(B,)"""
    rows: IntArray
    """rows of their ratings, (B, n); padded with any row"""
    real: BoolArray
    """whether a place holds a rating, (B, n)"""

    def part(self, where: BoolArray) -> Self:
        """Some of the raters."""
        return replace(
            self, raters=self.raters[where], rows=self.rows[where], real=self.real[where]
        )

    @property
    def flat(self) -> IntArray:
        """Rows of all ratings."""
        return self.rows[self.real]


def stacks(begins: IntArray) -> list[Stack]:
    """Raters in stacks; rater j has the rows from ``begins[j]`` to ``begins[j + 1]``."""
    sizes = np.diff(begins)
    order = np.argsort(sizes, kind="stable")
    order = order[sizes[order] > 0]
    found, at = [], 0
    while at < len(order):
        n = int(sizes[order[at]])
        size = max(int(_GROWTH * n), n + 1)
        end = int(np.searchsorted(sizes[order], size, side="right"))
        size = int(sizes[order[end - 1]])
        end = min(end, at + max(1, _STACKED // size**2))
        some = order[at:end]
        place = np.arange(size)
        real = place < sizes[some][:, None]
        rows = begins[some][:, None] + np.where(real, place, 0)
        found.append(Stack(some, rows, real))
        at = end
    return found


@dataclass(frozen=True, eq=False)
class Batch:
    """Ratings of many raters, one rater after another."""

    begins: IntArray
    """(J + 1,)"""
    by: IntArray
    """rater of each rating, (M,)"""
    index: IntArray
    """item of each rating, (M,)"""
    y: Any
    """(M,)"""
    stacks: list[Stack]

    @classmethod
    def of(cls, index: Sequence[IntArray], y: Sequence[Any]) -> Self:
        """Ratings of raters, given one by one."""
        sizes = np.array([len(each) for each in index], dtype=np.intp)
        begins = np.concatenate([[0], np.cumsum(sizes)])
        by = np.repeat(np.arange(len(sizes)), sizes)
        return cls(begins, by, np.concatenate(index), np.concatenate(y), stacks(begins))

    def sums(self, values: FloatArray) -> FloatArray:
        """Sum over the ratings of each rater, (J,)."""
        return np.bincount(self.by, values, len(self.begins) - 1).astype(float)


# ------------------------------------------------------------------------------ linear algebra


@dataclass(frozen=True, eq=False)
class StackPosterior:
    """Posteriors of a stack of raters under their sites; all of shape (B, n) or (B, n, n)."""

    mean: FloatArray
    var: FloatArray
    w: FloatArray
    """weights of the ratings, of which those of the items are sums"""
    R: FloatArray
    half_log_det: FloatArray
    """(B,)"""

    def part(self, where: BoolArray) -> Self:
        """Some of the raters."""
        return type(self)(*(getattr(self, each.name)[where] for each in fields(self)))


def _inverses(B: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Inverses of positive definite matrices, over them, and halves of their log determinants."""
    if B.shape[1] < _LOOPED:
        lower = np.linalg.cholesky(B)
        halves = np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
        lower = np.linalg.inv(lower)  # so that diagonals of the inverse are sums of squares
        return np.matmul(lower.transpose(0, 2, 1), lower), halves
    halves = np.empty(len(B))
    for j, matrix in enumerate(B):
        factor, info = lapack.dpotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
        if info != 0:
            raise np.linalg.LinAlgError("the covariance of the items is not positive definite")
        halves[j] = np.log(np.diagonal(factor)).sum()
        inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
        B[j] = mirrored(inverse.T)
    return B, halves


def stack_posterior(
    P: FloatArray, tau: FloatArray, nu: FloatArray, g0: FloatArray
) -> StackPosterior:
    """Condition N(g0, P) on sites; padded places have no site."""
    n, variance = P.shape[1], np.diagonal(P, axis1=1, axis2=2)
    root = np.sqrt(tau)
    B = root[:, :, None] * P * root[:, None, :]
    B.reshape(len(B), -1)[:, :: n + 1] += 1.0
    R, halves = _inverses(B)
    left = 1.0 - np.diagonal(R, axis1=1, axis2=2)
    # nu - R P nu - R g0. The first two nearly cancel where sites are narrow: there they are
    # S B^-1 S^-1 nu. Shifts without precision have no such form.
    narrow = tau > 0
    shift = np.where(narrow, nu, 0.0) / np.where(narrow, root, 1.0)
    pulled = root * np.matmul(R, shift[..., None])[..., 0]
    R *= root[:, :, None]
    R *= root[:, None, :]
    rest, free = g0, np.where(narrow, 0.0, nu)
    if free.any():
        rest, pulled = g0 + np.matmul(P, free[..., None])[..., 0], pulled + free
    pulled -= np.matmul(R, rest[..., None])[..., 0]
    mean = g0 + np.matmul(P, pulled[..., None])[..., 0]
    clear = tau * variance > _TINY_SHARE
    var = np.where(clear, left / np.where(clear, tau, 1.0), variance)
    rater, place = np.nonzero(~clear & np.any(tau > 0, axis=1)[:, None])
    for j in np.unique(rater):
        rows = P[j, place[rater == j]]
        var[j, place[rater == j]] -= np.einsum("ij,ij->i", rows @ R[j], rows)
    return StackPosterior(mean, np.maximum(var, np.finfo(float).tiny), pulled, R, halves)


# ------------------------------------------------------------------------------ inference


@dataclass(eq=False)
class BatchResult:
    """Sites of all ratings, and what an M-step needs."""

    sites: Sites
    at: Moments
    """cavities, (M,)"""
    marginal: Moments
    smoothed: Smoothed
    value: FloatArray
    """log evidence of each rater, (J,)"""
    weights: FloatArray
    """w, (M,)"""
    slope: FloatArray
    """sum over raters of (w w' - R) / 2, (m, m)"""
    half_log_det: FloatArray
    """(J,)"""
    converged: BoolArray
    """(J,)"""
    inverses: dict[int, FloatArray]
    """R of each rater that has not converged"""


def _distance(old: Sites, new: Sites, marginal: Moments) -> FloatArray:
    """Movement of each site in posterior standard deviations."""
    d_tau = new.tau - old.tau
    d_nu = new.nu - old.nu - d_tau * marginal.mean
    return np.maximum(np.abs(d_tau) * marginal.var, np.abs(d_nu) * np.sqrt(marginal.var))


@dataclass(eq=False)
class _State:
    """Arrays over all ratings, filled stack by stack."""

    tau: FloatArray
    nu: FloatArray
    mean: FloatArray
    var: FloatArray
    w: FloatArray
    at_mean: FloatArray
    at_var: FloatArray
    smoothed: FloatArray
    """value, d1, d2, d3, (4, M)"""

    @classmethod
    def zeros(cls, M: int) -> Self:
        """Flat sites."""
        tau, nu, mean, var, w, at_mean, at_var = np.zeros((7, M))
        return cls(tau, nu, mean, var, w, at_mean, at_var, np.zeros((4, M)))


def infer_batch(
    mean: FloatArray,
    K: FloatArray,
    batch: Batch,
    likelihood: RowLikelihood,
    start: Sites | None,
    tol: float,
    max_sweeps: int = 100,
) -> BatchResult:
    """EP for every rater under the prior N(mean, K) over items."""
    M, J, m = len(batch.by), len(batch.begins) - 1, len(mean)
    state = _State.zeros(M)
    if isinstance(likelihood, RowGaussian):
        zero = Moments(np.zeros(M), np.zeros(M))
        start = match(likelihood.log_expectation(batch.y, zero.mean, zero.var), zero)
    if start is not None:
        state.tau[:], state.nu[:] = start.tau, start.nu
    inverses: dict[int, FloatArray] = {}
    halves, converged, slope = np.zeros(J), np.zeros(J, dtype=bool), np.zeros((m, m))
    for stack in batch.stacks:
        index = batch.index[stack.rows]
        P = K[index[:, :, None], index[:, None, :]]
        for some, found, done in _sweeps(mean, P, stack, batch, likelihood, state, tol, max_sweeps):
            halves[some.raters], converged[some.raters] = found.half_log_det, done
            for j in np.flatnonzero(~done):
                n = int(some.real[j].sum())
                inverses[int(some.raters[j])] = found.R[j, :n, :n]
            _add_slopes(slope, batch.index[some.rows], some.real, found)
    sites, at = Sites(state.tau, state.nu), Moments(state.at_mean, state.at_var)
    smoothed, marginal = Smoothed(*state.smoothed), Moments(state.mean, state.var)
    g0 = mean[batch.index]
    if isinstance(likelihood, RowGaussian):  # without cavities, which may leave no digits
        variance = likelihood.noise**2
        share = -0.5 * (state.w * (batch.y - g0) + np.log(2 * np.pi * variance))
        rest = batch.sums(share) - halves, state.w, slope, halves, converged, inverses
        return BatchResult(sites, at, marginal, smoothed, *rest)
    share = smoothed.value + site_share(sites, marginal.mean, at)
    share += 0.5 * g0 * (sites.nu - sites.tau * marginal.mean)
    value = batch.sums(share) - halves
    rest = value, state.w, slope, halves, converged, inverses
    return BatchResult(sites, at, marginal, smoothed, *rest)


def _sweeps(
    mean: FloatArray,
    P: FloatArray,
    stack: Stack,
    batch: Batch,
    likelihood: RowLikelihood,
    state: _State,
    tol: float,
    max_sweeps: int,
) -> Iterator[tuple[Stack, StackPosterior, BoolArray]]:
    """Sweep until all raters of a stack have converged; give those that are done."""
    step, last = np.ones(len(P)), np.full(len(P), np.inf)
    for sweep in range(1, max_sweeps + 1):
        rows, real, flat = stack.rows, stack.real, stack.flat
        tau, nu = (np.where(real, each[rows], 0.0) for each in (state.tau, state.nu))
        found = stack_posterior(P, tau, nu, mean[batch.index[rows]])
        state.mean[flat], state.var[flat], state.w[flat] = (
            each[real] for each in (found.mean, found.var, found.w)
        )
        marginal, sites = Moments(state.mean[flat], state.var[flat]), Sites(tau[real], nu[real])
        at = cavities(marginal, sites)
        smoothed = likelihood.take(flat).log_expectation(batch.y[flat], at.mean, at.var)
        state.at_mean[flat], state.at_var[flat] = at.mean, at.var
        state.smoothed[:, flat] = smoothed.value, smoothed.d1, smoothed.d2, smoothed.d3
        target = match(smoothed, at)
        moved = np.zeros(real.shape)
        moved[real] = _distance(sites, target, marginal)
        change = moved.max(axis=1)
        done = (change <= tol) | isinstance(likelihood, RowGaussian)  # whose sites are exact
        ended = done | (sweep == max_sweeps)
        if ended.any():
            yield stack.part(ended), found.part(ended), done[ended]
        if ended.all():
            return
        longer = change > last
        step = np.where(
            longer, np.maximum(_SHRINK * step, _SMALLEST_STEP), np.minimum(_GROW * step, 1.0)
        )
        share = np.broadcast_to(step[:, None], real.shape)[real]
        going = np.broadcast_to(~ended[:, None], real.shape)[real]
        some = flat[going]
        state.tau[some] += (share * (target.tau - sites.tau))[going]
        state.nu[some] += (share * (target.nu - sites.nu))[going]
        stack, P, step, last = stack.part(~ended), P[~ended], step[~ended], change[~ended]


def _add_slopes(slope: FloatArray, index: IntArray, real: BoolArray, found: StackPosterior) -> None:
    """Add (w w' - R) / 2 of every rater at the places of its items."""
    m = len(slope)
    w = np.where(real, found.w, 0.0)
    parts = w[:, :, None] * w[:, None, :]
    parts -= found.R  # zero where there is no rating
    cells = index[:, :, None] * m + index[:, None, :]
    slope += 0.5 * np.bincount(cells.ravel(), parts.ravel(), m * m).reshape(m, m)


def bound(
    batch: Batch, likelihood: RowLikelihood, found: BatchResult, mean: FloatArray
) -> FloatArray:
    """Lower bound on each rater's log evidence, eq. (2) of [Yu06]_ at EP's posterior, (J,)."""
    nodes, log_weights = hermite(_HERMITE)
    at, fit = found.marginal, np.zeros(len(batch.by))
    block = max(1, _QUADRATURE_BLOCK // _HERMITE)
    for start in range(0, len(fit), block):
        rows = np.arange(start, min(start + block, len(fit)))
        u = at.mean[rows] + nodes[:, None] * np.sqrt(at.var[rows])
        which = np.tile(rows, _HERMITE)
        point = likelihood.take(which).log_expectation(batch.y[which], u.ravel(), np.zeros(u.size))
        fit[rows] = np.exp(log_weights) @ point.value.reshape(u.shape)
    shift = found.weights * (at.mean - mean[batch.index]) - found.sites.tau * at.var
    return batch.sums(fit - 0.5 * shift) - found.half_log_det


# ---------------------------------------------------------------------------------- M-step


@dataclass(frozen=True, eq=False)
class PenalisedFit:
    """Log probability of each rater's ratings at fixed cavities, less the distance of theta."""

    batch: Batch
    at: Moments
    center: FloatArray
    """(p,)"""
    unit: float
    strength: float

    def value(self, theta: FloatArray, wanted: BoolArray) -> FloatArray:
        """Values of the raters that are ``wanted``, (J,); of others minus infinity."""
        rows = np.flatnonzero(wanted[self.batch.by])
        likelihood = RowProbit.of(theta, self.unit, self.batch.by[rows])
        at = self.at.mean[rows], self.at.var[rows]
        values = likelihood.log_expectation(self.batch.y[rows], *at).value
        total = np.bincount(self.batch.by[rows], values, len(theta))
        return np.where(wanted, total - 0.5 * self.strength * self._squares(theta), -np.inf)

    def _squares(self, theta: FloatArray) -> FloatArray:
        off = theta - self.center
        return np.einsum("jp,jp->j", off, off)

    def newton(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Values, slopes and Newton's steps of every rater."""
        batch, p = self.batch, theta.shape[1]
        likelihood = RowProbit.of(theta, self.unit, batch.by)
        values, slopes, roots = likelihood.newton(batch.y, self.at.mean, self.at.var)
        value = batch.sums(values) - 0.5 * self.strength * self._squares(theta)
        slope = np.column_stack([batch.sums(row) for row in slopes])
        slope -= self.strength * (theta - self.center)
        H = np.empty((len(theta), p, p))
        for a in range(p):
            for b in range(a, p):
                H[:, a, b] = H[:, b, a] = batch.sums(sum(root[a] * root[b] for root in roots))
        H += self.strength * np.eye(p)
        step: FloatArray = np.asarray(np.linalg.solve(H, slope[..., None])[..., 0], dtype=float)
        return value, slope, step


def newton_step(
    fit: PenalisedFit,
    theta: FloatArray,
    bounds: FloatArray,
    lengths: Sequence[float],
    smallest_gain: float,
) -> tuple[FloatArray, BoolArray]:
    """One damped step of every rater; theta, and the raters of whom no length raised the value."""
    low, high = bounds.T
    value, slope, step = fit.newton(theta)
    seeking = np.einsum("jp,jp->j", step, slope) > smallest_gain
    found = theta.copy()
    for length in lengths:
        if not seeking.any():
            break
        trial = np.clip(theta + length * step, low, high)
        better = seeking & (fit.value(trial, seeking) > value)
        found[better] = trial[better]
        seeking = seeking & ~better
    return found, seeking
