"""Fits as they come against fits with one BLAS thread: seconds on the clock, alternating.

``python -m benchmarks.threads`` starts two processes, one with the environment as it is and one
with ``OMP_NUM_THREADS=1``. They fit the same models in turn, one at a time; then the same under
``joblib.Parallel(n_jobs=2)`` and inside a thread pool. It takes ten minutes, and the machine must
have nothing else to do. Words restrict the table: ``python -m benchmarks.threads ep 1000``.
"""

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import joblib
import numpy as np
from sklearn.gaussian_process.kernels import RBF

from benchmarks.collaborative_cost import simulate
from benchmarks.speed import generated
from ordinalgp import (
    CollaborativeOrdinalGP,
    IncrementalOrdinalSVC,
    KernelDiscriminantOrdinal,
    LeastSquaresOrdinalClassifier,
    OrdinalGPClassifier,
    OrdinalSVC,
    PreferenceGP,
    SequentialOrdinalGP,
    SparseBayesOrdinalClassifier,
    StackedOrdinalGP,
)

LIMIT = 1.1
SECONDS = 3.0  # per case, unless the fewest pairs of fits take longer
FEWEST, MOST = 2, 25  # pairs of fits
FITS_AT_ONCE = 4  # by two workers
ONE = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM")}


def once(objective: Any, theta: Any, bounds: Any) -> None:
    """A search with a single evaluation."""
    objective(theta)


def least_squares(**more: Any) -> Any:
    """Least squares from one start."""
    return LeastSquaresOrdinalClassifier(n_restarts_optimizer=0, **more)


Fit = Callable[[], object]


def of_levels(make: Callable[..., Any], n: int, **more: Any) -> Fit:
    """A fit to n rows of eight inputs and four levels, and probabilities of the same rows."""
    X, y = generated(n, 8)
    y = np.minimum(y, 3)

    def run() -> object:
        model = make(**more).fit(X, y)
        return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)

    return run


def of_pairs(n: int) -> Fit:
    """A fit to ten comparisons per item."""
    rng = np.random.default_rng(0)
    X, pairs = rng.normal(size=(n, 8)), rng.integers(n, size=(10 * n, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    better = np.sin(X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=n)
    wins = np.where(better[pairs[:, 0]] > better[pairs[:, 1]], 1, -1)
    return lambda: PreferenceGP().fit(X, pairs, wins)


def of_raters(n_items: int) -> Fit:
    """A fit to 60 raters."""
    raters, items, ratings = simulate(60, n_items, n_items // 2)
    kernel = RBF(1.0)(np.linspace(0, 10, n_items)[:, None])
    model = CollaborativeOrdinalGP(kernel, tol=1e-3, max_iter=10)
    return lambda: model.fit(raters, items, ratings)


def each(make: Callable[..., Any], *sizes: int, **more: Any) -> dict[int, Callable[[], Fit]]:
    """Cases of one model, by rows."""
    return {n: partial(of_levels, make, n, **more) for n in sizes}


# With many rows one evaluation tells as much as a search.
SHORT: dict[str, Any] = {"optimizer": once, "inducing": None}
CASES: dict[str, dict[int, Callable[[], Fit]]] = {
    "ep": each(OrdinalGPClassifier, 50, 300, 1000) | each(OrdinalGPClassifier, 2000, 4000, **SHORT),
    "laplace": each(OrdinalGPClassifier, 50, 300, 1000, inference="laplace")
    | each(OrdinalGPClassifier, 2000, 4000, inference="laplace", **SHORT),
    "default": each(OrdinalGPClassifier, 4000),
    "least squares": each(least_squares, 50, 300, 1000)
    | each(least_squares, 2000, 4000, optimizer=once),
    "sparse": each(SparseBayesOrdinalClassifier, 50, 300, 1000, 4000),
    "sequential": each(SequentialOrdinalGP, 50, 300, 1000),
    "stacked": each(StackedOrdinalGP, 50, 300),
    "svm": each(OrdinalSVC, 50, 300, 1000, 4000),
    "incremental svm": each(IncrementalOrdinalSVC, 50, 300, 1000),
    "discriminant": each(KernelDiscriminantOrdinal, 50, 300, 1000, 4000),
    "comparisons": {n: partial(of_pairs, n) for n in (50, 300)},
    "raters": {n: partial(of_raters, n) for n in (80, 300)},
}
AT_ONCE = (("ep", 300), ("ep", 1000), ("laplace", 1000), ("least squares", 300), ("sparse", 300))


def alone(fit: Fit) -> object:
    """One fit."""
    return fit()


def with_joblib(fit: Fit) -> object:
    """Four fits by two processes."""
    return joblib.Parallel(2)(joblib.delayed(fit)() for _ in range(FITS_AT_ONCE))


def in_threads(fit: Fit) -> object:
    """Four fits by two threads."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda _: fit(), range(FITS_AT_ONCE)))


WAYS: dict[str, Callable[[Fit], object]] = {
    "alone": alone,
    "joblib": with_joblib,
    "threads": in_threads,
}


def work() -> None:
    """Time the cases that are asked for on standard input; a case is timed after one try."""
    warnings.simplefilter("ignore")
    last: tuple[str, Fit] | None = None
    for line in sys.stdin:
        way, n, name = line.rstrip("\n").split(" ", 2)
        if last is None or last[0] != line:
            last = line, CASES[name][int(n)]()
            if int(n) <= 300:
                WAYS[way](last[1])
        began = time.perf_counter()
        WAYS[way](last[1])
        print(time.perf_counter() - began, flush=True)


@dataclass
class Worker:
    """A process that fits with an environment of its own."""

    process: subprocess.Popen[str]

    @classmethod
    def start(cls, environment: dict[str, str]) -> "Worker":
        """Start a process."""
        command = [sys.executable, "-m", "benchmarks.threads", "--work"]
        pipe = subprocess.PIPE
        return cls(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment))

    def seconds(self, case: str) -> float:
        """Seconds of one run."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(case, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def cases(words: list[str]) -> Iterator[tuple[str, str, int]]:
    """Way, model and rows; with words, those named."""
    every = [("alone", name, n) for name, sizes in CASES.items() for n in sizes]
    every += [(way, name, n) for way in ("joblib", "threads") for name, n in AT_ONCE]
    for case in every:
        if all(word in map(str, case) for word in words):
            yield case


def compare(workers: list[Worker], case: str) -> np.ndarray:
    """Seconds of alternating runs, (pairs, 2)."""
    pairs: list[list[float]] = []
    while len(pairs) < FEWEST or (np.sum(pairs) < SECONDS and len(pairs) < MOST):
        pairs.append([worker.seconds(case) for worker in workers])
    return np.array(pairs)


def main(words: list[str]) -> None:
    """Print a line per case, and the largest ratio."""
    usual = {k: v for k, v in os.environ.items() if k not in ONE}
    workers = [Worker.start(usual), Worker.start(usual | ONE)]
    print("Seconds of the fastest fit with predictions of the same rows, as it comes and with one")
    print(f"thread, and their ratio (limit {LIMIT})")
    print(f"{'':>8} {'model':>16} {'rows':>5} {'pairs':>5} {'comes':>8} {'one':>8} ratio")
    worst = 0.0
    for way, name, n in cases(words):
        found = compare(workers, f"{way} {n} {name}")
        comes, one = found.min(axis=0)
        worst = max(worst, comes / one)
        numbers = f"{len(found):>5} {comes:8.4f} {one:8.4f} {comes / one:5.2f}"
        print(f"{way:>8} {name:>16} {n:>5} {numbers}", flush=True)
    print(f"largest ratio: {worst:.2f}")
    for worker in workers:
        worker.process.communicate()


if __name__ == "__main__":
    if sys.argv[1:] == ["--work"]:
        work()
    else:
        main(sys.argv[1:])
