"""Numbers as people write them in tables."""

import math
import re


def _pattern(decimal: str, groups: str) -> re.Pattern[str]:
    mark, thousands = re.escape(decimal), rf"[1-9]\d{{0,2}}([{groups}])\d{{3}}(?:\1\d{{3}})*"
    return re.compile(rf"[+-]?(?:{thousands}|\d+)?(?:{mark}\d*)?(?:[eE][+-]?\d+)?")


_SPACES = " '’\u00a0\u2009\u202f"
NUMBERS = {".": _pattern(".", f",{_SPACES}"), ",": _pattern(",", rf"\.{_SPACES}")}
"""numbers with each decimal mark; thousands may be set apart"""
TWO_READINGS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")
"""numbers such as 1,234: with another decimal mark they are other numbers"""
_UNIT = re.compile(r"[%‰$€£¥₹]")


def number(text: str, decimal: str = ".") -> float | None:
    """The finite number that ``text`` writes, or None.

    Thousands may be set apart: 1,234.5 or, with a decimal comma, 1.234,5; also by blanks.
    """
    if decimal == ".":
        try:
            value = float(text)
        except ValueError:
            return _grouped(text, decimal)
        # Python reads 1_2 as twelve, but in a table it is somebody's code.
        return value if math.isfinite(value) and "_" not in text else None
    return _grouped(text, decimal)


def _grouped(text: str, decimal: str) -> float | None:
    # A spreadsheet puts an apostrophe before numbers that are texts.
    plain = text.strip().removeprefix("'").replace("−", "-")
    if not NUMBERS[decimal].fullmatch(plain):
        return None
    digits = "".join(c for c in plain if c.isalnum() or c in "+-" or c == decimal)
    try:
        value = float(digits.replace(decimal, "."))
    except ValueError:  # a mark alone
        return None
    return value if math.isfinite(value) else None


def unit(text: str) -> str:
    """The currency or percent sign before or after a number, if there is one."""
    found = _UNIT.match(text.lstrip("+-−")) or _UNIT.match(text[-1:])
    return "" if found is None else found[0]


def without_unit(text: str, sign: str) -> str:
    """A number without its sign; "-$5" is -5."""
    return text.replace(sign, "", 1).strip() if sign else text
