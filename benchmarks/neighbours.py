"""Predictions from neighbours: cost per row, memory, hostile inputs and learning curves.

``python -m benchmarks.neighbours growth [rows ...]`` fits Friedman's function, hyperparameters
given, and prints processor time per row and peak memory. ``hostile`` compares the time of a fit to
strange inputs with that to usual ones. ``curves`` fits growing parts of California housing with
inducing points, neighbours and boosted trees; the same command goes on where it was stopped, and
``curves --plot FILE`` draws what is there. All run on one thread.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Matern
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.large import friedman
from benchmarks.large_real import TREES, load
from ordinalgp import OrdinalGPClassifier
from ordinalgp.metrics import log_score
from ordinalgp.runtime.threads import one_thread
from papers.data import ROOT
from papers.runner import version_stamp

RECORDS = ROOT / "benchmarks" / "results" / "learning-curves.jsonl"
SPLIT, TEST_ROWS = 101, 4000  # a split that no table reports
ROWS = (1000, 2000, 4000, 8000, 16_512)
SCALES = (1.5, 1.5, 2.0, 4.0, 6.0, 30.0, 30.0, 30.0)  # of Friedman's function


# ------------------------------------------------------------------------ growth


def growth(rows: list[int]) -> None:
    """One process per number of rows, so that its peak memory is its own."""
    print("| rows | fit s | ms per row | predicted rows/s | peak GB |")
    print("|---|---|---|---|---|")
    for n in rows:
        command = [sys.executable, "-m", "benchmarks.neighbours", "one", str(n)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        cells = (f"{found[k]:.{digits}f}" for k, digits in found["shown"])
        print(f"| {n:,} | {' | '.join(cells)} |", flush=True)


def one(n: int) -> None:
    """Fit and predict in this process."""
    X, y, _ = friedman(n, 0)
    new = friedman(4000, 1)[0]
    kernel = Matern(SCALES, nu=0.5)
    model = OrdinalGPClassifier(kernel, approximation="neighbours", optimizer=None)
    with one_thread():
        began = time.process_time()
        model.fit(X, y)
        fitted = time.process_time()
        model.category_proba(new)
        done = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    found = {"fit": fitted - began, "per_row": 1e3 * (fitted - began) / n}
    found |= {"speed": len(new) / (done - fitted), "peak": peak}
    shown = ("fit", 1), ("per_row", 3), ("speed", 0), ("peak", 2)
    print(json.dumps({**found, "shown": shown}))


# ------------------------------------------------------------------------ hostile inputs


def hostile(n: int) -> None:
    """Time of strange inputs, in units of that of usual ones of as many features."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 8))
    y = np.digitize(X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * rng.normal(size=n), [-0.7, 0.7])
    wide = np.column_stack([X, rng.normal(size=(n, 192))])
    nominal = rng.integers(0, 2, (n, 8)).astype(float)
    constant = np.where(np.arange(8) == 3, 7.0, X)
    cases = {
        "usual": (X, y),
        "all rows equal": (np.ones_like(X), y),
        "duplicates": (X[rng.integers(0, 5, n)], y),
        "constant column": (constant, y),
        "nominal only": (nominal, (nominal[:, 0] + nominal[:, 1]).astype(int)),
        "blocks with one level": (X, np.where(X[:, 0] > 0, 2, y)),
        "200 features": (wide, y),
    }
    usual = 0.0
    for name, (inputs, levels) in cases.items():
        began = time.process_time()
        with one_thread(), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            model = OrdinalGPClassifier(approximation="neighbours").fit(inputs, levels)
            proba = model.category_proba(inputs[:500])
        seconds = time.process_time() - began
        usual = usual or seconds
        finite = bool(np.isfinite(proba).all())
        print(f"{name:24s} {seconds:6.1f} s, {seconds / usual:.2f} times the usual, {finite=}")


# ------------------------------------------------------------------------ learning curves


def curves() -> None:
    """Log score on the same test rows, by the number of training rows."""
    X, y = load("california")
    train, test = train_test_split(np.arange(len(y)), test_size=0.2, stratify=y, random_state=SPLIT)
    test = test[:TEST_ROWS]
    known = {(r["model"], r["rows"]) for r in records()}
    for rows in ROWS:
        for name in ("LightGBM", "CatBoost", "neighbours", "inducing"):
            if (name, rows) in known:
                continue
            model = TREES[name](rows, X.shape[1]) if name in TREES else ours(name)
            some = train[:rows]
            with one_thread(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                began = time.process_time()
                model.fit(X[some], y[some])
                seconds = time.process_time() - began
                score = log_score(y[test], model.predict_proba(X[test]))
            found = {"model": name, "rows": rows, "log_score": score, "fit_seconds": seconds}
            with RECORDS.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**found, **version_stamp()}) + "\n")
            print(found, flush=True)


def ours(approximation: str) -> Any:
    return make_pipeline(StandardScaler(), OrdinalGPClassifier(approximation=approximation))


def records() -> list[dict[str, Any]]:
    if not RECORDS.exists():
        return []
    return [json.loads(line) for line in RECORDS.read_text(encoding="utf-8").splitlines()]


def plot(path: str) -> None:
    """The curves that are there."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    styles = {"inducing": "C1-s", "neighbours": "C0-o", "LightGBM": "C2--^", "CatBoost": "C4--v"}
    words = {"inducing": "512 inducing points"}
    for name, style in styles.items():
        found = sorted((r["rows"], r["log_score"]) for r in records() if r["model"] == name)
        axes.plot(*np.transpose(found), style, label=words.get(name, name))
    axes.set(xscale="log", xlabel="training rows", ylabel="log score (lower is better)")
    axes.set_xticks(ROWS, [f"{rows:,}" for rows in ROWS])
    axes.minorticks_off()
    axes.set_title("California housing, five levels")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("growth", "one", "hostile", "curves"))
    parser.add_argument("rows", nargs="*", type=int)
    parser.add_argument("--plot", metavar="FILE")
    options = parser.parse_args()
    if options.plot:
        plot(options.plot)
    elif options.what == "growth":
        growth(options.rows or [10_000, 30_000, 100_000])
    elif options.what == "one":
        one(options.rows[0])
    elif options.what == "hostile":
        hostile(options.rows[0] if options.rows else 4000)
    else:
        curves()


if __name__ == "__main__":
    main()
