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
from sklearn.gaussian_process.kernels import RBF, Matern

from ordinalgp import LeastSquaresOrdinalClassifier, OrdinalGPClassifier
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.linalg import Workspace
from ordinalgp.core.projections import Identity
from ordinalgp.core.search import Task
from ordinalgp.kernels import Additive, Exponential
from papers.data import DataUnavailableError, data_folder
from papers.runner import Cell, cholesky_seconds, load_split

LIMITS = {"ep": {500: 15.0, 1000: 12.0}, "laplace": {500: 8.0, 1000: 5.0}}
"""factorisations per evaluation, by rows"""
LEAST_SQUARES_LIMIT = 1.3  # whole fit, in fits with EP


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
        for inference, limits in LIMITS.items():
            limit = limits.get(n, "")
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


def compare_kernels_with_ard() -> None:
    """Print the cost of other kernels at the same hyperparameters, warm starts and memory."""
    print("\nOther kernels against the ARD Gaussian: one evaluation from a warm start, n = 1000")
    for d in (8, 16):
        X, y = generated(1000, d)
        runs = {name: warm_evaluation(kernel, X, y) for name, kernel in other_kernels(d).items()}
        times = np.array([[seconds(run) for run in runs.values()] for _ in range(9)])
        ratios = np.median(times / times[:, :1], axis=0)
        for name, ratio in zip(runs, ratios, strict=True):
            limit = " (limit 3)" if name.startswith("Additive + Matern") else ""
            print(f"d = {d:>2} {name:>40}: {ratio:.2f} times{limit}", flush=True)


def other_kernels(d: int) -> dict[str, Any]:
    """The ARD Gaussian first; functions of all features have scales that grow with their number."""
    scales, ones = np.full(d, np.sqrt(d)), np.ones(d)
    rough = Matern(scales, nu=0.5)
    return {
        "RBF, ARD": RBF(scales),
        "Matern 1/2, ARD": rough,
        "Exponential, ARD": Exponential(np.full(d, 2.0 * d)),
        "Additive": Additive(1.0),
        "Additive, ARD": Additive(ones),
        "Additive + Matern 1/2, ARD": Additive(1.0) + rough,
        "Additive + Matern 1/2, both ARD, amplitudes": 1.0 * Additive(ones) + 1.0 * rough,
    }


def generated(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """n rows of d normal inputs, and five levels of a function of three of them with noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    f = np.sin(X[:, 0]) + 0.5 * X[:, 1] + np.abs(X[:, 2]) + 0.3 * rng.normal(size=n)
    return X, np.digitize(f, np.quantile(f, [0.2, 0.4, 0.6, 0.8]))


def warm_evaluation(kernel: Any, X: np.ndarray, y: np.ndarray) -> Callable[[], object]:
    """Value and gradient of EP's evidence a step away from where inference has converged."""
    likelihood = OrdinalProbit.from_counts(np.bincount(y).astype(float), noise=0.5)
    task = Task(X, kernel, likelihood, Identity(len(y)), y, np.ones(len(y))).relaxed()
    workspace, theta = Workspace(), task.theta
    start = task.evaluate(theta, None, workspace).start
    step = 0.05 * np.sin(np.arange(len(theta)))
    return lambda: task.evaluate(theta + step, start, workspace)


def seconds(run: Callable[[], object]) -> float:
    """Processor time of a call."""
    start = time.process_time()
    run()
    return time.process_time() - start


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
            f"whole fit {whole / ep:.2f} times that of EP (limit {LEAST_SQUARES_LIMIT})",
            flush=True,
        )


if __name__ == "__main__":
    compare_with_cholesky()
    compare_ard_with_isotropic()
    compare_kernels_with_ard()
    least_squares()
