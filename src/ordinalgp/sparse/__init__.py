"""Sparse Bayesian ordinal regression [Li18]_: :class:`SparseBayesOrdinalClassifier`."""

from ordinalgp.sparse.estimator import SparseBayesOrdinalClassifier

__all__ = ["SparseBayesOrdinalClassifier"]
