"""Training file, with the options that say how its columns are used."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordinalgp.tables.cells import BadCell, BadInput, BadRows, Table
from ordinalgp.tables.encoding import parse_columns
from ordinalgp.tables.reading import Format, read_chunks, read_table
from ordinalgp.tables.target import read_target


@dataclass(frozen=True)
class Source:
    """Training file, target column, and kinds of the other columns."""

    path: Path
    target: str
    categories: list[str] | None = None
    drop: tuple[str, ...] = ()
    nominal: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    style: Format = field(default_factory=Format)

    def batches(self, bad: BadRows, n_rows: int) -> Iterator[Table]:
        """Iterate over all rows, ``n_rows`` at a time."""
        return read_chunks(self.path, bad, self.style, rows=n_rows)

    def features(self, table: Table) -> Table:
        """Columns without the target and those that are dropped."""
        missing = [name for name in self.drop if name not in table.columns]
        if missing:
            raise BadInput(
                f"--drop names {missing[0]!r}, but the columns are {', '.join(table.columns)}."
            )
        X = table.without([self.target, *self.drop])
        if not X.columns:
            raise BadInput(f"There are no columns beside the target {self.target}.")
        return X

    def parse(self, features: Table) -> tuple[Table, list[BadCell]]:
        """Columns as numbers or texts, and the cells that do not fit."""
        return parse_columns(features, self.nominal, self.numeric, self.style.decimal)

    def labels(self, table: Table) -> tuple[NDArray[Any], list[Any] | None, list[BadCell]]:
        """Labels, order and bad cells of the target."""
        return read_target(table, self.target, self.categories, self.style.decimal)

    def check_levels(self, found: Sequence[Any]) -> None:
        """Raise unless there are two levels to tell apart."""
        if len(found) < 2:
            what = f"only the level {found[0]}" if found else "no level"
            raise BadInput(
                f"{self.path} has {what} in its column {self.target}, but at least 2 are needed."
            )

    def read(self, bad: BadRows) -> tuple[Table, NDArray[Any], list[Any] | None]:
        """Parsed features, labels and order of levels of the whole file, without bad rows."""
        table = read_table(self.path, bad, self.style)
        labels, order, wrong = self.labels(table)
        X, misfits = self.parse(self.features(table))
        keep = bad.drop(table, wrong + misfits)
        self.check_levels(np.unique(labels[keep]).tolist())
        return X.take(keep), labels[keep], order
