"""Predictions and start-up: ratios to what cannot be avoided.

``python -m benchmarks.prediction`` predicts 100,000 rows from 1,000 training rows, loads a model
and predicts one row, and starts Python with and without the package. Processor time of this
process, except for new processes, which are timed by the clock.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.linalg import blas

from benchmarks.speed import generated
from ordinalgp import OrdinalGPClassifier, load
from ordinalgp.core.kernel_matrix import cross_covariance
from papers.runner import cholesky_seconds

ROWS, NEW, BLOCK = 1000, 100_000, 8192
RUNS = 7
PREDICTION_LIMIT, IMPORT_LIMIT, COMMAND_LIMIT = 1.3, 0.1, 0.5


def fastest(run: Callable[[], object], runs: int = RUNS) -> float:
    """Least processor time of some calls."""
    times = []
    for _ in range(runs):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def least_work(weights: np.ndarray, half: np.ndarray, K: np.ndarray) -> None:
    """One product with the weights and the triangular one, for all new rows, block by block."""
    for first in range(0, NEW, BLOCK):
        block = K[: min(BLOCK, NEW - first)]
        block @ weights
        blas.dtrmm(1.0, half, block.T, lower=1)


def predictions() -> None:
    """Print the cost of predictions, in the two products that they need."""
    X, y = generated(ROWS, 8)
    new = np.random.default_rng(1).normal(size=(NEW, 8))
    model = OrdinalGPClassifier().fit(X, np.minimum(y, 3))
    K = cross_covariance(model.kernel_, new[:BLOCK], X)
    half = np.asfortranarray(np.tril(K[:ROWS]))
    weights = np.ones(ROWS)
    ratios = []
    for _ in range(3):
        needed = fastest(lambda: least_work(weights, half, K), 1)
        ratios.append(fastest(lambda: model.predict_proba(new), 1) / needed)
    kernel = BLOCK / NEW * needed
    share = fastest(lambda: cross_covariance(model.kernel_, new[:BLOCK], X), 3) / kernel
    print(f"predict_proba of {NEW:,} rows from {ROWS:,}, over K_cross @ weights and the triangular")
    print(f"product: {np.median(ratios):.2f} (limit {PREDICTION_LIMIT}); K_cross takes {share:.2f}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.ogp"
        model.save(path)
        unit = cholesky_seconds(ROWS)
        both = fastest(lambda: load(path).predict_proba(new[:1])) / unit
        print(f"load and first prediction: {both:.1f} dpotrf({ROWS:,}), {1e3 * both * unit:.0f} ms")


def start_up() -> None:
    """Print the times of new processes."""
    python = [sys.executable, "-c"]
    commands = {
        "import sklearn.base": [*python, "import sklearn.base"],
        "import ordinalgp": [*python, "import ordinalgp"],
        "from ordinalgp import OrdinalGPClassifier": [
            *python,
            "from ordinalgp import OrdinalGPClassifier",
        ],
        "ordinalgp --version": [sys.executable, "-m", "ordinalgp", "--version"],
        "ordinalgp --help": [sys.executable, "-m", "ordinalgp", "--help"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(RUNS):
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            times[name].append(time.perf_counter() - start)
    seconds = {name: min(found) for name, found in times.items()}
    base = seconds["import sklearn.base"]
    for name, found in seconds.items():
        limit = COMMAND_LIMIT if "--" in name else base + IMPORT_LIMIT
        text = "" if name.startswith(("import sklearn", "from")) else f" (limit {limit:.2f})"
        print(f"{name:>42}: {found:.2f} s{text}")


if __name__ == "__main__":
    predictions()
    start_up()
