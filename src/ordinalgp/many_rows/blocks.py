"""Blocks of rows that are near each other, and the rows nearest to a group of rows.

Rows are cut in two, and each half again, across the coordinate in which they reach furthest. So
blocks have about equal numbers of rows where rows are dense and where they are not. The box around
each block tells where the nearest rows of a group may be.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

import numpy as np
from scipy.spatial.distance import cdist

from ordinalgp._typing import FINITE, Axes, FloatArray, IntArray
from ordinalgp.persistence import saved_as

_MIDDLE = 0.25  # share of the rows on each side of a cut that equal values may move
_CANDIDATES = 24  # rows in the blocks that are searched, per row that is wanted
_SPREAD = 32  # rows of a group to which distances are computed
_OWN = 8  # rows that are wanted, per row that tells how far those of one input reach
_LEAST_REACH = 1e-12  # of the largest squared distance, where many rows are almost equal
_TRIED = 20  # rows at which a kernel is probed
_FRACTION = 0.3  # of a standard deviation, by which they are moved
_REACH = 1e140  # of coordinates, whose squares are numbers


def coordinates(X: FloatArray, weights: FloatArray) -> FloatArray:
    """Inputs in the units in which distances are measured."""
    with np.errstate(over="ignore"):
        return np.clip(X * weights, -_REACH, _REACH)


def feature_weights(kernel: Any, X: FloatArray) -> FloatArray:
    """Weight of each feature in distances: how fast the latent function changes along it.

    It is the prior standard deviation of the change over a fraction of the feature's own standard
    deviation, per unit of the feature, averaged over rows of ``X``.
    """
    largest = np.abs(X).max(axis=0)
    scale = np.where(largest > 0, largest, 1.0)
    steps = _FRACTION * scale * np.std(X / scale, axis=0)
    rows = X[np.unique(np.linspace(0, len(X) - 1, _TRIED).astype(np.intp))]
    varied, found = np.flatnonzero(steps), np.zeros(X.shape[1])
    here = np.diagonal(kernel(rows, rows))
    for feature in varied:
        moved = rows.copy()
        moved[:, feature] += steps[feature]
        there, across = (np.diagonal(kernel(each, moved)) for each in (moved, rows))
        change = float(np.mean(here + there - 2.0 * across))
        found[feature] = np.sqrt(max(change, 0.0)) / steps[feature]
    if not found.any():  # a kernel that tells no rows apart
        found[varied] = 1.0 / steps[varied]
    return found


@saved_as("neighbours.blocks")
@dataclass(frozen=True, eq=False)
class Blocks:
    """Rows in blocks, which are the leaves of a binary tree of cuts.

    Block j has the rows ``starts[j]``, ..., ``starts[j + 1] - 1``.
    """

    weights: Annotated[FloatArray, Axes("d", 0.0, np.inf)]
    """of the features: coordinates are inputs times weights"""
    starts: Annotated[IntArray, Axes("edges", 0)]
    axes: Annotated[IntArray, Axes("cuts", 0, "d")]
    """coordinate of each cut"""
    values: Annotated[FloatArray, Axes("cuts", *FINITE)]
    """coordinate below which rows belong to the first part"""
    parts: Annotated[IntArray, Axes("cuts two", -np.inf)]
    """the two parts of each cut: another cut, or -1 - j for block j"""
    boxes: Annotated[FloatArray, Axes("two blocks d", *FINITE)]
    """lowest and highest coordinates in each block"""
    size: Annotated[int, Axes(low=1)]
    """most rows of a block when rows are cut"""

    @classmethod
    def cut(cls, X: FloatArray, weights: FloatArray, size: int) -> tuple[Self, IntArray]:
        """Blocks of at most ``size`` rows, and the numbers of the rows in their order."""
        tree, Z = _Tree(), coordinates(X, weights)
        tree.grow(Z, np.arange(len(X)), size)
        order = np.concatenate(tree.blocks)
        starts = np.cumsum([0, *(len(rows) for rows in tree.blocks)])
        boxes = np.array([[f(Z[rows], axis=0) for rows in tree.blocks] for f in (np.min, np.max)])
        parts = np.array(tree.parts, dtype=np.intp).reshape(-1, 2)
        axes, values = np.array(tree.axes, dtype=np.intp), np.array(tree.values, dtype=float)
        return cls(weights, starts, axes, values, parts, boxes, size), order

    def grafted(self, parts: Sequence["Blocks"]) -> "Blocks":
        """The tree with blocks of its own, ``parts[j]``, in the place of each block j."""
        first = np.cumsum([0, *(len(part) for part in parts)])
        cuts = len(self.axes) + np.cumsum([0, *(len(part.axes) for part in parts)])
        roots = np.where(np.diff(cuts) > 0, cuts[:-1], -1 - first[:-1])
        own = np.where(self.parts < 0, roots[-1 - np.minimum(self.parts, -1)], self.parts)
        moved = [
            np.where(part.parts < 0, part.parts - block, part.parts + cut)
            for part, block, cut in zip(parts, first, cuts, strict=False)
        ]
        starts = np.cumsum([0, *np.concatenate([np.diff(part.starts) for part in parts])])
        return Blocks(
            self.weights,
            starts,
            np.concatenate([self.axes, *(part.axes for part in parts)]),
            np.concatenate([self.values, *(part.values for part in parts)]),
            np.concatenate([own, *moved]),
            np.concatenate([part.boxes for part in parts], axis=1),
            self.size,
        )

    def alone(self, block: int) -> "Blocks":
        """A tree of one of the blocks."""
        none, n = np.empty(0, dtype=np.intp), self.starts[block + 1] - self.starts[block]
        box = self.boxes[:, block : block + 1]
        parts = np.array([0, n]), none, np.empty(0), none.reshape(0, 2), box
        return Blocks(self.weights, *parts, self.size)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def check(self) -> None:
        """Raise ValueError unless the cuts lead to every block once."""
        n_cuts, m = len(self.axes), len(self)
        inner = self.parts[self.parts >= 0]
        leaves = -1 - self.parts[self.parts < 0] if n_cuts else np.zeros(1, dtype=np.intp)
        later = np.all((self.parts < 0) | (self.parts > np.arange(n_cuts)[:, None]))
        once = np.array_equal(np.sort(inner), np.arange(1, n_cuts))
        complete = np.array_equal(np.sort(leaves), np.arange(m))
        rising = m > 0 and self.starts[0] == 0 and bool(np.all(np.diff(self.starts) > 0))
        fits = self.parts.shape == (n_cuts, 2) and self.boxes.shape[:2] == (2, m)
        if not (fits and later and once and complete and rising):
            raise ValueError("the cuts and the blocks disagree")

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.starts[-1])

    def rows(self, block: int) -> IntArray:
        """Numbers of the rows of a block."""
        return np.arange(self.starts[block], self.starts[block + 1])

    def places(self, X: FloatArray) -> IntArray:
        """Block that each of some new rows falls into."""
        Z = coordinates(X, self.weights)
        at = np.full(len(Z), 0 if len(self.axes) else -1)
        while len(live := np.flatnonzero(at >= 0)):
            cut = at[live]
            above = Z[live, self.axes[cut]] >= self.values[cut]
            at[live] = self.parts[cut, above.astype(np.intp)]
        return -1 - at

    def nearest(self, X: FloatArray, group: FloatArray, n: int, allowed: Any = True) -> IntArray:
        """The ``n`` rows nearest to a group of inputs, in blocks that are ``allowed``.

        ``X`` has all rows. A distance counts in units of how far an input's own near rows reach, so
        that inputs where rows are sparse have their share. Boxes far from the group are not
        searched, and of a large group some inputs stand for all.
        """
        allowed = np.flatnonzero(np.broadcast_to(allowed, len(self)))
        near = self._in_near_blocks(coordinates(group, self.weights), n, allowed)
        if len(near) <= n:
            return near
        some = coordinates(group[:: -(-len(group) // _SPREAD)], self.weights)
        distance = cdist(some, coordinates(X[near], self.weights), "sqeuclidean")
        own = max(1, n // _OWN)
        reach = np.partition(distance, own - 1, axis=1)[:, own - 1 : own]
        least = max(_LEAST_REACH * float(distance.max()), np.finfo(float).tiny)
        distance /= np.maximum(reach, least)
        return np.sort(near[np.argpartition(distance.min(axis=0), n)[:n]])

    def _in_near_blocks(self, Z: FloatArray, n: int, allowed: IntArray) -> IntArray:
        """Rows of the blocks nearest to ``Z``, several times ``n`` of them, ascending."""
        low, high = self.boxes[:, allowed]
        gap = np.maximum(np.maximum(low - Z.max(axis=0), Z.min(axis=0) - high), 0.0)
        # Boxes that touch the group are ordered by their centres.
        apart = 0.5 * (low + high) - Z.mean(axis=0)
        far = np.einsum("bd,bd->b", gap, gap) + 1e-3 * np.einsum("bd,bd->b", apart, apart)
        order = allowed[np.argsort(far, kind="stable")]
        sizes = self.starts[order + 1] - self.starts[order]
        enough = int(np.searchsorted(np.cumsum(sizes), _CANDIDATES * n)) + 1
        found = [self.rows(block) for block in np.sort(order[:enough])]
        return np.concatenate([np.empty(0, dtype=np.intp), *found])


@dataclass(eq=False)
class _Tree:
    """Cuts and blocks in the making."""

    axes: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    parts: list[list[int]] = field(default_factory=list)
    blocks: list[IntArray] = field(default_factory=list)

    def grow(self, Z: FloatArray, rows: IntArray, size: int) -> None:
        """Cut rows into blocks; those below a cut come first."""
        pending = [(rows, -1, 0)]
        while pending:
            rows, above, side = pending.pop()
            if len(rows) <= size:
                node = -1 - len(self.blocks)
                self.blocks.append(rows)
            else:
                node = len(self.axes)
                axis, value, halves = _halves(Z[rows], size)
                self.axes.append(axis)
                self.values.append(value)
                self.parts.append([0, 0])
                pending += [(rows[part], node, 1 - k) for k, part in enumerate(halves[::-1])]
            if above >= 0:
                self.parts[above][side] = node


def _halves(Z: FloatArray, size: int) -> tuple[int, float, Sequence[IntArray]]:
    """The widest coordinate, where it is cut, and the rows of the two parts."""
    axis = int(np.argmax(np.ptp(Z, axis=0)))
    order = np.argsort(Z[:, axis], kind="stable")
    z = Z[order, axis]
    blocks = -(-len(z) // size)
    at = _between_values(z, round(len(z) * (blocks // 2) / blocks))
    return axis, float(z[at - 1] + (z[at] - z[at - 1]) / 2), (order[:at], order[at:])


def _between_values(z: FloatArray, at: int) -> int:
    """The place nearest to ``at`` where ascending values differ, if one is not too far."""
    edges = np.array([np.searchsorted(z, z[at], side) for side in ("left", "right")])
    n = len(z)
    edges = edges[(edges >= _MIDDLE * n) & (edges <= (1 - _MIDDLE) * n)]
    return int(edges[np.argmin(np.abs(edges - at))]) if len(edges) else at
