"""Record numbers of every estimator, and compare the records of two versions of the library.

    python tools/golden.py record old.npz [--only PATTERN]
    python tools/golden.py predictions DATA_HOME old.npz [--jobs 2]
    python tools/golden.py compare old.npz new.npz [--bits]

The script uses public names alone, so that it runs unchanged on later versions. A record is named
``kind/estimator/case/quantity``. Its kind says how well two versions must agree:

- value: computed at given hyperparameters, to 1e-10, relative or absolute;
- search: after a search for hyperparameters, to 1e-6 of the largest number of the record;
- path: the steps that a search took, and what rounding may move: a search on a flat objective, and
  shares of random draws after a search. They count only with ``--bits``.

What raises an exception is recorded as the exception's type and text; the text counts only with
``--bits``. Records that only the new file has are counted and do no harm.
"""

import os

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # before numpy is imported, which reads it once

import argparse
import csv
import itertools
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.model_selection import cross_val_score

import ordinalgp
from ordinalgp import (
    CollaborativeOrdinalGP,
    IncrementalOrdinalSVC,
    KernelDiscriminantOrdinal,
    LeastSquaresOrdinalClassifier,
    OrdinalGPClassifier,
    OrdinalSVC,
    PreferenceGP,
    SparseBayesOrdinalClassifier,
    datasets,
    metrics,
)
from ordinalgp.imputation import LowRankImputer, MeanImputer
from ordinalgp.kernels import Additive, ARDLinear, Correlation, Exponential, Independent
from ordinalgp.model_selection import ComparisonClassifier, ComparisonKFold
from ordinalgp.tables import TableModel

Numbers = dict[str, Any]
Records = dict[str, np.ndarray]

TOLERANCES = {"value": 1e-10, "search": 1e-6}
RAISED = "raised "

# ------------------------------------------------------------------------------ records


class Recorder:
    """Records of the cases whose ``estimator/case`` matches a pattern."""

    def __init__(self, pattern: str = "*") -> None:
        self.pattern = pattern
        self.records: Records = {}

    def __call__(
        self, kind: str, estimator: str, case: str, compute: Callable[..., Numbers], *given: Any
    ) -> None:
        """Record what ``compute(*given)`` returns, or the exception that it raises."""
        if not fnmatch(f"{estimator}/{case}", self.pattern):
            return
        begin = time.process_time()
        numbers = attempt(compute, *given)
        if isinstance(numbers, str):
            numbers = {"error": numbers}
        for quantity, number in numbers.items():
            last = quantity.split()[-1]
            of_path = last in PATHS or (kind == "search" and last in DRAWN)
            name = f"{'path' if of_path else kind}/{estimator}/{case}/{quantity}"
            if name in self.records:
                raise ValueError(f"Two records have the name {name!r}. Give each its own.")
            self.records[name] = _plain(number)
        took = time.process_time() - begin
        failed = f"  {numbers['error']}" if "error" in numbers else ""
        print(f"{took:7.2f} s  {estimator}/{case}{failed}", file=sys.stderr, flush=True)


def attempt(compute: Callable[..., Any], *given: Any) -> Any:
    """Return what ``compute(*given)`` returns, or the words "raised", type and text."""
    try:
        return compute(*given)
    except Exception as error:
        return f"{RAISED}{type(error).__name__}: {error}"


def _plain(number: Any) -> np.ndarray:
    """An array that is saved without pickling."""
    array = np.asarray(number)
    return array.astype(str) if array.dtype == object else array


def write(path: str, records: Records) -> None:
    """Save the records, and say how many there are."""
    np.savez_compressed(path, **records)
    failed = sum(_has_raised(record) for record in records.values())
    print(f"{len(records)} records in {path}, of them {failed} exceptions")


# ------------------------------------------------------------------------------ comparison


def difference(kind: str, old: np.ndarray, new: np.ndarray) -> float:
    """Largest difference of two arrays on the scale that the kind's tolerance is given for."""
    if _has_raised(old) and _has_raised(new):  # texts may improve, types stay
        return 0.0 if _type_raised(old) == _type_raised(new) else np.inf
    if old.shape != new.shape or old.dtype.kind in "US" or new.dtype.kind in "US":
        return 0.0 if np.array_equal(old, new) else np.inf
    a, b = old.astype(float), new.astype(float)
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return np.inf
    a, b = a[finite], b[finite]
    apart = np.abs(a - b)
    if not np.any(apart > 0):  # also where there are no numbers
        return float(np.max(apart, initial=0.0))
    scale = np.maximum(1.0, np.abs(a)) if kind == "value" else np.max(np.abs(a))
    with np.errstate(divide="ignore"):
        return float(np.max(apart / scale))


def _has_raised(record: np.ndarray) -> bool:
    return record.dtype.kind == "U" and record.ndim == 0 and str(record).startswith(RAISED)


def _type_raised(record: np.ndarray) -> str:
    return str(record).removeprefix(RAISED).split(":")[0]


def identical(old: np.ndarray, new: np.ndarray) -> bool:
    """Whether two arrays agree in every bit."""
    same = old.dtype == new.dtype and old.shape == new.shape
    return same and old.tobytes() == new.tobytes()


def compare(old: Mapping[str, np.ndarray], new: Mapping[str, np.ndarray], bits: bool) -> bool:
    """Print how two recordings differ, and return whether they agree."""
    rows: dict[str, dict[str, Any]] = defaultdict(
        lambda: {"records": 0, "same": 0, "value": 0.0, "search": 0.0}
    )
    beyond = [f"missing in the new file: {name}" for name in sorted(set(old) - set(new))]
    for name in sorted(set(old) & set(new)):
        kind, estimator, _ = name.split("/", 2)
        row, a, b = rows[estimator], old[name], new[name]
        same, apart = identical(a, b), difference(kind, a, b)
        row["records"] += 1
        row["same"] += same
        if kind in TOLERANCES:
            row[kind] = max(row[kind], apart)
        if (bits and not same) or not apart <= TOLERANCES.get(kind, np.inf):
            beyond.append(f"{apart:.1e}  {name}{_shown(a, b)}")
    print(f"{'':30}{'records':>9}{'identical':>11}{'value':>10}{'search':>10}")
    for estimator, row in rows.items():
        print(
            f"{estimator:30}{row['records']:9}{row['same']:11}{row['value']:10.1e}"
            f"{row['search']:10.1e}"
        )
    if more := len(set(new) - set(old)):
        print(f"\n{more} records are in the new file only")
    rule = "not identical" if bits else "beyond tolerance (value 1e-10, search 1e-6)"
    print(f"\n{len(beyond)} records {rule} or missing")
    print(*beyond, sep="\n", end="\n" if beyond else "")
    return not beyond


def _shown(old: np.ndarray, new: np.ndarray) -> str:
    if old.size == new.size == 1:
        return f": {old} became {new}"
    return f": shape {old.shape} became {new.shape}" if old.shape != new.shape else ""


# ------------------------------------------------------------------------------ what is recorded

FITTED = (
    *("categories_", "classes_", "levels_", "items_", "raters_", "converged_"),
    *("thresholds_", "noise_", "slope_", "margins_", "position_bias_", "mean_", "covariance_"),
    *("log_marginal_likelihood_value_", "loo_log_score_", "inducing_points_"),
    *("relevance_", "relevance_vectors_", "weights_", "weights_covariance_", "alpha_"),
    *("support_", "centres_", "coefficients_", "separation_", "components_"),
)
PATHS = (
    *("n_iter_", "n_rounds_", "evidence_path_", "objective_path_", "log_evidence_path_"),
    *("bound_path_", "width_path_", "error_path_"),
)
DRAWN = ("best_proba",)
METHODS = (
    *("predict", "predict_proba", "category_proba", "predict_log_proba"),
    *("latent_mean_and_variance", "latent"),
)
Ask = Callable[[Any], Numbers]


def fitted(model: Any) -> Numbers:
    """Fitted attributes that the model has, and its hyperparameters."""
    numbers = {name: getattr(model, name) for name in FITTED + PATHS if hasattr(model, name)}
    for name, number in numbers.items():
        if isinstance(number, dict):  # of each rater
            numbers[name] = np.stack([np.asarray(own) for own in number.values()])
    for part in ("kernel_", "likelihood_"):
        if hasattr(getattr(model, part, None), "theta"):
            numbers[f"{part}.theta"] = getattr(model, part).theta
    return numbers


def ask_classifier(model: Any, X: Any) -> Numbers:
    """Answers of a classifier at new rows, and at its own with each left out."""
    numbers = {name: attempt(getattr(model, name), X) for name in METHODS if hasattr(model, name)}
    if hasattr(model, "loo_proba"):
        numbers["loo_proba"] = attempt(model.loo_proba)
    return numbers


def with_loaded(model: Any, ask: Ask) -> Numbers:
    """Attributes and answers of a fitted model, and the answers of its saved and loaded copy."""
    numbers = fitted(model) | ask(model)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.ogp")
        copy = ordinalgp.load(Path(folder) / "model.ogp")
    return numbers | {f"loaded {name}": number for name, number in ask(copy).items()}


def classify(model: Any, X: Any, y: Any, new: Any, weights: Any = None) -> Numbers:
    """Numbers of a classifier fitted to the given rows."""
    model = clone(model)
    model.fit(X, y) if weights is None else model.fit(X, y, sample_weight=weights)
    return with_loaded(model, partial(ask_classifier, X=new))


def predict_only(model: Any, X: Any, y: Any, new: Any) -> Numbers:
    """Answers of a classifier without its fitted attributes."""
    return ask_classifier(clone(model).fit(X, y), new)


def at_theta(model: Any, method: str = "log_marginal_likelihood") -> Numbers:
    """Objective and gradient of a fitted model at two given sets of hyperparameters."""
    objective = getattr(model, method)
    n = len(model.kernel_.theta) + len(model.likelihood_.theta)
    n += method == "loo_log_probability"  # the noise of the ranks, besides the likelihood's
    numbers = {}
    for name, theta in {"a": 0.3 * np.cos(np.arange(n)), "b": -0.2 + 0.1 * np.arange(n)}.items():
        value, gradient = objective(theta, eval_gradient=True)
        numbers |= {f"objective {name}": value, f"gradient {name}": gradient}
        numbers[f"objective {name} alone"] = objective(theta)
    return numbers


def fit_at_theta(model: Any, *given: Any, method: str = "log_marginal_likelihood") -> Numbers:
    """Objective of a model at given hyperparameters, after it was fitted."""
    return at_theta(model.fit(*given), method)


# ------------------------------------------------------------------------------ data


def graded_rows(n: int, n_features: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows in four levels; every feature counts, and noise keeps searches from flat corners."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    latent = np.sin(2 * X[:, 0]) + 0.7 * X[:, 1] + 0.5 * np.cos(2 * X[:, -1])
    latent += 0.5 * rng.normal(size=n)
    return X, np.digitize(latent, [-0.8, 0.0, 0.8])


def rating_table(seed: int = 0) -> np.ndarray:
    """Ratings of 40 items by 12 raters with gaps, as a table."""
    made = datasets.make_ratings(12, 40, observed=0.6, random_state=seed)
    table = np.full((40, 12), np.nan)
    table[made.items, made.raters] = made.ratings
    return table


def record_datasets(note: Recorder) -> None:
    """Record the generators, so that other data are told from other models."""
    makers = (
        *(datasets.make_three_ranks, datasets.make_five_ranks_1d),
        *(datasets.make_product_ranks, datasets.make_sine_comparisons),
    )
    for make in makers:
        note("value", "datasets", make.__name__, lambda make=make: _parts(make(random_state=3)))
    note("value", "datasets", "make_ratings", lambda: vars(datasets.make_ratings(random_state=3)))
    demo = datasets.load_demo()
    note("value", "datasets", "load_demo", lambda: {"X": demo.X, "y": demo.y})


def _parts(arrays: tuple[np.ndarray, ...]) -> Numbers:
    return {str(i): array for i, array in enumerate(arrays)}


# ------------------------------------------------------------------------------ OrdinalGPClassifier

GP = "OrdinalGPClassifier"
EXACT = {"tol": 1e-10, "max_sweeps": 300}  # values must not depend on where inference began


def kernels() -> dict[str, Any]:
    """Kernels for three features."""
    return {
        "default": None,
        "RBF ARD": RBF([1.0, 2.0, 1.5]),
        "ARDLinear": ARDLinear([0.5, 1.0, 0.2]) + ConstantKernel(0.5),
        "Additive": Additive(1.2),
        "Exponential": Exponential(4.0),
        "Matern": Matern(1.5, nu=1.5),
        "Matern ARD": Matern([1.5, 1.0, 2.0], nu=2.5),
        "sum": RBF(1.0) + ARDLinear(0.5),
        "product": RBF(1.5) * Exponential(6.0),
        "scaled": ConstantKernel(2.0) * RBF(1.5),
        "scaled sum": ConstantKernel(1.5) * RBF(1.0) + ConstantKernel(0.5) * Additive(2.0, size=3),
        "white": RBF(1.0) + WhiteKernel(0.1),
        "independent": RBF(1.0) + ConstantKernel(0.3) * Independent(),
    }


MISSING = [-1, 0, 1, 1.5, 2, 3, 9]
METHODS_OF_INFERENCE: dict[str, dict[str, str]] = {
    "EP": {},
    "Laplace": {"inference": "laplace"},
    "bound": {"objective": "bound"},
}


def record_gp(note: Recorder) -> None:
    """Record exact models: every kernel and inference, at the start and after a search."""
    X, y = graded_rows(80)
    new, _ = graded_rows(15, seed=1)
    for (name, kernel), (how, options) in itertools.product(
        kernels().items(), METHODS_OF_INFERENCE.items()
    ):
        still = partial(OrdinalGPClassifier, kernel, optimizer=None, **EXACT, **options)
        case = f"exact, {how}, {name}"
        note("value", GP, f"{case}, no search", classify, still(), X, y, new)
        note("value", GP, f"{case}, theta, no search", fit_at_theta, still(), X, y)
        if how != "bound" or name in ("default", "RBF ARD"):
            moving = partial(OrdinalGPClassifier, kernel, **options)
            note("search", GP, case, classify, moving(), X, y, new)
            note("value", GP, f"{case}, theta", fit_at_theta, moving(**EXACT), X, y)
    record_gp_options(note)
    record_gp_labels(note)
    record_gp_inducing(note)


def record_gp_options(note: Recorder) -> None:
    """Record weights, repeated rows, restarts, gaps and decisions."""
    X, y = graded_rows(70, 2)
    new, _ = graded_rows(15, 2, seed=1)
    counts = np.random.default_rng(2).integers(0, 4, size=len(X))
    costs = np.abs(np.subtract.outer(np.arange(4), np.arange(4))) ** 2.0
    ratings, levels = rating_table(), np.digitize(np.nanmean(rating_table(), axis=1), [2.5, 3.2])
    for how, options in METHODS_OF_INFERENCE.items():
        still = partial(OrdinalGPClassifier, optimizer=None, **EXACT, **options)
        moving = partial(OrdinalGPClassifier, **options)
        for kind, build in {"value": still, "search": moving}.items():
            case = f"{how}, {kind}"
            note(kind, GP, f"weights, {case}", classify, build(), X, y, new, counts)
            note(kind, GP, f"fractions, {case}", classify, build(), X, y, new, 0.5 + counts / 3)
            note(kind, GP, f"repeated rows, {case}", classify, build(), X.round(), y, new.round())
            copies = np.repeat(X, counts, axis=0), np.repeat(y, counts)
            note(kind, GP, f"copies, {case}", classify, build(), *copies, new)
            given = build(kernel=Correlation())
            note(
                kind, GP, f"gaps, {case}", classify, given, ratings[:30], levels[:30], ratings[30:]
            )
        again = moving(n_restarts_optimizer=2, random_state=0)
        note("search", GP, f"restarts, {how}", classify, again, X, y, new)
    for decision in ("mode", "median", "mean", costs):
        name = decision if isinstance(decision, str) else "costs"
        decided = OrdinalGPClassifier(decision=decision)
        note("search", GP, f"decision, {name}", classify, decided, X, y, new)


def record_gp_labels(note: Recorder) -> None:
    """Record labels of all sorts: words, ordered categoricals, levels that are missing."""
    import pandas as pd

    X, y = graded_rows(70, 2)
    new, _ = graded_rows(15, 2, seed=1)
    words = ["none", "low", "mid", "high"]
    named = np.array(words)[y]
    kinds: dict[str, tuple[Any, Any]] = {
        "words": (words, named),
        "categorical": (None, pd.Series(pd.Categorical(named, words, ordered=True))),
        "missing levels": (MISSING, y),
        "booleans": (None, y > 1),
        "one row of a level": (None, np.where(np.arange(len(y)) == 7, 4, y)),
        "strings without order": (None, named),
    }
    for (name, (categories, labels)), (how, options) in itertools.product(
        kinds.items(), METHODS_OF_INFERENCE.items()
    ):
        still = OrdinalGPClassifier(categories=categories, optimizer=None, **EXACT, **options)
        note("value", GP, f"{name}, {how}, no search", classify, still, X, labels, new)
        moving = OrdinalGPClassifier(categories=categories, **options)
        # The evidence is flat in the borders of a missing level, so that rounding moves the search.
        kind, compute = ("path", predict_only) if categories is MISSING else ("search", classify)
        note(kind, GP, f"{name}, {how}", compute, moving, X, labels, new)
    line, ranks = datasets.make_five_ranks_1d(random_state=0)
    still = OrdinalGPClassifier(RBF(3.0), optimizer=None, **EXACT)
    note("value", GP, "uneven levels", classify, still, line, ranks, line + 0.5)
    plane, ranks = datasets.make_three_ranks(80, noise=0.4, random_state=0)
    note("search", GP, "three ranks", classify, OrdinalGPClassifier(), plane, ranks, plane + 0.1)


def chunks(X: np.ndarray, y: np.ndarray, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows in chunks of a size."""
    for begin in range(0, len(X), size):
        yield X[begin : begin + size], y[begin : begin + size]


POINTS = np.array(list(itertools.product(np.linspace(-2, 2, 5), repeat=2)))


def record_gp_inducing(note: Recorder) -> None:
    """Record inducing points, and rows that come in chunks."""
    X, y = graded_rows(700, 2)
    new, _ = graded_rows(20, 2, seed=1)
    count = np.random.default_rng(2).integers(0, 3, size=len(X))
    seeded = partial(OrdinalGPClassifier, random_state=0)
    for how in ("EP", "Laplace"):
        build = partial(seeded, **METHODS_OF_INFERENCE[how])
        for name, inducing in {"number": 25, "array": POINTS}.items():
            still = partial(build, inducing=inducing, optimizer=None)
            note("value", GP, f"inducing {name}, {how}, no search", classify, still(), X, y, new)
            theta = still(**EXACT)
            note(
                "value", GP, f"inducing {name}, {how}, theta, no search", fit_at_theta, theta, X, y
            )
            found = build(inducing=inducing)
            note("search", GP, f"inducing {name}, {how}", classify, found, X, y, new)
            theta = build(inducing=POINTS, **EXACT)
            if name == "array":
                note("value", GP, f"inducing {name}, {how}, theta", fit_at_theta, theta, X, y)
        ard = build(RBF([1.0, 1.0]), inducing=25)
        note("search", GP, f"inducing, {how}, RBF ARD", classify, ard, X, y, new)
        weighed = build(inducing=25)
        note("search", GP, f"inducing, {how}, weights", classify, weighed, X, y, new, count)
        note("search", GP, f"partial_fit, {how}", grow, build(inducing=25), X, y, new)
        record_gp_chunks(note, how, build(inducing=25), X, y, new)
    many, grades = graded_rows(2600, 2)
    for how in ("EP", "Laplace"):
        large = seeded(**METHODS_OF_INFERENCE[how])
        note("search", GP, f"auto, 2,600 rows, {how}", classify, large, many, grades, new)


def record_gp_chunks(
    note: Recorder, how: str, model: Any, X: np.ndarray, y: np.ndarray, new: np.ndarray
) -> None:
    """Record the same rows as chunks, as functions that read a chunk, from dask and from a file."""
    import dask
    import dask.array as da

    pieces = partial(chunks, X, y, 150)
    note("search", GP, f"chunks, {how}", classify, model, pieces, None, new)
    readers = [partial(tuple, piece) for piece in chunks(X, y, 150)]
    note("search", GP, f"chunk readers, {how}", classify, model, lambda: iter(readers), None, new)
    blocks = da.from_array(X, chunks=(150, 2)), da.from_array(y, chunks=150)
    with dask.config.set(scheduler="synchronous"):
        note("search", GP, f"dask, {how}", classify, model, *blocks, new)
    note("search", GP, f"memory map, {how}", map_to_file, model, X, y, new)
    note("search", GP, f"checkpoint, {how}", interrupt, model, new)


def grow(model: Any, X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Numbers:
    """Numbers of a model that takes in its rows in three parts."""
    model = clone(model).partial_fit(X[:300], y[:300], classes=np.unique(y))
    model.partial_fit(X[300:500], y[300:500])
    middle = {f"middle {name}": number for name, number in ask_classifier(model, new).items()}
    model.partial_fit(X[500:], y[500:])
    return middle | with_loaded(model, partial(ask_classifier, X=new))


def map_to_file(model: Any, X: np.ndarray, y: np.ndarray, new: np.ndarray) -> Numbers:
    """Numbers of a model whose rows lie in a file, as single precision."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "X.npy", X.astype(np.float32))
        return classify(model, np.load(Path(folder) / "X.npy", mmap_mode="r"), y, new)


def interrupt(model: Any, new: np.ndarray) -> Numbers:
    """Numbers of a fit that was interrupted in a pass and went on from its checkpoint.

    Fewer than 100,000 rows would be read once and stay in memory.
    """
    X, y = graded_rows(105_000, 2)
    calls = itertools.count(1)

    def failing() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        rows = chunks(X, y, 15_000)
        if next(calls) == 7:
            yield next(rows)
            raise InterruptedError
        yield from rows

    with tempfile.TemporaryDirectory() as folder:
        model = clone(model).set_params(checkpoint=str(Path(folder) / "notes"))
        first = attempt(model.fit, failing, None)
        noted = len(list(Path(folder).rglob("*"))) > 0
        numbers = classify(model, partial(chunks, X, y, 15_000), None, new)
    return {"interrupted": first, "noted": noted} | numbers


# ------------------------------------------------------------------------------ other classifiers


def record_least_squares(note: Recorder) -> None:
    """Record ``LeastSquaresOrdinalClassifier``."""
    name, build = "LeastSquaresOrdinalClassifier", LeastSquaresOrdinalClassifier
    X, y = graded_rows(80)
    new, _ = graded_rows(15, seed=1)
    score = partial(fit_at_theta, method="loo_log_probability")
    for kind, kernel in kernels().items():
        note(
            "value", name, f"{kind}, no search", classify, build(kernel, optimizer=None), X, y, new
        )
        note("value", name, f"{kind}, theta, no search", score, build(kernel, optimizer=None), X, y)
        if kind in ("sum", "white", "independent"):  # the search ends where its objective is flat
            continue
        seeded = build(kernel, random_state=0)
        note("search", name, kind, classify, seeded, X, y, new)
        note("value", name, f"{kind}, theta", score, seeded, X, y)
    missing = build(optimizer=None, categories=MISSING)
    note("value", name, "missing levels", classify, missing, X, y, new)
    counts = np.random.default_rng(2).integers(0, 4, size=len(X))
    for kind, optimizer in {"value": None, "search": "fmin_l_bfgs_b"}.items():
        make = partial(build, optimizer=optimizer, random_state=0)
        note(kind, name, f"weights, {kind}", classify, make(), X, y, new, counts)
        note(kind, name, f"repeated rows, {kind}", classify, make(), X.round(), y, new.round())
        median = make(decision="median")
        note(kind, name, f"median, {kind}", classify, median, X, y, new)
        ratings = rating_table()
        grades = np.digitize(np.nanmean(ratings, axis=1), [2.5, 3.2])
        gaps = make(Correlation())
        note(kind, name, f"gaps, {kind}", classify, gaps, ratings[:30], grades[:30], ratings[30:])


def record_sparse(note: Recorder) -> None:
    """Record ``SparseBayesOrdinalClassifier``."""
    name = "SparseBayesOrdinalClassifier"
    build = partial(SparseBayesOrdinalClassifier, random_state=0)
    X, y = datasets.make_product_ranks(700, noise=20.0, random_state=0)
    X = (X - 5) / 3
    new = X[-20:] + 0.1
    few = slice(0, 150)
    weights = np.random.default_rng(2).integers(0, 3, size=150)
    cases = {
        "incremental, RBF": build(RBF(0.8)),
        "incremental, Matern": build(Matern(1.0, nu=1.5)),
        "incremental, default": build(),
        "incremental, exponential": build("exponential"),
        "incremental, auto": build("auto"),
        "incremental, max_basis": build(RBF(0.8), max_basis=6),
        "incremental, candidates": build(RBF(0.8), candidates=40),
        "incremental, in blocks": build(RBF(0.8), memory_limit="100KB"),
        "incremental, median": build(RBF(0.8), decision="median", categories=list(range(7))),
        "batch, RBF": build(RBF(0.8), training="batch"),
        "batch, default": build(training="batch"),
    }
    for case, model in cases.items():
        note("search", name, case, classify, model, X[few], y[few], new)
    note("search", name, "weights", classify, build(), X[few], y[few], new, weights)
    for kind, kernel in {"default": None, "RBF": RBF(0.8), "auto": "auto"}.items():
        note("search", name, f"partial_fit, {kind}", grow, build(kernel), X, y, new)


def record_support_vectors(note: Recorder) -> None:
    """Record ``OrdinalSVC`` and ``IncrementalOrdinalSVC``."""
    X, y = graded_rows(700, 2)
    few = slice(0, 120)
    new, _ = graded_rows(20, 2, seed=1)
    weights = np.random.default_rng(2).integers(0, 3, size=120)
    for constraints in ("implicit", "explicit", "fixed_margin"):
        for kind, kernel in {"default": None, "Exponential": Exponential(3.0)}.items():
            model = OrdinalSVC(kernel, constraints=constraints, C=2.0)
            case = f"{constraints}, {kind}"
            note("search", "OrdinalSVC", case, classify, model, X[few], y[few], new)
        model = OrdinalSVC(constraints=constraints, rank=30)
        case = f"{constraints}, weights and rank"
        note("search", "OrdinalSVC", case, classify, model, X[few], y[few], new, weights)
        name = "IncrementalOrdinalSVC"
        model = IncrementalOrdinalSVC(constraints=constraints, chunk_size=100, random_state=0)
        note("search", name, constraints, classify, model, X[:400], y[:400], new)
        note("search", name, f"{constraints}, partial_fit", grow, model, X, y, new)


def record_discriminant(note: Recorder) -> None:
    """Record ``KernelDiscriminantOrdinal``."""
    name = "KernelDiscriminantOrdinal"
    X, y = graded_rows(120, 2)
    new, _ = graded_rows(20, 2, seed=1)
    weights = np.random.default_rng(2).integers(0, 3, size=120)
    cases = {
        "default": KernelDiscriminantOrdinal(),
        "RBF": KernelDiscriminantOrdinal(RBF(0.7), regularization=0.1),
        "Exponential": KernelDiscriminantOrdinal(Exponential(3.0)),
        "rank": KernelDiscriminantOrdinal(RBF(0.7), rank=30),
    }
    for case, model in cases.items():
        note("search", name, case, classify, model, X, y, new)
    note("search", name, "weights", classify, cases["RBF"], X, y, new, weights)


# ------------------------------------------------------------------------------ comparisons

PREFERENCE = "PreferenceGP"


def ask_preference(model: Any, X: Any, left: Any, right: Any) -> Numbers:
    """Utilities, probabilities of comparisons, the ranking and the next questions."""
    ranking = model.rank(X)
    fields = ("order", "items", "mean", "sd", "best_proba")
    return {
        "predict": model.predict(X),
        "latent_mean_and_variance": model.latent_mean_and_variance(X),
        "comparison_proba": model.comparison_proba(left, right),
        **{f"rank {field}": getattr(ranking, field) for field in fields},
        **{f"pairs by {how}": model.suggest_pairs(X, 4, strategy=how) for how in STRATEGIES},
    }


STRATEGIES = ("information", "prediction")


def prefer(model: Any, X: Any, *observed: Any, method: str = "fit") -> Numbers:
    """Numbers of a preference model."""
    getattr(model, method)(X, *observed)
    items = np.arange(X) if isinstance(X, int) else np.asarray(X)
    left, right = (items[:-1], items[1:]) if items.ndim > 1 else (items[:3], items[3:6])
    return with_loaded(model, partial(ask_preference, X=items, left=left, right=right))


def prefer_at_theta(model: Any, *given: Any, method: str = "fit") -> Numbers:
    """Evidence of a preference model at given hyperparameters."""
    return at_theta(getattr(model, method)(*given))


def record_preference(note: Recorder) -> None:
    """Record ``PreferenceGP``: wins, ties, grades, position bias, relations, items by name."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    pairs = rng.integers(0, 20, size=(90, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    utility = np.sin(X[:, 0]) + 0.5 * X[:, 1]
    gain = utility[pairs[:, 0]] - utility[pairs[:, 1]] + 0.3 * rng.normal(size=len(pairs))
    wins = np.where(gain > 0, 1, -1)
    ties = np.where(np.abs(gain) < 0.3, 0, wins)
    grades = np.array(["much worse", "worse", "same", "better", "much better"])
    graded = grades[np.digitize(gain, [-1.0, -0.3, 0.3, 1.0])]
    even = np.digitize(gain, [-0.8, 0.0, 0.8])
    weights = rng.integers(0, 3, size=len(pairs))
    names = [f"item {i}" for i in range(20)]
    named = np.array(names)[pairs]
    home = np.where(gain + 0.5 > 0, 1, -1)
    # kernel, options, items and what was observed
    cases: dict[str, tuple[Any, dict[str, Any], Any, tuple[Any, ...]]] = {
        "wins, default": (None, {}, X, (pairs, wins)),
        "wins, left first": (None, {}, X, (np.where(wins[:, None] > 0, pairs, pairs[:, ::-1]),)),
        "wins, RBF ARD": (RBF([1.0, 2.0]), {}, X, (pairs, wins)),
        "wins, scaled": (ConstantKernel(2.0) * RBF(1.5), {}, X, (pairs, wins)),
        "wins, own values": (RBF(1.5) + ConstantKernel(0.3) * Independent(), {}, X, (pairs, wins)),
        "wins, by number": ("independent", {}, 20, (pairs, wins)),
        "wins, by name": ("independent", {}, names, (named, wins)),
        "wins, weights": (RBF(1.5), {}, X, (pairs, wins, weights)),
        "wins, fixed noise": (RBF(1.5), {"noise": 0.5}, X, (pairs, wins)),
        "ties, RBF": (RBF(1.5), {}, X, (pairs, ties)),
        "ties, by number": ("independent", {}, 20, (pairs, ties)),
        "grades, odd": (RBF(1.5), {"levels": list(grades)}, X, (pairs, graded)),
        "grades, even": (RBF(1.5), {"levels": [0, 1, 2, 3]}, X, (pairs, even)),
        "home, RBF": (RBF(1.5), {"position_bias": "learned"}, X, (pairs, home)),
        "home, ties, by name": (
            *("independent", {"position_bias": "learned"}, names),
            (named, np.where(np.abs(gain) < 0.3, 0, home)),
        ),
    }
    for (case, (kernel, options, items, observed)), inference in itertools.product(
        cases.items(), ("ep", "laplace")
    ):
        build = partial(PreferenceGP, kernel, inference=inference, random_state=0, **options)
        still = partial(build, optimizer=None, **EXACT)
        where = f"{case}, {inference}"
        note("value", PREFERENCE, f"{where}, no search", prefer, still(), items, *observed)
        note("value", PREFERENCE, f"{where}, theta", prefer_at_theta, still(), items, *observed)
        note("search", PREFERENCE, where, prefer, build(), items, *observed)
        searched = build(**EXACT)
        case = f"{where}, theta after a search"
        note("value", PREFERENCE, case, prefer_at_theta, searched, items, *observed)
    restarts = PreferenceGP(RBF(1.5), n_restarts_optimizer=2, random_state=0)
    note("search", PREFERENCE, "restarts", prefer, restarts, X, pairs, wins)
    line, sines = datasets.make_sine_comparisons(60, n_items=30, random_state=0)
    note("search", PREFERENCE, "sine", prefer, PreferenceGP(RBF(1.0), random_state=0), line, sines)
    record_relations(note, X, utility, rng)


def record_relations(note: Recorder, X: np.ndarray, utility: np.ndarray, rng: Any) -> None:
    """Record relations between up to three items."""
    A = np.zeros((70, len(X)))
    for row in A:
        row[rng.choice(len(X), 3, replace=False)] = rng.choice([[1, -2, 1], [1, -1, 0]])
    seen = A @ utility + 0.3 * rng.normal(size=len(A))
    relations = sparse.csr_array(A)
    outcomes = {"wins": np.sign(seen).astype(int), "ties": np.fix(seen / 0.5).clip(-1, 1)}
    for (name, y), inference in itertools.product(outcomes.items(), ("ep", "laplace")):
        build = partial(PreferenceGP, RBF(1.5), inference=inference, random_state=0)
        compute = partial(prefer, method="fit_relations")
        still = build(optimizer=None, **EXACT)
        case = f"relations, {name}, {inference}"
        note("value", PREFERENCE, f"{case}, no search", compute, still, X, relations, y)
        note("search", PREFERENCE, case, compute, build(), X, relations, y)
        compute = partial(prefer_at_theta, method="fit_relations")
        note("value", PREFERENCE, f"{case}, theta", compute, still, X, relations, y)


# ------------------------------------------------------------------------------ raters


def ask_raters(model: Any, raters: Any, items: Any, rater: Any, features: Any = None) -> Numbers:
    """Answers of a model of many raters, before and after another rater joins."""
    asked = (raters, items) if features is None else (raters, items, features)
    names = ("predict", "predict_proba", "category_proba", "latent_mean_and_variance")
    return {
        **{name: getattr(model, name)(*asked) for name in names},
        "recommend": model.recommend(rater, n=5),
    }


def rate(model: Any, fit: tuple[Any, ...], raters: Any, items: Any, join: Any) -> Numbers:
    """Numbers of a model of many raters."""
    model.fit(*fit)
    numbers = with_loaded(model, partial(ask_raters, raters=raters, items=items, rater=raters[0]))
    added = model.add_rater(*join, rater="newcomer")
    ask = partial(ask_raters, raters=[added] * len(items), items=items, rater=added)
    answers = with_loaded(model, ask) | {"thresholds": model.thresholds_[added]}
    return numbers | {f"newcomer {name}": number for name, number in answers.items()}


def rate_new_items(model: Any, fit: tuple[Any, ...], features: np.ndarray) -> Numbers:
    """Predictions for items that were not there at fit, by their features."""
    model.fit(*fit)
    items = [100 + i for i in range(len(features))]
    known = dict(zip(items, features, strict=True))
    ask = partial(ask_raters, raters=[0] * len(items), items=items, rater=0, features=known)
    return with_loaded(model, ask)


def record_collaborative(note: Recorder) -> None:
    """Record ``CollaborativeOrdinalGP``."""
    name = "CollaborativeOrdinalGP"
    made = datasets.make_ratings(12, 18, n_levels=4, observed=0.6, random_state=0)
    rated = made.raters, made.items, made.ratings
    K = RBF(1.5)(made.item_features) + 0.1 * np.eye(18)
    starts: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "correlation": ("correlation", rated),
        "features": (RBF(1.5), (*rated, made.item_features)),
        "matrix": (K, rated),
    }
    raters, items = np.repeat([0, 1, 2], 5), np.tile([0, 3, 7, 11, 17], 3)
    join = [1, 4, 9], [2, 4, 1]
    for (start, (kernel, fit)), likelihood, prior in itertools.product(
        starts.items(), ("ordinal", "gaussian"), ("learned", "fixed")
    ):
        model = CollaborativeOrdinalGP(kernel, likelihood=likelihood, prior=prior)
        note(
            "search", name, f"{start}, {likelihood}, {prior}", rate, model, fit, raters, items, join
        )
        if start == "features":
            new = made.item_features[:4] + 0.2
            note(
                "search", name, f"new items, {likelihood}, {prior}", rate_new_items, model, fit, new
            )
    words = np.array(["bad", "fair", "good", "great"])
    model = CollaborativeOrdinalGP(categories=words, decision="median", max_iter=5, tol=1e-8)
    fit = (made.raters, made.items, words[made.ratings - 1])
    note("search", name, "words", rate, model, fit, raters, items, (join[0], words[[1, 3, 0]]))
    smooth = CollaborativeOrdinalGP(
        covariance_smoothing=20.0, mean_smoothing=2.0, rater_smoothing=1
    )
    note("search", name, "smoothing", rate, smooth, rated, raters, items, join)


# ------------------------------------------------------------------------------ around the models


def record_imputation(note: Recorder) -> None:
    """Record the imputers."""
    table = rating_table()
    imputers = {
        "mean by item": ("value", MeanImputer()),
        "mean by rater": ("value", MeanImputer(by="rater")),
        "low rank": ("search", LowRankImputer(rank=2)),
        "low rank 1": ("search", LowRankImputer(rank=1, tol=1e-9)),
    }
    for case, (kind, imputer) in imputers.items():
        note(kind, "imputation", case, impute, imputer, table)


def impute(imputer: Any, table: np.ndarray) -> Numbers:
    """Tables without gaps: the one that was learned from, and rows of it with more gaps."""
    more = np.where(np.arange(table.shape[1]) == 2, np.nan, table[:6])
    filled = imputer.fit_transform(table)
    return fitted(imputer) | {"filled": filled, "more": imputer.transform(more)}


def write_table(path: Path, n: int, seed: int) -> None:
    """Write a CSV file with numbers, words, gaps and named levels."""
    X, y = graded_rows(n, 2, seed)
    rng = np.random.default_rng(seed)
    colours = rng.choice(["red", "green", "blue", ""], size=n)
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["length", "weight", "colour", "grade"])
        for (length, weight), colour, level in zip(X, colours, y, strict=True):
            shown = "" if rng.uniform() < 0.1 else f"{weight:.4f}"
            lines.writerow([f"{length:.4f}", shown, colour, ("d", "c", "b", "a")[level]])


def record_tables(note: Recorder) -> None:
    """Record ``TableModel`` in Python, and the command line that fits and uses it."""
    order = ["d", "c", "b", "a"]
    classifiers = {
        "default": OrdinalGPClassifier(categories=order),
        "Laplace": OrdinalGPClassifier(categories=order, inference="laplace"),
        "least squares": LeastSquaresOrdinalClassifier(categories=order, random_state=0),
        "sparse": SparseBayesOrdinalClassifier(categories=order, random_state=0),
    }
    for name, classifier in classifiers.items():
        note("search", "TableModel", name, fit_table, TableModel(classifier))
    for kernel in ("rbf", "ard", "linear", "exponential"):
        still = OrdinalGPClassifier(categories=order, optimizer=None, **EXACT)
        model = TableModel(still, kernel=kernel, target="grade")
        note("value", "TableModel", f"{kernel}, no search", fit_table, model)
    note("search", "TableModel", "command line", run_commands, ",".join(order))


def fit_table(model: Any) -> Numbers:
    """Numbers of a model that was fitted to a CSV file."""
    import pandas as pd

    with tempfile.TemporaryDirectory() as folder:
        for name, n, seed in (("train", 70, 0), ("new", 15, 1)):
            write_table(Path(folder) / f"{name}.csv", n, seed)
        train, new = (pd.read_csv(Path(folder) / f"{name}.csv") for name in ("train", "new"))
    model.fit(train.drop(columns="grade"), train["grade"])
    names = ("predict", "category_proba", "latent_mean_and_variance", "encode")
    ask: Ask = lambda model: {name: getattr(model, name)(new) for name in names}  # noqa: E731
    own = ("loo_proba_", "level_counts_", "latent_mean_", "latent_variance_", "spread_")
    return {name: getattr(model, name) for name in own} | with_loaded(model, ask)


def run_commands(order: str) -> Numbers:
    """Predictions of ``ordinalgp fit`` and ``ordinalgp predict``, and what ``evaluate`` prints."""
    import pandas as pd

    with tempfile.TemporaryDirectory() as folder:
        write_table(Path(folder) / "train.csv", 70, 0)
        write_table(Path(folder) / "new.csv", 15, 1)

        def run(*words: str) -> str:
            command = [sys.executable, "-m", "ordinalgp", *words]
            here = os.environ | {"PYTHONPATH": str(Path(ordinalgp.__file__).parents[1])}
            done = subprocess.run(command, cwd=folder, env=here, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
            return done.stdout

        options = ("--target", "grade", "--categories", order)
        run("fit", "train.csv", *options, "-o", "model.ogp")
        run("predict", "model.ogp", "new.csv", "-o", "out.csv")
        scores = json.loads(run("evaluate", "model.ogp", "new.csv", "--json"))
        out = pd.read_csv(Path(folder) / "out.csv")
        model = ordinalgp.load(Path(folder) / "model.ogp")
        new = pd.read_csv(Path(folder) / "new.csv")
    numbers = {f"column {name}": out[name].to_numpy() for name in out.columns}
    numbers["category_proba"] = model.category_proba(new)
    own = scores["scores"]["model"]
    return numbers | {f"score {name}": own[name] for name in sorted(own)}


def record_metrics(note: Recorder) -> None:
    """Record the metrics, and the cross-validation of comparisons."""
    rng = np.random.default_rng(0)
    truth, guess = rng.integers(0, 4, size=(2, 80))
    proba, weights = rng.dirichlet(np.ones(4), size=80), rng.uniform(size=80)
    options = {"categories": range(4), "sample_weight": weights}
    for metric in (
        *(metrics.zero_one_error, metrics.mean_absolute_error, metrics.weighted_kappa),
        *(metrics.macro_mean_absolute_error,),
    ):
        note("value", "metrics", metric.__name__, _score, metric, truth, guess, options)
    for metric in (metrics.log_score, metrics.ranked_probability_score):
        note("value", "metrics", metric.__name__, _score, metric, truth, proba, options)
    items, pairs = datasets.make_sine_comparisons(60, random_state=0)
    outcomes = np.tile([1, 1, 1, -1], 15)  # a quarter of them wrong
    model = ComparisonClassifier(PreferenceGP(RBF(1.0)), items)
    scorer = metrics.make_ordinal_scorer("log_score")
    check = partial(cross_val_score, scoring=scorer, cv=ComparisonKFold(3, random_state=0))
    note("search", "model_selection", "folds", lambda: {"scores": check(model, pairs, outcomes)})


def _score(metric: Callable[..., float], truth: Any, guess: Any, options: Numbers) -> Numbers:
    return {"plain": metric(truth, guess), "weighted": metric(truth, guess, **options)}


ESTIMATORS = (
    *(record_datasets, record_gp, record_least_squares, record_sparse, record_support_vectors),
    *(record_discriminant, record_preference, record_collaborative, record_imputation),
    *(record_tables, record_metrics),
)


def record(pattern: str) -> Records:
    """Records of every estimator."""
    note = Recorder(pattern)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for estimator in ESTIMATORS:
            estimator(note)
    return note.records


# ------------------------------------------------------------------------------ predictions

NINE = (
    *("diabetes", "pyrimidines", "triazines", "wisconsin", "machine_cpu"),
    *("auto_mpg", "boston_housing", "stocks", "abalone"),
)


def read_columns(path: Path) -> dict[str, np.ndarray]:
    """Columns of a CSV file, as words."""
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    return dict(zip(header, np.array(rows).T, strict=True))


def read_inputs(path: Path) -> np.ndarray:
    """Features of a set: numbers as they are, and a 0/1 column for each word."""
    columns = read_columns(path)
    del columns["target"]
    inputs = []
    for column in columns.values():
        try:
            inputs.append(column.astype(float))
        except ValueError:
            inputs.extend((column == word).astype(float) for word in np.unique(column))
    return np.column_stack(inputs)


def predict_cell(home: Path, name: str, bins: int, split: int, inference: str) -> Recorder:
    """Fit a model to a published partition, and record what it predicts for the other rows."""
    X = read_inputs(home / f"{name}.csv")
    y = read_columns(home / "partitions" / f"{name}_labels.csv")[f"label_{bins}"].astype(int)
    splits = read_columns(home / "partitions" / f"{name}_splits_{bins}bins.csv")
    train = splits[f"split_{split}"] == "1"
    spread = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    model = OrdinalGPClassifier(inference=inference, categories=list(range(1, bins + 1)))
    note = Recorder()
    case = f"{name}, {bins} bins, split {split}"
    note("search", inference, case, lambda: predictions(model.fit(X[train], y[train]), X[~train]))
    return note


def predictions(model: Any, X: np.ndarray) -> Numbers:
    """Labels, probabilities and evidence of a fitted classifier."""
    return {
        "predict": model.predict(X),
        "category_proba": model.category_proba(X),
        "evidence": model.log_marginal_likelihood_value_,
    }


def record_predictions(home: Path, n_splits: int, n_jobs: int) -> Records:
    """Records of the first published partitions of the nine sets, by EP and by Laplace."""
    cells = itertools.product(NINE, (5, 10), range(1, n_splits + 1), ("ep", "laplace"))
    notes = joblib.Parallel(n_jobs)(joblib.delayed(predict_cell)(home, *cell) for cell in cells)
    return {name: record for note in notes for name, record in note.records.items()}


# ------------------------------------------------------------------------------ command line


def main() -> int:
    """Run the subcommand that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="record every estimator on generated data")
    recording.add_argument("file")
    recording.add_argument("--only", default="*", metavar="PATTERN", help="estimator/case")
    published = commands.add_parser("predictions", help="record the nine sets' partitions")
    published.add_argument("data_home", type=Path)
    published.add_argument("file")
    published.add_argument("--splits", type=int, default=3, help="partitions of each set")
    published.add_argument("--jobs", type=int, default=1)
    comparing = commands.add_parser("compare", help="compare two files of records")
    comparing.add_argument("old")
    comparing.add_argument("new")
    comparing.add_argument("--bits", action="store_true", help="ask for identical bits")
    asked = parser.parse_args()
    if asked.command == "compare":
        with np.load(asked.old) as old, np.load(asked.new) as new:
            return 0 if compare(dict(old), dict(new), asked.bits) else 1
    begin = time.perf_counter()
    print(f"ordinalgp of {Path(ordinalgp.__file__).parent}", file=sys.stderr)
    if asked.command == "record":
        records = record(asked.only)
    else:
        records = record_predictions(asked.data_home, asked.splits, asked.jobs)
    write(asked.file, records)
    print(f"{time.perf_counter() - begin:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
