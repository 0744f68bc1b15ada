"""Support vector ordinal regression: ``OrdinalSVC``, and ``IncrementalOrdinalSVC``."""

from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ordinalgp._typing import Axes, FloatArray, IntArray
from ordinalgp.baselines.cuts import CutClassifier, CutModel, LevelRows, kernel_expansion
from ordinalgp.baselines.soft_margin import margins, solve_margins
from ordinalgp.models.base import Fitted, learn_further
from ordinalgp.models.training_rows import NumberedRows, extended_rows, first_rows
from ordinalgp.persistence import saved_as
from ordinalgp.runtime.warning import warn_user
from ordinalgp.validation.options import check_number, check_option, check_whole, fit_generator

_CONSTRAINTS = ("implicit", "explicit", "fixed_margin")
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
    constraints : {"implicit", "explicit", "fixed_margin"}, default="implicit"
        "implicit": every row has a margin to every threshold, which puts the thresholds in
        order and bounds the absolute error. "explicit": every row has margins only to the
        thresholds next to its level, which are kept in order. "fixed_margin": the same without
        the order, as in [Shashua03]_.
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

    References
    ----------
    .. [Chu07] W. Chu and S. S. Keerthi, "Support vector ordinal regression", Neural Computation
       19, 2007.
    .. [Shashua03] A. Shashua and A. Levin, "Ranking with large margin principle: two approaches",
       Advances in Neural Information Processing Systems 15, 2003.
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
        check_option("constraints", self.constraints, _CONSTRAINTS)
        check_number("C", self.C, above=0)
        check_whole("max_iter", self.max_iter, least=1)
        check_number("tol", self.tol, above=0)

    def _solve(self, data: LevelRows) -> SupportVectorModel:
        return self._solve_some(data, np.arange(len(data.rows.codes)))

    def _solve_some(self, data: LevelRows, working: IntArray) -> SupportVectorModel:
        """Solve for some of the observations."""
        rows = data.rows.take(working)
        wanted = margins(data.codes[working], self.C * rows.counts, rows.latent, self.constraints)
        features = self._features(data.kernel, rows.inputs)
        found = solve_margins(features.matrix, wanted, tol=self.tol, max_steps=self.max_iter)
        if not found.converged:
            more = found.n_steps == self.max_iter
            warn_user(
                f"The gap is {found.error:.1e} > tol={self.tol:.1e} after {found.n_steps} steps, "
                f"with C={self.C:g}. "
                + ("Raise max_iter." if more else "Rounding stops it: lower C, or raise tol."),
                ConvergenceWarning,
            )
        # With a large C all multipliers can be far below their cost.
        largest = np.minimum(wanted.cost, found.multipliers.max())
        binding = found.multipliers > _ZERO_SHARE * largest
        signed = np.where(binding, wanted.sign * found.multipliers, 0.0)
        dual = np.bincount(wanted.input, signed, len(rows.inputs)).astype(float)
        expansion = kernel_expansion(features, rows.inputs, found.weights, dual)
        support = np.sort(rows.first_row[np.unique(wanted.input[binding])])
        function = data.kernel, *expansion, data.thresholds(found.cuts)
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
    """Support vector machine for ordered levels that learns from further rows (like ISVOR).

    The model is that of :class:`OrdinalSVC`, to its tolerance. It is trained on a working set of
    rows. Rows outside that violate their margins are added, until there are none. ``partial_fit``
    starts with the support vectors and some of the new rows.

    Parameters
    ----------
    kernel : scikit-learn kernel, default=None
        Similarity of two rows; see :class:`OrdinalSVC`.
    constraints : {"implicit", "explicit", "fixed_margin"}, default="implicit"
        Margins of each row; see :class:`OrdinalSVC`.
    C : float, default=1.0
        Penalty per unit of margin violation.
    chunk_size : int, default=500
        Number of rows added to the working set at a time.
    rank : int, "auto" or None, default="auto"
        Largest number of rows whose kernel functions make up the model of a working set; see
        :class:`OrdinalSVC`.
    categories : sequence, default=None
        Levels from lowest to highest. None takes them from an ordered pandas or polars
        categorical, or sorts numbers. Strings without an order are an error.
    max_iter : int, default=100
        Largest number of steps of the interior point method for one working set.
    tol : float, default=1e-8
        Largest relative gap between the objective and its lower bound.
    random_state : int, RandomState instance or None, default=None
        Seed of the first rows; the result does not depend on it, but for rounding. None
        is a fixed seed: two fits of the same rows are equal.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Row numbers of the support vectors, counted over all rows that the model was given.
    n_rounds_ : int
        Number of working sets of the last training.
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
        The relative gap reached.
    converged_ : bool
        Whether the gap is below ``tol``.
    n_iter_ : int
        Steps taken for the last working set.
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
    The algorithm of [Gu15]_ has a sum-of-margins model, which doubles the rows, and follows its
    multipliers as the weight of one row grows. This one has the model of [Chu07]_ and adds whole
    sets of rows. Both end at the exact solution for all rows seen, and both keep them all.

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
        constraints: str = "implicit",
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
            constraints=constraints,
            C=C,
            rank=rank,
            categories=categories,
            max_iter=max_iter,
            tol=tol,
        )
        self.chunk_size = chunk_size
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_whole("chunk_size", self.chunk_size, least=1)

    def _solve(self, data: LevelRows) -> IncrementalModel:
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
        model: IncrementalModel = self._result.model
        seen = model.n_rows_seen
        rows, _ = extended_rows(model.rows, X, codes, weights, model.kernel, seen)
        support = np.flatnonzero(np.isin(rows.first_row, model.support)[rows.latent])
        new = np.flatnonzero(rows.first_row[rows.latent] >= seen)
        rng = fit_generator(self.random_state)
        some = rng.permutation(new)[: self.chunk_size]
        data = LevelRows(rows, seen + len(X), model.kernel, len(self.categories_))
        grown = self._grow(data, np.union1d(support, some), rng)
        return Fitted(self._later_signature(codes, weights), grown)

    def _grow(
        self, data: LevelRows, working: IntArray, rng: np.random.RandomState
    ) -> IncrementalModel:
        """Solve, and let rows in that lack margin, until there are none outside."""
        working = np.union1d(working, first_rows(data.rows.codes, rng))
        n_rounds = 0
        while True:
            n_rounds += 1
            machine = self._solve_some(data, working)
            lack = _margin_shortfall(data, machine, self.constraints)
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
        self.n_rounds_, self.n_rows_seen_ = model.n_rounds, model.n_rows_seen


def _margin_shortfall(data: LevelRows, machine: SupportVectorModel, constraints: str) -> FloatArray:
    """Margin that each observation lacks, at its worst threshold."""
    rows, f = data.rows, machine.latent(data.rows.inputs)
    wanted = margins(data.codes, rows.counts, rows.latent, constraints)
    cuts = machine.thresholds[data.observed[:-1]]
    short = 1.0 - wanted.sign * (f[wanted.input] - cuts[wanted.cut])
    worst = np.zeros(len(rows.codes))
    np.maximum.at(worst, wanted.row, short)
    return worst
