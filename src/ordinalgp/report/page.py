"""Page of a report, made from a template."""

from importlib.resources import files
from inspect import signature
from os import PathLike
from pprint import pformat
from typing import Any

import ordinalgp
from ordinalgp.runtime.files import whole_file
from ordinalgp.tables import TableModel
from ordinalgp.tables.summary import RULE, SCORES, summarise

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
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError as error:
        raise ImportError(
            "Reports need jinja2, which cannot be imported. "
            "Install it with: pip install 'ordinalgp[report]'"
        ) from error
    from ordinalgp.report.figures import figures

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = files("ordinalgp.report").joinpath("report.html.j2").read_text(encoding="utf-8")
    pictures = figures(model)
    return environment.from_string(template).render(
        summary=summarise(model),
        figures={
            section: [figure for figure in pictures if figure.section == section]
            for section in ("levels", "quality", "columns", "search")
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
