"""How many comparisons are saved by asking for the most informative ones.

``python -m benchmarks.order_active sine|boston`` asks one batch after another, refits after each,
and records the error on all pairs (sine) or 20,000 of them (Boston); beside it random pairs.
Results are appended to a file as they come; the same command goes on where it was stopped.
"""

import argparse
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from ordinalgp import PreferenceGP
from ordinalgp.benchmark.order import draw_pairs, load_items, wrong_order
from ordinalgp.benchmark.runner import open_results, read_records
from ordinalgp.datasets import make_sine_comparisons

ROOT = Path(__file__).resolve().parents[1]
Array = NDArray[np.float64]
# problem: (random pairs to begin with, pairs in a batch, last number of pairs by strategy)
PLANS: dict[str, tuple[int, int, dict[str, int]]] = {
    "sine": (6, 3, {"information": 36, "random": 60}),
    "boston": (40, 20, {"information": 200, "random": 400}),
}


def problem(name: str, seed: int) -> tuple[Array, Array]:
    """Items and what decides each comparison."""
    if name == "boston":
        return load_items("boston_housing")
    X, _ = make_sine_comparisons(1, random_state=seed)
    return X, np.sin(X[:, 0])


def ask(name: str, seed: int, strategy: str) -> list[tuple[int, float]]:
    """Number of comparisons and error, after each batch."""
    X, y = problem(name, seed)
    first, batch, last = PLANS[name]
    batch *= 1 if strategy == "information" else 2
    pairs, _ = draw_pairs(y, first, seed)
    _, test = draw_pairs(y, 0, seed + 10_000)
    path = []
    while True:
        model = PreferenceGP(random_state=seed + len(pairs)).fit(X, pairs)
        path.append((len(pairs), wrong_order(model.predict(X), test)))
        if len(pairs) >= last[strategy]:
            return path
        new = model.suggest_pairs(X, batch, strategy=strategy, exclude=pairs)
        new = new[y[new[:, 0]] != y[new[:, 1]]]
        left_wins = (y[new[:, 0]] > y[new[:, 1]])[:, None]
        pairs = np.vstack([pairs, np.where(left_wins, new, new[:, ::-1])])


def curves(records: list[dict[str, Any]], name: str) -> dict[str, tuple[Array, Array, int]]:
    """Mean error over repetitions on a grid of sizes, by strategy."""
    out = {}
    for strategy in ("information", "random"):
        paths = [r["path"] for r in records if (r["problem"], r["strategy"]) == (name, strategy)]
        if paths:
            last = min(path[-1][0] for path in paths)
            grid = np.arange(PLANS[name][0], last + 1)
            each = [np.interp(grid, *np.transpose(path)) for path in paths]
            out[strategy] = (grid.astype(float), np.mean(each, axis=0), len(paths))
    return out


def savings(records: list[dict[str, Any]], name: str) -> list[tuple[float, int, float]]:
    """(error, comparisons at random, share of them needed by choice) at several sizes."""
    found = curves(records, name)
    (grid, chosen, _), (sizes, random, _) = found["information"], found["random"]
    first, _, last = PLANS[name]
    rows = []
    for size in np.linspace(first + 0.4 * (last["random"] - first), last["random"], 4).astype(int):
        target = random[sizes == size][0]
        reached = np.flatnonzero(chosen <= target)
        share = grid[reached[0]] / size if len(reached) else np.nan
        rows.append((float(target), int(size), float(share)))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", default=list(PLANS))
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/active.jsonl")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    with open_results(options.output) as results:
        done = {(r["problem"], r["seed"], r["strategy"]) for r in read_records(options.output)}
        for seed in range(1, options.repetitions + 1):
            for name in options.problems:
                for strategy in ("information", "random"):
                    if (name, seed, strategy) not in done:
                        path = ask(name, seed, strategy)
                        record = {"problem": name, "seed": seed, "strategy": strategy, "path": path}
                        results.write(json.dumps(record).encode() + b"\n")
                        os.fsync(results.fileno())
    for name in options.problems:
        for error, size, share in savings(read_records(options.output), name):
            last = PLANS[name][2]["information"] / size
            needed = f"above {last:.0%}" if np.isnan(share) else f"{share:.0%}"
            print(f"| {name} | {100 * error:.1f} % | {size} | {needed} |")


if __name__ == "__main__":
    main()
