"""Plot of a comparison of models: one panel per score, one line per model."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from ordinalgp._typing import FloatArray
from ordinalgp.plots.base import Display, pyplot

_LEGEND = "lower is better; bars: ± standard error of the difference from the best (dashed)"


@dataclass(eq=False)
class ModelComparisonDisplay(Display):
    """Scores of several models, with standard errors of their differences from the best.

    There is one panel per score. A dashed line marks the best model of a score, and a bar of plus
    and minus one standard error of the difference from it surrounds each other model. A model
    whose bar reaches the line is about as good. Infinite scores are not drawn. Make it with
    :meth:`from_comparison`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the plot, set by :meth:`plot`.
    axes_ : list of matplotlib Axes
        The panels.

    Examples
    --------
    >>> import numpy as np
    >>> from ordinalgp.plots import ModelComparisonDisplay
    >>> from ordinalgp.tables import compare
    >>> hours = np.linspace(0, 10, 60)
    >>> result = compare({"hours": hours}, np.digitize(hours, [3, 7]), models=["gp", "logistic"])
    >>> display = ModelComparisonDisplay.from_comparison(result)
    >>> len(display.axes_)
    4
    """

    names: list[str]
    scores: dict[str, FloatArray]
    """values of each score, one per model"""
    errors: dict[str, FloatArray]
    """standard errors of the differences from the best"""
    ours: list[bool]
    axes_: list[Any] = field(default_factory=list, init=False)

    @classmethod
    def from_comparison(cls, comparison: Any, *, ax: Any = None) -> Self:
        """Draw the result of :func:`ordinalgp.tables.compare`.

        Parameters
        ----------
        comparison : ordinalgp.tables.Comparison
            The result, with at least one model.
        ax : matplotlib Axes, default=None
            Axes whose place is taken; None makes a new figure.
        """
        rows = comparison.table()
        if not rows:
            raise ValueError("The comparison has no model that finished, so nothing can be drawn.")
        values = {
            label: np.array([row[score] for row in rows])
            for score, label in comparison.scores.items()
        }
        errors = {
            label: np.array([row[f"{score}_se"] for row in rows])
            for score, label in comparison.scores.items()
        }
        ours = [row["model"] in comparison.ours for row in rows]
        return cls([row["name"] for row in rows], values, errors, ours).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw in the place of ``ax``, a matplotlib Axes, or on a new figure; return itself."""
        if ax is None:
            _, ax = pyplot().subplots(figsize=self.size, layout="constrained")
        return super().plot(ax)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return 2.4 * len(self.scores) + 1.6, 0.34 * len(self.names) + 1.1

    def _draw(self, ax: Any) -> None:
        ax.set_axis_off()
        grid = ax.get_subplotspec().subgridspec(1, len(self.scores))
        self.axes_ = []
        for at, score in enumerate(self.scores):
            first = self.axes_[0] if self.axes_ else None
            panel = ax.figure.add_subplot(grid[0, at], sharey=first)
            self.axes_.append(panel)
            self._draw_panel(panel, score)
            panel.tick_params(axis="y", labelleft=at == 0, left=at == 0)
        self.axes_[0].set_title(_LEGEND, loc="left", fontsize="small")

    def _draw_panel(self, ax: Any, score: str) -> None:
        values, errors = self.scores[score], np.nan_to_num(self.errors[score])
        place = np.arange(len(values))
        shown = np.isfinite(values)
        for mine, marker, color in ((True, "o", "black"), (False, "s", "0.45")):
            at = shown & (np.array(self.ours) == mine)
            style = {"fmt": marker, "color": color, "ms": 5.5, "capsize": 3, "lw": 1.2}
            ax.errorbar(values[at], place[at], xerr=errors[at], **style)
        if shown.any():
            ax.axvline(values[shown].min(), color="black", ls="--", lw=0.9, alpha=0.6, zorder=0)
        ax.set_yticks(place, self.names, parse_math=False)
        ax.set_ylim(len(values) - 0.5, -0.5)
        ax.set_xlabel(score)
        ax.locator_params(axis="x", nbins=4)
        ax.grid(axis="y", alpha=0.3)
