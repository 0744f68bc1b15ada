"""Kernel matrices, each pair of rows evaluated once and in blocks that stay in the cache."""

from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as sk

from ordinalgp._typing import FloatArray
from ordinalgp.core.kernel_tiles import Tiles, columns, split, strips, tiles
from ordinalgp.core.linalg import Workspace, matrix, mirrored
from ordinalgp.kernels import PerColumn
from ordinalgp.kernels.per_column import per_feature

_BLOCK, _BLOCK_NUMBERS = 64, 2**15


def block_rows(n: int) -> int:
    """Rows of an (n, n) matrix at a time: few enough for two blocks to stay in the cache."""
    return max(_BLOCK, _BLOCK_NUMBERS // n)


def kernel_matrix(kernel: sk.Kernel, X: Any, workspace: Workspace | None = None) -> FloatArray:
    """Return ``kernel(X)``, shape (n, n), fast for the common kernels.

    It is a new array or, where ``workspace`` is given, perhaps one that the next call overwrites.
    """
    if workspace is not None and (K := _in_workspace(kernel, X, workspace)) is not None:
        return K
    if (pairs := tiles(kernel, X)) is not None:
        return _from_tiles(pairs, matrix(workspace, "kernel", len(X)))
    if type(kernel) in (sk.Sum, sk.Product):
        return _operator_matrix(kernel, X)
    if type(kernel) is sk.Exponentiation:
        return np.asarray(kernel_matrix(kernel.kernel, X) ** kernel.exponent)
    # A copy, because sums and products write into it and a kernel may hand out a matrix it keeps.
    return np.array(kernel(X), dtype=float)


def _from_tiles(pairs: Tiles, out: FloatArray) -> FloatArray:
    """The symmetric matrix, its upper triangle computed."""
    for rows in strips(len(out)):
        for part in columns(rows.start, len(out)):
            out[rows, part] = pairs.values((rows, part))
    return mirrored(out)


def _in_workspace(kernel: sk.Kernel, X: Any, workspace: Workspace) -> FloatArray | None:
    """The RBF kernel, perhaps times a constant, from distances that the workspace keeps."""
    parts = isotropic(kernel)
    if parts is None:
        return None
    rbf, constant = parts
    r2 = workspace.distances(X)
    factor = np.float64(-0.5) / rbf.length_scale / rbf.length_scale
    K = workspace.matrix("kernel", len(r2))
    step = block_rows(len(K))
    with np.errstate(over="ignore"):
        for i in range(0, len(K), step):
            j = i + step
            block = np.multiply(r2[i:j, i:], factor, out=K[i:j, i:])
            np.exp(block, out=block)
            if constant is not None:
                block *= constant.constant_value
            K[j:, i:j] = block[:, step:].T
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


def _operator_matrix(kernel: Any, X: Any) -> FloatArray:
    first, second = split(kernel)
    K = kernel_matrix(first, X)
    constant = type(second) is sk.ConstantKernel
    other = second.constant_value if constant else kernel_matrix(second, X)
    return (np.add if type(kernel) is sk.Sum else np.multiply)(K, other, out=K)


# The product form is off by about eps |x|^2 in every exponent, x in units of the length scales.
_FARTHEST = 3e4


def cross_covariance(kernel: Any, Z: FloatArray, X: FloatArray) -> FloatArray:
    """``kernel(Z, X)`` as a new array of shape (m, c)."""
    if type(kernel) is sk.Product and type(kernel.k1) is sk.ConstantKernel:
        out = cross_covariance(kernel.k2, Z, X)
        out *= kernel.k1.constant_value
        return out
    inner = kernel
    if type(kernel) is PerColumn:
        inner = per_feature(kernel.kernel, kernel.columns(X.shape[1]))
    gaussian = _gaussian(inner, Z, X) if type(inner) is sk.RBF else None
    if gaussian is not None:
        return gaussian
    if (pairs := tiles(kernel, Z, X)) is None:
        return np.array(kernel(Z, X), dtype=float)
    out = np.empty((len(Z), len(X)))
    for rows in strips(len(Z)):
        for part in columns(0, len(X)):
            out[rows, part] = pairs.values((rows, part))
    return out


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
