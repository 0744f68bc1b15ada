"""Posterior along one feature."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.metrics.fitted import category_proba
from ordinalgp.plots.base import MARKERS, SHADE, Display, LatentSlice, colors_of, pyplot
from ordinalgp.validation.options import check_option


@dataclass(eq=False)
class PosteriorDisplay(Display):
    """Posterior along one feature, with bands of one and two standard deviations.

    On the latent scale thresholds cut the plane into strips, one a level. On the scale of levels
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
        pyplot()
        check_option("kind", kind, ("latent", "levels"))
        at = LatentSlice.of(estimator, X, y, (feature,), feature_names, resolution)
        model, mean, var = at.model, at.mean, at.var
        if kind == "levels":
            mean, var = rank_moments(category_proba(estimator, at.queries, model.categories_))
        curve, fitted = (at.axes[0], mean, np.sqrt(var)), (model.thresholds_, model.categories_)
        display = cls(*curve, *fitted, at.points[:, 0], at.codes, at.names[0], kind)
        return display.plot(ax=ax)

    def _draw(self, ax: Any) -> None:
        low, high = self._limits()
        middles = self._strips(ax, low, high)
        for width, shade in ((2, 0.18), (1, 0.3)):
            lower, upper = self.mean - width * self.sd, self.mean + width * self.sd
            ends = np.clip([lower, upper], low, high)
            ax.fill_between(self.x, *ends, color="black", alpha=shade, lw=0)
        (self.line_,) = ax.plot(self.x, self.mean, color="black", lw=1.8)
        if self.codes is not None:
            for k, color in enumerate(colors_of(len(self.categories))):
                at = self.points[self.codes == k]
                style = {"marker": MARKERS[k % len(MARKERS)], "s": 34, "linewidths": 0.7}
                heights = np.full(len(at), middles[k])
                ax.scatter(at, heights, color=[color], edgecolors="black", zorder=3, **style)
        what = "latent function" if self.kind == "latent" else "expected level"
        ax.set(xlabel=self.name, ylabel=f"{what} (bands: 1 and 2 sd)")
        ax.set(xlim=self.x[[0, -1]], ylim=(low, high))

    def _limits(self) -> tuple[float, float]:
        if self.kind == "levels":
            return -0.5, len(self.categories) - 0.5
        gaps = np.diff(self.thresholds)
        margin = float(gaps.mean()) if len(gaps) else 1.0
        low = min((self.mean - 2 * self.sd).min(), self.thresholds[0] - margin)
        high = max((self.mean + 2 * self.sd).max(), self.thresholds[-1] + margin)
        return float(low), float(high)

    def _strips(self, ax: Any, low: float, high: float) -> FloatArray:
        """Shade and name the levels; return the middle of each."""
        names = [str(level) for level in self.categories.tolist()]
        if self.kind == "levels":
            ax.set_yticks(range(len(names)), names)
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
            ax.annotate(name, place, xytext=(6, 0), **style)
        return middles


def rank_moments(probabilities: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of the rank, counted from 0, under each row of probabilities."""
    ranks = np.arange(probabilities.shape[1])
    mean = probabilities @ ranks
    return mean, np.maximum(probabilities @ ranks**2 - mean**2, 0)
