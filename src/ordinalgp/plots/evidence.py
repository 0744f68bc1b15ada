"""The search for hyperparameters, evaluation by evaluation."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ordinalgp._typing import FloatArray
from ordinalgp.metrics.fitted import unwrap
from ordinalgp.plots.base import Display, pyplot


@dataclass(eq=False)
class EvidenceDisplay(Display):
    """The log evidence at every evaluation of the search, and the best so far.

    A search that settled ends in a plateau. Make it with :meth:`from_estimator`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the picture is, after :meth:`plot`.
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
    line_: Any = field(default=None, init=False)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw ``evidence_path_``.

        Parameters
        ----------
        estimator : fitted estimator or pipeline
            Its last step has ``evidence_path_``.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
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
            raise ValueError("The model was fitted without a search (optimizer=None): no path.")
        return cls(np.asarray(model.evidence_path_)).plot(ax=ax)

    def _draw(self, ax: Any) -> None:
        steps, best = np.arange(1, len(self.path) + 1), np.maximum.accumulate(self.path)
        ax.plot(steps, self.path, ".", color="0.45", ms=5, label="evaluation")
        (self.line_,) = ax.plot(steps, best, color="#00429d", lw=1.8, label="best so far")
        # Early steps may be far below; the picture is about the climb that follows.
        low = np.quantile(best, 0.05) if len(best) > 20 else self.path.min()
        margin = 0.08 * (best[-1] - low) or 1.0
        ax.set(ylim=(low - margin, best[-1] + margin))
        ax.set(xlabel="evaluation of the search", ylabel="log evidence (natural log)")
        ax.legend(loc="lower right")
