"""The basis matrix by columns: held where it fits, computed block by block where it does not."""

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np

from ordinalgp._typing import FloatArray, IntArray

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
