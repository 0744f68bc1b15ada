"""The evidence while a model is fitted: live on a terminal, one line elsewhere."""

import io
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

_EVALUATION = re.compile(r"evaluation\s+\d+: (-?[\d.]+)")
_SEARCH = re.compile(r"start \d+/\d+: best ")
_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 40


class _Watch(io.TextIOBase):
    """Reads what estimators report with ``verbose=2``; passes on everything else."""

    def __init__(self, stream: Any, live: Live | None) -> None:
        self.values: list[float] = []
        self._begun = ""
        self._stream, self._live, self._started = stream, live, time.perf_counter()

    def write(self, text: str) -> int:
        """Take reports, line by line."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            if found := _EVALUATION.search(line):
                self.values.append(float(found[1]))
                if self._live is not None:
                    self._live.update(self._line())
            elif not _SEARCH.match(line):
                self._stream.write(f"{line}\n")
        return len(text)

    def _line(self) -> Text:
        shown, best = self.values[-_WIDTH:], max(self.values)
        low = min(shown)
        steps = [int(7 * (v - low) / (best - low)) if best > low else 7 for v in shown]
        line = Text(f"log evidence {best:12.3f}  ", style="bold")
        line.append("".join(_BARS[step] for step in steps), style="cyan")
        seconds = time.perf_counter() - self._started
        return line.append(f"  {len(self.values)} evaluations, {seconds:.1f} s", style="dim")


@contextmanager
def watching() -> Iterator[None]:
    """Show the evidence of every estimator that is fitted inside with ``verbose=2``."""
    stream = sys.stderr
    screen = Console(file=stream)
    if not screen.is_terminal:
        watch = _Watch(stream, None)
        with redirect_stderr(watch):
            yield
        if watch.values:
            first, best = watch.values[0], max(watch.values)
            print(f"log evidence {first:.3f} -> {best:.3f}", file=stream)
        return
    live = Live(console=screen, redirect_stdout=False, redirect_stderr=False)
    with live, redirect_stderr(_Watch(stream, live)):
        yield
