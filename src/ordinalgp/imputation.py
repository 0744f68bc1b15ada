"""Imputers for a table of ratings: rows are items, columns are raters, NaN is a gap.

.. [Chu05] W. Chu and Z. Ghahramani, "Gaussian processes for ordinal regression", Journal of
   Machine Learning Research 6, 2005.
.. [Srebro03] N. Srebro and T. Jaakkola, "Weighted low-rank approximations", ICML 2003.
"""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ordinalgp._typing import FloatArray
from ordinalgp.validation.options import check_option, check_whole

__all__ = ["LowRankImputer", "MeanImputer"]


class _Imputer(TransformerMixin, BaseEstimator):
    """Base class: reads a table with gaps."""

    def _table(self, X: Any, *, reset: bool) -> FloatArray:
        return validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _means(table: FloatArray, axis: int, empty: Any) -> FloatArray:
    """Mean of the observed entries along ``axis``; ``empty`` where there are none."""
    seen = ~np.isnan(table)
    count = seen.sum(axis=axis)
    total = np.where(seen, table, 0.0).sum(axis=axis)
    return np.where(count > 0, total / np.maximum(count, 1), empty)


class MeanImputer(_Imputer):
    """Fill each gap with the mean rating of its item or of its rater.

    Parameters
    ----------
    by : {"item", "rater"}, default="item"
        Mean of the row itself (section 6.3 of [Chu05]_), or of the column in ``fit``. A row or a
        column without any rating is filled with the mean of all ratings in ``fit``.

    Attributes
    ----------
    rater_means_ : ndarray of shape (n_raters,)
        Mean of each column.
    overall_mean_ : float
        Mean of all ratings, 0 if there are none.

    Examples
    --------
    >>> import numpy as np
    >>> from ordinalgp.imputation import MeanImputer
    >>> table = np.array([[1.0, np.nan, 3.0], [4.0, 5.0, np.nan]])
    >>> MeanImputer().fit_transform(table)
    array([[1. , 2. , 3. ],
           [4. , 5. , 4.5]])
    >>> MeanImputer(by="rater").fit_transform(table)
    array([[1., 5., 3.],
           [4., 5., 3.]])
    """

    def __init__(self, by: str = "item") -> None:
        self.by = by

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the means.

        Parameters
        ----------
        X : array-like of shape (n_items, n_raters)
            Ratings, NaN for gaps.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted transformer.
        """
        check_option("by", self.by, ("item", "rater"))
        table = self._table(X, reset=True)
        self.overall_mean_ = float(_means(table.ravel(), 0, 0.0))
        self.rater_means_ = _means(table, 0, self.overall_mean_)
        return self

    def transform(self, X: Any) -> FloatArray:
        """Fill the gaps.

        Parameters
        ----------
        X : array-like of shape (n_items, n_raters)
            Ratings, NaN for gaps.

        Returns
        -------
        ndarray of shape (n_items, n_raters)
            The same ratings without gaps.
        """
        check_is_fitted(self)
        table = self._table(X, reset=False)
        if self.by == "rater":
            return np.where(np.isnan(table), self.rater_means_, table)
        return np.where(np.isnan(table), _means(table, 1, self.overall_mean_)[:, None], table)


class LowRankImputer(_Imputer):
    """Fill gaps by a weighted low-rank approximation: weight 1 for observed entries, else 0.

    The EM procedure of [Srebro03]_, which section 6.3 of [Chu05]_ uses with rank 2. Gaps start at
    the mean of their row. Each iteration fills them with the current approximation, and replaces
    that by the best one of this rank to the filled table (a singular value decomposition). The
    squared error on observed entries never rises. New rows are fitted by least squares to the
    factors found.

    Parameters
    ----------
    rank : int, default=2
        Rank of the approximation.
    max_iter : int, default=500
        Largest number of iterations.
    tol : float, default=1e-5
        The search stops when an iteration lowers the error on observed entries by less than this
        share.

    Attributes
    ----------
    components_ : ndarray of shape (rank, n_raters)
        Right factor, with orthonormal rows.
    error_path_ : ndarray of shape (`n_iter_`,)
        Root mean squared error on observed entries after each iteration.
    n_iter_ : int
        Number of iterations.

    Examples
    --------
    >>> import numpy as np
    >>> from ordinalgp.imputation import LowRankImputer
    >>> table = np.outer([1.0, 2.0, 3.0], [1.0, 2.0, 1.0])
    >>> table[2, 1] = np.nan
    >>> LowRankImputer(rank=1, tol=1e-12).fit_transform(table).round(3)
    array([[1., 2., 1.],
           [2., 4., 2.],
           [3., 6., 3.]])
    """

    def __init__(self, rank: int = 2, *, max_iter: int = 500, tol: float = 1e-5) -> None:
        self.rank = rank
        self.max_iter = max_iter
        self.tol = tol

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the factors.

        Parameters
        ----------
        X : array-like of shape (n_items, n_raters)
            Ratings, NaN for gaps.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted transformer.
        """
        check_whole("rank", self.rank, least=1)
        check_whole("max_iter", self.max_iter, least=1)
        table = self._table(X, reset=True)
        if self.rank > min(table.shape):
            raise ValueError(
                f"rank must be at most {min(table.shape)} for a table of shape {table.shape}, but "
                f"is {self.rank}. Choose a lower rank."
            )
        seen = ~np.isnan(table)
        filled = MeanImputer().fit_transform(table)
        errors: list[float] = []
        for _ in range(self.max_iter):
            U, s, V = np.linalg.svd(filled, full_matrices=False)
            low = (U[:, : self.rank] * s[: self.rank]) @ V[: self.rank]
            rest = (table - low)[seen]
            errors.append(float(np.sqrt(np.mean(rest**2))) if len(rest) else 0.0)
            filled = np.where(seen, table, low)
            if len(errors) > 1 and errors[-2] - errors[-1] <= self.tol * errors[-2]:
                break
        self.components_ = V[: self.rank]
        self.error_path_, self.n_iter_ = np.array(errors), len(errors)
        return self

    def transform(self, X: Any) -> FloatArray:
        """Fill the gaps; observed entries stay as they are.

        Parameters
        ----------
        X : array-like of shape (n_items, n_raters)
            Ratings, NaN for gaps.

        Returns
        -------
        ndarray of shape (n_items, n_raters)
            The same ratings without gaps. A row without any rating is filled with zeros.
        """
        check_is_fitted(self)
        filled = self._table(X, reset=False).copy()
        for row in filled:
            seen = ~np.isnan(row)
            scores, *_ = np.linalg.lstsq(self.components_[:, seen].T, row[seen], rcond=None)
            row[~seen] = scores @ self.components_[:, ~seen]
        return filled
