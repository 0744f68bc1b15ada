"""Intervals of levels on held-out rows: measured coverage and width."""

from collections.abc import Sequence
from itertools import product

import numpy as np

from ordinalgp import OrdinalGPClassifier, SparseBayesOrdinalClassifier, StackedOrdinalGP
from papers.data import FloatArray, Home, IntArray, fetch_benchmark, standardise
from papers.models import Model, find_models, seeded
from papers.pages import Entry, Part, Table, entries
from papers.runner import Cell, Experiment, Record, draw_training_rows, fit_quietly
from papers.statistics import present, select

COVERAGES = (0.5, 0.8, 0.9, 0.95)
ROWS = {"winequality_red": 1000, "swd": 750, "lev": 750, "esl": 366, "car": 500, "abalone": 1000}
"""training rows of each set; the others are held out"""
BINS = {"abalone": 10}
"""levels that a target is cut into, where it has none of its own"""
MODELS = {
    "mixture": Model("StackedOrdinalGP()", seeded(StackedOrdinalGP)),
    "ep": Model("OrdinalGPClassifier()", seeded(OrdinalGPClassifier)),
    "isbor": Model("SparseBayesOrdinalClassifier()", seeded(SparseBayesOrdinalClassifier)),
}


def compute_intervals(cell: Cell, data_home: Home = None) -> Record:
    """Fit one partition; for every coverage the share of test rows inside, and the mean width."""
    data = fetch_benchmark(cell.dataset, data_home)
    y = data.labels[cell.bins] if cell.bins else data.target.astype(np.intp)
    levels, train = np.unique(y), draw_training_rows(y, ROWS[cell.dataset], cell.shared_seed)
    X, X_test = standardise(data.features(), train)
    model = find_models([cell.model], MODELS)[cell.model].build(cell.seed, X.shape[1])
    seconds = fit_quietly(model.set_params(categories=levels), X, y[train])
    record: Record = {"fit_seconds": round(seconds, 4), "rows": len(X), "levels": len(levels)}
    proba, truth = model.category_proba(X_test), y[~train]
    for coverage in COVERAGES:
        low, high = model.interval_from_proba(proba, coverage).T
        inside = (low <= truth) & (truth <= high)
        width = np.searchsorted(levels, high) - np.searchsorted(levels, low) + 1
        record[f"inside_{coverage}"] = float(np.mean(inside))
        record[f"width_{coverage}"] = float(np.mean(width))
    return record | {"calibration": calibration_error(proba, np.searchsorted(levels, truth))}


def calibration_error(proba: FloatArray, codes: IntArray, n_groups: int = 10) -> float:
    """Mean distance of predicted from observed frequencies of "at most level j".

    The probabilities of all rows and all j below the last level are cut into groups of equal
    size, from small to large. In each, the mean probability should be the share that came true.
    """
    at_most = np.cumsum(proba, axis=1)[:, :-1]
    true = codes[:, None] <= np.arange(at_most.shape[1])
    order = np.argsort(at_most, axis=None, kind="stable")
    groups = zip(
        np.array_split(at_most.ravel()[order], n_groups),
        np.array_split(true.ravel()[order], n_groups),
        strict=True,
    )
    return float(np.mean([abs(np.mean(p) - np.mean(came)) for p, came in groups]))


def intervals_page(records: Sequence[Record], experiment: Experiment) -> list[Part]:
    """One table for each model, and what the intervals promise."""
    parts: list[Part] = [
        "Every interval has the most probable level, so that no interval can be shorter than one "
        "level: where the most probable level is right more often than the coverage asks, more "
        "rows than that are inside. The coverage is calibrated on leave-one-out scores of the "
        "training rows where a model has them, else the model's probabilities are trusted. "
        "There is no guarantee for finite samples, and rows are assumed to be exchangeable."
    ]
    for model in present(MODELS, records, "model"):
        rows = [
            _row(dataset, select(records, model=model, dataset=dataset))
            for dataset in present(experiment.datasets, select(records, model=model), "dataset")
        ]
        heads = [f"{coverage:.0%}" for coverage in COVERAGES]
        note = (
            "Share of held-out rows inside their interval, and in brackets the mean number of "
            "levels per interval; means over random partitions, stratified by level. Bold or "
            "starred: below the coverage by more than two standard errors of the mean. "
            "Calibration is that of the probabilities of at most level j. "
            "Those of all rows and j are sorted into ten groups of equal size. The figure is the "
            "mean distance between the mean probability of a group and the share that came true."
        )
        columns = ["data set", "levels", "training rows", "partitions", *heads, "calibration"]
        parts.append(Table(MODELS[model].label, columns, rows, note))
    return parts


def _row(dataset: str, found: Sequence[Record]) -> list[Entry]:
    cells = entries(dataset, str(found[0]["levels"]), str(found[0]["rows"]), str(len(found)))
    for coverage in COVERAGES:
        inside = np.array([record[f"inside_{coverage}"] for record in found])
        width = np.mean([record[f"width_{coverage}"] for record in found])
        error = inside.std(ddof=1) / np.sqrt(len(inside)) if len(inside) > 2 else np.inf
        short = bool(inside.mean() < coverage - 2 * error)
        cells.append(Entry(f"{inside.mean():.1%} ({width:.2f})", short))
    known = [record["calibration"] for record in found if "calibration" in record]
    return [*cells, Entry(f"{np.mean(known):.3f}" if known else "–")]


def _grid(trials: int) -> list[Cell]:
    """Sets with levels of their own, and one whose target is cut."""
    every = product(ROWS, range(1, trials + 1), MODELS)
    return [Cell(dataset, BINS.get(dataset, 0), split, model) for dataset, split, model in every]


EXPERIMENTS = (
    Experiment(
        "intervals",
        "Coverage of intervals on held-out rows",
        compute_intervals,
        intervals_page,
        tuple(MODELS),
        datasets=tuple(ROWS),
        trials=5,
        registry=MODELS,
        grid=_grid,
    ),
)
