"""Table 1 and Figure 2 of Wang and McKenna (2010) beside ours.

``python -m benchmarks.order_tables`` draws random pairs of each data set, fits every model and
appends each result to a file as soon as it is there; the same command goes on where it was stopped.
All items are standardised together and pairs with equal targets are left out. Two errors are kept:
on pairs that were not trained on, and on pairs drawn from all, as the paper seems to have done
(it says of its Figure 2 only that training pairs were excluded).
"""

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel
from threadpoolctl import threadpool_limits

import ordinalgp
from ordinalgp import PreferenceGP
from ordinalgp.benchmark.protocol import fetch, standardise
from ordinalgp.benchmark.runner import Record, open_results, read_records
from ordinalgp.kernels import Independent

Array = NDArray[np.float64]

PAIRS = {"pyrimidines": 100, "triazines": 300, "machine_cpu": 500, "boston_housing": 700}
TESTS = 20_000
# Error in percent with its standard deviation, Table 1 of the paper.
PUBLISHED = {
    "pyrimidines": {"la": (14.43, 2.02), "ep": (13.80, 1.28), "ep2": (12.70, 1.08)},
    "triazines": {"la": (17.78, 0.97), "ep": (17.12, 1.10), "ep2": (17.06, 0.74)},
    "machine_cpu": {"la": (12.12, 1.49), "ep": (10.16, 0.61), "ep2": (9.26, 0.36)},
    "boston_housing": {"la": (12.85, 0.46), "ep": (10.28, 0.49), "ep2": (9.29, 0.38)},
}


def _paper(gamma: float, length: float | Array) -> Kernel:
    """The kernel of section 3: gamma exp(-d^2 / 2 l^2), for noise 1."""
    return ConstantKernel(gamma, (1e-4, 1e6)) * RBF(length, (1e-2, 1e4))


def _model(name: str, d: int) -> PreferenceGP:
    """Name a model: "ep2" is log gamma = 1 at the start, "ep" is log gamma = 0.

    "-ard" has d length scales; "-own" adds to the smooth utility what is particular to each item.
    """
    gamma = np.e if "2" in name else 1.0
    length = np.full(d, np.sqrt(d)) if name.endswith("ard") else np.sqrt(d)
    inference = "laplace" if name.startswith("la") else "ep"
    kernel = _paper(gamma, length)
    if name.endswith("own"):
        kernel += ConstantKernel(0.1, (1e-4, 1e6)) * Independent()
    return PreferenceGP(kernel, noise=1.0, inference=inference)


MODELS = ("la", "la2", "ep", "ep2", "ep2-ard", "ep2-own")


ROOT = Path(__file__).resolve().parents[1]


class Cell(NamedTuple):
    """One fit."""

    dataset: str
    pairs: int
    repetition: int
    model: str


def load_items(name: str) -> tuple[Array, Array]:
    """Standardised items and their targets."""
    data = fetch(name)
    X, _ = standardise(data.features(), np.ones(len(data.target), dtype=bool))
    return X, data.target


def draw_pairs(y: Array, m: int, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Random pairs with different targets, winner first: ``m`` to train on, others to test."""
    left, right = np.triu_indices(len(y), 1)
    unequal = y[left] != y[right]
    pairs = np.column_stack([left, right])[unequal]
    pairs = np.random.default_rng(seed).permutation(pairs)[: m + TESTS]
    pairs = np.where((y[pairs[:, 0]] > y[pairs[:, 1]])[:, None], pairs, pairs[:, ::-1])
    return pairs[:m], pairs[m:]


def run_cell(cell: Cell) -> Record:
    """Fit and test one cell."""
    begin = time.process_time()
    X, y = load_items(cell.dataset)
    train, test = draw_pairs(y, cell.pairs, cell.repetition)
    model = _model(cell.model, X.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # recorded below
        model.fit(X, train)
    proba = model.comparison_proba(X[test[:, 0]], X[test[:, 1]])
    error, trained = (_error(model.predict(X), pairs) for pairs in (test, train))
    n = len(y)
    share = cell.pairs / (n * (n - 1) / 2)  # of all pairs were trained on
    return cell._asdict() | {
        "error": error,
        "error_all": (1 - share) * error + share * trained,
        "log_score": float(-np.mean(np.log(np.maximum(proba, 1e-300)))),
        "evidence": float(model.log_marginal_likelihood_value_),
        "noise": float(model.noise_),
        "kernel": str(model.kernel_),
        "converged": bool(model.converged_),
        "n_evaluations": len(model.evidence_path_),
        "seconds": round(time.process_time() - begin, 3),
        "version": ordinalgp.__version__,
    }


def _error(utility: Array, pairs: NDArray[np.intp]) -> float:
    """Share of pairs, winner first, in the wrong order; equal utilities count half."""
    difference = utility[pairs[:, 0]] - utility[pairs[:, 1]]
    return float(np.mean(difference < 0) + np.mean(difference == 0) / 2)


def run(cells: Sequence[Cell], path: Path) -> None:
    """Compute the cells that ``path`` lacks, and append each as one line."""
    with open_results(path) as results, threadpool_limits(1):
        done = {_cell_of(record) for record in read_records(path)}
        missing = [cell for cell in cells if cell not in done]
        for i, cell in enumerate(missing, 1):
            results.write(json.dumps(run_cell(cell)).encode() + b"\n")
            os.fsync(results.fileno())
            print(f"\r{i}/{len(missing)} fits", end="", file=sys.stderr, flush=True)


def _cell_of(record: Record) -> Cell:
    return Cell(*(record[name] for name in Cell._fields))


# ------------------------------------------------------------------------------- reporting


def _figures(records: Sequence[Record], **wanted: Any) -> list[Array]:
    found = [r for r in records if wanted.items() <= r.items()]
    keys = ("error", "error_all", "log_score", "evidence")
    return [np.array([r[key] for r in found]) for key in keys]


def table(records: Sequence[Record]) -> str:
    """Table 1 in Markdown: error in percent, mean and standard deviation over repetitions."""
    heads = ["data", "pairs", "model", "repetitions", "error %, other pairs", "error %, all pairs"]
    heads += ["published %", "log score", "log evidence"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for (dataset, m), model in product(PAIRS.items(), MODELS):
        error, overall, log_score, evidence = _figures(
            records, dataset=dataset, pairs=m, model=model
        )
        if len(error):
            published = PUBLISHED[dataset].get(model)
            theirs = "" if published is None else "{:.2f}±{:.2f}".format(*published)
            ours = [f"{100 * e.mean():.2f}±{100 * e.std():.2f}" for e in (error, overall)]
            scores = [f"{log_score.mean():.3f}", f"{evidence.mean():.1f}"]
            cells = (dataset, m, model, len(error), *ours, theirs, *scores)
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def curve(records: Sequence[Record], dataset: str, model: str) -> list[tuple[int, Array]]:
    """Figure 2: errors for each number of pairs."""
    chosen = [r for r in records if r["dataset"] == dataset and r["model"] == model]
    sizes = sorted({r["pairs"] for r in chosen})
    return [(m, np.array([r["error"] for r in chosen if r["pairs"] == m])) for m in sizes]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", choices=PAIRS, default=list(PAIRS))
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--curve", action="store_true", help="Figure 2 instead: 100 to 1,000 pairs")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/order.jsonl")
    parser.add_argument("--report-only", action="store_true", help="fit nothing")
    options = parser.parse_args(argv)
    repetitions = range(1, options.repetitions + 1)
    sizes = {name: [PAIRS[name]] for name in options.datasets}
    if options.curve:
        sizes = {"boston_housing": [100, 200, 300, 400, 500, 600, 700, 800, 900, 1000]}
    if not options.report_only:
        cells = [
            Cell(name, m, i, model)
            for i, (name, ms) in product(repetitions, sizes.items())
            for m, model in product(ms, options.models)
        ]
        run(cells, options.output)
    print(table(read_records(options.output)))


if __name__ == "__main__":
    main()
