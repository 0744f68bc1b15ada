"""The models that a mixture has by default."""

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from ordinalgp.gp import OrdinalGPClassifier
from ordinalgp.kernels import Additive, Exponential
from ordinalgp.sequential import SequentialOrdinalGP


def default_models(n_features: int, spread: float = 1.0) -> dict[str, Any]:
    """Threshold and sequential models with several kernels, by name.

    ``spread`` is the standard deviation of the features, to which the kernels are scaled.
    """
    bounds = 1e-5 * min(1.0, spread), 1e5 * max(1.0, spread)
    kernels = {
        "gaussian": RBF(spread * np.sqrt(n_features), bounds),
        "additive": Additive(spread, bounds),
        "exponential": Exponential(2 * spread * n_features, bounds),
    }
    found: dict[str, Any] = {}
    for name, kernel in kernels.items():
        found[f"{name} thresholds"] = OrdinalGPClassifier(kernel)
        found[f"{name} sequential"] = SequentialOrdinalGP(kernel)
    return found
