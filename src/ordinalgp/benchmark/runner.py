"""Compute the cells of a grid that a results file lacks; stop it at any time and go on later.

The file has one JSON object a line, appended and flushed to the disk as soon as its cell is
finished; ``pandas.read_json(path, lines=True)`` reads it. A failed fit is a result too: its message
is kept, and ``failed="again"`` computes it again. Where a cell has several lines the last counts.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO, Literal, TextIO

import joblib
from joblib import Parallel, delayed, parallel_config

from ordinalgp.benchmark.protocol import TRAINING_ROWS, Cell
from ordinalgp.benchmark.scoring import Record
from ordinalgp.datasets import DataUnavailableError

try:
    import fcntl
except ImportError:  # not on Windows: there two runs of one file are not told apart
    fcntl = None  # type: ignore[assignment]

Compute = Callable[[Cell], Record]


def run(
    cells: Iterable[Cell],
    compute: Compute,
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
    >>> from ordinalgp.benchmark.protocol import Cell
    >>> from ordinalgp.benchmark.runner import run
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


def _compute(cells: Sequence[Cell], compute: Compute, jobs: int) -> Generator[Record, None, None]:
    """Yield records as they are finished; joblib before 1.4 keeps the order of the cells."""
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    recent = tuple(map(int, joblib.__version__.split(".")[:2])) >= (1, 4)
    order = "generator_unordered" if recent else "generator"
    with threadpool_limits(1), parallel_config(backend="loky", inner_max_num_threads=1):
        tasks = (delayed(run_cell)(cell, compute) for cell in cells)
        # One task at a time, so that at most ``jobs`` unfinished ones are lost.
        yield from Parallel(n_jobs=jobs, return_as=order, batch_size=1)(tasks)


def run_cell(cell: Cell, compute: Compute) -> Record:
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
        if fcntl is not None:
            fcntl.flock(results, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        results.close()
        raise ValueError(f"Another run writes to {path}. Wait, or name another output.") from None
    results.truncate(path.read_bytes().rfind(b"\n") + 1)
    return results


def version_stamp() -> Record:
    """Version of the library and, in a checkout, its commit; "+" says that sources were changed."""
    import ordinalgp

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
