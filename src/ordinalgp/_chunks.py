"""Rows that need not fit into memory: chunks, read again in every pass."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp._validation import check_weights, class_positions, encode_levels

CHUNK_ROWS = 8192


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows: inputs, ranks of their levels, how often each counts."""

    X: FloatArray
    codes: IntArray
    counts: FloatArray

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.codes)

    def load(self) -> "Chunk":
        """The chunk itself; see :class:`DeferredChunk`."""
        return self

    def take(self, rows: Any) -> "Chunk":
        """Only these rows."""
        return Chunk(np.asarray(self.X[rows], dtype=float), self.codes[rows], self.counts[rows])


class ChunkedRows(Protocol):
    """What a fit over chunks asks of its rows."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def __iter__(self) -> "Iterator[Chunk | DeferredChunk]":
        """Go over all rows once, in the same chunks every time."""

    def sample(self, size: int, rng: np.random.RandomState) -> Chunk:
        """Up to ``size`` rows, drawn without replacement."""


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """Slices of arrays or memory maps."""

    rows: Chunk

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.rows.codes)

    def __iter__(self) -> Iterator[Chunk]:
        for i in range(0, self.n_rows, CHUNK_ROWS):
            yield self.rows.take(slice(i, i + CHUNK_ROWS))

    def sample(self, size: int, rng: np.random.RandomState) -> Chunk:
        """Up to ``size`` rows, drawn without replacement."""
        if size >= self.n_rows:
            return self.rows.take(slice(None))
        return self.rows.take(np.sort(rng.choice(self.n_rows, size, replace=False)))


Factory = Callable[[], Any]


def scan(factory: Factory, categories: Any) -> "FactoryRows":
    """Read all chunks once: check them, count rows, collect the levels."""
    lengths, found, width = [], [], None
    for number, (X, y, _) in enumerate(_read(factory)):
        if width is not None and X.shape[1] != width:
            raise ValueError(
                f"Chunk {number} has {X.shape[1]} columns, but the first chunk has {width}. "
                "All chunks need the same columns."
            )
        width = X.shape[1]
        found.append(_distinct(y, number, categories))
        lengths.append(len(X))
    if not lengths:
        raise ValueError(
            "The factory gave no chunk with rows. It must return a new iterator of (X, y) pairs "
            "each time it is called."
        )
    if sum(1 for _ in _read(factory)) != len(lengths):
        raise ValueError(
            "The factory gave chunks the first time and other or none the second time: an iterator "
            "that can be read only once. Pass a function that opens the data anew at each call."
        )
    levels = encode_levels(np.concatenate(found), categories)
    return FactoryRows(factory, levels.categories, levels.classes, tuple(lengths), int(width or 0))


def _distinct(y: NDArray[Any], number: int, categories: Any) -> NDArray[Any]:
    """The distinct labels of a chunk; an unknown one is named with its row."""
    distinct = np.unique(y)
    if categories is not None:
        unknown = distinct[class_positions(np.asarray(categories), distinct) < 0]
        if len(unknown):
            row = int(np.flatnonzero(y == unknown[0])[0])
            raise ValueError(
                f"Chunk {number}, row {row}: the label {unknown[0]!r} is not one of the "
                f"categories {list(categories)}. Add it to categories or correct the row."
            )
    return distinct


def _read(factory: Factory) -> Iterator[tuple[FloatArray, NDArray[Any], FloatArray]]:
    """Every chunk that has rows, its form checked."""
    number = -1
    for number, part in enumerate(factory()):
        if not isinstance(part, tuple) or len(part) not in (2, 3):
            raise ValueError(
                f"Chunk {number} is {type(part).__name__!r}, but a tuple (X, y) or "
                "(X, y, sample_weight) is needed."
            )
        if len(part[0]) == 0:
            continue
        X = _checked_inputs(part[0], number)
        y = np.asarray(part[1])
        if y.shape != (len(X),):
            raise ValueError(
                f"Chunk {number} has {len(X)} rows, but labels of shape {y.shape}. "
                "Give one label for each row."
            )
        yield X, y, check_weights(part[2] if len(part) == 3 else None, len(X))


def _checked_inputs(X: Any, number: int) -> FloatArray:
    try:
        checked: FloatArray = check_array(X, dtype=np.float64)
    except ValueError as error:
        values = np.asarray(X, dtype=object) if not isinstance(X, np.ndarray) else X
        place = ""
        if values.ndim == 2 and np.issubdtype(values.dtype, np.floating):
            bad = np.argwhere(~np.isfinite(values))
            place = f", row {bad[0][0]}, column {bad[0][1]}" if len(bad) else ""
        raise ValueError(f"Chunk {number}{place}: {error}") from None
    return checked


@dataclass(frozen=True, eq=False)
class FactoryRows:
    """Chunks from a function that returns a new iterator of (X, y) at each call."""

    factory: Factory
    categories: NDArray[Any]
    classes: NDArray[Any]
    lengths: tuple[int, ...]
    n_features: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self.lengths)

    def __iter__(self) -> Iterator[Chunk]:
        number = -1
        for number, (X, y, counts) in enumerate(_read(self.factory)):
            if number >= len(self.lengths) or len(X) != self.lengths[number]:
                raise ValueError(
                    f"Chunk {number} has {len(X)} rows, but had another number before. The factory "
                    "must give the same chunks at each call."
                )
            classes, inverse = np.unique(y, return_inverse=True)
            places = class_positions(self.categories, classes)
            if np.any(places < 0):
                raise ValueError(f"Chunk {number} has labels that it did not have before.")
            yield Chunk(X, places[inverse.ravel()], counts)
        if number + 1 != len(self.lengths):
            raise ValueError(
                f"The factory gave {number + 1} chunks, but {len(self.lengths)} before: an "
                "iterator that can be read only once? Pass a function that opens the data anew "
                "at each call."
            )

    def sample(self, size: int, rng: np.random.RandomState) -> Chunk:
        """Up to ``size`` rows, drawn without replacement in one pass."""
        chosen = np.sort(rng.choice(self.n_rows, min(size, self.n_rows), replace=False))
        parts, start = [], 0
        for chunk in self:
            stop = start + len(chunk.codes)
            here = chosen[(chosen >= start) & (chosen < stop)] - start
            parts.append(chunk.take(here))
            start = stop
        return Chunk(
            *(np.concatenate([getattr(p, k) for p in parts]) for k in ("X", "codes", "counts"))
        )
