"""Learning from comparisons: ``PreferenceGP``."""

from dataclasses import dataclass, replace
from os import PathLike
from typing import Annotated, Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import ConstantKernel
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ordinalgp._typing import LABELS, Axes, FloatArray, IntArray, Tagged
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.search import SearchResult, Task, objective_named
from ordinalgp.core.sparse_precision import ProjectionGraph
from ordinalgp.kernels import Independent
from ordinalgp.models.base import read_inputs, restore_on_error
from ordinalgp.models.default_kernel import rescaled_start, starting_kernel
from ordinalgp.models.exact import (
    ExactGP,
    SearchOptions,
    check_inference,
    check_search,
    with_noise_bounds,
)
from ordinalgp.models.training_rows import RowIndex, distinct_inputs
from ordinalgp.persistence import save, saved_as
from ordinalgp.preference import suggestions
from ordinalgp.preference.comparisons import (
    Judges,
    Observations,
    Outcomes,
    check_comparisons,
    check_items,
    check_relations,
    encode_judges,
    encode_outcomes,
    merge_comparisons,
    merge_relations,
)
from ordinalgp.preference.earlier_votes import EarlierVotes
from ordinalgp.preference.judges import (
    JudgedComparisons,
    Reliability,
    curvature,
    judged,
    reliability,
    search_judges,
)
from ordinalgp.preference.many_items import (
    ManyItemsGP,
    ManyItemsSettings,
    ManyItemsTask,
    inducing_items,
    most_compared,
    tell_search,
)
from ordinalgp.preference.ranking import Ranking, pair_probabilities, standings, utilities
from ordinalgp.preference.symmetric_thresholds import (
    LIKELIHOODS,
    SymmetricThresholds,
    last_parameter_sd,
)
from ordinalgp.preference.vote_search import has_many_votes, search_votes
from ordinalgp.runtime.progress import reporter
from ordinalgp.runtime.threads import manage
from ordinalgp.validation.labels import class_positions, label_values, levels_agree
from ordinalgp.validation.memory import check_memory
from ordinalgp.validation.options import (
    check_coverage,
    check_number,
    check_option,
    check_whole,
    fit_generator,
)

# Noise at the start, in prior standard deviations of the utility: log gamma = 1 for a kernel of
# unit variance, the start called GPEP2 by [Wang10]_.
_START_NOISE = float(np.exp(-0.5))
# Starts of the default kernel: the variance of an item's own value, and the noise. Either hardly
# any noise, as in comparisons that never contradict each other, or much. On other pairs than the
# reported ones and on generated comparisons, a search from the start of larger evidence ended at
# the larger maximum, except where a very short length scale did the work of the own values.
_OWN_STARTS = (0.4, 0.05), (0.04, _START_NOISE)
_OWN_BOUNDS = (1e-6, 1e4)
_MOST_DENSE = {True: 300, False: 2000}
"""items, by whether they have names in place of features, for which linear algebra is dense"""
_MANY_PER_ITEM = 50  # comparisons that leave little for sparse linear algebra to gain


@saved_as("result.preference")
@dataclass(frozen=True, eq=False)
class PreferenceResult:
    """Result of a fit: the outcomes and items, and the model of the utilities."""

    levels: Annotated[NDArray[Any], Axes("r", kinds=LABELS)]
    """outcomes, from "right much preferred" to "left much preferred\""""
    names: Annotated[NDArray[Any], Axes("items", kinds=LABELS)]
    """names of items without features, or none"""
    n_features: int
    feature_names: Annotated[NDArray[Any], Axes("names", kinds="O")]
    model: Annotated[Any, Tagged("model")]
    """an ExactGP, or a ManyItemsGP"""

    def check(self, named: bool) -> None:
        """Raise ValueError unless the parts of a saved model agree."""
        fits = levels_agree(self.levels, self.levels)
        fits = fits and len(self.feature_names) in (0, self.n_features)
        if not fits or len(self.names) != (len(self.model.task.X) if named else 0):
            raise ValueError("the items and the rest of the model disagree")
        if not isinstance(self.model, ExactGP | ManyItemsGP):
            raise ValueError("the model is not one of comparisons")
        likelihood = self.model.likelihood
        judged = isinstance(likelihood, JudgedComparisons)
        if judged and len(likelihood.by) != len(self.model.task.y):
            raise ValueError("the judges and the comparisons disagree")
        self.model.check(self.n_features, len(self.levels))


@saved_as("estimator.preference")
@manage
class PreferenceGP(BaseEstimator):
    """Model of the utility of items that learns from comparisons of pairs.

    Every item has a utility with a Gaussian process prior over the items' features. A comparison
    depends on the difference of two utilities, plus noise. Thresholds cut it into "right preferred"
    and "left preferred", with ties or grades between if there are any. See [Wang10]_.

    Parameters
    ----------
    kernel : scikit-learn kernel, {"features", "independent"} or None, default=None
        Covariance of the utility. None is the sum of a function of the features and a value of
        each item's own, in the proportion of the largest evidence. "features" is the function
        alone, as in [Wang10]_: the Gaussian kernel with unit variance and squared length scale
        equal to the number of features at the start, meant for standardised inputs.
        "independent" is for items without features: ``X`` is then their number, or their names.
    likelihood : {"probit", "logit"} or likelihood object, default="probit"
        Noise of a comparison: normal, or logistic (Bradley-Terry), whose expectations are taken by
        quadrature. An object of ``ordinalgp.preference.symmetric_thresholds`` is the start of the
        search; it then has the noise and the levels, and ``noise`` is not used.
    inference : {"ep", "laplace"}, default="ep"
        Expectation propagation, or Laplace's approximation at the posterior mode.
    levels : sequence, default=None
        Possible ``outcomes``, from "right much preferred" to "left much preferred": any
        number, odd with a tie in the middle or even without. None means -1, +1, with 0 for ties.
    noise : "learned" or float, default="learned"
        Scale of the noise of one item in one comparison, for normal noise its standard deviation; a
        number is kept as it is.
    position_bias : {"none", "learned"}, default="none"
        Whether being on the left may be an advantage, such as playing at home.
    hyperprior : prior object, default=None
        Prior on the hyperparameters, whose log density the search adds to the log evidence. None
        is flat. If the kernel has one length scale per feature, use
        :class:`ordinalgp.hyperpriors.HyperPrior`.
    noise_bounds : pair of floats, default=None
        Range that the search may visit for the standard deviation of the noise, in prior standard
        deviations of the utility at the start of the search. None is about (0.001, 1000).
    optimizer : {"fmin_l_bfgs_b"}, callable or None, default="fmin_l_bfgs_b"
        Search for the hyperparameters; None keeps kernel, noise and margins at the start. A
        callable is called like scikit-learn's: ``optimizer(obj_func, initial_theta, bounds)``.
    n_restarts_optimizer : int, default=0
        Additional searches from random starts; the best is kept.
    max_sweeps : int, default=100
        Largest number of EP sweeps or Newton steps for one set of hyperparameters.
    tol : float, default=1e-6
        Inference stops when no site moves further than this many posterior standard deviations.
    solver : {"auto", "dense", "sparse"}, default="auto"
        Linear algebra of :meth:`fit`. "dense" computes matrices of items x items. "sparse" uses
        that a comparison joins two items only. Without features it gives the same numbers. With
        features it learns hyperparameters from the 1,000 items with the most comparisons among
        each other, and represents the function of the features by up to 300 items. It needs
        ``inference="ep"``. "auto" is "sparse" above 300 items without features, and above 2,000
        with features or with 50 comparisons per item.
    n_jobs : int, default=None
        Number of restarts run in parallel by joblib.
    random_state : int, RandomState instance or None, default=None
        Seed of the random starts, the samples of :meth:`rank` and the random pairs. None is a
        fixed seed for the first two: two fits and rankings of the same rows are equal.
    verbose : int, default=0
        1 reports every search, 2 every evaluation, on the error stream.

    Attributes
    ----------
    kernel_ : scikit-learn kernel
        Kernel with the learned hyperparameters.
    likelihood_ : likelihood object
        Likelihood of a comparison, with the learned parameters.
    noise_ : float
        Scale of one item's noise. For normal noise it is the standard deviation, and a difference
        of two items has the noise variance ``2 * noise_**2``.
    margins_ : ndarray of shape (n_levels - 1,)
        Thresholds on the difference of utilities: ``[0.]`` for wins, symmetric otherwise.
    position_bias_ : float
        Advantage of the left side, in units of utility.
    levels_ : ndarray of shape (n_levels,)
        Possible outcomes, from right to left preferred.
    items_ : ndarray
        Names of the items; only with ``kernel="independent"``.
    log_marginal_likelihood_value_ : float
        The log evidence at the learned hyperparameters, plus the log density of the
        ``hyperprior``.
    evidence_path_ : ndarray
        The same sum at every evaluation of the winning search.
    converged_ : bool
        Whether both the inference and the search converged.
    n_iter_ : int
        Sweeps or Newton steps of the final inference.
    solver_ : {"dense", "sparse"}
        Linear algebra that was used.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if the input had them.

    Notes
    -----
    Comparisons determine only differences: utilities are relative to the prior mean 0. Only the
    prior relates groups of items that were never compared with each other. Items that were never
    compared get their utility from the features.

    With the default kernel an item's own value is what its features do not explain. An item is
    known by its features: rows equal to one of ``fit`` have its own value, and equal rows are one
    item. The own value of a new item is unknown. Its expected utility is that of its features, and
    its variance includes that of own values.

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

    _result: PreferenceResult

    def __init__(
        self,
        kernel: Any = None,
        *,
        likelihood: Any = "probit",
        inference: str = "ep",
        levels: Any = None,
        noise: Any = "learned",
        position_bias: str = "none",
        hyperprior: Any = None,
        noise_bounds: Any = None,
        optimizer: Any = "fmin_l_bfgs_b",
        n_restarts_optimizer: int = 0,
        max_sweeps: int = 100,
        tol: float = 1e-6,
        solver: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.likelihood = likelihood
        self.inference = inference
        self.levels = levels
        self.noise = noise
        self.position_bias = position_bias
        self.hyperprior = hyperprior
        self.noise_bounds = noise_bounds
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.max_sweeps = max_sweeps
        self.tol = tol
        self.solver = solver
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------------ fitting

    def fit(
        self,
        X: Any,
        comparisons: Any,
        outcomes: Any = None,
        sample_weight: Any = None,
        judges: Any = None,
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
            Number of times that each comparison counts. Repeated comparisons cost nothing extra.
        judges : array-like of shape (n_comparisons,), default=None
            Who made each comparison: names or numbers. Each judge then has a noise of their own,
            so that careless ones count less; see :meth:`judge_reliability`. Predictions are for
            the typical judge.

        Returns
        -------
        PreferenceGP
            The fitted estimator itself.
        """
        with restore_on_error(self):
            items, kernel, item_of_row = self._read_items(X)
            names = getattr(self, "items_", None)
            pairs = item_of_row[check_comparisons(comparisons, len(item_of_row), names)]
            outcome = encode_outcomes(outcomes, self.levels, len(pairs), sample_weight)
            self._learn_from(items, kernel, pairs, outcome, encode_judges(judges, len(pairs)))
        return self

    def partial_fit(
        self,
        X: Any,
        comparisons: Any,
        outcomes: Any = None,
        sample_weight: Any = None,
        judges: Any = None,
    ) -> Self:
        """Add comparisons to those of the last fit, and go on from its hyperparameters.

        The answer is that of a fit to all comparisons, within the tolerance of the search.

        Parameters
        ----------
        X : array-like of shape (n_items, n_features)
            Items of the new comparisons, known or new; with ``kernel="independent"`` their names.
        comparisons, outcomes, sample_weight, judges
            The new comparisons, as for :meth:`fit`. Judges are given always or never.

        Returns
        -------
        PreferenceGP
            The fitted estimator itself.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, comparisons, outcomes, sample_weight, judges)
        with restore_on_error(self):
            self._check_parameters()
            last = EarlierVotes.of(self._result.model, self._result.levels)
            rows, names = self._check_inputs(X, reset=False), None
            if self._named:
                names = check_items(X)
                self.items_ = last.names_with(self._result.names, names)
                rows = self._item_numbers(names)
            pairs = check_comparisons(comparisons, len(rows), names)
            levels = last.levels if self.levels is None else self.levels
            levels = last.levels_for(outcomes, levels)
            outcome = encode_outcomes(outcomes, levels, len(pairs), sample_weight)
            given = last.joined(encode_judges(judges, len(pairs)), outcome)
            every = np.concatenate([last.items, rows])
            if self._named:
                every = np.arange(float(len(self.items_)))[:, None]
                place = rows[:, 0].astype(np.intp)
            items, item_of_row = distinct_inputs(every, last.kernel)
            if not self._named:
                place = item_of_row[len(last.items) :]
            old = item_of_row[: len(last.items)]
            merged = np.concatenate([old[last.pairs], place[pairs]])
            self._learn_from(items, last.kernel, merged, *given, last)
        return self

    def _learn_from(
        self,
        items: FloatArray,
        kernel: Any,
        pairs: IntArray,
        outcome: Outcomes,
        judges: Judges | None,
        last: EarlierVotes | None = None,
    ) -> None:
        """Learn from comparisons as they were read, and keep the result."""
        if judges is not None:
            self._check_judges()
        swapped = self.position_bias == "none"
        observed = merge_comparisons(pairs, outcome, len(items), swapped=swapped, judges=judges)
        sparse = judges is None and self._sparse(len(items), float(np.sum(observed.counts)))
        learn = self._learn_sparse if sparse else self._learn
        self._keep(learn(items, kernel, observed, last))

    def _check_judges(self) -> None:
        """Raise if a parameter does not go with judges."""
        needed = {"likelihood": "probit", "hyperprior": None, "optimizer": "fmin_l_bfgs_b"}
        for name, usual in needed.items():
            if getattr(self, name) != usual:
                raise ValueError(
                    f"judges need {name}={usual!r}, but it is {getattr(self, name)!r:.50}. Leave "
                    "out one of the two."
                )
        if self.solver == "sparse":
            raise ValueError("judges need solver='auto' or 'dense', but solver is 'sparse'.")

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
            Outcome of each, as ``outcomes`` of :meth:`fit`: None or +1 means positive.
        sample_weight : array-like of shape (n_relations,), default=None
            Number of times that each relation counts.

        Returns
        -------
        PreferenceGP
            The fitted estimator itself.
        """
        with restore_on_error(self):
            if self.solver == "sparse":
                raise ValueError(
                    "solver='sparse' is for comparisons of two items. Use solver='auto' or "
                    "'dense' with fit_relations."
                )
            items, kernel, item_of_row = self._read_items(X)
            matrix = check_relations(A, len(item_of_row))
            outcome = encode_outcomes(y, self.levels, matrix.shape[0], sample_weight, name="y")
            observed = merge_relations(matrix, outcome, item_of_row)
            self._keep(self._learn(items, kernel, observed))
        return self

    @property
    def _named(self) -> bool:
        """Whether items have names in place of features."""
        return bool(self.kernel == "independent")

    @property
    def _default(self) -> bool:
        """Whether the function of the features is the default one."""
        return self.kernel in (None, "features")

    def _sparse(self, n_items: int, n_comparisons: float) -> bool:
        """Whether linear algebra is sparse for so many items and comparisons."""
        if self.solver != "auto":
            return self.solver == "sparse"
        many = n_comparisons >= _MANY_PER_ITEM * n_items  # which join nearly all items
        most = _MOST_DENSE[self._named and not many]
        return self.inference == "ep" and n_items > most

    def _check_parameters(self) -> None:
        check_search(self, words=("features", "independent"))
        check_inference(self)
        check_option("solver", self.solver, ("auto", "dense", "sparse"))
        if self.solver == "sparse" and self.inference != "ep":
            raise ValueError(
                f"solver='sparse' needs inference='ep', but inference is {self.inference!r}. "
                "Change one of them."
            )
        if isinstance(self.likelihood, str):
            check_option("likelihood", self.likelihood, tuple(LIKELIHOODS))
        elif not isinstance(self.likelihood, SymmetricThresholds):
            raise TypeError(
                f"likelihood must be one of {', '.join(map(repr, LIKELIHOODS))} or an object of "
                f"SymmetricThresholds, but {self.likelihood!r:.80} was given."
            )
        check_option("position_bias", self.position_bias, ("none", "learned"))
        if isinstance(self.noise, str):
            check_option("noise", self.noise, ("learned",))
        else:
            check_number("noise", self.noise, above=0)

    def _read_items(self, X: Any) -> tuple[FloatArray, Any, IntArray]:
        """Distinct items, the kernel given or that of the features, and the item of each row."""
        self._check_parameters()
        for name in ("items_", "feature_names_in_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if self._named:
            self.items_ = check_items(X)
            rows, self.n_features_in_ = np.arange(float(len(self.items_)))[:, None], 1
        else:
            rows = self._check_inputs(X, reset=True)
        given = None if self._default else self.kernel
        kernel = Independent() if self._named else starting_kernel(given, rows)
        items, item_of_row = distinct_inputs(rows, kernel)
        return items, kernel, item_of_row

    def _check_inputs(self, X: Any, *, reset: bool) -> FloatArray:
        return self._item_numbers(X) if self._named else read_inputs(self, X, reset)

    def _item_numbers(self, X: Any) -> FloatArray:
        """Each name's place among the items of fit; new names get numbers of their own."""
        whole = isinstance(X, int | np.integer)
        names = check_items(X) if whole else label_values(X, "X")
        numbers = class_positions(self.items_, names)
        new = numbers < 0
        _, which = np.unique(names[new], return_inverse=True)
        numbers[new] = len(self.items_) + which.ravel()
        return numbers.astype(float)[:, None]

    def _learn(
        self,
        items: FloatArray,
        kernel: Any,
        observed: Observations,
        last: EarlierVotes | None = None,
    ) -> PreferenceResult:
        """Search the hyperparameters, and infer the utilities."""
        task, found = self._search(items, kernel, observed, last)
        model = ExactGP.infer(task, RowIndex(np.empty(0, dtype=np.intp), items[:0]), found)
        return self._result_of(observed, model)

    def _search(
        self,
        items: FloatArray,
        kernel: Any,
        observed: Observations,
        last: EarlierVotes | None = None,
    ) -> tuple[Task, SearchResult]:
        """Search the hyperparameters with dense linear algebra."""
        check_memory(len(items))
        start, options = None, SearchOptions.of(self, reporter(self.verbose))
        if last is None:
            task = self._starting_task(items, kernel, observed)
        else:
            task, start = last.task(self._task(items, kernel, observed)), last.start(len(items))
        if observed.judges is not None and observed.by is not None:
            task = judged(task, observed.judges, observed.by)
            task = task if last is None else last.with_factors(task)
            if task.kernel.n_dims == 0:
                return search_judges(task, options.report, start)
        one_search = self.optimizer == "fmin_l_bfgs_b" and self.n_restarts_optimizer == 0
        if one_search and has_many_votes(task):
            first = search_votes(task, options.report, start)
            return options.search_evidence(task, [task.theta], first=first)
        return options.maximise(task, default=self._default and last is None)

    def _learn_sparse(
        self,
        items: FloatArray,
        kernel: Any,
        observed: Observations,
        last: EarlierVotes | None = None,
    ) -> PreferenceResult:
        """The same by sparse linear algebra."""
        report, settings = reporter(self.verbose), ManyItemsSettings()
        graph = ProjectionGraph.of(observed.projection)
        check_memory(len(graph.order.core), n_matrices=4)
        if self._named and last is not None:  # goes on with all items
            tell_search(report, len(items), len(items), len(observed.codes))
            theta = last.task(self._task(items, kernel, observed)).theta
            task, found = self._search_sparse(items, kernel, observed, theta)
            return self._result_of(observed, ManyItemsGP.infer(task, found, len(items), report))
        some, among = most_compared(observed, settings.search_items)
        tell_search(report, len(items), len(some), len(among.codes))
        if self._named:
            task, found = self._search_sparse(items[some], kernel, among, None)
            if len(some) < len(items):  # a start that saves most of the evaluations
                tell_search(report, len(items), len(items), len(observed.codes))
                task, found = self._search_sparse(items, kernel, observed, found.theta)
            model = ManyItemsGP.infer(task, found, len(items), report)
        else:
            small, found = self._search(items[some], kernel, among, last and last.anew())
            small = small.at(found.theta)
            inducing = inducing_items(small.kernel, items, settings)
            full = replace(self._task(items, small.kernel, observed), likelihood=small.likelihood)
            task = ManyItemsTask.like(full, inducing, graph)
            model = ManyItemsGP.infer(task, replace(found, start=None), len(some), report)
        return self._result_of(observed, model)

    def _search_sparse(
        self, items: FloatArray, kernel: Any, observed: Observations, theta: FloatArray | None
    ) -> tuple[ManyItemsTask, SearchResult]:
        """Search the hyperparameters of the likelihood by sparse linear algebra."""
        none, graph = np.empty(0, dtype=np.intp), ProjectionGraph.of(observed.projection)
        task = ManyItemsTask.like(self._task(items, kernel, observed), none, graph)
        task = task if theta is None else task.at(theta)
        bounded, found = SearchOptions.of(self, reporter(self.verbose)).maximise(
            task, default=False
        )
        return cast(ManyItemsTask, bounded.at(found.theta)), found

    def _result_of(self, observed: Observations, model: Any) -> PreferenceResult:
        names = getattr(self, "items_", np.empty(0))
        features = getattr(self, "feature_names_in_", np.empty(0, dtype=object))
        return PreferenceResult(observed.levels, names, self.n_features_in_, features, model)

    def _starting_task(self, items: FloatArray, kernel: Any, observed: Observations) -> Task:
        """The task at the start; with own values the one of two whose evidence is larger."""
        if self.kernel is not None:
            return self._task(items, kernel, observed)
        starts = (
            # The length scale stays the last parameter of the kernel, as `rescaled_start` needs.
            self._task(
                items, ConstantKernel(own, _OWN_BOUNDS) * Independent() + kernel, observed, noise
            )
            for own, noise in _OWN_STARTS
        )
        return max(starts, key=lambda task: task.relaxed().evaluate(rescaled_start(task)).value)

    def _task(
        self,
        items: FloatArray,
        kernel: Any,
        observed: Observations,
        noise: float = _START_NOISE,
    ) -> Task:
        """The task at a kernel and a noise, in prior standard deviations of the utility."""
        latent_var = float(np.mean(kernel.diag(items))) or 1.0
        likelihood = self._starting_likelihood(observed.level_counts, latent_var, noise)
        likelihood = with_noise_bounds(likelihood, self.noise_bounds)
        data = items, kernel, likelihood, observed.projection, observed.codes, observed.counts
        limits = objective_named(self.inference), self.max_sweeps, float(self.tol)
        return Task(*data, *limits, hyperprior=self.hyperprior)

    def _starting_likelihood(
        self, counts: FloatArray, latent_var: float, start_noise: float
    ) -> SymmetricThresholds:
        """The likelihood at the start, of the observed frequencies of levels or as given."""
        if not isinstance(self.likelihood, str):
            given: SymmetricThresholds = self.likelihood
            if given.n_levels != len(counts):
                raise ValueError(
                    f"likelihood is for {given.n_levels} levels, but there are {len(counts)}. "
                    "Give one with as many, or a word."
                )
            return given
        free, biased = isinstance(self.noise, str), self.position_bias == "learned"
        noise = start_noise * np.sqrt(latent_var) if free else float(self.noise)
        start = LIKELIHOODS[self.likelihood].from_counts
        return start(counts, noise, latent_var, biased=biased, free_noise=free)

    def _keep(self, result: PreferenceResult) -> None:
        """Set everything that follows from a result: the one place where a fit leaves traces."""
        model = result.model
        self._result, self.levels_, self.n_features_in_ = result, result.levels, result.n_features
        if self._named:
            self.items_ = result.names
        if len(result.feature_names):
            self.feature_names_in_ = result.feature_names
        self.kernel_, self.likelihood_ = model.kernel, model.likelihood
        self.noise_, self.margins_ = self.likelihood_.noise, self.likelihood_.margins
        self.position_bias_ = self.likelihood_.bias
        self.log_marginal_likelihood_value_ = model.summary.value
        self.evidence_path_ = model.summary.path
        self.converged_, self.n_iter_ = model.summary.converged, model.summary.n_iter
        self.solver_ = "sparse" if isinstance(model, ManyItemsGP) else "dense"

    def _restore(self, result: Any) -> None:
        """Become the fitted estimator of a file."""
        if not isinstance(result, PreferenceResult):
            raise ValueError("the result is not one of comparisons")
        self._check_parameters()
        result.check(self._named)
        self._keep(result)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a result."""
        return hasattr(self, "_result")

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
        found = self._result.model.latent(self._check_inputs(X, reset=False))
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
        return self._result.model.joint(self._check_inputs(X, reset=False))

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
        rows, which = distinct_inputs(np.concatenate([left, right]), self.kernel_)
        proba = pair_probabilities(self._result.model, rows, which.reshape(2, -1).T)
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
        found = self._outcome_proba(X, comparisons)
        true = encode_outcomes(outcomes, self.levels_, len(found), sample_weight)
        return float(np.average(found.argmax(axis=1) == true.codes, weights=true.weights))

    def _outcome_proba(self, X: Any, comparisons: Any) -> FloatArray:
        """Probability of each of ``levels_`` for comparisons of the rows of ``X``."""
        check_is_fitted(self)
        rows = self._check_inputs(X, reset=False)
        names = check_items(X) if self._named else None
        pairs = check_comparisons(comparisons, len(rows), names)
        return pair_probabilities(self._result.model, rows, pairs)

    def rank(self, X: Any, *, coverage: float = 0.9) -> Ranking:
        """Order items by expected utility, and say how certain their places are.

        Parameters
        ----------
        X : array-like of shape (n_items, n_features)
            Items, known or new; names with ``kernel="independent"``.
        coverage : float, default=0.9
            Posterior probability with which an item's rank lies in its interval.

        Returns
        -------
        Ranking
            Arrays with the best item first. The probability of being best is the share of 10,000
            draws from the joint posterior in which the item is on top, with its standard error.
            Intervals of ranks and groups come from the same draws, of at least 500 of them.
            Equal ``random_state`` gives equal samples.
        """
        check_is_fitted(self)
        check_coverage(coverage)
        rows = self._check_inputs(X, reset=False)
        found, draws = utilities(self._result.model, rows, fit_generator(self.random_state))
        mean, sd = found.mean, np.sqrt(found.var)
        drawn = standings(draws, len(mean), reporter(self.verbose))
        order = np.argsort(-mean, kind="stable")
        items = np.arange(len(mean))
        if self._named and np.ndim(X):
            items = np.asarray(X)
        best, error = drawn.best_share[order], drawn.best_error[order]
        low, high = drawn.interval(coverage)[:, order]
        group = drawn.groups(order)
        return Ranking(order, items[order], mean[order], sd[order], best, error, low, high, group)

    def position_bias_interval(self, coverage: float = 0.9) -> tuple[float, float]:
        """Interval of the advantage of the left side, from the curvature of the log evidence.

        Parameters
        ----------
        coverage : float, default=0.9
            Probability of the interval, if the evidence is a normal density in the bias.

        Returns
        -------
        low, high : float
            In units of utility, around ``position_bias_``. Other hyperparameters follow the bias
            where the evidence has a maximum in all of them. Otherwise they are held.
        """
        check_is_fitted(self)
        check_coverage(coverage)
        if self.position_bias == "none":
            raise ValueError(
                "position_bias='none' has no interval. Fit with position_bias='learned'."
            )
        model = self._result.model
        if isinstance(model.likelihood, JudgedComparisons):
            variances = np.diagonal(np.linalg.inv(curvature(model.task, model.posterior)))
            sd = np.sqrt(variances[model.likelihood.bias_place])
        else:
            theta = np.concatenate([model.kernel.theta, model.likelihood.theta])
            sd = last_parameter_sd(model.evaluate, theta)
        sd *= model.likelihood.unit
        half = float(ndtri(0.5 + coverage / 2) * sd)
        return self.position_bias_ - half, self.position_bias_ + half

    def judge_reliability(self, coverage: float = 0.9) -> Reliability:
        """Noise of each judge, relative to the typical one, with intervals.

        Parameters
        ----------
        coverage : float, default=0.9
            Probability of each interval, if the evidence is a normal density in the log factors.

        Returns
        -------
        Reliability
            Arrays with the most careful judge first.
        """
        check_is_fitted(self)
        check_coverage(coverage)
        model = self._result.model
        if not isinstance(model.likelihood, JudgedComparisons):
            raise ValueError("The comparisons had no judges. Fit with judges=.")
        return reliability(model.task, model.posterior, coverage)

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
        check_option("strategy", strategy, (*suggestions.STRATEGIES, "random"))
        check_whole("n", n, least=1)
        n_items = len(self._check_inputs(X, reset=False))
        excluded = None if exclude is None else check_comparisons(exclude, n_items)
        left, right = suggestions.candidate_pairs(n_items, excluded)
        if len(left) < n:
            raise ValueError(
                f"n={n} different pairs were asked for, but the {n_items} items have only "
                f"{len(left)} that are not excluded. Ask for fewer."
            )
        if strategy == "random":
            rng = check_random_state(self.random_state)
            chosen = rng.choice(len(left), n, replace=False)
        else:
            probit = self.likelihood_.spelled_out
            if not isinstance(probit, OrdinalProbit):
                raise ValueError(
                    f"strategy={strategy!r} computes the information of an answer for "
                    f"likelihood='probit', but the model has {self.likelihood!r:.50}. Use "
                    "strategy='random', or fit with likelihood='probit'."
                )
            posterior = self.latent_mean_and_covariance(X)
            questions = suggestions.Questions(left, right, *posterior, probit)
            chosen = suggestions.STRATEGIES[strategy](questions, n)
        return np.column_stack([left[chosen], right[chosen]])

    def log_marginal_likelihood(
        self, theta: Any = None, eval_gradient: bool = False
    ) -> float | tuple[float, FloatArray]:
        """Log evidence at given hyperparameters.

        Parameters
        ----------
        theta : array-like of shape (n_hyperparameters,), default=None
            ``[kernel.theta, likelihood.theta]``, the kernel's first. None means those found by
            ``fit``.
        eval_gradient : bool, default=False
            Whether to return the gradient in ``theta`` as well.

        Returns
        -------
        value : float
            Log evidence under the approximation ``inference``, plus the log density of the
            ``hyperprior``.
        gradient : ndarray of shape (n_hyperparameters,)
            Only if ``eval_gradient`` is true.
        """
        check_is_fitted(self)
        if theta is None and not eval_gradient:
            return self.log_marginal_likelihood_value_
        value, gradient = self._result.model.evaluate(theta)
        return (value, gradient) if eval_gradient else value

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted estimator to a file, for :func:`ordinalgp.load`.

        Parameters
        ----------
        path : str or path-like
            The file to write; any suffix, for example "model.ogp". It is a zip of JSON and
            arrays, without pickle, and holds the items and the comparisons.
        """
        check_is_fitted(self)
        self._check_parameters()
        save(self, path)
