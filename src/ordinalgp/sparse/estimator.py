"""Sparse Bayesian ordinal regression: ``SparseBayesOrdinalClassifier``."""

import sys
import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.gaussian import Moments
from ordinalgp.models.base import OrdinalClassifier
from ordinalgp.models.partial_fit import Growing
from ordinalgp.models.training_rows import NumberedRows, extended_rows, first_rows, numbered_rows
from ordinalgp.sparse.basis_matrix import draw_candidates
from ordinalgp.sparse.state import SparseState
from ordinalgp.sparse.training import (
    FAMILIES,
    GRID_ROWS,
    MOST_WIDTH_ROWS,
    TrainingLimits,
    choose_width,
    extreme,
    first_model,
    whole_precision,
)
from ordinalgp.sparse.training_loop import Path, Relevant, train
from ordinalgp.validation.memory import check_bytes
from ordinalgp.validation.options import check_kernel, check_number, check_option
from ordinalgp.validation.weights import check_weights

_PREDICT_BLOCK = 2**22  # numbers in one block of basis functions: 32 MB
_MOST_CANDIDATES = 2000
_MOST_BASIS = 500  # a move costs the cube of this
_AGAIN = 1.8  # times the rows: the width is chosen anew; not quite two, as halves may be unequal


class SparseBayesOrdinalClassifier(SparseState, Growing, OrdinalClassifier):
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

    _rows: NumberedRows
    _candidates: IntArray
    _model: Relevant

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

    # ------------------------------------------------------------------------ fitting

    def _fit(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Self:
        self._check_parameters()
        X = self._check_inputs(X, reset=True)
        levels = self._read_levels(X, y, classes)
        weights = check_weights(sample_weight, len(X), levels.codes)
        kernel = RBF() if self._families else self.kernel.clone_with_theta(self.kernel.theta)
        rows = numbered_rows(X, levels.codes, weights, kernel)
        rng = check_random_state(self.random_state)
        self.n_rows_seen_, self.width_path_, self.width_rows_ = len(X), np.empty((0, 2)), 0
        r = len(self.categories_)
        model = first_model(rows, rows.latent[first_rows(rows.codes, rng)], r)
        steps = Path()
        if self._families:
            kernel, model, steps = self._best_width(rows, model, rng)
        candidates = draw_candidates(len(rows.inputs), self._most_candidates, model.index, rng)
        if self.training == "batch":
            alpha = whole_precision(kernel, rows.inputs, candidates)
            model, steps = first_model(rows, candidates, r, alpha), Path()
        return self._train(rows, candidates, kernel, model, steps)

    def _continue(self, X: Any, y: Any, sample_weight: Any) -> Self:
        self._check_parameters()
        X = self._check_inputs(X, reset=False)
        codes = self._read_more(X, y)
        weights = check_weights(sample_weight, len(X))
        rows, place = extended_rows(self._rows, X, codes, weights, self.kernel_, self.n_rows_seen_)
        self.n_rows_seen_ += len(X)
        self.classes_ = np.unique(self.categories_[np.unique(rows.codes)])
        rng = check_random_state(self.random_state)
        inside = place[self._candidates[self._model.index]]
        kernel, model, steps = self.kernel_, replace(self._model, index=inside), Path()
        # Equal rows are merged, and all copies of those that are drawn count.
        able = rows.counts.sum() * min(1.0, MOST_WIDTH_ROWS / len(rows.codes))
        if self._families and able >= _AGAIN * self.width_rows_:
            kinds = [FAMILIES[family] for family in self._families]
            known = kernel if self.width_rows_ >= GRID_ROWS and type(kernel) in kinds else None
            kernel, model, steps = self._best_width(rows, model, rng, known)
        candidates = draw_candidates(len(rows.inputs), self._most_candidates, model.index, rng)
        return self._train(rows, candidates, kernel, model, steps)

    def _best_width(
        self,
        rows: NumberedRows,
        model: Relevant,
        rng: np.random.RandomState,
        known: Any = None,
    ) -> tuple[Any, Relevant, Path]:
        chosen = choose_width(rows, model, self._limits, rng, self.n_jobs, self._families, known)
        self.width_path_, self.width_rows_ = chosen.path, chosen.n_rows
        return chosen.kernel, chosen.model, chosen.steps

    def _train(
        self, rows: NumberedRows, candidates: IntArray, kernel: Any, model: Relevant, before: Path
    ) -> Self:
        """Improve a model whose index counts all inputs, and keep it.

        ``before`` are the steps that led to it.
        """
        problem = extreme(kernel, rows.inputs[candidates])
        if problem is not None and not self._families:
            text = f"The kernel {kernel} is {problem}. Give another, or 'auto' to choose one."
            warnings.warn(text, UserWarning, stacklevel=5)
        model = replace(model, index=np.searchsorted(candidates, model.index))
        task = self._limits.task(rows, candidates, kernel)
        found = train(task, model, grow=self.training == "incremental")
        if self.verbose:
            print(f"{found.n_rounds} rounds, {len(found.model.index)} functions", file=sys.stderr)
        if not found.converged:
            warnings.warn(
                f"A move is left that would gain {found.largest_gain:.2g} > tol={self.tol:.2g} "
                f"after {found.n_rounds} rounds; raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=5,
            )
        self._keep(rows, candidates, kernel, found.model, found.covariance)
        self.log_marginal_likelihood_value_ = found.value
        path = before.then(found.path)
        self.evidence_path_, self.evidence_moves_ = np.array(path.values), np.array(path.kinds)
        self.converged_, self.n_iter_ = found.converged, found.n_rounds
        return self

    def _keep(
        self,
        rows: NumberedRows,
        candidates: IntArray,
        kernel: Any,
        model: Relevant,
        covariance: FloatArray,
    ) -> None:
        """Set everything that follows from the rows and the model."""
        self._rows, self._candidates, self._model = rows, candidates, model
        self.kernel_, self.likelihood_ = kernel, model.likelihood
        self.thresholds_, self.noise_ = model.likelihood.thresholds, model.likelihood.noise
        self.candidates_ = rows.first_row[candidates]
        inside = candidates[model.index]
        self.relevance_, self.relevance_vectors_ = rows.first_row[inside], rows.inputs[inside]
        self.weights_, self.weights_covariance_ = model.weights, covariance
        self.alpha_ = model.alpha

    # ------------------------------------------------------------------------- checks

    def _check_parameters(self) -> None:
        if isinstance(self.kernel, str):
            check_option("kernel", self.kernel, (*FAMILIES, "auto"))
        elif self.kernel is not None:
            check_kernel(self.kernel)
        check_option("training", self.training, ("incremental", "batch"))
        if self.max_basis is not None:
            check_number("max_basis", self.max_basis, least=1)
        check_bytes("memory_limit", self.memory_limit)
        if isinstance(self.candidates, str):
            check_option("candidates", self.candidates, ("auto",))
        elif self.candidates is not None:
            check_number("candidates", self.candidates, least=1)
        check_number("max_iter", self.max_iter, least=1)
        check_number("tol", self.tol, above=0)

    @property
    def _families(self) -> tuple[str, ...]:
        """Kinds of functions whose width is chosen; none for a given kernel."""
        if self.kernel is None:
            return ("gaussian",)
        if self.kernel == "auto":
            return tuple(FAMILIES)
        return (self.kernel,) if isinstance(self.kernel, str) else ()

    @property
    def _limits(self) -> TrainingLimits:
        most = _MOST_BASIS if self.max_basis is None else int(self.max_basis)
        memory = check_bytes("memory_limit", self.memory_limit)
        return TrainingLimits(self.tol, self.max_iter, most, memory)

    @property
    def _most_candidates(self) -> int | None:
        return _MOST_CANDIDATES if self.candidates == "auto" else self.candidates

    # --------------------------------------------------------------------- prediction

    def latent_mean_and_variance(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and variance of the latent function, without noise.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Query points.

        Returns
        -------
        mean, variance : ndarrays of shape (n_samples,)
            On the scale of ``thresholds_``. The variance is that of the weights.
        """
        check_is_fitted(self)
        X = self._check_inputs(X, reset=False)
        block = max(1, _PREDICT_BLOCK // len(self.weights_))
        parts = [self._latent_block(X[i : i + block]) for i in range(0, len(X), block)]
        mean, var = (np.concatenate([getattr(p, k) for p in parts]) for k in ("mean", "var"))
        return mean, var

    def _latent_block(self, X: FloatArray) -> Moments:
        phi = self.kernel_(X, self.relevance_vectors_)
        var = np.einsum("ij,ij->i", phi @ self.weights_covariance_, phi)
        return Moments(phi @ self.weights_, np.maximum(var, 0.0))

    def _level_proba(self, X: Any) -> FloatArray:
        return self.likelihood_.probabilities(*self.latent_mean_and_variance(X))
