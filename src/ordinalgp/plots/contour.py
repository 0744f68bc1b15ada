"""Latent mean over two features, and the relevance vectors of sparse models on it."""

import warnings
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.metrics.fitted import unwrap
from ordinalgp.plots.base import (
    MARKERS,
    SHADE,
    Display,
    LatentSlice,
    colors_of,
    legend_beside,
    pyplot,
)

_SMALLEST_RING, _LARGEST_RING = 60.0, 400.0  # areas of the marks, in square points


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
        pyplot()
        at = _slice(estimator, X, y, features, feature_names, resolution)
        return cls(*_surface(at)).plot(ax=ax)

    def _draw(self, ax: Any) -> None:
        colors, grid = colors_of(len(self.categories)), (self.x0, self.x1, self.mean)
        far = 1 + np.abs(self.mean).max() + np.abs(self.thresholds).max()
        ax.contourf(*grid, [-far, *self.thresholds, far], colors=colors, alpha=SHADE)
        ax.contour(*grid, 12, colors="0.6", linewidths=0.5, linestyles="solid")
        with warnings.catch_warnings():  # a border may lie outside the plot
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

    def _draw_points(self, ax: Any, colors: Any) -> None:
        if self.codes is None:
            ax.scatter(*self.points.T, s=18, color="black")
            return
        for k, color in enumerate(colors):
            at, marker = self.points[self.codes == k].T, MARKERS[k % len(MARKERS)]
            style = {"marker": marker, "s": 34, "edgecolors": "black", "linewidths": 0.6}
            ax.scatter(*at, color=[color], label=str(self.categories[k]), zorder=3, **style)
        legend_beside(ax)


@dataclass(eq=False)
class RelevanceVectorsDisplay(ContourDisplay):
    """Relevance vectors over two features, on the latent mean with the borders between levels.

    A ring around its row marks a relevance vector; a larger ring is a larger weight. The ring is
    solid if the weight is positive (it raises the latent function around it), else dashed.
    Make it with :meth:`from_estimator`.

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
        """Compute the latent mean over the range of two features, and draw it with the vectors.

        Parameters
        ----------
        estimator : fitted SparseBayesOrdinalClassifier, or a pipeline that ends in one
            The model. In a pipeline of transformers that can be inverted, as a scaler can, the
            vectors are drawn where their rows were.
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
        pyplot()
        transformers, model = unwrap(estimator)
        if not hasattr(model, "relevance_vectors_"):
            raise TypeError(
                f"{type(model).__name__} has no relevance vectors. Give a fitted "
                "SparseBayesOrdinalClassifier, or draw other models with ContourDisplay."
            )
        vectors = model.relevance_vectors_
        for transformer in reversed(transformers):
            vectors = transformer.inverse_transform(vectors)
        at = _slice(estimator, X, y, features, feature_names, resolution)
        shown = {"vectors": np.asarray(vectors)[:, at.columns], "weights": model.weights_}
        return cls(*_surface(at), **shown).plot(ax=ax)

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
        legend_beside(ax)


def _slice(
    estimator: Any, X: Any, y: Any, features: Any, names: Any, resolution: int
) -> LatentSlice:
    if len(features) != 2:
        raise ValueError(f"features must be two, one per axis, but {features!r} was given.")
    return LatentSlice.of(estimator, X, y, features, names, resolution)


def _surface(at: LatentSlice) -> tuple[Any, ...]:
    """Fields of a ContourDisplay."""
    fitted = at.model.thresholds_, at.model.categories_
    return *at.axes, at.mean, *fitted, at.points, at.codes, at.names
