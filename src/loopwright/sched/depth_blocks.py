"""Products of few rows by a large right side that comes with each call, in blocks of its rows:

    for columns of a chunk (parallel):
        C[...] = 0
        for k in blocks of 16:
            for tiles of the chunk:
                acc[rows, vectors] = 0
                for 16 steps:
                    acc[r, v] += A[r, k] * B[k, v]          # unrolled, vectorized
                C[r, v] += acc[r, v]

A tile over the whole sum would read of each row of B a few vectors, on another page in each step, and the lines
at its ends twice where B does not begin at a line (8 x 4096 x 4096 on one thread of Zen 4: 14.3 to 5 ms).
"""

from __future__ import annotations

import math
from typing import Any

from ..ir.target import Target
from .analysis import BlockInfo, Stage, constant, has_condition, has_free_layout
from .decisions import decide
from .loops import parallel
from .machine import RuleSchedule
from .narrow import right_side
from .tiles import Tile, schedule_accumulators, steps_at_once, tile_of, unroll_tile

CHUNK = 1024  # columns: a page of each row of B, and of C no more than the first cache holds
DEPTH = 16  # steps of a block
FEW, FEW_DEPTH = (
    4,
    8,
)  # up to this many rows, fewer: what takes the time is to read many streams at once


def depth_of(sch: RuleSchedule, reduction: BlockInfo) -> int:
    """The steps of a block; 0 where blocks do not pay: the right side is small, packed or symbolic."""
    buffer = right_side(reduction.block, reduction)
    if buffer is None or len(buffer.shape) != 2 or has_free_layout(sch.func, buffer):
        return 0
    shape = [constant(d) or 0 for d in buffer.shape]
    rows = math.prod(constant(v.dom.extent) or 0 for v in reduction.spatial[:-1])
    size = math.prod(shape) * buffer.dtype.lane_bytes
    choices = [d for d in range(FEW_DEPTH, 2 * DEPTH + 1) if shape[0] % d == 0]
    if not 0 < rows < sch.machine.packed_rows or shape[1] < CHUNK or not choices:
        return 0
    if size < sch.machine.packed_bytes:
        return 0
    best = FEW_DEPTH if rows <= FEW else DEPTH
    return decide(sch, "depth", [0, *choices], min(choices, key=lambda d: abs(d - best)))


def reduce_in_blocks(sch: RuleSchedule, stage: Stage, depth: int, target: Target) -> None:
    """Schedule a product in blocks of `depth` steps."""
    reduction = stage.reduction
    assert reduction is not None
    block = sch.get_block(reduction.name)
    if stage.last is reduction:
        last = sch.cache_write(block, 0, "global")
    else:
        last = sch.get_block(stage.last.name)
    tile = tile_of(sch, reduction, True, target, sch.get(block))
    outer, _ = sch.split(list(sch.get_loops(block))[-1], [None, depth])
    partial = sch.rfactor(outer, 0)
    sch.set_scope(partial, 0, "local")

    *rows, columns = sch.get_loops(last)
    chunk, columns = sch.split(columns, [None, CHUNK])
    sch.reorder(chunk, *rows, columns)
    sch.vectorize(sch.split(columns, [None, tile.lanes])[1])
    sch.compute_at(block, chunk, preserve_unit_loops=True)

    _, outer, *rows, columns = sch.get_loops(block)
    strip, *inner = sch.split(columns, [None, tile.vectors, tile.lanes])
    if tile.row is not None:
        rows[tile.row], row = sch.split(rows[tile.row], [None, tile.rows])
        inner.insert(0, row)
    sch.reorder(outer, *rows, strip, *inner)
    sch.compute_at(partial, strip, preserve_unit_loops=True)
    zero = _in_tiles(sch, partial, tile)
    init = sch.decompose_reduction(block, outer)
    unroll_tile(sch, inner)
    sch.vectorize(list(sch.get_loops(init))[-1])
    sch.compute_full_tiles(init, zero, partial, block)
    if has_condition(sch.get(partial)):
        sch.hoist_padding(partial)
    terms = CHUNK * math.prod(constant(v.dom.extent) or 1 for v in reduction.reduce)
    parallel(sch, [chunk], terms // sch.machine.reads)


def _in_tiles(sch: RuleSchedule, partial: Any, tile: Tile) -> Any:
    """Schedule the sum over the steps of a block, which has one axis more: that of the blocks."""
    info = BlockInfo("partial", sch.get(partial), [])
    row = None if tile.row is None else tile.row + 1
    own = Tile(row, tile.rows, tile.column + 1, tile.vectors, tile.lanes)
    around = len(sch.get_loops(partial)) - len(info.block.iter_vars)
    steps = steps_at_once(sch, info, own)
    return schedule_accumulators(sch, partial, info, own, around, steps=steps)[0]
