"""Training rows with repetitions merged: equal inputs share a latent value, equal rows a site."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.projections import Identity, Projection, Rows


@dataclass(frozen=True, eq=False)
class MergedRows:
    """Distinct inputs, distinct (input, level) observations, and how often each was made."""

    X: FloatArray
    """distinct inputs, (N, d), sorted: the answer does not depend on the order of rows"""
    latent: IntArray
    """which input each observation is of, (M,)"""
    codes: IntArray
    """level of each observation, (M,)"""
    counts: FloatArray
    """total weight of each observation, (M,)"""
    observation: IntArray
    """which observation each training row is, (n,); -1 for rows of weight zero"""
    left_out: FloatArray
    """the inputs of rows of weight zero, in their order"""

    @property
    def projection(self) -> Projection:
        """From inputs to observations."""
        n = len(self.X)
        same = len(self.latent) == n and bool(np.all(self.latent == np.arange(n)))
        return Identity(n) if same else Rows(self.latent, n)


def merge_rows(X: FloatArray, codes: IntArray, weights: FloatArray, kernel: Any) -> MergedRows:
    """Merge equal rows, unless the kernel tells them apart; rows of weight zero are left out."""
    used, left_out = weights > 0, X[weights <= 0]
    observation = np.full(len(X), -1, dtype=np.intp)
    X, codes, weights = X[used], codes[used], weights[used]
    inputs, of_row = _distinct_inputs(X, kernel)
    pairs, which = np.unique(np.column_stack([of_row, codes]), axis=0, return_inverse=True)
    which = which.ravel()
    observation[used] = which
    counts = np.bincount(which, weights, minlength=len(pairs)).astype(float)
    return MergedRows(inputs, pairs[:, 0], pairs[:, 1], counts, observation, left_out)


def _distinct_inputs(X: FloatArray, kernel: Any) -> tuple[FloatArray, IntArray]:
    # White noise gives equal inputs latent values of their own; gaps (NaN) never compare equal.
    white = kernel(X[:1])[0, 0] != kernel(X[:1], X[:1])[0, 0]
    if white or np.isnan(X).any():
        return X, np.arange(len(X))
    inputs, of_row = np.unique(X, axis=0, return_inverse=True)
    return inputs, of_row.ravel()
