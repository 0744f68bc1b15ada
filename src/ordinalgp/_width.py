"""Width of the Gaussian kernel by evidence: a grid, refined around its best."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed

from ordinalgp._typing import FloatArray

_GRID = np.arange(-3.0, 4.0)  # powers of two around the starting width
_REFINEMENTS = (0.5, 0.25)
_FURTHEST = 10.0  # powers of two to either side, where the best keeps being at the grid's end


@dataclass(frozen=True, eq=False)
class WidthSearch:
    """Every width that was tried, ascending, with its log evidence."""

    widths: FloatArray
    values: FloatArray

    @property
    def best(self) -> float:
        """Width of the highest evidence; of equal ones the largest, which is the smoothest."""
        order = np.lexsort([self.widths, self.values])
        return float(self.widths[order[-1]])


def search_width(
    evidence: Callable[[float], float], start: float, n_jobs: int | None
) -> WidthSearch:
    """Maximise ``evidence(width)`` from ``start``, to a quarter of a power of two."""
    seen: dict[float, float] = {}

    def look(powers: FloatArray) -> float:
        new = [p for p in powers.tolist() if p not in seen and abs(p) <= _FURTHEST]
        found = Parallel(n_jobs=n_jobs)(delayed(evidence)(start * 2**p) for p in new)
        seen.update(zip(new, found, strict=True))
        return max(seen, key=lambda p: (seen[p], p))

    best = look(_GRID)
    while best in (min(seen), max(seen)) and abs(best) < _FURTHEST:
        best = look(np.array([best - 1, best + 1]))
    for step in _REFINEMENTS:
        best = look(np.array([best - step, best + step]))
    powers = np.sort(list(seen))
    return WidthSearch(start * 2**powers, np.array([seen[p] for p in powers]))
