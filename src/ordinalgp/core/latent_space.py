"""The posterior in the space of latent values: more observations than those.

Factor K = F F' and then I + F' (A' T A) F.
"""

from functools import cached_property

import numpy as np

from ordinalgp._typing import FloatArray
from ordinalgp.core.linalg import Triangle, congruence
from ordinalgp.core.posterior import Moments, Posterior, Preconditioner, Prior, Sites
from ordinalgp.core.projections import Projection, squared_lengths


class LatentSpacePosterior(Posterior):
    """Posterior in the space of latent values: I + F' (A' T A) F with K = F F'."""

    def __init__(self, prior: Prior, sites: Sites) -> None:
        K, F = prior.K, prior.root
        self._A, self._copies = A, copies = prior.distinct
        self._h = np.zeros(len(K)) if prior.mean is None else prior.mean
        self._diagonal = np.diagonal(K) if np.count_nonzero(K) == len(K) else None
        self._precision = A.scatter(copies.merge(sites.tau))
        triangle = Triangle(
            lambda: _one_plus(congruence(F, self._precision)),
            lambda: _one_plus(_gram(A, F, copies.merge(sites.tau))),
        )
        self.half_log_det, self.definite = triangle.half_log_det, triangle.definite
        self._half_covariance = triangle.half_solve(F.T)  # H with covariance H' H
        self.move(sites.nu)

    def move(self, nu: FloatArray) -> None:
        """Set mean and weights, the factorisation kept."""
        shift = self._A.adjoint(self._copies.merge(nu))
        total = shift - self._precision @ self._h
        self.weights, known = self.carry(total)
        self.mean = self._h + known

    @cached_property
    def _variances(self) -> FloatArray:
        return np.maximum(squared_lengths(self._A, self._half_covariance), np.finfo(float).tiny)

    def observed(self) -> Moments:
        """Means A f and the squared lengths of H A'."""
        spread = self._copies.spread
        return Moments(spread(self._A.apply(self.mean)), spread(self._variances))

    def covary(self, v: FloatArray) -> FloatArray:
        """H' H v."""
        return self._half_covariance.T @ (self._half_covariance @ v)

    @property
    def preconditioner(self) -> Preconditioner | None:
        """The half covariance is all that is needed."""
        return lambda v: self.carry(v)[0]

    def carry(self, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Both by one product with H' H."""
        known = self.covary(v)
        # K^-1 C v; a flat prior on single weights leaves nothing of the difference.
        if self._diagonal is None:
            return v - self._precision @ known, known
        return (known.T / self._diagonal).T, known

    def inverse(self) -> FloatArray:
        """R = Q - (H Q)' H Q with Q = A' T A."""
        half = self._half_covariance @ self._precision
        return self._precision - half.T @ half

    def predict(self, K_cross: FloatArray, k_diag: FloatArray) -> Moments:
        """Take off the variance that the sites explain."""
        explained = np.einsum("ij,ij->i", K_cross @ self.inverse(), K_cross)
        return Moments(K_cross @ self.weights, np.maximum(k_diag - explained, 0.0))

    def predict_covariance(self, K_cross: FloatArray, K_new: FloatArray) -> FloatArray:
        """Take off the covariance that the sites explain."""
        return K_new - K_cross @ self.inverse() @ K_cross.T


def _one_plus(B: FloatArray) -> FloatArray:
    """I + B, over B."""
    B.flat[:: len(B) + 1] += 1.0
    return B


def _gram(A: Projection, F: FloatArray, T: FloatArray) -> FloatArray:
    """F' A' T A F as squared lengths, which equal rows of F cannot leave below zero."""
    half = np.sqrt(T)[:, None] * A.apply(F)
    return half.T @ half
