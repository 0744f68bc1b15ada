"""Read a folder of CSV files with their facts in ``datasets.json``."""

import csv
import gzip
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import FloatArray
from ordinalgp.datasets.benchmarks import (
    BenchmarkData,
    DataUnavailableError,
    equal_width_labels,
)

Facts = dict[str, Any]
Columns = dict[str, NDArray[Any]]


def list_local(folder: Path) -> dict[str, Facts]:
    """Return the facts of every data set of ``folder``, by name."""
    listing = folder / "datasets.json"
    if not listing.is_file():
        raise DataUnavailableError(
            f"The benchmark data were looked for in {folder}, but there is no datasets.json. Set "
            "data_home or ORDINALGP_DATA to the folder that holds it, or unset it to use OpenML."
        )
    return {facts["name"]: facts for facts in json.loads(listing.read_text("utf-8"))["datasets"]}


def read_local(folder: Path, facts: Facts) -> BenchmarkData:
    """Read one data set, after a check of its checksum, and check its shape."""
    columns = read_columns(folder / facts["file"], sha256=facts["sha256"])
    target = _numbers(columns.pop("target"))
    ids = tuple(facts["id_columns"])
    nominal = tuple(name for name in columns if name in facts["nominal"] and name not in ids)
    numeric = tuple(name for name in columns if name not in (*nominal, *ids))
    n = len(target)
    _check_shape(facts, (n, len(columns)), folder)
    published, partitions = _read_partitions(folder, facts, n)
    continuous = facts["target_kind"].startswith("continuous")
    return BenchmarkData(
        name=facts["name"],
        numeric=_stack([_numbers(columns[name]) for name in numeric], n).astype(np.float64),
        numeric_names=numeric,
        nominal=_stack([columns[name] for name in nominal], n),
        nominal_names=nominal,
        ids=_stack([columns[name] for name in ids], n),
        id_names=ids,
        target=target,
        target_kind=facts["target_kind"],
        labels={bins: equal_width_labels(target, bins) for bins in (5, 10) if continuous},
        published_labels=published,
        partitions=partitions,
        tables={
            Path(name).stem: read_columns(folder / name)
            for name in facts["aux"]
            if name.endswith((".csv", ".csv.gz"))
        },
        origin=str(folder / facts["file"]),
        facts=facts,
    )


def read_columns(path: Path, *, sha256: str | None = None) -> Columns:
    """Read a CSV file, gzipped or not, as columns of words."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DataUnavailableError(
            f"{path} is listed in datasets.json, but is not there. Restore the file."
        ) from None
    found = hashlib.sha256(content).hexdigest()
    if sha256 is not None and found != sha256:
        raise DataUnavailableError(
            f"{path} has the SHA-256 {found}, but datasets.json promises {sha256}. The file was "
            "changed or is incomplete: restore it."
        )
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    header, *rows = csv.reader(io.StringIO(content.decode("utf-8")))
    return dict(
        zip(header, np.array(rows, dtype=str).reshape(len(rows), len(header)).T, strict=True)
    )


def _numbers(words: NDArray[Any]) -> FloatArray:
    return np.where(words == "", "nan", words).astype(np.float64)


def _stack(columns: list[NDArray[Any]], n: int) -> NDArray[Any]:
    return np.column_stack(columns) if columns else np.empty((n, 0))


def _check_shape(facts: Facts, shape: tuple[int, int], folder: Path) -> None:
    expected = (facts["n_rows"], facts["n_features"])
    if shape != expected:
        raise DataUnavailableError(
            f"{folder / facts['file']} has {shape[0]} rows and {shape[1]} columns besides the "
            f"target, but datasets.json promises {expected[0]} and {expected[1]}. Restore the file."
        )


def _read_partitions(folder: Path, facts: Facts, n: int) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Published labels and partitions; the key is 5, 10 or what the file's name says."""
    published: dict[Any, Any] = {}
    partitions: dict[Any, Any] = {}
    for name in facts["partitions"]:
        kind = Path(name).stem.removeprefix(f"{facts['name']}_")
        columns = read_columns(folder / name)
        if kind == "labels":
            for bins in (5, 10):
                published[bins] = columns[f"label_{bins}"].astype(np.intp)
            continue
        key: Any = {"splits_5bins": 5, "splits_10bins": 10}.get(kind, kind.removeprefix("splits_"))
        splits = [columns[column] for column in columns if column.startswith("split_")]
        partitions[key] = _masks(np.array(splits).astype(np.intp), kind, n, folder / name)
        for column in columns:
            if column.startswith("label_"):
                published[key] = columns[column].astype(np.intp)
    return published, partitions


def _masks(splits: NDArray[Any], kind: str, n: int, path: Path) -> NDArray[np.bool_]:
    """Training rows of every partition, from 0/1 marks or from row numbers."""
    if kind.startswith("train_rows"):
        masks = np.zeros((len(splits), n), dtype=np.bool_)
        np.put_along_axis(masks, splits, True, axis=1)
        return masks
    if splits.shape[1] != n or not np.isin(splits, (0, 1)).all():
        raise DataUnavailableError(
            f"{path} must mark each of the {n} rows by 1 (train) or 0 (test), but has "
            f"{splits.shape[1]} rows with values {np.unique(splits)[:5]}. Restore the file."
        )
    return splits == 1
