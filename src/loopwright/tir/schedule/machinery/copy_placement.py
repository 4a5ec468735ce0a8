"""Positions of copies of buffers: before readers or after writers, inside the loops that these
share with other blocks where that is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Any

from ....arith import Analyzer, ConstIntBound
from ....ir.expr import GlobalVar
from ....ir.literals import conjuncts
from ....ir.prim_expr import IntImm, IterVar, PrimExpr, Range, Var
from ....ir.prim_op import add, cast, const, logical_and, subtract
from ....ir.variables import uses_any, vars_in
from ...buffer import Buffer, BufferRegion, decl_buffer
from ...expr import BufferLoad, reads_memory
from ...stmt import Block, BlockRealize, BufferStore, For, ForKind, Stmt
from .axis_bindings import injective, linear_terms
from .axis_domains import Span, axis_loop
from .block_moves import body_items, holds, is_steady, with_items
from .buffer_accesses import check_no_pointer, has_pointer, is_matched
from .errors import ScheduleError
from .parallel_checks import check_parallel_with_sources, updates_in_place
from .predicates import own_tests
from .refs import Ref
from .regions import (
    Box,
    axis_values,
    loops_between,
    region_covers,
    relax,
    relaxed_region,
    union_box,
    union_boxes,
)
from .rewriting import substitute
from .scope import write_buffers
from .state import ScheduleState, bind_range


def item_index(at: Ref, ref: Ref) -> int:
    """The index of the statement in the body of `at` that is the loop or block around `ref`; -1 if
    that is nested in another statement, such as a condition."""
    inner = _child(at, ref).node
    return next((n for n, item in enumerate(body_items(at)) if item is inner), -1)


def holding_item(at: Ref, ref: Ref) -> int:
    """Which statement of the body of `at` holds `ref` in any way; -1 where that is in its init."""
    inner = _child(at, ref).node
    return next((n for n, item in enumerate(body_items(at)) if holds(item, inner)), -1)


def _child(at: Ref, ref: Ref) -> Ref:
    inner = ref
    for above in ref.ancestors():
        if above is at:
            break
        inner = above
    return inner


def levels(scope: Ref, blocks: list[Ref]) -> Iterator[tuple[Ref, list[int]]]:
    """The scope and the loops that hold all the blocks, outermost first, with the statements of
    their bodies that hold each; as long as only loops are in between."""
    at = scope
    while True:
        items = [item_index(at, b) for b in blocks]
        if not items or -1 in items:
            return
        yield at, items
        child = _child(at, blocks[0])
        if len(set(items)) > 1 or child.is_block:
            return
        at = child


def place_before(scope: Ref, makers: list[Ref], users: list[Ref]) -> tuple[Ref, int, bool]:
    """The position of a copy that the users read: the outermost loop (or the scope) in which no
    maker runs between the copy and them, and the position in its body; without such a loop, after
    the makers in the outermost loop in which no user runs between (True)."""
    for at, items in levels(scope, users):
        low, high = min(items), max(items)
        positions = [holding_item(at, m) for m in makers if m.is_under(at)]
        if not any(low <= m <= high for m in positions):
            return at, 0 if at is scope and not any(m < low for m in positions) else low, False
    for at, items in levels(scope, makers):
        low, high = min(items), max(items)
        positions = [holding_item(at, u) for u in users if u.is_under(at)]
        if not any(m <= high for m in positions):
            return at, min(positions, default=high + 1), True
    what = "the copy has no place before the readers and after the writers"
    hint = "give the readers that are to read one copy as consumer_blocks"
    raise ScheduleError(what, instead=hint, at=[r.node for r in (*makers, *users)])


def place_after(scope: Ref, writers: list[Ref], readers: list[Ref]) -> tuple[Ref, int]:
    """The position of a copy of the writers' results: the outermost loop (or the scope) in which no
    reader runs between them and the copy, and the position in its body."""
    for at, items in levels(scope, writers):
        low, high = min(items), max(items)
        if at is scope and not readers:
            return at, len(body_items(at))
        if not any(low <= holding_item(at, r) <= high for r in readers if r.is_under(at)):
            return at, high + 1
    what = "the copy has no place after the writers and before the readers"
    hint = "give the readers that may read the copy as consumer_blocks"
    raise ScheduleError(what, instead=hint, at=[r.node for r in (*writers, *readers)])


def check_reduces_inside(writer: Ref, at: Ref) -> None:
    """Raise ScheduleError where a block continues, in one iteration of `at` or a loop around it,
    from what it wrote in an earlier one: a copy made in each iteration would lose that."""
    if at.is_block or not updates_in_place(writer.stmt):
        return
    around = {at.stmt.loop_var, *(r.stmt.loop_var for r in at.loops())}
    for axis, value in zip(writer.stmt.iter_vars, writer.realize.iter_values, strict=True):
        if axis.iter_type != IterVar.DataPar and vars_in(value) & around:
            what = f"block {writer.stmt.name_hint!r} reduces over a loop that it shares"
            hint = "cache before the blocks share loops"
            raise ScheduleError(what, instead=hint, at=[at.stmt, writer.node])


def check_fills(
    state: ScheduleState, block: Ref, at: Ref, what: str, ranges: list[tuple[PrimExpr, PrimExpr]]
) -> None:
    """Raise ScheduleError unless the elements that a block writes while the loops below `at` run
    fill the box around them; `ranges` are begins and extents in terms of the loops."""
    inner = loops_between(block, at)
    if not _fills(state, block, inner, ranges):
        text = f"block {block.stmt.name_hint!r} writes {what} with gaps, which the copy would fill"
        hint = "a block that writes whole boxes of its buffer"
        raise ScheduleError(text, instead=hint, at=block.node)


def _fills(
    state: ScheduleState, block: Ref, inner: list[Ref], ranges: list[tuple[PrimExpr, PrimExpr]]
) -> bool:
    ana = state.analyzer(block)
    extents = {r.stmt.loop_var: ana.simplify(r.stmt.extent) for r in inner}
    domain = {r.stmt.loop_var: r.stmt.range for r in inner}
    used = vars_in(ranges)
    for ref in inner:  # a triangle is not a box, and some of its rows may be empty
        var, extent = ref.stmt.loop_var, extents[ref.stmt.loop_var]
        if uses_any([ref.stmt.min, extent], extents):
            one = Range.from_min_extent(extent, const(1, extent.dtype))
            ((least, _),) = relax(ana, [one], domain, [extent])
            if var in used or not ana.can_prove(least >= 1):
                return False
    seen: set[Var] = set()
    plain = True
    for begin, extent in ranges:
        terms = [(abs(f), a) for a, f in linear_terms(begin) or [(begin, 1)]]
        digits = [(f, a) for f, a in terms if vars_in(a) & set(extents)]
        covered = extent.value if isinstance(extent, IntImm) else 1
        for n, (factor, atom) in enumerate(sorted(digits, key=lambda item: item[0])):
            if not isinstance(atom, Var) or atom in seen:
                plain = False
                break
            seen.add(atom)
            count = extents[atom]
            steps = count.value if isinstance(count, IntImm) else None
            if steps != 1 and factor > covered:
                return False
            if steps is None and n + 1 < len(digits):
                return False
            covered += factor * ((steps or 1) - 1)
    if plain:
        return True
    # Fused loops: their iterations are the number of the box's points, none of them twice.
    counts = list(extents.values())
    sizes = []
    for begin, extent in ranges:
        one = Range.from_min_extent(begin, extent)
        ((low, high),) = relax(ana, [one], domain, [const(1 << 30, begin.dtype)])  # no end
        sizes.append(ana.simplify(high - low + 1))
    if conjuncts(block.realize.predicate):
        return False
    if not all(isinstance(e, IntImm) for e in (*counts, *sizes)):
        return False
    same = prod(e.value for e in counts) == prod(e.value for e in sizes)
    return same and injective(state, block, inner)


def write_ranges(block: Ref, buffer: Buffer) -> list[tuple[PrimExpr, PrimExpr]]:
    """The region of a buffer that a block writes, in terms of the loops: begins and extents."""
    values = axis_values(block)
    return [
        (substitute(r.min, values), substitute(r.extent, values))
        for region in block.stmt.writes
        if region.buffer is buffer
        for r in region.region
    ]


def written_box(
    state: ScheduleState, writers: list[Ref], at: Ref, buffer: Buffer, whole: bool
) -> Box:
    """The box of a buffer that is written while the loops below `at` run. With `kept`, the other
    elements must keep their values: ScheduleError where the box has gaps."""
    ana = state.analyzer(at)
    boxes = []
    for writer in writers:
        box = relaxed_region(state, writer, at, buffer, write=True)
        assert box is not None
        boxes.append(box)
        if whole:
            for region in writer.stmt.writes:
                if region.buffer is buffer:
                    check_fills(state, writer, at, buffer.name, write_ranges(writer, buffer))
    total = union_boxes(ana, boxes)
    if whole and not any(region_covers(ana, box, total) for box in boxes):
        what = f"the blocks that write {buffer.name} do not write one box of it"
        raise ScheduleError(what, at=[w.node for w in writers])
    return total


def domain_box(state: ScheduleState, writers: list[Ref], buffer: Buffer) -> Box | None:
    """Where the predicates of blocks keep their axes in the domains: the box that they write at
    most. None where no block has a predicate."""
    total: Box | None = None
    if not any(conjuncts(w.realize.predicate) for w in writers):
        return None
    for writer in writers:
        if own_tests(state, writer):
            what = f"block {writer.stmt.name_hint!r} writes only where its predicate holds"
            raise ScheduleError(what, instead="a block without T.where", at=writer.node)
        ana = state.analyzer(writer)
        doms = {a.var: a.dom for a in writer.stmt.iter_vars}
        for region in writer.stmt.writes:
            if region.buffer is buffer:
                total = union_box(ana, total, relax(ana, region.region, doms, buffer.shape))
    return total


def copy_loops(
    ana: Analyzer,
    axes: list[IterVar],
    spans: list[Span | None],
    block: Block,
    limits: list[list[Span]] | None = None,
    tests: Iterable[PrimExpr] = (),
    keep_unit: bool = True,
) -> Stmt:
    """A block in loops that run its axes over spans, within their domains and `limits`, where
    `tests` hold. keep_unit: even where a span is one value."""
    predicate: PrimExpr = const(True, "bool")
    for test in tests:
        predicate = logical_and(predicate, test)
    values, loops = [], []
    for n, (axis, span) in enumerate(zip(axes, spans, strict=True)):
        loop = axis_loop(ana, axis, span, f"ax{n}", keep_unit)
        if loop.var is not None:
            bind_range(ana, loop.var, const(0, loop.var.dtype), loop.extent)
        inside = list(loop.tests)
        for low, high in (limits or [[]] * len(axes))[n]:
            low, high = cast(axis.var.dtype, low), cast(axis.var.dtype, high)
            for test in (loop.value >= low, loop.value <= high):
                if not ana.can_prove(test):
                    inside.append(test)
        for test in inside:
            predicate = logical_and(predicate, test)
        values.append(loop.value)
        loops.append(loop)
    nest: Stmt = BlockRealize(values, predicate, block)
    for loop in reversed(loops):
        if loop.var is not None:
            nest = For(loop.var, const(0, loop.var.dtype), loop.extent, ForKind.SERIAL, nest)
    return nest


def steady(ana: Analyzer, box: Box, scope: Ref) -> list[Span | None]:
    """The spans of a box; None for those that depend on data written in the scope, or that is read
    outside of its buffer where no block runs."""
    if not any(reads_memory(end) for span in box for end in span):
        return list(box)
    written = set().union(*(write_buffers(b.stmt) for b in scope.blocks()))
    return [span if is_steady(ana, span, written) else None for span in box]


def insert(
    state: ScheduleState, func: GlobalVar, changes: dict[Ref, Any], renamed: dict[Block, Block],
    scope: Ref, at: Ref, nests: list[tuple[int, Stmt, Block]], buffer: Buffer,
) -> None:  # fmt: skip
    """Make the changes, put nests of loops at positions in the body of `at`, and allocate the
    buffer in the scope; undo all of that where a loop around may then no longer run as it does."""
    if state.enable_check:
        check_kinds(at)

    def put(items: list[Stmt]) -> None:
        for position, nest, _ in sorted(nests, key=lambda n: -n[0]):
            items.insert(position, nest)

    def grow(node: Stmt) -> Any:
        return with_items(node, put)

    def allocate(block: Block) -> Block:
        grown = grow(block) if at is scope else block
        return grown.replace(alloc_buffers=(*grown.alloc_buffers, buffer))

    around = {scope: allocate} if at is scope else {scope: allocate, at: grow}
    state.update(func, changes, renamed, around)
    if state.enable_check:
        index = state.index(func)
        for _, _, block in nests:
            check_parallel_with_sources(state, index.blocks[block])


def check_kinds(at: Ref) -> None:
    """Raise ScheduleError where a copy would be inside a vectorized loop."""
    for ref in () if at.is_block else (at, *at.loops()):
        if ref.stmt.kind == ForKind.VECTORIZED:
            what = f"the copy would be in the vectorized loop {ref.stmt.loop_var.name!r}"
            raise ScheduleError(what, instead="cache first, vectorize later", at=ref.stmt)


def cache_of(
    ana: Analyzer,
    users: Sequence[Ref],
    buffer: Buffer,
    storage_scope: str,
    box: Box,
    scope: Ref,
    at: Ref,
) -> tuple[Buffer, list[PrimExpr] | None]:
    """A buffer in another memory scope for what blocks access: of the shape of the box, with the
    first indices of that, in the body of a block with another around; else of the same shape."""
    check_storage_scope(storage_scope)
    plain = True
    for user in users:
        if has_pointer(user, buffer):
            plain = False
            other = storage_scope != buffer.scope() and is_matched(user, buffer)
            if other or buffer.strides or buffer.elem_offset is not None:
                check_no_pointer(buffer, user)
    shape, first = list(buffer.shape), None
    if at is scope and scope.parent is not None and plain:
        zeros = [const(0, dim.dtype) for dim in shape]
        ends = zip(
            inner_spans(ana, buffer, steady(ana, box, scope), False), zeros, shape, strict=True
        )
        spans = [(zero, subtract(dim, 1)) if span is None else span for span, zero, dim in ends]
        first = [low for low, _ in spans]
        own = tuple(axis.var for axis in scope.stmt.iter_vars)
        shape = []
        for low, high in spans:
            extent = ana.simplify(add(subtract(high, low), 1))
            if uses_any(extent, own):  # a buffer has one shape for all iterations
                most = ana.const_int_bound(extent).max_value
                extent = const(most, extent.dtype) if most < ConstIntBound.POS_INF else extent
            shape.append(extent)
    name = f"{buffer.name}_{storage_scope}"
    return decl_buffer(shape, buffer.dtype, name, scope=storage_scope), first


_SCOPES = ("global", "shared", "local", "warp", "texture")


def check_storage_scope(scope: str) -> None:
    """Raise ScheduleError for an unknown memory scope; one with a dot is taken to be specific to a
    back end."""
    recognized = scope.split(":")[0].split("-")[0] in _SCOPES or scope == ""
    if not recognized and not all(part for part in ("." in scope, *scope.split("."))):
        hint = ", ".join(f'"{s}"' for s in _SCOPES)
        hint += ', "shared.dyn", "wmma.matrix_a", "m16n8k8.matrixC", or another with a dot'
        raise ScheduleError("no such storage scope", got=repr(scope), instead=hint)


def inner_spans(
    ana: Analyzer, buffer: Buffer, spans: list[Span | None], in_loop: bool
) -> list[Span | None]:
    """The spans of a box; None for the whole dimension."""
    if not in_loop:  # bounds that cannot be proven are those of the buffer
        for n, (span, dim) in enumerate(zip(spans, buffer.shape, strict=True)):
            if span is None or not (ana.can_prove(span[0] >= 0) and ana.can_prove(span[1] < dim)):
                spans[n] = None
    return spans


def copy_nest(
    ana: Analyzer, source: Buffer, target: Buffer, box: Box, scope: Ref, at: Ref, name: str = "",
    limits: Sequence[Box] = (), tests: Sequence[PrimExpr] = (), first: list[PrimExpr] | None = None,
) -> tuple[Stmt, Block]:  # fmt: skip
    """Loops that copy a box of `source` to `target`, of which the shorter begins at `first` of the
    other, in the body of `at`; no element outside of the boxes `limits`, and nothing where `tests`
    do not hold."""
    spans: list[Span | None] = steady(ana, box, scope)
    if any(None in (spans if limit is box else steady(ana, limit, scope)) for limit in limits):
        what = f"where {source.name} is written in one iteration depends on data"
        raise ScheduleError(what, instead="cache before the blocks share loops", at=at.node)
    cache, whole = (target, source) if len(target.name) > len(source.name) else (source, target)
    if first is not None and None not in spans:  # the new buffer may be larger than this box
        limits = [*limits, box]
    spans = [None] * len(box) if first else inner_spans(ana, whole, spans, at is not scope)
    points = [Var(f"v{n}", dim.dtype) for n, dim in enumerate(cache.shape)]
    axes = [
        IterVar(Range.from_min_extent(const(0, dim.dtype), dim), v, IterVar.DataPar)
        for v, dim in zip(points, cache.shape, strict=True)
    ]
    there, inside = points, limits
    if first is not None:
        there = [ana.simplify(add(f, v)) for f, v in zip(first, points, strict=True)]
        inside = [
            [
                (subtract(low, f), subtract(high, f))
                for f, (low, high) in zip(first, limit, strict=True)
            ]
            for limit in limits
        ]
    at_of = {cache: points, whole: there}
    block = Block(
        axes,
        [BufferRegion.from_point(source, at_of[source])],
        [BufferRegion.from_point(target, at_of[target])],
        name or cache.name,
        BufferStore(target, BufferLoad(source, at_of[source]), at_of[target]),
    )
    ends = [[limit[n] for limit in inside] for n in range(len(axes))]
    return copy_loops(ana, axes, spans, block, ends, tests), block
