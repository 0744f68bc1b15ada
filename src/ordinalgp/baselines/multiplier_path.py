"""Sums of margins, solved exactly by following the multipliers as rows join or leave.

The model of [Gu15]_ has a margin rho_j of its own around every cut b_j and maximises their sum:

    min  |w|^2 / 2 - 2 sum_j rho_j + sum_k c_k max(0, rho_j - s_k (f_k - b_j)),    rho_j >= 0.

The extended training set has two rows k for an input between two cuts: above the lower one,
s = 1, and below the upper one, s = -1. With Q_kl = s_k s_l K(x_k, x_l) the dual problem is

    min  a'Qa / 2,   0 <= a_k <= c_k,   sum_k s_k a_k = 0 and sum_k a_k >= 2 over the rows of a cut.

The equality and the inequality of a cut together say that both its sides have the sum 1 + e_j
with e_j >= 0. So e_j is one more multiplier, without a kernel, and what remains is a problem with
bounds and equalities A a = 1. With tau_g = s_g (b_j + s_g rho_j) for side g of cut j, the
conditions of a solution concern the margins

    g_k = s_k f_k - tau_g of a row,       g_j = tau_above + tau_below = 2 rho_j of e_j:

g >= 0 where a multiplier is 0 ("remaining"), g = 0 between its bounds ("margin"), and g <= 0 at
its upper bound ("error").

One multiplier at a time, the driven one, moves until it fulfils its condition too, or reaches a
given value. The margin set M answers so that its g and all sums stay as they are,

    [ 0     A_M  ] [-d tau]       [ A_c  ]
    [ A_M'  Q_MM ] [ d a_M]  =  - [ Q_Mc ] d a_c,

up to the point where a multiplier of M reaches a bound and leaves, or the g of another row
reaches zero and joins. The inverse of this bordered matrix is carried from set to set. It has a
border only for sides that rows of M determine. Where the driven row's own side has none, nothing
can balance its multiplier: then the free tau moves alone until a row joins.
"""

from copy import copy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ordinalgp._typing import FloatArray, IntArray

REMAINING, MARGIN, ERROR, OPEN, ABSENT = range(5)
# A condition holds to a share of the largest latent value and one of k(x, x). With 1e-12 for the
# second, 2 of 300 small random problems circled; with 1e-11 and 1e-10 none.
_ZERO_MARGIN, _ROUNDING = 1e-10, 1e-11
_ZERO_RATE = 1e-11  # times the fastest change: a margin that does not move
_DEPENDENT_SHARE = 1e-10  # of k(x, x), below which a row's kernel function is another's
_AT_BOUND = 1e-9  # of its upper bound, within which a multiplier is at one
_INEXACT = 1e-9  # relative residual, from which the inverse is computed anew
_LOST = 1e-5  # the same with the new inverse: no digits are left
_FEASIBLE = 1e-8  # by which multipliers may miss sums and bounds after the path settled
_DRIFT = 1e-12  # of margins in M, from which they are corrected
_REFRESH_EVERY = 200  # driven multipliers, after which latent values are computed anew
_MOST_ROUNDS = 5  # of open multipliers
_MOST_EVENTS = 2  # per row, for one driven multiplier, and some more


class PathFailure(RuntimeError):
    """A driven multiplier did not arrive: a cycle, or numbers that are not finite."""


class KernelColumns:
    """Kernel values between inputs that have had a multiplier and all inputs; both only grow.

    ``nugget`` is added to the value of each input with itself.
    """

    def __init__(self, kernel: Any, inputs: FloatArray, nugget: float) -> None:
        self.kernel, self.n_inputs, self.nugget = kernel, len(inputs), nugget
        self._inputs = inputs.copy()
        self._values = np.empty((0, len(inputs)))
        self._used: list[int] = []
        self._place: dict[int, int] = {}

    @property
    def inputs(self) -> FloatArray:
        """All inputs, (N, d)."""
        return self._inputs[: self.n_inputs]

    @property
    def used(self) -> IntArray:
        """Inputs with known columns, in the order of :meth:`values`."""
        return np.array(self._used, dtype=np.intp)

    @property
    def values(self) -> FloatArray:
        """Known columns, one per row of the result, (n_used, N)."""
        return self._values[: len(self._used), : self.n_inputs]

    def append(self, inputs: FloatArray) -> None:
        """Take in more inputs."""
        first, self.n_inputs = self.n_inputs, self.n_inputs + len(inputs)
        if self.n_inputs > len(self._inputs):
            self._grow(len(self._values), 2 * self.n_inputs)
        self._inputs[first : self.n_inputs] = inputs
        if self._used:
            new = self.kernel(self._inputs[self._used], inputs)
            self._values[: len(self._used), first : self.n_inputs] = new

    def need(self, some: IntArray) -> None:
        """Compute the columns of some inputs unless they are known."""
        new = [i for i in dict.fromkeys(some.tolist()) if i not in self._place]
        if not new:
            return
        first = len(self._used)
        self._place.update(zip(new, range(first, first + len(new)), strict=True))
        self._used.extend(new)
        if len(self._used) > len(self._values):
            self._grow(2 * len(self._used), len(self._inputs))
        self._values[first : len(self._used), : self.n_inputs] = self.kernel(
            self.inputs[new], self.inputs
        )
        self._values[np.arange(first, len(self._used)), new] += self.nugget

    def column(self, one: int) -> FloatArray:
        """Kernel values between one input and all, (N,)."""
        self.need(np.array([one]))
        return self._values[self._place[one], : self.n_inputs]

    def block(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Kernel values between some inputs with columns and some others."""
        self.need(rows)
        places = np.array([self._place[i] for i in rows.tolist()], dtype=np.intp)
        return self._values[np.ix_(places, columns)]

    def sum(self, some: IntArray, weights: FloatArray) -> FloatArray:
        """Weighted sum of the columns of some inputs, (N,); inputs may repeat."""
        self.need(some)
        total = np.bincount([self._place[i] for i in some.tolist()], weights, len(self._used))
        wanted = np.flatnonzero(total)
        if 3 * len(wanted) < len(self._used):
            return np.asarray(total[wanted] @ self.values[wanted])
        return np.asarray(total @ self.values)

    def _grow(self, n_used: int, n_inputs: int) -> None:
        inputs = np.empty((n_inputs, self._inputs.shape[1]))
        inputs[: len(self._inputs)] = self._inputs
        values = np.empty((n_used, n_inputs))
        known = self._values[: len(self._used)]
        values[: len(known), : known.shape[1]] = known
        self._inputs, self._values = inputs, values


@dataclass
class BorderedInverse:
    """The bordered matrix of the margin set and its inverse.

    Entries are named by numbers: sides g as -1 - g, multipliers as themselves. Arrays are
    replaced, never changed, so that a copy is cheap.
    """

    names: list[int] = field(default_factory=list)
    matrix: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    inverse: FloatArray = field(default_factory=lambda: np.empty((0, 0)))

    def add(self, names: list[int], beside: FloatArray, corner: FloatArray) -> None:
        """Append entries with these columns, (n, k), and square, (k, k)."""
        H, n = self.inverse, len(self.names)
        HV = H @ beside
        last = np.linalg.inv(corner - beside.T @ HV)
        self.matrix = np.block([[self.matrix, beside], [beside.T, corner]])
        across = -HV @ last
        self.inverse = np.empty_like(self.matrix)
        self.inverse[:n, :n] = H - across @ HV.T
        self.inverse[:n, n:], self.inverse[n:, :n] = across, across.T
        self.inverse[n:, n:] = last
        self.names = [*self.names, *names]

    def remove(self, names: list[int]) -> None:
        """Delete entries."""
        out = np.array([self.names.index(name) for name in names], dtype=np.intp)
        kept = np.setdiff1d(np.arange(len(self.names)), out)
        cross, last = self.inverse[np.ix_(kept, out)], self.inverse[np.ix_(out, out)]
        self.inverse = self.inverse[np.ix_(kept, kept)] - cross @ np.linalg.solve(last, cross.T)
        self.matrix = self.matrix[np.ix_(kept, kept)]
        self.names = [self.names[i] for i in kept]

    def solve(self, right: FloatArray) -> FloatArray:
        """Solution for a right side, with one step of refinement.

        Where the inverse has drifted from the matrix it is computed anew.
        """
        solved = self.inverse @ right
        rest = right - self.matrix @ solved
        if len(rest) and np.abs(rest).max() > _INEXACT * np.abs(right).max():
            self.inverse = np.asarray(np.linalg.inv(self.matrix), dtype=float)
            solved = self.inverse @ right
            rest = right - self.matrix @ solved
            if not np.abs(rest).max() <= _LOST * np.abs(right).max():
                raise PathFailure("the margin set is singular")
        return np.asarray(solved + self.inverse @ rest)


class Direction(NamedTuple):
    """Change of everything per unit of a step."""

    members: IntArray
    alpha: FloatArray
    """of the margin set"""
    driven: float
    f: FloatArray
    tau: FloatArray


class MultiplierPath:
    """Multipliers of the sum-of-margins problem, and the moves that keep them a solution.

    Multiplier j < p is e_j; the rows of the extended training set follow. ``rows`` has their
    numbers, (M, 2), for each observation: above the cut below its level, and below the one above
    it; -1 where there is none.
    """

    def __init__(self, kernel: Any, n_cuts: int, inputs: FloatArray, nugget: float = 0.0) -> None:
        p = n_cuts
        self.n_cuts = p
        self.scale = float(np.max(kernel.diag(inputs)))
        self.columns = KernelColumns(kernel, inputs, nugget * self.scale)
        self.input = np.full(p, -1, dtype=np.intp)
        self.sign = np.zeros(p)
        self.side = np.arange(p) * 2  # of rows: 2 j below cut j, 2 j + 1 above it
        self.cap = np.full(p, np.inf)
        self.alpha = np.zeros(p)
        self.state = np.full(p, REMAINING, dtype=np.int8)
        self.f = np.zeros(len(inputs))
        self.tau = np.zeros(2 * p)
        self.bordered = BorderedInverse()
        self.rows = np.empty((0, 2), dtype=np.intp)
        self.n_events = self.n_driven = 0

    def copy(self) -> "MultiplierPath":
        """A path that can move on without this one; kernel columns are shared."""
        new = copy(self)
        for name in ("input", "sign", "side", "cap", "alpha", "state", "f", "tau"):
            setattr(new, name, getattr(self, name).copy())
        new.bordered = copy(self.bordered)
        new.n_events = 0
        return new

    # ------------------------------------------------------------------- rows

    def add_inputs(self, inputs: FloatArray) -> None:
        """Take in inputs without rows so far."""
        self.columns.append(inputs)
        used, beta = self._beta()
        new = np.arange(len(self.f), self.columns.n_inputs)
        values = beta @ self.columns.block(used, new) if len(used) else np.zeros(len(new))
        self.f = np.append(self.f, values)

    def add_rows(self, inputs: IntArray, cuts: IntArray, signs: FloatArray) -> IntArray:
        """Append rows of the extended set, with the bound 0 so far; their numbers."""
        n, k = len(self.alpha), len(inputs)
        self.input = np.append(self.input, inputs)
        self.sign = np.append(self.sign, signs)
        self.side = np.append(self.side, 2 * cuts + (signs > 0))
        self.cap = np.append(self.cap, np.zeros(k))
        self.alpha = np.append(self.alpha, np.zeros(k))
        self.state = np.append(self.state, np.full(k, ABSENT, dtype=np.int8))
        return np.arange(n, n + k)

    def raise_caps(self, rows: IntArray, caps: FloatArray) -> None:
        """Raise upper bounds; rows at their old ones are open until :meth:`settle`."""
        at = np.isin(self.state[rows], (ERROR, ABSENT))
        self.cap[rows] = caps
        self.state[rows[at]] = OPEN

    def lower_cap(self, row: int, cap: float) -> None:
        """Lower an upper bound, to zero where a row leaves, and follow the solution."""
        if self.alpha[row] > cap:
            self._leave_if_member(row)
            self._drive(row, -1.0, cap)
        self.cap[row] = cap
        if cap == 0:
            self._leave_if_member(row)
            self.state[row] = ABSENT
        elif self.alpha[row] == cap:
            self.state[row] = ERROR
        self._correct()

    def _leave_if_member(self, row: int) -> None:
        if self.state[row] == MARGIN:
            self._leave(row, OPEN)

    # ------------------------------------------------------------------- conditions

    def margin_of(self, k: IntArray | slice = slice(None)) -> FloatArray:
        """g of some multipliers."""
        side, sign = self.side[k], self.sign[k]
        real = sign != 0
        own = np.where(real, sign * self.f[self.input[k]], 0.0)
        other = np.where(real, 0.0, -self.tau[side | 1])
        return np.asarray(own - self.tau[side] * np.where(real, 1.0, -1.0) - other)

    def violation(self) -> FloatArray:
        """Amount by which each multiplier misses its condition, signed like the wanted change."""
        g = self.margin_of()
        up = np.where(self.alpha < self.cap, np.maximum(-g, 0.0), 0.0)
        down = np.where(self.alpha > 0, np.maximum(g, 0.0), 0.0)
        return np.where(self.state == ABSENT, 0.0, up - down)

    def settle(self) -> None:
        """Drive open multipliers, those furthest from their condition first, until none is left."""
        for _ in range(_MOST_ROUNDS):
            self._settle_open()
            self.refresh()
            off = np.abs(self.violation())
            missed = (off > self._zero()) & (self.state != MARGIN)
            if not missed.any():
                break
            self.state[missed] = OPEN  # by rounding
        if not off.max(initial=0.0) <= self.nearly(100 * _ZERO_MARGIN):
            raise PathFailure("conditions stay violated")
        if not self.infeasible() <= _FEASIBLE:
            raise PathFailure("sums or bounds of multipliers are violated")

    def _settle_open(self) -> None:
        while True:
            open_ = np.flatnonzero(self.state == OPEN)
            if not len(open_):
                return
            off = self.violation()[open_]
            worst = int(np.argmax(np.abs(off)))
            if abs(off[worst]) <= self._zero():
                break
            self._drive(int(open_[worst]), float(np.sign(off[worst])))
            self._correct()
        for k in open_.tolist():
            self._close(k)
        self._correct()

    def nearly(self, share: float) -> float:
        """A share of the largest latent value, and what rounding may add."""
        return share * self._size() + _ROUNDING * self.scale

    def _zero(self) -> float:
        return self.nearly(_ZERO_MARGIN)

    def _size(self) -> float:
        """Largest latent value: margins that cannot be kept leave all of them very small."""
        return float(np.abs(self.f).max(initial=0.0))

    def _close(self, k: int) -> None:
        """Put an open multiplier that fulfils its condition into its set."""
        if self.alpha[k] <= 0:
            self.state[k] = REMAINING
        elif self.alpha[k] >= self.cap[k]:
            self.state[k] = ERROR
        else:
            self._enter(k)

    # ------------------------------------------------------------------- moves

    def _drive(self, c: int, way: float, target: float | None = None) -> None:
        """Move one multiplier up or down until its margin is zero or it arrives.

        With a target its own margin does not matter.
        """
        self.state[c] = OPEN
        end = (self.cap[c] if way > 0 else 0.0) if target is None else target
        self.n_driven += 1
        for event in range(_MOST_EVENTS * (len(self.alpha) + 100)):
            free = self._free_side(c)
            d = self._shift(c, way, *free) if free else self._direction(c, way)
            step, k, done = self._first_event(c, d, end, target is None, event)
            if not np.isfinite(step):
                raise PathFailure("nothing stops a multiplier")
            self._apply(c, d, step)
            self.n_events += 1
            if done == "arrived":
                self.alpha[c] = end
                self.state[c] = ERROR if end == self.cap[c] and end > 0 else REMAINING
                return
            if done == "margin":
                self._close(c)
                return
            if self.state[k] == MARGIN:
                below = d.alpha[np.searchsorted(d.members, k)] < 0
                self.alpha[k] = 0.0 if below else self.cap[k]
                self._leave(k, REMAINING if below else ERROR)
            else:
                self._enter(k)
        raise PathFailure("too many events")

    def _rates(self, d: Direction) -> FloatArray:
        """Change of every margin, per unit of a step."""
        real = self.sign != 0
        own = np.where(real, self.sign * d.f[self.input], 0.0)
        other = np.where(real, 0.0, d.tau[self.side | 1])
        return own - d.tau[self.side] * np.where(real, 1.0, -1.0) + other

    def _first_event(
        self, c: int, d: Direction, end: float, stop_at_margin: bool, event: int
    ) -> tuple[float, int, str]:
        """Step to the next event, whose it is, and what becomes of the driven multiplier."""
        g, rate = self.margin_of(), self._rates(d)
        fastest = max(float(np.abs(d.tau).max()), float(np.abs(d.f).max()), 1e-300)
        moving = np.abs(rate) > _ZERO_RATE * fastest
        falls = (self.state == REMAINING) & (rate < 0) & moving
        rises = (self.state == ERROR) & (rate > 0) & moving
        k = np.flatnonzero(falls | rises)
        steps = [np.maximum(np.where(falls[k], g[k], -g[k]), 0.0) / np.abs(rate[k])]
        speed = [np.abs(rate[k]) / fastest]
        whose = [k]
        if len(d.members):
            a = self.alpha[d.members]
            room = np.where(d.alpha < 0, a, self.cap[d.members] - a)
            some = np.abs(d.alpha) > _ZERO_RATE * max(1.0, float(np.abs(d.alpha).max()))
            steps.append(np.maximum(room[some], 0.0) / np.abs(d.alpha[some]))
            speed.append(np.abs(d.alpha[some]))
            whose.append(d.members[some])
        step, which = self._soonest(np.concatenate(steps), np.concatenate(speed), event)
        k_first = int(np.concatenate(whose)[which]) if which >= 0 else -1
        done = ""
        if d.driven and abs(end - self.alpha[c]) <= step:
            step, done = abs(end - self.alpha[c]), "arrived"
        if stop_at_margin and moving[c]:
            own = max(-g[c] * np.sign(rate[c]), 0.0) / abs(rate[c])
            if own <= step:
                step, done = own, "margin"
        return step, k_first, done

    @staticmethod
    def _soonest(steps: FloatArray, speed: FloatArray, event: int) -> tuple[float, int]:
        """The first event; of several at once the fastest, later on the first in order."""
        if not len(steps):
            return np.inf, -1
        least = float(steps.min())
        tied = np.flatnonzero(steps <= least + 1e-14)
        which = tied[0] if event > 100 else tied[np.argmax(speed[tied])]
        return float(steps[which]), int(which)

    def _direction(self, c: int, way: float) -> Direction:
        """Answer of the margin set to a unit change of the driven multiplier."""
        names = np.array(self.bordered.names, dtype=np.intp)
        solved = self.bordered.solve(-way * self._entries(c, names))
        tau = np.zeros_like(self.tau)
        tau[-1 - names[names < 0]] = -solved[names < 0]
        order = np.argsort(names[names >= 0])
        members, alpha = names[names >= 0][order], solved[names >= 0][order]
        return Direction(members, alpha, way, self._answer(members, alpha, c, way), tau)

    def _answer(self, members: IntArray, alpha: FloatArray, c: int, way: float) -> FloatArray:
        """Change of the latent values."""
        some, change = np.append(members, c), np.append(alpha, way)
        real = self.sign[some] != 0
        some, change = some[real], change[real]
        if not len(some):
            return np.zeros_like(self.f)
        return self.columns.sum(self.input[some], self.sign[some] * change)

    def _shift(self, c: int, way: float, sides: IntArray, y: FloatArray) -> Direction:
        """Move of the free tau that brings the driven row nearer to its condition."""
        tau = np.zeros_like(self.tau)
        pull = y @ self._border(c, sides)
        tau[sides] = -way * np.sign(pull) * y
        none = np.empty(0, dtype=np.intp)
        return Direction(none, np.empty(0), 0.0, np.zeros_like(self.f), tau)

    def _apply(self, c: int, d: Direction, step: float) -> None:
        self.alpha[d.members] += step * d.alpha
        self.alpha[c] += step * d.driven
        self.f += step * d.f
        self.tau += step * d.tau

    # ------------------------------------------------------------------- the margin set

    def _border(self, k: int, sides: IntArray) -> FloatArray:
        """Column of A of one multiplier, at some sides."""
        if self.sign[k] != 0:
            return (sides == self.side[k]).astype(float)
        return -(sides // 2 == self.side[k] // 2).astype(float)

    def _entries(self, name: int, beside: IntArray) -> FloatArray:
        """Column of the bordered matrix of one entry, against others."""
        out = np.zeros(len(beside))
        if name < 0:
            rows = beside >= 0
            k = beside[rows]
            same = self.side[k] // 2 == (-1 - name) // 2
            real = self.sign[k] != 0
            out[rows] = np.where(real, (self.side[k] == -1 - name) * 1.0, -1.0 * same)
            return out
        border = beside < 0
        out[border] = self._border(name, -1 - beside[border])
        if self.sign[name] != 0:
            k = beside[~border]
            column = self.columns.column(int(self.input[name]))
            values = np.where(self.sign[k] != 0, column[self.input[k]], 0.0)
            out[~border] = self.sign[name] * self.sign[k] * values
        return out

    def _borders(self, cut: int, without: int = -1, plus: int = -1) -> list[int]:
        """Sides of a cut that the margin set determines, without or with one multiplier."""
        inside = [k for k in self.bordered.names if k >= 0 and self.side[k] // 2 == cut]
        inside = [k for k in inside if k != without] + ([plus] if plus >= 0 else [])
        rows = {int(self.side[k]) for k in inside if self.sign[k] != 0}
        if cut in inside:  # e_j ties both sides together
            return [2 * cut, 2 * cut + 1] if rows else [2 * cut]
        return sorted(rows)

    def _free_side(self, c: int) -> tuple[IntArray, FloatArray] | None:
        """Sides whose tau can move alone and would move the margin of ``c``; None if none can."""
        cut = int(self.side[c] // 2)
        both = np.array([2 * cut, 2 * cut + 1])
        have = self._borders(cut)
        if cut in self.bordered.names:
            return None if len(have) == 2 else (both, np.array([1.0, -1.0]))
        free = [g for g in both.tolist() if g not in have]
        if self.sign[c] != 0:
            free = [g for g in free if g == self.side[c]]
        return (np.array(free[:1]), np.ones(1)) if free else None

    def _enter(self, k: int) -> None:
        """Take a multiplier into the margin set; one that depends on it changes places."""
        cut = int(self.side[k] // 2)
        for _ in range(len(self.alpha)):
            have = {-1 - name for name in self.bordered.names if name < 0}
            new = [-1 - g for g in self._borders(cut, plus=k) if g not in have]
            names = np.array(self.bordered.names, dtype=np.intp)
            if new or self._independent(k, names):
                added = [*new, k]
                beside = np.column_stack([self._entries(name, names) for name in added])
                corner = np.column_stack(
                    [self._entries(name, np.array(added, dtype=np.intp)) for name in added]
                )
                self.bordered.add(added, beside, corner)
                self.state[k] = MARGIN
                return
            if self._exchange(k):
                return
        raise PathFailure("a row depends on every margin set")

    def _independent(self, k: int, names: IntArray) -> bool:
        beside, own = self._entries(k, names), self._entries(k, np.array([k]))[0]
        return bool(own - beside @ self.bordered.solve(beside) > _DEPENDENT_SHARE * self.scale)

    def _exchange(self, k: int) -> bool:
        """Move a dependent multiplier, at no change of any margin, until one reaches a bound.

        True if it is its own other bound, so that the margin set can do without it.
        """
        way = 1.0 if self.alpha[k] <= 0 else -1.0
        d = self._direction(k, way)
        a = self.alpha[d.members]
        room = np.where(d.alpha < 0, a, self.cap[d.members] - a)
        some = np.abs(d.alpha) > 1e-9
        steps = np.full(len(room), np.inf)
        steps[some] = np.maximum(room[some], 0.0) / np.abs(d.alpha[some])
        which = int(np.argmin(steps))
        own = self.cap[k] - self.alpha[k] if way > 0 else self.alpha[k]
        if own <= steps[which]:
            self._apply(k, d, float(own))
            self.alpha[k] = self.cap[k] if way > 0 else 0.0
            self.state[k] = ERROR if way > 0 else REMAINING
            return True
        self._apply(k, d, float(steps[which]))
        out = int(d.members[which])
        below = d.alpha[which] < 0
        self.alpha[out] = 0.0 if below else self.cap[out]
        self._leave(out, REMAINING if below else ERROR)
        return False

    def _leave(self, k: int, state: int) -> None:
        """Take a multiplier, and the border that it alone determined, out of the margin set."""
        cut = int(self.side[k] // 2)
        kept = self._borders(cut, without=k)
        out = [-1 - g for g in (2 * cut, 2 * cut + 1) if g not in kept]
        self.bordered.remove([name for name in out if name in self.bordered.names] + [k])
        self.state[k] = state

    # ------------------------------------------------------------------- rounding

    def _correct(self) -> None:
        """Restore the margins and sums of the margin set, from which rounding drifts."""
        if self.n_driven % _REFRESH_EVERY == 0:
            self.refresh()
        for _ in range(3):
            names = np.array(self.bordered.names, dtype=np.intp)
            if not len(names):
                return
            wrong = self._residual(names)
            near = np.where(names < 0, _DRIFT, _DRIFT * max(self.scale, self._size()))
            if np.all(np.abs(wrong) <= near):
                return
            solved = self.bordered.solve(wrong)
            self.tau[-1 - names[names < 0]] -= solved[names < 0]
            k, change = names[names >= 0], solved[names >= 0]
            self.alpha[k] += change
            real = self.sign[k] != 0
            if real.any():
                signed = self.sign[k[real]] * change[real]
                self.f += self.columns.sum(self.input[k[real]], signed)

    def shortfalls(self) -> FloatArray:
        """Amount by which the multipliers of each side miss their sum 1 + e_j."""
        sums = np.bincount(self.side, np.where(self.sign != 0, self.alpha, 0.0), len(self.tau))
        return np.asarray(1.0 + np.repeat(self.alpha[: self.n_cuts], 2) - sums)

    def infeasible(self) -> float:
        """Largest violation of the sums and the bounds of the multipliers."""
        inside = self.state != ABSENT
        over = np.where(inside, np.maximum(self.alpha - self.cap, -self.alpha), 0.0)
        sums = np.abs(self.shortfalls()).max(initial=0.0)
        return float(max(sums, over.max(initial=0.0)))

    def _residual(self, names: IntArray) -> FloatArray:
        """Shortfalls of the sums and margins of the margin set."""
        out = np.empty(len(names))
        out[names < 0] = self.shortfalls()[-1 - names[names < 0]]
        out[names >= 0] = -self.margin_of(names[names >= 0])
        return out

    def _beta(self) -> tuple[IntArray, FloatArray]:
        """Inputs with multipliers, and the coefficients of their kernel functions."""
        some = np.flatnonzero((self.alpha != 0) & (self.sign != 0))
        used, place = np.unique(self.input[some], return_inverse=True)
        beta = np.bincount(place, self.sign[some] * self.alpha[some], len(used))
        return used, beta.astype(float)

    def refresh(self) -> None:
        """Compute the latent values from the multipliers."""
        used, beta = self._beta()
        self.f = self.columns.sum(used, beta) if len(used) else np.zeros_like(self.f)

    def start(self, order: IntArray) -> None:
        """Multipliers with the right sums, those of the first rows in an order; all are open."""
        caps = self.cap[order]
        for side in range(len(self.tau)):
            mine = np.flatnonzero(self.side[order] == side)
            mine = mine[self.sign[order[mine]] != 0]
            before = np.concatenate([[0.0], np.cumsum(caps[mine])[:-1]])
            self.alpha[order[mine]] = np.clip(1.0 - before, 0.0, caps[mine])
        self.state[:] = OPEN
        self.refresh()
        for side in range(len(self.tau)):
            rows = np.flatnonzero((self.side == side) & (self.alpha > 0) & (self.sign != 0))
            inner = rows[self.alpha[rows] < self.cap[rows]]
            self.tau[side] = np.max(self.sign[rows] * self.f[self.input[rows]])
            for k in inner.tolist():  # at most one: it determines the border
                self.tau[side] = self.sign[k] * self.f[self.input[k]]
                self._enter(k)

    def resume(self, edges: FloatArray) -> None:
        """Put known multipliers and edges into their sets."""
        self.tau = edges.copy()
        self.state[self.alpha <= 0] = REMAINING
        self.state[self.alpha >= self.cap] = ERROR
        inner = (self.alpha > 0) & (self.alpha < self.cap)
        self.state[inner] = OPEN
        self.refresh()
        for k in np.flatnonzero(inner).tolist():
            if self.state[k] == OPEN:
                self._enter(k)
        self._correct()
        self._return_to_bounds()
        self.settle()

    def _return_to_bounds(self) -> None:
        """Bring multipliers of the margin set that are out of their bounds back to the nearer.

        Multipliers that are known only nearly can leave them when margins and sums are restored.
        """
        near = _AT_BOUND * np.where(np.isfinite(self.cap), self.cap, 1.0)
        low, high = self.alpha < -near, self.alpha > self.cap + near
        out = np.flatnonzero((low | high) & (self.state == MARGIN)).tolist()
        for k in out:
            self._leave(k, OPEN)
        for k in out:
            self._drive(k, 1.0 if low[k] else -1.0, 0.0 if low[k] else float(self.cap[k]))
            self._correct()

    # ------------------------------------------------------------------- the solution

    def cuts(self) -> FloatArray:
        """Middle of the interval of each cut, (p,): margins may leave both edges some freedom."""
        low, high = np.empty_like(self.tau), np.empty_like(self.tau)
        g, near = self.sign * self.f[self.input], self._zero()
        share = self.alpha / np.where(self.cap > 0, self.cap, np.inf)
        at_least = (share > _AT_BOUND) & (self.state != ABSENT)
        at_most = (share < 1 - _AT_BOUND) & (self.state != ABSENT)
        for side in range(len(self.tau)):
            mine = (self.side == side) & (self.sign != 0)
            low[side] = np.max(g[mine & at_least], initial=-np.inf)
            high[side] = np.min(g[mine & at_most], initial=np.inf)
        below, above = slice(0, None, 2), slice(1, None, 2)
        low[below], high[below] = -high[below], -low[below]  # tau is minus the edge below a cut
        tied = self.tau[below] + self.tau[above] <= near
        for j in np.flatnonzero(tied):
            low[2 * j : 2 * j + 2] = low[2 * j : 2 * j + 2].max()
            high[2 * j : 2 * j + 2] = high[2 * j : 2 * j + 2].min()
        edge = np.where(np.isinf(low), high, np.where(np.isinf(high), low, 0.5 * (low + high)))
        middle = 0.5 * (edge[below] + edge[above])
        crossed = edge[below] > edge[above]  # no margin: one value that both intervals have
        least, most = np.maximum(low[below], low[above]), np.minimum(high[below], high[above])
        return np.where(crossed, np.clip(middle, least, np.maximum(least, most)), middle)
