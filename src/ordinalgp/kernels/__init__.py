"""Kernels of the papers that scikit-learn does not have.

All are ordinary scikit-learn kernels: they add, multiply, exponentiate and clone like the others.
"""

from ordinalgp.kernels._classes import Additive, ARDLinear, Correlation, Exponential, Independent
from ordinalgp.kernels.per_column import PerColumn
from ordinalgp.kernels.projected import Projected

__all__ = [
    "ARDLinear",
    "Additive",
    "Correlation",
    "Exponential",
    "Independent",
    "PerColumn",
    "Projected",
]
