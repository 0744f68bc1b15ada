"""The contraction of dL/dK with the derivatives of kernel matrices.

An objective L hands over one symmetric matrix, ``upstream = dL/dK``. The rules below contract it
with dK/dtheta in O(n^2 d) time and O(n^2) memory, without scikit-learn's n x n x d gradients.
"""

import logging
from collections.abc import Callable
from functools import partial, singledispatch
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as sk

from ordinalgp._typing import FloatArray
from ordinalgp.core import kernel_matrix as matrices
from ordinalgp.core.kernel_matrix import BLOCK, Profile, kernel_matrix, scaled, split, symmetric
from ordinalgp.core.linalg import Workspace
from ordinalgp.core.objectives import Upstream
from ordinalgp.kernels import ARDLinear

__all__ = ["contract", "kernel_slope"]

_noted: set[type] = set()  # classes whose missing rule was logged


def kernel_slope(
    kernel: sk.Kernel, X: Any, upstream: Upstream, K: FloatArray, workspace: Workspace | None = None
) -> FloatArray:
    """``contract``, by one pass over distances that the workspace keeps where that will do."""
    parts = None if workspace is None else matrices.isotropic(kernel)
    if workspace is None or parts is None:
        return contract(kernel, X, upstream.full(), K=K)
    (rbf, constant), r2 = parts, workspace.distances(X)
    total = 0.0 if constant is None else _meet(upstream, K)
    stretch = _meet(upstream, K, r2)
    if not np.isfinite(total + stretch):  # squares of huge inputs overflow; the general rule clips
        return contract(kernel, X, upstream.full(), K=K)
    slopes = [(constant, total), (rbf, stretch / rbf.length_scale**2)]
    if constant is not None and kernel.k1 is rbf:
        slopes.reverse()
    return np.array([slope for part, slope in slopes if part is not None and part.n_dims])


def _meet(upstream: Upstream, K: FloatArray, r2: FloatArray | None = None) -> float:
    """Sum of dL/dK times K, or times K r^2; all three symmetric, so that half of them will do."""
    half = np.triu(np.ones((BLOCK, BLOCK))) - 0.5 * np.eye(BLOCK)
    total = 0.0
    for i in range(0, len(K), BLOCK):
        rows = K[i : i + BLOCK, i:]
        with np.errstate(invalid="ignore"):
            block = rows.copy() if r2 is None else rows * r2[i : i + BLOCK, i:]
            block[:, : len(rows)] *= half[: len(rows), : len(rows)]
        total += 2.0 * upstream.meet(i, block)
    return total


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
            return rule(kernel, X, upstream, K) if kernel.n_dims else np.empty(0)

        return rule

    return register


def _pair_sums(A: FloatArray, B: FloatArray, X: FloatArray, limit: float = 1e2) -> FloatArray:
    """Return ``sum_ij A_ij B_ij (x_il - x_jl)^2`` for every column l, as one matrix product.

    The two terms of the product form cancel up to eps x^2. Where a column spans hundreds of length
    scales that is not small beside the near pairs, the only ones that still count, so columns that
    reach beyond ``limit`` are summed pair by pair. A and B are symmetric.
    """
    C = X - X.mean(axis=0)
    square = C**2
    far = np.flatnonzero(np.abs(C).max(axis=0) > limit)
    sums = np.zeros(X.shape[1])
    direct = np.zeros(len(far))
    for i in range(0, len(X), BLOCK):  # each in the cache, and no third n x n array
        j = min(i + BLOCK, len(X))
        M = A[i:j, i:] * B[i:j, i:]
        np.fill_diagonal(M, 0.0)
        M[:, : j - i] *= 0.5  # pairs within the block are met twice, all others once
        sums += M.sum(axis=1) @ square[i:j] + M.sum(axis=0) @ square[i:]
        sums -= 2.0 * np.einsum("il,il->l", C[i:j], M @ C[i:])
        direct += [_pair_sum(M, X[i:j, column], X[i:, column]) for column in far]
    sums[far] = direct
    return 2.0 * sums


def _pair_sum(M: FloatArray, x: FloatArray, other: FloatArray) -> float:
    diff = np.subtract.outer(x, other)
    return float(np.einsum("ij,ij,ij->", M, diff, diff))


@_rule(sk.RBF)
def _rbf(kernel: Any, X: Any, upstream: FloatArray, K: FloatArray | None) -> FloatArray:
    K = matrices.matern_matrix(kernel, X) if K is None else K
    sums = _pair_sums(upstream, K, scaled(X, kernel.length_scale))
    return sums if kernel.anisotropic else sums.sum(keepdims=True)


@_rule(sk.Matern)
def _matern(kernel: Any, X: Any, upstream: FloatArray, K: FloatArray | None) -> FloatArray:
    if kernel.nu == np.inf:
        return _rbf(kernel, X, upstream, K)
    Z, weight = scaled(X, kernel.length_scale), partial(matrices.matern_weight, nu=kernel.nu)
    # Orders below 1 have a weight without limit near r = 0, and cannot afford any rounding there.
    distances, limit = (matrices.fast, 1e2) if kernel.nu > 1.0 else (matrices.exact, 0.0)
    if kernel.anisotropic:
        return _pair_sums(upstream, symmetric(Z, weight, distances), Z, limit)
    slope = symmetric(Z, lambda r2: r2 * weight(r2), distances)
    return np.array([np.vdot(upstream, slope)])


@_rule(sk.RationalQuadratic)
def _rational_quadratic(kernel: Any, X: Any, upstream: FloatArray, K: Any) -> FloatArray:
    factors: list[Profile] = [  # in the order of theta: alpha, length_scale
        lambda t: kernel.alpha * (t / (1.0 + t) - np.log1p(t)),
        lambda t: 2.0 * kernel.alpha * t / (1.0 + t),
    ]
    free = [f for f, h in zip(factors, kernel.hyperparameters, strict=True) if not h.fixed]
    return np.array([np.vdot(upstream, matrices.quadratic(kernel, X, factor)) for factor in free])


@_rule(ARDLinear)
def _ard_linear(kernel: Any, X: Any, upstream: FloatArray, K: Any) -> FloatArray:
    Z = scaled(X, 1.0)
    sums: FloatArray = kernel.relevance * np.einsum("il,il->l", Z, upstream @ Z)
    return sums if kernel.anisotropic else sums.sum(keepdims=True)


@_rule(sk.DotProduct)
def _dot_product(kernel: Any, X: Any, upstream: FloatArray, K: Any) -> FloatArray:
    return np.array([2.0 * kernel.sigma_0**2 * upstream.sum()])


@_rule(sk.ConstantKernel)
def _constant(kernel: Any, X: Any, upstream: FloatArray, K: Any) -> FloatArray:
    return np.array([kernel.constant_value * upstream.sum()])


@_rule(sk.WhiteKernel)
def _white(kernel: Any, X: Any, upstream: FloatArray, K: Any) -> FloatArray:
    return np.array([kernel.noise_level * np.trace(upstream)])


@_rule(sk.Sum)
def _sum(kernel: Any, X: Any, upstream: FloatArray, K: Any) -> FloatArray:
    return np.concatenate([contract(k, X, upstream) for k in (kernel.k1, kernel.k2)])


@_rule(sk.Product)
def _product(kernel: Any, X: Any, upstream: FloatArray, K: FloatArray | None) -> FloatArray:
    k1, k2 = kernel.k1, kernel.k2
    if sk.ConstantKernel in (type(k1), type(k2)):
        return _multiple(kernel, X, upstream, K)
    K1, K2 = kernel_matrix(k1, X), kernel_matrix(k2, X)
    return np.concatenate([contract(k1, X, upstream * K2, K1), contract(k2, X, upstream * K1, K2)])


def _multiple(kernel: Any, X: Any, upstream: FloatArray, K: FloatArray | None) -> FloatArray:
    """Contract a constant times another kernel, with no new kernel matrix if ``K`` is known."""
    other, constant = split(kernel)
    c = constant.constant_value
    if K is None or c == 0.0:
        K = c * kernel_matrix(other, X)
    d_constant = [np.vdot(upstream, K)] * constant.n_dims
    if type(other) is sk.RBF:  # its derivatives are multiples of itself, so any multiple serves
        d_other = contract(other, X, upstream, K)
    else:
        d_other = c * contract(other, X, upstream, K / c if c else None)
    return np.concatenate([d_constant, d_other] if other is kernel.k2 else [d_other, d_constant])


@_rule(sk.Exponentiation)
def _power(kernel: Any, X: Any, upstream: FloatArray, K: FloatArray | None) -> FloatArray:
    K = kernel_matrix(kernel.kernel, X)
    slope = kernel.exponent * K ** (kernel.exponent - 1) * upstream
    return contract(kernel.kernel, X, slope, K)
