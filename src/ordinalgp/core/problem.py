"""An inference problem, and the form of its answer."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ordinalgp._typing import BoolArray, FloatArray
from ordinalgp.core.gaussian import Moments, Posterior, Prior, Sites, condition
from ordinalgp.core.likelihoods import Likelihood, Smoothed, ThetaDerivatives
from ordinalgp.core.linalg import Workspace
from ordinalgp.core.projections import Projection

Smoothing = Literal["mode", "cavity"]
_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class Problem:
    """A latent Gaussian, what each observation sees of it, and what was observed."""

    K: Any
    """(N, N); EP, unless it updates sites in turn, also takes a `DiagonalPlusLowRank`"""
    projection: Projection
    y: Any
    likelihood: Likelihood
    counts: FloatArray
    prior_mean: FloatArray | None = None
    workspace: Workspace | None = None

    def condition(self, sites: Sites) -> Posterior:
        """Posterior under Gaussian sites."""
        return condition(self.prior, sites)

    @cached_property
    def prior(self) -> Prior:
        """The latent Gaussian and its projections."""
        return Prior(self.K, self.projection, self.counts, self.prior_mean, self.workspace)

    @cached_property
    def several(self) -> FloatArray | None:
        """The counts; None if they are all 1."""
        return None if (self.counts == 1.0).all() else self.counts

    @cached_property
    def copied(self) -> BoolArray | None:
        """Observations that were made more than once; None if there are none."""
        copied = self.counts > 1.0
        return copied if copied.any() else None

    @cached_property
    def has_parts(self) -> bool:
        """Whether some observations count less than once."""
        return bool(self.counts.min(initial=1.0) < 1.0)

    def offset(self, f: FloatArray) -> FloatArray:
        """Latent values less their prior mean, (N,)."""
        return f if self.prior_mean is None else f - self.prior_mean

    def smooth(self, at: Moments) -> Smoothed:
        """The smoothed log likelihood of every observation."""
        return self.likelihood.log_expectation(self.y, at.mean, at.var)

    def theta_derivatives(self, found: "Approximation") -> ThetaDerivatives:
        """Derivatives of the smoothed log likelihood in the likelihood's parameters."""
        at = found.at
        return self.likelihood.theta_derivatives(self.y, at.mean, at.var, found.smoothed)

    def smooth_some(self, rows: Any, at: Moments) -> Smoothed:
        """The same for some observations; a likelihood may know each of them by its place."""
        return self.likelihood.of_rows(rows).log_expectation(self.y[rows], at.mean, at.var)


@dataclass(frozen=True, eq=False)
class Start:
    """Warm start for a similar problem: small, so that it can be kept and sent."""

    sites: Sites
    weights: FloatArray


@dataclass(frozen=True, eq=False)
class Approximation:
    """A Gaussian posterior, the sites that made it, and how they were found."""

    posterior: Posterior
    sites: Sites
    marginal: Moments
    """posterior moments of u"""
    at: Moments
    """where the likelihood was smoothed: the mode with zero variance, or the cavity"""
    smoothed: Smoothed
    n_sweeps: int
    change: float
    """largest movement of a site in the last sweep, in posterior standard deviations"""
    converged: bool
    matched: Sites | None = None
    """sites that EP would have next, where one copy of each observation is alone"""
    has_cavities: bool = True
    """whether EP could remove one whole copy of every observation"""

    @property
    def has_evidence(self) -> bool:
        """Whether rounding left any digits of the evidence."""
        return self.converged or self.posterior.definite

    @property
    def start(self) -> Start:
        """Warm start for a similar problem."""
        return Start(self.sites, self.posterior.weights)


def match(smoothed: Smoothed, at: Moments) -> Sites:
    """Gaussian sites with the tilted distribution's first two moments."""
    # Log-concavity: 1 + v d2 > 0. What is smaller than a rounding error counts as one.
    scale = np.maximum(1.0 + at.var * smoothed.d2, _EPS)
    return Sites(-smoothed.d2 / scale, (smoothed.d1 - at.mean * smoothed.d2) / scale)
