"""Intervals of levels on held-out rows: measured coverage and width."""

from collections.abc import Sequence
from itertools import product

import numpy as np

from ordinalgp import OrdinalGPClassifier, SparseBayesOrdinalClassifier
from papers.data import Home
from papers.models import Model, find_models, seeded
from papers.pages import Entry, Part, Table, entries
from papers.runner import Cell, Experiment, Record, fit_quietly, levels_of, load_split
from papers.statistics import present, select

COVERAGES = (0.5, 0.8, 0.9, 0.95)
BINS = {"winequality_red": 0, "swd": 0, "lev": 0, "esl": 0, "car": 0, "abalone": 10}
"""levels that the target of each set is cut into; 0 for its own"""
MODELS = {
    "ep": Model("OrdinalGPClassifier()", seeded(OrdinalGPClassifier)),
    "isbor": Model("SparseBayesOrdinalClassifier()", seeded(SparseBayesOrdinalClassifier)),
}


def compute_intervals(cell: Cell, data_home: Home = None) -> Record:
    """Fit one partition; for every coverage the share of test rows inside, and the mean width."""
    data = load_split(cell, data_home)
    levels = np.arange(1, cell.bins + 1) if cell.bins else levels_of(data)
    model = find_models([cell.model], MODELS)[cell.model].build(cell.seed, data.X_train.shape[1])
    model.set_params(categories=levels)
    record: Record = {"fit_seconds": round(fit_quietly(model, data.X_train, data.y_train), 4)}
    record |= {"rows": len(data.y_train), "test_rows": len(data.y_test), "levels": len(levels)}
    proba = model.category_proba(data.X_test)
    for coverage in COVERAGES:
        low, high = model.interval_from_proba(proba, coverage).T
        inside = (low <= data.y_test) & (data.y_test <= high)
        width = np.searchsorted(levels, high) - np.searchsorted(levels, low) + 1
        record[f"inside_{coverage}"] = float(np.mean(inside))
        record[f"width_{coverage}"] = float(np.mean(width))
    return record


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
            for dataset in present(experiment.datasets, records, "dataset")
        ]
        heads = [f"{coverage:.0%}" for coverage in COVERAGES]
        note = (
            "Share of held-out rows inside their interval, and in brackets the mean number of "
            "levels per interval; means over the partitions. Bold or starred: below the coverage "
            "by more than two standard errors of the mean over partitions."
        )
        columns = ["data set", "levels", "training rows", "partitions", *heads]
        parts.append(Table(MODELS[model].label, columns, rows, note))
    return parts


def _row(dataset: str, found: Sequence[Record]) -> list[Entry]:
    cells = entries(dataset, str(found[0]["levels"]), str(found[0]["rows"]), str(len(found)))
    for coverage in COVERAGES:
        inside = np.array([record[f"inside_{coverage}"] for record in found])
        width = np.mean([record[f"width_{coverage}"] for record in found])
        error = inside.std(ddof=1) / np.sqrt(len(inside)) if len(inside) > 1 else np.inf
        short = bool(inside.mean() < coverage - 2 * error)
        cells.append(Entry(f"{inside.mean():.1%} ({width:.2f})", short))
    return cells


def _grid(trials: int) -> list[Cell]:
    """Sets with levels of their own, and one whose target is cut."""
    every = product(BINS.items(), range(1, trials + 1), MODELS)
    return [Cell(dataset, bins, split, model) for (dataset, bins), split, model in every]


EXPERIMENTS = (
    Experiment(
        "intervals",
        "Coverage of intervals on held-out rows",
        compute_intervals,
        intervals_page,
        tuple(MODELS),
        datasets=tuple(BINS),
        trials=5,
        registry=MODELS,
        grid=_grid,
    ),
)
