"""Training objectives: evidence of Laplace and of EP, with gradients in K and the likelihood."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import numpy as np

from ordinalgp._typing import FloatArray
from ordinalgp.core.gaussian import Moments, Sites
from ordinalgp.core.likelihoods import Smoothed, ThetaDerivatives
from ordinalgp.core.linalg import mirrored
from ordinalgp.core.problem import Approximation, Problem

_STRIP = 64  # rows at a time that stay in the cache


class Upstream(Protocol):
    """A symmetric matrix dL/dK, (N, N)."""

    def meet(self, i: int, block: FloatArray) -> float:
        """Sum of the rows i.. from column i on, as many as ``block`` has, times the block.

        The block is zero below the diagonal, where nothing need be known of the matrix.
        """

    def strips(self) -> Iterator[tuple[slice, FloatArray]]:
        """Some rows at a time, as new arrays: from the diagonal on, both triangles added up.

        There are zeros below the diagonal.
        """

    def full(self) -> FloatArray:
        """The matrix itself; it may be written over what it was made of."""


def _once(strip: FloatArray) -> FloatArray:
    """Clear what is below the diagonal, and halve the diagonal, of twice a matrix."""
    n = len(strip)
    strip[:, :n] *= np.triu(np.ones((n, n))) - 0.5 * np.eye(n)
    return strip


def _ranges(n: int) -> Iterator[slice]:
    return (slice(i, min(i + _STRIP, n)) for i in range(0, n, _STRIP))


@dataclass(frozen=True, eq=False)
class UpperTriangle:
    """A matrix of which the upper triangle is at hand."""

    matrix: FloatArray

    def meet(self, i: int, block: FloatArray) -> float:
        """Sum of products."""
        return float(np.einsum("ij,ij->", self.matrix[i : i + len(block), i:], block))

    def strips(self) -> Iterator[tuple[slice, FloatArray]]:
        """Twice the upper triangle."""
        for rows in _ranges(len(self.matrix)):
            yield rows, _once(2.0 * self.matrix[rows, rows.start :])

    def full(self) -> FloatArray:
        """Fill in the other triangle."""
        return mirrored(self.matrix)


@dataclass(frozen=True, eq=False)
class LowRankMinusMatrix:
    """(left right - R) / 2 with left right of low rank, which need not be added up for a sum."""

    R: FloatArray
    """symmetric, its upper triangle in use"""
    left: FloatArray
    """(N, k)"""
    right: FloatArray
    """(k, N)"""

    @classmethod
    def of(
        cls, R: FloatArray, weights: FloatArray, mixed: FloatArray | None = None
    ) -> "LowRankMinusMatrix":
        """(w w' - R)/2, and (w c' + c w')/2 for ``mixed`` = c."""
        if mixed is None:
            return cls(R, weights[:, None], weights[None])
        return cls(R, np.column_stack([weights + mixed, weights]), np.vstack([weights, mixed]))

    def meet(self, i: int, block: FloatArray) -> float:
        """Sum of products with each part."""
        j = i + len(block)
        outer = np.vdot(self.left[i:j], block @ self.right[:, i:].T)
        return 0.5 * float(outer - np.einsum("ij,ij->", self.R[i:j, i:], block))

    def strips(self) -> Iterator[tuple[slice, FloatArray]]:
        """Twice the upper triangle, of the parts added up."""
        for rows in _ranges(len(self.R)):
            strip = self.left[rows] @ self.right[:, rows.start :]
            strip -= self.R[rows, rows.start :]
            yield rows, _once(strip)

    def full(self) -> FloatArray:
        """Add up the parts, written over R."""
        half = 0.5 * self.right
        for i in range(0, len(self.R), _STRIP):
            strip = self.R[i : i + _STRIP, i:]
            strip *= -0.5
            strip += self.left[i : i + _STRIP] @ half[:, i:]
        return mirrored(self.R)


Slopes = tuple[Upstream, FloatArray]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Value of an objective; its slopes are computed when they are asked for."""

    value: float
    approximation: Approximation
    slopes: Callable[[], Slopes]
    """dL/dK and dL/d likelihood.theta, (p,); to be called once"""

    @property
    def usable_value(self) -> float:
        """The value, or minus infinity where rounding left nothing of it: a search turns away."""
        return self.value if self.approximation.has_evidence else -np.inf

    @cached_property
    def _slopes(self) -> Slopes:
        return self.slopes()

    @property
    def d_likelihood(self) -> FloatArray:
        """dL/d likelihood.theta, (p,)."""
        return self._slopes[1]

    @property
    def upstream(self) -> Upstream:
        """dL/dK, before its parts are added up."""
        return self._slopes[0]

    @cached_property
    def d_kernel(self) -> FloatArray:
        """dL/dK, (N, N), symmetric."""
        return self.upstream.full()


def laplace_evidence(problem: Problem, found: Approximation) -> Evaluation:
    """Eq. (11) of [Chu05]_ with the gradients of App. A, mode shift included."""
    posterior, counts = found.posterior, problem.counts
    prior = 0.5 * posterior.weights @ problem.offset(posterior.mean)
    value = counts @ found.smoothed.value - prior - posterior.half_log_det
    # The factorisation is from one Newton step before the mode: its first-order change.
    value += 0.5 * (counts * found.marginal.var) @ (found.smoothed.d2 + found.sites.tau)
    return Evaluation(float(value), found, partial(_laplace_slopes, problem, found))


def _laplace_slopes(problem: Problem, found: Approximation) -> Slopes:
    posterior, counts, A = found.posterior, problem.counts, problem.projection
    theta = problem.theta_derivatives(found)
    # The log determinant depends on the mode; c carries that dependence back to K and theta.
    slopes, tilt = with_determinant(theta, found.smoothed, found.marginal.var)
    c, moved = posterior.carry(A.adjoint(counts * tilt))
    d_likelihood = slopes @ counts + theta.d1 @ (counts * A.apply(moved))
    R = posterior.upper_inverse()
    return LowRankMinusMatrix.of(R, posterior.weights, mixed=c), d_likelihood


def with_determinant(
    theta: ThetaDerivatives, smoothed: Smoothed, var: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Each row's slopes in theta of log p(y|u) - log |I + P T| / 2: at a fixed mode, and in it.

    Shapes (p, M) and (M,); ``var`` is the posterior variance of u.
    """
    return theta.value + 0.5 * theta.d2 * var, 0.5 * var * smoothed.d3


def site_share(sites: Sites, u: FloatArray, at: Moments) -> FloatArray:
    """Each row's share in the log integral of prior times sites, less that of cavity times site.

    ``u`` is the posterior mean, for a prior of mean zero; what remains is -half_log_det.
    """
    tau, nu, m, v = sites.tau, sites.nu, at.mean, at.var
    spread = 1.0 + tau * v
    overlap = 0.5 * ((nu * (nu * v + 2 * m) - tau * m**2) / spread - np.log(spread))
    return 0.5 * nu * u - overlap


def ep_value(problem: Problem, found: Approximation) -> float:
    """EP's approximate log evidence (App. B of [Chu05]_)."""
    sites, u, counts, h = found.sites, found.marginal.mean, problem.counts, problem.prior_mean
    # Log integral of prior times sites, minus that of each cavity times its site.
    total = counts @ site_share(sites, u, found.at) - found.posterior.half_log_det
    if h is not None:
        g0 = problem.projection.apply(h)
        total += 0.5 * counts @ (g0 * (sites.nu - sites.tau * u))
    return float(counts @ found.smoothed.value + total)


def ep_evidence(problem: Problem, found: Approximation) -> Evaluation:
    """EP's approximate evidence with its gradient, which is exact at the fixed point."""
    return Evaluation(ep_value(problem, found), found, partial(_ep_slopes, problem, found))


def _ep_slopes(problem: Problem, found: Approximation) -> Slopes:
    posterior = found.posterior
    upstream = LowRankMinusMatrix.of(posterior.upper_inverse(), posterior.weights)
    return upstream, problem.theta_derivatives(found).value @ problem.counts
