"""The nine benchmark sets of Chu and Ghahramani (2005) on their published partitions."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[np.float64]

ROOT = Path(__file__).resolve().parents[1]

# In the order of the paper's tables, which is also the order of size.
DATASETS = (
    "diabetes",
    "pyrimidines",
    "triazines",
    "wisconsin",
    "machine_cpu",
    "auto_mpg",
    "boston_housing",
    "stocks",
    "abalone",
)


@dataclass(frozen=True, eq=False)
class Split:
    """Standardised inputs and labels 1..bins of one partition."""

    X_train: Array
    y_train: NDArray[np.int64]
    X_test: Array
    y_test: NDArray[np.int64]


def data_folder() -> Path:
    """Find the benchmark data: ``ORDINALGP_DATA``, or ``shared/data`` beside the project."""
    given = os.environ.get("ORDINALGP_DATA")
    folder = Path(given) if given else ROOT.parent / "shared" / "data"
    if not (folder / "datasets.json").is_file():
        raise SystemExit(
            f"The benchmark data were looked for in {folder}, but there is no datasets.json. "
            "Set ORDINALGP_DATA to the folder that holds it."
        )
    return folder


def load_partition(name: str, bins: int, split: int) -> Split:
    """Read published partition ``split`` (from 1) of ``name`` in 5 or 10 bins.

    Labels are the published ones, which differ from a binning of the target in three sets.
    """
    folder = data_folder()
    labels = pd.read_csv(folder / "partitions" / f"{name}_labels.csv")[f"label_{bins}"]
    splits = pd.read_csv(folder / "partitions" / f"{name}_splits_{bins}bins.csv")
    train = splits[f"split_{split}"].to_numpy() == 1
    y = labels.to_numpy(dtype=np.int64)
    X_train, X_test = _standardise(_inputs(folder, name), train)
    return Split(X_train, y[train], X_test, y[~train])


def _inputs(folder: Path, name: str) -> Array:
    """Read the features, of shape (n, d), with nominal words as one 0/1 column each.

    Nominal columns that hold numbers (cylinders, model year and origin of auto_mpg, chas of
    boston_housing) stay one numeric column each, so that these sets have the 7 and 13 inputs
    of Table 1. The sex of abalone takes three columns (10 inputs), as in the paper.
    """
    table = pd.read_csv(folder / f"{name}.csv").drop(columns="target")
    words = [
        column
        for column in _facts(folder, name)["nominal"]
        if not pd.api.types.is_numeric_dtype(table[column])
    ]
    encoded: Array = pd.get_dummies(table, columns=words).to_numpy(dtype=np.float64)
    return encoded


def _facts(folder: Path, name: str) -> dict[str, Any]:
    listed = json.loads((folder / "datasets.json").read_text(encoding="utf-8"))["datasets"]
    return next(facts for facts in listed if facts["name"] == name)


def _standardise(X: Array, train: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Shift and scale by the training rows; what is constant there becomes zero everywhere."""
    seen = X[train]
    varies = np.ptp(seen, axis=0) > 0
    scale = np.where(varies, seen.std(axis=0), 1.0)
    Z = np.where(varies, (X - seen.mean(axis=0)) / scale, 0.0)
    return Z[train], Z[~train]
