"""The latent mean over two features."""

import warnings
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.plots.base import (
    MARKERS,
    SHADE,
    Display,
    codes_of,
    colors_of,
    column,
    feature_names_of,
    latent_at,
    like,
    pyplot,
    rows_of,
    span,
)
from ordinalgp.validation.options import check_whole


@dataclass(eq=False)
class ContourDisplay(Display):
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
        pyplot()
        rows = rows_of(X)
        names = feature_names_of(X, rows.shape[1], feature_names)
        check_whole("resolution", resolution, least=2)
        if len(features) != 2:
            raise ValueError(f"features must be two, one for each axis, but is {features!r}.")
        axes = [column(feature, names) for feature in features]
        x0, x1 = np.meshgrid(*(span(rows[:, column], resolution) for column in axes))
        grid = np.tile(np.median(rows, axis=0), (x0.size, 1))
        grid[:, axes] = np.column_stack([x0.ravel(), x1.ravel()])
        model, mean, _ = latent_at(estimator, like(X, grid))
        codes = codes_of(y, model.categories_, len(rows))
        surface = x0, x1, mean.reshape(x0.shape), model.thresholds_, model.categories_
        shown = rows[:, axes], codes, [names[column] for column in axes]
        return cls(*surface, *shown).plot(ax=ax)

    def _draw(self, ax: Any) -> None:
        colors, grid = colors_of(len(self.categories)), (self.x0, self.x1, self.mean)
        far = 1 + np.abs(self.mean).max() + np.abs(self.thresholds).max()
        ax.contourf(*grid, [-far, *self.thresholds, far], colors=colors, alpha=SHADE)
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
        handles, labels = ax.get_legend_handles_labels()
        ax.legend(handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1, 0.5))
