"""Models for tables with named columns, and reading, encoding and writing of tables."""

from ordinalgp.tables.model import TableModel

__all__ = ["TableModel"]
