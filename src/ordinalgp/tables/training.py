"""Training files, read as a whole, or in batches and encoded once into a file of numbers.

A file that need not fit into memory is read three times. The first reading draws a sample of rows,
which tells the kind of each column and the medians that fill gaps. The second takes means,
deviations, ranges and values from all rows. The third encodes them into a scratch file, from which
the passes of the fit read chunks.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.tables import encoding
from ordinalgp.tables.cells import BadCell, BadInput, Table
from ordinalgp.tables.encoding import Encoder, Labels, NominalColumn, NumberColumn
from ordinalgp.tables.files import TableFile, parquet_rows

Say = Callable[[str], None]
Usable = tuple[Table, NDArray[Any], list[Any] | None]


@dataclass(frozen=True)
class Source:
    """Training file, target column, and kinds of the other columns."""

    file: TableFile
    target: str
    categories: Sequence[str] | None = None
    drop: tuple[str, ...] = ()
    nominal: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()

    def read(self) -> Usable:
        """Parsed features, labels and order of levels of the whole file, without bad rows."""
        X, labels, order = self.usable(self.file.read())
        self.check_levels(np.unique(labels).tolist())
        return X, labels, order

    def usable(self, table: Table, like: Table | None = None) -> Usable:
        """Parsed features, labels and order of levels of some rows, without bad ones."""
        labels, order, wrong = self.labels(table)
        X, misfits = self.features(table, like)
        keep = self.file.bad.drop(table, wrong + misfits)
        return X.take(keep), labels[keep], order

    def features(self, table: Table, like: Table | None = None) -> tuple[Table, list[BadCell]]:
        """Parsed columns without the target and those that are dropped; cells that do not fit.

        The kinds of the columns are found from their cells, or are those of ``like``.
        """
        table.require(self.drop, "--drop names {name}, but the columns are {columns}.")
        X = table.without([self.target, *self.drop])
        if not X.columns:
            raise BadInput(f"There are no columns beside the target {self.target}.")
        decimal = self.file.style.decimal
        if like is not None:
            return encoding.parse_as(X, like, decimal)
        return encoding.parse_columns(X, self.nominal, self.numeric, decimal)

    def labels(self, table: Table) -> Labels:
        """Labels, order and bad cells of the target."""
        return encoding.read_target(table, self.target, self.categories, self.file.style.decimal)

    def check_levels(self, found: Sequence[Any]) -> None:
        """Raise unless there are two levels to tell apart."""
        if len(found) < 2:
            what = f"only the level {found[0]}" if found else "no level"
            raise BadInput(
                f"{self.file.path} has {what} in its column {self.target}, "
                "but at least 2 are needed."
            )


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
        rows = parquet_rows(path)
        return path.stat().st_size >= self.large_bytes if rows is None else rows >= self.large_rows


def sample_rows(file: TableFile, settings: BatchSettings) -> Table:
    """Draw rows from the whole file: those with the smallest of random keys."""
    rng, kept, keys = np.random.default_rng(0), None, np.empty(0)
    for batch in file.chunks(settings.batch_rows):
        keys = np.concatenate([keys, rng.random(len(batch))])
        kept = batch if kept is None else kept.append(batch)
        if len(kept) > settings.sample_rows:
            chosen = np.zeros(len(kept), dtype=bool)
            chosen[np.argpartition(keys, settings.sample_rows)[: settings.sample_rows]] = True
            kept, keys = kept.take(chosen), keys[chosen]
    if kept is None or not len(kept):
        raise BadInput(f"{file.path} has no rows that can be used.")
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
    """Counts of the cells of a nominal column."""

    most_texts: int
    counts: Counter[str | None] = field(default_factory=Counter)

    def add(self, cells: NDArray[Any]) -> None:
        """Add a batch."""
        self.counts.update(cells.tolist())

    def column(self, name: str) -> NominalColumn:
        """The encoding."""
        column = NominalColumn.learn(name, self.counts)
        if len(column.values) > self.most_texts:
            raise BadInput(
                f"Column {name} has {len(column.values)} different texts, and a feature of each "
                f"would not fit. Leave it out with --drop {name}."
            )
        return column


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


def encode_file(source: Source, folder: Path, say: Say, settings: BatchSettings) -> EncodedFile:
    """Learn the encoding from all rows, then write them encoded into ``folder``."""
    bad, size = source.file.bad, settings.batch_rows
    quiet = replace(source, file=replace(source.file, bad=replace(bad, policy="skip", examples=[])))
    sample = sample_rows((quiet if bad.policy == "skip" else source).file, settings)
    order = source.labels(sample)[1]
    parsed = source.features(sample)[0]
    sums = {name: _begin(cells, settings) for name, cells in parsed.columns.items()}
    levels: Counter[Any] = Counter()
    for batch in _timed(source.file.chunks(size), "read", say):
        X, labels, _ = source.usable(batch, parsed)
        levels.update(labels.tolist())
        for name, column in sums.items():
            column.add(X.columns[name])
    source.check_levels(list(levels))
    encoder = Encoder(tuple(column.column(name) for name, column in sums.items()))
    found = np.array(sorted(levels))
    counts = np.array([levels[level] for level in found.tolist()])
    X, labels, _ = quiet.usable(sample, parsed)
    rows = encoder.encode(X)[0]
    encoded = EncodedFile(encoder, order, found, counts, rows, labels, folder, size)
    _write(quiet, encoded, parsed, say)
    return encoded


def _begin(cells: NDArray[Any], settings: BatchSettings) -> NumberSums | TextCounts:
    if cells.dtype == object:
        return TextCounts(settings.most_texts)
    return NumberSums(float(np.median(cells[np.isfinite(cells)])))


def _write(source: Source, encoded: EncodedFile, like: Table, say: Say) -> None:
    folder = encoded.folder
    with (folder / "X.bin").open("wb") as X_file, (folder / "y.bin").open("wb") as y_file:
        for batch in _timed(source.file.chunks(encoded.batch_rows), "encoded", say):
            X, labels, _ = source.usable(batch, like)
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
