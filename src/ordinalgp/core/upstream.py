"""The slope dL/dK of an objective, formed no further than a kernel asks for."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ordinalgp._typing import FloatArray
from ordinalgp.core.triangle import mirrored

_STRIP = 64  # rows at a time that stay in the cache


class Upstream(Protocol):
    """A symmetric matrix dL/dK, (N, N)."""

    def meet(self, i: int, block: FloatArray) -> float:
        """Sum of the rows i.. from column i on, as many as ``block`` has, times the block.

        The block is zero below the diagonal, where nothing need be known of the matrix.
        """

    def full(self) -> FloatArray:
        """The matrix itself; it may be written over what it was made of."""


@dataclass(frozen=True, eq=False)
class Upper:
    """A matrix of which the upper triangle is at hand."""

    matrix: FloatArray

    def meet(self, i: int, block: FloatArray) -> float:
        """Sum of products."""
        return float(np.einsum("ij,ij->", self.matrix[i : i + len(block), i:], block))

    def full(self) -> FloatArray:
        """Fill in the other triangle."""
        return mirrored(self.matrix)


@dataclass(frozen=True, eq=False)
class Parts:
    """(left right - R) / 2 with left right of low rank, which need not be added up for a sum."""

    R: FloatArray
    """symmetric, its upper triangle in use"""
    left: FloatArray
    """(N, k)"""
    right: FloatArray
    """(k, N)"""

    @classmethod
    def of(cls, R: FloatArray, weights: FloatArray, mixed: FloatArray | None = None) -> "Parts":
        """(w w' - R)/2, and (w c' + c w')/2 for ``mixed`` = c."""
        if mixed is None:
            return cls(R, weights[:, None], weights[None])
        return cls(R, np.column_stack([weights + mixed, weights]), np.vstack([weights, mixed]))

    def meet(self, i: int, block: FloatArray) -> float:
        """Sum of products with each part."""
        j = i + len(block)
        outer = np.vdot(self.left[i:j], block @ self.right[:, i:].T)
        return 0.5 * float(outer - np.einsum("ij,ij->", self.R[i:j, i:], block))

    def full(self) -> FloatArray:
        """Add up the parts, written over R."""
        half = 0.5 * self.right
        for i in range(0, len(self.R), _STRIP):
            strip = self.R[i : i + _STRIP, i:]
            strip *= -0.5
            strip += self.left[i : i + _STRIP] @ half[:, i:]
        return mirrored(self.R)
