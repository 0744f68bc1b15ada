"""Triangular factors, pivoted Cholesky and their memory: the home of every LAPACK call."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack, solve_triangular
from scipy.spatial.distance import cdist

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.runtime.threads import one_thread, threaded, threads_for

# The calls that take most of the time of large problems.
dpotrf, dtrtri, dlauum, dpotri = map(
    threaded, (lapack.dpotrf, lapack.dtrtri, lapack.dlauum, lapack.dpotri)
)
_STRIP = 128  # rows at a time that stay in the cache
_BELOW = np.tri(_STRIP, k=-1, dtype=bool)  # below the diagonal of a strip's own columns
# Shares of the diagonal, in units of n eps, that are tried in turn where definiteness is lost.
_SHARES = (0.0, 1.0, 1e2, 1e4)
_FIRST_NUGGET, _LARGEST_NUGGET = 1e-14, 1e-2  # in units of the mean of the diagonal
_SOLVER_SHARES = (0.0, 1e-14, 1e-12, 1e-10)  # of the diagonal, tried in turn by `scaled_solver`
_ROW_BLOCKS = 8  # in which a triangle is multiplied: 9/16 of the operations of the square
_LEAF, _LARGE = 64, 2000  # triangles that LAPACK inverts as fast as we do


class Workspace:
    """Square arrays of one search in one thread, and the distances that stay the same.

    The system clears fresh memory page by page, which costs as much as several passes over
    it: at 1,000 rows a twentieth of an evaluation with its three matrices.
    """

    def __init__(self) -> None:
        self._matrices: dict[str, FloatArray] = {}
        self._X: Any = None
        self.preconditioner: Any = None
        """of the last posterior, which may help with the next"""

    def matrix(self, name: str, n: int) -> FloatArray:
        """The array of that name, (n, n), with whatever was left in it."""
        kept = self._matrices.get(name)
        if kept is None or len(kept) != n:
            kept = self._matrices[name] = np.empty((n, n))
        return kept

    def distances(self, X: Any) -> FloatArray:
        """Squared distances between the rows of ``X``, computed when X is another object."""
        if X is not self._X:
            rows = np.atleast_2d(np.asarray(X, dtype=float))
            cdist(rows, rows, "sqeuclidean", out=self.matrix("distances", len(rows)))
            self._X = X
        return self._matrices["distances"]


def matrix(workspace: Workspace | None, name: str, n: int) -> FloatArray:
    """The workspace's array of that name, or a new one where there is no workspace."""
    return np.empty((n, n)) if workspace is None else workspace.matrix(name, n)


Build = Callable[[], FloatArray]
"""makes a matrix anew, which is then overwritten"""


@one_thread()  # whose rounding is always the same
def lower_factor(build: Build) -> FloatArray:
    """The lower Cholesky factor of the symmetric matrix that ``build`` makes."""
    return _factor(build, None, clean=True)[0]


def _factor(build: Build, careful: Build | None, *, clean: bool) -> tuple[FloatArray, bool]:
    """The lower Cholesky factor, and whether the matrix was definite in spite of rounding.

    Unless ``clean``, the other triangle is left as it is. Where rounding costs the matrix its
    definiteness, ``careful`` makes it with less rounding, and a share of each diagonal entry is
    added. By Demmel's theorem (Th. 10.7 of [Higham02]_) n (n + 1) eps is enough for any rounding
    in relation to the diagonal.
    """
    for share in _SHARES:
        matrix = build() if share == 0.0 or careful is None else careful()
        if share:
            matrix.flat[:: len(matrix) + 1] *= 1.0 + share * len(matrix) * np.finfo(float).eps
        # A C-ordered symmetric matrix is its own Fortran-ordered transpose: no copy is made.
        factor, info = dpotrf(matrix.T, lower=1, overwrite_a=1, clean=int(clean))
        if info == 0:
            return np.asarray(factor), share == 0.0
    raise np.linalg.LinAlgError(
        "the posterior precision is not positive definite; the kernel matrix holds "
        "non-finite values or is far from positive semi-definite"
    )


class Triangle:
    """Cholesky factor of a symmetric matrix that is given up, and then its inverse in place."""

    def __init__(self, build: Build, careful: Build | None = None) -> None:
        factor, self.definite = _factor(build, careful, clean=False)
        self._lower: Any = factor
        self.half_log_det = float(np.log(np.diagonal(factor)).sum())

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
        with threads_for(min(B.shape)):
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
        half, _ = dlauum(half, lower=1, overwrite_c=1)
        return np.asarray(half.T)

    def full_inverse(self) -> FloatArray:
        """(L L')^-1 as a full symmetric matrix."""
        return mirrored(self.upper_inverse())


def multiply_lower(M: FloatArray, B: FloatArray) -> FloatArray:
    """M B for a lower triangle M, by rows of blocks.

    numpy's products let other threads run, which scipy's triangular ones do not, and are also
    faster by one thread than a triangular solve (512 x 512 times 8192: 8 against 12 us per column).
    """
    out = np.empty((len(M), *B.shape[1:]), dtype=np.result_type(M, B))
    for rows in _row_blocks(len(M)):
        np.matmul(M[rows, : rows.stop], B[: rows.stop], out=out[rows])
    return out


def multiply_upper(M: FloatArray, B: FloatArray) -> FloatArray:
    """M B for an upper triangle M."""
    out = np.empty((len(M), *B.shape[1:]), dtype=np.result_type(M, B))
    for rows in _row_blocks(len(M)):
        np.matmul(M[rows, rows.start :], B[rows.start :], out=out[rows])
    return out


def _row_blocks(m: int) -> Iterator[slice]:
    size = max(1, -(-m // _ROW_BLOCKS))
    return (slice(i, min(i + size, m)) for i in range(0, m, size))


def is_lower(M: FloatArray) -> bool:
    """Whether there are only zeros above the diagonal of a square matrix."""
    square = M.ndim == 2 and len(M) == M.shape[1]
    return square and not any(M[i, i + 1 :].any() for i in range(len(M)))


def _invert(lower: FloatArray) -> None:
    """Invert a lower triangle in Fortran order in its place.

    By halves: LAPACK's own takes 1.8 times as long at 500 rows, 1.2 at 1,000, and as long at 2,000.
    """
    n, k = len(lower), len(lower) // 2
    if n <= _LEAF or n >= _LARGE:
        lower[:] = dtrtri(lower, lower=1, overwrite_c=1)[0]
        return
    first, second = (np.asfortranarray(lower[at, at]) for at in (slice(k), slice(k, n)))
    _invert(first)
    _invert(second)
    corner = blas.dtrmm(-1.0, second, lower[k:, :k], lower=1)
    lower[k:, :k] = blas.dtrmm(1.0, first, corner, side=1, lower=1, overwrite_b=1)
    lower[:k, :k], lower[k:, k:] = first, second


def _clear_lower(A: FloatArray) -> None:
    """Write zeros below the diagonal of a matrix in C order."""
    for i in range(0, len(A), _STRIP):
        A[i : i + _STRIP, :i] = 0.0
        block = A[i : i + _STRIP, i : i + _STRIP]
        np.copyto(block, 0.0, where=_BELOW[: len(block), : len(block)])


def mirrored(upper: FloatArray) -> FloatArray:
    """Fill the lower triangle from the upper one, in place and in C order."""
    for i in range(0, len(upper), _STRIP):
        j = i + _STRIP
        block = upper[i:j, i:j]
        np.copyto(block, block.T, where=_BELOW[: len(block), : len(block)])
        upper[j:, i:j] = upper[i:j, j:].T
    return upper


def square_root(K: FloatArray) -> FloatArray:
    """Some F with F F' = K: Cholesky, with pivots and fewer columns where K is singular."""
    factor, info = dpotrf(K.T, lower=1, overwrite_a=0, clean=1)
    if info == 0:
        return np.asarray(factor)
    factor, pivots, rank, _ = lapack.dpstrf(K.T, lower=1)
    F = np.zeros((len(K), rank))
    F[pivots - 1] = np.tril(factor)[:, :rank]
    return F


def symmetric_root(K: FloatArray) -> FloatArray:
    """The symmetric F with F F = K, K symmetric and positive semi-definite up to rounding."""
    values, vectors = np.linalg.eigh(K)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


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
        return solve_triangular(lower, weights, lower=True, trans="T")


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


def factor_with_nugget(K: FloatArray) -> FloatArray:
    """The lower factor of K plus the smallest nugget that makes it positive definite, over K."""
    scale, nugget = max(float(np.mean(np.diagonal(K))), np.finfo(float).tiny), 0.0
    while nugget <= _LARGEST_NUGGET:
        K.flat[:: len(K) + 1] += nugget * scale
        factor, info = lapack.dpotrf(K.T, lower=1, clean=1)
        if info == 0:
            return np.asarray(factor)
        nugget = max(_FIRST_NUGGET, 10.0 * nugget)
    raise np.linalg.LinAlgError("the kernel matrix of the inducing points is not finite")


def invert_lower(L: FloatArray) -> FloatArray:
    """The inverse of a lower triangle."""
    inverse, _ = lapack.dtrtri(L, lower=1)
    return np.ascontiguousarray(inverse)


def invert_in_place(C: FloatArray) -> FloatArray:
    """The inverse of a symmetric positive definite matrix, over it."""
    factor, info = dpotrf(C.T, lower=1, overwrite_a=1, clean=0)
    if info != 0:
        raise np.linalg.LinAlgError("the covariance of the ranks is not positive definite")
    inverse, _ = dpotri(factor, lower=1, overwrite_c=1)
    return mirrored(inverse.T)


def solve_definite(A: FloatArray, b: FloatArray) -> FloatArray | None:
    """A^-1 b for a small symmetric matrix; None unless it is positive definite."""
    _, x, info = lapack.dposv(A, b)
    return np.asarray(x) if info == 0 else None


def congruence(F: FloatArray, precision: FloatArray) -> FloatArray:
    """F' precision F for symmetric ``precision``; the upper triangle alone where F is lower."""
    if F.shape[0] != F.shape[1] or F[0, 1:].any():
        return F.T @ (precision @ F)
    product, _ = lapack.dsygst(precision.T, F, itype=2, lower=1)
    return np.asarray(product).T


def scaled_solver(matrix: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Solver for a positive definite matrix whose rows differ by many powers of ten.

    Rounding can cost definiteness; a share of the diagonal brings it back.
    """
    scale = 1 / np.sqrt(np.diagonal(matrix))
    matrix = scale[:, None] * matrix * scale
    for share in _SOLVER_SHARES:
        matrix.flat[:: len(matrix) + 1] = 1.0 + share
        factor, info = dpotrf(matrix, lower=1)
        if info == 0:
            break
    return lambda b: scale * lapack.dpotrs(factor, scale * b, lower=1)[0]
