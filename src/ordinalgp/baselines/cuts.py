"""Base of the kernel baselines: one latent function, cut into levels, no probabilities."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ordinalgp._typing import FINITE, Axes, FloatArray, IntArray, Tagged
from ordinalgp.core.linalg import Features, pivoted_cholesky
from ordinalgp.models.base import Fitted, LevelClassifier
from ordinalgp.models.default_kernel import gaussian_kernel
from ordinalgp.models.exact import check_finite, check_rows
from ordinalgp.models.training_rows import NumberedRows, numbered_rows
from ordinalgp.validation.options import check_kernel, check_limit

_PREDICT_BLOCK = 2**22  # numbers in one block of kernel values: 32 MB
_EXACT_ROWS, _AUTO_RANK = 2000, 1000
_DUAL_ERROR = 1e-4  # of the latent function; a margin is 1


@dataclass(frozen=True, eq=False)
class LevelRows:
    """Merged training rows, with the kernel and the number of levels."""

    rows: NumberedRows
    n_rows_seen: int
    """rows before they were merged"""
    kernel: Any
    n_levels: int

    @property
    def observed(self) -> IntArray:
        """Codes that occur, ascending, (k,)."""
        return np.unique(self.rows.codes)

    @property
    def codes(self) -> IntArray:
        """Place of each observation's level in ``observed``."""
        return np.asarray(np.searchsorted(self.observed, self.rows.codes))

    def thresholds(self, cuts: FloatArray) -> FloatArray:
        """Cuts between all levels from those between observed ones; absent levels get no room."""
        below = np.searchsorted(self.observed, np.arange(self.n_levels - 1), side="right")
        return np.concatenate([[-np.inf], cuts, [np.inf]])[below]


@dataclass(frozen=True, eq=False)
class CutModel:
    """A weighted sum of kernel functions, and the thresholds that cut it into levels."""

    kernel: Annotated[Any, Tagged("kernel")]
    centres: Annotated[FloatArray, Axes("C d")]
    coefficients: Annotated[FloatArray, Axes("C", *FINITE)]
    thresholds: Annotated[FloatArray, Axes("cuts")]

    def latent(self, X: FloatArray) -> FloatArray:
        """sum_j a_j k(x, z_j) of every row, block by block."""
        kernel, centres, coefficients = self.kernel, self.centres, self.coefficients
        block = max(1, _PREDICT_BLOCK // len(centres))
        starts = range(0, len(X), block)
        return np.concatenate([kernel(X[i : i + block], centres) @ coefficients for i in starts])

    def check(self, n_features: int, n_levels: int) -> None:
        """Raise ValueError unless the parts of a saved model agree."""
        check_rows(self.centres, self.kernel, n_features)
        if not len(self.centres):
            raise ValueError("there are no centres")
        if len(self.thresholds) + 1 != n_levels or np.isnan(self.thresholds).any():
            raise ValueError("the thresholds and the levels disagree")
        check_finite(self.latent(self.centres[:1]))


class CutClassifier(LevelClassifier):
    """Base class of classifiers whose result is a :class:`CutModel`.

    Subclasses have the parameter ``rank`` as well.
    """

    rank: Any

    @abstractmethod
    def _solve(self, data: LevelRows) -> CutModel:
        """Find the model of some rows."""

    def _check_parameters(self) -> None:
        if self.kernel is not None:
            check_kernel(self.kernel)
        check_limit("rank", self.rank)

    def _learn(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Fitted:
        X, levels, weights = self._check_rows(X, y, sample_weight, classes)
        kernel = gaussian_kernel(X.shape[1]) if self.kernel is None else self.kernel
        kernel = kernel.clone_with_theta(kernel.theta)
        if kernel(X[:1])[0, 0] != kernel(X[:1], X[:1])[0, 0]:
            raise ValueError(
                f"kernel must measure the similarity of two rows, but {kernel} adds noise of its "
                "own to every row. Remove its WhiteKernel."
            )
        rows = numbered_rows(X, levels.codes, weights, kernel)
        data = LevelRows(rows, len(X), kernel, len(levels.categories))
        return Fitted(self._signature(levels), self._solve(data))

    def _publish(self, model: CutModel) -> None:
        self.kernel_, self.centres_ = model.kernel, model.centres
        self.coefficients_, self.thresholds_ = model.coefficients, model.thresholds

    def latent(self, X: Any) -> FloatArray:
        """Value of the latent function, on the scale of ``thresholds_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points.

        Returns
        -------
        ndarray of shape (n_samples,)
            Larger values belong to higher levels.
        """
        check_is_fitted(self)
        return np.asarray(self._result.model.latent(self._check_inputs(X, reset=False)))

    def _predicted_ranks(self, X: Any) -> IntArray:
        # Not a search: margins that are fixed one by one need not be in order.
        return np.sum(self.latent(X)[:, None] > self.thresholds_, axis=1)

    def _features(self, kernel: Any, X: FloatArray, enough: float = 0.0) -> Features:
        """Features of distinct rows, of the rank that the parameter asks for.

        They are complete if the variance that is left out is at most ``enough``.
        """
        most = None if len(X) <= _EXACT_ROWS else _AUTO_RANK
        most = most if self.rank == "auto" else self.rank
        columns = lambda j: kernel(X, X[j : j + 1])[:, 0]  # noqa: E731
        found = pivoted_cholesky(columns, kernel.diag(X), most, enough)
        limited = most is not None and len(found.pivots) >= most
        return found if limited else replace(found, complete=True)


def median_cuts(counts: FloatArray) -> FloatArray:
    """Cuts between levels of these counts, -1 or 1, that give the value zero the median level."""
    return np.where(np.cumsum(counts)[:-1] < 0.5 * np.sum(counts), -1.0, 1.0)


def nothing_cuts(codes: IntArray, counts: FloatArray) -> FloatArray:
    """Cuts that are zero but for the smallest number: a function of nothing gets the median."""
    return np.finfo(float).tiny * median_cuts(np.bincount(codes, counts).astype(float))


def kernel_expansion(
    features: Features, X: FloatArray, weights: FloatArray, dual: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Centres among ``X`` and their coefficients, of a function with ``weights`` in features.

    ``dual`` has the coefficients of all rows, which hold where the features are complete and
    rounding leaves them the function; with a very large C they cancel. Zeros are left out, but
    one centre stays.
    """
    centres, coefficients = X, dual
    F = features.matrix
    off = float(np.max(np.abs(F @ (F.T @ dual - weights)))) if features.complete else np.inf
    if not off <= _DUAL_ERROR:
        centres, coefficients = X[features.pivots], features.expansion(weights)
    used = coefficients != 0
    used[0] |= not used.any()
    return centres[used], coefficients[used]
