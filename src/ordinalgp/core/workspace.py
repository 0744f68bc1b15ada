"""Memory that one search uses again at every step."""

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from ordinalgp._typing import FloatArray


class Workspace:
    """Square arrays of one search in one thread, and the distances that stay the same.

    The system clears fresh memory page by page, which costs as much as several passes over
    it: at 1,000 rows a twentieth of an evaluation with its three matrices.
    """

    def __init__(self) -> None:
        self._matrices: dict[str, FloatArray] = {}
        self._X: Any = None
        self.preconditioner: Any = None
        """of the last posterior, which may help with the next"""

    def matrix(self, name: str, n: int) -> FloatArray:
        """The array of that name, (n, n), with whatever was left in it."""
        kept = self._matrices.get(name)
        if kept is None or len(kept) != n:
            kept = self._matrices[name] = np.empty((n, n))
        return kept

    def distances(self, X: Any) -> FloatArray:
        """Squared distances between the rows of ``X``, computed when X is another object."""
        if X is not self._X:
            rows = np.atleast_2d(np.asarray(X, dtype=float))
            cdist(rows, rows, "sqeuclidean", out=self.matrix("distances", len(rows)))
            self._X = X
        return self._matrices["distances"]


def matrix(workspace: Workspace | None, name: str, n: int) -> FloatArray:
    """The workspace's array of that name, or a new one where there is no workspace."""
    return np.empty((n, n)) if workspace is None else workspace.matrix(name, n)
