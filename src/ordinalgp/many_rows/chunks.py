"""Rows that need not fit into memory: chunks, read again in every pass."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.utils import check_array

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.validation.labels import class_positions, encode_levels
from ordinalgp.validation.weights import check_weights

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
    chunk_rows: int = CHUNK_ROWS

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.rows.codes)

    def __iter__(self) -> Iterator[Chunk]:
        for i in range(0, self.n_rows, self.chunk_rows):
            yield self.rows.take(slice(i, i + self.chunk_rows))

    def sample(self, size: int, rng: np.random.RandomState) -> Chunk:
        """Up to ``size`` rows, drawn without replacement."""
        return self.rows.take(draw(self.n_rows, size, rng))


Factory = Callable[[], Any]


@dataclass(frozen=True, eq=False)
class ChunkSummary:
    """What was found in one chunk."""

    n_rows: int
    width: int
    labels: NDArray[Any]
    """those that occur"""


@dataclass(frozen=True, eq=False)
class RowsSummary:
    """What one reading of all chunks found."""

    lengths: tuple[int, ...]
    """rows of every chunk, none of empty ones"""
    width: int
    labels: NDArray[Any]


def scan(factory: Factory, categories: Any, n_jobs: int | None = None) -> "FactoryRows":
    """Read all chunks once: check them, count rows, collect the levels."""
    work = delayed(inspect_chunk)
    parts = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")(
        work(part, number, categories) for number, part in enumerate(factory())
    )
    found = joined(list(parts), "The factory gave no chunk")
    if sum(1 for _ in factory()) != len(found.lengths):
        raise ValueError(
            "The factory gave chunks the first time and other or none the second time: an iterator "
            "that can be read only once. Pass a function that opens the data anew at each call."
        )
    levels = encode_levels(found.labels, categories)
    return FactoryRows(
        factory, levels.categories, levels.classes, found.lengths, found.width, n_jobs
    )


def joined(parts: Sequence[ChunkSummary], nothing: str) -> RowsSummary:
    """Chunks together, which must be of one width; ``nothing`` says who gave none."""
    full = [(number, part) for number, part in enumerate(parts) if part.n_rows]
    if not full:
        raise ValueError(
            f"{nothing} with rows. It must return a new iterator of (X, y) pairs each time it is "
            "called."
        )
    first, width = full[0][0], full[0][1].width
    for number, part in full:
        if part.width != width:
            raise ValueError(
                f"Chunk {number} has {part.width} columns, but chunk {first} has {width}. "
                "All chunks need the same columns."
            )
    labels = np.concatenate([part.labels for _, part in full])
    return RowsSummary(tuple(part.n_rows for part in parts), width, labels)


def inspect_chunk(part: Any, number: int, categories: Any) -> ChunkSummary:
    """Check a chunk; an unknown label is named with its row."""
    read = _read(part, number)
    if read is None:
        return ChunkSummary(0, 0, np.empty(0))
    X, y, _ = read
    distinct = np.unique(y)
    if categories is not None:
        unknown = distinct[class_positions(np.asarray(categories), distinct) < 0]
        if len(unknown):
            row = int(np.flatnonzero(y == unknown[0])[0])
            raise ValueError(
                f"Chunk {number}, row {row}: the label {unknown[0]!r} is not one of the "
                f"categories {list(categories)}. Add it to categories or correct the row."
            )
    return ChunkSummary(len(X), X.shape[1], distinct)


def _read(part: Any, number: int) -> tuple[FloatArray, NDArray[Any], FloatArray] | None:
    """A chunk with its form checked; None for one without rows."""
    part = part() if callable(part) else part
    if not isinstance(part, tuple) or len(part) not in (2, 3):
        raise ValueError(
            f"Chunk {number} is {type(part).__name__!r}, but a tuple (X, y) or "
            "(X, y, sample_weight) is needed."
        )
    if len(part[0]) == 0:
        return None
    X = _checked_inputs(part[0], number)
    y = np.asarray(part[1])
    if y.shape != (len(X),):
        raise ValueError(
            f"Chunk {number} has {len(X)} rows, but labels of shape {y.shape}. "
            "Give one label for each row."
        )
    return X, y, check_weights(part[2] if len(part) == 3 else None, len(X))


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
class DeferredChunk:
    """A chunk as its factory gave it, to be read and checked by whoever works on it."""

    part: Any
    number: int
    n_rows: int
    categories: NDArray[Any]

    def load(self) -> Chunk:
        """Read the chunk."""
        read = _read(self.part, self.number)
        if read is None or len(read[0]) != self.n_rows:
            raise ValueError(
                f"Chunk {self.number} has {0 if read is None else len(read[0])} rows, but had "
                f"{self.n_rows} before. The factory must give the same chunks at each call."
            )
        X, y, counts = read
        return Chunk(X, coded(y, self.categories, self.number), counts)

    def take(self, rows: IntArray) -> Chunk:
        """Read some rows."""
        return self.load().take(rows)


def coded(y: NDArray[Any], categories: NDArray[Any], number: int) -> IntArray:
    """Ranks of the labels of a chunk."""
    classes, inverse = np.unique(y, return_inverse=True)
    places = class_positions(categories, classes)
    if np.any(places < 0):
        raise ValueError(f"Chunk {number} has labels that it did not have before.")
    ranks: IntArray = places[inverse.ravel()]
    return ranks


@dataclass(frozen=True, eq=False)
class FactoryRows:
    """Chunks from a function that returns a new iterator of (X, y), or of functions, each time."""

    factory: Factory
    categories: NDArray[Any]
    classes: NDArray[Any]
    lengths: tuple[int, ...]
    n_features: int
    n_jobs: int | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self.lengths)

    def __iter__(self) -> Iterator[DeferredChunk]:
        number = -1
        for number, part in enumerate(self.factory()):
            n_rows = self.lengths[number] if number < len(self.lengths) else 0
            if n_rows:
                yield DeferredChunk(part, number, n_rows, self.categories)
        if number + 1 != len(self.lengths):
            raise ValueError(
                f"The factory gave {number + 1} chunks, but {len(self.lengths)} before: an "
                "iterator that can be read only once? Pass a function that opens the data anew "
                "at each call."
            )

    def sample(self, size: int, rng: np.random.RandomState) -> Chunk:
        """Up to ``size`` rows, drawn without replacement in one pass."""
        lengths = [length for length in self.lengths if length]
        here = split_rows(draw(self.n_rows, size, rng), lengths)
        workers = Parallel(n_jobs=self.n_jobs, prefer="threads", return_as="generator")
        pairs = zip(self, here, strict=True)
        return stacked(list(workers(delayed(_taken)(chunk, rows) for chunk, rows in pairs)))


def _taken(chunk: DeferredChunk, rows: IntArray) -> Chunk:
    return chunk.take(rows)


def draw(n_rows: int, size: int, rng: np.random.RandomState) -> IntArray:
    """Which rows are sampled, ascending: the same wherever they lie."""
    if size >= n_rows:
        return np.arange(n_rows)
    return np.sort(rng.choice(n_rows, size, replace=False))


def split_rows(rows: IntArray, lengths: Sequence[int]) -> list[IntArray]:
    """Row numbers within each chunk."""
    edges = np.concatenate([[0], np.cumsum(lengths)])
    cuts = np.searchsorted(rows, edges)
    return [rows[i:j] - edge for (i, j), edge in zip(pairwise(cuts), edges, strict=False)]


def stacked(parts: Sequence[Chunk]) -> Chunk:
    """Chunks as one."""
    return Chunk(
        *(np.concatenate([getattr(p, k) for p in parts]) for k in ("X", "codes", "counts"))
    )
