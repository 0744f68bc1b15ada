"""What a file keeps of a fitted ``OrdinalGPClassifier``, and how it comes back."""

from dataclasses import replace
from typing import Any

import numpy as np

from ordinalgp._rows import MergedRows
from ordinalgp._typing import FloatArray, IntArray
from ordinalgp._validation import allows_missing, check_kernel, check_memory, class_positions
from ordinalgp.core.gaussian import Sites
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.search import Task, objective_named

_OBJECTIVES = ("ep evidence", "ep bound", "laplace evidence")

_FINITE = (-np.finfo(float).max, np.inf)
_POSITIVE = (np.nextafter(0.0, 1.0), np.inf)
_ATTRIBUTES: dict[str, tuple[Any, ...]] = {  # saved as they are
    "categories_": ("biufUSMO", "r"),
    "classes_": ("biufUSMO", "k"),
    "log_marginal_likelihood_value_": ("f", ""),
    "evidence_path_": ("f", "evaluations"),
    "converged_": ("b", ""),
    "n_iter_": ("i", ""),
}
_STATE: dict[str, tuple[Any, ...]] = _ATTRIBUTES | {
    "feature_names": ("O", "names"),
    "inputs": ("f", "N d"),
    "latent": ("i", "M", 0, "N"),
    "codes": ("i", "M", 0, "r"),
    "counts": ("f", "M", *_POSITIVE),
    "observation": ("i", "n", -1, "M"),
    "left_out": ("f", "unused d"),
    "tau": ("f", "M", 0.0, np.inf),
    "nu": ("f", "M", *_FINITE),
    "kernel": ("O", ""),
    "noise": ("f", "", *_POSITIVE),
    "first": ("f", "", *_FINITE),
    "gaps": ("f", "gaps", *_POSITIVE),
    "unit": ("f", "", *_POSITIVE),
    "objective": ("U", ""),
    "max_sweeps": ("iu", ""),
    "tol": ("iuf", ""),
}


class GPState:
    """Gives the estimator ``_get_state`` and ``_set_state``, for :mod:`ordinalgp.persistence`."""

    _state_spec = _STATE
    _fitted_task: Task
    _sites: Sites
    _observation: IntArray
    _left_out: FloatArray
    likelihood_: OrdinalProbit
    n_features_in_: int
    feature_names_in_: Any
    _check_parameters: Any
    _task: Any
    _keep: Any

    def _get_state(self) -> dict[str, Any]:
        """Collect what a file keeps: all but the n x n factor."""
        self._check_parameters()
        task, likelihood = self._fitted_task, self.likelihood_
        named = {objective_named(*words.split()): words for words in _OBJECTIVES}
        return {name: getattr(self, name) for name in _ATTRIBUTES} | {
            "feature_names": getattr(self, "feature_names_in_", np.empty(0, dtype=object)),
            "inputs": task.X,
            "latent": task.projection.apply(np.arange(float(len(task.X)))).astype(np.intp),
            "codes": task.y,
            "counts": task.counts,
            "observation": self._observation,
            "left_out": self._left_out,
            "tau": self._sites.tau,
            "nu": self._sites.nu,
            "kernel": task.kernel,
            "noise": likelihood.noise,
            "first": likelihood.first,
            "gaps": likelihood.gaps,
            "unit": likelihood.unit,
            "objective": named[task.smoothing, task.objective],
            "max_sweeps": task.max_sweeps,
            "tol": task.tol,
        }

    def _set_state(self, state: dict[str, Any]) -> None:
        """Become the fitted estimator of a file; one Cholesky factorisation."""
        self._check_parameters()
        _check_parts(state)
        rows = MergedRows(
            *(state[k] for k in ("inputs", "latent", "codes", "counts", "observation", "left_out"))
        )
        smoothing, objective = objective_named(*state["objective"].split())
        task = replace(
            self._task(rows, state["kernel"], len(state["categories_"])),
            likelihood=OrdinalProbit(*(state[k] for k in ("noise", "first", "gaps", "unit"))),
            smoothing=smoothing,
            objective=objective,
            max_sweeps=state["max_sweeps"],
            tol=state["tol"],
        )
        for name in _ATTRIBUTES:
            setattr(self, name, state[name])
        self.n_features_in_ = rows.X.shape[1]
        if len(state["feature_names"]):
            self.feature_names_in_ = state["feature_names"]
        self._observation, self._left_out = rows.observation, rows.left_out
        self._keep(task, Sites(state["tau"], state["nu"]))


def _check_parts(state: dict[str, Any]) -> None:
    """Raise unless the parts of a saved state agree, and fit into memory."""
    kernel, X = state["kernel"], state["inputs"]
    check_kernel(kernel)
    check_memory(len(X), n_matrices=4)
    parts = {
        "gaps": len(state["gaps"]) + 2 == len(state["categories_"]),
        "classes_": np.all(class_positions(state["categories_"], state["classes_"]) >= 0),
        "feature_names": len(state["feature_names"]) in (0, X.shape[1]),
        "inputs": not np.isinf(X).any() and (allows_missing(kernel) or not np.isnan(X).any()),
        "kernel": np.all(np.isfinite(kernel.theta)),
        "objective": state["objective"] in _OBJECTIVES,
    }
    unused = int(np.sum(state["observation"] < 0))
    parts["left_out"] = state["left_out"].shape == (unused, X.shape[1])
    wrong = [name for name, fits in parts.items() if not fits]
    if wrong:
        raise ValueError(f"{', '.join(wrong)} and the rest of the state disagree")
