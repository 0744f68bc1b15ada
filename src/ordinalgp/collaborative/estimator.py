"""Gaussian process ordinal regression for many raters: ``CollaborativeOrdinalGP``."""

from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.collaborative import hierarchy
from ordinalgp.collaborative.low_rank import LowRankSearch
from ordinalgp.collaborative.low_rank_model import LowRankRatings
from ordinalgp.collaborative.model import RatingsModel
from ordinalgp.collaborative.ratings import (
    LEVEL_VARIANCE,
    Ratings,
    check_same_length,
    read_ids,
    read_own_ratings,
)
from ordinalgp.collaborative.summary import (
    ItemSummary,
    RaterSummary,
    summarise_items,
    summarise_raters,
)
from ordinalgp.core.gaussian import Moments
from ordinalgp.core.likelihoods import Gaussian, OrdinalProbit
from ordinalgp.decisions import decide, intervals
from ordinalgp.models.base import (
    check_decision,
    in_class_order,
    nominal_threshold,
    restore_on_error,
)
from ordinalgp.persistence import save, saved_as
from ordinalgp.runtime.progress import reporter
from ordinalgp.runtime.threads import manage
from ordinalgp.runtime.warning import warn_user
from ordinalgp.validation.memory import check_memory
from ordinalgp.validation.options import check_number, check_option, check_whole

# Virtual raters per item with the starting covariance: enough for calibrated probabilities, see
# docs/collaborative.md.
_COVARIANCE_SMOOTHING_PER_ITEM = 4.0
_MOST_FULL = 1000  # items whose covariance is learned in full by default


@saved_as("estimator.collaborative")
@manage
class CollaborativeOrdinalGP(BaseEstimator):
    """Gaussian process ordinal regression for many raters with a common prior.

    The model is that of [Yu06]_. Every rater has a latent function of the items, drawn from one
    Gaussian prior, with thresholds and noise of its own. EM alternates between the raters'
    posteriors (exact for the Gaussian likelihood, else expectation propagation) and the prior's
    mean and covariance.

    Parameters
    ----------
    kernel : "correlation", scikit-learn kernel, or array-like of shape (m, m)
        Covariance between items at the start. "correlation": cosines between items from the
        ratings (or, if given, from ``item_features`` that are other raters' ratings). Each rater's
        mean is subtracted, gaps are zero, and cosines are halved, which shrinks them towards
        independence; a constant 0.3 is added for the overall level of a rater. A kernel is
        evaluated on ``item_features`` as it is. The rows of a matrix belong to items 0, 1, ..., or
        to the index of a data frame.
    likelihood : {"ordinal", "gaussian"}, default="ordinal"
        Thresholds on the latent function (GPOR, CGPOR), or the ratings themselves with Gaussian
        noise (GPR, CGPR; names count as 0, 1, ...).
    prior : {"learned", "fixed"}, default="learned"
        Learn the raters' common mean and covariance, or keep the start (0, or the mean rating if
        Gaussian, and ``kernel``) and learn only each rater's own parameters.
    categories : array-like of shape (r,), default=None
        Levels from lowest to highest; needed for names, optional for numbers.
    decision : {"mode", "median", "balanced", "mean"} or array-like of shape (r, r), default="mode"
        Rule by which :meth:`predict` chooses a level; see :func:`ordinalgp.decisions.decide`.
    covariance_smoothing : float, default=None
        Number of virtual raters with the starting covariance (Normal-Inverse-Wishart smoothing).
        It keeps the covariance, m^2/2 learned numbers, positive definite and from overfitting.
        None means four per item.
    mean_smoothing : float, default=10
        Number of virtual raters with the starting mean.
    rater_smoothing : float, default=5
        Strength of the pull of own thresholds and noise towards those of the typical rater, as a
        number of ratings. With 0 every rater is fitted alone.
    rank : {"auto", "full"} or int, default="auto"
        Covariance of the items. "full" learns all of its m^2/2 numbers. A number k is that of
        tastes: the covariance has rank k plus a diagonal, and takes memory and time in proportion
        to the ratings. It needs the ordinal likelihood and no features of items. "auto" is "full"
        up to 1,000 items. Above, it is the number of tastes that predicts a tenth of the ratings,
        left out for that choice, best.
    max_iter : int, default=50
        Largest number of iterations of EM.
    tol : float, default=1e-4
        EM stops when an iteration gains less than this per rating, in log evidence. With tastes it
        is the gain in log probability of left-out ratings.
    n_jobs : int, default=None
        Number of raters processed in parallel by joblib.
    verbose : int, default=0
        1 prints the objective of every iteration on the error stream.

    Attributes
    ----------
    mean_ : ndarray of shape (m,)
        Prior mean of the items, in the order of ``items_``.
    covariance_ : ndarray of shape (m, m)
        Prior covariance of the items; not with tastes.
    rank_ : int or None
        Number of tastes; None for the full covariance.
    loadings_ : ndarray of shape (m, number of tastes)
        Loadings of the items on the tastes.
    own_variance_ : ndarray of shape (m,)
        Variance of each item that tastes do not explain.
    rank_scores_ : dict
        Mean log probability of left-out ratings, by the numbers of tastes that were tried.
    thresholds_ : dict
        Thresholds of every rater; for the Gaussian likelihood halfway between the levels.
    noise_ : dict
        Noise (standard deviation) of every rater.
    items_, raters_ : ndarray
        All ids.
    categories_, classes_ : ndarray
        Levels in rank order, and sorted.
    objective_path_ : ndarray
        Objective of EM at every iteration: log evidence plus the log densities of the smoothed
        parameters.
    log_evidence_path_ : ndarray
        Log evidence alone: the log likelihood (Gaussian) or EP's approximation.
    bound_path_ : ndarray
        Lower bound on the log evidence, eq. (2) of [Yu06]_ at EP's posteriors; for the Gaussian
        likelihood the log evidence itself.
    converged_ : bool
        Whether ``tol`` was reached.
    n_iter_ : int
        Number of iterations.

    Notes
    -----
    If a rater rated an item several times, all of the ratings count: they are observations of one
    latent value, each with noise of its own. Latent scale, noise and thresholds share one unit; the
    typical rater's noise is 1. In CGPR of [Yu06]_ all users have one noise variance; here every
    rater has its own, drawn to a common one by ``rater_smoothing``.

    Nothing is drawn at random: two fits of the same ratings are equal.

    References
    ----------
    .. [Yu06] S. Yu, K. Yu, V. Tresp and H.-P. Kriegel, "Collaborative ordinal regression",
       International Conference on Machine Learning, 2006.

    Examples
    --------
    >>> from ordinalgp import CollaborativeOrdinalGP
    >>> raters = ["ann", "ann", "ann", "bob", "bob", "bob", "cem", "cem", "cem"]
    >>> films = ["alien", "brazil", "casablanca"] * 3
    >>> stars = [1, 4, 5, 1, 3, 5, 2, 4, 5]
    >>> model = CollaborativeOrdinalGP(tol=1e-3).fit(raters, films, stars)
    >>> rater = model.add_rater(["casablanca"], [5], rater="dora")
    >>> model.recommend("dora", n=2)
    array(['brazil', 'alien'], dtype='<U10')
    """

    _result: RatingsModel | LowRankRatings

    def __init__(
        self,
        kernel: Any = "correlation",
        *,
        likelihood: str = "ordinal",
        prior: str = "learned",
        categories: Any = None,
        decision: Any = "mode",
        covariance_smoothing: float | None = None,
        mean_smoothing: float = 10.0,
        rater_smoothing: float = 5.0,
        rank: Any = "auto",
        max_iter: int = 50,
        tol: float = 1e-4,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.likelihood = likelihood
        self.prior = prior
        self.categories = categories
        self.decision = decision
        self.covariance_smoothing = covariance_smoothing
        self.mean_smoothing = mean_smoothing
        self.rater_smoothing = rater_smoothing
        self.rank = rank
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.verbose = verbose

    # ------------------------------------------------------------------------ fitting

    def fit(self, raters: Any, items: Any, ratings: Any, item_features: Any = None) -> Self:
        """Learn from ratings in long format; missing ratings are simply absent.

        Parameters
        ----------
        raters, items : array-like of shape (n,)
            Ids, any hashable objects.
        ratings : array-like of shape (n,)
            Ordered levels.
        item_features : DataFrame, mapping or array-like of shape (m, d), default=None
            Features of all items, also of unrated ones: indexed by item, from item to its
            features, or with row i for item i. NaN is a gap if the kernel accepts gaps.

        Returns
        -------
        self
            The fitted estimator itself.
        """
        with restore_on_error(self):
            self._check_parameters()
            self._keep(self._learn(raters, items, ratings, item_features))
        return self

    def _check_parameters(self) -> None:
        check_option("likelihood", self.likelihood, ("ordinal", "gaussian"))
        check_option("prior", self.prior, ("learned", "fixed"))
        if isinstance(self.kernel, str):
            check_option("kernel", self.kernel, ("correlation",))
        if self.covariance_smoothing is not None:
            check_number("covariance_smoothing", self.covariance_smoothing, least=0)
        if isinstance(self.rank, str):
            check_option("rank", self.rank, ("auto", "full"))
        else:
            check_whole("rank", self.rank, least=1)
        check_whole("max_iter", self.max_iter, least=0)
        for name in ("mean_smoothing", "rater_smoothing", "tol"):
            check_number(name, getattr(self, name), least=0)

    def _check_for_levels(self, n_levels: int) -> None:
        self._check_parameters()
        check_decision(self.decision, n_levels)

    def _learn(
        self, raters: Any, items: Any, ratings: Any, item_features: Any
    ) -> RatingsModel | LowRankRatings:
        data, given = Ratings.read(
            raters, items, ratings, self.categories, self.kernel, item_features
        )
        levels = data.levels
        check_decision(self.decision, len(levels.categories))
        if self._has_tastes(len(data.item_ids), given):
            return self._learn_tastes(data)
        check_memory(len(data.item_ids), n_matrices=8)
        scale = float(np.var(data.values)) if self.likelihood == "gaussian" else 1.0
        covariance, K = data.starting_covariance(self.kernel, given, scale)
        shared, gaussian = self._shared(data, K), self.likelihood == "gaussian"
        mean, y = (data.values.mean(), data.values) if gaussian else (0.0, data.codes)
        base = hierarchy.Prior(np.full(len(K), mean), K)
        own = [data.by == j for j in range(len(data.rater_ids))]
        alone = [hierarchy.Rater(data.index[rows], y[rows], shared.center) for rows in own]
        found = self._maximise(hierarchy.EMState(base, alone, shared, self._hyperprior(base)))
        names = levels.categories, levels.classes, data.item_ids, data.rater_ids
        priors, paths = (base, found.prior, covariance), np.array(found.objectives).T
        raters = found.shared, paths, found.converged, tuple(found.raters)
        return RatingsModel(*names, *priors, *raters)

    def _has_tastes(self, n_items: int, given: FloatArray | None) -> bool:
        """Whether the covariance has low rank."""
        reasons = {
            "likelihood='ordinal'": self.likelihood == "ordinal",
            "prior='learned'": self.prior == "learned",
            "kernel='correlation' without item_features": given is None,
            "rater_smoothing above 0": self.rater_smoothing > 0,
        }
        if isinstance(self.rank, str):
            return self.rank == "auto" and n_items > _MOST_FULL and all(reasons.values())
        for needed, fits in reasons.items():
            if not fits:
                raise ValueError(f"rank={self.rank} needs {needed}. Change it, or use rank='full'.")
        return True

    def _learn_tastes(self, data: Ratings) -> LowRankRatings:
        typical = OrdinalProbit.from_counts(data.counts, 1.0, 1.0 + LEVEL_VARIANCE)
        shared = hierarchy.SharedThresholds(typical, float(self.rater_smoothing))
        batch = data.batch()
        limits = len(data.item_ids), shared, int(self.max_iter), self.tol, reporter(self.verbose)
        rank = None if isinstance(self.rank, str) else int(self.rank)
        fit = LowRankSearch(batch, *limits).fit(rank)
        if not fit.converged:
            warn_user(
                f"Left-out ratings were still predicted better after {self.max_iter} iterations. "
                "Raise max_iter or tol.",
                ConvergenceWarning,
            )
        return LowRankRatings.of(data, batch, fit)

    def _shared(self, data: Ratings, K: FloatArray) -> hierarchy.RaterDistribution:
        """Distribution of the raters' parameters around a typical rater, at the start."""
        strength = float(self.rater_smoothing)
        if self.likelihood == "gaussian":
            return hierarchy.SharedNoise(Gaussian(float(np.std(data.values)) / 2), strength)
        variance = float(np.mean(np.diagonal(K)))
        typical = OrdinalProbit.from_counts(data.counts, 1.0, variance)
        return hierarchy.SharedThresholds(typical, strength)

    def _hyperprior(self, base: hierarchy.Prior) -> hierarchy.Hyperprior | None:
        """Virtual raters around the prior at the start; None where that one is kept."""
        if self.prior == "fixed":
            return None
        smoothing = self.covariance_smoothing
        if smoothing is None:
            smoothing = _COVARIANCE_SMOOTHING_PER_ITEM * len(base.mean)
        return hierarchy.Hyperprior(base, self.mean_smoothing, smoothing)

    def _maximise(self, start: hierarchy.EMState) -> hierarchy.EMState:
        """Run EM, and warn where it or the inference did not converge."""
        limits, report = (int(self.max_iter), self.tol), reporter(self.verbose)
        found = hierarchy.learn(start, *limits, n_jobs=self.n_jobs, report=report)
        found = hierarchy.settled(found, self.n_jobs)
        n_iter = len(found.objectives) - 1
        if not found.converged and n_iter > 0:
            gain = found.objectives[-1][0] - found.objectives[-2][0]
            warn_user(
                f"EM still gained {gain:.3g} in iteration {n_iter}. Raise max_iter or tol.",
                ConvergenceWarning,
            )
        if found.n_failed:
            warn_user(
                f"EP did not converge for {found.n_failed} of {len(start.raters)} raters: their "
                "predictions are rough. Raise rater_smoothing, which keeps noise from vanishing, "
                "or lower max_iter.",
                ConvergenceWarning,
            )
        return found

    def add_rater(self, items: Any, ratings: Any, *, rater: Any = None) -> Any:
        """Add a rater by a few ratings; the prior and the other raters stay as they are.

        Parameters
        ----------
        items, ratings : array-like of shape (n,)
            Known items, and levels in ``categories_``. No rating at all is allowed: such a rater
            is the typical one.
        rater : hashable, default=None
            The new rater's id; if None, one is made.

        Returns
        -------
        hashable
            The new rater's id, for :meth:`predict` and :meth:`recommend`.
        """
        check_is_fitted(self)
        model = self._result
        rater = model.rater_ids.unused() if rater is None else read_ids([rater], "rater")[0]
        if rater in model.rater_ids.place:
            raise ValueError(
                f"Rater {rater!r} is known already. Choose another id, or fit again with all "
                "ratings."
            )
        index, codes = read_own_ratings(items, ratings, model.items, model.categories)
        self._keep(model.with_rater(rater, index, codes, self.tol))
        return rater

    # ------------------------------------------------------------------------ result

    def _keep(self, result: RatingsModel | LowRankRatings) -> None:
        """Set everything that follows from a result, except properties of single raters."""
        self._result = result
        self.categories_, self.classes_ = result.categories, result.classes
        self.items_ = result.items.array()
        for name in ("covariance_", "bound_path_", "loadings_", "own_variance_", "rank_scores_"):
            self.__dict__.pop(name, None)  # of an earlier fit
        if isinstance(result, LowRankRatings):
            self.rank_: int | None = result.rank
            self.mean_ = result.theta[:, -1]
            self.loadings_, self.own_variance_ = result.theta[:, :-1], result.own
            tried = result.ranks.tolist(), result.scores.tolist()
            self.rank_scores_ = dict(zip(*tried, strict=True))
            self.objective_path_ = self.log_evidence_path_ = result.paths[0]
        else:
            self.rank_ = None
            self.mean_, self.covariance_ = result.prior.mean, result.prior.covariance
            self.objective_path_, self.log_evidence_path_, self.bound_path_ = result.paths
        self.converged_, self.n_iter_ = result.converged, result.paths.shape[1] - 1

    def _restore(self, result: Any) -> None:
        """Become the fitted estimator of a file."""
        if not isinstance(result, RatingsModel | LowRankRatings):
            raise ValueError("the result is not one of many raters")
        self._check_for_levels(len(result.categories))
        self._keep(result)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a result."""
        return hasattr(self, "_result")

    @property
    def raters_(self) -> NDArray[Any]:
        """Ids of all raters."""
        return self._result.rater_ids.array()

    @property
    def thresholds_(self) -> dict[Any, FloatArray]:
        """Thresholds of every rater."""
        model = self._result
        return {key: model.link(j).thresholds for j, key in enumerate(model.rater_ids.values)}

    @property
    def noise_(self) -> dict[Any, float]:
        """Noise of every rater."""
        model = self._result
        return {key: model.link(j).noise for j, key in enumerate(model.rater_ids.values)}

    # ------------------------------------------------------------------------ predictions

    def _places(self, raters: Any) -> IntArray:
        """Places of known raters."""
        remedy = "Add it with add_rater, or fit again with its ratings."
        return self._result.rater_ids.known(read_ids(raters, "raters"), "rater", remedy)

    def latent_mean_and_variance(
        self, raters: Any, items: Any, item_features: Any = None
    ) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and variance of raters' latent functions, without noise.

        Parameters
        ----------
        raters, items : array-like of shape (n,)
            Pairs, rated or not.
        item_features : DataFrame, mapping or array-like, default=None
            Features of items that were not in ``fit``.

        Returns
        -------
        mean, variance : ndarrays of shape (n,)
            On the scale of ``thresholds_``.
        """
        check_is_fitted(self)
        who, what = read_ids(raters, "raters"), read_ids(items, "items")
        check_same_length(raters=who, items=what)
        found = self._result.latent(self._places(who), what, item_features)
        return found.mean, found.var

    def category_proba(self, raters: Any, items: Any, item_features: Any = None) -> FloatArray:
        """Probability of every level, columns in the order of ``categories_``.

        Parameters
        ----------
        raters, items : array-like of shape (n,)
            Pairs, rated or not.
        item_features : DataFrame, mapping or array-like, default=None
            Features of items that were not in ``fit``.

        Returns
        -------
        ndarray of shape (n, n_categories)
            Rows sum to one.
        """
        latent = Moments(*self.latent_mean_and_variance(raters, items, item_features))
        return self._result.probabilities(self._places(raters), latent)

    def predict_proba(self, raters: Any, items: Any, item_features: Any = None) -> FloatArray:
        """Probability of every class, columns in the order of ``classes_`` (sorted).

        Parameters
        ----------
        raters, items : array-like of shape (n,)
            Pairs, rated or not.
        item_features : DataFrame, mapping or array-like, default=None
            Features of items that were not in ``fit``.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Rows sum to one; levels that no rating had are left out.
        """
        proba = self.category_proba(raters, items, item_features)
        return in_class_order(proba, self.categories_, self.classes_)

    def predict(self, raters: Any, items: Any, item_features: Any = None) -> NDArray[Any]:
        """Predict the level of each pair under the ``decision`` rule.

        Parameters
        ----------
        raters, items : array-like of shape (n,)
            Pairs, rated or not.
        item_features : DataFrame, mapping or array-like, default=None
            Features of items that were not in ``fit``.

        Returns
        -------
        ndarray of shape (n,)
            Levels, of the kind that ``fit`` was given.
        """
        proba = self.category_proba(raters, items, item_features)
        return np.asarray(self.categories_[decide(proba, self.decision, self._result.counts)])

    def predict_interval(
        self, raters: Any, items: Any, item_features: Any = None, *, coverage: float = 0.9
    ) -> NDArray[Any]:
        """Predict a run of levels for each pair that has at least some probability.

        The run begins with the most probable level and grows by the more probable of its two
        neighbours until its probability reaches the coverage.

        Parameters
        ----------
        raters, items : array-like of shape (n,)
            Pairs, rated or not.
        item_features : DataFrame, mapping or array-like, default=None
            Features of items that were not in ``fit``.
        coverage : float, default=0.9
            Probability, between 0 and 1, that each interval should have.

        Returns
        -------
        ndarray of shape (n, 2)
            Lowest and highest level of each interval; both are inside.

        Notes
        -----
        The model's probabilities are taken as they are: nothing is calibrated.
        """
        proba = self.category_proba(raters, items, item_features)
        ranks = intervals(proba, nominal_threshold(coverage), self._result.counts)
        return np.asarray(self.categories_[np.column_stack(ranks)])

    def expected_rating(self, raters: Any, items: Any, item_features: Any = None) -> FloatArray:
        """Mean of the predicted levels as numbers (named levels count 0, 1, ...).

        Parameters
        ----------
        raters, items : array-like of shape (n,)
            Pairs, rated or not.
        item_features : DataFrame, mapping or array-like, default=None
            Features of items that were not in ``fit``.

        Returns
        -------
        ndarray of shape (n,)
            Numbers between the lowest and the highest level.
        """
        return self.category_proba(raters, items, item_features) @ self._result.values

    def recommend(self, rater: Any, n: int = 10) -> NDArray[Any]:
        """Items that the rater has not rated, those with the highest expected rating first.

        Parameters
        ----------
        rater : hashable
            A known rater.
        n : int, default=10
            Largest number of items.

        Returns
        -------
        ndarray
            Ids of items, best first.
        """
        check_is_fitted(self)
        check_whole("n", n, least=0)
        model, place = self._result, self._places([rater])[0]
        left = np.setdiff1d(np.arange(len(model.items)), model.rated(place))
        ids = [model.items.values[i] for i in left]
        score = self.expected_rating([rater] * len(ids), ids)
        best = left[np.argsort(-score, kind="stable")[:n]]
        return model.items.array(best)

    def item_summary(self, coverage: float = 0.9) -> ItemSummary:
        """Expected rating of each item, by a rater of whom nothing is known.

        Parameters
        ----------
        coverage : float, default=0.9
            Probability that each interval of levels should have.

        Returns
        -------
        ItemSummary
            Arrays with the highest expected rating first.
        """
        check_is_fitted(self)
        return summarise_items(self._result, nominal_threshold(coverage))

    def rater_summary(self) -> RaterSummary:
        """Number, mean and noise of each rater's ratings, and their use of the scale.

        Returns
        -------
        RaterSummary
            Arrays in the order of ``raters_``.
        """
        check_is_fitted(self)
        return summarise_raters(self._result)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted estimator to a file, for :func:`ordinalgp.load`.

        Parameters
        ----------
        path : str or path-like
            The file to write. Ids must be numbers, strings or tuples of them.
        """
        check_is_fitted(self)
        self._check_for_levels(len(self.categories_))
        save(self, path)
