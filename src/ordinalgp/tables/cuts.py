"""Cuts of a measured target into ordered levels."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ordinalgp._typing import FloatArray
from ordinalgp.tables.cells import BadInput

_SHOWN_ROWS = 5  # rows that a message names


@dataclass(frozen=True)
class Cuts:
    """Borders between levels; a value at a border belongs to the level below it."""

    borders: tuple[float, ...]

    @classmethod
    def at(cls, borders: Sequence[float]) -> "Cuts":
        """Cuts at borders that a user gives."""
        found = [float(border) for border in borders]
        if not found or not np.all(np.isfinite(found)) or np.any(np.diff(found) <= 0):
            shown = ", ".join(f"{border:g}" for border in found)
            raise BadInput(f"Borders between levels must be numbers that increase, not [{shown}].")
        return cls(tuple(found))

    @classmethod
    def equal(cls, values: FloatArray, n_levels: int) -> "Cuts":
        """Cuts into levels of about equally many values; fewer where many values are equal."""
        if n_levels < 2:
            raise BadInput(f"At least 2 levels are needed, but {n_levels} were asked for.")
        found, counts = np.unique(values, return_counts=True)
        if len(found) < 2:
            raise BadInput("All values are equal, so they cannot be cut into levels.")
        up_to = np.cumsum(counts)[:-1]
        wanted = len(values) * np.arange(1, n_levels) / n_levels
        places = np.unique([np.abs(up_to - share).argmin() for share in wanted])
        return cls(tuple(_shortest(found[place], found[place + 1]) for place in places))

    @property
    def levels(self) -> list[str]:
        """Names of the levels, from lowest to highest."""
        shown = [_written(border) for border in self.borders]
        inner = [f"{low} to {high}" for low, high in pairwise(shown)]
        return [f"<= {shown[0]}", *inner, f"> {shown[-1]}"]

    def labels(self, values: FloatArray) -> NDArray[Any]:
        """Level of each value."""
        return np.array(self.levels)[np.searchsorted(self.borders, values)]


def _shortest(low: float, high: float) -> float:
    """Number with the fewest digits that is at least ``low`` and below ``high``."""
    middle = low / 2 + high / 2
    for digits in range(1, 17):
        border = float(f"{middle:.{digits}g}")
        if low <= border < high:
            return border
    return float(low)


def _written(border: float) -> str:
    return repr(int(border)) if border.is_integer() and abs(border) < 1e15 else repr(border)


def cut_levels(
    values: ArrayLike, cut: int | None = None, *, cut_at: Sequence[float] | None = None
) -> tuple[NDArray[Any], list[str]]:
    """Cut measurements into ordered levels.

    Parameters
    ----------
    values : array-like of shape (n,)
        Finite numbers.
    cut : int, default=None
        Number of levels, each with about equally many values; fewer if many values are equal.
    cut_at : sequence of float, default=None
        Borders between levels, ascending. Give either ``cut`` or ``cut_at``.

    Returns
    -------
    labels : ndarray of shape (n,)
        Name of the level of each value. A value at a border belongs to the level below it.
    categories : list of str
        All names, from lowest to highest: the ``categories`` of a classifier.

    Examples
    --------
    >>> from ordinalgp.tables import cut_levels
    >>> labels, categories = cut_levels([3, 10, 12, 20, 31], cut_at=[10, 20, 30])
    >>> categories
    ['<= 10', '10 to 20', '20 to 30', '> 30']
    >>> labels.tolist()
    ['<= 10', '<= 10', '10 to 20', '10 to 20', '> 30']
    """
    if (cut is None) == (cut_at is None):
        raise BadInput("Give either cut, a number of levels, or cut_at, the borders between them.")
    found = np.asarray(values, dtype=float)
    if found.ndim != 1 or not len(found):
        raise BadInput(f"Values of shape (n,) are needed, but their shape is {found.shape}.")
    bad = np.flatnonzero(~np.isfinite(found))
    if len(bad):
        shown = ", ".join(str(row) for row in bad[:_SHOWN_ROWS])
        raise BadInput(f"{len(bad)} values are missing or infinite, at {shown}. Leave them out.")
    cuts = Cuts.equal(found, cut) if cut_at is None and cut is not None else Cuts.at(cut_at or [])
    return cuts.labels(found), cuts.levels
