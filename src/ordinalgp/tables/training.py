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
from ordinalgp.tables.advice import COMMAND_LINE, listed
from ordinalgp.tables.cells import BadCell, BadInput, Table, describe_rows, texts
from ordinalgp.tables.cuts import Cuts
from ordinalgp.tables.dates import days
from ordinalgp.tables.encoding import (
    Column,
    DateColumn,
    Encoder,
    Labels,
    NominalColumn,
    NumberColumn,
)
from ordinalgp.tables.files import TableFile, parquet_rows
from ordinalgp.tables.reading import Reading
from ordinalgp.tables.screening import without_counters

Say = Callable[[str], None]
Usable = tuple[Table, NDArray[Any], list[Any] | None]


class Problems(list[str]):
    """Messages on a file, raised together."""

    def collect(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function; keep the message if it raises one."""
        try:
            return function(*args)
        except BadInput as error:
            self.append(str(error))
            return None

    def check(self, path: Path) -> None:
        """Raise one error with all messages, if there are any."""
        if len(self) > 1:
            told = "\n".join(f"{at}. {message}" for at, message in enumerate(self, start=1))
            raise BadInput(f"{path} has {len(self)} problems:\n{told}")
        if self:
            raise BadInput(self[0])


@dataclass(frozen=True)
class Source:
    """Training file, target column, and kinds of the other columns."""

    file: TableFile
    target: str
    categories: Sequence[str] | None = None
    drop: tuple[str, ...] = ()
    nominal: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    cut: int | None = None
    """number of levels to cut the target into"""
    cut_at: tuple[float, ...] = ()
    """borders at which the target is cut"""
    groups: str | None = field(default=None, kw_only=True)
    """column that says which rows belong together; not a feature"""
    monotone: tuple[str, ...] = field(default=(), kw_only=True)
    """columns with a direction: features, even if they number the rows"""

    def read(self) -> tuple["Source", Usable]:
        """Source with known borders, and its parsed features, labels and levels."""
        source, found, _ = self.read_groups()
        return source, found

    def read_groups(self) -> tuple["Source", Usable, NDArray[Any] | None]:
        """The same, and the group of each row, where a column has it."""
        table = replace(self.file, tolerant=True).read()
        problems = Problems()
        settled = problems.collect(self.settled, table) or replace(self, cut=None, cut_at=(0.0,))
        X, labels, order = settled.usable(table, problems=problems)
        self.check_levels(np.unique(labels).tolist())
        return settled, (X, labels, order), self.groups_of(X, table)

    def groups_of(self, kept: Table, table: Table) -> NDArray[Any] | None:
        """Group of each row of a table that was kept, where a column has it."""
        if self.groups is None:
            return None
        return np.asarray(texts(table.columns[self.groups])[np.isin(table.lines, kept.lines)])

    def settled(self, table: Table) -> "Source":
        """Source whose borders are known, from the target's values in a table."""
        if self.cut is None or self.target not in table.columns:
            return self
        values = encoding.read_numbers(table, self.target)[0]
        values = values[~np.isnan(values)]
        if not len(values):
            raise BadInput(f"The target column {self.target} has no numbers to cut into levels.")
        return replace(self, cut=None, cut_at=Cuts.equal(values, self.cut).borders)

    def reading(self, table: Table) -> Reading:
        """Conventions that a model keeps of the file."""
        decimal: Any = table.decimal
        return Reading(self.file.style.missing, decimal, self.cut_at)

    def usable(
        self, table: Table, like: Table | None = None, problems: Problems | None = None
    ) -> Usable:
        """Parsed features, labels and order of levels of some rows, without bad ones."""
        problems = Problems() if problems is None else problems
        cut = not problems  # the target cannot be read where its borders are not known
        problems += [*table.problems, *self._wrong_names(table)]
        labels, order, wrong = [], None, list(table.bad)
        if self.target in table.columns and len(table) and cut:
            found = problems.collect(self.labels, table)
            labels, order, misread = found or ([], None, [])
            wrong += misread
        X, misfits = table, []
        if len(table) and not self._is_unseparated(table):
            X, misfits = problems.collect(self.features, table, like) or (table, [])
        wrong += misfits
        if wrong and self.file.bad.policy == "error":
            problems.append(describe_rows(self.file.bad.source, table, wrong))
        problems.check(self.file.path)
        keep = self.file.bad.drop(table, wrong)
        if not keep.any():
            raise BadInput(f"{self.file.path} has no rows that can be used.")
        return X.take(keep), labels[keep], order

    def _is_unseparated(self, table: Table) -> bool:
        """Whether the only column is another than the target, as by a strange separator."""
        return len(table.columns) == 1 and self.target not in table.columns

    def _wrong_names(self, table: Table) -> list[str]:
        """Messages on names that no column has."""
        known = listed(list(table.columns))
        found = []
        if self.target not in table.columns:
            told = f"The columns are {known}."
            if self._is_unseparated(table):
                told = f"The only column is {known}: if something separates cells, "
                told += "name it with --separator."
            found.append(f"There is no target column {self.target!r}. {told}")
        for option in ("drop", "nominal", "numeric"):
            unknown = [name for name in getattr(self, option) if name not in table.columns]
            if unknown:
                names = listed([*map(repr, unknown)])
                found.append(f"--{option} names {names}, but the columns are {known}.")
        if both := sorted(set(self.nominal) & set(self.numeric)):
            found.append(f"Column {listed(both)} is in --nominal and in --numeric. Leave out one.")
        if self.groups is not None and self.groups not in table.columns:
            found.append(f"--groups names {self.groups!r}, but the columns are {known}.")
        return found

    def features(self, table: Table, like: Table | None = None) -> tuple[Table, list[BadCell]]:
        """Parsed columns without the target and those that are dropped; cells that do not fit.

        The kinds of the columns are found from their cells, or are those of ``like``.
        """
        grouping = [] if self.groups is None else [self.groups]
        X = table.without([self.target, *self.drop, *grouping])
        if not X.columns:
            raise BadInput(f"There are no columns beside the target {self.target}.")
        if like is not None:
            return encoding.parse_as(X, like)
        nominal = [name for name in self.nominal if name in X.columns]
        numeric = [name for name in self.numeric if name in X.columns]
        parsed, bad = encoding.parse_columns(X, nominal, numeric)
        parsed = without_counters(parsed, (*self.numeric, *self.monotone))
        if not parsed.columns:
            raise BadInput(
                f"No column beside the target {self.target} can be used.\n"
                + "\n".join(parsed.left_out.values())
            )
        return parsed, bad

    def labels(self, table: Table) -> Labels:
        """Labels, order and bad cells of the target."""
        cuts = Cuts(self.cut_at) if self.cut_at else None
        return encoding.read_target(table, self.target, self.categories, cuts=cuts)

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
class DateSums:
    """Sums over a column of dates: those of their days."""

    days: NumberSums

    def add(self, values: NDArray[Any]) -> None:
        """Add a batch."""
        self.days.add(days(values))

    def column(self, name: str) -> DateColumn:
        """The encoding."""
        return DateColumn(name, self.days.column(name))


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
                f"would not fit. {COMMAND_LINE.leave_out(name)}."
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
    reading: Reading
    left_out: dict[str, str]
    """columns that are no features, and the reason"""
    held: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    """places of rows, ascending, that the chunks leave out"""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.counts.sum())

    def holding_out(self, most: int) -> "EncodedFile":
        """The file with rows left out of its chunks: a fifth of all, half of a level at most."""
        n = self.n_rows
        drawn = np.random.default_rng(1).choice(n, min(most, n // 5), replace=False)
        codes = self._codes()[drawn]
        kept = [drawn[codes == code][: count // 2] for code, count in enumerate(self.counts)]
        return replace(self, held=np.sort(np.concatenate(kept)).astype(np.intp))

    def held_rows(self) -> tuple[FloatArray, IntArray]:
        """Inputs of the rows that are left out, and the places of their labels in ``levels``."""
        shape = self.n_rows, len(self.encoder.features)
        X = np.memmap(self.folder / "X.bin", np.float64, "r", shape=shape)
        return np.array(X[self.held]), self._codes()[self.held].astype(np.intp)

    def _codes(self) -> NDArray[Any]:
        return np.memmap(self.folder / "y.bin", np.int16, "r", shape=(self.n_rows,))

    def chunks(self) -> list[Callable[[], Any]]:
        """Functions that read one chunk (X, y) each: a factory for ``fit``."""
        size = self.batch_rows
        starts = range(0, self.n_rows, size)
        return [partial(self.read, i, min(size, self.n_rows - i)) for i in starts]

    def read(self, start: int, n: int) -> tuple[FloatArray, NDArray[Any]]:
        """Inputs and labels of ``n`` rows from ``start``, those aside that are left out."""
        first, last = np.searchsorted(self.held, [start, start + n])
        keep = np.ones(n, dtype=bool)
        keep[self.held[first:last] - start] = False
        X, labels = self._read(start, n)
        return (X, labels) if keep.all() else (X[keep], labels[keep])

    def _read(self, start: int, n: int) -> tuple[FloatArray, NDArray[Any]]:
        d = len(self.encoder.features)
        X = np.fromfile(self.folder / "X.bin", count=n * d, offset=8 * start * d)
        codes = np.fromfile(self.folder / "y.bin", count=n, offset=2 * start, dtype=np.int16)
        return X.reshape(n, d), self.levels[codes]


def encode_file(source: Source, folder: Path, say: Say, settings: BatchSettings) -> EncodedFile:
    """Learn the encoding from all rows, then write them encoded into ``folder``."""
    bad, size = source.file.bad, settings.batch_rows
    quiet = replace(source, file=replace(source.file, bad=replace(bad, policy="skip", examples=[])))
    sample = sample_rows((quiet if bad.policy == "skip" else source).file, settings)
    Problems(source._wrong_names(sample)).check(source.file.path)
    source = source.settled(sample)
    quiet = replace(quiet, cut=None, cut_at=source.cut_at)
    order = source.labels(sample)[1]
    parsed = source.features(sample)[0]
    for reason in parsed.left_out.values():
        say(reason)
    sums = {name: _begin(cells, settings) for name, cells in parsed.columns.items()}
    levels: Counter[Any] = Counter()
    for batch in _timed(source.file.chunks(size), "read", say):
        X, labels, _ = source.usable(batch, parsed)
        levels.update(labels.tolist())
        for name, column in sums.items():
            column.add(X.columns[name])
    source.check_levels(list(levels))
    learned: dict[str, Column] = {name: each.column(name) for name, each in sums.items()}
    for name, sign in parsed.units.items():
        if isinstance(known := learned.get(name), NumberColumn):
            learned[name] = replace(known, unit=sign)
    encoder = Encoder(tuple(learned.values()))
    found = np.array(sorted(levels))
    counts = np.array([levels[level] for level in found.tolist()])
    X, labels, _ = quiet.usable(sample, parsed)
    rows = encoder.encode(X)[0]
    kept = source.reading(sample), parsed.left_out
    encoded = EncodedFile(encoder, order, found, counts, rows, labels, folder, size, *kept)
    _write(quiet, encoded, parsed, say)
    return encoded


def _begin(cells: NDArray[Any], settings: BatchSettings) -> NumberSums | DateSums | TextCounts:
    if cells.dtype == object:
        return TextCounts(settings.most_texts)
    if cells.dtype.kind == "M":
        found = days(cells)
        return DateSums(NumberSums(float(np.median(found[np.isfinite(found)]))))
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
