"""The contraction of dL/dK with the derivatives of kernel matrices.

An objective L hands over one symmetric matrix, ``upstream = dL/dK``. The rules below contract it
with dK/dtheta in O(n^2 d) time and O(n^2) memory, without scikit-learn's n x n x d gradients.
"""

import logging
from collections.abc import Callable
from functools import lru_cache, partial, singledispatch
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as sk

from ordinalgp._typing import FloatArray
from ordinalgp.core.hyperparameters import kernel_at, n_free
from ordinalgp.core.kernel_matrix import block_rows, isotropic, kernel_matrix
from ordinalgp.core.kernel_tiles import LEAVES, Leaf, Tiles, columns, tiles
from ordinalgp.core.linalg import Workspace
from ordinalgp.core.objectives import UpperTriangle, Upstream
from ordinalgp.kernels import PerColumn, Projected

__all__ = ["contract", "kernel_slope"]

_STEP = 1e-4  # of finite differences

_noted: set[type] = set()  # classes whose missing rule was logged


def kernel_slope(
    kernel: sk.Kernel, X: Any, upstream: Upstream, K: FloatArray, workspace: Workspace | None = None
) -> FloatArray:
    """``contract``, by one pass over distances that the workspace keeps where that will do."""
    parts = None if workspace is None else isotropic(kernel)
    if workspace is None or parts is None:
        if (pairs := tiles(kernel, X)) is not None:
            return _meet_tiles(pairs, upstream)
        return contract(kernel, X, upstream.full(), K)
    (rbf, constant), r2 = parts, workspace.distances(X)
    total = 0.0 if constant is None else _meet(upstream, K)
    stretch = _meet(upstream, K, r2)
    if not np.isfinite(stretch):  # squares of huge inputs overflow, and 0 * inf is nan
        stretch = _meet(upstream, K, np.minimum(r2, 1e300))
    slopes = [(constant, total), (rbf, stretch / rbf.length_scale**2)]
    if constant is None:
        return np.array([slopes[1][1]][: n_free(kernel)])
    if kernel.k1 is rbf:
        slopes.reverse()
    return np.array([slope for part, slope in slopes if part is not None and n_free(part)])


def kernel_moves(
    kernel: sk.Kernel, X: Any, K: FloatArray, w: FloatArray, workspace: Workspace | None = None
) -> FloatArray:
    """dK/dtheta w, (n, p)."""
    parts = None if workspace is None else isotropic(kernel)
    if workspace is None or parts is None or n_free(kernel) == 0:
        return _moves_by_differences(kernel, X, K, w)
    (rbf, constant), r2 = parts, workspace.distances(X)
    stretch = (K * r2) @ w / rbf.length_scale**2
    moves = {id(rbf): stretch} | ({} if constant is None else {id(constant): K @ w})
    order = (kernel,) if constant is None else (kernel.k1, kernel.k2)
    return np.column_stack([moves[id(part)] for part in order if n_free(part)])


def _moves_by_differences(kernel: Any, X: Any, K: FloatArray, w: FloatArray) -> FloatArray:
    """The kernel a little further along each hyperparameter."""
    before, theta = K @ w, np.asarray(kernel.theta)
    near = (theta + _STEP * unit for unit in np.eye(len(theta)))
    moved = [kernel_matrix(kernel_at(kernel, place), X) @ w for place in near]
    return np.reshape([(each - before) / _STEP for each in moved], (len(theta), -1)).T


def _meet(upstream: Upstream, K: FloatArray, r2: FloatArray | None = None) -> float:
    """Sum of dL/dK times K, or times K r^2; all three symmetric, so that half of them will do."""
    total, step = 0.0, block_rows(len(K))
    with np.errstate(invalid="ignore"):
        for i in range(0, len(K), step):
            j = min(i + step, len(K))
            block = K[i:j, i:].copy() if r2 is None else K[i:j, i:] * r2[i:j, i:]
            block[:, : j - i] *= _each_pair_once(j - i)
            total += 2.0 * upstream.meet(i, block)
    return total


@lru_cache(maxsize=4)
def _each_pair_once(n: int) -> FloatArray:
    """Upper triangle of ones, with halves on the diagonal."""
    return np.triu(np.ones((n, n))) - 0.5 * np.eye(n)


@singledispatch
def contract(
    kernel: sk.Kernel, X: Any, upstream: FloatArray, K: FloatArray | None = None
) -> FloatArray:
    """Return ``sum_ij upstream_ij dK_ij/dtheta`` in the order of ``kernel.theta``.

    ``upstream`` is symmetric, of shape (n, n); ``K = kernel(X)`` saves time where it is known.
    Kernels without a rule use their own ``eval_gradient``; ``contract.register`` adds a rule.
    """
    if kernel.n_dims == 0:
        return np.empty(0)
    name = type(kernel).__name__
    if type(kernel) not in _noted:
        _noted.add(type(kernel))
        logging.getLogger("ordinalgp").info("%s has no contraction rule: slow gradient.", name)
    gradient = kernel(X, eval_gradient=True)[1]
    if gradient.shape != (*upstream.shape, kernel.n_dims):
        raise ValueError(
            f"The gradient of {name} has shape {gradient.shape}, but (n, n, {kernel.n_dims}) with "
            f"n = {len(upstream)} is needed. Correct it, or add a rule with contract.register."
        )
    return np.einsum("ij,ijp->p", upstream, gradient)


def _rule(cls: type) -> Callable[[Any], Any]:
    """Register a rule for ``cls`` and the subclasses that compute the same."""

    def register(rule: Any) -> Any:
        @contract.register(cls)
        def checked(kernel: Any, X: Any, upstream: FloatArray, K: Any = None) -> FloatArray:
            if type(kernel).__call__ is not cls.__call__:
                return contract.dispatch(object)(kernel, X, upstream, K)
            # Symmetric matrices: the transpose is the same one in C order, as all matrices here.
            upstream = upstream.T if upstream.flags.f_contiguous else upstream
            return rule(kernel, X, upstream, K) if n_free(kernel) else np.empty(0)

        return rule

    return register


def _by_tiles(leaf: type[Leaf], kernel: Any, X: Any, upstream: FloatArray, K: Any) -> FloatArray:
    return _meet_tiles(leaf(kernel, X), UpperTriangle(upstream))


for _cls, _leaf in LEAVES.items():
    _rule(_cls)(partial(_by_tiles, _leaf))


def _meet_tiles(pairs: Tiles, upstream: Upstream) -> FloatArray:
    """Every pair of rows is met once."""
    return np.sum(
        [
            pairs.sums((rows, part), strip[:, part.start - rows.start : part.stop - rows.start])[1]
            for rows, strip in upstream.strips()
            for part in columns(rows.start, rows.start + strip.shape[1])
        ],
        axis=0,
    )


@_rule(sk.WhiteKernel)
def _white(kernel: Any, X: Any, upstream: FloatArray, K: Any) -> FloatArray:
    return np.array([kernel.noise_level * np.trace(upstream)])


@_rule(PerColumn)
def _per_column(kernel: Any, X: Any, upstream: FloatArray, K: Any) -> FloatArray:
    if (pairs := tiles(kernel, X)) is not None:
        return _meet_tiles(pairs, UpperTriangle(upstream))
    return contract.dispatch(object)(kernel, X, upstream, K)


@_rule(Projected)
def _projected(kernel: Any, X: Any, upstream: FloatArray, K: Any) -> FloatArray:
    return contract(kernel.kernel, kernel.combinations(X), upstream, K)


@_rule(sk.Sum)
def _sum(kernel: Any, X: Any, upstream: FloatArray, K: Any) -> FloatArray:
    if (pairs := tiles(kernel, X)) is not None:
        return _meet_tiles(pairs, UpperTriangle(upstream))
    return np.concatenate([contract(k, X, upstream) for k in (kernel.k1, kernel.k2)])


@_rule(sk.Product)
def _product(kernel: Any, X: Any, upstream: FloatArray, K: FloatArray | None) -> FloatArray:
    if (pairs := tiles(kernel, X)) is not None:
        return _meet_tiles(pairs, UpperTriangle(upstream))
    k1, k2 = kernel.k1, kernel.k2
    K1, K2 = kernel_matrix(k1, X), kernel_matrix(k2, X)
    return np.concatenate([contract(k1, X, upstream * K2, K1), contract(k2, X, upstream * K1, K2)])


@_rule(sk.Exponentiation)
def _power(kernel: Any, X: Any, upstream: FloatArray, K: FloatArray | None) -> FloatArray:
    K = kernel_matrix(kernel.kernel, X)
    slope = kernel.exponent * K ** (kernel.exponent - 1) * upstream
    return contract(kernel.kernel, X, slope, K)
