"""Fitting many rows with the approximation that was asked for, or with the better of two."""

from dataclasses import dataclass
from typing import Any

from ordinalgp.core.likelihoods import Thresholds
from ordinalgp.many_rows.approximations import Approximation
from ordinalgp.many_rows.choice import Contest
from ordinalgp.many_rows.model import InducedGP
from ordinalgp.many_rows.neighbour_model import NeighbourGP
from ordinalgp.many_rows.neighbour_stages import NeighbourStages
from ordinalgp.many_rows.settings import ManyRowsSettings
from ordinalgp.many_rows.stages import Stages, check_threshold_model
from ordinalgp.models.exact import GPOptions
from ordinalgp.validation.options import allows_missing


@dataclass(frozen=True, eq=False)
class ManyRowsFit:
    """A fit of many rows: the rows, and all options."""

    rows: Any
    """rows in chunks, or dask blocks"""
    n_features: int
    n_levels: int
    wanted: Approximation
    options: GPOptions
    settings: ManyRowsSettings
    checkpoint: Any = None
    params: Any = None
    """parameters that a checkpoint must agree with"""

    def fit(self) -> InducedGP | NeighbourGP:
        """Fit the model."""
        if self.wanted.name == "inducing":
            check_threshold_model(self.options.likelihood)
        return self._stages().fit()

    def _stages(self) -> Stages | NeighbourStages:
        """The approximation that was asked for, or the better one."""
        name, options = self.wanted.name, self.options
        if name == "choice" and not isinstance(options.likelihood, str | Thresholds):
            name = "neighbours"  # inducing points would need a threshold model
        gaps = options.kernel is not None and allows_missing(options.kernel)
        if name == "inducing" or (name == "choice" and (gaps or "bound" in options.objective)):
            return self.with_points
        if name == "neighbours":
            check_without_gaps(options.kernel)
            return self.with_neighbours
        return Contest(self.with_points, self.with_neighbours).winner()

    @property
    def with_points(self) -> Stages:
        """The fit with inducing points."""
        wanted, params = self.wanted, self.params or {}
        size = self.n_features, self.n_levels, wanted.points, wanted.fewer
        return Stages(self.rows, *size, self.options, self.settings, self.checkpoint, params)

    @property
    def with_neighbours(self) -> NeighbourStages:
        """The fit with neighbours."""
        size, params = (self.n_levels, self.wanted.neighbours), self.params or {}
        return NeighbourStages(
            self.rows, *size, self.options, self.settings, self.checkpoint, params
        )


def check_without_gaps(kernel: Any) -> None:
    """Raise where a kernel takes rows with gaps, between which there is no distance."""
    if kernel is not None and allows_missing(kernel):
        raise ValueError(
            f"approximation='neighbours' needs distances between rows, but {kernel} takes rows "
            "with missing values. Use approximation='inducing'."
        )
