"""Rows that lie in dask arrays: blocks and their sites stay with the workers, sums travel.

Every task is a pure function of a block, its sites of the pass before and a posterior that is part
of the graph. What a lost worker held is therefore computed again by dask, to the same numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import add
from typing import Any

import numpy as np

from ordinalgp._typing import FloatArray, IntArray
from ordinalgp.many_rows.chunks import Chunk, DeferredChunk, ScannedRows, inspect_chunk, stacked
from ordinalgp.many_rows.inducing import SweepSums
from ordinalgp.many_rows.passes import Sweep, Sweeps, sweep_pieces


def is_dask(X: Any) -> bool:
    """Whether ``X`` is a dask collection, without importing dask."""
    return hasattr(X, "__dask_graph__")


@dataclass(frozen=True, eq=False)
class DaskRows(ScannedRows):
    """Blocks of rows, each a tuple of delayed inputs, labels and weights."""

    parts: Sequence[tuple[Any, Any, Any]]

    @property
    def blocks(self) -> list[tuple[Any, ...]]:
        """The arguments of :class:`DeferredChunk` for every block with rows."""
        numbered = enumerate(zip(self.parts, self.lengths, strict=True))
        return [(part, k, length, self.categories) for k, (part, length) in numbered if length]

    def sample(self, size: int, rng: np.random.RandomState) -> Chunk:
        """Up to ``size`` rows, drawn without replacement; only they travel."""
        import dask

        pairs = zip(self.split_sample(size, rng), self.blocks, strict=True)
        take = dask.delayed(_take, pure=True)
        return stacked(dask.compute(*(take(rows, *block) for rows, block in pairs if len(rows))))


def blocks_of(X: Any, y: Any, sample_weight: Any, categories: Any) -> DaskRows:
    """Check dask arrays block by block, where they are, and find their levels."""
    import dask

    X, y, weights = _aligned(X, y, sample_weight)
    blocks = list(zip(X.to_delayed().ravel(), y.to_delayed(), weights, strict=True))
    check = dask.delayed(inspect_chunk, pure=True)
    found = dask.compute(*(check(block, k, categories) for k, block in enumerate(blocks)))
    return DaskRows.of(found, "The dask arrays have no block", categories, parts=blocks)


def _aligned(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Sequence[Any]]:
    """One block per run of rows, with its labels and its weights, if there are any."""
    import dask.array as da

    X = X.to_dask_array(lengths=True) if hasattr(X, "to_dask_array") else X
    y = y.to_dask_array(lengths=True) if hasattr(y, "to_dask_array") else y
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, but has shape {X.shape}.")
    X = X.compute_chunk_sizes() if np.isnan(X.shape[0]) else X
    X, runs = X.rechunk({1: -1}), X.chunks[0]
    columns = [y] if sample_weight is None else [y, sample_weight]
    arrays = []
    for name, column in zip(("y", "sample_weight"), columns, strict=False):
        array = column if is_dask(column) else da.from_array(np.asarray(column), chunks=(runs,))
        array = array.compute_chunk_sizes() if np.isnan(array.shape[0]) else array
        if array.shape != (X.shape[0],):
            raise ValueError(
                f"{name} must have one value for each of the {X.shape[0]} rows of X, but has "
                f"shape {array.shape}."
            )
        arrays.append(array.rechunk((runs,)))
    weights = [None] * len(runs) if sample_weight is None else list(arrays[1].to_delayed())
    return X, arrays[0], weights


def _take(rows: IntArray, *block: Any) -> Chunk:
    return DeferredChunk(*block).take(rows)


def _sweep(sites: Any, sweep: Sweep, *block: Any) -> tuple[FloatArray, SweepSums]:
    return sweep_pieces(DeferredChunk(*block).load(), sites, sweep)


@dataclass(eq=False)
class DaskSweeps(Sweeps):
    """Sweeps over dask blocks; the sites of a pass are kept by dask until the next is done."""

    rows: DaskRows
    sites: list[Any] = field(default_factory=list)

    def run(self, sweep: Sweep) -> SweepSums:
        """Move all sites by one sweep, and sum over them."""
        import dask

        shared = dask.delayed(Sweep.prepared, pure=False)(dask.delayed(sweep, traverse=False))
        work = dask.delayed(_sweep, pure=False, nout=2)
        blocks = self.rows.blocks
        old = self.sites or [None] * len(blocks)
        found = [work(sites, shared, *block) for sites, block in zip(old, blocks, strict=True)]
        total = _tree([sums for _, sums in found], dask.delayed(add, pure=False))
        *self.sites, total = dask.persist(*(sites for sites, _ in found), total)
        return total.compute()


def _tree(parts: list[Any], add: Any) -> Any:
    """Add in pairs, always the same ones."""
    while len(parts) > 1:
        pairs = [add(*parts[i : i + 2]) for i in range(0, len(parts) - 1, 2)]
        parts = pairs + parts[len(parts) - len(parts) % 2 :]
    return parts[0]
