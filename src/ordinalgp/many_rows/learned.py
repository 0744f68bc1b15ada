"""Curvatures that the search of one stage hands to that of the next."""

from dataclasses import dataclass
from typing import Any, Self

from ordinalgp._typing import FloatArray
from ordinalgp.core.search import Limits, SearchResult


@dataclass(frozen=True, eq=False)
class Learned:
    """Hyperparameters that some rows favour, and the curvatures of their evidence there."""

    task: Any
    """with the kernel and the likelihood found"""
    curvature: FloatArray | None
    """minus the second derivatives, nearly, if the search kept any"""
    n_rows: float
    """number of rows, copies counted"""

    @classmethod
    def of(cls, task: Any, found: SearchResult, n_rows: float) -> Self:
        """Result of the search of a task, for the next stage."""
        return cls(task.at(found.theta), found.curvature, n_rows)

    def limits(self, steps: int, gain: float, n_rows: float) -> Limits:
        """Limits of a search with other rows, whose curvatures grow in proportion to these."""
        grown = None if self.curvature is None else n_rows / self.n_rows * self.curvature
        return Limits(steps, gain, grown)
