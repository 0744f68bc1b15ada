"""Page about a model of many raters: items, raters' use of the scale, and what is uncertain."""

from collections.abc import Iterable, Sequence
from html import escape
from os import PathLike
from typing import Any

import numpy as np

import ordinalgp
from ordinalgp.runtime.files import whole_file

_MOST_ROWS = 200  # of a table
_LEAST_KNOWN = 20  # items with the fewest ratings that are listed
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
  color: #1a1a1a; background: #fff; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
.bar { display: inline-block; height: .8em; background: #2b6cb0; }
.levels { display: inline-flex; width: 14rem; height: 1em; } .levels span { height: 100%; }
@media (prefers-color-scheme: dark) { body { color: #eee; background: #151515; }
  th, td { border-color: #444; } .bar { background: #63a4e6; } }
"""


def rating_report_html(model: "ordinalgp.CollaborativeOrdinalGP", coverage: float = 0.9) -> str:
    """Complete page about a model of many raters, which needs no other file and no network.

    Parameters
    ----------
    model : CollaborativeOrdinalGP
        A fitted model.
    coverage : float, default=0.9
        Probability of the intervals.

    Returns
    -------
    str
        HTML.

    Examples
    --------
    >>> from ordinalgp import CollaborativeOrdinalGP
    >>> from ordinalgp.report import rating_report_html
    >>> raters = ["ann", "ann", "bob", "bob", "cem", "cem"]
    >>> model = CollaborativeOrdinalGP(tol=1e-2).fit(raters, ["x", "y"] * 3, [1, 3, 1, 2, 2, 3])
    >>> "<h2>Raters</h2>" in rating_report_html(model)
    True
    """
    items, raters = model.item_summary(coverage), model.rater_summary()
    levels = [str(level) for level in model.categories_.tolist()]
    rows = list(zip(items.items, items.expected, items.low, items.high, items.ratings, strict=True))
    few = sorted(rows, key=lambda row: int(row[4]))[:_LEAST_KNOWN]
    heads = "item", "expected", "from", "to", "ratings"
    who = zip(raters.raters, raters.ratings, raters.mean, raters.noise, raters.shares, strict=True)
    erratic = sorted(who, key=lambda row: -float(row[3]))
    parts = [
        "<h1>Ratings</h1>",
        f"<p>{int(raters.ratings.sum()):,} ratings of {len(model.items_):,} items by "
        f"{len(model.raters_):,} raters, levels {escape(', '.join(levels))}. {_kind(model)}</p>",
        "<h2>Items</h2>",
        f"<p>Rating that a rater of whom nothing is known would give: its expectation, and an "
        f"interval that has it with a probability of {coverage:.0%}.</p>",
        _table(heads, (_item(row) for row in rows[:_MOST_ROWS]), len(rows)),
        "<h2>What is uncertain</h2>",
        "<p>The items with the fewest ratings. More ratings of these would tell most.</p>",
        _table(heads, map(_item, few), len(few)),
        "<h2>Raters</h2>",
        "<p>Use of the scale, the most erratic first. Noise is in units of the typical rater's. "
        "The bar shows how often the rater would give each level, from the lowest on the left, to "
        "an item of average appeal.</p>",
        _table(
            ("rater", "ratings", "mean", "noise", "use of the scale"),
            (
                (_text(name), f"{n:,}", f"{mean:.2f}", f"{noise:.2f}", _levels(shares, levels))
                for name, n, mean, noise, shares in erratic[:_MOST_ROWS]
            ),
            len(erratic),
        ),
    ]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    page = f'<!doctype html><html lang="en"><head>{head}<title>Ratings</title>'
    return f"{page}<style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>"


def write_rating_report(
    model: "ordinalgp.CollaborativeOrdinalGP", path: str | PathLike[str], coverage: float = 0.9
) -> None:
    """Write the page about a model of many raters to a file; a failure leaves no part of it.

    Parameters
    ----------
    model : CollaborativeOrdinalGP
        A fitted model.
    path : str or path-like
        File to write, for example "report.html".
    coverage : float, default=0.9
        Probability of the intervals.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from ordinalgp import CollaborativeOrdinalGP
    >>> from ordinalgp.report import write_rating_report
    >>> raters = ["ann", "ann", "bob", "bob", "cem", "cem"]
    >>> model = CollaborativeOrdinalGP(tol=1e-2).fit(raters, ["x", "y"] * 3, [1, 3, 1, 2, 2, 3])
    >>> with TemporaryDirectory() as folder:
    ...     write_rating_report(model, Path(folder) / "report.html")
    ...     (Path(folder) / "report.html").stat().st_size > 1_000
    True
    """
    page = rating_report_html(model, coverage).encode("utf-8")
    with whole_file(path) as file:
        file.write(page)


def _kind(model: "ordinalgp.CollaborativeOrdinalGP") -> str:
    """A sentence on the covariance of the items."""
    if model.rank_ is None:
        return "All covariances between items were learned."
    tried = ", ".join(f"{rank}: {-score:.3f}" for rank, score in sorted(model.rank_scores_.items()))
    text = f"Raters have {model.rank_} tastes."
    return text + (f" Log score of left-out ratings by number of tastes: {tried}." if tried else "")


def _text(value: Any) -> str:
    return escape(str(value))


def _item(row: Sequence[Any]) -> tuple[str, ...]:
    name, expected, low, high, n = row
    return _text(name), f"{expected:.2f}", _text(low), _text(high), f"{n:,}"


def _levels(shares: Any, names: Sequence[str]) -> str:
    """A bar whose parts are the levels, the higher the darker."""
    n = len(names)
    parts = []
    for at, (share, name) in enumerate(zip(np.asarray(shares).tolist(), names, strict=True)):
        light = 88 - 60 * at / max(1, n - 1)
        title = f"{escape(name)}: {share:.0%}"
        style = f"width:{100 * share:.1f}%;background:hsl(210 55% {light:.0f}%)"
        parts.append(f'<span title="{title}" style="{style}"></span>')
    return f'<span class="levels">{"".join(parts)}</span>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], total: int) -> str:
    """A table of cells that are HTML already."""
    body = ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    more = f"<p>... and {total - len(body):,} more.</p>" if total > len(body) else ""
    return f"<table><tr>{head}</tr>{''.join(body)}</table>{more}"
