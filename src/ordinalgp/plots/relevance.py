"""Relevance of features."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ordinalgp._typing import FloatArray
from ordinalgp.kernels.relevance import relevance_shares
from ordinalgp.metrics.fitted import unwrap
from ordinalgp.plots.base import Display, feature_names_of, pyplot


@dataclass(eq=False)
class RelevanceDisplay(Display):
    """Relevance of each feature: its share in the distance between rows (ARD).

    With length scales, the distance is the sum of ``(x_j - x'_j)^2 / length_j^2``; a bar is the
    average share of feature j in it. A feature whose length scale is at its upper bound has
    no influence. Make it with :meth:`from_estimator`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the plot, set by :meth:`plot`.
    bars_ : matplotlib BarContainer
        The bars, the most relevant on top.

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
            Its last step has a kernel with one length scale or relevance per feature.
        X : array-like of shape (n_samples, n_features)
            Rows that show how much each feature varies.
        feature_names : sequence of str, default=None
            Names of the features that the last step gets; None takes those of ``X`` if it has any.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        """
        pyplot()
        transformers, model = unwrap(estimator)
        check_is_fitted(model)
        names_from = X
        for transformer in transformers:
            X = transformer.transform(X)
        rows = np.asarray(X, dtype=float)
        shares = relevance_shares(model.kernel_, rows.std(axis=0))
        if shares is None:
            raise ValueError(
                f"The kernel {model.kernel_} treats all features alike. Fit with one length "
                "scale per feature, e.g. kernel=RBF([1.0] * n_features), or with ARDLinear."
            )
        same = np.shape(names_from)[1] == rows.shape[1]
        names = feature_names_of(names_from if same else rows, rows.shape[1], feature_names)
        return cls(shares, names).plot(ax=ax)

    def _draw(self, ax: Any) -> None:
        order = np.argsort(self.shares, kind="stable")
        names = [self.names[place] for place in order]
        self.bars_ = ax.barh(range(len(order)), 100 * self.shares[order], color="#3b6ea5")
        ax.bar_label(self.bars_, [f"{share:.1%}" for share in self.shares[order]], padding=3)
        ax.set_yticks(range(len(order)), names)
        ax.tick_params(axis="y", length=0)
        ax.set(xlabel="relevance (% of the distance between rows)")
        ax.set(xlim=(0, 115 * float(self.shares.max() or 1)))
        ax.spines[["top", "right"]].set_visible(False)
