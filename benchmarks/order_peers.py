"""BoTorch's PairwiseGP on the pairs of Table 1, beside ours, in one run.

Needs an environment of its own with botorch and this package's dependencies; optional.
``python -m benchmarks.order_peers [dataset ...] [--repetitions 20]`` prints error and processor
time, both models fitted to the same pairs and tested on the same others. ``--settings more`` tries
other usual settings of BoTorch's too (``other``: these alone), ``--drawn`` takes the pairs of
``benchmarks.order_readings``.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from botorch.exceptions.errors import ModelFittingError
from botorch.fit import fit_gpytorch_mll
from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from linear_operator.utils.errors import NotPSDError
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.order_readings import disagreement, draw_with_replacement
from ordinalgp.benchmark.order import (
    PAIRS,
    PREFERENCES,
    draw_pairs,
    load_items,
    wrong_order,
)

Array = NDArray[np.float64]
Utility = Callable[[Array, Any], Array]


def botorch(X: Array, pairs: Any, covariance: Any = None, *, cube: bool = False) -> Array:
    """Posterior mean of PairwiseGP, hyperparameters by its own fit; None is its own kernel."""
    if cube:
        span = np.ptp(X, axis=0)
        X = (X - X.min(axis=0)) / np.where(span > 0, span, 1.0)
    inputs = torch.tensor(X, dtype=torch.double)
    model = PairwiseGP(inputs, torch.tensor(pairs.copy()), covar_module=covariance)
    fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
    with torch.no_grad():
        mean: Array = model.posterior(inputs).mean.squeeze(-1).numpy()
    return mean


def scaled(base: Any, length: float | None = None) -> Any:
    """A multiple of ``base`` without priors; from the paper's start where ``length`` is given."""
    kernel = ScaleKernel(base)
    if length is not None:
        kernel.outputscale, kernel.base_kernel.lengthscale = np.e, length
    return kernel


def botorch_isotropic(X: Array, pairs: Any) -> Array:
    """The kernel of the paper and its start: gamma = e, squared length scale d."""
    return botorch(X, pairs, scaled(RBFKernel(), np.sqrt(X.shape[1])))


def ours(X: Array, pairs: Any) -> Array:
    """EP with the same kernel."""
    return PREFERENCES["gpep2"].build(0, X.shape[1]).fit(X, pairs).predict(X)


def ours_own(X: Array, pairs: Any) -> Array:
    """EP with a term for what is particular to each item."""
    return PREFERENCES["gpep2-own"].build(0, X.shape[1]).fit(X, pairs).predict(X)


MODELS = {
    "BoTorch, defaults": botorch,
    "BoTorch, kernel of the paper": botorch_isotropic,
    "ordinalgp, kernel of the paper": ours,
    "ordinalgp, and own": ours_own,
}
MORE = {
    "BoTorch, unit cube, defaults": lambda X, p: botorch(X, p, cube=True),
    "BoTorch, kernel of the paper, its own start": lambda X, p: botorch(X, p, scaled(RBFKernel())),
    "BoTorch, unit cube, kernel of the paper": lambda X, p: botorch(
        X, p, scaled(RBFKernel()), cube=True
    ),
    "BoTorch, length scales without a prior": lambda X, p: botorch(
        X, p, scaled(RBFKernel(ard_num_dims=X.shape[1]), np.sqrt(X.shape[1]))
    ),
    "BoTorch, unit cube, length scales without a prior": lambda X, p: botorch(
        X, p, scaled(RBFKernel(ard_num_dims=X.shape[1])), cube=True
    ),
    "BoTorch, Matern 5/2": lambda X, p: botorch(X, p, scaled(MaternKernel(nu=2.5))),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("datasets", nargs="*", default=list(PAIRS))
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--pairs", type=int, help="instead of the number of Table 1")
    parser.add_argument("--settings", choices=("usual", "more", "other"), default="usual")
    parser.add_argument("--drawn", action="store_true", help="pairs drawn with replacement")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    seeds = range(options.first, options.first + options.repetitions)
    models = {"usual": MODELS, "more": MODELS | MORE, "other": MORE}[options.settings]
    tested = "pairs drawn with replacement" if options.drawn else "other pairs"
    print(f"| data | model | repetitions | error %, {tested} | processor time, s |")
    print("|---|---|---|---|---|")
    for name in options.datasets:
        X, y = load_items(name)
        m = options.pairs or PAIRS[name][0]
        for label, utility in models.items():
            begin = time.process_time()
            with threadpool_limits(1):
                found = [error(utility, X, y, m, seed, drawn=options.drawn) for seed in seeds]
            seconds = (time.process_time() - begin) / len(found)
            errors = 100 * np.array([e for e in found if e is not None])
            figures = f"{errors.mean():.2f}±{errors.std():.2f}" if len(errors) else "fails"
            print(f"| {name} | {label} | {len(errors)} | {figures} | {seconds:.2f} |", flush=True)


def error(utility: Utility, X: Array, y: Array, m: int, seed: int, *, drawn: bool) -> float | None:
    """Share of test pairs in the wrong order after ``m`` training pairs; None if the fit fails."""
    train, test = (draw_with_replacement if drawn else draw_pairs)(y, m, seed)
    try:
        found = utility(X, train)
    except (ModelFittingError, NotPSDError):
        return None
    return disagreement(found, y, test) if drawn else wrong_order(found, test)


if __name__ == "__main__":
    main()
