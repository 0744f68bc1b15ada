"""Further rows for a model that predicts from neighbours: they join the blocks they fall into.

The hyperparameters stay. Inference is repeated in the blocks that have new rows, and a block that
has grown to twice the usual size is cut.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ordinalgp._typing import IntArray
from ordinalgp.many_rows.block_sites import BlockInference
from ordinalgp.many_rows.blocked_rows import BlockedRows
from ordinalgp.many_rows.chunks import Chunk
from ordinalgp.many_rows.neighbour_model import NeighbourGP, learned_noise
from ordinalgp.models.training_rows import RowIndex, merge_rows


def with_further_rows(model: NeighbourGP, new: Chunk, n_jobs: int | None = None) -> NeighbourGP:
    """The model with further rows."""
    used = np.flatnonzero(new.counts > 0)
    parts = _parts(model, new.take(used))
    joined = _joined(model.rows, parts)
    moved, place = joined.index.observation, np.full(new.n_rows, -1)
    place[used] = moved[len(model.rows.codes) :]
    old = model.rows.index
    before = np.append(moved[: len(model.rows.codes)], -1)[old.observation]
    left_out = np.vstack([old.left_out, np.delete(new.X, used, axis=0)])
    index = RowIndex(np.concatenate([before, place]), left_out)
    rows = replace(joined, index=index)

    columns = np.empty((len(rows.codes), model.columns.shape[1]))
    columns[moved[: len(model.rows.codes)]] = model.columns
    changed = np.concatenate([np.full(len(each.rows.blocks), len(each.new) > 0) for each in parts])
    work = BlockInference(rows, model.task, model.halo, n_jobs)
    blocks = np.flatnonzero(changed).tolist()
    for block, (found, _) in zip(blocks, work.infer(blocks), strict=True):
        columns[rows.observations(block)] = found
    noise = learned_noise(model.likelihood, rows, columns, model.neighbours)
    return replace(model, rows=rows, columns=columns, noise=noise)


@dataclass(frozen=True, eq=False)
class _Part:
    """Former block as blocks of its own.

    Its index leads from the old observations, and then the new rows, to its observations.
    """

    rows: BlockedRows
    new: IntArray
    """which of the new rows it has"""


def _parts(model: NeighbourGP, new: Chunk) -> list[_Part]:
    """All blocks, with the new rows that fall into each."""
    blocks = model.rows.blocks
    place = blocks.places(new.X)
    order = np.argsort(place, kind="stable")
    edges = np.searchsorted(place[order], np.arange(len(blocks) + 1))
    some = (order[edges[block] : edges[block + 1]] for block in range(len(blocks)))
    old = (model.rows.alone(block) for block in range(len(blocks)))
    pairs = zip(old, some, strict=True)
    return [
        _Part(_merged(model, *pair, new) if len(pair[1]) else pair[0], pair[1]) for pair in pairs
    ]


def _merged(model: NeighbourGP, old: BlockedRows, some: IntArray, new: Chunk) -> BlockedRows:
    """The rows of a block and some of the new ones, cut if they are many."""
    rows = merge_rows(
        np.vstack([old.X[old.latent], new.X[some].astype(old.X.dtype)]),
        np.concatenate([old.codes, new.codes[some]]),
        np.concatenate([old.counts, new.counts[some]]),
        model.kernel,
    )
    size = old.blocks.size
    cut = BlockedRows.cut(rows, old.blocks.weights, size * (1 + (len(rows.X) <= 2 * size)))
    return replace(cut, blocks=replace(cut.blocks, size=size))


def _joined(before: BlockedRows, parts: Sequence[_Part]) -> BlockedRows:
    """All parts; the index leads from the old observations, and then the new rows."""
    rows = [part.rows for part in parts]
    m = len(before.codes)
    index = np.empty(m + sum(len(part.new) for part in parts), dtype=np.intp)
    latent, first, inputs, observed = [], 0, 0, 0
    for part in parts:
        n_old = len(part.rows.index.observation) - len(part.new)
        place = np.concatenate([first + np.arange(n_old), m + part.new])
        index[place] = observed + part.rows.index.observation
        latent.append(inputs + part.rows.latent)
        first, inputs = first + n_old, inputs + len(part.rows.X)
        observed += len(part.rows.codes)
    return BlockedRows(
        np.concatenate([each.X for each in rows]),
        np.concatenate(latent),
        np.concatenate([each.codes for each in rows]),
        np.concatenate([each.counts for each in rows]),
        RowIndex(index, before.index.left_out),
        before.blocks.grafted([each.blocks for each in rows]),
    )
