"""Confusion matrix of ordered levels."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.metrics.fitted import model_order
from ordinalgp.metrics.ranks import label_ranks
from ordinalgp.plots.base import Display, pyplot


@dataclass(eq=False)
class ConfusionDisplay(Display):
    """Confusion matrix: rows by true and predicted level, with the distance between the two.

    The darker a cell, the larger its share of the rows of its true level. Framed cells are correct
    predictions; every step away from them is an error of one level. The line below the matrix
    gives the share of rows per distance. Make it with :meth:`from_estimator` or
    :meth:`from_predictions`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the plot, set by :meth:`plot`.
    image_ : matplotlib AxesImage
        The matrix.

    Examples
    --------
    >>> from ordinalgp import OrdinalGPClassifier
    >>> from ordinalgp.datasets import make_three_ranks
    >>> from ordinalgp.plots import ConfusionDisplay
    >>> X, y = make_three_ranks(80, random_state=0)
    >>> model = OrdinalGPClassifier().fit(X[:40], y[:40])
    >>> display = ConfusionDisplay.from_estimator(model, X[40:], y[40:])
    >>> int(display.matrix.sum()), display.distances.round(2).tolist()[0] > 0.5
    (40, True)
    """

    matrix: IntArray
    categories: NDArray[Any]
    image_: Any = field(default=None, init=False)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, ax: Any = None) -> Self:
        """Predict rows and count their levels.

        Parameters
        ----------
        estimator : fitted estimator or pipeline
            A classifier of ordered levels.
        X : array-like of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            Their levels.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        """
        pyplot()
        return cls.from_predictions(y, estimator.predict(X), model_order(estimator), ax=ax)

    @classmethod
    def from_predictions(cls, y: Any, predicted: Any, categories: Any, *, ax: Any = None) -> Self:
        """Count true and predicted levels.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            True levels.
        predicted : array-like of shape (n_samples,)
            Predicted levels.
        categories : sequence
            Levels from lowest to highest.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        """
        pyplot()
        order = np.asarray(categories)
        matrix = np.zeros((len(order), len(order)), dtype=np.intp)
        np.add.at(matrix, label_ranks(y, predicted, order), 1)
        return cls(matrix, order).plot(ax=ax)

    @property
    def distances(self) -> FloatArray:
        """Share of rows whose prediction is off by 0, 1, 2, ... levels."""
        true, predicted = np.indices(self.matrix.shape)
        return np.bincount(abs(true - predicted).ravel(), self.matrix.ravel()) / self.matrix.sum()

    def _draw(self, ax: Any) -> None:
        n, total = len(self.categories), self.matrix.sum(axis=1, keepdims=True)
        share = self.matrix / np.maximum(total, 1)
        self.image_ = ax.imshow(share, cmap="Blues", vmin=0, vmax=1, origin="lower")
        for i, j in np.ndindex(n, n):
            color = "white" if share[i, j] > 0.55 else "black"
            text = f"{self.matrix[i, j]}\n{share[i, j]:.0%}" if self.matrix[i, j] else "·"
            ax.text(j, i, text, ha="center", va="center", color=color, size=9)
        for k in range(n):
            frame = {"fill": False, "edgecolor": "black", "lw": 2}
            ax.add_patch(pyplot().Rectangle((k - 0.5, k - 0.5), 1, 1, **frame))
        names = [str(level) for level in self.categories.tolist()]
        ax.set_xticks(range(n), names)
        ax.set_yticks(range(n), names)
        off = [
            f"{_percent(part)} off by {k}" for k, part in enumerate(self.distances) if k and part
        ]
        told = ", ".join([f"{self.distances[0]:.0%} correct", *off])
        ax.set(xlabel=f"predicted level\n({told})", ylabel="true level")


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.005 else "<1%"
