"""The posterior in the space of observations: no more of them than latent values.

Factor B = I + S P S with P = A K A' and S = diag(sqrt(T)).
"""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Self

import numpy as np
from scipy.linalg import blas

from ordinalgp._typing import FloatArray
from ordinalgp.core.linalg import Triangle, matrix, mirrored
from ordinalgp.core.posterior import (
    Copies,
    Moments,
    Posterior,
    Preconditioner,
    Prior,
    Response,
    Sites,
)
from ordinalgp.core.projections import Identity, lift

# Below this ratio of site precision to prior precision, (1 - [B^-1]_ii) / tau_i has lost
# four digits to cancellation and the variance is computed the other way.
_WEAK_SITE = 1e-4
_FAINT = 1e-6  # smallest share of the largest site's scale that a preconditioner divides by
# Share of the posterior precision below which a site has no part in the response.
_UNHEARD = 1e-10
# Rounds for the means of a response, and the share of the squared residual that ends them.
_MEAN_ROUNDS, _MEAN_SHARE = 5, 1e-3
_TRUSTED_SHARE = 0.5  # of a variance, up to which first-order changes are trusted
_STRIP = 128  # rows at a time that stay in the cache
_TINY = float(np.finfo(float).tiny)

Product = Callable[[FloatArray], FloatArray]


class ObservationSpacePosterior(Posterior):
    """Posterior in the space of observations: B = I + S P S."""

    def __init__(self, prior: Prior, sites: Sites) -> None:
        self._A, self._copies = _, copies = prior.distinct
        self._K, self._workspace, self._h = prior.K, prior.workspace, prior.mean
        self._P, self._g0 = P, _ = prior.projected
        self._T = copies.merge(sites.tau)
        self._S = S = np.sqrt(self._T)
        self._direct = self._h is None and bool((S > 0).all())
        """whether nothing stands in the way of dividing by S"""
        self._triangle = Triangle(lambda: _scaled(P, S, matrix(prior.workspace, "factor", len(P))))
        self.half_log_det, self.definite = self._triangle.half_log_det, self._triangle.definite
        # All that follows is cheaper with L^-1, which variances need.
        self._triangle.inverse  # noqa: B018
        self.move(sites.nu)

    def move(self, nu: FloatArray) -> None:
        """Set mean and weights, the factorisation kept."""
        w = self._observation_weights(self._copies.merge(nu))
        self._u = self._P @ w if self._h is None else self._g0 + self._P @ w
        self.weights = self._A.adjoint(w)
        if isinstance(self._A, Identity):
            self.mean = self._u
        else:
            mean = self._K @ self.weights
            self.mean = mean if self._h is None else self._h + mean

    def centred(self, weights: FloatArray, mean: FloatArray) -> Self:
        """The same covariance around another mean, which belongs to these weights."""
        moved = super().centred(weights, mean)
        moved._u = self._A.apply(mean)
        return moved

    def _observation_weights(self, shift: FloatArray) -> FloatArray:
        """W = shift - R (P shift + g0), written S B^-1 (shift / S - S g0) to avoid cancellation."""
        S = self._S
        if self._direct:
            return S * self._triangle.solve(shift / S)
        live = S > 0
        scaled = np.divide(shift, S, out=np.zeros_like(shift), where=live)
        rest = np.where(live, 0.0, shift)
        offset = self._g0 + self._P @ rest if rest.any() else self._g0
        return S * self._triangle.solve(scaled - S * offset) + rest

    @property
    def preconditioner(self) -> Preconditioner | None:
        """S B^-1 S^-1, where every latent value is observed by itself."""
        # Not a method, which would keep all else that the posterior holds.
        single = isinstance(self._A, Identity)
        return partial(_without_sites, self._S, self._triangle) if single else None

    @cached_property
    def _variances(self) -> FloatArray:
        # diag(P - P R P) = (1 - diag(B^-1)) / T, from the columns of L^-1.
        prior, T = np.diagonal(self._P), self._T
        inverse = self._triangle.inverse
        var = 1.0 - np.einsum("ki,ki->i", inverse, inverse)
        weak = T * prior < _WEAK_SITE
        if not weak.any():
            var /= T
        else:
            var /= np.where(weak, 1.0, T)
            half = self._triangle.half_product((self._S * self._P[weak]).T)  # P is symmetric
            var[weak] = prior[weak] - np.einsum("ki,ki->i", half, half)
        # A posterior variance lies between 0 and both the prior's and the site's.
        return np.minimum(np.maximum(var, _TINY), np.maximum(prior, _TINY))

    def observed(self) -> Moments:
        """Means g0 + P w and variances from the columns of L^-1."""
        spread = self._copies.spread
        return Moments(spread(self._u), spread(self._variances))

    def response(self, known: Response | None = None) -> Response | None:
        """The covariance of u, and its squares, which may be those of a response that is known."""
        # The covariance with weaker sites is lost in I - B^-1, and it matters to no other.
        var = self._variances
        heard = self._T * var > _UNHEARD
        scale = np.divide(1.0, self._S, out=np.zeros(len(heard)), where=heard)
        if isinstance(known, _Response):
            product = partial(self._times_covariance, scale)
            return _Response(self._u, var, product, known.squares, self._copies)
        covariance = self._triangle.upper_inverse(scale, self._workspace)
        squares = matrix(self._workspace, "squares", len(heard))
        np.multiply(covariance, covariance, out=squares)
        squares.reshape(-1)[:: len(heard) + 1] = 0.0
        covariance.reshape(-1)[:: len(heard) + 1] = -var  # the others have the wrong sign, too
        product = partial(blas.dsymv, -1.0, covariance.T, lower=1)
        return _Response(self._u, var, product, squares.T, self._copies)

    def _times_covariance(self, scale: FloatArray, x: FloatArray) -> FloatArray:
        """The covariance of u times x, by the factor: -S^-1 B^-1 S^-1 x but for the diagonal."""
        var, near = self._variances, scale * x
        others = scale * (self._triangle.solve(near) - (1.0 - self._T * var) * near)
        return var * x - others

    def carry(self, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(I - R K) v, and K times that."""
        seen = (self._S * self._A.apply(self._K @ v).T).T
        known = (self._S * self._triangle.solve(seen).T).T
        kept = v - self._A.adjoint(known)
        return kept, self._K @ kept

    def inverse(self) -> FloatArray:
        """R = A' S B^-1 S A."""
        return mirrored(self.upper_inverse())

    def upper_inverse(self) -> FloatArray:
        """R, without the other triangle where every latent value is observed by itself."""
        R = self._triangle.upper_inverse(self._S, self._workspace)
        return R if isinstance(self._A, Identity) else lift(self._A, mirrored(R))

    def _half(self, K_cross: FloatArray) -> FloatArray:
        return self._triangle.half_product(self._S[:, None] * self._A.apply(K_cross.T))

    def predict(self, K_cross: FloatArray, k_diag: FloatArray) -> Moments:
        """Take off the variance that the sites explain."""
        half = self._half(K_cross)
        var = k_diag - np.einsum("ki,ki->i", half, half)
        return Moments(K_cross @ self.weights, np.maximum(var, 0.0))

    def predict_covariance(self, K_cross: FloatArray, K_new: FloatArray) -> FloatArray:
        """Take off the covariance that the sites explain."""
        half = self._half(K_cross)
        return K_new - half.T @ half


def predict_once(K: FloatArray, sites: Sites, K_cross: FloatArray, k_diag: FloatArray) -> Moments:
    """Moments at new points from sites of all latent values, by a factor that is not kept.

    ``K_cross`` is (n_new, n). Without the inverse of the factor, few new points cost half as much
    as :class:`ObservationSpacePosterior`.
    """
    S = np.sqrt(sites.tau)
    triangle = Triangle(lambda: _scaled(K, S, np.empty_like(K)))
    half = triangle.half_solve(np.asfortranarray((K_cross * S).T))
    live = S > 0
    shift = triangle.half_solve(np.divide(sites.nu, S, out=np.zeros_like(S), where=live))
    mean = half.T @ shift
    if not live.all():
        rest = np.where(live, 0.0, sites.nu)
        mean += K_cross @ rest - half.T @ triangle.half_solve(S * (K @ rest))
    return Moments(mean, np.maximum(k_diag - np.einsum("ki,ki->i", half, half), 0.0))


class _Response(Response):
    """Reaction of the moments of u, whose covariance is C = (I - B^-1) / S S'.

    With changes D of the precisions the variances become C_ii / (1 + D_i C_ii), which is exact if
    only one site moves, less sum_j C_ij^2 D_j / (1 + D_j C_jj) / (1 + D_i C_ii)^2: first order in
    the others. The means are old mean + C y with (I + D C) y = d_nu - D old mean. This is solved by
    conjugate gradients in the inner product of C, which begin at the last answer. Squares of C may
    be those of an earlier sweep, as they only matter to first order.
    """

    def __init__(
        self,
        mean: FloatArray,
        var: FloatArray,
        covariance: Product,
        squares: FloatArray,
        copies: Copies,
    ) -> None:
        self._old, self._var, self._copies = mean, var, copies
        self._y, self._Cy = np.zeros_like(mean), np.zeros_like(mean)
        self._times_covariance = covariance
        self.squares = squares
        """of the covariances of different projections; the lower triangle is at hand"""

    def moments(self, d_tau: FloatArray, d_nu: FloatArray) -> Moments | None:
        """Moments under changed sites; means begin at those that were asked for last."""
        D, shift, var = self._copies.merge(d_tau), self._copies.merge(d_nu), self._var
        own = 1.0 + D * var
        # Of its variance that an observation loses to the others.
        shares = blas.dsymv(1.0, self.squares, D / own, lower=1) / (own * var)
        if not np.abs(shares).max() < _TRUSTED_SHARE:
            return None
        changed = (1.0 - shares) * var / own
        mean = self._old + self._solve(D, shift - D * self._old)
        return Moments(self._copies.spread(mean), self._copies.spread(changed))

    def _solve(self, D: FloatArray, b: FloatArray) -> FloatArray:
        """C y with (I + D C) y = b, nearly."""
        y, Cy = self._y, self._Cy
        rest = b - y - D * Cy
        C_rest = self._times_covariance(rest)
        size = first = float(rest @ C_rest)
        p, Cp = rest, C_rest
        for _ in range(_MEAN_ROUNDS):
            image = p + D * Cp
            curvature = float(Cp @ image)
            if not (size > _MEAN_SHARE * first and curvature > 0):
                break
            step = size / curvature
            y, Cy, rest = y + step * p, Cy + step * Cp, rest - step * image
            C_rest = self._times_covariance(rest)
            last, size = size, float(rest @ C_rest)
            p, Cp = rest + size / last * p, C_rest + size / last * Cp
        self._y, self._Cy = y, Cy
        return Cy


def _without_sites(S: FloatArray, triangle: Triangle, v: FloatArray) -> FloatArray:
    """(I + T K)^-1 v = S B^-1 S^-1 v."""
    S = np.maximum(S, max(_FAINT * np.max(S), _TINY))
    return S * triangle.solve(v / S)


def _scaled(P: FloatArray, S: FloatArray, B: FloatArray) -> FloatArray:
    """I + S P S, written into B, of which the upper triangle will do."""
    for i in range(0, len(P), _STRIP):
        j = i + _STRIP
        strip = np.multiply(P[i:j, i:], S[i:], out=B[i:j, i:])
        strip *= S[i:j, None]
    B.reshape(-1)[:: len(B) + 1] += 1.0
    return B
