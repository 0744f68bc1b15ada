"""Extrapolation of warm starts along the path of a search."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ordinalgp._typing import FloatArray
from ordinalgp.core.gaussian import Sites
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

    steps: list[tuple[FloatArray, Any]] = field(default_factory=list)

    def add(self, theta: FloatArray, start: Any) -> None:
        """Remember an answer."""
        self.steps = [*self.steps[1 - _LENGTH :], (theta.copy(), start)]

    def start_at(self, theta: FloatArray, best: FloatArray | None, start: Any) -> Any:
        """Extrapolate from the start at ``best``, or return that start itself."""
        if best is None or not isinstance(start, Start) or _apart(theta, best):
            return start
        near = [step for step in self.steps if not _apart(step[0], best)]
        others = [step for step in near if step[1] is not start]
        if not others:
            return start
        moves = np.array([place - best for place, _ in others])
        gram = moves @ moves.T
        gram.flat[:: len(gram) + 1] *= 1.0 + _SHRINKAGE
        if not np.diagonal(gram).all():
            return start
        mix = np.linalg.solve(gram, moves @ (theta - best))
        mix *= min(1.0, _LARGEST_MIX / max(np.abs(mix).sum(), 1e-300))
        return _mixed(start, [other for _, other in others], mix)


def _apart(theta: FloatArray, best: FloatArray) -> bool:
    """Whether first-order changes mean nothing between two hyperparameters."""
    return bool(np.abs(theta - best).max() > _FARTHEST)


def _mixed(start: Start, others: list[Start], mix: FloatArray) -> Start:
    """The start plus a mixture of the differences to others."""
    rest = 1.0 - mix.sum()

    def total(own: FloatArray, theirs: list[FloatArray]) -> FloatArray:
        return rest * own + mix @ np.array(theirs)

    sites = start.sites
    tau = total(sites.tau, [other.sites.tau for other in others])
    nu = total(sites.nu, [other.sites.nu for other in others])
    kept = tau < _LEAST_SHARE * sites.tau
    found = Sites(np.where(kept, sites.tau, tau), np.where(kept, sites.nu, nu))
    return Start(found, total(start.weights, [other.weights for other in others]))
