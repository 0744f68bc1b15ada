"""What a fitted model of comparisons says of items, of pairs, and of what to ask next."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.gaussian import Moments
from ordinalgp.models.exact import EvidenceSearch
from ordinalgp.models.training_rows import _distinct_inputs
from ordinalgp.preference.comparisons import check_comparisons, check_items, encode_outcomes
from ordinalgp.preference.ranking import Ranking, best_probabilities
from ordinalgp.preference.suggestions import (
    Candidates,
    differences,
    most_informative,
    most_predictive,
)
from ordinalgp.preference.symmetric_probit import SymmetricProbit
from ordinalgp.validation.options import check_number, check_option
from ordinalgp.validation.weights import check_weights

_CHOICES = {"information": most_informative, "prediction": most_predictive}
_PAIR_BLOCK = 256  # pairs at a time: sklearn's kernels cannot be evaluated pair by pair


class UtilityPredictions(EvidenceSearch):
    """Predictions from the posterior that :class:`EvidenceSearch` keeps."""

    likelihood_: SymmetricProbit
    levels_: NDArray[Any]
    _nameless: Any
    _check_inputs: Any

    def predict(self, X: Any) -> FloatArray:
        """Expected utility of items; the larger, the more preferred.

        Parameters
        ----------
        X : array-like of shape (n_items, n_features)
            Items, known or new; names with ``kernel="independent"``.

        Returns
        -------
        ndarray of shape (n_items,)
            Relative to the prior mean of 0.
        """
        return self.latent_mean_and_variance(X)[0]

    def latent_mean_and_variance(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and variance of the utility of each item.

        Parameters
        ----------
        X : array-like of shape (n_items, n_features)
            Items, known or new; names with ``kernel="independent"``.

        Returns
        -------
        mean, variance : ndarrays of shape (n_items,)
            On the scale of ``margins_``, without the noise of a comparison.
        """
        check_is_fitted(self)
        found = self._latent(self._check_inputs(X, reset=False))
        return found.mean, found.var

    def latent_mean_and_covariance(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Joint posterior of the utilities of items.

        Parameters
        ----------
        X : array-like of shape (n_items, n_features)
            Items, known or new; names with ``kernel="independent"``.

        Returns
        -------
        mean : ndarray of shape (n_items,)
            Expected utilities.
        covariance : ndarray of shape (n_items, n_items)
            Comparisons make utilities dependent, so differences are often known much better than
            the utilities themselves.
        """
        check_is_fitted(self)
        return self._joint(self._check_inputs(X, reset=False))

    def _joint(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Joint posterior mean and covariance of checked rows."""
        cross = self.kernel_(rows, self._fitted_task.X)
        covariance = self._posterior.predict_covariance(cross, self.kernel_(rows))
        return cross @ self._posterior.weights, (covariance + covariance.T) / 2

    def comparison_proba(self, X_left: Any, X_right: Any) -> FloatArray:
        """Probability of each outcome of comparisons.

        Parameters
        ----------
        X_left, X_right : array-likes of shape (n_comparisons, n_features)
            The two items of each comparison; names with ``kernel="independent"``.

        Returns
        -------
        ndarray of shape (n_comparisons,) or (n_comparisons, n_levels)
            With two levels P(left preferred); with more one column for each of ``levels_``.
        """
        check_is_fitted(self)
        left, right = (self._check_inputs(X, reset=False) for X in (X_left, X_right))
        if len(left) != len(right):
            raise ValueError(
                f"X_left and X_right must have one row for each comparison, but have {len(left)} "
                f"and {len(right)} rows."
            )
        rows, which = _distinct_inputs(np.concatenate([left, right]), self.kernel_)
        at = self._pair_moments(rows, which.reshape(2, -1).T)
        return self._in_columns(self.likelihood_.probabilities(at.mean, at.var))

    def _pair_moments(self, rows: FloatArray, pairs: IntArray) -> Moments:
        """Posterior moments of the differences of pairs of checked rows.

        Pairs cost O(N^2) each and all items together, with k rows, O(k^2 N): the less is done.
        """
        if len(rows) ** 2 <= len(pairs) * len(self._fitted_task.X):
            return differences(*self._joint(rows), *pairs.T)
        blocks = range(0, len(pairs), _PAIR_BLOCK)
        parts = [
            self._differences(*(rows[side] for side in pairs[i : i + _PAIR_BLOCK].T))
            for i in blocks
        ]
        mean, var = (np.concatenate([getattr(p, k) for p in parts]) for k in ("mean", "var"))
        return Moments(mean, var)

    def _differences(self, left: FloatArray, right: FloatArray) -> Moments:
        """Posterior moments of f(left) - f(right), pair by pair."""
        items, kernel = self._fitted_task.X, self.kernel_
        cross = kernel(left, items) - kernel(right, items)
        prior = kernel.diag(left) + kernel.diag(right) - 2 * np.diagonal(kernel(left, right))
        return self._posterior.predict(cross, np.maximum(prior, 0.0))

    def _in_columns(self, proba: FloatArray) -> FloatArray:
        return proba[:, 1] if len(self.levels_) == 2 else proba

    def score(
        self, X: Any, comparisons: Any, outcomes: Any = None, sample_weight: Any = None
    ) -> float:
        """Share of comparisons whose outcome is the most probable one.

        Parameters
        ----------
        X, comparisons, outcomes, sample_weight
            As for :meth:`fit`.

        Returns
        -------
        float
            Accuracy; :mod:`ordinalgp.model_selection` has more, with cross-validation.
        """
        check_is_fitted(self)
        rows = self._check_inputs(X, reset=False)
        names = check_items(X) if not self._nameless else None
        pairs = check_comparisons(comparisons, len(rows), names)
        coded = encode_outcomes(outcomes, self.levels_, len(pairs))
        found = self._pair_proba(rows, pairs)
        weights = check_weights(sample_weight, len(pairs))
        return float(np.average(found.argmax(axis=1) == coded.codes, weights=weights))

    def _pair_proba(self, rows: FloatArray, pairs: IntArray) -> FloatArray:
        """Probabilities of all levels for pairs of checked rows, each pair computed once."""
        distinct, which = np.unique(pairs, axis=0, return_inverse=True)
        at = self._pair_moments(rows, distinct)
        return self.likelihood_.probabilities(at.mean, at.var)[which.ravel()]

    def rank(self, X: Any) -> Ranking:
        """Order items by expected utility, with the probability that each is the best of them.

        Parameters
        ----------
        X : array-like of shape (n_items, n_features)
            Items, known or new; names with ``kernel="independent"``.

        Returns
        -------
        Ranking
            Arrays with the best item first. The probability of being best is the share of 10,000
            draws from the joint posterior in which the item is on top, with its standard error;
            ``random_state`` makes it repeatable.
        """
        mean, covariance = self.latent_mean_and_covariance(X)
        rng = check_random_state(self.random_state)
        best, error = best_probabilities(mean, covariance, rng)
        order = np.argsort(-mean, kind="stable")
        rows = np.arange(len(mean))
        items = rows if self._nameless else (check_items(X) if np.ndim(X) == 0 else np.asarray(X))
        sd = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
        return Ranking(order, items[order], mean[order], sd[order], best[order], error[order])

    def suggest_pairs(
        self, X: Any, n: int = 1, *, strategy: str = "information", exclude: Any = None
    ) -> IntArray:
        """Choose the comparisons to ask for next.

        Parameters
        ----------
        X : array-like of shape (n_items, n_features)
            The items to choose from, known or new.
        n : int, default=1
            Number of pairs, all different.
        strategy : {"information", "prediction", "random"}, default="information"
            Largest expected information about the utilities; or about the outcomes of all pairs of
            ``X``, which suits a model that is to order such pairs; or at random. In the first two
            each pair after the first is chosen as if those before it had been answered.
        exclude : array-like of shape (n_pairs, 2), default=None
            Pairs not to ask about, in either order.

        Returns
        -------
        ndarray of shape (n, 2)
            Rows of ``X``, the most informative pair first.
        """
        check_is_fitted(self)
        check_option("strategy", strategy, (*_CHOICES, "random"))
        check_number("n", n, least=1)
        rows = self._check_inputs(X, reset=False)
        none = np.empty((0, 2), dtype=np.intp)
        excluded = none if exclude is None else check_comparisons(exclude, len(rows))
        pairs = Candidates.among(len(rows), excluded)
        if len(pairs.left) < n:
            raise ValueError(
                f"n={n} different pairs were asked for, but the {len(rows)} items have only "
                f"{len(pairs.left)} that are not excluded. Ask for fewer."
            )
        if strategy == "random":
            rng = check_random_state(self.random_state)
            chosen = rng.choice(len(pairs.left), n, replace=False)
        else:
            mean, covariance = self.latent_mean_and_covariance(X)
            chosen = _CHOICES[strategy](pairs, mean, covariance, self.likelihood_.probit, n)
        return np.column_stack([pairs.left[chosen], pairs.right[chosen]])
