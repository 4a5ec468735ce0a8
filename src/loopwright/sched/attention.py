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
    has_condition,
    is_costly,
    loads_in,
    split_stages,
    vectors_fit,
)
from .apply import register_schedule_rule
from .loops import lanes_of, parallel, taps, vectorize_last, vectorize_nest
from .machine import RuleSchedule
from .rows import partial_results, reduce_in
from .softmax import is_softmax
from .tiles import Tile, schedule_accumulators, stored, tile_of, unroll_tile
from .transposes import transpose_tiles


@register_schedule_rule("attention", "cpu")
def attention(func: PrimFunc, target: Target) -> Schedule | None:
    """Kernels of five stages: a product, the maxima of its rows, the exponentials, their sums, and the
    product of the exponentials by a matrix."""
    stages = _stages_of(func)
    if stages is None:
        return None
    sch = RuleSchedule(func, target)
    if stages.scores.last is stages.scores.reduction:
        sch.cache_write(stages.scores.last.name, 0, "global")
        stages = _stages_of(sch.func)
        assert stages is not None
    tile = tile_of(sch, _reduction(stages.output), True, target)
    # Both products are computed in one loop over blocks of rows.
    score_tile = tile_of(sch, _reduction(stages.scores), True, target, rows=tile.rows)
    if score_tile.row != len(stages.scores.last.spatial) - 2 or tile.row is None:
        return None
    width = score_tile.vectors * score_tile.lanes
    if width & (width - 1):  # there are fewer keys than lanes
        return None
    keys = stages.scores.last.spatial[-1].dom.extent
    if (constant(keys) or 1) % width:
        stages = _with_whole_rows(sch, stages, width)
    _schedule_keys(sch, stages, width, target)
    last = stored(sch, stages.output)
    *order, columns = sch.get_loops(last)
    block, rows = sch.split(order.pop(tile.row), [None, tile.rows])
    order.append(block)
    sch.reorder(*order, rows, columns)
    output = _product(sch, last, stages.output, tile, rows, columns)
    maxima = _schedule_softmax(sch, stages, block, len(order), width, target)
    scores = stored(sch, stages.scores)
    sch.compute_at(scores, block, preserve_unit_loops=True)
    *_, rows, columns = sch.get_loops(scores)
    product = _product(sch, scores, stages.scores, score_tile, rows, columns)
    terms = taps(_reduction(stages.output)) * (
        taps(_reduction(stages.scores)) + sch.machine.fmas_per_exp
    )
    parallel(sch, order, tile.rows * terms // sch.machine.fmas)
    sch.compute_full_tiles(*sch.get_child_blocks(sch.get_block("root")))
    for block in (output, product):
        if has_condition(sch.get(block)):
            sch.hoist_padding(block)
    sch.unsafe_reuse_buffer(stages.exponentials.last.name, scores)
    for part in maxima:
        sch.unsafe_ignore_nan(part)
    return sch


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
    if not all(b.is_in_order for b in blocks or ()):
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


def _with_whole_rows(sch: RuleSchedule, stages: _Stages, width: int) -> _Stages:
    """Pad the rows of scores to a multiple of `width` by -inf; the stages of the kernel then."""
    folds = (_reduction(stages.maxima), _reduction(stages.sums))
    padded = (stages.scores.last, stages.exponentials.last, *folds)
    sch.pad_rows(*(sch.get_block(b.name) for b in padded), factor=width, fill=float("-inf"))
    padded_stages = _stages_of(sch.func)
    assert padded_stages is not None
    return padded_stages


def _schedule_keys(sch: RuleSchedule, stages: _Stages, width: int, target: Target) -> None:
    """Inline the elementwise blocks before the products, and pack the keys into strips as wide as a tile,
    which each block of rows reads in order: in the block that transposes them, or in a copy. The end
    of the last strip is not written: values computed from it are not used."""
    scores = _reduction(stages.scores)
    store = scores.store
    assert store is not None
    keys = next(
        x.buffer
        for x in loads_in(store.value)
        if x.buffer is not store.buffer and uses_any(x.indices[-1:], (scores.spatial[-1].var,))
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
    sch: RuleSchedule, last: Any, stage: Stage, tile: Tile, rows: Any, columns: Any
) -> Any:
    """Compute the rows and columns of a product in tiles. Returns the block that updates the
    accumulators."""
    reduction = _reduction(stage)
    block = sch.get_block(reduction.name)
    strip, vectors, lanes = sch.split(columns, [None, tile.vectors, tile.lanes])
    sch.reorder(strip, rows, vectors, lanes)
    depth = [sch.get(x) is sch.get(strip) for x in sch.get_loops(last)].index(True) + 1
    sch.compute_at(block, strip, preserve_unit_loops=True)
    schedule_accumulators(sch, block, reduction, tile, depth)
    unroll_tile(sch, [rows, vectors, lanes])
    return block


def _schedule_softmax(
    sch: RuleSchedule, stages: _Stages, block: Any, depth: int, width: int, target: Target
) -> list[Any]:
    """Compute the exponentials and their sums in the loop over blocks of rows, which is nested
    `depth` deep. Returns the blocks of the maxima."""
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
    return [top, *parts[_reduction(stages.maxima).name]]


def _spatial_outside(sch: RuleSchedule, block: Any, depth: int) -> list[Any]:
    """Reorder a reduction's loops inside the `depth` outermost ones, the spatial before the reduced.
    Returns the spatial ones."""
    inner = list(sch.get_loops(block))[depth:]
    kinds = [axis.iter_type for axis in sch.get(block).iter_vars]
    spatial = [x for x, kind in zip(inner, kinds, strict=True) if kind == IterVar.DataPar]
    sch.reorder(*spatial, *(x for x in inner if x not in spatial))
    return spatial
