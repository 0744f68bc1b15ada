"""Plots of a report, each with a title, an explanation and an alternative text."""

import io
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ordinalgp.decisions import decide
from ordinalgp.plots import (
    CalibrationDisplay,
    ConfusionDisplay,
    ContourDisplay,
    EvidenceDisplay,
    LatentDisplay,
    PosteriorDisplay,
    RelevanceDisplay,
)
from ordinalgp.plots.base import file_axes, pyplot
from ordinalgp.tables import TableModel
from ordinalgp.tables.cells import Table, objects
from ordinalgp.tables.encoding import NumberColumn
from ordinalgp.tables.summary import relevance

_GRID_POINTS = 60  # along each axis of the contour


@dataclass(frozen=True)
class Figure:
    """A plot as a data address, with its texts."""

    section: str
    title: str
    alt: str
    text: str
    source: str


def figures(model: TableModel) -> list[Figure]:
    """All plots that the model has data for."""
    makers: list[Callable[[TableModel], Iterator[Figure]]]
    makers = [_latent, _leave_one_out, _relevance, _effects, _search]
    return [figure for maker in makers for figure in maker(model)]


def _draw(section: str, title: str, alt: str, text: str, draw: Callable[[Any], Any]) -> Figure:
    plt = pyplot()
    with plt.rc_context({"font.size": 10.5, "svg.hashsalt": "ordinalgp", "axes.grid": False}):
        ax = file_axes((7.2, 4.3))
        draw(ax)
        content = io.BytesIO()
        # Without a date equal models make equal reports.
        ax.figure.savefig(content, format="svg", metadata={"Date": None})
    source = "data:image/svg+xml;base64," + b64encode(content.getvalue()).decode("ascii")
    return Figure(section, title, alt, text, source)


def _latent(model: TableModel) -> Iterator[Figure]:
    y = model.categories_[model.codes_]
    cuts = ", ".join(f"{cut:.2f}" for cut in model.thresholds_)
    yield _draw(
        "levels",
        "Levels on the latent scale",
        f"Densities of the latent function for each level; thresholds at {cuts}.",
        "The model places every row on one hidden scale, the latent function. Dashed lines are "
        "the thresholds that cut the scale into levels. Each curve shows where the training rows "
        "of a level lie; each small tick is a row. Curves that overlap across a threshold belong "
        "to levels that are hard to tell apart.",
        lambda ax: LatentDisplay.from_moments(
            model.classifier_, model.latent_mean_, model.latent_variance_, y, ax=ax
        ),
    )


def _leave_one_out(model: TableModel) -> Iterator[Figure]:
    if not len(model.loo_proba_):
        return
    levels, p = model.categories_, model.loo_proba_
    y, mode = levels[model.codes_], levels[decide(p, "mode")]
    off = np.abs(model.codes_ - decide(p, "mode"))
    yield _draw(
        "quality",
        "Confusion of levels",
        f"Leave-one-out confusion matrix: {np.mean(off == 0):.0%} correct, "
        f"{np.mean(off == 1):.0%} off by one level, {np.mean(off > 1):.0%} by more.",
        "Every row was predicted from all others. Framed cells are correct predictions; the "
        "further a cell is from them, the larger the error. Percentages are shares of the rows "
        "of a true level.",
        lambda ax: ConfusionDisplay.from_predictions(y, mode, levels, ax=ax),
    )
    for kind, words in (("level", "each level"), ("cumulative", "each level or a lower one")):
        yield _draw(
            "quality",
            f"Calibration of {words}",
            f"Calibration plot: predicted probability of {words} against its observed frequency.",
            "Rows are grouped by their predicted probability. On the dashed line, what the model "
            "expects in 7 of 10 cases occurs in 7 of 10. Below the line the model overestimates; "
            "above it, it underestimates. Bars are 90 % intervals, which are wide where rows are "
            "few.",
            lambda ax, kind=kind: CalibrationDisplay.from_predictions(  # type: ignore[misc]
                y, p, levels, kind=kind, ax=ax
            ),
        )


def _relevance(model: TableModel) -> Iterator[Figure]:
    shares = relevance(model)
    if shares is None:
        return
    ranked = sorted(shares.items(), key=lambda item: -item[1])
    told = ", ".join(f"{name} {share:.0%}" for name, share in ranked[:8])
    yield _draw(
        "columns",
        "Relevance of the columns",
        f"Relevance of the columns: {told}.",
        "Share of each column in the distance between rows, as the kernel measures it. A column "
        "near zero is ignored. One of several similar columns may take the share of all, so a "
        "short bar does not prove that a column is unrelated to the target.",
        lambda ax: RelevanceDisplay(np.array(list(shares.values())), list(shares)).plot(ax),
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
    return _draw(
        "columns",
        f"Level along {column.name}",
        f"Latent function along {column.name}: mean from {mean[0]:.2f} to {mean[-1]:.2f}.",
        f"Latent function when only {column.name} changes and all other columns stay at "
        "their median or most frequent value. The grey bands are one and two posterior standard "
        "deviations; the coloured strips are the levels.",
        lambda ax: PosteriorDisplay(*parts, column.name, "latent").plot(ax),
    )


def _over(model: TableModel, first: NumberColumn, second: NumberColumn) -> Figure:
    axes = (np.linspace(column.low, column.high, _GRID_POINTS) for column in (first, second))
    x0, x1 = np.meshgrid(*axes)
    table = _typical(model, {first.name: x0.ravel(), second.name: x1.ravel()})
    mean, _ = model.latent_mean_and_variance(table)
    surface = x0, x1, mean.reshape(x0.shape), model.thresholds_, model.categories_
    shown = np.empty((0, 2)), None, [first.name, second.name]
    return _draw(
        "columns",
        f"Level over {first.name} and {second.name}",
        f"Map of the latent mean over {first.name} and {second.name} with borders of levels.",
        "Map over two columns; the others stay at their median or most frequent value. Thick "
        "lines are the borders between levels; thin lines connect equal latent values.",
        lambda ax: ContourDisplay(*surface, *shown).plot(ax),
    )


def _typical(model: TableModel, given: dict[str, Any]) -> Table:
    """Rows with some columns as given, and the others at the values that fill gaps."""
    n = len(next(iter(given.values())))
    columns: dict[str, Any] = {}
    for column in model.encoder_.columns:
        if isinstance(column, NumberColumn):
            columns[column.name] = given.get(column.name, np.full(n, column.median))
        else:
            columns[column.name] = objects([column.frequent] * n)
    return Table(columns, np.arange(1, n + 1), "row")


def _search(model: TableModel) -> Iterator[Figure]:
    path = getattr(model.classifier_, "evidence_path_", np.empty(0))
    if not len(path):
        return
    moves = getattr(model.classifier_, "evidence_moves_", None)
    what, chosen = ("evaluations", "Length scales, noise and thresholds are chosen")
    if moves is not None:
        what, chosen = "steps", "Functions enter, change and leave, and thresholds move,"
    yield _draw(
        "search",
        "Search for the hyperparameters",
        f"Log evidence over {len(path)} {what}, from {path[0]:.1f} to {path.max():.1f}.",
        f"{chosen} to make the data as probable as possible. "
        "The curve shows this search; it should end in a plateau.",
        lambda ax: EvidenceDisplay(np.asarray(path), moves).plot(ax),
    )
