"""Real tables and surveys as people have them, with the models that people use for them.

All models get the same inputs, encoded as ``ordinalgp.tables.TableModel`` does it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers.data import (
    BoolArray,
    FloatArray,
    Home,
    IntArray,
    fetch_benchmark,
    quintile_labels,
    read_survey,
)
from papers.models import MODELS
from papers.pages import Part, Table, entries
from papers.peers import beaten, measure_table
from papers.runner import (
    Cell,
    Experiment,
    Record,
    Split,
    draw_training_rows,
    fit_and_score_split,
    levels_of,
)
from papers.statistics import paired_difference, present, select

Columns = Mapping[str, NDArray[Any]]
"""numbers with nan for gaps, or texts with "" for gaps"""
_MOST_TEST_ROWS = 2000

# Texts from lowest to highest; they become 0, 1, ...
ORDERED: dict[str, dict[str, tuple[str, ...]]] = {
    "diamonds": {
        "cut": ("Fair", "Good", "Very Good", "Premium", "Ideal"),
        "color": ("J", "I", "H", "G", "F", "E", "D"),
    },
    "happiness": {
        "income": (
            *("lt $1000", "$1000 to 2999", "$3000 to 3999", "$4000 to 4999", "$5000 to 5999"),
            *("$6000 to 6999", "$7000 to 7999", "$8000 to 9999", "$10000 - 14999"),
            *("$15000 - 19999", "$20000 - 24999", "$25000 or more"),
        ),
        "attend": (
            *("never", "lt once a year", "once a year", "sevrl times a yr", "once a month"),
            *("2-3x a month", "nrly every week", "every week", "more thn once wk"),
        ),
        "target": ("not too happy", "pretty happy", "very happy"),
    },
}


# ----------------------------------------------------------------------------------- encoding


def as_ranks(words: NDArray[Any], order: Sequence[str]) -> FloatArray:
    """Places of ordered texts, nan for gaps; a text outside of the order is an error."""
    places = {word: float(place) for place, word in enumerate(order)} | {"": np.nan}
    return np.array([places[word] for word in words.tolist()])


def encode(columns: Columns, train: BoolArray) -> FloatArray:
    """Features of all rows, by the rule of tables and by what the training rows show.

    Gaps of numbers are filled with the median, and numbers are standardised. Gaps of texts are
    filled with the most frequent one, and each text gets a 0/1 feature. A column with gaps in
    training gets one more 0/1 feature that marks them. A text that is new gets zeros.
    """
    parts: list[FloatArray] = []
    for values in columns.values():
        is_number = np.issubdtype(values.dtype, np.floating)
        gaps = np.isnan(values) if is_number else values == ""
        parts.append((_numbers if is_number else _texts)(values, gaps, train))
        parts += [gaps[:, None].astype(np.float64)] * bool(gaps[train].any())
    return np.hstack(parts)


def _numbers(values: FloatArray, gaps: BoolArray, train: BoolArray) -> FloatArray:
    filled = np.where(gaps, np.median(values[train & ~gaps]), values)
    seen = filled[train]
    scale = seen.std() if np.ptp(seen) > 0 else 1.0
    return ((filled - seen.mean()) / scale)[:, None]


def _texts(values: NDArray[Any], gaps: BoolArray, train: BoolArray) -> FloatArray:
    known, counts = np.unique(values[train & ~gaps], return_counts=True)
    filled = np.where(gaps, known[counts.argmax()], values)
    return (filled[:, None] == known).astype(np.float64)


# ----------------------------------------------------------------------------------- one cell


def load_table(name: str, data_home: Home = None) -> tuple[Columns, IntArray]:
    """Columns and labels of a large table: quintiles of the target, or its own levels."""
    data = fetch_benchmark(name, data_home)
    numbers = zip(data.numeric_names, data.numeric.T, strict=True)
    words = zip(data.nominal_names, data.nominal.T, strict=True)
    continuous = data.target_kind.startswith("continuous")
    y = quintile_labels(data.target) if continuous else data.target.astype(np.intp)
    return _ranked(name, {**dict(numbers), **dict(words)}), y


def load_survey(name: str, data_home: Home = None) -> tuple[Columns, IntArray]:
    """Columns and labels of a survey; levels count from 0."""
    columns = dict(_ranked(name, read_survey(name, data_home)))
    answers = columns.pop("target")
    return columns, np.unique(answers, return_inverse=True)[1].astype(np.intp)


def _ranked(name: str, columns: Columns) -> Columns:
    orders = ORDERED.get(name, {})
    return {key: as_ranks(v, orders[key]) if key in orders else v for key, v in columns.items()}


def split_rows(columns: Columns, y: IntArray, cell: Cell) -> Split:
    """Draw the training rows of a cell, and up to 2,000 of the others for testing."""
    train = draw_training_rows(y, cell.size, cell.shared_seed)
    others = np.flatnonzero(~train)
    rng = np.random.default_rng(cell.shared_seed)
    test = np.sort(rng.permutation(others)[:_MOST_TEST_ROWS])
    X = encode(columns, train)
    return Split(X[train], y[train], X[test], y[test], "drawn")


def compute_table(cell: Cell, data_home: Home = None) -> Record:
    """Fit and score one model on one draw of a large table."""
    data = split_rows(*load_table(cell.dataset, data_home), cell)
    return fit_and_score_split(cell, data, levels_of(data))


def compute_survey(cell: Cell, data_home: Home = None) -> Record:
    """Fit and score one model on one draw of a survey."""
    data = split_rows(*load_survey(cell.dataset, data_home), cell)
    return fit_and_score_split(cell, data, levels_of(data))


# ----------------------------------------------------------------------------------- the page

MEASURES = {
    "log_score": "log score",
    "rps": "ranked probability score",
    "absolute_median": "absolute error of the median level, %",
    "zero_one": "zero-one error, %",
}
_NOTE = (
    "All models get the same rows and inputs: numbers standardised, ordered texts as numbers, "
    "other texts as 0/1 columns, gaps filled by the median or the most frequent value and marked. "
    "Test rows are up to 2,000 others. CatBoost, boosting and logistic regression have their "
    "defaults; the forest has 500 trees, and one more that gives all levels the same probability."
)

_LEVELS = {
    "real-tables": (
        "Levels: quintiles of the target in California, Census and Computer; the eight clarities "
        "in Diamonds."
    ),
    "surveys": (
        "Levels: three of happiness, and six answers to the statement that one often feels blue."
    ),
}


def scores_page(records: Sequence[Record], experiment: Experiment) -> list[Part]:
    """One table for each measure, differences in log score, and where another model is better."""
    models = present(MODELS, records, "model")
    parts: list[Part] = [_NOTE, _LEVELS[experiment.name]]
    for measure, title in MEASURES.items():
        parts.append(replace(measure_table(records, measure, title, models, experiment), note=""))
    ours = [model for model in ("stacked", "ep") if model in models]
    parts += [_differences(records, models, experiment, ours[0])] if ours else []
    return [*parts, beaten(records, models, experiment, MEASURES)]


def _differences(
    records: Sequence[Record], models: Sequence[str], experiment: Experiment, ours: str
) -> Table:
    """Log score of each other model less ours on the same splits."""
    others = [model for model in models if model != ours]
    rows = []
    for dataset in present(experiment.datasets, records, "dataset"):
        mine = select(records, dataset=dataset, model=ours)
        gaps = (
            paired_difference("log_score", select(records, dataset=dataset, model=model), mine)
            for model in others
        )
        shown = (f"{gap:+.3f}±{error:.3f}" if n > 1 else "–" for gap, error, n in gaps)
        rows.append(entries(dataset, *shown))
    title = f"Log score less that of {MODELS[ours].label}"
    note = (
        "Mean difference over the splits of both, and its standard error; above 0 ours is better."
    )
    return Table(title, ["data", *(MODELS[model].label for model in others)], rows, note)


_MODELS = ("ep", "stacked", "catboost", "sklearn-boosting", "forest", "logistic")
EXPERIMENTS = (
    Experiment(
        "real-tables",
        "Real tables: 1,000 rows of four large data sets",
        compute_table,
        scores_page,
        _MODELS,
        trials=5,
        sizes=dict.fromkeys(
            ("california_housing", "census_house16h", "computer_small", "diamonds"), (1000,)
        ),
    ),
    Experiment(
        "surveys",
        "Surveys: 1,200 answers of people",
        compute_survey,
        scores_page,
        _MODELS,
        trials=10,
        sizes=dict.fromkeys(("happiness", "personality"), (1200,)),
    ),
)
