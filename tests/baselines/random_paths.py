"""Random problems whose rows join and leave one by one: ``python -m tests.baselines.random_paths``.

After each change the path's solution is compared with the batch solution of the same rows. With
kernels so wide that they are nearly singular the batch solution has no eight digits (``--wide``).
There the primal value is compared with the dual one, which bounds it from below.
"""

import argparse

import numpy as np
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern
from tests.reference.sum_of_margins import batch, primal

from ordinalgp import IncrementalOrdinalSVC

KERNELS = [
    RBF(0.5),
    Matern(1.0, nu=0.5),
    Matern(0.7, nu=1.5),
    DotProduct(0.5),
]  # not nearly singular
WIDE = [RBF(5.0), RBF(20.0), RBF(100.0)]


def problem(seed):
    """Kernel, cost and rows; grids give ties and duplicates, random labels degenerate sets."""
    rng = np.random.default_rng(seed)
    r = int(rng.integers(2, 5))
    n = int(rng.integers(2 * r + 2, 16))
    X = rng.normal(size=(n, int(rng.integers(1, 4))))
    if seed % 3 == 0:
        X = np.round(2 * X) / 2
    f = X.sum(axis=1) + 0.5 * rng.normal(size=n)
    y = np.argsort(np.argsort(f)) * r // n
    if seed % 2:
        y = rng.permutation(y)
    if seed % 5 == 0:  # duplicates
        copies = rng.integers(0, n, 3)
        X, y = np.vstack([X, X[copies]]), np.append(y, y[copies])
    return KERNELS[seed % 4], float(rng.choice([0.5, 1.0, 1.5, 20.0])), X, y, rng


def merged(X, y):
    """Distinct rows with their numbers."""
    rows, counts = np.unique(np.column_stack([X, y]), axis=0, return_counts=True)
    return rows[:, :-1], rows[:, -1].astype(int), counts.astype(float)


def difference(model, X, y):
    """Largest difference of latent values from the batch solution, and of the primal values."""
    X, y, counts = merged(X, y)
    y = np.searchsorted(np.unique(y), y)
    cost = model.C * counts
    f, value = batch(model.kernel(X), y, cost)
    ours = model.latent(X)
    cuts = model.thresholds_[np.isfinite(model.thresholds_)]
    found = model._result.model
    rho = np.array([_best_rho(ours, y, cost, cuts, j) for j in range(len(cuts))])
    length = found.coefficients @ model.kernel(found.centres) @ found.coefficients
    mine = primal(ours, length, cuts, rho, y, cost)
    return float(np.abs(ours - f).max()), float(abs(mine - value))


def _best_rho(f, y, cost, cuts, j):
    """The margin that is best for a cut: the objective is linear between the rows' own."""
    own = np.concatenate([[0.0], cuts[j] - f[y == j], f[y == j + 1] - cuts[j]])
    own = np.maximum(own, 0.0)

    def value(rho):
        margins = np.zeros(len(cuts))
        margins[j] = rho
        here = (y == j) | (y == j + 1)
        low = np.where(y == j, cost * np.maximum(rho + f - cuts[j], 0.0), 0.0)
        high = np.where(y == j + 1, cost * np.maximum(rho - f + cuts[j], 0.0), 0.0)
        return -2 * rho + (low + high)[here].sum()

    return min(own, key=value)


def certificate(model, X, y):
    """Primal less dual value, violation of the dual's bounds and sums, and of the conditions."""
    X, y, counts = merged(X, y)
    y = np.searchsorted(np.unique(y), y)
    cost = model.C * counts
    cuts = model.thresholds_[np.isfinite(model.thresholds_)]
    found = model._result.model
    f = model.latent(X)
    rho = np.array([_best_rho(f, y, cost, cuts, j) for j in range(len(cuts))])
    length = found.coefficients @ model.kernel(found.centres) @ found.coefficients
    gap = primal(f, length, cuts, rho, y, cost) + 0.5 * length
    codes = np.searchsorted(np.unique(found.rows.codes), found.rows.codes)
    above, below = found.multipliers.T
    wide = 1.0 + found.excess
    sums = [
        np.bincount(codes, above)[1:] - wide,
        np.bincount(codes, below, len(wide))[: len(wide)] - wide,
    ]
    over = found.multipliers - model.C * found.rows.counts[:, None]
    infeasible = max(np.abs(sums).max(), over.max(), -found.multipliers.min())
    return float(gap), float(infeasible), model.gap_


def walk(seed, kernel=None, judge=difference):
    """Differences after each row that joins, and each that leaves."""
    own, C, X, y, rng = problem(seed)
    kernel = own if kernel is None else kernel
    levels = np.unique(y)
    enough = int(np.ceil(1 / C))
    start = np.concatenate([np.flatnonzero(y == k)[:enough] for k in levels])
    model = IncrementalOrdinalSVC(kernel, algorithm="path", C=C, categories=list(levels))
    model.fit(X[start], y[start])
    inside = list(start)
    yield judge(model, X[inside], y[inside])
    for i in rng.permutation(np.setdiff1d(np.arange(len(X)), start)):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
        inside.append(i)
        yield judge(model, X[inside], y[inside])
    for i in rng.permutation(len(X)):
        rest = [j for j in inside if j != i]
        if C * np.bincount(y[rest], minlength=len(levels)).min() < 1:
            continue
        model.remove_rows(X[i : i + 1], y[i : i + 1])
        inside = rest
        yield judge(model, X[inside], y[inside])


def main():
    """Walk through many problems and print the largest differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--wide", action="store_true", help="Wide kernels, beside the dual.")
    arguments = parser.parse_args()
    first, n_problems = arguments.first, arguments.problems
    names = ("gap", "dual", "conditions") if arguments.wide else ("latent", "value")
    worst, steps = np.zeros(len(names)), 0
    for seed in range(first, first + n_problems):
        given = (WIDE[seed % 3], certificate) if arguments.wide else ()
        try:
            found = np.array(list(walk(seed, *given)))
        except AssertionError as error:
            print(f"problem {seed}: {error}", flush=True)
            continue
        steps += len(found)
        worst = np.maximum(worst, found.max(axis=0))
        if not arguments.wide and found.max() > 1e-8:
            print(f"problem {seed}: {found.max(axis=0)}", flush=True)
    shown = ", ".join(f"{name} {size:.1e}" for name, size in zip(names, worst, strict=True))
    print(f"{n_problems} problems, {steps} changes: {shown}")


if __name__ == "__main__":
    main()
