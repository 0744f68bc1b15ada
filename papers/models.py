"""Models of the tables by name: ours, the papers' baselines, and libraries used instead.

Libraries that need not be installed are imported when a model is built.
"""

import importlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold

from ordinalgp import (
    IncrementalOrdinalSVC,
    KernelDiscriminantOrdinal,
    LeastSquaresOrdinalClassifier,
    OrdinalGPClassifier,
    OrdinalSVC,
    SparseBayesOrdinalClassifier,
)
from papers.data import FloatArray, IntArray
from papers.machines import Fold, Node, SupportVectors, best_node

Build = Callable[[int, int], Any]
"""from a seed and the number of inputs to an unfitted estimator"""


@dataclass(frozen=True)
class Model:
    """A label and a way to make an estimator with ``fit`` and ``predict_proba`` or ``predict``."""

    label: str
    build: Build
    needs: str = "ordinalgp"
    """module that must be importable"""

    @property
    def is_available(self) -> bool:
        """True if what it needs is installed."""
        try:
            importlib.import_module(self.needs)
        except ImportError:
            return False
        return True


def find_models(
    names: Iterable[str], registry: Mapping[str, Model] | None = None
) -> dict[str, Model]:
    """Look up models by name; all unknown and absent ones are named in one error."""
    known = MODELS if registry is None else registry
    names = list(names)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"There is no model {unknown}. Choose from: {', '.join(known)}.")
    found = {name: known[name] for name in names}
    absent = [f"{name} ({m.needs})" for name, m in found.items() if not m.is_available]
    if absent:
        raise ImportError(
            f"These models need what is not installed: {', '.join(absent)}. Install the extra "
            'with pip install "ordinalgp[peers]", or leave them out with --models.'
        )
    return found


def seeded(estimator: Callable[..., Any], *arguments: Any, **options: Any) -> Build:
    """Build an estimator with these options and the seed as its ``random_state``."""
    return lambda seed, n_inputs: estimator(*arguments, random_state=seed, **options)


def named(estimator: str) -> Build:
    """Build an estimator of the library by its name, with the seed as its ``random_state``."""
    return lambda seed, _: getattr(importlib.import_module("ordinalgp"), estimator)(
        random_state=seed
    )


def skordinal(name: str, **options: Any) -> Any:
    """Make an estimator of skordinal."""
    return getattr(importlib.import_module("skordinal.classifiers"), name)(**options)


# -------------------------------------------------------------------- baselines of the papers

# Section 5.1.4 of Li and de Rijke (2018): five-fold cross-validation of the mean absolute error on
# these grids. From 1,000 rows on, a sample of them chooses, as one fit on all of them takes long.
_ROWS = 1000
_WIDTHS = [RBF((2 * theta) ** -0.5) for theta in 10.0 ** np.arange(-3, 4)]
_COSTS = {"kernel": _WIDTHS, "C": list(10.0 ** np.arange(-1, 4))}
# KDLOR's other parameter only scales its projection: no label depends on it.
_SINGULAR = {"kernel": _WIDTHS, "regularization": list(10.0 ** np.arange(-6, 0))}


@dataclass
class Tuned:
    """An estimator whose parameters are chosen on some of the rows and which then learns all."""

    estimator: Any
    grid: dict[str, list[Any]]
    seed: int
    final: Any = None
    """an estimator with the same solution, which learns all rows; by default ``estimator``"""
    best: dict[str, Any] = field(default_factory=dict)
    final_seconds: float = 0.0
    """processor time of learning all rows, the search left out"""

    def fit(self, X: FloatArray, y: IntArray) -> Self:
        """Search, then fit."""
        some = np.random.RandomState(self.seed).permutation(len(y))[:_ROWS]
        splits = KFold(5, shuffle=True, random_state=self.seed).split(some)
        estimator = clone(self.estimator).set_params(categories=np.unique(y))

        def build(node: Node) -> Any:
            return clone(estimator).set_params(**self._at(node))

        folds = [Fold(X[some], y[some], train, test, build) for train, test in splits]
        sizes = (len(values) for _, values in sorted(self.grid.items()))
        self.best = self._at(best_node(np.ndindex(*sizes), folds))
        final = clone(estimator if self.final is None else self.final)
        begin = time.process_time()
        self.fitted = final.set_params(**self.best).fit(X, y)
        self.final_seconds = time.process_time() - begin
        if hasattr(self.fitted, "predict_proba"):
            self.predict_proba, self.classes_ = self.fitted.predict_proba, self.fitted.classes_
        return self

    def _at(self, node: Node) -> dict[str, Any]:
        """Parameters at a place of the grid."""
        places = zip(sorted(self.grid), node, strict=True)
        return {name: self.grid[name][int(place)] for name, place in places}

    def predict(self, X: FloatArray) -> Any:
        """Levels."""
        return self.fitted.predict(X)


def _tuned(estimator: Any, grid: dict[str, list[Any]], final: Any = None) -> Build:
    return lambda seed, n_inputs: Tuned(estimator, grid, seed, final)


# ----------------------------------------------------------------------------------- peers


def _gp_classifier(seed: int, n_inputs: int) -> Any:
    """One-vs-rest Laplace, which does not know the order; the same kernel with an amplitude."""
    kernel = ConstantKernel(1.0, (1e-3, 1e4)) * RBF(np.sqrt(n_inputs), (1e-2, 1e3))
    return GaussianProcessClassifier(kernel, random_state=seed)


def _nnpom(seed: int, n_inputs: int) -> Any:
    """A neural network with ordered thresholds; widths and penalties by cross-validation."""
    grid: dict[str, list[Any]] = {"n_hidden": [5, 20], "alpha": [0.01, 0.1, 1.0]}
    return _two_folds(skordinal("NNPOM", random_state=seed), grid, seed)


def _svor(seed: int, n_inputs: int) -> Any:
    """Support vectors with implicit constraints; width and penalty by cross-validation."""
    widths = [0.1 / n_inputs, 0.5 / n_inputs, 2 / n_inputs]
    grid = {"C": [0.1, 1.0, 10.0, 100.0], "gamma": widths}
    return _two_folds(skordinal("SVOR", kernel="rbf"), grid, seed)


def _two_folds(estimator: Any, grid: dict[str, list[Any]], seed: int) -> Any:
    folds = StratifiedKFold(2, shuffle=True, random_state=seed)  # each level has at least two rows
    return GridSearchCV(estimator, grid, cv=folds)


class _OrderedProbit:
    """statsmodels' OrderedModel with a probit link behind scikit-learn's two methods."""

    classes_: IntArray

    def fit(self, X: FloatArray, y: IntArray) -> "_OrderedProbit":
        ordered = importlib.import_module("statsmodels.miscmodels.ordinal_model").OrderedModel
        self.classes_, codes = np.unique(y, return_inverse=True)
        self._varies = np.ptp(X, axis=0) > 0  # a constant column cannot be told from thresholds
        model = ordered(codes, X[:, self._varies], distr="probit")
        self._result = model.fit(method="bfgs", disp=False, maxiter=1000)
        return self

    def predict_proba(self, X: FloatArray) -> FloatArray:
        table = self._result.model.predict(self._result.params, exog=X[:, self._varies])
        proba: FloatArray = np.asarray(table, dtype=np.float64)
        return proba / proba.sum(axis=1, keepdims=True)


def _mord(seed: int, n_inputs: int) -> Any:
    return importlib.import_module("mord").LogisticAT(alpha=1.0)


def _catboost(seed: int, n_inputs: int) -> Any:
    """CatBoost with its defaults, on one thread and without files."""
    make = importlib.import_module("catboost").CatBoostClassifier
    return make(random_seed=seed, thread_count=1, verbose=False, allow_writing_files=False)


class Forest:
    """Random forest of 500 trees, scikit-learn's defaults otherwise, without zero probabilities.

    The trees' share p of a level becomes (500 p + 1/r) / 501: one more tree that does not know.
    """

    classes_: IntArray

    def __init__(self, seed: int, n_trees: int = 500) -> None:
        self.forest = RandomForestClassifier(n_trees, random_state=seed)

    def fit(self, X: FloatArray, y: IntArray) -> Self:
        """Grow the trees."""
        self.classes_ = self.forest.fit(X, y).classes_
        return self

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Shares of the trees, and of one that gives all levels the same probability."""
        shares: FloatArray = self.forest.predict_proba(X)
        trees = self.forest.n_estimators
        return (trees * shares + 1 / shares.shape[1]) / (trees + 1)


_SUMS = OrdinalSVC(constraints="sum_of_margins", tol=1e-6)  # the same solution, at once
# Machines that are only compared are solved roughly.
_ROUGH = OrdinalSVC(tol=1e-5)
_Sparse = SparseBayesOrdinalClassifier
MODELS = {
    "map": Model("MAP", seeded(OrdinalGPClassifier, inference="laplace")),
    "ep": Model("EP", seeded(OrdinalGPClassifier)),
    "ep-bound": Model("EP, bound", seeded(OrdinalGPClassifier, objective="bound")),
    "plsor": Model("PLSOR", seeded(LeastSquaresOrdinalClassifier)),
    "sequential": Model("sequential", named("SequentialOrdinalGP"), "ordinalgp.sequential"),
    "stacked": Model("stacked", named("StackedOrdinalGP"), "ordinalgp.stacking"),
    "isbor": Model("ISBOR", seeded(_Sparse)),
    "isbor-auto": Model("ISBOR, functions by evidence", seeded(_Sparse, "auto")),
    "sbor": Model("SBOR", seeded(_Sparse, training="batch")),
    "svm": Model("SVM", lambda seed, _: SupportVectors("rbf", seed)),
    "svm-implicit": Model("SVM, implicit", lambda seed, _: SupportVectors("rbf", seed, "implicit")),
    "sklearn-gpc": Model("scikit-learn GP", _gp_classifier),
    "sklearn-boosting": Model("scikit-learn boosting", seeded(HistGradientBoostingClassifier)),
    "catboost": Model("CatBoost", _catboost, "catboost"),
    "forest": Model("random forest", lambda seed, _: Forest(seed)),
    "logistic": Model("multinomial logistic", seeded(LogisticRegression, max_iter=5000)),
    "statsmodels": Model("statsmodels probit", lambda *_: _OrderedProbit(), "statsmodels"),
    "mord": Model("mord LogisticAT", _mord, "mord"),
    "skordinal-nnpom": Model("skordinal NNPOM", _nnpom, "skordinal"),
    "skordinal-svor": Model("skordinal SVOR", _svor, "skordinal"),
    "isbor-given": Model("ISBOR, given width", seeded(_Sparse, RBF(1.5))),
    "isbor-cv": Model(
        "ISBOR, width by cross-validation",
        _tuned(_Sparse(decision="median", random_state=0), {"kernel": _WIDTHS[1:5]}),
    ),
    "svor": Model("SVOR, implicit", _tuned(_ROUGH, _COSTS, final=OrdinalSVC())),
    "svor-explicit": Model("SVOR, explicit", _tuned(OrdinalSVC(constraints="explicit"), _COSTS)),
    "isvor": Model("SVOR, working set", _tuned(IncrementalOrdinalSVC(random_state=0), _COSTS)),
    "isvor-path": Model(
        "ISVOR", _tuned(_SUMS, _COSTS, final=IncrementalOrdinalSVC(algorithm="path"))
    ),
    "kdlor": Model("KDLOR", _tuned(KernelDiscriminantOrdinal(), _SINGULAR)),
}
OURS = (
    *("map", "ep", "ep-bound", "plsor", "sequential", "stacked"),
    *("isbor", "isbor-auto", "sbor"),
)
