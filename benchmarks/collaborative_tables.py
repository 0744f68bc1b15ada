"""Collaborative filtering: tables of Yu et al. (2006), Figure 3 of Chu and Ghahramani (2005), cost.

``python -m benchmarks.collaborative_tables movielens`` (or ``figure3``, or ``cost``) appends each
result to a file as soon as it is there; the same command goes on where it was stopped.
MovieLens stands in for EachMovie, which was withdrawn: tables are compared in shape.
"""

import argparse
import json
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning

from ordinalgp import CollaborativeOrdinalGP, OrdinalGPClassifier
from ordinalgp.benchmark.protocol import data_folder
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.decisions import decide
from ordinalgp.imputation import LowRankImputer
from ordinalgp.kernels import Correlation

ROOT = Path(__file__).resolve().parents[1]
Record = dict[str, Any]
LEVELS = np.arange(1, 11) / 2  # half stars
RATERS = 100
ACTIVE, FEATURES = 414, 150


class Cell(NamedTuple):
    """One fit of a grid."""

    experiment: str
    size: int
    repetition: int
    model: str


# ----------------------------------------------------------------------------------- data


@cache
def movielens() -> pd.DataFrame:
    """Movies x users, filtered as in section 4: movies rated 50 times, then users 20 times."""
    ratings = pd.read_csv(data_folder() / "movielens_small_ratings.csv.gz")
    for column, least in (("movie_id", 50), ("user_id", 20)):
        counts = ratings[column].value_counts()
        ratings = ratings[ratings[column].isin(counts[counts >= least].index)]
    table = ratings.pivot_table(index="movie_id", columns="user_id", values="target")
    return table[table.count().sort_values(ascending=False, kind="stable").index]


def long_format(table: pd.DataFrame) -> tuple[Any, Any, Any]:
    """Raters, items and ratings of all observed entries."""
    rows, columns = np.nonzero(table.notna().to_numpy())
    return table.columns[columns], table.index[rows], table.to_numpy()[rows, columns]


def errors(truth: Any, **predictions: Any) -> Record:
    """Zero-one error, and absolute error in stars, of each way to decide."""
    found = {}
    for name, predicted in predictions.items():
        found[f"zero_one_{name}"] = float(np.mean(predicted != truth))
        found[f"absolute_{name}"] = float(np.mean(np.abs(predicted - truth)))
    return found


def nearest(values: Any) -> Any:
    """Round to half stars within the scale."""
    return np.clip(np.rint(2 * np.asarray(values)) / 2, LEVELS[0], LEVELS[-1])


# ------------------------------------------------------------------- Tables 1 and 2 of Yu et al.

MODELS: dict[str, dict[str, Any]] = {
    "GPR": {"likelihood": "gaussian", "prior": "fixed"},
    "CGPR": {"likelihood": "gaussian", "prior": "learned"},
    "GPOR": {"likelihood": "ordinal", "prior": "fixed"},
    "CGPOR": {"likelihood": "ordinal", "prior": "learned"},
}


def movielens_cell(cell: Cell) -> Record:
    """Train on ``size`` random movies, test on the ratings of all others."""
    table = movielens()
    rng = np.random.default_rng(cell.repetition)
    train = rng.permutation(len(table))[: cell.size]
    mine, others = table.iloc[:, :RATERS], table.iloc[:, RATERS:]
    raters, items, ratings = long_format(mine.iloc[np.sort(train)])
    test = long_format(mine.drop(mine.index[train]))
    if cell.model == "biased means":
        predicted = biased_means(raters, items, ratings, others, *test[:2])
        return errors(test[2], rounded=nearest(predicted))
    model = CollaborativeOrdinalGP(
        "correlation", categories=LEVELS, tol=1e-3, **MODELS[cell.model]
    ).fit(raters, items, ratings, item_features=others)
    proba = model.category_proba(*test[:2])
    if cell.model in ("GPR", "CGPR"):
        rounded = nearest(model.latent_mean_and_variance(*test[:2])[0])
    else:
        rounded = LEVELS[decide(proba, "mean")]
    place = np.searchsorted(LEVELS, test[2])
    return errors(
        test[2], mode=LEVELS[decide(proba)], median=LEVELS[decide(proba, "median")], rounded=rounded
    ) | {
        "log_score": float(-np.mean(np.log(proba[np.arange(len(place)), place]))),
        "objective": float(model.objective_path_[-1]),
        "iterations": model.n_iter_,
        "converged": model.converged_,
        "least_gain": float(np.min(np.diff(model.objective_path_))),
    }


def biased_means(raters: Any, items: Any, ratings: Any, others: Any, who: Any, what: Any) -> Any:
    """Overall mean + movie's deviation among the other users + rater's own deviation, shrunk.

    The other users' own deviations are taken out first, as the correlation kernel does.
    """
    centred = others - others.mean()
    movie = centred.sum(axis=1) / (centred.count(axis=1) + 5)
    rest = pd.Series(ratings - np.mean(ratings) - movie[items].to_numpy())
    own = rest.groupby(np.asarray(raters)).agg(lambda r: r.sum() / (len(r) + 5))
    return np.mean(ratings) + movie[what].to_numpy() + own[np.asarray(who)].to_numpy()


# ------------------------------------------------------------- Figure 3 of Chu and Ghahramani


def figure3_cell(cell: Cell) -> Record:
    """One active user; other users' ratings are a movie's features, gaps filled in two ways."""
    table = movielens()
    table = table[table[ACTIVE].notna()]
    y = table[ACTIVE].to_numpy()
    others = table.drop(columns=ACTIVE)
    chosen = others.count().sort_values(ascending=False, kind="stable").index[:FEATURES]
    X = others[chosen].to_numpy()
    gaps, inference = cell.model.split(", ")
    if gaps == "low rank":
        X = LowRankImputer(rank=2).fit_transform(X)
    rng = np.random.default_rng(cell.repetition)
    order = rng.permutation(len(y))
    train, test = order[: cell.size], order[cell.size :]
    method = {"MAP": "laplace", "EP": "ep"}[inference]
    model = OrdinalGPClassifier(Correlation(), inference=method, categories=LEVELS)
    model.fit(X[train], y[train])
    proba = model.category_proba(X[test])
    return errors(y[test], mode=LEVELS[decide(proba)], median=LEVELS[decide(proba, "median")]) | {
        "movies": len(y),
        "observed": float(np.mean(~np.isnan(others[chosen].to_numpy()))),
    }


# ----------------------------------------------------------------------------------- cost

# name: raters, items, ratings a rater
SIZES = {
    "100 raters, 450 items": (100, 450, 180),
    "50 raters": (50, 450, 180),
    "200 raters": (200, 450, 180),
    "400 raters": (400, 450, 180),
    "900 items": (100, 900, 180),
    "1800 items": (100, 1800, 180),
    "90 ratings": (100, 450, 90),
    "360 ratings": (100, 450, 360),
}


def cost_cell(cell: Cell) -> Record:
    """Processor time of an EM iteration, and peak memory of a fit in units of m^2 doubles."""
    name, _, likelihood = cell.model.partition(": ")
    n, m, each = SIZES[name]
    rng = np.random.default_rng(0)
    items = np.concatenate([rng.permutation(m)[:each] for _ in range(n)])
    raters = np.repeat(np.arange(n), each)
    taste = rng.standard_normal((n, 3)) @ rng.standard_normal((3, m)) / 2 + rng.standard_normal(m)
    noisy = taste[raters, items] + rng.standard_normal(len(items))
    typical = OrdinalProbit.from_counts(np.ones(10), 1.0, 1.75)
    ratings = LEVELS[np.searchsorted(typical.thresholds, noisy)]
    K = 0.9 * np.eye(m) + 0.1

    def fit(iterations: int) -> float:
        begin = time.process_time()
        CollaborativeOrdinalGP(K, likelihood=likelihood, max_iter=iterations, tol=0.0).fit(
            raters, items, ratings
        )
        return time.process_time() - begin

    seconds = (fit(4) - fit(1)) / 3
    tracemalloc.start()
    fit(1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"seconds_an_iteration": seconds, "peak_bytes": peak, "peak_in_m2": peak / (8 * m * m)}


# -------------------------------------------------------------------------------- running

EXPERIMENTS: dict[str, tuple[Callable[[Cell], Record], tuple[int, ...], tuple[str, ...]]] = {
    "movielens": (movielens_cell, (100, 200, 300, 400), (*MODELS, "biased means")),
    "figure3": (
        figure3_cell,
        (50, 100, 150, 200, 250, 300),
        tuple(f"{gaps}, {way}" for gaps, way in product(("mean", "low rank"), ("MAP", "EP"))),
    ),
    "cost": (
        cost_cell,
        (0,),
        tuple(f"{name}: {way}" for name in SIZES for way in ("gaussian", "ordinal")),
    ),
}


def grid(experiment: str, repetitions: int) -> Iterator[Cell]:
    _, sizes, models = EXPERIMENTS[experiment]
    for repetition, size, model in product(range(1, repetitions + 1), sizes, models):
        yield Cell(experiment, size, repetition, model)


def read_records(path: Path) -> list[Record]:
    if not path.is_file():
        return []
    *lines, _ = path.read_text("utf-8").split("\n")
    return [json.loads(line) for line in lines]


def run(cells: Iterable[Cell], path: Path) -> None:
    """Compute the cells that ``path`` lacks, and append each as one line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    done = {Cell(*(record[name] for name in Cell._fields)) for record in read_records(path)}
    for cell in cells:
        if cell in done:
            continue
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # recorded
            result = EXPERIMENTS[cell.experiment][0](cell)
        seconds = {"cpu_seconds": round(time.process_time() - begin, 2)}
        with path.open("a", encoding="utf-8") as results:
            results.write(json.dumps(cell._asdict() | result | seconds) + "\n")


# -------------------------------------------------------------------------------- reporting


def summary(records: list[Record], score: str) -> str:
    """Sizes down, models across: mean±standard deviation over the repetitions, in Markdown."""
    frame = pd.DataFrame([record for record in records if score in record])
    models = list(dict.fromkeys(frame["model"]))
    lines = ["| training movies | " + " | ".join(models) + " |", "|---" * (len(models) + 1) + "|"]
    for size, rows in frame.groupby("size"):
        cells = []
        for model in models:
            values = rows.loc[rows["model"] == model, score]
            cells.append(f"{values.mean():.4f}±{values.std():.4f}")
        lines.append(f"| {size} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def report(records: list[Record]) -> str:
    if records[0]["experiment"] == "cost":
        rows = [
            f"| {r['model']} | {r['seconds_an_iteration']:.2f} | {r['peak_bytes'] / 1e6:.0f} MB | "
            f"{r['peak_in_m2']:.1f} |"
            for r in records
        ]
        head = "| case | CPU s an iteration | peak memory | in m² doubles |\n|---|---|---|---|\n"
        return head + "\n".join(rows)
    scores = [key for key in records[0] if key.startswith(("zero_one", "absolute", "log_score"))]
    count = len({record["repetition"] for record in records})
    parts = [f"{count} repetitions."]
    parts += [f"{score}\n\n{summary(records, score)}" for score in scores]
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--repetitions", type=int, help="default: 10, cost 1")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--report-only", action="store_true")
    options = parser.parse_args()
    name = options.experiment
    output = options.output or ROOT / "benchmarks" / "results" / f"collaborative-{name}.jsonl"
    if not options.report_only:
        run(grid(name, options.repetitions or (1 if name == "cost" else 10)), output)
    print(report(read_records(output)))


if __name__ == "__main__":
    main()
