"""Run one benchmark from its name to its page: what the command line and ``python -m`` share."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ordinalgp.benchmark.experiments import Experiment, find_experiment
from ordinalgp.benchmark.models import find_models
from ordinalgp.benchmark.protocol import Cell
from ordinalgp.benchmark.report import Page, Part, to_html, to_markdown
from ordinalgp.benchmark.runner import by_cell, read_records, run, version_stamp
from ordinalgp.benchmark.scoring import Record
from ordinalgp.benchmark.summary import failures


@dataclass(frozen=True)
class Outcome:
    """What :func:`benchmark` returns."""

    page: Page
    records: Sequence[Record]
    files: Sequence[Path]
    """results, and the page in Markdown and HTML"""


def benchmark(
    name: str,
    *,
    trials: int | None = None,
    models: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    data_home: str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] = "benchmark-results",
    pages: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    fits: Literal["missing", "again", "none"] = "missing",
) -> Outcome:
    """Compute what is missing of a benchmark, and write its page.

    Parameters
    ----------
    name : str
        Such as "gpor-table2"; ``ordinalgp.benchmark.experiments.EXPERIMENTS`` holds them all.
    trials : int, optional
        The first so many partitions; all of them by default.
    models, datasets : sequences of str, optional
        Some of the benchmark's, in place of all of them.
    data_home : path, optional
        See :func:`ordinalgp.datasets.fetch_benchmark`.
    output : path, default="benchmark-results"
        Folder of the results. The same call goes on where an interrupted one stopped.
    pages : path, optional
        Folder of the page and its pictures; that of the results by default.
    jobs : int, default=1
        Fits at once.
    fits : {"missing", "again", "none"}, default="missing"
        "again" also repeats fits that failed; "none" shows what is there.

    Returns
    -------
    Outcome
        The page, the records behind it and the files written.

    Examples
    --------
    >>> from ordinalgp.benchmark import benchmark
    >>> outcome = benchmark("gpor-table2", trials=2, datasets=["diabetes"])  # doctest: +SKIP
    """
    experiment = find_experiment(name)
    cells = experiment.cells(trials=trials, models=models, datasets=datasets)
    folder = Path(output)
    path = folder / f"{experiment.results}.jsonl"
    if fits == "none":
        if not path.is_file():
            raise ValueError(f"There are no results in {path}. Run without --report-only.")
        known = by_cell(read_records(path))
        records = [known[cell] for cell in cells if cell in known]
    else:
        cells = _installed(experiment, cells, explicit=models is not None)
        compute = partial(_call, experiment, data_home)
        failed: Any = "again" if fits == "again" else "keep"
        records = run(cells, compute, path, jobs=jobs, failed=failed)
    shown = Path(pages) if pages is not None else folder
    shown.mkdir(parents=True, exist_ok=True)
    whole = [r for r in records if "error" not in r]
    drawn = experiment.draw(shown, whole) if experiment.draw and whole else []
    page = make_page(experiment, records, drawn)
    files = [path, shown / f"{name}.md", shown / f"{name}.html"]
    files[1].write_text(to_markdown(page), encoding="utf-8")
    files[2].write_text(to_html(page), encoding="utf-8")
    return Outcome(page, records, files)


def _installed(experiment: Experiment, cells: Sequence[Cell], *, explicit: bool) -> list[Cell]:
    """Leave out models that are not installed, unless they were asked for by name."""
    names = list(dict.fromkeys(cell.model for cell in cells))
    if explicit:
        find_models(names, experiment.registry)
        return list(cells)
    kept = {name for name in names if experiment.registry[name].is_available}
    return [cell for cell in cells if cell.model in kept]


def _call(experiment: Experiment, data_home: Any, cell: Cell) -> Record:
    return experiment.compute(cell, data_home)


def make_page(
    experiment: Experiment, records: Sequence[Record], drawn: Sequence[Part] = ()
) -> Page:
    """Date, commit and what was run; then the tables, and the fits that failed."""
    parts: list[Part] = [_provenance(experiment, records)]
    parts += experiment.page(records, experiment) if any("error" not in r for r in records) else []
    parts += drawn
    failed = failures(records)
    if failed:
        parts.append("\n".join([f"Failed fits: {len(failed)}", "", *(f"- {f}" for f in failed)]))
    return Page(experiment.title, parts)


def _provenance(experiment: Experiment, records: Sequence[Record]) -> str:
    """When and by which sources; results of several commits are counted one by one."""
    made: dict[str, int] = {}
    for record in records:
        commit = record.get("commit")
        source = f"{record.get('version', '?')}{f' at commit {commit}' if commit else ''}"
        made[source] = made.get(source, 0) + 1
    fits = "; ".join(f"{count} fits by ordinalgp {source}" for source, count in made.items())
    counts = Counter((r["dataset"], r["bins"], r["model"], r.get("size")) for r in records).values()
    few, many = min(counts, default=0), max(counts, default=0)
    some = f"the first {many}" if few == many else f"the first {few} to {many}"
    whole = "all" if few >= experiment.trials else some
    drawn = sum(r.get("partition", "published") == "drawn" for r in records)
    text = (
        f"Made by `ordinalgp benchmark {experiment.name}` on {date.today().isoformat()}"
        f" (page by {version_stamp().get('commit', 'an installed package')}): {fits}; "
        f"{whole} of {experiment.trials} trials."
    )
    return text + (f" {drawn} fits are on drawn, not on published partitions." if drawn else "")
