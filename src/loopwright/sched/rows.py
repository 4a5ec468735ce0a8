"""Rules for kernels that work row by row on CPUs: softmax, norms, sums along contiguous memory.

    for row (parallel):
        part[v] = identity
        for groups of the row:
            part[v] = op(part[v], x[group, v])          # vectors
        half[v] = op(part[v], part[v + 8]) ...          # halved down to one value
        y[...] = f(x[...], value)                       # vectors

All nests of a kernel whose leading axes are the same rows run in one loop over them, so that a row
stays in the cache and no thread waits for another between them. What several nests need and is costly
(the exp of a softmax) is kept for the row instead of being computed in each.
"""

from __future__ import annotations

import math
from typing import Any

from ..arith import Analyzer
from ..ir.prim_expr import Add, IterVar, Max, Min, PrimExpr
from ..ir.prim_op import add, const, multiply, subtract
from ..ir.structural import structural_equal
from ..ir.target import Target
from ..ir.variables import uses_any
from ..tir.expr import BufferLoad
from ..tir.function import PrimFunc
from ..tir.schedule import Schedule
from .analysis import (
    BlockInfo,
    Stage,
    blocks_of,
    constant,
    is_costly,
    is_fold,
    loads_in,
    split_stages,
    vectors_fit,
)
from .apply import register_schedule_rule
from .dots import in_vectors
from .loops import SYMBOLIC_EXTENT, lanes_of, parallel, taps, vectorize_last
from .machine import RuleSchedule
from .reductions import prepare_reductions
from .softmax import is_softmax_of_rows, lean_rows

_LEAST_ROWS = 8  # fewer long rows are better split among threads


@register_schedule_rule("rows", "cpu")
def rows(func: PrimFunc, target: Target) -> Schedule | None:
    """Kernels whose nests, of which one reduces along memory, have rows in common."""
    sch = RuleSchedule(func, target)
    prepare_reductions(sch, target)
    func = sch.func
    blocks = blocks_of(func)
    stages = split_stages(func, blocks, keep=_is_kept) if blocks else None
    reductions = [s.reduction for s in stages or () if s.reduction is not None]
    if (
        not stages
        or len(stages) < 2
        or not reductions
        or not all(b.is_in_order for b in blocks or ())
    ):
        return None
    if any(in_vectors(r, target) for r in reductions):
        return None
    outputs = set(func.buffer_map.values())
    count = _common_axes(func, stages)
    results = [s.last.writes[0] for s in stages[:-1]]
    read = {r.buffer for b in blocks or () for r in b.block.reads if r.buffer not in b.writes}
    if outputs.intersection(results) or not read.issuperset(results):
        return None
    if not _many_rows(sch, stages, count):
        return None
    softmax = is_softmax_of_rows(stages)
    widths = widths_of(reductions, target)
    if widths:
        pad_reductions(sch, widths)
        stages = split_stages(sch.func, blocks_of(sch.func) or [], keep=_is_kept) or stages
    for stage in stages:
        for b in stage.inlined:
            sch.compute_inline(sch.get_block(b.name))
    parts = {
        s.reduction.name: partial_results(sch, s.reduction, widths, target)
        for s in stages
        if s.reduction is not None
    }
    *others, last = stages
    work = sum(_row_length(s, count) for s in stages)
    row = parallel(sch, list(sch.get_loops(sch.get_block(last.last.name)))[:count], work)
    _vectorize_end(sch, last, target)
    reduce_in(sch, last, row, parts, target)
    for stage in reversed(others):
        sch.compute_at(sch.get_block(stage.last.name), row, preserve_unit_loops=True)
        _vectorize_end(sch, stage, target)
        reduce_in(sch, stage, row, parts, target)
    if softmax:
        lean_rows(sch, stages, parts[stages[0].last.name])
    return sch


def pad_reductions(sch: RuleSchedule, widths: dict[str, int]) -> None:
    """Round reductions up to whole vectors of partial results."""
    for name, width in widths.items():
        sch.pad_reduction(name, width)


def _is_kept(info: BlockInfo) -> bool:
    return is_costly(info.block)


def _many_rows(sch: RuleSchedule, stages: list[Stage], count: int) -> bool:
    """Whether there are rows, short or many enough to give each to one thread."""
    if not count:
        return False
    extents = [constant(v.dom.extent) for v in stages[-1].last.spatial[:count]]
    many = None in extents or math.prod(e for e in extents if e) >= _LEAST_ROWS
    return many or max(_row_length(s, count) for s in stages) <= sch.machine.grain


def _row_length(stage: Stage, count: int) -> int:
    """The elements of a row of a stage."""
    info = stage.reduction or stage.last
    axes = [*info.spatial[count:], *info.reduce]
    return math.prod(constant(v.dom.extent) or SYMBOLIC_EXTENT for v in axes)


def _vectorize_end(sch: RuleSchedule, stage: Stage, target: Target) -> None:
    """Vectorize a stage's last block, unless it has one value per row."""
    if stage.reduction is None:
        block = sch.get_block(stage.last.name)
        inside = list(sch.get_loops(block))[1:]  # of the loop over rows
        if inside:
            lanes = lanes_of(sch, block, target, stage.last.writes[0].dtype)
            vectorize_last(sch, inside, lanes)


def _common_axes(func: PrimFunc, stages: list[Stage]) -> int:
    """The number of leading axes that all nests share: of the same extents, and with the same
    indices of each other's results."""
    blocks = [b for s in stages for b in (s.reduction, s.last) if b is not None]
    inner = {b.writes[0] for b in blocks} - set(func.buffer_map.values())
    first = blocks[0].spatial
    count = min(len(b.spatial) for b in blocks)
    for b in blocks:
        axes = b.spatial
        same = 0
        while same < count and _same_extent(axes[same], first[same]):
            same += 1
        count = same
    return max(n for n in range(count + 1) if all(_follows(b, inner, n) for b in blocks))


def _same_extent(axis: IterVar, other: IterVar) -> bool:
    return structural_equal(axis.dom.extent, other.dom.extent)


def _follows(info: BlockInfo, inner: set[Any], count: int) -> bool:
    """Whether a block accesses what others compute at its own first axes only."""
    axes = [v.var for v in info.spatial[:count]]
    loads = [x for x in loads_in(info.block.body) if x.buffer in inner]
    stores = [info.store] if info.store is not None and info.writes[0] in inner else []
    return all(
        len(at.indices) >= count
        and all(
            i is a or (constant(v.dom.extent) == 1 and constant(i) == 0)
            for i, a, v in zip(at.indices[:count], axes, info.spatial, strict=False)
        )
        for at in (*loads, *stores)
    )


def reduce_rows(sch: RuleSchedule, stage: Stage, widths: dict[str, int], target: Target) -> None:
    """Schedule a reduction along contiguous memory as a nest of its own."""
    reduction = stage.reduction
    assert reduction is not None
    parts = {reduction.name: partial_results(sch, reduction, widths, target)}
    loops = list(sch.get_loops(sch.get_block(stage.last.name)))
    row = parallel(sch, loops[: len(reduction.spatial)], taps(reduction))
    reduce_in(sch, stage, row, parts, target)


def partial_results(
    sch: RuleSchedule, reduction: BlockInfo, widths: dict[str, int], target: Target
) -> list[Any]:
    """Split a reduction into `width` partial results, then halve their number in each step."""
    block, parts = sch.get_block(reduction.name), []
    width = widths.get(reduction.name, 1)
    while width > 1:
        _, inner = sch.split(list(sch.get_loops(block))[-1], [None, width])
        parts.append(sch.rfactor(inner, len(reduction.spatial)))
        sch.set_scope(parts[-1], 0, "local")
        lanes = target.vector_lanes(reduction.writes[0].dtype)
        width = lanes if width > lanes else width // 2
    return parts


def reduce_in(
    sch: RuleSchedule, stage: Stage, row: Any, parts: dict[str, list[Any]], target: Target
) -> None:
    """Compute a stage's reduction and its partial results in the loop over rows (None: there is one
    row), as vectors."""
    reduction = stage.reduction
    if reduction is None:
        return
    block = sch.get_block(reduction.name)
    if row is not None and stage.last is not reduction:
        sch.compute_at(block, row, preserve_unit_loops=True)
    lanes = target.vector_lanes(reduction.writes[0].dtype)
    for number, part in reversed(list(enumerate(parts[reduction.name]))):
        if row is not None:
            sch.compute_at(part, row, preserve_unit_loops=True)
        reduces = 1 if number else len(reduction.reduce)
        _vectorize_part(sch, part, reduces, row is not None, lanes)
    if parts[reduction.name]:
        sch.unroll(list(sch.get_loops(block))[-1])


def _vectorize_part(sch: RuleSchedule, part: Any, reduces: int, in_row: bool, lanes: int) -> None:
    """Vectorize a block of partial results that reduces over `reduces` axes."""
    loops = list(sch.get_loops(part))
    if in_row:  # the loops within that over rows are in the order of the block's axes
        kinds = [axis.iter_type for axis in sch.get(part).iter_vars[1:]]
        across, *inner = loops[-len(kinds) - 1 :]
        along = [x for x, kind in zip(inner, kinds, strict=True) if kind == IterVar.CommReduce]
        sch.reorder(*(x for x in inner if x not in along), *along, across)
    else:
        across, along = loops[-1], loops[-1 - reduces : -1]
        sch.reorder(*along, across)
    init = sch.decompose_reduction(part, along[0])
    for b in (part, init):
        vector = list(sch.get_loops(b))[-1]
        together = is_costly(sch.get(b))  # vectors of a function share its constants
        if (constant(sch.get(vector).extent) or 0) > lanes and not together:
            groups, vector = sch.split(vector, [None, lanes])
            sch.unroll(groups)
        sch.vectorize(vector)
    if constant(sch.get(along[-1]).extent) in (2, 4):
        sch.unroll(along[-1])


def widths_of(reductions: list[BlockInfo], target: Target) -> dict[str, int]:
    """By name, how many partial results those reductions use for which vectors pay and fit."""
    return {r.name: w for r in reductions if (w := _row_vectors(r, target))}


def _row_vectors(reduction: BlockInfo, target: Target) -> int:
    """How many partial results per row to use; 0 if vectors do not pay or fit."""
    if vectors_fit(reduction):
        return 0
    store = reduction.store
    if store is None or not is_fold(reduction) or not isinstance(store.value, Add | Max | Min):
        return 0
    axis = reduction.reduce[-1]
    extent = constant(axis.dom.extent) if axis.dom is not None else None
    lanes = target.vector_lanes(store.buffer.dtype)
    if extent is not None and extent < 2 * lanes:
        return 0
    if not all(_is_along(load, axis) for load in loads_in(store.value.b)):
        return 0
    return lanes if extent is not None and extent < 8 * lanes else 4 * lanes


def _is_along(load: BufferLoad, axis: IterVar) -> bool:
    """Whether a load reads adjacent elements along an axis, or does not depend on it."""
    if not uses_any(load.indices, (axis.var,)):
        return True
    if load.indices[-1] is axis.var:
        return not uses_any(load.indices[:-1], (axis.var,))
    offset: PrimExpr = const(0, axis.var.dtype)
    for index, extent in zip(load.indices, load.buffer.shape, strict=True):
        offset = add(multiply(offset, extent), index)
    rest = Analyzer().simplify(subtract(offset, axis.var))
    return not uses_any(rest, (axis.var,))
