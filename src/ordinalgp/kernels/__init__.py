"""The kernels of the papers that scikit-learn lacks.

All are ordinary scikit-learn kernels: they add, multiply, exponentiate and clone like the others.
"""

from ordinalgp.kernels._differences import Additive, Exponential, Independent
from ordinalgp.kernels._inner_products import ARDLinear, Correlation

__all__ = ["ARDLinear", "Additive", "Correlation", "Exponential", "Independent"]
