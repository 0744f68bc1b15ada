"""Support vector ordinal regression: one direction, parallel cuts, soft margins.

With features g of the inputs, the problem of [Chu07]_ in all its forms is

    min  |w|^2 / 2 + sum_k c_k max(0, 1 - s_k (g_k'w - b_k)),

where row k is one input on side s_k of one cut b_k. "implicit": every input and every cut.
"fixed_margin": every input and the one or two cuts next to its level. "explicit": the same, and
b_1 <= b_2 <= ... The multipliers of this order cannot exceed the sum of all costs, so a penalty of
that size on a violation is exact.

"sum_of_margins" has the rows of "fixed_margin" and, after [Shashua03]_ and [Gu15]_, a margin
rho_j >= 0 of its own around every cut:

    min  |w|^2 / 2 - 2 sum_j rho_j + sum_k c_k max(0, rho_k - s_k (g_k'w - b_k)).

The unknowns are the edges b_j - rho_j and b_j + rho_j, and the bound is kept like the order.

Solved in w and b by a primal-dual interior point method (Mehrotra's predictor and corrector): one
factorisation of the size of the features per step, some 20 steps, whatever the number of rows.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.linalg import scaled_solver

_STEP_SHARE = 0.995  # of the longest step that stays inside
_FLAT = 1e-9  # slope of a cut's objective, over the sum of its costs
_NO_FUNCTION = 1e-8  # norm of the weights, over that of a row's features, that is zero
_TOUCHING = 1e-5  # largest distance of a function without digits that is zero
_NO_DIGIT = 0.1  # relative error, from which a function has none
_NO_PRODUCT = 1e-26  # of multipliers and slacks, over the kernel: no function is that small
_MOST_STALLED_STEPS = 15  # that do not halve the error: nothing is left to gain


@dataclass(frozen=True, eq=False)
class Margins:
    """Rows of the problem, each of shape (K,)."""

    row: IntArray
    """observation that wants the margin"""
    input: IntArray
    cut: IntArray
    sign: FloatArray
    """+1 where the input lies above the cut"""
    cost: FloatArray
    ordered: bool
    """whether the cuts must not decrease"""
    widened: bool
    """whether each cut has a margin of its own, and their sum is maximised"""


@dataclass(frozen=True, eq=False)
class MarginSolution:
    """Direction, cuts and multipliers of the solution."""

    weights: FloatArray
    """w, in features, (m,)"""
    cuts: FloatArray
    """b, (r - 1,)"""
    margins: FloatArray
    """rho_j of sums of margins, else 1, (r - 1,)"""
    multipliers: FloatArray
    """of the margins' rows, from 0 to their cost, (K,)"""
    error: float
    """largest of the relative gap of the objectives and the residuals"""
    n_steps: int
    converged: bool


def margins(codes: IntArray, counts: FloatArray, inputs: IntArray, constraints: str) -> Margins:
    """Rows for observations of level ``codes`` (0..r-1, all present), each ``counts`` times."""
    cuts = np.arange(codes.max())
    if constraints == "implicit":
        take = np.ones((len(codes), len(cuts)), dtype=bool)
    else:
        take = (cuts == codes[:, None]) | (cuts == codes[:, None] - 1)
    row, cut = np.nonzero(take)
    sign = np.where(codes[row] > cut, 1.0, -1.0)
    kind = constraints == "explicit", constraints == "sum_of_margins"
    return Margins(row, inputs[row], cut, sign, counts[row], *kind)


class _Constraints:
    """The matrix of all constraints: margins, then differences of cuts where they are ordered."""

    def __init__(self, features: FloatArray, rows: Margins) -> None:
        self.features, self.rows = features, rows
        self.n, self.m = features.shape
        self.size = float(np.sqrt(np.max(np.sum(features**2, axis=1))))
        self.p = int(rows.cut.max()) + 1
        p = self.p
        if rows.widened:  # cuts and margins are edges b - rho, b + rho in pairs
            self.edge = 2 * rows.cut + (rows.sign > 0)
            self.order = np.kron(np.eye(p), [[-1.0, 1.0]])
            self.p = 2 * p
        else:
            self.edge = rows.cut
            self.order = np.diff(np.eye(p), axis=0)[: p - 1 if rows.ordered else 0]
        q = len(self.order)
        self.cost = np.concatenate([rows.cost, np.full(q, 2 * rows.cost.sum())])
        self.target = np.concatenate([np.full(len(rows.cost), 1.0 - rows.widened), np.zeros(q)])
        # Cost x' diag(flat) x / 2 + linear'x.
        self.flat = np.concatenate([np.ones(self.m), np.zeros(self.p)])
        on_edges = np.tile([1.0, -1.0], p) if rows.widened else np.zeros(p)
        self.linear = np.concatenate([np.zeros(self.m), on_edges])

    def apply(self, x: FloatArray) -> FloatArray:
        f, b = self.features @ x[: self.m], x[self.m :]
        margin = self.rows.sign * (f[self.rows.input] - b[self.edge])
        return np.concatenate([margin, self.order @ b])

    def adjoint(self, v: FloatArray) -> FloatArray:
        k, rows = len(self.rows.cost), self.rows
        signed = rows.sign * v[:k]
        on_w = self.features.T @ np.bincount(rows.input, signed, self.n)
        on_b = self.order.T @ v[k:] - np.bincount(self.edge, signed, self.p)
        return np.concatenate([on_w, on_b])

    def normal(self, theta: FloatArray) -> FloatArray:
        """diag(flat) + A' diag(theta) A, (m + p, m + p)."""
        k, m, rows = len(self.rows.cost), self.m, self.rows
        shape = (self.n, self.p)
        by_cut = sparse.csr_array((theta[:k], (rows.input, self.edge)), shape=shape)
        total = np.asarray(by_cut.sum(axis=1)).ravel()
        out = np.diag(self.flat)
        out[:m, :m] += self.features.T @ (total[:, None] * self.features)
        out[:m, m:] = -(by_cut.T @ self.features).T
        out[m:, :m] = out[:m, m:].T
        out[m:, m:] += np.diag(np.asarray(by_cut.sum(axis=0)).ravel())
        out[m:, m:] += self.order.T @ (theta[k:, None] * self.order)
        return out


@dataclass(frozen=True, eq=False)
class _Iterate:
    """Point of the method, or a step from it."""

    x: FloatArray
    """w and b, (m + p,)"""
    bounded: FloatArray
    """positive, (4, K): multipliers, cost less multipliers, slack and shortfall of each row; the
    second is kept apart because the difference cancels"""

    @property
    def products(self) -> FloatArray:
        """Products of each bounded quantity with its counterpart, (2, K); zero at the solution."""
        return self.bounded[:2] * self.bounded[2:]

    def moved(self, d: "_Iterate", step: float) -> "_Iterate":
        return _Iterate(self.x + step * d.x, self.bounded + step * d.bounded)

    def longest(self, d: "_Iterate") -> float:
        """Step to the nearest bound."""
        falls = d.bounded < 0
        return float(np.min(-self.bounded[falls] / d.bounded[falls], initial=np.inf))


def solve_margins(
    features: FloatArray, rows: Margins, *, tol: float = 1e-8, max_steps: int = 100
) -> MarginSolution:
    """Solve the problem; ``tol`` bounds the relative gap of the objectives and the residuals."""
    A = _Constraints(features, rows)
    half = 0.5 * np.minimum(A.cost, A.cost[: len(rows.cost)].mean())
    ones = np.ones_like(A.cost)
    now = _Iterate(np.zeros(A.m + A.p), np.stack([half, A.cost - half, ones, ones]))
    best, error, product, done, stalled = now, np.inf, np.inf, False, 0
    nearest, apart = now, np.inf
    for n_steps in range(1, max_steps + 1):  # noqa: B007 (read after the loop)
        alpha, _, slack, short = now.bounded
        dual = A.flat * now.x + A.linear - A.adjoint(alpha)
        margin = A.apply(now.x) - A.target
        primal = slack - short - margin
        wrong = _error(A, now, dual, primal, margin)
        mean = float(now.products.mean())
        stalled = stalled + 1 if wrong > error / 2 and mean > product / 2 else 0
        product = min(product, mean)
        if wrong < error:
            best, error = now, wrong
        if (distance := _distance(A, now, dual)) < apart:
            nearest, apart = now, distance
        done = bool(error <= tol)
        least = mean <= _NO_PRODUCT * A.size**2
        if done or least or stalled == _MOST_STALLED_STEPS:  # rounding, from here on
            break
        now = _step(A, now, dual, primal)
    tiny = error > _NO_DIGIT or np.linalg.norm(best.x[: A.m]) <= _NO_FUNCTION * A.size
    if rows.widened and tiny and apart <= _TOUCHING:
        nothing, multipliers = np.zeros(A.p // 2), nearest.bounded[0, : len(rows.cost)]
        zero = np.zeros(A.m), nothing, nothing, multipliers
        return MarginSolution(*zero, apart**2, n_steps, apart**2 <= tol)
    multipliers = best.bounded[0, : len(rows.cost)]
    weights, edges = best.x[: A.m], best.x[A.m :]
    cuts, wide = edges, np.ones_like(edges)
    if rows.widened:
        cuts, wide = 0.5 * (edges[::2] + edges[1::2]), 0.5 * (edges[1::2] - edges[::2])
    if done:
        middle = middle_cuts(features @ weights, rows)
        cuts = cuts if rows.ordered and np.any(np.diff(middle) < 0) else middle
    return MarginSolution(weights, cuts, wide, multipliers, float(error), n_steps, done)


def _distance(A: _Constraints, now: _Iterate, dual: FloatArray) -> float:
    """Norm of the multipliers' function, relative to features and costs, and what sums lack.

    Half the square of the norm is the gap of the zero function. Where it is zero, levels overlap
    so much for their cost that no function is worth its length.
    """
    most = max(1.0, float(A.rows.cost.max()))
    norm = np.linalg.norm(now.x[: A.m] - dual[: A.m]) / A.size
    return float(max(norm, np.abs(dual[A.m :]).max())) / most


def middle_cuts(f: FloatArray, rows: Margins) -> FloatArray:
    """Best cuts for latent values of the inputs, without an order; of several the middle.

    The objective of a cut, or of an edge, is convex and linear between the values at which a row
    has its margin. Where few rows are on their margin it can be flat: any value there is best.
    """
    cuts = np.empty(int(rows.cut.max()) + 1)
    for cut in range(len(cuts)):
        mine = rows.cut == cut
        sign, cost, own = rows.sign[mine], rows.cost[mine], f[rows.input[mine]]
        above, below = sign > 0, sign < 0
        least = -cost[below].sum()
        if not rows.widened:
            cuts[cut] = np.mean(_lowest(own - sign, cost, least))
            continue
        low = _lowest(own[below], cost[below], 1.0 + least)
        high = _lowest(own[above], cost[above], -1.0)
        if sum(high) >= sum(low):
            cuts[cut] = 0.25 * (sum(low) + sum(high))
        elif high[1] >= low[0]:  # a margin of zero is one of the best
            cuts[cut] = 0.5 * (max(low[0], high[0]) + min(low[1], high[1]))
        else:
            cuts[cut] = np.mean(_lowest(own, cost, least))
    return cuts


def _lowest(at: FloatArray, cost: FloatArray, slope: float) -> tuple[float, float]:
    """Interval of the minima of a convex function whose slope grows by a cost at each place."""
    order = np.argsort(at, kind="stable")
    behind = slope + np.cumsum(cost[order])
    flat = _FLAT * cost.sum()
    low = int(np.argmax(behind >= -flat))
    high = int(np.argmax(behind > flat)) if behind[-1] > flat else low
    return float(at[order[low]]), float(at[order[high]])


def _error(
    A: _Constraints, now: _Iterate, dual: FloatArray, primal: FloatArray, margin: FloatArray
) -> float:
    """Largest of the gap of the objectives and the residuals, relative to what they belong to."""
    quadratic = 0.5 * A.flat @ now.x**2
    value = quadratic + A.linear @ now.x + A.cost @ np.maximum(-margin, 0.0)
    gap = abs(value - A.target @ now.bounded[0] + quadratic)
    if not A.rows.widened:
        scale = 1.0 + A.rows.cost.max()
        wrong = gap / (1.0 + abs(value)), np.abs(dual).max() / scale, np.abs(primal).max()
        return float(max(wrong))
    # No margin sets a scale: it is that of the function itself, which can be very small.
    size = max(float(np.sqrt(2 * quadratic)), _NO_FUNCTION * A.size)
    on_w, on_b = np.abs(dual[: A.m]).max(initial=0.0) / size, np.abs(dual[A.m :]).max()
    return float(max(gap / size**2, on_w, on_b, np.abs(primal).max() / (size * A.size)))


def _step(A: _Constraints, now: _Iterate, dual: FloatArray, primal: FloatArray) -> _Iterate:
    alpha, rest, slack, short = now.bounded
    theta = 1.0 / (slack / alpha + short / rest)
    solve = scaled_solver(A.normal(theta))

    def direction(wanted: FloatArray) -> _Iterate:
        """Newton's step towards products of these values: rows are eliminated, then x."""
        push = wanted[0] / alpha - wanted[1] / rest + primal
        x = solve(A.adjoint(theta * push) - dual)
        change = theta * (push - A.apply(x))
        on_slack = (wanted[0] - slack * change) / alpha
        on_short = (wanted[1] + short * change) / rest
        return _Iterate(x, np.stack([change, -change, on_slack, on_short]))

    products = now.products
    first = direction(-products)
    ahead = now.moved(first, min(1.0, now.longest(first))).products.mean()
    mean = products.mean()
    d = direction(mean * (ahead / mean) ** 3 - products - first.products)
    return now.moved(d, min(1.0, _STEP_SHARE * now.longest(d)))
