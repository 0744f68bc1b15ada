"""Hyperparameters of kernels, without scikit-learn's searches for their names.

``kernel.theta`` and ``kernel.clone_with_theta`` look through all attributes of a kernel. On 100
rows, with a sum of three kernels, that took as long as an evaluation of the evidence.
"""

from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as sk

from ordinalgp._typing import FloatArray
from ordinalgp.kernels import (
    Additive,
    ARDLinear,
    Correlation,
    Exponential,
    Independent,
    PerColumn,
    Projected,
)

# Names in the order of theta. Not of subclasses, which may have others.
NAMES: dict[type, tuple[str, ...]] = {
    sk.ConstantKernel: ("constant_value",),
    sk.DotProduct: ("sigma_0",),
    sk.Matern: ("length_scale",),
    sk.RationalQuadratic: ("alpha", "length_scale"),
    sk.RBF: ("length_scale",),
    sk.WhiteKernel: ("noise_level",),
    Additive: ("length_scale",),
    ARDLinear: ("relevance",),
    Correlation: (),
    Exponential: ("length_scale",),
    Independent: (),
}
_OPERATORS, _WRAPPERS = (sk.Sum, sk.Product), (PerColumn, Projected)


def free_parameters(kernel: Any) -> list[bool]:
    """Whether each hyperparameter of a kernel that is no sum or product is free."""
    names = NAMES.get(type(kernel))
    if names is None:
        return [not each.fixed for each in kernel.hyperparameters]
    # A pair of bounds, several of them, or the word "fixed".
    return [not isinstance(getattr(kernel, f"{name}_bounds"), str) for name in names]


def n_free(kernel: Any) -> int:
    """Length of ``kernel.theta``."""
    if type(kernel) in _OPERATORS:
        return n_free(kernel.k1) + n_free(kernel.k2)
    if type(kernel) in _WRAPPERS:
        return n_free(kernel.kernel)
    names = NAMES.get(type(kernel))
    if names is None:
        return int(kernel.n_dims)
    free = zip(names, free_parameters(kernel), strict=True)
    return sum(np.size(getattr(kernel, name)) for name, is_free in free if is_free)


def theta_of(kernel: Any) -> FloatArray:
    """``kernel.theta``: logarithms of the free hyperparameters."""
    if type(kernel) in _OPERATORS:
        return np.concatenate([theta_of(kernel.k1), theta_of(kernel.k2)])
    if type(kernel) in _WRAPPERS:
        return theta_of(kernel.kernel)
    names = NAMES.get(type(kernel))
    if names is None:
        return np.asarray(kernel.theta)
    free = zip(names, free_parameters(kernel), strict=True)
    values = [np.ravel(getattr(kernel, name)) for name, is_free in free if is_free]
    return np.log(np.concatenate(values)) if values else np.empty(0)


def kernel_at(kernel: Any, theta: FloatArray) -> Any:
    """The kernel with other free hyperparameters, of which ``theta`` has the logarithms."""
    kind = type(kernel)
    if kind in _OPERATORS:
        n = n_free(kernel.k1)
        return _with(kernel, k1=kernel_at(kernel.k1, theta[:n]), k2=kernel_at(kernel.k2, theta[n:]))
    if kind in _WRAPPERS:
        return _with(kernel, kernel=kernel_at(kernel.kernel, theta))
    if kind not in NAMES:
        return kernel.clone_with_theta(theta)
    values, start = np.exp(theta), 0
    changed = {}
    for name, is_free in zip(NAMES[kind], free_parameters(kernel), strict=True):
        size = np.size(getattr(kernel, name))
        if is_free:
            changed[name] = values[start : start + size] if size > 1 else values[start]
            start += size
    return _with(kernel, **changed)


def tells_copies_apart(kernel: Any, row: FloatArray) -> bool:
    """Whether equal rows have different latent values, as under white noise; ``row`` is any."""
    kind = type(kernel)
    if kind in _OPERATORS:
        return any(tells_copies_apart(part, row) for part in (kernel.k1, kernel.k2))
    if kind is PerColumn:
        return tells_copies_apart(kernel.kernel, row)
    if kind in NAMES:
        return kind is sk.WhiteKernel
    return bool(kernel(row)[0, 0] != kernel(row, row)[0, 0])


def _with(kernel: Any, /, **parameters: Any) -> Any:
    """A copy of a kernel with other parameters."""
    found = object.__new__(type(kernel))
    vars(found).update(vars(kernel))
    vars(found).update(parameters)
    return found
