"""Collaborative ordinal regression [Yu06]_: :class:`CollaborativeOrdinalGP`.

.. [Yu06] S. Yu, K. Yu, V. Tresp and H.-P. Kriegel, "Collaborative ordinal regression", ICML 2006.
"""

from ordinalgp.collaborative.estimator import CollaborativeOrdinalGP

__all__ = ["CollaborativeOrdinalGP"]
