"""Columns of a table as features, and its target as labels with the order of their levels.

The rule for features, which the summary states:

- gaps of a number are filled with the median; then the mean is subtracted and the result divided
  by the standard deviation. A column that had gaps in training gets one more 0/1 feature that
  marks them (``SimpleImputer(strategy="median", add_indicator=True)``, ``StandardScaler()``);
- each value of a nominal column has a 0/1 feature, in alphabetical order. If there were gaps in
  training, they are one more value (``OneHotEncoder()``). The last feature stands for all values
  that training did not have: it is 0 in training, and 1 for a new value. So a new value is as far
  from every known value as these are from each other, and no value is most like it. Gaps are new
  values where training had none;
- the values of an ordered column, of which the source declares an order, become ranks 0, 1, ...,
  and the ranks are encoded like numbers. A new value has no rank and is encoded like a gap;
- dates become days since 1970, which are encoded like numbers.

Medians, means, deviations and counts are those of weighted rows: a weight of two has the effect of
the same row twice, to the last digit, and rows of weight zero have none.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import FINITE, POSITIVE, Axes, BoolArray, FloatArray, IntArray
from ordinalgp.persistence import saved_as
from ordinalgp.tables.advice import Advice, listed
from ordinalgp.tables.cells import BadCell, BadInput, Table, gaps, numbers, objects, texts
from ordinalgp.tables.cuts import Cuts
from ordinalgp.tables.dates import date, dates, days, written
from ordinalgp.tables.decimals import decimal_mark
from ordinalgp.tables.numerals import number, unit, without_unit
from ordinalgp.tables.screening import screened

_MOST_LEVELS = 50  # different values of a target
_SHOWN_VALUES = 8  # values of a nominal column that a message names
_FARTHEST = 1e100  # standard deviations from the mean; squares of larger numbers are infinite
_SHOWN_NEW = 3  # new values that a message names

Kind = Literal["number", "nominal", "ordered", "date"]
Labels = tuple[NDArray[Any], list[Any] | None, list[BadCell]]
Finite = Annotated[float, Axes("", *FINITE)]
Count = Annotated[int, Axes(low=0)]


@saved_as("column.number")
@dataclass(frozen=True)
class NumberColumn:
    """Encoding of a numeric column: value that fills gaps, centre and scale."""

    name: str
    median: Finite
    mean: Finite
    scale: Annotated[float, Axes("", *POSITIVE)]
    low: Finite
    high: Finite
    missing: Count
    """gaps in training"""
    unit: str = ""
    """currency or percent sign of the numbers, which is left out"""

    kind: ClassVar[Kind] = "number"

    @classmethod
    def learn(
        cls, name: str, values: FloatArray, weights: FloatArray | None = None
    ) -> "NumberColumn":
        """Take median, mean, standard deviation and range from the training column."""
        weights = np.ones(len(values)) if weights is None else weights
        absent = np.isnan(values)
        # Sums over different values: those of copies and of weights are then equal to the digit.
        found, place = np.unique(values[~absent & (weights > 0)], return_inverse=True)
        counts = np.bincount(place, weights[~absent & (weights > 0)]).astype(float)
        median, missing = weighted_median(found, counts), float(weights[absent].sum())
        found, counts = np.append(found, median), np.append(counts, missing)
        low, high = float(found.min()), float(found.max())
        if low == high:  # where the mean and the standard deviation would be rounding errors
            return cls(name, median, low, 1.0, low, high, math.ceil(missing))
        mean, scale = _mean_and_deviation(found, counts)
        return cls(name, median, mean, scale, low, high, math.ceil(missing))

    @property
    def features(self) -> list[str]:
        """Names of the encoded features."""
        return [self.name] + [f"{self.name} missing"] * (self.missing > 0)

    def encode(self, values: NDArray[Any], decimal: str) -> tuple[FloatArray, BoolArray]:
        """Features of new cells, and the mask of the cells that hold no number."""
        found, bad = numbers(_plain(values, self.unit), decimal)
        absent = gaps(values)
        scaled = self._scaled(np.where(np.isfinite(found), found, self.median))
        return np.column_stack([scaled, absent][: len(self.features)]), bad

    def _scaled(self, values: FloatArray) -> FloatArray:
        # Halves, as the difference of two large numbers may be none; 0.5 changes no digit.
        half = 0.5 if self.scale > 1 else 1.0
        with np.errstate(over="ignore"):
            away = (half * values - half * self.mean) / (half * self.scale)
        return np.clip(away, -_FARTHEST, _FARTHEST)

    def decode(self, features: FloatArray) -> NDArray[Any]:
        """Cells that have these features, to 12 digits; NaN for gaps."""
        values = [float(f"{value:.12g}") for value in self.mean + self.scale * features[:, 0]]
        return np.where(features[:, 1:].any(axis=1), np.nan, values)

    @staticmethod
    def reason(value: Any) -> str:
        """Reason why a cell is bad."""
        infinite = str(value).strip().lower().lstrip("+-") in ("inf", "infinity", "∞")
        return f"{str(value)!r} is not {'finite' if infinite else 'a number'}"

    @property
    def rule(self) -> str:
        """The encoding in words."""
        if self.low == self.high:
            return f"number, always {self.low:g}"
        return f"number, {self.mean:.4g} ± {self.scale:.4g} {self.unit}".strip()

    @property
    def filler(self) -> str:
        """Value that fills gaps: the median."""
        return f"{self.median:.4g}"

    @property
    def typical(self) -> float:
        """The median."""
        return self.median


@saved_as("column.nominal")
@dataclass(frozen=True)
class NominalColumn:
    """Encoding of a nominal column: its values, and the most frequent one."""

    name: str
    values: tuple[str, ...]
    frequent: str
    missing: Count
    """gaps in training"""

    kind: ClassVar[Kind] = "nominal"

    @classmethod
    def learn(cls, name: str, counts: Mapping[str | None, float]) -> "NominalColumn":
        """Take the values and the most frequent one, of several the first, from their counts."""
        values = tuple(sorted(value for value in counts if value is not None))
        frequent = max(values, key=lambda value: counts[value])
        return cls(name, values, frequent, math.ceil(counts.get(None, 0)))

    @property
    def features(self) -> list[str]:
        """Names of the encoded features."""
        marks = [f"{self.name} missing"] * (self.missing > 0) + [f"{self.name} new"]
        return [f"{self.name} = {value}" for value in self.values] + marks

    @property
    def _cells(self) -> tuple[str | None, ...]:
        """Cell of each feature but the last, which is for all others."""
        return (*self.values, None) if self.missing else self.values

    def new(self, values: NDArray[Any]) -> BoolArray:
        """Mask of the cells that training did not have."""
        return self._places(values) == len(self._cells)

    def _places(self, values: NDArray[Any]) -> IntArray:
        """Feature of each cell."""
        cells = self._cells
        place = {value: at for at, value in enumerate(cells)}
        return np.array([place.get(cell, len(cells)) for cell in texts(values).tolist()], np.intp)

    def encode(self, values: NDArray[Any], decimal: str) -> tuple[FloatArray, BoolArray]:
        """Features of new cells, none of which is bad."""
        places = self._places(values)
        features = np.zeros((len(places), len(self.features)))
        features[np.arange(len(places)), places] = 1.0
        return features, np.zeros(len(places), dtype=bool)

    def decode(self, features: FloatArray) -> NDArray[Any]:
        """Cells that have these features; None for gaps and for values unseen in training."""
        cells = objects((*self._cells, None))
        return cells[features.argmax(axis=1)]

    def reason(self, value: Any) -> str:
        """Reason why a cell is bad."""
        return _unseen(value, self.values)

    @property
    def rule(self) -> str:
        """The encoding in words."""
        return f"nominal, {len(self.values)} values"

    @property
    def filler(self) -> str:
        """Encoding of gaps."""
        return "own value"

    @property
    def typical(self) -> str:
        """The most frequent value."""
        return self.frequent


@saved_as("column.ordered")
@dataclass(frozen=True)
class OrderedColumn:
    """Encoding of a column of ordered values: the ranks 0, 1, ... of the values, as numbers."""

    name: str
    values: tuple[str, ...]
    """from lowest to highest"""
    ranks: NumberColumn

    kind: ClassVar[Kind] = "ordered"

    @classmethod
    def learn(
        cls, name: str, cells: NDArray[Any], weights: FloatArray, levels: Sequence[str]
    ) -> "OrderedColumn":
        """Learn the encoding of the ranks of the training column."""
        values = tuple(levels)
        return cls(name, values, NumberColumn.learn(name, _ranks(cells, values), weights))

    @property
    def missing(self) -> int:
        """Gaps in training."""
        return self.ranks.missing

    @property
    def features(self) -> list[str]:
        """Names of the encoded features."""
        return self.ranks.features

    def new(self, values: NDArray[Any]) -> BoolArray:
        """Mask of the cells that have no rank."""
        return np.isnan(_ranks(values, self.values)) & ~gaps(values)

    def encode(self, values: NDArray[Any], decimal: str) -> tuple[FloatArray, BoolArray]:
        """Features of new cells, none of which is bad."""
        return self.ranks.encode(_ranks(values, self.values), decimal)

    def decode(self, features: FloatArray) -> NDArray[Any]:
        """Cells that have these features; None for gaps."""
        ranks = self.ranks.decode(features)
        return objects(None if r != r else self.values[round(r)] for r in ranks.tolist())

    def reason(self, value: Any) -> str:
        """Reason why a cell is bad."""
        return _unseen(value, self.values)

    @property
    def rule(self) -> str:
        """The encoding in words."""
        return f"ordered, {len(self.values)} values as 0 to {len(self.values) - 1}"

    @property
    def filler(self) -> str:
        """Value that fills gaps: the one of the median rank."""
        return self.typical

    @property
    def typical(self) -> str:
        """Value of the median rank, of two the lower one."""
        return self.values[int(self.ranks.median)]


def _ranks(values: NDArray[Any], order: Sequence[str]) -> FloatArray:
    """Rank of each cell, NaN for gaps and for values without one."""
    rank = {value: float(at) for at, value in enumerate(order)}
    return np.array([rank.get(cell, np.nan) for cell in texts(values).tolist()], dtype=float)


def _unseen(value: Any, known: Sequence[str]) -> str:
    more = [", ..."] * (len(known) > _SHOWN_VALUES)
    shown = ", ".join(known[:_SHOWN_VALUES]) + "".join(more)
    what = "a missing value" if value is None else repr(str(value))
    return f"{what} did not occur in training ({shown})"


@saved_as("column.date")
@dataclass(frozen=True)
class DateColumn:
    """Encoding of dates: their days, as numbers."""

    name: str
    days: NumberColumn
    """encoding of the days since 1970"""

    kind: ClassVar[Kind] = "date"

    @property
    def missing(self) -> int:
        """Gaps in training."""
        return self.days.missing

    @property
    def features(self) -> list[str]:
        """Names of the encoded features."""
        return self.days.features

    def encode(self, values: NDArray[Any], decimal: str) -> tuple[FloatArray, BoolArray]:
        """Features of new cells, and the mask of the cells that hold no date."""
        found, bad = dates(values)
        features, _ = self.days.encode(days(found), decimal)
        if len(self.features) > 1:
            features[:, 1] = gaps(values)
        return features, bad

    def decode(self, features: FloatArray) -> NDArray[Any]:
        """Dates that have these features, to the second; None for gaps."""
        return objects(None if day != day else written(day) for day in self.days.decode(features))

    @staticmethod
    def reason(value: Any) -> str:
        """Reason why a cell is bad."""
        return f"{str(value)!r} is not a date such as 2024-05-31"

    @property
    def rule(self) -> str:
        """The encoding in words."""
        low, high = (written(day)[:10] for day in (self.days.low, self.days.high))
        return f"date as days, {low} to {high}"

    @property
    def filler(self) -> str:
        """Value that fills gaps: the median."""
        return written(self.days.median)

    @property
    def typical(self) -> str:
        """The median."""
        return self.filler

    def new(self, values: NDArray[Any]) -> BoolArray:
        """Mask of the cells that training did not have: none, as dates are numbers."""
        return np.zeros(len(values), dtype=bool)


def _plain(values: NDArray[Any], sign: str) -> NDArray[Any]:
    """Cells without the sign of their numbers."""
    if not sign or values.dtype != object:
        return values
    return objects(c if c is None else without_unit(c, sign) for c in values.tolist())


Column = NumberColumn | NominalColumn | OrderedColumn | DateColumn


@saved_as("encoder.table")
@dataclass(frozen=True)
class Encoder:
    """All columns, in the order of the training table."""

    columns: tuple[Column, ...]

    @property
    def features(self) -> list[str]:
        """Names of the encoded features."""
        return [feature for column in self.columns for feature in column.features]

    @property
    def owner(self) -> list[int]:
        """Column that each encoded feature belongs to, by its place."""
        return [at for at, column in enumerate(self.columns) for _ in column.features]

    @property
    def groups(self) -> dict[str, list[int]]:
        """Features of each column, by its name."""
        places: dict[str, list[int]] = {column.name: [] for column in self.columns}
        for place, mine in enumerate(self.owner):
            places[self.columns[mine].name].append(place)
        return places

    def decode(self, features: FloatArray) -> Table:
        """Table whose rows have these features, (n, d)."""
        cells = {
            column.name: column.decode(features[:, places])
            for column, places in zip(self.columns, self.groups.values(), strict=True)
        }
        return Table(cells, np.arange(1, len(features) + 1), "row")

    def encode(
        self, table: Table, decimal: str | None = None, *, new_values: str = "use"
    ) -> tuple[FloatArray, list[BadCell]]:
        """Features of shape (n, d), and the cells that could not be encoded.

        With "error" these are also the new values of nominal columns. ``decimal`` is the decimal
        mark of tables that do not show theirs.
        """
        self._require_columns(table)
        kinds = [column.name for column in self.columns if isinstance(column, NumberColumn)]
        decimal = table.decimal or decimal_mark(table, kinds, decimal) or "."
        parts, bad = [np.empty((len(table), 0))], []
        for column in self.columns:
            cells = table.columns[column.name]
            encoded, wrong = column.encode(cells, decimal)
            if new_values == "error" and not isinstance(column, NumberColumn):
                wrong = wrong | column.new(cells)
            parts.append(encoded)
            bad += table.bad_cells(column.name, wrong, column.reason)
        return np.hstack(parts), bad

    def new_values(self, table: Table) -> dict[str, list[str | None]]:
        """Cells with values that training did not have, by the nominal columns that have them."""
        columns = [column for column in self.columns if not isinstance(column, NumberColumn)]
        found = {}
        for column in columns:
            cells = table.columns[column.name]
            if (new := column.new(cells)).any():
                found[column.name] = texts(cells)[new].tolist()
        return found

    def _require_columns(self, table: Table) -> None:
        lacking = [column.name for column in self.columns if column.name not in table.columns]
        if lacking:
            names = listed([*map(repr, lacking)])
            raise BadInput(
                f"The table lacks {'the column' if len(lacking) == 1 else 'the columns'} {names} "
                f"that the model was trained with. It has {listed([*map(repr, table.columns)])}."
            )

    def newly_missing(self, table: Table) -> dict[str, int]:
        """Numbers and ordered columns without gaps in training that have some here, and how many.

        In nominal columns they are new values.
        """
        filled = [column for column in self.columns if not isinstance(column, NominalColumn)]
        complete = [column.name for column in filled if not column.missing]
        counts = {name: int(gaps(table.columns[name]).sum()) for name in complete}
        return {name: count for name, count in counts.items() if count}

    def check(self, n_features: int) -> None:
        """Raise ValueError unless the columns agree with each other and with the features."""
        nominal = [column for column in self.columns if isinstance(column, NominalColumn)]
        known = all(column.frequent in column.values for column in nominal)
        ordered = [column for column in self.columns if isinstance(column, OrderedColumn)]
        known &= all(0 <= column.ranks.median < len(column.values) for column in ordered)
        if not known or len(self.features) != n_features:
            raise ValueError("the columns and the classifier disagree")


def describe_new_values(found: Mapping[str, Sequence[str | None]]) -> list[str]:
    """Number of new values of each column, with examples."""
    told = []
    for name, cells in found.items():
        different = ["missing" if cell is None else repr(cell) for cell in dict.fromkeys(cells)]
        more = ["..."] * (len(different) > _SHOWN_NEW)
        told.append(f"{len(cells)} in column {name} ({', '.join(different[:_SHOWN_NEW] + more)})")
    return told


def parse_columns(
    table: Table,
    nominal: Collection[str] = (),
    numeric: Collection[str] = (),
    decimal: str | None = None,
) -> tuple[Table, list[BadCell]]:
    """Turn columns into float64, dates or texts; name cells that do not fit.

    A column is numeric if more than half of its cells that are not missing are numbers, or if it
    is named in ``numeric``; else, or if it is named in ``nominal``, it is nominal. The source of a
    table may declare columns nominal or ordered. Columns of dates are dates, and columns that are
    no features are left out (:func:`ordinalgp.tables.screening.screened`).
    """
    table.require((*nominal, *numeric), "There is no column {name}. The columns are {columns}.")
    kinds = table.nominal - frozenset(numeric) | frozenset(nominal)
    # False and True are no scale: they are nominal in files of text, too.
    orders = {name: order for name, order in table.levels.items() if order != ["False", "True"]}
    declared = (kinds | orders.keys()) - frozenset(numeric)
    if decimal is None:
        looked_at = [name for name in table.columns if name not in declared]
        decimal = table.decimal or decimal_mark(table, looked_at) or "."
    table = screened(replace(table, decimal=decimal), declared, numeric)
    columns: dict[str, NDArray[Any]] = {}
    bad: list[BadCell] = []
    for name, cells in table.columns.items():
        if cells.dtype.kind == "M" or name in declared:
            columns[name] = texts(cells) if name in declared else cells
            continue
        present = ~gaps(cells)
        values, wrong = numbers(cells, decimal)
        by_look = cells.dtype != object or wrong.sum() < present.sum() / 2
        if name in numeric or by_look:
            columns[name] = values
            bad += table.bad_cells(name, wrong, partial(_not_a_number, table.advice, name))
        elif 2 * dates(cells[present])[1].sum() < present.sum():
            columns[name], wrong = dates(cells)
            bad += table.bad_cells(name, wrong, DateColumn.reason)
        else:
            columns[name] = texts(cells)
    return replace(table, columns=columns, levels=orders, nominal=kinds), bad


def parse_as(table: Table, like: Table) -> tuple[Table, list[BadCell]]:
    """Parse columns into the kinds of a parsed table; name the cells that do not fit."""
    columns: dict[str, NDArray[Any]] = {}
    bad: list[BadCell] = []
    decimal = table.decimal or like.decimal or "."
    for name, known in like.columns.items():
        cells = table.columns[name]
        if known.dtype == object:
            columns[name] = texts(cells)
        elif known.dtype.kind == "M":
            columns[name], wrong = dates(cells)
            bad += table.bad_cells(name, wrong, DateColumn.reason)
        else:
            columns[name], wrong = numbers(_plain(cells, like.units.get(name, "")), decimal)
            bad += table.bad_cells(name, wrong, NumberColumn.reason)
    return replace(table, columns=columns), bad


def learn(parsed: Table, weights: FloatArray | None = None) -> Encoder:
    """Learn the encoding of every column of a parsed table without bad cells."""
    weights = np.ones(len(parsed)) if weights is None else weights
    return Encoder(tuple(_learn(parsed, name, weights) for name in parsed.columns))


def _learn(parsed: Table, name: str, weights: FloatArray) -> Column:
    cells = parsed.columns[name]
    if cells.dtype.kind == "M":
        return DateColumn(name, NumberColumn.learn(name, days(cells), weights))
    if cells.dtype != object:
        column = NumberColumn.learn(name, cells, weights)
        return replace(column, unit=parsed.units.get(name, ""))
    if name in parsed.levels and name not in parsed.nominal:
        return OrderedColumn.learn(name, cells, weights, parsed.levels[name])
    counts: Counter[str | None] = Counter()
    for cell, weight in zip(cells.tolist(), weights.tolist(), strict=True):
        counts[cell] += weight
    return NominalColumn.learn(name, {cell: n for cell, n in counts.items() if n > 0})


def _mean_and_deviation(values: FloatArray, counts: FloatArray) -> tuple[float, float]:
    """Weighted mean and standard deviation; powers of two keep squares of 1e200 finite, exactly."""
    size = np.frexp(np.abs(values).max())[1]
    small = np.ldexp(values, -size)
    mean = float(np.average(small, weights=counts))
    away = small - mean
    fine = np.frexp(np.abs(away).max())[1]
    deviation = math.sqrt(np.average(np.ldexp(away, -fine) ** 2, weights=counts))
    # The smallest number of all, where the deviation is smaller still.
    return float(np.ldexp(mean, size)), float(np.ldexp(deviation, size + fine)) or math.ulp(0.0)


def weighted_median(values: FloatArray, weights: FloatArray) -> float:
    """Median of ascending values; a weight of two has the effect of the value twice."""
    total = np.cumsum(weights)
    lower, upper = (np.searchsorted(total, total[-1] / 2, side) for side in ("left", "right"))
    low, high = float(values[lower]), float(values[min(upper, len(values) - 1)])
    return low if low == high else low / 2 + high / 2  # their sum may be infinite


def _not_a_number(advice: Advice, name: str, value: Any) -> str:
    reason = NumberColumn.reason(value)
    if reason.endswith("finite"):
        return f"{reason} (if it means a gap, use {advice.missing(str(value))})"
    return f"{reason} (or use {advice.nominal(name)})"


def read_target(
    table: Table,
    target: str,
    categories: Sequence[Any] | None = None,
    decimal: str | None = None,
    cuts: Cuts | None = None,
) -> Labels:
    """Labels of the column ``target``, the order of levels if one is declared, and bad cells.

    The order is ``categories``, else that of the file, else (None) that of the numbers; ``cuts``
    make levels of numbers. Labels of bad cells are placeholders.
    """
    table.require([target], "There is no target column {name}. The columns are {columns}.")
    decimal = decimal or table.decimal or decimal_mark(table, [target]) or "."
    if cuts is not None:
        values, bad = read_numbers(table, target, decimal)
        return cuts.labels(np.where(np.isnan(values), 0.0, values)), cuts.levels, bad
    cells, order = table.columns[target], categories or table.levels.get(target)
    if order is None:
        return _own_order(table, target, decimal)
    levels = _as_labels(order)
    twice = [str(level) for level, count in Counter(levels).items() if count > 1]
    if twice:
        raise BadInput(f"The level {listed(twice)} is named more than once. Name each level once.")
    if isinstance(levels[0], str):
        labels, wrong = texts(cells), np.zeros(len(cells), dtype=bool)
        labels = np.where(gaps(cells), levels[0], labels).astype(str)
    else:
        labels, wrong = numbers(cells, decimal)
    known = np.isin(labels, levels) & ~wrong
    names = ", ".join(map(str, levels))
    bad = _bad(table, target, ~known, f"is not a level ({names})")
    labels = np.where(known, labels, levels[0])
    return labels.astype(np.asarray(levels).dtype), levels, bad


def read_numbers(
    table: Table, target: str, decimal: str | None = None
) -> tuple[FloatArray, list[BadCell]]:
    """Numbers of a target that is to be cut into levels, NaN in bad cells, and these."""
    table.require([target], "There is no target column {name}. The columns are {columns}.")
    decimal = decimal or table.decimal or decimal_mark(table, [target]) or "."
    cells = table.columns[target]
    present = cells[~gaps(cells)]
    signs = {unit(cell) for cell in present.tolist()} if cells.dtype == object else {""}
    values, wrong = numbers(_plain(cells, signs.pop() if len(signs) == 1 else ""), decimal)
    return np.where(wrong, np.nan, values), _bad(table, target, wrong, "is not a number")


def _own_order(table: Table, target: str, decimal: str) -> tuple[Any, None, list[BadCell]]:
    cells = table.columns[target]
    labels, wrong = numbers(cells, decimal)
    present = ~gaps(cells)
    if not present.any():
        raise BadInput(f"The target column {target} has no values at all.")
    if 2 * wrong.sum() >= present.sum():
        found = sorted(set(texts(cells[present]).tolist()), key=_by_numbers)
        raise BadInput(_no_order(target, found, table.advice))
    bad = _bad(table, target, wrong | ~present, "is not a number, as the other levels are")
    fine = labels[~wrong & present]
    if (n := len(np.unique(fine))) > _MOST_LEVELS:
        raise BadInput(
            f"The target column {target} has {n} different numbers, where a few ordered levels "
            f"are needed. Cut it into levels: {table.advice.cut()}."
        )
    labels = np.where(wrong | ~present, fine[0], labels)
    return labels.astype(np.int64) if _are_whole(fine) else labels, None, bad


def _are_whole(values: FloatArray) -> bool:
    """Whether numbers are integers that floats tell apart."""
    return bool(np.all((values % 1 == 0) & (np.abs(values) < 2**53)))


def _by_numbers(text: str) -> tuple[Any, ...]:
    """Key that sorts texts by the numbers in them: "<18", "18-30", ">30"; "$5", "$10"."""
    found = re.findall(r"\d+(?:[.]\d+)?", text)
    open_end = -1 if text[:1] in "<≤" else 1 if text[:1] in ">≥" or text[-1:] == "+" else 0
    return not found, [(float(each), open_end) for each in found], text


def _as_labels(order: Sequence[Any]) -> list[Any]:
    """Levels as numbers where all of them are, whole numbers where possible; else as texts."""
    parsed = [number(str(level)) for level in order]
    if any(value is None for value in parsed):
        return [str(level) for level in order]
    values = [float(value) for value in parsed if value is not None]
    return [int(v) for v in values] if _are_whole(np.array(values)) else values


def _bad(table: Table, target: str, where: Any, reason: str) -> list[BadCell]:
    def explain(cell: Any) -> str:
        if cell is None or cell != cell:
            return "the target is missing"
        return f"{cell!r} {reason}" if isinstance(cell, str) else f"{cell:g} {reason}"

    return table.bad_cells(target, where | gaps(table.columns[target]), explain)


def _no_order(target: str, found: list[str], say: Advice) -> str:
    if len(found) > _MOST_LEVELS:
        times = all(date(text) is not None for text in found)
        what = f"{len(found)} different {'dates' if times else 'texts'} ({found[0]!r:.40}, ...)"
        todo = (
            f"Write them as numbers, such as days, and cut these: {say.cut()}."
            if times
            else "Name another column, or, if each is a level, all of them in order."
        )
        return f"The target column {target} has {what}, too many for levels. {todo}"
    return (
        f"The levels of {target} are texts without an order: {', '.join(found)}.\n"
        "Name them from lowest to highest, for example (put them into the right order):\n"
        f"  {say.categories(found)}"
    )
