"""What a file keeps of a fitted ``PreferenceGP``, and how it comes back."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ordinalgp._typing import FloatArray
from ordinalgp.core.gaussian import Sites
from ordinalgp.core.projections import SparseProjection
from ordinalgp.core.search import Task, objective_named
from ordinalgp.preference.comparisons import Observations
from ordinalgp.preference.symmetric_probit import SymmetricProbit
from ordinalgp.validation.memory import check_memory
from ordinalgp.validation.options import allows_missing, check_kernel

_INFERENCES = ("ep", "laplace")
_FINITE = (-np.finfo(float).max, np.inf)
_POSITIVE = (np.nextafter(0.0, 1.0), np.inf)
_ATTRIBUTES: dict[str, tuple[Any, ...]] = {  # saved as they are
    "levels_": ("biufUSMO", "r"),
    "log_marginal_likelihood_value_": ("f", ""),
    "evidence_path_": ("f", "evaluations"),
    "converged_": ("b", ""),
    "n_iter_": ("i", ""),
}
_STATE: dict[str, tuple[Any, ...]] = _ATTRIBUTES | {
    "feature_names": ("O", "names"),
    "item_names": ("biufUSMO", "items"),
    "inputs": ("f", "N d"),
    "columns": ("i", "entries", 0, "N"),
    "coefficients": ("f", "entries", *_FINITE),
    "lengths": ("i", "M", 0, np.inf),
    "codes": ("i", "M", 0, "r"),
    "counts": ("f", "M", *_POSITIVE),
    "tau": ("f", "M", 0.0, np.inf),
    "nu": ("f", "M", *_FINITE),
    "kernel": ("O", ""),
    "noise": ("f", "", *_POSITIVE),
    "steps": ("f", "steps", *_POSITIVE),
    "bias": ("f", "", *_FINITE),
    "biased": ("b", ""),
    "free_noise": ("b", ""),
    "unit": ("f", "", *_POSITIVE),
    "inference": ("U", ""),
    "max_sweeps": ("iu", ""),
    "tol": ("iuf", ""),
}
_LIKELIHOOD = ("noise", "steps", "bias", "biased", "free_noise", "unit")


class PreferenceState:
    """Gives the estimator ``_get_state`` and ``_set_state``, for :mod:`ordinalgp.persistence`."""

    _state_spec = _STATE
    kernel: Any
    _fitted_task: Task
    _sites: Sites
    likelihood_: SymmetricProbit
    levels_: NDArray[Any]
    items_: NDArray[Any]
    n_features_in_: int
    feature_names_in_: Any
    _check_parameters: Any
    _task: Any
    _keep: Any

    @property
    def _nameless(self) -> bool:
        """Whether items are told apart by features, not by names."""
        return not isinstance(self.kernel, str)

    def _get_state(self) -> dict[str, Any]:
        """Collect what a file keeps: all but the factor of the posterior."""
        self._check_parameters()
        task = self._fitted_task
        matrix = sparse.csr_array(task.projection.matrix)  # type: ignore[attr-defined]
        smoothings = {objective_named(word, "evidence")[0]: word for word in _INFERENCES}
        return (
            {name: getattr(self, name) for name in _ATTRIBUTES}
            | {
                "feature_names": getattr(self, "feature_names_in_", np.empty(0, dtype=object)),
                "item_names": getattr(self, "items_", np.empty(0)),
                "inputs": task.X,
                "columns": matrix.indices.astype(np.intp),
                "coefficients": matrix.data,
                "lengths": np.diff(matrix.indptr).astype(np.intp),
                "codes": task.y,
                "counts": task.counts,
                "tau": self._sites.tau,
                "nu": self._sites.nu,
                "kernel": task.kernel,
                "inference": smoothings[task.smoothing],
                "max_sweeps": task.max_sweeps,
                "tol": task.tol,
            }
            | {name: getattr(self.likelihood_, name) for name in _LIKELIHOOD}
        )

    def _set_state(self, state: dict[str, Any]) -> None:
        """Become the fitted estimator of a file; one factorisation."""
        self._check_parameters()
        _check_parts(state, named=not self._nameless)
        X: FloatArray = state["inputs"]
        ends = np.concatenate([[0], np.cumsum(state["lengths"])])
        shape = (len(state["lengths"]), len(X))
        matrix = sparse.csr_array((state["coefficients"], state["columns"], ends), shape=shape)
        observed = Observations(SparseProjection(matrix), state["codes"], state["counts"])
        n_levels = len(state["levels_"])
        smoothing, objective = objective_named(state["inference"], "evidence")
        task = replace(
            self._task(X, state["kernel"], observed, n_levels),
            likelihood=SymmetricProbit(
                n_levels=n_levels, **{name: state[name] for name in _LIKELIHOOD}
            ),
            smoothing=smoothing,
            objective=objective,
            max_sweeps=state["max_sweeps"],
            tol=state["tol"],
        )
        for name in _ATTRIBUTES:
            setattr(self, name, state[name])
        self.n_features_in_ = X.shape[1]
        if len(state["feature_names"]):
            self.feature_names_in_ = state["feature_names"]
        if not self._nameless:
            self.items_ = state["item_names"]
        self._keep(task, Sites(state["tau"], state["nu"]))


def _check_parts(state: dict[str, Any], *, named: bool) -> None:
    """Raise unless the parts of a saved state agree, and fit into memory."""
    kernel, X = state["kernel"], state["inputs"]
    check_kernel(kernel)
    check_memory(len(X), n_matrices=4)
    parts = {
        "steps": len(state["steps"]) == (len(state["levels_"]) - 1) // 2,
        "levels_": len(state["levels_"]) >= 2,
        "lengths": np.sum(state["lengths"]) == len(state["columns"]),
        "item_names": len(state["item_names"]) == (len(X) if named else 0),
        "feature_names": len(state["feature_names"]) in (0, X.shape[1]),
        "inputs": not np.isinf(X).any() and (allows_missing(kernel) or not np.isnan(X).any()),
        "kernel": np.all(np.isfinite(kernel.theta)),
        "inference": state["inference"] in _INFERENCES,
    }
    wrong = [name for name, fits in parts.items() if not fits]
    if wrong:
        raise ValueError(f"{', '.join(wrong)} and the rest of the state disagree")
