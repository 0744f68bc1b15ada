"""Models for tables with named columns, and reading, encoding and writing of tables."""

from ordinalgp.tables.cuts import cut_levels
from ordinalgp.tables.model import TableModel
from ordinalgp.tables.reading import Reading

__all__ = ["Reading", "TableModel", "cut_levels"]
