"""What a file keeps of a fitted Gaussian process classifier, and how it comes back."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.models.state import _FINITE, _LABELLED, _POSITIVE, NamedFeatures, check_parts
from ordinalgp.models.training_rows import MergedRows
from ordinalgp.validation.memory import check_memory

_OBJECTIVES = ("ep evidence", "ep bound", "laplace evidence")

_ROWS = {
    "inputs": ("f", "N d"),
    "latent": ("i", "M", 0, "N"),
    "codes": ("i", "M", 0, "r"),
    "counts": ("f", "M", *_POSITIVE),
    "observation": ("i", "n", -1, "M"),
    "left_out": ("f", "unused d"),
}
_LINK = {
    "noise": ("f", "", *_POSITIVE),
    "first": ("f", "", *_FINITE),
    "gaps": ("f", "gaps", *_POSITIVE),
    "unit": ("f", "", *_POSITIVE),
}
_COMMON: dict[str, tuple[Any, ...]] = {
    **_LABELLED,
    "converged_": ("b", ""),
    "n_iter_": ("i", ""),
}


class LatentState(NamedFeatures):
    """Gives an estimator ``_get_state`` and ``_set_state``, for :mod:`ordinalgp.persistence`.

    Entries of ``_state_spec`` that end in an underscore are attributes, saved as they are.
    Subclasses add what is theirs by ``_own_state`` and read it by ``_restore``.
    """

    _state_spec: ClassVar[dict[str, tuple[Any, ...]]]
    _fitted_task: Any
    likelihood_: OrdinalProbit
    _observation: IntArray
    _left_out: FloatArray
    categories_: NDArray[Any]
    _check_parameters: Any
    _task: Any

    def _own_state(self) -> dict[str, Any]:
        raise TypeError(f"{type(self).__name__} does not say what a file keeps of it")

    def _restore(self, task: Any, state: dict[str, Any], link: OrdinalProbit) -> None:
        raise TypeError(f"{type(self).__name__} does not say how it comes back from a file")

    def _attributes(self) -> list[str]:
        return [name for name in self._state_spec if name.endswith("_")]

    def _get_state(self) -> dict[str, Any]:
        """Collect what a file keeps: all but the n x n factor."""
        self._check_parameters()
        task, link = self._fitted_task, self.likelihood_
        return {
            **{name: getattr(self, name) for name in self._attributes()},
            "feature_names": self._feature_names(),
            **self._saved_rows(),
            "kernel": task.kernel,
            **{name: getattr(link, name) for name in _LINK},
            **self._own_state(),
        }

    def _saved_rows(self) -> dict[str, Any]:
        task = self._fitted_task
        return {
            "inputs": task.X,
            "latent": task.projection.apply(np.arange(float(len(task.X)))).astype(np.intp),
            "codes": task.y,
            "counts": task.counts,
            "observation": self._observation,
            "left_out": self._left_out,
        }

    def _set_state(self, state: dict[str, Any]) -> None:
        """Become the fitted estimator of a file; one Cholesky factorisation."""
        self._check_parameters()
        _check_parts(state)
        rows = MergedRows(*(state[name] for name in _ROWS))
        for name in self._attributes():
            setattr(self, name, state[name])
        self._name_features(rows.X.shape[1], state["feature_names"])
        self._observation, self._left_out = rows.observation, rows.left_out
        task = self._task(rows, state["kernel"], len(state["categories_"]))
        self._restore(task, state, OrdinalProbit(*(state[name] for name in _LINK)))


def _check_parts(state: dict[str, Any]) -> None:
    """Raise unless the parts of a saved state agree, and fit into memory."""
    n, d = state["inputs"].shape
    check_memory(n, n_matrices=4)
    unused = int(np.sum(state["observation"] < 0))
    check_parts(
        state,
        "inputs",
        gaps=len(state["gaps"]) + 2 == len(state["categories_"]),
        objective=state.get("objective", _OBJECTIVES[0]) in _OBJECTIVES,
        left_out=state["left_out"].shape == (unused, d),
    )
