"""Learning from comparisons [Wang10]_: :class:`PreferenceGP`, and what its methods return.

:func:`read_store` reads the answers that ``ordinalgp ask`` has collected.
"""

from ordinalgp.preference.estimator import PreferenceGP
from ordinalgp.preference.judges import Reliability
from ordinalgp.preference.ranking import Ranking
from ordinalgp.preference.store import StoredAnswers, read_store

__all__ = ["PreferenceGP", "Ranking", "Reliability", "StoredAnswers", "read_store"]
