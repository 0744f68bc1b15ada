"""Sizes in bytes, and the memory that arrays need."""

import math
import os
from contextlib import suppress
from pathlib import Path
from typing import Any


def check_bytes(name: str, value: Any) -> float:
    """Return a number of bytes, also from text like "512MB" or "1.5 GB" (powers of ten)."""
    units = {"": 1.0, "B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
    text = str(value).strip().upper()
    number = text.rstrip("BKMGT ")
    try:
        size = float(number) * units[text[len(number) :].strip()]
    except (KeyError, ValueError):
        size = math.nan
    if isinstance(value, bool) or not 0 < size < math.inf:
        raise ValueError(
            f"{name} must be a positive number of bytes or text like '512MB' or '1GB', "
            f"but is {value!r}."
        )
    return size


def available_memory() -> int | None:
    """Bytes that new arrays can take, or None where the system does not tell."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if "MemAvailable" in line))
    with suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def check_memory(n_rows: int, n_matrices: int = 8) -> None:
    """Raise MemoryError if ``n_matrices`` matrices of (n_rows, n_rows) doubles do not fit."""
    needed, free = n_matrices * 8 * n_rows**2, available_memory()
    if free is None or needed <= free:
        return
    raise MemoryError(
        f"{n_rows} rows need about {needed / 1e9:.1f} GB of memory, but {free / 1e9:.1f} GB is "
        f"free. Fit a subsample of at most {math.isqrt(free // (8 * n_matrices))} rows, "
        "or use a machine with more memory."
    )
