"""Models that ``--model`` names."""

from typing import Any

import ordinalgp
from ordinalgp.cli.common import check_choice
from ordinalgp.tables.model import KERNELS

_MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "gp": ("OrdinalGPClassifier", {"inference": "ep"}),
    "laplace": ("OrdinalGPClassifier", {"inference": "laplace"}),
    "least-squares": ("LeastSquaresOrdinalClassifier", {}),
    "sparse": ("SparseBayesOrdinalClassifier", {}),
}
_SPARSE_KERNELS = {"rbf": "gaussian", "exponential": "exponential", "auto": "auto"}
KERNEL_WORDS = (*KERNELS, "auto")


def available() -> list[str]:
    """Names of the models that this version has."""
    return [name for name, (cls, _) in _MODELS.items() if hasattr(ordinalgp, cls)]


def make(name: str, kernel: str | None, **options: Any) -> tuple[Any, str | None]:
    """Unfitted estimator of that name, and the kernel to give it once its features are known.

    The sparse model finds the width of its functions itself, so it takes their kind alone.
    """
    check_choice("--model", name, available())
    cls, fixed = _MODELS[name]
    if name != "sparse":
        word = "ard" if kernel is None else kernel
        check_choice("--kernel", word, KERNELS)
        return getattr(ordinalgp, cls)(**fixed, **options), word
    word = "auto" if kernel is None else kernel
    check_choice("--kernel", word, tuple(_SPARSE_KERNELS))
    return getattr(ordinalgp, cls)(_SPARSE_KERNELS[word], **options), None
