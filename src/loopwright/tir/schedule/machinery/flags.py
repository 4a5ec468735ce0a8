"""Facts about a block in its scope: whether its axes are affine in the loops, and whether what it
reads has been written when it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....arith import Analyzer, detect_iter_map, estimate_region_lower_bound
from ....ir.literals import is_true
from ....ir.prim_expr import PrimExpr, Range
from ...analysis.gpu import sharing_threads
from ...buffer import Buffer
from ...stmt import For
from .predicates import own_tests
from .refs import Ref
from .regions import Box, axis_values, loop_domain, region_covers, relax, substituted, union_box
from .scope import BlockScope, DepKind, write_buffers
from .state import CachedFlags, ScheduleState


def block_flags(state: ScheduleState, ref: Ref) -> CachedFlags:
    """The flags of a block."""
    if ref.parent is None:
        return CachedFlags(True, True, _is_pipeline(state, ref))
    domain = loop_domain(ref.loops())
    detected = detect_iter_map(ref.realize.iter_values, domain, ref.realize.predicate)
    return CachedFlags(not detected.errors, _is_covered(state, ref), _is_pipeline(state, ref))


def _is_pipeline(state: ScheduleState, ref: Ref) -> bool:
    """Whether the blocks directly inside run one after the other, none writing what an earlier one
    reads."""
    blocks = ref.blocks()
    ordered = all(d.kind != DepKind.WAR for d in BlockScope(ref).deps)
    return ordered and all(_is_covered(state, block) for block in blocks)


def _is_covered(state: ScheduleState, ref: Ref) -> bool:
    """Whether the earlier blocks of the scope write all that a block reads of their buffers."""
    deps = BlockScope(ref.scope()).get_deps_by_dst(ref)
    writers = [d.src for d in deps if d.kind == DepKind.RAW]
    for region in ref.stmt.reads:
        buffer = region.buffer
        producers = [w for w in writers if buffer in write_buffers(w.stmt)]
        if not producers:
            continue
        at = _common(ref, producers)
        ana = state.analyzer(at)
        values = axis_values(ref)
        needed = relax(
            ana, substituted(region.region, values), _domain(ref, at, buffer), buffer.shape
        )
        boxes = [_written(state, w, at, buffer) for w in producers]
        written = _joined(ana, [box for box in boxes if box is not None])
        limits = [_limit(ana, w, buffer) for w in producers]
        coverage = (written, *(box for box in limits if box is not None))
        if not all(region_covers(ana, box, needed, buffer.shape) for box in coverage):
            return False
    return True


def _common(ref: Ref, others: Sequence[Ref]) -> Ref:
    """The innermost loop or block around all of them."""
    return next(a for a in ref.ancestors() if all(o.is_under(a) for o in others))


def _domain(ref: Ref, at: Ref, buffer: Buffer) -> dict[Any, Range]:
    """The loops around a block that run between a write and a read of the buffer below `at`."""
    shared = sharing_threads(buffer.scope())
    return loop_domain(
        [r for r in ref.loops() if (r is not at and r.is_under(at)) or _is_on(r.stmt, shared)]
    )


def _is_on(loop: For, threads: tuple[str, ...]) -> bool:
    binding = loop.thread_binding
    return binding is not None and bool(threads) and binding.thread_tag.startswith(threads)


def _written(state: ScheduleState, ref: Ref, at: Ref, buffer: Buffer) -> Box | None:
    """The box of a buffer that a block surely writes; None if none is known."""
    if own_tests(state, ref):
        return None
    values, domain = axis_values(ref), _domain(ref, at, buffer)
    boxes: list[Box] = []
    for region in ref.stmt.writes:
        if region.buffer is buffer:
            estimated = estimate_region_lower_bound(substituted(region.region, values), domain)
            if estimated is not None:
                boxes.append([(one.min_value, one.max_value) for one in estimated])
    return _joined(state.analyzer(at), boxes)


def _limit(ana: Analyzer, ref: Ref, buffer: Buffer) -> Box | None:
    """The box that a block writes where its axes run over their domains; None for a block without a
    predicate, whose loops are all there is."""
    if is_true(ref.realize.predicate):
        return None
    domain = {axis.var: axis.dom for axis in ref.stmt.iter_vars}
    boxes = [
        relax(ana, r.region, domain, buffer.shape) for r in ref.stmt.writes if r.buffer is buffer
    ]
    return _joined(ana, boxes)


def _joined(ana: Analyzer, boxes: list[Box]) -> Box | None:
    """The union of boxes that touch or overlap in one dimension and agree in the others; the first of
    those that do not."""
    total: Box | None = None
    for box in boxes:
        if total is None or region_covers(ana, box, total):
            total = box
            continue
        other = [n for n, (a, b) in enumerate(zip(total, box, strict=True)) if not _same(ana, a, b)]
        if len(other) == 1 and _touch(ana, total[other[0]], box[other[0]]):
            total = union_box(ana, total, box)
    return total


def _same(ana: Analyzer, a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> bool:
    return all(ana.can_prove_equal(x, y) for x, y in zip(a, b, strict=True))


def _touch(ana: Analyzer, a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> bool:
    return ana.can_prove(a[0] <= b[1] + 1) and ana.can_prove(b[0] <= a[1] + 1)
