"""Table 1 of Wang and McKenna (2010) with its pairs drawn in another way.

``python -m benchmarks.order_readings [dataset ...] [--models a,b] [--first 1] [--repetitions 20]``.
The paper says of its sine that each label comes from two random samples of the items. Read so, an
item may meet itself and a pair may come again, in training and in testing. Results are appended to
a file as they come; the same command goes on where it was stopped. It prints means and, where there
are more than 20 repetitions, how often 20 of them have a mean at or below what is published.
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

from ordinalgp.benchmark.order import PAIRS, PREFERENCES, load_items
from ordinalgp.benchmark.runner import open_results, read_records
from ordinalgp.benchmark.summary import published

ROOT = Path(__file__).resolve().parents[1]
Array = NDArray[np.float64]
Pairs = NDArray[np.intp]
TESTS = 20_000
OTHERS = {"pyrimidines": 13.1, "triazines": 17.6, "machine_cpu": 12.2, "boston_housing": 10.1}
"""percent, of BoTorch's PairwiseGP as measured elsewhere"""


def draw_with_replacement(y: Array, m: int, seed: int) -> tuple[Pairs, Pairs]:
    """Pairs of two random items to train on, winner first, and as drawn to test.

    As in the paper the second wins unless the first is better. An item beside itself says nothing
    and is left out of training, so a few fewer than ``m`` remain.
    """
    rng = np.random.default_rng(seed)
    train, test = rng.integers(len(y), size=(m, 2)), rng.integers(len(y), size=(TESTS, 2))
    first_wins = (y[train[:, 0]] > y[train[:, 1]])[:, None]
    train = np.where(first_wins, train, train[:, ::-1])
    return train[train[:, 0] != train[:, 1]], test


def disagreement(utility: Array, y: Array, pairs: Pairs) -> float:
    """Share of pairs for which "the first is better" is true of one only.

    An item beside itself is always right, and equal targets are when the first is not better.
    """
    said, true = (v[pairs[:, 0]] > v[pairs[:, 1]] for v in (utility, y))
    return float(np.mean(said != true))


def measure(name: str, model: str, seed: int) -> dict[str, Any]:
    """Error of one repetition, and how many pairs were trained on."""
    X, y = load_items(name)
    train, test = draw_with_replacement(y, PAIRS[name][0], seed)
    fitted = PREFERENCES[model].build(0, X.shape[1]).fit(X, train)
    return {
        "zero_one": disagreement(fitted.predict(X), y, test),
        "evidence": float(fitted.log_marginal_likelihood_value_),
        "trained": len(train),
    }


def chance_below(errors: Array, limit: float, size: int = 20, draws: int = 100_000) -> float:
    """Share of random groups of ``size`` repetitions whose mean is at or below ``limit``."""
    rng = np.random.default_rng(0)
    means = np.concatenate([rng.choice(errors, (1000, size)).mean(1) for _ in range(draws // 1000)])
    return float(np.mean(means <= limit))


def report(records: list[dict[str, Any]], name: str, model: str) -> str:
    """One row: the table's repetitions, and all of them with the chances of 20."""
    found = {
        r["seed"]: 100 * r["zero_one"]
        for r in records
        if (r["dataset"], r["model"]) == (name, model)
    }
    first = np.array([found[s] for s in range(1, 21) if s in found])
    every = np.array(list(found.values()))
    theirs, sd = published("order-table1")["figures"][name]["gpep2"]
    row = f"| {name} | {model} | {len(first)} | {first.mean():.2f}±{first.std():.2f} "
    row += f"| {theirs:.2f}±{sd:.2f} "
    if len(every) > 20:
        error = np.hypot(sd, every.std()) / np.sqrt(20)
        row += f"| {len(every)} | {every.mean():.2f} | {(every.mean() - theirs) / error:+.1f} "
        row += f"| {chance_below(every, theirs):.2%} | {chance_below(every, OTHERS[name]):.2%} "
    return row + "|"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("datasets", nargs="*", default=list(PAIRS))
    parser.add_argument("--models", default="gpla,gpep2,gpep2-own")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/readings.jsonl")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    models = options.models.split(",")
    with open_results(options.output) as results:
        done = {(r["dataset"], r["model"], r["seed"]) for r in read_records(options.output)}
        for name in options.datasets:
            for seed in range(options.first, options.first + options.repetitions):
                for model in models:
                    if (name, model, seed) not in done:
                        record = {"dataset": name, "model": model, "seed": seed}
                        record |= measure(name, model, seed)
                        results.write(json.dumps(record).encode() + b"\n")
                        os.fsync(results.fileno())
    for name in options.datasets:
        for model in models:
            print(report(read_records(options.output), name, model), flush=True)


if __name__ == "__main__":
    main()
