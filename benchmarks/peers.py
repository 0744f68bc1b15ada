"""Our models beside scikit-learn's Gaussian processes: time, errors and log score in one run.

``python -m benchmarks.peers`` fits Boston, Stocks and Abalone in 5 bins on the first published
partitions, everything with one BLAS thread. Times are in units of one Cholesky factorisation
(LAPACK's dpotrf) of the training size, taken right before each fit, so that they can be
compared between machines and survive a busy one.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from threadpoolctl import threadpool_limits

from benchmarks.data import Split, load_partition
from ordinalgp import OrdinalGPClassifier
from ordinalgp.metrics import log_score, mean_absolute_error, zero_one_error

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

DATASETS = {"boston_housing": 300, "stocks": 600, "abalone": 1000}
_LEVELS = np.arange(1, 6)

# Measured earlier, for orientation: (dpotrf a fit, log score) in the order of DATASETS.
REFERENCES: dict[str, tuple[tuple[float | None, float], ...]] = {
    "other ordinal GPs": ((11_000, 0.588), (12_600, 0.312), (4_400, 0.542)),
    "random forest": ((None, 0.607), (None, 0.298), (None, 0.630)),
    "multinomial logistic": ((None, 0.736), (None, 0.487), (None, 0.558)),
}


class Measured(NamedTuple):
    """One fit, or the mean of several; the first number is in dpotrf."""

    fit: float
    zero_one: float
    absolute: float
    log_score: float


# ---------------------------------------------------------------------------------- models
# Each takes training data and returns a function from inputs to labels and probabilities.

Predictor = Callable[[Array], tuple[Labels, Array]]


def _as_predictor(model: Any) -> Predictor:
    return lambda X: (model.predict(X), model.predict_proba(X))


def _ordinal(inference: str) -> Callable[[Array, Labels], Predictor]:
    return lambda X, y: _as_predictor(OrdinalGPClassifier(inference=inference).fit(X, y))


def _amplitude_times_rbf(X: Array) -> Any:
    return ConstantKernel(1.0, (1e-3, 1e4)) * RBF(np.sqrt(X.shape[1]), (1e-2, 1e3))


def _classifier(X: Array, y: Labels) -> Predictor:
    """One-vs-rest Laplace, which does not know the order."""
    return _as_predictor(GaussianProcessClassifier(_amplitude_times_rbf(X)).fit(X, y))


def _regressor(X: Array, y: Labels) -> Predictor:
    """Regression on the labels; a level has the predictive mass between half-integers."""
    kernel = _amplitude_times_rbf(X) + WhiteKernel(1.0, (1e-6, 1e2))
    model = GaussianProcessRegressor(kernel, normalize_y=True).fit(X, y.astype(float))

    def predict(X_new: Array) -> tuple[Labels, Array]:
        mean, sd = model.predict(X_new, return_std=True)
        labels = np.clip(np.rint(mean), _LEVELS[0], _LEVELS[-1]).astype(int)
        cuts = np.concatenate([[-np.inf], _LEVELS[:-1] + 0.5, [np.inf]])
        return labels, np.diff(norm.cdf((cuts - mean[:, None]) / sd[:, None]))

    return predict


MODELS: dict[str, Callable[[Array, Labels], Predictor]] = {
    "ordinalgp EP": _ordinal("ep"),
    "ordinalgp Laplace": _ordinal("laplace"),
    "sklearn GP regressor": _regressor,
    "sklearn GP classifier": _classifier,
}


# ------------------------------------------------------------------------------- measuring


def dpotrf_seconds(n: int, repeats: int = 7) -> float:
    """Median time of one factorisation of a positive definite matrix of order ``n``."""
    A = np.random.default_rng(0).standard_normal((n, n))
    A = np.asfortranarray(A @ A.T + n * np.eye(n))
    return float(np.median([_timed(lambda: lapack.dpotrf(A))[0] for _ in range(repeats)]))


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = call()
    return time.perf_counter() - begin, result


def measure(fit: Callable[[Array, Labels], Predictor], data: Split) -> Measured:
    """Fit once and score on the test rows."""
    unit = dpotrf_seconds(len(data.y_train))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # parameters at their bounds
        seconds, predict = _timed(lambda: fit(data.X_train, data.y_train))
    labels, proba = predict(data.X_test)
    return Measured(
        seconds / unit,
        zero_one_error(data.y_test, labels, categories=_LEVELS),
        mean_absolute_error(data.y_test, labels, categories=_LEVELS),
        log_score(data.y_test, proba, categories=_LEVELS),
    )


def measure_all(splits: int) -> dict[tuple[str, str], Measured]:
    """Means over the first ``splits`` partitions for every data set and model."""
    means = {}
    for dataset in DATASETS:
        for name, fit in MODELS.items():
            runs = []
            for split in range(1, splits + 1):
                text = f"\r{dataset}: {name}, partition {split} of {splits}"
                print(f"{text:<79}", end="", file=sys.stderr, flush=True)
                runs.append(measure(fit, load_partition(dataset, 5, split)))
            means[dataset, name] = Measured(*np.mean(runs, axis=0).tolist())
    print(file=sys.stderr)
    return means


def table(means: dict[tuple[str, str], Measured]) -> str:
    """Lay out the measurements, and under each data set the references."""
    head = f"{'dpotrf':>10}{'zero-one %':>12}{'absolute %':>12}{'log score':>11}"
    lines = []
    for place, (dataset, n) in enumerate(DATASETS.items()):
        lines += ["", f"{f'{dataset} (n = {n})':<26}{head}"]
        for name in MODELS:
            m = means[dataset, name]
            errors = f"{100 * m.zero_one:>12.2f}{100 * m.absolute:>12.2f}"
            lines.append(f"  {name:<24}{m.fit:>10,.0f}{errors}{m.log_score:>11.3f}")
        for name, figures in REFERENCES.items():
            cost, score = figures[place]
            shown = "" if cost is None else f"~{cost:,.0f}"
            lines.append(f"  {name + ' *':<24}{shown:>10}{'':>24}{score:>11.3f}")
    notes = ["", "dpotrf: fit time in Cholesky factorisations of order n, one thread, same run"]
    notes += ["log score: mean -ln p(true level)", "*: measured earlier, not in this run"]
    return "\n".join(lines + notes)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=3, help="partitions per data set")
    options = parser.parse_args(argv)
    with threadpool_limits(1):
        means = measure_all(options.splits)
    print(f"5 bins, mean over {options.splits} published partitions")
    print(table(means))


if __name__ == "__main__":
    main()
