"""A fitted Gaussian process of many rows, which predicts from the rows near by.

After inference every row has a Gaussian site, as if its latent value had been measured with normal
noise. The latent value at a new place follows from the measurements of its nearest rows, by one
factorisation (kriging). New rows near each other share their neighbours and the factorisation.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np
from scipy.spatial.distance import cdist

from ordinalgp._typing import FINITE, POSITIVE, Axes, FloatArray, IntArray, Tagged
from ordinalgp.core.gaussian import Moments, Prior, Sites, condition
from ordinalgp.core.hyperprior import LogPrior
from ordinalgp.core.kernel_matrix import cross_covariance, kernel_matrix
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.linalg import symmetric_root
from ordinalgp.core.observation_space import predict_once
from ordinalgp.core.projections import Identity
from ordinalgp.core.search import ObjectiveName
from ordinalgp.many_rows.block_evidence import BlockEvidence, on_all_rows
from ordinalgp.many_rows.block_sites import SITE_COLUMNS
from ordinalgp.many_rows.blocked_rows import BlockedRows
from ordinalgp.many_rows.blocks import Blocks, coordinates
from ordinalgp.many_rows.noise_by_region import NoiseByRegion
from ordinalgp.models.exact import (
    LatentModel,
    SearchSummary,
    check_finite,
    check_rows,
    evaluate_at,
)
from ordinalgp.persistence import saved_as

_GROUP = 32  # most rows that are predicted with one factorisation


@dataclass(frozen=True, eq=False)
class NeighbourRecord:
    """The saved part of :class:`NeighbourGP`."""

    kernel: Annotated[Any, Tagged("kernel")]
    likelihood: Annotated[Any, Tagged("likelihood")]
    hyperprior: Annotated[LogPrior, Tagged("hyperprior")] | None
    objective: ObjectiveName
    max_sweeps: Annotated[int, Axes(low=1)]
    tol: Annotated[float, Axes("", *POSITIVE)]
    rows: BlockedRows
    columns: Annotated[FloatArray, Axes("M columns", *FINITE)]
    neighbours: Annotated[int, Axes(low=1)]
    halo: Annotated[int, Axes(low=0)]
    noise: NoiseByRegion | None
    summary: SearchSummary

    @classmethod
    def of(cls, model: "NeighbourGP") -> Self:
        """The record of a model."""
        names = "kernel", "likelihood", "hyperprior", "objective", "max_sweeps", "tol"
        task = {name: getattr(model.task, name) for name in names}
        own = "rows", "columns", "neighbours", "halo", "noise", "summary"
        return cls(**task, **{name: getattr(model, name) for name in own})

    def restored(self) -> "NeighbourGP":
        """The model again."""
        if self.columns.shape[1] != SITE_COLUMNS or np.any(self.columns[:, [0, 3]] < 0):
            raise ValueError("the sites are not what they must be")
        own = self.columns, self.neighbours, self.halo, self.noise, self.summary
        return NeighbourGP(BlockEvidence.like(self), self.rows, *own)


@saved_as("model.neighbours", record=NeighbourRecord)
@dataclass(frozen=True, eq=False)
class NeighbourGP(LatentModel):
    """A Gaussian process with a site per observation, which predicts from near rows."""

    task: BlockEvidence
    """hyperparameters and limits, without rows"""
    rows: BlockedRows
    columns: FloatArray
    """precision and shift of each site; mean and variance without the observation; (M, 4)"""
    neighbours: int
    """inputs from which a single row is predicted"""
    halo: int
    """inputs beside those of a block that inform its sites"""
    noise: NoiseByRegion | None
    summary: SearchSummary

    @cached_property
    def _sites(self) -> Sites:
        """Sites of the inputs, those of all observations of an input multiplied."""
        n = len(self.rows.X)
        weighted = self.rows.counts * self.columns[:, :2].T
        return Sites(*(np.bincount(self.rows.latent, w, n).astype(float) for w in weighted))

    def _groups(self, X: FloatArray) -> Iterator[tuple[IntArray, IntArray]]:
        """Rows of ``X`` near each other, and the inputs from which they are predicted."""
        blocks = self.rows.blocks
        place = blocks.places(X)
        order = np.argsort(place, kind="stable")
        for cell in np.split(order, np.flatnonzero(np.diff(place[order])) + 1):
            for group in _parts(cell, X, blocks.weights):
                # So many that a factorisation for all costs what one for each would.
                n = round(len(group) ** (1 / 3) * self.neighbours)
                yield group, blocks.nearest(self.rows.X, X[group], n)

    def _prior_and_sites(self, near: IntArray) -> tuple[FloatArray, Sites]:
        """Prior covariance and sites of some inputs."""
        sites = Sites(self._sites.tau[near], self._sites.nu[near])
        return kernel_matrix(self.kernel, self._inputs(near)), sites

    def _inputs(self, near: IntArray) -> FloatArray:
        return np.asarray(self.rows.X[near], dtype=float)

    def _cross(self, X: FloatArray, near: IntArray) -> FloatArray:
        return cross_covariance(self.kernel, X, self._inputs(near))

    def latent(self, X: FloatArray) -> Moments:
        """Posterior moments from the sites of near rows."""
        return self._predict(X)[0]

    def _predict(self, X: FloatArray) -> tuple[Moments, FloatArray]:
        """Posterior moments, and the log scale of the predictive distribution."""
        found = np.zeros((3, len(X)))
        for group, near in self._groups(X) if len(X) else ():
            rows = X[group]
            K, sites = self._prior_and_sites(near)
            at = predict_once(K, sites, self._cross(rows, near), self.kernel.diag(rows))
            found[:2, group] = at.mean, at.var
            if self.noise is not None:
                found[2, group] = self._log_scales(rows, near)
        return Moments(found[0], found[1]), found[2]

    def _log_scales(self, X: FloatArray, near: IntArray, own: Any = None) -> FloatArray:
        """Log scales at inputs, from the nearest among ``near``.

        ``own`` are places in ``near`` of the inputs themselves, which are left out.
        """
        assert self.noise is not None
        weights = self.rows.blocks.weights
        there, here = (coordinates(part, weights) for part in (self._inputs(near), X))
        distance = cdist(here, there, "sqeuclidean")
        if own is not None:
            distance[np.arange(len(here)), own] = np.inf
        n = min(self.neighbours, len(near) - (own is not None))
        nearest = near[np.argpartition(distance, min(n, len(near) - 1), axis=1)[:, :n]]
        slopes, curvatures = self._slopes
        return self.noise.log_scales(slopes[nearest].sum(axis=1), curvatures[nearest].sum(axis=1))

    @cached_property
    def _slopes(self) -> FloatArray:
        """Slopes and curvatures of the noise at each input, all its observations added up."""
        assert self.noise is not None
        both = self.noise.slopes, self.noise.curvatures
        n = len(self.rows.X)
        return np.array([np.bincount(self.rows.latent, self.rows.counts * w, n) for w in both])

    def probabilities(self, X: FloatArray) -> FloatArray:
        """Probability of every level at new rows, (n, r)."""
        if self.noise is None:
            return super().probabilities(X)
        return self.noise.probabilities(self.likelihood, *self._predict(X))

    def log_probabilities(self, X: FloatArray) -> FloatArray:
        """Log probability of every level at new rows, (n, r)."""
        if self.noise is None:
            return super().log_probabilities(X)
        return np.log(np.maximum(self.probabilities(X), np.finfo(float).tiny))

    def joint(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Joint posterior of new rows; those of different groups count as independent."""
        mean, covariance = np.zeros(len(X)), np.zeros((len(X), len(X)))
        for group, near in self._groups(X) if len(X) else ():
            rows, (K, sites) = X[group], self._prior_and_sites(near)
            posterior = condition(Prior(K, Identity(len(near)), np.ones(len(near))), sites)
            cross = self._cross(rows, near)
            among = np.ix_(group, group)
            mean[group] = cross @ posterior.weights
            covariance[among] = posterior.predict_covariance(cross, self.kernel(rows))
        return mean, (covariance + covariance.T) / 2

    def probability_draws(self, X: FloatArray, n: int, rng: Any) -> FloatArray:
        """Probabilities of the levels under ``n`` draws of the latent function, (n, rows, r)."""
        if self.noise is None:
            return super().probability_draws(X, n, rng)
        at, log_scales = self._predict(X)
        moves = rng.standard_normal((n, len(X))) @ symmetric_root(self.joint(X)[1])
        return self.noise.draws(self.likelihood, at.mean, moves, log_scales, rng)

    def left_out(self) -> Moments:
        """Latent moments of each observation without one copy of itself."""
        return Moments(self.columns[:, 2], self.columns[:, 3])

    def left_out_probabilities(self) -> FloatArray:
        """Probability of every level at each training row without itself, (n, r)."""
        index, left = self.rows.index, self.left_out()
        if self.noise is None:
            each = np.asarray(self.likelihood.probabilities(left.mean, left.var))
        else:
            scales = self._left_out_log_scales()[self.rows.latent]
            each = self.noise.probabilities(self.likelihood, left, scales)
        proba = each[index.observation]
        if len(index.left_out):  # rows of weight zero had no part in the fit
            proba[index.observation < 0] = self.probabilities(index.left_out)
        return proba

    def _left_out_log_scales(self) -> FloatArray:
        """Log scale at each input, its own observations left out."""
        found, rows = np.empty(len(self.rows.X)), self.rows
        for block in range(len(rows.blocks)):
            own = rows.blocks.rows(block)
            others = np.arange(len(rows.blocks)) != block
            near = np.concatenate([own, rows.near(block, self.neighbours, others)])
            found[own] = self._log_scales(rows.X[own], near, np.arange(len(own)))
        return found

    def evaluate(self, theta: FloatArray | None) -> tuple[float, FloatArray]:
        """Log evidence and gradient at other hyperparameters, by blocks of the training rows."""
        return evaluate_at(on_all_rows(self.task, self.rows, self.halo), theta)

    def check(self, n_features: int, n_levels: int) -> None:
        """Raise ValueError unless the parts of a saved model agree."""
        check_rows(self.rows.X, self.kernel, n_features)
        self.rows.check()
        if self.likelihood.n_levels != n_levels:
            raise ValueError("the likelihood and the levels disagree")
        found = self.latent(np.asarray(self.rows.X[:1], dtype=float))
        check_finite(found.mean, found.var, self.probabilities(self._inputs(np.arange(1))))


def learned_noise(
    likelihood: Any, rows: BlockedRows, columns: FloatArray, neighbours: int
) -> NoiseByRegion | None:
    """Noise by region from leave-one-out predictions, if there are more rows than neighbours."""
    if not isinstance(likelihood, OrdinalProbit) or len(rows.X) <= neighbours:
        return None
    left = Moments(columns[:, 2], columns[:, 3])
    return NoiseByRegion.learn(likelihood, left, rows.codes, rows.counts)


def _parts(cell: IntArray, X: FloatArray, weights: FloatArray) -> Iterator[IntArray]:
    """Some rows in groups that are small enough."""
    if len(cell) <= _GROUP:
        yield cell
        return
    blocks, order = Blocks.cut(X[cell], weights, _GROUP)
    for start, stop in zip(blocks.starts[:-1], blocks.starts[1:], strict=True):
        yield cell[order[start:stop]]
