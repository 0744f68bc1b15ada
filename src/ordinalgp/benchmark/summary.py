"""Means over partitions beside published figures."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from ordinalgp.benchmark.scoring import Record

PERCENT = {"zero_one", "zero_one_all", "absolute", "absolute_median"}


@cache
def published(table: str) -> dict[str, Any]:
    """Figures of a paper's table, with source and unit, from the one file that holds them all."""
    tables = json.loads((files("ordinalgp.benchmark") / "published.json").read_text("utf-8"))
    if table not in tables:
        raise ValueError(f"There is no published table {table!r}, only {', '.join(tables)}.")
    found: dict[str, Any] = tables[table]
    return found


@dataclass(frozen=True)
class Figure:
    """Mean and standard deviation over partitions, and what was published if anything was."""

    mean: float
    sd: float
    n: int
    published: tuple[float, float] | None = None
    published_n: int = 20

    @property
    def excess(self) -> float:
        """How much worse than published, in published standard deviations; nan without them.

        A published deviation of 0 is one that was rounded away: half its last digit stands in.
        """
        if self.published is None:
            return math.nan
        return (self.mean - self.published[0]) / (self.published[1] or 0.5)

    @property
    def standard_errors(self) -> float:
        """Difference from the published mean in standard errors of that difference.

        Both means have an error. That the partitions are the same is not used, as the published
        results of single partitions are not known: the true error is smaller.
        """
        if self.published is None or self.n < 2:
            return math.nan
        theirs, sd = self.published
        error = math.sqrt(self.sd**2 / self.n + sd**2 / self.published_n)
        if error == 0:
            return 0.0 if self.mean == theirs else math.copysign(math.inf, self.mean - theirs)
        return (self.mean - theirs) / error


def figure(
    records: Sequence[Record], measure: str, published: Sequence[float] | None = None
) -> Figure | None:
    """Summarise one measure of some records, errors in percent; None if none of them has it."""
    values = [r[measure] for r in records if r.get(measure) is not None]
    if not values:
        return None
    scaled = np.array(values, dtype=np.float64) * (100 if measure in PERCENT else 1)
    with np.errstate(invalid="ignore"):  # an infinite log score has no deviation
        sd = float(scaled.std(ddof=1)) if len(scaled) > 1 else math.nan
    pair = None if published is None else (float(published[0]), float(published[1]))
    return Figure(float(scaled.mean()), sd, len(scaled), pair)


def select(records: Iterable[Record], **wanted: Any) -> list[Record]:
    """Records of successful fits with the given values, such as ``dataset="stocks", bins=5``."""
    return [r for r in records if "error" not in r and wanted.items() <= r.items()]


def failures(records: Iterable[Record]) -> list[str]:
    """One line for every failed fit."""
    keys = ("dataset", "bins", "split", "model", "size")
    failed = [r for r in records if "error" in r]
    return [f"{tuple(r[k] for k in keys if r.get(k))}: {r['error']}" for r in failed]
