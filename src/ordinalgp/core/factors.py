"""A kernel matrix as a product of features: Cholesky with pivots, stopped early where it may be."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from ordinalgp._typing import FloatArray, IntArray

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
    column: Callable[[int], FloatArray], diagonal: FloatArray, most: int | None = None
) -> Features:
    """Factor the matrix with these columns and diagonal, largest remaining variance first.

    O(n m^2) time and n m numbers; only m columns of the matrix are ever asked for.
    """
    left, n = np.array(diagonal, dtype=float), len(diagonal)
    limit = n if most is None else min(most, n)
    largest = left.max()
    matrix, pivots = np.zeros((n, limit)), np.empty(limit, dtype=np.intp)
    rank = limit
    for j in range(limit):
        p = int(np.argmax(left))
        if left[p] <= _SPAN * largest:
            rank = j
            break
        pivots[j] = p
        matrix[:, j] = column(p) - matrix[:, :j] @ matrix[p, :j]
        matrix[pivots[:j], j] = 0.0
        matrix[:, j] /= np.sqrt(left[p])
        matrix[p, j] = np.sqrt(left[p])
        left = np.maximum(left - matrix[:, j] ** 2, 0.0)
        left[pivots[: j + 1]] = 0.0
    complete = bool(left.max() <= _SPAN * largest)
    return Features(np.ascontiguousarray(matrix[:, :rank]), pivots[:rank], complete)
