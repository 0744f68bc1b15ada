"""Tables that need not fit into memory: read in batches, encoded once into a file of numbers.

The file is read three times. The first reading draws a sample of rows, which tells the kind of
each column and the medians that fill gaps. The second takes means, deviations, ranges and values
from all rows. The third encodes them into a scratch file, from which the passes of the fit read
chunks.
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
from ordinalgp.tables.cells import BadInput, BadRows, Table, concatenate, gaps
from ordinalgp.tables.encoding import (
    Encoder,
    Kind,
    NominalColumn,
    NumberColumn,
    kinds_of,
    parse_as,
)
from ordinalgp.tables.reading import is_parquet
from ordinalgp.tables.source import Source

Say = Callable[[str], None]


@dataclass(frozen=True)
class BatchSettings:
    """Sizes that decide when and how a table is read in batches."""

    large_rows: int = 100_000
    """rows of a Parquet file, from which on it is read in batches"""
    large_bytes: int = 2**27
    """bytes of a text file, from which on it is read in batches"""
    batch_rows: int = 65_536
    """rows read at a time"""
    sample_rows: int = 20_000
    """rows kept in memory: they tell the kinds and medians of the columns"""
    most_texts: int = 1000
    """different texts of a nominal column, each of which is a feature"""

    def is_large(self, path: Path) -> bool:
        """Whether a file is to be read in batches."""
        if not path.is_file():
            return False
        if not is_parquet(path):
            return path.stat().st_size >= self.large_bytes
        from ordinalgp.tables.parquet import n_rows

        return n_rows(path) >= self.large_rows


def sample_rows(source: Source, bad: BadRows, settings: BatchSettings) -> Table:
    """Draw rows from the whole file: those with the smallest of random keys."""
    rng, kept, keys = np.random.default_rng(0), None, np.empty(0)
    for batch in source.batches(bad, settings.batch_rows):
        keys = np.concatenate([keys, rng.random(len(batch))])
        kept = batch if kept is None else concatenate([kept, batch])
        if len(kept) > settings.sample_rows:
            chosen = np.zeros(len(kept), dtype=bool)
            chosen[np.argpartition(keys, settings.sample_rows)[: settings.sample_rows]] = True
            kept, keys = kept.take(chosen), keys[chosen]
    if kept is None or not len(kept):
        raise BadInput(f"{source.path} has no rows that can be used.")
    return kept


@dataclass(eq=False)
class NumberSums:
    """Sums over a numeric column: moments about the median, which fills gaps."""

    median: float
    n: int = 0
    missing: int = 0
    first: float = 0.0
    second: float = 0.0
    low: float = np.inf
    high: float = -np.inf

    def add(self, values: FloatArray) -> None:
        """Add a batch; gaps lie at the median and add nothing to the moments."""
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
    """Counts of the values of a nominal column."""

    most_texts: int
    counts: Counter[str] = field(default_factory=Counter)
    missing: int = 0

    def add(self, cells: NDArray[Any]) -> None:
        """Add a batch."""
        self.missing += int(gaps(cells).sum())
        self.counts.update(cell for cell in cells.tolist() if cell is not None)

    def column(self, name: str) -> NominalColumn:
        """The encoding."""
        if len(self.counts) > self.most_texts:
            raise BadInput(
                f"Column {name} has {len(self.counts)} different texts, and a feature of each "
                f"would not fit. Leave it out with --drop {name}."
            )
        return NominalColumn.of_counts(name, self.counts, self.missing)


@dataclass(frozen=True, eq=False)
class EncodedFile:
    """Encoded rows in a scratch file, with the encoding and a sample."""

    encoder: Encoder
    categories: list[Any] | None
    """order of levels, if the user or the file declares one"""
    levels: NDArray[Any]
    """labels that occur, sorted"""
    counts: IntArray
    """rows of each"""
    sample: FloatArray
    sample_labels: NDArray[Any]
    folder: Path
    batch_rows: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.counts.sum())

    def chunks(self) -> list[Callable[[], Any]]:
        """Functions that read one chunk (X, y) each: a factory for ``fit``."""
        size = self.batch_rows
        starts = range(0, self.n_rows, size)
        return [partial(self.read, i, min(size, self.n_rows - i)) for i in starts]

    def read(self, start: int, n: int) -> tuple[FloatArray, NDArray[Any]]:
        """Inputs and labels of ``n`` rows from ``start``."""
        d = len(self.encoder.features)
        X = np.fromfile(self.folder / "X.bin", count=n * d, offset=8 * start * d)
        codes = np.fromfile(self.folder / "y.bin", count=n, offset=2 * start, dtype=np.int16)
        return X.reshape(n, d), self.levels[codes]


def encode_file(
    source: Source, bad: BadRows, folder: Path, say: Say, settings: BatchSettings
) -> EncodedFile:
    """Learn the encoding from all rows, then write them encoded into ``folder``."""
    quiet = replace(bad, policy="skip", examples=[])
    sample = sample_rows(source, quiet if bad.policy == "skip" else bad, settings)
    _, order, _ = source.labels(sample)
    parsed, _ = source.parse(source.features(sample))
    kinds = kinds_of(parsed)
    sums = {name: _begin(cells, settings) for name, cells in parsed.columns.items()}
    levels: Counter[Any] = Counter()
    for batch in _timed(source.batches(bad, settings.batch_rows), "read", say):
        X, labels = usable(source, batch, kinds, bad)
        levels.update(labels.tolist())
        for name, column in sums.items():
            column.add(X.columns[name])
    source.check_levels(list(levels))
    encoder = Encoder(tuple(column.column(name) for name, column in sums.items()))
    found = np.array(sorted(levels))
    counts = np.array([levels[level] for level in found.tolist()])
    X, labels = usable(source, sample, kinds, quiet)
    rows = encoder.encode(X)[0]
    size = settings.batch_rows
    encoded = EncodedFile(encoder, order, found, counts, rows, labels, folder, size)
    _write(source, encoded, kinds, quiet, say)
    return encoded


def _begin(cells: NDArray[Any], settings: BatchSettings) -> NumberSums | TextCounts:
    if cells.dtype == object:
        return TextCounts(settings.most_texts)
    return NumberSums(float(np.median(cells[np.isfinite(cells)])))


def usable(
    source: Source, batch: Table, kinds: dict[str, Kind], bad: BadRows
) -> tuple[Table, NDArray[Any]]:
    """Parsed features and labels of a batch without its bad rows, which are named or counted."""
    labels, _, wrong = source.labels(batch)
    X, misfits = parse_as(source.features(batch), kinds, source.style.decimal)
    keep = bad.drop(batch, wrong + misfits)
    return X.take(keep), labels[keep]


def _write(
    source: Source, encoded: EncodedFile, kinds: dict[str, Kind], bad: BadRows, say: Say
) -> None:
    folder = encoded.folder
    with (folder / "X.bin").open("wb") as X_file, (folder / "y.bin").open("wb") as y_file:
        for batch in _timed(source.batches(bad, encoded.batch_rows), "encoded", say):
            X, labels = usable(source, batch, kinds, bad)
            X_file.write(np.ascontiguousarray(encoded.encoder.encode(X)[0]).data)
            y_file.write(np.searchsorted(encoded.levels, labels).astype(np.int16).data)


def _timed(batches: Iterator[Table], what: str, say: Say) -> Iterator[Table]:
    """Pass batches on, and report the rows per second at the end."""
    began, n = time.perf_counter(), 0
    for batch in batches:
        n += len(batch)
        yield batch
    seconds = max(time.perf_counter() - began, 1e-9)
    say(f"{what} {n:,} rows, {n / seconds:,.0f} rows/s")
