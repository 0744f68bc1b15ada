"""Where the training of a sparse model begins: its kernel's width, first functions, limits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, Kernel

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.core.likelihoods import OrdinalProbit
from ordinalgp.kernels import Exponential
from ordinalgp.models.default_kernel import spread
from ordinalgp.models.training_rows import NumberedRows, places
from ordinalgp.sparse.basis_matrix import basis_columns, draw_candidates
from ordinalgp.sparse.training_loop import Path, Relevant, SparseTask, Trained, train
from ordinalgp.sparse.width import search_width

FAMILIES: dict[str, type[Kernel]] = {"gaussian": RBF, "exponential": Exponential}
GRID_ROWS, MOST_WIDTH_ROWS = 2000, 8000  # that choose the width
_MATRIX_SHARE = 0.75  # of the memory limit, for the basis matrix; the rest is for what it becomes
_START_ALPHA = 1e-3  # section 5.1.4 of the paper
_LOOK_AT, _IDENTITY, _CONSTANT = 200, 1e-6, 1 - 1e-9  # normalised kernel between two rows
_LEAST_VARYING = 1e-8  # share of a function's square: below, it counts as constant
_WIDTH_TOL, _WIDTH_ROUNDS = 1.0, 30
# What the width is chosen by must also count the precisions, one fitted number for each function:
# with a flat prior on log alpha over its range (37 nats), against a posterior some sqrt(2) wide in
# log alpha, each costs log(37 / sqrt(4 pi)). Without it, narrow functions buy evidence row by row.
_WIDTH_COST = 2.3


@dataclass(frozen=True)
class TrainingLimits:
    """How far a training goes, and what it may take."""

    tol: float
    max_rounds: int
    max_basis: int
    memory: float
    """bytes for the basis matrix and its parts"""

    def task(self, rows: NumberedRows, candidates: IntArray, kernel: Any) -> SparseTask:
        """The training of ``rows`` with functions at ``candidates``."""
        columns = basis_columns(rows, candidates, kernel, _MATRIX_SHARE * self.memory)
        return SparseTask(
            columns, rows.codes, rows.counts, self.tol, self.max_rounds, self.max_basis
        )


@dataclass(frozen=True)
class _Stage:
    """One search for a width: which rows and functions take part, and which widths are tried."""

    n_rows: int
    n_candidates: int | None
    max_basis: int
    grid: tuple[float, ...]
    """powers of two of the width to start from"""
    refinements: tuple[float, ...]

    def bound(self, limits: TrainingLimits) -> TrainingLimits:
        """Less of everything: many widths are tried."""
        basis = min(self.max_basis, limits.max_basis)
        tol = max(limits.tol, _WIDTH_TOL)
        return replace(limits, tol=tol, max_rounds=_WIDTH_ROUNDS, max_basis=basis)


# More rows ask for narrower functions, so those beyond the first have the last word.
_FEW = _Stage(GRID_ROWS, None, 100, (-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0), (0.5, 0.25))
_MANY = _Stage(MOST_WIDTH_ROWS, 1000, 250, (-1.0, 0.0, 1.0), (0.5,))


@dataclass(frozen=True, eq=False)
class ChosenWidth:
    """The best width's kernel and model, with all that were tried."""

    kernel: Kernel
    model: Relevant
    path: FloatArray
    """widths, ascending, and what each was judged by, (k, 2)"""
    n_rows: int
    """that chose, copies counted"""
    steps: Path
    """of the best width's training, if that was on all rows"""

    @property
    def value(self) -> float:
        """What the best was judged by."""
        return float(self.path[:, 1].max())


def first_model(
    rows: NumberedRows, inside: IntArray, n_levels: int, alpha: float = _START_ALPHA
) -> Relevant:
    """Functions at the inputs ``inside``, with weights of zero and thresholds by the counts."""
    index = np.unique(inside)
    observed = np.bincount(rows.codes, rows.counts, minlength=n_levels).astype(float)
    likelihood, weights = OrdinalProbit.from_counts(observed), np.zeros(len(index))
    return Relevant(index, np.full(len(index), alpha), weights, likelihood)


def choose_width(
    rows: NumberedRows,
    model: Relevant,
    limits: TrainingLimits,
    rng: np.random.RandomState,
    n_jobs: int | None,
    families: Sequence[str],
    known: Kernel | None = None,
) -> ChosenWidth:
    """Choose by the evidence of some rows over a grid, and of more rows around the best there.

    Of several ``families`` of functions the one of the larger evidence at the end is chosen. Given
    ``known``, the model's own kernel, many rows try its neighbours alone. All trials begin with
    the functions of ``model``, or with those of the grid's best.
    """
    enough = len(rows.codes) <= _FEW.n_rows
    begun = [_Begun(type(known), model, known.length_scale)] if known is not None else []
    if enough or not begun:
        stage = _FEW if enough else replace(_FEW, refinements=())
        starts = [_Begun(FAMILIES[family], model) for family in families]
        found = _search(stage, rows, starts, limits, rng, n_jobs)
        if enough:
            return max(found, key=lambda each: each.value)
        begun = [_Begun(type(each.kernel), each.model, each.kernel.length_scale) for each in found]
    found = _search(_MANY, rows, begun, limits, rng, n_jobs)
    return max(found, key=lambda each: each.value)


@dataclass(frozen=True, eq=False)
class _Begun:
    """Where the search among the widths of one family begins."""

    family: type[Kernel]
    model: Relevant
    width: float | None = None


def _search(
    stage: _Stage,
    rows: NumberedRows,
    starts: Sequence[_Begun],
    limits: TrainingLimits,
    rng: np.random.RandomState,
    n_jobs: int | None,
) -> list[ChosenWidth]:
    """Try widths of each family on some of the rows, the same for all: evidences are compared."""
    inside = np.unique(np.concatenate([start.model.index for start in starts]))
    first = np.flatnonzero(np.isin(rows.latent, inside))
    few = rows.take(draw_candidates(len(rows.codes), stage.n_rows, first, rng))
    place = places(few.first_row, rows.first_row)
    always = np.searchsorted(place, inside)
    offered = draw_candidates(len(few.inputs), stage.n_candidates, always, rng)
    bound = stage.bound(limits)

    def search(start: _Begun) -> ChosenWidth:
        index = np.searchsorted(offered, np.searchsorted(place, start.model.index))
        model = replace(start.model, index=index)

        def trial(width: float) -> tuple[float, Trained | None]:
            kernel = start.family(width)
            if extreme(kernel, few.inputs) is not None:
                return -np.inf, None
            found = train(bound.task(few, offered, kernel), model, grow=True)
            return found.value - _WIDTH_COST * len(found.model.index), found

        width = _first_width(start.family, few.inputs) if start.width is None else start.width
        found = search_width(trial, width, n_jobs, stage.grid, stage.refinements)
        path = np.column_stack([found.widths, found.values])
        best: Trained | None = found.model
        reached = model if best is None else best.model
        reached = replace(reached, index=place[offered[reached.index]])
        on_all = len(few.codes) == len(rows.codes)
        steps = best.path if best is not None and on_all else Path()
        kernel = start.family(found.best)
        return ChosenWidth(kernel, reached, path, round(few.counts.sum()), steps)

    return [search(start) for start in starts]


def _first_width(family: type[Kernel], inputs: FloatArray) -> float:
    """Where a grid of widths has its middle: some distance that two rows have."""
    d = inputs.shape[1]  # differences of all features are added, or their squares
    return float((np.sqrt(d) if family is RBF else 2 * d) * (spread(inputs) or 1.0))


def whole_precision(kernel: Any, inputs: FloatArray, centres: IntArray) -> float:
    """Precision at which all functions together vary as much as the noise, on average.

    What they have in common with a constant is left out: thresholds carry the offset. The paper's
    0.001 for every one of them lets the latent function pass through all data, where the
    likelihood has no curvature left and Laplace's evidence a false maximum.
    """
    some = inputs[:: max(1, len(inputs) // _LOOK_AT)]
    phi = kernel(some, inputs[centres])
    whole, varying = (np.einsum("ij,ij->", x, x) for x in (phi, phi - phi.mean(axis=0)))
    return float(max(varying, _LEAST_VARYING * whole) / len(some)) or 1.0


def extreme(kernel: Any, centres: FloatArray) -> str | None:
    """Say whether basis functions see one row each, or all rows alike."""
    some = centres[:: max(1, len(centres) // _LOOK_AT)]
    K = np.abs(kernel(some, some))
    scale = np.sqrt(np.maximum(np.diagonal(K), np.finfo(float).tiny))
    alike = (K / scale / scale[:, None])[~np.eye(len(K), dtype=bool)]
    if len(alike) and alike.max() < _IDENTITY:
        return "so narrow that every basis function sees its own row only: nothing carries over"
    if len(alike) and alike.min() > _CONSTANT:
        return "so wide that all basis functions are the same: predictions hardly depend on X"
    return None
