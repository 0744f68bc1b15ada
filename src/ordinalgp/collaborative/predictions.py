"""What a fitted model of many raters says of pairs of a rater and an item."""

from collections.abc import Hashable
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.collaborative.hierarchy import Prior, Rater
from ordinalgp.collaborative.items import CorrelationStart, Items, KernelStart
from ordinalgp.collaborative.ratings import (
    Ids,
    check_known,
    check_same_length,
    read_features,
    read_ids,
)
from ordinalgp.core.gaussian import Moments
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.decisions import decide
from ordinalgp.models.base import in_class_order
from ordinalgp.validation.options import check_whole


@dataclass(frozen=True, eq=False)
class QueryItems:
    """Items asked for: prior mean and variance, and covariance with the fitted items."""

    mean: FloatArray
    rows: FloatArray
    var: FloatArray

    def extended(self, places: IntArray, new: "QueryItems") -> "QueryItems":
        """The same with ``new`` at ``places``."""
        mean, rows, var = self.mean.copy(), self.rows.copy(), self.var.copy()
        mean[places], rows[places], var[places] = new.mean, new.rows, new.var
        return QueryItems(mean, rows, var)


class RaterPredictions:
    """Predictions from the prior and the raters' sites."""

    kernel: Any
    likelihood: str
    decision: Any
    categories_: NDArray[Any]
    classes_: NDArray[Any]
    _raters: Ids
    _start: Items
    _scale: float
    _base: Prior
    _prior: Prior
    _fitted_raters: list[Rater]

    @property
    def mean_(self) -> FloatArray:
        """Prior mean of the items."""
        return self._prior.mean

    @property
    def covariance_(self) -> FloatArray:
        """Prior covariance of the items."""
        return self._prior.covariance

    @property
    def items_(self) -> NDArray[Any]:
        """Ids of all items."""
        return self._start.ids.array()

    @property
    def raters_(self) -> NDArray[Any]:
        """Ids of all raters."""
        return self._raters.array()

    @property
    def thresholds_(self) -> dict[Hashable, FloatArray]:
        """Thresholds of every rater."""
        return {key: self._link(j).thresholds for j, key in enumerate(self._raters.values)}

    @property
    def noise_(self) -> dict[Hashable, float]:
        """Noise of every rater."""
        return {key: self._link(j).noise for j, key in enumerate(self._raters.values)}

    @property
    def _values(self) -> FloatArray:
        """Levels as numbers: their own, or their ranks."""
        numeric = self.categories_.dtype.kind in "biuf"
        chosen = self.categories_ if numeric else np.arange(len(self.categories_))
        return chosen.astype(float)

    def _observed(self, codes: IntArray) -> Any:
        return self._values[codes] if self.likelihood == "gaussian" else codes

    def _start_kernel(self, features: FloatArray) -> CorrelationStart | KernelStart:
        if isinstance(self.kernel, str):
            return CorrelationStart(features, self._scale)
        return KernelStart(self.kernel, features)

    def _link(self, rater: int) -> OrdinalProbit:
        """From a rater's latent values to levels; a Gaussian rater rounds to the nearest one."""
        own = self._fitted_raters[rater].likelihood
        if isinstance(own, OrdinalProbit):
            return own
        values = self._values
        return OrdinalProbit.from_thresholds((values[1:] + values[:-1]) / 2, own.noise)

    def latent_mean_and_variance(
        self, raters: Any, items: Any, item_features: Any = None
    ) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and variance of raters' latent functions, without noise.

        Parameters
        ----------
        raters, items : array-like of shape (n,)
            Pairs, rated or not.
        item_features : DataFrame, mapping or array-like, default=None
            Features of items that ``fit`` did not see.

        Returns
        -------
        mean, variance : ndarrays of shape (n,)
            On the scale of ``thresholds_``.
        """
        check_is_fitted(self)
        who, what = read_ids(raters, "raters"), read_ids(items, "items")
        check_same_length(raters=who, items=what)
        by = self._raters.places(who)
        check_known(who, by, "rater", "Add it with add_rater, or fit again with its ratings.")
        asked = Ids.of(what)
        found = self._latent(by, asked.places(what), self._seen_from(asked, item_features))
        return found.mean, found.var

    def _seen_from(self, asked: Ids, item_features: Any) -> "QueryItems":
        """Prior moments of the items asked for, and their covariance with the fitted ones."""
        places = self._start.ids.places(asked.values)
        prior = self._prior
        variance = np.diagonal(prior.covariance)
        rows = QueryItems(prior.mean[places], prior.covariance[places], variance[places])
        new = np.flatnonzero(places < 0)
        if len(new) == 0:
            return rows
        if item_features is None or self._start.features.shape[1] == 0:
            remedy = "Fit with item_features and give those of new items, or fit again with it."
            check_known(asked.values, places, "item", remedy)
        ids, table = read_features(item_features, gaps=True)
        among = ids.places(asked.values)
        check_known(asked.values, np.where(places < 0, among, 0), "item", "Give its item_features.")
        return rows.extended(new, self._extension(table[among[new]]))

    def _extension(self, features: FloatArray) -> "QueryItems":
        """New items under the learned prior: section 5 of [Yu06]_.

        Given the function on the fitted items, a new item follows the starting prior:
        B = K0(new, fitted) K0^-1 carries the learned mean and covariance over.
        """
        if features.shape[1] != self._start.features.shape[1]:
            raise ValueError(
                f"item_features must have {self._start.features.shape[1]} columns as in fit, but "
                f"have {features.shape[1]}."
            )
        start = self._start_kernel(self._start.features)
        cross = start.cross(features)
        B = np.linalg.solve(self._base.covariance, cross.T).T
        rows = B @ self._prior.covariance
        own = start.variance(features) - np.einsum("ij,ij->i", B, cross)
        var = np.maximum(own, 0.0) + np.einsum("ij,ij->i", rows, B)
        # The starting mean is one number for all items.
        return QueryItems(self._base.mean[0] + B @ (self._prior.mean - self._base.mean), rows, var)

    def _latent(self, by: IntArray, asked: IntArray, rows: QueryItems) -> Moments:
        """Posterior moments of pairs; each rater's posterior is made once, from its sites."""
        mean, var = np.empty(len(by)), np.empty(len(by))
        for j in np.unique(by):
            pairs, rater = np.flatnonzero(by == j), self._fitted_raters[j]
            places = asked[pairs]
            mean[pairs], var[pairs] = rows.mean[places], rows.var[places]
            if len(rater.index):
                cross = rows.rows[np.ix_(places, rater.index)]
                found = rater.posterior(self._prior).predict(cross, rows.var[places])
                mean[pairs] += found.mean
                var[pairs] = found.var
        return Moments(mean, var)

    def category_proba(self, raters: Any, items: Any, item_features: Any = None) -> FloatArray:
        """Probability of every level, columns in the order of ``categories_``.

        Parameters
        ----------
        raters, items : array-like of shape (n,)
            Pairs, rated or not.
        item_features : DataFrame, mapping or array-like, default=None
            Features of items that ``fit`` did not see.

        Returns
        -------
        ndarray of shape (n, n_categories)
            Rows sum to one.
        """
        mean, var = self.latent_mean_and_variance(raters, items, item_features)
        by = self._raters.places(read_ids(raters, "raters"))
        proba = np.empty((len(by), len(self.categories_)))
        for j in np.unique(by):
            proba[by == j] = self._link(j).probabilities(mean[by == j], var[by == j])
        return proba

    def predict_proba(self, raters: Any, items: Any, item_features: Any = None) -> FloatArray:
        """Probability of every class, columns in the order of ``classes_`` (sorted).

        Parameters
        ----------
        raters, items : array-like of shape (n,)
            Pairs, rated or not.
        item_features : DataFrame, mapping or array-like, default=None
            Features of items that ``fit`` did not see.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Rows sum to one; levels that no rating had are left out.
        """
        proba = self.category_proba(raters, items, item_features)
        return in_class_order(proba, self.categories_, self.classes_)

    def predict(self, raters: Any, items: Any, item_features: Any = None) -> NDArray[Any]:
        """Most suitable level under the ``decision`` rule.

        Parameters
        ----------
        raters, items : array-like of shape (n,)
            Pairs, rated or not.
        item_features : DataFrame, mapping or array-like, default=None
            Features of items that ``fit`` did not see.

        Returns
        -------
        ndarray of shape (n,)
            Levels, of the kind that ``fit`` was given.
        """
        proba = self.category_proba(raters, items, item_features)
        if len(proba) == 0:
            return self.categories_[:0]
        levels: NDArray[Any] = self.categories_[decide(proba, self.decision)]
        return levels

    def expected_rating(self, raters: Any, items: Any, item_features: Any = None) -> FloatArray:
        """Mean of the predicted levels as numbers (named levels count 0, 1, ...).

        Parameters
        ----------
        raters, items : array-like of shape (n,)
            Pairs, rated or not.
        item_features : DataFrame, mapping or array-like, default=None
            Features of items that ``fit`` did not see.

        Returns
        -------
        ndarray of shape (n,)
            Between the lowest and the highest level.
        """
        return self.category_proba(raters, items, item_features) @ self._values

    def recommend(self, rater: Any, n: int = 10) -> NDArray[Any]:
        """Items that the rater has not rated, those with the highest expected rating first.

        Parameters
        ----------
        rater : hashable
            A known rater.
        n : int, default=10
            How many at most.

        Returns
        -------
        ndarray
            Ids of items, best first.
        """
        check_is_fitted(self)
        check_whole("n", n, least=0)
        place = self._raters.places(read_ids([rater], "rater"))
        check_known([rater], place, "rater", "Add it with add_rater, or fit again.")
        rated = self._fitted_raters[place[0]].index
        left = np.setdiff1d(np.arange(len(self._start.ids)), rated)
        ids = [self._start.ids.values[i] for i in left]
        score = self.expected_rating([rater] * len(ids), ids)
        best = left[np.argsort(-score, kind="stable")[:n]]
        return self._start.ids.array(best)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted estimator to a file, for :func:`ordinalgp.load`.

        Parameters
        ----------
        path : str or path-like
            Where to. Ids must be numbers, strings or tuples of them.
        """
        from ordinalgp.persistence import save

        save(self, path)
