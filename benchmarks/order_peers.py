"""BoTorch's PairwiseGP on the pairs of Table 1, beside ours, in one run.

Needs an environment of its own with botorch and this package's dependencies; optional.
``python -m benchmarks.order_peers [dataset ...] [--repetitions 20]`` prints error and processor
time, both models fitted to the same pairs and tested on the same others.
"""

import argparse
import time
import warnings
from typing import Any

import numpy as np
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood
from gpytorch.kernels import RBFKernel, ScaleKernel
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ordinalgp.benchmark.order import (
    PAIRS,
    PREFERENCES,
    draw_pairs,
    load_items,
    wrong_order,
)

Array = NDArray[np.float64]


def botorch_default(X: Array, pairs: Any, covariance: Any = None) -> Array:
    """Posterior mean of PairwiseGP with its defaults, hyperparameters by its own fit."""
    inputs = torch.tensor(X, dtype=torch.double)
    model = PairwiseGP(inputs, torch.tensor(pairs.copy()), covar_module=covariance)
    fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
    with torch.no_grad():
        mean: Array = model.posterior(inputs).mean.squeeze(-1).numpy()
    return mean


def botorch_isotropic(X: Array, pairs: Any) -> Array:
    """PairwiseGP with the kernel of the paper and its start: gamma = e, squared length scale d."""
    kernel = ScaleKernel(RBFKernel())
    kernel.outputscale, kernel.base_kernel.lengthscale = np.e, np.sqrt(X.shape[1])
    return botorch_default(X, pairs, kernel)


def ours(X: Array, pairs: Any) -> Array:
    """EP with the same kernel."""
    return PREFERENCES["gpep2"].build(0, X.shape[1]).fit(X, pairs).predict(X)


def ours_own(X: Array, pairs: Any) -> Array:
    """EP with a term for what is particular to each item."""
    return PREFERENCES["gpep2-own"].build(0, X.shape[1]).fit(X, pairs).predict(X)


MODELS = {
    "BoTorch, defaults": botorch_default,
    "BoTorch, kernel of the paper": botorch_isotropic,
    "ordinalgp, kernel of the paper": ours,
    "ordinalgp, and own": ours_own,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("datasets", nargs="*", default=list(PAIRS))
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--pairs", type=int, help="instead of the number of Table 1")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print("| data | model | repetitions | error %, other pairs | processor time, s |")
    print("|---|---|---|---|---|")
    for name in options.datasets:
        X, y = load_items(name)
        for label, utility in MODELS.items():
            errors, begin = [], time.process_time()
            with threadpool_limits(1):
                for seed in range(1, options.repetitions + 1):
                    train, test = draw_pairs(y, options.pairs or PAIRS[name][0], seed)
                    errors.append(100 * wrong_order(utility(X, train), test))
            seconds = (time.process_time() - begin) / len(errors)
            figures = f"{np.mean(errors):.2f}±{np.std(errors):.2f} | {seconds:.2f}"
            print(f"| {name} | {label} | {len(errors)} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
