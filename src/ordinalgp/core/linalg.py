"""Cholesky factors and their inverses, in memory that is used again."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack, solve_triangular

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.workspace import Workspace, matrix

_STRIP = 128  # rows at a time that stay in the cache
_LEAF, _LARGE = 64, 1000  # triangles that LAPACK inverts as fast as we do


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

    def invert(self) -> None:
        """Let the inverse take the factor's place."""
        self.inverse  # noqa: B018 (computed when it is read)

    @cached_property
    def inverse(self) -> FloatArray:
        """L^-1, written over L."""
        # A model read from a memory map must not be written to.
        inverse = self._lower if self._lower.flags.writeable else self._lower.copy(order="F")
        _invert(inverse)
        self._lower = None
        _clear_lower(inverse.T)
        return np.asarray(inverse)

    def solve(self, b: FloatArray) -> FloatArray:
        """(L L')^-1 b."""
        if self._lower is None:
            if b.ndim > 1:
                return self.inverse.T @ (self.inverse @ b)
            half = blas.dtrmv(self.inverse, b, lower=1)
            return np.asarray(blas.dtrmv(self.inverse, half, lower=1, trans=1, overwrite_x=1))
        x, _ = lapack.dpotrs(self._lower, b, lower=1)
        return np.asarray(x)

    def half_product(self, B: FloatArray) -> FloatArray:
        """L^-1 B by the inverse, over B where its order is Fortran's, which then is given up."""
        if B.size == 0:
            return B
        return np.asarray(blas.dtrmm(1.0, self.inverse, B, lower=1, overwrite_b=1))

    def half_solve(self, b: FloatArray) -> FloatArray:
        """L^-1 b, before the inverse has taken the factor's place."""
        x, _ = lapack.dtrtrs(self._lower, b, lower=1)
        return np.asarray(x)

    def upper_inverse(
        self, scale: FloatArray | float = 1.0, workspace: Workspace | None = None
    ) -> FloatArray:
        """The upper triangle of S (L L')^-1 S, S = diag(scale), with zeros below it."""
        half = matrix(workspace, "inverse", len(self.inverse)).T
        np.multiply(self.inverse, scale, out=half)
        half, _ = lapack.dlauum(half, lower=1, overwrite_c=1)
        return np.asarray(half.T)

    def full_inverse(self) -> FloatArray:
        """(L L')^-1 as a full symmetric matrix."""
        return mirrored(self.upper_inverse())


def _invert(lower: FloatArray) -> None:
    """Invert a lower triangle in Fortran order in its place.

    By halves: LAPACK's own takes a fifth longer at 400 to 600 rows, and as long from 1,000 on.
    """
    n, k = len(lower), len(lower) // 2
    if n <= _LEAF or n >= _LARGE:
        lower[:] = lapack.dtrtri(lower, lower=1, overwrite_c=1)[0]
        return
    first, second = (np.asfortranarray(lower[at, at]) for at in (slice(k), slice(k, n)))
    _invert(first)
    _invert(second)
    corner = blas.dtrmm(-1.0, second, lower[k:, :k], lower=1)
    lower[k:, :k] = blas.dtrmm(1.0, first, corner, side=1, lower=1, overwrite_b=1)
    lower[:k, :k], lower[k:, k:] = first, second


def _clear_lower(A: FloatArray) -> None:
    """Write zeros below the diagonal of a matrix in C order."""
    below = np.tri(_STRIP, k=-1, dtype=bool)
    for i in range(0, len(A), _STRIP):
        A[i : i + _STRIP, :i] = 0.0
        block = A[i : i + _STRIP, i : i + _STRIP]
        np.copyto(block, 0.0, where=below[: len(block), : len(block)])


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


def scaled_solver(A: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Solver for a positive definite matrix whose rows differ by many powers of ten.

    Rounding can cost definiteness, as near the solution of an interior point method. A share of the
    diagonal brings it back; the direction is then only nearly right.
    """
    scale = 1 / np.sqrt(np.diagonal(A))
    scaled = scale[:, None] * A * scale
    for share in (0.0, 1e-14, 1e-12, 1e-10):
        scaled.flat[:: len(scaled) + 1] = 1.0 + share
        factor, info = lapack.dpotrf(scaled, lower=1)
        if info == 0:
            break
    return lambda b: scale * lapack.dpotrs(factor, scale * b, lower=1)[0]


_SPAN = 1e-10  # share of the largest variance below which what is left is rounding


@dataclass(frozen=True, eq=False)
class Features:
    """K = matrix @ matrix.T, exactly or, with fewer pivots than the rank, nearly."""

    matrix: FloatArray
    """(n, m)"""
    pivots: IntArray
    """rows whose features alone give all others', (m,)"""
    complete: bool
    """whether nothing but rounding is left out"""

    def expansion(self, weights: FloatArray) -> FloatArray:
        """Coefficients a of the pivots' kernel functions with sum_j a_j k(x, z_j) = g(x)'weights.

        Features are g(x) = L^-1 k(Z, x) with the pivots' own factor L.
        """
        lower = self.matrix[self.pivots]
        coefficients: FloatArray = solve_triangular(lower, weights, lower=True, trans="T")
        return coefficients


def pivoted_cholesky(
    column: Callable[[int], FloatArray],
    diagonal: FloatArray,
    most: int | None = None,
    enough: float = 0.0,
) -> Features:
    """Factor the matrix with these columns and diagonal, largest remaining variance first.

    It ends after ``most`` pivots, or where no variance above ``enough`` is left. O(n m^2) time and
    n m numbers; only m columns of the matrix are ever asked for.
    """
    left, n = np.array(diagonal, dtype=float), len(diagonal)
    limit = n if most is None else min(most, n)
    rounding = _SPAN * left.max()
    rows, pivots = np.empty((limit, n)), np.empty(limit, dtype=np.intp)  # features, by rows
    rank = limit
    for j in range(limit):
        p = int(np.argmax(left))
        if left[p] <= max(enough, rounding):
            rank = j
            break
        rows[j] = (column(p) - rows[:j, p] @ rows[:j]) / np.sqrt(left[p])
        rows[j, pivots[:j]] = 0.0
        rows[j, p] = np.sqrt(left[p])
        pivots[j] = p
        left = np.maximum(left - rows[j] ** 2, 0.0)
        left[pivots[: j + 1]] = 0.0
    complete = bool(left.max() <= rounding)
    return Features(np.ascontiguousarray(rows[:rank].T), pivots[:rank], complete)
