"""Extrapolation of warm starts along the path of a search."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ordinalgp._typing import FloatArray
from ordinalgp.core.gaussian import Sites
from ordinalgp.core.linalg import solve_definite
from ordinalgp.core.problem import Start

_LENGTH = 10  # answers that are remembered
_SHRINKAGE = 1e-2  # of a coefficient, in units of its own step squared
_LARGEST_MIX = 3.0  # sum of the sizes of all coefficients
_FARTHEST = 2.0  # move of a hyperparameter, most of which are logarithms, that is followed
_LEAST_SHARE = 0.1  # of a precision, below which it is not trusted to have fallen


@dataclass(eq=False)
class Trail:
    """Hyperparameters that a search visited last, with the sites found there.

    To first order sites are linear in the hyperparameters. Ten steps of a search say how they
    change along all directions that it takes.
    """

    places: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    """the last one at the end, (k, p)"""
    answers: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    """sites and weights found there, one row for each place"""

    def add(self, theta: FloatArray, start: Any) -> None:
        """Remember an answer."""
        if isinstance(start, Start):
            answer = _row(start)
            first = self.answers.shape[1] != len(answer)
            kept = slice(0, 0) if first else slice(1 - _LENGTH, None)
            self.places = np.vstack([self.places.reshape(-1, len(theta))[kept], theta])
            self.answers = np.vstack([self.answers.reshape(-1, len(answer))[kept], answer])

    def start_at(self, theta: FloatArray, best: FloatArray | None, start: Any) -> Any:
        """Extrapolate from the start at ``best``, or return that start itself."""
        if best is None or not isinstance(start, Start) or np.abs(theta - best).max() > _FARTHEST:
            return start
        moves = self.places - best
        # Beyond the farthest, first-order changes mean nothing. The best itself has moved nowhere.
        moves[np.abs(moves).max(axis=1) > _FARTHEST] = 0.0
        gram = moves @ moves.T
        size = gram.diagonal().copy()
        gram.reshape(-1)[:: len(gram) + 1] += np.where(size > 0.0, _SHRINKAGE * size, 1.0)
        mix = solve_definite(gram, moves @ (theta - best))
        if mix is None:
            return start
        total = float(np.abs(mix).sum())
        mix *= min(1.0, _LARGEST_MIX / max(total, 1e-300))
        return _mixed(start, (1.0 - mix.sum()) * _row(start) + mix @ self.answers)


def _row(start: Start) -> FloatArray:
    return np.concatenate([start.sites.tau, start.sites.nu, start.weights])


def _mixed(start: Start, row: FloatArray) -> Start:
    """A start from its row, where precisions fell so far that they cannot be trusted, the old."""
    m, old = len(start.sites.tau), start.sites
    tau, nu = row[:m], row[m : 2 * m]
    kept = tau < _LEAST_SHARE * old.tau
    if kept.any():
        tau, nu = np.where(kept, old.tau, tau), np.where(kept, old.nu, nu)
    return Start(Sites(tau, nu), row[2 * m :])
