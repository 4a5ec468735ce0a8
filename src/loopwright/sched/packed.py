"""The rule for products by packed weights on CPUs: see `ops.packed`.

    for panels of columns, blocks of rows (parallel):
        acc[rows, vectors] = 0
        for blocks of k:
            sums[rows, vectors] = 0
            for 4 k at once:                                # unrolled
                numbers[vectors, 4] = bits of the planes
                sums[r, v] = dot(sums[r, v], data[r, k : k + 4], numbers[v])
            acc[r, v] += f(sums[r, v]) * scale[v]

A step of one row reads each number once: its time is that of memory.
"""

from __future__ import annotations

from typing import Any

from ..ir.prim_op import greater, logical_and, not_equal
from ..ir.target import Target
from ..ops.packed import FOUR, PARTS, PLAIN_PARTS, WIDE
from ..tir.function import PrimFunc
from ..tir.schedule import Schedule
from .analysis import BlockInfo, blocks_of, constant, elementwise_on
from .apply import register_schedule_rule
from .decisions import decide
from .dots import dot_of, use_dot
from .loops import parallel
from .machine import RuleSchedule
from .prefetch import prefetch_panels
from .tiles import unroll_tile

FEW = 3  # rows that are computed one by one, so that no tile is guarded: a third of the code less
STEPS = 4  # of four rows that are unrolled, at most: then numbers of two bits share their bytes


@register_schedule_rule("packed", "cpu")
def packed(func: PrimFunc, target: Target) -> Schedule | None:
    """Kernels that unpack numbers, add up their products in blocks, and these with their scales, or add up products
    by plain weights in panels; and what follows of the results one by one."""
    blocks = blocks_of(func) or []
    names = PARTS, PLAIN_PARTS
    at = next((k for k, b in enumerate(blocks) if b.block.annotations.keys() & names), None)
    if at is None:
        return None
    *before, total = blocks[: at + 1]
    is_packed, after = PARTS in total.block.annotations, blocks[at + 1 :]
    inner = [before.pop() for _ in range(2 if is_packed else 0)]
    reads = [total.writes[0], *(b.writes[0] for b in after)]
    if not all(elementwise_on(b, buffer) for b, buffer in zip(after, reads)):
        return None
    if not all(b.is_spatial and len(b.writes) == 1 for b in (*before, *after)):
        return None
    sch = RuleSchedule(func, target)
    for b in (*before, *after[:-1]):
        sch.compute_inline(sch.get_block(b.name))
    sums = sch.get_block(total.name)
    if after:
        sch.set_scope(sums, 0, "local")
        last = sch.get_block(after[-1].name)
    else:
        last = sch.cache_write(sums, 0, "local")
    lanes, wide = target.vector_lanes("float32"), target.num_vector_registers >= 32
    vectors = decide(sch, "vectors", (1, 2, 4), 4 if wide else 2)
    many = constant(total.spatial[0].dom.extent)
    best = 4 if wide or not is_packed else 2
    is_one = many == 1 or "apart" in total.block.annotations.values()
    rows = 1 if is_one else decide(sch, "rows", (1, 2, 4, 6, 8), best)
    i, panel, columns = sch.get_loops(last)
    i, row = sch.split(i, [None, rows])
    strip, vector, lane = sch.split(columns, [None, vectors, lanes])
    sch.reorder(panel, strip, i, row, vector, lane)
    unroll_tile(sch, [row, vector, lane])
    work = rows * vectors * lanes * (constant(total.reduce[0].dom.extent) or 64)
    if is_packed:
        products, numbers = inner
        work *= FOUR * (constant(products.reduce[0].dom.extent) or 8)
        _add_blocks(sch, sums, i, products, numbers, target)
    else:
        _add_rows(sch, sums, i, lanes)
    parallel(sch, [panel, strip], work // (sch.machine.fmas if many != 1 else sch.machine.reads))
    if many is None and rows > 1:
        if is_packed and vectors * lanes == WIDE:
            count = total.spatial[0].dom.extent
            twice = logical_and(greater(count, 1), not_equal(count, rows))
            prefetch_panels(sch, sch.get_block(inner[1].name), twice)
        sch.split_few_rows(i, 0, FEW)
    return sch


def _add_rows(sch: RuleSchedule, sums: Any, tile: Any, lanes: int) -> None:
    """Schedule the sums of a tile, a loop: for each row of the weights, whose vectors all rows of the tile use."""
    sch.compute_at(sums, tile, preserve_unit_loops=True)
    row, _, columns, k = list(sch.get_loops(sums))[3:]
    vector, lane = sch.split(columns, [None, lanes])
    steps = next(n for n in (STEPS, 2, 1) if (constant(sch.get(k).extent) or 1) % n == 0)
    outer, step = sch.split(k, [None, steps])
    sch.reorder(outer, step, row, vector, lane)
    begin = sch.decompose_reduction(sums, outer)
    for nest in (list(sch.get_loops(begin))[-3:], [row, vector, lane]):
        unroll_tile(sch, nest)
    sch.unroll(step)
    sch.compute_full_tiles(begin, sums, clamp=True)


def _add_blocks(
    sch: RuleSchedule, sums: Any, tile: Any, products: BlockInfo, numbers: BlockInfo, target: Target
) -> None:
    """Schedule the sums of a tile, a loop: for each block of rows its products, then the sum with its scales."""
    lanes = target.vector_lanes("float32")
    sch.compute_at(sums, tile, preserve_unit_loops=True)
    row, _, columns, block = list(sch.get_loops(sums))[3:]
    vector, lane = sch.split(columns, [None, lanes])
    sch.reorder(block, row, vector, lane)
    begin, product = sch.decompose_reduction(sums, block), sch.get_block(products.name)
    sch.set_scope(product, 0, "local")
    sch.compute_at(product, block, preserve_unit_loops=True)
    own_row, *units, columns, words, terms = list(sch.get_loops(product))[4:]
    own_vector, own_lane = sch.split(columns, [None, lanes])
    sch.reorder(*units, words, own_row, own_vector, own_lane, terms)
    count = constant(sch.get(words).extent) or 1
    choices = [n for n in (1, 2, 4, 8) if count % n == 0]
    best = max(n for n in choices if n <= STEPS)
    outer, words = sch.split(words, [None, decide(sch, "steps", choices, best)])
    zero = sch.decompose_reduction(product, outer)
    for nest in ([row, vector, lane], *(list(sch.get_loops(b))[-3:] for b in (begin, zero))):
        unroll_tile(sch, nest)
    _unpack(sch, sch.get_block(numbers.name), words, lanes)
    for loop in (words, own_row, own_vector):
        sch.unroll(loop)
    sch.compute_full_tiles(begin, zero, product, sums, clamp=True)
    dot = dot_of(BlockInfo(products.name, sch.get(product), []), target)
    if dot is not None:
        use_dot(sch, own_lane, dot)
    else:
        sch.reorder(terms, own_row, own_vector, own_lane)
        sch.unroll(terms)
        sch.vectorize(own_lane)


def _unpack(sch: RuleSchedule, numbers: Any, step: Any, lanes: int) -> None:
    """Unpack the numbers of a step in its loop, in vectors: of bytes, of which each column has four, or of floats."""
    sch.set_scope(numbers, 0, "local")
    sch.compute_at(numbers, step, preserve_unit_loops=True)
    *_, outer, inner = sch.get_loops(numbers)
    if constant(sch.get(inner).extent) == FOUR:
        cut, columns = sch.split(outer, [None, lanes])
        unrolled, vector = [cut], sch.fuse(columns, inner)
    else:
        cut, vector = sch.split(inner, [None, lanes])
        unrolled = [outer, cut]
    for loop in unrolled:
        sch.unroll(loop)
    sch.vectorize(vector)
