"""Sites of all rows, from inference in each block together with rows near it.

The halo of a block has the nearest rows outside, wherever they are. They inform the sites of the
block and are then dropped, since each row keeps the site from its own block. Blocks need nothing of
each other, so that any worker can do them in any order.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import delayed

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.many_rows.blocked_rows import BlockedRows, LocalRows
from ordinalgp.many_rows.chunks import workers
from ordinalgp.many_rows.site_store import SiteStore
from ordinalgp.runtime.progress import Progress, Report, silent

SITE_COLUMNS = 4
"""precision and shift of the site; mean and variance of the latent value without the row"""
_BATCH, _REPORTS = 64, 50  # blocks between reports, at least, and reports at most


def infer_block(rows: LocalRows, n_own: int, like: Any) -> tuple[FloatArray, bool]:
    """Site columns of the first ``n_own`` observations, (n_own, 4), and whether they converged."""
    task = rows.task(like)
    found = task.infer(task.problem())
    left = task.left_out(found.posterior, found.sites)
    columns = found.sites.tau, found.sites.nu, left.mean, left.var
    return np.column_stack([column[:n_own] for column in columns]), bool(found.converged)


@dataclass(frozen=True, eq=False)
class BlockInference:
    """Inference in blocks of rows, at given hyperparameters."""

    rows: BlockedRows
    like: Any
    """task with the hyperparameters and the limits"""
    halo: int
    """inputs beside those of a block"""
    n_jobs: int | None = None
    report: Report = silent
    with_dask: bool = False

    def run(
        self, store: SiteStore, saved: dict[str, Any], notes: dict[str, Any]
    ) -> tuple[FloatArray, int]:
        """Site columns of all observations, (M, 4), and the blocks where they have not converged.

        ``saved`` is what ``store`` has of an interrupted run; it is stored beside ``notes``.
        """
        m, began = len(self.rows.blocks), time.perf_counter()
        columns = np.array(saved.get("columns", np.zeros((len(self.rows.codes), SITE_COLUMNS))))
        state = np.array(saved.get("blocks", np.zeros(m, dtype=np.int8)))  # 1: done, 2: moving
        size = max(_BATCH, m // _REPORTS)
        left = np.flatnonzero(state == 0)
        for blocks in (left[i : i + size] for i in range(0, len(left), size)):
            for block, (found, converged) in zip(blocks, self.infer(blocks), strict=True):
                columns[self.rows.observations(block)] = found
                state[block] = 1 if converged else 2
            store.save(columns=columns, blocks=state, **notes)
            done, seconds = int(np.sum(state > 0)), time.perf_counter() - began
            text = f"{self.rows.blocks.starts[done]:,} of {len(self.rows.X):,} rows in blocks"
            self.report(Progress("pass", done, m, None, seconds, text, done == m))
        return columns, int(np.sum(state == 2))

    def infer(self, blocks: Sequence[int] | IntArray) -> Iterator[tuple[FloatArray, bool]]:
        """The outcome in some blocks, in their order."""
        jobs = (delayed(infer_block)(*self.job(block), self.like) for block in blocks)
        if not self.with_dask:
            return iter(workers(self.n_jobs)(jobs))
        import dask

        return iter(dask.compute(*(dask.delayed(f, pure=False)(*a) for f, a, _ in jobs)))

    def job(self, block: int) -> tuple[LocalRows, int]:
        """The rows of a block and its halo, and the number of its own observations."""
        others = np.arange(len(self.rows.blocks)) != block
        halo = self.rows.near(block, self.halo, others)
        inputs = np.concatenate([self.rows.blocks.rows(block), halo])
        own = self.rows.observations(block)
        return self.rows.take(inputs), own.stop - own.start
