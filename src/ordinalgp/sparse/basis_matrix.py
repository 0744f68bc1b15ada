"""The basis matrix by columns: held where it fits, computed block by block where it does not."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.models.training_rows import NumberedRows

# Numbers in a block of columns; a kernel needs some three arrays of this size to compute one.
_BLOCK = 2**22
_SAMPLE_ROWS = 256


class Columns:
    """N observations by C candidate functions: ``evaluate(rows, candidates)`` is any part of it.

    ``memory`` is the number of bytes that the whole matrix may take.
    """

    def __init__(
        self,
        evaluate: Callable[[slice, IntArray], FloatArray],
        n_rows: int,
        n_candidates: int,
        memory: float,
    ) -> None:
        self._evaluate = evaluate
        self.n_rows, self.n_candidates = n_rows, n_candidates
        self.held = 8 * n_rows * n_candidates <= memory
        self._width = max(1, int(min(_BLOCK, memory / 32)) // n_rows)

    def __call__(self, index: IntArray) -> FloatArray:
        """Columns of the candidates ``index``, (N, k)."""
        if self.held:
            return np.ascontiguousarray(self._matrix[index].T)
        out = np.empty((self.n_rows, len(index)))
        for start in range(0, len(index), self._width):
            part = slice(start, start + self._width)
            out[:, part] = self._evaluate(slice(None), index[part])
        return out

    def sample(self, index: IntArray) -> FloatArray:
        """Some rows of these columns: enough to see which of them are alike."""
        step = max(1, self.n_rows // _SAMPLE_ROWS)
        return self._evaluate(slice(None, None, step), index)

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """All columns as (places, block of shape (k, N)), one after the other."""
        for start in range(0, self.n_candidates, self._width):
            part = slice(start, min(start + self._width, self.n_candidates))
            yield part, self._matrix[part] if self.held else self._transposed(part)

    def _transposed(self, part: slice) -> FloatArray:
        return self._evaluate(slice(None), np.arange(part.start, part.stop)).T

    @cached_property
    def _matrix(self) -> FloatArray:
        whole = np.empty((self.n_candidates, self.n_rows))
        for start in range(0, self.n_candidates, self._width):
            part = slice(start, min(start + self._width, self.n_candidates))
            whole[part] = self._transposed(part)
        return whole


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


def basis_columns(rows: NumberedRows, candidates: IntArray, kernel: Any, memory: float) -> Columns:
    """The basis functions of ``candidates`` at the observations."""
    observed = rows.observed
    evaluate = _Evaluate(kernel, observed, rows.inputs[candidates])
    return Columns(evaluate, len(observed), len(candidates), memory)
