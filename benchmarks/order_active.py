"""How many comparisons are saved by asking for the most informative ones.

``python -m benchmarks.order_active sine|boston`` asks one batch after another, refits after each,
and records the error on all pairs (sine) or 20,000 of them (Boston); beside it random pairs.
Results are appended to a file as they come; the same command goes on where it was stopped.
"""

import argparse
import json
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Plan:
    """How a problem is asked about: ``first`` random pairs, then batches up to ``last`` pairs."""

    first: int
    last: dict[str, int]
    batch: Callable[[str, int], int]
    """pairs asked for next, by strategy, when there are n"""
    levels: tuple[int, ...]
    """numbers of random pairs at which choice is compared"""


def growing(strategy: str, n: int) -> int:
    """A tenth of what there is, 5 to 20; random pairs need no refits, only points of a curve."""
    return min(max(n // 10, 5), 20) if strategy == "information" else min(max(n // 2, 10), 60)


PLANS = {
    "sine": Plan(
        6, {"information": 36, "random": 60}, lambda s, n: 3 if s[0] == "i" else 6, (27, 38, 49, 60)
    ),
    "boston": Plan(
        10,
        {"information": 360, "random": 700},
        growing,
        (60, 80, 100, 150, 200, 250, 300, 400, 500, 600, 700),
    ),
}


def problem(name: str, seed: int) -> tuple[Array, Array]:
    """Items and what decides each comparison."""
    if name == "boston":
        return load_items("boston_housing")
    X, _ = make_sine_comparisons(1, random_state=seed)
    return X, np.sin(X[:, 0])


def ask(name: str, seed: int, strategy: str) -> list[tuple[int, float]]:
    """Number of comparisons and error, after each batch; pairs with equal targets are not asked."""
    (X, y), plan = problem(name, seed), PLANS[name]
    pairs, _ = draw_pairs(y, plan.first, seed)
    _, test = draw_pairs(y, 0, seed + 10_000)
    left, right = np.triu_indices(len(y), 1)
    tied = np.column_stack([left, right])[y[left] == y[right]]
    path = []
    while True:
        model = PreferenceGP(random_state=seed + len(pairs)).fit(X, pairs)
        path.append((len(pairs), wrong_order(model.predict(X), test)))
        left_over = plan.last[strategy] - len(pairs)
        if left_over <= 0:
            return path
        batch = min(plan.batch(strategy, len(pairs)), left_over)
        known = np.vstack([pairs, tied])
        new = model.suggest_pairs(X, batch, strategy=strategy, exclude=known)
        left_wins = (y[new[:, 0]] > y[new[:, 1]])[:, None]
        pairs = np.vstack([pairs, np.where(left_wins, new, new[:, ::-1])])


def curves(records: list[dict[str, Any]], name: str) -> dict[str, tuple[Array, Array, int]]:
    """Mean error over repetitions on a grid of sizes, by strategy."""
    out = {}
    for strategy in ("information", "random"):
        paths = [r["path"] for r in records if (r["problem"], r["strategy"]) == (name, strategy)]
        if paths:
            last = min(path[-1][0] for path in paths)
            grid = np.arange(PLANS[name].first, last + 1)
            each = [np.interp(grid, *np.transpose(path)) for path in paths]
            out[strategy] = (grid.astype(float), np.mean(each, axis=0), len(paths))
    return out


def savings(records: list[dict[str, Any]], name: str) -> list[tuple[float, int, float, float]]:
    """Error, comparisons at random, and the shares of them that choice needs.

    The shares are where the mean curve of choice first comes down to the error, and from where on
    it stays there; NaN where the curve ends before.
    """
    found = curves(records, name)
    (grid, chosen, _), (sizes, random, _) = found["information"], found["random"]
    rows = []
    for size in PLANS[name].levels:
        target = random[sizes == size][0]
        above = np.append(chosen > target, False)
        first, last = np.flatnonzero(~above)[0], np.flatnonzero(np.append(True, above[:-1]))[-1]
        steps = np.append(grid, np.nan)
        rows.append((float(target), size, steps[first] / size, steps[last] / size))
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
        for error, size, *shares in savings(read_records(options.output), name):
            last = PLANS[name].last["information"] / size
            first, on = (f"above {last:.0%}" if np.isnan(s) else f"{s:.0%}" for s in shares)
            print(f"| {name} | {100 * error:.1f} % | {size} | {first} | {on} |")


if __name__ == "__main__":
    main()
