"""Choice of the basis functions' width, and of their family, by evidence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
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
from ordinalgp.sparse import training
from ordinalgp.sparse.basis_matrix import draw_candidates, extreme_width

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
    from_distances: bool = False
    """start from a typical distance of two rows, not from the kernel's own width"""


@dataclass(frozen=True)
class WidthSettings:
    """Stages and limits of the choice of a width.

    More rows ask for narrower functions, so the stage with more rows decides.
    """

    coarse: WidthStage = WidthStage(
        2000, None, 100, (-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0), (0.5, 0.25), from_distances=True
    )
    """a grid over few rows"""
    fine: WidthStage = WidthStage(8000, 1000, 250, (-1.0, 0.0, 1.0), (0.5,))
    """the neighbours of the best there, over more rows"""
    tol: float = 1.0
    """tolerance of a trial"""
    max_rounds: int = 30
    """rounds of a trial"""
    cost_per_function: float = 2.3
    """subtracted from the evidence per function, for its fitted precision; without it, narrow
    functions gain evidence row by row. A flat prior on log alpha has a range of 37 nats, and the
    posterior is some sqrt(2) wide. So the cost is log(37 / sqrt(4 pi)).
    """
    furthest_power: float = 6.0
    """limit of the grid to either side, where the best is at its end, in powers of two"""
    row_growth: float = 1.8
    """rows over those of the last choice, from which on the width is chosen again; not quite two,
    as halves may be unequal"""


@dataclass(frozen=True, eq=False)
class WidthChoice:
    """A kernel and a basis: given ones, or those of the best width among all that were tried."""

    kernel: Kernel
    basis: training.ActiveBasis
    """its index counts all inputs"""
    path: FloatArray = field(default_factory=lambda: np.empty((0, 2)))
    """widths, ascending, and the criterion of each, (k, 2)"""
    n_rows: int = 0
    """rows that chose, copies counted"""
    steps: training.EvidencePath = field(default_factory=training.EvidencePath.of)
    """of the best width's training, if that was on all rows"""


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
    limits: training.TrainingLimits
    rng: np.random.RandomState
    n_jobs: int | None = None
    report: Report = silent

    def choose(
        self, rows: NumberedRows, start: WidthChoice, families: Sequence[str], *, near: bool
    ) -> WidthChoice:
        """Choose by the evidence of some rows over a grid, and of more rows around the best there.

        Of several ``families`` of functions the one with the largest evidence is chosen. With
        ``near``, the fine stage tries the neighbours of the kernel of ``start`` alone. All trials
        begin with the functions of ``start``, or with those of the grid's best.
        """
        stage = self.settings.coarse
        starts = [replace(start, kernel=FAMILIES[family]()) for family in families]
        if len(rows.codes) > stage.n_rows:
            grid = replace(stage, refinements=())
            starts = [start] if near else self.compare(grid, rows, starts)
            stage = self.settings.fine
        return max(self.compare(stage, rows, starts), key=lambda each: each.path[:, 1].max())

    def compare(
        self, stage: WidthStage, rows: NumberedRows, starts: Sequence[WidthChoice]
    ) -> list[WidthChoice]:
        """The best width of each family, all on the same rows, so that evidences compare."""
        inside = np.unique(np.concatenate([start.basis.index for start in starts]))
        first = np.flatnonzero(np.isin(rows.latent, inside))
        few = rows.take(draw_candidates(len(rows.codes), stage.n_rows, first, self.rng))
        place = places(few.first_row, rows.first_row)
        always = np.searchsorted(place, inside)
        offered = draw_candidates(len(few.inputs), stage.n_candidates, always, self.rng)
        limits = replace(  # of a trial, tighter than those of the final training
            self.limits,
            tol=max(self.limits.tol, self.settings.tol),
            max_rounds=self.settings.max_rounds,
            max_basis=min(self.limits.max_basis, stage.max_basis),
        )
        task = _StageTask(few, offered, place[offered], limits, self.settings.cost_per_function)
        found = [self._search(stage, task, start) for start in starts]
        if len(few.codes) < len(rows.codes):  # a path on other rows cannot be continued
            found = [replace(each, steps=training.EvidencePath.of()) for each in found]
        return found

    def _search(self, stage: WidthStage, task: "_StageTask", start: WidthChoice) -> WidthChoice:
        """The best width of one family."""
        family, width = type(start.kernel), start.kernel.length_scale
        if stage.from_distances:
            width = _typical_distance(family, task.rows.inputs)
        basis = replace(start.basis, index=np.searchsorted(task.place, start.basis.index))
        path, best = self.maximise(partial(task.trial, family, basis), width, stage)
        steps = training.EvidencePath.of()
        if best.result is not None:
            basis, steps = best.result.basis, best.result.path
        basis = replace(basis, index=task.place[basis.index])
        n_rows = round(task.rows.counts.sum())
        return WidthChoice(family(best.width), basis, path, n_rows, steps)

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
    limits: training.TrainingLimits
    cost_per_function: float

    def trial(
        self, family: type[Kernel], basis: training.ActiveBasis, width: float
    ) -> tuple[float, training.TrainingResult | None]:
        """Criterion of a width, and the training behind it."""
        kernel = family(width)
        if extreme_width(kernel, self.rows.inputs) is not None:
            return -np.inf, None
        task = training.SparseTask.of(self.rows, self.candidates, kernel, self.limits)
        found = training.train(task, basis, grow=True)
        return found.value - self.cost_per_function * len(found.basis.index), found


def _typical_distance(family: type[Kernel], inputs: FloatArray) -> float:
    """A typical distance between two rows, as the middle of a grid of widths."""
    d = inputs.shape[1]  # differences of all features are added, or their squares
    return float((np.sqrt(d) if family is RBF else 2 * d) * (spread(inputs) or 1.0))
