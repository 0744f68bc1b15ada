"""The posterior where projections join few values and the prior is nearly diagonal.

Comparisons join two items each, so that A' T A is sparse. The prior covariance is D + U U', D
diagonal and U with few columns or none. With S = D^(1/2), f = S e + U w for independent standard
normal e and w. Their posterior precision has the sparse block B = I + S A' T A S, and

    C = I + U' (Q - Q S B^-1 S Q) U,  Q = A' T A,    G = (I - S B^-1 S Q) U,

so that the covariance of f is S B^-1 S + G C^-1 G'. No matrix of N x N numbers is made.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.elimination import Elimination, SparseFactor
from ordinalgp.core.linalg import Triangle
from ordinalgp.core.posterior import Moments, Posterior, Preconditioner, Prior, Sites
from ordinalgp.core.projections import Projection

_CANCELLED = 1e-6  # a variance smaller than this share of its terms has lost six digits
_BLOCK = 256  # solutions at a time


@dataclass(frozen=True, eq=False)
class ProjectionGraph:
    """Pairs of latent values that projections join, and their places in an elimination."""

    order: Elimination
    i: IntArray
    j: IntArray
    """joined values, the diagonal included, (M, p)"""
    products: FloatArray
    """products of their coefficients, (M, p)"""
    places: IntArray
    """(M, p)"""
    diagonal: IntArray
    """places of the diagonal, (N,)"""

    @classmethod
    def of(cls, projection: Projection) -> "ProjectionGraph":
        """The graph of a sparse projection with equally many entries in each row."""
        distinct: Any = projection.distinct[0]
        n = distinct.shape[1]
        columns = distinct.matrix.indices.reshape(distinct.shape[0], -1).astype(np.intp)
        entries = distinct.matrix.data.reshape(columns.shape)
        a, b = np.triu_indices(columns.shape[1])
        i, j, products = columns[:, a], columns[:, b], entries[:, a] * entries[:, b]
        off = a != b
        order = Elimination.of(i[:, off].ravel(), j[:, off].ravel(), n)
        places = order.place(i.ravel(), j.ravel()).reshape(i.shape)
        every = np.arange(n)
        return cls(order, i, j, products, places, order.place(every, every))

    def one_plus(self, tau: FloatArray, scale: FloatArray) -> FloatArray:
        """Numbers of I + S A' diag(tau) A S, S = diag(scale)."""
        values = tau[:, None] * self.products * scale[self.i] * scale[self.j]
        found: FloatArray = np.zeros(self.order.size)
        np.add.at(found, self.places.ravel(), values.ravel())
        found[self.diagonal] += 1.0
        return found

    def variances(self, numbers: FloatArray, scale: FloatArray) -> tuple[FloatArray, FloatArray]:
        """diag(A S Z S A') for the symmetric Z of these numbers, and the sum of absolute terms."""
        twice = np.where(self.i == self.j, 1.0, 2.0)
        terms = twice * self.products * scale[self.i] * scale[self.j] * numbers[self.places]
        return terms.sum(axis=1), np.abs(terms).sum(axis=1)


@dataclass(frozen=True, eq=False)
class DiagonalPlusLowRank:
    """Prior covariance diag(variance) + root root'."""

    variance: FloatArray
    """(N,)"""
    root: FloatArray
    """(N, k), k may be 0"""
    graph: ProjectionGraph

    def __len__(self) -> int:
        return len(self.variance)


class SparsePrecisionPosterior(Posterior):
    """Posterior by elimination of the sparse precision."""

    def __init__(self, prior: Prior, sites: Sites) -> None:
        K: DiagonalPlusLowRank = prior.K
        self._A, self._copies = A, copies = prior.distinct
        self._graph, self._U = K.graph, K.root
        self._S = S = np.sqrt(K.variance)
        self._h = np.zeros(len(K)) if prior.mean is None else prior.mean
        T = copies.merge(sites.tau)
        matrix: Any = A.matrix  # type: ignore[attr-defined]
        self._Q = sparse.csr_array(matrix.T @ matrix.multiply(T[:, None]))
        self._factor = SparseFactor(K.graph.order, K.graph.one_plus(T, S))
        self.half_log_det, self.definite = self._factor.half_log_det, self._factor.definite
        self.features: FloatArray = np.zeros((len(K), 0))
        """H with the covariance S B^-1 S + H H', (N, k)"""
        if K.root.shape[1]:
            self._add_root()
        self.move(sites.nu)

    def _add_root(self) -> None:
        U, QU = self._U, self._Q @ self._U
        G = U - self.own(QU)
        gram = QU.T @ G
        triangle = Triangle(lambda: np.eye(U.shape[1]) + (gram + gram.T) / 2)
        self.half_log_det += triangle.half_log_det
        self.definite = self.definite and triangle.definite
        self.root_inverse = triangle.inverse
        """L^-1 with C = L L', (k, k)"""
        self.features = G @ triangle.inverse.T

    def own(self, v: FloatArray) -> FloatArray:
        """S B^-1 S v, (N,) or (N, k)."""
        return (self._S * self._factor.solve((self._S * v.T).T).T).T

    def move(self, nu: FloatArray) -> None:
        """Set mean and weights, the factorisation kept."""
        shift = self._A.adjoint(self._copies.merge(nu)) - self._Q @ self._h
        self.weights, known = self.carry(shift)
        self.mean = self._h + known

    @cached_property
    def own_variances(self) -> FloatArray:
        """diag(S B^-1 S), (N,)."""
        return np.asarray(self._S**2 * self._factor.inverse_entries[self._graph.diagonal])

    @cached_property
    def _variances(self) -> FloatArray:
        graph, S = self._graph, self._S
        found, terms = graph.variances(self._factor.inverse_entries, S)
        close = np.flatnonzero(found < _CANCELLED * terms)
        matrix: Any = self._A.matrix  # type: ignore[attr-defined]
        for at in range(0, len(close), _BLOCK):
            rows = close[at : at + _BLOCK]
            seen = (S * matrix[rows].toarray()).T
            found[rows] = np.einsum("nm,nm->m", seen, self._factor.solve(seen))
        half = self._A.apply(self.features)
        found += np.einsum("mk,mk->m", half, half)
        return np.maximum(found, np.finfo(float).tiny)

    def observed(self) -> Moments:
        """Means A f, and variances from the entries of B^-1 on the graph."""
        spread = self._copies.spread
        return Moments(spread(self._A.apply(self.mean)), spread(self._variances))

    def covary(self, v: FloatArray) -> FloatArray:
        """S B^-1 S v + H H' v."""
        return self.own(v) + self.features @ (self.features.T @ v)

    @property
    def preconditioner(self) -> Preconditioner | None:
        """The sparse factor solves for any vector."""
        return lambda v: self.carry(v)[0]

    def carry(self, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """v - Q C v, and C v."""
        known = self.covary(v)
        return v - self._Q @ known, known

    def inverse(self) -> FloatArray:
        """R = Q - Q C Q, which is dense."""
        dense = self._Q.toarray()
        return np.asarray(dense - self._Q @ self.covary(dense))

    def predict(self, K_cross: FloatArray, k_diag: FloatArray) -> Moments:
        """Take off the variance that the sites explain."""
        explained = np.einsum("ni,in->i", self._explained(K_cross), K_cross)
        return Moments(K_cross @ self.weights, np.maximum(k_diag - explained, 0.0))

    def predict_covariance(self, K_cross: FloatArray, K_new: FloatArray) -> FloatArray:
        """Take off the covariance that the sites explain."""
        return K_new - K_cross @ self._explained(K_cross)

    def _explained(self, K_cross: FloatArray) -> FloatArray:
        """R K_cross', (N, n_new)."""
        seen = np.asarray(self._Q @ K_cross.T)
        return seen - np.asarray(self._Q @ self.covary(seen))

    def own_draw(self, normal: FloatArray) -> FloatArray:
        """Independent normal numbers, (N, k), as ones with the covariance S B^-1 S."""
        return (self._S * self._factor.draw(normal).T).T
