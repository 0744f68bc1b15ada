"""Plots of the latent function: levels on its scale, along one feature, and over two features."""

import warnings
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import norm

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.metrics.ranks import category_proba, ranks, unwrap
from ordinalgp.plots import base
from ordinalgp.plots.base import SHADE, Display, colors_of, literal, literals
from ordinalgp.validation.options import check_option, check_whole

_SMALLEST_RING, _LARGEST_RING = 60.0, 400.0  # areas of the marks, in square points


def _latent_at(estimator: Any, X: Any) -> tuple[Any, FloatArray, FloatArray]:
    """Model at the end of searches and pipelines, with its latent moments at X."""
    model, inputs = base.last_step(estimator, X)
    if not (hasattr(model, "likelihood_") and hasattr(model, "categories_")):
        raise TypeError(
            f"{type(model).__name__} has no latent function with a variance. Give a fitted "
            "OrdinalGPClassifier, LeastSquaresOrdinalClassifier or SparseBayesOrdinalClassifier. "
            "ConfusionDisplay draws every classifier."
        )
    return model, *model.latent_mean_and_variance(inputs)


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
        inputs = _SlicedInputs.of(estimator, X, feature_names)
        columns = [base.place_of(feature, inputs.names) for feature in features]
        inputs.require_numbers(columns)
        points = inputs.rows[:, columns]
        axes = np.meshgrid(*(base.span(values, resolution) for values in points.T))
        queries = inputs.queries(columns, [axis.ravel() for axis in axes])
        model, *moments = _latent_at(estimator, queries)
        mean, var = (moment.reshape(axes[0].shape) for moment in moments)
        codes, known = _codes_of(y, model.categories_, len(points)), ~np.isnan(points).any(axis=1)
        codes = None if codes is None else codes[known]
        chosen = [inputs.names[place] for place in columns]
        return cls(model, list(axes), queries, mean, var, points[known], codes, columns, chosen)


@dataclass(frozen=True, eq=False)
class _SlicedInputs:
    """Rows as numbers, and inputs of the estimator that vary in some columns alone."""

    rows: FloatArray
    """NaN for missing values and in columns of texts"""
    names: list[str]
    X: Any
    table: Any = None
    """the model for tables that gets the inputs"""

    @classmethod
    def of(cls, estimator: Any, X: Any, feature_names: Any) -> Self:
        """Rows of an array, or of a table if the estimator is a model for tables."""
        transformers, model = unwrap(estimator)
        if transformers or not hasattr(model, "encoder_"):
            rows = base.rows_of(X)
            return cls(rows, base.feature_names_of(X, rows.shape[1], feature_names), X)
        cells = model.encoder_.decode(model.encode(X)).columns
        texts = np.full(len(next(iter(cells.values()))), np.nan)
        columns = [cell if cell.dtype.kind == "f" else texts for cell in cells.values()]
        return cls(np.column_stack(columns), list(cells), X, model)

    def require_numbers(self, columns: list[int]) -> None:
        """Raise unless these columns hold numbers."""
        for place in columns:
            if np.isnan(self.rows[:, place]).all():
                numbers = ~np.isnan(self.rows).all(axis=0)
                named = [self.names[at] for at in np.flatnonzero(numbers)]
                raise ValueError(
                    f"An axis needs a column of numbers, but {self.names[place]!r} has none. "
                    f"Choose from {', '.join(named) or 'another table'}."
                )

    def queries(self, columns: list[int], values: list[FloatArray]) -> Any:
        """Inputs with values in some columns, and medians or typical values in all others."""
        given = dict(zip(columns, values, strict=True))
        if self.table is not None:
            kinds = enumerate(self.table.encoder_.columns)
            n = len(values[0])
            return {c.name: given.get(at, np.full(n, c.typical)) for at, c in kinds}
        grid = np.tile(np.median(self.rows, axis=0), (len(values[0]), 1))
        grid[:, columns] = np.column_stack(values)
        return base.like(self.X, grid)


def _codes_of(y: Any, categories: Any, n_rows: int) -> IntArray | None:
    """Ranks of the rows, if their levels are given."""
    if y is None:
        return None
    codes = ranks(y, categories)
    if len(codes) != n_rows:
        raise ValueError(
            f"y must have a level for each of the {n_rows} rows, but has {len(codes)}."
        )
    return codes


@dataclass(eq=False)
class LatentDisplay(Display):
    """Density of each level on the latent scale, with the thresholds.

    Every level has its own line. The curve is the posterior density of the latent function,
    averaged over the rows of that level (area one). Ticks are the means of the rows. The shaded
    part lies between the thresholds of the level. Without labels, rows count for each level with
    its probability. Make it with :meth:`from_estimator`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the plot, set by :meth:`plot`.
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
            Axes to draw on; None makes a new figure.
        """
        model, mean, var = _latent_at(estimator, X)
        return cls.from_moments(model, mean, var, y, ax=ax)

    @classmethod
    def from_moments(
        cls, estimator: Any, mean: FloatArray, var: FloatArray, y: Any = None, *, ax: Any = None
    ) -> Self:
        """Compute the density of each level from the posterior at rows, and draw it.

        Parameters
        ----------
        estimator : fitted estimator
            Its thresholds, noise, likelihood and levels are used.
        mean, var : ndarrays of shape (n_samples,)
            Latent moments of the rows, from ``latent_mean_and_variance``.
        y : array-like of shape (n_samples,), default=None
            Their levels; None uses the probabilities of the model instead.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        """
        spread = 3 * np.sqrt(var)
        latent = base.span(
            np.concatenate([mean - spread, mean + spread, estimator.thresholds_]), 400
        )
        sd = np.maximum(np.sqrt(var), latent[1] - latent[0])  # the grid shows nothing narrower
        rows = norm.pdf(latent, mean[:, None], sd[:, None])
        codes = _codes_of(y, estimator.categories_, len(mean))
        if codes is None:
            joint = rows.mean(axis=0) * estimator.likelihood_.probabilities(latent, 0 * latent).T
            share = estimator.likelihood_.probabilities(mean, var).mean(axis=0)
        else:
            member = codes == np.arange(len(estimator.categories_))[:, None]
            joint, share = member @ rows / len(rows), member.mean(axis=1)
        density = np.divide(joint, share[:, None], where=share[:, None] > 0, out=0 * joint)
        fitted = estimator.thresholds_, float(estimator.likelihood_.noise), estimator.categories_
        return cls(latent, density, share, mean, codes, *fitted).plot(ax=ax)

    def _draw(self, ax: Any) -> None:
        ends = np.concatenate([self.latent[[0]], self.thresholds, self.latent[[-1]]])
        height = 0.8 * self.density / self.density.max()
        for k, color in enumerate(colors_of(len(self.categories))):
            ax.fill_betweenx([k, k + 0.9], ends[k], ends[k + 1], color=color, alpha=SHADE, lw=0)
            ax.fill_between(self.latent, k, k + height[k], color=color, alpha=0.8, lw=0)
            ax.plot(self.latent, k + height[k], color="black", lw=0.8)
            if self.codes is not None:
                means = self.mean[self.codes == k]
                ax.plot(means, np.full(len(means), k), "|", color="black", ms=7, mew=0.6)
        self.lines_ = [ax.axvline(b, color="black", ls="--", lw=1.2) for b in self.thresholds]
        what = "expected" if self.codes is None else "of rows"
        names = [
            f"{literal(c)}\n{s:.0%} {what}"
            for c, s in zip(self.categories, self.share, strict=True)
        ]
        ax.set_yticks(np.arange(len(names)) + 0.35, names)
        ax.tick_params(axis="y", length=0)
        ax.set(xlabel=f"latent function (dashed: thresholds; noise sd {self.noise:.2g})")
        ax.set(xlim=ends[[0, -1]], ylim=(-0.15, len(names)))


@dataclass(eq=False)
class PosteriorDisplay(Display):
    """Posterior along one feature, with bands of one and two standard deviations.

    On the latent scale thresholds cut the plane into strips, one per level. On the scale of levels
    the curve is the expected rank, with the spread of the predicted levels around it, as Figure 1
    of Srijith, Shevade and Sundararajan (2012). Make it with :meth:`from_estimator`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the plot, set by :meth:`plot`.
    line_ : matplotlib Line2D
        The mean.

    Examples
    --------
    >>> from ordinalgp import OrdinalGPClassifier
    >>> from ordinalgp.datasets import make_five_ranks_1d
    >>> from ordinalgp.plots import PosteriorDisplay
    >>> X, y = make_five_ranks_1d(random_state=0)
    >>> model = OrdinalGPClassifier().fit(X, y)
    >>> display = PosteriorDisplay.from_estimator(model, X, y, feature_names=["time (h)"])
    >>> display.figure_.savefig("posterior.png")  # doctest: +SKIP
    """

    x: FloatArray
    mean: FloatArray
    sd: FloatArray
    thresholds: FloatArray
    categories: NDArray[Any]
    points: FloatArray
    codes: IntArray | None
    name: str
    kind: str
    line_: Any = field(default=None, init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        feature: Any = 0,
        kind: str = "latent",
        feature_names: Any = None,
        resolution: int = 200,
        ax: Any = None,
    ) -> Self:
        """Compute the posterior over the range of one feature, and draw it.

        Parameters
        ----------
        estimator : fitted estimator or pipeline
            Its last step has ``latent_mean_and_variance``.
        X : array-like of shape (n_samples, n_features)
            Rows that set the range. Other features are held at their medians.
        y : array-like of shape (n_samples,), default=None
            Levels of the rows; each row is then drawn in the middle of its level.
        feature : int or name, default=0
            The feature on the axis.
        kind : {"latent", "levels"}, default="latent"
            The latent function with thresholds, or the expected level.
        feature_names : sequence of str, default=None
            Names of all features; None takes those of ``X``, if it has any.
        resolution : int, default=200
            Number of points along the axis.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        """
        check_option("kind", kind, ("latent", "levels"))
        at = LatentSlice.of(estimator, X, y, (feature,), feature_names, resolution)
        model, mean, var = at.model, at.mean, at.var
        if kind == "levels":
            mean, var = _rank_moments(category_proba(estimator, at.queries, model.categories_))
        curve, fitted = (at.axes[0], mean, np.sqrt(var)), (model.thresholds_, model.categories_)
        display = cls(*curve, *fitted, at.points[:, 0], at.codes, at.names[0], kind)
        return display.plot(ax=ax)

    def _draw(self, ax: Any) -> None:
        low, high = self._limits()
        names = [str(level) for level in self.categories.tolist()]
        middles = self._strips(ax, low, high, names)
        for width, shade in ((2, 0.18), (1, 0.3)):
            lower, upper = self.mean - width * self.sd, self.mean + width * self.sd
            ends = np.clip([lower, upper], low, high)
            ax.fill_between(self.x, *ends, color="black", alpha=shade, lw=0)
        (self.line_,) = ax.plot(self.x, self.mean, color="black", lw=1.8)
        if self.codes is not None:
            points = np.column_stack([self.points, middles[self.codes]])
            base.scatter_levels(ax, points, self.codes, names, 0.7)
        what = "latent function" if self.kind == "latent" else "expected level"
        ax.set(xlabel=literal(self.name), ylabel=f"{what} (bands: 1 and 2 sd)")
        ax.set(xlim=self.x[[0, -1]], ylim=(low, high))

    def _limits(self) -> tuple[float, float]:
        if self.kind == "levels":
            return -0.5, len(self.categories) - 0.5
        gaps = np.diff(self.thresholds)
        margin = float(gaps.mean()) if len(gaps) else 1.0
        low = min((self.mean - 2 * self.sd).min(), self.thresholds[0] - margin)
        high = max((self.mean + 2 * self.sd).max(), self.thresholds[-1] + margin)
        return float(low), float(high)

    def _strips(self, ax: Any, low: float, high: float, names: list[str]) -> FloatArray:
        """Shade and name the levels; return the middle of each."""
        if self.kind == "levels":
            ax.set_yticks(range(len(names)), literals(names))
            return np.arange(len(names), dtype=float)
        ends = np.concatenate([[low], self.thresholds, [high]])
        for k, color in enumerate(colors_of(len(names))):
            ax.axhspan(ends[k], ends[k + 1], color=color, alpha=SHADE, lw=0)
        for threshold in self.thresholds:
            ax.axhline(threshold, color="black", ls="--", lw=1)
        middles = (ends[1:] + ends[:-1]) / 2
        for name, middle in zip(names, middles, strict=True):
            place = (self.x[-1], middle)
            style = {"textcoords": "offset points", "va": "center", "annotation_clip": False}
            ax.annotate(literal(name), place, xytext=(6, 0), **style)
        return middles


def _rank_moments(probabilities: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of the rank, counted from 0, under each row of probabilities."""
    ranks = np.arange(probabilities.shape[1])
    mean = probabilities @ ranks
    return mean, np.maximum(probabilities @ ranks**2 - mean**2, 0)


@dataclass(eq=False)
class ContourDisplay(Display):
    """Latent mean over two features, with the thresholds as borders between levels.

    Plot in the style of Figure 2 of Chu and Ghahramani (2005). In the area of a level the latent
    mean lies between its thresholds, so areas are the predictions of ``decision="median"``. Thin
    lines are further values of the latent mean. Make it with :meth:`from_estimator`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the plot, set by :meth:`plot`.
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
            Axes to draw on; None makes a new figure.
        """
        if len(features) != 2:
            raise ValueError(f"features must be two, one per axis, but {features!r} was given.")
        at = LatentSlice.of(estimator, X, y, features, feature_names, resolution)
        fitted = at.model.thresholds_, at.model.categories_
        surface = *at.axes, at.mean, *fitted, at.points, at.codes, at.names
        return cls(*surface, *cls._marks(estimator, at.columns)).plot(ax=ax)

    @classmethod
    def _marks(cls, estimator: Any, columns: list[int]) -> tuple[FloatArray, ...]:
        """Further fields of a subclass, which draws marks on the surface."""
        return ()

    def _draw(self, ax: Any) -> None:
        colors, grid = colors_of(len(self.categories)), (self.x0, self.x1, self.mean)
        far = 1 + np.abs(self.mean).max() + np.abs(self.thresholds).max()
        ax.contourf(*grid, [-far, *self.thresholds, far], colors=colors, alpha=SHADE)
        ax.contour(*grid, 12, colors="0.6", linewidths=0.5, linestyles="solid")
        with warnings.catch_warnings():  # a border may lie outside the plot
            warnings.filterwarnings("ignore", "No contour levels were found")
            style = {"colors": "black", "linewidths": 1.8, "linestyles": "solid"}
            self.contours_ = ax.contour(*grid, self.thresholds, **style)
        borders = [f"{literal(low)} | {literal(high)}" for low, high in pairwise(self.categories)]
        named = dict(zip(self.thresholds, borders, strict=True))
        for label in ax.clabel(self.contours_, fmt=named, manual=self._label_spots(), zorder=4):
            label.set_bbox({"facecolor": "white", "alpha": 0.8, "pad": 1, "lw": 0})
        if self.codes is None:
            ax.scatter(*self.points.T, s=18, color="black")
        else:
            names = [str(level) for level in self.categories.tolist()]
            base.scatter_levels(ax, self.points, self.codes, names, 0.6)
            base.legend_beside(ax)
        ax.set(xlabel=literal(self.names[0]), ylabel=literal(self.names[1]))

    def _label_spots(self) -> list[FloatArray]:
        """Places for the borders' names: off the rim, far from points and from each other."""
        low = np.array([self.x0[0, 0], self.x1[0, 0]])
        size = np.array([self.x0[-1, -1], self.x1[-1, -1]]) - low
        # Without points, stay away from the rim, so that names are not cut off.
        side = np.linspace(0, 1, 21)
        rim = [np.column_stack([side, 0 * side + end]) for end in (0, 1)]
        rim += [part[:, ::-1] for part in rim]
        taken = (self.points - low) / size if len(self.points) else np.vstack(rim)
        first = len(taken)
        for path in self.contours_.get_paths():
            border = (path.vertices - low) / size
            border = border[np.all(np.abs(border - 0.5) < 0.35, axis=1)]
            if len(border):
                taken = np.vstack([taken, border[cdist(border, taken).min(axis=1).argmax()]])
        return list(low + size * taken[first:])


@dataclass(eq=False)
class RelevanceVectorsDisplay(ContourDisplay):
    """Relevance vectors over two features, on the latent mean with the borders between levels.

    A ring around its row marks a relevance vector; a larger ring is a larger weight. The ring is
    solid if the weight is positive (it raises the latent function around it), else dashed.
    Make it with :meth:`from_estimator` from a fitted ``SparseBayesOrdinalClassifier``, or from a
    pipeline that ends in one. In a pipeline of transformers that can be inverted, as a scaler can,
    the vectors are drawn where their rows were.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the plot, set by :meth:`plot`.
    rings_ : list of matplotlib PathCollection
        The marks, of positive weights first.

    Examples
    --------
    >>> from ordinalgp import SparseBayesOrdinalClassifier
    >>> from ordinalgp.datasets import make_three_ranks
    >>> from ordinalgp.plots import RelevanceVectorsDisplay
    >>> X, y = make_three_ranks(60, random_state=0)
    >>> model = SparseBayesOrdinalClassifier(random_state=0).fit(X, y)
    >>> display = RelevanceVectorsDisplay.from_estimator(model, X, y)
    >>> display.figure_.savefig("relevance.png")  # doctest: +SKIP
    """

    vectors: FloatArray = field(default_factory=lambda: np.empty((0, 2)))
    weights: FloatArray = field(default_factory=lambda: np.empty(0))
    rings_: Any = field(default=None, init=False)

    @classmethod
    def _marks(cls, estimator: Any, columns: list[int]) -> tuple[FloatArray, ...]:
        transformers, model = unwrap(estimator)
        classifier = base.classifier_of(model)
        if not hasattr(classifier, "relevance_vectors_"):
            raise TypeError(
                f"{type(classifier).__name__} has no relevance vectors. Give a fitted "
                "SparseBayesOrdinalClassifier, or draw other models with ContourDisplay."
            )
        vectors = classifier.relevance_vectors_
        if classifier is not model:
            cells = list(model.encoder_.decode(vectors).columns.values())
            return np.column_stack([cells[place] for place in columns]), classifier.weights_
        for transformer in reversed(transformers):
            vectors = transformer.inverse_transform(vectors)
        return np.asarray(vectors)[:, columns], classifier.weights_

    def _draw(self, ax: Any) -> None:
        super()._draw(ax)
        strength = np.abs(self.weights) / np.abs(self.weights).max()
        area = _SMALLEST_RING + (_LARGEST_RING - _SMALLEST_RING) * strength
        self.rings_ = []
        for sign, dashes, word in ((1, "-", "positive"), (-1, (0, (2, 1.2)), "negative")):
            one = np.sign(self.weights) == sign
            style = {"facecolors": "none", "edgecolors": "black", "linewidths": 1.8}
            at = self.vectors[one].T
            label = f"{word} weight ({one.sum()})"
            ring = ax.scatter(*at, s=area[one], linestyle=dashes, label=label, zorder=5, **style)
            self.rings_.append(ring)
        base.legend_beside(ax)
