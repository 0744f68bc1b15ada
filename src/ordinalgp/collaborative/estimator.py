"""Many raters of the same items: Gaussian processes that learn from each other.

.. [Yu06] S. Yu, K. Yu and V. Tresp, "Collaborative ordinal regression", 2006.
"""

import sys
import warnings
from collections.abc import Hashable, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.collaborative.hierarchy import EMLimits, Hyperprior, Prior, Rater, learn, settle
from ordinalgp.collaborative.items import Items, is_matrix, read_items, read_matrix
from ordinalgp.collaborative.predictions import RaterPredictions
from ordinalgp.collaborative.raters import SharedNoise, SharedThresholds
from ordinalgp.collaborative.ratings import (
    Ids,
    check_known,
    check_same_length,
    last_of_each,
    read_ids,
)
from ordinalgp.collaborative.state import CollaborativeState
from ordinalgp.core.likelihoods import Gaussian, OrdinalProbit
from ordinalgp.decisions import decide
from ordinalgp.validation.labels import class_positions, encode_levels
from ordinalgp.validation.options import check_number, check_option, check_whole

_LIMITS = EMLimits()


class CollaborativeOrdinalGP(RaterPredictions, CollaborativeState, BaseEstimator):
    """Gaussian process ordinal regression for many raters with a common prior ([Yu06]_).

    Every rater has a latent function of the items, drawn from one Gaussian prior, and own
    thresholds and noise. EM alternates between the raters' posteriors (exact for the Gaussian
    likelihood, else expectation propagation) and the prior's mean and covariance.

    Parameters
    ----------
    kernel : "correlation", scikit-learn kernel, or array-like of shape (m, m)
        Covariance between items at the start. "correlation": cosines between items from the
        ratings (or, if given, from ``item_features`` that are other raters' ratings), each rater's
        mean taken away, gaps as zero, shrunk by half towards independence, plus a constant 0.3 for
        the overall level of a rater. A kernel is evaluated on ``item_features`` as it is. The
        rows of a matrix belong to items 0, 1, ..., or to the index of a data frame.
    likelihood : {"ordinal", "gaussian"}, default="ordinal"
        Thresholds on the latent function (GPOR, CGPOR), or the ratings themselves with Gaussian
        noise (GPR, CGPR; names count as 0, 1, ...).
    prior : {"learned", "fixed"}, default="learned"
        Learn the raters' common mean and covariance, or keep the start (0, or the mean rating if
        Gaussian, and ``kernel``) and learn only what each rater owns.
    categories : array-like of shape (r,), default=None
        Levels from lowest to highest; needed for names, optional for numbers.
    decision : {"mode", "median", "mean"} or array-like of shape (r, r), default="mode"
        How :meth:`predict` chooses a level; see :func:`ordinalgp.decisions.decide`.
    covariance_smoothing : float, default=None
        Number of virtual raters with the starting covariance (Normal-Inverse-Wishart smoothing).
        It keeps the covariance positive definite and from fitting every accident: m^2/2 numbers
        are learned. None means four for each item.
    mean_smoothing : float, default=10
        Number of virtual raters with the starting mean.
    rater_smoothing : float, default=5
        How strongly own thresholds and noise are held to those of the typical rater, about the
        weight of so many ratings. With 0 every rater stands alone.
    max_iter : int, default=50
        Most iterations of EM.
    tol : float, default=1e-4
        Stop when an iteration gains less than this for each rating.
    n_jobs : int, default=None
        Raters at once, through joblib.
    verbose : int, default=0
        1 prints the objective of every iteration.

    Attributes
    ----------
    mean_ : ndarray of shape (m,)
        Prior mean of the items, in the order of ``items_``.
    covariance_ : ndarray of shape (m, m)
        Prior covariance of the items.
    thresholds_ : dict
        Thresholds of every rater; for the Gaussian likelihood halfway between the levels.
    noise_ : dict
        Noise (standard deviation) of every rater.
    items_, raters_ : ndarray
        All ids.
    categories_, classes_ : ndarray
        Levels in rank order, and sorted.
    objective_path_ : ndarray
        What EM climbs: log evidence plus log densities of what is smoothed, at every iteration.
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
    If a rater rated an item several times, the last rating counts. Latent scale, noise and
    thresholds share one unit; the typical rater's noise is 1.

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
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.verbose = verbose

    # ---------------------------------------------------------------------------- fitting

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
            features, or with row i for item i. NaN is a gap where the kernel takes gaps.

        Returns
        -------
        self
            The fitted estimator itself.
        """
        before = self.__dict__.copy()
        try:
            return self._fit(raters, items, ratings, item_features)
        except BaseException:  # an old model stays whole
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _fit(self, raters: Any, items: Any, ratings: Any, item_features: Any) -> Self:
        self._check_parameters()
        who, what = read_ids(raters, "raters"), read_ids(items, "items")
        levels = encode_levels(ratings, self.categories, name="ratings")
        check_same_length(raters=who, items=what, ratings=levels.codes)
        self.categories_, self.classes_ = levels.categories, levels.classes
        decide(np.full((1, len(self.categories_)), 1 / len(self.categories_)), self.decision)
        self._raters = Ids.of(who)
        ids, data = self._read_kernel(what, item_features)
        places = ids.places(what)
        remedy = "Give item_features, or the kernel matrix, a row for every rated item."
        check_known(what, places, "item", remedy)
        by = self._raters.places(who)
        kept = last_of_each(by, places)
        by, places, codes = by[kept], places[kept], levels.codes[kept]
        self._start = self._read_start(ids, data, by, places, codes)
        return self._learn(by, places, codes)

    def _check_parameters(self) -> None:
        check_option("likelihood", self.likelihood, ("ordinal", "gaussian"))
        check_option("prior", self.prior, ("learned", "fixed"))
        if isinstance(self.kernel, str):
            check_option("kernel", self.kernel, ("correlation",))
        if self.covariance_smoothing is not None:
            check_number("covariance_smoothing", self.covariance_smoothing, least=0)
        check_whole("max_iter", self.max_iter, least=0)
        for name in ("mean_smoothing", "rater_smoothing", "tol"):
            check_number(name, getattr(self, name), least=0)

    def _read_kernel(
        self, rated: Sequence[Hashable], item_features: Any
    ) -> tuple[Ids, FloatArray | None]:
        """All items, and their features or the kernel's matrix if these were given."""
        if is_matrix(self.kernel):
            return read_matrix(self.kernel)
        return read_items(self.kernel, item_features) or (Ids.of(rated), None)

    def _read_start(
        self, ids: Ids, data: FloatArray | None, by: IntArray, places: IntArray, codes: IntArray
    ) -> Items:
        self._scale = float(np.var(self._values[codes])) if self.likelihood == "gaussian" else 1.0
        if is_matrix(self.kernel):
            return Items(ids, np.empty((len(ids), 0)), np.asarray(data))
        if data is None:
            table = np.full((len(ids), len(self._raters)), np.nan)
            table[places, by] = self._values[codes]
            # New items cannot have ratings by these raters: there are no features to compare.
            return Items(ids, np.empty((len(ids), 0)), self._start_kernel(table).covariance())
        return Items(ids, data, self._start_kernel(data).covariance())

    def _learn(self, by: IntArray, places: IntArray, codes: IntArray) -> Self:
        base, model = self._beginning(codes)
        raters = [
            Rater(places[by == j], self._observed(codes[by == j]), model.center)
            for j in range(len(self._raters))
        ]
        wishart = self.covariance_smoothing
        if wishart is None:  # enough for calibrated probabilities: see docs/collaborative.md
            wishart = 4.0 * len(base.mean)
        found = learn(
            base,
            raters,
            model,
            Hyperprior(base, self.mean_smoothing, wishart) if self.prior == "learned" else None,
            max_iter=int(self.max_iter),
            tol=self.tol,
            limits=_LIMITS,
            n_jobs=self.n_jobs,
            report=self._report,
        )
        self._base, self._prior, self._model = base, found.prior, found.model
        self._fitted_raters = list(found.raters)
        self.objective_path_ = np.array(found.path)
        self.log_evidence_path_ = np.array(found.evidence_path)
        self.bound_path_ = np.array(found.bound_path)
        self.converged_, self.n_iter_ = bool(found.converged), len(found.path) - 1
        self._warn(found.unsettled)
        return self

    def _beginning(self, codes: IntArray) -> tuple[Prior, SharedThresholds | SharedNoise]:
        """Starting prior and the typical rater."""
        K, strength = self._start.covariance, float(self.rater_smoothing)
        if self.likelihood == "gaussian":
            values = self._values[codes]
            noise = Gaussian(float(np.std(values)) / 2)
            return Prior(np.full(len(K), values.mean()), K), SharedNoise(noise, strength)
        counts = np.bincount(codes, minlength=len(self.categories_)).astype(float)
        typical = OrdinalProbit.from_counts(counts, 1.0, float(np.mean(np.diagonal(K))))
        return Prior(np.zeros(len(K)), K), SharedThresholds(typical, strength)

    def _report(self, iteration: int, value: float) -> None:
        if self.verbose:
            print(f"iteration {iteration:3d}: {value:.4f}", file=sys.stderr, flush=True)

    def _warn(self, unsettled: int) -> None:
        if not self.converged_ and self.n_iter_ > 0:
            gain = np.diff(self.objective_path_)[-1]
            warnings.warn(
                f"EM still gained {gain:.3g} in iteration {self.n_iter_}. Raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        if unsettled:
            warnings.warn(
                f"EP did not settle for {unsettled} of {len(self._raters)} raters.",
                ConvergenceWarning,
                stacklevel=4,
            )

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
        rater = self._new_id() if rater is None else read_ids([rater], "rater")[0]
        if rater in self._raters.place:
            raise ValueError(
                f"Rater {rater!r} is known already. Choose another id, or fit again with all "
                "ratings."
            )
        what = read_ids(items, "items")
        codes = class_positions(self.categories_, np.asarray(ratings))
        check_same_length(items=what, ratings=codes)
        places = self._start.ids.places(what)
        check_known(what, places, "item", "Leave it out, or fit again with this item.")
        shown = ", ".join(map(repr, self.categories_.tolist()))
        check_known(np.asarray(ratings).tolist(), codes, "level", f"Levels are {shown}.")
        kept = last_of_each(np.zeros_like(places), places)
        new = Rater(places[kept], self._observed(codes[kept]), self._model.center)
        if len(kept):
            new = settle(self._prior, new, self._model, tol=self.tol, limits=_LIMITS)
        self._raters = Ids.of([*self._raters.values, rater])
        self._fitted_raters = [*self._fitted_raters, new]
        return rater

    def _new_id(self) -> Hashable:
        numbers = [value for value in self._raters.values if isinstance(value, int)]
        if len(numbers) == len(self._raters):
            return max(numbers) + 1
        place = len(self._raters)
        while f"rater {place}" in self._raters.place:
            place += 1
        return f"rater {place}"
