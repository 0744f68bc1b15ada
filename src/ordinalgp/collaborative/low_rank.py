"""Many raters and thousands of items: a covariance of low rank plus a diagonal.

Rater j sees item i at g_ij = w_i' z_j + h_i, with tastes z_j ~ N(0, I) of few dimensions, and a
deviation e_ij ~ N(0, d_i) of each rating, which adds to the rater's noise. So the covariance of
items is W W' + diag(d), and inference needs matrices of the number of tastes only.

Most of thousands of items have few ratings. Their parameters theta_i = (w_i, h_i) have the prior
N(m, A^-1), A diagonal, which the items teach themselves, and a posterior of their own. Under EP's
sites (tau, nu) every rating is a Gaussian observation of g. With independent posteriors of tastes
and of items (variational Bayes), x = (z_j, 1), each has the other's mean and covariance:

    precision of theta_i:  A + sum_j tau_ij E[x x']         shift:  A m + sum_j nu_ij E[x]
    precision of z_j:      I + sum_i tau_ij E[w w']         shift:  sum_i nu_ij E[w] - tau_ij E[w h]

The evidence is that of EP, the integral over prior and sites replaced by its variational bound. It
prefers fewer tastes than predict best, as such bounds do. So the rank and the number of iterations
are those with the largest log probability of a tenth of the ratings, left out for that choice.
"""

import time
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import svds

from ordinalgp._typing import BoolArray, FloatArray, IntArray
from ordinalgp.collaborative.batch import Batch, PenalisedFit, RowProbit, newton_step
from ordinalgp.collaborative.hierarchy import SharedThresholds
from ordinalgp.core.ep import cavities
from ordinalgp.core.objectives import site_share
from ordinalgp.core.posterior import Moments, Sites
from ordinalgp.core.problem import match
from ordinalgp.runtime.progress import Progress, Report, silent

RANKS = (1, 2, 4, 8, 16, 32)
"""ranks among which evidence chooses"""
_LEVEL_VARIANCE = 0.3  # of a rater's overall level at the start, as in `ratings`
_TASTE_VARIANCE, _OWN_VARIANCE = 0.3, 0.5  # of an item at the start: by tastes, and by itself
_SPREAD_OF_OWN = 0.5  # prior standard deviation of log d_i around their mean
_SMALLEST_OWN, _LARGEST_OWN = 1e-3, 10.0
_LEAST_SPREAD = 1e-6
NEWTON_LIMITS = (1.0, 0.5, 0.25, 0.125), 1e-10
"""lengths of Newton's step that are tried, and the smallest gain that is expected of one"""
_NEWTON_STEPS = 2
_START_VARIANCE = 0.02  # of an item's parameters, until they have a posterior
_HELD_EVERY, _HELD_FIRST, _FEWEST_HELD = 10, 3, 50  # ratings left out to choose
_WORSE_RANKS = 2  # one after the other, after which no higher rank is tried
_PATIENCE, _USUAL_ITERATIONS = 3, 6  # iterations without gain; iterations where none are left out
_SWEEPS = 2  # per iteration; sites go on from the last one
_FIRST_SWEEPS = 8
_BLOCK = 2**22  # numbers at a time


@dataclass(frozen=True, eq=False)
class ItemParameters:
    """Parameters of m items, and what their prior is."""

    theta: FloatArray
    """loadings w_i and mean h_i, (m, k + 1)"""
    own: FloatArray
    """d_i, (m,)"""
    center: FloatArray
    """mean of theta over items, (k + 1,)"""
    precision: FloatArray
    """A, (k + 1,)"""
    V: FloatArray
    """posterior covariance of each theta, (m, k + 1, k + 1)"""


@dataclass(frozen=True, eq=False)
class Tastes:
    """Posterior of the raters' tastes."""

    mean: FloatArray
    """(J, k)"""
    covariance: FloatArray
    """(J, k, k)"""

    @property
    def seconds(self) -> FloatArray:
        """E[x x'] with x = (z, 1), (J, k + 1, k + 1)."""
        J, k = self.mean.shape
        out = np.ones((J, k + 1, k + 1))
        out[:, :k, :k] = self.covariance + self.mean[:, :, None] * self.mean[:, None, :]
        out[:, :k, k] = out[:, k, :k] = self.mean
        return out


def tastes(batch: Batch, items: ItemParameters, sites: Sites) -> Tastes:
    """Tastes of all raters under the sites of their ratings."""
    J, k = len(batch.begins) - 1, items.theta.shape[1] - 1
    m, W, h = len(items.theta), items.theta[:, :k], items.theta[:, k]
    second = W[:, :, None] * W[:, None, :] + items.V[:, :k, :k]
    mixed = W * h[:, None] + items.V[:, :k, k]
    tau, nu = (
        sparse.csr_array((each, (batch.by, batch.index)), shape=(J, m))
        for each in (sites.tau, sites.nu)
    )
    precision = (tau @ second.reshape(m, -1)).reshape(J, k, k) + np.eye(k)
    covariance = np.linalg.inv(precision)
    shift = nu @ W - tau @ mixed
    return Tastes(np.matmul(covariance, shift[:, :, None])[:, :, 0], covariance)


def seen(by: IntArray, index: IntArray, items: ItemParameters, found: Tastes) -> Moments:
    """Posterior moments of g for pairs of a rater and an item."""
    p = items.theta.shape[1]
    mean, var = np.empty((2, len(by)))
    second = found.seconds.reshape(-1, p * p)
    V, k = items.V.reshape(-1, p * p), p - 1
    covariance = found.covariance.reshape(-1, k * k)
    block = max(1, _BLOCK // (p * p))
    for start in range(0, len(mean), block):
        rows = slice(start, start + block)
        theta, j = items.theta[index[rows]], by[rows]
        W = theta[:, :k]
        mean[rows] = theta[:, k] + np.einsum("mk,mk->m", W, found.mean[j])
        products = (W[:, :, None] * W[:, None, :]).reshape(-1, k * k)
        own = np.einsum("mp,mp->m", V[index[rows]], second[j])
        var[rows] = own + np.einsum("mk,mk->m", products, covariance[j])
    return Moments(mean, np.maximum(var, np.finfo(float).tiny))


@dataclass(frozen=True, eq=False)
class LowRankState:
    """Everything that EM changes."""

    items: ItemParameters
    theta: FloatArray
    """[log noise, b_1 / unit, log gaps] of each rater, (J, r)"""
    shared: SharedThresholds
    sites: Sites
    tastes: Tastes
    at: Moments
    """cavities of g"""
    slopes: FloatArray
    """derivatives of each rating's log probability in the mean: first and second, (2, M)"""
    value: float
    """log evidence, with Laplace's factor for the items"""
    penalty: float
    """log density of the raters' parameters"""

    @property
    def objective(self) -> float:
        """The penalised log evidence."""
        return self.value + self.penalty


@dataclass(frozen=True, eq=False)
class LowRankEM:
    """EM for one set of ratings."""

    batch: Batch
    n_items: int

    @property
    def _by_item(self) -> sparse.csr_array:
        """Sums over the ratings of each item, (m, M)."""
        M = len(self.batch.by)
        cells = np.ones(M), (self.batch.index, np.arange(M))
        return sparse.csr_array(cells, shape=(self.n_items, M))

    # ----------------------------------------------------------------------------- start

    def start(self, rank: int, shared: SharedThresholds) -> LowRankState:
        """The first state: overall levels of raters, and directions of the centred ratings."""
        M, k = len(self.batch.by), rank
        theta = np.zeros((self.n_items, k + 1))
        theta[:, 0] = np.sqrt(_LEVEL_VARIANCE)
        if k > 1:
            theta[:, 1:k] = self._directions(k - 1)
        center = np.mean(theta, axis=0)
        precision = np.full(k + 1, 1.0 / 0.3)
        V = np.tile(_START_VARIANCE * np.eye(k + 1), (self.n_items, 1, 1))
        items = ItemParameters(theta, np.full(self.n_items, _OWN_VARIANCE), center, precision, V)
        J = len(self.batch.begins) - 1
        none = Tastes(np.zeros((J, k)), np.tile(np.eye(k), (J, 1, 1)))
        zero = Moments(np.zeros(M), np.ones(M))
        own = np.tile(shared.center.theta, (J, 1))
        state = LowRankState(
            items, own, shared, Sites.flat(M), none, zero, np.zeros((2, M)), -np.inf, 0.0
        )
        return self.infer(state, _FIRST_SWEEPS)

    def _directions(self, k: int) -> FloatArray:
        """Loadings of the leading directions of the ratings, without means of raters and items."""
        batch, m = self.batch, self.n_items
        J = len(batch.begins) - 1
        y = np.asarray(batch.y, dtype=float)
        y = y - y.mean()
        for by, n in ((batch.by, J), (batch.index, m)):
            counts = np.bincount(by, minlength=n)
            y = y - (np.bincount(by, y, n) / (counts + 5.0))[by]
        table = sparse.csr_array((y, (batch.by, batch.index)), shape=(J, m))
        k_most = min(k, min(table.shape) - 1)
        found = np.zeros((m, k))
        if k_most > 0:
            first = np.ones(min(table.shape)) / np.sqrt(min(table.shape))
            _, size, right = svds(table, k=k_most, v0=first)
            found[:, :k_most] = (right[::-1] * np.sign(right[::-1].sum(axis=1))[:, None]).T
            share = (size[::-1] / size.max()) ** 0.5
            scale = np.sqrt(np.mean(found[:, :k_most] ** 2, axis=0))
            found[:, :k_most] *= np.sqrt(_TASTE_VARIANCE / k) * share / scale
            found = np.clip(found, -1.5, 1.5)
        return found

    # ---------------------------------------------------------------------------- E-step

    def infer(self, state: LowRankState, sweeps: int) -> LowRankState:
        """Some sweeps of EP, and the evidence where they end."""
        batch, items, sites = self.batch, state.items, state.sites
        own = items.own[batch.index]
        likelihood = RowProbit.of(state.theta, state.shared.center.unit, batch.by)
        for sweep in range(sweeps + 1):
            found = tastes(batch, items, sites)
            marginal = seen(batch.by, batch.index, items, found)
            at = cavities(marginal, sites)
            smoothed = likelihood.log_expectation(batch.y, at.mean, at.var + own)
            if sweep < sweeps:
                sites = match(smoothed, at)
        # EP's energy: `site_share` has half of nu E[g] too many for what is added here.
        value = smoothed.value + site_share(sites, marginal.mean, at)
        mean, var = marginal.mean, marginal.var
        value += 0.5 * sites.nu * mean - 0.5 * sites.tau * (mean**2 + var)
        off = state.theta - state.shared.center.theta
        penalty = -0.5 * state.shared.strength * float(np.sum(off**2))
        slopes = np.array([smoothed.d1, smoothed.d2])
        moved = replace(state, sites=sites, tastes=found, at=at, slopes=slopes, penalty=penalty)
        return replace(moved, value=float(value.sum()) - _divergence(items, found))

    def _item_sums(self, state: LowRankState) -> tuple[FloatArray, FloatArray]:
        """Sums of tau E[x x'] and nu E[x] over the ratings of each item."""
        batch, sites, m = self.batch, state.sites, self.n_items
        second, p = state.tastes.seconds, state.items.theta.shape[1]
        J, sums = len(second), np.empty((m, p * p))
        weights = sparse.csr_array((sites.tau, (batch.index, batch.by)), shape=(m, J))
        sums[:] = weights @ second.reshape(J, -1)
        pulls = sparse.csr_array((sites.nu, (batch.index, batch.by)), shape=(m, J))
        return sums.reshape(m, p, p), np.asarray(pulls @ second[:, :, -1])

    # ---------------------------------------------------------------------------- M-step

    def step(self, state: LowRankState) -> LowRankState:
        """M-steps of items and of raters, one after the other, each with an E-step.

        Both at once would answer to the same residuals twice, and go back and forth.
        """
        items = _whitened(self._next_items(state), state.tastes)
        state = self.infer(replace(state, items=items), _SWEEPS)
        at = Moments(state.at.mean, state.at.var + items.own[self.batch.index])
        center = state.shared.center
        strength = state.shared.strength
        fit = PenalisedFit(self.batch, at, center.theta, center.unit, strength)
        theta = state.theta
        for _ in range(_NEWTON_STEPS):
            theta, _ = newton_step(fit, theta, center.bounds, *NEWTON_LIMITS)
        middle = theta.mean(axis=0)
        middle[0] = 0.0
        shared = replace(state.shared, center=center.clone_with_theta(middle))
        return self.infer(replace(state, theta=theta, shared=shared), _SWEEPS)

    def _next_items(self, state: LowRankState) -> ItemParameters:
        items, (S, pull) = state.items, self._item_sums(state)
        A = items.precision
        V: FloatArray = np.asarray(np.linalg.inv(S + np.diag(A)), dtype=float)
        theta = np.matmul(V, (pull + A * items.center)[:, :, None])[:, :, 0]
        return _with_prior(theta, V, self._next_own(state))

    def _next_own(self, state: LowRankState) -> FloatArray:
        """One Newton step of log d_i: variance acts by half of d1^2 + d2."""
        own, batch = state.items.own, self.batch
        slope = 0.5 * own[batch.index] * (state.slopes[0] ** 2 + state.slopes[1])
        total = np.bincount(batch.index, slope, self.n_items)
        curvature = np.bincount(batch.index, slope**2, self.n_items)
        log_own = np.log(own)
        # The mean is free: first it moves for all items at once, then each item about it.
        shift = float(np.clip(total.sum() / max(curvature.sum(), 1e-9), -0.5, 0.5))
        prior = _SPREAD_OF_OWN**-2.0
        off = log_own - log_own.mean()
        step = (total - prior * off) / (curvature + prior)
        log_own = log_own + np.clip(step, -0.5, 0.5)
        log_own += shift - log_own.mean() + np.log(own).mean()
        return np.exp(np.clip(log_own, np.log(_SMALLEST_OWN), np.log(_LARGEST_OWN)))


def _whitened(items: ItemParameters, found: Tastes) -> ItemParameters:
    """The same items for tastes of mean zero and variance one.

    Expanding the model by a mean and a covariance of the tastes speeds EM up.
    """
    k = items.theta.shape[1] - 1
    mean = found.mean.mean(axis=0)
    off = found.mean - mean
    covariance = found.covariance.mean(axis=0) + off.T @ off / len(off)
    T = np.eye(k + 1)  # theta_new = theta T
    T[:k, :k], T[:k, k] = np.linalg.cholesky(covariance), mean
    return _with_prior(items.theta @ T, np.matmul(T.T, np.matmul(items.V, T)), items.own)


def _with_prior(theta: FloatArray, V: FloatArray, own: FloatArray) -> ItemParameters:
    """Items with the prior that fits their posteriors best."""
    center = theta.mean(axis=0)
    spread = np.mean((theta - center) ** 2 + np.diagonal(V, axis1=1, axis2=2), axis=0)
    spread[:-1] = spread[:-1].mean()
    return ItemParameters(theta, own, center, 1.0 / np.maximum(spread, _LEAST_SPREAD), V)


def _divergence(items: ItemParameters, found: Tastes) -> float:
    """Divergence of the posteriors of tastes and items from their priors, and of log d_i."""
    k = found.mean.shape[1]
    trace = np.trace(found.covariance, axis1=1, axis2=2)
    of_tastes = trace + np.sum(found.mean**2, axis=1) - k
    total = np.sum(of_tastes - np.linalg.slogdet(found.covariance)[1])
    A, off = items.precision, items.theta - items.center
    diagonal = np.diagonal(items.V, axis1=1, axis2=2)
    of_items = np.sum(A * (diagonal + off**2) - 1.0 - np.log(A), axis=1)
    total += np.sum(of_items - np.linalg.slogdet(items.V)[1])
    log_own = np.log(items.own)
    total += np.sum((log_own - log_own.mean()) ** 2) / _SPREAD_OF_OWN**2
    return 0.5 * float(total)


@dataclass(frozen=True, eq=False)
class LowRankFit:
    """State at the end of EM, and how it was chosen."""

    state: LowRankState
    path: FloatArray
    """objective at every iteration"""
    left_out: dict[int, float]
    """mean log probability of left-out ratings under each rank that was tried"""
    converged: bool
    """whether more iterations predict left-out ratings no better"""


def log_scores(state: LowRankState, by: IntArray, index: IntArray, y: IntArray) -> FloatArray:
    """Log probability of ratings that were not in the fit."""
    at = seen(by, index, state.items, state.tastes)
    likelihood = RowProbit.of(state.theta, state.shared.center.unit, by)
    found = likelihood.log_expectation(y, at.mean, at.var + state.items.own[index])
    return found.value


@dataclass(frozen=True, eq=False)
class _Choice:
    """Rank and number of iterations that predict left-out ratings best."""

    rank: int
    iterations: int
    scores: dict[int, float]
    converged: bool


@dataclass(frozen=True, eq=False)
class LowRankSearch:
    """Ratings to fit, and limits."""

    batch: Batch
    n_items: int
    shared: SharedThresholds
    max_iter: int
    tol: float
    report: Report = silent

    def fit(self, rank: int | None) -> LowRankFit:
        """Fit the given rank, or the best of `RANKS`."""
        chosen = self._choose(rank)
        em, began = LowRankEM(self.batch, self.n_items), time.perf_counter()
        state = em.start(chosen.rank, self.shared)
        path = [state.objective]
        for iteration in range(1, chosen.iterations + 1):
            state = em.step(state)
            path.append(state.objective)
            seconds, done = time.perf_counter() - began, iteration == chosen.iterations
            step = iteration, chosen.iterations, state.objective, seconds
            self.report(Progress("em", *step, f"all ratings, rank {chosen.rank}", done=done))
        return LowRankFit(state, np.array(path), chosen.scores, chosen.converged)

    def _choose(self, rank: int | None) -> _Choice:
        most = max(1, min(self.n_items, len(self.batch.begins) - 1) - 1)
        ranks = [rank] if rank is not None else [each for each in RANKS if each <= most]
        best = _Choice(ranks[0], self.max_iter, {}, False)
        scores: dict[int, float] = {}
        held = np.arange(len(self.batch.by)) % _HELD_EVERY == _HELD_FIRST
        if np.sum(held) < _FEWEST_HELD:
            return replace(best, iterations=min(self.max_iter, _USUAL_ITERATIONS), converged=True)
        worse = 0
        for each in ranks:
            score, iterations, converged = self._climb(each, held)
            better = not scores or score > max(scores.values())
            scores[each], worse = score, 0 if better else worse + 1
            if better:
                best = _Choice(each, iterations, scores, converged)
            if worse == _WORSE_RANKS:
                break
        return best

    def _climb(self, rank: int, held: BoolArray) -> tuple[float, int, bool]:
        """Best mean log probability of the left-out ratings, after which iteration, and why."""
        batch, began = self.batch, time.perf_counter()
        n = len(batch.begins) - 1
        own = [np.flatnonzero(~held[batch.begins[j] : batch.begins[j + 1]]) for j in range(n)]
        rows = [batch.begins[j] + some for j, some in enumerate(own)]
        em = LowRankEM(
            Batch.of([batch.index[some] for some in rows], [batch.y[some] for some in rows]),
            self.n_items,
        )
        asked = batch.by[held], batch.index[held], batch.y[held]
        state, best, at = em.start(rank, self.shared), -np.inf, 0
        for iteration in range(1, self.max_iter + 1):
            state = em.step(state)
            score = float(log_scores(state, *asked).mean())
            done = iteration >= at + _PATIENCE and score <= best + self.tol
            seconds = time.perf_counter() - began
            step = iteration, self.max_iter, score, seconds
            self.report(Progress("em", *step, f"rank {rank}, ratings left out", done=done))
            if score > best + self.tol or at == 0:
                best, at = score, iteration
            elif done:
                return best, at, True
        return best, max(at, 1), False
