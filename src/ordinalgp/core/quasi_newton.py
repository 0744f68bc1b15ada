"""A quasi-Newton search within bounds that begins with known curvatures.

L-BFGS-B has to find curvatures by steps. The objectives here know them nearly where the search
begins, see `curvature`. With these a search took half of the evaluations (15 data sets of 30 to
300 rows, kernels with up to 29 hyperparameters).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ordinalgp._typing import FloatArray

End = Literal["top", "steps", "line search"]
Value = tuple[float, FloatArray]
Objective = Callable[[FloatArray, float], Value]
"""value and gradient of what is minimised, at a place, with a precision of the gradient"""

_LONGEST = 1.0  # step of a hyperparameter, most of which are logarithms
_FLATTEST = 1e-3  # smallest curvature that is believed at the start, in units of the largest
_SUFFICIENT = 1e-4  # share of the promised fall that a step must bring
_HALVINGS = 20
_DAMPING = 0.2  # share of the known curvature along a step below which a new one is not believed
# Precision of gradients: that of the first, the coarsest, and by the square root of the relative
# gain that a step promises. On 28 data sets, coarser ones cost evaluations, and finer ones sweeps.
FIRST_PRECISION, _COARSEST, _PRECISION = 1e-3, 1e-2, 1e-2


@dataclass(frozen=True, eq=False)
class Minimum:
    """The end of a search."""

    curvature: FloatArray
    """approximate second derivatives at the end, (p, p), positive definite"""
    end: End
    message: str


def minimise(
    objective: Objective,
    x: FloatArray,
    first: Value,
    curvature: FloatArray,
    bounds: FloatArray,
    *,
    steps: int,
    gain: float,
) -> Minimum:
    """Minimise by BFGS steps from ``x``, where the value and gradient are ``first``.

    ``curvature`` approximates the second derivatives there. The search ends where a step brings,
    or promises, a smaller relative ``gain``.
    """
    (lower, upper), (value, gradient), B = bounds.T, first, definite(curvature)
    for _ in range(steps):
        room = np.maximum(lower - x, -_LONGEST), np.minimum(upper - x, _LONGEST)
        step = step_within(B, gradient, *room)
        slope, size = float(gradient @ step), max(1.0, abs(value))
        promise = -(slope + 0.5 * float(step @ B @ step)) / size
        if not promise > gain:
            return Minimum(B, "top", "converged: the next step promises too little")
        precision = min(_COARSEST, _PRECISION * np.sqrt(promise))
        share = 1.0
        for _ in range(_HALVINGS):
            place = np.clip(x + share * step, lower, upper)
            new, new_gradient = objective(place, precision)
            if new <= value + _SUFFICIENT * share * slope:
                break
            # The minimum of the parabola through value, slope and the new value.
            lowest = -0.5 * slope * share / ((new - value) / share - slope)
            share = min(max(lowest, 0.1 * share), 0.5 * share)
        else:
            return Minimum(B, "line search", "converged: no step brings a gain")
        B = updated(B, place - x, new_gradient - gradient)
        brought, x, value, gradient = (value - new) / size, place, new, new_gradient
        if brought <= gain:
            return Minimum(B, "top", "converged: the last step brought too little")
    return Minimum(B, "steps", "the number of steps is used up")


def definite(matrix: FloatArray) -> FloatArray:
    """A positive definite matrix near a symmetric one: absolute eigenvalues, none too small."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    values = np.abs(values)
    least = _FLATTEST * values.max() or 1.0
    return np.asarray((vectors * np.maximum(values, least)) @ vectors.T)


def updated(B: FloatArray, step: FloatArray, change: FloatArray) -> FloatArray:
    """Damped BFGS update (Procedure 18.2 of [Nocedal06]_): it stays positive definite.

    ``change`` is that of the gradient along the step.
    """
    before = B @ step
    known, found = float(step @ before), float(step @ change)
    if not known > 0:
        return B
    if found < _DAMPING * known:
        share = (1.0 - _DAMPING) * known / (known - found)
        change = share * change + (1.0 - share) * before
    new = float(step @ change)
    return B - np.outer(before, before) / known + np.outer(change, change) / new


def step_within(
    B: FloatArray, gradient: FloatArray, lower: FloatArray, upper: FloatArray
) -> FloatArray:
    """The step d that minimises gradient'd + d'Bd/2 within lower <= d <= upper.

    By active sets: what meets a bound is held there, and let go where its slope points inside.
    """
    step = np.zeros_like(gradient)
    free = ~(((lower >= 0) & (gradient > 0)) | ((upper <= 0) & (gradient < 0)))
    negligible = 1e-10 * np.abs(gradient).max()
    for _ in range(4 * len(gradient)):
        if free.any():
            pull = gradient[free] + B[np.ix_(free, ~free)] @ step[~free]
            step[free] = -np.linalg.solve(B[np.ix_(free, free)], pull)
            beyond = (step < lower) | (step > upper)
            if beyond.any():
                step = np.clip(step, lower, upper)
                free &= ~beyond
                continue
        slope = gradient + B @ step
        inward = np.where(step <= lower, -slope, np.where(step >= upper, slope, 0.0))
        inward[free] = 0.0
        if not inward.max(initial=0.0) > negligible:
            break
        free[np.argmax(inward)] = True
    return step
