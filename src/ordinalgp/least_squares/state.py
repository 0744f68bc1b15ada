"""State of ``LeastSquaresOrdinalClassifier`` in a file."""

from dataclasses import replace
from typing import Any, ClassVar

from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.least_squares.leave_one_out import RankNoise
from ordinalgp.models.latent_state import _COMMON, _LINK, _ROWS, LatentState
from ordinalgp.models.state import _POSITIVE


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
