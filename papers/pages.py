"""Pages of tables and pictures, in Markdown, in HTML and for the terminal."""

import html
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from papers.models import MODELS, Model
from papers.runner import Experiment, Record, version_stamp
from papers.statistics import Figure, compare_pairs, curve, failures, present, select


@dataclass(frozen=True)
class Entry:
    """One cell of a printed table."""

    text: str
    bold: bool = False


@dataclass(frozen=True)
class Table:
    """A printed table; the first column names the rows."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    note: str = ""


@dataclass(frozen=True)
class Picture:
    """A drawn file beside the page."""

    file: str
    caption: str


Part = Table | Picture | str


@dataclass(frozen=True)
class Page:
    """A title, and tables, pictures and paragraphs."""

    title: str
    parts: Sequence[Part] = field(default_factory=tuple)


def entries(*texts: str) -> list[Entry]:
    """Plain cells."""
    return [Entry(text) for text in texts]


def mean_sd(figure: Figure | None, *, bold: bool = False, digits: int = 2) -> Entry:
    """``mean±sd``, the mean alone after one partition, a dash for nothing."""
    if figure is None:
        return Entry("–")
    mean = f"{figure.mean:.{digits}f}"
    return Entry(mean if math.isnan(figure.sd) else f"{mean}±{figure.sd:.{digits}f}", bold)


def beside_published(figure: Figure | None, *, bold: bool = False) -> list[Entry]:
    """Ours, the published figure, and the difference in standard errors.

    (!) marks what is worse by more than one published standard deviation.
    """
    if figure is None:
        return entries("–", "–", "–")
    if figure.published is None:
        return [mean_sd(figure, bold=bold), *entries("–", "–")]
    mark = " (!)" if figure.excess > 1 else ""
    error = figure.standard_errors
    shown = "–" if math.isnan(error) else f"{error:+.1f}"
    theirs = f"{figure.published[0]:.2f}±{figure.published[1]:.2f}"
    return [mean_sd(figure, bold=bold), *entries(theirs, shown + mark)]


def best_of(figures: Sequence[Figure | None], *, digits: int = 2) -> list[bool]:
    """Tell which have the lowest mean, as it is printed; none where there is nothing to compare."""
    means = [round(f.mean, digits) if f is not None else math.inf for f in figures]
    compared = sum(f is not None for f in figures) > 1
    return [compared and mean == min(means) and mean < math.inf for mean in means]


def row_of(figures: Sequence[Figure | None], *, digits: int = 2) -> list[Entry]:
    """``mean±sd`` of each, the lowest in bold."""
    best = best_of(figures, digits=digits)
    return [mean_sd(f, bold=b, digits=digits) for f, b in zip(figures, best, strict=True)]


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


def counts_of(figures: Sequence[Figure | None]) -> str:
    """Number of partitions of the figures of a row: one number, or the least and the most."""
    counts = [f.n for f in figures if f is not None]
    return "–".join(dict.fromkeys(map(str, (min(counts), max(counts)))))


# -------------------------------------------------------------------------- the whole page


def make_page(
    experiment: Experiment, records: Sequence[Record], drawn: Sequence[Part] = ()
) -> Page:
    """Date, commit and what was run; then the tables, and the fits that failed."""
    parts: list[Part] = [_provenance(experiment, records)]
    parts += experiment.page(records, experiment) if any("error" not in r for r in records) else []
    parts += drawn
    failed = failures(records)
    if failed:
        parts.append("\n".join([f"Failed fits: {len(failed)}", "", *(f"- {f}" for f in failed)]))
    return Page(experiment.title, parts)


def _provenance(experiment: Experiment, records: Sequence[Record]) -> str:
    """Date and sources of a page; results of several commits are counted one by one."""
    made: Counter[str] = Counter()
    for record in records:
        commit = record.get("commit")
        made[f"{record.get('version', '?')}{f' at commit {commit}' if commit else ''}"] += 1
    fits = "; ".join(f"{count} fits by ordinalgp {source}" for source, count in made.items())
    counts = Counter((r["dataset"], r["bins"], r["model"], r.get("size")) for r in records).values()
    few, many = min(counts, default=0), max(counts, default=0)
    some = f"the first {many}" if few == many else f"the first {few} to {many}"
    whole = "all" if few >= experiment.trials else some
    drawn = sum(r.get("partition", "published") == "drawn" for r in records)
    text = (
        f"Made by `python -m papers {experiment.name}` on {date.today().isoformat()}"
        f" (page by {version_stamp().get('commit', 'an installed package')}): {fits}; "
        f"{whole} of {experiment.trials} trials."
    )
    return text + (f" {drawn} fits are on drawn, not on published partitions." if drawn else "")


def write_page(
    experiment: Experiment, records: Sequence[Record], folder: Path
) -> tuple[Page, list[Path]]:
    """Draw the pictures and write the page in Markdown and HTML; return it and its files."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = [r for r in records if "error" not in r]
    drawn = experiment.draw(folder, whole) if experiment.draw and whole else []
    page = make_page(experiment, records, drawn)
    files = [folder / f"{experiment.name}.{kind}" for kind in ("md", "html")]
    for file, write in zip(files, (to_markdown, to_html), strict=True):
        file.write_text(write(page), encoding="utf-8")
    return page, files


# --------------------------------------------------------------------------------- writing


def to_markdown(page: Page) -> str:
    """Write a page in Markdown, with columns aligned so that it also reads well as text."""
    blocks = [f"# {page.title}"]
    for part in page.parts:
        if isinstance(part, str):
            blocks.append(part)
        elif isinstance(part, Picture):
            blocks.append(f"![{part.caption}]({part.file})")
        else:
            rows = [[f"**{e.text}**" if e.bold else e.text for e in row] for row in part.rows]
            lines = _aligned([list(part.header), *rows])
            rule = "|" + "|".join("-" * (len(cell) + 2) for cell in lines[0]) + "|"
            table = [f"| {' | '.join(line)} |" for line in lines]
            blocks += [f"## {part.title}", "\n".join([table[0], rule, *table[1:]])]
            blocks += [part.note] * bool(part.note)
    return "\n\n".join(blocks) + "\n"


def to_terminal(page: Page, *, color: str = "never") -> str:
    """Write a page for reading at once; ``color="always"`` prints the best in bold."""
    blocks = [page.title]
    for part in page.parts:
        if isinstance(part, str):
            blocks.append(part)
        elif isinstance(part, Picture):
            blocks.append(f"{part.caption}: {part.file}")
        else:
            # Without bold a star marks the best; widths count visible characters only.
            star = "" if color == "always" else "*"
            rows = [[e.text + star * e.bold for e in row] for row in part.rows]
            lines = _aligned([list(part.header), *rows])
            if color == "always":
                for line, row in zip(lines[1:], part.rows, strict=True):
                    line[:] = [
                        f"\033[1m{cell}\033[0m" if e.bold else cell
                        for cell, e in zip(line, row, strict=True)
                    ]
            blocks.append("\n".join([part.title, *("  ".join(line).rstrip() for line in lines)]))
            blocks += [part.note] * bool(part.note)
    return "\n\n".join(blocks) + "\n"


def _aligned(rows: Sequence[list[str]]) -> list[list[str]]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]


_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:78rem;margin:2rem auto;padding:0 1rem}"
    "h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2rem}p,li{max-width:52rem}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:14px}"
    "th,td{padding:.2rem .45rem;text-align:left;vertical-align:bottom}"
    "th{border-bottom:2px solid}td{border-bottom:1px solid #8884;white-space:nowrap}"
    # A table that is too wide is pushed to the side, and the names of its rows stay.
    "div{overflow-x:auto}tr>:first-child{position:sticky;left:0;background:Canvas}"
    "img{max-width:100%;background:white}"
)


def to_html(page: Page) -> str:
    """Write a page as one HTML file that needs no other, but for its pictures."""
    parts = [f"<h1>{html.escape(page.title)}</h1>"]
    for part in page.parts:
        if isinstance(part, str):
            parts.append(_html_text(part))
        elif isinstance(part, Picture):
            caption, file = html.escape(part.caption), html.escape(part.file, quote=True)
            parts.append(f'<img src="{file}" alt="{caption}">')
        else:
            parts.append(_html_table(part))
    title = html.escape(page.title)
    wide = '<meta name="viewport" content="width=device-width,initial-scale=1">'
    head = f'<meta charset="utf-8">{wide}<title>{title}</title><style>{_STYLE}</style>'
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def _html_text(text: str) -> str:
    """Paragraphs and lists as in Markdown, with code in backticks."""
    marked = re.sub("`(.*?)`", r"<code>\1</code>", html.escape(text, quote=False))
    blocks = []
    for block in marked.split("\n\n"):
        lines = block.splitlines()
        if all(line.startswith("- ") for line in lines):
            items = "".join(f"<li>{line[2:]}</li>" for line in lines)
            blocks.append(f"<ul>{items}</ul>")
        else:
            blocks.append(f"<p>{'<br>'.join(lines)}</p>")
    return "\n".join(blocks)


def _html_table(table: Table) -> str:
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in table.header)
    lines = [f"<h2>{html.escape(table.title)}</h2>", f"<div><table><tr>{head}</tr>"]
    for row in table.rows:
        cells = (html.escape(e.text) for e in row)
        shown = (f"<b>{t}</b>" if e.bold else t for t, e in zip(cells, row, strict=True))
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in shown) + "</tr>")
    lines.append("</table></div>")
    return "\n".join(lines) + (f"\n{_html_text(table.note)}" if table.note else "")


# -------------------------------------------------------------------------------- pictures

# Told apart by lightness, line and marker, never by hue alone.
_STYLES = [
    *(("0.1", "-", "o"), ("0.1", "--", "s"), ("0.55", "-", "^")),
    *(("0.55", "--", "D"), ("0.3", ":", "x"), ("0.3", "-.", "v")),
    *(("0.7", "-.", "P"), ("0.7", ":", "*")),
]


@dataclass(frozen=True)
class Panel:
    """One measure, of the records of one data set or of all."""

    measure: str
    label: str
    scale: float = 1.0
    dataset: str | None = None
    log: bool = False


def draw_curves(
    path: Path,
    caption: str,
    records: Sequence[Record],
    registry: Mapping[str, Model],
    panels: Sequence[Panel],
    *,
    x: str,
) -> list[Part]:
    """Mean of each measure with its standard error against the size, a line for each model."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        return ['No figure: it needs matplotlib, pip install "ordinalgp[plot]".']
    wide = (4.6 * len(panels), 4.2)
    picture, axes = plt.subplots(1, len(panels), figsize=wide, layout="constrained", squeeze=False)
    models = present(registry, records, "model")
    styles = dict(zip(models, cycle(_STYLES), strict=False))  # the same in every panel
    lines = {}
    for ax, panel in zip(axes[0], panels, strict=True):
        shown = select(records, dataset=panel.dataset) if panel.dataset else list(records)
        shown = [r for r in shown if r.get(panel.measure) is not None]
        for model in present(models, shown, "model"):
            sizes, mean, error = curve(select(shown, model=model), panel.measure)
            color, line, marker = styles[model]
            style = {"color": color, "linestyle": line, "marker": marker}
            size = {"markersize": 4, "capsize": 2}
            heights = panel.scale * mean, panel.scale * error
            lines[registry[model].label] = ax.errorbar(sizes, *heights, **style, **size)
        ax.set(xlabel=x, ylabel=panel.label, title=panel.dataset or "")
        if panel.log:
            _plain_logarithms(ax)
    # Below the panels, where it covers nothing.
    columns = min(len(lines), 3 * len(panels))
    place = {"loc": "outside lower center", "ncols": columns}
    picture.legend(list(lines.values()), list(lines), frameon=False, fontsize=8, **place)
    picture.savefig(path, dpi=110)
    plt.close(picture)
    return [Picture(path.name, caption)]


def _plain_logarithms(ax: Any) -> None:
    """Logarithmic axes with numbers as people write them, 5,000 rather than 5 x 10^3."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set(xscale="log", yscale="log")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axis.set_minor_formatter(NullFormatter())
