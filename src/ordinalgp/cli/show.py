"""Printed tables of results, and the progress of fits."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from textwrap import fill
from typing import Any, Literal

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ordinalgp.cli.common import console
from ordinalgp.runtime.progress import STEP_NAMES, Progress, Stage, listening
from ordinalgp.tables.summary import RULE, SCORES

_BAR = 8  # characters of the longest bar
_SCORE_WIDTH = 13  # characters of a column of scores: four fit into 80
_BARS = "▁▂▃▄▅▆▇█"
_MOST_BARS = 24  # the line fits into 80 characters


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
    out.print(f"[bold]{name}[/], {summary['rows']} rows, {summary['features']} features")
    for table in (_levels(summary), _columns(summary)):
        out.print()
        out.print(table)
    out.print(f"\n{RULE}", style="dim")
    if summary["columns"][0]["relevance"] is None:
        out.print(_one_length_scale(summary), markup=False)
    if dropped:
        out.print(f"Columns left out on request: {', '.join(dropped)}.", markup=False)
    evidence = summary["log_evidence"]
    outcome = "converged" if summary["converged"] else "NOT converged"
    if evidence is not None:
        out.print(f"\nLog evidence {evidence:.3f}, {outcome}. Noise sd {summary['noise']:.3f}.")
    if summary["leave_one_out"]:
        out.print("\nLeave-one-out scores (lower is better):\n")
        print_scores(summary["leave_one_out"])


def _one_length_scale(summary: dict[str, Any]) -> str:
    shared = "All features share one length scale"
    if summary["model"] == "SparseBayesOrdinalClassifier":
        return f"{shared}; the functions are {summary['kernel']}."
    return f"{shared}; --kernel ard shows which columns matter."


def _levels(summary: dict[str, Any]) -> Table:
    table = grid("level", "rows", "share", "latent from", "to")
    for level in summary["levels"]:
        ends = ["" if end is None else f"{end:.3f}" for end in (level["from"], level["to"])]
        table.add_row(Text(str(level["level"])), str(level["rows"]), f"{level['share']:.1%}", *ends)
    return table


def _columns(summary: dict[str, Any]) -> Table:
    columns = summary["columns"]
    ranked = columns[0]["relevance"] is not None
    gaps = any(column["missing"] for column in columns)
    heads = ["missing"] * gaps + ["relevance", ""] * ranked
    table = grid("column", "encoded as", *heads, left=2)
    if ranked:
        columns = sorted(columns, key=lambda column: -column["relevance"])
        table.columns[-1].justify = "left"
        largest = max(columns[0]["relevance"], 1e-12)
    for column in columns:
        share = column["relevance"]
        cells = [f"{share:.1%}", "█" * round(_BAR * share / largest)] if ranked else []
        if gaps:
            filled = f"{column['missing']} -> {column['filled_with']}" if column["missing"] else ""
            cells = [filled, *cells]
        table.add_row(*map(Text, [column["name"], column["rule"], *cells]))
    return table


def print_scores(results: dict[str, dict[str, float]]) -> None:
    """Print scores, one line per model."""
    named = {"model": "this model", "baseline": "level frequencies"}
    table = score_grid()
    for name, values in results.items():
        table.add_row(Text(named.get(name, name)), *(f"{values[score]:.3f}" for score in SCORES))
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
    console = Console(file=sys.stderr)
    live = None
    if console.is_terminal:
        live = Live(console=console, redirect_stdout=False, redirect_stderr=False)
    view = ProgressView(console, live)
    with live or nullcontext(), listening(view.show):
        yield
    view.finish()
