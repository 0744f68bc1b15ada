"""Collaborative ordinal regression [Yu06]_: :class:`CollaborativeOrdinalGP`."""

from ordinalgp.collaborative.estimator import CollaborativeOrdinalGP

__all__ = ["CollaborativeOrdinalGP"]
