"""Random problems whose rows join and leave one by one: ``python -m tests.baselines.random_paths``.

After each change the path's solution is compared with the batch solution of the same rows.
"""

import argparse

import numpy as np
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern
from tests.reference.sum_of_margins import batch, primal

from ordinalgp import IncrementalOrdinalSVC

# Of full rank in floating point, or exactly singular. With nearly singular ones, as of wide
# Gaussian kernels, the batch solution has no eight digits; the tests check its conditions instead.
KERNELS = [RBF(0.5), Matern(1.0, nu=0.5), Matern(0.7, nu=1.5), DotProduct(0.5)]


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


def walk(seed):
    """Differences after each row that joins, and each that leaves."""
    kernel, C, X, y, rng = problem(seed)
    levels = np.unique(y)
    enough = int(np.ceil(1 / C))
    start = np.concatenate([np.flatnonzero(y == k)[:enough] for k in levels])
    model = IncrementalOrdinalSVC(kernel, algorithm="path", C=C, categories=list(levels))
    model.fit(X[start], y[start])
    inside = list(start)
    yield difference(model, X[inside], y[inside])
    for i in rng.permutation(np.setdiff1d(np.arange(len(X)), start)):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
        inside.append(i)
        yield difference(model, X[inside], y[inside])
    for i in rng.permutation(len(X)):
        rest = [j for j in inside if j != i]
        if C * np.bincount(y[rest], minlength=len(levels)).min() < 1:
            continue
        model.remove_rows(X[i : i + 1], y[i : i + 1])
        inside = rest
        yield difference(model, X[inside], y[inside])


def main():
    """Walk through many problems and print the largest differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    first, n_problems = arguments.first, arguments.problems
    worst, steps = np.zeros(2), 0
    for seed in range(first, first + n_problems):
        try:
            found = np.array(list(walk(seed)))
        except AssertionError as error:
            print(f"problem {seed}: {error}", flush=True)
            continue
        steps += len(found)
        worst = np.maximum(worst, found.max(axis=0))
        if found.max() > 1e-8:
            print(f"problem {seed}: {found.max(axis=0)}", flush=True)
    print(f"{n_problems} problems, {steps} changes: latent {worst[0]:.1e}, value {worst[1]:.1e}")


if __name__ == "__main__":
    main()
