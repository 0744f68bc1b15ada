"""Ayllón-Gavilán et al. (2026), TOC-UCO: six of its sets, beside the methods of its authors.

Their partitions are not published with the results, so means over 30 drawn ones are compared. Each
model is fitted once per partition. Every error is recorded under several decisions that are made
from the same probabilities.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from ordinalgp import metrics
from ordinalgp.decisions import decide
from papers.data import BenchmarkData, FloatArray, Home, IntArray, fetch_benchmark, standardise
from papers.models import MODELS, find_models
from papers.pages import Entry, Part, Table, entries, mean_sd
from papers.runner import (
    Cell,
    Experiment,
    Record,
    Split,
    draw_training_rows,
    facts,
    fit_quietly,
    levels_of,
    probabilities,
)
from papers.statistics import figure, present, published, ranks_among, select

# Levels of ours that become one level of theirs.
_MERGED: dict[str, dict[int, int]] = {
    "esl": {1: 3, 2: 3, 9: 8},
    "winequality_red": {3: 4},
}
DATASETS = ("balance_scale", "car", "swd", "lev", "esl", "winequality_red")


# ----------------------------------------------------------------------------------- decisions


def decide_kappa(proba: FloatArray, shares: FloatArray) -> IntArray:
    """Choose the levels of all rows that make expected quadratic kappa greatest.

    One minus kappa is the sum over rows of the squared error, divided by the sum of e(d), the mean
    squared distance of the chosen level d from labels drawn from ``shares``. Both sums are separate
    in the rows. So the best choice for a ratio λ has the costs (i - d)² - λ e(d), and Dinkelbach's
    iteration finds the λ that its own choice has. The labels of the rows are not used.
    """
    level = np.arange(len(shares))
    squared = (level[:, None] - level) ** 2.0
    by_chance = shares @ squared
    expected = proba @ squared
    chosen, ratio = decide(proba, "mean"), np.inf
    while True:
        loss = expected[np.arange(len(proba)), chosen].sum()
        found = loss / by_chance[chosen].sum()
        if not found < ratio - 1e-12:
            return chosen
        ratio = found
        chosen = decide(proba, squared - ratio * by_chance)


RULES: dict[str, Callable[[FloatArray, FloatArray], IntArray]] = {
    "mode": lambda proba, _: decide(proba, "mode"),
    "median": lambda proba, _: decide(proba, "median"),
    "mean": lambda proba, _: decide(proba, "mean"),
    "balanced": lambda proba, shares: decide(proba, "balanced", frequencies=shares),
    "kappa": decide_kappa,
}


# ----------------------------------------------------------------------------------- one cell


def merged_labels(data: BenchmarkData) -> IntArray:
    """Levels of TOC-UCO, from 0 and without gaps."""
    own = data.target.astype(np.intp)
    merged = _MERGED.get(data.name, {})
    labels = np.array([merged.get(label, label) for label in own.tolist()])
    return np.unique(labels, return_inverse=True)[1].astype(np.intp)


def load_split(cell: Cell, data_home: Home = None) -> Split:
    """Draw 70 % of the rows for training, with the shares of the levels kept."""
    data = fetch_benchmark(cell.dataset, data_home)
    y = merged_labels(data)
    train = draw_training_rows(y, round(0.7 * len(y)), cell.shared_seed)
    X_train, X_test = standardise(data.features(one_hot="all"), train)
    return Split(X_train, y[train], X_test, y[~train], "drawn")


def compute(cell: Cell, data_home: Home = None) -> Record:
    """Fit one model to one partition; record all four errors under all decisions."""
    data = load_split(cell, data_home)
    levels = levels_of(data)
    model = find_models([cell.model])[cell.model].build(cell.seed, data.X_train.shape[1])
    seconds = fit_quietly(model, data.X_train, data.y_train)
    proba = probabilities(model, data.X_test, levels)
    return {
        **errors(data.y_test, proba, np.bincount(data.y_train, minlength=len(levels))),
        "log_score": metrics.log_score(data.y_test, proba, categories=levels),
        "rps": metrics.ranked_probability_score(data.y_test, proba, categories=levels),
        "fit_seconds": round(seconds, 4),
        "partition": "drawn",
        **facts(model),
    }


def errors(y: IntArray, proba: FloatArray, counts: IntArray) -> Record:
    """Accuracy, both absolute errors and kappa under each decision, as ``"mae_median"``."""
    levels = np.arange(len(counts))
    found: dict[str, float] = {}
    for name, rule in RULES.items():
        chosen = rule(proba, counts / counts.sum())
        found |= {
            f"ccr_{name}": float(np.mean(chosen == y)),
            f"mae_{name}": metrics.mean_absolute_error(y, chosen, categories=levels),
            f"amae_{name}": metrics.macro_mean_absolute_error(y, chosen, categories=levels),
            f"qwk_{name}": metrics.weighted_kappa(y, chosen, categories=levels),
        }
    return {key: round(value, 6) for key, value in found.items()}


# ----------------------------------------------------------------------------------- the page


class _Measure(NamedTuple):
    title: str
    rule: str
    """decision that the error asks for"""
    higher: bool
    """whether more is better"""


MEASURES = {
    "mae": _Measure("Mean absolute error", "median", False),
    "ccr": _Measure("Accuracy", "mode", True),
    "amae": _Measure("Mean absolute error averaged over levels (AMAE)", "balanced", False),
    "qwk": _Measure("Quadratic kappa", "kappa", True),
}
_OURS = ("ep", "sequential", "stacked")
_NOTE = (
    "Each error is that of the decision it asks for, made from the same fitted probabilities: "
    "accuracy of the most probable level, mean absolute error of the median level, AMAE of the "
    "balanced median (probabilities divided by the shares of the levels in training), kappa of the "
    "choice that makes its expected value greatest. The random forest and CatBoost were fitted in "
    "the same run; they are shown with these decisions and with their own most probable level. "
    "Published figures are means over 30 other partitions of the same kind, of methods tuned for "
    "AMAE."
)
_RANK_NOTE = (
    "Rank: mean over the data sets, with figures rounded to the three digits that are published. "
    "Each of ours is ranked without the others of ours, among the eight published methods and the "
    "two peers with the decisions above; own: the same, with the peers' most probable level. The "
    "others are ranked beside the first of ours."
)
Means = dict[str, list[float]]
"""means by method, one for each data set"""


class Standing(NamedTuple):
    """Means of one measure on some data sets: of ours, of peers and of published methods."""

    sets: list[str]
    ours: Means
    decided: Means
    """peers with the decision that the measure asks for"""
    own: Means
    """peers with their most probable level"""
    published: Means

    def ranks(self, peers: Means, higher: bool) -> dict[str, float]:
        """Mean ranks of ours among published methods and peers; 1 is best."""
        sign = -1.0 if higher else 1.0
        one, two = (
            {name: [sign * round(value, 3) for value in values] for name, values in means.items()}
            for means in (self.ours, self.published | peers)
        )
        return ranks_among(one, two)


def standing(records: Sequence[Record], measure: str) -> Standing:
    """Collect the means of the data sets on which all models of the records have some."""
    models = present(MODELS, records, "model")
    complete = [
        name
        for name in DATASETS
        if present(models, select(records, dataset=name), "model") == models
    ]
    printed = published("tocuco")["figures"][measure]
    ours = [model for model in reversed(models) if model in _OURS]
    peers = [model for model in models if model not in _OURS]

    def means(names: Sequence[str], rule: str) -> Means:
        key = f"{measure}_{rule}"
        return {
            MODELS[name].label: [
                _mean(select(records, dataset=dataset, model=name), key) for dataset in complete
            ]
            for name in names
        }

    rule = MEASURES[measure].rule
    methods = {m: [printed[d][m] for d in complete] for m in printed[DATASETS[0]]}
    return Standing(complete, means(ours, rule), means(peers, rule), means(peers, "mode"), methods)


def tocuco_page(records: Sequence[Record], experiment: Experiment) -> list[Part]:
    """One table per error with mean ranks, log scores, and where another method is better."""
    found = {measure: standing(records, measure) for measure in MEASURES}
    sets = found["mae"].sets
    if not sets or not found["mae"].ours:
        return ["No data set has fits of all models yet, or there are none of ours."]
    parts: list[Part] = [_NOTE, _summary(found)]
    parts += [_errors_table(each, MEASURES[measure]) for measure, each in found.items()]
    return [*parts, _decisions(records, sets), _log_scores(records, sets), _losses(found)]


def _summary(found: Mapping[str, Standing]) -> Table:
    ranks = {m: each.ranks(each.decided, MEASURES[m].higher) for m, each in found.items()}
    own = {m: each.ranks(each.own, MEASURES[m].higher) for m, each in found.items()}
    rows = [
        entries(name, *(f"{ranks[m][name]:.2f} ({own[m][name]:.2f})" for m in found))
        for name in ranks["mae"]
    ]
    header = ["method", *(MEASURES[m].title for m in found)]
    return Table("Mean ranks (own)", header, rows, _RANK_NOTE)


def _errors_table(each: Standing, measure: _Measure) -> Table:
    own = {f"{name}, most probable level": values for name, values in each.own.items()}
    means = each.ours | each.decided | own | each.published
    ranks = each.ranks(each.decided, measure.higher)
    table = np.round(list(means.values()), 3)
    best = table.max(axis=0) if measure.higher else table.min(axis=0)
    rows = [
        [
            Entry(name),
            *(Entry(f"{value:.3f}", bool(value == b)) for value, b in zip(line, best, strict=True)),
            Entry(f"{ranks[name]:.2f}" if name in ranks else "–"),
        ]
        for name, line in zip(means, table, strict=True)
    ]
    sign = "higher is better" if measure.higher else "lower is better"
    return Table(f"{measure.title}, {sign}", ["method", *each.sets, "rank"], rows)


def _decisions(records: Sequence[Record], sets: Sequence[str]) -> Table:
    """Mean over the data sets of every error under every decision."""
    rows = []
    for model, rule in product(present(MODELS, records, "model"), RULES):
        means = [
            np.mean([_mean(select(records, dataset=d, model=model), f"{m}_{rule}") for d in sets])
            for m in MEASURES
        ]
        rows.append(entries(MODELS[model].label, rule, *(f"{mean:.4f}" for mean in means)))
    header = ["model", "decision", *(measure.title for measure in MEASURES.values())]
    return Table("Every decision, mean over the data sets", header, rows)


def _log_scores(records: Sequence[Record], sets: Sequence[str]) -> Table:
    rows = [
        [
            Entry(MODELS[model].label),
            *(
                mean_sd(figure(select(records, dataset=d, model=model), "log_score"), digits=3)
                for d in sets
            ),
        ]
        for model in present(MODELS, records, "model")
    ]
    return Table("Log score", ["model", *sets], rows)


def _mean(records: Sequence[Record], key: str) -> float:
    return float(np.mean([r[key] for r in records]))


def _losses(found: Mapping[str, Standing]) -> str:
    """Every error and data set where another method is better than the first of ours."""
    lines = []
    (name, *_) = found["mae"].ours
    for key, each in found.items():
        measure = MEASURES[key]
        sign = -1 if measure.higher else 1
        for place, dataset in enumerate(each.sets):
            ours = round(each.ours[name][place], 3)
            others = {m: round(v[place], 3) for m, v in (each.published | each.decided).items()}
            better = [f"{m} {v:.3f}" for m, v in others.items() if sign * v < sign * ours]
            if better:
                lines.append(f"- {measure.title}, {dataset}: {', '.join(better)}; ours {ours:.3f}.")
    head = f"Where a published method or a peer is better than ours ({name}):"
    return "\n".join([head, "", *lines]) if lines else f"Nobody is better than ours ({name})."


EXPERIMENTS = (
    Experiment(
        "tocuco",
        "TOC-UCO (2026): six data sets beside eight published methods",
        compute,
        tocuco_page,
        ("ep", "stacked", "forest", "catboost"),
        datasets=DATASETS,
        trials=30,
        published=("tocuco",),
    ),
)
