"""Support vector ordinal regression: ``OrdinalSVC``."""

import warnings
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ordinalgp._typing import BoolArray, FloatArray, IntArray
from ordinalgp.baselines.cuts import CutClassifier, LevelRows, check_rank, kernel_features
from ordinalgp.baselines.soft_margin import Machine, Margins, margins, solve_margins
from ordinalgp.validation.options import check_number, check_option

_CONSTRAINTS = ("implicit", "explicit", "fixed_margin")
_ZERO = 1e-6  # share of its cost below which a multiplier is zero


class OrdinalSVC(CutClassifier):
    """Support vector machine for ordered levels (SVOR).

    One direction and parallel thresholds with soft margins around each. It gives labels, no
    probabilities; a baseline of [Li18]_. See [Chu07]_.

    Parameters
    ----------
    kernel : scikit-learn kernel, default=None
        How alike two rows are. None is the Gaussian kernel with squared length scale equal to the
        number of features, meant for standardised inputs. It is kept as it is: choose its
        width, and ``C``, with ``GridSearchCV``.
    constraints : {"implicit", "explicit", "fixed_margin"}, default="implicit"
        "implicit": every row wants a margin to every threshold, which puts the thresholds in
        order and bounds the absolute error. "explicit": to the thresholds next to its level,
        which are kept in order. "fixed_margin": the same without the order, as in [Shashua03]_.
    C : float, default=1.0
        Cost of a row for each unit that it lacks in margin.
    rank : int, "auto" or None, default="auto"
        Largest number of rows that span all others: None takes all of them. "auto" is exact up to
        2,000 distinct rows, and 1,000 above.
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
        Rows whose kernel functions make up the projection: the support vectors, or with a
        limited ``rank`` the rows that span.
    coefficients_ : ndarray of shape (n_centres,)
        Their weights.
    gap_ : float
        The relative gap reached.
    converged_ : bool
        Whether it is below ``tol``.
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

    _extra_spec: ClassVar[dict[str, tuple[Any, ...]]] = {
        "support_": ("i", "S", 0, np.inf),
        "gap_": ("f", ""),
        "converged_": ("b", ""),
        "n_iter_": ("i", ""),
    }
    _state_spec: ClassVar[dict[str, tuple[Any, ...]]] = {
        **CutClassifier._common_spec,
        **_extra_spec,
    }

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
        check_number("max_iter", self.max_iter, least=1)
        check_number("tol", self.tol, above=0)

    def _learn(self, data: LevelRows) -> None:
        self._solve(data, np.arange(len(data.rows.codes)))

    def _solve(self, data: LevelRows, working: IntArray) -> IntArray:
        """Solve for some of the observations; which of them are support vectors."""
        rows = data.rows.take(working)
        wanted = margins(data.codes[working], self.C * rows.counts, rows.latent, self.constraints)
        features = kernel_features(self.kernel_, rows.inputs, self.rank)
        steps = int(self.max_iter)
        found = solve_margins(features.matrix, wanted, tol=self.tol, max_steps=steps)
        self.gap_, self.converged_, self.n_iter_ = found.error, found.converged, found.n_steps
        thresholds = data.thresholds(found.cuts, len(self.categories_))
        binding = found.multipliers > _ZERO * wanted.cost
        if features.complete:
            self._keep(rows.inputs, _dual(found, wanted, binding, len(rows.inputs)), thresholds)
        else:
            centres = rows.inputs[features.pivots]
            self._keep(centres, features.expansion(found.weights), thresholds)
        support = np.unique(wanted.input[binding])
        self.support_ = np.sort(rows.first_row[support])
        if not found.converged:
            warnings.warn(
                f"The gap is {found.error:.1e} > tol={self.tol:.1e} after {found.n_steps} steps; "
                "raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return working[np.isin(rows.latent, support)]


def _dual(found: Machine, wanted: Margins, binding: BoolArray, n: int) -> FloatArray:
    """Coefficients of the inputs' kernel functions, zero without a margin that binds."""
    signed = np.where(binding, wanted.sign * found.multipliers, 0.0)
    return np.bincount(wanted.input, signed, n).astype(float)
