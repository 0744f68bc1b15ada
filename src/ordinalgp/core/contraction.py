"""Kernel matrices, and the contraction of dL/dK with their derivatives.

An objective L hands over one symmetric matrix, ``upstream = dL/dK``; what the optimiser needs is
``sum_ij upstream_ij dK_ij/dtheta``. scikit-learn's ``eval_gradient`` builds dK/dtheta, an n x n x d
array; the rules below go to the sum directly, in O(n^2 d) time and O(n^2) memory.

Stationary kernels are functions of ``r^2 = sum_l (x_il - x_jl)^2`` with ``x`` in units of the
length scales, and ``dk/dlog(length_scale_l) = w(r^2) (x_il - x_jl)^2`` with ``w = -2 dk/d(r^2)``.
"""

import logging
from collections.abc import Callable
from functools import partial, singledispatch
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gamma, kv
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    Kernel,
    Matern,
    Product,
    RationalQuadratic,
    Sum,
    WhiteKernel,
)

from ordinalgp._typing import FloatArray
from ordinalgp.kernels import ARDLinear, Correlation

__all__ = ["contract", "kernel_matrix"]

Profile = Callable[[FloatArray], FloatArray]  # of a block of r^2, which it may overwrite
Rows = Callable[[int, int], FloatArray]  # (i, j) -> r^2 from the rows i..j to the rows i..n

_logger = logging.getLogger("ordinalgp")
_noted: set[type] = set()  # classes whose missing rule was logged


@singledispatch
def kernel_matrix(kernel: Kernel, X: Any) -> FloatArray:
    """Return ``kernel(X)`` as a new array of shape (n, n), fast for the common kernels."""
    # A copy, because sums and products write into it and a kernel may hand out a matrix it keeps.
    return np.array(kernel(X), dtype=float)


@singledispatch
def contract(
    kernel: Kernel, X: Any, upstream: FloatArray, K: FloatArray | None = None
) -> FloatArray:
    """Return ``sum_ij upstream_ij dK_ij/dtheta`` in the order of ``kernel.theta``.

    ``upstream`` is symmetric, of shape (n, n); ``K = kernel(X)`` saves time where it is known.
    Kernels without a rule use their own ``eval_gradient``; ``contract.register`` adds a rule.
    """
    if kernel.n_dims == 0:
        return np.empty(0)
    if type(kernel) not in _noted:
        _noted.add(type(kernel))
        _logger.info(
            "No contraction rule for %s: using its eval_gradient, n x n x n_dims numbers. "
            "ordinalgp.core.contraction.contract.register adds a rule.",
            type(kernel).__name__,
        )
    needed = (*upstream.shape, kernel.n_dims)
    gradient = kernel(X, eval_gradient=True)[1]
    if gradient.shape != needed:
        raise ValueError(
            f"The gradient of {type(kernel).__name__} has shape {gradient.shape}, but {needed} is "
            "needed: n x n x the length of theta. Correct the kernel or register a rule for it."
        )
    return np.einsum("ij,ijp->p", upstream, gradient)


def _rule(dispatcher: Any, cls: type) -> Callable[[Any], Any]:
    """Register a rule for ``cls``, except for subclasses that compute something else."""

    def register(rule: Any) -> Any:
        def guarded(kernel: Kernel, *args: Any, **kwargs: Any) -> FloatArray:
            inherited = type(kernel).__call__ is cls.__call__
            return (rule if inherited else dispatcher.dispatch(object))(kernel, *args, **kwargs)

        dispatcher.register(cls)(guarded)
        return rule

    return register


def _exact(X: FloatArray) -> Rows:
    return lambda i, j: cdist(X[i:j], X[i:], "sqeuclidean")


def _fast(X: FloatArray) -> Rows:
    """Squared distances by one matrix product, where that is faster and harmless.

    |x|^2 + |x'|^2 - 2 x x' is off by about eps |x|^2 in every entry, however close the rows are,
    and the kernel's relative error is of that size: far-out rows keep `cdist`. Up to 16 columns
    there is little to gain (n = 2000: 22 ms against 19 ms for 9 columns, 58 against 23 for 60).
    """
    centred = X - X.mean(axis=0)
    square = np.einsum("il,il->i", centred, centred)[:, np.newaxis]
    if X.shape[1] <= 16 or square.max() > 3e4:
        return _exact(X)
    left = np.hstack([-2.0 * centred, square, np.ones_like(square)])
    right = np.hstack([centred, np.ones_like(square), square]).T.copy()
    return partial(_product_rows, left, right)


def _product_rows(left: FloatArray, right: FloatArray, i: int, j: int) -> FloatArray:
    block = left[i:j] @ right[:, i:]
    np.maximum(block, 0.0, out=block)
    own = block[:, : j - i]
    own[...] = (own + own.T) / 2.0  # symmetric to the last bit, which the product alone is not
    np.fill_diagonal(own, 0.0)
    return block


def _symmetric(X: FloatArray, profile: Profile, distances: Callable[[FloatArray], Rows]) -> Any:
    """Return the matrix of ``profile(|x_i - x_j|^2)``, each pair evaluated once; shape (n, n)."""
    n, size = len(X), 64  # rows of a block: few enough for its distances to stay in the cache
    out = np.empty((n, n))
    rows = distances(X)
    for i in range(0, n, size):
        j = min(i + size, n)
        block = profile(rows(i, j))
        out[i:j, i:] = block
        out[j:, i:j] = block[:, j - i :].T
    return out


def _scaled(X: Any, length_scale: Any) -> FloatArray:
    """Rows of ``X`` in units of the length scale."""
    X = np.atleast_2d(np.asarray(X, dtype=float))
    scale = np.squeeze(np.asarray(length_scale, dtype=float))
    if scale.ndim and scale.size != X.shape[1]:
        raise ValueError(
            f"length_scale has {scale.size} values, but X has {X.shape[1]} features. "
            "Give one value per feature, or a single number for all of them."
        )
    with np.errstate(over="ignore"):
        return np.clip(X / scale, -1e140, 1e140)  # squares stay finite: 0 * inf would be nan


def _pair_sums(M: FloatArray, X: FloatArray) -> FloatArray:
    """Return ``sum_ij M_ij (x_il - x_jl)^2`` for every column l, as one matrix product.

    ``M`` is symmetric, of shape (n, n). Its diagonal, which takes no part in the sum though its
    rounding would, is overwritten.
    """
    np.fill_diagonal(M, 0.0)
    C = X - X.mean(axis=0)
    sums: FloatArray = 2.0 * (M.sum(axis=1) @ C**2 - np.einsum("il,il->l", C, M @ C))
    # The two terms cancel up to eps x^2. Where a column spans thousands of length scales, that is
    # not small beside the near pairs, the only ones that still count: take these one by one.
    wide = np.flatnonzero(np.abs(C).max(axis=0) > 1e3)
    if wide.size:
        i, j = np.nonzero(M)
        sums[wide] = [M[i, j] @ (X[i, l] - X[j, l]) ** 2 for l in wide]
    return sums


def _length_scales(kernel: Any, M: FloatArray, X: FloatArray) -> FloatArray:
    sums = _pair_sums(M, X)
    return sums if kernel.anisotropic else sums.sum(keepdims=True)


def _inner(A: FloatArray, B: FloatArray) -> float:
    """Return ``sum_ij A_ij B_ij`` for symmetric matrices in any memory order, without a copy."""
    return float(np.vdot(*(M.T if M.flags.f_contiguous else M for M in (A, B))))


def _gaussian(r2: FloatArray) -> FloatArray:
    r2 *= -0.5
    return np.exp(r2, out=r2)


@_rule(kernel_matrix, RBF)
def _(kernel: Any, X: Any) -> FloatArray:
    return _symmetric(_scaled(X, kernel.length_scale), _gaussian, _fast)


@_rule(contract, RBF)
def _(kernel: Any, X: Any, upstream: FloatArray, K: FloatArray | None = None) -> FloatArray:
    if kernel.hyperparameter_length_scale.fixed:
        return np.empty(0)
    M = upstream * (kernel_matrix(kernel, X) if K is None else K)
    return _length_scales(kernel, M, _scaled(X, kernel.length_scale))


# Half-integer orders are a polynomial times exp(-z) with z = sqrt(2 nu) r: that of k, that of w.
# Above 1/2 they are smooth enough at r = 0 for `_fast`.
_MATERN: dict[float, tuple[Profile, Profile]] = {
    0.5: (np.ones_like, lambda z: 1.0 / z),
    1.5: (lambda z: 1.0 + z, lambda z: np.full_like(z, 3.0)),
    2.5: (lambda z: 1.0 + z * (1.0 + z / 3.0), lambda z: 5.0 / 3.0 * (1.0 + z)),
}


def _matern(r2: FloatArray, nu: float) -> FloatArray:
    z = np.sqrt(2.0 * nu * r2)
    return _MATERN[nu][0](z) * np.exp(-z)


def _matern_weight(r2: FloatArray, nu: float, near: float) -> FloatArray:
    """Return w for any finite ``nu``, and 0 for r^2 up to ``near``, where w may be infinite."""
    z = np.sqrt(2.0 * nu * np.maximum(r2, near))
    if nu in _MATERN:
        w = _MATERN[nu][1](z) * np.exp(-z)
    else:
        w = nu * 2.0 ** (2.0 - nu) / gamma(nu) * z ** (nu - 1.0) * kv(nu - 1.0, z)
    return np.where(r2 <= near, 0.0, w)


@_rule(kernel_matrix, Matern)
def _(kernel: Any, X: Any) -> FloatArray:
    if kernel.nu == np.inf:
        return _symmetric(_scaled(X, kernel.length_scale), _gaussian, _fast)
    if kernel.nu not in _MATERN:
        return np.asarray(kernel(X))
    distances = _fast if kernel.nu > 1.0 else _exact
    return _symmetric(_scaled(X, kernel.length_scale), partial(_matern, nu=kernel.nu), distances)


@_rule(contract, Matern)
def _(kernel: Any, X: Any, upstream: FloatArray, K: FloatArray | None = None) -> FloatArray:
    if kernel.hyperparameter_length_scale.fixed:
        return np.empty(0)
    Z = _scaled(X, kernel.length_scale)
    if kernel.nu == np.inf:
        M = kernel_matrix(kernel, X)
    else:
        # A pair this near adds at most r, which `_pair_sums` could not tell from its rounding.
        near = np.finfo(float).eps * np.ptp(Z, axis=0).max() ** 2 or 1.0
        weight = partial(_matern_weight, nu=kernel.nu, near=near)
        M = _symmetric(Z, weight, _fast if kernel.nu > 1.0 else _exact)
    M *= upstream
    return _length_scales(kernel, M, Z)
