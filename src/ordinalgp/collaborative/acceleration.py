"""Extrapolation of EM: the squared iterative method (SQUAREM) of Varadhan and Roland (2008).

Two steps of EM, r = x1 - x0 and then v = (x2 - x1) - r, show how fast it goes on. The point
x0 - 2 a r + a^2 v with a = -|r| / |v| is where it would be after many more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.linalg import lapack

from ordinalgp._typing import FloatArray, IntArray

_LONGEST = 64.0  # step -a
_ATTEMPTS = 4  # shorter steps, until the covariance is positive definite


@dataclass(frozen=True, eq=False)
class Point:
    """Parameters of EM."""

    mean: FloatArray
    covariance: FloatArray
    raters: FloatArray
    """theta of each rater, (J, p)"""
    center: FloatArray

    def along(self, steps: Sequence[float], r: "Point", v: "Point") -> Self:
        """The point this + 2 step r + step^2 v, with a step for each kind of parameters."""
        parts = (
            x + 2.0 * step * dx + step**2 * ddx
            for x, dx, ddx, step in zip(self.parts, r.parts, v.parts, steps, strict=True)
        )
        return type(self)(*parts)

    def minus(self, other: "Point") -> "Point":
        """Differences of all parameters."""
        return Point(*(a - b for a, b in zip(self.parts, other.parts, strict=True)))

    @property
    def parts(self) -> tuple[FloatArray, ...]:
        """All parameters."""
        return self.mean, self.covariance, self.raters, self.center

    def among(self, items: IntArray) -> "Point":
        """The parameters of some items."""
        block = self.covariance[np.ix_(items, items)]
        return Point(self.mean[items], block, self.raters, self.center)

    def is_above(self, floor: FloatArray | None) -> bool:
        """Whether the covariance is positive definite, less the floor."""
        left = self.covariance if floor is None else self.covariance - floor
        return bool(lapack.dpotrf(left, lower=1)[1] == 0)


def extrapolated(
    x0: Point, x1: Point, x2: Point, rated: IntArray, floor: FloatArray | None
) -> Point | None:
    """The point ahead of three successive ones; None if it is none, or no further than x2.

    Every kind of parameters has a step of its own: those of raters converge much faster than the
    covariance, and none goes back before x2. Steps are measured by items that were ``rated``. The
    covariance stays above the ``floor``, if there is one.
    """
    r = x1.minus(x0)
    v = x2.minus(x1).minus(r)
    pairs = zip(r.among(rated).parts, v.among(rated).parts, strict=True)
    sizes = [(np.linalg.norm(a), np.linalg.norm(b)) for a, b in pairs]
    steps = [float(np.clip(a / b, 1.0, _LONGEST)) if b > 0 else 1.0 for a, b in sizes]
    for _ in range(_ATTEMPTS):
        if max(steps) <= 1.0 + 1e-9:  # x2 itself
            return None
        found = x0.along(steps, r, v)
        if found.is_above(floor) and all(np.all(np.isfinite(part)) for part in found.parts):
            return found
        steps = [0.5 * (step + 1.0) for step in steps]
    return None
