"""Inducing points: a few inputs whose latent values carry what many rows say.

With K_zz = L L' and u = L^-1 f(Z) ~ N(0, I), a row sees a'u with a = L^-1 k_z(x), and what a
misses of its prior variance, the residual k(x, x) - |a|^2, joins the noise of its likelihood.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import blas

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.kernel_gradient import contract
from ordinalgp.core.kernel_matrix import cross_covariance, kernel_matrix
from ordinalgp.core.linalg import factor_with_nugget, invert_lower, pivoted_cholesky

_ROW_BLOCKS = 8  # in which a triangle is multiplied: 9/16 of the operations of the square


@dataclass(frozen=True, eq=False)
class WhitenedRows:
    """Rows as combinations of the whitened inducing values: g_i = a_i'u + residual noise."""

    A: FloatArray
    """(m, c): column i is a_i"""
    residual: FloatArray
    """(c,): prior variance that a_i misses, at least 0"""


@dataclass(frozen=True, eq=False)
class Inducing:
    """A kernel and its inducing points."""

    kernel: Any
    Z: FloatArray

    @cached_property
    def factor(self) -> FloatArray:
        """L with L L' = K_zz, plus the smallest nugget that makes it positive definite."""
        return factor_with_nugget(kernel_matrix(self.kernel, self.Z))

    @cached_property
    def inverse_factor(self) -> FloatArray:
        """L^-1, lower triangle."""
        return invert_lower(self.factor)

    def rows(self, X: FloatArray) -> WhitenedRows:
        """The basis at ``X``: O(c m^2)."""
        return self.whitened(cross_covariance(self.kernel, self.Z, X), self.kernel.diag(X))

    def whitened(self, cross: FloatArray, diag: FloatArray) -> WhitenedRows:
        """The basis from the cross-covariance (m, c) and the prior variances."""
        A = multiply_lower(self.inverse_factor, cross)
        return WhitenedRows(A, np.maximum(diag - squared_length(A), 0.0))

    def contract_rows(
        self, X: FloatArray, d_basis: FloatArray, d_residual: FloatArray
    ) -> FloatArray:
        """Gradient in kernel.theta of L through the rows' cross-covariances and variances.

        ``d_basis`` = dL/dA (m, c) with the residual's share in it, ``d_residual`` = dL/dr (c,).
        Both kinds of kernel values lie in the matrix of [X; Z] with itself, so that one rule per
        kernel is enough; blocks of about m rows keep the unused part small.
        """
        m, total = len(self.Z), np.zeros(self.kernel.n_dims)
        d_cross = self.inverse_factor.T @ d_basis
        for i in range(0, len(X), m):
            part = slice(i, min(i + m, len(X)))
            c = part.stop - part.start
            upstream = np.zeros((c + m, c + m))
            upstream[:c, c:] = 0.5 * d_cross[:, part].T
            upstream[c:, :c] = 0.5 * d_cross[:, part]
            upstream.flat[: c * (c + m) : c + m + 1] = d_residual[part]
            total += contract(self.kernel, np.concatenate([X[part], self.Z]), upstream)
        return total

    def contract_points(self, H: FloatArray) -> FloatArray:
        """Gradient in kernel.theta through K_zz, where H = A dL/dA' summed over rows, (m, m).

        H is symmetric (nothing depends on the choice of L), so dL/dK_zz = -L^-T H L^-1 / 2.
        """
        half = blas.dtrsm(1.0, self.factor, np.asfortranarray(H), lower=1, trans_a=1)
        upstream = blas.dtrsm(-0.5, self.factor, half, lower=1, side=1)
        upstream = np.ascontiguousarray((upstream + upstream.T) / 2)
        return contract(self.kernel, self.Z, upstream)


def multiply_lower(M: FloatArray, B: FloatArray) -> FloatArray:
    """M B for a lower triangle M, by rows of blocks.

    numpy's products let other threads run, which scipy's triangular ones do not, and are also
    faster by one thread than a triangular solve (512 x 512 times 8192: 8 against 12 us per column).
    """
    m = len(M)
    out = np.empty(B.shape, dtype=np.result_type(M, B))
    size = max(1, -(-m // _ROW_BLOCKS))
    for i in range(0, m, size):
        j = min(i + size, m)
        np.matmul(M[i:j, :j], B[:j], out=out[i:j])
    return out


def squared_length(A: FloatArray) -> FloatArray:
    """|a|^2 of every column a."""
    return np.einsum("mc,mc->c", A, A)


def greedy_points(kernel: Any, X: FloatArray, m: int, enough: float = 0.0) -> IntArray:
    """Up to m rows, each where the others leave most prior variance (pivoted Cholesky).

    Fewer where they leave no more than ``enough`` at any row of ``X``.
    """

    def row(i: int) -> FloatArray:
        return np.asarray(kernel(X[i : i + 1], X))[0]

    return pivoted_cholesky(row, kernel.diag(X), m, enough).pivots
