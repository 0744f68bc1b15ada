"""Fitting many rows with the approximation that was asked for, or with the better of two."""

from dataclasses import dataclass
from typing import Any

from ordinalgp.many_rows.approximations import Approximation
from ordinalgp.many_rows.model import InducedGP
from ordinalgp.many_rows.neighbour_model import NeighbourGP
from ordinalgp.many_rows.neighbour_stages import NeighbourStages
from ordinalgp.many_rows.settings import ManyRowsSettings
from ordinalgp.many_rows.stages import Stages, check_threshold_model
from ordinalgp.models.exact import GPOptions


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
        if self.wanted.name == "neighbours":
            return self.with_neighbours.fit()
        check_threshold_model(self.options.likelihood)
        return self.with_points.fit()

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
