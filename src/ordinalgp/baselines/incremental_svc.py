"""Support vector ordinal regression that goes on with more rows: ``IncrementalOrdinalSVC``."""

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.baselines.cuts import LevelRows, weighted_sum
from ordinalgp.baselines.soft_margin import margins
from ordinalgp.baselines.svc import OrdinalSVC
from ordinalgp.models.partial_fit import Growing
from ordinalgp.models.training_rows import NumberedRows, extended_rows, first_rows
from ordinalgp.sparse.state import _ROWS
from ordinalgp.validation.options import check_number
from ordinalgp.validation.weights import check_weights

_SLACK = 1e-6  # by which a row may lack margin and still be as it should


class IncrementalOrdinalSVC(Growing, OrdinalSVC):
    """Support vector machine for ordered levels that learns row by row (in place of ISVOR).

    The model is that of :class:`OrdinalSVC`, to its tolerance. It is found on a working set: some
    rows, then the support vectors among them and the rows that lack margin, until no row does.
    ``partial_fit`` begins with the support vectors and the new rows.

    Parameters
    ----------
    kernel : scikit-learn kernel, default=None
        How alike two rows are; see :class:`OrdinalSVC`.
    constraints : {"implicit", "explicit", "fixed_margin"}, default="implicit"
        Which margins rows want; see :class:`OrdinalSVC`.
    C : float, default=1.0
        Cost of a row for each unit that it lacks in margin.
    chunk_size : int, default=500
        Rows that join the working set at once.
    rank : int, "auto" or None, default="auto"
        Largest number of rows that span a working set; see :class:`OrdinalSVC`.
    categories : sequence, default=None
        Levels from lowest to highest. None takes them from an ordered pandas or polars
        categorical, or sorts numbers; strings without an order raise.
    max_iter : int, default=100
        Largest number of steps of the interior point method for one working set.
    tol : float, default=1e-8
        Largest relative gap between the objective and its lower bound.
    random_state : int, RandomState instance or None, default=None
        Draws the first rows; the answer does not depend on it.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Support vectors as row numbers, counted over all rows that the model was given.
    n_rounds_ : int
        Working sets that the last training took.
    n_rows_seen_ : int
        How many rows ``fit`` and ``partial_fit`` were given.
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
        Steps taken for the last working set.
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
    The algorithm of [Gu15]_ follows the multipliers of a sum-of-margins model, which doubles the
    rows, as one row's weight grows; this one has the model of [Chu07]_, and whole sets of rows.
    Both end at the exact solution for all rows seen, and both keep them all.

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

    _rows: NumberedRows
    _extra_spec: ClassVar[dict[str, tuple[Any, ...]]] = {
        **OrdinalSVC._extra_spec,
        "n_rounds_": ("i", ""),
        "n_rows_seen_": ("i", ""),
    }
    _state_spec: ClassVar[dict[str, tuple[Any, ...]]] = {
        **OrdinalSVC._common_spec,
        **_extra_spec,
        **_ROWS,
    }

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
        check_number("chunk_size", self.chunk_size, least=1)

    def _fit(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Self:
        data = self._training_rows(X, y, sample_weight, classes)
        self.n_rows_seen_ = data.n_given
        rng = check_random_state(self.random_state)
        n = len(data.rows.codes)
        return self._grow(data, rng.permutation(n)[: int(self.chunk_size)], rng)

    def _continue(self, X: Any, y: Any, sample_weight: Any) -> Self:
        self._check_parameters()
        X = self._check_inputs(X, reset=False)
        codes, weights = self._read_more(X, y), check_weights(sample_weight, len(X))
        seen = self.n_rows_seen_
        rows, _ = extended_rows(self._rows, X, codes, weights, self.kernel_, seen)
        self.n_rows_seen_ += len(X)
        self.classes_ = np.unique(self.categories_[np.unique(rows.codes)])
        known = np.isin(rows.first_row, self.support_)
        start = np.flatnonzero(known[rows.latent])
        new = np.flatnonzero(rows.first_row[rows.latent] >= seen)
        rng = check_random_state(self.random_state)
        some = rng.permutation(new)[: int(self.chunk_size)]
        data = LevelRows(rows, np.unique(rows.codes), self.n_rows_seen_)
        return self._grow(data, np.union1d(start, some), rng)

    def _grow(self, data: LevelRows, working: IntArray, rng: np.random.RandomState) -> Self:
        """Solve, and let rows in that lack margin, until there are none outside."""
        working = np.union1d(working, first_rows(data.rows.codes, rng))
        n_rounds = 0
        while True:
            n_rounds += 1
            self._solve(data, working)
            lack = self._lack(data)
            lack[working] = 0.0
            worst = np.argsort(-lack, kind="stable")[: int(self.chunk_size)]
            worst = worst[lack[worst] > _SLACK]
            if not len(worst):
                break
            working = np.union1d(working, worst)
        self._rows, self.n_rounds_ = data.rows, n_rounds
        return self

    def _lack(self, data: LevelRows) -> FloatArray:
        """By how much each observation lacks margin, at its worst threshold."""
        rows = data.rows
        f = weighted_sum(self.kernel_, rows.inputs, self.centres_, self.coefficients_)
        wanted = margins(data.codes, rows.counts, rows.latent, self.constraints)
        cuts = self.thresholds_[data.observed[:-1]]
        short = 1.0 - wanted.sign * (f[wanted.input] - cuts[wanted.cut])
        worst = np.zeros(len(rows.codes))
        np.maximum.at(worst, wanted.row, short)
        return worst

    # ------------------------------------------------------------------------- persistence

    def _get_state(self) -> dict[str, Any]:
        rows = {name: getattr(self._rows, name) for name in _ROWS}
        return {**super()._get_state(), **rows}

    def _set_state(self, state: dict[str, Any]) -> None:
        super()._set_state(state)
        rows = NumberedRows(*(state[name] for name in _ROWS))
        if not np.all(rows.first_row < self.n_rows_seen_):
            raise ValueError("first_row and the rest of the state disagree")
        self._rows = rows
