"""Evidence of many rows, block by block.

The evidence of all rows is that of the first block, times that of the second block given the first,
and so on. Only the rows nearest to a block among those before it, its halo, say much about it:

    log Z  ~  sum over blocks of log Z(block and halo) - log Z(halo).

This is Vecchia's approximation [Vecchia88]_ with EP's or Laplace's evidences. If each halo is all
that comes before, the sum telescopes to the evidence of all rows, for any cut into blocks. The cost
grows in proportion to the rows, and the terms of a sample of blocks estimate the whole.

.. [Vecchia88] A. V. Vecchia, "Estimation and model identification for continuous spatial
   processes", Journal of the Royal Statistical Society B 50, 1988.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from ordinalgp._typing import IntArray
from ordinalgp.core.linalg import Workspace
from ordinalgp.core.search import FINEST, ObjectiveName, Step, Trainable, search_tolerance
from ordinalgp.many_rows.blocked_rows import BlockedRows, LocalRows, inverse

_MOST_ROWS = 20_000  # of all rows; above, a sample of blocks estimates the evidence


@dataclass(frozen=True, eq=False)
class Patch:
    """A halo, whose inputs come first, and a block."""

    rows: LocalRows
    n_halo: int
    """inputs of the halo"""

    @property
    def n_rows(self) -> float:
        """Number of rows of the block, copies counted."""
        return float(self.rows.counts.sum() - self.rows.first(self.n_halo).counts.sum())

    def step(self, like: Any, starts: Any, workspace: Workspace | None) -> Step:
        """Log evidence of the block given the halo, and its gradient."""
        known, known_of_halo = starts or (None, None)
        whole = self.rows.task(like).step(known, workspace)
        if not self.n_halo:
            return replace(whole, start=(whole.start, None))
        halo = self.rows.first(self.n_halo).task(like).step(known_of_halo, workspace)
        value, gradient = whole.value - halo.value, whole.gradient - halo.gradient
        starts = whole.start, halo.start
        return Step(value, gradient, starts, whole.converged and halo.converged)


@dataclass(frozen=True, eq=False)
class BlockEvidence(Trainable):
    """The sum over some blocks, of the log evidence of each given its halo."""

    patches: tuple[Patch, ...] = ()
    scale: float = 1.0
    """rows in all, per row of these blocks"""
    objective: ObjectiveName = "ep evidence"
    max_sweeps: int = 100
    tol: float = 1e-6
    n_jobs: int | None = None

    @classmethod
    def like(cls, task: Any, **more: Any) -> Self:
        """The hyperparameters and limits of another task, or of a file."""
        names = "kernel", "likelihood", "objective", "max_sweeps", "tol", "hyperprior"
        return cls(X=np.empty((0, 0)), **{name: getattr(task, name) for name in names}, **more)

    @property
    def n_rows(self) -> float:
        """Number of rows that the sum stands for, copies counted."""
        return self.scale * sum(patch.n_rows for patch in self.patches)

    def relaxed(self, precision: float = FINEST) -> Self:
        """Return the task with slopes that are right to a precision."""
        return replace(self, tol=max(self.tol, search_tolerance(self.objective, precision)))

    def step(self, start: Any = None, workspace: Workspace | None = None) -> Step:
        """The sum and its gradient; ``start`` has those of all blocks."""
        starts = start or (None,) * len(self.patches)
        found = self._steps(starts, workspace)
        value = self.scale * sum(step.value for step in found)
        gradient = self.scale * np.sum([step.gradient for step in found], axis=0)
        converged = all(step.converged for step in found)
        return Step(value, gradient, tuple(step.start for step in found), converged)

    def _steps(self, starts: Sequence[Any], workspace: Workspace | None) -> list[Step]:
        small = replace(self, patches=(), hyperprior=None)
        pairs = list(zip(self.patches, starts, strict=True))
        jobs = min(effective_n_jobs(self.n_jobs), len(pairs))
        if jobs < 2:
            return [patch.step(small, known, workspace) for patch, known in pairs]
        size = -(-len(pairs) // jobs)
        parts = (pairs[i : i + size] for i in range(0, len(pairs), size))
        work = (delayed(_steps)(part, small) for part in parts)
        found = Parallel(n_jobs=self.n_jobs, prefer="threads")(work)
        return [step for part in found for step in part]


def _steps(pairs: Sequence[tuple[Patch, Any]], like: BlockEvidence) -> list[Step]:
    """The terms of some blocks, in one worker."""
    workspace = Workspace()
    return [patch.step(like, known, workspace) for patch, known in pairs]


def patches(
    rows: BlockedRows, order: IntArray, blocks: Sequence[int] | IntArray, n_halo: int
) -> tuple[Patch, ...]:
    """Some blocks, each with the inputs nearest to it among the blocks before it in ``order``."""
    rank, found = inverse(order), []
    for block in blocks:
        halo = rows.near(block, n_halo, rank < rank[block]) if n_halo else order[:0]
        inputs = np.concatenate([halo, rows.blocks.rows(block)])
        found.append(Patch(rows.take(inputs), len(halo)))
    return tuple(found)


def on_all_rows(
    like: Any, rows: BlockedRows, n_halo: int, n_jobs: int | None = None
) -> BlockEvidence:
    """The evidence of all rows, or of very many its estimate from some blocks."""
    return on_blocks(like, rows, n_halo, _MOST_ROWS, n_jobs, whole=True)


def on_blocks(
    like: Any,
    rows: BlockedRows,
    n_halo: int,
    n_rows: int,
    n_jobs: int | None = None,
    *,
    whole: bool = False,
) -> BlockEvidence:
    """The evidence of blocks with about ``n_rows`` rows, chosen at random.

    If ``whole``, it is scaled to estimate that of all rows.
    """
    n_blocks = len(rows.blocks)
    order = np.random.RandomState(0).permutation(n_blocks)
    sizes = np.diff(rows.blocks.starts)
    # Evenly spaced in the order, so that early and late blocks have their share.
    number = min(n_blocks, max(1, round(n_rows * n_blocks / len(rows.X))))
    some = order[np.linspace(0, n_blocks - 1, number).round().astype(np.intp)]
    scale = len(rows.X) / float(sizes[some].sum()) if whole else 1.0
    found = patches(rows, order, some, n_halo)
    return BlockEvidence.like(like, patches=found, scale=scale, n_jobs=n_jobs)
