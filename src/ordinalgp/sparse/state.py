"""What a file keeps of a sparse Bayesian classifier: the model, and its rows to go on with."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.models.latent_state import _LINK
from ordinalgp.models.state import _FINITE, _LABELLED, _POSITIVE, NamedFeatures, check_parts
from ordinalgp.models.training_rows import NumberedRows
from ordinalgp.sparse.training_loop import Relevant

_ROWS = {
    "inputs": ("f", "N d"),
    "latent": ("i", "M", 0, "N"),
    "codes": ("i", "M", 0, "r"),
    "counts": ("f", "M", *_POSITIVE),
    "first_row": ("i", "N", 0, np.inf),
}


class SparseState(NamedFeatures):
    """Gives the estimator ``_get_state`` and ``_set_state``, for :mod:`ordinalgp.persistence`."""

    _state_spec: ClassVar[dict[str, tuple[Any, ...]]] = {
        **_LABELLED,
        "converged_": ("b", ""),
        "n_iter_": ("i", ""),
        "n_rows_seen_": ("i", ""),
        "log_marginal_likelihood_value_": ("f", ""),
        "evidence_path_": ("f", "steps"),
        "evidence_moves_": ("U", "steps"),
        "width_path_": ("f", "widths two"),
        "width_rows_": ("i", ""),
        **_ROWS,
        "candidates": ("i", "C", 0, "N"),
        "index": ("i", "P", 0, "C"),
        "alpha": ("f", "P", *_POSITIVE),
        "weights": ("f", "P", *_FINITE),
        "covariance": ("f", "P P", *_FINITE),
        **_LINK,
    }
    _rows: NumberedRows
    _candidates: IntArray
    _model: Relevant
    _check_parameters: Any
    _keep: Any
    kernel_: Any
    weights_covariance_: FloatArray
    categories_: NDArray[Any]

    def _attributes(self) -> list[str]:
        return [name for name in self._state_spec if name.endswith("_")]

    def _get_state(self) -> dict[str, Any]:
        """Collect what a file keeps."""
        self._check_parameters()
        model = self._model
        return {
            **{name: getattr(self, name) for name in self._attributes()},
            "feature_names": self._feature_names(),
            "kernel": self.kernel_,
            **{name: getattr(self._rows, name) for name in _ROWS},
            "candidates": self._candidates,
            **{name: getattr(model, name) for name in ("index", "alpha", "weights")},
            "covariance": self.weights_covariance_,
            **{name: getattr(model.likelihood, name) for name in _LINK},
        }

    def _set_state(self, state: dict[str, Any]) -> None:
        """Become the fitted estimator of a file."""
        self._check_parameters()
        _check_parts(state)
        for name in self._attributes():
            setattr(self, name, state[name])
        self._name_features(state["inputs"].shape[1], state["feature_names"])
        likelihood = OrdinalProbit(*(state[name] for name in _LINK))
        model = Relevant(state["index"], state["alpha"], state["weights"], likelihood)
        rows = NumberedRows(*(state[name] for name in _ROWS))
        self._keep(rows, state["candidates"], state["kernel"], model, state["covariance"])


def _check_parts(state: dict[str, Any]) -> None:
    """Raise unless the parts of a saved state agree."""
    check_parts(
        state,
        "inputs",
        gaps=len(state["gaps"]) + 2 == len(state["categories_"]),
        noise=state["noise"] == 1.0,
        candidates=np.all(np.diff(state["candidates"]) > 0),
        index=len(np.unique(state["index"])) == len(state["index"]) > 0,
        first_row=np.all(state["first_row"] < state["n_rows_seen_"]),
        width_path_=state["width_path_"].shape[1] == 2,
    )
