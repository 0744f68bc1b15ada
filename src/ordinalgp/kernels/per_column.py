"""Kernels whose length scales belong to columns of a table, each made of one or more features."""

from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.gaussian_process import kernels as sk

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.kernels._around import AroundKernel
from ordinalgp.kernels._classes import Additive, ARDLinear, Exponential

_OF_FEATURES: dict[type, str] = {
    Additive: "length_scale",
    ARDLinear: "relevance",
    Exponential: "length_scale",
    sk.Matern: "length_scale",
    sk.RBF: "length_scale",
}
"""kernels with a value per feature, and the name of these values"""


class PerColumn(AroundKernel):
    r"""Kernel with one length scale per column, where a column may be made of several features.

    The usual case is a nominal column as 0/1 features, one per value. With a length scale for each
    value, evidence chooses among many more kernels than there are columns, and overfits. Here all
    features of a column share one. In ``RBF``, ``Matern`` and ``Exponential``, two values of a
    nominal column are then equal or not: all different values are equally far apart. In
    ``Additive``, each column has one function, ``k = mean_g exp(-|x_g - x'_g|^2 / (2 l_g^2))``,
    which gives every value of a nominal column an effect of its own. ``ARDLinear`` has one
    relevance per column. Each part of a sum, product or power is treated so.

    A nominal column with hundreds of values, such as persons or places, costs no more than a
    number: its values are compared, not its features.

    Parameters
    ----------
    kernel : kernel
        The kernel, with one length scale or relevance per column, or a single one for all.
    groups : array of shape (n_features,)
        Column of each feature: whole numbers from 0 to the number of columns less 1.

    Examples
    --------
    Two columns: a number, and a nominal column with three values.

    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from ordinalgp.kernels import PerColumn
    >>> kernel = PerColumn(RBF([2.0, 1.0]), groups=[0, 1, 1, 1])
    >>> kernel
    PerColumn(RBF(length_scale=[2, 1]), groups=[0] + 3 * [1])
    >>> X = np.array([[0.0, 1, 0, 0], [0.0, 0, 1, 0], [0.0, 0, 0, 1]])
    >>> kernel(X).round(3)
    array([[1.   , 0.368, 0.368],
           [0.368, 1.   , 0.368],
           [0.368, 0.368, 1.   ]])
    """

    _fixed = "groups"

    def __init__(self, kernel: Any, groups: ArrayLike) -> None:
        self.kernel = kernel
        self.groups = groups

    def columns(self, n_features: int | None = None) -> IntArray:
        """Return the checked column of each feature.

        Parameters
        ----------
        n_features : int, default=None
            The number of features that X has, if known.

        Returns
        -------
        columns : array of shape (n_features,)
        """
        return checked_groups(self.groups, n_features)

    def _compare(self, X: FloatArray, Y: ArrayLike | None, eval_gradient: bool) -> Any:
        return self._of_features(X.shape[1])(X, Y, eval_gradient)

    def diag(self, X: ArrayLike) -> FloatArray:
        """Return the diagonal of ``k(X, X)``, of shape (n,).

        Parameters
        ----------
        X : array of shape (n, n_features)
            The argument of the kernel.
        """
        X = np.atleast_2d(np.asarray(X, dtype=float))
        return np.asarray(self._of_features(X.shape[1]).diag(X))

    def _of_features(self, n_features: int) -> Any:
        """An equal kernel, or one with the same values and the summed gradient."""
        groups, inner = self.columns(n_features), self.kernel
        if isinstance(inner, sk.KernelOperator):
            return type(inner)(PerColumn(inner.k1, groups), PerColumn(inner.k2, groups))
        if isinstance(inner, sk.Exponentiation):
            return sk.Exponentiation(PerColumn(inner.kernel, groups), inner.exponent)
        if type(inner) is Additive:
            return _OneFunctionPerColumn(inner, groups)
        return _SharedValues(inner, groups) if type(inner) in _OF_FEATURES else inner

    def __repr__(self) -> str:
        return f"PerColumn({self.kernel}, groups={_in_runs(np.ravel(self.groups).tolist())})"


def _in_runs(values: list[Any]) -> str:
    """A list as Python writes it, but for repetitions: [0, 1] + 3 * [2]."""
    shown: list[str] = []
    single: list[Any] = []
    for value, run in groupby(values):
        n = len(list(run))
        single += [value] * (n if n < 3 else 0)
        if n > 2:
            shown += [str(single)] * bool(single) + [f"{n} * [{value}]"]
            single = []
    return " + ".join(shown + [str(single)] * bool(single or not shown))


def checked_groups(groups: Any, n_features: int | None = None) -> IntArray:
    """Column of each feature; ValueError unless these are whole numbers from 0 without a gap."""
    found = np.asarray(groups)
    if n_features is not None and found.shape != (n_features,):
        raise ValueError(
            f"groups has shape {found.shape}, but X has {n_features} features. Give one number "
            "per feature: the column that it belongs to."
        )
    kind = found.ndim == 1 and found.size and np.issubdtype(found.dtype, np.integer)
    if not kind or not np.array_equal(np.unique(found), np.arange(len(np.unique(found)))):
        raise ValueError(
            "groups must hold the column of each feature as whole numbers from 0 to the number of "
            f"columns less 1, but is {groups!r:.80}. For other names of columns use "
            "numpy.unique(names, return_inverse=True)[1]."
        )
    return found.astype(np.intp)


def per_column(kernel: Any, groups: IntArray | None) -> Any:
    """``PerColumn``, or the kernel itself where every feature is a column of its own."""
    if groups is None or len(np.unique(groups)) == len(groups):
        return kernel
    return PerColumn(kernel, groups)


def per_feature(kernel: Any, groups: IntArray) -> Any:
    """Kernel with the values of columns repeated for each of their features."""
    name = _OF_FEATURES.get(type(kernel))
    if name is None:
        return kernel
    values, n_columns = np.asarray(getattr(kernel, name), dtype=float), int(groups.max()) + 1
    if type(kernel) is Additive and kernel.size != 1:
        raise ValueError(
            f"Additive has size={kernel.size} inside PerColumn, where each function is that of a "
            "column. Leave out size."
        )
    if values.size not in (1, n_columns):
        raise ValueError(
            f"{name} has {values.size} values, but there are {n_columns} columns. Give one value "
            "per column, or a single number for all of them."
        )
    if values.size == 1:
        return kernel
    fixed = isinstance(getattr(kernel, f"{name}_bounds"), str)
    bounds = "fixed" if fixed else (1e-5, 1e5)  # an array of bounds has one per column
    return clone(kernel).set_params(**{name: values[groups], f"{name}_bounds": bounds})


class _SharedValues:
    """A kernel with one length scale or relevance per column, from the one with it per feature."""

    def __init__(self, kernel: Any, groups: IntArray) -> None:
        self.wide, self.groups = per_feature(kernel, groups), groups
        self.shared = self.wide is not kernel

    def __call__(self, X: FloatArray, Y: Any, eval_gradient: bool) -> Any:
        if not eval_gradient:
            return self.wide(X, Y)
        K, slope = self.wide(X, Y, eval_gradient=True)
        if self.shared and slope.shape[2]:
            slope = slope @ np.eye(self.groups.max() + 1)[self.groups]
        return K, slope

    def diag(self, X: FloatArray) -> FloatArray:
        return np.asarray(self.wide.diag(X))


class _OneFunctionPerColumn:
    """``Additive`` with the function of a column in place of one per feature."""

    def __init__(self, kernel: Additive, groups: IntArray) -> None:
        wide = per_feature(kernel, groups)
        self.n_dims, self.n_columns = kernel.n_dims, int(groups.max()) + 1
        scales = np.broadcast_to(np.ravel(wide.length_scale), groups.shape)
        self.columns = [np.flatnonzero(groups == g) for g in range(self.n_columns)]
        self.parts = [sk.RBF(float(scales[places[0]])) for places in self.columns]

    def __call__(self, X: FloatArray, Y: Any, eval_gradient: bool) -> Any:
        Y = None if Y is None else np.atleast_2d(np.asarray(Y, dtype=float))
        parts = [
            part(X[:, at], None if Y is None else Y[:, at], eval_gradient=eval_gradient)
            for part, at in zip(self.parts, self.columns, strict=True)
        ]
        if not eval_gradient:
            return np.mean(parts, axis=0)
        slopes = np.concatenate([slope for _, slope in parts], axis=2) / self.n_columns
        if self.n_dims <= 1:
            slopes = slopes.sum(axis=2, keepdims=True)
        return np.mean([K for K, _ in parts], axis=0), slopes[:, :, : self.n_dims]

    def diag(self, X: FloatArray) -> FloatArray:
        return np.ones(len(X))
