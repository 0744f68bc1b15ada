"""The items, and the covariance between them before any rater is heard."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ordinalgp._typing import FloatArray
from ordinalgp.collaborative.ratings import Ids, read_features
from ordinalgp.imputation import MeanImputer
from ordinalgp.validation.options import allows_missing, check_kernel

# Of the correlations between items, as known from finitely many raters, this share is taken for
# noise; and this much variance is a rater's overall level. See docs/collaborative.md.
SHRINKAGE, LEVEL = 0.5, 0.3
_NUGGET = 1e-6  # share of the variance that is an item's own: keeps every start positive definite


@dataclass(frozen=True, eq=False)
class Items:
    """Ids of all items, their features (no columns if there are none), and the start."""

    ids: Ids
    features: FloatArray
    covariance: FloatArray


@dataclass(frozen=True, eq=False)
class CorrelationStart:
    """Cosines between items after each rater's mean is taken away, gaps as zero ([Yu06]_).

    Shrunk towards independent items of equal variance, plus a constant for a rater's level;
    times ``scale``. ``table`` is items x raters. An item without ratings is independent.
    """

    table: FloatArray
    scale: float = 1.0

    def _directions(self, rows: FloatArray) -> FloatArray:
        means = MeanImputer(by="rater").fit(self.table).rater_means_
        centred = np.where(np.isnan(rows), 0.0, rows - means)
        length = np.linalg.norm(centred, axis=1, keepdims=True)
        return centred / np.where(length == 0.0, 1.0, length)

    def cross(self, rows: FloatArray) -> FloatArray:
        """Covariance of new items with those of the table."""
        cosines = self._directions(rows) @ self._directions(self.table).T
        return self.scale * ((1.0 - SHRINKAGE) * cosines + LEVEL)

    def variance(self, rows: FloatArray) -> FloatArray:
        """The same for all items."""
        return np.full(len(rows), self.scale * (1.0 + LEVEL))

    def covariance(self) -> FloatArray:
        """Of the table's items."""
        K = self.cross(self.table)
        np.fill_diagonal(K, self.variance(self.table))
        return K


@dataclass(frozen=True, eq=False)
class KernelStart:
    """A scikit-learn kernel on item features, as given."""

    kernel: Any
    features: FloatArray

    def cross(self, rows: FloatArray) -> FloatArray:
        """Covariance of new items with the known ones."""
        return np.asarray(self.kernel(rows, self.features))

    def variance(self, rows: FloatArray) -> FloatArray:
        """Of new items."""
        return np.asarray(self.kernel.diag(rows)) * (1.0 + _NUGGET)

    def covariance(self) -> FloatArray:
        """Of the known items, with a nugget."""
        return with_nugget(np.asarray(self.kernel(self.features)))


def with_nugget(K: FloatArray) -> FloatArray:
    """Return K with a little more variance for every item."""
    K = 0.5 * (K + K.T)
    K.flat[:: len(K) + 1] += _NUGGET * np.diagonal(K)
    return K


def is_matrix(kernel: Any) -> bool:
    """Whether ``kernel`` is given as a matrix."""
    return not isinstance(kernel, str) and np.ndim(kernel) == 2


def read_matrix(kernel: Any) -> tuple[Ids, FloatArray]:
    """Ids (of a data frame, else 0, 1, ...) and values of a covariance between items."""
    K = np.array(kernel, dtype=float)
    index = getattr(kernel, "index", None)
    ids = Ids.of(range(len(K)) if index is None else index.tolist())
    if K.shape != (len(ids), len(ids)) or not np.allclose(K, K.T, rtol=1e-8, atol=1e-12):
        raise ValueError(
            f"A kernel matrix must be square, symmetric and finite, one row for each item, but has "
            f"shape {K.shape}. Give covariances between all items, as a data frame whose index "
            "holds the item ids or as an array for ids 0, 1, ..."
        )
    least, most = np.linalg.eigvalsh(K)[[0, -1]]
    if not most > 0 or least < -1e-8 * most or np.diagonal(K).min() <= 0:
        raise ValueError(
            f"A kernel matrix must be positive definite, but its eigenvalues reach from "
            f"{least:.3g} to {most:.3g}. Add a multiple of the identity."
        )
    return ids, with_nugget(K)


def read_items(kernel: Any, item_features: Any) -> tuple[Ids, FloatArray] | None:
    """All items and their features, where features were given."""
    if not isinstance(kernel, str):
        check_kernel(kernel)
    gaps = isinstance(kernel, str) or allows_missing(kernel)
    if item_features is not None:
        return read_features(item_features, gaps=gaps)
    if not isinstance(kernel, str):
        raise ValueError(
            f"The kernel {kernel!r} compares item features, but item_features is None. Give them "
            "as a data frame indexed by item, a mapping from item to its features, or an array "
            "whose row i belongs to item i."
        )
    return None
