"""Layout of text files: separator, quotes, titles, comments and the line of names; their rows."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Any

import numpy as np

from ordinalgp.tables.cells import BadCell, Table, cell_text, composed, objects
from ordinalgp.tables.numerals import number

_SEPARATORS = (",", ";", "\t", "|", " ")
_PROBE_LINES = 20  # lines that the layout is guessed from
_MOST_TITLES = 5  # lines above the names
_AROUND_TITLES = ' \t\r\n,;|"'
_LONGEST_CELL = 2**24
_Record = tuple[int, list[str], BadCell | None]
_DECLARED = re.compile(r'"?sep=(.)"?\s*')  # the first line of files for Excel


@contextmanager
def _long_cells() -> Iterator[None]:
    """Let the csv module read long cells; its limit is that of the whole process."""
    before = csv.field_size_limit()
    csv.field_size_limit(max(before, _LONGEST_CELL))
    try:
        yield
    finally:
        csv.field_size_limit(before)


@dataclass(frozen=True)
class TextLayout:
    """Separator, whether blanks repeat between cells, and lines before the names."""

    separator: str
    blanks: bool = False
    """whether any number of blanks and tabs separates cells"""
    after_quotes: bool = False
    """whether blanks stand between a quote and the separator"""
    skipped: int = 0
    title: str = ""
    """a title above the names, which is among the lines that are skipped"""

    @classmethod
    def find(cls, text: Any, separator: str | None) -> "TextLayout":
        """Guess the layout from the first lines of a file, which is then at its beginning."""
        lines = [*islice(text, _PROBE_LINES)]
        text.seek(0)
        with _long_cells():
            return cls._of(lines, separator)

    @classmethod
    def _of(cls, lines: list[str], separator: str | None) -> "TextLayout":
        skipped = next((at for at, line in enumerate(lines) if line.strip()), 0)
        declared = _DECLARED.fullmatch(lines[skipped]) if lines[skipped:] else None
        if declared is not None:
            skipped, separator = skipped + 1, separator or declared[1]
        places = [
            at for at in range(skipped, len(lines)) if lines[at].strip() and lines[at][0] != "#"
        ]
        plain, title, blanks = [lines[at] for at in places], "", False
        if n_titles := _titles(plain, separator):
            skipped, title = places[n_titles], plain[0].strip(_AROUND_TITLES)
            plain = plain[n_titles:]
        if separator is None:
            separator, blanks = _guess(plain)
        elif separator == " ":
            blanks = not _widths(plain, " ")[0]
        skipped += _comments(lines[skipped:], separator)
        after = re.compile(rf'"[ \t]+({re.escape(separator)}|\r?\n|$)')
        spaced = separator not in " \t" and any(after.search(line) for line in plain)
        return cls(separator, blanks, spaced, skipped, title)

    def records(self, text: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
        """Every record that is not empty, with the line that it starts on."""
        lines = islice(iter(text), self.skipped, None)
        skip = self.blanks or self.separator not in " \t"
        reader = csv.reader(
            self._tidied(lines), delimiter=self.separator, skipinitialspace=skip, strict=True
        )
        before = 0
        while True:
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                what = str(error).replace("unexpected end of data", "a quote is never closed")
                line = self.skipped + before + 1
                raise csv.Error(f"in the row that begins in line {line}, {what}") from error
            yield self.skipped + before + 1, row
            before = reader.line_num

    def _tidied(self, lines: Iterable[str]) -> Iterable[str]:
        if self.blanks:
            return (line.strip().replace("\t", " ") + "\n" for line in lines)
        if self.after_quotes:
            # Not after a doubled quote, which is part of a cell.
            ends = re.compile(rf'(?<!")"[ \t]+(?=[{re.escape(self.separator)}\r\n]|$)')
            return (ends.sub('"', line) for line in lines)
        return lines


def _titles(lines: list[str], separator: str | None) -> int:
    """Number of lines above the names, each with a single cell; they are titles."""
    candidates = _SEPARATORS[:-1] if separator is None else (separator,)
    for n in range(_MOST_TITLES):
        for mark in candidates:
            fit, width = _widths(lines[n:], mark, skipinitialspace=True)
            if fit and len(lines) - n > 1:
                rows = list(csv.reader(lines, delimiter=mark, skipinitialspace=True))
                return titles(rows) if width > 2 or n > 0 else 0
    return 0


def titles(rows: Sequence[Sequence[str]]) -> int:
    """Number of rows above the names of a table; names are several, and none is a number."""
    filled = [[cell for cell in row if cell.strip()] for row in rows[: _MOST_TITLES + 1]]
    first = next((at for at, cells in enumerate(filled) if len(cells) > 1), 0)
    names = filled[first] if first else []
    return first if names and not any(number(name) is not None for name in names) else 0


def left_out_title(title: str) -> str:
    """Sentence on a title above the names of the columns."""
    return f"{title!r:.60} was taken for a title, and left out."


def _comments(lines: list[str], separator: str) -> int:
    """Number of lines at the top that are comments, and no names such as "#id"."""
    plain = (at for at, line in enumerate(lines) if line.strip() and not line.startswith("#"))
    n = next(plain, 0)
    if n == 0:
        return 0
    around = lines[n - 1 : n + 1]
    last, first = (next(csv.reader([line], delimiter=separator), []) for line in around)
    names = len(last) == len(first) > 1 and not last[0][1:2].isspace()
    return n - 1 if names else n


def _widths(lines: list[str], separator: str, **options: Any) -> tuple[bool, int]:
    """Whether all lines have equally many cells, more than one; and the cells of the first."""
    try:
        cut = [len(row) for row in csv.reader(lines, delimiter=separator, **options) if row]
    except csv.Error:
        return False, 0
    return len(set(cut)) == 1 and cut[0] > 1, cut[0] if cut else 0


def _guess(lines: list[str]) -> tuple[str, bool]:
    """Separator that cuts all first lines into equally many cells, else the first into most.

    Blanks also stand inside of names, so they must cut all lines; several may be one separator.
    """
    counts = {s: _widths(lines, s, skipinitialspace=True) for s in _SEPARATORS[:-1]}
    best = max(counts, key=lambda s: (counts[s], -_SEPARATORS.index(s)))
    if counts[best][0]:
        return best, False
    if _widths(lines, " ")[0]:
        return " ", False
    wide = [line.strip().replace("\t", " ") for line in lines]
    if any("  " in line for line in wide) and _widths(wide, " ", skipinitialspace=True)[0]:
        return " ", True
    return (best if counts[best][1] > 1 else ","), False


def header(given: list[str], unit: str, width: int) -> tuple[list[str], tuple[str, ...]]:
    """Names of columns, each different, and problems with them."""
    given = given[:width]
    names = [composed(name.strip()) for name in given]
    found = [name or f"column {place}" for place, name in enumerate(names, start=1)]
    places: dict[str, list[int]] = {}
    for place, name in enumerate(found, start=1):
        places.setdefault(name, []).append(place)
    twice = {name: at for name, at in places.items() if len(at) > 1}
    problems = tuple(
        f"The first {unit} names the column {name!r} more than once: it is column "
        f"{' and '.join(map(str, at[:5]))}. Every column needs its own name."
        for name, at in list(twice.items())[:5]
    )
    if not twice:
        return found, ()
    names = [f"{name} ({at})" if name in twice else name for at, name in enumerate(found, 1)]
    return names, problems


def text_chunks(text: Iterable[str], layout: TextLayout, rows: int | None) -> Iterator[Table]:
    """Read ``rows`` at a time; rows that are too short or too long are bad cells of a table."""
    records = layout.records(text)
    with _long_cells():
        given = next((row for _, row in records if any(cell.strip() for cell in row)), [])
    names, problems = header(given, "line", len(given))
    named = next((n for n in range(len(given), 0, -1) if given[n - 1].strip()), len(given))
    fits = _Fit(names, named)
    body = (fits.record(at, row) for at, row in records if row or len(names) == 1)
    begun = False
    while chunk := _next(body, rows):
        whole = [(at, row) for at, row, bad in chunk if bad is None]
        columns = {
            name: objects(map(cell_text, map(itemgetter(place), (row for _, row in whole))))
            for place, name in enumerate(names)
        }
        lines = np.array([at for at, _ in whole], dtype=np.intp)
        bad = tuple(cell for _, _, cell in chunk if cell is not None)
        yield Table(columns, lines, problems=problems, bad=bad)
        begun = True
    if not begun and problems:
        yield Table({name: objects([]) for name in names}, np.empty(0, np.intp), problems=problems)


def _next(records: Iterator[_Record], rows: int | None) -> list[_Record]:
    """The next records; the limit of cells is raised no longer than that."""
    with _long_cells():
        return list(islice(records, rows))


@dataclass(frozen=True)
class _Fit:
    """Names of a file; separators at the end of a line do not make a cell."""

    names: list[str]
    named: int
    """cells up to the last name"""

    def record(self, line: int, row: list[str]) -> _Record:
        """A row of the right length, or the cell where it is too short or too long."""
        row = row or [""]
        n = len(self.names)
        if len(row) > n and not any(cell.strip() for cell in row[n:]):
            row = row[:n]
        if self.named <= len(row) < n:
            row = row + [""] * (n - len(row))
        if len(row) == n:
            return line, row, None
        ends = "the row goes on after it" if len(row) > n else "the row ends here"
        cells = "1 cell" if len(row) == 1 else f"{len(row)} cells"
        reason = f"{ends}, with {cells} where the first line names {n}"
        return line, row, BadCell(line, self.names[min(len(row), n) - 1], reason)
