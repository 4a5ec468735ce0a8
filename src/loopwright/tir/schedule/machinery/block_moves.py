"""Moving a block into a loop: its place in the body, its axes, and whether its inputs are ready."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ....arith import Analyzer
from ....ir.functor import nodes_of
from ....ir.prim_expr import IntImm, IterVar, PrimExpr, Var
from ....ir.prim_op import add, const, logical_and, subtract
from ....ir.variables import vars_in
from ...buffer import Buffer
from ...expr import BufferLoad
from ...stmt import (
    AllocateConst,
    Block,
    BlockRealize,
    DeclBuffer,
    For,
    ForKind,
    SeqStmt,
    Stmt,
    seq,
)  # fmt: skip
from .axis_bindings import linear_terms
from .axis_domains import AxisLoop, Span, axis_loop
from .errors import ScheduleError
from .parallel_checks import check_parallel_with_sources
from .predicates import own_tests, runs_over
from .refs import Ref
from .regions import Box, axis_values, region_covers, relaxed_region
from .rewriting import substitute
from .scope import check_bounds_keep, producers, read_buffers, siblings, write_apart, write_buffers
from .state import ScheduleState, bind_range


def check_movable(ref: Ref, at: Ref) -> None:
    """Raise ScheduleError unless the block can leave its loops for `at`."""
    if ref.is_under(at):
        what = f"the loop is an ancestor of block {ref.stmt.name_hint!r} already"
        raise ScheduleError(what, instead="a loop of another block", at=[at.stmt, ref.node])
    if ref.scope() is not at.scope():
        what = "the block and the loop are not in the same block scope"
        raise ScheduleError(what, instead="a loop of the same scope", at=[ref.node, at.stmt])
    inner: Any = ref.node
    for above in ref.ancestors():
        if not any(item is inner for item in body_items(above)):
            what = f"block {ref.stmt.name_hint!r} is under a condition or another statement"
            raise ScheduleError(what, instead="loops and blocks only", at=ref.node)
        if above.is_block:
            break
        if above.stmt.kind == ForKind.THREAD_BINDING:
            what = f"the loops of block {ref.stmt.name_hint!r} are bound to threads"
            raise ScheduleError(what, instead="move first, bind later", at=above.stmt)
        inner = above.stmt


def users_of(ref: Ref) -> list[Ref]:
    """The blocks of the scope that read what this one writes."""
    own = write_buffers(ref.stmt)
    return [b for b in siblings(ref) if b is not ref and own & read_buffers(b.stmt)]


def body_items(at: Ref) -> tuple[Stmt, ...]:
    """The statements of a loop's body, or a block's, inside constants declared around all of it."""
    body = at.stmt.body
    while at.is_block and isinstance(body, _AROUND):
        body = body.body
    return body.seq if isinstance(body, SeqStmt) else (body,)


_AROUND = (AllocateConst, DeclBuffer)


def with_items(node: Stmt, change: Callable[[list[Stmt]], None]) -> Any:
    """A loop or a block whose `body_items` were changed."""

    def rebuilt(body: Stmt) -> Stmt:
        if isinstance(node, Block) and isinstance(body, _AROUND):
            return body.replace(body=rebuilt(body.body))
        items = list(body.seq) if isinstance(body, SeqStmt) else [body]
        change(items)
        return seq(*items)

    return node.replace(body=rebuilt(node.body))


def item_of(at: Ref, block: Ref) -> int:
    """Which statement of the loop's body holds a block."""
    inner = block.node
    for above in block.ancestors():
        if above is at:
            break
        inner = above.node
    for n, item in enumerate(body_items(at)):
        if item is inner or holds(item, inner):
            return n
    raise ScheduleError("the block is not below the loop", at=[at.stmt, block.node])


def holds(stmt: Stmt, inner: Stmt) -> bool:
    """Whether a statement is inside one that is neither a loop nor a block."""
    if stmt is inner:
        return True
    if isinstance(stmt, (For, BlockRealize)) or not isinstance(stmt, Stmt):
        return False
    return any(holds(child, inner) for child in stmt.children())


def insert_position(at: Ref, before: list[Ref], after: list[Ref], index: int) -> int:
    """The position of a block in the loop's body: after all of `before`, before all of `after`."""
    count = len(body_items(at))
    first = max((item_of(at, b) + 1 for b in before), default=0)
    last = min((item_of(at, b) for b in after), default=count)
    if first > last:
        what = "the block has no valid position: its producers come after its consumers"
        raise ScheduleError(what, at=[at.stmt, *(b.node for b in (*before, *after))])
    if index == -1:
        return last
    if index == -2:
        return first
    if not first <= index <= last:
        what = "the block cannot be at this position in the loop"
        raise ScheduleError(what, got=index, instead=f"{first} to {last}, -1 or -2", at=at.stmt)
    return index


def check_order(ref: Ref, at: Ref, position: int) -> None:
    """Raise ScheduleError where the block would move past one that it shares a buffer with."""
    blocks = siblings(ref)
    here = blocks.index(ref)
    below = [n for n, b in enumerate(blocks) if b.is_under(at)]
    reads, writes = read_buffers(ref.stmt), write_buffers(ref.stmt)
    for n, other in enumerate(blocks):
        other_writes = write_buffers(other.stmt)
        later = n > here
        if other.is_under(at):
            passed = (item_of(at, other) < position) == later
            # the other iterations of the loop: what ran before all of them now runs between them
            clash = other_writes & reads if later else read_buffers(other.stmt) & writes
        else:
            passed = here < n < below[0] or below[-1] < n < here
            clash = set()
        if passed:
            clash |= other_writes & (reads | writes) | read_buffers(other.stmt) & writes
        if other is not ref and clash:
            name = next(iter(clash)).name
            what = (
                f"block {ref.stmt.name_hint!r} would pass {other.stmt.name_hint!r}, which also "
                f"accesses {name}"
            )
            hint = "a loop that comes after the block's producers and before its consumers"
            raise ScheduleError(what, instead=hint, at=[ref.node, other.node])


@dataclass
class Checks:
    """Of a move: further checks, the conditions that the block runs under, whether its axes take
    the values of their spans only, and axes whose spans are known to stay inside of their
    domains."""

    also: Callable[[ScheduleState, Ref, Ref], None] | None = None
    tests: Sequence[PrimExpr] = ()
    exact: bool = False
    inside: Container[Var] = ()


def move(
    state: ScheduleState,
    ref: Ref,
    at: Ref,
    spans: dict[Var, Span],
    position: int,
    keep_unit: bool,
    more: Checks | None = None,
) -> None:
    """Put the block into the loop `at`, its axes running over `spans` (the others over their
    domains), where the tests of `more` hold; undo that where its inputs would not be ready, or
    where `more` refuses it."""
    more = more or Checks()
    if state.enable_check:
        check_bounds_keep(ref.scope(), [ref])
        check_order(ref, at, position)
        around = state.analyzer(at)
        written = set().union(*(write_buffers(other.stmt) for other in siblings(ref)))
        spans = {v: span for v, span in spans.items() if is_steady(around, span, written)}
        if not runs_over(state, ref, without=spans):
            what = f"block {ref.stmt.name_hint!r} runs over only a part of the domain of an axis"
            hint = "loops over the whole domain of each axis that does not index its result"
            raise ScheduleError(what, instead=hint, at=ref.node)
    ana = state.analyzer(at)
    loops: list[AxisLoop] = []
    for axis in ref.stmt.iter_vars:
        name = f"ax{sum(1 for loop in loops if loop.var is not None)}"
        loops.append(axis_loop(ana, axis, spans.get(axis.var), name, keep_unit, more.exact))
    predicate = const(True, "bool")
    for test in kept_tests(state, ref, loops):
        predicate = logical_and(predicate, test)
    for axis, loop in zip(ref.stmt.iter_vars, loops, strict=True):
        for test in () if axis.var in more.inside else loop.tests:
            predicate = logical_and(predicate, test)
    # Iterations that differ only in other loops reach the same points; a test on loops that the
    # axes depend on would leave points out.
    used: set[Var] = set().union(*(vars_in(loop.value) for loop in loops))
    with ana.constraint_scope(predicate):
        left = [t for t in more.tests if not vars_in(t) & used and not ana.can_prove(t)]
    for test in left:
        predicate = logical_and(predicate, test)
    realize = BlockRealize._make(
        tuple(loop.value for loop in loops), predicate, ref.stmt, span=ref.realize.span
    )
    nest: Stmt = realize
    for loop in reversed(loops):
        if loop.var is not None:
            zero = const(0, loop.var.dtype)
            nest = For._make(loop.var, zero, loop.extent, ForKind.SERIAL, nest, None, {})
    items = list(body_items(at))
    items.insert(position, nest)
    state.update(ref.func, {ref: None, at: at.stmt.replace(body=seq(*items))})
    for loop in loops:
        if loop.var is not None:
            bind_range(ana, loop.var, const(0, loop.var.dtype), loop.extent)
    if state.enable_check:
        moved = state.index(ref.func).blocks[ref.stmt]
        check_inputs(state, moved)
        check_parallel_with_sources(state, moved)
        if more.also is not None:
            more.also(state, moved, state.index(ref.func).loops[at.stmt.loop_var])


def is_steady(ana: Analyzer, span: Span, written: set[Buffer]) -> bool:
    """Whether a span may be computed wherever a loop runs, of which `ana` knows: what it loads is
    not `written`, and in range whatever holds there."""
    return all(
        load.buffer not in written and ana.can_prove(index >= 0) and ana.can_prove(index < extent)
        for load in nodes_of(span, BufferLoad)
        for index, extent in zip(load.indices, load.buffer.shape, strict=True)
    )


def kept_tests(state: ScheduleState, ref: Ref, loops: list[AxisLoop]) -> list[PrimExpr]:
    """The conditions of the old predicate beyond the axes' domains, in terms of the new loops."""
    left = own_tests(state, ref)
    if not left:
        return []
    values = axis_values(ref)
    table: dict[Var, PrimExpr] = {}
    for axis, loop in zip(ref.stmt.iter_vars, loops, strict=True):
        value = values[axis.var]
        if isinstance(value, Var):
            table[value] = loop.value
    own = {loop.stmt.loop_var for loop in ref.loops()}
    for part in left:
        if not vars_in(part) & own <= set(table):
            what = f"the predicate of block {ref.stmt.name_hint!r} refers to loops it would leave"
            raise ScheduleError(what, got=part, instead="a block that runs everywhere", at=ref.node)
    return [substitute(part, table) for part in left]


def check_inputs(state: ScheduleState, ref: Ref) -> None:
    """Raise ScheduleError unless the inputs of a block are written before, in the same iteration of
    the loops it shares with the producer."""
    above = list(ref.ancestors())
    for source in producers(ref):
        shared = next(a for a in source.ancestors() if any(a is b for b in above))
        if shared.is_block:
            continue
        check_reduced(source, shared, ref)
        for buffer in write_buffers(source.stmt) & read_buffers(ref.stmt):
            ana = state.analyzer(ref)
            state.analyzer(source)
            written = relaxed_region(state, source, shared, buffer, write=True)
            needed = relaxed_region(state, ref, shared, buffer, write=False)
            gaps = not is_dense(ana, source, shared, buffer, written)
            if gaps or not region_covers(ana, written, needed, buffer.shape):
                what = (
                    f"block {ref.stmt.name_hint!r} would read of {buffer.name} what "
                    f"{source.stmt.name_hint!r} has not written in this iteration of loop "
                    f"{shared.stmt.loop_var.name!r}"
                )
                hint = "a loop further out, or move the producer first"
                raise ScheduleError(what, instead=hint, at=[ref.node, source.node])


def is_dense(ana: Analyzer, source: Ref, shared: Ref, buffer: Buffer, box: Box | None) -> bool:
    """Whether a block writes, in one iteration of a loop, all of the box that its writes span: a
    dimension that inner loops walk in strides has gaps, and so has a box of more elements than the
    loops have iterations."""
    inner = {
        r.stmt.loop_var: r.stmt.extent
        for r in source.loops()
        if r is not shared and r.is_under(shared)
    }
    values = axis_values(source)
    for region in source.stmt.writes:
        if region.buffer is not buffer:
            continue
        for r in region.region:
            terms = linear_terms(substitute(r.min, values)) or []
            digits = [(abs(f), atom) for atom, f in terms if vars_in(atom) & set(inner)]
            if not all(isinstance(atom, Var) for _, atom in digits):
                sizes = [ana.const_int_bound(add(subtract(b, a), 1)) for a, b in box or ()]
                steps = [*inner.values(), *(e.extent for e in region.region)]
                points = prod(s.value if isinstance(s, IntImm) else 1 << 30 for s in steps)
                if points < prod(s.max_value for s in sizes):
                    return False
                continue
            covered = r.extent.value if isinstance(r.extent, IntImm) else 1 << 30
            for factor, atom in sorted(digits, key=lambda item: item[0]):
                extent = inner[atom]
                count = extent.value if isinstance(extent, IntImm) else 1 << 30
                if count > 1 and factor > covered:
                    return False
                covered += factor * (count - 1)
    return True


def check_reduced(source: Ref, shared: Ref, ref: Ref) -> None:
    """Raise ScheduleError where the loops that two blocks share drive a reduction of the first."""
    loops = {shared.stmt.loop_var}
    for above in shared.ancestors():
        if above.is_block:
            break
        loops.add(above.stmt.loop_var)
    own = (IterVar.DataPar, IterVar.DimInfo) if write_apart(source.stmt) else (IterVar.DataPar,)
    for axis, value in zip(source.stmt.iter_vars, source.realize.iter_values, strict=True):
        if axis.iter_type not in own and vars_in(value) & loops:
            what = (
                f"the reduction of block {source.stmt.name_hint!r} is not finished where "
                f"{ref.stmt.name_hint!r} would run"
            )
            hint = "a loop outside of the reduction's loops"
            raise ScheduleError(what, instead=hint, at=[source.node, shared.stmt])
