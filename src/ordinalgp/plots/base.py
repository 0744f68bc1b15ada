"""Base class of the displays, and the checks and colours that they share."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from itertools import cycle
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.metrics.ranks import unwrap
from ordinalgp.runtime.extras import import_extra

MARKERS = "os^DvPX*<>"
SHADE = 0.25  # opacity of areas in the colour of a level


class Display(ABC):
    """Base class of the displays: ``plot`` draws, and keeps the axes and the figure."""

    ax_: Any
    figure_: Any

    def plot(self, ax: Any = None) -> Self:
        """Draw on ``ax``, a matplotlib Axes, or on a new figure; return the display itself."""
        if ax is None:
            _, ax = pyplot().subplots(layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        self._draw(ax)
        return self

    @abstractmethod
    def _draw(self, ax: Any) -> None:
        """Draw on ``ax``."""


def pyplot() -> Any:
    """Import ``matplotlib.pyplot``, or raise an error that says how to install it."""
    return import_extra("matplotlib.pyplot", "Plots need", "plot")


def colors_of(n: int) -> Any:
    """Colours of ``n`` levels, dark to light."""
    return pyplot().get_cmap("viridis")(np.linspace(0.05, 0.95, n))


def level_marks(n: int) -> list[tuple[Any, str]]:
    """Colour and marker of each of ``n`` levels."""
    return list(zip(colors_of(n), cycle(MARKERS), strict=False))


def last_step(estimator: Any, X: Any = None) -> tuple[Any, Any]:
    """Fitted model at the end of searches and pipelines, and its inputs at X, if given."""
    transformers, model = unwrap(estimator)
    check_is_fitted(model)
    for transformer in transformers if X is not None else ():
        X = transformer.transform(X)
    return model, X


def classifier_of(model: Any) -> Any:
    """The classifier inside of a model for tables; any other model itself."""
    return model.classifier_ if hasattr(model, "encode") else model


def span(values: FloatArray, n: int) -> FloatArray:
    """``n`` points over the range of ``values``, extended by 5 % at each end."""
    low, high = np.nanmin(values), np.nanmax(values)
    margin = 0.05 * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, n)


def like(X: Any, rows: FloatArray) -> Any:
    """``rows`` with the column names of ``X``, if it is a pandas or polars frame."""
    if hasattr(X, "iloc"):
        return type(X)(rows, columns=X.columns)
    return type(X)(rows, schema=X.columns) if hasattr(X, "schema") else rows


def rows_of(X: Any) -> FloatArray:
    """Rows as numbers; missing values are allowed."""
    return check_array(X, dtype=np.float64, ensure_all_finite="allow-nan")


def feature_names_of(X: Any, n: int, names: Any) -> list[str]:
    """Names of the ``n`` columns of ``X``: as given, its own, or numbers."""
    names = getattr(X, "columns", None) if names is None else names
    if names is not None and len(names) != n:
        raise ValueError(f"feature_names must name all {n} features, but has {len(names)}.")
    return [f"feature {i}" for i in range(n)] if names is None else [str(name) for name in names]


def place_of(feature: Any, names: list[str]) -> int:
    """Column of a feature that is given by name or number."""
    if not isinstance(feature, str):
        if not -len(names) <= int(feature) < len(names):
            raise ValueError(f"There is no feature {feature}: they are 0 to {len(names) - 1}.")
        return int(feature)
    if feature not in names:
        raise ValueError(f"features names {feature!r}, but the features are {', '.join(names)}.")
    return names.index(feature)


def literal(text: Any) -> str:
    """Text from data for matplotlib, which else reads dollar signs as mathematics.

    A label that begins with an underscore would have no place in a legend; an invisible character
    before it keeps it there.
    """
    shown = str(text).replace("$", r"\$")
    return "\u200b" + shown if shown.startswith("_") else shown


def literals(texts: Iterable[Any]) -> list[str]:
    """:func:`literal` of each text."""
    return [literal(text) for text in texts]


def percent(share: float) -> str:
    """Share as a whole percentage; a small one is not rounded to 0."""
    return f"{share:.0%}" if share >= 0.005 else "<1%"


def scatter_levels(
    ax: Any, points: FloatArray, codes: IntArray, names: list[str], edge: float
) -> None:
    """Draw rows, of shape (n, 2), with the colour and the marker of their levels."""
    style = {"s": 34, "edgecolors": "black", "linewidths": edge, "zorder": 3}
    for k, (color, marker) in enumerate(level_marks(len(names))):
        at = points[codes == k].T
        ax.scatter(*at, color=[color], marker=marker, label=literal(names[k]), **style)


def legend_beside(ax: Any) -> None:
    """Draw the legend to the right of ``ax``, the last entry on top."""
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1, 0.5))


def file_axes(size: tuple[float, float] | None = None) -> Any:
    """Axes of a figure without a window, which leaves other figures alone."""
    pyplot()
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained").subplots()
