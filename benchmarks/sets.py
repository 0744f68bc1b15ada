"""Cost of fits on many data sets, in Cholesky factorisations of as many rows.

``python -m benchmarks.sets`` fits six estimators to 700 rows of each set, or to all if there are
fewer. It prints the ratios of processor times, and for each estimator the most expensive set over
the median. Names of sets and estimators restrict the table: ``python -m benchmarks.sets car ep``.
"""

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ordinalgp import (
    LeastSquaresOrdinalClassifier,
    OrdinalGPClassifier,
    OrdinalSVC,
    SequentialOrdinalGP,
    SparseBayesOrdinalClassifier,
)
from papers.data import fetch_benchmark, quintile_labels, standardise
from papers.runner import cholesky_seconds

ROWS = 700
SETS = (
    *("abalone", "balance_scale", "bank8fm", "california_housing", "car", "census_house16h"),
    *("computer_small", "diamonds", "esl", "isbor_synthetic", "lev", "marketing", "stocks", "swd"),
    *("winequality_red", "winequality_white"),
)
ESTIMATORS: dict[str, Callable[[], Any]] = {
    "ep": OrdinalGPClassifier,
    "laplace": lambda: OrdinalGPClassifier(inference="laplace"),
    "least squares": lambda: LeastSquaresOrdinalClassifier(n_restarts_optimizer=0),
    "sparse": SparseBayesOrdinalClassifier,
    "sequential": SequentialOrdinalGP,
    "svm": OrdinalSVC,
}
LIMIT = 3.0  # of the most expensive set, over the median


def rows_of(name: str, n: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Standardised inputs and levels of n random rows; a continuous target is cut at quintiles."""
    data = fetch_benchmark(name)
    X, target = data.features(), data.target
    complete = np.isfinite(X).all(axis=1)
    some = np.random.default_rng(0).permutation(np.flatnonzero(complete))[:n]
    X, target = X[some], target[some]
    y = quintile_labels(target) if data.target_kind.startswith("continuous") else target
    X = standardise(X, np.ones(len(X), dtype=bool))[0]
    return X[:, np.ptp(X, axis=0) > 0], np.unique(y, return_inverse=True)[1]


def in_factorisations(make: Callable[[], Any], X: np.ndarray, y: np.ndarray) -> float:
    """Processor time of a fit over that of a factorisation, measured before and after."""
    before = cholesky_seconds(len(y))
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        make().fit(X, y)
    seconds = time.process_time() - start
    return 2 * seconds / (before + cholesky_seconds(len(y)))


def main(words: list[str]) -> None:
    """Print the table."""
    sets = [name for name in SETS if name in words] or list(SETS)
    models = [name for name in ESTIMATORS if name in words] or list(ESTIMATORS)
    print("A fit, in dpotrf of as many rows")
    print(f"{'set':>20} {'n':>4} " + " ".join(f"{name:>13}" for name in models))
    table = []
    for name in sets:
        X, y = rows_of(name)
        table.append([in_factorisations(ESTIMATORS[model], X, y) for model in models])
        cells = " ".join(f"{ratio:13.0f}" for ratio in table[-1])
        print(f"{name:>20} {len(y):>4} {cells}", flush=True)
    median = np.median(table, axis=0)
    print(f"{'median':>25} " + " ".join(f"{ratio:13.0f}" for ratio in median))
    worst = np.max(table, axis=0) / median
    print(f"{f'largest (limit {LIMIT})':>25} " + " ".join(f"{ratio:13.2f}" for ratio in worst))


if __name__ == "__main__":
    main(sys.argv[1:])
