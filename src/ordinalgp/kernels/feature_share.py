"""Shares of features or columns in a kernel: the covariances of functions that a sum adds up."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as sk

from ordinalgp._typing import FloatArray
from ordinalgp.kernels._classes import Additive, ARDLinear
from ordinalgp.kernels.per_column import PerColumn

Features = tuple[int, ...]  # places of the features of one function


@dataclass(frozen=True, eq=False)
class FeatureShare:
    """Covariance of the sum of the own functions of some features."""

    parts: dict[Features, Any]
    """kernel of one function, by the places of its features"""

    def __call__(self, X: FloatArray, Z: FloatArray) -> FloatArray:
        """Covariance of the function at the rows ``X`` and at the rows ``Z``, (n, m)."""
        found = (kernel(X[:, at], Z[:, at]) for at, kernel in self._places())
        return np.asarray(sum(found, np.zeros((len(X), len(Z)))))

    def diag(self, X: FloatArray) -> FloatArray:
        """Variance of the function at the rows ``X``, (n,)."""
        found = (kernel.diag(X[:, at]) for at, kernel in self._places())
        return np.asarray(sum(found, np.zeros(len(X))))

    def _places(self) -> list[tuple[list[int], Any]]:
        return [(list(at), kernel) for at, kernel in self.parts.items()]


def feature_shares(kernel: Any, n_features: int) -> dict[Features, Any]:
    """Kernel of each own function, on its features alone, by the places of these features.

    ``Additive`` with groups of one feature, ``ARDLinear`` and ``DotProduct`` are sums over
    features; inside ``PerColumn``, over columns. So are sums of them, also with other kernels, and
    their multiples. Parts of the same features add. Without such a part the answer is empty. Of a
    single feature or column every kernel but a constant and white noise is its own.
    """
    return _shares(kernel, [(at,) for at in range(n_features)])


def feature_groups(kernel: Any, n_features: int) -> list[list[int]]:
    """Features that share their functions with each other, in order of their first."""
    first = list(range(n_features))
    for places in feature_shares(kernel, n_features):
        joined = {first[at] for at in places}
        first = [min(joined) if each in joined else each for each in first]
    return [[at for at, each in enumerate(first) if each == g] for g in sorted(set(first))]


def _shares(kernel: Any, units: list[Features]) -> dict[Features, Any]:
    """Shares of features, or of groups of them."""
    if type(kernel) is PerColumn:
        groups = kernel.columns(sum(map(len, units)))
        columns = [np.flatnonzero(groups == g).tolist() for g in range(groups.max() + 1)]
        return _shares(kernel.kernel, [tuple(column) for column in columns])
    if type(kernel) is sk.Sum:
        found = _shares(kernel.k1, units)
        for places, share in _shares(kernel.k2, units).items():
            found[places] = sk.Sum(found[places], share) if places in found else share
        return found
    if (of := _multiple(kernel)) is not None:
        return {at: of[0] * share for at, share in _shares(of[1], units).items()}
    rule = _RULES.get(type(kernel))  # not for subclasses, which may compute something else
    if rule is not None and (len(units) > 1 or len(units[0]) > 1):
        found = {at: rule(kernel, unit, len(units)) for unit, at in enumerate(units)}
        return {at: share for at, share in found.items() if share is not None}
    if len(units) > 1 or isinstance(kernel, sk.ConstantKernel | sk.WhiteKernel):
        return {}
    return {units[0]: kernel}  # every function is one of the feature


def _multiple(kernel: Any) -> tuple[Any, Any] | None:
    """A constant and the kernel that it multiplies."""
    if type(kernel) is sk.Product:
        for number, part in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
            if type(number) is sk.ConstantKernel:
                return number, part
    return None


def _additive(kernel: Any, at: int, n_units: int) -> Any:
    if kernel.size != 1:
        return None
    scale = float(np.broadcast_to(np.ravel(kernel.length_scale), n_units)[at])
    return sk.ConstantKernel(1 / n_units) * sk.RBF(scale)


def _linear(kernel: Any, at: int, n_units: int) -> Any:
    return ARDLinear(float(np.broadcast_to(np.ravel(kernel.relevance), n_units)[at]))


def _dot_product(kernel: Any, at: int, n_units: int) -> Any:
    return ARDLinear(1.0)  # the constant belongs to no feature


_RULES: dict[type, Callable[[Any, int, int], Any]] = {
    Additive: _additive,
    ARDLinear: _linear,
    sk.DotProduct: _dot_product,
}
