"""Default kernels: Gaussian, to the number of features or to the inputs, and a rough one."""

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from ordinalgp._typing import FloatArray
from ordinalgp.kernels import Additive

_SQUARABLE = 1e150  # numbers up to this, and from its inverse on, have squares
_REACH = (1e-153, 1e153)  # spreads of inputs whose squares are numbers


def spread(X: FloatArray) -> float:
    """Root mean square of the columns' standard deviations, also where squares overflow."""
    largest = max(float(X.max()), -float(X.min())) or 1.0
    if 1 / _SQUARABLE < largest < _SQUARABLE:
        return float(np.sqrt(np.mean(X.var(axis=0))))
    return largest * float(np.sqrt(np.mean(np.var(X / largest, axis=0))))


def unusual_spread(X: FloatArray) -> float:
    """The spread of the columns; 1 where it is near that, or zero."""
    found = spread(X)
    return 1.0 if 1 / 3 < found < 3 or found == 0 else found


def gaussian_kernel(
    n_features: int, bounds: tuple[float, float] = (1e-5, 1e5), *, per_feature: bool = False
) -> Any:
    """The Gaussian kernel with squared length scale ``n_features``, one for all or per feature."""
    length = np.sqrt(n_features)
    scales = np.full(n_features, length) if per_feature else length
    return RBF(scales, length_scale_bounds=bounds)


def rough_kernel(X: FloatArray) -> Any:
    """A kernel of rough functions, and of smooth ones of single features, for many rows.

    Each feature has a length scale in each part, which begins in proportion to the feature's
    standard deviation.
    """
    largest = np.abs(X).max(axis=0)
    scale = np.where(largest > 0, largest, 1.0)
    sd = scale * np.std(X / scale, axis=0)
    sd = np.where(sd > 0, sd, 1.0)
    bounds = np.column_stack([1e-2 * sd, 1e4 * sd])
    rough = Matern(2.0 * np.sqrt(len(sd)) * sd, bounds, nu=0.5)
    return rough + ConstantKernel(1.0, (1e-4, 1e4)) * Additive(1.35 * sd, bounds)


def starting_kernel(kernel: Any, X: FloatArray) -> Any:
    """A copy of the user's kernel, or the default one.

    This is the Gaussian kernel of [Chu05]_: unit variance, squared length scale d at the start.
    """
    if kernel is not None:
        return kernel.clone_with_theta(kernel.theta)
    found = unusual_spread(X)
    if not _REACH[0] < found < _REACH[1]:
        raise ValueError(
            f"X has a standard deviation of about {found:.0e}, whose square is out of the "
            "range of numbers. Standardise the inputs."
        )
    # The start within these bounds is chosen by `rescaled_start`.
    bounds = 1e-3 * min(1.0, found), 1e5 * max(1.0, found)
    return gaussian_kernel(X.shape[1], bounds)


def rescaled_start(task: Any) -> FloatArray:
    """The default start; for inputs far from standardised the better of it and one to scale."""
    theta, found = task.theta, unusual_spread(task.X)
    if found == 1.0:
        return np.asarray(theta)
    to_scale = theta.copy()
    place = task.kernel.n_dims - 1  # the default kernel's length scale is its last parameter
    to_scale[place] = np.clip(theta[place] + np.log(found), *task.bounds[place])
    return max(theta, to_scale, key=lambda start: task.evaluate(start).value)
