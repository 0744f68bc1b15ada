"""Mixtures of models by their leave-one-out predictions: :class:`StackedOrdinalGP`."""

from ordinalgp.stacking.estimator import StackedOrdinalGP

__all__ = ["StackedOrdinalGP"]
