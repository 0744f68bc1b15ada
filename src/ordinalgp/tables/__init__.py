"""Models for tables with named columns, and reading, encoding and writing of tables."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ordinalgp.tables.cuts import cut_levels
from ordinalgp.tables.model import TableModel
from ordinalgp.tables.reading import Reading

if TYPE_CHECKING:
    from ordinalgp.tables.comparison import Comparison, compare
    from ordinalgp.tables.cross_validation import HeldOut
    from ordinalgp.tables.explanation import Explanations, explain
    from ordinalgp.tables.importance import Importance

__all__ = [
    "Comparison",
    "Explanations",
    "HeldOut",
    "Importance",
    "Reading",
    "TableModel",
    "compare",
    "cut_levels",
    "explain",
]

_HOMES = {
    "Comparison": "comparison",
    "compare": "comparison",
    "Explanations": "explanation",
    "HeldOut": "cross_validation",
    "Importance": "importance",
    "explain": "explanation",
}


def __getattr__(name: str) -> Any:
    """Import a tool when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'ordinalgp.tables' has no attribute {name!r}")
    return getattr(import_module(f"ordinalgp.tables.{_HOMES[name]}"), name)
