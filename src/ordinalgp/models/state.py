"""What the states of classifiers have in common, as files keep them."""

from typing import Any

import numpy as np

from ordinalgp.validation.labels import class_positions
from ordinalgp.validation.options import allows_missing, check_kernel

_FINITE = (-np.finfo(float).max, np.inf)
_POSITIVE = (np.nextafter(0.0, 1.0), np.inf)
_LABELLED: dict[str, tuple[Any, ...]] = {
    "categories_": ("biufUSMO", "r"),
    "classes_": ("biufUSMO", "k"),
    "feature_names": ("O", "names"),
    "kernel": ("O", ""),
}


class NamedFeatures:
    """Number and names of features, in a state as in a fitted estimator."""

    n_features_in_: int
    feature_names_in_: Any

    def _feature_names(self) -> Any:
        return getattr(self, "feature_names_in_", np.empty(0, dtype=object))

    def _name_features(self, n_features: int, names: Any) -> None:
        self.n_features_in_ = n_features
        if len(names):
            self.feature_names_in_ = names


def check_parts(state: dict[str, Any], inputs: str, **parts: Any) -> None:
    """Raise unless the parts of a saved state agree: those of all classifiers, and some more."""
    kernel, X = state["kernel"], state[inputs]
    check_kernel(kernel)
    parts |= {
        "classes_": np.all(class_positions(state["categories_"], state["classes_"]) >= 0),
        "feature_names": len(state["feature_names"]) in (0, X.shape[1]),
        inputs: not np.isinf(X).any() and (allows_missing(kernel) or not np.isnan(X).any()),
        "kernel": np.all(np.isfinite(kernel.theta)),
    }
    wrong = [name for name, fits in parts.items() if not fits]
    if wrong:
        raise ValueError(f"{', '.join(wrong)} and the rest of the state disagree")
