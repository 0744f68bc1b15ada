"""Gaussian processes for ordered outcomes and preferences."""

from ordinalgp.collaborative import CollaborativeOrdinalGP
from ordinalgp.gp import OrdinalGPClassifier
from ordinalgp.least_squares import LeastSquaresOrdinalClassifier
from ordinalgp.persistence import load

__version__ = "0.1.0.dev0"

__all__ = [
    "CollaborativeOrdinalGP",
    "LeastSquaresOrdinalClassifier",
    "OrdinalGPClassifier",
    "__version__",
    "load",
]
