"""All the linear algebra: a Gaussian prior conditioned on Gaussian sites.

It has three forms, which nobody outside sees: `observation_space` and `latent_space`, and
`sparse_precision` for a prior that is nearly diagonal.
"""

from ordinalgp.core.latent_space import LatentSpacePosterior
from ordinalgp.core.observation_space import ObservationSpacePosterior
from ordinalgp.core.posterior import Moments, Posterior, Preconditioner, Prior, Sites
from ordinalgp.core.sparse_precision import DiagonalPlusLowRank, SparsePrecisionPosterior

__all__ = ["Moments", "Posterior", "Preconditioner", "Prior", "Sites", "condition"]


def condition(prior: Prior, sites: Sites) -> Posterior:
    """Condition the latent Gaussian on all copies of each site.

    With a workspace, the next posterior may be written over this one.
    """
    if isinstance(prior.K, DiagonalPlusLowRank):
        return SparsePrecisionPosterior(prior, sites)
    m, n = prior.projection.distinct[0].shape
    form = ObservationSpacePosterior if m <= n else LatentSpacePosterior
    posterior: Posterior = form(prior, sites)
    if prior.workspace is not None:
        # Not the posterior itself, which holds the workspace.
        prior.workspace.preconditioner = posterior.preconditioner
    return posterior
