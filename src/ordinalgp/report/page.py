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
from ordinalgp.tables.summary import (
    ERRORS,
    RULE,
    SCORES,
    importance,
    importance_in_words,
    scored_rows,
    summarise,
)

_GRID_POINTS = 60  # along each axis of the contour
_EFFECT_PANELS = 8  # columns whose effects are drawn
_EFFECT_ROWS = 50  # rows over which probabilities are averaged
_EFFECT_POINTS = 25  # along each curve
_MOST_TRIED = 40  # columns whose effects are computed, to choose the largest
_SCREENED_ROWS = 20  # of a wide table, whose predictions tell which columns to try
_COVERAGE = 0.9  # of the intervals that are drawn


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

    Examples
    --------
    >>> from ordinalgp.report import report_html
    >>> from ordinalgp.tables import TableModel
    >>> table = {"hours": [1, 2, 3, 5, None, 8], "tutor": ["no", "no", "yes", "no", "yes", "yes"]}
    >>> grades = ["poor", "poor", "fair", "fair", "good", "good"]
    >>> model = TableModel(kernel="rbf", categories=["poor", "fair", "good"]).fit(table, grades)
    >>> report_html(model).startswith("<!doctype html>")
    True
    """
    jinja2 = import_extra("jinja2", "Reports need", "report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = files("ordinalgp.report").joinpath("report.html.j2").read_text(encoding="utf-8")
    numbers, summary = _numbers_by_importance(model)[:2], summarise(model)
    return environment.from_string(template).render(
        summary=summary,
        scored=summary["cross_validation"] or summary["leave_one_out"],
        figures=dict(_figures(model, numbers)),
        shown=[column.name for column in numbers],
        stepwise=hasattr(model.classifier_, "evidence_moves_"),
        scores=SCORES,
        errors=ERRORS,
        rule=RULE,
        importance=importance_in_words(len(summary["columns"])),
        python=_python(model),
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

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from ordinalgp.report import write_report
    >>> from ordinalgp.tables import TableModel
    >>> table = {"hours": [1, 2, 3, 5, None, 8], "tutor": ["no", "no", "yes", "no", "yes", "yes"]}
    >>> grades = ["poor", "poor", "fair", "fair", "good", "good"]
    >>> model = TableModel(kernel="rbf", categories=["poor", "fair", "good"]).fit(table, grades)
    >>> with TemporaryDirectory() as folder:
    ...     write_report(model, Path(folder) / "report.html")
    ...     (Path(folder) / "report.html").stat().st_size > 10_000
    True
    """
    page = report_html(model).encode("utf-8")
    with whole_file(path) as file:
        file.write(page)


def _python(model: TableModel) -> dict[str, str]:
    """Parts of the Python code that fits the same model to the same table."""
    classifier = model.classifier if model.classifier is not None else model.classifier_
    columns = [column.name for column in model.encoder_.columns]
    kept: dict[str, Any] = {
        "kernel": model.kernel,
        "categories": [] if model.categories is None else np.asarray(model.categories).tolist(),
        "decision": model.decision if isinstance(model.decision, str) else None,
        "folds": model.folds,
        "nominal": list(model.nominal),
        "numeric": list(model.numeric),
    }
    return {
        "name": type(classifier).__name__,
        "parameters": _changed(classifier),
        "columns": pformat(columns, width=76, compact=True),
        "options": "".join(f", {key}={value!r}" for key, value in kept.items() if value),
        "target": repr(model.target if model.target is not None else "target"),
    }


def _changed(estimator: Any) -> str:
    """Parameters that differ from their defaults, as Python code."""
    defaults = {name: p.default for name, p in signature(type(estimator)).parameters.items()}
    params = estimator.get_params(deep=False)
    changed = {k: v for k, v in params.items() if repr(v) != repr(defaults[k])}
    return ", ".join(f"{name}={value!r}" for name, value in changed.items())


@dataclass(frozen=True)
class Figure:
    """A plot with its alternative text."""

    alt: str
    draw: Callable[..., Any]
    """draws on the axes ``ax``"""
    size: tuple[float, float] = (7.2, 4.3)
    """width and height in inches"""

    @property
    def pixels(self) -> tuple[int, int]:
        """Width and height on the page."""
        width, height = self.size
        return 720, round(720 * height / width)

    @property
    def source(self) -> str:
        """The plot as a data address."""
        style = {"font.size": 10.5, "svg.hashsalt": "ordinalgp", "axes.grid": False}
        with pyplot().rc_context(style):
            ax = file_axes(self.size)
            self.draw(ax=ax)
            content = io.BytesIO()
            # Without a date equal models make equal reports.
            ax.figure.savefig(content, format="svg", metadata={"Date": None})
        return "data:image/svg+xml;base64," + b64encode(content.getvalue()).decode("ascii")


def _figures(model: TableModel, numbers: list[NumberColumn]) -> Iterator[tuple[str, Figure]]:
    """Plots that the model has data for, by name."""
    scale = hasattr(model, "thresholds_")
    if scale:
        yield "latent", _latent(model)
    if len(scored_rows(model)[1]):
        yield from _scored(model)
    if (effects := _effects(model)) is not None:
        yield f"effects {effects.kind}", _effects_figure(effects)
    if (known := importance(model)) is not None:
        yield "importance", _importance(known)
    if numbers and scale:
        yield "along", _along(model, numbers[0])
    if len(numbers) > 1 and scale:
        yield "over", _over(model, *numbers)
    if len(getattr(model.classifier_, "evidence_path_", ())):
        yield "search", _search(model.classifier_)


def _numbers_by_importance(model: TableModel) -> list[NumberColumn]:
    """Numeric columns that vary, the most important first."""
    known = importance(model) or {}
    columns = [column for column in model.encoder_.columns if isinstance(column, NumberColumn)]
    varied = [column for column in columns if column.low < column.high]
    return sorted(varied, key=lambda column: -known.get(column.name, (0.0, 0.0))[0])


def _latent(model: TableModel) -> Figure:
    y, moments = model.categories_[model.codes_], (model.latent_mean_, model.latent_variance_)
    cuts = ", ".join(f"{cut:.2f}" for cut in model.thresholds_)
    alt = f"Densities of the latent function for each level; thresholds at {cuts}."
    return Figure(alt, partial(plots.LatentDisplay.from_moments, model.classifier_, *moments, y))


def _scored(model: TableModel) -> Iterator[tuple[str, Figure]]:
    levels, (codes, p) = model.categories_, scored_rows(model)
    y, mode = levels[codes], decide(p, "mode")
    off = np.abs(codes - mode)
    alt = (
        f"Confusion matrix: {np.mean(off == 0):.0%} correct, "
        f"{np.mean(off == 1):.0%} off by one level, {np.mean(off > 1):.0%} by more."
    )
    confusion = partial(plots.ConfusionDisplay.from_predictions, y, levels[mode], levels)
    yield "confusion", Figure(alt, confusion)
    alt = "Calibration plot: predicted probability of {} against its observed frequency."
    draw = partial(plots.CalibrationDisplay.from_predictions, y, p, levels)
    yield "calibration", Figure(alt.format("each level"), draw)
    cumulative = partial(draw, kind="cumulative")
    yield "cumulative", Figure(alt.format("each level or a lower one"), cumulative)
    found = model.classifier_.interval_from_proba(p, _COVERAGE)
    alt = f"Intervals of levels for a coverage of {_COVERAGE:.0%}, with the true levels."
    bars = partial(plots.IntervalDisplay.from_intervals, found, y, levels)
    yield "intervals", Figure(alt, bars)


def _effects(model: TableModel) -> plots.EffectDisplay | None:
    """Effects of the columns, where one of them varies."""
    if not np.ptp(model.sample_, axis=0).any():
        return None
    rows = model.encoder_.decode(model.sample_)
    return plots.EffectDisplay.computed(
        model,
        rows,
        features=_columns_to_try(model),
        max_features=_EFFECT_PANELS,
        max_rows=_EFFECT_ROWS,
        resolution=_EFFECT_POINTS,
        n_cols=2,
    )


def _columns_to_try(model: TableModel) -> list[str] | None:
    """Columns of a wide table that move predictions most, or are most important; else None."""
    groups = model.encoder_.groups
    if len(groups) <= _MOST_TRIED:
        return None
    known = importance(model)
    if known is not None:
        size = {name: known[name][0] for name in groups}
    else:
        X, rng = model.sample_, np.random.default_rng(0)
        X = X[rng.permutation(len(X))[:_SCREENED_ROWS]]
        p = model.classifier_.category_proba(X)
        size = {}
        for name, places in groups.items():
            moved = X.copy()
            moved[:, list(places)] = np.roll(X[:, list(places)], 1, axis=0)
            size[name] = np.abs(model.classifier_.category_proba(moved) - p).sum()
    return sorted(groups, key=lambda name: -size[name])[:_MOST_TRIED]


def _effects_figure(display: plots.EffectDisplay) -> Figure:
    what = "standard deviation {:.2g}" if display.kind == "latent" else "moves {:.0%}"
    told = [f"{each.axis.name} ({what.format(each.size)})" for each in display.panels]
    return Figure(f"Effects, the largest first: {', '.join(told)}.", display.plot, display.size)


def _importance(known: dict[str, tuple[float, float]]) -> Figure:
    mean, error = np.transpose(list(known.values()))
    ranked = sorted(known.items(), key=lambda item: -item[1][0])
    told = ", ".join(f"{name} {found:.3f} ± {off:.3f}" for name, (found, off) in ranked[:8])
    display = plots.ImportanceDisplay(mean, error, list(known))
    height = 1.3 + 0.3 * min(len(known), 25)
    return Figure(f"Importance of the columns: {told}.", display.plot, (7.2, height))


def _along(model: TableModel, column: NumberColumn) -> Figure:
    x = np.linspace(column.low, column.high, 200)
    mean, var = model.latent_mean_and_variance(_typical(model, {column.name: x}))
    parts = x, mean, np.sqrt(var), model.thresholds_, model.categories_, x[:0], None
    return Figure(
        f"Latent function along {column.name}: mean from {mean[0]:.2f} to {mean[-1]:.2f}.",
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
        f"Map of the latent mean over {first.name} and {second.name} with borders of levels.",
        plots.ContourDisplay(*surface, *shown).plot,
    )


def _typical(model: TableModel, given: dict[str, Any]) -> Table:
    """Rows with some columns as given, and the others at their medians or most frequent values."""
    n = len(next(iter(given.values())))
    columns = {
        column.name: np.full(n, column.median)
        if isinstance(column, NumberColumn)
        else objects([column.typical] * n)
        for column in model.encoder_.columns
    }
    return Table(columns | given, np.arange(1, n + 1), "row")


def _search(classifier: Any) -> Figure:
    path, moves = classifier.evidence_path_, getattr(classifier, "evidence_moves_", None)
    what = "evaluations" if moves is None else "steps"
    return Figure(
        f"Log evidence over {len(path)} {what}, from {path[0]:.1f} to {path.max():.1f}.",
        plots.EvidenceDisplay(np.asarray(path), moves).plot,
    )
