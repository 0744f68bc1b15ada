"""The fitted model of thousands of items: predictions, and its file."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import FINITE, LABELS, POSITIVE, Axes, FloatArray, IntArray
from ordinalgp.collaborative import hierarchy, ratings
from ordinalgp.collaborative.batch import Batch, PenalisedFit, newton_step
from ordinalgp.collaborative.low_rank import (
    NEWTON_LIMITS,
    ItemParameters,
    LowRankEM,
    LowRankFit,
    LowRankState,
    Tastes,
    seen,
)
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.posterior import Moments, Sites
from ordinalgp.models.exact import check_finite
from ordinalgp.persistence import saved_as
from ordinalgp.validation.labels import count_levels, levels_agree

_ROUNDS = 8  # of sites and thresholds of a new rater
_SWEEPS = 6  # of a new rater's sites per round


@saved_as("result.low_rank_ratings")
@dataclass(frozen=True, eq=False)
class LowRankRatings:
    """Items with loadings on few tastes, and raters with the posterior of theirs."""

    categories: Annotated[NDArray[Any], Axes("r", kinds=LABELS)]
    """all levels in rank order"""
    classes: Annotated[NDArray[Any], Axes("k", kinds=LABELS)]
    """observed levels, sorted"""
    items: ratings.Ids
    rater_ids: ratings.Ids
    shared: hierarchy.SharedThresholds
    paths: Annotated[FloatArray, Axes("objectives iterations")]
    converged: bool
    ranks: Annotated[IntArray, Axes("ranks", 1, np.inf)]
    """ranks that were tried"""
    scores: Annotated[FloatArray, Axes("ranks")]
    """mean log probability of left-out ratings under each"""
    theta: Annotated[FloatArray, Axes("m p", *FINITE)]
    """loadings and mean of each item"""
    own: Annotated[FloatArray, Axes("m", *POSITIVE)]
    """variance of each item's deviations"""
    V: Annotated[FloatArray, Axes("m p p", *FINITE)]
    """posterior covariance of loadings and mean"""
    center: Annotated[FloatArray, Axes("p", *FINITE)]
    precision: Annotated[FloatArray, Axes("p", *POSITIVE)]
    begins: Annotated[IntArray, Axes("begins", 0, np.inf)]
    """rater j has the ratings from ``begins[j]`` to ``begins[j + 1]``"""
    index: Annotated[IntArray, Axes("N", 0, "m")]
    codes: Annotated[IntArray, Axes("N", 0, "r")]
    tau: Annotated[FloatArray, Axes("N", 0.0, np.inf)]
    nu: Annotated[FloatArray, Axes("N", *FINITE)]
    rater_theta: Annotated[FloatArray, Axes("raters q", *FINITE)]
    tastes: Annotated[FloatArray, Axes("raters t", *FINITE)]
    taste_covariance: Annotated[FloatArray, Axes("raters t t", *FINITE)]

    @classmethod
    def of(cls, data: ratings.Ratings, batch: Batch, fit: LowRankFit) -> Self:
        """The model of a fit."""
        state = fit.state
        items, levels = state.items, data.levels
        ranks = np.array(list(fit.left_out), dtype=np.intp)
        return cls(
            *(levels.categories, levels.classes, data.item_ids, data.rater_ids),
            *(state.shared, fit.path[None], fit.converged),
            *(ranks, np.array(list(fit.left_out.values()), dtype=float)),
            *(items.theta, items.own, items.V, items.center, items.precision),
            *(batch.begins, batch.index, np.asarray(batch.y, dtype=np.intp)),
            *(state.sites.tau, state.sites.nu, state.theta),
            *(state.tastes.mean, state.tastes.covariance),
        )

    @classmethod
    def restored(cls, **saved: Any) -> Self:
        """The model of a file; ValueError if its parts disagree."""
        model = cls(**saved)
        begins, J = model.begins, len(model.rater_ids)
        fits = (
            len(model.items) == len(model.theta)
            and J == len(model.rater_theta) == len(model.tastes) == len(begins) - 1
            and begins[0] == 0
            and begins[-1] == len(model.index)
            and (np.diff(begins) >= 0).all()
            and model.tastes.shape[1] == model.theta.shape[1] - 1
            and model.rater_theta.shape[1] == len(model.categories)
            and model.shared.center.n_levels == len(model.categories)
            and levels_agree(model.categories, model.classes)
            and len(model.paths) == 1
        )
        if not fits:
            raise ValueError("ids, begins, tastes, levels and the rest of the model disagree")
        model._check_predictions()
        return model

    def _check_predictions(self) -> None:
        """Raise ValueError unless every rater and every item can be predicted."""
        J, m = len(self.rater_ids), len(self.items)
        by = np.concatenate([np.arange(J), np.zeros(m, dtype=np.intp)])
        items = [self.items.values[0]] * J + list(self.items.values)
        with np.errstate(all="ignore"):
            at = self.latent(by, items, None)
            check_finite(at.mean, at.var)
            check_finite(self.probabilities(by, at))

    @property
    def rank(self) -> int:
        """Number of tastes."""
        return self.theta.shape[1] - 1

    @property
    def values(self) -> FloatArray:
        """Levels as numbers."""
        return ratings.numeric_levels(self.categories)

    @property
    def counts(self) -> FloatArray:
        """Number of ratings of each level."""
        return count_levels(self.codes, None, len(self.categories))

    @property
    def _items(self) -> ItemParameters:
        return ItemParameters(self.theta, self.own, self.center, self.precision, self.V)

    @property
    def _tastes(self) -> Tastes:
        return Tastes(self.tastes, self.taste_covariance)

    def rated(self, rater: int) -> IntArray:
        """Items that a rater has rated."""
        return self.index[slice(*self.begins[rater : rater + 2])]

    def given(self, rater: int) -> FloatArray:
        """A rater's ratings as numbers."""
        return self.values[self.codes[slice(*self.begins[rater : rater + 2])]]

    @property
    def average(self) -> FloatArray:
        """Mean latent value of each item."""
        return self.theta[:, -1]

    def link(self, rater: int) -> OrdinalProbit:
        """Map from a rater's latent values to levels."""
        return self.shared.center.clone_with_theta(self.rater_theta[rater])

    def latent(self, by: IntArray, items: Sequence[Hashable], item_features: Any) -> Moments:
        """Posterior moments of pairs: tastes, and the deviation, which a rating tells of."""
        remedy = "Fit again with it; features of items are not used with many items."
        index = self.items.known(items, "item", remedy)
        at, own = seen(by, index, self._items, self._tastes), self.own[index]
        m = len(self.theta)
        keys = np.repeat(np.arange(len(self.begins) - 1), np.diff(self.begins)) * m + self.index
        order = np.argsort(keys, kind="stable")
        asked = by * m + index
        place = np.minimum(np.searchsorted(keys[order], asked), max(len(keys) - 1, 0))
        tau, nu = np.zeros((2, len(by)))
        if len(keys):
            known = keys[order][place] == asked
            tau[known], nu[known] = (each[order][place][known] for each in (self.tau, self.nu))
        kept = np.clip(1.0 - own * tau, 0.0, 1.0)
        return Moments(kept * at.mean + own * nu, own * kept + kept**2 * at.var)

    def probabilities(self, by: IntArray, latent: Moments) -> FloatArray:
        """Probability of every level for pairs with these latent moments."""
        proba = np.empty((len(by), len(self.categories)))
        order = np.argsort(by, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(by[order])) + 1):
            if len(rows):
                link = self.link(int(by[rows[0]]))
                proba[rows] = link.probabilities(latent.mean[rows], latent.var[rows])
        return proba

    def with_rater(self, rater: Hashable, index: IntArray, codes: IntArray, tol: float) -> Self:
        """The model with one more rater; items and other raters stay as they are."""
        theta, sites, found = self._new_rater(index, codes)
        joined: dict[str, tuple[Any, Any]] = {
            "begins": (self.begins, [self.begins[-1] + len(index)]),
            "index": (self.index, index),
            "codes": (self.codes, codes),
            "tau": (self.tau, sites.tau),
            "nu": (self.nu, sites.nu),
            "rater_theta": (self.rater_theta, theta),
            "tastes": (self.tastes, found.mean),
            "taste_covariance": (self.taste_covariance, found.covariance),
        }
        parts: dict[str, Any] = {name: np.concatenate(pair) for name, pair in joined.items()}
        ids = ratings.Ids.of([*self.rater_ids.values, rater])
        return replace(self, rater_ids=ids, **parts)

    def _new_rater(self, index: IntArray, codes: IntArray) -> tuple[FloatArray, Sites, Tastes]:
        """Parameters, sites and tastes of a rater with these ratings."""
        shared, k = self.shared, self.rank
        theta = shared.center.theta[None]
        none = Tastes(np.zeros((1, k)), np.eye(k)[None])
        M = len(index)
        if M == 0:
            return theta, Sites.flat(0), none
        batch, zero = Batch.of([index], [codes]), Moments(np.zeros(M), np.ones(M))
        em, slopes = LowRankEM(batch, len(self.theta)), np.zeros((2, M))
        sites = Sites.flat(M)
        state = LowRankState(self._items, theta, shared, sites, none, zero, slopes, 0.0, 0.0)
        for _ in range(_ROUNDS):
            state = em.infer(state, _SWEEPS)
            at = Moments(state.at.mean, state.at.var + self.own[index])
            center = shared.center
            fit = PenalisedFit(batch, at, center.theta, center.unit, shared.strength)
            state = replace(
                state, theta=newton_step(fit, state.theta, center.bounds, *NEWTON_LIMITS)[0]
            )
        state = em.infer(state, _SWEEPS)
        return state.theta, state.sites, state.tastes
