"""Columns of a table as features: numbers scaled, nominal columns one-hot, gaps filled.

The rule, which the summary states and scikit-learn's transformers repeat:

- a number has its gaps filled with the median, then the mean taken off and is divided by the
  standard deviation (``SimpleImputer(strategy="median")``, ``StandardScaler()``);
- a nominal column has its gaps filled with the most frequent value, then one 0/1 feature for each
  value, in alphabetical order (``SimpleImputer(strategy="most_frequent")``, ``OneHotEncoder()``);
- a column that had gaps in training gets one more 0/1 feature that marks them
  (``MissingIndicator()``).
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import BoolArray, FloatArray
from ordinalgp.tables.cells import BadCell, BadInput, Table, gaps, number, numbers, texts

_MANY = 50  # different texts in a nominal column that nobody has asked for


@dataclass(frozen=True)
class NumberColumn:
    """A numeric column: how its gaps are filled and how it is scaled."""

    name: str
    median: float
    mean: float
    scale: float
    low: float
    high: float
    missing: int

    kind = "number"

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

    def reason(self, value: Any) -> str:
        """Why a cell is bad."""
        return f"{str(value)!r} is not a number"

    @property
    def rule(self) -> str:
        """The encoding in words."""
        if self.low == self.high:
            return f"number, always {self.low:g}"
        return f"number, {self.mean:.4g} ± {self.scale:.4g}"

    @property
    def filler(self) -> str:
        """What gaps are filled with: the median."""
        return f"{self.median:.4g}"


@dataclass(frozen=True)
class NominalColumn:
    """A nominal column: its values, and the one that fills gaps."""

    name: str
    values: tuple[str, ...]
    frequent: str
    missing: int

    kind = "nominal"

    @classmethod
    def learn(cls, name: str, cells: NDArray[Any]) -> "NominalColumn":
        """Take the values and the most frequent one (of several the first) from training."""
        counts = Counter(cell for cell in cells.tolist() if cell is not None)
        values = tuple(sorted(counts))
        frequent = max(values, key=lambda value: counts[value])
        return cls(name, values, frequent, int(gaps(cells).sum()))

    @property
    def features(self) -> list[str]:
        """Names of the encoded features."""
        return [f"{self.name} = {value}" for value in self.values] + [f"{self.name} missing"] * (
            self.missing > 0
        )

    def encode(self, values: NDArray[Any], decimal: str) -> tuple[FloatArray, BoolArray]:
        """Features of new cells, and the mask of the cells with a value unseen in training."""
        cells = texts(values)
        place = {value: at for at, value in enumerate(self.values)} | {None: -1}
        codes = np.array([place.get(cell, -2) for cell in cells.tolist()], dtype=np.intp)
        filled = np.where(codes == -1, place[self.frequent], codes)
        one_hot = filled[:, None] == np.arange(len(self.values))
        parts = [one_hot, (codes == -1)[:, None]]
        return np.hstack(parts[: 1 + (self.missing > 0)]).astype(float), codes == -2

    def reason(self, value: Any) -> str:
        """Why a cell is bad."""
        shown = ", ".join(self.values[:8]) + (", ..." if len(self.values) > 8 else "")
        return f"{str(value)!r} was not there in training ({shown})"

    @property
    def rule(self) -> str:
        """The encoding in words."""
        return f"nominal, {len(self.values)} values"

    @property
    def filler(self) -> str:
        """What gaps are filled with: the most frequent value."""
        return self.frequent


Column = NumberColumn | NominalColumn


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
        """Which column each encoded feature belongs to."""
        return [at for at, column in enumerate(self.columns) for _ in column.features]

    def encode(self, table: Table, decimal: str = ".") -> tuple[FloatArray, list[BadCell]]:
        """Features of shape (n, d), and the cells that could not be encoded."""
        self._require_columns(table)
        parts, bad = [np.empty((len(table), 0))], []
        for column in self.columns:
            cells = table.columns[column.name]
            encoded, wrong = column.encode(cells, decimal)
            parts.append(encoded)
            bad += [
                BadCell(int(table.lines[row]), column.name, column.reason(cells[row]))
                for row in np.flatnonzero(wrong)
            ]
        return np.hstack(parts), sorted(bad, key=lambda cell: cell.line)

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
        counts = {
            column.name: int(gaps(table.columns[column.name]).sum())
            for column in self.columns
            if not column.missing
        }
        return {name: count for name, count in counts.items() if count}

    def to_state(self) -> list[dict[str, Any]]:
        """What a model file keeps."""
        return [{"kind": column.kind, **asdict(column)} for column in self.columns]

    @classmethod
    def from_state(cls, state: Sequence[dict[str, Any]]) -> "Encoder":
        """Become the encoder of a file."""
        kinds: dict[str, Any] = {"number": NumberColumn, "nominal": NominalColumn}
        return cls(tuple(kinds[entry.pop("kind")](**entry) for entry in map(dict, state)))


def inspect(
    table: Table, nominal: Collection[str] = (), numeric: Collection[str] = (), decimal: str = "."
) -> tuple[dict[str, str], list[BadCell]]:
    """Decide what each column is, and name the cells that do not fit.

    A column is numeric if more than half of its cells that are not missing are numbers, or if it
    is named in ``numeric``; else, or if it is named in ``nominal``, it is nominal.
    """
    unknown = [name for name in (*nominal, *numeric) if name not in table.columns]
    if unknown:
        raise BadInput(
            f"There is no column {unknown[0]!r}. The columns are {', '.join(table.columns)}."
        )
    kinds, bad = {}, []
    for name, cells in table.columns.items():
        present = ~gaps(cells)
        if not present.any():
            raise BadInput(f"Column {name} has no values at all. Leave it out with --drop {name}.")
        _, wrong = numbers(cells, decimal)
        is_number = name in numeric or wrong.sum() < present.sum() / 2
        kinds[name] = "number" if is_number and name not in nominal else "nominal"
        if kinds[name] == "number":
            bad += [_not_a_number(table, name, int(row)) for row in np.flatnonzero(wrong)]
        elif name not in nominal:
            _refuse_texts(name, cells[present], decimal)
    return kinds, sorted(bad, key=lambda cell: cell.line)


def learn(table: Table, kinds: dict[str, str], decimal: str = ".") -> Encoder:
    """Learn the encoding of every column from rows without bad cells."""
    columns: list[Column] = []
    for name, cells in table.columns.items():
        if kinds[name] == "number":
            columns.append(NumberColumn.learn(name, numbers(cells, decimal)[0]))
        else:
            columns.append(NominalColumn.learn(name, texts(cells)))
    return Encoder(tuple(columns))


def _not_a_number(table: Table, name: str, row: int) -> BadCell:
    text = str(table.columns[name][row])
    return BadCell(int(table.lines[row]), name, f"{text!r} is not a number (or use --nominal)")


def _refuse_texts(name: str, cells: NDArray[Any], decimal: str) -> None:
    """Texts that hardly repeat are names or remarks: as features they would only be noise."""
    different = set(texts(cells).tolist())
    if len(different) <= min(_MANY, max(10, len(cells) // 2)):
        return
    comma = decimal == "." and all(number(text, ",") is not None for text in list(different)[:20])
    hint = " They are numbers with a decimal comma: use --decimal ','." if comma else ""
    raise BadInput(
        f"Column {name} has {len(different)} different texts in {len(cells)} rows, for example "
        f"{min(different)!r}.{hint} Leave it out with --drop {name}, or make a feature of each "
        f"with --nominal {name}."
    )
