"""Whether the iterations of a loop may run at the same time."""

from __future__ import annotations

from typing import Any

from ....ir.literals import conjuncts, is_one
from ....ir.prim_expr import IterVar, Or, Var
from ....ir.variables import uses_any, vars_in
from ...analysis import race_errors
from ...analysis.parallel import together
from ...buffer import BufferRegion
from ...stmt import Block, ForKind
from .axis_bindings import injective, one_to_one
from .errors import ScheduleError
from .refs import Ref
from .regions import region_covers, relaxed_region
from .scope import producers, read_buffers, write_buffers
from .state import ScheduleState, replaced


def check_parallel(
    state: ScheduleState, ref: Ref, how: str | None, *, across_threads: bool
) -> bool:
    """Raise ScheduleError unless the iterations of a loop may run at the same time, as `together`
    says how. False where it is not certain that they write elements of their own; real threads
    may write the same values."""
    var = ref.stmt.loop_var
    blocks = ref.blocks()
    sure = True
    for block in blocks:
        updates = updates_in_place(block.stmt)
        driven = False
        for axis, value in zip(block.stmt.iter_vars, block.realize.iter_values, strict=True):
            if not uses_any(value, {var}):
                continue
            kind = axis.iter_type
            if kind == IterVar.DataPar or (kind == IterVar.CommReduce and across_threads):
                driven = True
                continue
            what = (
                f"loop {var.name!r} drives axis {axis.var.name!r} of block "
                f"{block.stmt.name_hint!r}, which is not spatial"
            )
            hint = "a loop over spatial axes; rfactor makes one of a reduction"
            raise ScheduleError(what, instead=hint, at=[ref.stmt, block.node])
        if driven and (not updates or across_threads or one_to_one(state, block, var)):
            if how is not None:
                inner = [r for r in block.loops() if r.is_under(ref)]
                sure = sure and (injective(state, block, inner) or is_private(ref, block))
            continue
        if not updates and (block.stmt.iter_vars or _writes_differ(block, var)):
            sure = sure and (how == "vectorized" or is_private(ref, block))
            continue
        if how != "vectorized" and is_private(ref, block):
            continue
        what = f"the iterations of loop {var.name!r} write the same elements"
        hint = f"a loop whose iterations each write elements of their own in {block.stmt.name_hint}"
        raise ScheduleError(what, instead=hint, at=[ref.stmt, block.node])
    if len(blocks) > 1:
        check_independent_iterations(state, ref, blocks)
    return sure


def writes_by_axes(ref: Ref, *, across_threads: bool) -> bool:
    """Whether the blocks below a loop access, in the buffers they write, one element for each value
    of the axes that the loop drives, so that looking at the axes is enough."""
    var = ref.stmt.loop_var
    for block in ref.blocks():
        axes: list[Var] = []
        for axis, value in zip(block.stmt.iter_vars, block.realize.iter_values, strict=True):
            if uses_any(value, {var}):
                if across_threads and axis.iter_type != IterVar.DataPar:
                    break  # a reduction across threads, which is lowered as a whole
                axes.append(axis.var)
        else:
            written = write_buffers(block.stmt)
            regions = [*block.stmt.writes, *(r for r in block.stmt.reads if r.buffer in written)]
            dims_by_buffer: dict[Any, list[int | None]] = {}
            for region in regions:
                here = [_dimension(region, axis) for axis in axes]
                if None in here or dims_by_buffer.setdefault(region.buffer, here) != here:
                    return False
    return True


def _dimension(region: BufferRegion, axis: Var) -> int | None:
    """The dimension that an axis indexes alone."""
    for n, r in enumerate(region.region):
        if r.min is axis and is_one(r.extent):
            return n
    return None


def check_races(state: ScheduleState, ref: Ref, how: str | None) -> None:
    """Raise ScheduleError where two iterations of a loop that run together are found to conflict."""
    func = state.func(ref.func)
    kind = ForKind.VECTORIZED if how == "vectorized" else ForKind.PARALLEL
    loop = ref.stmt.replace(kind=kind, thread_binding=None)
    tried = func.with_body(replaced(func.body, ref, loop))
    errors = race_errors(tried, loop.loop_var)
    if errors:
        name = ref.stmt.loop_var.name
        what = f"iterations of loop {name!r} conflict with each other"
        got = errors[0].split("got:")[-1].split("instead:")[0].strip()
        hint = "a loop whose iterations each write elements of their own"
        raise ScheduleError(what, got=got, instead=hint, at=ref.stmt)


def check_parallel_around(state: ScheduleState, ref: Ref) -> None:
    """Raise ScheduleError where a loop around a moved block whose iterations run together may no
    longer do so."""
    for above in ref.ancestors():
        if not above.is_block:
            check_together(state, above)


def check_together(state: ScheduleState, loop: Ref) -> None:
    """Raise ScheduleError for a loop whose iterations run together and may not."""
    how = together(loop.stmt)
    if how is None:
        return
    sure = check_parallel(state, loop, how, across_threads=False)
    if not sure or loop.stmt.kind != ForKind.PARALLEL:
        check_races(state, loop, how)


def check_parallel_with_sources(state: ScheduleState, ref: Ref) -> None:
    """`check_parallel_around` a moved block, and around those whose results it reads, which each
    iteration may have had privately before."""
    for block in (ref, *producers(ref)):
        check_parallel_around(state, block)


def is_private(loop: Ref, block: Ref) -> bool:
    """Whether the results of a block are used in one iteration only, so that each has its own copy
    (buffers are allocated as far inside as they are used)."""
    scope = loop.scope()
    own = write_buffers(block.stmt)
    return own <= set(scope.stmt.alloc_buffers) and all(
        other.is_under(loop) or own.isdisjoint(_accessed(other.stmt)) for other in scope.blocks()
    )


def _accessed(block: Block) -> set[Any]:
    return read_buffers(block) | write_buffers(block)


def updates_in_place(block: Block) -> bool:
    """Whether running a block twice for one point would change the result."""
    reduces = any(axis.iter_type != IterVar.DataPar for axis in block.iter_vars)
    return reduces or not write_buffers(block).isdisjoint(read_buffers(block))


def _writes_differ(block: Ref, var: Var) -> bool:
    """Whether a block without axes writes at indices that depend on the loop, or nothing."""
    writes = block.stmt.writes
    return all(any(uses_any(r.min, {var}) for r in region.region) for region in writes)


def check_independent_iterations(state: ScheduleState, loop: Ref, blocks: list[Ref]) -> None:
    """Raise ScheduleError unless the iterations of `loop` and of the loops around it can run in
    any order: values that a block inside reads from another are written in the same iteration.
    """
    for n, reader in enumerate(blocks):
        for buffer in read_buffers(reader.stmt):
            writers = [b for b in blocks if b is not reader and buffer in write_buffers(b.stmt)]
            if not writers:
                continue
            ana = state.analyzer(loop)
            needed = relaxed_region(state, reader, loop, buffer, write=False)
            if any(
                w in blocks[:n]
                and _runs_with(state, w, reader, loop)
                and region_covers(
                    ana, relaxed_region(state, w, loop, buffer, write=True), needed, buffer.shape
                )
                for w in writers
            ):
                continue
            what = (
                f"block {reader.stmt.name_hint!r} reads of {buffer.name} what other iterations "
                f"of loop {loop.stmt.loop_var.name!r} write"
            )
            hint = "a loop in which each iteration writes what it reads"
            raise ScheduleError(what, instead=hint, at=[reader.node, writers[0].node])


def _runs_with(state: ScheduleState, writer: Ref, reader: Ref, loop: Ref) -> bool:
    """Whether a block runs in each iteration of the loops around both in which the other one does, and
    writes in each of `loop` what it writes in the first (after `rolling_buffer` it does not)."""
    around = {r.stmt.loop_var for r in writer.loops() if reader.is_under(r)}
    loop_vars = {loop.stmt.loop_var}
    tests = [
        t
        for t in conjuncts(writer.realize.predicate)
        if vars_in(t) <= around or (isinstance(t, Or) and uses_any(t, loop_vars))
    ]
    ana = state.analyzer(reader)
    with ana.constraint_scope(reader.realize.predicate):
        return all(map(ana.can_prove, tests))
