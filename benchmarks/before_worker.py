"""Fits of one version of the library, for `benchmarks.before`: answers on standard output.

It imports nothing that an older version lacks.
"""

import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ordinalgp import LeastSquaresOrdinalClassifier, OrdinalGPClassifier

MODELS: dict[str, Callable[..., Any]] = {
    "ep": OrdinalGPClassifier,
    "default": OrdinalGPClassifier,
    "laplace": lambda **more: OrdinalGPClassifier(inference="laplace", **more),
    "least squares": lambda **more: LeastSquaresOrdinalClassifier(n_restarts_optimizer=0, **more),
}


def rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Eight normal inputs, and four levels of a function of three of them with noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 8))
    f = np.sin(X[:, 0]) + 0.5 * X[:, 1] + np.abs(X[:, 2]) + 0.3 * rng.normal(size=n)
    return X, np.digitize(f, np.quantile(f, [0.25, 0.5, 0.75]))


def objective(model: Any) -> float:
    """The objective of a fitted model, at its hyperparameters."""
    if isinstance(model, OrdinalGPClassifier):
        return float(model.log_marginal_likelihood_value_)
    return float(model.loo_log_probability())


def seconds_of_fit(name: str, n: int, times: int) -> float:
    """Least processor time of some fits."""
    X, y = rows(n)
    found = []
    for _ in range(times):
        start = time.process_time()
        MODELS[name]().fit(X, y)
        found.append(time.process_time() - start)
    return min(found)


def fitted(name: str, data: list[Any], theta: list[float] | None) -> dict[str, Any]:
    """Objective and test predictions of a fit, with given hyperparameters or those it finds."""
    X, y, X_test = map(np.array, data)
    model = MODELS[name]().fit(X, y)
    end = objective(model)
    own = np.concatenate([model.kernel_.theta, _likelihood(model).theta])
    if theta is not None:
        kernel = model.kernel_.clone_with_theta(np.array(theta[: model.kernel_.n_dims]))
        likelihood = _likelihood(model).clone_with_theta(np.array(theta[model.kernel_.n_dims :]))
        model = MODELS[name](kernel=kernel, likelihood=likelihood, optimizer=None, tol=1e-9)
        model.fit(X, y)
    probabilities = model.predict_proba(X_test)
    return {
        "end": end,
        "theta": own.tolist(),
        "value": objective(model),
        "predictions": probabilities.tolist(),
    }


def _likelihood(model: Any) -> Any:
    return model.likelihood_


def work() -> None:
    """Answer questions on standard input, a line of JSON each."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    tasks = {"seconds": seconds_of_fit, "fitted": fitted}
    for line in sys.stdin:
        task, *arguments = json.loads(line)
        print(json.dumps(tasks[task](*arguments)), flush=True)


if __name__ == "__main__":
    work()
