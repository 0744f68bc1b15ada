"""Cholesky factors and their inverses, in memory that is used again."""

from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import lapack

from ordinalgp._typing import FloatArray
from ordinalgp.core.room import Room, matrix

_STRIP = 128  # rows at a time that stay in the cache


def lower_factor(matrix: FloatArray, *, overwrite: bool = False) -> FloatArray:
    """The lower Cholesky factor; where it may overwrite, the other triangle is left as it is."""
    # A C-ordered symmetric matrix is its own Fortran-ordered transpose: no copy is made.
    options = {"overwrite_a": int(overwrite), "clean": int(not overwrite)}
    factor, info = lapack.dpotrf(matrix.T, lower=1, **options)
    if info != 0:
        raise np.linalg.LinAlgError(
            "the posterior precision is not positive definite; the kernel matrix holds "
            "non-finite values or is far from positive semi-definite"
        )
    return np.asarray(factor)


class Triangle:
    """Cholesky factor of a symmetric matrix that is given up, and then its inverse in place."""

    def __init__(self, matrix: FloatArray) -> None:
        factor = lower_factor(matrix, overwrite=True)
        self._lower: Any = factor
        self.half_log_det = float(np.sum(np.log(np.diagonal(factor))))

    @cached_property
    def inverse(self) -> FloatArray:
        """L^-1, written over L."""
        # A model read from a memory map must not be written to.
        overwrite = int(self._lower.flags.writeable)
        inverse, _ = lapack.dtrtri(self._lower, lower=1, overwrite_c=overwrite)
        self._lower = None
        _clear_lower(inverse.T)
        return inverse

    def solve(self, b: FloatArray) -> FloatArray:
        """(L L')^-1 b."""
        if self._lower is None:
            return self.inverse.T @ (self.inverse @ b)
        x, _ = lapack.dpotrs(self._lower, b, lower=1)
        return np.asarray(x)

    def half_solve(self, b: FloatArray) -> FloatArray:
        """L^-1 b, before the inverse has taken the factor's place."""
        x, _ = lapack.dtrtrs(self._lower, b, lower=1)
        return np.asarray(x)

    def full_inverse(self, scale: FloatArray | float = 1.0, room: Room | None = None) -> FloatArray:
        """S (L L')^-1 S as a full symmetric matrix, S = diag(scale)."""
        half = matrix(room, "inverse", len(self.inverse)).T
        np.multiply(self.inverse, scale, out=half)
        half, _ = lapack.dlauum(half, lower=1, overwrite_c=1)
        return mirrored(half.T)  # the upper triangle, in C order


def _clear_lower(A: FloatArray) -> None:
    """Write zeros below the diagonal of a matrix in C order."""
    below = np.tri(_STRIP, k=-1, dtype=bool)
    for i in range(0, len(A), _STRIP):
        A[i : i + _STRIP, :i] = 0.0
        block = A[i : i + _STRIP, i : i + _STRIP]
        block[below[: len(block), : len(block)]] = 0.0


def mirrored(upper: FloatArray) -> FloatArray:
    """Fill the lower triangle from the upper one, in place and in C order."""
    below = np.tri(_STRIP, k=-1, dtype=bool)
    for i in range(0, len(upper), _STRIP):
        j = i + _STRIP
        block = upper[i:j, i:j]
        np.copyto(block, block.T, where=below[: len(block), : len(block)])
        upper[j:, i:j] = upper[i:j, j:].T
    return upper


def square_root(K: FloatArray) -> FloatArray:
    """Some F with F F' = K: Cholesky, with pivots and fewer columns where K is singular."""
    factor, info = lapack.dpotrf(K.T, lower=1, overwrite_a=0, clean=1)
    if info == 0:
        return np.asarray(factor)
    factor, pivots, rank, _ = lapack.dpstrf(K.T, lower=1)
    F = np.zeros((len(K), rank))
    F[pivots - 1] = np.tril(factor)[:, :rank]
    return F
