"""Plot of one explained prediction: from the average to the row, column by column."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from ordinalgp._typing import FloatArray
from ordinalgp.plots.base import Display, colors_of, pyplot

_PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}  # behind texts on lines
_TITLE_PAD = 20  # points; the names of levels are between the axes and the title
_UP, _DOWN = "#1b7837", "#762a83"  # also apart in lightness and for colour-blind readers


@dataclass(eq=False)
class ExplanationDisplay(Display):
    """Steps from the average prediction to that of one row, the largest contribution first.

    Each bar is the contribution of one column to the expected level. Bars begin where the one
    above ends: at the top with the average of the training rows, and at the bottom they reach the
    row's own expected level. Hatched bars lead downwards. Make it with :meth:`from_explanations`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the plot, set by :meth:`plot`.
    bars_ : matplotlib BarContainer
        The contributions, from top to bottom.

    Examples
    --------
    >>> from ordinalgp import OrdinalGPClassifier
    >>> from ordinalgp.plots import ExplanationDisplay
    >>> from ordinalgp.tables import TableModel, explain
    >>> table = {"hours": [1, 2, 3, 5, 6, 8], "tutor": ["no", "no", "yes", "no", "yes", "yes"]}
    >>> model = TableModel(OrdinalGPClassifier()).fit(table, [1, 1, 2, 2, 3, 3])
    >>> found = explain(model, {"hours": [3], "tutor": ["no"]})
    >>> display = ExplanationDisplay.from_explanations(found)
    >>> [name.split()[0] for name in display.names]
    ['hours', 'tutor']
    """

    names: list[str]
    contributions: FloatArray
    errors: FloatArray
    average: float
    levels: list[str]
    scale: FloatArray
    """number of each level"""
    title: str
    bars_: Any = field(default=None, init=False)

    @classmethod
    def from_explanations(
        cls, explanations: Any, *, row: int = 0, max_columns: int = 12, ax: Any = None
    ) -> Self:
        """Draw one row of the result of :func:`ordinalgp.tables.explain`.

        Parameters
        ----------
        explanations : ordinalgp.tables.Explanations
            The result.
        row : int, default=0
            Place of the row to draw among the explained ones.
        max_columns : int, default=12
            Number of columns to show; the others are added up in one bar.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        """
        if not -len(explanations.rows) <= row < len(explanations.rows):
            raise ValueError(
                f"row must be one of the {len(explanations.rows)} explained rows, but is {row}."
            )
        found = explanations.rows[row]
        shown, rest = found.columns[:max_columns], found.columns[max_columns:]
        names = [f"{each.column} = {_text(each.value)}" for each in shown]
        parts = [(each.contribution, each.error) for each in shown]
        if rest:
            names.append(f"{len(rest)} more columns")
            error = float(np.sqrt(sum(each.error**2 for each in rest)))
            parts.append((sum(each.contribution for each in rest), error))
        sizes, errors = np.array(parts).T
        at = explanations.categories.tolist().index(found.level)
        p = float(found.probabilities[at])
        title = f"line {found.line}: {found.level} ({p:.0%})"
        levels = [str(level) for level in explanations.categories.tolist()]
        start = explanations.average
        return cls(names, sizes, errors, start, levels, explanations.scale, title).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on ``ax``, a matplotlib Axes, or on a new figure; return the display itself."""
        if ax is None:
            _, ax = pyplot().subplots(figsize=self.size, layout="constrained")
        return super().plot(ax)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return 7.0, 0.36 * len(self.names) + 1.9

    def _draw(self, ax: Any) -> None:
        place = np.arange(len(self.names))
        ends = self.average + np.cumsum(self.contributions)
        starts = ends - self.contributions
        low, high = self._limits(np.concatenate([[self.average], ends]))
        self._draw_levels(ax, low, high)
        rising = self.contributions >= 0
        colors = np.where(rising, _UP, _DOWN)
        error = self.errors if np.any(self.errors > 0) else None
        style = {"height": 0.62, "color": colors, "edgecolor": "white", "zorder": 3}
        whisker = {"capsize": 2.5, "elinewidth": 1, "ecolor": "black"}
        self.bars_ = ax.barh(
            place, self.contributions, left=starts, xerr=error, error_kw=whisker, **style
        )
        for bar, up in zip(self.bars_, rising, strict=True):
            bar.set_hatch("" if up else "////")
        joints = np.concatenate([[self.average], ends])
        ax.vlines(joints[1:-1], place[:-1] - 0.31, place[1:] + 0.31, color="0.3", lw=0.8, zorder=2)
        self._draw_numbers(ax, starts, ends, 0.012 * (high - low))
        for x, text, y, up in (
            (self.average, f"average {self.average:.2f}", -0.5, True),
            (ends[-1], f"this row {ends[-1]:.2f}", len(place) - 0.5, False),
        ):
            ax.axvline(x, color="black", ls=":", lw=1, zorder=1)
            where = {"xytext": (0, 3 if up else -3), "textcoords": "offset points"}
            style = {"ha": "center", "va": "bottom" if up else "top", "bbox": _PAPER}
            ax.annotate(text, (x, y), **style, **where)
        ax.set_yticks(place, self.names, parse_math=False)
        ax.set_ylim(len(place) + 0.1, -1.1)
        ax.set_xlim(low, high)
        ax.set_xlabel("expected level")
        style = {"fontsize": "medium", "fontweight": "bold", "parse_math": False}
        ax.set_title(self.title, loc="left", pad=_TITLE_PAD, **style)

    def _limits(self, values: FloatArray) -> tuple[float, float]:
        low, high = float(values.min()), float(values.max())
        margin = 0.14 * (high - low) or 0.5
        return low - margin, high + margin

    def _draw_levels(self, ax: Any, low: float, high: float) -> None:
        """Ticks at the levels inside the axis, in their colours."""
        for value, name, color in zip(
            self.scale, self.levels, colors_of(len(self.levels)), strict=True
        ):
            if low <= value <= high:
                ax.axvline(value, color=color, lw=5, alpha=0.35, zorder=0)
                text = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
                ax.annotate(name, (value, 1), xytext=(0, 3), ha="center", parse_math=False, **text)

    def _draw_numbers(self, ax: Any, starts: FloatArray, ends: FloatArray, gap: float) -> None:
        errors = self.errors if np.any(self.errors > 0) else np.zeros_like(self.errors)
        for at, size in enumerate(self.contributions):
            right = size >= 0
            x = ends[at] + (gap + errors[at] if right else -gap - errors[at])
            side = {"ha": "left" if right else "right", "va": "center", "fontsize": "small"}
            ax.text(x, at, f"{size:+.2f}", bbox=_PAPER, zorder=2.5, **side)


def _text(value: Any) -> str:
    """Cell of a table as a short text."""
    if value is None:
        return "missing"
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 24 else f"{text[:23]}…"
