"""Choice of the basis functions' width, and of their family, by evidence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.gaussian_process.kernels import RBF, Kernel

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.kernels import Exponential
from ordinalgp.models.default_kernel import spread
from ordinalgp.models.training_rows import NumberedRows, places
from ordinalgp.runtime.progress import Progress, Report, silent
from ordinalgp.sparse.basis_matrix import draw_candidates, extreme_width
from ordinalgp.sparse.training import (
    ActiveBasis,
    EvidencePath,
    SparseTask,
    TrainingLimits,
    TrainingResult,
    train,
)

FAMILIES: dict[str, type[Kernel]] = {"gaussian": RBF, "exponential": Exponential}


@dataclass(frozen=True)
class WidthStage:
    """One search for a width: its rows, its functions and the widths that are tried."""

    n_rows: int
    """largest number of rows"""
    n_candidates: int | None
    """largest number of candidates; None: all rows"""
    max_basis: int
    grid: tuple[float, ...]
    """powers of two of the width to start from"""
    refinements: tuple[float, ...]
    """steps to both sides of the best, as powers of two"""


@dataclass(frozen=True)
class WidthSettings:
    """Stages and limits of the choice of a width.

    More rows ask for narrower functions, so the stage with more rows decides.
    """

    coarse: WidthStage = WidthStage(
        2000, None, 100, (-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0), (0.5, 0.25)
    )
    """a grid over few rows"""
    fine: WidthStage = WidthStage(8000, 1000, 250, (-1.0, 0.0, 1.0), (0.5,))
    """the neighbours of the best there, over more rows"""
    tol: float = 1.0
    """tolerance of a trial"""
    max_rounds: int = 30
    """rounds of a trial"""
    cost_per_function: float = 2.3
    """subtracted from the evidence for each function, whose precision is one fitted number: with a
    flat prior on log alpha over its range (37 nats), against a posterior some sqrt(2) wide in
    log alpha, it costs log(37 / sqrt(4 pi)); without it, narrow functions buy evidence row by row
    """
    furthest_power: float = 6.0
    """limit of the grid to either side, where the best is at its end, in powers of two"""
    row_growth: float = 1.8
    """rows over those of the last choice, from which on the width is chosen again; not quite two,
    as halves may be unequal"""

    def limits(self, stage: WidthStage, limits: TrainingLimits) -> TrainingLimits:
        """Limits of a trial, tighter than those of the final training: many widths are tried."""
        basis = min(stage.max_basis, limits.max_basis)
        tol = max(limits.tol, self.tol)
        return replace(limits, tol=tol, max_rounds=self.max_rounds, max_basis=basis)


@dataclass(frozen=True, eq=False)
class WidthChoice:
    """The best width's kernel and basis, with all widths that were tried."""

    kernel: Kernel
    basis: ActiveBasis
    """its index counts all inputs"""
    path: FloatArray
    """widths, ascending, and the criterion of each, (k, 2)"""
    n_rows: int
    """rows that chose, copies counted"""
    steps: EvidencePath
    """of the best width's training, if that was on all rows"""

    @classmethod
    def given(cls, kernel: Kernel, basis: ActiveBasis) -> "WidthChoice":
        """A kernel that is kept as it is."""
        return cls(kernel, basis, np.empty((0, 2)), 0, EvidencePath.of())

    @property
    def value(self) -> float:
        """Criterion of the best width."""
        return float(self.path[:, 1].max())


@dataclass(frozen=True, eq=False)
class WidthStart:
    """Start of the search among the widths of one family."""

    family: type[Kernel]
    basis: ActiveBasis
    width: float | None = None
    """None: a typical distance between two rows"""

    @classmethod
    def at(cls, kernel: Kernel, basis: ActiveBasis) -> "WidthStart":
        """The start at a kernel's own width."""
        return cls(type(kernel), basis, kernel.length_scale)


@dataclass(frozen=True, eq=False)
class WidthTrial:
    """A width, its criterion and the result behind it."""

    width: float
    value: float
    result: Any


@dataclass(frozen=True, eq=False)
class WidthSearch:
    """Searches among the widths of several families, all on the same rows."""

    settings: WidthSettings
    limits: TrainingLimits
    rng: np.random.RandomState
    n_jobs: int | None = None
    report: Report = silent

    def choose(
        self,
        rows: NumberedRows,
        basis: ActiveBasis,
        families: Sequence[str],
        known: Kernel | None = None,
    ) -> WidthChoice:
        """Choose by the evidence of some rows over a grid, and of more rows around the best there.

        Of several ``families`` of functions the one with the largest evidence is chosen. Given
        ``known``, the kernel of the model so far, the fine stage tries its neighbours alone. All
        trials begin with the functions of ``basis``, or with those of the grid's best.
        """
        coarse, few_rows = self.settings.coarse, len(rows.codes) <= self.settings.coarse.n_rows
        starts = [WidthStart(FAMILIES[family], basis) for family in families]
        if few_rows:
            return self._best(coarse, rows, starts)
        if known is not None:
            starts = [WidthStart.at(known, basis)]
        else:
            found = self.compare(replace(coarse, refinements=()), rows, starts)
            starts = [WidthStart.at(each.kernel, each.basis) for each in found]
        return self._best(self.settings.fine, rows, starts)

    def _best(
        self, stage: WidthStage, rows: NumberedRows, starts: Sequence[WidthStart]
    ) -> WidthChoice:
        return max(self.compare(stage, rows, starts), key=lambda each: each.value)

    def compare(
        self, stage: WidthStage, rows: NumberedRows, starts: Sequence[WidthStart]
    ) -> list[WidthChoice]:
        """The best width of each family, on the same rows, as evidences are compared."""
        inside = np.unique(np.concatenate([start.basis.index for start in starts]))
        first = np.flatnonzero(np.isin(rows.latent, inside))
        few = rows.take(draw_candidates(len(rows.codes), stage.n_rows, first, self.rng))
        place = places(few.first_row, rows.first_row)
        always = np.searchsorted(place, inside)
        offered = draw_candidates(len(few.inputs), stage.n_candidates, always, self.rng)
        limits = self.settings.limits(stage, self.limits)
        task = _StageTask(few, offered, place[offered], limits, self.settings.cost_per_function)
        return [self._search(stage, task, start, rows) for start in starts]

    def _search(
        self, stage: WidthStage, task: "_StageTask", start: WidthStart, rows: NumberedRows
    ) -> WidthChoice:
        """The best width of one family."""
        basis = replace(start.basis, index=np.searchsorted(task.place, start.basis.index))
        width = start.width or _typical_distance(start.family, task.rows.inputs)
        path, best = self.maximise(partial(task.trial, start.family, basis), width, stage)
        steps = EvidencePath.of()
        if best.result is not None:
            basis = best.result.basis
            on_all_rows = len(task.rows.codes) == len(rows.codes)
            steps = best.result.path if on_all_rows else steps
        basis = replace(basis, index=task.place[basis.index])
        kernel, n_rows = start.family(best.width), round(task.rows.counts.sum())
        return WidthChoice(kernel, basis, path, n_rows, steps)

    def maximise(
        self, trial: Callable[[float], tuple[float, Any]], start: float, stage: WidthStage
    ) -> tuple[FloatArray, WidthTrial]:
        """Maximise over the grid of a stage, in powers of two of ``start``, and around its best.

        The grid grows where its best is at an end. ``trial(width)`` returns the criterion and the
        result behind it. Of equal widths the largest is the best: it is the smoothest.

        Returns
        -------
        path : ndarray of shape (k, 2)
            Widths that were tried, ascending, and the criterion of each.
        best : WidthTrial
            The best of them.
        """
        begin, furthest = perf_counter(), self.settings.furthest_power
        seen: dict[float, WidthTrial] = {}

        def tell(best: float, *, done: bool = False) -> None:
            at, seconds = seen[best], perf_counter() - begin
            text = f"width {at.width:.3g}"
            self.report(Progress("search", len(seen), None, at.value, seconds, text, done))

        def look(powers: Sequence[float]) -> float:
            new = [p for p in powers if p not in seen and abs(p) <= furthest]
            found = Parallel(n_jobs=self.n_jobs)(delayed(trial)(start * 2**p) for p in new)
            for power, pair in zip(new, found, strict=True):
                seen[power] = WidthTrial(start * 2**power, *pair)
            best = max(seen, key=lambda p: (seen[p].value, p))
            tell(best)
            return best

        best = look(stage.grid)
        while best in (min(seen), max(seen)) and abs(best) < furthest:
            best = look((best - 1, best + 1))
        for step in stage.refinements:
            best = look((best - step, best + step))
        tell(best, done=True)
        path = [(seen[power].width, seen[power].value) for power in sorted(seen)]
        return np.array(path), seen[best]


@dataclass(frozen=True, eq=False)
class _StageTask:
    """Rows and candidates of a stage, the same for all widths and families."""

    rows: NumberedRows
    candidates: IntArray
    """inputs of ``rows`` that offer a basis function"""
    place: IntArray
    """place of each candidate among the inputs of all rows"""
    limits: TrainingLimits
    cost_per_function: float

    def trial(
        self, family: type[Kernel], basis: ActiveBasis, width: float
    ) -> tuple[float, TrainingResult | None]:
        """Criterion of a width, and the training behind it."""
        kernel = family(width)
        if extreme_width(kernel, self.rows.inputs) is not None:
            return -np.inf, None
        task = SparseTask.of(self.rows, self.candidates, kernel, self.limits)
        found = train(task, basis, grow=True)
        return found.value - self.cost_per_function * len(found.basis.index), found


def _typical_distance(family: type[Kernel], inputs: FloatArray) -> float:
    """Some distance that two rows have, as the middle of a grid of widths."""
    d = inputs.shape[1]  # differences of all features are added, or their squares
    return float((np.sqrt(d) if family is RBF else 2 * d) * (spread(inputs) or 1.0))
