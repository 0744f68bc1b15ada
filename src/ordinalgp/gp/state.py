"""State of ``OrdinalGPClassifier`` in a file."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ordinalgp._typing import FloatArray
from ordinalgp.core.gaussian import Sites
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.core.objectives import ep_evidence, laplace_evidence
from ordinalgp.core.search import Task, objective_named
from ordinalgp.many_rows.induced_evidence import InducedTask
from ordinalgp.many_rows.induced_posterior import InducedPosterior
from ordinalgp.many_rows.inducing import Inducing
from ordinalgp.models.latent_state import _COMMON, _LINK, _OBJECTIVES, _ROWS, LatentState
from ordinalgp.models.state import _FINITE
from ordinalgp.models.training_rows import MergedRows


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
