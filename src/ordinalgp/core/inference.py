"""One loop for two approximations: match Gaussian sites to a smoothed likelihood.

Laplace smooths at the posterior mode, expectation propagation (EP) at the cavity. Nothing else
differs, except how a step is kept in check.
"""

import numpy as np

from ordinalgp.core.ep import propagate
from ordinalgp.core.laplace import climb
from ordinalgp.core.problem import Approximation, Problem, Smoothing, Start


def infer(
    problem: Problem,
    *,
    smoothing: Smoothing,
    start: Start | None = None,
    max_sweeps: int = 100,
    tol: float = 1e-6,
) -> Approximation:
    """Approximate the posterior; ``start`` is the answer to a similar problem."""
    if smoothing == "mode":
        return climb(problem, start, max_sweeps, tol)
    # Observations that count less than once can have improper cavities: no order of updates
    # helps there, and the search steps back from such hyperparameters by itself. Updates in turn
    # need the whole covariance, which a sparse problem is too large for.
    in_turn = isinstance(problem.K, np.ndarray) and not problem.has_parts
    return propagate(problem, start, max_sweeps, tol, in_turn=in_turn)
