"""The pages of the papers' tables: errors beside published ones, and ranks over data sets."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ordinalgp.benchmark.models import MODELS
from ordinalgp.benchmark.report import (
    Entry,
    Part,
    Table,
    beside_published,
    best_of,
    entries,
    mean_sd,
)
from ordinalgp.benchmark.scoring import Record
from ordinalgp.benchmark.statistics import compare_pairs, friedman_test
from ordinalgp.benchmark.summary import Figure, figure, published, select

if TYPE_CHECKING:
    from ordinalgp.benchmark.experiments import Experiment

_MEASURES = ("zero_one", "absolute", "absolute_median")
_NOTE = (
    "Mean±standard deviation over the partitions run, in percent, deciding for the most probable "
    "level; the lowest mean of ours is bold or starred. diff/se: ours minus published, in standard "
    "errors of that difference; (!) is worse by more than one published standard deviation. By "
    "median: absolute error when deciding for the median level, against the same published "
    "figure. Log score: mean -ln p(true level)."
)


def present(names: Sequence[str], records: Sequence[Record], key: str) -> list[str]:
    """Return those of ``names`` that some successful record has under ``key``."""
    found = {r[key] for r in records if "error" not in r}
    return [name for name in names if name in found]


def errors_page(records: Sequence[Record], experiment: "Experiment") -> list[Part]:
    """Zero-one and absolute errors beside the paper's, one row for each data set and model."""
    parts: list[Part] = []
    for bins, table in zip(experiment.bins, experiment.published, strict=True):
        found = [r for r in records if r["bins"] == bins]
        rows, figures = _error_rows(found, experiment, published(table)["figures"])
        header = ["data", "model", "n", "zero-one %", "published", "diff/se"]
        header += ["absolute %", "published", "diff/se", "by median %", "diff/se", "log score"]
        source = published(table)["source"]
        parts += [Table(f"{bins} bins", header, rows, f"{_NOTE} Published: {source}.")]
        parts += [_verdict(figures)] * bool(figures)
    return parts


def _error_rows(
    records: Sequence[Record], experiment: "Experiment", theirs: dict[str, Any]
) -> tuple[list[list[Entry]], list[dict[str, Figure]]]:
    rows: list[list[Entry]] = []
    every: list[dict[str, Figure]] = []
    for dataset in present(experiment.datasets, records, "dataset"):
        models = present(list(MODELS), select(records, dataset=dataset), "model")
        block = [_figures(records, dataset, model, theirs) for model in models]
        best = {m: best_of([figures.get(m) for figures in block]) for m in _MEASURES}
        for place, (model, figures) in enumerate(zip(models, block, strict=True)):
            zero_one, absolute, median = (
                beside_published(figures.get(m), bold=best[m][place]) for m in _MEASURES
            )
            name = entries(dataset, MODELS[model].label, str(figures["zero_one"].n))
            log_score = mean_sd(figures.get("log_score"), digits=3)
            log_score = Entry(log_score.text.partition("±")[0])
            rows.append([*name, *zero_one, *absolute, median[0], median[2], log_score])
            every.append(figures)
    return rows, every


def _figures(
    records: Sequence[Record], dataset: str, model: str, theirs: dict[str, Any]
) -> dict[str, Figure]:
    found = select(records, dataset=dataset, model=model)
    names = {m: m.removesuffix("_median") for m in (*_MEASURES, "log_score")}
    printed = {
        m: theirs[dataset].get(name, {}).get(model.removesuffix("-bound"))
        for m, name in names.items()
    }
    figures = {m: figure(found, m, printed[m]) for m in names}
    return {m: f for m, f in figures.items() if f is not None}


def _verdict(figures: Sequence[dict[str, Figure]]) -> str:
    """How many figures are worse than published, under one decision and under each its own."""

    def worse(*measures: str) -> int:
        return sum(f[m].excess > 1 for f in figures for m in measures if m in f)

    compared = [f for f in figures for m in ("zero_one", "absolute") if m in f and f[m].published]
    return (
        f"{worse('zero_one', 'absolute')} of {len(compared)} figures are worse than published by "
        "more than one published standard deviation when the most probable level is taken for "
        f"both errors, {worse('zero_one', 'absolute_median')} when each error gets the decision "
        "that minimises it."
    )


# ----------------------------------------------------------------------------------- ranks


def ranks_page(records: Sequence[Record], experiment: "Experiment") -> list[Part]:
    """Average ranks and Friedman's F for both numbers of bins and both errors, beside the paper."""
    theirs = published(experiment.published[0])["figures"]
    models = present(list(MODELS), records, "model")
    columns, tests, parts = [], [], []
    for bins in experiment.bins:
        for measure in ("zero_one", "absolute"):
            found = [r for r in records if r["bins"] == bins]
            scores, sets = score_table(found, measure, models, experiment.datasets)
            if len(sets) < 2 or len(models) < 3:
                continue
            printed = theirs[str(bins)][measure]
            test = friedman_test(scores, ties="ignored")
            tests.append((f"{bins} bins, {measure.replace('_', '-')}", printed, test))
            columns.append((bins, measure, scores, sets))
    if not tests:
        return ["Ranks need three models with results on the same two data sets or more."]
    header = ["model", *(x for name, _, _ in tests for x in (name, "published"))]
    rows = []
    for place, model in enumerate(models):
        cells = [(f"{t.ranks[place]:.3f}", str(p.get(model, "–"))) for _, p, t in tests]
        rows.append(entries(MODELS[model].label, *(x for pair in cells for x in pair)))
    shown = [(f"{t.f_statistic:.4f}", str(p["f"])) for _, p, t in tests]
    rows.append(entries("F", *(x for pair in shown for x in pair)))
    rows.append(entries("p", *(x for _, _, t in tests for x in (f"{t.p_value:.3f}", ""))))
    note = (
        f"Average rank over {len(columns[0][3])} data sets; F is Friedman's statistic in the form "
        "of Iman and Davenport, ties not corrected for, as in the paper. Ours ranks means that "
        "are not rounded; the paper ranks printed means. Its F were computed from ranks that "
        "were rounded: from its own tables they are 0.846, 1.391, 1.931 and 2.580."
    )
    parts.append(Table("Ranks", header, rows, note))
    parts += [pairs_table(f"{b} bins, {m}", s, models) for b, m, s, _ in columns]
    return list(parts)


def score_table(
    records: Sequence[Record], measure: str, models: Sequence[str], datasets: Sequence[str]
) -> tuple[np.ndarray, list[str]]:
    """Means of shape (data sets, models), of the data sets on which all models have one.

    An infinite mean (a true level that was given probability zero) becomes a number larger than
    all others, which has the same rank. Means that differ by rounding only are ties.
    """
    rows, kept = [], []
    for dataset in datasets:
        found = [figure(select(records, dataset=dataset, model=m), measure) for m in models]
        means = [min(f.mean, 1e9) for f in found if f is not None]
        if len(means) == len(models):
            rows.append(means)
            kept.append(dataset)
    return np.round(np.array(rows), 9), kept


def pairs_table(title: str, scores: np.ndarray, models: Sequence[str]) -> Table:
    """Wilcoxon's signed ranks of all pairs, corrected by Holm."""
    labels = [MODELS[model].label for model in models]
    rows = [
        entries(
            f"{pair.first} – {pair.second}",
            pair.favoured or "–",
            f"{pair.statistic:g}",
            f"{pair.p_value:.3f}",
            f"{pair.p_adjusted:.3f}",
        )
        for pair in compare_pairs(scores, labels)
    ]
    note = f"Two-sided, over {len(scores)} data sets; corrected for {len(rows)} pairs by Holm."
    header = ["pair", "favours", "statistic", "p", "p, corrected"]
    return Table(f"Wilcoxon's signed ranks: {title}", header, rows, note)
