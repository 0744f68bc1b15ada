"""Probabilistic least squares [Srijith12]_: :class:`LeastSquaresOrdinalClassifier`."""

from ordinalgp.least_squares.estimator import LeastSquaresOrdinalClassifier

__all__ = ["LeastSquaresOrdinalClassifier"]
