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
from typing import Any

from ..ir.functor import any_node
from ..ir.prim_op import const
from ..ir.target import Target
from ..ir.variables import uses_any
from ..tir.function import PrimFunc
from ..tir.op import is_call_to
from ..tir.schedule import Schedule
from ..tir.stmt import BufferStore
from ..tir.transform.lower.dot_bfloat16 import MARK as DOT
from .analysis import (
    BlockInfo,
    Stage,
    as_product,
    blocks_of,
    constant,
    in_pairs,
    is_costly,
    loads_in,
    split_stages,
    vectors_fit,
)
from .apply import register_schedule_rule
from .convolution import is_padded_for_lanes, prefetch_operands
from .few_rows import TILE, split_few_rows
from .loops import GRAIN, parallel, parallel_tiles, taps, vectorize_nest
from .prefetch import ROWS, prefetch_strips
from .rows import reduce_rows, widths_of
from .separate import separate_reductions
from .tail import compute_whole_tiles, skip_padding, whole_rows
from .transposes import transpose_tiles

FMAS_PER_ELEMENT = 64  # multiply-adds of a product in the time of one element
READS_PER_ELEMENT = 4  # the same of what a product reads
UNROLLED_TAPS = 9  # largest window that is unrolled, in elements
MASKED_TERMS = 64  # of a tile with a condition for each lane: most that are unrolled
REGISTERS_LEFT = 3  # vector registers not used as accumulators
LEAST_ROWS = 4  # fewer rows of two vectors leave multiply-adds waiting for each other
FEW_ROWS = 6  # of a product whose tiles take more vectors instead,
LEAST_STRIPS = 8  # if at least this many strips are left
FEW_VECTORS = 4  # of which functions are computed one by one
PARTIAL = 1.02  # cost of a last tile with bounds checks
PREFETCH_ROWS = 32  # fewer rows do not use a strip long enough to fetch the next one
PACKED_BYTES = 1 << 20  # right operands at least this large are packed,
PACKED_ROWS = 64  # if at least this many rows use them


@register_schedule_rule("stages", "cpu")
def stages(func: PrimFunc, target: Target) -> PrimFunc | None:
    """Kernels that are a sequence of perfect nests: blocks are inlined if possible, each reduction
    is fused with the elementwise blocks around it, and the remaining blocks become nests of their
    own."""
    func = separate_reductions(func)
    blocks = blocks_of(func)
    stages = split_stages(func, blocks) if blocks else None
    if stages is None:
        return None
    reductions = [s.reduction for s in stages if s.reduction is not None]
    rows = widths_of(reductions, target)
    if rows:
        func = whole_rows(func, rows)
        stages = split_stages(func, blocks_of(func) or []) or stages
    sch = Schedule(func, enable_check=False)
    for stage in stages:
        for b in stage.inlined:
            if stage.reduction is not None and is_padded_for_lanes(b, stage.reduction):
                vectorize_nest(sch, sch.get_block(b.name), target, b.writes[0].dtype)
            else:
                sch.compute_inline(sch.get_block(b.name))
    whole: set[str] = set()
    sums: set[str] = set()
    for stage in stages:
        if stage.reduction is None:
            block = sch.get_block(stage.last.name)
            if not transpose_tiles(sch, block, target):
                vectorize_nest(sch, block, target, stage.last.writes[0].dtype)
        elif vectors_fit(stage.reduction):
            names = _reduce_in_registers(sch, stage, target)
            whole |= names
            sums |= names if as_product(stage.reduction) is not None else set()
        else:
            reduce_rows(sch, stage, rows, target)
    func = skip_padding(compute_whole_tiles(sch.func, whole), sums)
    return split_few_rows(prefetch_operands(prefetch_strips(func), sums))


def _reduce_in_registers(sch: Schedule, stage: Stage, target: Target) -> set[str]:
    """Schedule a reduction whose result's last axis is vectorized; return the names of the blocks
    that fill its accumulators."""
    reduction = stage.reduction
    assert reduction is not None
    block = sch.get_block(reduction.name)
    if stage.last is reduction:
        last = sch.cache_write(block, 0, "local")
    else:
        last = sch.get_block(stage.last.name)
        sch.set_scope(block, 0, "local")
    product = as_product(reduction)
    is_product = product is not None and not product.depthwise
    tile = _tile(reduction, is_product, target)
    filled = _schedule_tile(sch, block, last, reduction, tile, is_product)
    return {sch.get(b).name_hint for b in (block, *filled)}


class _Tile:
    """Sizes of a register tile: the row axis (None: none), its rows, vectors, lanes; the axis that
    counts the vectors if it is not the last axis itself."""

    def __init__(self, row: int | None, rows: int, column: int, vectors: int, lanes: int) -> None:
        self.row, self.rows, self.column = row, rows, column
        self.vectors, self.lanes = vectors, lanes


def _tile(reduction: BlockInfo, is_product: bool, target: Target) -> _Tile:
    spatial = reduction.spatial
    extents = [constant(v.dom.extent) if v.dom is not None else None for v in spatial]
    lanes = target.vector_lanes(reduction.writes[0].dtype)
    last = len(spatial) - 1
    width = extents[last]
    lanes = min(lanes, width) if width is not None else lanes
    column, vectors = last, 1
    row = _row_axis(extents)
    if is_product:
        if width is not None and width <= lanes and len(spatial) > 3:
            column = 1  # NCHW16c: several blocks of output channels
            count = extents[column]
            vectors = next((v for v in (2, 3) if count is not None and count % v == 0), 1)
        elif width is None or width >= 2 * lanes:
            moved = _moved_along(reduction)
            shares = _row_axis([1 if k in moved else e for k, e in enumerate(extents)])
            row = row if shares is None else shares
            vectors = _vectors(1 if row is None else extents[row], width, lanes)
    if row == column:
        row = None
    registers = target.num_vector_registers - REGISTERS_LEFT
    most = max(registers // vectors, 1)
    most = min(most, 14) if is_product else min(most, 8)
    rows = 1 if row is None else _rows(extents[row], most)
    return _Tile(row, rows, column, vectors, lanes)


def _moved_along(reduction: BlockInfo) -> set[int]:
    """The axes, the last one apart, by which the operand moves that the last axis indexes: rows along
    them share only the other operand."""
    spatial, store = [v.var for v in reduction.spatial], reduction.store
    moved: set[int] = set()
    for load in loads_in(store.value) if store is not None else ():
        if load.buffer is not store.buffer and uses_any(load.indices[-1], (spatial[-1],)):
            used = [k for k, v in enumerate(spatial[:-1]) if uses_any(tuple(load.indices), (v,))]
            moved.update(used)
    return moved


def _row_axis(extents: list[int | None]) -> int | None:
    """The axis whose neighbouring iterations share operands: the second to last, ignoring extents
    of 1."""
    for axis in range(len(extents) - 2, -1, -1):
        if extents[axis] != 1:
            return axis
    return None


def _vectors(rows: int | None, width: int | None, lanes: int) -> int:
    """Vectors of a tile's row: more for products of few rows, which then read longer stretches of the
    right side, if that leaves enough strips."""
    if rows is None or rows > FEW_ROWS or width is None:
        return 2
    strips = [v for v in (8, 4) if rows * v <= 24 and width >= v * lanes * LEAST_STRIPS]
    return strips[0] if strips else 2


def _rows(extent: int | None, most: int) -> int:
    """Rows of a tile: those that compute the fewest beyond the end, and the most at once."""
    if extent is None:
        return min(8, most)
    if extent <= most:
        return extent

    def cost(rows: int) -> float:
        tiles = -(-extent // rows) * max(rows, LEAST_ROWS)
        return tiles if extent % rows == 0 else tiles * PARTIAL

    return min(range(most, 0, -1), key=cost)


def _schedule_tile(
    sch: Schedule, block: Any, last: Any, reduction: BlockInfo, tile: _Tile, product: bool
) -> list[Any]:
    """Schedule a tile; the other blocks that fill local buffers."""
    loops = list(sch.get_loops(last))
    inner: list[Any] = []
    outer = list(range(len(loops)))
    vector = loops[-1]
    place: dict[int, Any] = dict(enumerate(loops))
    if tile.column == len(loops) - 1:
        jo, jv, vector = sch.split(loops[-1], [None, tile.vectors, tile.lanes])
        place[len(loops) - 1] = jo
    else:
        co, jv = sch.split(loops[tile.column], [None, tile.vectors])
        place[tile.column] = co
        outer.remove(len(loops) - 1)
    if tile.row is not None:
        ro, ri = sch.split(loops[tile.row], [None, tile.rows])
        place[tile.row] = ro
        inner = [ri, jv, vector]
    else:
        inner = [jv, vector]
    packed, kept = _packed_side(sch, block, reduction, tile) if product else (None, False)
    dots = kept and in_pairs(reduction)
    if packed is not None:
        outer.insert(0, outer.pop(outer.index(tile.column)))
    order = [place[k] for k in outer]
    sch.reorder(*order, *inner)
    sch.compute_at(block, order[-1], preserve_unit_loops=True)
    if packed is not None and not kept:
        sch.compute_at(packed, order[0], preserve_unit_loops=True)
        sch.vectorize(list(sch.get_loops(packed))[-1])
    filled = [_schedule_accumulators(sch, block, reduction, tile, len(order), dots)]
    many = 1 if tile.row is None else constant(reduction.spatial[tile.row].dom.extent)
    if kept and many is not None and many >= PREFETCH_ROWS:
        k = list(sch.get_loops(block))[-len(inner) - 1 - dots]
        sch.annotate(k, ROWS, [tile.row, many])
    if tile.rows * tile.vectors > FEW_VECTORS and is_costly(sch.get(last)):
        # A function leaves no registers to accumulators: it runs over their copy.
        at = [r.buffer for r in sch.get(last).reads].index(sch.get(block).writes[0].buffer)
        copy = sch.cache_read(last, at, "local", [last])
        if all(sch.get(loop) is not sch.get(order[-1]) for loop in sch.get_loops(copy)):
            sch.compute_at(copy, order[-1], preserve_unit_loops=True)
        _unroll_tile(sch, _inner_loops(sch, copy, reduction, tile, len(order)))
        filled.append(copy)
        sch.vectorize(vector)
    else:
        _unroll_tile(sch, inner)
    terms = tile.vectors * tile.lanes * taps(reduction)
    work = tile.rows * terms // (FMAS_PER_ELEMENT if product else FMAS_PER_ELEMENT // 4)
    if product:  # of few rows, reading the right side takes longer
        work = max(work, terms // READS_PER_ELEMENT)
    if packed is not None and not kept:
        parallel(sch, order[:1], GRAIN)
    else:
        parallel_tiles(sch, order, work)
    if kept and many is None:
        sch.annotate(list(sch.get_loops(last))[-len(inner) - 1], TILE, tile.row)
    return filled


def _packed_side(sch: Schedule, block: Any, reduction: BlockInfo, tile: _Tile) -> tuple[Any, bool]:
    """The block that packs the right operand of a matmul into strips as wide as a tile, and whether it
    runs once, when the model is compiled; (None, False) if packing does not pay. All rows read each
    strip in order; unpacked, its rows are on different pages and, at widths like 1024, in the same
    few cache sets."""
    width = tile.vectors * tile.lanes
    buffer = _right_side(sch.get(block), reduction)
    shape = [constant(d) for d in buffer.shape] if buffer is not None else [None]
    if buffer is None or None in shape or (shape[1] or 0) <= width:
        return None, False
    free = sch.func.attrs.get("layout_free_buffers", ())
    kept = any(sch.func.buffers[int(k)] is buffer for k in free)
    if not (kept or _packing_pays(reduction, tile, buffer, width)):
        return None, False
    at = [r.buffer for r in sch.get(block).reads].index(buffer)
    packed = sch.cache_read(block, at, "global")
    strips = lambda k, j: (j // width, k, j % width)  # noqa: E731
    if kept and in_pairs(reduction):
        strips = lambda k, j: (j // width, k // 2, j % width * 2 + k % 2)  # noqa: E731
    sch.transform_layout(packed, ("write", 0), strips, pad_value=const(0, buffer.dtype))
    if kept:
        sch.annotate(packed, "meta_schedule.layout_rewrite_preproc", True)
    return packed, kept


def _packing_pays(reduction: BlockInfo, tile: _Tile, buffer: Any, width: int) -> bool:
    """Whether a right side packed in each call is read often enough: large, whole strips, many rows."""
    rows = [constant(v.dom.extent) if v.dom is not None else None for v in reduction.spatial[:-1]]
    if tile.row is None or None in rows or math.prod(r for r in rows if r) < PACKED_ROWS:
        return False
    size = math.prod(d.value for d in buffer.shape) * buffer.dtype.lane_bytes
    return size >= PACKED_BYTES and buffer.shape[1].value % width == 0


def _right_side(block: Any, reduction: BlockInfo) -> Any:
    """The buffer that a product over one axis k reads only at [k, last axis], or None."""
    if len(reduction.reduce) != 1 or not isinstance(block.body, BufferStore):
        return None
    k, j = reduction.reduce[0].var, reduction.spatial[-1].var
    loads = loads_in(block.body.value)
    for load in loads:
        if len(load.indices) == 2 and load.indices[0] is k and load.indices[1] is j:
            alone = sum(x.buffer is load.buffer for x in loads) == 1
            return load.buffer if alone else None
    return None


def _unrolled(reduction: BlockInfo, tile: _Tile) -> int:
    """How many of the innermost reduction loops are unrolled: those of a small window (of a
    depthwise convolution, of pooling), so that boundary checks are done once per tile. Not where taps
    read the same pixels: what LLVM keeps of them takes the accumulators' registers."""
    count, taps, most = 0, 1, UNROLLED_TAPS
    if tile.column != len(reduction.spatial) - 1:
        return 0
    if _has_masks(reduction):
        most = min(most, MASKED_TERMS // (tile.rows * tile.vectors))
    for v in reversed(reduction.reduce):
        extent = constant(v.dom.extent) if v.dom is not None else None
        if extent is None or taps * extent > most:
            break
        taps *= extent
        count += 1
    return count


def _has_masks(reduction: BlockInfo) -> bool:
    """Whether a term has a condition on the last axis, that of the lanes, which no whole tile loses:
    the axis is symbolic."""
    last, domain = reduction.spatial[-1].var, reduction.spatial[-1].dom
    if domain is not None and constant(domain.extent) is not None:
        return False

    def masks(node: Any) -> bool:
        return is_call_to(node, "if_then_else") and uses_any(node.args[0], (last,))

    return any_node(reduction.block.body, masks)


def _schedule_accumulators(
    sch: Schedule, block: Any, reduction: BlockInfo, tile: _Tile, depth: int, dots: bool
) -> Any:
    """Schedule the block that fills the accumulators, and the one that begins with 0, which is returned.
    dots: two products at a time."""
    inner = _inner_loops(sch, block, reduction, tile, depth)
    reduce = list(sch.get_loops(block))[-len(inner) - len(reduction.reduce) : -len(inner)]
    init = sch.decompose_reduction(block, reduce[0])
    if dots:
        _, two = sch.split(reduce[-1], [None, 2])
        sch.reorder(*inner[:-1], two, inner[-1])
        sch.unroll(two)
        sch.annotate(two, DOT, 1)
    else:
        for loop in reduce[len(reduce) - _unrolled(reduction, tile) :]:
            sch.unroll(loop)
    _unroll_tile(sch, inner)
    _unroll_tile(sch, list(sch.get_loops(init))[-len(inner) :])
    return init


def _inner_loops(
    sch: Schedule, block: Any, reduction: BlockInfo, tile: _Tile, depth: int
) -> list[Any]:
    """Put the loops of a block that fills a tile in order and return the last: over rows, vectors,
    lanes."""
    loops = list(sch.get_loops(block))[depth:]
    count = len(reduction.spatial)
    spatial, reduce = loops[:count], loops[count:]
    vector = spatial[-1]
    if tile.column == count - 1:
        jv, vector = sch.split(spatial[-1], [None, tile.lanes])
    else:
        jv = spatial[tile.column]
    rest = [s for k, s in enumerate(spatial[:-1]) if k not in (tile.row, tile.column)]
    inner = ([spatial[tile.row]] if tile.row is not None else []) + [jv, vector]
    sch.reorder(*rest, *reduce, *inner)
    return inner


def _unroll_tile(sch: Schedule, inner: list[Any]) -> None:
    for loop in inner[:-1]:
        sch.unroll(loop)
    sch.vectorize(inner[-1])
