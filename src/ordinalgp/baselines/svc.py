"""Support vector ordinal regression: ``OrdinalSVC``, and ``IncrementalOrdinalSVC``."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ordinalgp._typing import Axes, FloatArray, IntArray
from ordinalgp.baselines.cuts import (
    CutClassifier,
    CutModel,
    LevelRows,
    kernel_expansion,
    nothing_cuts,
)
from ordinalgp.baselines.path_model import (
    PathModel,
    add_rows,
    check_cost,
    remove_rows,
    solve_path,
    warn_without_margin,
)
from ordinalgp.baselines.soft_margin import margins, solve_margins
from ordinalgp.models.base import Fitted, Signature, learn_further, restore_on_error
from ordinalgp.models.training_rows import NumberedRows, extended_rows, first_rows
from ordinalgp.persistence import saved_as
from ordinalgp.runtime.threads import managed
from ordinalgp.runtime.warning import warn_user
from ordinalgp.validation.labels import count_levels
from ordinalgp.validation.options import check_number, check_option, check_whole, fit_generator

_CONSTRAINTS = ("implicit", "explicit", "fixed_margin", "sum_of_margins")
_ALGORITHMS = ("path", "working_set")
_ZERO_SHARE = 1e-6  # of its cost, below which a multiplier is zero
_TOLERATED_SHORTFALL = 1e-6  # of a row's margin


@saved_as("model.svc")
@dataclass(frozen=True, eq=False)
class SupportVectorModel(CutModel):
    """A support vector machine with parallel thresholds."""

    support: Annotated[IntArray, Axes("S", 0)]
    """support vectors as row numbers"""
    gap: float
    """relative gap between the objective and its lower bound"""
    converged: bool
    n_steps: int


@saved_as("estimator.svc")
class OrdinalSVC(CutClassifier):
    """Support vector machine for ordered levels (SVOR).

    It finds one latent function and thresholds with soft margins around each. It gives labels, no
    probabilities; a baseline of [Li18]_. See [Chu07]_.

    Parameters
    ----------
    kernel : scikit-learn kernel, default=None
        Similarity of two rows. None is the Gaussian kernel with squared length scale equal to the
        number of features, meant for standardised inputs. It is kept as it is: choose its
        width, and ``C``, with ``GridSearchCV``.
    constraints : {"implicit", "explicit", "fixed_margin", "sum_of_margins"}, default="implicit"
        "implicit": every row has a margin to every threshold, which puts the thresholds in
        order and bounds the absolute error. "explicit": every row has margins only to the
        thresholds next to its level, which are kept in order. "fixed_margin": the same without
        the order, as in [Shashua03]_. "sum_of_margins": every threshold has a margin of its
        own, and their sum is maximised, as in [Gu15]_; ``C`` must then be at least 1 / n for the
        n rows of the rarest level.
    C : float, default=1.0
        Penalty per unit of margin violation.
    rank : int, "auto" or None, default="auto"
        Largest number of rows whose kernel functions make up the model. None takes all rows.
        "auto" takes all up to 2,000 distinct rows, and 1,000 above.
    categories : sequence, default=None
        Levels from lowest to highest. None takes them from an ordered pandas or polars
        categorical, or sorts numbers. Strings without an order are an error.
    max_iter : int, default=100
        Largest number of steps of the interior point method; about 20 are usually enough.
    tol : float, default=1e-8
        Largest relative gap between the objective and its lower bound.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Row numbers of the support vectors: rows on their margin or violating it.
    thresholds_ : ndarray of shape (n_categories - 1,)
        Cuts between consecutive levels.
    centres_ : ndarray of shape (n_centres, n_features)
        Rows whose kernel functions make up the latent function: the support vectors, or with a
        limited ``rank`` the rows that it chose.
    coefficients_ : ndarray of shape (n_centres,)
        Their weights.
    gap_ : float
        The relative gap reached.
    converged_ : bool
        Whether the gap is below ``tol``.
    n_iter_ : int
        Steps taken.
    kernel_ : scikit-learn kernel
        The kernel.
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
    ``sample_weight`` counts copies.

    With "sum_of_margins" and a large ``C``, levels that overlap leave thresholds without a margin.
    Rows then lie on these thresholds and may get either level, so that even training labels are
    unreliable; ``fit`` warns of it. The latent function is then a small share of the kernel, and
    the gap is measured relative to its size. Where no threshold has a margin, the function is
    zero, and every row gets the median level. So does a function below about 1e-5 of the kernel
    that is lost in rounding; ``IncrementalOrdinalSVC(algorithm="path")`` keeps digits there.

    References
    ----------
    .. [Chu07] W. Chu and S. S. Keerthi, "Support vector ordinal regression", Neural Computation
       19, 2007.
    .. [Shashua03] A. Shashua and A. Levin, "Ranking with large margin principle: two approaches",
       Advances in Neural Information Processing Systems 15, 2003.
    .. [Gu15] B. Gu, V. S. Sheng, K. Y. Tay, W. Romano and S. Li, "Incremental support vector
       learning for ordinal regression", IEEE Transactions on Neural Networks and Learning
       Systems 26, 2015.
    .. [Li18] C. Li and M. de Rijke, "Incremental sparse Bayesian ordinal regression", Neural
       Networks 106, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from ordinalgp import OrdinalSVC
    >>> X = np.linspace(-2, 2, 60)[:, None]
    >>> y = np.digitize(X[:, 0] ** 3, [-1, 1])
    >>> model = OrdinalSVC(C=10.0).fit(X, y)
    >>> model.predict([[-1.8], [0.0], [1.8]])
    array([0, 1, 2])
    >>> len(model.support_) < 20
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        constraints: str = "implicit",
        C: float = 1.0,
        rank: Any = "auto",
        categories: Any = None,
        max_iter: int = 100,
        tol: float = 1e-8,
    ) -> None:
        self.kernel = kernel
        self.constraints = constraints
        self.C = C
        self.rank = rank
        self.categories = categories
        self.max_iter = max_iter
        self.tol = tol

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_option("constraints", self._kind(), _CONSTRAINTS)
        check_number("C", self.C, above=0)
        check_whole("max_iter", self.max_iter, least=1)
        check_number("tol", self.tol, above=0)

    def _kind(self) -> str:
        """The constraints."""
        return str(self.constraints)

    def _solve(self, data: LevelRows) -> CutModel:
        if self.constraints == "sum_of_margins":
            check_cost(self.C, data.rows.codes, data.rows.counts)
        return self._solve_some(data, np.arange(len(data.rows.codes)))

    def _solve_some(self, data: LevelRows, working: IntArray) -> SupportVectorModel:
        """Solve for some of the observations."""
        rows = data.rows.take(working)
        wanted = margins(data.codes[working], self.C * rows.counts, rows.latent, self._kind())
        # A function of this variance adds at most it times all costs to a latent value.
        widened = self._kind() == "sum_of_margins"
        enough = 0.0 if widened else self.tol / float(wanted.cost.sum())
        features = self._features(data.kernel, rows.inputs, enough)
        found = solve_margins(features.matrix, wanted, tol=self.tol, max_steps=self.max_iter)
        if not found.converged:
            more = found.n_steps == self.max_iter
            warn_user(
                f"The gap is {found.error:.1e} > tol={self.tol:.1e} after {found.n_steps} steps, "
                f"with C={self.C:g}. "
                + ("Raise max_iter." if more else "Rounding stops it: lower C, or raise tol."),
                ConvergenceWarning,
            )
        cuts = found.cuts
        if widened:
            warn_without_margin(found.margins, features.matrix @ found.weights, self.C)
            if not found.weights.any():
                cuts = nothing_cuts(data.codes[working], rows.counts)
        # With a large C all multipliers can be far below their cost.
        largest = np.minimum(wanted.cost, found.multipliers.max())
        binding = found.multipliers > _ZERO_SHARE * largest
        signed = np.where(binding, wanted.sign * found.multipliers, 0.0)
        dual = np.bincount(wanted.input, signed, len(rows.inputs)).astype(float)
        dual *= found.weights.any()
        expansion = kernel_expansion(features, rows.inputs, found.weights, dual)
        support = np.sort(rows.first_row[np.unique(wanted.input[binding])])
        function = data.kernel, *expansion, data.thresholds(cuts)
        return SupportVectorModel(*function, support, found.error, found.converged, found.n_steps)

    def _publish(self, model: Any) -> None:
        super()._publish(model)
        self.support_, self.gap_ = model.support, model.gap
        self.converged_, self.n_iter_ = model.converged, model.n_steps


@saved_as("model.incremental_svc")
@dataclass(frozen=True, eq=False)
class IncrementalModel(SupportVectorModel):
    """A support vector machine with all its training rows, so that more can join."""

    rows: NumberedRows
    n_rows_seen: Annotated[int, Axes(low=1)]
    """rows before equal ones were merged"""
    n_rounds: int
    """working sets of the last training"""

    def check(self, n_features: int, n_levels: int) -> None:
        """Raise ValueError unless the parts of a saved model agree."""
        super().check(n_features, n_levels)
        if not np.all(self.rows.first_row < self.n_rows_seen):
            raise ValueError("first_row and the rest of the model disagree")


@saved_as("estimator.incremental_svc")
class IncrementalOrdinalSVC(OrdinalSVC):
    """Support vector machine for ordered levels whose rows can join and leave (ISVOR).

    With ``algorithm="path"`` this is the method of [Gu15]_: sums of margins, whose multipliers are
    followed exactly as a row joins (:meth:`partial_fit`) or leaves (:meth:`remove_rows`). With
    ``algorithm="working_set"`` it is the model of :class:`OrdinalSVC`, trained on a growing part
    of the rows.

    Parameters
    ----------
    kernel : scikit-learn kernel, default=None
        Similarity of two rows; see :class:`OrdinalSVC`.
    algorithm : {"path", "working_set"}, default="working_set"
        "path": the solution after each call is exact up to rounding, whatever the number of rows.
        "working_set": the model is solved for some rows, and rows outside that violate their
        margins join until there are none. Rows of a working set are never dropped. Its solution
        has the tolerance ``tol``, if ``rank`` does not limit it.
    constraints : {"implicit", "explicit", "fixed_margin", "sum_of_margins"}, default=None
        Margins of each row; see :class:`OrdinalSVC`. "path" has "sum_of_margins" alone, and
        "working_set" the other three. None is "sum_of_margins" or "implicit".
    C : float, default=1.0
        Penalty per unit of margin violation; with "path" at least 1 / n for the n rows of the
        rarest level.
    chunk_size : int, default=500
        Number of rows added to the working set at a time; "path" ignores it.
    rank : int, "auto" or None, default="auto"
        Largest number of rows whose kernel functions make up the model of a working set; "auto"
        limits sets above 2,000 rows to 1,000. "path" takes all rows and ignores it.
    categories : sequence, default=None
        Levels from lowest to highest. None takes them from an ordered pandas or polars
        categorical, or sorts numbers. Strings without an order are an error.
    max_iter : int, default=100
        Largest number of steps of the interior point method for one working set; "path" ignores
        it.
    tol : float, default=1e-8
        Largest relative gap between the objective and its lower bound for one working set; "path"
        ignores it.
    random_state : int, RandomState instance or None, default=None
        Seed of the first rows of "working_set"; the result does not depend on it, but for
        rounding. None is a fixed seed: two fits of the same rows are equal.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Row numbers of the support vectors, counted over all rows that the model was given.
    n_rounds_ : int
        Number of working sets of the last training; not with "path".
    n_rows_seen_ : int
        Number of rows that ``fit`` and ``partial_fit`` were given.
    thresholds_ : ndarray of shape (n_categories - 1,)
        Cuts between consecutive levels.
    centres_ : ndarray of shape (n_centres, n_features)
        Rows whose kernel functions make up the latent function: the support vectors, or with a
        limited ``rank`` the rows that it chose.
    coefficients_ : ndarray of shape (n_centres,)
        Their weights.
    gap_ : float
        The relative gap reached; with "path" the largest violation of an optimality condition.
    converged_ : bool
        Whether the gap is below ``tol``; with "path", below 1e-8 of the latent function.
    n_iter_ : int
        Steps taken for the last working set; with "path", the changes of its sets in the last
        call.
    kernel_ : scikit-learn kernel
        The kernel.
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
    Both algorithms keep all rows. "path" keeps the inverse of a matrix of the size of the margin
    set, and kernel values between all rows and those that had a multiplier. Adding one row costs
    a few products with these; fitting many rows at once, the same for each that has to move.

    The default is the working set. With ``C`` and the width chosen by cross-validation, sums of
    margins had larger absolute errors than implicit margins on all of three sets (Pyrimidines
    0.63 and 0.51, Machine CPU 0.14 and 0.10, Triazines 0.94 and 0.70; five bins, four splits).

    Sums of margins can be trivial: with C >= 1 a level that no margin separates from its
    neighbour gets the margin zero, and if all do, the latent function is zero and every row gets
    the median level. ``fit`` warns of thresholds without a margin. Choose C below 1, but at least
    1 / n for the n rows of the rarest level.

    References
    ----------
    .. [Gu15] B. Gu, V. S. Sheng, K. Y. Tay, W. Romano and S. Li, "Incremental support vector
       learning for ordinal regression", IEEE Transactions on Neural Networks and Learning
       Systems 26, 2015.
    .. [Chu07] W. Chu and S. S. Keerthi, "Support vector ordinal regression", Neural Computation
       19, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from ordinalgp import IncrementalOrdinalSVC
    >>> X = np.linspace(-2, 2, 60)[:, None]
    >>> y = np.digitize(X[:, 0] ** 3, [-1, 1])
    >>> model = IncrementalOrdinalSVC(C=10.0).fit(X[::2], y[::2])
    >>> model.partial_fit(X[1::2], y[1::2]).predict([[-1.8], [0.0], [1.8]])
    array([0, 1, 2])
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        algorithm: str = "working_set",
        constraints: str | None = None,
        C: float = 1.0,
        chunk_size: int = 500,
        rank: Any = "auto",
        categories: Any = None,
        max_iter: int = 100,
        tol: float = 1e-8,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            kernel,
            constraints=constraints,  # type: ignore[arg-type]
            C=C,
            rank=rank,
            categories=categories,
            max_iter=max_iter,
            tol=tol,
        )
        self.algorithm = algorithm
        self.chunk_size = chunk_size
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_option("algorithm", self.algorithm, _ALGORITHMS)
        check_whole("chunk_size", self.chunk_size, least=1)
        follows = self.algorithm == "path"
        if self.constraints is not None and follows != (self.constraints == "sum_of_margins"):
            raise ValueError(
                f'algorithm="{self.algorithm}" cannot have constraints="{self.constraints}": '
                'only "path" has "sum_of_margins", and it has no other. Leave one of them out.'
            )

    def _kind(self) -> str:
        """The constraints."""
        return "implicit" if self.constraints is None else self.constraints

    def _solve(self, data: LevelRows) -> CutModel:
        if self.algorithm == "path":
            return solve_path(data, self.C)
        rng = fit_generator(self.random_state)
        return self._grow(data, rng.permutation(len(data.rows.codes))[: self.chunk_size], rng)

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
        signature = self._later_signature(codes, weights)
        if isinstance(self._result.model, PathModel):
            levels = len(self.categories_)
            return Fitted(signature, add_rows(self._result.model, X, codes, weights, levels))
        model: IncrementalModel = self._result.model
        seen = model.n_rows_seen
        rows, _ = extended_rows(model.rows, X, codes, weights, model.kernel, seen)
        support = np.flatnonzero(np.isin(rows.first_row, model.support)[rows.latent])
        new = np.flatnonzero(rows.first_row[rows.latent] >= seen)
        rng = fit_generator(self.random_state)
        some = rng.permutation(new)[: self.chunk_size]
        data = LevelRows(rows, seen + len(X), model.kernel, len(self.categories_))
        grown = self._grow(data, np.union1d(support, some), rng)
        return Fitted(signature, grown)

    @available_if(lambda self: self.algorithm == "path")
    @managed
    def remove_rows(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Unlearn rows, the reverse of :meth:`partial_fit`; only with ``algorithm="path"``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training inputs that are to leave, exactly as they were given.
        y : array-like of shape (n_samples,)
            Their levels.
        sample_weight : array-like of shape (n_samples,), default=None
            Number of copies of each row that leave.

        Returns
        -------
        self
            The fitted estimator itself.
        """
        check_is_fitted(self)
        with restore_on_error(self):
            self._check_parameters()
            X, codes, weights = self._check_later_rows(X, y, sample_weight)
            model = self._result.model
            if not isinstance(model, PathModel):
                raise ValueError(
                    'the model was fitted with algorithm="working_set", which cannot remove rows. '
                    'Fit it with algorithm="path".'
                )
            left = remove_rows(model, X, codes, weights, len(self.categories_))
            self._keep(Fitted(self._signature_of_rest(left), left))
        return self

    def _signature_of_rest(self, left: PathModel) -> Signature:
        """The signature without some rows."""
        before = self._result.signature
        counts = count_levels(left.rows.codes, left.rows.counts, len(self.categories_))
        classes = np.intersect1d(before.classes, self.categories_[counts > 0])
        return replace(before, classes=classes, counts=counts)

    def _grow(
        self, data: LevelRows, working: IntArray, rng: np.random.RandomState
    ) -> IncrementalModel:
        """Solve, and let rows in that lack margin, until there are none outside."""
        working = np.union1d(working, first_rows(data.rows.codes, rng))
        n_rounds = 0
        while True:
            n_rounds += 1
            machine = self._solve_some(data, working)
            lack = _margin_shortfall(data, machine, self._kind())
            lack[working] = 0.0
            worst = np.argsort(-lack, kind="stable")[: self.chunk_size]
            worst = worst[lack[worst] > _TOLERATED_SHORTFALL]
            if not len(worst):
                return IncrementalModel(
                    **vars(machine), rows=data.rows, n_rows_seen=data.n_rows_seen, n_rounds=n_rounds
                )
            working = np.union1d(working, worst)

    def _publish(self, model: Any) -> None:
        super()._publish(model)
        self.n_rows_seen_ = model.n_rows_seen
        if isinstance(model, IncrementalModel):
            self.n_rounds_ = model.n_rounds


def _margin_shortfall(data: LevelRows, machine: SupportVectorModel, constraints: str) -> FloatArray:
    """Margin that each observation lacks, at its worst threshold."""
    rows, f = data.rows, machine.latent(data.rows.inputs)
    wanted = margins(data.codes, rows.counts, rows.latent, constraints)
    cuts = machine.thresholds[data.observed[:-1]]
    short = 1.0 - wanted.sign * (f[wanted.input] - cuts[wanted.cut])
    worst = np.zeros(len(rows.codes))
    np.maximum.at(worst, wanted.row, short)
    return worst
