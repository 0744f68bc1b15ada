"""Cost of one evidence evaluation, in Cholesky factorisations of the same order.

``make bench`` runs it with one BLAS thread. Every figure is a ratio of two processor times of
this process, so that it hardly depends on the machine and on who else uses it.
"""

import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.gaussian_process.kernels import RBF

from ordinalgp import LeastSquaresOrdinalClassifier, OrdinalGPClassifier
from papers.data import DataUnavailableError, data_folder
from papers.runner import Cell, cholesky_seconds, load_split

LIMITS = {"ep": 25.0, "laplace": 12.0}


def digits(n: int) -> tuple[np.ndarray, np.ndarray]:
    """n images of handwritten digits, 60 pixels that vary, and five levels of ink."""
    pixels = load_digits().data[:n]
    moving = np.argsort(-pixels.std(axis=0))[:60]
    X = pixels[:, moving]
    ink = pixels.sum(axis=1)
    y = np.digitize(ink, np.quantile(ink, [0.2, 0.4, 0.6, 0.8]))
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def abalone(n: int) -> tuple[np.ndarray, np.ndarray]:
    """n rows of the Abalone data, 10 inputs, five levels of age."""
    split = load_split(Cell("abalone", 5, 1, ""), data_folder())
    X = np.concatenate([split.X_train, split.X_test])
    y = np.concatenate([split.y_train, split.y_test])
    return X[:n], y[:n]


def stocks(n: int) -> tuple[np.ndarray, np.ndarray]:
    """n rows of the Stocks data: small noise, where EP needs the most sweeps."""
    split = load_split(Cell("stocks", 5, 1, ""), data_folder())
    return split.X_train[:n], split.y_train[:n]


def cases() -> Iterator[tuple[str, int, tuple[np.ndarray, np.ndarray]]]:
    """Name, order and rows of every problem; digits only where the data folder is absent."""
    try:
        data_folder()
    except DataUnavailableError:
        yield from (("digits", n, digits(n)) for n in (500, 1000, 1797))
        return
    yield from (("abalone", n, abalone(n)) for n in (500, 1000, 2000))
    yield "stocks", 600, stocks(600)


def peak_matrices(run: Callable[[], object], n: int) -> float:
    """Peak memory that numpy asked for, in n x n arrays of doubles."""
    gc.collect()
    tracemalloc.start()
    run()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / (8.0 * n * n)


def cost_per_evaluation(model: Any, X: np.ndarray, y: np.ndarray) -> tuple[float, int]:
    """Seconds per evaluation averaged over a whole fit, and how many there were."""
    start = time.process_time()
    model.fit(X, y)
    seconds = time.process_time() - start
    path = getattr(model, "evidence_path_", None)
    path = model.objective_path_ if path is None else path
    evaluations = len(path) + 1  # fit evaluates once more at the optimum
    return seconds / evaluations, evaluations


def in_factorisations(make: Callable[[], Any], X: np.ndarray, y: np.ndarray) -> tuple[float, int]:
    """Cost of an evaluation in dpotrf(n), each fit between two timings of it: median of three."""
    ratios = []
    for _ in range(3):
        before = cholesky_seconds(len(y))
        seconds, count = cost_per_evaluation(make(), X, y)
        ratios.append(2 * seconds / (before + cholesky_seconds(len(y))))
    return float(np.median(ratios)), count


def compare_with_cholesky() -> None:
    print("One evidence evaluation with gradient, averaged over a fit, in dpotrf(n)")
    header = ("data", "n", "model", "evals", "ratio", "limit", "peak n x n", "limit")
    form = "{:>8} {:>5} {:>8} {:>6} {:>6} {:>6} {:>10} {:>6}"
    print(form.format(*header))
    for name, n, (X, y) in cases():
        for inference, limit in LIMITS.items():
            make = partial(OrdinalGPClassifier, inference=inference)
            ratio, count = in_factorisations(make, X, y)
            peak = peak_matrices(lambda make=make, X=X, y=y: make().fit(X, y), n)
            numbers = (count, f"{ratio:.1f}", limit, f"{peak:.1f}", 8)
            print(form.format(name, n, inference, *numbers), flush=True)


def compare_ard_with_isotropic() -> None:
    print("\nARD against one length scale: 60 inputs, one evaluation averaged over a fit")
    X, y = digits(1000)
    for inference in LIMITS:
        kernels = RBF(np.sqrt(60)), RBF(np.full(60, np.sqrt(60)))
        one, many = (
            cost_per_evaluation(OrdinalGPClassifier(kernel, inference=inference), X, y)
            for kernel in kernels
        )
        ratio = many[0] / one[0]
        print(f"n = 1000 {inference:>8}: {ratio:.2f} times (limit 1.5), {many[1]} evaluations")


def least_squares() -> None:
    print("\nLeast squares: one evaluation with gradient in dpotrf(n) (limit 8 at n = 1000)")
    for name, n, (X, y) in cases():
        make = partial(LeastSquaresOrdinalClassifier, n_restarts_optimizer=0)
        ratio, count = in_factorisations(make, X, y)
        start = time.process_time()
        make().fit(X, y)
        whole = time.process_time() - start
        start = time.process_time()
        OrdinalGPClassifier().fit(X, y)
        ep = time.process_time() - start
        print(
            f"{name:>8} {n:>5}: {ratio:.1f}, {count} evaluations; "
            f"whole fit {whole / ep:.2f} times that of EP",
            flush=True,
        )


if __name__ == "__main__":
    compare_with_cholesky()
    compare_ard_with_isotropic()
    least_squares()
