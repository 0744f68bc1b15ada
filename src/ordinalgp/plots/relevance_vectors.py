"""A picture of a sparse model: its relevance vectors over the data."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from ordinalgp._typing import FloatArray
from ordinalgp.metrics.fitted import unwrap
from ordinalgp.plots.contour import ContourDisplay

__all__ = ["RelevanceVectorsDisplay"]

_SMALLEST, _LARGEST = 60.0, 400.0  # areas of the marks, in square points


@dataclass(eq=False)
class RelevanceVectorsDisplay(ContourDisplay):
    """Relevance vectors over two features, on the latent mean with the borders between levels.

    A relevance vector is marked by a ring around its row, larger for a larger weight: solid where
    the weight is positive (it lifts the latent function around it), dashed where it is negative.
    Make it with :meth:`from_estimator`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the picture is, after :meth:`plot`.
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
            Where to draw; None makes a new figure.
        """
        transformers, model = unwrap(estimator)
        if not hasattr(model, "relevance_vectors_"):
            raise TypeError(
                f"{type(model).__name__} has no relevance vectors. Give a fitted "
                "SparseBayesOrdinalClassifier, or draw other models with ContourDisplay."
            )
        vectors = model.relevance_vectors_
        for transformer in reversed(list(transformers)):
            vectors = transformer.inverse_transform(vectors)
        options = {"features": features, "feature_names": feature_names, "resolution": resolution}
        base = ContourDisplay.from_estimator(estimator, X, y, ax=ax, **options)
        columns = [_place(feature, X, feature_names) for feature in features]
        grid = base.x0, base.x1, base.mean, base.thresholds, base.categories
        shown = base.points, base.codes, base.names
        display = cls(*grid, *shown, np.asarray(vectors)[:, columns], model.weights_)
        display.ax_, display.figure_, display.contours_ = base.ax_, base.figure_, base.contours_
        display._draw_rings(base.ax_)
        return display

    def _draw(self, ax: Any) -> None:
        super()._draw(ax)
        self._draw_rings(ax)

    def _draw_rings(self, ax: Any) -> None:
        strength = np.abs(self.weights) / np.abs(self.weights).max()
        area = _SMALLEST + (_LARGEST - _SMALLEST) * strength
        self.rings_ = []
        for sign, dashes, word in ((1, "-", "positive"), (-1, (0, (2, 1.2)), "negative")):
            one = np.sign(self.weights) == sign
            style = {"facecolors": "none", "edgecolors": "black", "linewidths": 1.8}
            at = self.vectors[one].T
            label = f"{word} weight ({one.sum()})"
            ring = ax.scatter(*at, s=area[one], linestyle=dashes, label=label, zorder=5, **style)
            self.rings_.append(ring)
        handles, labels = ax.get_legend_handles_labels()
        ax.legend(handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1, 0.5))


def _place(feature: Any, X: Any, names: Any) -> int:
    names = getattr(X, "columns", None) if names is None else names
    return [str(n) for n in names].index(feature) if isinstance(feature, str) else int(feature)
