"""Inducing points: a few inputs whose latent values carry what many rows say.

With K_zz = L L' and u = L^-1 f(Z) ~ N(0, I), a row sees a'u with a = L^-1 k_z(x), and what a
misses of its prior variance, the residual k(x, x) - |a|^2, joins the noise of its likelihood. This
is FITC [Snelson06]_: rows are independent given u, each with its own residual variance.

Laplace integrates out the residual before it looks for a mode: it expands around the mode of u
under the likelihood with the residual in its noise, not around that of the rows' latent values. The
mode, and the evidence, are those of FITC's model with this wider likelihood. EP has no such choice:
its cavity adds the residual to its variance, which gives the same moments either way.

EP and Laplace are in precision form: sums over chunks of rows, sites beside their rows.
The posterior of the whitened inducing values u has precision I + sum tau_i a_i a_i' = S S' and
shift sum nu_i a_i. A sweep reads every chunk once and returns sums of order m^2, which add: a chunk
may be a slice, a file, or a worker of a cluster.

A sweep works in the coordinates of the posterior that it begins with, h = S^-1 a = (L S)^-1 k_z(x):
one triangular product gives the marginals (|h|^2 is the variance) and the sum of tau h h', which
S ... S' turns back. The residual k(x, x) - |a|^2 asks for a itself, but never changes while the
kernel stays: it is computed in the first sweep and kept with the sites.
"""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.linalg import blas

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.ep import cavities, lacks_cavity
from ordinalgp.core.gaussian import Moments, Sites
from ordinalgp.core.hyperparameters import n_free
from ordinalgp.core.kernel_gradient import contract
from ordinalgp.core.kernel_matrix import cross_covariance, kernel_matrix
from ordinalgp.core.kernel_tiles import columns, strips, tiles
from ordinalgp.core.likelihoods import Smoothed, ThetaDerivatives, Thresholds
from ordinalgp.core.linalg import (
    factor_with_nugget,
    invert_lower,
    lower_factor,
    multiply_lower,
    multiply_upper,
    pivoted_cholesky,
)
from ordinalgp.core.objectives import site_share, with_determinant
from ordinalgp.core.problem import Smoothing, match


@dataclass(frozen=True, eq=False)
class WhitenedRows:
    """Rows as combinations of the whitened inducing values: g_i = a_i'u + residual noise."""

    A: FloatArray
    """(m, c): column i is a_i"""
    residual: FloatArray
    """(c,): prior variance that a_i misses, at least 0"""


@dataclass(frozen=True, eq=False)
class Inducing:
    """A kernel and its inducing points."""

    kernel: Any
    Z: FloatArray

    @cached_property
    def factor(self) -> FloatArray:
        """L with L L' = K_zz, plus the smallest nugget that makes it positive definite."""
        return factor_with_nugget(kernel_matrix(self.kernel, self.Z))

    @cached_property
    def inverse_factor(self) -> FloatArray:
        """L^-1, lower triangle."""
        return invert_lower(self.factor)

    def rows(self, X: FloatArray) -> WhitenedRows:
        """The basis at ``X``: O(c m^2)."""
        return self.whitened(cross_covariance(self.kernel, self.Z, X), self.kernel.diag(X))

    def whitened(self, cross: FloatArray, diag: FloatArray) -> WhitenedRows:
        """The basis from the cross-covariance (m, c) and the prior variances."""
        A = multiply_lower(self.inverse_factor, cross)
        return WhitenedRows(A, np.maximum(diag - squared_length(A), 0.0))

    def contract_rows(
        self, X: FloatArray, d_basis: FloatArray, d_residual: FloatArray
    ) -> FloatArray:
        """Gradient in kernel.theta of L through the rows' cross-covariances and variances.

        ``d_basis`` = dL/dA (m, c) with the residual's share in it, ``d_residual`` = dL/dr (c,).
        """
        d_cross = multiply_upper(self.inverse_factor.T, d_basis)
        among, pairs = tiles(self.kernel, X), tiles(self.kernel, X, self.Z)
        if among is None or pairs is None:
            return self._contract_slowly(X, d_cross, d_residual)
        total = np.zeros(n_free(self.kernel))
        for rows in strips(len(X)):
            total += among.sums((rows, rows), np.diag(d_residual[rows]))[1]
            upstream = np.ascontiguousarray(d_cross[:, rows].T)
            for part in columns(0, len(self.Z)):
                total += pairs.sums((rows, part), upstream[:, part])[1]
        return total

    def _contract_slowly(
        self, X: FloatArray, d_cross: FloatArray, d_residual: FloatArray
    ) -> FloatArray:
        """The same for any kernel.

        Both kinds of kernel values lie in the matrix of [X; Z] with itself; blocks of about m rows
        keep the unused part small.
        """
        m, total = len(self.Z), np.zeros(n_free(self.kernel))
        for i in range(0, len(X), m):
            part = slice(i, min(i + m, len(X)))
            c = part.stop - part.start
            upstream = np.zeros((c + m, c + m))
            upstream[:c, c:] = 0.5 * d_cross[:, part].T
            upstream[c:, :c] = 0.5 * d_cross[:, part]
            upstream.flat[: c * (c + m) : c + m + 1] = d_residual[part]
            total += contract(self.kernel, np.concatenate([X[part], self.Z]), upstream)
        return total

    def contract_points(self, H: FloatArray) -> FloatArray:
        """Gradient in kernel.theta through K_zz, where H = A dL/dA' summed over rows, (m, m).

        H is symmetric (nothing depends on the choice of L), so dL/dK_zz = -L^-T H L^-1 / 2.
        """
        half = blas.dtrsm(1.0, self.factor, np.asfortranarray(H), lower=1, trans_a=1)
        upstream = blas.dtrsm(-0.5, self.factor, half, lower=1, side=1)
        upstream = np.ascontiguousarray((upstream + upstream.T) / 2)
        return contract(self.kernel, self.Z, upstream)


def squared_length(A: FloatArray) -> FloatArray:
    """|a|^2 of every column a."""
    return np.einsum("mc,mc->c", A, A)


def greedy_points(kernel: Any, X: FloatArray, m: int, enough: float = 0.0) -> IntArray:
    """Up to m rows, each where the others leave most prior variance (pivoted Cholesky).

    Fewer where they leave no more than ``enough`` at any row of ``X``, but at least one: without
    signal the noise exceeds all of the prior variance, and the posterior is that of one value.
    """
    diag = kernel.diag(X)
    found = pivoted_cholesky(lambda i: kernel(X[i : i + 1], X)[0], diag, m, enough).pivots
    return found if len(found) else np.array([np.argmax(diag)], dtype=np.intp)


@dataclass(frozen=True, eq=False)
class SweepSums:
    """Sums of a sweep over rows; all that travels between chunks."""

    precision: FloatArray
    """sum tau h h', (m, m)"""
    shift: FloatArray
    """sum nu h, (m,)"""
    evidence: float
    """the rows' part of the log evidence, under the sites that the sweep began with"""
    slopes: FloatArray
    """its slopes in likelihood.theta and in log c, where residuals become r / c^2, (p + 1,)"""
    information: FloatArray
    """sum of the rows' squared slopes, (p + 1, p + 1): minus the second derivative, nearly"""
    coupling: FloatArray
    """sum of (slopes of d log Z / dmean) h': how they move with the latent values, (p + 1, m)"""
    pull: FloatArray
    """sum of (var d3 / 2) h, (m,): where Laplace's determinant draws the mode; 0 under EP"""
    weight: FloatArray
    """sum tau h, (m,)"""
    totals: FloatArray
    """sums of tau, of nu and of var d3 / 2, (3,)"""
    without_cavity: int = 0
    """number of rows whose weight below one leaves them no cavity"""

    def __add__(self, other: "SweepSums") -> "SweepSums":
        names = [field.name for field in fields(self)]
        return SweepSums(**{name: getattr(self, name) + getattr(other, name) for name in names})


@dataclass(frozen=True, eq=False)
class PosteriorView:
    """The part of the posterior that a worker needs to process rows: moments of a'u by h."""

    kernel: Any
    Z: FloatArray
    basis: FloatArray
    """L^-1, which takes k_z(x) to a"""
    whitener: FloatArray
    """(L S)^-1, which takes k_z(x) to h"""
    centre: FloatArray
    """the mean of a'u is h'centre"""

    def view(self) -> "PosteriorView":
        """The view itself; see :meth:`InducedPosterior.view`."""
        return self

    def project(self, X: FloatArray, residual: FloatArray | None = None) -> WhitenedRows:
        """h of every row, and its residual: as given, or computed for as much again."""
        cross = cross_covariance(self.kernel, self.Z, X)
        if residual is None:
            seen = squared_length(multiply_lower(self.basis, cross))
            residual = np.maximum(self.kernel.diag(X) - seen, 0.0)
        return WhitenedRows(multiply_lower(self.whitener, cross), residual)

    def marginal(self, view: WhitenedRows) -> Moments:
        """Moments of a'u for each row."""
        var = squared_length(view.A)
        return Moments(self.centre @ view.A, np.maximum(var, np.finfo(float).tiny))


@dataclass(frozen=True, eq=False)
class InducedPosterior:
    """N(u; mean, precision^-1) and with it the latent function everywhere."""

    inducing: Inducing
    precision: FloatArray
    """I + sum tau a a', (m, m)"""
    shift: FloatArray

    @classmethod
    def prior(cls, inducing: Inducing) -> Self:
        """Before any row was seen."""
        m = len(inducing.Z)
        return cls(inducing, np.eye(m), np.zeros(m))

    def after(self, sums: SweepSums) -> Self:
        """The posterior under the sites that a sweep from here found."""
        return self.prior(self.inducing).joined(*self.outward(sums))

    def outward(self, sums: SweepSums) -> tuple[FloatArray, FloatArray]:
        """A sweep's sums of tau h h' and nu h as those of tau a a' and nu a."""
        half = multiply_lower(self.factor, sums.precision)
        return multiply_lower(self.factor, half.T), self.factor @ sums.shift

    def joined(self, precision: FloatArray, shift: FloatArray) -> Self:
        """The posterior with further sites, whose sums are given."""
        total = self.precision + precision
        return replace(self, precision=(total + total.T) / 2, shift=self.shift + shift)

    def given(self, rows: WhitenedRows, sites: Sites, counts: FloatArray) -> Self:
        """The posterior with further sites at ``rows`` of the inducing points."""
        weighted = rows.A * (counts * sites.tau)
        return self.joined(weighted @ rows.A.T, rows.A @ (counts * sites.nu))

    def shifted(self, further: FloatArray) -> Self:
        """The posterior after its sites moved, so that sum nu a grew by so much."""
        return replace(self, shift=self.shift + further)

    def rescaled(self, log_scale: float) -> Self:
        """The posterior after its sites grew by a common scale: tau / c^2, nu / c."""
        square = np.exp(-2.0 * log_scale)
        precision = square * self.precision
        precision.flat[:: len(precision) + 1] += 1.0 - square
        return replace(self, precision=precision, shift=np.sqrt(square) * self.shift)

    @cached_property
    def factor(self) -> FloatArray:
        """S, the lower Cholesky factor of the precision."""
        return np.ascontiguousarray(lower_factor(self.precision.copy))

    @cached_property
    def inverse_factor(self) -> FloatArray:
        """S^-1."""
        return invert_lower(self.factor)

    @cached_property
    def centre(self) -> FloatArray:
        """S^-1 shift, the mean of S'u."""
        return self.inverse_factor @ self.shift

    @cached_property
    def mean(self) -> FloatArray:
        """Posterior mean of u."""
        return self.inverse_factor.T @ self.centre

    @property
    def half_log_det(self) -> float:
        """log |precision| / 2."""
        return float(np.sum(np.log(np.diagonal(self.factor))))

    def view(self) -> PosteriorView:
        """The part that workers need."""
        basis = self.inducing.inverse_factor
        whitener = multiply_lower(self.inverse_factor, basis)
        return PosteriorView(self.inducing.kernel, self.inducing.Z, basis, whitener, self.centre)

    def predict(self, K_cross: FloatArray, k_diag: FloatArray) -> Moments:
        """Latent moments at new points from their covariance (c, m) with the inducing points."""
        rows = self.inducing.whitened(np.asarray(K_cross).T, k_diag)
        H = multiply_lower(self.inverse_factor, rows.A)
        return Moments(self.centre @ H, squared_length(H) + rows.residual)

    def predict_covariance(self, K_cross: FloatArray, K_new: FloatArray) -> FloatArray:
        """Joint latent covariance of new points."""
        A = multiply_lower(self.inducing.inverse_factor, np.asarray(K_cross).T)
        H = multiply_lower(self.inverse_factor, A)
        return K_new - A.T @ A + H.T @ H

    def moved_from(self, other: "InducedPosterior") -> float:
        """Root mean square distance of the means, in this posterior's standard deviations."""
        move = self.factor.T @ (self.mean - other.mean)
        return float(np.sqrt(np.mean(move**2)))

    def __getstate__(self) -> dict[str, Any]:
        """State to be sent to workers: the factors are cheaper to compute than to send."""
        return {name: getattr(self, name) for name in ("inducing", "precision", "shift")}


@dataclass(frozen=True, eq=False)
class RowMoments:
    """A chunk's sites, where the likelihood was smoothed, and what it gave."""

    sites: Sites
    marginal: Moments
    at: Moments
    """cavity of a'u, or its posterior mean with no variance; without the residual"""
    smoothed: Smoothed


@dataclass(frozen=True, eq=False)
class ChunkObservations:
    """Levels, counts and likelihood of the rows of a chunk."""

    y: Any
    counts: FloatArray
    likelihood: Thresholds
    smoothing: Smoothing = "cavity"

    def survey(self, rows: WhitenedRows, sites: Sites, view: PosteriorView) -> RowMoments:
        """Smooth the likelihood of every row, its own site taken out (EP) or at the mean."""
        marginal = view.marginal(rows)
        if self.smoothing == "mode":
            at = Moments(marginal.mean, np.zeros_like(marginal.var))
        else:
            at = cavities(marginal, sites)
        smoothed = self.likelihood.log_expectation(self.y, at.mean, at.var + rows.residual)
        return RowMoments(sites, marginal, at, smoothed)

    def evidence(self, seen: RowMoments) -> float:
        """The rows' part of the log evidence: all but -half_log_det."""
        tau, nu, u = seen.sites.tau, seen.sites.nu, seen.marginal.mean
        if self.smoothing == "mode":  # the prior's part: |mean of u|^2 = sum of w_i a_i'u
            rest = -0.5 * (nu - tau * u) * u
        else:
            rest = site_share(seen.sites, u, seen.at)
        return float(self.counts @ (seen.smoothed.value + rest))

    def sums(self, rows: WhitenedRows, seen: RowMoments, new: Sites) -> SweepSums:
        """The sums over these rows: precision and shift of the new sites, the rest of the old."""
        counts, slopes = self.counts, self.slopes(rows, seen)
        total, pull = slopes.value, np.zeros_like(counts)
        if self.smoothing == "mode":
            total, tilt = with_determinant(slopes, seen.smoothed, seen.marginal.var)
            pull = counts * tilt
        half = rows.A * np.sqrt(counts * new.tau)
        alone = np.vstack([counts * new.tau, counts * new.nu, pull])
        thin = np.vstack([alone, counts * slopes.d1]) @ rows.A.T
        weight, shift, drawn = thin[:3]
        information = (slopes.value * counts) @ slopes.value.T
        by_theta = self.evidence(seen), total @ counts, information, thin[3:]
        # numpy sees that half @ half.T is symmetric.
        without = 0
        if self.smoothing == "cavity":
            without = int(lacks_cavity(counts, seen.marginal, seen.sites).sum())
        sums = drawn, weight, alone.sum(axis=1), without
        return SweepSums(half @ half.T, shift, *by_theta, *sums)

    def slopes(self, rows: WhitenedRows, seen: RowMoments) -> ThetaDerivatives:
        """Derivatives in likelihood.theta, and in log c, where residuals become r / c^2."""
        at, var, known = seen.at, seen.at.var + rows.residual, seen.smoothed
        by_theta = self.likelihood.theta_derivatives(self.y, at.mean, var, known)
        by_var = self.likelihood.variance_derivatives(self.y, at.mean, var, known)
        parts = ("value", "d1", "d2")
        pairs = ((getattr(by_theta, name), getattr(by_var, name)) for name in parts)
        return ThetaDerivatives(*(np.vstack([d, -2.0 * rows.residual * v]) for d, v in pairs))

    def sweep(
        self, rows: WhitenedRows, sites: Sites, view: PosteriorView, step: float = 1.0
    ) -> tuple[RowMoments, SweepSums]:
        """New sites for these rows, in their moments, and the sums; rows are those of the view."""
        seen = self.survey(rows, sites, view)
        new = sites.towards(match(seen.smoothed, seen.at), step)
        sums = self.sums(rows, seen, new)
        return replace(seen, sites=new), sums
