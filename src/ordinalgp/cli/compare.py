"""``ordinalgp compare``: models side by side on a table, by cross-validation."""

import csv
import io
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text
from typer import Option

from ordinalgp.cli import common
from ordinalgp.cli.fit import (
    Categories,
    Cut,
    CutAt,
    Drop,
    Nominal,
    Numeric,
    Table,
    Target,
    read_borders,
)
from ordinalgp.runtime.files import check_different, check_output, whole_file
from ordinalgp.runtime.progress import Progress
from ordinalgp.tables.cells import BadInput, composed, gaps
from ordinalgp.tables.comparison import Comparison, ComparisonPlan, Outcome
from ordinalgp.tables.contenders import CONTENDERS, DEFAULT
from ordinalgp.tables.files import check_table_output, table_writer
from ordinalgp.tables.summary import DECISIONS
from ordinalgp.tables.training import BatchSettings, Source, sample_rows

_WIDTH = 12  # characters of a column of scores: four and a name fit into 80
_MODELS = f"Models to compare, of {', '.join(CONTENDERS)} (default: {', '.join(DEFAULT)})."
_GROUPS = "Column that names the person, or other group, of a row: its rows are never split."
_ROWS = "Number of rows above which a random sample of so many is used."


def compare(
    context: typer.Context,
    table: Table,
    target: Target,
    categories: Categories = None,
    models: Annotated[list[str] | None, Option(metavar="NAME,...", help=_MODELS)] = None,
    folds: Annotated[int, Option(min=2, help="Number of folds.")] = 5,
    repeats: Annotated[int, Option(min=1, help="Number of repetitions, with other folds.")] = 1,
    groups: Annotated[str | None, Option(metavar="NAME", help=_GROUPS)] = None,
    rows: Annotated[int, Option(min=10, help=_ROWS)] = 2000,
    seed: Annotated[
        int, Option(min=0, max=2**32 - 1, help="Seed of the sample, the folds and models.")
    ] = 0,
    jobs: Annotated[int, Option(help="Fits at a time, from 1; -1: one per processor.")] = -1,
    output: Annotated[
        Path | None, common.output("CSV or Parquet file for the table of scores.")
    ] = None,
    plot: Annotated[
        Path | None, Option(metavar="FILE", help="Picture to draw (.png, .svg).")
    ] = None,
    drop: Drop = None,
    nominal: Nominal = None,
    numeric: Numeric = None,
    on_bad_rows: common.OnBadRows = "error",
    separator: common.Separator = None,
    decimal: common.Decimal = None,
    encoding: common.Encoding = None,
    missing: common.Missing = None,
    sheet: common.Sheet = None,
    cut: Cut = None,
    cut_at: CutAt = None,
    as_json: common.Json = False,
) -> None:
    """Compare our models with usual ones on a table, by cross-validation.

    All models predict the same held-out rows. Each learns its encoding of the columns, and chooses
    its settings, from the other rows alone. The table of scores shows how much each model is behind
    the best, with a standard error. After Ctrl-C the folds that are complete are shown.
    """
    check_outputs(output, plot, [table])
    if jobs == 0:
        raise BadInput("--jobs must be at least 1, or -1 for one fit per processor, but is 0.")
    source = Source(
        common.table_file(table, on_bad_rows, separator, decimal, encoding, missing, sheet),
        composed(target),
        common.words(categories) or None,
        common.words(drop),
        common.words(nominal),
        common.words(numeric),
        cut,
        read_borders(cut_at, cut, categories),
        groups=None if groups is None else composed(groups),
    )
    chosen = common.words(models) or DEFAULT
    for name in chosen:
        common.check_choice("--models", name, tuple(CONTENDERS))
    batches = context.obj if isinstance(context.obj, BatchSettings) else BatchSettings()
    plan = _plan(source, batches, chosen, folds, repeats, rows, seed)
    common.tell_skipped(source.file.bad)
    _tell_plan(plan, groups)
    outcomes: list[Outcome] = []
    with _interruptible() as stopped, _showing() as show:
        plan.run(outcomes, jobs, show)
    result = plan.result(outcomes)
    if output is not None and result.probabilities:
        with table_writer(output) as writer:
            found = result.table()
            writer.write({name: [row[name] for row in found] for name in found[0]})
    if plot is not None and result.probabilities:
        draw(plot, _display(result))
    if as_json:
        common.print_json(_json(result, plan, target, source.file.bad.skipped))
    else:
        _print(result, [path for path in (output, plot) if path is not None])
        if result.models[:1] and result.models[0] in result.ours and result.beats_frequencies:
            _print_next(result.models[0], source)
    if stopped:
        raise typer.Exit(130)


def _plan(
    source: Source,
    batches: BatchSettings,
    models: Any,
    folds: int,
    repeats: int,
    max_rows: int,
    seed: int,
) -> ComparisonPlan:
    """Read the table, or a sample of a large one, and plan the comparison."""
    large = batches.is_large(source.file.path)
    file = replace(source.file, tolerant=True)
    whole = sample_rows(source.file, batches) if large else file.read()
    X, labels, order = source.settled(whole).usable(whole)
    common.tell_left_out(X.left_out)
    X = replace(X, left_out={})
    source.check_levels(np.unique(labels).tolist())
    groups = source.groups_of(X, whole)
    if groups is not None and gaps(groups).all():
        raise BadInput(f"--groups names {source.groups}, which has no values at all.")
    kinds = {name: column.dtype.kind for name, column in X.columns.items()}
    nominal = [name for name, kind in kinds.items() if kind == "O" and name not in X.levels]
    numeric = [name for name, kind in kinds.items() if kind == "f"]
    plan = ComparisonPlan.of(
        X,
        labels,
        models=models,
        categories=order,
        cv=folds,
        repeats=repeats,
        groups=groups,
        nominal=nominal,
        numeric=numeric,
        max_rows=max_rows,
        random_state=seed,
    )
    if large:
        note = f"The file is large: rows are drawn from a sample of {len(whole):,} of its rows."
        plan = replace(plan, notes=(note, *plan.notes))
    return plan


def _tell_plan(plan: ComparisonPlan, groups: str | None) -> None:
    """Say what will be compared, and what is left out."""
    for text in plan.notes:
        common.note(text + " --rows sets their number." * ("drawn at random" in text))
    if groups is not None:
        n = len(np.unique(plan.units))
        common.note(f"{n:,} groups by {groups}, which is not used as a feature.")
    for name, model in plan.models.items():
        if model.absent is not None:
            common.note(f"{name} is left out: {model.absent}.")


@contextmanager
def _interruptible() -> Iterator[list[bool]]:
    """Stop at Ctrl-C; the list then has an element."""
    common.heed_interrupts()
    stopped: list[bool] = []
    try:
        yield stopped
    except KeyboardInterrupt:
        stopped.append(True)


@contextmanager
def _showing() -> Iterator[Any]:
    """Show the progress on the error stream: one line that changes, or one line per fit."""
    screen = Console(file=sys.stderr, highlight=False)
    if not screen.is_terminal:
        yield lambda progress: common.note(_line(progress))
        return
    with Live(console=screen, transient=True, redirect_stdout=False) as live:
        yield lambda progress: live.update(Text(_line(progress), overflow="ellipsis"))


def _line(progress: Progress) -> str:
    return f"{progress.step}/{progress.total}  {progress.text}"


def _print(result: Comparison, written: list[Path]) -> None:
    if not result.probabilities:
        for name, reason in result.failures.items():
            common.tell(f"{name}: {reason}")
        common.tell("No model has finished a fold, so there is nothing to compare.")
        return
    rows = result.table()
    n, n_folds = len(np.unique(result.rows)), len(np.unique(result.folds))
    levels = " < ".join(map(str, result.categories.tolist()))
    out = common.console()
    counted = f"{n_folds} fold" + "s" * (n_folds > 1)
    out.print(f"{n:,} rows, {counted}; {levels}", markup=False)
    out.print(f"\nHeld-out scores (lower is better). {DECISIONS}\n")
    heads = [fill(name, _WIDTH) for name in result.scores.values()]
    table = common.grid("", *heads, "seconds\nper fit")
    for row in rows:
        values = [f"{row[score]:.3f}" for score in result.scores]
        table.add_row(*map(Text, [row["name"], *values, seconds(row["fit_seconds"])]))
    out.print(table)
    out.print("\nBehind the best of each score, ± one standard error:\n")
    table = common.grid("", *heads)
    for row in rows:
        table.add_row(*map(Text, [row["name"], *(_behind(row, score) for score in result.scores)]))
    out.print(table)
    out.print()
    for name, reason in result.failures.items():
        out.print(f"Not compared: {name}, {reason}.", markup=False)
    for text in result.notes:
        out.print(text, markup=False)
    out.print(result.recommendation, markup=False, style="bold")
    for path in written:
        out.print(f"Written: {path}", markup=False)


def _print_next(best: str, source: Source) -> None:
    """Print the command that fits the best model to all rows, with the same options."""
    style = source.file.style
    options: dict[str, Any] = {
        "--target": [source.target],
        "--model": [best] * (best != "auto"),
        "--categories": source.categories or (),
        "--drop": source.drop,
        "--groups": [source.groups] if source.groups else (),
        "--nominal": source.nominal,
        "--numeric": source.numeric,
        "--on-bad-rows": ["skip"] * (source.file.bad.policy == "skip"),
        "--separator": [style.separator.replace("\t", "tab")] if style.separator else (),
        "--decimal": [style.decimal] if style.decimal else (),
        "--encoding": [style.encoding] if style.encoding else (),
        "--missing": style.missing,
        "--sheet": [style.sheet] if style.sheet else (),
        "--cut": [str(source.cut)] if source.cut else (),
        "--cut-at": [repr(border).removesuffix(".0") for border in source.cut_at],
    }
    parts = ["ordinalgp", "fit", str(source.file.path)]
    for option, values in options.items():
        if values:
            parts += [option, _joined(values)]
    common.tell(f"Fit it to all rows with: {shlex.join(parts)}")


def _joined(values: Sequence[str]) -> str:
    """Words as one option takes them; quotes protect commas."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue() if len(values) > 1 else values[0]


def _behind(row: dict[str, Any], score: str) -> str:
    away, error = row[f"{score}_difference"], row[f"{score}_se"]
    if away == 0 and error == 0:
        return "best"
    return f"{away:.3f} ±{error:.3f}" if np.isfinite(error) else f"{away:.3f}"


def seconds(value: float) -> str:
    """Time with two digits."""
    return f"{value:.2f}" if value < 1 else f"{value:.1f}" if value < 10 else f"{value:,.0f}"


def _json(result: Comparison, plan: ComparisonPlan, target: str, skipped: int) -> dict[str, Any]:
    """Result that JSON can hold; what is infinite or unknown is null."""

    def plain(value: Any) -> Any:
        return None if isinstance(value, float) and not np.isfinite(value) else value

    return {
        "target": target,
        "levels": result.categories.tolist(),
        "rows": len(np.unique(result.rows)),
        "folds": len(np.unique(result.folds)),
        "planned_folds": len(plan.folds),
        "models": [{name: plain(value) for name, value in row.items()} for row in result.table()],
        "recommendation": result.recommendation,
        "not_compared": result.failures,
        "notes": list(result.notes),
        "skipped_rows": skipped,
    }


def _display(result: Comparison) -> Any:
    from ordinalgp.plots import ModelComparisonDisplay
    from ordinalgp.plots.base import file_axes

    size = 2.4 * len(result.scores) + 1.6, 0.34 * len(result.models) + 1.1
    return ModelComparisonDisplay.from_comparison(result, ax=file_axes(size))


def check_outputs(table: Path | None, picture: Path | None, inputs: Sequence[Path]) -> None:
    """Raise before the work if a table or a picture could not be written."""
    if table is not None:
        check_table_output(table, inputs)
    if picture is not None:
        check_output(picture, inputs)
        _check_picture(picture)
    if table is not None and picture is not None:
        check_different(table, picture)


def _check_picture(path: Path) -> None:
    """Raise unless pictures of this kind can be drawn."""
    from ordinalgp.plots.base import file_axes

    known = file_axes().figure.canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in known:
        raise BadInput(
            f"--plot {path}: the name must end in one of {', '.join(f'.{k}' for k in known)}."
        )


def draw(path: Path, display: Any) -> None:
    """Write a picture, whole or not at all."""
    picture = io.BytesIO()
    display.figure_.savefig(picture, format=path.suffix[1:].lower(), dpi=120)
    with whole_file(path) as file:
        file.write(picture.getvalue())
