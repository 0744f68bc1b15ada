"""Words in which messages name what their reader can do: parameters, or options of a command."""

import csv
import io
import shlex
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Advice:
    """Advice in Python, or for the command line."""

    command_line: bool = False

    def leave_out(self, *names: str) -> str:
        """Advise to leave columns out."""
        if self.command_line:
            return f"Leave {_them(names)} out with {option('--drop', names)}"
        return f"Drop the column{'s'[: len(names) > 1]} {', '.join(map(repr, names))}"

    def nominal(self, *names: str) -> str:
        """Option that makes columns nominal."""
        return self._names("nominal", names)

    def numeric(self, *names: str) -> str:
        """Option that makes columns numeric."""
        return self._names("numeric", names)

    def categories(self, levels: Sequence[str]) -> str:
        """Option that gives the order of levels."""
        return self._names("categories", levels)

    def decimal(self, mark: str) -> str:
        """Option that gives the decimal mark."""
        return option("--decimal", [mark], csv_row=False) if self.command_line else f"{mark!r}"

    def missing(self, word: str) -> str:
        """Advise what to do if a word means a missing value."""
        if self.command_line:
            return option("--missing", [word])
        return f"None in place of {word!r}"

    def cut(self) -> str:
        """Option that cuts a target into levels."""
        if self.command_line:
            return "--cut 5 (levels of equally many rows) or --cut-at 10,20,30"
        return "ordinalgp.tables.cut_levels(values, cut=5)"

    def skip_rows(self) -> str:
        """Advise what to do with bad rows."""
        if self.command_line:
            return "Correct them, or skip them with --on-bad-rows skip."
        return "Correct these rows, or leave them out."

    def _names(self, word: str, names: Sequence[str]) -> str:
        return option(f"--{word}", names) if self.command_line else f"{word}={list(names)!r}"


PYTHON = Advice()
COMMAND_LINE = Advice(command_line=True)


def option(name: str, values: Sequence[str], *, csv_row: bool = True) -> str:
    """An option as a shell reads it; commas within a value are protected by quotes."""
    row = io.StringIO()
    csv.writer(row, lineterminator="").writerow(values)
    return f"{name} {shlex.quote(row.getvalue() if csv_row else values[0])}"


def listed(names: Sequence[str], most: int = 20) -> str:
    """Names in a sentence; of many only the first."""
    more = f", ... and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _them(names: Sequence[str]) -> str:
    return "it" if len(names) == 1 else "them"
