"""Support vector ordinal regression: ``OrdinalSVC``."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ordinalgp._typing import Axes, BoolArray, FloatArray, IntArray
from ordinalgp.baselines.cuts import (
    CutClassifier,
    CutModel,
    LevelRows,
    check_rank,
    kernel_features,
    without_zeros,
)
from ordinalgp.baselines.soft_margin import Margins, MarginSolution, margins, solve_margins
from ordinalgp.persistence import saved_as
from ordinalgp.runtime.warning import warn_user
from ordinalgp.validation.options import check_number, check_option, check_whole

_CONSTRAINTS = ("implicit", "explicit", "fixed_margin")
_ZERO_SHARE = 1e-6  # of its cost, below which a multiplier is zero


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
        "implicit": every row wants a margin to every threshold, which puts the thresholds in
        order and bounds the absolute error. "explicit": to the thresholds next to its level,
        which are kept in order. "fixed_margin": the same without the order, as in [Shashua03]_.
    C : float, default=1.0
        Cost per unit of margin that a row lacks.
    rank : int, "auto" or None, default="auto"
        Largest number of rows whose kernel functions make up the model. None takes all rows.
        "auto" takes all up to 2,000 distinct rows, and 1,000 above.
    categories : sequence, default=None
        Levels from lowest to highest. None takes them from an ordered pandas or polars
        categorical, or sorts numbers; strings without an order raise.
    max_iter : int, default=100
        Largest number of steps of the interior point method; some 20 suffice.
    tol : float, default=1e-8
        Largest relative gap between the objective and its lower bound.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Support vectors as row numbers: rows with a margin that binds.
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
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of features, where the input had them.

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
        check_rank(self.rank)
        check_whole("max_iter", self.max_iter, least=1)
        check_number("tol", self.tol, above=0)

    def _solve(self, data: LevelRows) -> SupportVectorModel:
        return self._solve_some(data, np.arange(len(data.rows.codes)))

    def _solve_some(self, data: LevelRows, working: IntArray) -> SupportVectorModel:
        """Solve for some of the observations."""
        rows = data.rows.take(working)
        wanted = margins(data.codes[working], self.C * rows.counts, rows.latent, self.constraints)
        features = kernel_features(data.kernel, rows.inputs, self.rank)
        found = solve_margins(features.matrix, wanted, tol=self.tol, max_steps=self.max_iter)
        if not found.converged:
            warn_user(
                f"The gap is {found.error:.1e} > tol={self.tol:.1e} after {found.n_steps} steps; "
                "raise max_iter or tol.",
                ConvergenceWarning,
            )
        binding = found.multipliers > _ZERO_SHARE * wanted.cost
        if features.complete:
            coefficients = _dual(found, wanted, binding, len(rows.inputs))
            centres = rows.inputs
        else:
            centres, coefficients = rows.inputs[features.pivots], features.expansion(found.weights)
        return SupportVectorModel(
            data.kernel,
            *without_zeros(centres, coefficients),
            data.thresholds(found.cuts),
            np.sort(rows.first_row[np.unique(wanted.input[binding])]),
            found.error,
            found.converged,
            found.n_steps,
        )

    def _publish(self, model: Any) -> None:
        super()._publish(model)
        self.support_, self.gap_ = model.support, model.gap
        self.converged_, self.n_iter_ = model.converged, model.n_steps


def _dual(found: MarginSolution, wanted: Margins, binding: BoolArray, n: int) -> FloatArray:
    """Coefficients of the inputs' kernel functions, zero without a margin that binds."""
    signed = np.where(binding, wanted.sign * found.multipliers, 0.0)
    return np.bincount(wanted.input, signed, n).astype(float)
