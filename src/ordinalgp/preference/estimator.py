"""Learning from comparisons: ``PreferenceGP``."""

from os import PathLike
from typing import Any, Self, cast

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import RBF
from sklearn.utils.validation import validate_data

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.search import Task, objective_named
from ordinalgp.kernels import Independent
from ordinalgp.models.training_rows import _distinct_inputs
from ordinalgp.preference.comparisons import (
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
from ordinalgp.preference.predictions import UtilityPredictions
from ordinalgp.preference.ranking import Ranking
from ordinalgp.preference.state import PreferenceState
from ordinalgp.preference.symmetric_probit import SymmetricProbit
from ordinalgp.validation.labels import _label_values, class_positions
from ordinalgp.validation.memory import check_memory
from ordinalgp.validation.options import allows_missing, check_number, check_option
from ordinalgp.validation.weights import check_weights

__all__ = ["PreferenceGP", "Ranking"]

# Noise at the start, in prior standard deviations of the utility: log gamma = 1 for a kernel of
# unit variance, the start called GPEP2 by [Wang10]_.
_START_NOISE = float(np.exp(-0.5))


class PreferenceGP(UtilityPredictions, PreferenceState, BaseEstimator):
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

    _kernel_words = ("independent",)

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
        return self._unless_it_fails(self._fit_comparisons, X, comparisons, outcomes, sample_weight)

    def _fit_comparisons(self, X: Any, comparisons: Any, outcomes: Any, sample_weight: Any) -> Self:
        items, kernel, item_of_row = self._read_items(X)
        names = getattr(self, "items_", None)
        pairs = check_comparisons(comparisons, len(item_of_row), names)
        coded = encode_outcomes(outcomes, self.levels, len(pairs))
        weights = check_weights(sample_weight, len(pairs))
        sides = "alike" if self.position_bias == "none" else "apart"
        pairs = item_of_row[pairs]
        observed = merge_comparisons(pairs, coded, weights, len(items), sides=sides)
        return self._fit(items, kernel, observed, coded, weights)

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
        return self._unless_it_fails(self._fit_relations, X, A, y, sample_weight)

    def _fit_relations(self, X: Any, A: Any, y: Any, sample_weight: Any) -> Self:
        items, kernel, item_of_row = self._read_items(X)
        matrix = check_relations(A, len(item_of_row))
        rows = np.arange(len(item_of_row))
        shape = (len(rows), len(items))
        fold = sparse.csr_array((np.ones(len(rows)), (rows, item_of_row)), shape=shape)
        coded = encode_outcomes(y, self.levels, matrix.shape[0], "y")
        weights = check_weights(sample_weight, matrix.shape[0])
        observed = merge_relations(sparse.csr_array(matrix @ fold), coded, weights)
        return self._fit(items, kernel, observed, coded, weights)

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
    ) -> Self:
        reject_all_ties(outcomes, weights)
        self.levels_ = outcomes.levels
        task = self._task(items, kernel, observed, len(outcomes.levels))
        return self._settle(task, self._maximise(task))

    def _check_parameters(self) -> None:
        super()._check_parameters()
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

    def _name_likelihood(self, task: Task) -> None:
        self.kernel_, self.likelihood_ = task.kernel, cast(SymmetricProbit, task.likelihood)
        self.noise_, self.margins_ = self.likelihood_.noise, self.likelihood_.margins
        self.position_bias_ = self.likelihood_.bias

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
