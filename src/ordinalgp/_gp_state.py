"""What a file keeps of a fitted Gaussian process classifier, and how it comes back."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ordinalgp._rows import MergedRows
from ordinalgp._state import _FINITE, _LABELLED, _POSITIVE, NamedFeatures, check_parts
from ordinalgp._typing import FloatArray, IntArray
from ordinalgp._validation import check_memory
from ordinalgp.core.gaussian import Sites
from ordinalgp.core.induced_evidence import InducedTask
from ordinalgp.core.inducing import Inducing
from ordinalgp.core.least_squares import RankNoise
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.objectives import ep_evidence, laplace_evidence
from ordinalgp.core.search import Task, objective_named
from ordinalgp.core.streaming import InducedPosterior

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


class GPState(LatentState):
    """The state of ``OrdinalGPClassifier``: sites, and how they were found.

    With inducing points, these are the inputs, there are no rows, and the posterior of the
    whitened inducing values is kept instead of sites.
    """

    _state_spec: ClassVar[dict[str, tuple[Any, ...]]] = {
        **_COMMON,
        **_ROWS,
        **_LINK,
        "log_marginal_likelihood_value_": ("f", ""),
        "evidence_path_": ("f", "evaluations"),
        "tau": ("f", "M", 0.0, np.inf),
        "nu": ("f", "M", *_FINITE),
        "precision": ("f", "P P"),
        "shift": ("f", "P", *_FINITE),
        "objective": ("U", ""),
        "max_sweeps": ("iu", ""),
        "tol": ("iuf", ""),
    }
    _sites: Sites
    _posterior: Any
    _keep: Any
    _keep_induced: Any
    _apart: FloatArray | None

    def _saved_rows(self) -> dict[str, Any]:
        if not hasattr(self, "inducing_points_"):
            return super()._saved_rows()
        none, nothing = np.empty(0, dtype=np.intp), np.empty(0)
        Z = self._fitted_task.Z
        rows = MergedRows(Z, none, none, nothing, none, np.empty((0, Z.shape[1])))
        names = ("X", "latent", "codes", "counts", "observation", "left_out")
        return dict(zip(_ROWS, (getattr(rows, name) for name in names), strict=True))

    def _own_state(self) -> dict[str, Any]:
        task = self._fitted_task
        induced = hasattr(self, "inducing_points_")
        named = {objective_named(*words.split()): words for words in _OBJECTIVES}
        evidence = ep_evidence if task.smoothing == "cavity" else laplace_evidence
        nothing = np.empty(0)
        return {
            "tau": nothing if induced else self._sites.tau,
            "nu": nothing if induced else self._sites.nu,
            "precision": self._posterior.precision if induced else np.empty((0, 0)),
            "shift": self._posterior.shift if induced else nothing,
            "objective": named[task.smoothing, evidence if induced else task.objective],
            "max_sweeps": task.max_sweeps,
            "tol": task.tol,
        }

    def _restore(self, task: Task, state: dict[str, Any], link: OrdinalProbit) -> None:
        smoothing, objective = objective_named(*state["objective"].split())
        task = replace(
            task,
            likelihood=link,
            smoothing=smoothing,
            objective=objective,
            max_sweeps=state["max_sweeps"],
            tol=state["tol"],
        )
        if len(state["shift"]):
            self._restore_induced(task, state)
            return
        self._keep(task, Sites(state["tau"], state["nu"]))

    def _restore_induced(self, task: Task, state: dict[str, Any]) -> None:
        if len(state["shift"]) != len(task.X):
            raise ValueError("shift and the rest of the state disagree")
        points = InducedTask(
            task.X[:0],
            task.kernel,
            task.likelihood,
            task.X,
            task.y,
            task.counts,
            smoothing=task.smoothing,
            max_sweeps=task.max_sweeps,
            tol=task.tol,
        )
        self._apart = None
        inducing = Inducing(task.kernel, task.X)
        lower = np.tril(state["precision"])
        precision = lower + np.tril(lower, -1).T
        self._keep_induced(points, InducedPosterior(inducing, precision, state["shift"]))


class LeastSquaresState(LatentState):
    """The state of ``LeastSquaresOrdinalClassifier``."""

    _state_spec: ClassVar[dict[str, tuple[Any, ...]]] = {
        **_COMMON,
        **_ROWS,
        **_LINK,
        "loo_log_score_": ("f", ""),
        "objective_path_": ("f", "evaluations"),
        "rank_noise": ("f", "", *_POSITIVE),
    }
    _keep: Any

    def _own_state(self) -> dict[str, Any]:
        return {"rank_noise": self._fitted_task.likelihood.noise}

    def _restore(self, task: Any, state: dict[str, Any], link: OrdinalProbit) -> None:
        self._keep(replace(task, likelihood=RankNoise(state["rank_noise"], link)))
