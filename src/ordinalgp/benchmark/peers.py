"""Our models beside the libraries people might use instead."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ordinalgp.benchmark.models import MODELS, OURS
from ordinalgp.benchmark.report import Entry, Part, Table, best_of, entries, mean_sd
from ordinalgp.benchmark.scoring import Record
from ordinalgp.benchmark.statistics import average_ranks, friedman_test
from ordinalgp.benchmark.summary import Figure, figure, select
from ordinalgp.benchmark.tables import pairs_table, present, score_table

if TYPE_CHECKING:
    from ordinalgp.benchmark.experiments import Experiment

PEERS = (
    *("ep", "map", "plsor", "isbor"),
    *("sklearn-gpc", "sklearn-boosting", "statsmodels", "mord"),
    *("skordinal-nnpom", "skordinal-svor"),
)
MEASURES = {
    "zero_one": "zero-one error, %",
    "absolute": "absolute error, %",
    "log_score": "log score",
    "rps": "ranked probability score",
}
_NOTE = (
    "Mean±standard deviation over the partitions run; the lowest mean is bold or starred. Everyone "
    "decides for the most probable level. Peers have their own defaults, a starting width like "
    "ours (the Gaussian process of scikit-learn), or widths and penalties from a grid by two-fold "
    "cross-validation (skordinal)."
)


def peers_page(records: Sequence[Record], experiment: "Experiment") -> list[Part]:
    """Mean ranks, one table for each measure, times, tests, and where a peer is better."""
    models = present(list(MODELS), records, "model")
    absent = [m for m in experiment.models if not MODELS[m].is_available and m not in models]
    parts: list[Part] = [_ranks(records, models, experiment)]
    for measure, title in MEASURES.items():
        parts.append(_measure(records, measure, title, models, experiment))
    parts.append(_times(records, models, experiment))
    parts += _tests(records, models, experiment)
    parts.append(_beaten(records, models, experiment))
    if absent:
        named = ", ".join(f"{MODELS[m].label} ({MODELS[m].needs})" for m in absent)
        parts.append(f"Not installed, and so not measured: {named}.")
    return parts


def _with(measure: str, records: Sequence[Record], models: Sequence[str]) -> list[str]:
    """Models that have the measure at all: support vectors give no probabilities."""
    return [m for m in models if figure(select(records, model=m), measure) is not None]


def _ranks(records: Sequence[Record], models: Sequence[str], experiment: "Experiment") -> Table:
    columns: dict[str, dict[str, str]] = {}
    best: dict[str, float] = {}
    counts = []
    for measure in MEASURES:
        named = _with(measure, records, models)
        scores, sets = score_table(records, measure, named, experiment.datasets)
        counts.append(len(sets))
        ranks = average_ranks(scores) if sets else np.full(len(named), np.nan)
        columns[measure] = {m: f"{r:.2f}" for m, r in zip(named, ranks, strict=True)}
        best[measure] = min(ranks, default=np.nan)
    rows = []
    for model in models:
        texts = [columns[measure].get(model, "–") for measure in MEASURES]
        bold = [t == f"{best[m]:.2f}" for t, m in zip(texts, MEASURES, strict=True)]
        cells = [Entry(t, b) for t, b in zip(texts, bold, strict=True)]
        rows.append([Entry(MODELS[model].label), *cells])
    note = (
        "1 is best. Ranks are over the data sets where every model has a mean: "
        + ", ".join(f"{n} for {m.replace('_', '-')}" for n, m in zip(counts, MEASURES, strict=True))
        + ". An infinite log score, a true level that was given probability zero, ranks last."
    )
    return Table("Mean rank over the data sets", ["model", *MEASURES.values()], rows, note)


def _measure(
    records: Sequence[Record],
    measure: str,
    title: str,
    models: Sequence[str],
    experiment: "Experiment",
) -> Table:
    named = _with(measure, records, models)
    rows = []
    for dataset in present(experiment.datasets, records, "dataset"):
        found = [figure(select(records, dataset=dataset, model=m), measure) for m in named]
        n = max(f.n for f in found if f is not None)
        digits = 1 if measure in ("zero_one", "absolute") else 3
        shown = [
            mean_sd(f, bold=b, digits=digits)
            for f, b in zip(found, _best(found, digits), strict=True)
        ]
        rows.append([*entries(dataset, str(n)), *shown])
    return Table(
        title[0].upper() + title[1:],
        ["data", "n", *(MODELS[m].label for m in named)],
        rows,
        _NOTE if measure == "zero_one" else "",
    )


def _best(found: Sequence[Figure | None], digits: int) -> list[bool]:
    scale = 10.0 ** (digits - 2)  # best_of compares two digits after the point
    return best_of([f and Figure(f.mean * scale, f.sd, f.n) for f in found])


def _times(records: Sequence[Record], models: Sequence[str], experiment: "Experiment") -> Table:
    """Processor time of a fit, as a ratio to EP's on the same partition."""
    rows = []
    datasets = present(experiment.datasets, records, "dataset")
    for dataset in datasets:
        base = {r["split"]: r["fit_seconds"] for r in select(records, dataset=dataset, model="ep")}
        cells = []
        for model in models:
            found = select(records, dataset=dataset, model=model)
            ratios = [
                r["fit_seconds"] / base[r["split"]] for r in found if base.get(r["split"], 0) > 0
            ]
            logs = np.log([max(ratio, 1e-4) for ratio in ratios])
            cells.append(f"{np.exp(logs.mean()):.2f}" if ratios else "–")
        rows.append(entries(dataset, *cells))
    note = (
        "Processor time of fitting, one thread, divided by EP's on the same partition in the same "
        "run; geometric mean. A grid search counts as part of the fit."
    )
    title = "Fit time relative to EP"
    return Table(title, ["data", *(MODELS[m].label for m in models)], rows, note)


def _tests(
    records: Sequence[Record], models: Sequence[str], experiment: "Experiment"
) -> list[Part]:
    parts: list[Part] = []
    for measure, title in MEASURES.items():
        named = _with(measure, records, models)
        scores, sets = score_table(records, measure, named, experiment.datasets)
        if len(sets) < 2 or len(named) < 3:
            continue
        test = friedman_test(scores)
        parts.append(
            f"Friedman's test, {title}: F({test.degrees[0]}, {test.degrees[1]}) = "
            f"{test.f_statistic:.2f}, p = {test.p_value:.2g}, over {len(sets)} data sets."
        )
        if "ep" in named and measure == "log_score":
            parts.append(pairs_table(title, scores, named))
    return parts


def _beaten(records: Sequence[Record], models: Sequence[str], experiment: "Experiment") -> str:
    """Every data set and measure where some peer's mean is below that of all of ours."""
    lines = []
    for measure, title in MEASURES.items():
        for dataset in present(experiment.datasets, records, "dataset"):
            means = {
                m: f.mean
                for m in models
                if (f := figure(select(records, dataset=dataset, model=m), measure)) is not None
            }
            ours = min((means[m] for m in OURS if m in means), default=np.inf)
            better = {m: v for m, v in means.items() if m not in OURS and v < ours - 1e-9}
            if better:
                named = ", ".join(f"{MODELS[m].label} {v:.4g}" for m, v in sorted(better.items()))
                lines.append(f"- {title}, {dataset}: {named}; the best of ours {ours:.4g}.")
    head = "Where a peer's mean is better than that of all of ours:"
    return (
        "\n".join([head, "", *lines]) if lines else "No peer's mean is better than ours anywhere."
    )
