"""How the iterations of a loop run: `parallel`, `vectorize`, `unroll`, `bind`."""

from __future__ import annotations

from typing import Any

from ....ir.prim_expr import IntImm, IterVar, Var
from ...analysis import race_errors
from ...buffer import BufferRegion
from ...stmt import Block, For, ForKind
from ..machinery.axis_bindings import injective, one_to_one
from ..machinery.errors import ScheduleError
from ..machinery.primitive import primitive
from ..machinery.random_variables import LoopRV
from ..machinery.rewriting import uses_any
from ..machinery.scope import read_buffers, write_buffers
from ..machinery.shared_loops import check_independent_iterations
from ..machinery.state import Ref, replaced

_TAGS = ("blockIdx.", "threadIdx.", "vthread", "cthread")


@primitive("Parallel", inputs="loop")
def parallel(sch: Any, loop: LoopRV) -> None:
    """Run the iterations of a loop at the same time, on several threads.

    Raises ScheduleError when the loop drives an axis that is not spatial, or an iteration reads
    what another one writes.

    Before::

        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v] * T.float32(2)

    After ``i, = sch.get_loops("B"); sch.parallel(i)``::

        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in T.parallel(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v] * T.float32(2)
    """
    set_kind(sch, loop, ForKind.PARALLEL)


@primitive("Vectorize", inputs="loop")
def vectorize(sch: Any, loop: LoopRV) -> None:
    """Run the iterations of a loop as one vector operation. Raises as `parallel` does.

    Before::

        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v] * T.float32(2)

    After ``i, = sch.get_loops("B"); sch.vectorize(i)``::

        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in T.vectorized(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v] * T.float32(2)
    """
    set_kind(sch, loop, ForKind.VECTORIZED)


@primitive("Unroll", inputs="loop")
def unroll(sch: Any, loop: LoopRV) -> None:
    """Repeat the body of a loop in the code, once for each iteration.

    Before::

        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v] * T.float32(2)

    After ``i, = sch.get_loops("B"); sch.unroll(i)``::

        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in T.unroll(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v] * T.float32(2)
    """
    ref = sch.loop(loop)
    sch.state.update(ref.func, {ref: ref.stmt.replace(kind=ForKind.UNROLLED, thread_binding=None)})


@primitive("Bind", inputs="loop", attrs="thread_axis")
def bind(sch: Any, loop: LoopRV, thread_axis: str | IterVar) -> None:
    """Give the iterations of a loop to threads: "blockIdx.x", "threadIdx.x", "vthread.x" ...

    A reduction axis may be driven by a threadIdx loop. Raises as `parallel` does otherwise.

    Before::

        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in range(8):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v] * T.float32(2)

    After ``i, = sch.get_loops("B"); sch.bind(i, "threadIdx.x")``::

        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            for i in T.thread_binding(8, thread="threadIdx.x"):
                with T.block("B"):
                    v = T.axis.spatial(8, i)
                    B[v] = A[v] * T.float32(2)
    """
    tag = thread_axis.thread_tag if isinstance(thread_axis, IterVar) else thread_axis
    if not tag.startswith(_TAGS):
        what = "no such thread axis"
        raise ScheduleError(
            what,
            got=tag,
            instead='"blockIdx.x", "threadIdx.x", "vthread.x"',
            at=sch.loop(loop).node,
        )
    set_kind(sch, loop, ForKind.THREAD_BINDING, tag)


def set_kind(sch: Any, loop: LoopRV, kind: ForKind, tag: str = "") -> None:
    """Change how a loop runs, where that is safe."""
    ref = sch.loop(loop)
    node: For = ref.stmt
    if kind == ForKind.VECTORIZED and not isinstance(node.extent, IntImm):
        what = f"loop {node.loop_var.name!r} has no constant number of iterations"
        hint = "split it by the length of a vector"
        raise ScheduleError(what, got=node.extent, instead=hint, at=node)
    if sch.enable_check:
        across = tag.startswith("threadIdx")
        sure = check_parallel(sch, ref, kind, across_threads=across)
        if not sure:
            check_races(sch, ref)
        elif not writes_by_axes(ref, across_threads=across):
            in_order = kind == ForKind.VECTORIZED
            check_races(sch, ref, ForKind.VECTORIZED if in_order else ForKind.PARALLEL)
    binding = None
    if tag:
        binding = IterVar(None, Var(tag, node.loop_var.dtype), IterVar.ThreadIndex, tag)
    sch.state.update(ref.func, {ref: node.replace(kind=kind, thread_binding=binding)})


def check_parallel(sch: Any, ref: Ref, how: ForKind, *, across_threads: bool) -> bool:
    """Raise ScheduleError unless the iterations of a loop may run at the same time. False where
    it is not certain that they write elements of their own."""
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
        if driven and (not updates or across_threads or one_to_one(sch, block, var)):
            if how == ForKind.PARALLEL or (how == ForKind.VECTORIZED and updates):
                inner = [r for r in block.loops() if r.is_under(ref)]
                sure = sure and (injective(sch, block, inner) or is_private(ref, block))
            continue
        if not updates and (block.stmt.iter_vars or _writes_differ(block, var)):
            sure = sure and (how == ForKind.VECTORIZED or is_private(ref, block))
            continue
        if how != ForKind.VECTORIZED and is_private(ref, block):
            continue
        what = f"the iterations of loop {var.name!r} write the same elements"
        hint = f"a loop whose iterations each write elements of their own in {block.stmt.name_hint}"
        raise ScheduleError(what, instead=hint, at=[ref.stmt, block.node])
    if len(blocks) > 1:
        check_independent_iterations(sch, ref, blocks)
    return sure


def writes_by_axes(ref: Ref, *, across_threads: bool) -> bool:
    """Whether the blocks below a loop plainly write, and read of what they write, an element for
    each value of the axes that the loop drives, so that only the axes need be looked at."""
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
            places: dict[Any, list[int | None]] = {}
            for region in regions:
                here = [_dimension(region, axis) for axis in axes]
                if None in here or places.setdefault(region.buffer, here) != here:
                    return False
    return True


def _dimension(region: BufferRegion, axis: Var) -> int | None:
    """The dimension that an axis indexes by itself."""
    for n, r in enumerate(region.region):
        if r.min is axis and isinstance(r.extent, IntImm) and r.extent.value == 1:
            return n
    return None


def check_races(sch: Any, ref: Ref, kind: ForKind = ForKind.PARALLEL) -> None:
    """Raise ScheduleError where two iterations of a loop are seen to be in each other's way."""
    func = sch.state.func(ref.func)
    made = ref.stmt.replace(kind=kind, thread_binding=None)
    tried = func.with_body(replaced(func.body, ref, made))
    errors = race_errors(tried, made.loop_var)
    if errors:
        name = ref.stmt.loop_var.name
        what = f"iterations of loop {name!r} are in each other's way"
        got = errors[0].split("got:")[-1].split("instead:")[0].strip()
        hint = "a loop whose iterations each write elements of their own"
        raise ScheduleError(what, got=got, instead=hint, at=ref.stmt)


def check_parallel_around(sch: Any, ref: Ref) -> None:
    """Raise ScheduleError where a parallel loop around what was moved may no longer be parallel."""
    for above in ref.ancestors():
        if not above.is_block and above.stmt.kind == ForKind.PARALLEL:
            sure = check_parallel(sch, above, ForKind.PARALLEL, across_threads=False)
            if not sure:
                check_races(sch, above)


def is_private(loop: Ref, block: Ref) -> bool:
    """Whether what a block writes is used in one iteration only, so that each has its own copy
    (buffers are allocated as far inside as they are used)."""
    scope = loop.scope()
    mine = write_buffers(block.stmt)
    return mine <= set(scope.stmt.alloc_buffers) and all(
        other.is_under(loop) or mine.isdisjoint(_accessed(other.stmt)) for other in scope.blocks()
    )


def _accessed(block: Block) -> set[Any]:
    return read_buffers(block) | write_buffers(block)


def updates_in_place(block: Block) -> bool:
    """Whether running a block twice for one point would change the result."""
    reduces = any(axis.iter_type != IterVar.DataPar for axis in block.iter_vars)
    return reduces or not write_buffers(block).isdisjoint(read_buffers(block))


def _writes_differ(block: Ref, var: Var) -> bool:
    """Whether a block without axes writes at places that depend on the loop, or nothing."""
    writes = block.stmt.writes
    return all(any(uses_any(r.min, {var}) for r in region.region) for region in writes)
