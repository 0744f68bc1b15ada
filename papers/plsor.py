"""Srijith, Shevade and Sundararajan (2012): Tables 3 and 4, and the ranks of Table 5."""

from collections.abc import Sequence

from papers.gpor import errors_table
from papers.models import MODELS
from papers.pages import Part, Table, entries, pairs_table
from papers.runner import DATASETS, Experiment, Record, fit_and_score
from papers.statistics import friedman_test, present, published, score_table


def ranks_page(records: Sequence[Record], experiment: Experiment) -> list[Part]:
    """Average ranks and Friedman's F for both numbers of bins and both errors, beside the paper."""
    theirs = published(experiment.published[0])["figures"]
    models = present(MODELS, records, "model")
    columns, tests = [], []
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
    pairs = [pairs_table(f"{b} bins, {m}", s, models) for b, m, s, _ in columns]
    return [Table("Ranks", header, rows, note), *pairs]


_MODELS = ("map", "ep", "plsor")
EXPERIMENTS = (
    errors_table(
        "plsor-table3", "Srijith et al. (2012), Table 3: nine data sets in 5 bins", 5, _MODELS
    ),
    errors_table(
        "plsor-table4", "Srijith et al. (2012), Table 4: nine data sets in 10 bins", 10, _MODELS
    ),
    Experiment(
        "plsor-table5",
        "Srijith et al. (2012), Table 5: average ranks and Friedman's test",
        fit_and_score,
        ranks_page,
        _MODELS,
        datasets=DATASETS,
        bins=(5, 10),
        results="gpor",
        published=("plsor-table5",),
    ),
)
