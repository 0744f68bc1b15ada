"""Kernels for Table 1 of Wang and McKenna (2010), on repetitions that the table does not report.

``python -m benchmarks.order_kernels pyrimidines --first 101 --repetitions 20 [--kernels a,b]`` fits
each kernel to the same pairs and keeps its error and evidence; beside them that of the largest
evidence and the average of all by their evidence. ``--grid`` instead averages over a grid of
hyperparameters of the Gaussian kernel and own, and finds the best of them by the test pairs.
Results are appended to a file as they come; the same command goes on where it was stopped.
"""

import argparse
import json
import os
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
    RationalQuadratic,
)

from ordinalgp import PreferenceGP
from ordinalgp.benchmark.order import LITTLE, PAIRS, draw_pairs, load_items, wrong_order
from ordinalgp.benchmark.runner import open_results, read_records
from ordinalgp.kernels import Additive, Independent

ROOT = Path(__file__).resolve().parents[1]
Array = NDArray[np.float64]
Pairs = NDArray[np.intp]
_SCALE, _LENGTH = (1e-4, 1e6), (1e-2, 1e4)


def gaussian(d: int) -> Any:
    return ConstantKernel(np.e, _SCALE) * RBF(np.sqrt(d), _LENGTH)


def own(d: int) -> Any:
    return ConstantKernel(0.1, _SCALE) * Independent()


def linear(d: int) -> Any:
    return ConstantKernel(1 / d, (1e-8, 1e4)) * DotProduct(0.0, "fixed")


def matern(d: int) -> Any:
    return ConstantKernel(np.e, _SCALE) * Matern(np.sqrt(d), _LENGTH, nu=2.5)


def quadratic(d: int) -> Any:
    return ConstantKernel(np.e, _SCALE) * RationalQuadratic(np.sqrt(d), 1.0, _LENGTH, _LENGTH)


def additive(d: int) -> Any:
    return ConstantKernel(np.e, _SCALE) * Additive(1.0, _LENGTH)


def groups(d: int) -> Any:
    """A sum over the places of a molecule where something is attached, 9 or 10 features each."""
    size = {27: 9, 60: 10}[d]
    return ConstantKernel(np.e, _SCALE) * Additive(np.sqrt(size), _LENGTH, size)


KERNELS: dict[str, Callable[[int], Any]] = {
    "rbf": gaussian,
    "rbf+own": lambda d: gaussian(d) + own(d),
    "rbf+lin": lambda d: gaussian(d) + linear(d),
    "rbf+lin+own": lambda d: gaussian(d) + linear(d) + own(d),
    "mat52": matern,
    "mat52+own": lambda d: matern(d) + own(d),
    "rq": quadratic,
}
SUMS: dict[str, Callable[[int], Any]] = {
    "add+own": lambda d: additive(d) + own(d),
    "add+rbf": lambda d: additive(d) + gaussian(d),
    "add+rbf+own": lambda d: additive(d) + gaussian(d) + own(d),
    "groups+own": lambda d: groups(d) + own(d),
    "groups+rbf+own": lambda d: groups(d) + gaussian(d) + own(d),
}
"""for ``--kernels``: sums over features, or over the places of a molecule"""
ITEMS: dict[str, Callable[[int], Any]] = {
    "items": lambda d: gaussian(d) + Independent(),
    "items+add": lambda d: gaussian(d) + Independent() + additive(d),
}
"""noise of the items, which is one, instead of that of comparisons"""
EVERY = KERNELS | SUMS | ITEMS


def winning(model: PreferenceGP, X: Array, pairs: Pairs) -> Array:
    """Probability that the first of each pair is preferred."""
    return model.comparison_proba(X[pairs[:, 0]], X[pairs[:, 1]])


def scores(p: Array) -> dict[str, float]:
    """Error and log score of probabilities of what happened."""
    error = np.mean(p < 0.5) + np.mean(p == 0.5) / 2
    return {"zero_one": float(error), "log_score": float(-np.mean(np.log(p)))}


def weights_of(evidence: Array) -> Array:
    """Shares that add up to one, in proportion to the evidences."""
    share = np.exp(evidence - evidence.max())
    return share / share.sum()


def compare(name: str, seed: int, kernels: list[str]) -> dict[str, Any]:
    """Every kernel on one repetition, the one of the largest evidence, and their average."""
    X, y = load_items(name)
    m = PAIRS[name][0]
    train, test = draw_pairs(y, m, seed)
    share = m / (len(y) * (len(y) - 1) / 2)
    found, proba = {}, []
    for kernel in kernels:
        noise = LITTLE if kernel in ITEMS else 1.0
        model = PreferenceGP(EVERY[kernel](X.shape[1]), noise=noise).fit(X, train)
        u = model.predict(X)
        proba.append(winning(model, X, test))
        found[kernel] = scores(proba[-1]) | {"evidence": model.log_marginal_likelihood_value_}
        found[kernel]["zero_one"] = error = wrong_order(u, test)
        found[kernel]["zero_one_all"] = (1 - share) * error + share * wrong_order(u, train)
    evidence = np.array([found[kernel]["evidence"] for kernel in kernels])
    average = scores(weights_of(evidence) @ np.array(proba))
    return {"kernels": found, "best": kernels[evidence.argmax()], "average": average}


def over_hyperparameters(name: str, seed: int) -> dict[str, Any]:
    """Average over a grid of hyperparameters by their evidence, and the best by the test pairs."""
    X, y = load_items(name)
    d = X.shape[1]
    train, test = draw_pairs(y, PAIRS[name][0], seed)
    model = PreferenceGP(KERNELS["rbf+own"](d), noise=1.0).fit(X, train)
    item = np.unique(X, axis=0, return_inverse=True)[1].ravel()[test]
    lengths = np.log(d) / 2 + np.linspace(-1.5, 2.0, 7)
    evidence, proba = [], []
    for theta in product(np.linspace(-1, 9, 7), lengths, np.linspace(-5, 6, 6)):
        task = model._fitted_task.relaxed().at(np.array(theta))
        problem = task.problem()
        answer = task.infer(problem)
        evidence.append(task.objective(problem, answer).value)
        covariance = problem.K - problem.K @ answer.posterior.inverse() @ problem.K
        contrast = answer.posterior.mean[item] @ [1, -1]
        own_part = np.diagonal(covariance)[item].sum(axis=1)
        var = np.maximum(own_part - 2 * covariance[item[:, 0], item[:, 1]], 0.0)
        proba.append(ndtr(contrast / np.sqrt(2 + var)))
    each = np.array(proba)
    return {
        "maximum": scores(winning(model, X, test)),
        "average": scores(weights_of(np.array(evidence)) @ each),
        "best_by_test": float(np.mean(each < 0.5, axis=1).min()),
    }


def report(records: list[dict[str, Any]], name: str, wanted: set[str]) -> None:
    """Means over the repetitions of one data set, and what choosing among ``wanted`` gives."""
    chosen = [r for r in records if r["dataset"] == name and "kernels" in r]
    for kernel in EVERY:  # a repetition may have been run again with other kernels
        each = {r["seed"]: r["kernels"][kernel] for r in chosen if kernel in r["kernels"]}
        found = list(each.values())
        if found:
            keys = ("zero_one", "zero_one_all", "log_score", "evidence")
            means = " | ".join(f"{np.mean([f[k] for f in found]):.4f}" for k in keys)
            print(f"| {name} | {kernel} | {len(found)} | {means} |")
    several = [r for r in chosen if set(r["kernels"]) == wanted and len(wanted) > 2]
    if several:
        best = np.mean([r["kernels"][r["best"]]["zero_one"] for r in several])
        average = np.mean([r["average"]["zero_one"] for r in several])
        print(f"| {name} | largest evidence, average | {len(several)} | {best:.4f} {average:.4f} |")
    grid = [r for r in records if r["dataset"] == name and "maximum" in r]
    if grid:
        top, mean = (np.mean([r[k]["zero_one"] for r in grid]) for k in ("maximum", "average"))
        best = np.mean([r["best_by_test"] for r in grid])
        row = f"{top:.4f} {mean:.4f} {best:.4f}"
        print(f"| {name} | grid: maximum, average, best | {len(grid)} | {row} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("datasets", nargs="*", default=["pyrimidines"])
    parser.add_argument("--first", type=int, default=101)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--kernels", default=",".join(KERNELS))
    parser.add_argument("--grid", action="store_true")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/kernels.jsonl")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    wanted = set(options.kernels.split(","))
    seeds = range(options.first, options.first + options.repetitions)
    with open_results(options.output) as results:
        done = {
            (r["dataset"], r["seed"])
            for r in read_records(options.output)
            if ("maximum" in r if options.grid else wanted <= set(r.get("kernels", ())))
        }
        for name in options.datasets:
            for seed in seeds:
                if (name, seed) not in done:
                    found = (
                        over_hyperparameters(name, seed)
                        if options.grid
                        else compare(name, seed, options.kernels.split(","))
                    )
                    record = {"dataset": name, "seed": seed} | found
                    results.write(json.dumps(record).encode() + b"\n")
                    os.fsync(results.fileno())
    records = [r for r in read_records(options.output) if r["seed"] in seeds]
    for name in options.datasets:
        report(records, name, wanted)


if __name__ == "__main__":
    main()
