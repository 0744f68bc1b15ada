"""``python -m papers NAME``: a paper's table beside ours, or our models beside other libraries."""

import argparse
import json
import signal
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from papers import (
    collaborative,
    gpor,
    intervals,
    isbor,
    order_relations,
    peers,
    plsor,
    real_tables,
    tocuco,
)
from papers.data import Home
from papers.models import find_models
from papers.pages import Page, to_terminal, write_page
from papers.runner import Cell, Experiment, Record, by_cell, read_records, run

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for module in (
        gpor,
        plsor,
        order_relations,
        collaborative,
        isbor,
        peers,
        intervals,
        real_tables,
        tocuco,
    )
    for experiment in module.EXPERIMENTS
}
_EXAMPLE = "python -m papers gpor-table2 --trials 3 --datasets diabetes,stocks --models map,ep"


class Outcome(NamedTuple):
    """A page, the records behind it, and the files written: results, Markdown and HTML."""

    page: Page
    records: list[Record]
    files: list[Path]


def reproduce(
    name: str,
    *,
    data_home: Home = None,
    output: str | Path = "benchmark-results",
    pages: str | Path | None = None,
    jobs: int = 1,
    fits: Literal["missing", "again", "none"] = "missing",
    **some: Any,
) -> Outcome:
    """Compute what is missing of a table or figure, and write its page.

    Parameters
    ----------
    name : str
        Such as "gpor-table2"; ``EXPERIMENTS`` holds them all.
    data_home : path, optional
        See :func:`papers.data.fetch_benchmark`.
    output : path, default="benchmark-results"
        Folder of the results. The same call goes on where an interrupted one stopped.
    pages : path, optional
        Folder of the page and its pictures; that of the results by default.
    jobs : int, default=1
        Fits at once.
    fits : {"missing", "again", "none"}, default="missing"
        "again" also repeats fits that failed; "none" shows what is there.
    **some
        Parts of the grid: ``trials``, ``first``, ``models``, ``datasets`` and ``sizes``; see
        :meth:`papers.runner.Experiment.cells`.

    Examples
    --------
    >>> from papers.__main__ import reproduce
    >>> outcome = reproduce("gpor-table2", trials=2, datasets=["diabetes"])  # doctest: +SKIP
    """
    experiment = find_experiment(name)
    cells = experiment.cells(**some)
    path = Path(output) / f"{experiment.results}.jsonl"
    if fits == "none":
        if not path.is_file():
            raise ValueError(f"There are no results in {path}. Run without --report-only.")
        known = by_cell(read_records(path))
        records = [known[cell] for cell in cells if cell in known]
    else:
        cells = _installed(experiment, cells, explicit=some.get("models") is not None)
        compute = partial(experiment.compute, data_home=data_home)
        failed: Any = "again" if fits == "again" else "keep"
        records = run(cells, compute, path, jobs=jobs, failed=failed)
    page, files = write_page(experiment, records, Path(output if pages is None else pages))
    return Outcome(page, records, [path, *files])


def find_experiment(name: str) -> Experiment:
    """Look up a table or figure by its name."""
    if name not in EXPERIMENTS:
        raise ValueError(f"There is no benchmark {name!r}. Choose from: {', '.join(EXPERIMENTS)}.")
    return EXPERIMENTS[name]


def _installed(experiment: Experiment, cells: Sequence[Cell], *, explicit: bool) -> list[Cell]:
    """Leave out models that are not installed, unless they were asked for by name."""
    names = {cell.model for cell in cells}
    if explicit:
        find_models(sorted(names), experiment.registry)
    kept = {name for name in names if experiment.registry[name].is_available}
    return [cell for cell in cells if cell.model in kept]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print; errors go to the error stream, with 2 for bad input, 130 after Ctrl-C."""
    options = vars(_parser().parse_args(arguments))
    as_json = options.pop("json")
    # A shell starts background jobs with SIGINT ignored; a run must be stoppable there too.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without ± is no reason to stop
    try:
        outcome = reproduce(**options)
    except KeyboardInterrupt:
        print("\nInterrupted; the same command goes on from here.", file=sys.stderr)
        return 130
    except (ValueError, OSError, ImportError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    if as_json:
        print(json.dumps({"title": outcome.page.title, "records": outcome.records}))
    else:
        print(to_terminal(outcome.page, color="always" if sys.stdout.isatty() else "never"))
    print(f"Written: {', '.join(map(str, outcome.files))}", file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m papers", description=__doc__, epilog=_EXAMPLE)
    add = parser.add_argument
    add("name", help=f"One of: {', '.join(EXPERIMENTS)}.")
    add("--trials", type=int, help="The first so many partitions; all by default.")
    add("--first", type=int, help="Number of the first partition; 1 in most tables.")
    several: Any = {"action": "extend", "help": "Some of them; repeat, or separate by commas."}
    for option in ("--models", "--datasets"):
        add(option, type=lambda text: [name for name in text.split(",") if name], **several)
    add("--sizes", type=lambda text: [int(size) for size in text.split(",")], **several)
    add("--data-home", help="Folder of the data; else ORDINALGP_DATA, shared/data, or OpenML.")
    add("--output", "-o", default="benchmark-results", help="Folder of results, to go on from.")
    add("--pages", help="Folder of the page; that of the results by default.")
    add("--jobs", type=int, default=1, help="Fits at once.")
    fits = parser.add_mutually_exclusive_group()
    for flag, value, text in (
        ("--report-only", "none", "Fit nothing; show what is there."),
        ("--retry-failed", "again", "Repeat fits that failed before."),
    ):
        fits.add_argument(flag, dest="fits", action="store_const", const=value, help=text)
    parser.set_defaults(fits="missing")
    add("--json", action="store_true", help="Print the records as JSON instead of tables.")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
