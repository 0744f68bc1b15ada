"""Tables 2 and 3 of Chu and Ghahramani (2005) beside ours, on the published partitions.

``python -m benchmarks.gpor_tables`` fits every data set, number of bins, partition and model,
and appends each result to a file as soon as it is there. Stop it at any time: the same command
goes on where it was, and fits nothing twice. A failed fit is a result too (its message is
kept). Remove the file after a change of the library, or results of two versions are mixed.
"""

import argparse
import fcntl
import json
import os
import sys
import time
import warnings
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import joblib
import numpy as np
from joblib import Parallel, delayed, parallel_config
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

import ordinalgp
from benchmarks.data import DATASETS, ROOT, data_folder, load_partition
from ordinalgp import OrdinalGPClassifier, metrics
from ordinalgp.decisions import decide

Record = dict[str, Any]

MODELS: dict[str, dict[str, Any]] = {
    "map": {"inference": "laplace"},
    "ep": {"inference": "ep"},
    "ep-bound": {"inference": "ep", "objective": "bound"},
}
_TRAIN_ROWS = dict(zip(DATASETS, (30, 50, 100, 130, 150, 200, 300, 600, 1000), strict=True))


class Cell(NamedTuple):
    """One fit of the grid."""

    dataset: str
    bins: int
    split: int
    model: str


# ------------------------------------------------------------------------------- computing


def run_cell(cell: Cell) -> Record:
    """Fit and score one cell; an error becomes a record with its message."""
    begin = time.perf_counter()
    try:
        result = _fit_and_score(cell)
    except Exception as error:
        result = {"error": f"{type(error).__name__}: {error}"}
    seconds = round(time.perf_counter() - begin, 4)
    return cell._asdict() | result | {"seconds": seconds, "version": ordinalgp.__version__}


def _fit_and_score(cell: Cell) -> Record:
    data = load_partition(cell.dataset, cell.bins, cell.split)
    model = OrdinalGPClassifier(**MODELS[cell.model])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # recorded below
        # Only observed levels: in these partitions every bin has at least two training rows.
        model.fit(data.X_train, data.y_train)
    proba, levels = model.category_proba(data.X_test), model.categories_
    mode, median = (levels[decide(proba, rule)] for rule in ("mode", "median"))
    every = range(1, cell.bins + 1)  # absolute errors count bins, as in the paper
    return {
        "zero_one": metrics.zero_one_error(data.y_test, mode, categories=every),
        "absolute": metrics.mean_absolute_error(data.y_test, mode, categories=every),
        "absolute_median": metrics.mean_absolute_error(data.y_test, median, categories=every),
        "log_score": metrics.log_score(data.y_test, proba, categories=levels),
        "rps": metrics.ranked_probability_score(data.y_test, proba, categories=levels),
        "evidence": float(model.log_marginal_likelihood_value_),
        "n_evaluations": len(model.evidence_path_),
        "noise": float(model.noise_),
        "kernel": str(model.kernel_),
        "converged": bool(model.converged_),
    }


def _compute(cells: Sequence[Cell], jobs: int) -> Generator[Record, None, None]:
    """Yield records as they are finished; joblib before 1.4 keeps the order of the cells."""
    recent = tuple(map(int, joblib.__version__.split(".")[:2])) >= (1, 4)
    order = "generator_unordered" if recent else "generator"
    with threadpool_limits(1), parallel_config(backend="loky", inner_max_num_threads=1):
        yield from Parallel(n_jobs=jobs, return_as=order)(delayed(run_cell)(c) for c in cells)


def run(cells: Sequence[Cell], path: Path, jobs: int = 1) -> None:
    """Compute the cells that ``path`` lacks, and append each as one line."""
    with _open_results(path) as results:
        done = {_cell_of(record) for record in read_records(path)}
        missing = [cell for cell in cells if cell not in done]
        progress = _Progress(missing)
        with closing(_compute(missing, jobs)) as records:
            for record in records:
                results.write(json.dumps(record).encode() + b"\n")
                os.fsync(results.fileno())
                progress.advance(_cell_of(record))


def _cell_of(record: Record) -> Cell:
    return Cell(*(record[name] for name in Cell._fields))


def _open_results(path: Path) -> BinaryIO:
    """Open for unbuffered appending by one process, without a torn last line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    results = open(path, "ab", buffering=0)  # noqa: SIM115, the caller closes
    try:
        fcntl.flock(results, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        results.close()
        raise SystemExit(f"Another run writes to {path}. Wait, or name another --output.") from None
    results.truncate(path.read_bytes().rfind(b"\n") + 1)
    return results


def read_records(path: Path) -> list[Record]:
    """Read all complete lines; a last line without its end was torn by an interruption."""
    *lines, _ = path.read_bytes().split(b"\n")
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise SystemExit(f"{path} has a line that is not JSON ({error}). Remove it.") from None


class _Progress:
    """One line on the error stream: count and time left, cells weighed by their size."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.cells, self.done, self.begin = len(cells), 0, time.monotonic()
        self.left = self.total = sum(map(self._weight, cells))

    @staticmethod
    def _weight(cell: Cell) -> float:
        return 5e6 + _TRAIN_ROWS.get(cell.dataset, 0) ** 3

    def advance(self, cell: Cell) -> None:
        self.done += 1
        self.left -= self._weight(cell)
        spent = time.monotonic() - self.begin
        eta = spent * self.left / (self.total - self.left)
        end = "\n" if self.done == self.cells else ""
        text = f"\r{self.done}/{self.cells} fits, about {eta / 60:.1f} min left ({cell.dataset})"
        print(f"{text:<79}", end=end, file=sys.stderr, flush=True)


# ------------------------------------------------------------------------------- reporting


@dataclass(frozen=True)
class Figure:
    """Mean and standard deviation over partitions, in percent, and what was published."""

    mean: float
    sd: float
    published: tuple[float, float]

    @property
    def excess(self) -> float:
        """How much worse than published, in published standard deviations."""
        return (self.mean - self.published[0]) / self.published[1]

    def cells(self) -> list[str]:
        """Return ours, published, and the difference, marked where it exceeds one."""
        mark = " (!)" if self.excess > 1 else ""
        ours, theirs = (f"{m:.2f}±{s:.2f}" for m, s in ((self.mean, self.sd), self.published))
        return [ours, theirs, f"{self.excess:+.2f}{mark}"]


@dataclass(frozen=True)
class Row:
    """All partitions of one data set and model."""

    dataset: str
    model: str
    splits: int
    zero_one: Figure
    absolute: Figure
    absolute_median: Figure
    log_score: float

    def cells(self) -> list[str]:
        """Return the row of the printed table."""
        ours, _, excess = self.absolute_median.cells()
        figures = [*self.zero_one.cells(), *self.absolute.cells(), ours, excess]
        name = [self.dataset, self.model.upper(), str(self.splits)]
        return [*name, *figures, f"{self.log_score:.3f}"]


_SCORES = ("zero_one", "absolute", "log_score", "absolute_median")
_HEADER = ["data", "model", "splits", "zero-one %", "published", "diff/sd"]
_HEADER += ["absolute %", "published", "diff/sd", "by median %", "diff/sd", "log score"]
_NOTE = (
    "Mean±standard deviation over the splits run, deciding for the most probable level. diff/sd: "
    "ours minus published, in published standard deviations; (!) is worse by more than one. "
    "By median: absolute error when deciding for the median level, against the same published "
    "figure. Log score: mean -ln p(true level)."
)


def summarise(records: Sequence[Record], bins: int) -> list[Row]:
    """One row for each data set and model that has results, in the paper's order."""
    published = json.loads((ROOT / "benchmarks" / "published.json").read_text("utf-8"))["bins"]
    rows = []
    for dataset, model in product(DATASETS, MODELS):
        wanted = {"dataset": dataset, "bins": bins, "model": model}
        found = [r for r in records if wanted.items() <= r.items() and "error" not in r]
        if found:
            rows.append(_row(dataset, model, found, published[str(bins)][dataset]))
    return rows


def _row(dataset: str, model: str, found: Sequence[Record], published: Record) -> Row:
    values = {name: np.array([r[name] for r in found]) for name in _SCORES}

    def figure(name: str) -> Figure:
        ours = 100 * values[name]
        sd = ours.std(ddof=1) if len(ours) > 1 else np.nan
        theirs = published[name.removesuffix("_median")][model.removesuffix("-bound").upper()]
        return Figure(ours.mean(), sd, tuple(theirs))

    figures = (figure(name) for name in ("zero_one", "absolute", "absolute_median"))
    return Row(dataset, model, len(found), *figures, float(values["log_score"].mean()))


def report(records: Sequence[Record]) -> str:
    """Write both tables in Markdown, aligned so that they also read well in a terminal."""
    versions = ", ".join(sorted({record["version"] for record in records}))
    parts = ["# Published tables beside ours", f"ordinalgp {versions}. {_NOTE}"]
    every: list[Row] = []
    for bins, number in ((5, 2), (10, 3)):
        if rows := summarise(records, bins):
            parts += [f"## {bins} bins (Table {number})", _table([row.cells() for row in rows])]
            every += rows
    figures = [figure for row in every for figure in (row.zero_one, row.absolute)]
    matched = [figure for row in every for figure in (row.zero_one, row.absolute_median)]
    worse, worse_matched = (sum(f.excess > 1 for f in each) for each in (figures, matched))
    parts.append(
        f"{worse} of {len(figures)} figures are worse than published by more than one standard "
        f"deviation when the most probable level is taken for both errors, {worse_matched} when "
        "each error gets the decision that minimises it."
    )
    failures = [f"- {tuple(_cell_of(r))}: {r['error']}" for r in records if "error" in r]
    if failures:
        parts.append("\n".join([f"Failed fits: {len(failures)}", "", *failures]))
    return "\n\n".join(parts) + "\n"


def _table(rows: Sequence[Sequence[str]]) -> str:
    table = [_HEADER, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    table.insert(1, ["-" * width for width in widths])
    padded = [map(str.ljust, row, widths) for row in table]
    return "\n".join(f"| {' | '.join(row)} |" for row in padded)


# ---------------------------------------------------------------------------- command line


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=list(DATASETS))
    parser.add_argument("--bins", nargs="+", type=int, choices=(5, 10), default=[5, 10])
    parser.add_argument("--splits", type=int, default=20, help="first so many of the 20 partitions")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["map", "ep"])
    parser.add_argument("--jobs", type=int, default=1, help="fits at once, one BLAS thread each")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/gpor.jsonl")
    parser.add_argument("--report-only", action="store_true", help="fit nothing")
    parser.add_argument("--markdown", type=Path, help="write the tables to this file as well")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = _arguments(argv)
    if not options.report_only:
        data_folder()  # or an explanation, before any fit
        datasets = [name for name in DATASETS if name in options.datasets]  # smallest first
        splits = range(1, options.splits + 1)
        cells = [Cell(*c) for c in product(datasets, options.bins, splits, options.models)]
        try:
            run(cells, options.output, options.jobs)
        except KeyboardInterrupt:
            print("\nInterrupted; the same command goes on from here.", file=sys.stderr)
            raise SystemExit(130) from None
    if not options.output.is_file():
        raise SystemExit(f"There are no results in {options.output}. Run without --report-only.")
    text = report(read_records(options.output))
    print(text)
    if options.markdown:
        options.markdown.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
