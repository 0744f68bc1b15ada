"""Learning from comparisons: ``PreferenceGP``."""

from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import RBF
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ordinalgp._comparisons import (
    Observations,
    Outcomes,
    check_comparisons,
    check_items,
    check_relations,
    encode_outcomes,
    merge_comparisons,
    merge_relations,
    reject_all_ties,
)
from ordinalgp._evidence import EvidenceSearch
from ordinalgp._pairs import Candidates, most_informative
from ordinalgp._preference_state import PreferenceState
from ordinalgp._rows import _distinct_inputs
from ordinalgp._typing import FloatArray, IntArray
from ordinalgp._validation import (
    _label_values,
    allows_missing,
    check_memory,
    check_number,
    check_option,
    check_weights,
    class_positions,
)
from ordinalgp.core.gaussian import Moments, Sites, square_root
from ordinalgp.core.margins import SymmetricProbit
from ordinalgp.core.search import Task, objective_named
from ordinalgp.kernels import Independent

# Noise at the start, in prior standard deviations of the utility: log gamma = 1 for a kernel of
# unit variance, the start called GPEP2 by [Wang10]_.
_START_NOISE = float(np.exp(-0.5))
_PAIR_BLOCK = 256  # pairs at a time: sklearn's kernels cannot be evaluated pair by pair
_DRAWS = 10_000  # of the joint posterior, for the probability of being best
_DRAW_BLOCK = 2**22  # numbers at a time


@dataclass(frozen=True, eq=False)
class Ranking:
    """Items from best to worst, as :meth:`PreferenceGP.rank` returns them.

    All arrays have one entry for each item, the best first.

    Examples
    --------
    >>> from ordinalgp import PreferenceGP
    >>> teams = ["Ajax", "Bayern", "Celtic"]
    >>> games = [("Bayern", "Ajax"), ("Bayern", "Celtic"), ("Ajax", "Celtic")]
    >>> model = PreferenceGP("independent", noise=1.0, random_state=0).fit(teams, games)
    >>> ranking = model.rank(teams)
    >>> ranking.items.tolist()
    ['Bayern', 'Ajax', 'Celtic']
    >>> print(f"{ranking.best_proba[0]:.1f}, give or take {ranking.best_proba_error[0]:.3f}")
    0.7, give or take 0.005
    """

    order: IntArray = field(repr=False)
    """row of each item in the ``X`` that was ranked"""
    items: NDArray[Any]
    """its name, if items have names, else its row"""
    mean: FloatArray = field(repr=False)
    """expected utility"""
    sd: FloatArray = field(repr=False)
    """posterior standard deviation of the utility"""
    best_proba: FloatArray = field(repr=False)
    """probability that this item's utility is the largest of all"""
    best_proba_error: FloatArray = field(repr=False)
    """standard error of ``best_proba``, which is an average over random draws"""


class PreferenceGP(EvidenceSearch, PreferenceState, BaseEstimator):
    """Utility of items, learned from comparisons of pairs.

    Every item has a utility with a Gaussian process prior over the items' features. A comparison
    sees the difference of two utilities with noise; thresholds cut it into "right preferred" and
    "left preferred", with ties or grades between if there are any. See [Wang10]_.

    Parameters
    ----------
    kernel : scikit-learn kernel, "independent" or None, default=None
        Covariance of the utility. None is the Gaussian kernel with unit variance and squared
        length scale equal to the number of features at the start, meant for standardised inputs.
        "independent" is for items without features: ``X`` is then their number, or their names.
    inference : {"ep", "laplace"}, default="ep"
        Expectation propagation, or Laplace's approximation at the posterior mode.
    levels : sequence, default=None
        What ``outcomes`` can be, from "right much preferred" to "left much preferred": any
        number, odd with a tie in the middle or even without. None means -1, +1, with 0 for ties.
    noise : "learned" or float, default="learned"
        Standard deviation of the noise of one item in one comparison; a number is kept as it is.
    position_bias : {"none", "learned"}, default="none"
        Whether being on the left may be an advantage, such as playing at home.
    optimizer : {"fmin_l_bfgs_b"}, callable or None, default="fmin_l_bfgs_b"
        Search for the hyperparameters; None keeps kernel, noise and margins at the start. A
        callable is called like scikit-learn's: ``optimizer(obj_func, initial_theta, bounds)``.
    n_restarts_optimizer : int, default=0
        Additional searches from random starts; the best is kept.
    max_sweeps : int, default=100
        Largest number of EP sweeps or Newton steps for one set of hyperparameters.
    tol : float, default=1e-6
        Inference stops when no site moves further than this many posterior standard deviations.
    n_jobs : int, default=None
        Number of restarts run at once, through joblib.
    random_state : int, RandomState instance or None, default=None
        Draws the random starts, the samples of :meth:`rank` and the random pairs.
    verbose : int, default=0
        1 reports every search, 2 every evaluation, on the error stream.

    Attributes
    ----------
    kernel_ : scikit-learn kernel
        The kernel with its hyperparameters found.
    likelihood_ : SymmetricProbit
        The likelihood of a comparison, with its parameters found.
    noise_ : float
        Standard deviation of one item's noise: a difference carries ``2 * noise_**2``.
    margins_ : ndarray of shape (n_levels - 1,)
        Thresholds on the difference of utilities: ``[0.]`` for wins, symmetric otherwise.
    position_bias_ : float
        What the left side gains, in units of utility.
    levels_ : ndarray of shape (n_levels,)
        What outcomes can be, from right to left preferred.
    items_ : ndarray
        Names of the items; only with ``kernel="independent"``.
    log_marginal_likelihood_value_ : float
        The log evidence at the hyperparameters found.
    evidence_path_ : ndarray
        The log evidence at every evaluation of the winning search.
    converged_ : bool
        Whether both the inference and the search settled.
    n_iter_ : int
        Sweeps or Newton steps of the final inference.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features, where the input had them.

    Notes
    -----
    Comparisons tell differences only: utilities are relative to the prior mean 0. Groups of items
    that were never compared with each other are tied together by the prior alone, and items that
    were never compared get their utility from the features.

    References
    ----------
    .. [Wang10] R. Wang and S. J. McKenna, "Gaussian process learning from order relationships
       using expectation propagation", ICPR 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from ordinalgp import PreferenceGP
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = PreferenceGP().fit(X, [[1, 0], [2, 1], [2, 3], [2, 0]])
    >>> int(model.rank(X).order[0])
    2
    >>> bool(model.comparison_proba(X[[2]], X[[0]])[0] > 0.8)
    True

    Items without features, and ties:

    >>> teams = ["Ajax", "Bayern", "Celtic"]
    >>> games = [("Ajax", "Bayern"), ("Bayern", "Celtic"), ("Ajax", "Celtic")]
    >>> league = PreferenceGP(kernel="independent", noise=1.0)
    >>> league.fit(teams, games, outcomes=[1, 0, 0]).rank(teams).items.tolist()
    ['Ajax', 'Celtic', 'Bayern']
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        inference: str = "ep",
        levels: Any = None,
        noise: Any = "learned",
        position_bias: str = "none",
        optimizer: Any = "fmin_l_bfgs_b",
        n_restarts_optimizer: int = 0,
        max_sweeps: int = 100,
        tol: float = 1e-6,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.inference = inference
        self.levels = levels
        self.noise = noise
        self.position_bias = position_bias
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.max_sweeps = max_sweeps
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------------ fitting

    def fit(
        self, X: Any, comparisons: Any, outcomes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Find hyperparameters and posterior from comparisons of two items each.

        Parameters
        ----------
        X : array-like of shape (n_items, n_features)
            The items, compared or not; standardise features for the default kernel. With
            ``kernel="independent"`` their number, or a list of their names.
        comparisons : array-like of shape (n_comparisons, 2)
            Rows of ``X`` that were compared, left and right; or their names, if ``X`` is names.
        outcomes : array-like of shape (n_comparisons,), default=None
            None: the left was preferred each time. Else -1 (right preferred), 0 (tie) or +1
            (left preferred), or booleans (left preferred), or one of ``levels``.
        sample_weight : array-like of shape (n_comparisons,), default=None
            How many times each comparison counts. Repeated comparisons cost nothing extra.

        Returns
        -------
        PreferenceGP
            The fitted estimator itself.
        """

        def fit() -> None:
            items, kernel, item_of_row = self._read_items(X)
            names = getattr(self, "items_", None)
            pairs = check_comparisons(comparisons, len(item_of_row), names)
            coded = encode_outcomes(outcomes, self.levels, len(pairs))
            weights = check_weights(sample_weight, len(pairs))
            sides = "alike" if self.position_bias == "none" else "apart"
            pairs = item_of_row[pairs]
            observed = merge_comparisons(pairs, coded, weights, len(items), sides=sides)
            self._fit(items, kernel, observed, coded, weights)

        self._whole(fit)
        return self

    def fit_relations(self, X: Any, A: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find hyperparameters and posterior from relations between any number of items.

        Each relation sees a linear combination of utilities, a row of ``A``: a row with one +1 and
        one -1 is a comparison, ``[1, -2, 1]`` says whether the middle item is below the average of
        its neighbours (section 4 of [Wang10]_).

        Parameters
        ----------
        X : array-like of shape (n_items, n_features)
            The items, as in :meth:`fit`.
        A : sparse matrix or array-like of shape (n_relations, n_items)
            One row for each relation. Each has the noise variance ``2 * noise_**2``, whatever its
            coefficients; multiply a row to say that it is more or less certain.
        y : array-like of shape (n_relations,), default=None
            What was seen of each, as ``outcomes`` of :meth:`fit`: None or +1 means positive.
        sample_weight : array-like of shape (n_relations,), default=None
            How many times each relation counts.

        Returns
        -------
        PreferenceGP
            The fitted estimator itself.
        """

        def fit() -> None:
            items, kernel, item_of_row = self._read_items(X)
            matrix = check_relations(A, len(item_of_row))
            rows = np.arange(len(item_of_row))
            shape = (len(rows), len(items))
            fold = sparse.csr_array((np.ones(len(rows)), (rows, item_of_row)), shape=shape)
            coded = encode_outcomes(y, self.levels, matrix.shape[0], "y")
            weights = check_weights(sample_weight, matrix.shape[0])
            observed = merge_relations(sparse.csr_array(matrix @ fold), coded, weights)
            self._fit(items, kernel, observed, coded, weights)

        self._whole(fit)
        return self

    def _read_items(self, X: Any) -> tuple[FloatArray, Any, IntArray]:
        """Distinct items, the kernel at the start, and which item each row of X is."""
        self._check_parameters()
        for name in ("items_", "feature_names_in_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if self._nameless:
            rows = self._check_inputs(X, reset=True)
        else:
            self.items_ = check_items(X)
            rows, self.n_features_in_ = np.arange(float(len(self.items_)))[:, None], 1
        kernel = self._starting_kernel(rows)
        items, item_of_row = _distinct_inputs(rows, kernel)
        check_memory(len(items))
        return items, kernel, item_of_row

    def _fit(
        self,
        items: FloatArray,
        kernel: Any,
        observed: Observations,
        outcomes: Outcomes,
        weights: FloatArray,
    ) -> None:
        reject_all_ties(outcomes, weights)
        self.levels_ = outcomes.levels
        self._search(self._task(items, kernel, observed, len(outcomes.levels)))

    def _check_parameters(self) -> None:
        self._check_search_parameters()
        if isinstance(self.kernel, str):
            check_option("kernel", self.kernel, ("independent",))
        check_option("position_bias", self.position_bias, ("none", "learned"))
        if isinstance(self.noise, str):
            check_option("noise", self.noise, ("learned",))
        else:
            check_number("noise", self.noise, above=0)

    def _check_inputs(self, X: Any, *, reset: bool) -> FloatArray:
        if not self._nameless:
            return self._item_numbers(X)
        gaps = self.kernel is not None and allows_missing(self.kernel)
        checked: FloatArray = validate_data(
            self,
            X,
            reset=reset,
            dtype=np.float64,
            ensure_all_finite="allow-nan" if gaps else True,
        )
        return checked

    def _item_numbers(self, X: Any) -> FloatArray:
        """Each name's place among the items of fit; new names get numbers of their own."""
        whole = isinstance(X, int | np.integer)
        names = check_items(X) if whole else _label_values(X, "X")
        numbers = class_positions(self.items_, names)
        new = numbers < 0
        _, which = np.unique(names[new], return_inverse=True)
        numbers[new] = len(self.items_) + which.ravel()
        return numbers.astype(float)[:, None]

    def _starting_kernel(self, X: FloatArray) -> Any:
        if isinstance(self.kernel, str):
            return Independent()
        if self.kernel is not None:
            return self.kernel.clone_with_theta(self.kernel.theta)
        return RBF(np.sqrt(X.shape[1]), length_scale_bounds=(1e-3, 1e5))

    def _task(self, items: FloatArray, kernel: Any, observed: Observations, n_levels: int) -> Task:
        smoothing, objective = objective_named(self.inference, "evidence")
        counts = np.bincount(observed.codes, observed.counts, minlength=n_levels).astype(float)
        latent_var = float(np.mean(kernel.diag(items))) or 1.0
        free = isinstance(self.noise, str)
        likelihood = SymmetricProbit.from_counts(
            counts,
            _START_NOISE * np.sqrt(latent_var) if free else float(self.noise),
            latent_var,
            biased=self.position_bias == "learned",
            free_noise=free,
        )
        return Task(
            items,
            kernel,
            likelihood,
            observed.projection,
            observed.codes,
            observed.counts,
            smoothing=smoothing,
            objective=objective,
            max_sweeps=self.max_sweeps,
            tol=self.tol,
        )

    def _keep(self, task: Task, sites: Sites) -> None:
        super()._keep(task, sites)
        self.likelihood_ = cast(SymmetricProbit, task.likelihood)
        self.noise_, self.margins_ = self.likelihood_.noise, self.likelihood_.margins
        self.position_bias_ = self.likelihood_.bias

    # --------------------------------------------------------------------- prediction

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
        X = self._check_inputs(X, reset=False)
        cross = self.kernel_(X, self._fitted_task.X)
        covariance = self._posterior.predict_covariance(cross, self.kernel_(X))
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
        blocks = range(0, len(left), _PAIR_BLOCK)
        parts = [
            self._differences(left[i : i + _PAIR_BLOCK], right[i : i + _PAIR_BLOCK]) for i in blocks
        ]
        mean, var = (np.concatenate([getattr(p, k) for p in parts]) for k in ("mean", "var"))
        return self._in_columns(self.likelihood_.probabilities(mean, var))

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
        blocks = range(0, len(distinct), _PAIR_BLOCK)
        parts = [
            self._differences(*(rows[side] for side in distinct[i : i + _PAIR_BLOCK].T))
            for i in blocks
        ]
        mean, var = (np.concatenate([getattr(p, k) for p in parts]) for k in ("mean", "var"))
        return self.likelihood_.probabilities(mean, var)[which.ravel()]

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
        best, error = self._best(mean, covariance)
        order = np.argsort(-mean, kind="stable")
        rows = np.arange(len(mean))
        items = rows if self._nameless else (check_items(X) if np.ndim(X) == 0 else np.asarray(X))
        sd = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
        return Ranking(order, items[order], mean[order], sd[order], best[order], error[order])

    def _best(self, mean: FloatArray, covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
        rng, root = check_random_state(self.random_state), square_root(covariance)
        wins, block = np.zeros(len(mean)), max(1, _DRAW_BLOCK // len(mean))
        for start in range(0, _DRAWS, block):
            normal = rng.standard_normal((min(block, _DRAWS - start), root.shape[1]))
            draws = mean + normal @ root.T
            wins += np.bincount(draws.argmax(axis=1), minlength=len(mean))
        # Half a draw more for and against: an item never on top in 10,000 is not certain to lose.
        share = (wins + 0.5) / (_DRAWS + 1)
        return wins / _DRAWS, np.sqrt(share * (1 - share) / _DRAWS)

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
        strategy : {"information", "random"}, default="information"
            Largest expected information about the utilities, each pair after the first as if those
            before it had been answered; or at random.
        exclude : array-like of shape (n_pairs, 2), default=None
            Pairs not to ask about, in either order.

        Returns
        -------
        ndarray of shape (n, 2)
            Rows of ``X``, the most informative pair first.
        """
        check_is_fitted(self)
        check_option("strategy", strategy, ("information", "random"))
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
            chosen = most_informative(pairs, mean, covariance, self.likelihood_.probit, n)
        return np.column_stack([pairs.left[chosen], pairs.right[chosen]])

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted estimator to a file, for :func:`ordinalgp.load`.

        Parameters
        ----------
        path : str or path-like
            Where to; any suffix, for example "model.ogp". The file is a zip of JSON and arrays,
            without pickle, and holds the items and the comparisons.
        """
        from ordinalgp.persistence import save

        save(self, path)
