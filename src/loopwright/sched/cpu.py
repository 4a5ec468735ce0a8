"""Rules for CPUs: vectors along the last axis, register tiles for products, parallel outer loops.

Elementwise kernels become one loop nest whose last axis is cut in vectors. Products (matmul,
convolution in blocked layouts) keep a tile of accumulators in registers:

    for outer tiles (parallel):
        acc[rows, vectors] = 0
        for reduction:
            acc[r, v] += broadcast(lhs[r]) * rhs[v]         # unrolled, vectorized
        out = epilogue(acc)                                  # fused operators, same tile

Pooling and depthwise convolutions have the same form with vectors on both sides.
"""

from __future__ import annotations

from typing import Any

from ..ir.dtype import DataType
from ..ir.target import Target
from ..tir.function import PrimFunc
from ..tir.schedule import Schedule
from .analysis import BlockInfo, as_product, blocks_of, constant
from .apply import register_schedule_rule
from .tail import compute_whole_tiles

GRAIN = 1 << 14  # elements of work that make a task worth starting
UNROLLED_TAPS = 25  # windows of up to this many elements are written out
REGISTERS_LEFT = 3  # vector registers that are no accumulators


@register_schedule_rule("elementwise", "cpu")
def elementwise(func: PrimFunc, target: Target) -> PrimFunc | None:
    """Kernels whose blocks are all data-parallel: inlined into one nest, vectorized."""
    blocks = blocks_of(func)
    if not blocks or not all(b.is_spatial for b in blocks):
        return None
    sch = Schedule(func, enable_check=False)
    outputs = _inline_all(sch, blocks)
    for name in outputs:
        block = sch.get_block(name)
        _vectorize_nest(sch, block, target, _dtype_of(blocks, name))
    return sch.func


def _dtype_of(blocks: list[BlockInfo], name: str) -> DataType:
    return next(b.writes[0].dtype for b in blocks if b.name == name)


def _inline_all(sch: Schedule, blocks: list[BlockInfo]) -> list[str]:
    """Inline every block whose result is an intermediate; the names of the others."""
    written = {b.writes[0]: b.name for b in blocks if b.writes}
    read = {r.buffer for b in blocks for r in b.block.reads}
    kept = []
    for b in blocks:
        target = b.writes[0] if len(b.writes) == 1 else None
        inner = target in read and target not in sch.func.buffer_map.values() and target in written
        if inner:
            sch.compute_inline(sch.get_block(b.name))
        else:
            kept.append(b.name)
    return kept


def _vectorize_nest(sch: Schedule, block: Any, target: Target, dtype: DataType) -> None:
    """Vectorize the last loop, run the others in parallel."""
    loops = sch.get_loops(block)
    if not loops:
        return
    lanes = target.vector_lanes(dtype)
    last = constant(sch.get(loops[-1]).extent)
    inner = loops[-1]
    outer = loops[:-1]
    work = last if last is not None else lanes
    if last is not None and last > 1:
        if last > lanes:
            cut, inner = sch.split(inner, [None, lanes])
            outer = [*outer, cut]
            work = lanes
        sch.vectorize(inner)
    elif last is None:
        cut, inner = sch.split(inner, [None, lanes])
        sch.vectorize(inner)
        outer = [*outer, cut]
    _parallel(sch, outer, work)


def _parallel(sch: Schedule, loops: list[Any], work: int) -> None:
    """Fuse loops and run them in parallel, each task with enough of `work` elements."""
    if not loops:
        return
    fused = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    extent = constant(sch.get(fused).extent)
    if extent is not None and extent * work <= GRAIN:
        return
    sch.annotate(fused, "grain", max(GRAIN // max(work, 1), 1))
    sch.parallel(fused)


@register_schedule_rule("product", "cpu")
def product(func: PrimFunc, target: Target) -> PrimFunc | None:
    """One product (matmul, convolution) or windowed reduction with what is fused around it."""
    parts = _split_around_reduction(func)
    if parts is None:
        return None
    before, reduction, after = parts
    spatial = reduction.spatial
    if not spatial or not _vectors_fit(reduction, target):
        return None
    found = as_product(reduction)
    sch = Schedule(func, enable_check=False)
    for b in before:
        sch.compute_inline(sch.get_block(b.name))
    for b in after[:-1]:
        sch.compute_inline(sch.get_block(b.name))
    block = sch.get_block(reduction.name)
    if after:
        last = sch.get_block(after[-1].name)
        sch.set_scope(block, 0, "local")
    else:
        last = sch.cache_write(block, 0, "local")
    if len(sch.get_loops(last)) != len(spatial):
        return None
    tile = _tile(reduction, found is not None and not found.depthwise, target)
    init = _schedule_tile(sch, block, last, reduction, tile)
    names = {sch.get(b).name_hint for b in (block, init)}
    return compute_whole_tiles(sch.func, names)


def _split_around_reduction(
    func: PrimFunc,
) -> tuple[list[BlockInfo], BlockInfo, list[BlockInfo]] | None:
    blocks = blocks_of(func)
    if not blocks:
        return None
    places = [k for k, b in enumerate(blocks) if not b.is_spatial]
    if len(places) != 1 or not blocks[places[0]].is_reduction:
        return None
    k = places[0]
    reduction = blocks[k]
    if len(reduction.writes) != 1 or reduction.store is None:
        return None
    outputs = set(func.buffer_map.values())
    before, after = blocks[:k], blocks[k + 1 :]
    if any(w in outputs for b in (*before, *after[:-1]) for w in b.writes):
        return None
    if after and reduction.writes[0] in outputs:
        return None
    return before, reduction, after


def _vectors_fit(reduction: BlockInfo, target: Target) -> bool:
    """Whether the last spatial axis is long enough for vectors and runs along memory."""
    store = reduction.store
    assert store is not None
    last = reduction.spatial[-1]
    extent = constant(last.dom.extent) if last.dom is not None else None
    if store.indices[-1] is not last.var:
        return False
    return extent is None or extent >= 4


class _Tile:
    """Sizes of a register tile: the row axis (None: no row axis), its rows, vectors, lanes; the
    axis whose blocks are the vectors where it is not the last axis itself."""

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
            vectors = 2 if count is not None and count % 2 == 0 else 1
        elif width is None or width >= 2 * lanes:
            vectors = 2
    if row == column:
        row = None
    registers = target.num_vector_registers - REGISTERS_LEFT
    most = max(registers // vectors, 1)
    most = min(most, 14) if is_product else min(most, 8)
    rows = 1 if row is None else _rows(extents[row], most, len(spatial) > 2)
    return _Tile(row, rows, column, vectors, lanes)


def _row_axis(extents: list[int | None]) -> int | None:
    """The axis whose neighbours share operands: the last but one that is not 1."""
    for axis in range(len(extents) - 2, -1, -1):
        if extents[axis] != 1:
            return axis
    return None


def _rows(extent: int | None, most: int, image: bool) -> int:
    """Rows of a tile: a divisor of the extent where there is a good one."""
    if extent is None:
        return min(8, most)
    if extent <= most:
        return extent
    best = max(d for d in range(1, most + 1) if extent % d == 0)
    return best if best * 2 >= most else most


def _schedule_tile(sch: Schedule, block: Any, last: Any, reduction: BlockInfo, tile: _Tile) -> None:
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
    order = [place[k] for k in outer]
    sch.reorder(*order, *inner)
    sch.compute_at(block, order[-1], preserve_unit_loops=True)
    init = _schedule_accumulators(sch, block, reduction, tile, len(order))
    for loop in inner[:-1]:
        sch.unroll(loop)
    sch.vectorize(vector)
    work = tile.rows * tile.vectors * tile.lanes * _reduction_work(reduction)
    depth = len(order) if len(order) < 2 else len(order) - 1
    _parallel(sch, order[:depth] or order, work * (1 if depth == len(order) else 4))
    return init


def _reduction_work(reduction: BlockInfo) -> int:
    work = 1
    for v in reduction.reduce:
        extent = constant(v.dom.extent) if v.dom is not None else None
        work *= extent if extent is not None else 8
    return max(work // 4, 1)


def _unrolls(reduction: BlockInfo) -> bool:
    """Whether the reduction is a small window (a depthwise convolution, pooling), whose checks of
    borders are then made once for a tile."""
    taps = 1
    for v in reduction.reduce:
        extent = constant(v.dom.extent) if v.dom is not None else None
        if extent is None:
            return False
        taps *= extent
    return taps <= UNROLLED_TAPS


def _schedule_accumulators(
    sch: Schedule, block: Any, reduction: BlockInfo, tile: _Tile, depth: int
) -> Any:
    loops = list(sch.get_loops(block))[depth:]
    count = len(reduction.spatial)
    spatial, reduce = loops[:count], loops[count:]
    vector = spatial[-1]
    inner: list[Any] = []
    if tile.column == count - 1:
        jv, vector = sch.split(spatial[-1], [None, tile.lanes])
    else:
        jv = spatial[tile.column]
    rest = [s for k, s in enumerate(spatial[:-1]) if k not in (tile.row, tile.column)]
    inner = ([spatial[tile.row]] if tile.row is not None else []) + [jv, vector]
    sch.reorder(*rest, *reduce, *inner)
    init = sch.decompose_reduction(block, reduce[0])
    if _unrolls(reduction):
        for loop in reduce:
            sch.unroll(loop)
    for loop in inner[:-1]:
        sch.unroll(loop)
    sch.vectorize(vector)
    made = list(sch.get_loops(init))
    for loop in made[-len(inner) : -1]:
        sch.unroll(loop)
    sch.vectorize(made[-1])
    return init
