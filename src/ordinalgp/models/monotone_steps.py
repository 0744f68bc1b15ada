"""Monotone columns as virtual observations: a latent function never falls from knot to knot.

Riihimäki and Vehtari (2010) observe that derivatives are positive. Differences between neighbouring
knots say the same, ask for no derivative of the kernel, and are projections of latent values at
virtual rows, which inference takes as it takes any others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np

from ordinalgp._typing import FINITE, Axes, BoolArray, FloatArray, IntArray
from ordinalgp.core.likelihoods import OrdinalProbit, Smoothed, ThetaDerivatives
from ordinalgp.core.projections import Differences, Projection
from ordinalgp.kernels import PerColumn
from ordinalgp.persistence import saved_as

# Numbers of knots that are tried. EP counts what neighbouring steps have in common more than once:
# against Genz's integrals, the log prior probability of a column was too low by less than 0.1 with
# knots a length scale apart, by 0.15 at half of it, and by 0.6 at a quarter.
_KNOTS = (2, 3, 5, 9, 17)
_GRID = 49  # points along a column; 48 is a multiple of each number of knots less one
_LENGTHENINGS = 60  # by a quarter each: a factor of 600,000 in all
_UNEXPLAINED = 0.01  # largest share of variance that is left between knots
_FLAT = 1e-9  # share of the prior variance that counts as rounding
# Noise of a step, far below any difference; 0 would divide by zero where a variance vanishes.
_STEP = OrdinalProbit(1e-12, 0.0, np.empty(0))


@saved_as("monotone.steps")
@dataclass(frozen=True, eq=False)
class Steps:
    """Virtual rows along columns, and steps from one to another over which nothing falls."""

    rows: Annotated[FloatArray, Axes("V d", *FINITE)]
    """virtual rows, which differ in one column per step"""
    lower: Annotated[IntArray, Axes("S", 0, "V")]
    """row at which each step begins"""
    upper: Annotated[IntArray, Axes("S", 0, "V")]
    """row at which it ends, with a latent value that is no less"""

    @cached_property
    def column(self) -> IntArray:
        """Column of each step, (S,)."""
        return np.argmax(self.rows[self.lower] != self.rows[self.upper], axis=1)

    @property
    def differences(self) -> Differences:
        """Latent differences, as a projection of the values at the virtual rows."""
        return Differences(self.upper, self.lower, len(self.rows))

    def of_column(self, at: int) -> Self:
        """The steps along one column."""
        kept = self.column == at
        used, where = np.unique(
            np.concatenate([self.lower[kept], self.upper[kept]]), return_inverse=True
        )
        lower, upper = np.split(where.ravel(), 2)
        return replace(self, rows=self.rows[used], lower=lower, upper=upper)

    def knots(self, at: int) -> FloatArray:
        """Values of a column at its virtual rows, ascending."""
        ends = np.concatenate([self.lower, self.upper])[np.tile(self.column == at, 2)]
        return np.unique(self.rows[ends, at])

    def clipped(self, X: FloatArray) -> FloatArray:
        """Rows with the values of monotone columns moved to the nearest knot, if beyond all."""
        X = X.copy()
        for at in np.unique(self.column):
            knots = self.knots(at)
            X[:, at] = np.clip(X[:, at], knots[0], knots[-1])
        return X


def make_steps(columns: Sequence[tuple[int, int, FloatArray, FloatArray]]) -> Steps:
    """Steps between neighbours, of columns: each its place, its sign, a row, and its knots."""
    rows, lower, upper, n = [], [], [], 0
    for at, sign, row, knots in columns:
        rows.append(_along(row, at, knots))
        first = n + np.arange(len(knots) - 1)
        lower.append(first if sign > 0 else first + 1)
        upper.append(first + 1 if sign > 0 else first)
        n += len(knots)
    return Steps(
        np.vstack(rows), *(np.concatenate(part).astype(np.intp) for part in (lower, upper))
    )


def _along(row: FloatArray, at: int, values: FloatArray) -> FloatArray:
    """Copies of a row with other values of one column."""
    rows = np.tile(row, (len(values), 1))
    rows[:, at] = values
    return rows


def first_steps(kernel: Any, X: FloatArray, directions: IntArray) -> tuple[Any, Steps | None]:
    """Steps along each column with a direction, None where no column varies, and the kernel.

    Length scales so short that knots cannot follow the function are longer in this kernel.
    """
    columns = []
    for at in np.flatnonzero(directions).tolist():
        # Not a row of averages: where a value was filled in, another feature says so.
        row, values = X[np.argmax(X[:, at])], np.unique(X[:, at])
        if len(values) > 1:
            kernel = _smooth_enough(kernel, row, at, values)
            columns.append((at, int(directions[at]), row, values))
    found = [(at, sign, row, _knots(kernel, row, at, v)[0]) for at, sign, row, v in columns]
    return kernel, make_steps(found) if found else None


def _knots(kernel: Any, row: FloatArray, at: int, values: FloatArray) -> tuple[FloatArray, bool]:
    """Fewest knots from which the function follows in between, and whether it does.

    All values are the knots if these are fewer.
    """
    grid = np.linspace(values[0], values[-1], _GRID)
    K = kernel(_along(row, at, grid))
    C = K - K[:1] - K[:, :1] + K[0, 0]  # of differences from the first value
    for number in _KNOTS:
        kept = np.linspace(0, _GRID - 1, number).round().astype(np.intp)
        inner = kept[1:]
        solved = np.linalg.lstsq(C[np.ix_(inner, inner)], C[inner], rcond=1e-10)[0]
        left = np.diagonal(C) - np.einsum("ij,ij->j", C[inner], solved)
        if np.max(left) <= _UNEXPLAINED * np.max(np.diagonal(C)):
            return values if len(values) <= number else grid[kept], True
    return values if len(values) <= _KNOTS[-1] else grid[kept], False


def _smooth_enough(kernel: Any, row: FloatArray, at: int, values: FloatArray) -> Any:
    """The kernel with length scales that let the most knots follow a column's function."""
    longer = kernel
    for _ in range(_LENGTHENINGS):
        if _knots(longer, row, at, values)[1]:
            return longer
        theta, place = longer.theta.copy(), 0
        for each in longer.hyperparameters:
            size = 0 if each.fixed else each.n_elements
            if each.name.endswith("length_scale") and size:
                own = _own_scale(longer, each.name, at) if size > 1 else 0
                theta[place + own] += np.log(1.25)
            place += size
        longer = longer.clone_with_theta(theta)
    return kernel  # rough at every length


def _own_scale(kernel: Any, name: str, at: int) -> int:
    """Place of a feature's length scale, or its column's, among those of a hyperparameter."""
    own, part = at, kernel
    for step in name.split("__")[:-1]:
        if type(part) is PerColumn:
            own = int(part.columns()[at])
        part = getattr(part, step)
    return own


def with_knots(steps: Steps, added: Mapping[int, Sequence[float]]) -> Steps:
    """Steps with further knots, by column."""
    columns = []
    for at in np.unique(steps.column):
        first = np.flatnonzero(steps.column == at)[0]
        low, high = steps.rows[steps.lower[first]], steps.rows[steps.upper[first]]
        knots = np.union1d(steps.knots(at), added.get(int(at), []))
        columns.append((int(at), int(np.sign(high[at] - low[at])), low, knots))
    return make_steps(columns)


# ------------------------------------------------------------------------------ validation


def check_monotone(monotone: Any) -> None:
    """Raise unless this is None, or -1, 0 and 1 by the name or the place of a feature."""
    if monotone is None:
        return
    if isinstance(monotone, Mapping):
        named, values = all(isinstance(key, str) for key in monotone), list(monotone.values())
    else:
        named, values = np.ndim(monotone) == 1, np.ravel(np.asarray(monotone)).tolist()
    numbers = all(isinstance(v, int | float | np.number) and v in (-1, 0, 1) for v in values)
    if not named or not numbers:
        raise ValueError(
            "monotone must be None, a dict of feature names or an array with one number per "
            "feature: 1 (increasing), -1 (decreasing) or 0 (free), but is "
            f"{monotone!r:.80}. Use for example {{'age': 1}} or [1, 0, -1]."
        )


def directions(monotone: Any, n_features: int, names: Sequence[str]) -> IntArray:
    """-1, 0 or 1 for every feature."""
    found = np.zeros(n_features, dtype=np.intp)
    if monotone is None:
        return found
    if not isinstance(monotone, Mapping):
        if np.shape(monotone) != (n_features,):
            raise ValueError(
                f"monotone has {np.size(monotone)} numbers, but X has {n_features} features. Give "
                "one number per feature, 0 for those that are free."
            )
        return np.asarray(monotone, dtype=np.intp)
    unknown = [name for name in monotone if name not in names]
    if unknown:
        known = f"has the features {', '.join(names)}" if len(names) else "has no feature names"
        raise ValueError(
            f"monotone names {', '.join(map(repr, unknown))}, but X {known}. Give names of "
            "features, with X as a data frame, or an array with one number per feature."
        )
    for name, sign in monotone.items():
        found[list(names).index(name)] = int(sign)
    return found


def check_additive(kernel: Any, X: FloatArray, at: int) -> None:
    """Raise ValueError unless the prior gives a column a function of its own.

    Otherwise steps along the column would depend on the other columns, and a few virtual rows
    could not speak for all. A column that is constant wherever another one moves may share its
    function with it: that is how filled values and the mark of a missing one go together.
    """
    row = X[np.argmax(X[:, at])]
    ends = np.array([np.min(X[:, at]), np.max(X[:, at])])
    pair = _along(row, at, ends)
    white = not np.isfinite(X).all() or kernel(pair)[0, 0] != kernel(pair, pair)[0, 0]
    mixed = white or any(
        _interact(kernel, X, pair, other) for other in range(X.shape[1]) if other != at
    )
    if mixed:
        raise ValueError(
            f"monotone needs a kernel that adds up functions of single features, but {kernel} does "
            f"not for feature {at}. Use ordinalgp.kernels.Additive(), ARDLinear() or a sum of them."
        )


def _interact(kernel: Any, X: FloatArray, pair: FloatArray, other: int) -> bool:
    """Whether the difference between two rows depends on another column."""
    here, at = pair[0, other], int(np.argmax(pair[0] != pair[1]))
    elsewhere = X[:, other] != here
    if not elsewhere.any() or np.ptp(X[elsewhere, at]) == 0:
        return False
    far = X[np.argmax(np.abs(X[:, other] - here)), other]
    rows = np.vstack([pair, pair])
    rows[2:, other] = far
    K, signs = kernel(rows), np.array([-1.0, 1.0, 1.0, -1.0])
    return bool(signs @ K @ signs > _FLAT * np.max(np.diagonal(K)))


# ------------------------------------------------------------------------------ inference


@dataclass(frozen=True, eq=False)
class StepProjection:
    """Observations of real rows, then the steps between virtual ones."""

    real: Projection
    steps: Projection

    @property
    def shape(self) -> tuple[int, int]:
        """(M + S, N + V)."""
        (m, n), (s, v) = self.real.shape, self.steps.shape
        return m + s, n + v

    def apply(self, f: FloatArray) -> FloatArray:
        """Each part of f by its own projection."""
        n = self.real.shape[1]
        return np.concatenate([self.real.apply(f[:n]), self.steps.apply(f[n:])])

    def adjoint(self, u: FloatArray) -> FloatArray:
        """Each part of u by its own projection."""
        m = self.real.shape[0]
        return np.concatenate([self.real.adjoint(u[:m]), self.steps.adjoint(u[m:])])

    def scatter(self, tau: FloatArray) -> FloatArray:
        """The two parts, on the diagonal."""
        (m, n), v = self.real.shape, self.steps.shape[1]
        out = np.zeros((n + v, n + v))
        out[:n, :n], out[n:, n:] = self.real.scatter(tau[:m]), self.steps.scatter(tau[m:])
        return out

    @cached_property
    def distinct(self) -> tuple[Projection, IntArray | None]:
        """Real observations of one latent value share a projection; all steps differ."""
        real, where = self.real.distinct
        if where is None:
            return self, None
        steps = real.shape[0] + np.arange(self.steps.shape[0])
        return StepProjection(real, self.steps), np.concatenate([where, steps])


@dataclass(frozen=True, eq=False)
class StepLikelihood:
    """The likelihood of levels for real observations, and that of u > 0 for steps."""

    levels: Any
    is_step: BoolArray

    @property
    def theta(self) -> FloatArray:
        """Parameters of the levels' likelihood: steps have none."""
        return np.asarray(self.levels.theta)

    @property
    def bounds(self) -> FloatArray:
        """Search bounds of theta."""
        return np.asarray(self.levels.bounds)

    def clone_with_theta(self, theta: FloatArray) -> Self:
        """Return the same likelihood with other parameters."""
        return replace(self, levels=self.levels.clone_with_theta(theta))

    def of_rows(self, rows: Any) -> Self:
        """The likelihood of some observations."""
        return replace(self, is_step=self.is_step[rows])

    def log_expectation(self, y: IntArray, mean: FloatArray, var: FloatArray) -> Smoothed:
        """Log E[p(y|u)] of each observation, by its kind."""
        names, out = ("value", "d1", "d2", "d3"), np.empty((4, len(y)))
        for part, kept in ((self.levels, ~self.is_step), (_STEP, self.is_step)):
            found = part.log_expectation(y[kept], mean[kept], var[kept])
            out[:, kept] = [getattr(found, name) for name in names]
        return Smoothed(*out)

    def theta_derivatives(
        self, y: IntArray, mean: FloatArray, var: FloatArray, known: Smoothed | None = None
    ) -> ThetaDerivatives:
        """Derivatives of the levels' likelihood, and zeros."""
        real, out = ~self.is_step, np.zeros((3, len(self.theta), len(y)))
        found = self.levels.theta_derivatives(y[real], mean[real], var[real])
        out[:, :, real] = found.value, found.d1, found.d2
        return ThetaDerivatives(*out)


def only_steps(n: int) -> StepLikelihood:
    """The likelihood of steps alone."""
    return StepLikelihood(OrdinalProbit(1.0, 0.0, np.empty(0)), np.ones(n, dtype=bool))
