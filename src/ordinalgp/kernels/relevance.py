"""Weights of features in a kernel with automatic relevance determination (ARD)."""

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, Matern

from ordinalgp._typing import FloatArray
from ordinalgp.kernels import Additive, ARDLinear, Exponential, PerColumn, Projected


def ard_weights(kernel: Any) -> FloatArray | None:
    """Weight of every feature, or None if the kernel has no part that tells them apart.

    Two rows differ, to a kernel with length scales, by ``sum_j (x_j - x'_j)^2 / length_j^2``: the
    weight is ``1 / length_j^2``. To the linear kernel it is the relevance itself. Of a compound
    kernel the first part with length scales of its own counts. Features of a column (``PerColumn``)
    have the column's weight each.
    """
    if isinstance(kernel, Projected):
        return None  # its length scales are those of combinations
    if isinstance(kernel, PerColumn):
        weights = ard_weights(kernel.kernel)
        return None if weights is None else weights[kernel.columns()]
    if isinstance(kernel, ARDLinear) and kernel.anisotropic:
        return np.asarray(kernel.relevance, dtype=float)
    if isinstance(kernel, RBF | Matern | Additive | Exponential) and kernel.anisotropic:
        return 1 / np.square(np.asarray(kernel.length_scale, dtype=float))
    parts = [getattr(kernel, name, None) for name in ("k1", "k2", "kernel")]
    found = (ard_weights(part) for part in parts if part is not None)
    return next((weights for weights in found if weights is not None), None)


def relevance_shares(kernel: Any, spread: FloatArray, owner: Any = None) -> FloatArray | None:
    """Share of every feature, or of the columns that own them, in how rows differ on average.

    ``spread`` is the standard deviation of each feature, so that units do not matter.
    """
    weights = ard_weights(kernel)
    if weights is None:
        return None
    parts = weights * np.square(spread)
    if owner is not None:
        parts = np.bincount(owner, parts).astype(float)
    total = float(parts.sum())
    return parts / total if total > 0 else parts
