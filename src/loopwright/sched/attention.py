"""The rule for attention on CPUs: a product, softmax and a product, in one loop over blocks of queries.

    keys in strips                              # transposed, for all rows
    for heads, blocks of rows (parallel):
        s[rows, keys] = f(q @ k)                # tiles of accumulators, see `cpu`
        for row of rows:                        # vectors, see `rows`
            s[row, :] = exp(s[row, :] - max(s[row, :]))
        total[rows] = sum(s)
        out[rows, :] = s @ v / total            # tiles of accumulators

The scores of a block's rows stay in the cache, and no others are stored. Their rows are whole tiles long:
beyond its end a row is -inf. It is `FuseAttention` that brings the operators into one kernel.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..ir.prim_expr import Add, BinaryOpExpr, IterVar, Max
from ..ir.prim_op import const
from ..ir.target import Target
from ..ir.variables import uses_any
from ..tir.buffer import Buffer
from ..tir.expr import BufferLoad
from ..tir.function import PrimFunc
from ..tir.schedule import Schedule
from .analysis import (
    BlockInfo,
    Stage,
    as_product,
    blocks_of,
    constant,
    is_costly,
    loads_in,
    split_stages,
    vectors_fit,
)
from .apply import register_schedule_rule
from .loops import lanes_of, parallel, taps, vectorize_last, vectorize_nest
from .rows import partial_results, reduce_in
from .softmax import blocks_by_name, in_place, is_softmax, max_without_nan
from .tail import compute_whole_tiles, skip_padding, whole_columns
from .tiles import FMAS_PER_ELEMENT, Tile, schedule_accumulators, stored, tile_of, unroll_tile
from .transposes import transpose_tiles

# Multiply-adds in the time that softmax takes for a score: its exponential alone takes that of 14 to 20
# (0.1 to 0.15 ns in vectors, products at 275 GF/s: docs/performance.md).
FMAS_PER_EXP = 64


@register_schedule_rule("attention", "cpu")
def attention(func: PrimFunc, target: Target) -> PrimFunc | None:
    """Kernels of five stages: a product, the maxima of its rows, the exponentials, their sums, and the
    product of the exponentials by a matrix."""
    stages = _stages_of(func)
    if stages is not None and stages.scores.last is stages.scores.reduction:
        sch = Schedule(func, enable_check=False)
        sch.cache_write(sch.get_block(stages.scores.last.name), 0, "global")
        func, stages = sch.func, _stages_of(sch.func)
    if stages is None:
        return None
    score_tile, tile = (
        tile_of(_reduction(s), True, target) for s in (stages.scores, stages.output)
    )
    if score_tile.row != len(stages.scores.last.spatial) - 2 or tile.row is None:
        return None
    width = score_tile.vectors * score_tile.lanes
    if width & (width - 1):  # there are fewer keys than lanes
        return None
    keys = stages.scores.last.spatial[-1].dom.extent
    if (constant(keys) or 1) % width:
        stages, func = _with_whole_rows(stages, func, width)
    sch = Schedule(func, enable_check=False)
    _schedule_keys(sch, stages, width, target)
    score_tile.rows = tile.rows  # both products are computed in one loop over blocks of rows
    last = stored(sch, stages.output)
    *order, columns = sch.get_loops(last)
    block, rows = sch.split(order.pop(tile.row), [None, tile.rows])
    order.append(block)
    sch.reorder(*order, rows, columns)
    filled = _product(sch, last, stages.output, tile, rows, columns)
    _schedule_softmax(sch, stages, block, len(order), width, target)
    scores = stored(sch, stages.scores)
    sch.compute_at(scores, block, preserve_unit_loops=True)
    *_, rows, columns = sch.get_loops(scores)
    filled |= _product(sch, scores, stages.scores, score_tile, rows, columns)
    terms = taps(_reduction(stages.output)) * (taps(_reduction(stages.scores)) + FMAS_PER_EXP)
    parallel(sch, order, tile.rows * terms // FMAS_PER_ELEMENT)
    func = skip_padding(compute_whole_tiles(sch.func, {*blocks_by_name(sch.func)}), filled)
    blocks = blocks_by_name(func)
    power, scores = (
        blocks[s.last.name].writes[0].buffer for s in (stages.exponentials, stages.scores)
    )
    return max_without_nan(in_place(func, power, scores))


class _Stages(NamedTuple):
    """The stages of attention; all except `exponentials` have a reduction."""

    scores: Stage
    maxima: Stage
    exponentials: Stage
    sums: Stage
    output: Stage


def _reduction(stage: Stage) -> BlockInfo:
    """The reduction of a stage that `_stages_of` found to have one."""
    assert stage.reduction is not None
    return stage.reduction


def _stages_of(func: PrimFunc) -> _Stages | None:
    """The stages of a kernel that is attention, or None."""
    blocks = blocks_of(func)
    stages = split_stages(func, blocks, keep=lambda b: is_costly(b.block)) if blocks else None
    if not stages or len(stages) != len(_Stages._fields):
        return None
    attention = _Stages(*stages)
    folds = (attention.scores, attention.maxima, attention.sums, attention.output)
    if attention.exponentials.reduction is not None or any(s.reduction is None for s in folds):
        return None
    if len({len(s.last.spatial) for s in attention}) > 1:
        return None
    for stage in (attention.scores, attention.output):
        reduction = _reduction(stage)
        product = as_product(reduction) if vectors_fit(reduction) else None
        if product is None or product.depthwise or len(reduction.reduce) != 1:
            return None
    score, power = attention.scores.last.writes[0], attention.exponentials.last.writes[0]
    reads = ((attention.maxima, score), (attention.sums, power), (attention.output, power))
    if not all(_reads(_reduction(stage), buffer) for stage, buffer in reads):
        return None
    if not (_folds(attention.maxima, Max) and _folds(attention.sums, Add)):
        return None
    if not is_softmax(attention.maxima, attention.exponentials):
        return None
    return attention if score.dtype == power.dtype else None


def _reads(info: BlockInfo, buffer: Buffer) -> bool:
    """Whether a block loads from a buffer."""
    return any(x.buffer is buffer for x in loads_in(info.block.body))


def _folds(stage: Stage, operator: type[BinaryOpExpr]) -> bool:
    """Whether a stage begins with a fold of a buffer's rows."""
    info = _reduction(stage)
    store = info.store
    return (
        not stage.inlined
        and len(info.reduce) == 1
        and constant(info.spatial[-1].dom.extent) == 1
        and store is not None
        and isinstance(store.value, operator)
        and isinstance(store.value.b, BufferLoad)
        and store.value.b.indices[-1] is info.reduce[0].var
    )


def _with_whole_rows(stages: _Stages, func: PrimFunc, width: int) -> tuple[_Stages, PrimFunc]:
    """The kernel with its rows of scores padded to a multiple of `width` by -inf, and its stages."""
    folds = (_reduction(stages.maxima), _reduction(stages.sums))
    padded = (stages.scores.last, stages.exponentials.last, *folds)
    axes = {b.name: len(b.block.iter_vars) - 1 for b in padded}
    low = const(float("-inf"), stages.scores.last.writes[0].dtype)
    func = whole_columns(func, axes, stages.scores.last.name, width, low)
    padded_stages = _stages_of(func)
    assert padded_stages is not None
    return padded_stages, func


def _schedule_keys(sch: Schedule, stages: _Stages, width: int, target: Target) -> None:
    """Inline the elementwise blocks before the products, and pack the keys into strips as wide as a tile,
    which each block of rows reads in order: in the block that transposes them, or in a copy. The end
    of the last strip is not written: values computed from it are not used."""
    scores = _reduction(stages.scores)
    store = scores.store
    assert store is not None
    keys = next(
        x.buffer
        for x in loads_in(store.value)
        if x.buffer is not store.buffer and uses_any(x.indices[-1], (scores.spatial[-1].var,))
    )
    packed = None
    for b in (b for stage in stages for b in stage.inlined):
        block = sch.get_block(b.name)
        if b.writes[0] is keys:
            packed = block
        else:
            sch.compute_inline(block)
    if packed is None:
        product = sch.get_block(scores.name)
        index = [r.buffer for r in sch.get(product).reads].index(keys)
        packed = sch.cache_read(product, index, "global")
    strips = lambda *i: (*i[:-2], i[-1] // width, i[-2], i[-1] % width)  # noqa: E731
    sch.transform_layout(packed, ("write", 0), strips, assume_injective_transform=True)
    if not transpose_tiles(sch, packed, target):
        vectorize_nest(sch, packed, target, keys.dtype)


def _product(
    sch: Schedule, last: Any, stage: Stage, tile: Tile, rows: Any, columns: Any
) -> set[str]:
    """Compute the rows and columns of a product in tiles. Returns the names of the blocks that
    initialize and update the accumulators."""
    reduction = _reduction(stage)
    block = sch.get_block(reduction.name)
    strip, vectors, lanes = sch.split(columns, [None, tile.vectors, tile.lanes])
    sch.reorder(strip, rows, vectors, lanes)
    depth = [sch.get(x) is sch.get(strip) for x in sch.get_loops(last)].index(True) + 1
    sch.compute_at(block, strip, preserve_unit_loops=True)
    init = schedule_accumulators(sch, block, reduction, tile, depth)
    unroll_tile(sch, [rows, vectors, lanes])
    return {sch.get(b).name_hint for b in (block, init)}


def _schedule_softmax(
    sch: Schedule, stages: _Stages, block: Any, depth: int, width: int, target: Target
) -> None:
    """Compute the exponentials and their sums in the loop over blocks of rows, which is nested
    `depth` deep."""
    folds = [_reduction(s) for s in (stages.maxima, stages.sums)]
    widths = {r.name: width for r in folds}
    parts = {r.name: partial_results(sch, r, widths, target) for r in folds}
    sums = sch.get_block(stages.sums.last.name)
    sch.compute_at(sums, block, preserve_unit_loops=True)
    reduce_in(sch, stages.sums, _spatial_outside(sch, sums, depth)[-2], parts, target)
    power = sch.get_block(stages.exponentials.last.name)
    sch.compute_at(power, block, preserve_unit_loops=True)
    *outer, row, columns = sch.get_loops(power)
    lanes = lanes_of(sch, power, target, stages.exponentials.last.writes[0].dtype)
    whole = (constant(sch.get(columns).extent) or 0) % lanes == 0
    vectorize_last(sch, [row, columns], lanes if whole else width)
    top = sch.get_block(stages.maxima.last.name)
    sch.compute_at(top, row, preserve_unit_loops=True)
    _spatial_outside(sch, top, len(outer) + 1)
    reduce_in(sch, stages.maxima, row, parts, target)


def _spatial_outside(sch: Schedule, block: Any, depth: int) -> list[Any]:
    """Reorder a reduction's loops inside the `depth` outermost ones, the spatial before the reduced.
    Returns the spatial ones."""
    inner = list(sch.get_loops(block))[depth:]
    kinds = [axis.iter_type for axis in sch.get(block).iter_vars]
    spatial = [x for x, kind in zip(inner, kinds, strict=True) if kind == IterVar.DataPar]
    sch.reorder(*spatial, *(x for x in inner if x not in spatial))
    return spatial
