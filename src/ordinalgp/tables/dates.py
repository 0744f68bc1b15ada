"""Dates and times in tables, as numbers of days.

Read are 2024-05-31, 2024/5/31, 31.5.2024, 31-May-2024 and May 31, 2024, each with or without a time
of day, and 2024-05, which is the first of the month. An offset such as +02:00 is left out: the time
is that on the wall. 5/31/2024 is not read, as 5/6/2024 is two dates.
"""

import re
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import BoolArray, FloatArray

_TIME = (
    r"(?:[T ]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,6})\d*)?)? ?(?:Z|UTC|[+-]\d{2}:?\d{2})?)?"
)
_YEAR_FIRST = re.compile(r"(\d{4})([-/])(\d{1,2})\2(\d{1,2})" + _TIME)
_DAY_FIRST = re.compile(r"(\d{1,2})(\.)(\d{1,2})\2(\d{4})" + _TIME)
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = r"([A-Za-z]{3})[a-z]{0,6}\.?"
_NAMED_DAY_FIRST = re.compile(r"(\d{1,2})([-\s])" + _MONTH + r"[-\s](\d{4})" + _TIME)
_NAMED_MONTH_FIRST = re.compile(_MONTH + r"()\s(\d{1,2}),?\s(\d{4})" + _TIME)
_YEAR_AND_MONTH = re.compile(r"((?:19|20)\d{2})-(0[1-9]|1[0-2])")
_SLASHES = re.compile(r"\d{1,2}/\d{1,2}/(\d{4}|\d{2})\b.*")
_EPOCH = np.datetime64("1970-01-01", "us")
_DAY = np.timedelta64(1, "D")


def date(text: str) -> datetime | None:
    """The date and time that ``text`` writes, or None."""
    if (found := _YEAR_AND_MONTH.fullmatch(text)) is not None:
        return datetime(int(found[1]), int(found[2]), 1)
    for pattern, places in _PATTERNS:
        if (found := pattern.fullmatch(text)) is not None:
            return _moment(found, *(found[place] for place in places))
    return None


_PATTERNS = (
    (_YEAR_FIRST, (1, 3, 4)),
    (_DAY_FIRST, (4, 3, 1)),
    (_NAMED_DAY_FIRST, (4, 3, 1)),
    (_NAMED_MONTH_FIRST, (4, 1, 3)),
)
"""patterns of dates, with the places of year, month and day; the time of day is after them"""


def _moment(found: re.Match[str], year: str, month: str, day: str) -> datetime | None:
    name = month[:3].lower()
    number = _MONTHS.index(name) + 1 if name in _MONTHS else int(month) if month.isdigit() else 0
    hour, minute, second = (int(found[place] or 0) for place in (5, 6, 7))
    parts = int(year), number, int(day), hour, minute, second
    try:
        return datetime(*parts, int((found[8] or "").ljust(6, "0")))
    except ValueError:  # the 31st of February, or no month
        return None


def is_undecided(text: str) -> bool:
    """Whether ``text`` is a date such as 5/6/2024, of which nobody knows the month."""
    return _SLASHES.fullmatch(text) is not None


def dates(values: NDArray[Any]) -> tuple[NDArray[np.datetime64], BoolArray]:
    """Cells as dates, NaT for gaps, and the mask of those that hold something else."""
    if values.dtype.kind == "M":
        return values, np.zeros(len(values), dtype=bool)
    if values.dtype != object:
        return np.full(len(values), "NaT", dtype="M8[us]"), ~np.isnan(values)
    read = [None if cell is None else date(cell) for cell in values.tolist()]
    rows = zip(values.tolist(), read, strict=True)
    bad = np.array([cell is not None and day is None for cell, day in rows], dtype=bool)
    return np.array(read, dtype="M8[us]"), bad


def days(values: NDArray[np.datetime64]) -> FloatArray:
    """Days since 1970, NaN for gaps."""
    return np.where(np.isnat(values), np.nan, (values - _EPOCH) / _DAY)


def written(day: float) -> str:
    """Days since 1970 as a date, with the time of day if there is one."""
    moment = _EPOCH + np.timedelta64(round(day * 86400), "s")
    text = str(moment.astype("M8[s]"))
    return text.removesuffix("T00:00:00")
