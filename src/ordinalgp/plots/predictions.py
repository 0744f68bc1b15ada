"""Plots of predictions beside the true levels: calibration, confusion and intervals."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.metrics.ranks import category_proba, label_ranks, model_order, probability_ranks
from ordinalgp.plots import base
from ordinalgp.validation.options import check_option, check_whole

_Z = 1.645  # normal quantile of a 90 % interval


@dataclass(eq=False)
class CalibrationDisplay(base.Display):
    """Calibration plot: observed frequency of each level against its predicted probability.

    Rows are sorted by the probability of a level and cut into groups of equal size. A point shows
    the mean probability of a group and the share of its rows that have the level, with a 90 %
    interval. Below the diagonal the model overestimates; above it, it underestimates. Make it with
    :meth:`from_estimator` or :meth:`from_predictions`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the plot, set by :meth:`plot`.
    points_ : list of matplotlib containers
        The points of each level, lowest first.

    Examples
    --------
    >>> from ordinalgp import OrdinalGPClassifier
    >>> from ordinalgp.datasets import make_three_ranks
    >>> from ordinalgp.plots import CalibrationDisplay
    >>> X, y = make_three_ranks(80, random_state=0)
    >>> model = OrdinalGPClassifier().fit(X[:40], y[:40])
    >>> display = CalibrationDisplay.from_estimator(model, X[40:], y[40:])
    >>> display.figure_.savefig("calibration.png")  # doctest: +SKIP
    """

    predicted: list[FloatArray]
    observed: list[FloatArray]
    sizes: list[IntArray]
    names: list[str]
    kind: str
    points_: Any = field(default=None, init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        kind: str = "level",
        n_groups: int = 5,
        ax: Any = None,
    ) -> Self:
        """Predict rows and compare with their levels.

        Parameters
        ----------
        estimator : fitted estimator or pipeline
            A classifier of ordered levels.
        X : array-like of shape (n_samples, n_features)
            Rows that the estimator was not fitted to.
        y : array-like of shape (n_samples,)
            Their levels.
        kind : {"level", "cumulative"}, default="level"
            Probability of each level, or of that level or a lower one.
        n_groups : int, default=5
            Number of groups of rows for each level.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        """
        base.last_step(estimator)
        order = model_order(estimator)
        p = category_proba(estimator, X, order)
        return cls.from_predictions(y, p, order, kind=kind, n_groups=n_groups, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y: Any,
        probabilities: Any,
        categories: Any,
        *,
        kind: str = "level",
        n_groups: int = 5,
        ax: Any = None,
    ) -> Self:
        """Compare probabilities with the levels that occurred.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Levels that occurred.
        probabilities : array-like of shape (n_samples, n_categories)
            Probability of every level, columns in the order of ``categories``.
        categories : sequence
            Levels from lowest to highest.
        kind : {"level", "cumulative"}, default="level"
            Probability of each level, or of that level or a lower one.
        n_groups : int, default=5
            Number of groups of rows for each level.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        """
        check_option("kind", kind, ("level", "cumulative"))
        check_whole("n_groups", n_groups, least=1)
        order = np.asarray(categories)
        codes, p = probability_ranks(y, probabilities, order)
        happened = codes[:, None] == np.arange(len(order))
        names = [str(level) for level in order.tolist()]
        if kind == "cumulative":  # the highest is certain
            p, happened = p.cumsum(axis=1)[:, :-1], happened.cumsum(axis=1)[:, :-1]
            names = [f"{name} or lower" for name in names[:-1]]
        groups = [_groups(p[:, k], happened[:, k], n_groups) for k in range(p.shape[1])]
        predicted, observed, sizes = (list(part) for part in zip(*groups, strict=True))
        return cls(predicted, observed, sizes, names, kind).plot(ax=ax)

    def _draw(self, ax: Any) -> None:
        ax.plot([0, 1], [0, 1], color="0.4", ls="--", lw=1, zorder=1)
        self.points_ = []
        marks = base.level_marks(len(self.names))
        series = zip(marks, self.predicted, self.observed, self.sizes, self.names, strict=True)
        for (color, marker), p, share, size, name in series:
            low, high = _interval(share, size)
            style = {"marker": marker, "mec": "black", "ms": 7, "lw": 1.2}
            bars = np.maximum([share - low, high - share], 0)
            drawn = ax.errorbar(
                p, share, bars, color=color, label=base.literal(name), elinewidth=0.9, **style
            )
            self.points_.append(drawn)
        what = "level or a lower one" if self.kind == "cumulative" else "level"
        ax.set(xlabel=f"predicted probability of the {what}", ylabel="observed frequency")
        # Not of equal aspect: a square beside a legend leaves its label outside the figure.
        ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
        base.legend_beside(ax)


def _groups(
    p: FloatArray, happened: NDArray[Any], n_groups: int
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Mean probability, share and size of groups of rows, the least probable first."""
    parts = np.array_split(np.argsort(p, kind="stable"), max(1, min(n_groups, len(p))))
    return (
        np.array([p[part].mean() for part in parts]),
        np.array([happened[part].mean() for part in parts]),
        np.array([len(part) for part in parts]),
    )


def _interval(share: FloatArray, size: IntArray) -> tuple[FloatArray, FloatArray]:
    """Wilson's interval of a share, which stays between 0 and 1 even for few rows."""
    middle = (share + _Z**2 / (2 * size)) / (1 + _Z**2 / size)
    spread = share * (1 - share) / size + _Z**2 / (4 * size**2)
    half = _Z * np.sqrt(spread) / (1 + _Z**2 / size)
    return middle - half, middle + half


@dataclass(eq=False)
class ConfusionDisplay(base.Display):
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
            ax.add_patch(base.pyplot().Rectangle((k - 0.5, k - 0.5), 1, 1, **frame))
        names = base.literals(self.categories.tolist())
        ax.set_xticks(range(n), names)
        ax.set_yticks(range(n), names)
        shares = enumerate(self.distances)
        off = [f"{base.percent(part)} off by {k}" for k, part in shares if k and part]
        told = ", ".join([f"{self.distances[0]:.0%} correct", *off])
        ax.set(xlabel=f"predicted level\n({told})", ylabel="true level")


@dataclass(eq=False)
class IntervalDisplay(base.Display):
    """Intervals of levels: a bar per row, with its true level if that is known.

    Rows are ordered by their interval, lowest first, and of many rows some are drawn. A dot is a
    true level inside its interval, a cross one outside. The line below the plot gives the share of
    all rows inside, and the mean number of levels per interval. Make it with
    :meth:`from_estimator` or :meth:`from_intervals`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the plot, set by :meth:`plot`.

    Examples
    --------
    >>> from ordinalgp import OrdinalGPClassifier
    >>> from ordinalgp.datasets import make_three_ranks
    >>> from ordinalgp.plots import IntervalDisplay
    >>> X, y = make_three_ranks(80, random_state=0)
    >>> model = OrdinalGPClassifier().fit(X[:40], y[:40])
    >>> display = IntervalDisplay.from_estimator(model, X[40:], y[40:], coverage=0.8)
    >>> display.lower.shape, bool(display.inside > 0.7)
    ((40,), True)
    """

    lower: IntArray
    upper: IntArray
    codes: IntArray | None
    categories: NDArray[Any]
    n_rows: int

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        coverage: float = 0.9,
        n_rows: int = 60,
        ax: Any = None,
    ) -> Self:
        """Predict the intervals of rows.

        Parameters
        ----------
        estimator : fitted estimator or pipeline
            A classifier of ordered levels with ``predict_interval``.
        X : array-like of shape (n_samples, n_features)
            Rows that the estimator was not fitted to.
        y : array-like of shape (n_samples,), default=None
            Their levels, if known.
        coverage : float, default=0.9
            Share of rows whose interval should contain their level.
        n_rows : int, default=60
            Largest number of rows to draw.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        """
        model, inputs = base.last_step(estimator, X)
        intervals = model.predict_interval(inputs, coverage)
        return cls.from_intervals(intervals, y, model_order(estimator), n_rows=n_rows, ax=ax)

    @classmethod
    def from_intervals(
        cls, intervals: Any, y: Any, categories: Any, *, n_rows: int = 60, ax: Any = None
    ) -> Self:
        """Draw known intervals.

        Parameters
        ----------
        intervals : array-like of shape (n_samples, 2)
            Lowest and highest level of each row.
        y : array-like of shape (n_samples,) or None
            True levels, if known.
        categories : sequence
            Levels from lowest to highest.
        n_rows : int, default=60
            Largest number of rows to draw.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        """
        check_whole("n_rows", n_rows, least=1)
        order, ends = np.asarray(categories), np.asarray(intervals)
        lower, upper = label_ranks(ends[:, 0], ends[:, 1], order)
        codes = None if y is None else label_ranks(y, ends[:, 0], order)[0]
        return cls(lower, upper, codes, order, n_rows).plot(ax=ax)

    @property
    def inside(self) -> float:
        """Share of rows whose true level is inside; NaN if levels are not known."""
        if self.codes is None:
            return float("nan")
        return float(np.mean((self.lower <= self.codes) & (self.codes <= self.upper)))

    def _draw(self, ax: Any) -> None:
        n, order = len(self.lower), np.lexsort((self.upper, self.lower + self.upper))
        shown = order[np.unique(np.linspace(0, n - 1, min(n, self.n_rows)).astype(int))]
        at, low, high = np.arange(len(shown)), self.lower[shown], self.upper[shown]
        ax.bar(at, high - low + 0.7, 0.75, low - 0.35, color="#a6c8e4", zorder=2, label="interval")
        if self.codes is not None:
            true = self.codes[shown]
            covered = (low <= true) & (true <= high)
            marks = {"linestyle": "none", "zorder": 3}
            inside, outside = ((at[rows], true[rows]) for rows in (covered, ~covered))
            ax.plot(*inside, "o", ms=4, color="#14324d", label="true level", **marks)
            ax.plot(*outside, "X", ms=8, color="#b3261e", mec="white", label="outside", **marks)
        ax.set_yticks(range(len(self.categories)), base.literals(self.categories.tolist()))
        for edge in range(len(self.categories) - 1):
            ax.axhline(edge + 0.5, color="0.85", lw=0.8, zorder=1)
        told = f"{np.mean(self.upper - self.lower + 1):.2f} levels per interval"
        told = told if self.codes is None else f"{base.percent(self.inside)} inside, {told}"
        rows = f"{len(shown)} of {n} rows" if len(shown) < n else f"{n} rows"
        ax.set(xlabel=f"{rows}, ordered by interval\n(all rows: {told})", ylabel="level", xticks=[])
        ax.set(xlim=(-1, len(shown)), ylim=(-0.6, len(self.categories) - 0.4))
        base.legend_beside(ax)
