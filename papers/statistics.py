"""Means over partitions beside published figures; ranks, Friedman's and Wilcoxon's tests.

The tests say whether models differ over several data sets [Demsar06]_.

Rows of ``scores`` are data sets (or whatever is paired), columns are models, and lower is better.

.. [Demsar06] J. Demšar, "Statistical comparisons of classifiers over multiple data sets", Journal
   of Machine Learning Research 7, 2006.
.. [Srijith12] P. K. Srijith, S. Shevade and S. Sundararajan, "A probabilistic least squares
   approach to ordinal regression", AI 2012: Advances in Artificial Intelligence, 2012.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from papers.data import ROOT, FloatArray
from papers.runner import Record

Ties = Literal["corrected", "ignored"]
PERCENT = {"zero_one", "zero_one_all", "zero_one_rounded", "absolute", "absolute_median"}


@cache
def published(table: str) -> dict[str, Any]:
    """Figures of a paper's table, with source and unit, from the one file that holds them all."""
    tables = json.loads((ROOT / "papers" / "published.json").read_text("utf-8"))
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
        """Excess over the published mean, in published standard deviations; nan without them.

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


def present(names: Iterable[str], records: Sequence[Record], key: str) -> list[str]:
    """Return those of ``names`` that some successful record has under ``key``."""
    found = {r[key] for r in records if "error" not in r}
    return [name for name in names if name in found]


def sizes_of(records: Sequence[Record]) -> list[int]:
    """Sizes of the successful records, from the smallest."""
    return sorted({r["size"] for r in records if "error" not in r})


def curve(records: Sequence[Record], measure: str) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sizes, and at each the mean and its standard error (0 after one repetition)."""
    sizes = sizes_of(records)
    values = [[r[measure] for r in select(records, size=size)] for size in sizes]
    errors = [np.std(v, ddof=1) / np.sqrt(len(v)) if len(v) > 1 else 0.0 for v in values]
    return np.array(sizes), np.array([np.mean(v) for v in values]), np.array(errors)


def score_table(
    records: Sequence[Record], measure: str, models: Sequence[str], datasets: Sequence[str]
) -> tuple[FloatArray, list[str]]:
    """Means of shape (data sets, models), of the data sets on which all models have one.

    An infinite mean (a true level that was given probability zero) becomes a number larger than
    all others, which has the same rank. Means that differ by rounding only are ties.
    """
    rows, kept = [], []
    for dataset in datasets:
        found = [figure(select(records, dataset=dataset, model=m), measure) for m in models]
        means = [min(f.mean, 1e9) for f in found if f is not None]
        if len(means) == len(models):
            rows.append(means)
            kept.append(dataset)
    return np.round(np.array(rows), 9), kept


def paired_difference(
    measure: str, first: Sequence[Record], second: Sequence[Record]
) -> tuple[float, float, int]:
    """Mean of the first less the second on the splits of both, its standard error, and how many."""
    one, two = (
        {r["split"]: r[measure] for r in records if r.get(measure) is not None}
        for records in (first, second)
    )
    gap = np.array([one[split] - two[split] for split in sorted(one.keys() & two.keys())])
    if len(gap) < 2:
        return math.nan, math.nan, len(gap)
    return float(gap.mean()), float(gap.std(ddof=1) / np.sqrt(len(gap))), len(gap)


# ----------------------------------------------------------------------------------- tests


@dataclass(frozen=True)
class FriedmanTest:
    """Result of :func:`friedman_test`."""

    ranks: tuple[float, ...]
    """average rank of each model; 1 is best"""
    chi_square: float
    """Friedman's statistic, with k - 1 degrees of freedom"""
    f_statistic: float
    """Iman and Davenport's F; infinite where every data set ranks the models alike"""
    degrees: tuple[int, int]
    """degrees of freedom of F: k - 1 and (k - 1)(n - 1)"""
    p_value: float
    """probability of an F as large when the models do not differ"""


@dataclass(frozen=True)
class PairedTest:
    """One pair of models by Wilcoxon's signed ranks."""

    first: str
    second: str
    favoured: str | None
    """the model with the larger sum of ranks in its favour; None if they are equal"""
    statistic: float
    """the smaller of the two sums of ranks"""
    p_value: float
    """two-sided, of this pair alone"""
    p_adjusted: float
    """after Holm's correction for the number of pairs"""


def average_ranks(scores: ArrayLike) -> FloatArray:
    """Average rank of each model over the data sets; ties share their ranks.

    Parameters
    ----------
    scores : array-like of shape (n_datasets, n_models)
        Errors: lower is better.

    Returns
    -------
    ndarray of shape (n_models,)
        1 for a model that is best everywhere.

    Examples
    --------
    >>> from papers.statistics import average_ranks
    >>> average_ranks([[10.7, 12.0, 12.0], [21.5, 21.6, 22.1]])
    array([1.  , 2.25, 2.75])
    """
    ranks: FloatArray = stats.rankdata(_checked(scores), axis=1).mean(axis=0)
    return ranks


def ranks_among(
    ours: Mapping[str, Sequence[float]], others: Mapping[str, Sequence[float]]
) -> dict[str, float]:
    """Mean rank of each of ours among the others, and of the others beside the first of ours.

    Models of ours do not compete with each other: each is ranked with the others alone.

    Parameters
    ----------
    ours, others : mapping from names to sequences of n_datasets numbers
        Errors: lower is better.

    Examples
    --------
    >>> from papers.statistics import ranks_among
    >>> ours = {"new": [1.0, 5.0], "old": [2.5, 6.0]}
    >>> ranks_among(ours, {"a": [2.0, 4.0], "b": [3.0, 7.0]})
    {'new': 1.5, 'old': 2.0, 'a': 1.5, 'b': 3.0}
    """
    ranks: dict[str, float] = {}
    beside: dict[str, float] = {}
    for name, scores in ours.items():
        found = average_ranks(np.column_stack([scores, *others.values()])).tolist()
        ranks[name] = found[0]
        beside = beside or dict(zip(others, found[1:], strict=True))
    return ranks | beside


def friedman_test(scores: ArrayLike, *, ties: Ties = "corrected") -> FriedmanTest:
    """Friedman's test with the F statistic of Iman and Davenport.

    Parameters
    ----------
    scores : array-like of shape (n_datasets, n_models)
        Errors: lower is better. At least two data sets and three models.
    ties : {"corrected", "ignored"}, default="corrected"
        "corrected" divides chi-square by Conover's factor for ties, which makes F that of an
        analysis of variance of the ranks. "ignored" is the plain formula of [Demsar06]_, which
        [Srijith12]_ prints; where there are ties it is the more conservative.

    Returns
    -------
    FriedmanTest
        Average ranks, both statistics and the p-value of F.

    Examples
    --------
    >>> from papers.statistics import friedman_test
    >>> test = friedman_test([[10.7, 12.1, 12.0], [21.5, 21.6, 22.1], [0.3, 0.4, 0.5]])
    >>> test.ranks, round(test.f_statistic, 2), round(test.p_value, 3)
    ((1.0, 2.3..., 2.6...), 7.0, 0.049)
    """
    if ties not in ("corrected", "ignored"):
        raise ValueError(f'ties must be "corrected" or "ignored", but is {ties!r}.')
    table = _checked(scores)
    n, k = table.shape
    if n < 2 or k < 3:
        raise ValueError(
            f"Friedman's test needs at least 2 data sets and 3 models, but scores has shape "
            f"{table.shape}. Compare two models with compare_pairs."
        )
    ranks = average_ranks(table)
    if np.all(np.ptp(table, axis=1) == 0):
        chi_square = 0.0  # nothing but ties; the correction would divide by zero
    elif ties == "corrected":
        chi_square = float(stats.friedmanchisquare(*table.T).statistic)
    else:
        chi_square = 12 * n / (k * (k + 1)) * float(np.sum((ranks - (k + 1) / 2) ** 2))
    degrees = (k - 1, (k - 1) * (n - 1))
    f = _iman_davenport(chi_square, n, k)
    p = float(stats.f.sf(f, *degrees))
    return FriedmanTest(tuple(ranks.tolist()), chi_square, f, degrees, p)


def _iman_davenport(chi_square: float, n: int, k: int) -> float:
    """F = (n - 1) chi2 / (n (k - 1) - chi2); the denominator is 0 when all rank alike."""
    rest = n * (k - 1) - chi_square
    return (n - 1) * chi_square / rest if rest > 1e-9 * n * k else math.inf


def compare_pairs(scores: ArrayLike, models: Sequence[str]) -> tuple[PairedTest, ...]:
    """Compare all pairs of models by Wilcoxon's signed ranks, corrected by Holm's procedure.

    Ranks of equal scores are split between the two models, as in [Demsar06]_.

    Parameters
    ----------
    scores : array-like of shape (n_datasets, n_models)
        Errors: lower is better.
    models : sequence of n_models strings
        Names of the columns.

    Returns
    -------
    tuple of PairedTest
        Every pair, in the order of the columns.

    Examples
    --------
    >>> from papers.statistics import compare_pairs
    >>> errors = [[1, 3], [2, 5], [1, 6], [3, 4], [2, 8], [1, 9], [4, 11]]
    >>> (pair,) = compare_pairs(errors, ["ours", "theirs"])
    >>> pair.favoured, round(pair.p_value, 4)
    ('ours', 0.0156)
    """
    table = _checked(scores)
    if len(models) != table.shape[1]:
        raise ValueError(
            f"models must name the {table.shape[1]} columns of scores, but has {len(models)} names."
        )
    pairs = list(combinations(range(table.shape[1]), 2))
    found = [_signed_ranks(table[:, i], table[:, j]) for i, j in pairs]
    adjusted = holm([p for _, _, p in found])
    return tuple(
        PairedTest(models[i], models[j], _favoured(excess, models[i], models[j]), least, p, q)
        for (i, j), (excess, least, p), q in zip(pairs, found, adjusted.tolist(), strict=True)
    )


def _signed_ranks(first: FloatArray, second: FloatArray) -> tuple[float, float, float]:
    """Excess of the second's sum of ranks over the first's, the smaller sum, and p."""
    difference = first - second
    if not difference.any():
        half = len(difference) * (len(difference) + 1) / 4
        return 0.0, half, 1.0
    signed = np.sign(difference) * stats.rankdata(np.abs(difference))
    excess = float(signed.sum())
    if len(difference) <= 16 and len(np.unique(np.abs(signed[signed != 0]))) < len(difference):
        half = len(difference) * (len(difference) + 1) / 2
        return excess, (half - abs(excess)) / 2, _enumerated(signed)
    result = stats.wilcoxon(difference, zero_method="zsplit")
    return excess, float(result.statistic), float(result.pvalue)


def _enumerated(signed: FloatArray) -> float:
    """Two-sided p over all signs of few rows with ties, where older scipy has no exact one."""
    sums = np.zeros(1)
    for rank in signed:
        sums = np.concatenate([sums - rank, sums + rank])
    return float(np.mean(np.abs(sums) >= abs(signed.sum()) - 1e-9))


def _favoured(excess: float, first: str, second: str) -> str | None:
    return None if excess == 0 else second if excess > 0 else first


def holm(p_values: ArrayLike) -> FloatArray:
    """Adjust p-values for their number by Holm's step-down procedure.

    The i-th smallest of m is multiplied by m - i + 1, and none may be below a smaller one: the
    family-wise error is kept without any assumption, as by Bonferroni, with more power.

    Parameters
    ----------
    p_values : array-like of shape (m,)
        One p-value for each comparison.

    Returns
    -------
    ndarray of shape (m,)
        Adjusted values, at most 1, in the same order.

    Examples
    --------
    >>> from papers.statistics import holm
    >>> holm([0.04, 0.01, 0.03])
    array([0.06, 0.03, 0.06])
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def _checked(scores: ArrayLike) -> FloatArray:
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(
            f"scores must be a table of data sets by models, but has shape {table.shape}."
        )
    if not np.isfinite(table).all():
        row, column = np.argwhere(~np.isfinite(table))[0]
        raise ValueError(
            f"scores[{row}, {column}] is {table[row, column]}. Every model needs a score on every "
            "data set: leave out the data sets that one of them lacks."
        )
    return table
