"""Gaussian process ordinal regression [Chu05]_: :class:`OrdinalGPClassifier`."""

from ordinalgp.gp.estimator import OrdinalGPClassifier

__all__ = ["OrdinalGPClassifier"]
