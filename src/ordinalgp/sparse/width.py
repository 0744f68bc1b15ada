"""Width of a kernel by evidence: a grid, refined around its best."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from ordinalgp._typing import FloatArray

_FURTHEST = 6.0  # powers of two to either side, where the best keeps being at the grid's end


@dataclass(frozen=True, eq=False)
class WidthSearch:
    """Every width that was tried, ascending, with its log evidence, and the best one's model."""

    widths: FloatArray
    values: FloatArray
    best: float
    model: Any


def search_width(
    trial: Callable[[float], tuple[float, Any]],
    start: float,
    n_jobs: int | None,
    grid: Sequence[float],
    refinements: Sequence[float],
) -> WidthSearch:
    """Maximise the evidence over ``grid``, in powers of two of ``start``, and then around its best.

    The grid grows where its best is at an end; each of ``refinements`` is a step to both sides of
    the best so far. ``trial(width)`` returns the evidence and the model behind it. Of equal widths
    the largest is the best: it is the smoothest.
    """
    seen: dict[float, tuple[float, Any]] = {}

    def look(powers: Sequence[float]) -> float:
        new = [p for p in powers if p not in seen and abs(p) <= _FURTHEST]
        found = Parallel(n_jobs=n_jobs)(delayed(trial)(start * 2**p) for p in new)
        seen.update(zip(new, found, strict=True))
        return max(seen, key=lambda p: (seen[p][0], p))

    best = look(grid)
    while best in (min(seen), max(seen)) and abs(best) < _FURTHEST:
        best = look((best - 1, best + 1))
    for step in refinements:
        best = look((best - step, best + step))
    powers = sorted(seen)
    widths = np.array([start * 2**p for p in powers])
    values = np.array([seen[p][0] for p in powers])
    return WidthSearch(widths, values, start * 2**best, seen[best][1])
