"""Plot of the importance of a table's columns."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ordinalgp._typing import FloatArray
from ordinalgp.plots.base import Display, literals

_MOST_BARS = 25  # more names do not fit beside each other


@dataclass(eq=False)
class ImportanceDisplay(Display):
    """Importance of each column: rise of the log score when the column is shuffled.

    The rows are predicted by models that have not seen them. Error bars are two standard errors to
    either side; a bar whose error bar reaches zero may be chance. Columns that tell the same stand
    in for each other, so that each is lower than it would be alone. Make it with
    :meth:`from_estimator`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the plot, set by :meth:`plot`.
    bars_ : matplotlib BarContainer
        The bars, the most important on top. Of more than 25 columns, the first 25 are drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from ordinalgp.plots import ImportanceDisplay
    >>> from ordinalgp.tables import TableModel
    >>> rng = np.random.default_rng(0)
    >>> table = {"hours": rng.normal(size=60), "shoe size": rng.normal(size=60)}
    >>> grades = np.digitize(table["hours"], [-0.5, 0.5])
    >>> model = TableModel(kernel="rbf", folds=3).fit(table, grades)
    >>> display = ImportanceDisplay.from_estimator(model)
    >>> bool(display.mean[0] > display.mean[1])
    True
    """

    mean: FloatArray
    standard_error: FloatArray
    names: list[str]
    bars_: Any = field(default=None, init=False)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw ``importance_`` of a table model that was fitted with folds.

        Parameters
        ----------
        estimator : TableModel
            Fitted with ``folds``.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        """
        check_is_fitted(estimator)
        found = getattr(estimator, "importance_", None)
        if found is None:
            raise ValueError(
                f"{type(estimator).__name__} has no importance_, which is measured on rows that a "
                "model has not seen. Fit TableModel(..., folds=5)."
            )
        return cls(found.mean, found.standard_error, list(found.columns)).plot(ax=ax)

    def _draw(self, ax: Any) -> None:
        order = np.argsort(self.mean, kind="stable")[-_MOST_BARS:]
        mean, reach = self.mean[order], 2 * self.standard_error[order]
        places = range(len(order))
        style = {"color": "#3b6ea5", "ecolor": "0.25", "capsize": 3, "error_kw": {"lw": 1.2}}
        self.bars_ = ax.barh(places, mean, xerr=reach, **style)
        ax.axvline(0, color="0.3", lw=0.8)
        ax.set_yticks(places, literals(self.names[place] for place in order))
        ax.tick_params(axis="y", length=0)
        ax.set(xlabel="rise of the log score when shuffled (± 2 standard errors)")
        ax.spines[["top", "right", "left"]].set_visible(False)
