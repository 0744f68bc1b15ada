"""Kernel matrices, and the contraction of dL/dK with their derivatives.

An objective L hands over one symmetric matrix, ``upstream = dL/dK``. The rules below contract it
with dK/dtheta in O(n^2 d) time and O(n^2) memory, without scikit-learn's n x n x d gradients.

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
from sklearn.gaussian_process import kernels as sk

from ordinalgp._typing import FloatArray
from ordinalgp.core.room import Room
from ordinalgp.core.upstream import Upstream
from ordinalgp.kernels import ARDLinear

__all__ = ["contract", "kernel_matrix", "kernel_slope"]

Profile = Callable[[FloatArray], FloatArray]  # of a block of r^2, which it may overwrite
Rows = Callable[[int, int], FloatArray]  # (i, j) -> r^2 from the rows i..j to the rows i..n
Distances = Callable[[FloatArray], tuple[FloatArray, Rows]]  # X -> room for n x n results, rows

_BLOCK = 64  # rows at a time: few enough for their distances to stay in the cache
_noted: set[type] = set()  # classes whose missing rule was logged


def kernel_matrix(kernel: sk.Kernel, X: Any, room: Room | None = None) -> FloatArray:
    """Return ``kernel(X)``, shape (n, n), fast for the common kernels.

    It is a new array or, where ``room`` is given, perhaps one that the next call overwrites.
    """
    if room is not None and (K := _in_room(kernel, X, room)) is not None:
        return K
    fast = _MATRIX.get(type(kernel))  # not for subclasses, which may compute something else
    # A copy, because sums and products write into it and a kernel may hand out a matrix it keeps.
    return np.array(kernel(X), dtype=float) if fast is None else fast(kernel, X)


def _in_room(kernel: sk.Kernel, X: Any, room: Room) -> FloatArray | None:
    """The RBF kernel, perhaps times a constant, from distances that the room keeps."""
    parts = _isotropic(kernel)
    if parts is None:
        return None
    rbf, constant = parts
    r2 = room.distances(X)
    factor = np.float64(-0.5) / rbf.length_scale / rbf.length_scale
    K = room.matrix("kernel", len(r2))
    for i in range(0, len(K), _BLOCK):
        j = i + _BLOCK
        with np.errstate(over="ignore"):
            block = np.multiply(r2[i:j, i:], factor, out=K[i:j, i:])
        np.exp(block, out=block)
        if constant is not None:
            block *= constant.constant_value
        K[j:, i:j] = block[:, _BLOCK:].T
    return K


def _isotropic(kernel: sk.Kernel) -> tuple[sk.RBF, sk.ConstantKernel | None] | None:
    """The two factors of an RBF kernel with one length scale, perhaps times a constant."""
    multiple = type(kernel) is sk.Product
    rbf, constant = _split(kernel) if multiple else (kernel, None)
    if type(rbf) is not sk.RBF or np.ndim(rbf.length_scale):
        return None
    if multiple and type(constant) is not sk.ConstantKernel:
        return None
    return rbf, constant


def kernel_slope(
    kernel: sk.Kernel, X: Any, upstream: Upstream, K: FloatArray, room: Room | None = None
) -> FloatArray:
    """``contract``, by one pass over distances that the room keeps where that will do."""
    parts = None if room is None else _isotropic(kernel)
    if room is None or parts is None:
        return contract(kernel, X, upstream.full(), K=K)
    (rbf, constant), r2 = parts, room.distances(X)
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
    half = np.triu(np.ones((_BLOCK, _BLOCK))) - 0.5 * np.eye(_BLOCK)
    total = 0.0
    for i in range(0, len(K), _BLOCK):
        rows = K[i : i + _BLOCK, i:]
        with np.errstate(invalid="ignore"):
            block = rows.copy() if r2 is None else rows * r2[i : i + _BLOCK, i:]
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


def _exact(X: FloatArray) -> tuple[FloatArray, Rows]:
    return np.empty((len(X), len(X))), lambda i, j: cdist(X[i:j], X[i:], "sqeuclidean")


def _fast(X: FloatArray) -> tuple[FloatArray, Rows]:
    """Squared distances from one matrix product, where that is faster and harmless.

    |x|^2 + |x'|^2 - 2 x x' is off by about eps |x|^2 in every entry, however close the rows are,
    and the kernel's relative error is of that size: far-out rows keep `cdist`. Up to 16 columns
    there is nothing to gain (n = 2000, 16 columns: 28 ms by `cdist`, 29 so; 60: 59 and 34).
    """
    centred = X - X.mean(axis=0)
    square = np.einsum("il,il->i", centred, centred)
    if X.shape[1] <= 16 or square.max() > 3e4:
        return _exact(X)
    # All at once: a BLAS call may wait for busy cores much longer than it computes.
    gram = centred @ centred.T
    return gram, partial(_product_rows, gram, square)


def _product_rows(gram: FloatArray, square: FloatArray, i: int, j: int) -> FloatArray:
    block = gram[i:j, i:]
    block *= -2.0
    block += np.add.outer(square[i:j], square[i:])
    np.maximum(block, 0.0, out=block)
    np.fill_diagonal(block, 0.0)
    return block


def _symmetric(X: FloatArray, profile: Profile, distances: Distances) -> FloatArray:
    """Return the matrix of ``profile(r^2)``, each pair evaluated once; shape (n, n)."""
    out, rows = distances(X)
    for i in range(0, len(X), _BLOCK):
        j = min(i + _BLOCK, len(X))
        out[i:j, i:] = profile(rows(i, j))
        out[j:, i:j] = out[i:j, j:].T
    return out


def _scaled(X: Any, length_scale: Any) -> FloatArray:
    """Return the rows of ``X`` in units of the length scale."""
    X = np.atleast_2d(np.asarray(X, dtype=float))
    scale = np.squeeze(np.asarray(length_scale, dtype=float))
    if scale.ndim and scale.size != X.shape[1]:
        given = f"length_scale has {scale.size} values, but X has {X.shape[1]} features. "
        raise ValueError(given + "Give one value per feature, or a single number for all of them.")
    with np.errstate(over="ignore"):
        return np.clip(X / scale, -1e140, 1e140)  # squares stay finite: 0 * inf would be nan


def _pair_sums(A: FloatArray, B: FloatArray, X: FloatArray, limit: float = 1e3) -> FloatArray:
    """Return ``sum_ij A_ij B_ij (x_il - x_jl)^2`` for every column l, as one matrix product.

    The two terms of the product form cancel up to eps x^2. Where a column spans thousands of length
    scales that is not small beside the near pairs, the only ones that still count, so columns that
    reach beyond ``limit`` are summed pair by pair. A and B are symmetric.
    """
    C = X - X.mean(axis=0)
    square = C**2
    far = np.flatnonzero(np.abs(C).max(axis=0) > limit)
    sums = np.zeros(X.shape[1])
    direct = np.zeros(len(far))
    for i in range(0, len(X), _BLOCK):  # each in the cache, and no third n x n array
        j = min(i + _BLOCK, len(X))
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


# Half-integer orders are a polynomial times exp(-z), z = sqrt(2 nu) r: that of k, that of w.
_MATERN: dict[float, tuple[Profile, Profile]] = {
    0.5: (np.ones_like, lambda z: 1.0 / z),
    1.5: (lambda z: 1.0 + z, lambda z: np.full_like(z, 3.0)),
    2.5: (lambda z: 1.0 + z * (1.0 + z / 3.0), lambda z: 5.0 / 3.0 * (1.0 + z)),
}


def _matern_value(r2: FloatArray, nu: float) -> FloatArray:
    if nu == np.inf:
        return np.exp(np.multiply(r2, -0.5, out=r2), out=r2)
    z = np.sqrt(2.0 * nu * r2)
    return _MATERN[nu][0](z) * np.exp(-z)


def _matern_weight(r2: FloatArray, nu: float) -> FloatArray:
    """Return w for any finite ``nu``; a finite number at r = 0 too, where it meets a factor 0."""
    z = np.sqrt(2.0 * nu * np.maximum(r2, 1e-30))
    if nu in _MATERN:
        return _MATERN[nu][1](z) * np.exp(-z)
    w: FloatArray = nu * 2.0 ** (2.0 - nu) / gamma(nu) * z ** (nu - 1.0) * kv(nu - 1.0, z)
    return w


def _matern_matrix(kernel: Any, X: Any) -> FloatArray:
    nu = getattr(kernel, "nu", np.inf)  # the RBF kernel is the limit
    if nu not in (*_MATERN, np.inf):
        return np.asarray(kernel(X))
    distances = _fast if nu > 1.0 else _exact  # exp(-r) makes 1e-8 of an error of 1e-16 in r^2
    return _symmetric(_scaled(X, kernel.length_scale), partial(_matern_value, nu=nu), distances)


@_rule(sk.RBF)
def _rbf(kernel: Any, X: Any, upstream: FloatArray, K: FloatArray | None) -> FloatArray:
    K = _matern_matrix(kernel, X) if K is None else K
    sums = _pair_sums(upstream, K, _scaled(X, kernel.length_scale))
    return sums if kernel.anisotropic else sums.sum(keepdims=True)


@_rule(sk.Matern)
def _matern(kernel: Any, X: Any, upstream: FloatArray, K: FloatArray | None) -> FloatArray:
    if kernel.nu == np.inf:
        return _rbf(kernel, X, upstream, K)
    Z, weight = _scaled(X, kernel.length_scale), partial(_matern_weight, nu=kernel.nu)
    # Orders below 1 have a weight without limit near r = 0, and cannot afford any rounding there.
    distances, limit = (_fast, 1e3) if kernel.nu > 1.0 else (_exact, 0.0)
    if kernel.anisotropic:
        return _pair_sums(upstream, _symmetric(Z, weight, distances), Z, limit)
    slope = _symmetric(Z, lambda r2: r2 * weight(r2), distances)
    return np.array([np.vdot(upstream, slope)])


def _quadratic(kernel: Any, X: Any, factor: Profile) -> FloatArray:
    """Return ``k factor(t)`` with ``k = (1 + t)^-alpha``, ``t = r^2 / (2 alpha scale^2)``."""

    def profile(r2: FloatArray) -> FloatArray:
        t = r2 / (2.0 * kernel.alpha * kernel.length_scale**2)
        return factor(t) * (1.0 + t) ** -kernel.alpha

    return _symmetric(_scaled(X, 1.0), profile, _exact)


@_rule(sk.RationalQuadratic)
def _rational_quadratic(kernel: Any, X: Any, upstream: FloatArray, K: Any) -> FloatArray:
    factors: list[Profile] = [  # in the order of theta: alpha, length_scale
        lambda t: kernel.alpha * (t / (1.0 + t) - np.log1p(t)),
        lambda t: 2.0 * kernel.alpha * t / (1.0 + t),
    ]
    free = [f for f, h in zip(factors, kernel.hyperparameters, strict=True) if not h.fixed]
    return np.array([np.vdot(upstream, _quadratic(kernel, X, factor)) for factor in free])


@_rule(ARDLinear)
def _ard_linear(kernel: Any, X: Any, upstream: FloatArray, K: Any) -> FloatArray:
    Z = _scaled(X, 1.0)
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


def _split(kernel: Any) -> tuple[Any, Any]:
    """Return the two operands, one that is a mere number last."""
    constant_first = type(kernel.k1) is sk.ConstantKernel
    return (kernel.k2, kernel.k1) if constant_first else (kernel.k1, kernel.k2)


def _operator_matrix(kernel: Any, X: Any) -> FloatArray:
    first, second = _split(kernel)
    K = kernel_matrix(first, X)
    constant = type(second) is sk.ConstantKernel
    other = second.constant_value if constant else kernel_matrix(second, X)
    return (np.add if type(kernel) is sk.Sum else np.multiply)(K, other, out=K)


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
    other, constant = _split(kernel)
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


_MATRIX: dict[type, Callable[[Any, Any], FloatArray]] = {
    sk.RBF: _matern_matrix,
    sk.Matern: _matern_matrix,
    sk.RationalQuadratic: partial(_quadratic, factor=np.ones_like),
    sk.Sum: _operator_matrix,
    sk.Product: _operator_matrix,
    sk.Exponentiation: lambda kernel, X: kernel_matrix(kernel.kernel, X) ** kernel.exponent,
}
