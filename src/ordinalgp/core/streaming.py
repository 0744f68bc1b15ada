"""EP and Laplace in precision form: sums over chunks of rows, sites beside their rows.

The posterior of the whitened inducing values u has precision I + sum tau_i a_i a_i' and shift
sum nu_i a_i. A sweep reads every chunk once and returns sums of order m^2, which add: a chunk may
be a slice, a file, or a worker of a cluster.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.linalg import blas, lapack

from ordinalgp._typing import FloatArray
from ordinalgp.core.ep import cavities
from ordinalgp.core.gaussian import Moments, Sites
from ordinalgp.core.inducing import Inducing, Rows, solve_lower
from ordinalgp.core.likelihoods import Likelihood, Smoothed
from ordinalgp.core.objectives import log_overlap
from ordinalgp.core.problem import Smoothing, match


@dataclass(frozen=True, eq=False)
class Sums:
    """What a sweep adds up over rows; all that travels between chunks."""

    precision: FloatArray
    """sum tau a a', lower triangle, (m, m)"""
    shift: FloatArray
    """sum nu a, (m,)"""
    evidence: float
    """the rows' part of the log evidence, under the sites that the sweep began with"""
    d_likelihood: FloatArray
    """its gradient in likelihood.theta, (p,)"""
    information: FloatArray
    """sum of the rows' squared gradients, (p, p): minus the second derivative, nearly"""
    weight: float

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(
            self.precision + other.precision,
            self.shift + other.shift,
            self.evidence + other.evidence,
            self.d_likelihood + other.d_likelihood,
            self.information + other.information,
            self.weight + other.weight,
        )

    @classmethod
    def zero(cls, m: int, p: int) -> Self:
        """The sums over no rows."""
        flat = np.zeros((m, m), order="F")
        return cls(flat, np.zeros(m), 0.0, np.zeros(p), np.zeros((p, p)), 0.0)


@dataclass(frozen=True, eq=False)
class InducedPosterior:
    """N(u; mean, precision^-1) and with it the latent function everywhere."""

    inducing: Inducing
    precision: FloatArray
    """I + sum tau a a', lower triangle, (m, m)"""
    shift: FloatArray

    @classmethod
    def prior(cls, inducing: Inducing) -> Self:
        """Before any row was seen."""
        m = len(inducing.Z)
        return cls(inducing, np.eye(m, order="F"), np.zeros(m))

    @classmethod
    def of(cls, inducing: Inducing, sums: Sums) -> Self:
        """The posterior under the sites that were summed."""
        precision = sums.precision.copy(order="F")
        precision.flat[:: len(precision) + 1] += 1.0
        return cls(inducing, precision, sums.shift)

    @cached_property
    def factor(self) -> FloatArray:
        """Lower Cholesky factor of the precision."""
        factor, info = lapack.dpotrf(self.precision, lower=1, clean=1)
        if info != 0:
            raise np.linalg.LinAlgError("the posterior precision is not positive definite")
        return np.asarray(factor)

    @cached_property
    def mean(self) -> FloatArray:
        """Posterior mean of u."""
        x, _ = lapack.dpotrs(self.factor, self.shift, lower=1)
        return np.asarray(x)

    @property
    def half_log_det(self) -> float:
        """log |precision| / 2."""
        return float(np.sum(np.log(np.diagonal(self.factor))))

    def marginal(self, rows: Rows) -> Moments:
        """Moments of a'u for each row."""
        half = solve_lower(self.factor, rows.A.copy(order="F"))
        var = np.einsum("mc,mc->c", half, half)
        return Moments(rows.A.T @ self.mean, np.maximum(var, np.finfo(float).tiny))

    def predict(self, K_cross: FloatArray, k_diag: FloatArray) -> Moments:
        """Latent moments at new points from their covariance (c, m) with the inducing points."""
        rows = self.inducing.whitened(np.array(K_cross), k_diag)
        seen = self.marginal(rows)
        return Moments(seen.mean, seen.var + rows.residual)

    def moved_from(self, other: "InducedPosterior") -> float:
        """Root mean square distance of the means, in this posterior's standard deviations."""
        move = blas.dtrmv(self.factor, self.mean - other.mean, lower=1, trans=1)
        return float(np.sqrt(np.mean(move**2)))


@dataclass(frozen=True, eq=False)
class Surveyed:
    """A chunk's sites, where the likelihood was smoothed, and what it gave."""

    sites: Sites
    marginal: Moments
    at: Moments
    """cavity of a'u, or its posterior mean with no variance; without the residual"""
    smoothed: Smoothed


@dataclass(frozen=True, eq=False)
class Observed:
    """Levels, counts and likelihood of the rows of a chunk."""

    y: Any
    counts: FloatArray
    likelihood: Likelihood
    smoothing: Smoothing = "cavity"

    def survey(self, rows: Rows, sites: Sites, posterior: InducedPosterior) -> Surveyed:
        """Smooth the likelihood of every row, its own site taken out (EP) or at the mean."""
        marginal = posterior.marginal(rows)
        if self.smoothing == "mode":
            at = Moments(marginal.mean, np.zeros_like(marginal.var))
        else:
            at = cavities(marginal, sites)
        smoothed = self.likelihood.log_expectation(self.y, at.mean, at.var + rows.residual)
        return Surveyed(sites, marginal, at, smoothed)

    def evidence(self, seen: Surveyed) -> float:
        """The rows' part of the log evidence: all but -half_log_det."""
        tau, nu, u = seen.sites.tau, seen.sites.nu, seen.marginal.mean
        if self.smoothing == "mode":  # the prior's part: |mean of u|^2 = sum of w_i a_i'u
            rest = -0.5 * (nu - tau * u) * u
        else:
            rest = 0.5 * nu * u - log_overlap(seen.sites, seen.at)
        return float(self.counts @ (seen.smoothed.value + rest))

    def sums(self, rows: Rows, seen: Surveyed, new: Sites) -> Sums:
        """The sums over these rows: precision and shift of the new sites, the rest of the old."""
        var = seen.at.var + rows.residual
        slopes = self.likelihood.theta_derivatives(self.y, seen.at.mean, var).value
        weighted = rows.A * np.sqrt(self.counts * new.tau)
        return Sums(
            blas.dsyrk(1.0, weighted, lower=1),
            rows.A @ (self.counts * new.nu),
            self.evidence(seen),
            slopes @ self.counts,
            (slopes * self.counts) @ slopes.T,
            float(np.sum(self.counts)),
        )

    def sweep(
        self, rows: Rows, sites: Sites, posterior: InducedPosterior, step: float = 1.0
    ) -> tuple[Surveyed, Sums]:
        """New sites for these rows (kept in the survey), and their sums."""
        seen = self.survey(rows, sites, posterior)
        target = match(seen.smoothed, seen.at)
        new = Sites(
            sites.tau + step * (target.tau - sites.tau), sites.nu + step * (target.nu - sites.nu)
        )
        sums = self.sums(rows, seen, new)
        return replace(seen, sites=new), sums
