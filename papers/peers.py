"""Our models beside the libraries people might use instead."""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import ndtr
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LogisticRegression

from ordinalgp import OrdinalGPClassifier
from papers.data import FloatArray, Home, IntArray
from papers.models import MODELS, OURS, Model
from papers.pages import Entry, Part, Table, best_of, entries, mean_sd, pairs_table
from papers.runner import (
    DATASETS,
    Cell,
    Experiment,
    Record,
    cholesky_seconds,
    fit_and_score,
    fit_and_score_split,
    load_split,
)
from papers.statistics import (
    PERCENT,
    Figure,
    average_ranks,
    figure,
    friedman_test,
    present,
    published,
    ranks_among,
    score_table,
    select,
)

PEERS = (
    *("ep", "map", "plsor", "isbor", "sequential", "stacked"),
    *("sklearn-gpc", "sklearn-boosting", "catboost", "forest"),
    *("statsmodels", "mord", "skordinal-nnpom", "skordinal-svor"),
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
    "cross-validation (skordinal). The random forest has 500 trees, and one more that gives all "
    "levels the same probability, so that none is zero."
)


def peers_page(records: Sequence[Record], experiment: Experiment) -> list[Part]:
    """Mean ranks, one table for each measure, times, tests, and where a peer is better."""
    models = present(MODELS, records, "model")
    absent = [m for m in experiment.models if not MODELS[m].is_available and m not in models]
    parts: list[Part] = [_ranks(records, models, experiment)]
    parts += _ranks_among_peers(records, models, experiment)
    for measure, title in MEASURES.items():
        parts.append(measure_table(records, measure, title, models, experiment))
    parts.append(_times(records, models, experiment))
    parts += _tests(records, models, experiment)
    parts.append(beaten(records, models, experiment))
    if absent:
        named = ", ".join(f"{MODELS[m].label} ({MODELS[m].needs})" for m in absent)
        parts.append(f"Not installed, and so not measured: {named}.")
    return parts


def _with(measure: str, records: Sequence[Record], models: Sequence[str]) -> list[str]:
    """Models that have the measure at all: support vectors give no probabilities."""
    return [m for m in models if figure(select(records, model=m), measure) is not None]


def _ranks(records: Sequence[Record], models: Sequence[str], experiment: Experiment) -> Table:
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


def _ranks_among_peers(
    records: Sequence[Record], models: Sequence[str], experiment: Experiment
) -> list[Part]:
    """Mean rank of each of ours when the others of ours are left out."""
    columns = {}
    for measure in MEASURES:
        named = _with(measure, records, models)
        scores, sets = score_table(records, measure, named, experiment.datasets)
        each = dict(zip(named, scores.T.tolist(), strict=True)) if sets else {}
        ours = {m: each[m] for m in each if m in OURS}
        columns[measure] = ranks_among(ours, {m: each[m] for m in each if m not in OURS})
    rows = []
    for model in (m for m in models if m in OURS):
        ranks = [columns[measure].get(model) for measure in MEASURES]
        rows.append(
            entries(MODELS[model].label, *("–" if r is None else f"{r:.2f}" for r in ranks))
        )
    note = "The same, with one model of ours at a time among the other libraries."
    title = "Mean rank of each of ours among the other libraries"
    return [Table(title, ["model", *MEASURES.values()], rows, note)] if rows else []


def measure_table(
    records: Sequence[Record],
    measure: str,
    title: str,
    models: Sequence[str],
    experiment: Experiment,
) -> Table:
    """Mean of one measure, a row for each data set and a column for each model."""
    named = _with(measure, records, models)
    rows = []
    for dataset in present(experiment.datasets, records, "dataset"):
        found = [figure(select(records, dataset=dataset, model=m), measure) for m in named]
        n = max(f.n for f in found if f is not None)
        digits = 1 if measure in PERCENT else 3
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


def _times(records: Sequence[Record], models: Sequence[str], experiment: Experiment) -> Table:
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


def _tests(records: Sequence[Record], models: Sequence[str], experiment: Experiment) -> list[Part]:
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


def beaten(
    records: Sequence[Record],
    models: Sequence[str],
    experiment: Experiment,
    measures: Mapping[str, str] = MEASURES,
) -> str:
    """Every data set and measure where some peer's mean is below ours.

    Ours is the stacked model where it was run, else the best of all of ours.
    """
    mine = ["stacked"] if "stacked" in models else list(OURS)
    who = "the stacked model" if "stacked" in models else "all of ours"
    lines = []
    for measure, title in measures.items():
        for dataset in present(experiment.datasets, records, "dataset"):
            means = {
                m: f.mean
                for m in models
                if (f := figure(select(records, dataset=dataset, model=m), measure)) is not None
            }
            ours = min((means[m] for m in mine if m in means), default=np.inf)
            better = {m: v for m, v in means.items() if m not in OURS and v < ours - 1e-9}
            if better and np.isfinite(ours):
                named = ", ".join(f"{MODELS[m].label} {v:.4g}" for m, v in sorted(better.items()))
                lines.append(f"- {title}, {dataset}: {named}; the best of ours {ours:.4g}.")
    head = f"Where a peer's mean is better than that of {who}:"
    return (
        "\n".join([head, "", *lines]) if lines else f"No peer's mean is better than that of {who}."
    )


# ------------------------------------------------- log scores beside other Gaussian processes

_LEVELS = np.arange(1, 6)


class RoundedRegression:
    """Gaussian process regression on the levels' numbers, each level an interval of width one."""

    def __init__(self, n_inputs: int) -> None:
        kernel = ConstantKernel() * RBF(np.sqrt(n_inputs)) + WhiteKernel(0.1)
        self._process = GaussianProcessRegressor(kernel, normalize_y=True)

    def fit(self, X: FloatArray, y: IntArray) -> "RoundedRegression":
        """Fit the numbers of the levels."""
        self._process.fit(X, y)
        self.classes_ = _LEVELS
        return self

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Mass of the predictive distribution within half a level of each number."""
        mean, sd = self._process.predict(X, return_std=True)
        edges = np.concatenate([[-np.inf], _LEVELS[:-1] + 0.5, [np.inf]])
        mass: FloatArray = np.diff(ndtr((edges - mean[:, None]) / sd[:, None]), axis=1)
        return mass


def _classifier(seed: int, d: int) -> GaussianProcessClassifier:
    return GaussianProcessClassifier(ConstantKernel() * RBF(np.sqrt(d)))


SCORED = {
    "logistic": Model("multinomial logistic", lambda *_: LogisticRegression(max_iter=5000)),
    "ep": Model("EP", lambda *_: OrdinalGPClassifier()),
    "map": Model("Laplace", lambda *_: OrdinalGPClassifier(inference="laplace")),
    "regression": Model("scikit-learn regression", lambda seed, d: RoundedRegression(d)),
    "classifier": Model("scikit-learn classifier", _classifier),
}


def compute_log_score(cell: Cell, data_home: Home = None) -> Record:
    """Fit and score one partition; the time of a factorisation of its size is kept too.

    The logistic regression, which has no random part, gives the figures measured elsewhere on the
    first five published partitions with Abalone's sex as 0/1 columns that are not scaled, and on no
    other number of them. So these are used here.
    """
    data = load_split(cell._replace(dataset=cell.dataset.removesuffix("-scaled")), data_home)
    if cell.dataset == "abalone":
        for X in (data.X_train, data.X_test):
            X[:, -3:] = X[:, -3:] > 0
    before = cholesky_seconds(len(data.y_train))
    record = fit_and_score_split(cell, data, _LEVELS, SCORED)
    unit = (before + cholesky_seconds(len(data.y_train))) / 2
    return record | {"factorisations": record["fit_seconds"] / unit}


def log_scores_page(records: Sequence[Record], experiment: Experiment) -> list[Part]:
    """Log scores, errors and cost, one table for each set, with what was measured elsewhere."""
    parts: list[Part] = []
    elsewhere = published("log-scores")
    for dataset in present(experiment.datasets, records, "dataset"):
        rows = [
            entries(f"{label} (elsewhere)", "–", f"{figures[dataset]:.3f}", "–", "–", "–")
            for label, figures in elsewhere["figures"].items()
            if dataset in figures
        ]
        for model in present(SCORED, select(records, dataset=dataset), "model"):
            found = select(records, dataset=dataset, model=model)
            keys = ("log_score", "zero_one", "absolute", "factorisations")
            means = (np.mean([r[key] for r in found]) for key in keys)
            forms = ("{:.4f}", "{:.3f}", "{:.3f}", "{:.0f}")
            texts = (form.format(mean) for form, mean in zip(forms, means, strict=True))
            rows.append(entries(SCORED[model].label, str(len(found)), *texts))
        header = ["model", "n", "log score", "zero-one", "absolute", "fit in dpotrf(n)"]
        parts.append(Table(dataset, header, rows, f"Elsewhere: {elsewhere['source']}."))
    return parts


EXPERIMENTS = (
    Experiment(
        "peers",
        "Our models beside other libraries",
        fit_and_score,
        peers_page,
        PEERS,
        datasets=DATASETS,
        bins=(5,),
    ),
    Experiment(
        "log-scores",
        "Log scores and cost beside scikit-learn's Gaussian processes",
        compute_log_score,
        log_scores_page,
        tuple(SCORED),
        datasets=("boston_housing", "stocks", "abalone", "abalone-scaled"),
        bins=(5,),
        trials=5,
        registry=SCORED,
    ),
)
