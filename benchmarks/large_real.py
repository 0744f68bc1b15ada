"""Real data with thousands of rows: our models beside boosted trees and a linear model.

``python -m benchmarks.large_real`` fits every data set, split and model, and appends each result
to a file as soon as it is there; stop it at any time, the same command goes on. ``--table`` prints
what is there, ``--summary`` our models beside the best of three kinds of trees. ``--points`` and
``--stages`` measure instead which choice of inducing points and which stages of their fit earn
their time (all with normal scores), ``--rough`` more points and a kernel of rougher functions,
``--slow`` models that take several times longer. ``--smooth`` has inducing points with a Gaussian
kernel, and the linear model.

"ours" is ``OrdinalGPClassifier()``, which chooses its approximation. "ours, chosen inputs" is the
one of its two fits, to standardised inputs and to normal scores, with the better leave-one-out
log score of the training rows.

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

from ordinalgp import OrdinalGPClassifier, SequentialOrdinalGP, StackedOrdinalGP, metrics
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
    return OrdinalGPClassifier(kernel, random_state=0, approximation="inducing", **options)


def lightgbm() -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(random_state=0, n_jobs=1, verbose=-1)


def catboost() -> Any:
    from catboost import CatBoostClassifier

    return CatBoostClassifier(random_seed=0, thread_count=1, verbose=0, allow_writing_files=False)


def scores(rows: int) -> Any:
    return QuantileTransformer(
        n_quantiles=min(1000, rows), output_distribution="normal", random_state=0
    )


def linear(n: int, d: int) -> Any:
    from mord import LogisticAT

    return make_pipeline(StandardScaler(), LogisticAT(alpha=1.0))


Builder = Callable[[int, int], Any]
TREES: dict[str, Builder] = {
    "scikit-learn": lambda n, d: HistGradientBoostingClassifier(random_state=0),
    "LightGBM": lambda n, d: lightgbm(),
    "CatBoost": lambda n, d: catboost(),
}
OURS: dict[str, Builder] = {
    "ours": lambda n, d: make_pipeline(StandardScaler(), OrdinalGPClassifier()),
    "ours, normal scores": lambda n, d: make_pipeline(scores(n), OrdinalGPClassifier()),
}
SLOW: dict[str, Builder] = {
    "sequential": lambda n, d: make_pipeline(StandardScaler(), SequentialOrdinalGP()),
    "sequential, normal scores": lambda n, d: make_pipeline(scores(n), SequentialOrdinalGP()),
    "stacked": lambda n, d: StackedOrdinalGP(),
}
SMOOTH: dict[str, Builder] = {
    "trees": TREES["scikit-learn"],
    "linear": linear,
    "linear, normal scores": lambda n, d: make_pipeline(scores(n), *linear(n, d)),
    "gp": lambda n, d: make_pipeline(StandardScaler(), ours(d)),
    "gp, normal scores": lambda n, d: make_pipeline(scores(n), ours(d)),
}
ROUGH: dict[str, Builder] = {
    "gp 1024, normal scores": lambda n, d: make_pipeline(scores(n), ours(d, inducing=1024)),
    "gp Matern 3/2, normal scores": lambda n, d: make_pipeline(scores(n), ours(d, nu=1.5)),
}
MODELS = TREES | OURS | SLOW | SMOOTH | ROUGH
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
    if cell.model in MODELS:
        model, patch = MODELS[cell.model](len(train), X.shape[1]), without("")
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
        fitted = time.process_time()
        proba = model.predict_proba(X_test)
        done = time.process_time()
    mode, median = (levels[decide(proba, rule)] for rule in ("mode", "median"))
    last = model[-1] if hasattr(model, "steps") else model
    points = getattr(last, "inducing_points_", None)
    return {
        "n_train": len(train),
        "zero_one": metrics.zero_one_error(y[test], mode, categories=levels),
        "absolute": metrics.mean_absolute_error(y[test], median, categories=levels),
        "log_score": metrics.log_score(y[test], proba, categories=levels),
        "fit_seconds": round(fitted - begin, 3),
        "predict_seconds": round(done - fitted, 3),
        "approximation": getattr(last, "approximation_", None),
        "left_out": left_out_score(last, y[train]),
        "points": None if points is None else len(points),
        "passes": None if points is None else int(last.n_iter_),
        "noise": None if points is None else float(last.noise_),
        "kernel": None if points is None else str(last.kernel_),
        "evidence": None if points is None else float(last.log_marginal_likelihood_value_),
    }


def left_out_score(model: Any, y: np.ndarray) -> float | None:
    """Leave-one-out log score of the training rows, if a model knows it."""
    if not hasattr(model, "loo_category_proba") or len(y) > 50_000:
        return None
    return float(metrics.log_score(y, model.loo_category_proba()))


def with_chosen(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records, and those of the inputs that predict left-out training rows better."""
    by_name = {(r["dataset"], r["split"], r["model"]): r for r in records if "error" not in r}
    found = []
    for dataset, split, model in list(by_name):
        fits = [by_name.get((dataset, split, model + more)) for more in ("", ", normal scores")]
        if model not in ("ours", "sequential") or None in fits:
            continue
        best = min(fits, key=lambda record: record["left_out"])
        seconds = sum(record["fit_seconds"] for record in fits)
        found.append({**best, "model": f"{model}, chosen inputs", "fit_seconds": seconds})
    return records + found


def print_summary(records: list[dict[str, Any]]) -> None:
    """Markdown: log score and absolute error beside the best trees, over the splits of all."""
    rows = {(r["dataset"], r["model"], r["split"]): r for r in records if "error" not in r}
    print(
        "| data | model | splits | log score | best trees | absolute | best trees | fit s | trees |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for dataset in FILES:
        for model in sorted({m for d, m, _ in rows if d == dataset} - set(SMOOTH | ROUGH | TREES)):
            names = (model, *TREES)
            splits = [k for k in range(1, 100) if all((dataset, m, k) in rows for m in names)]
            if not splits:
                continue

            def mean(name: str, measure: str, at: Any = (dataset, splits)) -> float:
                return float(np.mean([rows[at[0], name, k][measure] for k in at[1]]))

            cells = [dataset, model, str(len(splits))]
            for measure in ("log_score", "absolute"):
                best = min(TREES, key=lambda name: mean(name, measure))
                cells += [f"{mean(model, measure):.4f}", f"{mean(best, measure):.4f} ({best})"]
            seconds = " / ".join(f"{mean(name, 'fit_seconds'):.1f}" for name in TREES)
            print(f"| {' | '.join(cells)} | {mean(model, 'fit_seconds'):.0f} | {seconds} |")


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
    kinds = {"slow": SLOW, "smooth": SMOOTH, "rough": ROUGH, "points": POINTS, "stages": STAGES}
    for kind in kinds:
        parser.add_argument(f"--{kind}", action="store_true")
    parser.add_argument("--table", action="store_true", help="compute nothing")
    parser.add_argument("--summary", action="store_true", help="compute nothing")
    options = parser.parse_args()
    models = options.models or [
        name for kind, names in kinds.items() if getattr(options, kind) for name in names
    ]
    cells = [
        Cell(name, 0 if name == "diamonds" else 5, split, model)
        for split in range(1, options.splits + 1)
        for name in options.sets
        for model in models or (TREES | OURS)
    ]
    if options.summary:
        print_summary(with_chosen(list(by_cell(read_records(RESULTS)).values())))
    elif options.table:
        found = by_cell(read_records(RESULTS))
        print_table([found[cell] for cell in sorted(cells) if cell in found])
    else:
        print_table(run(cells, compute, RESULTS))


if __name__ == "__main__":
    main()
