"""Base class of the displays, and the checks and colours that they share."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.metrics.fitted import unwrap
from ordinalgp.metrics.ranks import ranks
from ordinalgp.validation.options import check_whole

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
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Plots need matplotlib, which cannot be imported. "
            "Install it with: pip install 'ordinalgp[plot]'"
        ) from error
    return plt


def colors_of(n: int) -> Any:
    """Colours of ``n`` levels, dark to light."""
    return pyplot().get_cmap("viridis")(np.linspace(0.05, 0.95, n))


def latent_at(estimator: Any, X: Any) -> tuple[Any, FloatArray, FloatArray]:
    """Model at the end of searches and pipelines, with its latent moments at X."""
    transformers, model = unwrap(estimator)
    check_is_fitted(model)
    if not (hasattr(model, "likelihood_") and hasattr(model, "categories_")):
        raise TypeError(
            f"{type(model).__name__} has no latent function with a variance. Give a fitted "
            "OrdinalGPClassifier, LeastSquaresOrdinalClassifier or SparseBayesOrdinalClassifier. "
            "ConfusionDisplay draws every classifier."
        )
    for transformer in transformers:
        X = transformer.transform(X)
    return model, *model.latent_mean_and_variance(X)


def span(values: FloatArray, n: int) -> FloatArray:
    """``n`` points over the range of ``values``, extended by 5 % at each end."""
    low, high = values.min(), values.max()
    margin = 0.05 * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, n)


def like(X: Any, rows: FloatArray) -> Any:
    """``rows`` with the column names of ``X``, if it is a pandas or polars frame."""
    if hasattr(X, "iloc"):
        return type(X)(rows, columns=X.columns)
    return type(X)(rows, schema=X.columns) if hasattr(X, "schema") else rows


def rows_of(X: Any) -> FloatArray:
    """Rows as numbers; missing values are allowed."""
    rows: FloatArray = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan")
    return rows


def codes_of(y: Any, categories: Any, n_rows: int) -> IntArray | None:
    """Ranks of the rows, if their levels are given."""
    if y is None:
        return None
    codes = ranks(y, categories)
    if len(codes) != n_rows:
        raise ValueError(
            f"y must have a level for each of the {n_rows} rows, but has {len(codes)}."
        )
    return codes


def feature_names_of(X: Any, n: int, names: Any) -> list[str]:
    """Names of the ``n`` columns of ``X``: as given, its own, or numbers."""
    names = getattr(X, "columns", None) if names is None else names
    if names is not None and len(names) != n:
        raise ValueError(f"feature_names must name all {n} features, but has {len(names)}.")
    return [f"feature {i}" for i in range(n)] if names is None else [str(name) for name in names]


def column(feature: Any, names: list[str]) -> int:
    """Column of a feature that is given by name or number."""
    if not isinstance(feature, str):
        if not -len(names) <= int(feature) < len(names):
            raise ValueError(f"There is no feature {feature}: they are 0 to {len(names) - 1}.")
        return int(feature)
    if feature not in names:
        raise ValueError(f"features names {feature!r}, but the features are {', '.join(names)}.")
    return names.index(feature)


def legend_beside(ax: Any) -> None:
    """Draw the legend to the right of ``ax``, the last entry on top."""
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1, 0.5))


@dataclass(frozen=True, eq=False)
class LatentSlice:
    """Latent moments on a grid over some features, with the others at their medians."""

    model: Any
    axes: list[FloatArray]
    """coordinates of the grid, one array per feature"""
    queries: Any
    """grid points as inputs of the estimator"""
    mean: FloatArray
    var: FloatArray
    points: FloatArray
    """rows in these features"""
    codes: IntArray | None
    columns: list[int]
    names: list[str]

    @classmethod
    def of(
        cls, estimator: Any, X: Any, y: Any, features: Any, feature_names: Any, resolution: int
    ) -> Self:
        """Compute the moments over the range of the rows."""
        check_whole("resolution", resolution, least=2)
        rows = rows_of(X)
        names = feature_names_of(X, rows.shape[1], feature_names)
        columns = [column(feature, names) for feature in features]
        axes = np.meshgrid(*(span(rows[:, place], resolution) for place in columns))
        grid = np.tile(np.median(rows, axis=0), (axes[0].size, 1))
        grid[:, columns] = np.column_stack([axis.ravel() for axis in axes])
        queries = like(X, grid)
        model, *moments = latent_at(estimator, queries)
        mean, var = (moment.reshape(axes[0].shape) for moment in moments)
        codes = codes_of(y, model.categories_, len(rows))
        chosen = [names[place] for place in columns]
        return cls(model, list(axes), queries, mean, var, rows[:, columns], codes, columns, chosen)


def file_axes(size: tuple[float, float] | None = None) -> Any:
    """Axes of a figure without a window, which leaves other figures alone."""
    pyplot()
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained").subplots()
