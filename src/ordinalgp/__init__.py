"""Gaussian processes for ordered outcomes and preferences."""

from ordinalgp.baselines import IncrementalOrdinalSVC, KernelDiscriminantOrdinal, OrdinalSVC
from ordinalgp.collaborative import CollaborativeOrdinalGP
from ordinalgp.gp import OrdinalGPClassifier
from ordinalgp.least_squares import LeastSquaresOrdinalClassifier
from ordinalgp.persistence import load
from ordinalgp.preference import PreferenceGP, Ranking
from ordinalgp.sequential import SequentialOrdinalGP
from ordinalgp.sparse import SparseBayesOrdinalClassifier
from ordinalgp.stacking import StackedOrdinalGP

__version__ = "0.1.0.dev0"

__all__ = [
    "CollaborativeOrdinalGP",
    "IncrementalOrdinalSVC",
    "KernelDiscriminantOrdinal",
    "LeastSquaresOrdinalClassifier",
    "OrdinalGPClassifier",
    "OrdinalSVC",
    "PreferenceGP",
    "Ranking",
    "SequentialOrdinalGP",
    "SparseBayesOrdinalClassifier",
    "StackedOrdinalGP",
    "__version__",
    "load",
]
