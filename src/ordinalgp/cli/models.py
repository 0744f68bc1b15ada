"""The models that ``--model`` names."""

from typing import Any

import ordinalgp
from ordinalgp.cli.common import check_choice

_MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "gp": ("OrdinalGPClassifier", {"inference": "ep"}),
    "laplace": ("OrdinalGPClassifier", {"inference": "laplace"}),
    "least-squares": ("LeastSquaresOrdinalClassifier", {}),
    "sparse": ("SparseBayesOrdinalClassifier", {}),
}


def available() -> list[str]:
    """Names of the models that this version has."""
    return [name for name, (cls, _) in _MODELS.items() if hasattr(ordinalgp, cls)]


def make(name: str, **options: Any) -> Any:
    """The estimator of that name, unfitted."""
    check_choice("--model", name, available())
    cls, fixed = _MODELS[name]
    return getattr(ordinalgp, cls)(**fixed, **options)
