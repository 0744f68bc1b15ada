"""The data sets that OpenML has, through scikit-learn's fetcher, which checks their MD5."""

import warnings
from dataclasses import dataclass
from typing import Any
from urllib.error import URLError

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import fetch_openml

from ordinalgp._typing import FloatArray
from ordinalgp.datasets.benchmarks import (
    BenchmarkData,
    DataUnavailableError,
    equal_width_labels,
)


@dataclass(frozen=True)
class _Listed:
    """Where a set is, and what it must look like after rows with gaps are left out."""

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
    "machine_cpu": _Listed(230, 209, 6, (6, 1150)),
    "auto_mpg": _Listed(196, 392, 7, (9, 46.6)),
    "boston_housing": _Listed(531, 506, 13, (5, 50)),
    "abalone": _Listed(183, 4177, 8, (1, 29)),
    "balance_scale": _Listed(11, 625, 4, (1, 3), "ordinal", levels=("L", "B", "R")),
    "swd": _Listed(1028, 1000, 10, (1, 4), "ordinal"),
    "computer_small": _Listed(562, 8192, 12, (0, 99)),
    "california_housing": _Listed(537, 20640, 8, (14999, 500001)),
    "census_house16h": _Listed(574, 22784, 16, (0, 500001)),
    "esl": _Listed(1027, 488, 4, (1, 9), "ordinal"),
    "lev": _Listed(1029, 1000, 4, (1, 5), "ordinal"),
    "winequality_red": _Listed(40691, 1599, 11, (3, 8), "ordinal"),
    "winequality_white": _Listed(40498, 4898, 11, (3, 9), "ordinal"),
    "diamonds": _Listed(42225, 53940, 9, (1, 8), "ordinal", "clarity", _CLARITY),
}


def read_openml(name: str) -> BenchmarkData:
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


def _checked(name: str, listed: _Listed, fetched: Any) -> BenchmarkData:
    names, words = list(fetched.feature_names), fetched.categories or {}
    target = _target(listed, fetched)
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
    continuous = listed.kind == "continuous"
    return BenchmarkData(
        name=name,
        numeric=data[:, numeric],
        numeric_names=tuple(names[j] for j in numeric),
        nominal=np.column_stack(columns) if columns else np.empty((len(data), 0)),
        nominal_names=tuple(names[j] for j in nominal),
        ids=np.empty((len(data), 0)),
        id_names=(),
        target=target,
        target_kind=listed.kind,
        labels={bins: equal_width_labels(target, bins) for bins in (5, 10) if continuous},
        published_labels={},
        partitions={},
        tables={},
        origin=fetched.url,
        facts=dict(fetched.details),
    )


def _target(listed: _Listed, fetched: Any) -> FloatArray:
    words: NDArray[Any] = np.asarray(fetched.target)
    if listed.levels:
        return 1.0 + np.array([listed.levels.index(str(word)) for word in words])
    return words.astype(np.float64)
