"""Pictures of fitted models, as Displays in scikit-learn's shape; they need ``ordinalgp[plot]``.

``Display.from_estimator(model, X, y)`` computes and draws; ``.plot(ax=...)`` draws again elsewhere.
Models may be the last step of a pipeline: axes then show the inputs as the pipeline gets them.
Levels differ in lightness and in marker, so that they can be told apart in print and by everyone.
"""

import warnings
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import norm

from ordinalgp._display import _colors, _Display, _pyplot
from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.metrics import _ranks, _unwrap
from ordinalgp.preference_plots import ComparisonCurveDisplay, ComparisonDisplay, RankingDisplay

__all__ = [
    "ComparisonCurveDisplay",
    "ComparisonDisplay",
    "ContourDisplay",
    "LatentDisplay",
    "RankingDisplay",
]

_MARKERS = "os^DvPX*<>"
_SHADE = 0.25  # opacity of areas in the colour of a level


@dataclass(eq=False)
class ContourDisplay(_Display):
    """Latent mean over two features, with the thresholds as borders between levels.

    As Figure 2 of Chu and Ghahramani (2005). In the area of a level the latent mean lies between
    its thresholds, so that areas are the predictions of ``decision="median"``. Thin lines are
    further values of the latent mean. Make it with :meth:`from_estimator`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the picture is, after :meth:`plot`.
    contours_ : matplotlib ContourSet
        The borders; its ``levels`` are the thresholds.

    Examples
    --------
    >>> from ordinalgp import OrdinalGPClassifier
    >>> from ordinalgp.datasets import make_three_ranks
    >>> from ordinalgp.plots import ContourDisplay
    >>> X, y = make_three_ranks(40, random_state=0)
    >>> model = OrdinalGPClassifier().fit(X, y)
    >>> display = ContourDisplay.from_estimator(model, X, y)
    >>> display.figure_.savefig("ranks.png")  # doctest: +SKIP
    """

    x0: FloatArray
    x1: FloatArray
    mean: FloatArray
    thresholds: FloatArray
    categories: NDArray[Any]
    points: FloatArray
    codes: IntArray | None
    names: list[str]
    contours_: Any = field(default=None, init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        features: tuple[Any, Any] = (0, 1),
        feature_names: Any = None,
        resolution: int = 100,
        ax: Any = None,
    ) -> Self:
        """Compute the latent mean over the range of two features, and draw it.

        Parameters
        ----------
        estimator : fitted estimator or pipeline
            Its last step has ``latent_mean_and_variance``.
        X : array-like of shape (n_samples, n_features)
            Rows to draw. Features that are not on the axes are held at their medians.
        y : array-like of shape (n_samples,), default=None
            Levels of the rows; None draws all rows alike.
        features : pair of ints or names, default=(0, 1)
            The features on the axes.
        feature_names : sequence of str, default=None
            Names of all features; None takes those of ``X``, if it has any.
        resolution : int, default=100
            Number of grid points along each axis.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        """
        _pyplot()
        rows = np.asarray(X, dtype=float)
        names = _feature_names(X, rows.shape[1], feature_names)
        axes = [_column(feature, names) for feature in features]
        x0, x1 = np.meshgrid(*(_span(rows[:, column], resolution) for column in axes))
        grid = np.tile(np.median(rows, axis=0), (x0.size, 1))
        grid[:, axes] = np.column_stack([x0.ravel(), x1.ravel()])
        model, mean, _ = _latent(estimator, _like(X, grid))
        codes = None if y is None else _ranks(y, model.categories_)
        surface = x0, x1, mean.reshape(x0.shape), model.thresholds_, model.categories_
        shown = rows[:, axes], codes, [names[column] for column in axes]
        return cls(*surface, *shown).plot(ax=ax)

    def _draw(self, ax: Any) -> None:
        colors, grid = _colors(len(self.categories)), (self.x0, self.x1, self.mean)
        far = 1 + np.abs(self.mean).max() + np.abs(self.thresholds).max()
        ax.contourf(*grid, [-far, *self.thresholds, far], colors=colors, alpha=_SHADE)
        ax.contour(*grid, 12, colors="0.6", linewidths=0.5, linestyles="solid")
        with warnings.catch_warnings():  # a border may lie outside the picture
            warnings.filterwarnings("ignore", "No contour levels were found")
            style = {"colors": "black", "linewidths": 1.8, "linestyles": "solid"}
            self.contours_ = ax.contour(*grid, self.thresholds, **style)
        borders = [f"{low} | {high}" for low, high in pairwise(self.categories)]
        named = dict(zip(self.thresholds, borders, strict=True))
        for label in ax.clabel(self.contours_, fmt=named, manual=self._label_spots(), zorder=4):
            label.set_bbox({"facecolor": "white", "alpha": 0.8, "pad": 1, "lw": 0})
        self._draw_points(ax, colors)
        ax.set(xlabel=self.names[0], ylabel=self.names[1])

    def _label_spots(self) -> list[FloatArray]:
        """Places for the borders' names: off the rim, far from points and from each other."""
        low = np.array([self.x0[0, 0], self.x1[0, 0]])
        size = np.array([self.x0[-1, -1], self.x1[-1, -1]]) - low
        taken = (self.points - low) / size
        for path in self.contours_.get_paths():
            border = (path.vertices - low) / size
            border = border[np.all(np.abs(border - 0.5) < 0.35, axis=1)]
            if len(border):
                taken = np.vstack([taken, border[cdist(border, taken).min(axis=1).argmax()]])
        return list(low + size * taken[len(self.points) :])

    def _draw_points(self, ax: Any, colors: Any) -> None:
        if self.codes is None:
            ax.scatter(*self.points.T, s=18, color="black")
            return
        for k, color in enumerate(colors):
            at, marker = self.points[self.codes == k].T, _MARKERS[k % len(_MARKERS)]
            style = {"marker": marker, "s": 34, "edgecolors": "black", "linewidths": 0.6}
            ax.scatter(*at, color=[color], label=str(self.categories[k]), zorder=3, **style)
        handles, labels = ax.get_legend_handles_labels()
        ax.legend(handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1, 0.5))


@dataclass(eq=False)
class LatentDisplay(_Display):
    """Where the rows of each level lie on the latent scale, with the thresholds.

    Every level has a line of its own. Its curve is the posterior density of the latent function,
    averaged over the rows of that level (area one); its ticks are the rows' means; its shaded part
    lies between its own thresholds. Without labels, rows count for each level with their
    probability of it. Make it with :meth:`from_estimator`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the picture is, after :meth:`plot`.
    lines_ : list of matplotlib Line2D
        The thresholds.

    Examples
    --------
    >>> from ordinalgp import OrdinalGPClassifier
    >>> from ordinalgp.datasets import make_three_ranks
    >>> from ordinalgp.plots import LatentDisplay
    >>> X, y = make_three_ranks(40, random_state=0)
    >>> model = OrdinalGPClassifier().fit(X, y)
    >>> display = LatentDisplay.from_estimator(model, X, y)
    >>> display.figure_.savefig("latent.png")  # doctest: +SKIP
    """

    latent: FloatArray
    density: FloatArray
    share: FloatArray
    mean: FloatArray
    codes: IntArray | None
    thresholds: FloatArray
    noise: float
    categories: NDArray[Any]
    lines_: Any = field(default=None, init=False)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any = None, *, ax: Any = None) -> Self:
        """Compute the density of each level from rows, and draw it.

        Parameters
        ----------
        estimator : fitted estimator or pipeline
            Its last step has ``latent_mean_and_variance``.
        X : array-like of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,), default=None
            Their levels; None uses the probabilities of the model instead.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        """
        _pyplot()
        model, mean, var = _latent(estimator, X)
        spread = 3 * np.sqrt(var)
        latent = _span(np.concatenate([mean - spread, mean + spread, model.thresholds_]), 400)
        sd = np.maximum(np.sqrt(var), latent[1] - latent[0])  # the grid shows nothing narrower
        rows = norm.pdf(latent, mean[:, None], sd[:, None])
        codes = None if y is None else _ranks(y, model.categories_)
        if codes is None:
            joint = rows.mean(axis=0) * model.likelihood_.probabilities(latent, 0 * latent).T
            share = model.likelihood_.probabilities(mean, var).mean(axis=0)
        else:
            member = codes == np.arange(len(model.categories_))[:, None]
            joint, share = member @ rows / len(rows), member.mean(axis=1)
        density = np.divide(joint, share[:, None], where=share[:, None] > 0, out=0 * joint)
        fitted = model.thresholds_, model.noise_, model.categories_
        return cls(latent, density, share, mean, codes, *fitted).plot(ax=ax)

    def _draw(self, ax: Any) -> None:
        ends = np.concatenate([self.latent[[0]], self.thresholds, self.latent[[-1]]])
        height = 0.8 * self.density / self.density.max()
        for k, color in enumerate(_colors(len(self.categories))):
            ax.fill_betweenx([k, k + 0.9], ends[k], ends[k + 1], color=color, alpha=_SHADE, lw=0)
            ax.fill_between(self.latent, k, k + height[k], color=color, alpha=0.8, lw=0)
            ax.plot(self.latent, k + height[k], color="black", lw=0.8)
            if self.codes is not None:
                means = self.mean[self.codes == k]
                ax.plot(means, np.full(len(means), k), "|", color="black", ms=7, mew=0.6)
        self.lines_ = [ax.axvline(b, color="black", ls="--", lw=1.2) for b in self.thresholds]
        what = "expected" if self.codes is None else "of rows"
        names = [f"{c}\n{s:.0%} {what}" for c, s in zip(self.categories, self.share, strict=True)]
        ax.set_yticks(np.arange(len(names)) + 0.35, names)
        ax.tick_params(axis="y", length=0)
        ax.set(xlabel=f"latent function (dashed: thresholds; noise sd {self.noise:.2g})")
        ax.set(xlim=ends[[0, -1]], ylim=(-0.15, len(names)))


def _latent(estimator: Any, X: Any) -> tuple[Any, FloatArray, FloatArray]:
    """Split off the model at the end of searches and pipelines, with its latent moments at X."""
    transformers, model = _unwrap(estimator)
    for transformer in transformers:
        X = transformer.transform(X)
    return model, *model.latent_mean_and_variance(X)


def _span(values: FloatArray, n: int) -> FloatArray:
    """``n`` points over the range of ``values`` and a little beyond."""
    low, high = values.min(), values.max()
    margin = 0.05 * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, n)


def _like(X: Any, rows: FloatArray) -> Any:
    """``rows`` with the column names of ``X``, where that is a pandas or polars frame."""
    if hasattr(X, "iloc"):
        return type(X)(rows, columns=X.columns)
    return type(X)(rows, schema=X.columns) if hasattr(X, "schema") else rows


def _feature_names(X: Any, n: int, names: Any) -> list[str]:
    names = getattr(X, "columns", None) if names is None else names
    return [f"feature {i}" for i in range(n)] if names is None else [str(name) for name in names]


def _column(feature: Any, names: list[str]) -> int:
    if not isinstance(feature, str):
        return int(feature)
    if feature not in names:
        raise ValueError(f"features names {feature!r}, but the features are {', '.join(names)}.")
    return names.index(feature)
