"""Training rows of a sparse model, which can grow, and the basis functions they offer."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ordinalgp._rows import merge_rows
from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.columns import Columns


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Distinct inputs and observations of them, with where each input was first seen."""

    inputs: FloatArray
    """distinct inputs, (N, d), sorted: the answer does not depend on the order of rows"""
    latent: IntArray
    """which input each observation is of, (M,)"""
    codes: IntArray
    """level of each observation, (M,)"""
    counts: FloatArray
    """total weight of each observation, (M,)"""
    first_row: IntArray
    """the first training row with each input, (N,)"""

    @property
    def observed(self) -> FloatArray:
        """The input of every observation, (M, d)."""
        same = len(self.latent) == len(self.inputs)
        return self.inputs if same else self.inputs[self.latent]

    def take(self, observations: IntArray) -> "SparseRows":
        """Some of the observations, with their inputs."""
        seen, latent = np.unique(self.latent[observations], return_inverse=True)
        codes, counts = self.codes[observations], self.counts[observations]
        rows = self.inputs[seen], latent.ravel(), codes, counts, self.first_row[seen]
        return SparseRows(*rows)


def sparse_rows(
    X: FloatArray,
    codes: IntArray,
    weights: FloatArray,
    kernel: Any,
    numbers: IntArray | None = None,
) -> SparseRows:
    """Merge equal rows; ``numbers`` are the rows' places in the order in which they came."""
    merged = merge_rows(X, codes, weights, kernel)
    numbers = np.arange(len(X)) if numbers is None else numbers
    used = merged.observation >= 0
    first = np.full(len(merged.X), np.iinfo(np.intp).max, dtype=np.intp)
    np.minimum.at(first, merged.latent[merged.observation[used]], numbers[used])
    return SparseRows(merged.X, merged.latent, merged.codes, merged.counts, first)


def extended(
    old: SparseRows, X: FloatArray, codes: IntArray, weights: FloatArray, kernel: Any, seen: int
) -> tuple[SparseRows, IntArray]:
    """``old`` with more rows after the ``seen`` ones, and the new place of each old input."""
    rows = sparse_rows(
        np.vstack([old.observed, X]),
        np.concatenate([old.codes, codes]),
        np.concatenate([old.counts, weights]),
        kernel,
        np.concatenate([old.first_row[old.latent], seen + np.arange(len(X))]),
    )
    # An input that was first seen in row k keeps that number, whatever else is merged with it.
    return rows, places(old.first_row, rows.first_row)


def places(numbers: IntArray, among: IntArray) -> IntArray:
    """Where each of ``numbers`` is in ``among``, all of them different."""
    order = np.argsort(among)
    found: IntArray = order[np.searchsorted(among[order], numbers)]
    return found


def draw_candidates(n: int, most: int | None, always: IntArray, rng: Any) -> IntArray:
    """Inputs that offer a basis function: all, or ``most`` at random and those in ``always``."""
    if most is None or most >= n:
        return np.arange(n)
    return np.union1d(rng.choice(n, most, replace=False), always)


@dataclass(frozen=True, eq=False)
class _Evaluate:
    """Any part of the basis matrix."""

    kernel: Any
    rows: FloatArray
    centres: FloatArray

    def __call__(self, rows: slice, index: IntArray) -> FloatArray:
        wanted = self.rows[rows]
        if not len(index):  # not every kernel takes none
            return np.empty((len(wanted), 0))
        columns: FloatArray = self.kernel(wanted, self.centres[index])
        return columns


def basis_columns(rows: SparseRows, candidates: IntArray, kernel: Any, memory: float) -> Columns:
    """The basis functions of ``candidates`` at the observations."""
    observed = rows.observed
    evaluate = _Evaluate(kernel, observed, rows.inputs[candidates])
    return Columns(evaluate, len(observed), len(candidates), memory)
