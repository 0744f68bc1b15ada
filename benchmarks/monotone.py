"""Log scores of additive models with and without monotone columns.

``python -m benchmarks.monotone`` prints the table of docs/columns.md: on random splits, the
mean gain in log score of held-out rows, its standard error, the log Bayes factor, and the time of
a fit over that of the free model. In the surveys of jobs (esl), lecturers (lev) and workers (swd)
all columns are increasing; of the generated sets, "lines" adds up five lines and "curves" has a
saturating, a hinged and an undirected function.
"""

import time

import numpy as np
import pandas as pd

from ordinalgp import OrdinalGPClassifier, metrics
from ordinalgp.hyperpriors import HyperPrior
from ordinalgp.kernels import Additive
from papers.data import data_folder

SPLITS = 8
CASES = [
    *(("esl", 50), ("esl", 150), ("lev", 100), ("lev", 300), ("swd", 100), ("swd", 300)),
    *(("lines", 40), ("lines", 100), ("curves", 40), ("curves", 100)),
]
_PRIOR = HyperPrior(length_scales=0.5, noise=(float(np.log(0.5)), 1.0))


def generated(name: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and levels from 0, of rows whose first columns are increasing."""
    rng = np.random.default_rng(seed)
    if name == "lines":
        X = rng.normal(size=(n, 5))
        return X, np.digitize(X @ [1, 0.5, 0.25, 0.7, 0] + 0.7 * rng.normal(size=n), [-1, 0, 1])
    X = rng.normal(size=(n, 3))
    f = np.tanh(1.5 * X[:, 0]) + np.maximum(X[:, 1], 0) + np.sin(2 * X[:, 2])
    f += 0.5 * rng.normal(size=n)
    return X, np.digitize(f, np.quantile(f, [0.25, 0.5, 0.75]))


def split(name: str, n: int, seed: int) -> tuple[np.ndarray, ...]:
    """Standardised inputs and levels, of ``n`` rows and of the others."""
    if name in ("lines", "curves"):
        X, y = generated(name, n + 1000, seed)
    else:
        table = pd.read_csv(data_folder() / f"{name}.csv")
        y = np.unique(table.pop("target"), return_inverse=True)[1]
        X = table.to_numpy(dtype=float)
        order = np.random.default_rng(seed).permutation(len(y))
        X, y = X[order], y[order]
    X = (X - X[:n].mean(axis=0)) / X[:n].std(axis=0)
    return X[:n], y[:n], X[n:], y[n:]


def measure(name: str, n: int, seed: int) -> tuple[float, float, float]:
    """Gain in log score, log Bayes factor, and ratio of times."""
    X, y, X_new, y_new = split(name, n, seed)
    d, scores, times = X.shape[1], [], []
    up = [1, 1, 0] if name == "curves" else [1] * d
    levels = list(range(max(y.max(), y_new.max()) + 1))
    for monotone in (None, up):
        kernel = Additive(1.35 * np.ones(d), (1e-2, 1e4))
        options = {"hyperprior": _PRIOR, "noise_bounds": (0.03, 30.0), "categories": levels}
        began = time.perf_counter()
        model = OrdinalGPClassifier(kernel, monotone=monotone, **options).fit(X, y)
        times.append(time.perf_counter() - began)
        scores.append(metrics.log_score(y_new, model.category_proba(X_new), categories=levels))
    free = model.free_log_marginal_likelihood_value_
    factor = model.log_marginal_likelihood_value_ - free
    return scores[0] - scores[1], factor, times[1] / times[0]


def main() -> None:
    """Print one line per set and number of rows."""
    for name, n in CASES:
        found = np.array([measure(name, n, seed) for seed in range(SPLITS)])
        gain, factor, ratio = found.mean(axis=0)
        error = found[:, 0].std(ddof=1) / np.sqrt(SPLITS)
        print(
            f"| {name} | {n} | {gain:+.3f} ± {error:.3f} | {factor:+.1f} | {ratio:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
