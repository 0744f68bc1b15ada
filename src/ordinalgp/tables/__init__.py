"""Models for tables with named columns: reading, encoding, and what the command line saves."""

from ordinalgp.tables.model import TableModel

__all__ = ["TableModel"]
