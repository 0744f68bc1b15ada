"""The models that a mixture has by default.

They were chosen by the scores of mixtures on data that no reported table has: white wine, income
brackets (marketing), bank queues, Stamey's prostate data, bitterness of wine, verbal aggression,
other questions of the two surveys, other columns of known tables as targets, and generated
functions (Friedman's, additive, weak linear signals among many columns, rules of nominal columns,
products, sparse, noise that varies).

``benchmarks/other_tasks.py`` has 54 of these tasks, and ``benchmarks/mixture.py`` repeats choices.

On 31 sets of 30 to 300 rows, the linear model and a smooth sequential model without a linear part
lower the mean log score by .009, error rate by .003 and absolute error by .008. On 32 such sets a
prior on the gaps between thresholds lowers the log score by .004, and prior weights of 3 for each
threshold model by .008 more; error rates fall by .003 and absolute errors by .002 together.

The sharp models have a wide prior on length scales. On these sets that raises the log score by up
to .12; on five sets without noise it lowers error rates from .016 to .014. Hence they are fitted
only where left-out rows are almost certain. Models of learned directions overfit noise as well. On
seven rules without noise they lower the log score from .0158 to .0155, and the absolute error
averaged over levels from .017 to .015.
"""

from functools import partial
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern

from ordinalgp._typing import IntArray
from ordinalgp.gp import OrdinalGPClassifier
from ordinalgp.hyperpriors import HyperPrior
from ordinalgp.kernels import Additive, Exponential, Projected
from ordinalgp.kernels.per_column import per_column
from ordinalgp.sequential import SequentialOrdinalGP
from ordinalgp.stacking.inputs import View

# Views of the inputs, standardised unless said otherwise here.
VIEWS: dict[str, View] = {
    "rough thresholds": "normal scores",
    "rough sequential": "normal scores",
}
_BOUNDS = (1e-2, 1e4)
_MOST_DIRECTED = 300  # features whose directions are learned: a matrix of that many rows
# On a grid of four columns without noise, a bound of 0.003 has a log score of .022 where 0.03 has
# .028; without any bound it is no better (.022), and EP becomes slow.
_NOISE = (0.003, 30.0)
# Log length scales around their mean, and log noise around one half, as chosen on other data.
_HALF = float(np.log(0.5))
_PRIOR = HyperPrior(length_scales=0.5, noise=(_HALF, 1.0))
_PRIOR_OF_THRESHOLDS = HyperPrior(length_scales=0.5, noise=(_HALF, 1.0), gaps=0.5)
_PRIOR_OF_STEPS = HyperPrior(length_scales=0.5, noise=(_HALF, 2.0))
_WIDE_PRIOR = HyperPrior(length_scales=1.0, noise=(_HALF, 2.0))

DIRECTED = ("directed thresholds", "directed sequential")
"""models that learn directions of the inputs, the first one for both"""
SHARP = ("sharp thresholds", "sharp sequential", *DIRECTED)
"""models for rows almost without noise"""
# Few rows cannot tell whether sequential models, with more parameters, are better.
_THRESHOLDS = ("smooth thresholds", "rough thresholds", "additive thresholds", "linear thresholds")
PRIOR_WEIGHTS = dict.fromkeys(_THRESHOLDS, 3.0) | dict.fromkeys(SHARP, 6.0)
"""weights in proportion, towards which the rows' are pulled; 1 for all others"""


def default_models(n_features: int, groups: IntArray | None = None) -> dict[str, Any]:
    """Threshold and sequential models with several kernels, by name, for standardised inputs.

    ``groups`` is the column of each feature, where several may belong to one.
    """
    d = n_features if groups is None else int(groups.max()) + 1
    one = np.ones(d) if d > 1 else 1.0  # one length scale per column
    linear = ConstantKernel(1 / d, (1e-4 / d, 1e4 / d)) * DotProduct(np.sqrt(d), "fixed")
    functions = ConstantKernel(1.0, (1e-4, 1e4)) * per_column(Additive(1.35, _BOUNDS), groups)
    rough = per_column(Matern(2 * np.sqrt(d) * one, _BOUNDS, nu=0.5), groups)
    steps = per_column(Exponential(2 * d * one, _BOUNDS), groups)
    additive = per_column(Additive(1.35 * one, _BOUNDS), groups)
    smooth = per_column(RBF(np.sqrt(d) * one, _BOUNDS), groups)
    isotropic = RBF(np.sqrt(d), _BOUNDS)
    thresholds = partial(OrdinalGPClassifier, hyperprior=_PRIOR_OF_THRESHOLDS)
    found: dict[str, Any] = {
        "smooth thresholds": OrdinalGPClassifier(isotropic, hyperprior=HyperPrior(None, gaps=0.5)),
        "rough thresholds": thresholds(rough + functions + linear),
        "additive thresholds": thresholds(additive),
        "linear thresholds": thresholds(linear),
        "smooth sequential": SequentialOrdinalGP(smooth, hyperprior=_PRIOR_OF_STEPS),
        "rough sequential": SequentialOrdinalGP(steps + linear, hyperprior=_PRIOR),
        "additive sequential": SequentialOrdinalGP(additive + linear, hyperprior=_PRIOR),
        "sharp thresholds": OrdinalGPClassifier(smooth, hyperprior=_WIDE_PRIOR),
        "sharp sequential": SequentialOrdinalGP(smooth, hyperprior=_WIDE_PRIOR),
    }
    if n_features <= _MOST_DIRECTED:
        directed = Projected(isotropic, np.eye(n_features))
        found["directed thresholds"] = OrdinalGPClassifier(directed, hyperprior=_WIDE_PRIOR)
        found["directed sequential"] = SequentialOrdinalGP(directed, hyperprior=_WIDE_PRIOR)
    return {name: model.set_params(noise_bounds=_NOISE) for name, model in found.items()}
