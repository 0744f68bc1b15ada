"""Array types of signatures, and marks that say what a model file may hold in a field."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Axes:
    """Shape and range of a saved field, checked when a model file is read.

    ``names`` has one word per axis; equal words are equal lengths. Values lie from ``low`` to
    below ``high``, a number or the name of an axis. ``kinds`` are letters of ``dtype.kind``, by
    default that of the annotated type. No names: a number.
    """

    names: str = ""
    low: float | None = None
    high: float | str | None = None
    kinds: str | None = None


@dataclass(frozen=True)
class Tagged:
    """A saved field whose class has a tag in this group, such as "likelihood" or "kernel"."""

    group: str


@dataclass(frozen=True)
class Plain:
    """A saved field of numbers, text, None, and lists or tuples of these."""


LABELS = "biufUSMO"
"""kinds of arrays that hold labels"""
FINITE = (-np.finfo(float).max, np.inf)
POSITIVE = (float(np.nextafter(0.0, 1.0)), np.inf)
