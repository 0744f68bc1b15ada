"""Covariances between two sets of rows, fast where the kernel is Gaussian.

scikit-learn computes distances pair by pair; by one matrix product and an exponential in place the
same takes a third of the time and lets other threads run.
"""

from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as sk

from ordinalgp._typing import FloatArray

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
