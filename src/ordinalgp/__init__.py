"""Gaussian processes for ordered outcomes and preferences.

Importing the package is quick: estimators and modules are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ordinalgp.baselines import IncrementalOrdinalSVC, KernelDiscriminantOrdinal, OrdinalSVC
    from ordinalgp.collaborative import CollaborativeOrdinalGP
    from ordinalgp.gp import OrdinalGPClassifier
    from ordinalgp.least_squares import LeastSquaresOrdinalClassifier
    from ordinalgp.models.effects import Effects, LevelEffects
    from ordinalgp.persistence import load
    from ordinalgp.preference import PreferenceGP, Ranking, Reliability
    from ordinalgp.sequential import SequentialOrdinalGP
    from ordinalgp.sparse import SparseBayesOrdinalClassifier
    from ordinalgp.stacking import StackedOrdinalGP

__version__ = "0.1.0"

__all__ = [
    "CollaborativeOrdinalGP",
    "Effects",
    "IncrementalOrdinalSVC",
    "KernelDiscriminantOrdinal",
    "LeastSquaresOrdinalClassifier",
    "LevelEffects",
    "OrdinalGPClassifier",
    "OrdinalSVC",
    "PreferenceGP",
    "Ranking",
    "Reliability",
    "SequentialOrdinalGP",
    "SparseBayesOrdinalClassifier",
    "StackedOrdinalGP",
    "__version__",
    "load",
]

_HOMES = {
    "CollaborativeOrdinalGP": "collaborative",
    "Effects": "models.effects",
    "IncrementalOrdinalSVC": "baselines",
    "KernelDiscriminantOrdinal": "baselines",
    "LeastSquaresOrdinalClassifier": "least_squares",
    "LevelEffects": "models.effects",
    "OrdinalGPClassifier": "gp",
    "OrdinalSVC": "baselines",
    "PreferenceGP": "preference",
    "Ranking": "preference",
    "Reliability": "preference",
    "SequentialOrdinalGP": "sequential",
    "SparseBayesOrdinalClassifier": "sparse",
    "StackedOrdinalGP": "stacking",
    "load": "persistence",
}
_MODULES = (
    "ask",
    "baselines",
    "collaborative",
    "datasets",
    "decisions",
    "gp",
    "hyperpriors",
    "imputation",
    "kernels",
    "least_squares",
    "metrics",
    "model_selection",
    "plots",
    "preference",
    "report",
    "sequential",
    "sparse",
    "stacking",
    "tables",
)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in _MODULES:
        return import_module(f"ordinalgp.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'ordinalgp' has no attribute {name!r}")
    found = getattr(import_module(f"ordinalgp.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Public names, also those that were not used yet."""
    return sorted({*globals(), *__all__, *_MODULES})
