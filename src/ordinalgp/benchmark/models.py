"""The models of the tables by name: ours, and the libraries people might use instead.

A model is looked up when it is asked for, so that a library that is not installed, or an estimator
that does not exist yet, costs nothing until then.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.benchmark.svm import SupportVectors


@dataclass(frozen=True)
class Model:
    """How to make an estimator with ``fit`` and ``predict_proba``, or ``predict`` alone."""

    label: str
    build: Callable[[int, int], Any]
    """from a seed and the number of inputs to an unfitted estimator"""
    needs: str = "ordinalgp"
    """what must be importable, a module or ``module:name``"""

    @property
    def is_available(self) -> bool:
        """Whether what it needs is installed."""
        module, _, name = self.needs.partition(":")
        try:
            found = importlib.import_module(module)
        except ImportError:
            return False
        return not name or hasattr(found, name)


def find_models(
    names: Iterable[str], registry: Mapping[str, Model] | None = None
) -> dict[str, Model]:
    """Look up models by name; all unknown and absent ones are named in one error."""
    known = MODELS if registry is None else registry
    chosen = {name: known.get(name) for name in names}
    unknown = [name for name, model in chosen.items() if model is None]
    if unknown:
        raise ValueError(f"There is no model {unknown}. Choose from: {', '.join(known)}.")
    found = {name: model for name, model in chosen.items() if model is not None}
    absent = [f"{name} ({m.needs})" for name, m in found.items() if not m.is_available]
    if absent:
        raise ImportError(
            f"These models need what is not installed: {', '.join(absent)}. Install the extra "
            'with pip install "ordinalgp[peers]", or leave them out with --models.'
        )
    return found


# ------------------------------------------------------------------------------------ ours


def _ours(**options: Any) -> Callable[[int, int], Any]:
    def build(seed: int, n_inputs: int) -> Any:
        from ordinalgp import OrdinalGPClassifier

        return OrdinalGPClassifier(random_state=seed, **options)

    return build


def _least_squares(seed: int, n_inputs: int) -> Any:
    return importlib.import_module("ordinalgp").LeastSquaresOrdinalClassifier(random_state=seed)


def _sparse(**options: Any) -> Callable[[int, int], Any]:
    def build(seed: int, n_inputs: int) -> Any:
        from ordinalgp import SparseBayesOrdinalClassifier

        return SparseBayesOrdinalClassifier(random_state=seed, **options)

    return build


# ----------------------------------------------------------------------------------- peers


def _svm(seed: int, n_inputs: int) -> Any:
    return SupportVectors("rbf", seed)


def _gp_classifier(seed: int, n_inputs: int) -> Any:
    """One-vs-rest Laplace, which does not know the order; the same kernel with an amplitude."""
    kernel = ConstantKernel(1.0, (1e-3, 1e4)) * RBF(np.sqrt(n_inputs), (1e-2, 1e3))
    return GaussianProcessClassifier(kernel, random_state=seed)


def _boosting(seed: int, n_inputs: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=seed)


def _mord(seed: int, n_inputs: int) -> Any:
    return importlib.import_module("mord").LogisticAT(alpha=1.0)


def _nnpom(seed: int, n_inputs: int) -> Any:
    """A neural network with ordered thresholds; widths and penalties by cross-validation."""
    network = importlib.import_module("skordinal.classifiers").NNPOM(random_state=seed)
    return _tuned(network, {"n_hidden": [5, 20], "alpha": [0.01, 0.1, 1.0]}, seed)


def _svor(seed: int, n_inputs: int) -> Any:
    """Support vectors with implicit constraints; width and penalty by cross-validation."""
    machine = importlib.import_module("skordinal.classifiers").SVOR(kernel="rbf")
    grid = {"C": [0.1, 1.0, 10.0, 100.0], "gamma": [0.1 / n_inputs, 0.5 / n_inputs, 2 / n_inputs]}
    return _tuned(machine, grid, seed)


def _tuned(estimator: Any, grid: dict[str, list[Any]], seed: int) -> Any:
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


MODELS = {
    "map": Model("MAP", _ours(inference="laplace")),
    "ep": Model("EP", _ours(inference="ep")),
    "ep-bound": Model("EP, bound", _ours(inference="ep", objective="bound")),
    "plsor": Model("PLSOR", _least_squares, "ordinalgp:LeastSquaresOrdinalClassifier"),
    "isbor": Model("ISBOR", _sparse()),
    "isbor-auto": Model("ISBOR, functions by evidence", _sparse(kernel="auto")),
    "sbor": Model("SBOR", _sparse(training="batch")),
    "svm": Model("SVM", _svm, "skordinal"),
    "sklearn-gpc": Model("scikit-learn GP", _gp_classifier, "sklearn"),
    "sklearn-boosting": Model("scikit-learn boosting", _boosting, "sklearn"),
    "statsmodels": Model("statsmodels probit", lambda *_: _OrderedProbit(), "statsmodels"),
    "mord": Model("mord LogisticAT", _mord, "mord"),
    "skordinal-nnpom": Model("skordinal NNPOM", _nnpom, "skordinal"),
    "skordinal-svor": Model("skordinal SVOR", _svor, "skordinal"),
}
OURS = ("map", "ep", "ep-bound", "plsor", "isbor", "isbor-auto", "sbor")
