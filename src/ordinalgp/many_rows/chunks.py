"""Rows that need not fit into memory: chunks, read again in every pass."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.utils import check_array

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.validation.labels import class_positions, count_levels, encode_levels
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


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """Slices of arrays or memory maps."""

    rows: Chunk
    chunk_rows: int = CHUNK_ROWS

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.n_rows

    def __iter__(self) -> Iterator[Chunk]:
        for i in range(0, self.n_rows, self.chunk_rows):
            yield self.rows.take(slice(i, i + self.chunk_rows))

    def sample(self, size: int, rng: np.random.RandomState) -> Chunk:
        """All rows, or ``size`` of those of positive weight, drawn without replacement."""
        used = np.flatnonzero(self.rows.counts > 0)
        if not len(used):
            raise ValueError(
                f"None of {self.n_rows:,} rows drawn to begin with has a positive weight. Leave "
                "out the rows of weight zero."
            )
        if size >= self.n_rows:  # in their places, so that all can be left out in turn
            return self.rows.take(slice(None))
        return self.rows.take(used[draw(len(used), size, rng)])


Factory = Callable[[], Any]


@dataclass(frozen=True, eq=False)
class ChunkSummary:
    """Number of rows and columns of one chunk, its labels and their weights."""

    n_rows: int
    width: int
    labels: NDArray[Any]
    """those that occur"""
    counts: FloatArray
    """total weight of the rows of each"""


@dataclass(frozen=True, eq=False)
class ScannedRows:
    """Chunks that were read once: their lengths, levels and number of columns."""

    lengths: tuple[int, ...]
    """rows of every chunk, none of empty ones"""
    categories: NDArray[Any]
    classes: NDArray[Any]
    counts: FloatArray
    """total weight of the rows of each level"""
    n_features: int

    @classmethod
    def of(cls, found: Sequence[ChunkSummary], nothing: str, categories: Any, **more: Any) -> Self:
        """Chunks together, which must be of one width; ``nothing`` says who gave none."""
        full = [(number, part) for number, part in enumerate(found) if part.n_rows]
        if not full:
            raise ValueError(
                f"{nothing} with rows. It must return a new iterator of (X, y) pairs each time it "
                "is called."
            )
        first, width = full[0][0], full[0][1].width
        for number, part in full:
            if part.width != width:
                raise ValueError(
                    f"Chunk {number} has {part.width} columns, but chunk {first} has {width}. "
                    "All chunks need the same columns."
                )
        levels = encode_levels(np.concatenate([part.labels for _, part in full]), categories)
        lengths = tuple(part.n_rows for part in found)
        weights = np.concatenate([part.counts for _, part in full])
        counts = count_levels(levels.codes, weights, len(levels.categories))
        return cls(lengths, levels.categories, levels.classes, counts, width, **more)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self.lengths)

    def split_sample(self, size: int, rng: np.random.RandomState) -> list[IntArray]:
        """Row numbers of a sample within each chunk that has rows."""
        rows = draw(self.n_rows, size, rng)
        edges = np.cumsum([0, *(length for length in self.lengths if length)])
        cuts = np.searchsorted(rows, edges)
        return [rows[i:j] - edge for (i, j), edge in zip(pairwise(cuts), edges, strict=False)]


def scan(factory: Factory, categories: Any, n_jobs: int | None = None) -> "FactoryRows":
    """Read all chunks once: check them, count rows, collect the levels."""
    jobs = (delayed(inspect_chunk)(part, k, categories) for k, part in enumerate(factory()))
    parts, more = list(workers(n_jobs)(jobs)), {"factory": factory, "n_jobs": n_jobs}
    rows = FactoryRows.of(parts, "The factory gave no chunk", categories, **more)
    if sum(1 for _ in factory()) != len(rows.lengths):
        raise ValueError(
            "The factory gave another number of chunks at its second call, as an iterator does "
            "that can be read only once. Pass a function that opens the data anew at each call."
        )
    return rows


def workers(n_jobs: int | None) -> Any:
    """Workers that return results in the order of their jobs, each as soon as it is there."""
    return Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")


def inspect_chunk(part: Any, number: int, categories: Any) -> ChunkSummary:
    """Check a chunk; an unknown label is named with its row."""
    X, y, weights = _read(part, number)
    distinct, inverse = np.unique(y, return_inverse=True)
    if categories is not None:
        unknown = distinct[class_positions(np.asarray(categories), distinct) < 0]
        if len(unknown):
            row = int(np.flatnonzero(y == unknown[0])[0])
            raise ValueError(
                f"Chunk {number}, row {row}: the label {unknown[0]!r} is not one of the "
                f"categories {list(categories)}. Add it to categories or correct the row."
            )
    counts = count_levels(inverse.ravel(), weights, len(distinct))
    return ChunkSummary(len(X), X.shape[1], distinct, counts)


def _read(part: Any, number: int) -> tuple[FloatArray, NDArray[Any], FloatArray]:
    """A chunk with its form checked; one without rows has no columns either."""
    part = part() if callable(part) else part
    if not isinstance(part, tuple) or len(part) not in (2, 3):
        raise ValueError(
            f"Chunk {number} is {type(part).__name__!r}, but a tuple (X, y) or "
            "(X, y, sample_weight) is needed."
        )
    if len(part[0]) == 0:
        return np.empty((0, 0)), np.empty(0), np.empty(0)
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
        place = ""
        if isinstance(X, np.ndarray) and X.ndim == 2 and np.issubdtype(X.dtype, np.floating):
            bad = np.argwhere(~np.isfinite(X))
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
        X, y, counts = _read(self.part, self.number)
        if len(X) != self.n_rows:
            raise ValueError(
                f"Chunk {self.number} has {len(X)} rows, but had {self.n_rows} before. The factory "
                "must give the same chunks at each call."
            )
        labels, inverse = np.unique(y, return_inverse=True)
        codes = class_positions(self.categories, labels)
        if np.any(codes < 0):
            raise ValueError(f"Chunk {self.number} has labels that it did not have before.")
        return Chunk(X, codes[inverse.ravel()], counts)

    def take(self, rows: IntArray) -> Chunk:
        """Read some rows."""
        return self.load().take(rows)


@dataclass(frozen=True, eq=False)
class FactoryRows(ScannedRows):
    """Chunks from a function that returns a new iterator of (X, y), or of functions, each time."""

    factory: Factory
    n_jobs: int | None = None

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
        pairs = zip(self, self.split_sample(size, rng), strict=True)
        return stacked(workers(self.n_jobs)(delayed(DeferredChunk.take)(*pair) for pair in pairs))


def draw(n_rows: int, size: int, rng: np.random.RandomState) -> IntArray:
    """Numbers of the sampled rows, ascending: the same wherever they lie."""
    if size >= n_rows:
        return np.arange(n_rows)
    return np.sort(rng.choice(n_rows, size, replace=False))


def stacked(parts: Iterable[Chunk]) -> Chunk:
    """Chunks as one."""
    columns = zip(*((part.X, part.codes, part.counts) for part in parts), strict=True)
    return Chunk(*(np.concatenate(column) for column in columns))
