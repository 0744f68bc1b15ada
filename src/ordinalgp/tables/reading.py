"""Conventions of a training file that later files share."""

from dataclasses import dataclass
from typing import Annotated, Literal

from ordinalgp._typing import FINITE, Axes
from ordinalgp.persistence import saved_as


@saved_as("reading.table")
@dataclass(frozen=True)
class Reading:
    """Conventions that a model keeps of its training file.

    Examples
    --------
    >>> from ordinalgp.tables import Reading, TableModel
    >>> reading = Reading(missing=("none", "-9"))
    >>> table = {"hours": ["1", "2", "-9", "5", "none", "8"]}
    >>> grades = ["poor", "poor", "fair", "fair", "good", "good"]
    >>> categories = ["poor", "fair", "good"]
    >>> model = TableModel(kernel="rbf", categories=categories, reading=reading)
    >>> model.fit(table, grades).encoder_.features
    ['hours', 'hours missing']
    """

    missing: tuple[str, ...] = ()
    """words for a missing value, beside the usual ones"""
    decimal: Literal[".", ","] | None = None
    """decimal mark, where numbers can be read in two ways"""
    borders: tuple[Annotated[float, Axes("", *FINITE)], ...] = ()
    """borders at which the target was cut into levels"""
