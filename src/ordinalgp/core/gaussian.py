"""All the linear algebra: a Gaussian prior conditioned on Gaussian sites.

Two forms, which nobody outside sees: `few_projections` and `many_projections`.
"""

from collections.abc import Callable

import numpy as np

from ordinalgp._typing import FloatArray
from ordinalgp.core.few_projections import FewProjections
from ordinalgp.core.many_projections import ManyProjections
from ordinalgp.core.posterior import Copies, Moments, Posterior, Preconditioner, Sites
from ordinalgp.core.projections import Projection
from ordinalgp.core.room import Room
from ordinalgp.core.triangle import Triangle, lower_factor, mirrored, square_root

__all__ = [
    "Moments",
    "Posterior",
    "Preconditioner",
    "Sites",
    "Triangle",
    "condition",
    "lower_factor",
    "mirrored",
    "square_root",
]


def condition(
    K: FloatArray,
    projection: Projection,
    sites: Sites,
    counts: FloatArray | None = None,
    prior_mean: FloatArray | None = None,
    room: Room | None = None,
    root: Callable[[], FloatArray] | None = None,
) -> Posterior:
    """Condition f ~ N(prior_mean, K) on ``counts`` copies of each site.

    With ``room``, the next posterior may be written over this one. ``root`` gives the square root
    of K, where it is known from before.
    """
    distinct, where = projection.distinct
    counts = np.ones_like(sites.tau) if counts is None else counts
    copies = Copies(counts, where, distinct.shape[0])
    posterior: Posterior
    if distinct.shape[0] <= distinct.shape[1]:
        posterior = FewProjections(K, distinct, copies, sites, prior_mean, room)
    else:
        F = square_root(K) if root is None else root()
        posterior = ManyProjections(K, F, distinct, copies, sites, prior_mean)
    if room is not None:
        room.preconditioner = posterior.preconditioner  # not the posterior, which holds the room
    return posterior
