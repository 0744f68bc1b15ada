"""All the linear algebra: a Gaussian prior conditioned on Gaussian sites.

It has two forms, which nobody outside sees: `observation_space` and `latent_space`.
"""

from collections.abc import Callable

import numpy as np

from ordinalgp._typing import FloatArray
from ordinalgp.core.latent_space import LatentSpacePosterior
from ordinalgp.core.linalg import Workspace, square_root
from ordinalgp.core.observation_space import ObservationSpacePosterior
from ordinalgp.core.posterior import Copies, Moments, Posterior, Preconditioner, Sites
from ordinalgp.core.projections import Projection

__all__ = ["Moments", "Posterior", "Preconditioner", "Sites", "condition"]


def condition(
    K: FloatArray,
    projection: Projection,
    sites: Sites,
    counts: FloatArray | None = None,
    prior_mean: FloatArray | None = None,
    workspace: Workspace | None = None,
    root: Callable[[], FloatArray] | None = None,
) -> Posterior:
    """Condition f ~ N(prior_mean, K) on ``counts`` copies of each site.

    With ``workspace``, the next posterior may be written over this one. ``root`` gives the square
    root of K, where it is known from before.
    """
    distinct, where = projection.distinct
    counts = np.ones_like(sites.tau) if counts is None else counts
    copies = Copies(counts, where, distinct.shape[0])
    posterior: Posterior
    if distinct.shape[0] <= distinct.shape[1]:
        posterior = ObservationSpacePosterior(K, distinct, copies, sites, prior_mean, workspace)
    else:
        F = square_root(K) if root is None else root()
        posterior = LatentSpacePosterior(K, F, distinct, copies, sites, prior_mean)
    if workspace is not None:
        # Not the posterior itself, which holds the workspace.
        workspace.preconditioner = posterior.preconditioner
    return posterior
