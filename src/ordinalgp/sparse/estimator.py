"""Sparse Bayesian ordinal regression: ``SparseBayesOrdinalClassifier``."""

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from ordinalgp._typing import IntArray
from ordinalgp.models.base import Fitted, OrdinalClassifier, restore_on_error
from ordinalgp.models.default_kernel import gaussian_kernel
from ordinalgp.models.training_rows import NumberedRows, extended_rows, first_rows, numbered_rows
from ordinalgp.persistence import saved_as
from ordinalgp.runtime.progress import Report, reporter
from ordinalgp.runtime.warning import warn_user
from ordinalgp.sparse.basis_matrix import draw_candidates, extreme_width, joint_precision
from ordinalgp.sparse.model import SparseModel
from ordinalgp.sparse.training import (
    ActiveBasis,
    EvidencePath,
    SparseTask,
    TrainingLimits,
    first_basis,
    train,
)
from ordinalgp.sparse.width import FAMILIES, WidthChoice, WidthSearch, WidthSettings
from ordinalgp.validation.memory import check_bytes
from ordinalgp.validation.options import check_kernel, check_number, check_option, check_whole
from ordinalgp.validation.weights import check_weights

_MOST_CANDIDATES = 2000
_MOST_BASIS = 500  # a move costs the cube of this


@saved_as("estimator.sparse")
class SparseBayesOrdinalClassifier(OrdinalClassifier):
    """Classifier for ordered levels that keeps only a few relevant training rows.

    The latent function is a weighted sum of basis functions, one for each candidate row:
    ``sum_j w_j k(x, x_j)``. Every weight has a normal prior with a precision of its own; where the
    evidence sends a precision to infinity, the row leaves the model. Thresholds cut the latent
    value, plus noise, into levels; they carry the offset, so there is no bias. See [Li18]_.

    Parameters
    ----------
    kernel : scikit-learn kernel, {"gaussian", "exponential", "auto"} or None, default=None
        Basis functions. A word is a kernel with one width, chosen by evidence over a grid (on some
        2,000 rows) that is refined around its best (on some 8,000). "gaussian", also None, has the
        smooth functions of the paper; "exponential" has functions with a kink, those of
        :class:`ordinalgp.kernels.Exponential`; "auto" takes the one of the two that the evidence
        prefers, in about twice the time. A kernel that is given is kept as it is, so that
        ``GridSearchCV`` over ``kernel`` works as in the paper.
    training : {"incremental", "batch"}, default="incremental"
        "incremental" (ISBOR) starts with one row of each level and adds, re-estimates and deletes;
        "batch" (SBOR) starts with all candidates and prunes.
    max_basis : int, default=None
        Largest number of relevance vectors of incremental training. None means 500.
    memory_limit : int or str, default="1GB"
        What the basis matrix and its parts may take, in bytes or as "512MB". A matrix that does
        not fit is computed block by block in every round instead of held.
    candidates : int, "auto" or None, default="auto"
        How many rows, drawn at random, offer a basis function. "auto" means at most 2,000, None
        all. All rows are learned from in any case.
    categories : sequence, default=None
        Levels from lowest to highest. None takes them from an ordered pandas or polars
        categorical, or sorts numbers; strings without an order raise.
    decision : {"mode", "median", "mean"} or array of shape (r, r), default="mode"
        Turns probabilities into a label; see :class:`OrdinalGPClassifier`.
    max_iter : int, default=100
        Largest number of rounds; in a round all candidates are scored once.
    tol : float, default=0.3
        Training stops when no move raises the log evidence by more than this. Larger values give
        fewer relevance vectors in less time.
    n_jobs : int, default=None
        Number of widths tried at once, through joblib.
    random_state : int, RandomState instance or None, default=None
        Draws the first rows, the candidates and the rows that choose the width.
    verbose : int, default=0
        1 reports the result of every training on the error stream.

    Attributes
    ----------
    relevance_ : ndarray of shape (n_relevance,)
        Relevance vectors as row numbers, counted over all rows that the model was given.
    relevance_vectors_ : ndarray of shape (n_relevance, n_features)
        The relevance vectors themselves.
    weights_ : ndarray of shape (n_relevance,)
        Posterior mean of their weights.
    weights_covariance_ : ndarray of shape (n_relevance, n_relevance)
        Posterior covariance of their weights.
    alpha_ : ndarray of shape (n_relevance,)
        Prior precision of their weights.
    kernel_ : scikit-learn kernel
        The basis function.
    likelihood_ : OrdinalProbit
        The ordinal likelihood with its thresholds found.
    thresholds_ : ndarray of shape (n_categories - 1,)
        Cuts between consecutive levels, on the latent scale.
    noise_ : float
        Always 1: noise, thresholds and weights share one scale, which the weights' precisions set.
    log_marginal_likelihood_value_ : float
        Laplace's log evidence of the final model.
    evidence_path_ : ndarray of shape (n_steps,)
        Log evidence after every step of the last training, from its start at the width that was
        chosen, where all rows chose it.
    evidence_moves_ : ndarray of shape (n_steps,)
        What each step was: "start", "add", "re-estimate", "delete", "thresholds", or "linearise":
        a new mode, with a new expansion of the likelihood. Only there the path may fall.
    width_path_ : ndarray of shape (n_widths, 2)
        Widths that were tried, ascending, and their log evidence, less 2.3 for each function: what
        fitting its precision is worth. With more than 2,000 rows these are the neighbours of the
        grid's best. Of the family that was chosen; empty for a given kernel.
    width_rows_ : int
        How many rows chose the width, equal ones counted; 0 for a given kernel.
    candidates_ : ndarray of shape (n_candidates,)
        Rows that offered a basis function, as row numbers.
    n_rows_seen_ : int
        How many rows ``fit`` and ``partial_fit`` were given.
    converged_ : bool
        Whether no move is left that gains more than ``tol``, or none that keeps its promise: gains
        are foretold at fixed curvature, and a move is taken back that lowers the evidence.
    n_iter_ : int
        Rounds of the last training, after the width was chosen.
    categories_ : ndarray
        All levels in rank order.
    classes_ : ndarray
        Observed labels, sorted as scikit-learn sorts them.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features, where the input had them.

    Notes
    -----
    ``sample_weight`` counts copies: weight 2 gives the model of the row written twice. The paper
    takes one move and then finds a new mode; here all good moves among the best candidates are
    taken at one mode, and fewer where the evidence at the next mode would be lower.

    ``partial_fit`` goes on from the model, its kernel and its thresholds. New rows offer basis
    functions and take part in every statistic; the old rows stay. A width that was chosen by few
    rows is chosen again when there are nearly twice as many, up to 8,000; from 2,000 on among its
    neighbours, and the kind of functions stays.

    References
    ----------
    .. [Li18] C. Li and M. de Rijke, "Incremental sparse Bayesian ordinal regression", Neural
       Networks 106, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from ordinalgp import SparseBayesOrdinalClassifier
    >>> X = np.linspace(-2, 2, 60)[:, None]
    >>> y = np.digitize(X[:, 0] ** 3, [-1, 1])
    >>> model = SparseBayesOrdinalClassifier(random_state=0).fit(X, y)
    >>> model.predict([[-1.8], [0.0], [1.8]])
    array([0, 1, 2])
    >>> len(model.relevance_) < 10
    True
    """

    width_settings: ClassVar[WidthSettings] = WidthSettings()

    def __init__(
        self,
        kernel: Any = None,
        *,
        training: str = "incremental",
        max_basis: int | None = None,
        memory_limit: int | str = "1GB",
        candidates: Any = "auto",
        categories: Any = None,
        decision: Any = "mode",
        max_iter: int = 100,
        tol: float = 0.3,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.training = training
        self.max_basis = max_basis
        self.memory_limit = memory_limit
        self.candidates = candidates
        self.categories = categories
        self.decision = decision
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        if isinstance(self.kernel, str):
            check_option("kernel", self.kernel, (*FAMILIES, "auto"))
        elif self.kernel is not None:
            check_kernel(self.kernel)
        check_option("training", self.training, ("incremental", "batch"))
        if self.max_basis is not None:
            check_whole("max_basis", self.max_basis, least=1)
        check_bytes("memory_limit", self.memory_limit)
        if isinstance(self.candidates, str):
            check_option("candidates", self.candidates, ("auto",))
        elif self.candidates is not None:
            check_whole("candidates", self.candidates, least=1)
        check_whole("max_iter", self.max_iter, least=1)
        check_number("tol", self.tol, above=0)

    @property
    def _families(self) -> tuple[str, ...]:
        """Families of functions whose width is chosen; none for a given kernel."""
        if self.kernel is None:
            return ("gaussian",)
        if self.kernel == "auto":
            return tuple(FAMILIES)
        return (self.kernel,) if isinstance(self.kernel, str) else ()

    @property
    def _limits(self) -> TrainingLimits:
        most = _MOST_BASIS if self.max_basis is None else self.max_basis
        memory = check_bytes("memory_limit", self.memory_limit)
        return TrainingLimits(self.tol, self.max_iter, most, memory)

    # ------------------------------------------------------------------------ fitting

    def _learn(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Fitted:
        X = self._check_inputs(X, reset=True)
        levels = self._encode(X, y, classes)
        weights = check_weights(sample_weight, len(X), levels.codes)
        kernel = (
            gaussian_kernel(1)
            if self._families
            else self.kernel.clone_with_theta(self.kernel.theta)
        )
        rows = numbered_rows(X, levels.codes, weights, kernel)
        rng, report = check_random_state(self.random_state), reporter(self.verbose)
        first, n_levels = rows.latent[first_rows(rows.codes, rng)], len(levels.categories)
        start = WidthChoice.given(kernel, first_basis(rows, first, n_levels))
        if self._families:
            start = self._search(rng, report).choose(rows, start.basis, self._families)
        candidates = self._draw_candidates(rows, start.basis, rng)
        if self.training == "batch":
            alpha = joint_precision(start.kernel, rows.inputs, candidates)
            basis = first_basis(rows, candidates, n_levels, alpha)
            start = replace(start, basis=basis, steps=EvidencePath.of())
        model = self._train(rows, len(X), candidates, start, report)
        return Fitted(self._signature(levels), model)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from further rows, starting from the model so far; without one, ``fit``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Further training inputs.
        y : array-like of shape (n_samples,)
            Their levels, among those of ``categories_``.
        classes : array-like, default=None
            For the first call: every level that later rows may have, from lowest to highest
            unless ``categories`` says otherwise. Later calls ignore it.
        sample_weight : array-like of shape (n_samples,), default=None
            Number of times that each row counts.

        Returns
        -------
        self
            The fitted estimator itself.
        """
        with restore_on_error(self):
            self._check_parameters()
            if self.__sklearn_is_fitted__():
                self._keep(self._with_rows(X, y, sample_weight))
            else:
                self._keep(self._learn(X, y, sample_weight, classes))
        return self

    def _with_rows(self, X: Any, y: Any, sample_weight: Any) -> Fitted:
        X, codes, weights = self._check_later_rows(X, y, sample_weight)
        model: SparseModel = self._result.model
        kernel, seen = model.kernel, model.n_rows_seen
        rows, place = extended_rows(model.rows, X, codes, weights, kernel, seen)
        rng, report = check_random_state(self.random_state), reporter(self.verbose)
        basis = replace(model.basis, index=place[model.relevant])
        start = WidthChoice(kernel, basis, model.width_path, model.width_rows, EvidencePath.of())
        settings = self.width_settings
        # Equal rows are merged, and all copies of those that are drawn count.
        able = rows.counts.sum() * min(1.0, settings.fine.n_rows / len(rows.codes))
        if self._families and able >= settings.row_growth * model.width_rows:
            kinds = [FAMILIES[family] for family in self._families]
            enough = model.width_rows >= settings.coarse.n_rows and type(kernel) in kinds
            known = kernel if enough else None
            start = self._search(rng, report).choose(rows, basis, self._families, known)
        classes = np.unique(self.categories_[np.unique(rows.codes)])
        signature = replace(self._result.signature, classes=classes)
        candidates = self._draw_candidates(rows, start.basis, rng)
        return Fitted(signature, self._train(rows, seen + len(X), candidates, start, report))

    def _search(self, rng: np.random.RandomState, report: Report) -> WidthSearch:
        return WidthSearch(self.width_settings, self._limits, rng, self.n_jobs, report)

    def _draw_candidates(
        self, rows: NumberedRows, basis: ActiveBasis, rng: np.random.RandomState
    ) -> IntArray:
        most = _MOST_CANDIDATES if self.candidates == "auto" else self.candidates
        return draw_candidates(len(rows.inputs), most, basis.index, rng)

    def _train(
        self,
        rows: NumberedRows,
        n_rows_seen: int,
        candidates: IntArray,
        start: WidthChoice,
        report: Report,
    ) -> SparseModel:
        """Train from a kernel and a basis whose index counts all inputs."""
        kernel = start.kernel
        problem = extreme_width(kernel, rows.inputs[candidates])
        if problem is not None and not self._families:
            text = f"The kernel {kernel} is {problem}. Give another, or 'auto' to choose one."
            warn_user(text, UserWarning)
        index = np.searchsorted(candidates, start.basis.index)
        basis = replace(start.basis, index=index)
        task = SparseTask.of(rows, candidates, kernel, self._limits)
        found = train(task, basis, grow=self.training == "incremental", report=report)
        if not found.converged:
            warn_user(
                f"A move is left that would gain {found.largest_gain:.2g} > tol={self.tol:.2g} "
                f"after {found.n_rounds} rounds; raise max_iter or tol.",
                ConvergenceWarning,
            )
        return SparseModel(
            rows,
            n_rows_seen,
            candidates,
            kernel,
            found.basis,
            found.covariance,
            found.value,
            start.steps.then(found.path),
            start.path,
            start.n_rows,
            found.converged,
            found.n_rounds,
        )

    def _publish(self, model: SparseModel) -> None:
        rows, basis, inside = model.rows, model.basis, model.relevant
        self.kernel_, self.likelihood_ = model.kernel, model.likelihood
        self.thresholds_, self.noise_ = model.likelihood.thresholds, model.likelihood.noise
        self.candidates_ = rows.first_row[model.candidates]
        self.relevance_, self.relevance_vectors_ = rows.first_row[inside], rows.inputs[inside]
        self.weights_, self.weights_covariance_ = basis.weights, model.covariance
        self.alpha_ = basis.alpha
        self.log_marginal_likelihood_value_ = model.value
        self.evidence_path_, self.evidence_moves_ = model.path.values, model.path.kinds
        self.width_path_, self.width_rows_ = model.width_path, model.width_rows
        self.n_rows_seen_ = model.n_rows_seen
        self.converged_, self.n_iter_ = model.converged, model.n_rounds
