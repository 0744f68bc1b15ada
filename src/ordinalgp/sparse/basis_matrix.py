"""Basis functions at the observations: their matrix by columns, and its properties."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from ordinalgp._typing import FloatArray, IntArray

# Numbers in a block of columns; a kernel needs some three arrays of this size to compute one.
_BLOCK_NUMBERS = 2**22
_SAMPLE_ROWS = 256  # that show which columns are alike
_SAMPLE_INPUTS = 200  # that show whether a kernel is too narrow or too wide
# Similarity of two inputs, one for equal ones: too narrow if all are below the first, too wide if
# all are above the second.
_NARROW_SIMILARITY, _WIDE_SIMILARITY = 1e-6, 1 - 1e-9
_LEAST_VARYING_SHARE = 1e-8  # of a function's square: below, it counts as constant


class BasisMatrix:
    """Matrix of N observations by C candidate functions, the kernel of ``rows`` and ``centres``.

    The matrix is held if it fits into ``memory`` bytes, else computed block by block.
    """

    def __init__(self, kernel: Any, rows: FloatArray, centres: FloatArray, memory: float) -> None:
        self._kernel, self._rows, self._centres = kernel, rows, centres
        self.n_candidates = len(centres)
        self.held = 8 * len(rows) * len(centres) <= memory
        self._width = max(1, int(min(_BLOCK_NUMBERS, memory / 32)) // len(rows))

    def columns(self, index: IntArray) -> FloatArray:
        """Columns of the candidates ``index``, (N, k)."""
        if self.held:
            return np.ascontiguousarray(self._matrix[index].T)
        out = np.empty((len(self._rows), len(index)))
        for part in self._parts(len(index)):
            out[:, part] = self._kernel(self._rows, self._centres[index[part]])
        return out

    def sample(self, index: IntArray) -> FloatArray:
        """Some rows of these columns, enough to see which of them are alike."""
        some = self._rows[:: max(1, len(self._rows) // _SAMPLE_ROWS)]
        return np.asarray(self._kernel(some, self._centres[index]))

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """All columns as (places, block of shape (k, N)), one after the other."""
        for part in self._parts(self.n_candidates):
            yield part, self._matrix[part] if self.held else self._transposed(part)

    def _parts(self, n: int) -> Iterator[slice]:
        return (slice(i, min(i + self._width, n)) for i in range(0, n, self._width))

    def _transposed(self, part: slice) -> FloatArray:
        return np.asarray(self._kernel(self._rows, self._centres[part])).T

    @cached_property
    def _matrix(self) -> FloatArray:
        whole = np.empty((self.n_candidates, len(self._rows)))
        for part in self._parts(self.n_candidates):
            whole[part] = self._transposed(part)
        return whole


def draw_candidates(n: int, most: int | None, always: IntArray, rng: Any) -> IntArray:
    """Inputs that offer a basis function: all, or ``most`` at random and those in ``always``."""
    if most is None or most >= n:
        return np.arange(n)
    return np.union1d(rng.choice(n, most, replace=False), always)


def joint_precision(kernel: Any, inputs: FloatArray, centres: IntArray) -> float:
    """Precision at which all functions together vary as much as the noise, on average.

    The part that is constant is left out: thresholds carry the offset. The paper's 0.001 for
    every function lets the latent function pass through all data. There the likelihood has no
    curvature left, and Laplace's evidence has a false maximum.
    """
    some = _sample(inputs)
    phi = kernel(some, inputs[centres])
    whole, varying = (np.einsum("ij,ij->", x, x) for x in (phi, phi - phi.mean(axis=0)))
    return float(max(varying, _LEAST_VARYING_SHARE * whole) / len(some)) or 1.0


def extreme_width(kernel: Any, centres: FloatArray) -> str | None:
    """Describe a width that is too narrow or too wide to learn from; None for any other."""
    some = _sample(centres)
    K = np.abs(kernel(some, some))
    scale = np.sqrt(np.maximum(np.diagonal(K), np.finfo(float).tiny))
    alike = (K / scale / scale[:, None])[~np.eye(len(K), dtype=bool)]
    if len(alike) and alike.max() < _NARROW_SIMILARITY:
        return "so narrow that every basis function sees its own row only: nothing carries over"
    if len(alike) and alike.min() > _WIDE_SIMILARITY:
        return "so wide that all basis functions are the same: predictions hardly depend on X"
    return None


def _sample(inputs: FloatArray) -> FloatArray:
    return inputs[:: max(1, len(inputs) // _SAMPLE_INPUTS)]
