"""Plots of preference models: ranking, matrix of comparisons, and learning curve."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from scipy.special import ndtri
from sklearn.base import clone
from sklearn.utils import check_random_state

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.plots.base import Display, like, literal, literals, percent, pyplot, rows_of
from ordinalgp.preference.comparisons import check_comparisons, check_items, encode_outcomes


def _best(
    estimator: Any, X: Any, names: Any, n_best: int, **options: Any
) -> tuple[Any, IntArray, list[str]]:
    """Ranking of all items, and rows and names of the best ones."""
    ranking = estimator.rank(X, **options)
    top = ranking.order[:n_best]
    chosen = ranking.items[:n_best] if names is None else np.asarray(names, dtype=object)[top]
    return ranking, top, [str(name) for name in chosen]


@dataclass(eq=False)
class RankingDisplay(Display):
    """Items from best to worst, with intervals of utility and rank.

    The columns beside the axes are the probability of being the best, and the interval of the
    rank. Utilities are relative to the average of all items, because comparisons do not determine
    their common level. Make it with :meth:`from_estimator`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the plot, set by :meth:`plot`.
    intervals_ : matplotlib ErrorbarContainer
        Points and intervals, best first.

    Examples
    --------
    >>> from ordinalgp import PreferenceGP
    >>> from ordinalgp.plots import RankingDisplay
    >>> teams = ["Ajax", "Bayern", "Celtic"]
    >>> model = PreferenceGP("independent", noise=1.0, random_state=0)
    >>> model = model.fit(teams, [("Ajax", "Bayern"), ("Bayern", "Celtic"), ("Ajax", "Celtic")])
    >>> display = RankingDisplay.from_estimator(model, teams)
    >>> display.names
    ['Ajax', 'Bayern', 'Celtic']
    """

    names: list[str]
    mean: FloatArray
    half_width: FloatArray
    best_proba: FloatArray
    ranks: list[str]
    """interval of the rank of each item, in words"""
    coverage: float
    intervals_: Any = field(default=None, init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        names: Sequence[Any] | None = None,
        n_best: int = 30,
        coverage: float = 0.9,
        ax: Any = None,
    ) -> Self:
        """Rank items and draw the best of them.

        Parameters
        ----------
        estimator : fitted PreferenceGP
            The model.
        X : array-like of shape (n_items, n_features)
            The items; names with ``kernel="independent"``.
        names : sequence of str, default=None
            Names of the items; None takes their own names, else row numbers.
        n_best : int, default=30
            Number of items to show.
        coverage : float, default=0.9
            Posterior probability of each interval.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        """
        ranking, top, shown = _best(estimator, X, names, n_best, coverage=coverage)
        mean, covariance = estimator.latent_mean_and_covariance(X)
        centre = np.eye(len(mean))[top] - 1 / len(mean)
        sd = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", centre, covariance, centre), 0.0))
        width = ndtri(0.5 + coverage / 2) * sd
        relative = mean[top] - mean.mean()
        best = ranking.best_proba[:n_best]
        places = zip(ranking.rank_low[:n_best], ranking.rank_high[:n_best], strict=True)
        ranks = [f"{low}–{high}" if low < high else str(low) for low, high in places]
        return cls(shown, relative, width, best, ranks, coverage).plot(ax=ax)

    def _draw(self, ax: Any) -> None:
        place = np.arange(len(self.names))
        style = {"fmt": "o", "color": "black", "ms": 5, "capsize": 3, "lw": 1}
        self.intervals_ = ax.errorbar(self.mean, place, xerr=self.half_width, **style)
        beside = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": "small"}
        for row, (p, ranks) in enumerate(zip(self.best_proba, self.ranks, strict=True)):
            ax.text(1.01, row, percent(p), **beside)
            ax.text(1.12, row, ranks, **beside)
        ax.text(1.01, -0.9, "best", **beside)
        ax.text(1.12, -0.9, "ranks", **beside)
        ax.set_yticks(place, literals(self.names))
        ax.set_ylim(len(self.names) - 0.5, -0.5)
        ax.set_xlabel(f"utility minus the average ({self.coverage:.0%} intervals)")
        ax.grid(axis="y", alpha=0.3)


@dataclass(eq=False)
class ComparisonDisplay(Display):
    """Probability that each item is preferred to each other, best items first.

    Make it with :meth:`from_estimator`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the plot, set by :meth:`plot`.
    image_ : matplotlib AxesImage
        The matrix.

    Examples
    --------
    >>> from ordinalgp import PreferenceGP
    >>> from ordinalgp.plots import ComparisonDisplay
    >>> teams = ["Ajax", "Bayern", "Celtic"]
    >>> model = PreferenceGP("independent", noise=1.0)
    >>> model = model.fit(teams, [("Ajax", "Bayern"), ("Bayern", "Celtic"), ("Ajax", "Celtic")])
    >>> display = ComparisonDisplay.from_estimator(model, teams)
    >>> bool(display.proba[0, 2] > 0.7)
    True
    """

    names: list[str]
    proba: FloatArray
    level: str
    image_: Any = field(default=None, init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        names: Sequence[Any] | None = None,
        n_best: int = 30,
        level: Any = None,
        ax: Any = None,
    ) -> Self:
        """Compute the probability of one level for all pairs, and draw it.

        Parameters
        ----------
        estimator : fitted PreferenceGP
            The model.
        X : array-like of shape (n_items, n_features)
            The items; names with ``kernel="independent"``.
        names : sequence of str, default=None
            Names of the items; None takes their own names, else row numbers.
        n_best : int, default=30
            Number of items to show.
        level : one of ``estimator.levels_``, default=None
            Outcome to show; None sums all in which the row is preferred to the column.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        """
        ranking, top, shown = _best(estimator, X, names, n_best)
        levels = estimator.levels_.tolist()
        if level is None:
            columns, word = slice(-(len(levels) // 2), None), "preferred"
        elif level in levels:
            columns, word = slice(levels.index(level), levels.index(level) + 1), repr(level)
        else:
            raise ValueError(f"level must be one of {levels}, but {level!r} was given.")
        apart = ~np.eye(len(top), dtype=bool)
        named = estimator.kernel == "independent"
        items = ranking.items[:n_best] if named else rows_of(X)[top]
        sides = (items[side] if named else like(X, items[side]) for side in np.nonzero(apart))
        found = estimator.comparison_proba(*sides)
        table = np.column_stack([1 - found, found]) if found.ndim == 1 else found
        proba = np.full((len(top), len(top)), np.nan)
        proba[apart] = table[:, columns].sum(axis=1)
        return cls(shown, proba, word).plot(ax=ax)

    def _draw(self, ax: Any) -> None:
        n = len(self.names)
        self.image_ = ax.imshow(self.proba, cmap="viridis", vmin=0, vmax=1)
        if n <= 12:
            for (i, j), p in np.ndenumerate(self.proba):
                if i != j:
                    color = "white" if p < 0.6 else "black"
                    ax.text(j, i, f"{p:.2f}".removeprefix("0"), ha="center", va="center", c=color)
        ax.set_xticks(range(n), literals(self.names), rotation=90)
        ax.set_yticks(range(n), literals(self.names))
        what = (
            "P(row preferred to column)"
            if self.level == "preferred"
            else f"P({literal(self.level)})"
        )
        ax.figure.colorbar(self.image_, ax=ax, label=what)


@dataclass(eq=False)
class ComparisonCurveDisplay(Display):
    """Learning curve: error rate on held-out comparisons against the number of comparisons.

    Plot in the style of Figure 2 of Wang and McKenna (2010). Make it with
    :meth:`from_estimator`, or from errors of shape (n_sizes, n_repetitions).

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the plot, set by :meth:`plot`.
    line_ : matplotlib Line2D
        Mean error against the number of comparisons.

    Examples
    --------
    >>> from ordinalgp import PreferenceGP
    >>> from ordinalgp.datasets import make_sine_comparisons
    >>> from ordinalgp.plots import ComparisonCurveDisplay
    >>> X, comparisons = make_sine_comparisons(60, random_state=0)
    >>> model = PreferenceGP(random_state=0)
    >>> display = ComparisonCurveDisplay.from_estimator(model, X, comparisons, sizes=[5, 40])
    >>> bool(display.errors[1].mean() < display.errors[0].mean())
    True
    """

    sizes: IntArray
    errors: FloatArray
    label: str | None = None
    line_: Any = field(default=None, init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        comparisons: Any,
        outcomes: Any = None,
        *,
        sizes: Sequence[int] | None = None,
        n_repetitions: int = 5,
        label: str | None = None,
        ax: Any = None,
    ) -> Self:
        """Fit clones of the model to random parts of the comparisons, and test on the rest.

        Parameters
        ----------
        estimator : PreferenceGP
            The model, fitted or not; its ``random_state`` draws the parts.
        X, comparisons, outcomes
            As for ``PreferenceGP.fit``.
        sizes : sequence of int, default=None
            Numbers of comparisons to train on; None takes six up to 80 % of all.
        n_repetitions : int, default=5
            Number of random orders; a longer training part contains the shorter ones.
        label : str, default=None
            Name in the legend.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        """
        pyplot()  # fails before the models are fitted
        names = check_items(X) if estimator.kernel == "independent" else None
        n_items = len(np.asarray(X)) if names is None else len(names)
        pairs = check_comparisons(comparisons, n_items, names)
        coded = encode_outcomes(outcomes, estimator.levels, len(pairs))
        labels, most = coded.levels[coded.codes], int(0.8 * len(pairs))
        grid = np.unique(np.geomspace(max(2, most // 30), most, 6).astype(int))
        counts = grid if sizes is None else np.asarray(sizes, dtype=np.intp)
        if counts.min() < 1 or counts.max() >= len(pairs):
            raise ValueError(
                f"sizes must be from 1 to {len(pairs) - 1}, so that some of the {len(pairs)} "
                f"comparisons are left to test on, but are {counts.tolist()}."
            )
        rng = check_random_state(estimator.random_state)
        model = clone(estimator).set_params(levels=coded.levels.tolist())
        errors = np.empty((len(counts), n_repetitions))
        for column in range(n_repetitions):
            order = rng.permutation(len(pairs))
            for row, size in enumerate(counts):
                train, test = order[:size], order[size:]
                fitted = clone(model).fit(X, pairs[train], labels[train])
                errors[row, column] = 1 - fitted.score(X, pairs[test], labels[test])
        return cls(counts, errors, label).plot(ax=ax)

    def _draw(self, ax: Any) -> None:
        mean = 100 * self.errors.mean(axis=1)
        sd = 100 * self.errors.std(axis=1)
        (self.line_,) = ax.plot(self.sizes, mean, "o-", ms=4, label=self.label)
        color = self.line_.get_color()
        ax.fill_between(self.sizes, mean - sd, mean + sd, color=color, alpha=0.2, lw=0)
        ax.set(xlabel="training comparisons", ylabel="error rate on other comparisons (%)")
        ax.set_ylim(bottom=0)
        if self.label:
            ax.legend()
