"""Sums of margins solved as printed: literal primal, batch interior point, then exact sets.

The interior point method of ``OrdinalSVC`` tells multipliers apart: at zero, between their bounds,
at the upper bound. With these sets the optimality conditions are linear equations. Their solution
is accepted only if it fulfils the inequalities too, so it is exact whatever suggested the sets.
"""

import numpy as np
from scipy.optimize import lsq_linear

from ordinalgp.baselines.soft_margin import margins, solve_margins


def primal(f, length, cuts, rho, y, cost):
    """Literal objective: latent values, |w|^2, cuts and margins."""
    short = 0.0
    for i, level in enumerate(y):
        if level < len(cuts):
            short += cost[i] * max(0.0, rho[level] + f[i] - cuts[level])
        if level > 0:
            short += cost[i] * max(0.0, rho[level - 1] - f[i] + cuts[level - 1])
    return 0.5 * length - 2 * np.sum(rho) + short


def batch(K, y, cost):
    """Latent values of the exact solution, (n,), and its primal value."""
    n = len(y)
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-13 * values[-1]
    features = vectors[:, kept] * np.sqrt(values[kept])
    rows = margins(y, cost, np.arange(n), "sum_of_margins")
    found = solve_margins(features, rows, tol=1e-13, max_steps=200)
    share = found.multipliers / rows.cost
    side = 2 * rows.cut + (rows.sign > 0)
    p = int(y.max())
    Q = np.outer(rows.sign, rows.sign) * K[np.ix_(rows.input, rows.input)]
    sums = np.bincount(side, found.multipliers, 2 * p)
    for limit in 10.0 ** np.arange(-7, -2):
        for free in 10.0 ** np.arange(-7, -2):
            low, high = share < limit, share > 1 - limit
            wide = sums[::2] < 1 + free  # rho > 0
            solved = _solve(Q, side, rows, found.multipliers, low, high, wide)
            if solved is not None:
                beta = np.bincount(rows.input, rows.sign * solved[0], n)
                f = K @ beta
                edge = np.array([-1.0, 1.0] * p) * solved[1]
                value = primal(f, beta @ f, *_cuts(edge), y, cost)
                assert abs(value + 0.5 * beta @ f) < 1e-8 * (1 + abs(value))  # primal is dual
                return f, value
    raise AssertionError("no sets of the interior point method fulfil the conditions")


def _cuts(edge):
    return 0.5 * (edge[::2] + edge[1::2]), 0.5 * (edge[1::2] - edge[::2])


def _solve(Q, side, rows, near_alpha, low, high, wide):
    """Multipliers and tau that solve the equations of some sets, if these are the right ones.

    Where multipliers are not unique these are the nearest to the interior point method's.
    """
    p = len(wide)
    middle = np.flatnonzero(~low & ~high)
    alpha = np.where(high, rows.cost, 0.0)
    A = (side == np.arange(2 * p)[:, None]).astype(float)
    tied = np.flatnonzero(~wide)
    E = np.zeros((2 * p, len(tied)))  # excess of cuts without a margin
    E[2 * tied, np.arange(len(tied))] = E[2 * tied + 1, np.arange(len(tied))] = -1.0
    m, t, e = len(middle), 2 * p, len(tied)
    system = np.zeros((m + t + e, m + t + e))
    system[:m, :m] = Q[np.ix_(middle, middle)]
    system[:m, m : m + t] = -A[:, middle].T
    system[m : m + t, :m] = A[:, middle]
    system[m : m + t, m + t :] = E
    system[m + t :, m : m + t] = E.T
    right = np.concatenate([-Q[middle] @ alpha, 1.0 - A @ alpha, np.zeros(e)])
    excess = np.bincount(side, near_alpha, t)[2 * tied] - 1.0
    start = np.concatenate([near_alpha[middle], np.zeros(t), excess])
    solved = start + np.linalg.lstsq(system, right - system @ start, rcond=1e-13)[0]
    least = np.concatenate([np.zeros(m), np.full(t, -np.inf), np.zeros(e)])
    most = np.concatenate([rows.cost[middle], np.full(t + e, np.inf)])
    if np.any(solved < least - 1e-9) or np.any(solved > most + 1e-9):  # nearly singular
        bounds = np.minimum(least - start, 0.0), np.maximum(most - start, 0.0)
        change = lsq_linear(system, right - system @ start, bounds, method="bvls", tol=1e-15).x
        solved = start + change
    if np.abs(system @ solved - right).max() > 1e-10:
        return None
    alpha[middle] = solved[:m]
    excess = solved[m + t :]
    own = Q @ alpha
    tau = _free(solved[m : m + t], own, side, low, high, middle, wide)
    g = own - tau[side]
    near = 1e-9 * (1 + np.abs(own).max())
    fine = (
        np.all(alpha >= -1e-9)
        and np.all(alpha <= rows.cost + 1e-9)
        and np.all(excess >= -1e-9)
        and np.all(g[low] >= -near)
        and np.all(g[high] <= near)
        and np.all(tau[::2] + tau[1::2] >= -near)
    )
    return (alpha, tau) if fine else None


def _free(tau, own, side, low, high, middle, wide):
    """``tau`` with those that no row between its bounds determines put where they are allowed."""
    tau = tau.copy()
    for j in range(len(wide)):
        sides = [2 * j, 2 * j + 1]
        least = [np.max(own[(side == s) & high], initial=-np.inf) for s in sides]
        most = [np.min(own[(side == s) & low], initial=np.inf) for s in sides]
        has = [np.any(side[middle] == s) for s in sides]
        if wide[j]:
            for s, lo, hi, fixed in zip(sides, least, most, has, strict=True):
                if not fixed:
                    tau[s] = hi if np.isfinite(hi) else lo + 100.0  # any will do
        elif not any(has):
            value = max(least[0], -most[1])
            tau[sides] = (value, -value) if np.isfinite(value) else (min(most[0], -least[1]), 0)
            tau[sides[1]] = -tau[sides[0]]
    return tau
