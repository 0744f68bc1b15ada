"""Plots of hyperparameters: their search, and length scales of features."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import FloatArray
from ordinalgp.kernels.relevance import relevance_shares
from ordinalgp.plots.base import (
    Display,
    classifier_of,
    feature_names_of,
    last_step,
    literals,
)

# Marker, colour and size of each kind of step; those of no kind are evaluations of a search.
_MARKS = {
    "evaluation": (".", "0.45", 5),
    "start": ("o", "black", 5),
    "add": ("^", "#1b7837", 5),
    "re-estimate": (".", "0.45", 5),
    "delete": ("v", "#b2182b", 5),
    "thresholds": ("x", "#b35806", 6),
    "linearise": ("+", "#542788", 7),
}


@dataclass(eq=False)
class EvidenceDisplay(Display):
    """Log evidence at every evaluation of the search, and the best so far.

    A search that converged ends in a plateau. A sparse model shows the steps of its training,
    marked by their kind (``moves``): functions enter, change or leave, thresholds move, and the
    likelihood is expanded again. Make it with :meth:`from_estimator`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the plot, set by :meth:`plot`.
    line_ : matplotlib Line2D
        The best so far.

    Examples
    --------
    >>> from ordinalgp import OrdinalGPClassifier
    >>> from ordinalgp.datasets import make_three_ranks
    >>> from ordinalgp.plots import EvidenceDisplay
    >>> model = OrdinalGPClassifier().fit(*make_three_ranks(40, random_state=0))
    >>> display = EvidenceDisplay.from_estimator(model)
    >>> bool(display.path[-1] > display.path[0])
    True
    """

    path: FloatArray
    moves: NDArray[np.str_] | None = None
    line_: Any = field(default=None, init=False)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw ``evidence_path_``, and ``evidence_moves_`` if there are any.

        Parameters
        ----------
        estimator : fitted estimator or pipeline
            Its last step has ``evidence_path_``.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        """
        model = classifier_of(last_step(estimator)[0])
        if not hasattr(model, "evidence_path_"):
            raise TypeError(
                f"{type(model).__name__} keeps no path of the log evidence. Draw its "
                "objective_path_, if it has one, with matplotlib."
            )
        if not len(model.evidence_path_):
            raise ValueError(
                "The model was fitted without a search (optimizer=None), so it has no path."
            )
        moves = getattr(model, "evidence_moves_", None)
        return cls(np.asarray(model.evidence_path_), moves).plot(ax=ax)

    def _draw(self, ax: Any) -> None:
        steps, best = np.arange(1, len(self.path) + 1), np.maximum.accumulate(self.path)
        kinds = np.full(len(steps), "evaluation") if self.moves is None else np.asarray(self.moves)
        for kind, (marker, color, size) in _MARKS.items():
            of = kinds == kind
            if of.any():
                ax.plot(steps[of], self.path[of], marker, color=color, ms=size, label=kind)
        (self.line_,) = ax.plot(steps, best, color="#00429d", lw=1.8, zorder=1, label="best so far")
        # Early steps may be far below; the plot shows the climb that follows.
        low = np.quantile(best, 0.05) if len(best) > 20 else self.path.min()
        margin = 0.08 * (best[-1] - low) or 1.0
        ax.set(ylim=(low - margin, best[-1] + margin))
        what = "evaluation of the search" if self.moves is None else "step of the training"
        ax.set(xlabel=what, ylabel="log evidence (natural log)")
        ax.legend(loc="lower right")


@dataclass(eq=False)
class RelevanceDisplay(Display):
    """Length scales of the features, as shares in the distance between rows (ARD).

    The distance is the sum of ``(x_j - x'_j)^2 / length_j^2``; a bar is the average share of
    feature j in it. With a linear kernel, its relevance takes the place of ``1 / length_j^2``.
    Shares describe the kernel. They do not say how much predictions depend on a feature: one with
    a long length scale can move them a lot, and noise can get a short one.
    :class:`ImportanceDisplay` shows what predictions lose. Make it with :meth:`from_estimator`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the plot, set by :meth:`plot`.
    bars_ : matplotlib BarContainer
        The bars, the shortest length scale on top.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from ordinalgp import OrdinalGPClassifier
    >>> from ordinalgp.datasets import make_three_ranks
    >>> from ordinalgp.plots import RelevanceDisplay
    >>> X, y = make_three_ranks(40, random_state=0)
    >>> model = OrdinalGPClassifier(RBF([1.0, 1.0])).fit(X, y)
    >>> display = RelevanceDisplay.from_estimator(model, X, feature_names=["left", "up"])
    >>> round(float(display.shares.sum()), 6)
    1.0
    """

    shares: FloatArray
    names: list[str]
    bars_: Any = field(default=None, init=False)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, feature_names: Any = None, ax: Any = None
    ) -> Self:
        """Compute the shares from the kernel and the spread of each feature.

        Parameters
        ----------
        estimator : fitted estimator or pipeline
            Its last step has a kernel with one length scale or relevance per feature. A model for
            tables shows the columns that its features belong to.
        X : array-like of shape (n_samples, n_features)
            Rows that show how much each feature varies.
        feature_names : sequence of str, default=None
            Names of the features that the last step gets; None takes those of ``X`` if it has any.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        """
        model, inputs = last_step(estimator, X)
        if hasattr(model, "encode"):
            inputs, names = model.encode(inputs), list(model.encoder_.groups)
            return cls._of(model.classifier_, inputs, names, model.encoder_.owner).plot(ax=ax)
        rows = np.asarray(inputs, dtype=float)
        same = np.shape(X)[1] == rows.shape[1]
        names = feature_names_of(X if same else rows, rows.shape[1], feature_names)
        return cls._of(model, rows, names).plot(ax=ax)

    @classmethod
    def _of(cls, model: Any, rows: FloatArray, names: list[str], owner: Any = None) -> Self:
        """Shares of the features, or of the columns that own them."""
        shares = relevance_shares(model.kernel_, rows.std(axis=0), owner)
        if shares is None:
            raise ValueError(
                f"The kernel {model.kernel_} treats all features alike. Fit with one length "
                "scale per feature, e.g. kernel=RBF([1.0] * n_features), or with ARDLinear."
            )
        return cls(shares, names)

    def _draw(self, ax: Any) -> None:
        order = np.argsort(self.shares, kind="stable")
        names = literals(self.names[place] for place in order)
        self.bars_ = ax.barh(range(len(order)), 100 * self.shares[order], color="#3b6ea5")
        ax.bar_label(self.bars_, [f"{share:.1%}" for share in self.shares[order]], padding=3)
        ax.set_yticks(range(len(order)), names)
        ax.tick_params(axis="y", length=0)
        ax.set(xlabel="length scales: share in the distance between rows (%)")
        ax.set(xlim=(0, 115 * float(self.shares.max() or 1)))
        ax.spines[["top", "right"]].set_visible(False)
