"""Learning curves of any experiment that varies what is trained on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from ordinalgp.benchmark.models import Model
from ordinalgp.benchmark.report import Part, Picture
from ordinalgp.benchmark.scoring import Record
from ordinalgp.benchmark.summary import select
from ordinalgp.benchmark.tables import present

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
    models = present(list(registry), list(records), "model")
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


def curve(records: Sequence[Record], measure: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sizes, and at each the mean and its standard error (0 after one repetition)."""
    sizes = np.array(sorted({r["size"] for r in records}))
    values = [[r[measure] for r in select(records, size=int(size))] for size in sizes]
    errors = [np.std(v, ddof=1) / np.sqrt(len(v)) if len(v) > 1 else 0.0 for v in values]
    return sizes, np.array([np.mean(v) for v in values]), np.array(errors)
