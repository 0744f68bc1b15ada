"""What the kernel baselines have in common: one projection, cut into levels, no probabilities."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.gaussian_process.kernels import RBF
from sklearn.utils.validation import check_is_fitted

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.linalg import Features, pivoted_cholesky
from ordinalgp.models.base import LevelClassifier
from ordinalgp.models.state import _FINITE, _LABELLED, NamedFeatures, check_parts
from ordinalgp.models.training_rows import NumberedRows, numbered_rows
from ordinalgp.validation.options import check_kernel, check_option, check_whole
from ordinalgp.validation.weights import check_weights

_BLOCK = 2**22  # numbers in one block of kernel values: 32 MB
_EXACT_ROWS, _AUTO_RANK = 2000, 1000


@dataclass(frozen=True, eq=False)
class LevelRows:
    """Merged training rows, with their levels counted over those that were observed."""

    rows: NumberedRows
    observed: IntArray
    """codes that occur, ascending, (k,)"""
    n_given: int
    """rows before they were merged"""

    @property
    def codes(self) -> IntArray:
        """Place of each observation's level in ``observed``."""
        places: IntArray = np.searchsorted(self.observed, self.rows.codes)
        return places

    def thresholds(self, cuts: FloatArray, n_levels: int) -> FloatArray:
        """Cuts between all levels: those between observed ones, an absent level has no room."""
        below = np.searchsorted(self.observed, np.arange(n_levels - 1), side="right")
        return np.concatenate([[-np.inf], cuts, [np.inf]])[below]


class CutClassifier(NamedFeatures, LevelClassifier):
    """A weighted sum of kernel functions, and thresholds: ``_learn`` finds, ``_keep`` sets them."""

    kernel: Any
    kernel_: Any
    centres_: FloatArray
    coefficients_: FloatArray
    thresholds_: FloatArray
    _learn: Callable[[LevelRows], None]
    _extra_spec: ClassVar[dict[str, tuple[Any, ...]]] = {}
    _common_spec: ClassVar[dict[str, tuple[Any, ...]]] = {
        **_LABELLED,
        "centres_": ("f", "C d"),
        "coefficients_": ("f", "C", *_FINITE),
        "thresholds_": ("f", "cuts"),
    }

    def _check_parameters(self) -> None:
        if self.kernel is not None:
            check_kernel(self.kernel)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        self._learn(self._training_rows(X, y, sample_weight))
        return self

    def _training_rows(self, X: Any, y: Any, sample_weight: Any, *classes: Any) -> LevelRows:
        """Check everything that ``fit`` is given and set the kernel."""
        self._check_parameters()
        X = self._check_inputs(X, reset=True)
        levels = self._read_levels(X, y, *classes)
        weights = check_weights(sample_weight, len(X), levels.codes)
        self.kernel_ = RBF(np.sqrt(X.shape[1])) if self.kernel is None else self.kernel
        self.kernel_ = self.kernel_.clone_with_theta(self.kernel_.theta)
        if self.kernel_(X[:1])[0, 0] != self.kernel_(X[:1], X[:1])[0, 0]:
            raise ValueError(
                f"kernel must say how alike two rows are, but {self.kernel_} adds noise of its "
                "own to every row. Leave its WhiteKernel out."
            )
        rows = numbered_rows(X, levels.codes, weights, self.kernel_)
        return LevelRows(rows, np.unique(rows.codes), len(X))

    def _keep(self, centres: FloatArray, coefficients: FloatArray, thresholds: FloatArray) -> None:
        used = coefficients != 0
        used[0] |= not used.any()  # a constant still has a place to stand on
        self.centres_, self.coefficients_ = centres[used], coefficients[used]
        self.thresholds_ = thresholds

    def latent(self, X: Any) -> FloatArray:
        """Value of the projection, on the scale of ``thresholds_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points.

        Returns
        -------
        ndarray of shape (n_samples,)
            The more, the higher the level.
        """
        check_is_fitted(self)
        X = self._check_inputs(X, reset=False)
        return weighted_sum(self.kernel_, X, self.centres_, self.coefficients_)

    def _predicted_ranks(self, X: Any) -> IntArray:
        # Not a search: margins that are fixed one by one need not be in order.
        return np.sum(self.latent(X)[:, None] > self.thresholds_, axis=1)

    # ------------------------------------------------------------------------- persistence

    def _saved(self) -> list[str]:
        spec = {**self._common_spec, **self._extra_spec}
        return [name for name in spec if name.endswith("_")]

    def _get_state(self) -> dict[str, Any]:
        """Collect what a file keeps."""
        self._check_parameters()
        return {
            **{name: getattr(self, name) for name in self._saved()},
            "feature_names": self._feature_names(),
            "kernel": self.kernel_,
        }

    def _set_state(self, state: dict[str, Any]) -> None:
        """Become the fitted estimator of a file."""
        self._check_parameters()
        b, r = state["thresholds_"], len(state["categories_"])
        check_parts(state, "centres_", thresholds_=len(b) + 1 == r and not np.isnan(b).any())
        if not len(state["centres_"]):
            raise ValueError("there are no centres_")
        for name in self._saved():
            setattr(self, name, state[name])
        self.kernel_ = state["kernel"]
        self._name_features(state["centres_"].shape[1], state["feature_names"])


def weighted_sum(
    kernel: Any, X: FloatArray, centres: FloatArray, coefficients: FloatArray
) -> FloatArray:
    """sum_j a_j k(x, z_j) of every row, block by block."""
    block = max(1, _BLOCK // len(centres))
    starts = range(0, len(X), block)
    return np.concatenate([kernel(X[i : i + block], centres) @ coefficients for i in starts])


def kernel_features(kernel: Any, X: FloatArray, rank: Any) -> Features:
    """Features of the rows; ``rank`` as the estimators' parameter has it."""
    most = rank if rank != "auto" else None if len(X) <= _EXACT_ROWS else _AUTO_RANK
    return pivoted_cholesky(lambda j: kernel(X, X[j : j + 1])[:, 0], kernel.diag(X), most)


def check_rank(rank: Any) -> None:
    """Raise ValueError unless ``rank`` is "auto", None or a number."""
    if isinstance(rank, str):
        check_option("rank", rank, ("auto",))
    elif rank is not None:
        check_whole("rank", rank, least=1)
