"""Members of a Gaussian posterior, whatever form its linear algebra has."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Protocol, Self

import numpy as np

from ordinalgp._typing import FINITE, Axes, FloatArray, IntArray
from ordinalgp.core.linalg import Workspace, square_root
from ordinalgp.core.projections import Projection, sandwich


@dataclass(frozen=True)
class Moments:
    """Means and variances, elementwise."""

    mean: FloatArray
    var: FloatArray


@dataclass(frozen=True)
class Sites:
    """Gaussian factors exp(-tau u^2/2 + nu u), one copy of each observation."""

    tau: Annotated[FloatArray, Axes("M", 0.0, np.inf)]
    nu: Annotated[FloatArray, Axes("M", *FINITE)]

    @classmethod
    def flat(cls, m: int) -> "Sites":
        """Sites that say nothing."""
        return cls(np.zeros(m), np.zeros(m))

    def towards(self, target: "Sites", step: float) -> "Sites":
        """Sites a share ``step`` of the way to ``target``."""
        tau, nu = self.tau, self.nu
        return Sites(tau + step * (target.tau - tau), nu + step * (target.nu - nu))

    def rescaled(self, log_scale: float) -> "Sites":
        """The same sites of u exp(log_scale)."""
        return Sites(np.exp(-2.0 * log_scale) * self.tau, np.exp(-log_scale) * self.nu)


class Response(Protocol):
    """Reaction of the moments of u = A f to small changes of the sites."""

    def moments(self, d_tau: FloatArray, d_nu: FloatArray) -> Moments | None:
        """Moments of u under changed sites, one change per observation; None if they are too large.

        O(n^2).
        """


Preconditioner = Callable[[FloatArray], FloatArray]
"""v to (I + A' T A K)^-1 v, (N,), nearly where a site says nothing"""


class Posterior(Protocol):
    """N(f; mean, covariance), reached from the prior through the sites."""

    mean: FloatArray
    """posterior mean of f, (N,)"""
    weights: FloatArray
    """K^-1 (mean - prior mean) = A' w, (N,)"""
    half_log_det: float
    """log |I + P T| / 2"""
    definite: bool
    """whether I + P T stayed positive definite in spite of rounding"""

    def move(self, nu: FloatArray) -> None:
        """Set mean and weights for sites with these shifts; only for a posterior in the making."""

    def shifted(self, nu: FloatArray) -> Self:
        """The posterior under sites with the same precisions and other shifts: O(n^2)."""
        moved = object.__new__(type(self))
        vars(moved).update(vars(self))
        moved.move(nu)
        return moved

    def centred(self, weights: FloatArray, mean: FloatArray) -> Self:
        """The same covariance around another mean, which belongs to these weights."""
        moved = object.__new__(type(self))
        vars(moved).update(vars(self), weights=weights, mean=mean)
        return moved

    @property
    def preconditioner(self) -> Preconditioner | None:
        """The part that helps with a similar problem; none for few projections that are not f."""

    def observed(self) -> Moments:
        """Moments of u = A f, one per observation."""

    def response(self, known: Response | None = None) -> Response | None:
        """The reaction of u to changes of sites; None where it costs more than it gains.

        ``known`` is the response under similar sites, parts of which may be used again.
        """
        return None

    def covary(self, v: FloatArray) -> FloatArray:
        """The posterior covariance times v, (N,) or (N, k)."""
        return self.carry(v)[1]

    def carry(self, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(I + A' T A K)^-1 v and the posterior covariance times v, which share their work."""

    def inverse(self) -> FloatArray:
        """R = A' (P + T^-1)^-1 A, (N, N)."""

    def upper_inverse(self) -> FloatArray:
        """R at least on and above the diagonal, (N, N)."""
        return self.inverse()

    def predict(self, K_cross: FloatArray, k_diag: FloatArray) -> Moments:
        """Moments at new points, less their prior mean; K_cross is (n_new, N)."""

    def predict_covariance(self, K_cross: FloatArray, K_new: FloatArray) -> FloatArray:
        """Joint covariance of new points."""


@dataclass(frozen=True, eq=False)
class Copies:
    """Between observations, each made ``counts`` times, and the distinct projections they see."""

    counts: FloatArray
    where: IntArray | None
    size: int
    single: bool = False
    """whether every observation is the only one of its projection"""

    def merge(self, values: FloatArray) -> FloatArray:
        """Sum over all copies of each distinct projection."""
        if self.single:
            return values
        total = self.counts * values
        if self.where is None:
            return total
        return np.bincount(self.where, total, self.size).astype(float)

    def spread(self, values: FloatArray) -> FloatArray:
        """Hand each observation the value of its projection."""
        return values if self.where is None else values[self.where]


@dataclass(frozen=True, eq=False)
class Prior:
    """A latent Gaussian N(mean, K), and projections of it, each observed ``counts`` times."""

    K: Any
    """(N, N), or the parts of a `DiagonalPlusLowRank`"""
    projection: Projection
    counts: FloatArray
    mean: FloatArray | None = None
    """None: zero"""
    workspace: Workspace | None = None
    """memory that the next posterior may write over"""

    @cached_property
    def root(self) -> FloatArray:
        """Some F with K = F F'."""
        return square_root(self.K)

    @cached_property
    def distinct(self) -> tuple[Projection, Copies]:
        """Distinct projections, and the way to them from the observations."""
        distinct, where = self.projection.distinct
        single = where is None and bool((self.counts == 1.0).all())
        return distinct, Copies(self.counts, where, distinct.shape[0], single)

    @cached_property
    def projected(self) -> tuple[FloatArray, FloatArray]:
        """The prior of the distinct projections: their covariances A K A' and means, if any."""
        A = self.distinct[0]
        mean = np.zeros(A.shape[0]) if self.mean is None else A.apply(self.mean)
        return sandwich(A, self.K), mean
