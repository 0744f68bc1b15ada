"""What a benchmark data set holds, and how a metric target becomes ordinal."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ordinalgp._typing import BoolArray, FloatArray, IntArray

__all__ = ["BenchmarkData", "DataUnavailableError", "equal_width_labels"]


class DataUnavailableError(OSError):
    """A data set is neither in the local folder nor on OpenML, or is not what it should be."""


@dataclass(frozen=True, eq=False)
class BenchmarkData:
    """What :func:`fetch_benchmark` returns; rows are in the order of the source."""

    name: str
    numeric: FloatArray = field(repr=False)
    """numeric features, of shape (n, n_numeric); missing values are nan"""
    numeric_names: tuple[str, ...] = field(repr=False)
    nominal: NDArray[Any] = field(repr=False)
    """nominal features as words, of shape (n, n_nominal); missing values are empty"""
    nominal_names: tuple[str, ...]
    ids: NDArray[Any] = field(repr=False)
    """identifiers (raters, items, choice sets) as words, of shape (n, n_ids)"""
    id_names: tuple[str, ...]
    target: FloatArray = field(repr=False)
    """the target as it is in the source, of shape (n,)"""
    target_kind: str
    """"continuous", "ordinal" or another word of the source"""
    labels: Mapping[int, IntArray] = field(repr=False)
    """bins of equal width of a continuous target, under the keys 5 and 10 (their number)"""
    published_labels: Mapping[int | str, IntArray] = field(repr=False)
    """labels that came with published partitions, under the keys of ``partitions``"""
    partitions: Mapping[int | str, BoolArray] = field(repr=False)
    """published partitions of shape (n_partitions, n), True in training rows; keys 5, 10 (bins), \
"holdout" and others"""
    tables: Mapping[str, Mapping[str, NDArray[Any]]] = field(repr=False)
    """other tables of the set (features of items or raters): name, then column, as words"""
    origin: str
    """where the rows came from"""
    facts: Mapping[str, Any] = field(repr=False)
    """source, licence, notes and whatever else the source says"""

    def features(self, *, one_hot: str = "words") -> FloatArray:
        """Return all features as numbers, of shape (n, d): numeric ones, then nominal ones.

        Parameters
        ----------
        one_hot : {"words", "all"}, default="words"
            Which nominal features take a 0/1 column for each of their levels. "words" leaves codes
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
        return np.array([np.nan if word == "" else float(word) for word in words])
    except ValueError:
        return None


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
    >>> from ordinalgp.datasets import equal_width_labels
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
