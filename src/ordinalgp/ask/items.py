"""Items to ask about: their names, what is shown of them, and their features."""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ordinalgp._typing import FloatArray
from ordinalgp.ask.images import SUFFIXES, ImageFolder
from ordinalgp.tables.cells import BadCell, BadInput, Table, numbers, texts
from ordinalgp.tables.encoding import learn, parse_columns
from ordinalgp.tables.files import TableFile

MOST_ITEMS = 5000
"""items whose pairs are chosen while people wait"""
LONGEST_NAME = 120
LONGEST_TEXT = 100_000
"""characters of a cell that are shown"""
_MOST_SHOWN = 12  # columns
ALL_NUMBERS = "all"
"""value of --features: all columns of numbers"""
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
# Marks that turn around or isolate the text after them, also beyond the end of a name.
_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]")
_NOT_ON_A_LINE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_NOT_IN_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True)
class Part:
    """One cell of an item on the page: a text, or a picture."""

    label: str
    text: str = ""
    image: Path | None = None
    shortened: bool = False
    """whether the text is only the beginning of the cell"""


@dataclass(frozen=True, eq=False)
class Items:
    """Items to ask about, as they are shown.

    :func:`named_items` makes them from names. ``ordinalgp ask`` reads them from a table.

    Examples
    --------
    >>> from ordinalgp.ask import named_items
    >>> items = named_items(["tea", "milk"])
    >>> len(items), items.parts[0][0].text
    (2, 'tea')
    """

    names: list[str]
    """each different"""
    parts: list[tuple[Part, ...]]
    """what is shown of each"""
    X: FloatArray | None = None
    """encoded features, or None"""
    feature_names: tuple[str, ...] = ()
    folder: Path | None = None
    """folder that pictures are in"""
    notes: tuple[str, ...] = ()
    """remarks on how the file was read"""

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def digests(self) -> list[str]:
        """Digests of what is shown of each item, to notice changes."""
        return [_digest(parts) for parts in self.parts]


def _digest(parts: tuple[Part, ...]) -> str:
    shown = [(part.label, part.text, part.image and part.image.as_posix()) for part in parts]
    return hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:32]


def named_items(names: Sequence[str]) -> Items:
    """Items of which only a name is shown.

    Parameters
    ----------
    names : sequence of str
        Names; equal ones get a number.

    Returns
    -------
    Items
        Items for :class:`Store`.

    Examples
    --------
    >>> from ordinalgp.ask import named_items
    >>> named_items(["tea", "milk", "tea"]).names
    ['tea', 'milk', 'tea (2)']
    """
    given = [shown_text(name) for name in names]
    return Items(distinct_names(names), [(Part("", text),) for text, _ in given])


# --------------------------------------------------------------------------------- texts


def clean_name(text: str, longest: int = LONGEST_NAME) -> str:
    """A name on one line, without control characters and marks that turn text around."""
    plain = _NOT_ON_A_LINE.sub(" ", _TURNING.sub("", text[: 4 * longest]))
    name = " ".join(plain.split())
    return name if len(name) <= longest else name[: longest - 1] + "…"


def shown_text(text: str) -> tuple[str, bool]:
    """A text as it is shown, without control characters; and whether it was shortened."""
    kept = text[:LONGEST_TEXT].replace("\r\n", "\n").replace("\r", "\n")
    return _NOT_IN_TEXT.sub("\N{REPLACEMENT CHARACTER}", kept), len(text) > LONGEST_TEXT


def distinct_names(names: Iterable[str]) -> list[str]:
    """Clean names, each different: equal ones get a number."""
    found: list[str] = []
    seen: set[str] = set()
    for place, given in enumerate(names, start=1):
        first = name = clean_name(given) or f"item {place}"
        number = 1
        while name in seen:
            number += 1
            name = f"{first[: LONGEST_NAME - 8]} ({number})"
        seen.add(name)
        found.append(name)
    return found


# --------------------------------------------------------------------------------- files


def read_items(
    file: TableFile,
    name: str | None = None,
    features: Sequence[str] = (),
    show: Sequence[str] = (),
) -> Items:
    """Read the items of a table, one per row.

    ``name`` is the column with their names, by default the first. ``show`` are the columns on the
    page, by default those of texts and of pictures. ``features`` are columns for the model.
    """
    table = file.read()
    options = {"--name": [name] if name else [], "--show": show}
    for option, given in options.items():
        _require(table, given, option, file.path)
    key = name or next(iter(table.columns))
    features = _feature_columns(table, key, features, file.path)
    parsed, bad = parse_columns(table.without(set(table.columns) - set(features)))
    if parsed.left_out:
        reasons = " ".join(parsed.left_out.values())
        raise BadInput(f"{reasons} Leave such columns out of --features.")
    shown = _shown_columns(table, key, show, file.path)
    pictures = [column for column in shown if _is_image_column(table, column)]
    images = ImageFolder(file.path.resolve().parent)
    good = file.bad.drop(table, [*_unnamed(table, key), *_unusable(table, pictures, images), *bad])
    table, parsed = table.take(good), parsed.take(good)
    _check_number(len(table), file.path)
    keys = texts(table.columns[key]).tolist()
    names = distinct_names(keys)
    parts = list(_all_parts(table, shown, pictures, key, names))
    notes = tuple(_notes(keys, names, parts, shown))
    if not features:
        return Items(names, parts, folder=images.root, notes=notes)
    encoder = learn(parsed)
    return Items(
        names, parts, encoder.encode(parsed)[0], tuple(encoder.features), images.root, notes
    )


def _require(table: Table, columns: Sequence[str], option: str, path: Path) -> None:
    complaint = f"{path} has no column {{name}} for {option}. Its columns are {{columns}}."
    table.require(columns, complaint)


def _check_number(n: int, path: Path) -> None:
    if n < 2:
        raise BadInput(f"{path} has {n} item to compare. At least 2 are needed, one per line.")
    if n > MOST_ITEMS:
        raise BadInput(
            f"{path} has {n:,} items, but pairs are chosen among at most {MOST_ITEMS:,}. Ask about "
            "a part of them."
        )


def _unnamed(table: Table, key: str) -> list[BadCell]:
    """Cells of the names that are empty."""
    cells = texts(table.columns[key]).tolist()
    empty = np.array([cell is None for cell in cells], dtype=bool)
    return table.bad_cells(key, empty, lambda _: "the name is missing")


def _unusable(table: Table, pictures: Sequence[str], images: ImageFolder) -> list[BadCell]:
    """Cells whose pictures cannot be shown."""
    bad = []
    for column in pictures:
        cells = texts(table.columns[column]).tolist()
        reasons = [None if cell is None else images.problem(cell) for cell in cells]
        at = zip(table.lines.tolist(), reasons, strict=True)
        bad += [BadCell(line, column, reason) for line, reason in at if reason is not None]
    return bad


def _feature_columns(table: Table, key: str, features: Sequence[str], path: Path) -> list[str]:
    """Columns for the model: those that were named, or all of numbers."""
    if list(features) != [ALL_NUMBERS] or ALL_NUMBERS in table.columns:
        _require(table, features, "--features", path)
        return list(features)
    found = [column for column in table.columns if column != key and _is_numeric(table, column)]
    if not found:
        raise BadInput(f"{path} has no column of numbers for --features {ALL_NUMBERS}.")
    return found


def _shown_columns(table: Table, key: str, show: Sequence[str], path: Path) -> list[str]:
    """Columns on the page: those that were named, else texts and pictures; else the names."""
    if show:
        return list(dict.fromkeys(show))
    found = [column for column in table.columns if not _is_numeric(table, column)] or [key]
    if len(found) > _MOST_SHOWN:
        raise BadInput(
            f"{path} has {len(found)} columns of texts, which is more than people read. Name those "
            "to show with --show."
        )
    return found


def _is_numeric(table: Table, column: str) -> bool:
    """Whether a column holds numbers only."""
    values, bad = numbers(table.columns[column], table.decimal or ".")
    return not bad.any() and not np.isnan(values).all()


def _is_image_column(table: Table, column: str) -> bool:
    """Whether all cells of a column are paths of pictures."""
    cells = [cell for cell in texts(table.columns[column]).tolist() if cell is not None]
    return bool(cells) and all(
        cell.lower().endswith(SUFFIXES) and not _ADDRESS.match(cell) for cell in cells
    )


def _all_parts(
    table: Table, shown: Sequence[str], pictures: Sequence[str], key: str, names: Sequence[str]
) -> Iterable[tuple[Part, ...]]:
    """Parts that are shown of each item."""
    columns = {column: texts(table.columns[column]).tolist() for column in shown}
    for row, name in enumerate(names):
        cells = {column: values[row] for column, values in columns.items()}
        yield _parts(cells, pictures, key, name)


def _parts(
    cells: dict[str, str | None], pictures: Sequence[str], key: str, name: str
) -> tuple[Part, ...]:
    """Parts that are shown of one item; its name if there are none."""
    parts = []
    for column, cell in cells.items():
        if cell is None:
            continue
        label = "" if column == key else clean_name(column, 60)
        if column in pictures:
            parts.append(Part(label, clean_name(Path(cell).stem), Path(cell)))
        else:
            text, shortened = shown_text(cell)
            parts.append(Part(label, text, shortened=shortened))
    return tuple(parts) or (Part("", name),)


def _notes(
    keys: Sequence[str], names: Sequence[str], parts: Sequence[tuple[Part, ...]], shown: list[str]
) -> Iterable[str]:
    """Remarks for the person who starts the server."""
    yield f"{len(names)} items; shown: {', '.join(shown)}."
    numbered = sum(clean_name(key) != name for key, name in zip(keys, names, strict=True))
    if numbered:
        yield f"{numbered} names occur more than once or are empty, and were given numbers."
    cut = sum(part.shortened for each in parts for part in each)
    if cut:
        yield f"{cut} cells have more than {LONGEST_TEXT:,} characters; only those are shown."
