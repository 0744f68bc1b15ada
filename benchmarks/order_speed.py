"""Speed of ``PreferenceGP``: 500 items and 5,000 comparisons, in Cholesky factorisations.

``python -m benchmarks.order_speed``, alone on the machine, one thread, processor time.
"""

import time

import numpy as np

from ordinalgp import PreferenceGP
from papers.runner import cholesky_seconds

N, M, D = 500, 5000, 8


def simulated(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Items in the plane of D features and noisy, graded comparisons of a smooth utility."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D))
    f = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2]
    first, step = rng.integers([0, 1], [N, N], size=(M, 2)).T
    pairs = np.column_stack([first, (first + step) % N])
    return X, pairs, f[pairs[:, 0]] - f[pairs[:, 1]] + 0.3 * rng.normal(size=M)


def main() -> None:
    X, pairs, u = simulated()
    outcomes = {"wins": np.where(u > 0, 1, -1), "ties": np.digitize(u, [-0.5, 0.5]) - 1}
    print(f"{N} items, {M} comparisons, {D} features; times in dpotrf({N})")
    print("| outcomes | inference | evaluations | one evaluation | whole fit |")
    print("|---|---|---|---|---|")
    for name, y in outcomes.items():
        for inference in ("ep", "laplace"):
            before, start = cholesky_seconds(N), time.process_time()
            model = PreferenceGP("features", inference=inference).fit(X, pairs, y)
            seconds = time.process_time() - start
            unit = (before + cholesky_seconds(N)) / 2
            count = len(model.evidence_path_) + 1  # fit evaluates once more at the optimum
            figures = f"{seconds / count / unit:.0f} | {seconds / unit:.0f}"
            print(f"| {name} | {inference} | {count} | {figures} |", flush=True)
    many = np.random.default_rng(1).normal(size=(1000, D))
    for strategy in ("information", "prediction"):
        for n in (1, 10):
            start = time.process_time()
            model.suggest_pairs(many, n, strategy=strategy)
            cost = (time.process_time() - start) / unit
            print(f"suggest_pairs(1,000 items, n={n}), ties, {strategy}: {cost:.0f} dpotrf({N})")


if __name__ == "__main__":
    main()
