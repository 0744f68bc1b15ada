"""Shares of single features in a kernel: the covariances of functions that a sum adds up."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as sk

from ordinalgp._typing import FloatArray
from ordinalgp.kernels._classes import Additive, ARDLinear


@dataclass(frozen=True, eq=False)
class FeatureShare:
    """Covariance of the sum of the own functions of some features."""

    parts: dict[int, Any]
    """kernel of one column, by the place of its feature"""

    def __call__(self, X: FloatArray, Z: FloatArray) -> FloatArray:
        """Covariance of the function at the rows ``X`` and at the rows ``Z``, (n, m)."""
        found = (kernel(X[:, [at]], Z[:, [at]]) for at, kernel in self.parts.items())
        return np.asarray(sum(found, np.zeros((len(X), len(Z)))))

    def diag(self, X: FloatArray) -> FloatArray:
        """Variance of the function at the rows ``X``, (n,)."""
        found = (kernel.diag(X[:, [at]]) for at, kernel in self.parts.items())
        return np.asarray(sum(found, np.zeros(len(X))))


def feature_shares(kernel: Any, n_features: int) -> dict[int, Any]:
    """Kernel of each feature's own function, on a column of its own, by the feature's place.

    ``Additive`` with groups of one feature, ``ARDLinear`` and ``DotProduct`` are sums over
    features. So are sums of them, also with other kernels, and their multiples. Parts of the same
    feature add. Without such a part the answer is empty. Of a single feature every kernel but a
    constant and white noise is its own.
    """
    found = {at: feature_share(kernel, at, n_features) for at in range(n_features)}
    return {at: share for at, share in found.items() if share is not None}


def feature_share(kernel: Any, at: int, n_features: int) -> Any:
    """Kernel of the own function of the feature in place ``at``, or None if there is none."""
    if n_features == 1 and not isinstance(kernel, sk.Sum):  # every function is one of the feature
        return None if isinstance(kernel, sk.ConstantKernel | sk.WhiteKernel) else kernel
    rule = _RULES.get(type(kernel))  # not for subclasses, which may compute something else
    return None if rule is None else rule(kernel, at, n_features)


def _additive(kernel: Any, at: int, n_features: int) -> Any:
    if kernel.size != 1:
        return None
    scale = float(np.broadcast_to(np.ravel(kernel.length_scale), n_features)[at])
    return sk.ConstantKernel(1 / n_features) * sk.RBF(scale)


def _linear(kernel: Any, at: int, n_features: int) -> Any:
    return ARDLinear(float(np.broadcast_to(np.ravel(kernel.relevance), n_features)[at]))


def _dot_product(kernel: Any, at: int, n_features: int) -> Any:
    return ARDLinear(1.0)  # the constant belongs to no feature


def _sum(kernel: Any, at: int, n_features: int) -> Any:
    shares = [feature_share(part, at, n_features) for part in (kernel.k1, kernel.k2)]
    found = [share for share in shares if share is not None]
    return sk.Sum(*found) if len(found) == 2 else next(iter(found), None)


def _multiple(kernel: Any, at: int, n_features: int) -> Any:
    for number, part in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
        if type(number) is sk.ConstantKernel:
            share = feature_share(part, at, n_features)
            return None if share is None else number * share
    return None


_RULES: dict[type, Callable[[Any, int, int], Any]] = {
    Additive: _additive,
    ARDLinear: _linear,
    sk.DotProduct: _dot_product,
    sk.Sum: _sum,
    sk.Product: _multiple,
}
