"""Grids of fits: cells, partitions, scores, and a results file that a stopped run resumes from.

The file has one JSON object per line, appended and flushed to the disk as soon as its cell is
finished; ``pandas.read_json(path, lines=True)`` reads it. A failed fit is a result too: its message
is kept, and ``failed="again"`` computes it again. Where a cell has several lines the last counts.
"""

import hashlib
import json
import math
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, Protocol, TextIO

import joblib
import numpy as np
from joblib import Parallel, delayed, parallel_config
from scipy.linalg import lapack
from sklearn.model_selection import train_test_split

import ordinalgp
from ordinalgp import metrics
from ordinalgp.decisions import decide
from papers.data import (
    BenchmarkData,
    BoolArray,
    DataUnavailableError,
    FloatArray,
    Home,
    IntArray,
    fetch_benchmark,
    standardise,
)
from papers.models import MODELS, Model, find_models

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

Record = dict[str, Any]
_LOCKED_BYTE = 2**30

# The sets of Tables 2 and 3 of Chu and Ghahramani (2005), in the order of their tables, which is
# also the order of size, with the number of training rows.
TRAINING_ROWS = {
    "diabetes": 30,
    "pyrimidines": 50,
    "triazines": 100,
    "wisconsin": 130,
    "machine_cpu": 150,
    "auto_mpg": 200,
    "boston_housing": 300,
    "stocks": 600,
    "abalone": 1000,
}
DATASETS = tuple(TRAINING_ROWS)


class Cell(NamedTuple):
    """One fit of a grid."""

    dataset: str
    bins: int
    """levels that the target is cut into; 0 for a target that has its own levels"""
    split: int
    """from 1"""
    model: str
    size: int = 0
    """what is trained on (rows, pairs, movies) in experiments that vary it; else 0"""

    @property
    def seed(self) -> int:
        """A number below 2^32 that depends on this cell alone, on every machine."""
        named = repr(tuple(self) if self.size else tuple(self)[:4])
        return int.from_bytes(hashlib.sha256(named.encode()).digest()[:4], "big")

    @property
    def shared_seed(self) -> int:
        """The same number for every model: a seed for rows that all of them get."""
        return Cell(self.dataset, self.bins, self.split, "").seed


class Compute(Protocol):
    """From a cell, and the folder of the data if it is given, to what is recorded."""

    def __call__(self, cell: Cell, data_home: Home = None) -> Record:
        """Compute one cell."""


@dataclass(frozen=True)
class Experiment:
    """One command: a grid of cells, a function that computes one, and one that shows them.

    To add a table: write its page (a function from records and the experiment to parts of a page),
    put the paper's figures into ``published.json``, and add an experiment to its module.
    """

    name: str
    title: str
    compute: Compute
    page: Callable[[Sequence[Record], "Experiment"], list[Any]]
    models: tuple[str, ...]
    """the models of the command; others of the registry can be asked for by name"""
    datasets: tuple[str, ...] = ()
    """those of ``sizes`` by default"""
    bins: tuple[int, ...] = (0,)
    trials: int = 20
    """number of partitions that make it complete"""
    first: int = 1
    """number of the first partition"""
    results: str = ""
    """name of the results file, by default that of the command; some commands share cells"""
    published: tuple[str, ...] = ()
    """tables of ``published.json`` beside which ours are shown"""
    draw: Callable[[Path, Sequence[Record]], list[Any]] | None = None
    """draws pictures into a folder, from successful records"""
    registry: Mapping[str, Model] = field(default_factory=lambda: MODELS)
    """where the names of models are looked up"""
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """what is trained on, by data set, where an experiment varies it"""
    largest: Mapping[str, int] = field(default_factory=dict)
    """models that are left out above a size, unless they are asked for by name"""
    grid: Callable[[int], list[Cell]] | None = None
    """all cells, from the number of trials, where they are not a product"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "datasets", self.datasets or tuple(self.sizes))
        object.__setattr__(self, "results", self.results or self.name)

    def cells(
        self,
        *,
        trials: int | None = None,
        first: int | None = None,
        models: Sequence[str] | None = None,
        datasets: Sequence[str] | None = None,
        sizes: Sequence[int] | None = None,
    ) -> list[Cell]:
        """All fits of the command, or those of some data sets, models, sizes and partitions."""
        n = self.trials if trials is None else trials
        if n < 1:
            raise ValueError(f"The number of trials must be at least 1, but is {n}.")
        sets = _chosen("data set", datasets, self.datasets)
        names = _chosen("model", models, self.models, self.registry)
        if self.grid is not None:
            return [
                cell
                for cell in self.grid(n)
                if cell.dataset in sets and (models is None or cell.model in names)
                if sizes is None or cell.size in sizes
            ]
        begin = self.first if first is None else first
        return [
            Cell(dataset, bins, split, model, size)
            for dataset, bins in product(sets, self.bins)
            for size in sizes or self.sizes.get(dataset, (0,))
            for split, model in product(range(begin, begin + n), names)
            if models is not None or size <= self.largest.get(model, size)
        ]


def _chosen(
    what: str, given: Sequence[str] | None, default: Sequence[str], others: Iterable[str] = ()
) -> Sequence[str]:
    """Return what was given, in the order of the default; name what is unknown."""
    if given is None:
        return default
    known = list(dict.fromkeys([*default, *others]))
    unknown = [name for name in given if name not in known]
    if unknown:
        raise ValueError(f"There is no {what} {unknown} here. Choose from: {', '.join(known)}.")
    return [name for name in known if name in given]


# ------------------------------------------------------------------------ which rows train


@dataclass(frozen=True, eq=False)
class Split:
    """Standardised inputs and labels of one partition."""

    X_train: FloatArray
    y_train: IntArray
    X_test: FloatArray
    y_test: IntArray
    partition: str
    """"published", or "drawn" where none is published"""


def load_split(cell: Cell, data_home: Home = None) -> Split:
    """Read the partition of a cell and standardise its inputs by its training rows.

    Labels are the published ones where they exist; they differ from a binning of the target in
    three sets.
    """
    data = fetch_benchmark(cell.dataset, data_home)
    y = _labels(data, cell.bins)
    train, partition = _training_rows(data, y, cell)
    X_train, X_test = standardise(data.features(), train)
    return Split(X_train, y[train], X_test, y[~train], partition)


def _labels(data: BenchmarkData, bins: int) -> IntArray:
    if bins == 0:
        return data.target.astype(np.intp)
    labels = data.published_labels.get(bins, data.labels.get(bins))
    if labels is None:
        raise ValueError(
            f"{data.name} has no labels in {bins} bins: its target is {data.target_kind}. "
            "Use bins=0, its own levels."
        )
    return labels


def _training_rows(data: BenchmarkData, y: IntArray, cell: Cell) -> tuple[BoolArray, str]:
    published = data.partitions.get(cell.bins if cell.bins else "holdout")
    if published is not None:
        if not 1 <= cell.split <= len(published):
            raise ValueError(
                f"{data.name} has {len(published)} published partitions, but number {cell.split} "
                "was asked for. Lower the number of trials."
            )
        return published[cell.split - 1], "published"
    size = TRAINING_ROWS.get(cell.dataset, round(0.75 * len(y)))
    return draw_training_rows(y, size, cell.shared_seed), "drawn"


def draw_training_rows(y: IntArray, size: int, seed: int) -> BoolArray:
    """Draw ``size`` rows, with the shares of the levels kept where every level has two rows."""
    strata = y if np.bincount(y)[np.unique(y)].min() > 1 else None
    every = np.arange(len(y))
    rows, _ = train_test_split(every, train_size=size, stratify=strata, random_state=seed)
    return np.isin(every, rows)


# ---------------------------------------------------------------------------------- scores


def fit_and_score(cell: Cell, data_home: Home = None) -> Record:
    """Fit the cell's model to its training rows and score it on its test rows.

    ``absolute`` counts levels when deciding for the most probable one, as the papers do, and
    ``absolute_median`` when deciding for the median, which minimises it. ``fit_seconds`` is
    processor time.
    """
    data = load_split(cell, data_home)
    # All levels in their order: absolute errors count bins, empty ones too.
    levels = np.arange(1, cell.bins + 1) if cell.bins else levels_of(data)
    return fit_and_score_split(cell, data, levels)


def levels_of(data: Split) -> IntArray:
    """Levels that occur in a split, in their order."""
    return np.unique(np.concatenate([data.y_train, data.y_test]))


def fit_and_score_split(
    cell: Cell, data: Split, levels: IntArray, registry: Mapping[str, Model] | None = None
) -> Record:
    """Fit the cell's model to the training rows of a split and score it on the others."""
    model = find_models([cell.model], registry)[cell.model].build(cell.seed, data.X_train.shape[1])
    with warnings.catch_warnings():
        # Peers warn of bounds, of classes of one row, of steps that did not converge; ours say in
        # the record whether they did.
        warnings.simplefilter("ignore")
        begin = time.process_time()
        model.fit(data.X_train, data.y_train)
        seconds = time.process_time() - begin
        scores = score(model, data, levels)
    last = {"final_seconds": round(model.final_seconds, 4)} if hasattr(model, "best") else {}
    return {
        **scores,
        "fit_seconds": round(seconds, 4),
        **last,
        "partition": data.partition,
        **facts(getattr(model, "fitted", model)),  # a search keeps its estimator there
    }


def fit_quietly(model: Any, *data: Any, **more: Any) -> float:
    """Fit without warnings, as records say whether ours converged; return the processor time."""
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(*data, **more)
    return time.process_time() - begin


def score(model: Any, data: Split, levels: IntArray) -> Record:
    """Errors and, where the model gives probabilities, scores of these."""
    if not hasattr(model, "predict_proba"):
        labels = np.asarray(model.predict(data.X_test))
        missing = dict.fromkeys(("absolute_median", "log_score", "rps"))
        return {**_errors(data.y_test, labels, levels), **missing}
    proba = probabilities(model, data.X_test, levels)
    mode, median = (levels[decide(proba, rule)] for rule in ("mode", "median"))
    by_median = metrics.mean_absolute_error(data.y_test, median, categories=levels)
    return {
        **_errors(data.y_test, mode, levels),
        "absolute_median": by_median,
        "log_score": metrics.log_score(data.y_test, proba, categories=levels),
        "rps": metrics.ranked_probability_score(data.y_test, proba, categories=levels),
    }


def probabilities(model: Any, X: FloatArray, levels: IntArray) -> FloatArray:
    """Probability of each level; zero for a level that was not in the training rows."""
    proba = np.zeros((len(X), len(levels)))
    proba[:, np.searchsorted(levels, np.ravel(model.classes_))] = model.predict_proba(X)
    return proba


def _errors(y: IntArray, labels: Any, levels: IntArray) -> Record:
    return {
        "zero_one": metrics.zero_one_error(y, labels, categories=levels),
        "absolute": metrics.mean_absolute_error(y, labels, categories=levels),
    }


_FACTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "log_marginal_likelihood_value_": ("evidence", float),
    "loo_log_score_": ("loo_log_score", float),
    "evidence_path_": ("n_evaluations", len),
    "noise_": ("noise", float),
    "kernel_": ("kernel", str),
    "support_": ("n_relevance", len),
    "relevance_": ("n_relevance", len),
    "n_iter_": ("n_iter", int),
    "converged_": ("converged", bool),
}


def facts(model: Any) -> Record:
    """Facts that ours report about their fit."""
    ours = type(model).__module__.startswith("ordinalgp.")
    names = _FACTS if ours else ("log_marginal_likelihood_value_",)
    kept = [name for name in names if hasattr(model, name)]
    said = {_FACTS[name][0]: _FACTS[name][1](getattr(model, name)) for name in kept}
    weights = getattr(model, "weights_", None)
    if ours and isinstance(weights, Mapping):  # of a mixture, by name
        said["weights"] = {name: round(float(weight), 4) for name, weight in weights.items()}
    return {k: v for k, v in said.items() if not (isinstance(v, float) and math.isnan(v))}


def cholesky_seconds(n: int, repeats: int = 9) -> float:
    """Median time of dpotrf on a random positive definite matrix, factored in place."""
    A = np.random.default_rng(1).normal(size=(n, n))
    matrix = np.asfortranarray(A @ A.T + n * np.eye(n))
    times = []
    for _ in range(repeats):
        copy = matrix.copy(order="F")
        start = time.process_time()
        lapack.dpotrf(copy, lower=1, overwrite_a=1, clean=0)
        times.append(time.process_time() - start)
    return float(np.median(times))


# ------------------------------------------------------------------------------- the runner


def run(
    cells: Iterable[Cell],
    compute: Callable[[Cell], Record],
    path: Path,
    *,
    jobs: int = 1,
    failed: Literal["keep", "again"] = "keep",
    progress: TextIO | None = None,
) -> list[Record]:
    """Compute the cells that ``path`` lacks, append each as one line, and return all of ``cells``.

    Parameters
    ----------
    cells : iterable of Cell
        The grid.
    compute : callable
        From a cell to its scores; an exception becomes a record with the key ``error``.
    path : Path
        The results file; made, with its folder, if it is not there.
    jobs : int, default=1
        Fits at once, by joblib, one BLAS thread each.
    failed : {"keep", "again"}, default="keep"
        What to do with cells that failed before.
    progress : text stream, optional
        Where the progress bar goes; standard error by default.

    Returns
    -------
    list of dicts
        The records of ``cells`` in the order of the grid.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from papers.runner import Cell, run
    >>> grid = [Cell("toy", 5, split, "ep") for split in (1, 2)]
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "results.jsonl"
    ...     records = run(grid, lambda cell: {"zero_one": 0.1 * cell.split}, path)
    >>> [record["zero_one"] for record in records]
    [0.1, 0.2]
    """
    cells = list(dict.fromkeys(cells))
    stamp = version_stamp()
    with open_results(path) as results:
        done = by_cell(read_records(path))
        if failed == "again":
            done = {cell: record for cell, record in done.items() if "error" not in record}
        missing = [cell for cell in cells if cell not in done]
        bar = _Progress(missing, progress or sys.stderr)
        with closing(_compute(missing, compute, jobs)) as records:
            for record in records:
                results.write(json.dumps(record | stamp).encode() + b"\n")
                os.fsync(results.fileno())
                bar.advance(cell_of(record))
    found = by_cell(read_records(path))
    return [found[cell] for cell in cells]


def _compute(
    cells: Sequence[Cell], compute: Callable[[Cell], Record], jobs: int
) -> Generator[Record, None, None]:
    """Yield records as they are finished; joblib before 1.4 keeps the order of the cells."""
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    recent = tuple(map(int, joblib.__version__.split(".")[:2])) >= (1, 4)
    order = "generator_unordered" if recent else "generator"
    with threadpool_limits(1), parallel_config(backend="loky", inner_max_num_threads=1):
        tasks = (delayed(run_cell)(cell, compute) for cell in cells)
        # One task at a time, so that at most ``jobs`` unfinished ones are lost.
        yield from Parallel(n_jobs=jobs, return_as=order, batch_size=1)(tasks)


def run_cell(cell: Cell, compute: Callable[[Cell], Record]) -> Record:
    """Compute one cell; an error becomes a record with its message.

    What a user can mend, absent data and absent libraries, is no result: it ends the run.
    """
    begin = time.perf_counter()
    try:
        result = compute(cell)
    except (DataUnavailableError, ImportError):
        raise
    except Exception as error:
        result = {"error": f"{type(error).__name__}: {error}"}
    return cell._asdict() | result | {"seconds": round(time.perf_counter() - begin, 4)}


def cell_of(record: Record) -> Cell:
    """Tell which cell a record belongs to."""
    known: Record = {"size": 0} | record
    return Cell(*(known[name] for name in Cell._fields))


def by_cell(records: Iterable[Record]) -> dict[Cell, Record]:
    """Records by their cell; where there are several the last counts."""
    return {cell_of(record): record for record in records}


def read_records(path: Path) -> list[Record]:
    """Read all complete lines; a last line without its end was torn by an interruption."""
    *lines, _ = path.read_bytes().split(b"\n")
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise ValueError(f"{path} has a line that is not JSON ({error}). Remove it.") from None


def open_results(path: Path) -> BinaryIO:
    """Open for unbuffered appending by one process, without a torn last line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    results: Any = open(path, "ab", buffering=0)  # noqa: SIM115, the caller closes
    try:
        _lock(results)
    except (BlockingIOError, PermissionError):
        results.close()
        raise ValueError(f"Another run writes to {path}. Wait, or name another output.") from None
    results.truncate(path.read_bytes().rfind(b"\n") + 1)
    return results


def _lock(file: Any) -> None:
    """Lock an open file until it is closed; raise if another run has locked it."""
    if sys.platform == "win32":  # which locks bytes: one beyond the end, so that all can be read
        file.seek(_LOCKED_BYTE)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def version_stamp() -> Record:
    """Version of the library and, in a checkout, its commit; "+" says that sources were changed."""
    package = Path(ordinalgp.__file__).resolve().parent
    stamp = {"version": ordinalgp.__version__}
    commit = _git(package, "rev-parse", "--short=7", "HEAD")
    top = _git(package, "rev-parse", "--show-toplevel")
    if commit and top and (Path(top) / "src" / "ordinalgp").resolve() == package:
        stamp["commit"] = commit + ("+" if _git(package, "status", "--porcelain", ".") else "")
    return stamp


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


class _Progress:
    """One line: a bar, the count, and the time left, with cells weighed by their size."""

    _WIDTH = 24

    def __init__(self, cells: Sequence[Cell], stream: TextIO) -> None:
        self.cells, self.done, self.begin = len(cells), 0, time.monotonic()
        self.left = self.total = sum(map(self._weight, cells))
        self.stream = stream

    @staticmethod
    def _weight(cell: Cell) -> float:
        return 5e7 + (cell.size or TRAINING_ROWS.get(cell.dataset, 0)) ** 3

    def advance(self, cell: Cell) -> None:
        self.done += 1
        self.left -= self._weight(cell)
        share = 1 - self.left / self.total
        minutes = (time.monotonic() - self.begin) * (1 / share - 1) / 60
        bar = ("█" * round(self._WIDTH * share)).ljust(self._WIDTH, "░")
        text = f"\r{bar} {self.done}/{self.cells}, {minutes:.1f} min left ({cell.dataset})"
        end = "\n" if self.done == self.cells else ""
        print(f"{text:<79}", end=end, file=self.stream, flush=True)
