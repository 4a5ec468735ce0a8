"""How the iterations of a loop run: `parallel`, `vectorize`, `unroll`, `bind`."""

from __future__ import annotations

from ....ir.prim_expr import IntImm, IterVar, Var
from ...analysis.parallel import together
from ...stmt import For, ForKind
from ..machinery import LoopRV, ScheduleBase, ScheduleError, primitive
from ..machinery.parallel_checks import check_parallel, check_races, writes_by_axes

_TAGS = ("blockIdx.", "threadIdx.", "vthread", "cthread")


@primitive("Parallel", inputs="loop")
def parallel(sch: ScheduleBase, loop: LoopRV) -> None:
    """Run the iterations of a loop in parallel, on several threads.

    Raises ScheduleError when the loop drives an axis that is not spatial, or an iteration reads
    what another writes.

    Before (-) and after (+) ``i, = sch.get_loops("B"); sch.parallel(i)``,
    with ``A: T.Buffer(8), B: T.Buffer(8)``::

        - for i in range(8):
        + for i in T.parallel(8):
              with T.block("B"):
                  v = T.axis.spatial(8, i)
                  B[v] = A[v] * 2.0
    """
    set_kind(sch, loop, ForKind.PARALLEL)


@primitive("Vectorize", inputs="loop")
def vectorize(sch: ScheduleBase, loop: LoopRV) -> None:
    """Run the iterations of a loop as one vector operation. Raises as `parallel` does.

    Before (-) and after (+) ``i, j = sch.get_loops("B"); sch.vectorize(j)``,
    with ``A: T.Buffer(32), B: T.Buffer(32)``::

          for i in range(4):
        -     for j in range(8):
        +     for j in T.vectorized(8):
                  with T.block("B"):
                      v = T.axis.spatial(32, i * 8 + j)
                      B[v] = A[v] * 2.0
    """
    set_kind(sch, loop, ForKind.VECTORIZED)


@primitive("Unroll", inputs="loop")
def unroll(sch: ScheduleBase, loop: LoopRV) -> None:
    """Repeat the body of a loop in the code, once for each iteration.

    Before (-) and after (+) ``i, j = sch.get_loops("B"); sch.unroll(j)``,
    with ``A: T.Buffer((8, 2)), B: T.Buffer((8, 2))``::

          for i in range(8):
        -     for j in range(2):
        +     for j in T.unroll(2):
                  with T.block("B"):
                      vi, vj = T.axis.remap("SS", [i, j])
                      B[vi, vj] = A[vi, vj] * 2.0
    """
    ref = sch.loop(loop)
    sch.state.update(ref.func, {ref: ref.stmt.replace(kind=ForKind.UNROLLED, thread_binding=None)})


@primitive("Bind", inputs="loop", attrs="thread_axis")
def bind(sch: ScheduleBase, loop: LoopRV, thread_axis: str | IterVar) -> None:
    """Bind the iterations of a loop to threads: "blockIdx.x", "threadIdx.x", "vthread.x" ...

    A reduction axis may be driven by a threadIdx loop. Raises ScheduleError for an unknown thread axis,
    and otherwise as `parallel` does.

    Before (-) and after (+)
    ``i, j = sch.get_loops("B"); sch.bind(i, "blockIdx.x"); sch.bind(j, "threadIdx.x")``,
    with ``A: T.Buffer(32), B: T.Buffer(32)``::

        - for i in range(4):
        -     for j in range(8):
        + for i in T.thread_binding(4, thread="blockIdx.x"):
        +     for j in T.thread_binding(8, thread="threadIdx.x"):
                  with T.block("B"):
                      v = T.axis.spatial(32, i * 8 + j)
                      B[v] = A[v] * 2.0
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


def set_kind(sch: ScheduleBase, loop: LoopRV, kind: ForKind, tag: str = "") -> None:
    """Change how a loop runs, where that is safe."""
    ref = sch.loop(loop)
    node: For = ref.stmt
    if kind == ForKind.VECTORIZED and not isinstance(node.extent, IntImm):
        what = f"loop {node.loop_var.name!r} does not have a constant number of iterations"
        hint = "split it by the length of a vector"
        raise ScheduleError(what, got=node.extent, instead=hint, at=node)
    binding = None
    if tag:
        binding = IterVar(None, Var(tag, node.loop_var.dtype), IterVar.ThreadIndex, tag)
    new_loop = node.replace(kind=kind, thread_binding=binding)
    if sch.enable_check:
        how, across = together(new_loop), tag.startswith("threadIdx")
        sure = check_parallel(sch.state, ref, how, across_threads=across)
        if not sure or not writes_by_axes(ref, across_threads=across):
            check_races(sch.state, ref, how)
    sch.state.update(ref.func, {ref: new_loop})
