"""Projections: each observation sees one linear combination of the latent values, u = A f."""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Protocol

import numpy as np
from scipy import sparse

from ordinalgp._typing import Axes, FloatArray, IntArray
from ordinalgp.core.linalg import is_lower, multiply_lower

_FEW_ENTRIES = 4  # in a sparse row: 16 numbers gathered cost less than a row of N
_CANCELLED = 1e-6  # a variance smaller than this share of its terms has lost six digits


class Projection(Protocol):
    """A, of shape (n_observations, n_latent), as a pair of products."""

    @property
    def shape(self) -> tuple[int, int]:
        """(M, N)."""

    def apply(self, f: FloatArray) -> FloatArray:
        """A f, for f of shape (N,) or (N, k)."""

    def adjoint(self, u: FloatArray) -> FloatArray:
        """A' u, for u of shape (M,) or (M, k)."""

    def scatter(self, tau: FloatArray) -> FloatArray:
        """A' diag(tau) A, of shape (N, N)."""

    @property
    def distinct(self) -> "tuple[Projection, IntArray | None]":
        """The distinct rows of A, and which of them each observation is (None: all, in order)."""


def sandwich(A: Projection, K: FloatArray) -> FloatArray:
    """A K A' for symmetric K, of shape (M, M)."""
    return A.apply(A.apply(K).T)


def lift(A: Projection, G: FloatArray) -> FloatArray:
    """A' G A for symmetric G, of shape (N, N)."""
    return A.adjoint(A.adjoint(G).T)


def squared_lengths(A: Projection, H: FloatArray) -> FloatArray:
    """diag(A H'H A'), the variances of u for the covariance H'H of f, (M,)."""
    if isinstance(A, Basis) and is_lower(H):
        half = multiply_lower(H, A.matrix.T)
        return np.einsum("km,km->m", half, half)
    if isinstance(A, Differences):
        found, terms = A.variances(H.T @ H)
    else:
        places = A.places if isinstance(A, SparseProjection) else None
        if places is None:
            half = A.apply(H.T)
            return np.einsum("mk,mk->m", half, half)
        flat, products = places
        parts = np.take((H.T @ H).ravel(), flat).reshape(products.shape)
        parts *= products
        found, terms = parts.sum(axis=1), np.abs(parts).sum(axis=1)
    close = np.flatnonzero(found < _CANCELLED * terms)
    if len(close):
        half = np.asarray(A.matrix[close] @ H.T)  # type: ignore[attr-defined]
        found[close] = np.einsum("mk,mk->m", half, half)
    return found


@dataclass(frozen=True)
class Identity:
    """Every latent value is observed once, in order."""

    n: int

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        return self.n, self.n

    def apply(self, f: FloatArray) -> FloatArray:
        """Return f itself."""
        return f

    def adjoint(self, u: FloatArray) -> FloatArray:
        """Return u itself."""
        return u

    def scatter(self, tau: FloatArray) -> FloatArray:
        """diag(tau)."""
        return np.diag(tau)

    @property
    def distinct(self) -> tuple[Projection, IntArray | None]:
        """Already distinct."""
        return self, None


@dataclass(frozen=True, eq=False)
class RowSelection:
    """Observation i sees latent value ``index[i]``: missing, selected or repeated rows."""

    index: Annotated[IntArray, Axes("M", 0, "N")]
    n: int

    @property
    def shape(self) -> tuple[int, int]:
        """(len(index), n)."""
        return len(self.index), self.n

    def apply(self, f: FloatArray) -> FloatArray:
        """Select rows of f."""
        return f[self.index]

    def adjoint(self, u: FloatArray) -> FloatArray:
        """Add rows of u where they were selected from."""
        out = np.zeros((self.n, *u.shape[1:]))
        np.add.at(out, self.index, u)
        return out

    def scatter(self, tau: FloatArray) -> FloatArray:
        """Diagonal, with the sum of tau over each latent value's observations."""
        return np.diag(self.adjoint(tau))

    @cached_property
    def distinct(self) -> tuple[Projection, IntArray | None]:
        """Each observed latent value once."""
        seen, where = np.unique(self.index, return_inverse=True)
        if len(seen) == self.n:
            return Identity(self.n), where.ravel()
        return RowSelection(seen, self.n), where.ravel()


@dataclass(frozen=True, eq=False)
class _Matrix:
    """A projection with a matrix, dense or sparse."""

    matrix: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return self.matrix.shape[0], self.matrix.shape[1]

    def apply(self, f: FloatArray) -> FloatArray:
        """Matrix times f."""
        return np.asarray(self.matrix @ f)

    def adjoint(self, u: FloatArray) -> FloatArray:
        """Transposed matrix times u."""
        return np.asarray(self.matrix.T @ u)


@dataclass(frozen=True, eq=False)
class Basis(_Matrix):
    """A dense matrix: u is a weighted sum of basis functions, or of inducing values."""

    chunk_rows: int = 8192
    """rows of the matrix that are processed at a time"""

    def scatter(self, tau: FloatArray) -> FloatArray:
        """Sum of tau_m a_m a_m' over blocks of rows, so that no M x N copy is made."""
        m, n = self.shape
        out = np.zeros((n, n))
        root = np.sqrt(tau) if (tau >= 0).all() else None
        for start in range(0, m, self.chunk_rows):
            part = slice(start, start + self.chunk_rows)
            if root is None:
                out += self.matrix[part].T @ (tau[part, None] * self.matrix[part])
                continue
            half = root[part, None] * self.matrix[part]
            out += half.T @ half  # numpy sees that it is symmetric: half of the operations
        return out

    @property
    def distinct(self) -> tuple[Projection, IntArray | None]:
        """Taken as distinct: equal rows of a dense basis are rare and harmless."""
        return self, None


@dataclass(frozen=True, eq=False)
class SparseProjection(_Matrix):
    """Any sparse linear combinations: the rows of a scipy sparse matrix."""

    def scatter(self, tau: FloatArray) -> FloatArray:
        """A' diag(tau) A, dense."""
        if self.places is None:
            return np.asarray((self.matrix.T @ self.matrix.multiply(tau[:, None])).todense())
        n, (flat, products) = self.shape[1], self.places
        weights = (tau[:, None] * products).ravel()
        return np.bincount(flat, weights, n * n).astype(float, copy=False).reshape(n, n)

    @cached_property
    def places(self) -> tuple[IntArray, FloatArray] | None:
        """The k^2 pairs of latent values that each row joins: a' C a is a sum over them.

        Their places in the N x N matrix written row after row, (M k^2,), and the products of
        their entries, (M, k^2); None unless all rows have the same small number k of entries.
        """
        lengths = np.diff(self.matrix.indptr)
        if len(lengths) == 0 or np.ptp(lengths) > 0 or lengths[0] > _FEW_ENTRIES:
            return None
        k = int(lengths[0])
        columns = self.matrix.indices.reshape(-1, k).astype(np.intp)
        entries = self.matrix.data.reshape(-1, k)
        flat = np.repeat(columns, k, axis=1) * self.shape[1] + np.tile(columns, k)
        return flat.ravel(), np.repeat(entries, k, axis=1) * np.tile(entries, k)

    @cached_property
    def distinct(self) -> tuple[Projection, IntArray | None]:
        """Rows with the same entries share one projection."""
        matrix = sparse.csr_array(self.matrix, copy=True)  # the next line works in place
        matrix.sum_duplicates()
        ends = zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
        keys = [(matrix.indices[a:b].tobytes(), matrix.data[a:b].tobytes()) for a, b in ends]
        first: dict[Any, int] = {}
        where = np.array([first.setdefault(key, len(first)) for key in keys], dtype=np.intp)
        if len(first) == len(keys):
            return self, None
        representatives = np.unique(where, return_index=True)[1]
        return SparseProjection(matrix[representatives]), where


class Differences(SparseProjection):
    """Observation i sees f[left[i]] - f[right[i]]: a comparison of two items."""

    def __init__(self, left: IntArray, right: IntArray, n: int) -> None:
        m = len(left)
        columns = np.column_stack([left, right]).ravel()
        signs = np.tile([1.0, -1.0], m)
        matrix = sparse.csr_array((signs, columns, np.arange(0, 2 * m + 1, 2)), shape=(m, n))
        super().__init__(matrix)

    @cached_property
    def sides(self) -> tuple[IntArray, IntArray]:
        """Left and right items, (M,) each."""
        left, right = self.matrix.indices.astype(np.intp).reshape(-1, 2).T
        return np.ascontiguousarray(left), np.ascontiguousarray(right)

    def apply(self, f: FloatArray) -> FloatArray:
        """Differences of rows of f."""
        left, right = self.sides
        return np.asarray(f[left] - f[right])

    def adjoint(self, u: FloatArray) -> FloatArray:
        """Add to the left item, take from the right one."""
        if u.ndim > 1:
            return super().adjoint(u)
        (left, right), n = self.sides, self.shape[1]
        return np.asarray(np.bincount(left, u, n) - np.bincount(right, u, n))

    def scatter(self, tau: FloatArray) -> FloatArray:
        """Sum the weights of each pair, then make the Laplacian of the graph with these."""
        n = self.shape[1]
        total = np.bincount(self._cells, tau, n * n).astype(float, copy=False).reshape(n, n)
        total = total + total.T
        degree = total.sum(axis=1)
        np.negative(total, out=total)
        total.flat[:: n + 1] += degree
        return total

    @cached_property
    def _cells(self) -> IntArray:
        """Place of each pair in the N x N matrix written row after row."""
        left, right = self.sides
        return left * self.shape[1] + right

    def variances(self, C: FloatArray) -> tuple[FloatArray, FloatArray]:
        """diag(A C A'), and the sum of the absolute values of its terms."""
        (left, right), own = self.sides, np.diagonal(C)
        both, shared = own[left] + own[right], 2.0 * np.take(C.ravel(), self._cells)
        return both - shared, both + np.abs(shared)

    @cached_property
    def distinct(self) -> tuple[Projection, IntArray | None]:
        """Comparisons of the same left with the same right item share one projection."""
        cells, first, where = np.unique(self._cells, return_index=True, return_inverse=True)
        if len(cells) == len(self._cells):
            return self, None
        order = np.argsort(first)  # of first appearance
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        (left, right), first = self.sides, first[order]
        return Differences(left[first], right[first], self.shape[1]), place[where.ravel()]
