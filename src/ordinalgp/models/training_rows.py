"""Training rows with repetitions merged: equal inputs share a latent value, equal rows a site."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from ordinalgp._typing import POSITIVE, Axes, FloatArray, IntArray
from ordinalgp.core.hyperparameters import tells_copies_apart
from ordinalgp.core.projections import Identity, Projection, RowSelection
from ordinalgp.persistence import saved_as


@saved_as("rows.index")
@dataclass(frozen=True, eq=False)
class RowIndex:
    """Place of each training row among the merged observations."""

    observation: Annotated[IntArray, Axes("n", -1, "M")]
    """observation that each row is; -1 for rows of weight zero"""
    left_out: Annotated[FloatArray, Axes("unused d")]
    """inputs of the rows of weight zero, in their order"""


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
    index: RowIndex

    @property
    def projection(self) -> Projection:
        """From inputs to observations."""
        n = len(self.X)
        same = len(self.latent) == n and bool(np.all(self.latent == np.arange(n)))
        return Identity(n) if same else RowSelection(self.latent, n)


def merge_rows(X: FloatArray, codes: IntArray, weights: FloatArray, kernel: Any) -> MergedRows:
    """Merge equal rows, unless the kernel tells them apart; rows of weight zero are left out."""
    used, left_out = weights > 0, X[weights <= 0]
    observation = np.full(len(X), -1, dtype=np.intp)
    X, codes, weights = X[used], codes[used], weights[used]
    inputs, of_row = distinct_inputs(X, kernel)
    n_levels = int(codes.max(initial=0)) + 1
    pairs, which = np.unique(of_row * n_levels + codes, return_inverse=True)
    observation[used] = which
    counts = np.bincount(which, weights, minlength=len(pairs)).astype(float)
    index = RowIndex(observation, left_out)
    return MergedRows(inputs, *np.divmod(pairs, n_levels), counts, index)


def distinct_inputs(X: FloatArray, kernel: Any) -> tuple[FloatArray, IntArray]:
    """Distinct rows of ``X``, sorted, and the place of each row among them."""
    # White noise gives equal inputs latent values of their own; gaps (NaN) never compare equal.
    if tells_copies_apart(kernel, X[:1]) or np.isnan(X).any():
        return X, np.arange(len(X))
    inputs, of_row = np.unique(X, axis=0, return_inverse=True)
    return inputs, of_row.ravel()


@saved_as("rows.numbered")
@dataclass(frozen=True, eq=False)
class NumberedRows:
    """Distinct inputs, observations of them, and the row in which each input was first seen."""

    inputs: Annotated[FloatArray, Axes("N d")]
    """distinct inputs, (N, d), sorted: the answer does not depend on the order of rows"""
    latent: Annotated[IntArray, Axes("M", 0, "N")]
    """which input each observation is of, (M,)"""
    codes: Annotated[IntArray, Axes("M", 0, "r")]
    """level of each observation, (M,)"""
    counts: Annotated[FloatArray, Axes("M", *POSITIVE)]
    """total weight of each observation, (M,)"""
    first_row: Annotated[IntArray, Axes("N", 0)]
    """the first training row with each input, (N,)"""

    @property
    def observed(self) -> FloatArray:
        """The input of every observation, (M, d)."""
        same = len(self.latent) == len(self.inputs)
        return self.inputs if same else self.inputs[self.latent]

    def take(self, observations: IntArray) -> "NumberedRows":
        """Some of the observations, with their inputs."""
        seen, latent = np.unique(self.latent[observations], return_inverse=True)
        codes, counts = self.codes[observations], self.counts[observations]
        rows = self.inputs[seen], latent.ravel(), codes, counts, self.first_row[seen]
        return NumberedRows(*rows)


def numbered_rows(
    X: FloatArray,
    codes: IntArray,
    weights: FloatArray,
    kernel: Any,
    numbers: IntArray | None = None,
) -> NumberedRows:
    """Merge equal rows; ``numbers`` are the rows' places in the order in which they came."""
    merged = merge_rows(X, codes, weights, kernel)
    numbers = np.arange(len(X)) if numbers is None else numbers
    observation = merged.index.observation
    used = observation >= 0
    first = np.full(len(merged.X), np.iinfo(np.intp).max, dtype=np.intp)
    np.minimum.at(first, merged.latent[observation[used]], numbers[used])
    return NumberedRows(merged.X, merged.latent, merged.codes, merged.counts, first)


def extended_rows(
    old: NumberedRows, X: FloatArray, codes: IntArray, weights: FloatArray, kernel: Any, seen: int
) -> tuple[NumberedRows, IntArray]:
    """``old`` with more rows after the ``seen`` ones, and the new place of each old input."""
    rows = numbered_rows(
        np.vstack([old.observed, X]),
        np.concatenate([old.codes, codes]),
        np.concatenate([old.counts, weights]),
        kernel,
        np.concatenate([old.first_row[old.latent], seen + np.arange(len(X))]),
    )
    # An input that was first seen in row k keeps that number, whatever else is merged with it.
    return rows, places(old.first_row, rows.first_row)


def places(numbers: IntArray, among: IntArray) -> IntArray:
    """Place of each of ``numbers`` in ``among``, all of them different."""
    order = np.argsort(among)
    return order[np.searchsorted(among[order], numbers)]


def first_rows(y: IntArray, rng: np.random.RandomState) -> IntArray:
    """One row of each level that is there, drawn at random."""
    return np.array([rng.choice(np.flatnonzero(y == k)) for k in np.unique(y)], dtype=np.intp)
