"""Sparse symmetric matrices: factors, solutions and the entries of the inverse that matter.

Nodes of the graph of a matrix are eliminated in rounds, those with the fewest neighbours first.
What remains, where every node has many neighbours, is a dense core for LAPACK. In a graph of
10,000 items and 20,000 random comparisons the core has about 2,500 nodes. All nodes of a round
with equally many neighbours are eliminated at once, by array operations.

The order, and the places of all numbers, depend on the graph alone and are found once. The entries
of the inverse on the graph follow backwards from those of the core (Takahashi's equations).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.linalg import Triangle, mirrored

_MOST_NEIGHBOURS = 48  # of a node that is eliminated, whose neighbours are then joined pair by pair


@dataclass(frozen=True, eq=False)
class _Group:
    """Nodes that are eliminated together, g of them with d later neighbours each."""

    nodes: IntArray
    """(g,)"""
    entries: IntArray
    """places of their entries with their neighbours, (g, d)"""
    pairs: IntArray
    """places of the entries between their neighbours, (g, d, d)"""
    touched: IntArray
    """their neighbours, each once"""
    neighbour: IntArray
    """of each node, by their place in ``touched``, (g, d)"""

    def joined(self, entries: FloatArray) -> sparse.csr_array:
        """The entries as a matrix from touched neighbours to nodes, (g, len(touched))."""
        g, d = entries.shape
        ends = np.arange(0, g * d + 1, max(d, 1)) if d else np.zeros(g + 1, dtype=np.intp)
        cells = entries.ravel(), self.neighbour.ravel(), ends
        return sparse.csr_array(cells, shape=(g, len(self.touched)))


@dataclass(frozen=True, eq=False)
class Elimination:
    """Order of elimination and places of numbers, for all matrices of one graph.

    All numbers of a matrix are in one vector: the diagonal, the entries of eliminated nodes, and
    the core, a square of which the upper triangle is used.
    """

    n: int
    groups: tuple[_Group, ...]
    core: IntArray
    """nodes that remain"""
    keys: IntArray
    """n * first + second of every stored entry off the diagonal, sorted"""
    places: IntArray
    """place of each of these"""
    rank: IntArray
    """place of each node in the order of elimination, (n,)"""
    size: int
    """length of the vector of numbers"""

    @classmethod
    def of(cls, left: IntArray, right: IntArray, n: int) -> "Elimination":
        """The elimination of the graph with these edges between n nodes."""
        rounds = list(_rounds(left, right, n))
        order = [node for each in rounds for node, _ in each]
        rank = np.full(n, len(order), dtype=np.intp)
        rank[order] = np.arange(len(order))
        core = np.flatnonzero(rank == len(order))
        rank[core] += np.arange(len(core))
        entries = [(node, other) for each in rounds for node, later in each for other in later]
        first, second = np.array(entries, dtype=np.intp).reshape(-1, 2).T
        keys = n * first + second
        sort = np.argsort(keys)
        size = n + len(keys) + len(core) ** 2
        found = cls(n, (), core, keys[sort], n + sort, rank, size)
        groups = tuple(found._group(some) for each in rounds for some in _by_degree(each))
        return cls(n, groups, core, keys[sort], n + sort, rank, size)

    def _group(self, some: list[tuple[int, list[int]]]) -> _Group:
        nodes = np.array([node for node, _ in some], dtype=np.intp)
        later = np.array([others for _, others in some], dtype=np.intp).reshape(len(some), -1)
        entries = self.place(np.repeat(nodes, later.shape[1]), later.ravel()).reshape(later.shape)
        g, d = later.shape
        pairs = self.place(np.repeat(later, d, axis=1).ravel(), np.tile(later, d).ravel())
        touched, neighbour = np.unique(later, return_inverse=True)
        return _Group(nodes, entries, pairs.reshape(g, d, d), touched, neighbour.reshape(g, d))

    def place(self, i: IntArray, j: IntArray) -> IntArray:
        """Places of entries (i, j) of the graph, or of its core, in the vector of numbers."""
        swap = self.rank[i] > self.rank[j]
        first, second = np.where(swap, j, i), np.where(swap, i, j)
        eliminated = self.n - len(self.core)
        row, column = self.rank[first] - eliminated, self.rank[second] - eliminated
        found = self.n + len(self.keys) + row * len(self.core) + column
        sparse_entry = (row < 0) & (first != second)
        at = np.searchsorted(self.keys, (self.n * first + second)[sparse_entry])
        found[sparse_entry] = self.places[at]
        alone = (row < 0) & (first == second)
        found[alone] = first[alone]
        return found


def _rounds(left: IntArray, right: IntArray, n: int) -> Iterator[list[tuple[int, list[int]]]]:
    """Nodes of each round with their remaining neighbours; no two of a round are neighbours."""
    near: list[set[int]] = [set() for _ in range(n)]
    for a, b in zip(left.tolist(), right.tolist(), strict=True):
        near[a].add(b)
        near[b].add(a)
    remaining = set(range(n))
    while remaining:
        fewest = min(len(near[v]) for v in remaining)
        if fewest > _MOST_NEIGHBOURS or (fewest and fewest == len(remaining) - 1):
            return
        ready = [v for v in sorted(remaining) if len(near[v]) <= fewest + 1]
        touched: set[int] = set()
        this_round = []
        for v in sorted(ready, key=lambda v: len(near[v])):
            if v in touched or len(near[v]) > fewest + 1:
                continue
            others = near[v]
            this_round.append((v, sorted(others)))
            remaining.discard(v)
            touched |= others
            for u in others:
                near[u] |= others
                near[u] -= {u, v}
        yield this_round


def _by_degree(this_round: list[tuple[int, list[int]]]) -> list[list[tuple[int, list[int]]]]:
    found: dict[int, list[tuple[int, list[int]]]] = {}
    for node, later in this_round:
        found.setdefault(len(later), []).append((node, later))
    return list(found.values())


class SparseFactor:
    """Factor L D L' of a positive definite sparse matrix, with the Cholesky factor of its core."""

    def __init__(self, order: Elimination, numbers: FloatArray) -> None:
        """``numbers`` hold the matrix, and are overwritten."""
        self._order = order
        for group in order.groups:
            entries = numbers[group.entries]
            scaled = entries / numbers[group.nodes][:, None]
            i, j = np.triu_indices(entries.shape[1])
            change = scaled[:, i] * entries[:, j]
            np.subtract.at(numbers, group.pairs[:, i, j].ravel(), change.ravel())
            numbers[group.entries] = scaled
        self._numbers = numbers
        c = len(order.core)
        self._core = None
        if c:
            square = numbers[len(numbers) - c * c :].reshape(c, c)
            self._core = Triangle(lambda: mirrored(square.copy()))
        eliminated = np.concatenate([g.nodes for g in order.groups] or [np.empty(0, np.intp)])
        self._eliminated, self._pivots = eliminated, numbers[eliminated]
        self.definite = self._core is None or self._core.definite
        core = 0.0 if self._core is None else self._core.half_log_det
        self.half_log_det = core + 0.5 * float(np.sum(np.log(self._pivots)))
        self._steps = [(g, g.joined(numbers[g.entries])) for g in order.groups]

    def solve(self, b: FloatArray) -> FloatArray:
        """The inverse times b, (n,) or (n, k)."""
        x = np.array(b, dtype=float)
        for group, lower in self._steps:
            x[group.touched] -= lower.T @ x[group.nodes]
        x[self._eliminated] = (x[self._eliminated].T / self._pivots).T
        if self._core is not None:
            x[self._order.core] = self._core.solve(x[self._order.core])
        return self._backwards(x)

    def draw(self, normal: FloatArray) -> FloatArray:
        """Independent normal numbers, (n, k), as ones whose covariance is the inverse."""
        x = np.array(normal, dtype=float)
        x[self._eliminated] = (x[self._eliminated].T / np.sqrt(self._pivots)).T
        if self._core is not None:
            x[self._order.core] = self._core.inverse.T @ x[self._order.core]
        return self._backwards(x)

    def _backwards(self, x: FloatArray) -> FloatArray:
        for group, lower in reversed(self._steps):
            x[group.nodes] -= lower @ x[group.touched]
        return x

    @cached_property
    def inverse_entries(self) -> FloatArray:
        """The inverse at the places of :meth:`Elimination.place`."""
        order, numbers = self._order, self._numbers
        found = np.empty_like(numbers)
        c = len(order.core)
        if self._core is not None:
            found[len(found) - c * c :] = self._core.upper_inverse().ravel()
        for group in reversed(order.groups):
            lower = numbers[group.entries]
            beside = -np.einsum("gij,gj->gi", found[group.pairs], lower)
            found[group.entries] = beside
            own = 1.0 / numbers[group.nodes]
            found[group.nodes] = own - np.einsum("gi,gi->g", lower, beside)
        return found
