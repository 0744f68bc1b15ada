"""Progress of a fit: a live line on a terminal, a summary elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live
from rich.text import Text

from ordinalgp.runtime.progress import Progress, Stage, listening

_BARS = "▁▂▃▄▅▆▇█"
_MOST_BARS = 24  # the line fits into 80 characters
_COUNTED: dict[Stage, str] = {
    "search": "evaluations",
    "pass": "passes",
    "em": "iterations",
    "basis": "rounds",
    "model": "models",
}


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
            self._print(_pass_line(progress))
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
                counted = f"{len(values)} {_COUNTED[stage]}"
                self._print(f"log evidence {values[0]:.3f} -> {max(values):.3f} in {counted}")

    def _print(self, line: str) -> None:
        # Not wrapped: a log is searched line by line.
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)


def _pass_line(progress: Progress) -> str:
    if progress.total is not None:  # within a pass
        return progress.text
    return f"pass {progress.step}: {progress.text}"


def _sparkline(progress: Progress, values: list[float]) -> Text:
    shown, best = values[-_MOST_BARS:], max(values)
    low = min(shown)
    steps = [int(7 * (v - low) / (best - low)) if best > low else 7 for v in shown]
    line = Text(f"log evidence {best:12.3f}  ", style="bold")
    line.append("".join(_BARS[step] for step in steps), style="cyan")
    counted = f"  {len(values)} {_COUNTED[progress.stage]}, {progress.seconds:.1f} s"
    return line.append(counted, style="dim")


@contextmanager
def showing_progress() -> Iterator[None]:
    """Show the progress of every fit inside the ``with`` block on the error stream."""
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        view = ProgressView(console, None)
        with listening(view.show):
            yield
        view.finish()
        return
    live = Live(console=console, redirect_stdout=False, redirect_stderr=False)
    with live, listening(ProgressView(console, live).show):
        yield
