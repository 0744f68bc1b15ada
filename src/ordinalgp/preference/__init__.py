"""Learning from comparisons [Wang10]_: :class:`PreferenceGP`, and what its methods return."""

from ordinalgp.preference.estimator import PreferenceGP
from ordinalgp.preference.judges import Reliability
from ordinalgp.preference.ranking import Ranking

__all__ = ["PreferenceGP", "Ranking", "Reliability"]
