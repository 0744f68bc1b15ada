"""Data sets of the papers: from a local folder with published partitions, else from OpenML."""

import csv
import gzip
import hashlib
import io
import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.datasets import fetch_openml

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]
Home = str | os.PathLike[str] | None
"""folder of the data, if it is given"""

ROOT = Path(__file__).resolve().parents[1]
"""the project; everything else is found relative to it"""
BESIDE = ROOT.parent / "shared" / "data"
RESULTS = ROOT / "papers" / "results"


class DataUnavailableError(OSError):
    """A data set is neither in the local folder nor on OpenML, or is not what it should be."""


@dataclass(frozen=True, eq=False)
class BenchmarkData:
    """One data set, as :func:`fetch_benchmark` returns it; rows are in the order of the source."""

    name: str
    numeric: FloatArray = field(repr=False)
    """numeric features, of shape (n, n_numeric); missing values are nan"""
    numeric_names: tuple[str, ...] = field(repr=False)
    nominal: NDArray[Any] = field(repr=False)
    """nominal features as words, of shape (n, n_nominal); missing values are empty"""
    nominal_names: tuple[str, ...]
    target: FloatArray = field(repr=False)
    """the target as it is in the source, of shape (n,)"""
    target_kind: str
    """"continuous", "ordinal" or another word of the source"""
    origin: str
    """where the rows came from"""
    facts: Mapping[str, Any] = field(repr=False)
    """source, licence, notes and whatever else the source says"""
    ids: NDArray[Any] = field(default_factory=lambda: np.empty((0, 0)), repr=False)
    """identifiers (raters, items, choice sets) as words, of shape (n, n_ids)"""
    id_names: tuple[str, ...] = ()
    published_labels: Mapping[int | str, IntArray] = field(default_factory=dict, repr=False)
    """labels that came with published partitions, under the keys of ``partitions``"""
    partitions: Mapping[int | str, BoolArray] = field(default_factory=dict, repr=False)
    """published partitions of shape (n_partitions, n), True in training rows; keys 5, 10 (bins), \
"holdout" and others"""
    tables: Mapping[str, Mapping[str, NDArray[Any]]] = field(default_factory=dict, repr=False)
    """other tables of the set (features of items or raters): name, then column, as words"""

    @property
    def labels(self) -> dict[int, IntArray]:
        """Bins of equal width of a continuous target, under the keys 5 and 10 (their number)."""
        continuous = self.target_kind.startswith("continuous")
        return {bins: equal_width_labels(self.target, bins) for bins in (5, 10) if continuous}

    def features(self, *, one_hot: str = "words") -> FloatArray:
        """Return all features as numbers, of shape (n, d): numeric ones, then nominal ones.

        Parameters
        ----------
        one_hot : {"words", "all"}, default="words"
            Nominal features that take a 0/1 column for each of their levels. "words" leaves codes
            that are numbers in one column: with it the papers' sets have the papers' numbers of
            inputs. A missing word has 0 in all its columns.
        """
        if one_hot not in ("words", "all"):
            raise ValueError(f'one_hot must be "words" or "all", but is {one_hot!r}.')
        columns = [self.numeric]
        for column in self.nominal.T:
            codes = _as_numbers(column) if one_hot == "words" else None
            if codes is not None:
                columns.append(codes[:, None])
            else:
                levels = [level for level in np.unique(column) if level != ""]
                columns.append((column[:, None] == np.array(levels)).astype(np.float64))
        return np.concatenate(columns, axis=1)


def _as_numbers(words: NDArray[Any]) -> FloatArray | None:
    try:
        return _numbers(words)
    except ValueError:
        return None


def _numbers(words: NDArray[Any]) -> FloatArray:
    return np.where(words == "", "nan", words).astype(np.float64)


def _stack(columns: list[NDArray[Any]], n: int) -> NDArray[Any]:
    return np.column_stack(columns) if columns else np.empty((n, 0))


def equal_width_labels(target: ArrayLike, bins: int) -> IntArray:
    """Cut the range of a target into intervals of equal width, closed on the right.

    Parameters
    ----------
    target : array-like of shape (n,)
        Numbers, not all the same.
    bins : int
        Number of intervals.

    Returns
    -------
    ndarray of shape (n,)
        Labels 1 to ``bins``; the smallest number gets 1.

    Examples
    --------
    >>> from papers.data import equal_width_labels
    >>> equal_width_labels([0.0, 2.0, 2.1, 9.0, 10.0], 5)
    array([1, 1, 2, 5, 5])
    """
    y = np.asarray(target, dtype=np.float64)
    if y.ndim != 1 or len(y) == 0 or not np.isfinite(y).all():
        raise ValueError(f"target must be a column of finite numbers, but has shape {y.shape}.")
    if bins < 1 or np.ptp(y) == 0:
        raise ValueError(
            f"{bins} bins were asked for of a target from {y.min()} to {y.max()}. "
            "Give at least one bin and a target that varies."
        )
    # A border is a decimal number that the computer cannot hold: what is on it up to rounding
    # belongs to the interval on its left.
    place = bins * (y - y.min()) / np.ptp(y)
    return np.clip(np.ceil(place - 1e-9), 1, bins).astype(np.intp)


def quintile_labels(target: FloatArray) -> IntArray:
    """Cut a target into five levels of equal frequency, which count from 0."""
    return np.searchsorted(np.quantile(target, [0.2, 0.4, 0.6, 0.8]), target)


def standardise(X: FloatArray, train: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Shift and scale by the training rows; what is constant there becomes zero everywhere."""
    seen = X[train]
    varies = np.ptp(seen, axis=0) > 0
    scale = np.where(varies, seen.std(axis=0), 1.0)
    Z = np.where(varies, (X - seen.mean(axis=0)) / scale, 0.0)
    return Z[train], Z[~train]


# ------------------------------------------------------------------------------- finding it


def fetch_benchmark(name: str, data_home: Home = None) -> BenchmarkData:
    """Get a data set of the papers from a local folder, else from OpenML.

    Parameters
    ----------
    name : str
        For example "diabetes", "boston_housing", "abalone". An unknown one is answered with a list.
    data_home : path, optional
        Folder with a ``datasets.json``; see :func:`data_folder`. A set that is not in the folder,
        or all of them where there is no folder, come from OpenML (scikit-learn's ``fetch_openml``,
        which keeps a copy). Published labels and partitions exist only in the folder.

    Returns
    -------
    BenchmarkData
        Features, raw target, labels in 5 and 10 bins, published labels and partitions.

    Raises
    ------
    DataUnavailableError
        If the set can be had nowhere, or its shape or checksum is not the expected one.

    Examples
    --------
    >>> from papers.data import fetch_benchmark
    >>> data = fetch_benchmark("abalone")  # doctest: +SKIP
    >>> data.features().shape, data.labels[5][:4]  # doctest: +SKIP
    ((4177, 10), array([3, 2, 2, 2]))
    """
    folder = _find_folder(data_home)
    known = _list_local(folder) if folder else {}
    if folder and name in known:
        return _read_local(folder, known[name])
    if name in OPENML:
        return _read_openml(name)
    everything = ", ".join(sorted({*known, *OPENML}))
    nowhere = "in a local folder (neither data_home nor ORDINALGP_DATA names one)"
    looked = f"in {folder}" if folder else nowhere
    raise DataUnavailableError(
        f"The data set {name!r} is neither on OpenML nor {looked}. Set data_home or "
        f"ORDINALGP_DATA to a folder that holds it, or choose one of: {everything}."
    )


def data_folder(data_home: Home = None) -> Path:
    """Find the local data: the argument, ``ORDINALGP_DATA``, or ``shared/data`` by the project."""
    folder = _find_folder(data_home) or BESIDE
    _list_local(folder)
    return folder


def read_survey(name: str, data_home: Home = None) -> dict[str, NDArray[Any]]:
    """Read the columns of a survey from the folder ``surveys`` beside the data.

    Columns of numbers are floats with nan for gaps; the others are texts with "" for gaps.
    """
    path = data_folder(data_home).parent / "surveys" / f"{name}.csv"
    if not path.is_file():
        raise DataUnavailableError(
            f"The survey {name!r} was looked for in {path}, but is not there. Put the folder "
            "surveys beside the folder of the data, which data_home or ORDINALGP_DATA names."
        )
    parsed = {key: (words, _as_numbers(words)) for key, words in _read_columns(path).items()}
    return {key: words if numbers is None else numbers for key, (words, numbers) in parsed.items()}


def _find_folder(data_home: Home) -> Path | None:
    given = data_home or os.environ.get("ORDINALGP_DATA")
    return Path(given) if given else BESIDE if (BESIDE / "datasets.json").is_file() else None


# --------------------------------------------------------------------------- the local folder


def _list_local(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the facts of every data set of ``folder``, by name."""
    listing = folder / "datasets.json"
    if not listing.is_file():
        raise DataUnavailableError(
            f"The benchmark data were looked for in {folder}, but there is no datasets.json. Set "
            "data_home or ORDINALGP_DATA to the folder that holds it, or unset it to use OpenML."
        )
    return {facts["name"]: facts for facts in json.loads(listing.read_text("utf-8"))["datasets"]}


def _read_local(folder: Path, facts: dict[str, Any]) -> BenchmarkData:
    """Read one data set, after a check of its checksum, and check its shape."""
    columns = _read_columns(folder / facts["file"], sha256=facts["sha256"])
    target = _numbers(columns.pop("target"))
    ids = tuple(facts["id_columns"])
    nominal = tuple(name for name in columns if name in facts["nominal"] and name not in ids)
    numeric = tuple(name for name in columns if name not in (*nominal, *ids))
    n = len(target)
    if (n, len(columns)) != (facts["n_rows"], facts["n_features"]):
        raise DataUnavailableError(
            f"{folder / facts['file']} has {n} rows and {len(columns)} columns besides the target, "
            f"but datasets.json promises {facts['n_rows']} and {facts['n_features']}. Restore the "
            "file."
        )
    published, partitions = _read_partitions(folder, facts, n)
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
        published_labels=published,
        partitions=partitions,
        tables={
            Path(name).stem: _read_columns(folder / name)
            for name in facts["aux"]
            if name.endswith((".csv", ".csv.gz"))
        },
        origin=str(folder / facts["file"]),
        facts=facts,
    )


def _read_columns(path: Path, *, sha256: str | None = None) -> dict[str, NDArray[Any]]:
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


def _read_partitions(
    folder: Path, facts: dict[str, Any], n: int
) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Published labels and partitions; the key is 5, 10 or what the file's name says."""
    published: dict[Any, Any] = {}
    partitions: dict[Any, Any] = {}
    for name in facts["partitions"]:
        kind = Path(name).stem.removeprefix(f"{facts['name']}_")
        columns = _read_columns(folder / name)
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


def _masks(splits: NDArray[Any], kind: str, n: int, path: Path) -> BoolArray:
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


# ------------------------------------------------------------------------------------- OpenML


@dataclass(frozen=True)
class Listed:
    """Number of a set on OpenML, and its expected contents after rows with gaps are left out."""

    number: int
    n_rows: int
    n_features: int
    target_range: tuple[float, float]
    kind: str = "continuous"
    target: str = "default-target"
    levels: tuple[str, ...] = ()
    """words of an ordinal target from lowest to highest, which become 1, 2, ..."""


_CLARITY = ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF")
OPENML = {
    "machine_cpu": Listed(230, 209, 6, (6, 1150)),
    "auto_mpg": Listed(196, 392, 7, (9, 46.6)),
    "boston_housing": Listed(531, 506, 13, (5, 50)),
    "abalone": Listed(183, 4177, 8, (1, 29)),
    "balance_scale": Listed(11, 625, 4, (1, 3), "ordinal", levels=("L", "B", "R")),
    "swd": Listed(1028, 1000, 10, (1, 4), "ordinal"),
    "computer_small": Listed(562, 8192, 12, (0, 99)),
    "california_housing": Listed(537, 20640, 8, (14999, 500001)),
    "census_house16h": Listed(574, 22784, 16, (0, 500001)),
    "esl": Listed(1027, 488, 4, (1, 9), "ordinal"),
    "lev": Listed(1029, 1000, 4, (1, 5), "ordinal"),
    "winequality_red": Listed(40691, 1599, 11, (3, 8), "ordinal"),
    "winequality_white": Listed(40498, 4898, 11, (3, 9), "ordinal"),
    "diamonds": Listed(42225, 53940, 9, (1, 8), "ordinal", "clarity", _CLARITY),
}


def _read_openml(name: str) -> BenchmarkData:
    """Download one data set, or read scikit-learn's copy of it, and check its shape."""
    listed = OPENML[name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one for each retry; what matters is raised below
            fetched = fetch_openml(
                data_id=listed.number,
                target_column=listed.target,
                as_frame=False,
                parser="liac-arff",
                n_retries=1,
                delay=0.2,
            )
    except (URLError, OSError, ValueError) as error:
        raise DataUnavailableError(
            f"The data set {name!r} is in no local folder, and OpenML (number {listed.number}) did "
            f"not give it: {error}. Set data_home or ORDINALGP_DATA to a folder that holds it, or "
            "try again with a network."
        ) from error
    return _checked(name, listed, fetched)


def _checked(name: str, listed: Listed, fetched: Any) -> BenchmarkData:
    names, words = list(fetched.feature_names), fetched.categories or {}
    target = np.asarray(fetched.target)
    if listed.levels:
        target = 1.0 + np.array([listed.levels.index(str(word)) for word in target])
    target = target.astype(np.float64)
    whole = np.isfinite(fetched.data.astype(np.float64)).all(axis=1) & np.isfinite(target)
    data, target = fetched.data[whole].astype(np.float64), target[whole]
    # swd, esl and lev count from 0 in some copies.
    target = target + (listed.target_range[0] - target.min() if listed.kind == "ordinal" else 0)
    found = (*data.shape, float(target.min()), float(target.max()))
    expected = (listed.n_rows, listed.n_features, *map(float, listed.target_range))
    if found != expected:
        raise DataUnavailableError(
            f"OpenML's {name!r} (number {listed.number}) has (rows, features, least and greatest "
            f"target) {found}, but {expected} was expected. Use a local folder (data_home)."
        )
    is_nominal = np.array([column in words for column in names])
    numeric, nominal = np.flatnonzero(~is_nominal), np.flatnonzero(is_nominal)
    columns = [np.array(words[names[j]], dtype=str)[data[:, j].astype(int)] for j in nominal]
    return BenchmarkData(
        name=name,
        numeric=data[:, numeric],
        numeric_names=tuple(names[j] for j in numeric),
        nominal=_stack(columns, len(data)),
        nominal_names=tuple(names[j] for j in nominal),
        target=target,
        target_kind=listed.kind,
        origin=fetched.url,
        facts=dict(fetched.details),
    )


# ---------------------------------------------------------------------------------- MovieLens

LEVELS: FloatArray = np.arange(1, 11) / 2
"""half stars"""


@dataclass(frozen=True, eq=False)
class Movies:
    """Ratings in stars, movies down in the order of their ids, users across, gaps as nan."""

    movies: IntArray
    users: IntArray
    """those with the most ratings first"""
    stars: FloatArray


def load_movies(data_home: Home = None) -> Movies:
    """MovieLens as in section 4 of Yu et al. (2006).

    Movies rated at least 50 times, then users with at least 20 ratings of these.
    """
    return _load_movies(None if data_home is None else os.fspath(data_home))


@lru_cache(maxsize=2)  # reading takes longer than many a fit
def _load_movies(data_home: str | None) -> Movies:
    data = fetch_benchmark("movielens_small_ratings", data_home)
    places = [data.id_names.index(name) for name in ("movie_id", "user_id")]
    ids, stars = data.ids[:, places].astype(np.intp), data.target
    for column, least in ((0, 50), (1, 20)):
        _, group, counts = np.unique(ids[:, column], return_inverse=True, return_counts=True)
        kept = counts[group] >= least
        ids, stars = ids[kept], stars[kept]
    movies, row = np.unique(ids[:, 0], return_inverse=True)
    users, column_of = np.unique(ids[:, 1], return_inverse=True)
    table = np.full((len(movies), len(users)), np.nan)
    table[row, column_of] = stars
    order = np.argsort(-np.sum(~np.isnan(table), axis=0), kind="stable")
    return Movies(movies, users[order], table[:, order])


def nearest_level(values: FloatArray) -> FloatArray:
    """Round to half stars within the scale."""
    rounded: FloatArray = np.clip(np.rint(2 * values) / 2, LEVELS[0], LEVELS[-1])
    return rounded


def star_errors(truth: FloatArray, **predictions: FloatArray) -> dict[str, float]:
    """Zero-one error, and absolute error in stars, of each way to decide."""
    found = {}
    for name, predicted in predictions.items():
        found[f"zero_one_{name}"] = float(np.mean(predicted != truth))
        found[f"stars_{name}"] = float(np.mean(np.abs(predicted - truth)))
    return found
