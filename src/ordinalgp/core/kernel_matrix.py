"""Kernel matrices, each pair of rows evaluated once and in blocks that stay in the cache.

Stationary kernels are functions of ``r^2 = sum_l (x_il - x_jl)^2`` with ``x`` in units of the
length scales, and ``dk/dlog(length_scale_l) = w(r^2) (x_il - x_jl)^2`` with ``w = -2 dk/d(r^2)``.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gamma, kv
from sklearn.gaussian_process import kernels as sk

from ordinalgp._typing import FloatArray
from ordinalgp.core.linalg import Workspace

Profile = Callable[[FloatArray], FloatArray]  # of a block of r^2, which it may overwrite
Rows = Callable[[int, int], FloatArray]  # (i, j) -> r^2 from the rows i..j to the rows i..n
Distances = Callable[[FloatArray], tuple[FloatArray, Rows]]  # X -> memory for n x n results, rows

BLOCK = 64  # rows at a time: few enough for their distances to stay in the cache


def kernel_matrix(kernel: sk.Kernel, X: Any, workspace: Workspace | None = None) -> FloatArray:
    """Return ``kernel(X)``, shape (n, n), fast for the common kernels.

    It is a new array or, where ``workspace`` is given, perhaps one that the next call overwrites.
    """
    if workspace is not None and (K := _in_workspace(kernel, X, workspace)) is not None:
        return K
    fast = _MATRIX.get(type(kernel))  # not for subclasses, which may compute something else
    # A copy, because sums and products write into it and a kernel may hand out a matrix it keeps.
    return np.array(kernel(X), dtype=float) if fast is None else fast(kernel, X)


def _in_workspace(kernel: sk.Kernel, X: Any, workspace: Workspace) -> FloatArray | None:
    """The RBF kernel, perhaps times a constant, from distances that the workspace keeps."""
    parts = isotropic(kernel)
    if parts is None:
        return None
    rbf, constant = parts
    r2 = workspace.distances(X)
    factor = np.float64(-0.5) / rbf.length_scale / rbf.length_scale
    K = workspace.matrix("kernel", len(r2))
    for i in range(0, len(K), BLOCK):
        j = i + BLOCK
        with np.errstate(over="ignore"):
            block = np.multiply(r2[i:j, i:], factor, out=K[i:j, i:])
        np.exp(block, out=block)
        if constant is not None:
            block *= constant.constant_value
        K[j:, i:j] = block[:, BLOCK:].T
    return K


def isotropic(kernel: sk.Kernel) -> tuple[sk.RBF, sk.ConstantKernel | None] | None:
    """The two factors of an RBF kernel with one length scale, perhaps times a constant."""
    multiple = type(kernel) is sk.Product
    rbf, constant = split(kernel) if multiple else (kernel, None)
    if type(rbf) is not sk.RBF or np.ndim(rbf.length_scale):
        return None
    if multiple and type(constant) is not sk.ConstantKernel:
        return None
    return rbf, constant


def split(kernel: Any) -> tuple[Any, Any]:
    """Return the two operands, one that is a mere number last."""
    constant_first = type(kernel.k1) is sk.ConstantKernel
    return (kernel.k2, kernel.k1) if constant_first else (kernel.k1, kernel.k2)


def _operator_matrix(kernel: Any, X: Any) -> FloatArray:
    first, second = split(kernel)
    K = kernel_matrix(first, X)
    constant = type(second) is sk.ConstantKernel
    other = second.constant_value if constant else kernel_matrix(second, X)
    return (np.add if type(kernel) is sk.Sum else np.multiply)(K, other, out=K)


def exact(X: FloatArray) -> tuple[FloatArray, Rows]:
    """Squared distances, each from its own differences."""
    return np.empty((len(X), len(X))), lambda i, j: cdist(X[i:j], X[i:], "sqeuclidean")


def fast(X: FloatArray) -> tuple[FloatArray, Rows]:
    """Squared distances from one matrix product, where that is faster and harmless.

    |x|^2 + |x'|^2 - 2 x x' is off by about eps |x|^2 in every entry, however close the rows are,
    and the kernel's relative error is of that size: far-out rows keep `cdist`. Up to 16 columns
    there is nothing to gain (n = 2000, 16 columns: 28 ms by `cdist`, 29 so; 60: 59 and 34).
    """
    centred = X - X.mean(axis=0)
    square = np.einsum("il,il->i", centred, centred)
    if X.shape[1] <= 16 or square.max() > 3e4:
        return exact(X)
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


def symmetric(X: FloatArray, profile: Profile, distances: Distances) -> FloatArray:
    """Return the matrix of ``profile(r^2)``, each pair evaluated once; shape (n, n)."""
    out, rows = distances(X)
    for i in range(0, len(X), BLOCK):
        j = min(i + BLOCK, len(X))
        out[i:j, i:] = profile(rows(i, j))
        out[j:, i:j] = out[i:j, j:].T
    return out


def scaled(X: Any, length_scale: Any) -> FloatArray:
    """Return the rows of ``X`` in units of the length scale."""
    X = np.atleast_2d(np.asarray(X, dtype=float))
    scale = np.squeeze(np.asarray(length_scale, dtype=float))
    if scale.ndim and scale.size != X.shape[1]:
        given = f"length_scale has {scale.size} values, but X has {X.shape[1]} features. "
        raise ValueError(given + "Give one value per feature, or a single number for all of them.")
    with np.errstate(over="ignore"):
        return np.clip(X / scale, -1e140, 1e140)  # squares stay finite: 0 * inf would be nan


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


def matern_weight(r2: FloatArray, nu: float) -> FloatArray:
    """Return w for any finite ``nu``; a finite number at r = 0 too, where it meets a factor 0."""
    z = np.sqrt(2.0 * nu * np.maximum(r2, 1e-30))
    if nu in _MATERN:
        return _MATERN[nu][1](z) * np.exp(-z)
    return nu * 2.0 ** (2.0 - nu) / gamma(nu) * z ** (nu - 1.0) * kv(nu - 1.0, z)


def matern_matrix(kernel: Any, X: Any) -> FloatArray:
    """The matrix of an RBF or a Matern kernel."""
    nu = getattr(kernel, "nu", np.inf)  # the RBF kernel is the limit
    if nu not in (*_MATERN, np.inf):
        return np.asarray(kernel(X))
    distances = fast if nu > 1.0 else exact  # exp(-r) makes 1e-8 of an error of 1e-16 in r^2
    return symmetric(scaled(X, kernel.length_scale), partial(_matern_value, nu=nu), distances)


def quadratic(kernel: Any, X: Any, factor: Profile) -> FloatArray:
    """Return ``k factor(t)`` with ``k = (1 + t)^-alpha``, ``t = r^2 / (2 alpha scale^2)``."""

    def profile(r2: FloatArray) -> FloatArray:
        t = r2 / (2.0 * kernel.alpha * kernel.length_scale**2)
        return factor(t) * (1.0 + t) ** -kernel.alpha

    return symmetric(scaled(X, 1.0), profile, exact)


_MATRIX: dict[type, Callable[[Any, Any], FloatArray]] = {
    sk.RBF: matern_matrix,
    sk.Matern: matern_matrix,
    sk.RationalQuadratic: partial(quadratic, factor=np.ones_like),
    sk.Sum: _operator_matrix,
    sk.Product: _operator_matrix,
    sk.Exponentiation: lambda kernel, X: kernel_matrix(kernel.kernel, X) ** kernel.exponent,
}


# The product form is off by about eps |x|^2 in every exponent, x in units of the length scales.
_FARTHEST = 3e4


def cross_covariance(kernel: Any, Z: FloatArray, X: FloatArray) -> FloatArray:
    """``kernel(Z, X)`` as a new array of shape (m, c)."""
    if type(kernel) is sk.Product and type(kernel.k1) is sk.ConstantKernel:
        out = cross_covariance(kernel.k2, Z, X)
        out *= kernel.k1.constant_value
        return out
    fast = _gaussian(kernel, Z, X) if type(kernel) is sk.RBF else None
    return np.array(kernel(Z, X), dtype=float) if fast is None else fast


def _gaussian(kernel: Any, Z: FloatArray, X: FloatArray) -> FloatArray | None:
    """exp(z'x - |z|^2/2 - |x|^2/2) with the whole exponent as one product; None if too far out."""
    scale = np.asarray(kernel.length_scale, dtype=float)
    centre = np.mean(Z, axis=0)
    z, x = (Z - centre) / scale, (X - centre) / scale
    square_z, square_x = (np.einsum("il,il->i", a, a) for a in (z, x))
    if not max(square_z.max(), square_x.max()) <= _FARTHEST:
        return None
    left = np.column_stack([z, -0.5 * square_z, np.ones(len(z))])
    right = np.column_stack([x, np.ones(len(x)), -0.5 * square_x])
    out: FloatArray = left @ right.T
    np.minimum(out, 0.0, out=out)  # equal rows: their distance is rounding
    np.exp(out, out=out)
    return out
