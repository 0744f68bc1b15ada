"""Asking people which of two items is better: a page in the browser, and the answers it collects.

``ordinalgp ask items.csv`` starts the server. The answers are in a file of SQLite, which
:func:`ordinalgp.preference.read_store` reads.
"""

from ordinalgp.ask.items import Items, named_items
from ordinalgp.ask.store import Answer, Store
from ordinalgp.ask.survey import Survey, levels_for

__all__ = ["Answer", "Items", "Store", "Survey", "levels_for", "named_items"]
