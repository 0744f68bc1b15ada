"""Real data with thousands of rows: inducing points beside boosted trees and a linear model.

``python -m benchmarks.large_real`` fits every data set, split and model, and appends each result
to a file as soon as it is there; stop it at any time, the same command goes on. ``--table`` prints
what is there. ``--stages`` and ``--points`` measure instead which stages of the fit and which
choice of inducing points earn their time (all with normal scores), ``--rough`` more points and a
kernel of rougher functions.

A split trains on 80 % of the rows and tests on the others. Metric targets are cut at their
quintiles; diamonds have their eight clarity grades, with cut and colour as the ranks they are.
Inputs are standardised by the training rows; "normal scores" replaces every input by the normal
quantile of its rank instead, which leaves trees as they are.
"""

import argparse
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.gaussian_process.kernels import RBF, Matern
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from ordinalgp import OrdinalGPClassifier, metrics
from ordinalgp.decisions import decide
from ordinalgp.many_rows.likelihood_step import LikelihoodStep, likelihood_step
from ordinalgp.many_rows.settings import ManyRowsSettings
from papers.data import ROOT, data_folder
from papers.runner import Cell, by_cell, read_records, run

RESULTS = ROOT / "benchmarks" / "results" / "large-real.jsonl"
FILES = {
    "bank": "bank8fm.csv",
    "computer": "computer_small.csv",
    "california": "california_housing.csv",
    "census": "census_house16h.csv.gz",
    "diamonds": "diamonds.csv.gz",
}
_CUT = ["Fair", "Good", "Very Good", "Premium", "Ideal"]
_COLOR = list("JIHGFED")


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs, and levels from 0."""
    table = pd.read_csv(data_folder() / FILES[name])
    target = table.pop("target").to_numpy()
    if name == "diamonds":
        table["cut"] = table["cut"].map(_CUT.index)
        table["color"] = table["color"].map(_COLOR.index)
        return table.to_numpy(dtype=float), target - 1
    y = np.digitize(target, np.quantile(target, [0.2, 0.4, 0.6, 0.8]))
    return table.to_numpy(dtype=float), y


def ours(d: int, *, nu: float | None = None, **options: Any) -> Any:
    start = {"length_scale": np.full(d, np.sqrt(d)), "length_scale_bounds": (1e-2, 1e4)}
    kernel = RBF(**start) if nu is None else Matern(**start, nu=nu)
    return OrdinalGPClassifier(kernel, random_state=0, **options)


def scores(rows: int) -> Any:
    return QuantileTransformer(
        n_quantiles=min(1000, rows), output_distribution="normal", random_state=0
    )


def linear(n: int, d: int) -> Any:
    from mord import LogisticAT

    return make_pipeline(StandardScaler(), LogisticAT(alpha=1.0))


Builder = Callable[[int, int], Any]
MODELS: dict[str, Builder] = {
    "trees": lambda n, d: HistGradientBoostingClassifier(random_state=0),
    "linear": linear,
    "linear, normal scores": lambda n, d: make_pipeline(scores(n), *linear(n, d)),
    "gp": lambda n, d: make_pipeline(StandardScaler(), ours(d)),
    "gp, normal scores": lambda n, d: make_pipeline(scores(n), ours(d)),
}
ROUGH: dict[str, Builder] = {
    "gp 1024, normal scores": lambda n, d: make_pipeline(scores(n), ours(d, inducing=1024)),
    "gp Matern 3/2, normal scores": lambda n, d: make_pipeline(scores(n), ours(d, nu=1.5)),
}
POINTS = [f"{kind} {m}" for m in (64, 256) for kind in ("greedy", "k-means", "random")]
STAGES = ["subset alone", "no refinement", "fixed thresholds", "no common scale"]


def with_points(how: str, X: np.ndarray, seed: int) -> Any:
    """Inducing points of one kind; both others are chosen without the kernel."""
    kind, number = how.split()
    m, rng = int(number), np.random.default_rng(seed)
    if kind == "greedy":
        return ours(X.shape[1], inducing=m)
    sample = X[rng.choice(len(X), min(20 * m, len(X)), replace=False)]
    if kind == "k-means":
        Z = KMeans(m, n_init=1, random_state=seed).fit(sample).cluster_centers_
    else:
        Z = sample[:m]
    return ours(X.shape[1], inducing=Z)


def without(stage: str) -> Any:
    """A patch that leaves a stage out."""
    if stage == "no refinement":
        settings = ManyRowsSettings(refine_steps=0)
        return mock.patch.object(OrdinalGPClassifier, "many_rows_settings", settings)
    if stage == "fixed thresholds":

        def hold(sums: Any, likelihood: Any, *_: Any, **__: Any) -> LikelihoodStep:
            return LikelihoodStep.none(len(likelihood.theta))

        return mock.patch("ordinalgp.many_rows.passes.likelihood_step", hold)
    if stage == "no common scale":

        def creep(*given: Any, **_: Any) -> LikelihoodStep:
            return likelihood_step(*given, together=False)

        return mock.patch("ordinalgp.many_rows.passes.likelihood_step", creep)
    return nullcontext()


def compute(cell: Cell) -> dict[str, Any]:
    X, y = load(cell.dataset)
    train, test = train_test_split(
        np.arange(len(y)), test_size=0.2, stratify=y, random_state=cell.split
    )
    levels = np.arange(y.max() + 1)
    X_train, X_test = X[train], X[test]
    if cell.model in MODELS | ROUGH:
        model, patch = (MODELS | ROUGH)[cell.model](len(train), X.shape[1]), without("")
    else:
        transform = scores(len(train)).fit(X_train)
        X_train, X_test = transform.transform(X_train), transform.transform(X_test)
        patch, model = without(cell.model), ours(X.shape[1])
        if cell.model in POINTS:
            model = with_points(cell.model, X_train, cell.split)
        elif cell.model == "subset alone":
            few = np.random.default_rng(cell.split).choice(
                len(train), ManyRowsSettings().subset_rows, replace=False
            )
            X_train, train = X_train[few], train[few]
    with warnings.catch_warnings(), patch:
        warnings.simplefilter("ignore")
        begin = time.process_time()
        model.fit(X_train, y[train])
        seconds = time.process_time() - begin
        proba = model.predict_proba(X_test)
    mode, median = (levels[decide(proba, rule)] for rule in ("mode", "median"))
    last = model[-1] if hasattr(model, "steps") else model
    points = getattr(last, "inducing_points_", None)
    return {
        "n_train": len(train),
        "zero_one": metrics.zero_one_error(y[test], mode, categories=levels),
        "absolute": metrics.mean_absolute_error(y[test], median, categories=levels),
        "log_score": metrics.log_score(y[test], proba, categories=levels),
        "fit_seconds": round(seconds, 3),
        "points": None if points is None else len(points),
        "passes": None if points is None else int(last.n_iter_),
        "noise": None if points is None else float(last.noise_),
        "kernel": None if points is None else str(last.kernel_),
        "evidence": None if points is None else float(last.log_marginal_likelihood_value_),
    }


def print_table(records: list[dict[str, Any]]) -> None:
    """Markdown: mean and standard deviation over splits."""
    rows = defaultdict(list)
    for record in records:
        rows[record["dataset"], record["model"]].append(record)
    print("| data | model | zero-one | absolute | log score | points | processor s |")
    print("|---|---|---|---|---|---|---|")
    for (dataset, model), found in rows.items():
        good = [r for r in found if "error" not in r]
        if not good:
            print(f"| {dataset} | {model} | {found[0]['error']} |")
            continue
        cells = [
            f"{np.mean([r[k] for r in good]):.4f} ± {np.std([r[k] for r in good]):.4f}"
            for k in ("zero_one", "absolute", "log_score")
        ]
        points = "" if good[0]["points"] is None else f"{np.mean([r['points'] for r in good]):.0f}"
        seconds = np.mean([r["fit_seconds"] for r in good])
        print(f"| {dataset} | {model} | {' | '.join(cells)} | {points} | {seconds:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", choices=FILES, default=list(FILES))
    parser.add_argument("--models", nargs="*", default=None)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--stages", action="store_true")
    parser.add_argument("--points", action="store_true")
    parser.add_argument("--rough", action="store_true")
    parser.add_argument("--table", action="store_true", help="compute nothing")
    options = parser.parse_args()
    models = options.models or list(MODELS)
    models = POINTS if options.points else STAGES if options.stages else models
    models = list(ROUGH) if options.rough else models
    cells = [
        Cell(name, 0 if name == "diamonds" else 5, split, model)
        for split in range(1, options.splits + 1)
        for name in options.sets
        for model in models
    ]
    if options.table:
        found = by_cell(read_records(RESULTS))
        print_table([found[cell] for cell in sorted(cells) if cell in found])
        return
    print_table(run(cells, compute, RESULTS))


if __name__ == "__main__":
    main()
