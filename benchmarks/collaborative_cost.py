"""Cost of ``CollaborativeOrdinalGP``: an EM iteration, peak memory, and adding a rater.

``python -m benchmarks.collaborative_cost``, alone on the machine, one thread, processor time. Sizes
vary one at a time about 100 raters, 450 items and 180 ratings per rater, in ten levels.
"""

import argparse
import json
import time
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from ordinalgp import CollaborativeOrdinalGP
from papers.data import LEVELS, ROOT
from papers.runner import open_results, read_records, version_stamp

# raters, items, ratings per rater
CASES = [
    *((50, 450, 180), (100, 450, 180), (200, 450, 180), (400, 450, 180)),
    *((100, 900, 180), (100, 1800, 180), (100, 450, 90), (100, 450, 360)),
]


def simulate(n: int, m: int, each: int) -> tuple[Any, Any, Any]:
    """Long-format ratings with three tastes, in ten levels."""
    rng = np.random.default_rng(0)
    items = np.concatenate([rng.permutation(m)[:each] for _ in range(n)])
    raters = np.repeat(np.arange(n), each)
    taste = rng.standard_normal((n, 3)) @ rng.standard_normal((3, m)) / 2 + rng.standard_normal(m)
    noisy = taste[raters, items] + rng.standard_normal(len(items))
    thresholds = np.sqrt(1 + 1.75) * ndtri(np.arange(1, 10) / 10)  # levels equally frequent
    return raters, items, LEVELS[np.searchsorted(thresholds, noisy)]


def measure(n: int, m: int, each: int, likelihood: str) -> dict[str, Any]:
    """Processor time of an iteration, as a difference of two fits, and peak allocated memory."""
    ratings, K = simulate(n, m, each), 0.9 * np.eye(m) + 0.1

    def fit(iterations: int) -> float:
        begin = time.process_time()
        options: dict[str, Any] = {"likelihood": likelihood, "max_iter": iterations, "tol": 0.0}
        CollaborativeOrdinalGP(K, **options).fit(*ratings)
        return time.process_time() - begin

    seconds = (fit(3) - fit(1)) / 2
    tracemalloc.start()
    fit(1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    case = {"raters": n, "items": m, "ratings": each, "likelihood": likelihood}
    return case | {"seconds": seconds, "peak_bytes": peak, "peak_in_m2": peak / (8 * m * m)}


def measure_new_raters(repetitions: int = 50) -> list[dict[str, Any]]:
    """Median processor time of ``add_rater`` and ``recommend``, 100 raters and 450 items."""
    raters, items, ratings = simulate(150, 450, 180)
    known = raters < 100
    model = CollaborativeOrdinalGP(0.9 * np.eye(450) + 0.1, tol=1e-3, max_iter=5)
    model.fit(raters[known], items[known], ratings[known])
    rows = []
    for count in (1, 3, 10, 30, 100):
        times: list[tuple[float, float]] = []
        for new in range(repetitions):
            own = np.flatnonzero(raters == 100 + new)[:count]
            begin = time.process_time()
            rater = model.add_rater(items[own], ratings[own])
            middle = time.process_time()
            model.recommend(rater)
            times.append((middle - begin, time.process_time() - middle))
        add, recommend = np.median(times, axis=0)
        rows.append({"new_ratings": count, "add_seconds": add, "recommend_seconds": recommend})
    return rows


def report(records: list[dict[str, Any]]) -> str:
    """Both tables in Markdown."""
    lines = ["| raters | items | ratings each | likelihood | CPU s per iteration | peak | in m² |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for r in records:
        if "raters" in r:
            case = f"| {r['raters']} | {r['items']} | {r['ratings']} | {r['likelihood']} "
            peak = f"{r['peak_bytes'] / 1e6:.0f} MB | {r['peak_in_m2']:.1f} |"
            lines.append(f"{case}| {r['seconds']:.2f} | {peak}")
    lines += ["", "| ratings of the new rater | add_rater, ms | recommend, ms |", "|---|---|---|"]
    for r in records:
        if "new_ratings" in r:
            times = (1e3 * r[key] for key in ("add_seconds", "recommend_seconds"))
            lines.append(f"| {r['new_ratings']} | " + " | ".join(f"{t:.1f}" for t in times) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    output = ROOT / "benchmarks" / "results" / "collaborative-cost.jsonl"
    parser.add_argument("--output", type=Path, default=output)
    parser.add_argument("--report-only", action="store_true")
    parser.add_argument("--cases", nargs="+", help="raters,items,ratings each; all by default")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    if not options.report_only:
        options.output.unlink(missing_ok=True)  # times of one run alone can be compared
        with open_results(options.output) as results, threadpool_limits(1):

            def keep(record: dict[str, Any]) -> None:
                results.write(json.dumps(record | version_stamp()).encode() + b"\n")

            for record in measure_new_raters():
                keep(record)
            chosen = [tuple(map(int, case.split(","))) for case in options.cases or ()]
            for case in chosen or CASES:
                for likelihood in ("gaussian", "ordinal"):
                    keep(measure(*case, likelihood))
    print(report(read_records(options.output)))


if __name__ == "__main__":
    main()
