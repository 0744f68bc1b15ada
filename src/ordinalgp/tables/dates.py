"""Dates and times in tables, as numbers of days.

Read are 2024-05-31, 2024/5/31 and 31.5.2024, each with or without a time of day. An offset such as
+02:00 is left out: the time is that on the wall. 5/31/2024 is not read, as 5/6/2024 is two dates.
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
_SLASHES = re.compile(r"\d{1,2}/\d{1,2}/(\d{4}|\d{2})\b.*")
_EPOCH = np.datetime64("1970-01-01", "us")
_DAY = np.timedelta64(1, "D")


def date(text: str) -> datetime | None:
    """The date and time that ``text`` writes, or None."""
    found = _YEAR_FIRST.fullmatch(text)
    order = (1, 3, 4)
    if found is None:
        found, order = _DAY_FIRST.fullmatch(text), (4, 3, 1)
    if found is None:
        return None
    year, month, day = (int(found[place]) for place in order)
    hour, minute, second = (int(found[place] or 0) for place in (5, 6, 7))
    try:
        return datetime(year, month, day, hour, minute, second, int((found[8] or "").ljust(6, "0")))
    except ValueError:  # the 31st of February
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
