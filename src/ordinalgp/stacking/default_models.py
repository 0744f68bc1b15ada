"""The models that a mixture has by default."""

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern

from ordinalgp.gp import OrdinalGPClassifier
from ordinalgp.hyperpriors import HyperPrior
from ordinalgp.kernels import Additive, Exponential
from ordinalgp.sequential import SequentialOrdinalGP
from ordinalgp.stacking.inputs import View

# Views of the inputs, standardised unless said otherwise here.
VIEWS: dict[str, View] = {
    "rough thresholds": "normal scores",
    "rough sequential": "normal scores",
}
_BOUNDS = (1e-2, 1e4)
# Log length scales around their mean, and log noise around one half, as chosen on other data.
_PRIOR = HyperPrior(length_scales=0.5, noise=(float(np.log(0.5)), 1.0))


def default_models(n_features: int) -> dict[str, Any]:
    """Threshold and sequential models with several kernels, by name, for standardised inputs."""
    d = n_features
    one = np.ones(d) if d > 1 else 1.0  # one length scale per feature
    linear = ConstantKernel(1 / d, (1e-4 / d, 1e4 / d)) * DotProduct(np.sqrt(d), "fixed")
    functions = ConstantKernel(1.0, (1e-4, 1e4)) * Additive(1.35, _BOUNDS)
    rough = Matern(2 * np.sqrt(d) * one, _BOUNDS, nu=0.5)
    steps = Exponential(2 * d * one, _BOUNDS)
    additive = Additive(1.35 * one, _BOUNDS)
    return {
        "smooth thresholds": OrdinalGPClassifier(RBF(np.sqrt(d), _BOUNDS)),
        "rough thresholds": OrdinalGPClassifier(rough + functions + linear, hyperprior=_PRIOR),
        "additive thresholds": OrdinalGPClassifier(additive, hyperprior=_PRIOR),
        "rough sequential": SequentialOrdinalGP(steps + linear, hyperprior=_PRIOR),
        "additive sequential": SequentialOrdinalGP(additive + linear, hyperprior=_PRIOR),
    }
