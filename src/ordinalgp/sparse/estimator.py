"""Sparse Bayesian ordinal regression: ``SparseBayesOrdinalClassifier``, and its fitted model."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ordinalgp._typing import FINITE, Axes, FloatArray, IntArray, Tagged
from ordinalgp.core.gaussian import Moments
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.linalg import symmetric_root
from ordinalgp.models.base import Fitted, OrdinalClassifier, learn_further
from ordinalgp.models.default_kernel import gaussian_kernel
from ordinalgp.models.exact import check_finite, check_rows, probabilities_along
from ordinalgp.models.training_rows import NumberedRows, extended_rows, first_rows, numbered_rows
from ordinalgp.persistence import saved_as
from ordinalgp.runtime.progress import reporter
from ordinalgp.runtime.warning import warn_user
from ordinalgp.sparse import training
from ordinalgp.sparse.basis_matrix import draw_candidates, extreme_width, joint_precision
from ordinalgp.sparse.width import FAMILIES, WidthChoice, WidthSearch, WidthSettings
from ordinalgp.validation import options
from ordinalgp.validation.memory import check_bytes

_MOST_CANDIDATES = 2000
_MOST_BASIS = 500  # a move costs the cube of this
_PREDICT_BLOCK = 2**22  # numbers in one block of basis functions: 32 MB


@saved_as("model.sparse")
@dataclass(frozen=True, eq=False)
class SparseModel:
    """Weighted sum of basis functions, with the training rows that later training needs."""

    rows: NumberedRows
    n_rows_seen: Annotated[int, Axes(low=1)]
    """rows before equal ones were merged"""
    candidates: Annotated[IntArray, Axes("C", 0, "N")]
    """inputs that offered a basis function, ascending"""
    kernel: Annotated[Any, Tagged("kernel")]
    basis: training.ActiveBasis
    covariance: Annotated[FloatArray, Axes("P P", *FINITE)]
    """of the weights"""
    value: float
    """log evidence"""
    path: training.EvidencePath
    width_path: Annotated[FloatArray, Axes("widths two")]
    """widths that were tried, and the criterion of each"""
    width_rows: Annotated[int, Axes(low=0)]
    """rows that chose the width; 0 for a given kernel"""
    converged: bool
    n_rounds: int

    @property
    def likelihood(self) -> OrdinalProbit:
        """Likelihood with its thresholds found."""
        return self.basis.likelihood

    @property
    def relevant(self) -> IntArray:
        """Inputs whose basis functions are in the model."""
        return np.asarray(self.candidates[self.basis.index])

    def latent(self, X: FloatArray) -> Moments:
        """Posterior moments, block by block: memory stays flat in the rows of ``X``."""
        weights, vectors = self.basis.weights, self.rows.inputs[self.relevant]
        block, mean, var = max(1, _PREDICT_BLOCK // len(weights)), [], []
        for i in range(0, len(X), block):
            phi = self.kernel(X[i : i + block], vectors)
            mean.append(phi @ weights)
            var.append(np.einsum("ij,ij->i", phi @ self.covariance, phi))
        return Moments(np.concatenate(mean), np.maximum(np.concatenate(var), 0.0))

    def probabilities(self, X: FloatArray) -> FloatArray:
        """Probability of every level at new rows, (n, r)."""
        found = self.latent(X)
        return self.likelihood.probabilities(found.mean, found.var)

    def probability_draws(self, X: FloatArray, n: int, rng: Any) -> FloatArray:
        """Probabilities of the levels under ``n`` draws of the weights, (n, rows, r)."""
        phi = self.kernel(X, self.rows.inputs[self.relevant])
        drawn = rng.standard_normal((n, len(self.covariance))) @ symmetric_root(self.covariance)
        return probabilities_along(self.likelihood, (self.basis.weights + drawn) @ phi.T)

    def check(self, n_features: int, n_levels: int) -> None:
        """Raise ValueError unless the parts of a saved model agree."""
        check_rows(self.rows.inputs, self.kernel, n_features)
        index, likelihood = self.basis.index, self.likelihood
        parts = {
            "the likelihood": likelihood.n_levels == n_levels and likelihood.noise == 1.0,
            "candidates": np.all(np.diff(self.candidates) > 0),
            "the basis": len(np.unique(index)) == len(index) > 0,
            "first_row": np.all(self.rows.first_row < self.n_rows_seen),
            "width_path": self.width_path.shape[1] == 2,
        }
        wrong = [name for name, fits in parts.items() if not fits]
        if wrong:
            raise ValueError(f"{', '.join(wrong)} and the rest of the model disagree")
        found = self.latent(self.rows.inputs[:1])
        check_finite(found.mean, found.var)


@saved_as("estimator.sparse")
class SparseBayesOrdinalClassifier(OrdinalClassifier):
    """Classifier for ordered levels that keeps only a few relevant training rows.

    The latent function is a weighted sum of basis functions, one per candidate row:
    ``sum_j w_j k(x, x_j)``. Every weight has a normal prior with a precision of its own. Where the
    evidence sends a precision to infinity, the row leaves the model. Thresholds cut the latent
    value, plus noise, into levels. They carry the offset, so there is no bias. See [Li18]_.

    Parameters
    ----------
    kernel : scikit-learn kernel, {"gaussian", "exponential", "auto"} or None, default=None
        Basis functions. A word is a kernel with one width, which the evidence chooses: from a grid
        on up to 2,000 rows, then around the best there on up to 8,000. "gaussian", also None, has
        the smooth functions of the paper. "exponential" has functions with a kink, those of
        :class:`ordinalgp.kernels.Exponential`. "auto" takes the one of the two with the larger
        evidence, in about twice the time. A kernel that is given is kept as it is, so that
        ``GridSearchCV`` over ``kernel`` works as in the paper.
    training : {"incremental", "batch"}, default="incremental"
        "incremental" (ISBOR) starts with one row of each level and adds, re-estimates and deletes;
        "batch" (SBOR) starts with all candidates and prunes.
    max_basis : int, default=None
        Largest number of relevance vectors of incremental training. None means 500.
    memory_limit : int or str, default="1GB"
        Memory for the basis matrix and its parts, in bytes or as "512MB". A matrix that does not
        fit is computed block by block in every round.
    candidates : int, "auto" or None, default="auto"
        Number of rows, drawn at random, that can become centres of basis functions. "auto" means
        at most 2,000, None means all. The model learns from all rows in any case.
    categories : sequence, default=None
        Levels from lowest to highest. None takes them from an ordered pandas or polars
        categorical, or sorts numbers. Strings without an order are an error.
    decision : {"mode", "median", "balanced", "mean"} or array of shape (r, r), default="mode"
        Turns probabilities into a label; see :class:`OrdinalGPClassifier`.
    max_iter : int, default=100
        Largest number of rounds; each round scores all candidates once.
    tol : float, default=0.3
        Training stops when no move raises the log evidence by more than this. Larger values give
        fewer relevance vectors in less time.
    n_jobs : int, default=None
        Number of widths tried in parallel by joblib.
    random_state : int, RandomState instance or None, default=None
        Seed that draws the first rows, the candidates and the rows that choose the width. None
        is a fixed seed: two fits of the same rows are equal.
    verbose : int, default=0
        1 reports the result of the search for a width and of the training, 2 every step of both;
        all on the error stream.

    Attributes
    ----------
    relevance_ : ndarray of shape (n_relevance,)
        Row numbers of the relevance vectors, counted over all rows that the model was given.
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
        Ordinal likelihood with the learned thresholds.
    thresholds_ : ndarray of shape (n_categories - 1,)
        Cuts between consecutive levels, on the latent scale.
    noise_ : float
        Always 1: noise, thresholds and weights share one scale, which the weights' precisions set.
    log_marginal_likelihood_value_ : float
        Laplace's log evidence of the final model.
    evidence_path_ : ndarray of shape (n_steps,)
        Log evidence after every step of the last training. If all rows chose the width, it begins
        with the training that won.
    evidence_moves_ : ndarray of shape (n_steps,)
        Kind of each step: "start", "add", "re-estimate", "delete", "thresholds" or "linearise".
        "linearise" is a new mode, with a new expansion of the likelihood. Only such a step can
        lower the evidence.
    width_path_ : ndarray of shape (n_widths, 2)
        Widths that were tried for the chosen family, ascending, and the criterion of each: its log
        evidence less 2.3 per function, for the precision that was fitted. With more than 2,000
        rows these are the neighbours of the grid's best. Empty for a given kernel.
    width_rows_ : int
        Number of rows that chose the width, equal ones counted; 0 for a given kernel.
    candidates_ : ndarray of shape (n_candidates,)
        Row numbers of the candidates for basis functions.
    n_rows_seen_ : int
        Number of rows that ``fit`` and ``partial_fit`` were given.
    converged_ : bool
        Whether no move is left that gains more than ``tol``. Gains are predicted at fixed
        curvature; a move that turns out to lower the evidence is undone and does not count.
    n_iter_ : int
        Rounds of the last training, after the width was chosen.
    categories_ : ndarray
        All levels in rank order.
    classes_ : ndarray
        Observed labels, sorted as scikit-learn sorts them.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if the input had them.

    Notes
    -----
    ``sample_weight`` counts copies: weight 2 gives the model of the row written twice. The paper
    takes one move and then finds a new mode. Here all good moves among the best candidates are
    taken at one mode, and fewer where the evidence at the next mode would be lower.

    ``partial_fit`` starts from the model, its kernel and its thresholds. New rows are
    candidates too, and the model keeps learning from the old rows. A width chosen by few rows
    is chosen again when there are nearly twice as many, up to 8,000. From 2,000 rows on it is
    chosen among its neighbours, and the family of functions stays.

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
            options.check_option("kernel", self.kernel, (*FAMILIES, "auto"))
        elif self.kernel is not None:
            options.check_kernel(self.kernel)
        options.check_option("training", self.training, ("incremental", "batch"))
        if self.max_basis is not None:
            options.check_whole("max_basis", self.max_basis, least=1)
        check_bytes("memory_limit", self.memory_limit)
        options.check_limit("candidates", self.candidates)
        options.check_whole("max_iter", self.max_iter, least=1)
        options.check_number("tol", self.tol, above=0)

    @property
    def _families(self) -> tuple[str, ...]:
        """Families of functions whose width is chosen; none for a given kernel."""
        if self.kernel is None:
            return ("gaussian",)
        if self.kernel == "auto":
            return tuple(FAMILIES)
        return (self.kernel,) if isinstance(self.kernel, str) else ()

    def _search(self) -> WidthSearch:
        most = _MOST_BASIS if self.max_basis is None else self.max_basis
        memory = check_bytes("memory_limit", self.memory_limit)
        limits = training.TrainingLimits(self.tol, self.max_iter, most, memory)
        rng, report = options.fit_generator(self.random_state), reporter(self.verbose)
        return WidthSearch(self.width_settings, limits, rng, self.n_jobs, report)

    # ------------------------------------------------------------------------ fitting

    def _learn(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Fitted:
        X, levels, weights = self._check_rows(X, y, sample_weight, classes)
        given = gaussian_kernel(1) if self._families else self.kernel
        kernel = given.clone_with_theta(given.theta)
        rows = numbered_rows(X, levels.codes, weights, kernel)
        search, n_levels = self._search(), len(levels.categories)
        first = rows.latent[first_rows(rows.codes, search.rng)]
        start = WidthChoice(kernel, training.first_basis(rows, first, n_levels))
        if self._families:
            start = search.choose(rows, start, self._families, near=False)
        model = self._train(rows, len(X), search, start, batch=self.training == "batch")
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
        learn_further(self, X, y, sample_weight, classes)
        return self

    def _with_rows(self, X: Any, y: Any, sample_weight: Any) -> Fitted:
        X, codes, weights = self._check_later_rows(X, y, sample_weight)
        model: SparseModel = self._result.model
        kernel, seen = model.kernel, model.n_rows_seen
        rows, place = extended_rows(model.rows, X, codes, weights, kernel, seen)
        search, basis = self._search(), replace(model.basis, index=place[model.relevant])
        start = WidthChoice(kernel, basis, model.width_path, model.width_rows)
        settings = self.width_settings
        # Equal rows are merged, and all copies of those that are drawn count.
        able = rows.counts.sum() * min(1.0, settings.fine.n_rows / len(rows.codes))
        if self._families and able >= settings.row_growth * model.width_rows:
            kinds = [FAMILIES[family] for family in self._families]
            near = model.width_rows >= settings.coarse.n_rows and type(kernel) in kinds
            start = search.choose(rows, start, self._families, near=near)
        model = self._train(rows, seen + len(X), search, start, batch=False)
        return Fitted(self._later_signature(codes, weights), model)

    def _train(
        self, rows: NumberedRows, seen: int, search: WidthSearch, start: WidthChoice, *, batch: bool
    ) -> SparseModel:
        """Train from a start; a batch starts from the functions of all candidates."""
        most = _MOST_CANDIDATES if self.candidates == "auto" else self.candidates
        candidates = draw_candidates(len(rows.inputs), most, start.basis.index, search.rng)
        kernel = start.kernel
        problem = extreme_width(kernel, rows.inputs[candidates])
        if problem is not None and not self._families:
            text = f"The kernel {kernel} is {problem}. Give another, or 'auto' to choose one."
            warn_user(text, UserWarning)
        basis = replace(start.basis, index=np.searchsorted(candidates, start.basis.index))
        path = start.steps
        if batch:
            places, n_levels = np.arange(len(candidates)), basis.likelihood.n_levels
            alpha = joint_precision(kernel, rows.inputs, candidates)
            basis = training.first_basis(rows, places, n_levels, alpha)
            path = training.EvidencePath.of()
        task = training.SparseTask.of(rows, candidates, kernel, search.limits)
        grow = self.training == "incremental"
        found = training.train(task, basis, grow=grow, report=search.report)
        if not found.converged:
            warn_user(
                f"A move is left that would gain {found.largest_gain:.2g} > tol={self.tol:.2g} "
                f"after {found.n_rounds} rounds; raise max_iter or tol.",
                ConvergenceWarning,
            )
        weights = found.basis, found.covariance, found.value, path.then(found.path)
        outcome = start.path, start.n_rows, found.converged, found.n_rounds
        return SparseModel(rows, seen, candidates, kernel, *weights, *outcome)

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
