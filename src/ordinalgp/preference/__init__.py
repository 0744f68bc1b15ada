"""Learning from comparisons [Wang10]_: :class:`PreferenceGP` and :class:`Ranking`."""

from ordinalgp.preference.estimator import PreferenceGP
from ordinalgp.preference.ranking import Ranking

__all__ = ["PreferenceGP", "Ranking"]
