"""What a file keeps of a model of many raters, and how it comes back."""

from typing import Any, ClassVar

import numpy as np

from ordinalgp.collaborative.hierarchy import Prior, Rater
from ordinalgp.collaborative.items import Items
from ordinalgp.collaborative.raters import SharedNoise, SharedThresholds
from ordinalgp.collaborative.ratings import Ids
from ordinalgp.core.gaussian import Sites
from ordinalgp.core.likelihoods import Gaussian, OrdinalProbit
from ordinalgp.core.problem import Start
from ordinalgp.validation.memory import check_memory

_FINITE = (-np.finfo(float).max, np.inf)
_POSITIVE = (np.nextafter(0.0, 1.0), np.inf)
_KEPT = (
    "categories_",
    "classes_",
    "objective_path_",
    "log_evidence_path_",
    "bound_path_",
    "converged_",
    "n_iter_",
)


def _objects(values: tuple[Any, ...]) -> Any:
    return np.fromiter(values, dtype=object, count=len(values))


class CollaborativeState:
    """Gives ``_get_state`` and ``_set_state``, for :mod:`ordinalgp.persistence`.

    Ratings of all raters lie one after another, ``begins`` telling where each rater's start. Of
    ``noise``, ``first`` and ``gaps`` the last entry is the typical rater's.
    """

    _state_spec: ClassVar[dict[str, tuple[Any, ...]]] = {
        "categories_": ("biufUSMO", "r"),
        "classes_": ("biufUSMO", "k"),
        "objective_path_": ("f", "iterations"),
        "log_evidence_path_": ("f", "iterations"),
        "bound_path_": ("f", "iterations"),
        "converged_": ("b", ""),
        "n_iter_": ("i", ""),
        "raters": ("O", "n"),
        "items": ("O", "m"),
        "begins": ("i", "own", 0, np.inf),
        "index": ("i", "N", 0, "m"),
        "codes": ("i", "N", 0, "r"),
        "tau": ("f", "N", 0.0, np.inf),
        "nu": ("f", "N", *_FINITE),
        "noise": ("f", "own", *_POSITIVE),
        "first": ("f", "own", *_FINITE),
        "gaps": ("f", "own g", *_POSITIVE),
        "unit": ("f", "", *_POSITIVE),
        "scale": ("f", "", *_POSITIVE),
        "strength": ("f", "", 0.0, np.inf),
        "mean": ("f", "m", *_FINITE),
        "covariance": ("f", "m m", *_FINITE),
        "base_mean": ("f", "m", *_FINITE),
        "base_covariance": ("f", "m m", *_FINITE),
        "features": ("f", "m d"),
    }
    likelihood: str
    _raters: Ids
    _start: Items
    _scale: float
    _base: Prior
    _prior: Prior
    _model: Any
    _fitted_raters: list[Rater]
    _values: Any
    _observed: Any
    _check_parameters: Any

    def _get_state(self) -> dict[str, Any]:
        """Collect what a file keeps."""
        raters, everyone = self._fitted_raters, [r.likelihood for r in self._fitted_raters]
        everyone.append(self._model.center)
        ordinal = self.likelihood == "ordinal"
        sites = [r.start.sites if r.start else Sites.flat(len(r.index)) for r in raters]
        y = np.concatenate([r.y for r in raters])
        return {
            **{name: getattr(self, name) for name in _KEPT},
            "raters": _objects(self._raters.values),
            "items": _objects(self._start.ids.values),
            "begins": np.cumsum([0, *(len(r.index) for r in raters)]),
            "index": np.concatenate([r.index for r in raters]),
            "codes": (y if ordinal else np.searchsorted(self._values, y)).astype(np.intp),
            "tau": np.concatenate([each.tau for each in sites]),
            "nu": np.concatenate([each.nu for each in sites]),
            "noise": np.array([each.noise for each in everyone]),
            "first": np.array([each.first if ordinal else 0.0 for each in everyone]),
            "gaps": np.array([each.gaps if ordinal else [] for each in everyone], dtype=float),
            "unit": float(self._model.center.unit) if ordinal else 1.0,
            "scale": self._scale,
            "strength": self._model.strength,
            "mean": self._prior.mean,
            "covariance": self._prior.covariance,
            "base_mean": self._base.mean,
            "base_covariance": self._base.covariance,
            "features": self._start.features,
        }

    def _set_state(self, state: dict[str, Any]) -> None:
        """Become the fitted estimator of a file."""
        self._check_parameters()
        check_memory(len(state["mean"]), n_matrices=2)
        ids = Ids.of(state["raters"].tolist()), Ids.of(state["items"].tolist())
        begins, r = state["begins"], len(state["categories_"])
        fits = len(ids[0]) == len(state["raters"]) == len(begins) - 1
        fits &= len(ids[1]) == len(state["items"])
        fits &= (
            begins[0] == 0 and begins[-1] == len(state["index"]) and (np.diff(begins) >= 0).all()
        )
        fits &= state["gaps"].shape[1] == (r - 2 if self.likelihood == "ordinal" else 0)
        if not fits:
            raise ValueError("ids, begins, gaps and the rest of the state disagree")
        for name in _KEPT:
            setattr(self, name, state[name])
        self._raters, self._scale = ids[0], state["scale"]
        self._start = Items(ids[1], state["features"], state["base_covariance"])
        self._base = Prior(state["base_mean"], state["base_covariance"])
        self._prior = Prior(state["mean"], state["covariance"])
        shared = SharedThresholds if self.likelihood == "ordinal" else SharedNoise
        self._model = shared(self._restored(state, -1), state["strength"])
        self._fitted_raters = [self._restored_rater(state, j) for j in range(len(ids[0]))]

    def _restored(self, state: dict[str, Any], j: int) -> Any:
        noise = float(state["noise"][j])
        if self.likelihood == "gaussian":
            return Gaussian(noise)
        return OrdinalProbit(noise, float(state["first"][j]), state["gaps"][j], state["unit"])

    def _restored_rater(self, state: dict[str, Any], j: int) -> Rater:
        own = slice(*state["begins"][j : j + 2])
        index, y = state["index"][own], self._observed(state["codes"][own])
        if len(np.unique(index)) < len(index):
            raise ValueError(f"rater {j} has several ratings of one item")
        start = Start(Sites(state["tau"][own], state["nu"][own]), np.zeros(len(index)))
        return Rater(index, y, self._restored(state, j), start)
