"""The choice between inducing points and neighbours, by rows held out of short fits.

Neighbours follow a rough function the better the more rows there are, so that a fit to a sample of
rows says little of them. Their trial has all rows, but only near a few places: near each, some rows
are held out and predicted from the others. Inducing points predict the same rows from a sample.
Both short fits are the beginning of the full ones, which go on from there.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ordinalgp._typing import FloatArray
from ordinalgp.core.search import Task
from ordinalgp.many_rows.block_evidence import BlockEvidence, Patch
from ordinalgp.many_rows.blocked_rows import LocalRows
from ordinalgp.many_rows.blocks import coordinates, feature_weights
from ordinalgp.many_rows.chunks import ArrayRows, Chunk
from ordinalgp.many_rows.stages import Stages, on_own_rows
from ordinalgp.many_rows.neighbour_stages import NeighbourStages
from ordinalgp.models.training_rows import merge_rows
from ordinalgp.runtime.progress import Progress


@dataclass(frozen=True, eq=False)
class Place:
    """Rows near one place, of which some are held out."""

    kept: LocalRows
    held: Chunk
