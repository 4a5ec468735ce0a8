"""The rule for the transforms of Winograd's algorithm on CPUs: see `ops.winograd`.

    for tiles (parallel):
        for vectors of channels:
            half[...] = sums of the pixels along rows           # unrolled
            tiles[...] = sums of these along columns            # unrolled

Unrolled over a tile's rows and columns, each sum knows its factors: nothing is multiplied by 0 or 1.
"""

from __future__ import annotations

from ..ir.target import Target
from ..ops.winograd import MARK
from ..tir.function import PrimFunc
from ..tir.schedule import Schedule
from .analysis import BlockInfo, blocks_of, constant, elementwise_on
from .apply import register_schedule_rule
from .loops import parallel, vectorize_nest
from .machine import RuleSchedule
from .transposes import transpose_tiles


@register_schedule_rule("winograd", "cpu")
def winograd(func: PrimFunc, target: Target) -> Schedule | None:
    """Kernels of steps over tiles, and what follows of their results one by one."""
    blocks = blocks_of(func) or []
    steps = [b for b in blocks if MARK in b.block.annotations]
    if not steps or not all(b.is_spatial and len(b.writes) == 1 for b in blocks):
        return None
    last = _last(func, blocks, steps[-1])
    names = [b.name for b in steps[:-1]]
    end = blocks.index(last)
    sch = RuleSchedule(func, target)
    for b in blocks[:end]:
        if b.name not in names:
            sch.compute_inline(sch.get_block(b.name))
    for b in blocks[end + 1 :]:
        if not transpose_tiles(sch, sch.get_block(b.name), target):
            vectorize_nest(sch, sch.get_block(b.name), target, b.writes[0].dtype)
    tile, lanes = int(steps[0].block.annotations[MARK]), target.vector_lanes(last.writes[0].dtype)
    block = next(r.buffer.shape[-1] for r in steps[0].block.reads if r.buffer.shape)
    lanes = min(lanes, constant(block) or lanes)  # of an image's block of channels
    *loops, vector = sch.get_loops(sch.get_block(last.name))
    if len(loops) == 5:  # m, m, n, tiles, tiles, channels
        inner, outer = loops[:2], loops[2:]
        more, vector = sch.split(vector, [None, lanes])
    else:  # n, blocks, rows, cols, block
        n, more, *sides = loops
        (high, y), (wide, x) = (sch.split(side, [None, tile]) for side in sides)
        outer, inner = [n, high, wide], [y, x]
    sch.reorder(*outer, more, *inner, vector)
    nests = [[*inner, vector]]
    for name in reversed(names):
        sch.compute_at(sch.get_block(name), more, preserve_unit_loops=True)
        nests.append(list(sch.get_loops(sch.get_block(name)))[len(outer) + 1 :])
    for *unrolled, lane in nests:
        for loop in unrolled:
            sch.unroll(loop)
        sch.vectorize(lane)
    parallel(sch, outer, lanes * (tile + 2) ** 2)
    return sch


def _last(func: PrimFunc, blocks: list[BlockInfo], last: BlockInfo) -> BlockInfo:
    """The last block of those that follow one by one, each read by the next one only."""
    outputs = set(func.buffer_map.values())
    while last.writes[0] not in outputs:
        readers = [b for b in blocks if last.writes[0] in {r.buffer for r in b.block.reads}]
        if len(readers) != 1 or not elementwise_on(readers[0], last.writes[0]):
            break
        last = readers[0]
    return last
