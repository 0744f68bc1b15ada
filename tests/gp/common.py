"""Data and models that the tests of the classifier share."""

import numpy as np
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from ordinalgp import OrdinalGPClassifier
from ordinalgp.kernels import ARDLinear

INFERENCES = ["ep", "laplace"]
LEVELS = ["low", "mid", "high"]  # alphabetical order is high, low, mid


def make_data(n=30, r=3, d=2, seed=0, noise=0.3):
    """Standard normal inputs, a curved latent function, levels of equal frequency."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    f = X[:, 0] + 0.5 * X[:, -1] ** 2 + noise * rng.normal(size=n)
    return X, np.searchsorted(np.quantile(f, np.arange(1, r) / r), f)


def quick(**options):
    """Return a model that keeps its kernel: for what does not depend on the search."""
    return OrdinalGPClassifier(**{"kernel": RBF(1.2), "optimizer": None, **options})


def in_levels(y):
    return np.array(LEVELS)[y]


KERNELS = {
    "default": None,
    "ard": RBF([0.8, 1.9]),
    "matern": ConstantKernel(1.7) * Matern([1.1, 0.6], nu=1.5) + WhiteKernel(0.2),
    "quadratic": RationalQuadratic(0.9, 1.4),
    "linear": ARDLinear([0.7, 0.2]),
    "polynomial": DotProduct(0.8) ** 2,
}


OBJECTIVES = [("ep", "evidence"), ("laplace", "evidence"), ("ep", "bound")]
