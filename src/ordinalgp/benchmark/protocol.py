"""Which rows train and which test: the published partitions, or drawn ones like them."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import train_test_split

from ordinalgp._typing import BoolArray, FloatArray, IntArray
from ordinalgp.datasets import BenchmarkData, DataUnavailableError, fetch_benchmark

# The sets of Tables 2 and 3 of Chu and Ghahramani (2005), in the order of their tables, which is
# also the order of size, with the number of training rows.
TRAINING_ROWS = {
    "diabetes": 30,
    "pyrimidines": 50,
    "triazines": 100,
    "wisconsin": 130,
    "machine_cpu": 150,
    "auto_mpg": 200,
    "boston_housing": 300,
    "stocks": 600,
    "abalone": 1000,
}
DATASETS = tuple(TRAINING_ROWS)


class Cell(NamedTuple):
    """One fit of a grid."""

    dataset: str
    bins: int
    """levels that the target is cut into; 0 for a target that has its own levels"""
    split: int
    """from 1"""
    model: str
    size: int = 0
    """what is trained on (rows, pairs, movies) in experiments that vary it; else 0"""

    @property
    def seed(self) -> int:
        """A number below 2^32 that depends on this cell alone, on every machine."""
        named = repr(tuple(self) if self.size else tuple(self)[:4])
        return int.from_bytes(hashlib.sha256(named.encode()).digest()[:4], "big")


@dataclass(frozen=True, eq=False)
class Split:
    """Standardised inputs and labels of one partition."""

    X_train: FloatArray
    y_train: IntArray
    X_test: FloatArray
    y_test: IntArray
    partition: str
    """"published", or "drawn" where none is published"""


def data_folder(data_home: str | os.PathLike[str] | None = None) -> Path:
    """Find the benchmark data: the argument, ``ORDINALGP_DATA``, or beside a source checkout."""
    given = data_home or os.environ.get("ORDINALGP_DATA")
    folder = Path(given) if given else Path(__file__).resolve().parents[4] / "shared" / "data"
    if not (folder / "datasets.json").is_file():
        raise DataUnavailableError(
            f"The benchmark data were looked for in {folder}, but there is no datasets.json. "
            "Set ORDINALGP_DATA (or data_home) to the folder that holds it."
        )
    return folder


def fetch(name: str, data_home: str | os.PathLike[str] | None = None) -> BenchmarkData:
    """Fetch from :func:`data_folder` where there is one, else from OpenML."""
    try:
        folder = data_folder(data_home)
    except DataUnavailableError:
        if data_home or os.environ.get("ORDINALGP_DATA"):
            raise
        return fetch_benchmark(name)
    return fetch_benchmark(name, folder)


def load_split(cell: Cell, data_home: str | os.PathLike[str] | None = None) -> Split:
    """Read the partition of a cell and standardise its inputs by its training rows.

    Labels are the published ones where they exist; they differ from a binning of the target in
    three sets.
    """
    data = fetch(cell.dataset, data_home)
    y = _labels(data, cell.bins)
    train, partition = _training_rows(data, y, cell)
    X_train, X_test = standardise(data.features(), train)
    return Split(X_train, y[train], X_test, y[~train], partition)


def _labels(data: BenchmarkData, bins: int) -> IntArray:
    if bins == 0:
        return data.target.astype(np.intp)
    labels = data.published_labels.get(bins, data.labels.get(bins))
    if labels is None:
        raise ValueError(
            f"{data.name} has no labels in {bins} bins: its target is {data.target_kind}. "
            "Use bins=0, its own levels."
        )
    return labels


def _training_rows(data: BenchmarkData, y: IntArray, cell: Cell) -> tuple[BoolArray, str]:
    published = data.partitions.get(cell.bins if cell.bins else "holdout")
    if published is not None:
        if not 1 <= cell.split <= len(published):
            raise ValueError(
                f"{data.name} has {len(published)} published partitions, but number {cell.split} "
                "was asked for. Lower the number of trials."
            )
        return published[cell.split - 1], "published"
    size = TRAINING_ROWS.get(cell.dataset, round(0.75 * len(y)))
    seed = Cell(cell.dataset, cell.bins, cell.split, "").seed  # the same rows for every model
    return draw_training_rows(y, size, seed), "drawn"


def draw_training_rows(y: IntArray, size: int, seed: int) -> BoolArray:
    """Draw ``size`` rows, with the shares of the levels kept where every level has two rows."""
    strata = y if np.bincount(y)[np.unique(y)].min() > 1 else None
    every = np.arange(len(y))
    rows, _ = train_test_split(every, train_size=size, stratify=strata, random_state=seed)
    mask = np.zeros(len(y), dtype=np.bool_)
    mask[rows] = True
    return mask


def standardise(X: FloatArray, train: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Shift and scale by the training rows; what is constant there becomes zero everywhere."""
    seen = X[train]
    varies = np.ptp(seen, axis=0) > 0
    scale = np.where(varies, seen.std(axis=0), 1.0)
    Z = np.where(varies, (X - seen.mean(axis=0)) / scale, 0.0)
    return Z[train], Z[~train]
