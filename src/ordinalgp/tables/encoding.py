"""Columns of a table as features, and its target as labels with the order of their levels.

The rule for features, which the summary states and scikit-learn's transformers repeat:

- gaps of a number are filled with the median; then the mean is subtracted and the result divided
  by the standard deviation (``SimpleImputer(strategy="median")``, ``StandardScaler()``);
- gaps of a nominal column are filled with the most frequent value; then each value has a 0/1
  feature, in alphabetical order (``SimpleImputer(strategy="most_frequent")``,
  ``OneHotEncoder()``);
- a column that had gaps in training gets one more 0/1 feature that marks them
  (``MissingIndicator()``).
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import FINITE, POSITIVE, Axes, BoolArray, FloatArray
from ordinalgp.persistence import saved_as
from ordinalgp.tables.cells import BadCell, BadInput, Table, gaps, number, numbers, objects, texts

_MOST_TEXTS = 50  # different texts in a column that is nominal by its look alone
_MOST_LEVELS = 50  # different values of a target
_SHOWN_VALUES = 8  # values of a nominal column that a message names

Kind = Literal["number", "nominal"]
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

    kind: ClassVar[Kind] = "number"

    @classmethod
    def learn(cls, name: str, values: FloatArray) -> "NumberColumn":
        """Take median, mean, standard deviation and range from the training column."""
        median, missing = float(np.nanmedian(values)), np.isnan(values)
        filled = np.where(missing, median, values)
        low, high = float(filled.min()), float(filled.max())
        if low == high:  # where the mean and the standard deviation would be rounding errors
            return cls(name, median, low, 1.0, low, high, int(missing.sum()))
        with np.errstate(over="ignore"):
            mean, scale = float(filled.mean()), float(filled.std())
        if scale == 0 or not np.isfinite(scale):  # squares of 1e-200 and 1e200 are no numbers
            largest = max(high - mean, mean - low)
            scale = largest * float(((filled - mean) / largest).std())
        return cls(name, median, mean, scale, low, high, int(missing.sum()))

    @property
    def features(self) -> list[str]:
        """Names of the encoded features."""
        return [self.name] + [f"{self.name} missing"] * (self.missing > 0)

    def encode(self, values: NDArray[Any], decimal: str) -> tuple[FloatArray, BoolArray]:
        """Features of new cells, and the mask of the cells that hold no number."""
        found, bad = numbers(values, decimal)
        absent = gaps(values)
        scaled = (np.where(np.isfinite(found), found, self.median) - self.mean) / self.scale
        return np.column_stack([scaled, absent][: len(self.features)]), bad

    def decode(self, features: FloatArray) -> NDArray[Any]:
        """Cells that have these features, to 12 digits; NaN for gaps."""
        values = [float(f"{value:.12g}") for value in self.mean + self.scale * features[:, 0]]
        return np.where(features[:, 1:].any(axis=1), np.nan, values)

    @staticmethod
    def reason(value: Any) -> str:
        """Reason why a cell is bad."""
        return f"{str(value)!r} is not a number"

    @property
    def rule(self) -> str:
        """The encoding in words."""
        if self.low == self.high:
            return f"number, always {self.low:g}"
        return f"number, {self.mean:.4g} ± {self.scale:.4g}"

    @property
    def filler(self) -> str:
        """Value that fills gaps: the median."""
        return f"{self.median:.4g}"


@saved_as("column.nominal")
@dataclass(frozen=True)
class NominalColumn:
    """Encoding of a nominal column: its values, and the one that fills gaps."""

    name: str
    values: tuple[str, ...]
    frequent: str
    missing: Count
    """gaps in training"""

    kind: ClassVar[Kind] = "nominal"

    @classmethod
    def learn(cls, name: str, counts: Counter[str | None]) -> "NominalColumn":
        """Take the values and the most frequent one, of several the first, from their counts."""
        values = tuple(sorted(value for value in counts if value is not None))
        return cls(name, values, max(values, key=lambda value: counts[value]), counts[None])

    @property
    def features(self) -> list[str]:
        """Names of the encoded features."""
        marks = [f"{self.name} missing"] * (self.missing > 0)
        return [f"{self.name} = {value}" for value in self.values] + marks

    def encode(self, values: NDArray[Any], decimal: str) -> tuple[FloatArray, BoolArray]:
        """Features of new cells, and the mask of the cells with a value unseen in training."""
        cells = texts(values)
        place = {value: at for at, value in enumerate(self.values)} | {None: -1}
        codes = np.array([place.get(cell, -2) for cell in cells.tolist()], dtype=np.intp)
        filled = np.where(codes == -1, place[self.frequent], codes)
        one_hot = filled[:, None] == np.arange(len(self.values))
        parts = [one_hot, (codes == -1)[:, None]]
        return np.hstack(parts[: 1 + (self.missing > 0)]).astype(float), codes == -2

    def decode(self, features: FloatArray) -> NDArray[Any]:
        """Cells that have these features; None for gaps."""
        n = len(self.values)
        marked = (*features[:, n:].T, np.zeros(len(features)))[0]
        rows = zip(features[:, :n].argmax(axis=1), marked, strict=True)
        return objects(None if gap else self.values[at] for at, gap in rows)

    def reason(self, value: Any) -> str:
        """Reason why a cell is bad."""
        more = [", ..."] * (len(self.values) > _SHOWN_VALUES)
        shown = ", ".join(self.values[:_SHOWN_VALUES]) + "".join(more)
        return f"{str(value)!r} did not occur in training ({shown})"

    @property
    def rule(self) -> str:
        """The encoding in words."""
        return f"nominal, {len(self.values)} values"

    @property
    def filler(self) -> str:
        """Value that fills gaps: the most frequent one."""
        return self.frequent


Column = NumberColumn | NominalColumn


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
        owner = self.owner
        places = [
            [at for at, mine in enumerate(owner) if mine == k] for k in range(len(self.columns))
        ]
        return {column.name: found for column, found in zip(self.columns, places, strict=True)}

    def decode(self, features: FloatArray) -> Table:
        """Table whose rows have these features, (n, d)."""
        cells = {
            column.name: column.decode(features[:, places])
            for column, places in zip(self.columns, self.groups.values(), strict=True)
        }
        return Table(cells, np.arange(1, len(features) + 1), "row")

    def encode(self, table: Table, decimal: str = ".") -> tuple[FloatArray, list[BadCell]]:
        """Features of shape (n, d), and the cells that could not be encoded."""
        self._require_columns(table)
        parts, bad = [np.empty((len(table), 0))], []
        for column in self.columns:
            encoded, wrong = column.encode(table.columns[column.name], decimal)
            parts.append(encoded)
            bad += table.bad_cells(column.name, wrong, column.reason)
        return np.hstack(parts), bad

    def _require_columns(self, table: Table) -> None:
        lacking = [column.name for column in self.columns if column.name not in table.columns]
        if lacking:
            names = ", ".join(map(repr, lacking))
            raise BadInput(
                f"The table lacks {'the column' if len(lacking) == 1 else 'the columns'} {names} "
                f"that the model was trained with. It has {', '.join(map(repr, table.columns))}."
            )

    def newly_missing(self, table: Table) -> dict[str, int]:
        """Columns without gaps in training that have some here, with their number."""
        complete = [column.name for column in self.columns if not column.missing]
        counts = {name: int(gaps(table.columns[name]).sum()) for name in complete}
        return {name: count for name, count in counts.items() if count}

    def check(self, n_features: int) -> None:
        """Raise ValueError unless the columns agree with each other and with the features."""
        nominal = [column for column in self.columns if isinstance(column, NominalColumn)]
        known = all(column.frequent in column.values for column in nominal)
        if not known or len(self.features) != n_features:
            raise ValueError("the columns and the classifier disagree")


def parse_columns(
    table: Table, nominal: Collection[str] = (), numeric: Collection[str] = (), decimal: str = "."
) -> tuple[Table, list[BadCell]]:
    """Turn numeric columns into float64 and nominal ones into texts; name cells that do not fit.

    A column is numeric if more than half of its cells that are not missing are numbers, or if it
    is named in ``numeric``; else, or if it is named in ``nominal``, it is nominal.
    """
    table.require((*nominal, *numeric), "There is no column {name}. The columns are {columns}.")
    columns: dict[str, NDArray[Any]] = {}
    bad: list[BadCell] = []
    for name, cells in table.columns.items():
        present = ~gaps(cells)
        if not present.any():
            raise BadInput(f"Column {name} has no values at all. Leave it out with --drop {name}.")
        values, wrong = numbers(cells, decimal)
        is_number = name in numeric or wrong.sum() < present.sum() / 2
        if is_number and name not in nominal:
            columns[name] = values
            bad += table.bad_cells(name, wrong, _not_a_number)
        else:
            columns[name] = texts(cells)
            if name not in nominal:
                _refuse_texts(name, columns[name][present], decimal)
    return replace(table, columns=columns), bad


def parse_as(table: Table, like: Table, decimal: str = ".") -> tuple[Table, list[BadCell]]:
    """Parse columns into the kinds of a parsed table; name the cells that hold no number."""
    columns: dict[str, NDArray[Any]] = {}
    bad: list[BadCell] = []
    for name, known in like.columns.items():
        if known.dtype == object:
            columns[name] = texts(table.columns[name])
            continue
        columns[name], wrong = numbers(table.columns[name], decimal)
        bad += table.bad_cells(name, wrong, NumberColumn.reason)
    return replace(table, columns=columns), bad


def learn(parsed: Table) -> Encoder:
    """Learn the encoding of every column of a parsed table without bad cells."""
    columns: list[Column] = [
        NominalColumn.learn(name, Counter(cells.tolist()))
        if cells.dtype == object
        else NumberColumn.learn(name, cells)
        for name, cells in parsed.columns.items()
    ]
    return Encoder(tuple(columns))


def _not_a_number(value: Any) -> str:
    return f"{NumberColumn.reason(value)} (or use --nominal)"


def _refuse_texts(name: str, cells: NDArray[Any], decimal: str) -> None:
    """Refuse texts that hardly repeat: they are names or remarks, and as features only noise."""
    different = set(cells.tolist())
    if len(different) <= min(_MOST_TEXTS, max(10, len(cells) // 2)):
        return
    comma = decimal == "." and all(number(text, ",") is not None for text in list(different)[:20])
    hint = " They are numbers with a decimal comma: use --decimal ','." if comma else ""
    raise BadInput(
        f"Column {name} has {len(different)} different texts in {len(cells)} rows, for example "
        f"{min(different)!r}.{hint} Leave it out with --drop {name}, or make a feature of each "
        f"with --nominal {name}."
    )


def read_target(
    table: Table, target: str, categories: Sequence[Any] | None = None, decimal: str = "."
) -> Labels:
    """Labels of the column ``target``, the order of levels if one is declared, and bad cells.

    The order is ``categories``, else that of the file, else (None) that of the numbers.
    Labels of bad cells are placeholders.
    """
    table.require([target], "There is no target column {name}. The columns are {columns}.")
    cells, order = table.columns[target], categories or table.levels.get(target)
    if order is None:
        return _own_order(table, target, decimal)
    levels = _as_labels(order)
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


def _own_order(table: Table, target: str, decimal: str) -> tuple[Any, None, list[BadCell]]:
    cells = table.columns[target]
    labels, wrong = numbers(cells, decimal)
    present = ~gaps(cells)
    if not present.any():
        raise BadInput(f"The target column {target} has no values at all.")
    if 2 * wrong.sum() >= present.sum():
        raise BadInput(_no_order(target, sorted(set(texts(cells[present]).tolist()))))
    bad = _bad(table, target, wrong | ~present, "is not a number, as the other levels are")
    fine = labels[~wrong & present]
    if (n := len(np.unique(fine))) > _MOST_LEVELS:
        raise BadInput(
            f"The target column {target} has {n} different numbers, where a few ordered levels "
            "are needed. Bin it into levels first."
        )
    whole = bool(np.all(fine % 1 == 0))
    labels = np.where(wrong | ~present, fine[0], labels)
    return labels.astype(np.int64) if whole else labels, None, bad


def _as_labels(order: Sequence[Any]) -> list[Any]:
    """Levels as numbers where all of them are, whole numbers where possible; else as texts."""
    parsed = [number(str(level)) for level in order]
    if any(value is None for value in parsed):
        return [str(level) for level in order]
    values = [float(value) for value in parsed if value is not None]
    return [int(v) for v in values] if all(v == int(v) for v in values) else values


def _bad(table: Table, target: str, where: Any, reason: str) -> list[BadCell]:
    def explain(cell: Any) -> str:
        if cell is None or cell != cell:
            return "the target is missing"
        return f"{cell!r} {reason}" if isinstance(cell, str) else f"{cell:g} {reason}"

    return table.bad_cells(target, where | gaps(table.columns[target]), explain)


def _no_order(target: str, found: list[str]) -> str:
    if len(found) > _MOST_LEVELS:
        return f"The target column {target} has {len(found)} different texts, too many for levels."
    return (
        f"The levels of {target} are texts without an order: {', '.join(found)}.\n"
        "Name them from lowest to highest, for example (put them into the right order):\n"
        f"  --categories {','.join(found)}"
    )
