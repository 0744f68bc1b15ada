"""Rows that lie in dask arrays: blocks and their sites stay with the workers, sums travel.

Every task is a pure function of a block, its sites of the pass before and a posterior that is part
of the graph. What a lost worker held is therefore computed again by dask, to the same numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordinalgp._typing import FloatArray
from ordinalgp.many_rows.chunks import (
    Chunk,
    coded,
    draw,
    inspect_chunk,
    joined,
    split_rows,
    stacked,
)
from ordinalgp.many_rows.induced_posterior import SweepSums
from ordinalgp.many_rows.sweeps import Sweep, sweep_pieces
from ordinalgp.validation.labels import encode_levels


def is_dask(X: Any) -> bool:
    """Whether ``X`` is a dask collection, without importing dask."""
    return hasattr(X, "__dask_graph__")


@dataclass(frozen=True, eq=False)
class DaskRows:
    """Blocks of rows, each a triple of delayed inputs, labels and weights."""

    blocks: Sequence[tuple[Any, Any, Any]]
    lengths: tuple[int, ...]
    categories: NDArray[Any]
    classes: NDArray[Any]
    n_features: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self.lengths)

    def sample(self, size: int, rng: np.random.RandomState) -> Chunk:
        """Up to ``size`` rows, drawn without replacement; only they travel."""
        import dask

        take = dask.delayed(_take, pure=True)
        here = split_rows(draw(self.n_rows, size, rng), self.lengths)
        parts = [
            take(*block, self.categories, number, rows)
            for number, (block, rows) in enumerate(zip(self.blocks, here, strict=True))
            if len(rows)
        ]
        return stacked(dask.compute(*parts))


def blocks_of(X: Any, y: Any, sample_weight: Any, categories: Any) -> DaskRows:
    """Check dask arrays block by block, where they are, and find their levels."""
    import dask

    X, y, weights = _aligned(X, y, sample_weight)
    blocks = list(zip(X.to_delayed().ravel(), y.to_delayed(), weights, strict=True))
    check = dask.delayed(_check, pure=True)
    parts = dask.compute(*(check(*block, k, categories) for k, block in enumerate(blocks)))
    found = joined(parts, "The dask arrays have no block")
    levels = encode_levels(found.labels, categories)
    full = [block for block, length in zip(blocks, found.lengths, strict=True) if length]
    lengths = tuple(length for length in found.lengths if length)
    return DaskRows(full, lengths, levels.categories, levels.classes, found.width)


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


def _part(X: Any, y: Any, weights: Any) -> tuple[Any, ...]:
    return (X, y) if weights is None else (X, y, weights)


def _check(X: Any, y: Any, weights: Any, number: int, categories: Any) -> Any:
    return inspect_chunk(_part(X, y, weights), number, categories)


def _chunk(X: Any, y: Any, weights: Any, categories: Any, number: int) -> Chunk:
    counts = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=float)
    return Chunk(np.asarray(X, dtype=float), coded(np.asarray(y), categories, number), counts)


def _take(X: Any, y: Any, weights: Any, categories: Any, number: int, rows: Any) -> Chunk:
    return _chunk(X, y, weights, categories, number).take(rows)


def _sweep(
    X: Any, y: Any, weights: Any, categories: Any, number: int, sites: Any, sweep: Any
) -> tuple[FloatArray, SweepSums]:
    return sweep_pieces(_chunk(X, y, weights, categories, number), sites, sweep)


def _prepare(sweep: Sweep) -> Any:
    return sweep.prepared()


def _add(one: SweepSums, other: SweepSums) -> SweepSums:
    return one + other


@dataclass(eq=False)
class DaskSweeps:
    """Sweeps over dask blocks; the sites of a pass are kept by dask until the next is done."""

    rows: DaskRows
    sites: list[Any] = field(default_factory=list)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.n_rows

    def run(self, sweep: Sweep) -> SweepSums:
        """Move all sites by one sweep, and sum over them."""
        import dask

        shared = dask.delayed(_prepare, pure=False)(dask.delayed(sweep, traverse=False))
        work = dask.delayed(_sweep, pure=False, nout=2)
        old = self.sites or [None] * len(self.rows.blocks)
        found = [
            work(*block, self.rows.categories, number, sites, shared)
            for number, (block, sites) in enumerate(zip(self.rows.blocks, old, strict=True))
        ]
        total = _tree([sums for _, sums in found], dask.delayed(_add, pure=False))
        *self.sites, total = dask.persist(*(sites for sites, _ in found), total)
        sums: SweepSums = total.compute()
        return sums

    def left_out(self) -> None:
        """The rows are not at hand."""


def _tree(parts: list[Any], add: Any) -> Any:
    """Add in pairs, always the same ones."""
    while len(parts) > 1:
        pairs = [add(*parts[i : i + 2]) for i in range(0, len(parts) - 1, 2)]
        parts = pairs + parts[len(parts) - len(parts) % 2 :]
    return parts[0]
