"""Many rows: inducing points beside boosted trees, on Friedman's function cut at quintiles.

``python -m benchmarks.large [rows ...]`` fits both in one run and prints time, rows per second,
peak memory and log score. Eight uniform inputs, five of which matter; the function has unit
variance and the noise a standard deviation of 0.5. Both may use all cores. Each fit runs in a
process of its own, so that its peak memory is its own; with ``--chunks`` rows are written to disk
first, and ours reads them in chunks. The test set is large
(500,000 rows), because the best possible log score differs by 0.003 between sets of 50,000.
"""

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.gaussian_process.kernels import RBF

from ordinalgp import OrdinalGPClassifier
from ordinalgp.metrics import log_score
from papers.data import ROOT
from papers.runner import version_stamp

RECORDS = ROOT / "benchmarks" / "results" / "large-friedman.jsonl"
TEST_ROWS, NOISE = 500_000, 0.5


def friedman(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs in standard units, levels, and the function itself."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 8))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    f = (f + 10 * X[:, 3] + 5 * X[:, 4] - 14.414) / 4.881  # mean and deviation of the function
    noisy = f + NOISE * rng.standard_normal(n)
    return (X - 0.5) * np.sqrt(12), np.digitize(noisy, cuts()), f


def cuts() -> np.ndarray:
    """Quintiles of the noisy function, to three digits, from ten million draws."""
    return np.array([-0.975, -0.296, 0.296, 0.975])


def best_possible(f: np.ndarray, y: np.ndarray) -> float:
    """Log score of who knows the function and the noise."""
    edges = np.concatenate([[-np.inf], cuts(), [np.inf]])
    p = norm.cdf((edges[y + 1] - f) / NOISE) - norm.cdf((edges[y] - f) / NOISE)
    return float(-np.mean(np.log(p)))


def one_fit(model: str, n: int, points: Any, folder: str | None) -> dict[str, Any]:
    """Fit one model; run in a process of its own."""
    X, y, _ = friedman(n, 0) if folder is None else (None, None, None)
    base = peak()
    start, cpu = time.perf_counter(), time.process_time()
    if model == "trees":
        fitted = HistGradientBoostingClassifier(random_state=0).fit(X, y)
        proba = fitted.predict_proba
    else:
        kernel = RBF(np.full(8, np.sqrt(8.0)), (1e-2, 1e4))
        fitted = OrdinalGPClassifier(kernel, inducing=points, random_state=0, verbose=1, n_jobs=-1)
        rows = (X, y) if folder is None else (chunks_in(Path(folder)), None)
        fitted.fit(*rows)
        proba = fitted.category_proba
    seconds, cpu, most = time.perf_counter() - start, time.process_time() - cpu, peak()
    X_test, y_test, f_test = friedman(TEST_ROWS, 1)
    return {
        "rows": n,
        "seconds": seconds,
        "processor": cpu,
        "log score": log_score(y_test, proba(X_test)),
        "best": best_possible(f_test, y_test),
        "peak GB": most,
        "before GB": base,
        "points": len(getattr(fitted, "inducing_points_", [])),
        "passes": int(fitted.n_iter_),
    }


def peak() -> float:
    """Peak memory of this process, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def chunks_in(folder: Path, size: int = 50_000) -> Callable[[], Iterator[Any]]:
    """A factory that reads memory maps in chunks."""

    def factory() -> Iterator[Any]:
        X = np.load(folder / "X.npy", mmap_mode="r")
        y = np.load(folder / "y.npy", mmap_mode="r")
        for i in range(0, len(X), size):
            yield np.array(X[i : i + size]), np.array(y[i : i + size])

    return factory


def write_rows(folder: Path, n: int, size: int = 1_000_000) -> None:
    X = np.lib.format.open_memmap(folder / "X.npy", mode="w+", dtype=float, shape=(n, 8))
    y = np.lib.format.open_memmap(folder / "y.npy", mode="w+", dtype=np.int8, shape=(n,))
    for i in range(0, n, size):
        X[i : i + size], y[i : i + size], _ = friedman(min(size, n - i), 10 + i)


def apart(*arguments: str) -> dict[str, Any]:
    """Run this module on one fit and read what it prints."""
    command = [sys.executable, "-m", "benchmarks.large", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    print(done.stderr, end="", file=sys.stderr)
    found = json.loads(done.stdout.splitlines()[-1])
    told = re.findall(r"^pass \d+: ([\d,]+) rows, ([\d,]+) rows/s", done.stderr, re.MULTILINE)
    passes = [(int(n.replace(",", "")), int(rate.replace(",", ""))) for n, rate in told]
    found["pass rows/s"] = [rate for n, rate in passes if n == found["rows"]]
    with RECORDS.open("a") as file:
        kind = {"model": arguments[2], "chunks": "--folder" in arguments}
        file.write(json.dumps(kind | found | version_stamp()) + "\n")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", type=float, default=[1e4, 1e5, 1e6])
    parser.add_argument("--points", default="auto", help='a number, or "auto"')
    parser.add_argument("--chunks", action="store_true", help="read the rows in chunks")
    parser.add_argument("--one", choices=["gp", "trees"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = [int(n) for n in options.rows]
    points = options.points if options.points == "auto" else int(options.points)
    if options.one:
        print(json.dumps(one_fit(options.one, sizes[0], points, options.folder)))
        return
    print(
        f"{'rows':>9} {'model':>6} {'seconds':>8} {'rows/s':>9} {'log score':>9} {'peak GB':>8} "
        f"{'points':>6} {'passes':>6}"
    )
    for n in sizes:
        with tempfile.TemporaryDirectory() as scratch:
            extra = ["--points", str(options.points)]
            if options.chunks:
                write_rows(Path(scratch), n)
                extra += ["--folder", scratch]
            found = {
                "gp": apart(str(n), "--one", "gp", *extra),
                "trees": apart(str(n), "--one", "trees"),
            }
        for name, r in found.items():
            rate = n / r["seconds"]
            print(
                f"{n:>9,} {name:>6} {r['seconds']:>8.1f} {rate:>9,.0f} {r['log score']:>9.4f} "
                f"{r['peak GB']:>8.2f} {r['points']:>6} {r['passes']:>6}"
            )
        ratio = found["gp"]["seconds"] / found["trees"]["seconds"]
        processor = found["gp"]["processor"] / found["trees"]["processor"]
        cost = f"{ratio:.2f} times the trees' time ({processor:.2f} of processor time)"
        print(f"{'':>9} {cost}; best possible {found['gp']['best']:.4f}")


if __name__ == "__main__":
    main()
