"""Tables that need not fit into memory: read in batches, encoded once into a file of numbers.

The file is read three times: for a sample of rows, which tells what each column is and the medians
that fill gaps; for the means, deviations, ranges and values of all rows; and to encode them. The
encoded rows lie in a scratch file, from which the passes of the fit read chunks.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.tables.cells import (
    BadCell,
    BadInput,
    BadRows,
    Table,
    concatenate,
    gaps,
    numbers,
    texts,
)
from ordinalgp.tables.encoding import Encoder, NominalColumn, NumberColumn
from ordinalgp.tables.reading import is_parquet
from ordinalgp.tables.source import Source

LARGE_ROWS, LARGE_BYTES = 100_000, 2**27  # of a Parquet file, of a text file
BATCH_ROWS, SAMPLE_ROWS = 65_536, 20_000
_MANY = 1000  # different texts of a nominal column


def is_large(path: Path) -> bool:
    """Whether a file is better read in batches."""
    if not path.is_file():
        return False
    if not is_parquet(path):
        return path.stat().st_size >= LARGE_BYTES
    from ordinalgp.tables.parquet import n_rows

    return n_rows(path) >= LARGE_ROWS


def sample_rows(source: Source, bad: BadRows) -> Table:
    """Rows drawn from the whole file: those with the smallest of random keys."""
    rng, kept, keys = np.random.default_rng(0), None, np.empty(0)
    for batch in source.batches(bad, BATCH_ROWS):
        keys = np.concatenate([keys, rng.random(len(batch))])
        kept = batch if kept is None else concatenate([kept, batch])
        if len(kept) > SAMPLE_ROWS:
            chosen = np.zeros(len(kept), dtype=bool)
            chosen[np.argpartition(keys, SAMPLE_ROWS)[:SAMPLE_ROWS]] = True
            kept, keys = kept.take(chosen), keys[chosen]
    if kept is None or not len(kept):
        raise BadInput(f"{source.path} has no rows that can be used.")
    return kept


@dataclass(eq=False)
class NumberSums:
    """A numeric column, batch by batch: moments about the median, which fills gaps."""

    median: float
    n: int = 0
    missing: int = 0
    first: float = 0.0
    second: float = 0.0
    low: float = np.inf
    high: float = -np.inf

    def add(self, cells: NDArray[Any], decimal: str) -> None:
        """Take a batch in; gaps lie at the median and add nothing to the moments."""
        values = numbers(cells, decimal)[0]
        present = values[~np.isnan(values)]
        away = present - self.median
        self.n, self.missing = self.n + len(values), self.missing + len(values) - len(present)
        self.first, self.second = self.first + float(away.sum()), self.second + float(away @ away)
        filled = present if len(present) == len(values) else np.append(present, self.median)
        self.low = min(self.low, float(filled.min(initial=np.inf)))
        self.high = max(self.high, float(filled.max(initial=-np.inf)))

    def column(self, name: str) -> NumberColumn:
        """The encoding."""
        away = self.first / self.n
        variance = max(self.second / self.n - away**2, 0.0)
        scale = float(np.sqrt(variance)) if self.high > self.low and variance > 0 else 1.0
        mean = self.median + away if self.high > self.low else self.low
        ends = float(self.low), float(self.high)
        return NumberColumn(name, self.median, float(mean), scale, *ends, self.missing)


@dataclass(eq=False)
class TextCounts:
    """A nominal column, batch by batch."""

    counts: Counter[str] = field(default_factory=Counter)
    missing: int = 0

    def add(self, cells: NDArray[Any], decimal: str) -> None:
        """Take a batch in."""
        found = texts(cells)
        self.missing += int(gaps(found).sum())
        self.counts.update(cell for cell in found.tolist() if cell is not None)

    def column(self, name: str) -> NominalColumn:
        """The encoding."""
        if len(self.counts) > _MANY:
            raise BadInput(
                f"Column {name} has {len(self.counts)} different texts, and a feature of each "
                f"would not fit. Leave it out with --drop {name}."
            )
        values = tuple(sorted(self.counts))
        frequent = max(values, key=lambda value: self.counts[value])
        return NominalColumn(name, values, frequent, self.missing)


@dataclass(eq=False)
class Encoded:
    """Encoded rows in a scratch file, and what was learned on the way."""

    encoder: Encoder
    categories: list[Any] | None
    """order of levels, if the user or the file declares one"""
    levels: NDArray[Any]
    """the labels that occur, sorted"""
    counts: IntArray
    """rows of each"""
    sample: FloatArray
    sample_labels: NDArray[Any]
    folder: Path

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.counts.sum())

    def chunks(self, size: int = BATCH_ROWS) -> list[Callable[[], Any]]:
        """Functions that read a chunk (X, y) each: a factory for ``fit``."""
        starts = range(0, self.n_rows, size)
        return [partial(self.read, i, min(size, self.n_rows - i)) for i in starts]

    def read(self, start: int, n: int) -> tuple[FloatArray, NDArray[Any]]:
        """Some rows."""
        d = len(self.encoder.features)
        X = np.fromfile(self.folder / "X.bin", count=n * d, offset=8 * start * d)
        codes = np.fromfile(self.folder / "y.bin", count=n, offset=2 * start, dtype=np.int16)
        return X.reshape(n, d), self.levels[codes]


def encode_file(source: Source, bad: BadRows, folder: Path, say: Callable[[str], None]) -> Encoded:
    """Learn the encoding from all rows, then write them encoded into ``folder``."""
    quiet = replace(bad, policy="skip", examples=[])
    sample = sample_rows(source, quiet if bad.policy == "skip" else bad)
    _, order, _ = source.labels(sample)
    features = source.features(sample)
    decimal = source.style.decimal
    kinds, _ = source.kinds(features)
    sums = {name: _begin(kind, features.columns[name], decimal) for name, kind in kinds.items()}
    levels: Counter[Any] = Counter()
    for batch in _timed(source.batches(bad, BATCH_ROWS), "read", say):
        X, labels = usable(source, batch, kinds, bad)
        levels.update(labels.tolist())
        for name, column in sums.items():
            column.add(X.columns[name], decimal)
    source.check_levels(list(levels))
    encoder = Encoder(tuple(column.column(name) for name, column in sums.items()))
    found = np.array(sorted(levels))
    counts = np.array([levels[level] for level in found.tolist()])
    X, labels = usable(source, sample, kinds, quiet)
    rows = encoder.encode(X, decimal)[0]
    encoded = Encoded(encoder, order, found, counts, rows, labels, folder)
    _write(source, encoded, kinds, quiet, say)
    return encoded


def _begin(kind: str, cells: NDArray[Any], decimal: str) -> NumberSums | TextCounts:
    if kind == "nominal":
        return TextCounts()
    values, wrong = numbers(cells, decimal)
    return NumberSums(float(np.nanmedian(values[~wrong])))


def usable(
    source: Source, batch: Table, kinds: dict[str, str], bad: BadRows
) -> tuple[Table, NDArray[Any]]:
    """Features and labels of a batch without its bad rows, which are named or counted."""
    labels, _, wrong = source.labels(batch)
    X, decimal = source.features(batch), source.style.decimal
    for name, kind in kinds.items():
        if kind == "number":
            cells = X.columns[name]
            wrong += [
                BadCell(int(batch.lines[row]), name, f"{str(cells[row])!r} is not a number")
                for row in np.flatnonzero(numbers(cells, decimal)[1])
            ]
    keep = bad.drop(batch, sorted(wrong, key=lambda cell: cell.line))
    return X.take(keep), labels[keep]


def _write(source: Source, encoded: Encoded, kinds: dict[str, str], bad: BadRows, say: Any) -> None:
    folder = encoded.folder
    with (folder / "X.bin").open("wb") as X_file, (folder / "y.bin").open("wb") as y_file:
        for batch in _timed(source.batches(bad, BATCH_ROWS), "encoded", say):
            X, labels = usable(source, batch, kinds, bad)
            rows = encoded.encoder.encode(X, source.style.decimal)[0]
            X_file.write(np.ascontiguousarray(rows).data)
            codes = np.searchsorted(encoded.levels, labels).astype(np.int16)
            y_file.write(codes.data)


def _timed(batches: Iterator[Table], what: str, say: Callable[[str], None]) -> Iterator[Table]:
    """Pass batches on, and tell at the end how fast they came."""
    began, n = time.perf_counter(), 0
    for batch in batches:
        n += len(batch)
        yield batch
    seconds = max(time.perf_counter() - began, 1e-9)
    say(f"{what} {n:,} rows, {n / seconds:,.0f} rows/s")
