"""The models of Li and de Rijke (2018), Table 3, with the searches of their section 5.1.4.

Widths and costs are chosen by five-fold cross-validation of the mean absolute error on the paper's
grids. From 1,000 rows on, a sample of them chooses, as one fit on all of them takes long.
"""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV, KFold

from ordinalgp import (
    IncrementalOrdinalSVC,
    KernelDiscriminantOrdinal,
    OrdinalSVC,
    SparseBayesOrdinalClassifier,
)
from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.benchmark.models import Model
from ordinalgp.metrics import make_ordinal_scorer

_ROWS = 1000
_WIDTHS = [RBF((2 * theta) ** -0.5) for theta in 10.0 ** np.arange(-3, 4)]
_SPARSE_WIDTHS = [RBF((2 * theta) ** -0.5) for theta in 10.0 ** np.arange(-2, 2)]
_COSTS = {"kernel": _WIDTHS, "C": list(10.0 ** np.arange(-1, 4))}
# KDLOR's other parameter only scales its projection: no label depends on it.
_SINGULAR = {"kernel": _WIDTHS, "regularization": list(10.0 ** np.arange(-6, 0))}


@dataclass
class Tuned:
    """An estimator whose parameters are chosen on some of the rows and which then learns all."""

    estimator: Any
    grid: dict[str, list[Any]]
    seed: int
    best: dict[str, Any] = field(default_factory=dict)

    def fit(self, X: FloatArray, y: IntArray) -> Self:
        """Search, then fit."""
        rng = np.random.RandomState(self.seed)
        some = rng.permutation(len(y))[:_ROWS]
        folds = KFold(5, shuffle=True, random_state=self.seed)
        estimator = clone(self.estimator).set_params(categories=np.unique(y))
        scorer = make_ordinal_scorer("mean_absolute_error")
        search = GridSearchCV(estimator, self.grid, scoring=scorer, cv=folds, refit=False)
        self.best = search.fit(X[some], y[some]).best_params_
        self.fitted = clone(estimator).set_params(**self.best).fit(X, y)
        return self

    def predict(self, X: FloatArray) -> Any:
        """Levels."""
        return self.fitted.predict(X)


def _tuned(estimator: Any, grid: dict[str, list[Any]]) -> Any:
    return lambda seed, n_inputs: Tuned(estimator, grid, seed)


def _sparse(seed: int, n_inputs: int, **options: Any) -> Any:
    return SparseBayesOrdinalClassifier(decision="median", random_state=seed, **options)


BASELINES = {
    "isbor": Model("ISBOR", _sparse),
    "isbor-auto": Model("ISBOR, functions by evidence", lambda *a: _sparse(*a, kernel="auto")),
    "sbor": Model("SBOR", lambda *a: _sparse(*a, training="batch")),
    "isbor-cv": Model(
        "ISBOR, width by cross-validation",
        _tuned(
            SparseBayesOrdinalClassifier(decision="median", random_state=0),
            {"kernel": _SPARSE_WIDTHS},
        ),
    ),
    "svor": Model("SVOR, implicit", _tuned(OrdinalSVC(), _COSTS)),
    "svor-explicit": Model("SVOR, explicit", _tuned(OrdinalSVC(constraints="explicit"), _COSTS)),
    "isvor": Model("ISVOR", _tuned(IncrementalOrdinalSVC(random_state=0), _COSTS)),
    "kdlor": Model("KDLOR", _tuned(KernelDiscriminantOrdinal(), _SINGULAR)),
}
