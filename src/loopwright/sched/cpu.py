"""Rules for CPUs: vectors along the last axis, register tiles for products, parallel outer loops.

Elementwise kernels become one loop nest whose last axis is vectorized. Products (matmul,
convolution in blocked layouts) keep a tile of accumulators in registers:

    for outer tiles (parallel):
        acc[rows, vectors] = 0
        for reduction:
            acc[r, v] += broadcast(lhs[r]) * rhs[v]         # unrolled, vectorized
        out = epilogue(acc)                                  # fused operators, same tile

Pooling and depthwise convolutions have the same form with vectors on both operands.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ..ir.literals import is_true
from ..ir.prim_op import const
from ..ir.target import Target
from ..tir.function import PrimFunc
from ..tir.schedule import Schedule
from .analysis import (
    BlockInfo,
    Stage,
    as_product,
    blocks_of,
    constant,
    has_condition,
    has_free_layout,
    is_costly,
    split_stages,
)
from .apply import register_schedule_rule
from .convolution import copy_padded, is_padded_for_lanes
from .decisions import decide
from .depth_blocks import depth_of, reduce_in_blocks
from .dots import dot_of, in_vectors, is_interleaved, use_dot
from .few_results import reduce_in_parts
from .loops import parallel, parallel_tiles, taps, vectorize_nest
from .machine import Machine, RuleSchedule
from .narrow import right_side, transpose_narrow
from .parts import parts_first
from .prefetch import prefetch_operands, prefetch_strips
from .reductions import prepare_reductions
from .rows import pad_reductions, reduce_rows, widths_of
from .tiles import (
    Tile,
    inner_loops,
    schedule_accumulators,
    steps_at_once,
    stored,
    tile_of,
    unroll_tile,
)
from .transposes import transpose_tiles

if TYPE_CHECKING:
    from ..tir.buffer import Buffer
    from ..tir.tensor_intrin.instructions import DotProduct

FEW_VECTORS = 4  # of which functions are computed one by one


@register_schedule_rule("stages", "cpu")
def stages(func: PrimFunc, target: Target) -> Schedule | None:
    """Kernels that are a sequence of perfect nests: blocks are inlined if possible, each reduction
    is fused with the elementwise blocks around it, and the remaining blocks become nests of their
    own."""
    sch = RuleSchedule(func, target)
    prepare_reductions(sch, target)
    blocks = blocks_of(sch.func)
    stages = split_stages(sch.func, blocks) if blocks else None
    if stages is None or not all(s.reduction is None or s.reduction.is_in_order for s in stages):
        return None
    reduce_in_parts(sch)
    transpose_narrow(sch, target)
    stages = split_stages(sch.func, blocks_of(sch.func) or []) or stages
    reductions = [s.reduction for s in stages if s.reduction is not None]
    rows = widths_of(reductions, target)
    if rows:
        pad_reductions(sch, rows)
        stages = split_stages(sch.func, blocks_of(sch.func) or []) or stages
    for stage in stages:
        for b in stage.inlined:
            if stage.reduction is not None and is_padded_for_lanes(b, stage.reduction):
                vectorize_nest(sch, sch.get_block(b.name), target, b.writes[0].dtype)
            else:
                sch.compute_inline(sch.get_block(b.name))
    for stage in stages:
        if stage.reduction is None:
            block = sch.get_block(stage.last.name)
            if not (transpose_tiles(sch, block, target) or copy_padded(sch, block)):
                vectorize_nest(sch, block, target, stage.last.writes[0].dtype)
        elif in_vectors(stage.reduction, target):
            _reduce_in_registers(sch, stage, target)
        else:
            reduce_rows(sch, stage, rows, target)
    return sch


def _reduce_in_registers(sch: RuleSchedule, stage: Stage, target: Target) -> None:
    """Schedule a reduction whose result's last axis is vectorized."""
    reduction = stage.reduction
    assert reduction is not None
    product = as_product(reduction)
    is_product = product is not None and not product.depthwise
    block = sch.get_block(reduction.name)
    body = sch.get(block)
    inlined = replace(reduction, block=body)  # a factor may be no single element any more
    dot = dot_of(inlined, target) if product is not None else None
    if not (is_interleaved(inlined, dot) or has_free_layout(sch.func, right_side(body, reduction))):
        dot = None
    depth = depth_of(sch, reduction) if is_product and dot is None else 0
    if depth:
        reduce_in_blocks(sch, stage, depth, target)
        return
    last = stored(sch, stage)
    tile = tile_of(sch, reduction, is_product, target, body, dot)
    tiled = _schedule_tile(sch, block, last, reduction, tile, is_product, dot)
    filled = (block, *tiled.filled)
    if any(not is_true(sch.get_sref(b).realize.predicate) for b in filled):
        sch.compute_full_tiles(*filled, clamp=dot is not None)
    if product is not None and has_condition(sch.get(block)):
        sch.hoist_padding(block)
    if tiled.strips is not None:
        prefetch_strips(sch, block, *tiled.strips)
    if product is not None:
        prefetch_operands(sch, block, tiled.parts)
    if dot is not None:
        use_dot(sch, tiled.lanes, dot)
    if tiled.few_rows is not None and tile.row is not None:
        sch.split_few_rows(tiled.few_rows, tile.row)


class _Tiled(NamedTuple):
    """A tile whose ends are not scheduled yet: the other blocks that fill local buffers; the loop over the
    lanes of the accumulators; a loop over steps that fetches the next strip, with the axis of rows and
    their number; the parts of an image; the loop over tiles that may have few rows."""

    filled: list[Any]
    lanes: Any
    strips: tuple[Any, int, int] | None
    parts: int
    few_rows: Any


def _schedule_tile(
    sch: RuleSchedule, block: Any, last: Any, reduction: BlockInfo, tile: Tile, product: bool,
    dot: DotProduct | None,
) -> _Tiled:  # fmt: skip
    """Schedule a tile."""
    loops = list(sch.get_loops(last))
    inner: list[Any] = []
    outer = list(range(len(loops)))
    vector = loops[-1]
    loop_at: dict[int, Any] = dict(enumerate(loops))
    if tile.column == len(loops) - 1:
        jo, jv, vector = sch.split(loops[-1], [None, tile.vectors, tile.lanes])
        loop_at[len(loops) - 1] = jo
    else:
        co, jv = sch.split(loops[tile.column], [None, tile.vectors])
        loop_at[tile.column] = co
        outer.remove(len(loops) - 1)
    if tile.row is not None:
        ro, ri = sch.split(loops[tile.row], [None, tile.rows])
        loop_at[tile.row] = ro
        inner = [ri, jv, vector]
    else:
        inner = [jv, vector]
    right = right_side(sch.get(block), reduction) if product else None
    packed, prepacked = _packed_side(sch, block, reduction, tile, dot, right)
    batch = 0 if right is None else len(right.shape) - 2
    if packed is not None:
        outer.insert(batch, outer.pop(outer.index(tile.column)))
    order, parts = [loop_at[k] for k in outer], 1
    if constant(reduction.spatial[-1].dom.extent) == tile.lanes:  # a block of channels: one vector
        order, parts = parts_first(sch, reduction, order)
    sch.reorder(*order, *inner)
    sch.compute_at(block, order[-1], preserve_unit_loops=True)
    if packed is not None and not prepacked:
        sch.compute_at(packed, order[0], preserve_unit_loops=True)
        sch.vectorize(list(sch.get_loops(packed))[-1])
    steps = steps_at_once(sch, reduction, tile) if product and dot is None else 1
    init, lanes = schedule_accumulators(sch, block, reduction, tile, len(order), dot, steps)
    filled = [init]
    many = 1 if tile.row is None else constant(reduction.spatial[tile.row].dom.extent)
    strips = None
    if prepacked and tile.row is not None and many is not None:
        if decide(sch, "prefetch", (0, 1), int(many >= sch.machine.prefetch_rows)):
            k = list(sch.get_loops(block))[-len(inner) - 1 - (dot is not None or steps > 1)]
            strips = (k, tile.row, many)
    if tile.rows * tile.vectors > FEW_VECTORS and is_costly(sch.get(last)):
        # A function leaves no registers to accumulators: it runs over their copy.
        at = [r.buffer for r in sch.get(last).reads].index(sch.get(block).writes[0].buffer)
        copy = sch.cache_read(last, at, "local", [last])
        unroll_tile(sch, inner_loops(sch, copy, reduction, tile, len(order)))
        filled.append(copy)
        sch.vectorize(vector)
    else:
        unroll_tile(sch, inner)
    terms = tile.vectors * tile.lanes * taps(reduction) // (1 if dot is None else dot.depth)
    work = tile.rows * terms // (sch.machine.fmas if product else sch.machine.fmas // 4)
    if product:  # of few rows, reading the right side takes longer
        work = max(work, terms // sch.machine.reads)
    if packed is not None and not prepacked:
        parallel(sch, order[:1], sch.machine.grain)
    else:
        parallel_tiles(sch, order, work)
    few_rows = list(sch.get_loops(last))[-len(inner) - 1] if prepacked and many is None else None
    return _Tiled(filled, lanes, strips, parts if product else 1, few_rows)


def _packed_side(
    sch: RuleSchedule, block: Any, reduction: BlockInfo, tile: Tile, dot: DotProduct | None,
    buffer: Buffer | None,
) -> tuple[Any, bool]:  # fmt: skip
    """The block that packs the right operand of a matmul into strips as wide as a tile, and whether it
    runs once, when the model is compiled; (None, False) if packing does not pay. All rows read each
    strip in order; unpacked, its rows are on different pages and, at widths like 1024, in the same
    few cache sets."""
    width = tile.vectors * tile.lanes
    shape = [constant(d) for d in buffer.shape] if buffer is not None else [None]
    if buffer is None or None in shape:
        return None, False
    prepacked = has_free_layout(sch.func, buffer)
    if (shape[-1] or 0) <= width and not (prepacked and dot):
        return None, False
    if not prepacked and len(shape) > 2:
        return None, False
    if not prepacked and not decide(
        sch, "packed", (0, 1), int(_packing_pays(sch.machine, reduction, tile, buffer, width))
    ):
        return None, False
    at = [r.buffer for r in sch.get(block).reads].index(buffer)
    packed = sch.cache_read(block, at, "global")
    strips = lambda *at: (*at[:-2], at[-1] // width, at[-2], at[-1] % width)  # noqa: E731
    if prepacked and dot is not None:
        depth = dot.depth
        strips = lambda *at: (  # noqa: E731
            *at[:-2], at[-1] // width, at[-2] // depth, at[-1] % width, at[-2] % depth,
        )  # fmt: skip
    sch.transform_layout(packed, ("write", 0), strips, pad_value=const(0, buffer.dtype))
    if prepacked:
        sch.annotate(packed, "meta_schedule.layout_rewrite_preproc", True)
    return packed, prepacked


def _packing_pays(
    machine: Machine, reduction: BlockInfo, tile: Tile, buffer: Buffer, width: int
) -> bool:
    """Whether a right side packed in each call is read often enough: large, whole strips, many rows."""
    rows = [constant(v.dom.extent) if v.dom is not None else None for v in reduction.spatial[:-1]]
    if tile.row is None or None in rows or math.prod(r for r in rows if r) < machine.packed_rows:
        return False
    size = math.prod(d.value for d in buffer.shape) * buffer.dtype.lane_bytes
    return size >= machine.packed_bytes
