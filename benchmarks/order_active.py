"""How many comparisons are saved by asking for the most informative ones.

``python -m benchmarks.order_active sine|boston`` asks one batch after another, refits after each,
and records the error on all pairs (sine) or 20,000 of them (Boston); beside it random pairs.
``--models default,bounded`` and ``--strategies information,prediction`` say whom to ask and how.
Results are appended to a file as they come; the same command goes on where it was stopped.
"""

import argparse
import json
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from ordinalgp import PreferenceGP
from ordinalgp.benchmark.order import draw_pairs, load_items, wrong_order
from ordinalgp.benchmark.runner import open_results, read_records
from ordinalgp.datasets import make_sine_comparisons
from ordinalgp.kernels import Independent

ROOT = Path(__file__).resolve().parents[1]
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """How a problem is asked about: ``first`` random pairs, then batches up to ``last`` pairs."""

    first: int
    last: dict[str, int]
    """by choice and at random"""
    batch: Callable[[str, int], int]
    """pairs asked for next, by strategy, when there are n"""
    levels: tuple[int, ...]
    """numbers of random pairs at which choice is compared"""


def growing(strategy: str, n: int) -> int:
    """A tenth or a quarter of what there is; random pairs need only points of a curve."""
    return {
        "information": min(max(n // 10, 5), 20),
        "prediction": min(max(n // 4, 5), 40),
        "random": min(max(n // 2, 10), 60),
    }[strategy]


PLANS = {
    "sine": Plan(
        6,
        {"choice": 36, "random": 60},
        lambda strategy, n: 6 if strategy == "random" else 3,
        (27, 38, 49, 60),
    ),
    "boston": Plan(
        10,
        {"choice": 360, "random": 700},
        growing,
        (60, 80, 100, 150, 200, 250, 300, 400, 500, 600, 700),
    ),
}


def default(d: int) -> Any:
    """Leave the kernel to the estimator."""
    return None


def own(d: int) -> Any:
    """The default kernel, and what is particular to each item."""
    return RBF(np.sqrt(d), (1e-3, 1e5)) + ConstantKernel(0.1, (1e-4, 1e4)) * Independent()


def bounded(d: int) -> Any:
    """The default kernel, but never as smooth as a linear utility, nor without anything common."""
    return RBF(np.sqrt(d), (np.sqrt(d) / 10, 3 * np.sqrt(d)))


KERNELS = {"default": default, "own": own, "bounded": bounded}


def problem(name: str, seed: int) -> tuple[Array, Array]:
    """Items and what decides each comparison."""
    if name == "boston":
        return load_items("boston_housing")
    X, _ = make_sine_comparisons(1, random_state=seed)
    return X, np.sin(X[:, 0])


def ask(name: str, seed: int, strategy: str, kernel: str = "default") -> list[tuple[int, float]]:
    """Number of comparisons and error, after each batch; pairs with equal targets are not asked."""
    (X, y), plan = problem(name, seed), PLANS[name]
    way = "random" if strategy == "random" else "choice"
    pairs, _ = draw_pairs(y, plan.first, seed)
    _, test = draw_pairs(y, 0, seed + 10_000)
    left, right = np.triu_indices(len(y), 1)
    tied = np.column_stack([left, right])[y[left] == y[right]]
    path = []
    while True:
        model = PreferenceGP(KERNELS[kernel](X.shape[1]), random_state=seed + len(pairs))
        model.fit(X, pairs)
        path.append((len(pairs), wrong_order(model.predict(X), test)))
        left_over = plan.last[way] - len(pairs)
        if left_over <= 0:
            return path
        batch = min(plan.batch(strategy, len(pairs)), left_over)
        known = np.vstack([pairs, tied])
        new = model.suggest_pairs(X, batch, strategy=strategy, exclude=known)
        left_wins = (y[new[:, 0]] > y[new[:, 1]])[:, None]
        pairs = np.vstack([pairs, np.where(left_wins, new, new[:, ::-1])])


Curve = tuple[Array, Array, int]


def key(record: dict[str, Any]) -> tuple[Any, ...]:
    """What tells one run from another."""
    return tuple(record[k] for k in ("problem", "model", "strategy", "seed"))


def curve(records: list[dict[str, Any]], name: str, strategy: str, model: str) -> Curve | None:
    """Sizes, mean error over repetitions at each, and the number of repetitions."""
    paths = [r["path"] for r in records if key(r)[:3] == (name, model, strategy)]
    if not paths:
        return None
    grid = np.arange(PLANS[name].first, min(path[-1][0] for path in paths) + 1)
    each = [np.interp(grid, *np.transpose(path)) for path in paths]
    return grid.astype(float), np.mean(each, axis=0), len(paths)


def savings(
    records: list[dict[str, Any]], name: str, strategy: str, model: str = "default"
) -> list[tuple[float, int, float, float]]:
    """Error, comparisons at random, and the shares of them that choice needs.

    The shares are where the mean curve of choice first comes down to the error, and from where on
    it stays there; NaN where the curve ends before.
    """
    found = [curve(records, name, way, model) for way in (strategy, "random")]
    if None in found:
        return []
    (grid, chosen, _), (sizes, random, _) = (f for f in found if f is not None)
    rows = []
    for size in PLANS[name].levels:
        target = random[sizes == size][0]
        above = np.append(chosen > target, False)
        first, last = np.flatnonzero(~above)[0], np.flatnonzero(np.append(True, above[:-1]))[-1]
        steps = np.append(grid, np.nan)
        rows.append((float(target), size, steps[first] / size, steps[last] / size))
    return rows


def remoteness(first: int = 101, repetitions: int = 5) -> dict[str, float]:
    """How far from the centre the items are that Boston is asked about after 40 or 100 pairs."""
    X, y = load_items("boston_housing")
    radius = np.linalg.norm(X, axis=1)
    found: dict[str, list[float]] = {"information": [], "prediction": []}
    for seed, m in product(range(first, first + repetitions), (40, 100)):
        pairs, _ = draw_pairs(y, m, seed)
        model = PreferenceGP(bounded(X.shape[1])).fit(X, pairs)
        for strategy, means in found.items():
            new = model.suggest_pairs(X, 10, strategy=strategy, exclude=pairs)
            means.append(float(radius[new].mean()))
    return {"all": float(radius.mean())} | {k: float(np.mean(v)) for k, v in found.items()}


def report(records: list[dict[str, Any]], name: str, model: str, strategies: list[str]) -> None:
    """One row for each number of random pairs, two shares for each strategy."""
    each = [savings(records, name, strategy, model) for strategy in strategies]
    for rows in zip(*(rows for rows in each if rows), strict=True):
        error, size = rows[0][:2]
        last = PLANS[name].last["choice"] / size
        shares = [share for row in rows for share in row[2:]]
        shown = " | ".join(f"above {last:.0%}" if np.isnan(s) else f"{s:.0%}" for s in shares)
        print(f"| {name}, {model} | {100 * error:.1f} % | {size} | {shown} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", default=list(PLANS))
    parser.add_argument("--models", default="default")
    parser.add_argument("--strategies", default="information,prediction")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/active.jsonl")
    parser.add_argument("--remoteness", action="store_true", help="of what is asked; nothing else")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    if options.remoteness:
        print(remoteness())
        return
    models, strategies = options.models.split(","), options.strategies.split(",")
    with open_results(options.output) as results:
        done = {key(r) for r in read_records(options.output)}
        for seed in range(options.first, options.first + options.repetitions):
            for run in product(options.problems, models, [*strategies, "random"], [seed]):
                if run not in done:
                    name, model, strategy, _ = run
                    record = dict(zip(("problem", "model", "strategy", "seed"), run, strict=True))
                    record["path"] = ask(name, seed, strategy, model)
                    results.write(json.dumps(record).encode() + b"\n")
                    os.fsync(results.fileno())
    for name, model in product(options.problems, models):
        report(read_records(options.output), name, model, strategies)


if __name__ == "__main__":
    main()
