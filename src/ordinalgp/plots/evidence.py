"""Log evidence during the search for hyperparameters, or during sparse training."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ordinalgp._typing import FloatArray
from ordinalgp.metrics.fitted import unwrap
from ordinalgp.plots.base import Display, pyplot

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
        pyplot()
        _, model = unwrap(estimator)
        check_is_fitted(model)
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
