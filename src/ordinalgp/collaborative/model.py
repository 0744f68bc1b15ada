"""The fitted model of many raters: predictions for pairs of a rater and an item, and its file."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import FINITE, LABELS, POSITIVE, Axes, FloatArray, IntArray, Plain
from ordinalgp.collaborative.hierarchy import EMState, Prior, Rater, fit_rater
from ordinalgp.collaborative.raters import RaterDistribution, SharedNoise, SharedThresholds
from ordinalgp.collaborative.ratings import (
    Ids,
    ItemCovariance,
    KernelCovariance,
    check_known,
    numeric_levels,
    read_features,
    unknown_error,
)
from ordinalgp.core.gaussian import Moments, Sites
from ordinalgp.core.likelihoods import Gaussian, OrdinalProbit
from ordinalgp.models.exact import check_rows
from ordinalgp.persistence import saved_as
from ordinalgp.validation.labels import levels_agree
from ordinalgp.validation.memory import check_memory


@saved_as("summary.em")
@dataclass(frozen=True, eq=False)
class EMSummary:
    """Objectives at every iteration of EM, and whether it converged."""

    objective_path: Annotated[FloatArray, Axes("iterations")]
    log_evidence_path: Annotated[FloatArray, Axes("iterations")]
    bound_path: Annotated[FloatArray, Axes("iterations")]
    converged: bool

    @classmethod
    def of(cls, state: EMState) -> Self:
        """The summary of a state of EM."""
        evidence, bound = np.array(state.evidence_path), np.array(state.bound_path)
        return cls(np.array(state.path), evidence, bound, state.converged)


@dataclass(frozen=True, eq=False)
class QueryItems:
    """Items to predict: prior mean and variance, and covariance with the fitted items."""

    mean: FloatArray
    cross: FloatArray
    var: FloatArray

    def with_items(self, places: IntArray, new: "QueryItems") -> "QueryItems":
        """The same items, those at ``places`` replaced by ``new``."""
        mean, cross, var = self.mean.copy(), self.cross.copy(), self.var.copy()
        mean[places], cross[places], var[places] = new.mean, new.cross, new.var
        return QueryItems(mean, cross, var)


@dataclass(frozen=True, eq=False)
class RatingsRecord:
    """Saved form of a :class:`RatingsModel`: arrays over all raters, one after another.

    Rater j has the ratings from ``begins[j]`` to ``begins[j + 1]``. The last entry of ``noise``,
    ``first`` and ``gaps`` is the typical rater's.
    """

    likelihood: Literal["ordinal", "gaussian"]
    categories: Annotated[NDArray[Any], Axes("r", kinds=LABELS)]
    classes: Annotated[NDArray[Any], Axes("k", kinds=LABELS)]
    items: Annotated[list[Any], Plain()]
    raters: Annotated[list[Any], Plain()]
    base: Prior
    prior: Prior
    covariance: ItemCovariance | None
    begins: Annotated[IntArray, Axes("own", 0, np.inf)]
    index: Annotated[IntArray, Axes("N", 0, "m")]
    codes: Annotated[IntArray, Axes("N", 0, "r")]
    tau: Annotated[FloatArray, Axes("N", 0.0, np.inf)]
    nu: Annotated[FloatArray, Axes("N", *FINITE)]
    noise: Annotated[FloatArray, Axes("own", *POSITIVE)]
    first: Annotated[FloatArray, Axes("own", *FINITE)]
    gaps: Annotated[FloatArray, Axes("own g", *POSITIVE)]
    unit: Annotated[float, Axes("", *POSITIVE)]
    strength: Annotated[float, Axes("", 0.0, np.inf)]
    summary: EMSummary

    @classmethod
    def of(cls, model: "RatingsModel") -> Self:
        """The record of a model."""
        raters, center = model.raters, model.shared.center
        ordinal = isinstance(center, OrdinalProbit)
        everyone = [*(rater.likelihood for rater in raters), center]
        sites = [rater.sites or Sites.flat(len(rater.index)) for rater in raters]
        y = np.concatenate([rater.y for rater in raters])
        return cls(
            likelihood="ordinal" if ordinal else "gaussian",
            categories=model.categories,
            classes=model.classes,
            items=list(model.items.values),
            raters=list(model.rater_ids.values),
            base=model.base,
            prior=model.prior,
            covariance=model.covariance,
            begins=np.cumsum([0, *(len(rater.index) for rater in raters)]),
            index=np.concatenate([rater.index for rater in raters]),
            codes=(y if ordinal else np.searchsorted(model.values, y)).astype(np.intp),
            tau=np.concatenate([each.tau for each in sites]),
            nu=np.concatenate([each.nu for each in sites]),
            noise=np.array([each.noise for each in everyone]),
            first=np.array([each.first if ordinal else 0.0 for each in everyone]),
            gaps=np.array([each.gaps if ordinal else [] for each in everyone], dtype=float),
            unit=center.unit if isinstance(center, OrdinalProbit) else 1.0,
            strength=model.shared.strength,
            summary=model.summary,
        )

    def restored(self) -> "RatingsModel":
        """The model of a record; ValueError if its parts disagree."""
        check_memory(len(self.prior.mean), n_matrices=4)
        items, rater_ids = Ids.of(self.items), Ids.of(self.raters)
        self._check(items, rater_ids)
        center, strength = self._likelihood(-1), self.strength
        return RatingsModel(
            self.categories,
            self.classes,
            items,
            rater_ids,
            self.base,
            self.prior,
            self.covariance,
            SharedThresholds(center, strength)
            if isinstance(center, OrdinalProbit)
            else SharedNoise(center, strength),
            tuple(self._rater(j) for j in range(len(rater_ids))),
            self.summary,
        )

    def _check(self, items: Ids, rater_ids: Ids) -> None:
        begins, r = self.begins, len(self.categories)
        fits = len(items) == len(self.items) == len(self.prior.mean)
        fits &= len(rater_ids) == len(self.raters) == len(begins) - 1
        fits &= bool(
            begins[0] == 0 and begins[-1] == len(self.index) and (np.diff(begins) >= 0).all()
        )
        fits &= self.gaps.shape[1] == (r - 2 if self.likelihood == "ordinal" else 0)
        fits &= levels_agree(self.categories, self.classes)
        if self.likelihood == "gaussian":
            fits &= bool(np.all(np.isfinite(numeric_levels(self.categories))))
        if not fits:
            raise ValueError("ids, begins, gaps, levels and the rest of the model disagree")
        self.prior.check()
        if isinstance(self.covariance, KernelCovariance):
            features = self.covariance.features
            check_rows(features, self.covariance.kernel, features.shape[1])

    def _likelihood(self, j: int) -> OrdinalProbit | Gaussian:
        noise = float(self.noise[j])
        if self.likelihood == "gaussian":
            return Gaussian(noise)
        return OrdinalProbit(noise, float(self.first[j]), self.gaps[j], self.unit)

    def _rater(self, j: int) -> Rater:
        own = slice(*self.begins[j : j + 2])
        index, codes = self.index[own], self.codes[own]
        if len(np.unique(index)) < len(index):
            raise ValueError(f"rater {j} has several ratings of one item")
        y = codes if self.likelihood == "ordinal" else numeric_levels(self.categories)[codes]
        return Rater(index, y, self._likelihood(j), Sites(self.tau[own], self.nu[own]))


@saved_as("result.collaborative", record=RatingsRecord)
@dataclass(frozen=True, eq=False)
class RatingsModel:
    """Prior of the items, and the raters with their posteriors' sites."""

    categories: NDArray[Any]
    """all levels in rank order"""
    classes: NDArray[Any]
    """observed levels, sorted"""
    items: Ids
    rater_ids: Ids
    base: Prior
    """prior at the start"""
    prior: Prior
    """prior found"""
    covariance: ItemCovariance | None
    """the start's covariance as a function of features, if items have any"""
    shared: RaterDistribution
    """distribution of the raters' parameters"""
    raters: tuple[Rater, ...]
    summary: EMSummary

    @property
    def values(self) -> FloatArray:
        """Levels as numbers."""
        return numeric_levels(self.categories)

    def link(self, rater: int) -> OrdinalProbit:
        """Map from a rater's latent values to levels; a Gaussian rater takes the nearest level."""
        own = self.raters[rater].likelihood
        if isinstance(own, OrdinalProbit):
            return own
        values = self.values
        return OrdinalProbit.from_thresholds((values[1:] + values[:-1]) / 2, own.noise)

    def with_rater(self, rater: Hashable, index: IntArray, codes: IntArray, tol: float) -> Self:
        """The model with one more rater; the prior and the other raters stay as they are."""
        y = codes if isinstance(self.shared, SharedThresholds) else self.values[codes]
        new = Rater(index, y, self.shared.center)
        if len(index):
            new = fit_rater(self.prior, new, self.shared, tol=tol)
        ids = Ids.of([*self.rater_ids.values, rater])
        return replace(self, rater_ids=ids, raters=(*self.raters, new))

    def latent(self, by: IntArray, items: Sequence[Hashable], item_features: Any) -> Moments:
        """Posterior moments of pairs; each rater's posterior is computed once, from its sites."""
        distinct = Ids.of(items)
        query, where = self._query(distinct, item_features), distinct.places(items)
        mean, var = query.mean[where], query.var[where]
        for j in np.unique(by):
            pairs, rater = np.flatnonzero(by == j), self.raters[j]
            if len(rater.index):
                cross = query.cross[np.ix_(where[pairs], rater.index)]
                found = rater.posterior(self.prior).predict(cross, query.var[where[pairs]])
                mean[pairs] += found.mean
                var[pairs] = found.var
        return Moments(mean, var)

    def probabilities(self, by: IntArray, latent: Moments) -> FloatArray:
        """Probability of every level for pairs with these latent moments."""
        proba = np.empty((len(by), len(self.categories)))
        for j in np.unique(by):
            own = by == j
            proba[own] = self.link(j).probabilities(latent.mean[own], latent.var[own])
        return proba

    def _query(self, asked: Ids, item_features: Any) -> QueryItems:
        """Prior moments of items, and their covariance with the fitted ones."""
        places, prior = self.items.places(asked.values), self.prior
        variance = np.diagonal(prior.covariance)
        known = QueryItems(prior.mean[places], prior.covariance[places], variance[places])
        new = np.flatnonzero(places < 0)
        if len(new) == 0:
            return known
        if item_features is None or self.covariance is None:
            remedy = "Fit with item_features and give those of new items, or fit again with it."
            raise unknown_error(asked.values, places, "item", remedy)
        ids, table = read_features(item_features, gaps=True)
        among = ids.places(asked.values)
        check_known(asked.values, np.where(places < 0, among, 0), "item", "Give its item_features.")
        return known.with_items(new, self._new_items(self.covariance, table[among[new]]))

    def _new_items(self, start: ItemCovariance, features: FloatArray) -> QueryItems:
        """New items under the learned prior: section 5 of [Yu06]_.

        Given the function on the fitted items, a new item follows the starting prior:
        B = K0(new, fitted) K0^-1 carries the learned mean and covariance over.
        """
        if features.shape[1] != start.features.shape[1]:
            raise ValueError(
                f"item_features must have {start.features.shape[1]} columns as in fit, but "
                f"have {features.shape[1]}."
            )
        base, cross = self.base, start.cross(features)
        B = np.linalg.solve(base.covariance, cross.T).T
        rows = B @ self.prior.covariance
        own = start.variance(features) - np.einsum("ij,ij->i", B, cross)
        var = np.maximum(own, 0.0) + np.einsum("ij,ij->i", rows, B)
        # The starting mean is one number for all items.
        return QueryItems(base.mean[0] + B @ (self.prior.mean - base.mean), rows, var)
