"""The fitted model of many raters: predictions for pairs of a rater and an item, and its file."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import FINITE, LABELS, POSITIVE, Axes, FloatArray, IntArray
from ordinalgp.collaborative import hierarchy, ratings
from ordinalgp.core.gaussian import Moments, Sites
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.models.exact import check_rows
from ordinalgp.persistence import saved_as
from ordinalgp.validation.labels import count_levels, levels_agree
from ordinalgp.validation.memory import check_memory

ItemMoments = tuple[FloatArray, FloatArray, FloatArray]
"""prior mean of items, their covariance with the fitted items, and their prior variance"""


@dataclass(frozen=True, eq=False)
class CommonParts:
    """Parts of the model that do not belong to single raters."""

    categories: Annotated[NDArray[Any], Axes("r", kinds=LABELS)]
    """all levels in rank order"""
    classes: Annotated[NDArray[Any], Axes("k", kinds=LABELS)]
    """observed levels, sorted"""
    items: ratings.Ids
    rater_ids: ratings.Ids
    base: hierarchy.Prior
    """prior at the start"""
    prior: hierarchy.Prior
    """prior found"""
    covariance: ratings.ItemCovariance | None
    """the start's covariance as a function of features, if items have any"""
    shared: hierarchy.RaterDistribution
    """distribution of the raters' parameters"""
    paths: Annotated[FloatArray, Axes("objectives iterations")]
    """penalised log evidence, log evidence and its bound at every iteration of EM"""
    converged: bool

    @property
    def values(self) -> FloatArray:
        """Levels as numbers."""
        return ratings.numeric_levels(self.categories)

    @property
    def ordinal(self) -> bool:
        """Whether raters have thresholds, not Gaussian noise around the levels as numbers."""
        return isinstance(self.shared, hierarchy.SharedThresholds)

    def observed(self, codes: IntArray) -> NDArray[Any]:
        """Ratings as the likelihood takes them."""
        return codes if self.ordinal else self.values[codes]

    @property
    def common(self) -> dict[str, Any]:
        """These parts by name."""
        return {part.name: getattr(self, part.name) for part in fields(CommonParts)}


@dataclass(frozen=True, eq=False)
class RatingsRecord(CommonParts):
    """Saved form of a :class:`RatingsModel`: arrays over all raters, one after another.

    Rater j has the ratings from ``begins[j]`` to ``begins[j + 1]``.
    """

    begins: Annotated[IntArray, Axes("begins", 0, np.inf)]
    index: Annotated[IntArray, Axes("N", 0, "m")]
    codes: Annotated[IntArray, Axes("N", 0, "r")]
    tau: Annotated[FloatArray, Axes("N", 0.0, np.inf)]
    nu: Annotated[FloatArray, Axes("N", *FINITE)]
    noise: Annotated[FloatArray, Axes("raters", *POSITIVE)]
    first: Annotated[FloatArray, Axes("raters", *FINITE)]
    gaps: Annotated[FloatArray, Axes("raters gaps", *POSITIVE)]

    @classmethod
    def of(cls, model: "RatingsModel") -> Self:
        """Return the record of a model."""
        raters, ordinal = model.raters, model.ordinal
        own = [rater.likelihood for rater in raters]
        sites = [rater.sites or Sites.flat(len(rater.index)) for rater in raters]
        y = np.concatenate([rater.y for rater in raters])
        return cls(
            **model.common,
            begins=np.cumsum([0, *(len(rater.index) for rater in raters)]),
            index=np.concatenate([rater.index for rater in raters]),
            codes=(y if ordinal else np.searchsorted(model.values, y)).astype(np.intp),
            tau=np.concatenate([each.tau for each in sites]),
            nu=np.concatenate([each.nu for each in sites]),
            noise=np.array([each.noise for each in own]),
            first=np.array([each.first if ordinal else 0.0 for each in own]),
            gaps=np.array([each.gaps if ordinal else [] for each in own], dtype=float),
        )

    def restored(self) -> "RatingsModel":
        """Return the model of a record; ValueError if its parts disagree."""
        check_memory(len(self.prior.mean), n_matrices=4)
        self._check()
        return RatingsModel(
            **self.common, raters=tuple(self._rater(j) for j in range(len(self.rater_ids)))
        )

    def _check(self) -> None:
        begins = self.begins
        fits = (
            len(self.items) == len(self.prior.mean)
            and len(self.rater_ids) == len(self.noise) == len(begins) - 1
            and begins[0] == 0
            and begins[-1] == len(self.index)
            and (np.diff(begins) >= 0).all()
            and self.gaps.shape[1] == (len(self.categories) - 2 if self.ordinal else 0)
            and levels_agree(self.categories, self.classes)
            and len(self.paths) == 3
        )
        if not self.ordinal:
            fits = fits and bool(np.all(np.isfinite(self.values)))
        if not fits:
            raise ValueError("ids, begins, gaps, levels and the rest of the model disagree")
        self.prior.check()
        if isinstance(self.covariance, ratings.KernelCovariance):
            features = self.covariance.features
            check_rows(features, self.covariance.kernel, features.shape[1])

    def _rater(self, j: int) -> hierarchy.Rater:
        own, link = slice(*self.begins[j : j + 2]), self.shared.center
        index, sites = self.index[own], Sites(self.tau[own], self.nu[own])
        if isinstance(link, OrdinalProbit):
            link = replace(link, first=float(self.first[j]), gaps=self.gaps[j])
        link = replace(link, noise=float(self.noise[j]))
        return hierarchy.Rater(index, self.observed(self.codes[own]), link, sites)


@saved_as("result.collaborative", record=RatingsRecord)
@dataclass(frozen=True, eq=False)
class RatingsModel(CommonParts):
    """Prior of the items, and the raters with their posteriors' sites."""

    raters: tuple[hierarchy.Rater, ...]

    @property
    def counts(self) -> FloatArray:
        """Number of ratings of each level."""
        y = np.concatenate([rater.y for rater in self.raters])
        codes = y if self.ordinal else np.searchsorted(self.values, y)
        return count_levels(codes.astype(np.intp), None, len(self.categories))

    def rated(self, rater: int) -> IntArray:
        """Items that a rater has rated."""
        return self.raters[rater].index

    def given(self, rater: int) -> FloatArray:
        """A rater's ratings as numbers."""
        y = self.raters[rater].y
        return self.values[y] if self.ordinal else np.asarray(y, dtype=float)

    @property
    def average(self) -> FloatArray:
        """Mean latent value of each item."""
        return self.prior.mean

    def link(self, rater: int) -> OrdinalProbit:
        """Map from a rater's latent values to levels; a Gaussian rater takes the nearest level."""
        own = self.raters[rater].likelihood
        if isinstance(own, OrdinalProbit):
            return own
        values = self.values
        return OrdinalProbit.from_thresholds((values[1:] + values[:-1]) / 2, own.noise)

    def with_rater(self, rater: Hashable, index: IntArray, codes: IntArray, tol: float) -> Self:
        """The model with one more rater; the prior and the other raters stay as they are."""
        new = hierarchy.Rater(index, self.observed(codes), self.shared.center)
        if len(index):
            new = hierarchy.fit_rater(self.prior, new, self.shared, tol)
        ids = ratings.Ids.of([*self.rater_ids.values, rater])
        return replace(self, rater_ids=ids, raters=(*self.raters, new))

    def latent(self, by: IntArray, items: Sequence[Hashable], item_features: Any) -> Moments:
        """Posterior moments of pairs; each rater's posterior is computed once, from its sites."""
        distinct = ratings.Ids.of(items)
        where = distinct.places(items)
        item_mean, item_cross, item_var = self._query(distinct, item_features)
        mean, var = item_mean[where], item_var[where]
        for j in np.unique(by):
            pairs, rater = np.flatnonzero(by == j), self.raters[j]
            if len(rater.index):
                cross = item_cross[np.ix_(where[pairs], rater.items)]
                found = rater.posterior(self.prior).predict(cross, var[pairs])
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

    def _query(self, asked: ratings.Ids, item_features: Any) -> ItemMoments:
        """Prior moments of items, and their covariance with the fitted ones."""
        places, prior, start = self.items.places(asked.values), self.prior, self.covariance
        mean, cross = prior.mean[places], prior.covariance[places]
        var = np.diagonal(prior.covariance)[places]
        new = np.flatnonzero(places < 0)
        if len(new) == 0 or item_features is None or start is None:
            remedy = "Fit with item_features and give those of new items, or fit again with it."
            ratings.check_known(asked.values, places, "item", remedy)
            return mean, cross, var
        ids, table = ratings.read_features(item_features, gaps=True)
        among = ids.places(asked.values)
        ratings.check_known(
            asked.values, np.where(places < 0, among, 0), "item", "Give its item_features."
        )
        mean[new], cross[new], var[new] = self._new_items(start, table[among[new]])
        return mean, cross, var

    def _new_items(self, start: ratings.ItemCovariance, features: FloatArray) -> ItemMoments:
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
        return base.mean[0] + B @ (self.prior.mean - base.mean), rows, var
