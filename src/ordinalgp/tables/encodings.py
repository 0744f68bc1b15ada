"""Encodings of text files, detected."""

import codecs
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ordinalgp.tables.advice import Advice
from ordinalgp.tables.cells import BadInput

_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark is the beginning of this one
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_STEP = 2**20
_SHOWN = 12  # characters on each side of the first one that is not ASCII
_CONTROL = frozenset(range(32)) - set(b"\t\n\r\f\v\x1a\x1b\x1c\x1d\x1e\x1f") - {8}


def find_encoding(path: Path, file: Any, advice: Advice, say: Callable[[str], None]) -> str:
    """Encoding of an open file, which is then at its beginning again.

    It is that of a byte order mark; UTF-16 if every other byte is zero; UTF-8 if all bytes fit; or
    else that of Windows in Western Europe, which is said.
    """
    start = file.read(_STEP)
    file.seek(0)
    for mark, encoding in _MARKS.items():
        if start.startswith(mark):
            return encoding
    if (wide := _utf_16(start)) is not None:
        say(f"{path} has no mark of its encoding and was read as {wide}.")
        return wide
    problem = _first_problem(file)
    file.seek(0)
    if problem is None:
        return "utf-8"
    place, around = problem
    if around is None:
        raise BadInput(
            f"{path} has a null byte at {place:,}, so it is not a text file, or damaged. "
            "A CSV, Parquet or Excel file is needed."
        )
    fits, shown = _windows(around)
    if not fits:
        raise BadInput(
            f"{path} is not text in UTF-8 (byte {place:,}), nor in an encoding of Windows. Name "
            f"its encoding with {_option(advice)}, or check that it is a CSV, Parquet or Excel "
            "file."
        )
    say(
        f"{path} is not UTF-8 and was read as cp1252 (Windows, Western Europe), with texts such as "
        f"{shown!r}. If that looks wrong, name its encoding with {_option(advice)}."
    )
    return "cp1252"


def _option(advice: Advice) -> str:
    return "--encoding" if advice.command_line else "encoding="


def _utf_16(start: bytes) -> str | None:
    """UTF-16 without a mark: most characters are ASCII, so every other byte is zero."""
    pairs = len(start) // 2
    if pairs < 2:
        return None
    even, odd = start[: 2 * pairs : 2].count(0), start[1 : 2 * pairs : 2].count(0)
    if odd > 0.8 * pairs and even == 0:
        return "utf-16-le"
    return "utf-16-be" if even > 0.8 * pairs and odd == 0 else None


def _first_problem(file: Any) -> tuple[int, bytes | None] | None:
    """First place that is not UTF-8, with the bytes around it, or first null byte."""
    decoder, done = codecs.getincrementaldecoder("utf-8")(), 0
    while True:
        step = file.read(_STEP)
        if 0 in step:
            return done + step.index(0), None
        kept = decoder.getstate()[0]
        try:
            decoder.decode(step, final=not step)
        except UnicodeDecodeError as error:
            whole = kept + step
            place = error.start
            return done - len(kept) + place, whole[max(0, place - _SHOWN) : place + _SHOWN]
        if not step:
            return None
        done += len(step)


def _windows(around: bytes) -> tuple[bool, str]:
    """Whether bytes are text in cp1252, and the word in the middle."""
    try:
        text = around.decode("cp1252")
    except UnicodeDecodeError:
        return False, ""
    words = re.split(r'[\s",;]+', text)
    strange = [word for word in words if not word.isascii()]
    fits = not any(byte in _CONTROL for byte in around)
    return fits and bool(strange), strange[0] if strange else ""
