"""Rows in the order of their blocks, and inference problems of some of them."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np

from ordinalgp._typing import POSITIVE, Axes, FloatArray, IntArray
from ordinalgp.core.projections import Identity, RowSelection
from ordinalgp.core.search import Task
from ordinalgp.many_rows.blocks import Blocks
from ordinalgp.models.training_rows import MergedRows, RowIndex
from ordinalgp.persistence import saved_as


@dataclass(frozen=True, eq=False)
class LocalRows:
    """A few inputs and what was observed of them, small enough to be sent."""

    X: FloatArray
    latent: IntArray
    """the input of each observation, ascending"""
    codes: IntArray
    counts: FloatArray

    def task(self, like: Any) -> Task:
        """The problem of these rows, with the hyperparameters and limits of another task."""
        n = len(self.X)
        projection = Identity(n) if len(self.latent) == n else RowSelection(self.latent, n)
        data = self.X, like.kernel, like.likelihood, projection, self.codes, self.counts
        return Task(*data, like.objective, like.max_sweeps, like.tol)

    def first(self, n: int) -> "LocalRows":
        """The first ``n`` inputs."""
        m = int(np.searchsorted(self.latent, n))
        return LocalRows(self.X[:n], self.latent[:m], self.codes[:m], self.counts[:m])


@saved_as("neighbours.rows")
@dataclass(frozen=True, eq=False)
class BlockedRows:
    """Distinct inputs in the order of their blocks, and what was observed of them."""

    X: Annotated[FloatArray, Axes("N d")]
    latent: Annotated[IntArray, Axes("M", 0, "N")]
    """the input of each observation, ascending"""
    codes: Annotated[IntArray, Axes("M", 0, "r")]
    counts: Annotated[FloatArray, Axes("M", *POSITIVE)]
    index: RowIndex
    """observation that each training row is"""
    blocks: Blocks

    @classmethod
    def cut(cls, rows: MergedRows, weights: FloatArray, size: int) -> Self:
        """Merged rows in blocks of at most ``size`` inputs."""
        blocks, order = Blocks.cut(rows.X, weights, size)
        latent = inverse(order)[rows.latent]
        sort = np.argsort(latent, kind="stable")
        observed = latent[sort], rows.codes[sort], rows.counts[sort]
        # Rows of weight zero, -1, find the last place, which is theirs.
        moved = np.append(inverse(sort), -1)
        index = replace(rows.index, observation=moved[rows.index.observation])
        return cls(rows.X[order], *observed, index, blocks)

    def observations(self, block: int) -> slice:
        """The observations of the inputs of a block."""
        first, last = np.searchsorted(self.latent, self.blocks.starts[block : block + 2])
        return slice(int(first), int(last))

    def take(self, inputs: IntArray) -> LocalRows:
        """Some inputs with their observations, in the order given."""
        first, last = (np.searchsorted(self.latent, inputs, side) for side in ("left", "right"))
        sizes = last - first
        offset = np.cumsum(sizes) - sizes
        latent = np.repeat(np.arange(len(inputs)), sizes)
        at = (first - offset)[latent] + np.arange(len(latent))
        X = np.asarray(self.X[inputs], dtype=float)
        return LocalRows(X, latent, self.codes[at], self.counts[at])

    def alone(self, block: int) -> "BlockedRows":
        """The rows of a block; the index leads from its observations to themselves."""
        first, last = self.blocks.starts[block : block + 2]
        own = self.observations(block)
        index = RowIndex(np.arange(own.stop - own.start), self.X[:0])
        observed = self.latent[own] - first, self.codes[own], self.counts[own]
        return BlockedRows(self.X[first:last], *observed, index, self.blocks.alone(block))

    def near(self, block: int, n: int, allowed: Any) -> IntArray:
        """The ``n`` inputs nearest to a block, in other blocks that are ``allowed``."""
        return self.blocks.nearest(self.X, self.X[self.blocks.rows(block)], n, allowed)

    def check(self) -> None:
        """Raise ValueError unless the parts agree."""
        self.blocks.check()
        n, used = len(self.X), np.zeros(len(self.X), dtype=bool)
        used[self.latent] = True
        ascending = bool(np.all(np.diff(self.latent) >= 0))
        if not ascending or not used.all() or self.blocks.n_rows != n:
            raise ValueError("the inputs, their observations and the blocks disagree")
        unused = int(np.sum(self.index.observation < 0))
        if len(self.index.left_out) != unused or self.index.left_out.shape[1] != self.X.shape[1]:
            raise ValueError("the rows that were left out disagree with the others")


def inverse(order: IntArray) -> IntArray:
    """The inverse of a permutation."""
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return places
