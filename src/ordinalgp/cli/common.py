"""Options, plain errors, printed tables and progress that the commands share."""

import csv
import errno
import json
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any, Literal

import typer
from rich import box
from rich.console import Console, RenderHook
from rich.live import Live
from rich.segment import Segment
from rich.table import Table
from rich.text import Text
from typer import Option

import ordinalgp
from ordinalgp.runtime.progress import STEP_NAMES, Progress, Stage, listening
from ordinalgp.tables import TableModel
from ordinalgp.tables.advice import COMMAND_LINE
from ordinalgp.tables.cells import BadInput, BadRows, composed
from ordinalgp.tables.files import Format, TableFile
from ordinalgp.tables.monotone import sentence
from ordinalgp.tables.summary import DECISIONS, ERRORS, RULE, SCORES, importance_in_words

_BAR = 8  # characters of the longest bar
_SCORE_WIDTH = 13  # characters of a column of scores: four fit into 80
_BARS = "▁▂▃▄▅▆▇█"
_MOST_REASONS = 10  # columns that are left out, of which the reason is printed
_COLUMNS_SHOWN = 40  # the most important ones; --json has all
_MOST_BARS = 24  # the line fits into 80 characters
_NO_FONT = re.compile(r"Glyph (\d+) .*missing from ")
_MOST_BOXES = 10  # characters without a font that a note shows
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # tabs and ends of lines aside

Json = Annotated[bool, Option("--json", help="Print the result as JSON.")]
Separator = Annotated[
    str | None, Option(help="Separator of cells: , ; | tab ... (default: detected)")
]
Decimal = Annotated[str | None, Option(help="Decimal mark of numbers: . or , (default: detected)")]
Encoding = Annotated[str | None, Option(help="Encoding of text files (default: detected).")]
Missing = Annotated[
    list[str] | None,
    Option(
        metavar="WORD,...",
        help="Words for a missing value, beside empty cells, NA, N/A, NaN, NULL, ? and the like.",
    ),
]
Sheet = Annotated[str | None, Option(help="Sheet of an Excel file (default: the first).")]


def one_of(allowed: Sequence[str], text: str) -> Any:
    """Option whose value is one of several words."""
    return Option(metavar="|".join(allowed), help=text)


def output(text: str) -> Any:
    """Option with the file or folder to write."""
    return Option("--output", "-o", help=text)


def names(text: str) -> Any:
    """Option with comma-separated names of columns."""
    return Option(metavar="NAME,...", help=text)


NOT_CONVERGED = (
    "The model can be used, but a better one may exist. Leave out columns that say little "
    "(--drop), or choose a kernel with fewer length scales (--kernel rbf) or another --model."
)
_ON_BAD_ROWS = "Rows with unreadable cells: stop and name them, or skip and count them."
OnBadRows = Annotated[str, one_of(("error", "skip"), _ON_BAD_ROWS)]


@contextmanager
def plain_errors() -> Iterator[None]:
    """Report bad input on the error stream, exit with code 2; show warnings as notes."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            yield
        _tell_warnings(caught)
    except (ValueError, TypeError, OSError, MemoryError, ImportError) as error:
        if _is_closed_pipe(error):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
        note(f"Error: {_in_words(error)}")
        raise typer.Exit(2) from error


def _tell_warnings(caught: Iterable[warnings.WarningMessage]) -> None:
    """Print each warning for users once; those on letters without a font together."""
    # Among them what did not converge.
    told = [str(each.message) for each in caught if issubclass(each.category, UserWarning)]
    boxes = [chr(int(found[1])) for text in told if (found := _NO_FONT.match(text))]
    for text in dict.fromkeys(text for text in told if not _NO_FONT.match(text)):
        note(f"Warning: {text}")
    if boxes:
        shown = " ".join(list(dict.fromkeys(boxes))[:_MOST_BOXES])
        note(
            f"Warning: pictures show boxes in place of some characters ({shown}), as the font of "
            "matplotlib lacks them. Tables and pages show them. For pictures, set font.family in "
            "a matplotlibrc file to a font that has them."
        )


def _in_words(error: Exception) -> str:
    """Message of an error; those of the operating system without their number."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return (
            f"The output cannot be written: {error.strerror}. Free some space, or write elsewhere."
        )
    what = "A file" if error.filename is None else repr(error.filename)
    return f"{what} cannot be read or written: {error.strerror}."


def _is_closed_pipe(error: Exception) -> bool:
    """Whether the reader of the output has had enough; Windows calls it an invalid argument."""
    if isinstance(error, BrokenPipeError):
        return True
    invalid = isinstance(error, OSError) and error.errno == errno.EINVAL and error.filename is None
    return invalid and sys.platform == "win32"


def heed_interrupts() -> None:
    """Let Ctrl-C raise KeyboardInterrupt: a shell starts background jobs with it ignored."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def note(text: str) -> None:
    """Print a note on the error stream."""
    print(printable(text), file=sys.stderr)


def tell(text: str = "") -> None:
    """Print a line of the result."""
    print(printable(text))


def printable(text: str) -> str:
    """A text whose control characters are written out: they would be commands to a terminal."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


class _Printable:
    """Content of a console, its texts made printable."""

    def __init__(self, content: Any) -> None:
        self._content = content

    def __rich_console__(self, console: Console, options: Any) -> Iterator[Segment]:
        for text, style, control in console.render(self._content, options):
            yield Segment(text if control else printable(text), style, control)


class _PrintableHook(RenderHook):
    def process_renderables(self, renderables: list[Any]) -> list[Any]:
        """Make all that is printed printable."""
        return [_Printable(each) for each in renderables]


def console() -> Console:
    """Console that results are printed on."""
    screen = Console(highlight=False, soft_wrap=False)
    screen.push_render_hook(_PrintableHook())
    return screen


def print_json(result: Any) -> None:
    """Print a result as JSON."""
    print(json.dumps(result, ensure_ascii=False, allow_nan=False))


def words(given: Sequence[str] | None) -> tuple[str, ...]:
    """Split comma-separated options, given once or several times; quotes protect commas."""
    try:
        rows = list(csv.reader(given or [], skipinitialspace=True))
    except csv.Error:
        raise BadInput(f"{given!r} is not a list of names, separated by commas.") from None
    found = (composed(word.strip()) for row in rows for word in row)
    return tuple(word for word in found if word)


def check_coverage(coverage: float) -> None:
    """Raise unless ``--coverage`` is a probability."""
    if not 0 <= coverage <= 1:
        raise BadInput(f"--coverage must be between 0 and 1, but is {coverage}.")


def check_choice(name: str, value: str, allowed: Sequence[str]) -> str:
    """Return ``value``, or raise an error that lists what is allowed."""
    if value not in allowed:
        raise BadInput(f"{name} must be one of {', '.join(allowed)}, but {value!r} was given.")
    return value


def table_file(
    path: Path,
    on_bad_rows: str,
    separator: str | None,
    decimal: str | None,
    encoding: str | None,
    missing: Sequence[str] | None = None,
    sheet: str | None = None,
) -> TableFile:
    """File to read, as the options say."""
    policy = check_choice("--on-bad-rows", on_bad_rows, ("error", "skip"))
    if decimal is not None:
        check_choice("--decimal", decimal, (".", ","))
    style = Format(_separator_named(separator), decimal, encoding, words(missing), sheet)
    said: set[str] = set()

    def say(text: str) -> None:
        if text not in said:  # a file may be read several times
            note(text)
        said.add(text)

    return TableFile(path, style, BadRows(policy, str(path)), COMMAND_LINE, say)


def as_in_training(file: TableFile, model: TableModel) -> TableFile:
    """File that is read by the conventions of a model's training file."""
    kept = model.reading
    if kept is None:
        return file
    words = (*file.style.missing, *kept.missing)
    return replace(file, style=replace(file.style, missing=words, usual_decimal=kept.decimal))


def tell_left_out(left_out: Mapping[str, str]) -> None:
    """Print the columns that are no features, and why."""
    for reason in list(left_out.values())[:_MOST_REASONS]:
        note(reason)
    if len(left_out) > _MOST_REASONS:
        note(f"... and {len(left_out) - _MOST_REASONS:,} more columns were left out.")


def tell_skipped(rows: BadRows) -> None:
    """Print the rows that were skipped."""
    if rows.skipped:
        told = "1 bad row" if rows.skipped == 1 else f"{rows.skipped} bad rows"
        more = "" if rows.skipped <= len(rows.examples) else ", among them"
        note(f"Skipped {told} of {rows.source}{more}:")
        for example in rows.examples:
            note(f"  {example}")


def load_model(path: Path) -> TableModel:
    """Read a model that ``ordinalgp fit`` wrote."""
    return table_model(ordinalgp.load(path), path)


def table_model(model: Any, path: Path) -> TableModel:
    """The model of a file if it is one of a table; else an error."""
    if not isinstance(model, TableModel):
        raise BadInput(
            f"{path} holds a {type(model).__name__} that was saved from Python, without the "
            "encoding of a table. Use it from Python, or make a model with ordinalgp fit."
        )
    return model


def _separator_named(separator: str | None) -> str | None:
    """Separator from its name or character on the command line."""
    named = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}
    found = named.get(separator, separator) if separator else None
    if found is not None and len(found) != 1:
        raise BadInput(f"--separator must be one character or tab, but {separator!r} was given.")
    return found


def grid(*columns: str, left: int = 1) -> Table:
    """A table without lines; the first ``left`` columns hold words, the others numbers."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for place, column in enumerate(columns):
        justify: Literal["left", "right"] = "left" if place < left else "right"
        table.add_column(column, justify=justify, vertical="bottom")
    return table


def score_grid() -> Table:
    """A table with one column per score, whose long names take several lines."""
    return grid("", *(fill(name, _SCORE_WIDTH) for name in SCORES.values()))


def print_summary(summary: dict[str, Any], dropped: Sequence[str] = ()) -> None:
    """Print the result of ``summarise``."""
    out = console()
    name = summary["model"] + (f" ({summary['inference']})" if summary["inference"] else "")
    features = "1 feature" if summary["features"] == 1 else f"{summary['features']} features"
    out.print(f"[bold]{name}[/], {summary['rows']} rows, {features}")
    for table in (_levels(summary), _columns(summary)):
        out.print()
        out.print(table)
    out.print(f"\n{RULE}", style="dim")
    if summary["columns"][0]["importance"] is not None:
        out.print(f"\n{importance_in_words(len(summary['columns']))}", style="dim")
    if summary["weights"] is not None:
        out.print()
        out.print(_weights(summary["weights"]))
        out.print(f"\n{summary['mixture']}", markup=False)
    elif summary["model"] == "SparseBayesOrdinalClassifier":
        shared = "All features share one length scale"
        out.print(f"\n{shared}; the functions are {summary['kernel']}.", markup=False)
    if dropped:
        out.print(f"\nColumns left out on request: {', '.join(dropped)}.", markup=False)
    if summary["monotone"]:
        out.print()
    for agreement in summary["monotone"] or []:
        out.print(sentence(agreement), markup=False)
    evidence = summary["log_evidence"]
    outcome = "converged" if summary["converged"] else "NOT converged"
    if evidence is not None:
        noise = summary["noise"]  # none where every step has its own
        told = "" if noise is None else f" Noise sd {noise:.3f}."
        out.print(f"\nLog evidence {evidence:.3f}, {outcome}.{told}")
        if not summary["converged"]:
            out.print(NOT_CONVERGED)
    scored = summary["cross_validation"] or summary["leave_one_out"]
    if scored:
        print_validation(scored)
        out.print("\nThe same rows under each decision (--decision), lower is better:\n")
        print_decisions(summary["decisions"])


def print_validation(scored: dict[str, Any]) -> None:
    """Print the scores of rows that a model has not seen, or of left-out ones."""
    out = console()
    what = "Scores on rows not seen" if "verdict" in scored else "Leave-one-out scores"
    out.print(f"\n[bold]{what}[/] (lower is better). {scored['method']} {DECISIONS}\n")
    print_scores({name: scored[name] for name in ("model", "baseline")})
    if "verdict" in scored:
        out.print(f"\n{scored['verdict']}", markup=False)


def _weights(weights: dict[str, float]) -> Table:
    table = grid("model in the mixture", "weight", "")
    table.columns[-1].justify = "left"
    for name, weight in sorted(weights.items(), key=lambda item: -item[1]):
        bar = "█" * round(_BAR * weight / max(weights.values()))
        table.add_row(*map(Text, [name, f"{weight:.1%}", bar]))
    return table


def _levels(summary: dict[str, Any]) -> Table:
    scale = summary["thresholds"] is not None
    table = grid("level", "rows", "share", *(["latent from", "to"] if scale else []))
    for level in summary["levels"]:
        ends = ["" if end is None else f"{end:.3f}" for end in (level["from"], level["to"])] * scale
        table.add_row(Text(str(level["level"])), str(level["rows"]), f"{level['share']:.1%}", *ends)
    return table


def _columns(summary: dict[str, Any]) -> Table:
    columns = summary["columns"]
    ranked = columns[0]["importance"] is not None
    gaps = any(column["missing"] for column in columns)
    heads = ["missing"] * gaps + ["importance"] * ranked
    table = grid("column", "encoded as", *heads, left=2)
    if ranked:
        columns = sorted(columns, key=lambda column: -column["importance"])
    for column in columns[:_COLUMNS_SHOWN]:
        cells = [f"{column['importance']:.3f} ± {column['importance_error']:.3f}"] if ranked else []
        if gaps:
            filled = f"{column['missing']} -> {column['filled_with']}" if column["missing"] else ""
            cells = [filled, *cells]
        table.add_row(*map(Text, [column["name"], column["rule"], *cells]))
    if len(columns) > _COLUMNS_SHOWN:
        table.add_row(f"{len(columns) - _COLUMNS_SHOWN} more, all with --json")
    return table


def print_scores(results: dict[str, dict[str, float]]) -> None:
    """Print scores, one line per model."""
    named = {"model": "this model", "baseline": "level frequencies"}
    table = score_grid()
    for name, values in results.items():
        table.add_row(Text(named.get(name, name)), *(f"{values[score]:.3f}" for score in SCORES))
    console().print(table)


def print_decisions(decisions: list[dict[str, Any]]) -> None:
    """Print the errors of every decision rule."""
    table = grid("decision", *(fill(name, _SCORE_WIDTH) for name in ERRORS.values()))
    for row in decisions:
        table.add_row(Text(row["decision"]), *(f"{row[error]:.3f}" for error in ERRORS))
    console().print(table)


def print_intervals(intervals: list[dict[str, float]]) -> None:
    """Print the measured coverage and the width of intervals."""
    table = grid("coverage", "rows inside", "mean levels")
    for row in intervals:
        cells = f"{row['coverage']:.0%}", f"{row['inside']:.1%}", f"{row['levels']:.2f}"
        table.add_row(*map(Text, cells))
    console().print(table)


@dataclass(eq=False)
class ProgressView:
    """Draws the progress of one stage after the other.

    Passes over many rows take long, so each is a line of its own. Of other stages a terminal shows
    the current one live; elsewhere :meth:`finish` prints one line per stage.
    """

    console: Console
    live: Live | None
    values: dict[Stage, list[float]] = field(default_factory=dict)
    """objective after every step of the last run of a stage"""

    def show(self, progress: Progress) -> None:
        """Show one step."""
        if progress.stage == "fold":
            self._show_fold(progress)
            return
        if progress.stage == "pass":
            number = f"pass {progress.step}: " if progress.total is None else ""  # a whole pass
            self._print(number + progress.text)
            return
        if progress.step == 1 and not progress.done:  # a new run of the stage
            self.values[progress.stage] = []
        values = self.values.setdefault(progress.stage, [])
        if progress.value is None:
            return
        if not progress.done or progress.value not in values:  # the end repeats the best step
            values.append(progress.value)
        if self.live is not None:
            self.live.update(_sparkline(progress, values))

    def _show_fold(self, progress: Progress) -> None:
        """Name the fold that is being fitted; a terminal shows it live."""
        if self.live is None:
            if progress.step:
                line = f"fold {progress.step} of {progress.total}, {progress.seconds:.1f} s"
                self._print(line)
            return
        done = progress.step == progress.total
        text = (
            f"{progress.total} folds" if done else f"fold {progress.step + 1} of {progress.total}"
        )
        self.live.update(Text(f"{text}, {progress.seconds:.1f} s", style="bold"))

    def finish(self) -> None:
        """Print the first and the best objective of each stage, unless they were shown live."""
        for stage, values in self.values.items():
            if values and self.live is None:
                counted = f"{len(values)} {STEP_NAMES[stage]}s"
                self._print(f"log evidence {values[0]:.3f} -> {max(values):.3f} in {counted}")

    def _print(self, line: str) -> None:
        # Not wrapped: a log is searched line by line.
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


def _sparkline(progress: Progress, values: list[float]) -> Text:
    shown, best = values[-_MOST_BARS:], max(values)
    low = min(shown)
    steps = [int(7 * (v - low) / (best - low)) if best > low else 7 for v in shown]
    line = Text(f"log evidence {best:12.3f}  ", style="bold")
    line.append("".join(_BARS[step] for step in steps), style="cyan")
    counted = f"  {len(values)} {STEP_NAMES[progress.stage]}s, {progress.seconds:.1f} s"
    return line.append(counted, style="dim")


@contextmanager
def showing_progress() -> Iterator[None]:
    """Show the progress of every fit inside the ``with`` block on the error stream."""
    screen = Console(file=sys.stderr)
    live = None
    if screen.is_terminal:
        live = Live(console=screen, redirect_stdout=False, redirect_stderr=False)
    view = ProgressView(screen, live)
    with live or nullcontext(), listening(view.show):
        yield
    view.finish()
