"""All the linear algebra: a Gaussian prior conditioned on Gaussian sites.

Two forms, which nobody outside this module sees. With at most as many distinct
projections as latent values, factor B = I + S P S with P = A K A' and S = diag(sqrt(T));
with more, factor K = F F' and then I + F' (A' T A) F.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from scipy.linalg import lapack

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.projections import Identity, Projection, lift, sandwich, squared_lengths
from ordinalgp.core.room import Room, matrix

# Below this ratio of site precision to prior precision, (1 - [B^-1]_ii) / tau_i has lost
# four digits to cancellation and the variance is computed the other way.
_WEAK_SITE = 1e-4
_FAINT = 1e-6  # smallest share of the largest site's scale that a preconditioner divides by
_STRIP = 128  # rows at a time that stay in the cache


@dataclass(frozen=True)
class Moments:
    """Means and variances, elementwise."""

    mean: FloatArray
    var: FloatArray


@dataclass(frozen=True)
class Sites:
    """Gaussian factors exp(-tau u^2/2 + nu u), one copy of each observation."""

    tau: FloatArray
    nu: FloatArray

    @classmethod
    def flat(cls, m: int) -> "Sites":
        """Sites that say nothing."""
        return cls(np.zeros(m), np.zeros(m))

    def rescaled(self, log_scale: float) -> "Sites":
        """The same sites of u exp(log_scale)."""
        return Sites(np.exp(-2.0 * log_scale) * self.tau, np.exp(-log_scale) * self.nu)


def lower_factor(matrix: FloatArray, *, overwrite: bool = False) -> FloatArray:
    """The lower Cholesky factor; where it may overwrite, the other triangle is left as it is."""
    # A C-ordered symmetric matrix is its own Fortran-ordered transpose: no copy is made.
    options = {"overwrite_a": int(overwrite), "clean": int(not overwrite)}
    factor, info = lapack.dpotrf(matrix.T, lower=1, **options)
    if info != 0:
        raise np.linalg.LinAlgError(
            "the posterior precision is not positive definite; the kernel matrix holds "
            "non-finite values or is far from positive semi-definite"
        )
    return np.asarray(factor)


class Triangle:
    """Cholesky factor of a symmetric matrix that is given up, and then its inverse in place."""

    def __init__(self, matrix: FloatArray) -> None:
        factor = lower_factor(matrix, overwrite=True)
        self._lower: Any = factor
        self.half_log_det = float(np.sum(np.log(np.diagonal(factor))))

    @cached_property
    def inverse(self) -> FloatArray:
        """L^-1, written over L."""
        # A model read from a memory map must not be written to.
        overwrite = int(self._lower.flags.writeable)
        inverse, _ = lapack.dtrtri(self._lower, lower=1, overwrite_c=overwrite)
        self._lower = None
        _clear_lower(inverse.T)
        return inverse

    def solve(self, b: FloatArray) -> FloatArray:
        """(L L')^-1 b."""
        if self._lower is None:
            return self.inverse.T @ (self.inverse @ b)
        x, _ = lapack.dpotrs(self._lower, b, lower=1)
        return np.asarray(x)

    def half_solve(self, b: FloatArray) -> FloatArray:
        """L^-1 b, before the inverse has taken the factor's place."""
        x, _ = lapack.dtrtrs(self._lower, b, lower=1)
        return np.asarray(x)

    def full_inverse(self, scale: FloatArray | float = 1.0, room: Room | None = None) -> FloatArray:
        """S (L L')^-1 S as a full symmetric matrix, S = diag(scale)."""
        half = matrix(room, "inverse", len(self.inverse)).T
        np.multiply(self.inverse, scale, out=half)
        half, _ = lapack.dlauum(half, lower=1, overwrite_c=1)
        return mirrored(half.T)  # the upper triangle, in C order


class Preconditioner(Protocol):
    """The inverse of I + A' T A K, nearly where a site says nothing."""

    def without_sites(self, v: FloatArray) -> FloatArray:
        """(I + A' T A K)^-1 v, (N,)."""


@dataclass(frozen=True, eq=False)
class _ScaledInverse:
    """(I + T K)^-1 = S B^-1 S^-1, without anything else that a posterior holds."""

    S: FloatArray
    triangle: Triangle

    def without_sites(self, v: FloatArray) -> FloatArray:
        S = np.maximum(self.S, max(_FAINT * np.max(self.S), np.finfo(float).tiny))
        return S * self.triangle.solve(v / S)


class Posterior(Protocol):
    """N(f; mean, covariance), reached from the prior through the sites."""

    mean: FloatArray
    """posterior mean of f, (N,)"""
    weights: FloatArray
    """K^-1 (mean - prior mean) = A' w, (N,)"""
    half_log_det: float
    """log |I + P T| / 2"""

    def shifted(self, nu: FloatArray) -> Self:
        """The posterior under sites with the same precisions and other shifts: O(n^2)."""

    @property
    def preconditioner(self) -> "Preconditioner | None":
        """What is left of it for a similar problem; none for few projections that are not f."""

    def observed(self) -> Moments:
        """Moments of u = A f, one per observation."""

    def covary(self, v: FloatArray) -> FloatArray:
        """The posterior covariance times v, (N,) or (N, k)."""

    def inverse(self) -> FloatArray:
        """A' (P + T^-1)^-1 A, (N, N)."""

    def predict(self, K_cross: FloatArray, k_diag: FloatArray) -> Moments:
        """Moments at new points, less their prior mean; K_cross is (n_new, N)."""

    def predict_covariance(self, K_cross: FloatArray, K_new: FloatArray) -> FloatArray:
        """Joint covariance of new points."""


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
    copies = _Copies(counts, where, distinct.shape[0])
    posterior: Posterior
    if distinct.shape[0] <= distinct.shape[1]:
        posterior = _FewProjections(K, distinct, copies, sites, prior_mean, room)
    else:
        F = square_root(K) if root is None else root()
        posterior = _ManyProjections(K, F, distinct, copies, sites, prior_mean)
    if room is not None:
        room.preconditioner = posterior.preconditioner  # not the posterior, which holds the room
    return posterior


@dataclass(frozen=True, eq=False)
class _Copies:
    """Between observations, each made ``counts`` times, and the distinct projections they see."""

    counts: FloatArray
    where: IntArray | None
    size: int

    def merge(self, values: FloatArray) -> FloatArray:
        total = self.counts * values
        if self.where is None:
            return total
        return np.bincount(self.where, total, self.size).astype(float)

    def spread(self, values: FloatArray) -> FloatArray:
        return values if self.where is None else values[self.where]


class _FewProjections:
    """Posterior in the space of observations: B = I + S P S."""

    def __init__(
        self,
        K: FloatArray,
        A: Projection,
        copies: _Copies,
        sites: Sites,
        prior_mean: FloatArray | None,
        room: Room | None,
    ) -> None:
        self._A, self._K, self._copies, self._room = A, K, copies, room
        self._h = prior_mean
        self._g0 = np.zeros(A.shape[0]) if prior_mean is None else A.apply(prior_mean)
        self._P = P = sandwich(A, K)
        self._T = copies.merge(sites.tau)
        self._S = S = np.sqrt(self._T)
        self._triangle = Triangle(_scaled(P, S, matrix(room, "factor", len(P))))
        self.half_log_det = self._triangle.half_log_det
        self._move(sites.nu)

    def _move(self, nu: FloatArray) -> None:
        w = self._observation_weights(self._copies.merge(nu))
        self._u = self._g0 + self._P @ w
        self.weights = self._A.adjoint(w)
        if isinstance(self._A, Identity):
            self.mean = self._u
        else:
            h = 0.0 if self._h is None else self._h
            self.mean = h + self._K @ self.weights

    def shifted(self, nu: FloatArray) -> Self:
        moved = copy.copy(self)
        moved._move(nu)
        return moved

    def _observation_weights(self, shift: FloatArray) -> FloatArray:
        """W = shift - R (P shift + g0), written S B^-1 (shift / S - S g0) to avoid cancellation."""
        S, live = self._S, self._S > 0
        scaled = np.divide(shift, S, out=np.zeros_like(shift), where=live)
        rest = np.where(live, 0.0, shift)
        offset = self._g0 + self._P @ rest if np.any(rest) else self._g0
        return S * self._triangle.solve(scaled - S * offset) + rest

    @property
    def preconditioner(self) -> Preconditioner | None:
        single = isinstance(self._A, Identity)
        return _ScaledInverse(self._S, self._triangle) if single else None

    @cached_property
    def _variances(self) -> FloatArray:
        # diag(P - P R P) = (1 - diag(B^-1)) / T, from the columns of L^-1.
        prior = np.diagonal(self._P)
        inverse = self._triangle.inverse
        weak = self._T * prior < _WEAK_SITE
        T = np.where(weak, 1.0, self._T)
        var = (1.0 - np.einsum("ki,ki->i", inverse, inverse)) / T
        if np.any(weak):
            half = inverse @ (self._S[:, None] * self._P[:, weak])
            var[weak] = prior[weak] - np.einsum("ki,ki->i", half, half)
        # A posterior variance lies between 0 and both the prior's and the site's.
        tiny = np.finfo(float).tiny
        return np.clip(var, tiny, np.maximum(prior, tiny))

    def observed(self) -> Moments:
        spread = self._copies.spread
        return Moments(spread(self._u), spread(self._variances))

    def covary(self, v: FloatArray) -> FloatArray:
        prior = self._K @ v
        seen = (self._S * self._A.apply(prior).T).T
        known = (self._S * self._triangle.solve(seen).T).T
        return prior - self._K @ self._A.adjoint(known)

    def inverse(self) -> FloatArray:
        return lift(self._A, self._triangle.full_inverse(self._S, self._room))

    def _half(self, K_cross: FloatArray) -> FloatArray:
        return self._triangle.inverse @ (self._S[:, None] * self._A.apply(K_cross.T))

    def predict(self, K_cross: FloatArray, k_diag: FloatArray) -> Moments:
        half = self._half(K_cross)
        var = k_diag - np.einsum("ki,ki->i", half, half)
        return Moments(K_cross @ self.weights, np.maximum(var, 0.0))

    def predict_covariance(self, K_cross: FloatArray, K_new: FloatArray) -> FloatArray:
        half = self._half(K_cross)
        return K_new - half.T @ half


class _ManyProjections:
    """Posterior in the space of latent values: I + F' (A' T A) F with K = F F'."""

    def __init__(
        self,
        K: FloatArray,
        F: FloatArray,
        A: Projection,
        copies: _Copies,
        sites: Sites,
        prior_mean: FloatArray | None,
    ) -> None:
        self._A, self._copies = A, copies
        self._h = np.zeros(len(K)) if prior_mean is None else prior_mean
        self._diagonal = np.diagonal(K) if np.count_nonzero(K) == len(K) else None
        self._precision = A.scatter(copies.merge(sites.tau))
        B = _congruence(F, self._precision)
        B.flat[:: len(B) + 1] += 1.0
        triangle = Triangle(B)
        self.half_log_det = triangle.half_log_det
        self._half_covariance = triangle.half_solve(F.T)  # H with covariance H' H
        self._move(sites.nu)

    def _move(self, nu: FloatArray) -> None:
        shift = self._A.adjoint(self._copies.merge(nu))
        total = shift - self._precision @ self._h
        self.mean = self._h + self.covary(total)
        self.weights = self.without_sites(total)

    def shifted(self, nu: FloatArray) -> Self:
        moved = copy.copy(self)
        moved._move(nu)
        return moved

    @cached_property
    def _variances(self) -> FloatArray:
        return np.maximum(squared_lengths(self._A, self._half_covariance), np.finfo(float).tiny)

    def observed(self) -> Moments:
        spread = self._copies.spread
        return Moments(spread(self._A.apply(self.mean)), spread(self._variances))

    def covary(self, v: FloatArray) -> FloatArray:
        return self._half_covariance.T @ (self._half_covariance @ v)

    @property
    def preconditioner(self) -> Preconditioner | None:
        return self

    def without_sites(self, v: FloatArray) -> FloatArray:
        # K^-1 C v; a flat prior on single weights leaves nothing of the difference.
        known = self.covary(v)
        return v - self._precision @ known if self._diagonal is None else known / self._diagonal

    def inverse(self) -> FloatArray:
        half = self._half_covariance @ self._precision
        return self._precision - half.T @ half

    def predict(self, K_cross: FloatArray, k_diag: FloatArray) -> Moments:
        explained = np.einsum("ij,ij->i", K_cross @ self.inverse(), K_cross)
        return Moments(K_cross @ self.weights, np.maximum(k_diag - explained, 0.0))

    def predict_covariance(self, K_cross: FloatArray, K_new: FloatArray) -> FloatArray:
        return K_new - K_cross @ self.inverse() @ K_cross.T


def _scaled(P: FloatArray, S: FloatArray, B: FloatArray) -> FloatArray:
    """I + S P S, written into B, of which the upper triangle will do."""
    for i in range(0, len(P), _STRIP):
        j = i + _STRIP
        strip = np.multiply(P[i:j, i:], S[i:], out=B[i:j, i:])
        strip *= S[i:j, None]
    B.flat[:: len(B) + 1] += 1.0
    return B


def _clear_lower(A: FloatArray) -> None:
    """Write zeros below the diagonal of a matrix in C order."""
    below = np.tri(_STRIP, k=-1, dtype=bool)
    for i in range(0, len(A), _STRIP):
        A[i : i + _STRIP, :i] = 0.0
        block = A[i : i + _STRIP, i : i + _STRIP]
        block[below[: len(block), : len(block)]] = 0.0


def mirrored(upper: FloatArray) -> FloatArray:
    """Fill the lower triangle from the upper one, in place and in C order."""
    below = np.tri(_STRIP, k=-1, dtype=bool)
    for i in range(0, len(upper), _STRIP):
        j = i + _STRIP
        block = upper[i:j, i:j]
        np.copyto(block, block.T, where=below[: len(block), : len(block)])
        upper[j:, i:j] = upper[i:j, j:].T
    return upper


def _congruence(F: FloatArray, precision: FloatArray) -> FloatArray:
    """F' precision F for symmetric ``precision``; the upper triangle alone where F is lower."""
    if F.shape[0] != F.shape[1] or F[0, 1:].any():
        return F.T @ (precision @ F)
    product, _ = lapack.dsygst(precision.T, F, itype=2, lower=1)
    return np.asarray(product).T


def square_root(K: FloatArray) -> FloatArray:
    """Some F with F F' = K: Cholesky, with pivots and fewer columns where K is singular."""
    factor, info = lapack.dpotrf(K.T, lower=1, overwrite_a=0, clean=1)
    if info == 0:
        return np.asarray(factor)
    factor, pivots, rank, _ = lapack.dpstrf(K.T, lower=1)
    F = np.zeros((len(K), rank))
    F[pivots - 1] = np.tril(factor)[:, :rank]
    return F
