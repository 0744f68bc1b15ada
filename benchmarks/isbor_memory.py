"""Peak memory of a sparse fit: Census at the paper's 22,584 rows, and 100,000 rows of 8 inputs.

``python -m benchmarks.isbor_memory`` fits each in a process of its own and appends what the
operating system says its largest size was, interpreter and libraries included. "friedman-gp" is
the full model with inducing points on the same 100,000 rows, to compare the errors; "-auto" lets
evidence choose the kind of functions.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.exceptions import ConvergenceWarning

from ordinalgp import OrdinalGPClassifier, SparseBayesOrdinalClassifier, metrics
from papers.data import ROOT, fetch_benchmark, quintile_labels, standardise

CASES = {
    "census": 22584,
    "friedman": 100_000,
    "friedman-gp": 100_000,
    "census-auto": 22584,
    "friedman-auto": 100_000,
}


def measure(name: str) -> dict[str, Any]:
    """Fit in this process."""
    n = CASES[name]
    if name.startswith("census"):
        data = fetch_benchmark("census_house16h")
        levels = quintile_labels(data.target)
        train = np.isin(
            np.arange(len(levels)), np.random.RandomState(1).permutation(len(levels))[:n]
        )
        (X, X_new), y, y_new = standardise(data.features(), train), levels[train], levels[~train]
    else:
        X, f = make_friedman1(n + 10_000, n_features=8, noise=1.0, random_state=0)
        y = np.searchsorted(np.quantile(f, [0.2, 0.4, 0.6, 0.8]), f)
        X, y, X_new, y_new = X[:n], y[:n], X[n:], y[n:]
    options = {"decision": "median", "random_state": 0}
    kernel = "auto" if name.endswith("auto") else None
    sparse, full = SparseBayesOrdinalClassifier(kernel, **options), OrdinalGPClassifier(**options)
    model: Any = full if name.endswith("gp") else sparse
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # recorded below
        model.fit(X, y)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # kilobytes on Linux
    return {
        "case": name,
        "shape": X.shape,
        "peak_gb": round(peak, 3),
        "cpu": round(time.process_time() - begin, 1),
        "mae": metrics.mean_absolute_error(y_new, model.predict(X_new)),
        "n_relevance": len(model.inducing_points_ if model is full else model.relevance_),
        "rounds": int(model.n_iter_),
        "converged": bool(model.converged_),
    }


def main() -> None:
    """One process for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}; all of them by default")
    parser.add_argument("--here", action="store_true", help="measure in this process")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options.cases[0])))
        return
    path = ROOT / "benchmarks" / "results" / "isbor-memory.jsonl"
    for case in options.cases or CASES:
        command = [sys.executable, "-m", "benchmarks.isbor_memory", case, "--here"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(done.stdout)
        print(done.stdout, flush=True)


if __name__ == "__main__":
    main()
