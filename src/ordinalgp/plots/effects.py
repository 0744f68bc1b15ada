"""Plots of what each column does to the outcome: own functions, or average probabilities."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.utils import check_random_state

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.kernels.feature_share import feature_shares
from ordinalgp.metrics.ranks import category_proba, model_order
from ordinalgp.models.effects import Effects
from ordinalgp.plots import base
from ordinalgp.plots.base import MARKERS, SHADE, Display, colors_of, literal, literals
from ordinalgp.runtime.extras import import_extra
from ordinalgp.validation.options import check_number, check_option, check_whole

_FEW_VALUES = 7  # distinct numbers that are drawn as points
_MOST_LABELS = 12  # values of a nominal column that are drawn, the most frequent ones
_COARSE = 5  # values of a column that decide whether it is drawn
_DRAWS = 200  # of the posterior, for the bands of probabilities


@dataclass(frozen=True, eq=False)
class ColumnAxis:
    """Axis of a column: its values, and their places."""

    name: str
    values: NDArray[Any]
    """cells of the column to be drawn, (g,)"""
    x: FloatArray
    """their places: themselves, or 0, 1, ... for separate values"""
    labels: list[str] | None
    """names of separate values; None for numbers on a continuous axis"""
    rows: FloatArray
    """place of each row that has one"""
    ordered: bool = True
    """whether separate values have an order of their own: numbers and ordered categories"""

    @classmethod
    def of(cls, name: str, cells: Any, resolution: int) -> Self:
        """The axis over the cells of a column."""
        array = _cells(cells)
        gaps = np.array([cell is None or cell != cell for cell in array.tolist()], dtype=bool)
        present = array[~gaps]
        if array.dtype.kind in "iuf" and len(np.unique(present)) > _FEW_VALUES:
            x = np.linspace(present.min(), present.max(), resolution)
            return cls(name, x, x, None, present.astype(float))
        values, codes = np.unique(present, return_inverse=True)
        ordered = array.dtype.kind in "biuf"
        if hasattr(cells, "cat") and getattr(cells.cat, "ordered", False):
            order = np.argsort([list(cells.cat.categories).index(value) for value in values])
            values, codes, ordered = values[order], np.argsort(order)[codes], True
        often = np.argsort(-np.bincount(codes, minlength=len(values)), kind="stable")
        kept = np.sort(often[:_MOST_LABELS])
        labels = [_label(value) for value in values[kept].tolist()]
        rows = np.searchsorted(kept, codes[np.isin(codes, kept)])
        if gaps.any():
            labels, rows = [*labels, "missing"], np.append(rows, np.full(gaps.sum(), len(kept)))
        values = np.append(values[kept], array[gaps][:1])
        places = np.arange(float(len(values)))
        return cls(name, values, places, labels, rows.astype(float), ordered)

    def coarse(self) -> Self:
        """A few values for a first look: quantiles of the rows, or the separate values."""
        if self.labels is not None:
            return self
        x = np.unique(np.quantile(self.rows, np.linspace(0, 1, _COARSE)))
        return replace(self, values=x, x=x)

    def at_rows(self, curves: FloatArray) -> FloatArray:
        """Curves of shape (g, k) at the place of each row."""
        return np.column_stack([np.interp(self.rows, self.x, curve) for curve in curves.T])

    def sorted_by(self, score: FloatArray) -> IntArray:
        """Order of the values: texts by a score and gaps last, everything else as it is."""
        if self.labels is None or self.ordered:
            return np.arange(len(self.x))
        last = [value is None or value != value for value in self.values.tolist()]
        return np.lexsort([score, np.array(last, dtype=float)])

    def reordered(self, order: IntArray) -> Self:
        """The axis with its separate values in another order."""
        if self.labels is None:
            return self
        rows = np.argsort(order)[self.rows.astype(np.intp)].astype(float)
        labels = [self.labels[at] for at in order]
        return replace(self, values=self.values[order], labels=labels, rows=rows)


def _cells(column: Any) -> NDArray[Any]:
    """Cells of a column; None or NaN for the missing values of nullable types of pandas."""
    kind: Any = getattr(column, "dtype", None)
    if isinstance(kind, np.dtype) or hasattr(kind, "categories") or not hasattr(column, "isna"):
        return np.asarray(column)
    if kind.kind in "iuf":
        return np.asarray(column.to_numpy(dtype=float, na_value=np.nan))
    return np.asarray(column.astype(object).where(column.notna(), None), dtype=object)


def _label(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, eq=False)
class EffectPanel:
    """Curves along one column."""

    axis: ColumnAxis
    mean: FloatArray
    """(g, 1) on the latent scale, or (g, n_levels) probabilities"""
    low: FloatArray
    """lower ends of the band, of the shape of ``mean``; NaN without a band"""
    high: FloatArray
    size: float
    """how much the column moves the outcome; see :class:`EffectDisplay`"""

    def sorted(self) -> "EffectPanel":
        """The panel with texts in the order of their effects."""
        score = self.mean @ np.arange(1.0, 1.0 + self.mean.shape[1])
        order = self.axis.sorted_by(score)
        mean, low, high = (curve[order] for curve in (self.mean, self.low, self.high))
        return EffectPanel(self.axis.reordered(order), mean, low, high, self.size)


@dataclass(frozen=True, eq=False)
class _Inputs:
    """Rows as the estimator takes them: a frame, a mapping of columns, or an array."""

    X: Any
    names: list[str]

    @classmethod
    def of(cls, X: Any, feature_names: Any) -> Self:
        """The inputs with names for their columns."""
        columns = getattr(X, "columns", None)
        X = columns if isinstance(columns, dict) else X
        if isinstance(X, dict):
            return cls({str(k): np.asarray(v) for k, v in X.items()}, [str(name) for name in X])
        if not hasattr(X, "columns"):
            X = base.rows_of(X)
        return cls(X, base.feature_names_of(X, X.shape[1], feature_names))

    def column(self, at: int) -> Any:
        """Cells of a column."""
        if isinstance(self.X, dict):
            return self.X[self.names[at]]
        return self.X[self.X.columns[at]] if hasattr(self.X, "columns") else self.X[:, at]

    def __len__(self) -> int:
        return len(self.column(0))

    def take(self, rows: IntArray) -> Self:
        """Some rows."""
        if isinstance(self.X, dict):
            return replace(self, X={name: cells[rows] for name, cells in self.X.items()})
        return replace(self, X=self.X.iloc[rows] if hasattr(self.X, "iloc") else self.X[rows])

    def varied(self, at: int, values: NDArray[Any]) -> Any:
        """Every row with every value in a column: blocks of rows, one per value."""
        cells = np.repeat(values, len(self))
        X = self.take(np.tile(np.arange(len(self)), len(values))).X
        if isinstance(X, dict):
            return X | {self.names[at]: cells}
        if hasattr(X, "iloc"):
            X = X.reset_index(drop=True)
            X[X.columns[at]] = cells
        elif hasattr(X, "columns"):
            X = X.with_columns(type(self.column(at))(X.columns[at], cells))
        else:
            X[:, at] = cells
        return X


@dataclass(frozen=True, eq=False)
class _View:
    """A fitted estimator, its classifier, and the features that this one sees."""

    estimator: Any
    inputs: _Inputs
    coverage: float
    seed: int

    @cached_property
    def classifier(self) -> Any:
        """The classifier at the end of searches, pipelines and tables."""
        return base.classifier_of(base.last_step(self.estimator)[0])

    def features(self, X: Any) -> Any:
        """Inputs of the classifier."""
        model, X = base.last_step(self.estimator, X)
        return model.encode(X) if hasattr(model, "encode") else X

    @cached_property
    def categories(self) -> NDArray[Any]:
        """Levels in rank order."""
        return model_order(self.classifier)

    def own_features(self, axes: dict[int, ColumnAxis]) -> dict[int, list[int]] | None:
        """Features of each column by its place; None if the model is no sum over columns."""
        kernel, first = (
            getattr(self.classifier, "kernel_", None),
            self.inputs.take(np.zeros(1, int)),
        )
        if not (hasattr(self.classifier, "effects") and hasattr(self.classifier, "thresholds_")):
            return None
        if not feature_shares(kernel, self.classifier.n_features_in_):
            return None
        if not isinstance(self.classifier.effects(self.features(first.X)), Effects):
            return None  # sparse models have a kernel, but no function per column
        found = {}
        for at, axis in axes.items():
            features = np.asarray(self.features(first.varied(at, axis.values)), dtype=float)
            found[at] = np.flatnonzero(np.ptp(features, axis=0)).tolist()
        all_of_them = [feature for features in found.values() for feature in features]
        return found if len(all_of_them) == len(set(all_of_them)) else None

    def latent_panels(
        self, axes: dict[int, ColumnAxis], own: dict[int, list[int]], most: int
    ) -> list[EffectPanel]:
        """Posterior of each column's own function, the largest effects first."""
        groups = {str(at): own[at] for at in axes if own[at]}
        rows = self.classifier.effects(self.features(self.inputs.X), groups=groups)
        sizes = rows.mean.std(axis=0)
        z, first, panels = norm.ppf((1 + self.coverage) / 2), self.inputs.take(np.zeros(1, int)), []
        for place in np.argsort(-sizes, kind="stable")[:most]:
            at = int(rows.feature_names[place])
            features = self.features(first.varied(at, axes[at].values))
            found = self.classifier.effects(features, groups={str(at): own[at]})
            band = found.mean - z * found.std, found.mean + z * found.std
            panels.append(EffectPanel(axes[at], found.mean, *band, float(sizes[place])).sorted())
        return panels

    def probability_panels(self, axes: dict[int, ColumnAxis], most: int) -> list[EffectPanel]:
        """Average probabilities of the levels along each column, the largest effects first."""
        sizes = {
            at: _moved(axis.coarse(), self._curves(at, axis.coarse())) for at, axis in axes.items()
        }
        chosen = sorted(axes, key=lambda at: -sizes[at])[:most]
        panels = [self._probability_panel(at, axes[at]).sorted() for at in chosen]
        return sorted(panels, key=lambda panel: -panel.size)

    def _curves(self, at: int, axis: ColumnAxis) -> FloatArray:
        """Probabilities of the levels at each value, averaged over the rows; (g, r)."""
        queries = self.inputs.varied(at, axis.values)
        found = self._proba(queries)
        return found.reshape(len(axis.x), len(self.inputs), -1).mean(axis=1)

    def _proba(self, queries: Any) -> FloatArray:
        if self.classifier is base.last_step(self.estimator)[0]:
            return category_proba(self.estimator, queries, self.categories)
        return np.asarray(self.classifier.category_proba(self.features(queries)))

    def _probability_panel(self, at: int, axis: ColumnAxis) -> EffectPanel:
        mean = self._curves(at, axis)
        return EffectPanel(axis, mean, *self._band(at, axis, mean), _moved(axis, mean))

    def _band(self, at: int, axis: ColumnAxis, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Quantiles of the averages under draws from the posterior; NaN if there is none."""
        if not hasattr(self.classifier, "sample_proba"):
            return np.full_like(mean, np.nan), np.full_like(mean, np.nan)
        ends = (1 - self.coverage) / 2, (1 + self.coverage) / 2
        found = []
        for value in axis.values:  # one seed for all: draws change smoothly along the column
            cells = np.array([value], dtype=axis.values.dtype)
            rows = self.features(self.inputs.varied(at, cells))
            drawn = self.classifier.sample_proba(rows, _DRAWS, random_state=self.seed)
            found.append(np.quantile(drawn.mean(axis=1), ends, axis=0))
        low, high = np.stack(found, axis=1)
        return low, high


def _moved(axis: ColumnAxis, curves: FloatArray) -> float:
    """Mean over the rows of the total variation between their curves and the average of these."""
    at_rows = axis.at_rows(curves)
    return float(np.mean(np.abs(at_rows - at_rows.mean(axis=0)).sum(axis=1)) / 2)


@dataclass(eq=False)
class EffectDisplay(Display):
    """Effects of the columns on the outcome, one panel per column, the largest effects first.

    Models with an additive kernel are drawn on the latent scale. A panel shows the posterior mean
    of the column's own function, from :meth:`OrdinalGPClassifier.effects
    <ordinalgp.OrdinalGPClassifier.effects>`, with a pointwise band of the given coverage. Zero is
    the average row. Dashed lines are the thresholds: a row that is average in all other columns
    has the level of the strip in which the curve lies. The size of an effect is the standard
    deviation of the mean function over the rows.

    Other models are drawn by probabilities. A panel shows the probability of each level when the
    column is set to a value in all rows, averaged over the rows (partial dependence). The band
    holds the middle share of this average under draws from the posterior: the uncertainty about
    the function, and not the spread between rows. Models without ``sample_proba`` have no band.
    The size of an effect is the share of probability that moves between levels: half the sum of
    absolute differences to the average curve, averaged over the rows.

    Ticks are rows. Columns with few different values have points and bars instead of curves; texts
    are in the order of their effects. Make it with :meth:`from_estimator`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the plot, set by :meth:`plot`.
    axes_ : list of matplotlib Axes
        The panels.

    Examples
    --------
    >>> from ordinalgp import OrdinalGPClassifier
    >>> from ordinalgp.datasets import make_additive_ranks
    >>> from ordinalgp.kernels import Additive
    >>> from ordinalgp.plots import EffectDisplay
    >>> X, y, _ = make_additive_ranks(80, random_state=0)
    >>> model = OrdinalGPClassifier(Additive()).fit(X, y)
    >>> display = EffectDisplay.from_estimator(model, X, feature_names=list("abcd"))
    >>> display.figure_.savefig("effects.png")  # doctest: +SKIP
    """

    panels: list[EffectPanel]
    kind: str
    thresholds: FloatArray
    """on the scale of the panels: relative to the average row"""
    categories: NDArray[Any]
    coverage: float = 0.9
    n_cols: int = 3
    axes_: list[Any] = field(default_factory=list, init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        features: Iterable[Any] | None = None,
        kind: str = "auto",
        max_features: int = 9,
        coverage: float = 0.9,
        resolution: int = 30,
        max_rows: int = 100,
        feature_names: Any = None,
        random_state: Any = 0,
        n_cols: int = 3,
        ax: Any = None,
    ) -> Self:
        """Compute the effects of the columns of ``X``, and draw them.

        Parameters
        ----------
        estimator : fitted classifier, pipeline or TableModel
            Columns are those of its own input: of a pipeline, before scaling and encoding.
        X : array-like, DataFrame or table of shape (n_samples, n_features)
            Rows that set the range, and over which probabilities are averaged.
        features : iterable of ints or names, default=None
            Columns to draw; None draws those with the largest effects.
        kind : {"auto", "latent", "probability"}, default="auto"
            The own function of each column, or average probabilities. "auto" is "latent" where
            the kernel has an additive part and no feature is made of several columns.
        max_features : int, default=9
            Largest number of panels.
        coverage : float, default=0.9
            Pointwise coverage of the bands.
        resolution : int, default=30
            Number of points along a curve.
        max_rows : int, default=100
            Rows that are used; of more rows a random sample.
        feature_names : sequence of str, default=None
            Names of all columns; None takes those of ``X``, if it has any.
        random_state : int, RandomState instance or None, default=0
            Seed of the sample of rows and of the draws.
        n_cols : int, default=3
            Largest number of panels in a row.
        ax : matplotlib Axes, default=None
            Axes whose place the panels take; None makes a new figure.
        """
        display = cls.computed(
            estimator,
            X,
            features=features,
            kind=kind,
            max_features=max_features,
            coverage=coverage,
            resolution=resolution,
            max_rows=max_rows,
            feature_names=feature_names,
            random_state=random_state,
            n_cols=n_cols,
        )
        return display.plot(ax=ax)

    @classmethod
    def computed(
        cls,
        estimator: Any,
        X: Any,
        *,
        features: Iterable[Any] | None = None,
        kind: str = "auto",
        max_features: int = 9,
        coverage: float = 0.9,
        resolution: int = 30,
        max_rows: int = 100,
        feature_names: Any = None,
        random_state: Any = 0,
        n_cols: int = 3,
    ) -> Self:
        """Compute the effects without drawing; the parameters are those of `from_estimator`."""
        check_option("kind", kind, ("auto", "latent", "probability"))
        check_number("coverage", coverage, above=0)
        if coverage >= 1:
            raise ValueError(f"coverage must be a number below 1, but is {coverage!r}.")
        for name, number, least in (
            ("max_features", max_features, 1),
            ("resolution", resolution, 2),
            ("max_rows", max_rows, 1),
            ("n_cols", n_cols, 1),
        ):
            check_whole(name, number, least=least)
        inputs, rng = _Inputs.of(X, feature_names), check_random_state(random_state)
        if len(inputs) > max_rows:
            inputs = inputs.take(np.sort(rng.choice(len(inputs), max_rows, replace=False)))
        view = _View(estimator, inputs, coverage, int(rng.randint(2**31)))
        axes = _axes(inputs, features, resolution)
        own = None if kind == "probability" else view.own_features(axes)
        if own is None and kind == "latent":
            raise ValueError(
                f"kind='latent' needs a kernel with a part of each column, such as Additive(), "
                f"but {type(view.classifier).__name__} has no such kernel, or its features are "
                "made of several columns. Use kind='probability'."
            )
        if own is None:
            panels = view.probability_panels(axes, max_features)
            return cls(panels, "probability", np.empty(0), view.categories, coverage, n_cols)
        panels = view.latent_panels(axes, own, max_features)
        constant = view.classifier.effects(view.features(inputs.take(np.arange(1)).X)).constant
        thresholds = view.classifier.thresholds_ - constant
        return cls(panels, "latent", thresholds, view.categories, coverage, n_cols)

    def plot(self, ax: Any = None) -> Self:
        """Draw in the place of ``ax``, a matplotlib Axes, or on a new figure; return itself."""
        if ax is None:
            _, ax = base.pyplot().subplots(figsize=self.size, layout="constrained")
        return super().plot(ax)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        rows, columns = self._shape()
        return 3.3 * columns + 0.9, 2.6 * rows

    def _shape(self) -> tuple[int, int]:
        n = len(self.panels)
        columns = 2 if n == 4 and self.n_cols > 2 else min(n, self.n_cols)
        return -(-n // columns), columns

    def _draw(self, ax: Any) -> None:
        ax.set_axis_off()
        rows, columns = self._shape()
        grid = ax.get_subplotspec().subgridspec(rows, columns)
        self.axes_ = []
        for at, panel in enumerate(self.panels):
            place = grid[at // columns, at % columns]
            first = self.axes_[0] if self.axes_ else None
            panel_ax = ax.figure.add_subplot(place, sharey=first)
            self.axes_.append(panel_ax)
            left, last = (
                at % columns == 0,
                at % columns == columns - 1 or at == len(self.panels) - 1,
            )
            self._draw_panel(panel_ax, panel, names=last)
            panel_ax.tick_params(axis="y", labelleft=left)
            if left:
                what = "effect" if self.kind == "latent" else "probability"
                known = all(np.isfinite(each.low).all() for each in self.panels)
                panel_ax.set_ylabel(what + f" ({self.coverage:.0%} band)" * known)
        if self.kind == "probability":
            base.legend_beside(self.axes_[columns - 1])

    def _draw_panel(self, ax: Any, panel: EffectPanel, *, names: bool) -> None:
        low, high = self._limits()
        if self.kind == "latent":
            self._draw_levels(ax, low, high, names=names)
            colors: Any = ["black"]
        else:
            colors = colors_of(len(self.categories))
        draw = _draw_curves if panel.axis.labels is None else _draw_points
        draw(ax, panel, colors, literals(self.categories.tolist()))
        said = (
            f"sd {panel.size:.2g}" if self.kind == "latent" else f"moves {base.percent(panel.size)}"
        )
        ax.set_title(literal(panel.axis.name), loc="left", fontsize="medium", fontweight="bold")
        ax.set_title(said, loc="right", fontsize="small", color="0.35")
        ax.set_ylim(low, high)

    def _limits(self) -> tuple[float, float]:
        """Range of all panels, in which bands take at least two fifths of the height."""
        every = [np.concatenate([p.mean, p.low, p.high]).ravel() for p in self.panels]
        values = np.concatenate(every)
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        height = (high - low) or 1.0
        if self.kind == "probability":
            return -0.02, min(1.02, high + 0.05)
        low_cut, high_cut = self.thresholds[0] - 0.1 * height, self.thresholds[-1] + 0.1 * height
        margin = 0.06 * height
        return (
            max(min(low, low_cut), low - 0.75 * height) - margin,
            min(max(high, high_cut), high + 0.75 * height) + margin,
        )

    def _draw_levels(self, ax: Any, low: float, high: float, *, names: bool) -> None:
        """Strips of the levels between thresholds, and their names at the right."""
        ends = np.clip(np.concatenate([[low], self.thresholds, [high]]), low, high)
        for k, color in enumerate(colors_of(len(self.categories))):
            ax.axhspan(ends[k], ends[k + 1], color=color, alpha=SHADE, lw=0)
            if names and ends[k + 1] - ends[k] > 0.05 * (high - low):
                style = {"textcoords": "offset points", "va": "center", "annotation_clip": False}
                middle = (1, (ends[k] + ends[k + 1]) / 2)
                text = literal(self.categories[k])
                ax.annotate(
                    text, middle, xycoords=("axes fraction", "data"), xytext=(5, 0), **style
                )
        for threshold in self.thresholds[(self.thresholds > low) & (self.thresholds < high)]:
            ax.axhline(threshold, color="black", ls="--", lw=0.9)
        ax.axhline(0.0, color="black", lw=0.5, alpha=0.6)


def _draw_curves(ax: Any, panel: EffectPanel, colors: Any, names: list[str]) -> None:
    """Curves with bands, and a tick per row."""
    x, single = panel.axis.x, len(colors) == 1
    for k, color in enumerate(colors):
        if np.isfinite(panel.low[:, k]).all():
            shade = {"color": color, "alpha": 0.28 if single else SHADE, "lw": 0}
            ax.fill_between(x, panel.low[:, k], panel.high[:, k], **shade)
        marks = {"markevery": (len(x) // 10, max(1, len(x) // 4))} | _mark(k)
        style = {"lw": 2, "label": names[k]} | ({} if single else marks)
        ax.plot(x, panel.mean[:, k], color=color, path_effects=_outline(), **style)
    rug = {"transform": ax.get_xaxis_transform(), "color": "black", "alpha": 0.45}
    ax.plot(panel.axis.rows, np.full(len(panel.axis.rows), 0.02), "|", ms=6, mew=0.7, **rug)
    ax.set_xlim(x[0], x[-1])


def _draw_points(ax: Any, panel: EffectPanel, colors: Any, names: list[str]) -> None:
    """A line with a box as its band per value, those of several levels side by side."""
    x, n = panel.axis.x, len(colors)
    width = 0.62 if n == 1 else 0.84 / n
    for k, color in enumerate(colors):
        at, mean = x + (k - (n - 1) / 2) * width, panel.mean[:, k]
        low, high = panel.low[:, k], panel.high[:, k]
        if np.isfinite(low).all():
            box = {"color": color, "alpha": 0.28 if n == 1 else 1.5 * SHADE, "lw": 0}
            ax.bar(at, high - low, 0.92 * width, low, **box)
        style = {"color": color, "label": names[k], "path_effects": _outline()}
        ax.plot(at, mean, ls="", **style, **_mark(k))
        ax.hlines(mean, at - 0.46 * width, at + 0.46 * width, color=color, lw=2)
    labels = panel.axis.labels or []
    turned = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
    ax.set_xticks(x, literals(labels), **(turned if sum(map(len, labels)) > 24 else {}))
    for border in x[:-1] + 0.5:
        ax.axvline(border, color="black", lw=0.5, alpha=0.15)
    ax.set_xlim(-0.5, len(x) - 0.5)


def _mark(k: int) -> dict[str, Any]:
    return {"marker": MARKERS[k % len(MARKERS)], "ms": 5.5}


def _outline() -> list[Any]:
    """A thin dark line around light colours."""
    effects = import_extra("matplotlib.patheffects", "Plots need", "plot")
    return [effects.withStroke(linewidth=2.8, foreground="0.25")]


def _axes(
    inputs: _Inputs, features: Iterable[Any] | None, resolution: int
) -> dict[int, ColumnAxis]:
    """Axes of the columns that vary, by their place."""
    wanted = range(len(inputs.names)) if features is None else features
    places = [base.place_of(feature, inputs.names) for feature in wanted]
    axes = {at: ColumnAxis.of(inputs.names[at], inputs.column(at), resolution) for at in places}
    varied = {at: axis for at, axis in axes.items() if len(axis.values) > 1}
    if not varied:
        raise ValueError(
            "None of the columns has two different values, so that none has an effect."
        )
    return varied
