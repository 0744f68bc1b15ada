"""Page of a report, made from a template: summary, plots, and how to read them."""

import io
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from inspect import signature
from os import PathLike
from pprint import pformat
from typing import Any

import numpy as np

import ordinalgp
from ordinalgp import plots
from ordinalgp.decisions import decide
from ordinalgp.plots.base import file_axes, pyplot
from ordinalgp.runtime.extras import import_extra
from ordinalgp.runtime.files import whole_file
from ordinalgp.tables import TableModel
from ordinalgp.tables.cells import Table, objects
from ordinalgp.tables.encoding import NumberColumn
from ordinalgp.tables.summary import RULE, SCORES, relevance, summarise

_GRID_POINTS = 60  # along each axis of the contour
MEANING = {
    "zero_one_error": "share of rows whose most probable level is not the true one",
    "absolute_error": "mean distance between the median level and the true one, in levels",
    "ranked_probability_score": "squared error of the cumulative probabilities; distant levels "
    "cost more",
    "log_score": "minus the log probability of the true level",
}


def report_html(model: TableModel) -> str:
    """Complete page, which needs no other file and no network.

    Parameters
    ----------
    model : TableModel
        A fitted model.

    Returns
    -------
    str
        HTML with all plots inside.
    """
    jinja2 = import_extra("jinja2", "Reports need", "report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = files("ordinalgp.report").joinpath("report.html.j2").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        summary=summarise(model),
        figures={
            "levels": [_latent(model)],
            "quality": list(_leave_one_out(model)),
            "columns": [*_relevance(model), *_effects(model)],
            "search": list(_search(model)),
        },
        scores=SCORES,
        meaning=MEANING,
        rule=RULE,
        python=python_code(model),
        version=ordinalgp.__version__,
    )


def write_report(model: TableModel, path: str | PathLike[str]) -> None:
    """Write the page to a file; a failure leaves no part of it.

    Parameters
    ----------
    model : TableModel
        A fitted model.
    path : str or path-like
        File to write, for example "report.html".
    """
    page = report_html(model).encode("utf-8")
    with whole_file(path) as file:
        file.write(page)


def python_code(model: TableModel) -> str:
    """Python code that fits the same model to the same table."""
    classifier = model.classifier if model.classifier is not None else model.classifier_
    name, columns = type(classifier).__name__, [c.name for c in model.encoder_.columns]
    target = model.target if model.target is not None else "target"
    kept = {"kernel": model.kernel, "nominal": list(model.nominal), "numeric": list(model.numeric)}
    options = "".join(f", {key}={value!r}" for key, value in kept.items() if value)
    return "\n".join(
        [
            "import pandas as pd",
            f"from ordinalgp import {name}",
            "from ordinalgp.tables import TableModel",
            "",
            'table = pd.read_csv("table.csv", keep_default_na=False)  # the table of ordinalgp fit',
            f"columns = {pformat(columns, width=76, compact=True)}",
            f"classifier = {name}({_changed(classifier)})",
            f"model = TableModel(classifier{options}, target={target!r})",
            f"model.fit(table[columns], table[{target!r}])",
            "print(model.category_proba(table[columns]))",
        ]
    )


def _changed(estimator: Any) -> str:
    """Parameters that differ from their defaults, as Python code."""
    defaults = {name: p.default for name, p in signature(type(estimator)).parameters.items()}
    params = estimator.get_params(deep=False)
    changed = {k: v for k, v in params.items() if repr(v) != repr(defaults[k])}
    return ", ".join(f"{name}={value!r}" for name, value in changed.items())


@dataclass(frozen=True)
class Figure:
    """A plot with its texts."""

    title: str
    alt: str
    text: str
    draw: Callable[..., Any]
    """draws on the axes ``ax``"""

    @property
    def source(self) -> str:
        """The plot as a data address."""
        style = {"font.size": 10.5, "svg.hashsalt": "ordinalgp", "axes.grid": False}
        with pyplot().rc_context(style):
            ax = file_axes((7.2, 4.3))
            self.draw(ax=ax)
            content = io.BytesIO()
            # Without a date equal models make equal reports.
            ax.figure.savefig(content, format="svg", metadata={"Date": None})
        return "data:image/svg+xml;base64," + b64encode(content.getvalue()).decode("ascii")


def _latent(model: TableModel) -> Figure:
    y, moments = model.categories_[model.codes_], (model.latent_mean_, model.latent_variance_)
    cuts = ", ".join(f"{cut:.2f}" for cut in model.thresholds_)
    return Figure(
        "Levels on the latent scale",
        f"Densities of the latent function for each level; thresholds at {cuts}.",
        "The model places every row on one hidden scale, the latent function. Dashed lines are "
        "the thresholds that cut the scale into levels. Each curve shows where the training rows "
        "of a level lie; each small tick is a row. Curves that overlap across a threshold belong "
        "to levels that are hard to tell apart.",
        partial(plots.LatentDisplay.from_moments, model.classifier_, *moments, y),
    )


def _leave_one_out(model: TableModel) -> Iterator[Figure]:
    if not len(model.loo_proba_):
        return
    levels, p = model.categories_, model.loo_proba_
    y, mode = levels[model.codes_], levels[decide(p, "mode")]
    off = np.abs(model.codes_ - decide(p, "mode"))
    yield Figure(
        "Confusion of levels",
        f"Leave-one-out confusion matrix: {np.mean(off == 0):.0%} correct, "
        f"{np.mean(off == 1):.0%} off by one level, {np.mean(off > 1):.0%} by more.",
        "Every row was predicted from all others. Framed cells are correct predictions; the "
        "further a cell is from them, the larger the error. Percentages are shares of the rows "
        "of a true level.",
        partial(plots.ConfusionDisplay.from_predictions, y, mode, levels),
    )
    for kind, words in (("level", "each level"), ("cumulative", "each level or a lower one")):
        yield Figure(
            f"Calibration of {words}",
            f"Calibration plot: predicted probability of {words} against its observed frequency.",
            "Rows are grouped by their predicted probability. On the dashed line, what the model "
            "expects in 7 of 10 cases occurs in 7 of 10. Below the line the model overestimates; "
            "above it, it underestimates. Bars are 90 % intervals, which are wide where rows are "
            "few.",
            partial(plots.CalibrationDisplay.from_predictions, y, p, levels, kind=kind),
        )


def _relevance(model: TableModel) -> Iterator[Figure]:
    shares = relevance(model)
    if shares is None:
        return
    ranked = sorted(shares.items(), key=lambda item: -item[1])
    told = ", ".join(f"{name} {share:.0%}" for name, share in ranked[:8])
    yield Figure(
        "Relevance of the columns",
        f"Relevance of the columns: {told}.",
        "Share of each column in the distance between rows, as the kernel measures it. A column "
        "near zero is ignored. One of several similar columns may take the share of all, so a "
        "short bar does not prove that a column is unrelated to the target.",
        plots.RelevanceDisplay(np.array(list(shares.values())), list(shares)).plot,
    )


def _effects(model: TableModel) -> Iterator[Figure]:
    """Posterior along the most relevant number, and over the two most relevant ones."""
    shares = relevance(model) or {}
    numbers = [
        column
        for column in model.encoder_.columns
        if isinstance(column, NumberColumn) and column.low < column.high
    ]
    numbers.sort(key=lambda column: -shares.get(column.name, 0.0))
    if numbers:
        yield _along(model, numbers[0])
    if len(numbers) > 1:
        yield _over(model, numbers[0], numbers[1])


def _along(model: TableModel, column: NumberColumn) -> Figure:
    x = np.linspace(column.low, column.high, 200)
    mean, var = model.latent_mean_and_variance(_typical(model, {column.name: x}))
    parts = x, mean, np.sqrt(var), model.thresholds_, model.categories_, x[:0], None
    return Figure(
        f"Level along {column.name}",
        f"Latent function along {column.name}: mean from {mean[0]:.2f} to {mean[-1]:.2f}.",
        f"Latent function when only {column.name} changes and all other columns stay at "
        "their median or most frequent value. The grey bands are one and two posterior standard "
        "deviations; the coloured strips are the levels.",
        plots.PosteriorDisplay(*parts, column.name, "latent").plot,
    )


def _over(model: TableModel, first: NumberColumn, second: NumberColumn) -> Figure:
    axes = (np.linspace(column.low, column.high, _GRID_POINTS) for column in (first, second))
    x0, x1 = np.meshgrid(*axes)
    table = _typical(model, {first.name: x0.ravel(), second.name: x1.ravel()})
    mean, _ = model.latent_mean_and_variance(table)
    surface = x0, x1, mean.reshape(x0.shape), model.thresholds_, model.categories_
    shown = np.empty((0, 2)), None, [first.name, second.name]
    return Figure(
        f"Level over {first.name} and {second.name}",
        f"Map of the latent mean over {first.name} and {second.name} with borders of levels.",
        "Map over two columns; the others stay at their median or most frequent value. Thick "
        "lines are the borders between levels; thin lines connect equal latent values.",
        plots.ContourDisplay(*surface, *shown).plot,
    )


def _typical(model: TableModel, given: dict[str, Any]) -> Table:
    """Rows with some columns as given, and the others at the values that fill gaps."""
    n = len(next(iter(given.values())))
    columns = {
        column.name: np.full(n, column.median)
        if isinstance(column, NumberColumn)
        else objects([column.frequent] * n)
        for column in model.encoder_.columns
    }
    return Table(columns | given, np.arange(1, n + 1), "row")


def _search(model: TableModel) -> Iterator[Figure]:
    path = getattr(model.classifier_, "evidence_path_", np.empty(0))
    if not len(path):
        return
    moves = getattr(model.classifier_, "evidence_moves_", None)
    what, chosen = ("evaluations", "Length scales, noise and thresholds are chosen")
    if moves is not None:
        what, chosen = "steps", "Functions enter, change and leave, and thresholds move,"
    yield Figure(
        "Search for the hyperparameters",
        f"Log evidence over {len(path)} {what}, from {path[0]:.1f} to {path.max():.1f}.",
        f"{chosen} to make the data as probable as possible. "
        "The curve shows this search; it should end in a plateau.",
        plots.EvidenceDisplay(np.asarray(path), moves).plot,
    )
