"""`compute_at`: a producer moves into a loop of its consumers."""

from __future__ import annotations

from ....ir.prim_expr import Var
from ..machinery import BlockArg, LoopRV, ScheduleBase, ScheduleError, primitive, unrecorded
from ..machinery.axis_domains import Span, solve_axes, union_spans
from ..machinery.block_moves import check_movable, insert_position, move, users_of
from ..machinery.leaving import check_may_leave
from ..machinery.random_variables import INLINE
from ..machinery.regions import relaxed_region, sharing_loops
from ..machinery.scope import check_complete_or_reduction, is_output, producers
from .compute_inline import compute_inline


@primitive("ComputeAt", inputs="block loop", attrs="preserve_unit_loops index")
def compute_at(
    sch: ScheduleBase,
    block: BlockArg,
    loop: LoopRV,
    preserve_unit_loops: bool = False,
    index: int = -1,
) -> None:
    """Compute, in each iteration of `loop`, the part of a block's result that is needed there.

    index: where in the loop's body: -1 as late as possible, -2 as early as possible.

    Raises ScheduleError when the block is an output, is neither complete nor a reduction, when a
    consumer is not below the loop, or the block's inputs are not ready yet.

    Before (-) and after (+) ``i, j = sch.get_loops("C"); sch.compute_at("B", i)``,
    with ``A: T.Buffer((8, 8)), C: T.Buffer((8, 8))``::

          B = T.alloc_buffer((8, 8))
          for i in range(8):
        -     for j in range(8):
        +     for ax0 in range(8):
                  with T.block("B"):
        -             v_i, v_j = T.axis.remap("SS", [i, j])
        +             v_i, v_j = T.axis.remap("SS", [i, ax0])
                      B[v_i, v_j] = A[v_i, v_j] * 2.0
        - for i in range(8):
              for j in range(8):
                  with T.block("C"):
                      v_i, v_j = T.axis.remap("SS", [i, j])
                      C[v_i, v_j] = B[v_i, v_j] + 1.0
    """
    mark = sch.mark(loop)
    if mark is not None:  # a sampled place that is not a loop
        if mark == INLINE:
            unrecorded(compute_inline)(sch, block)
        return
    ref, at = sch.block(block), sch.loop(loop)
    check_movable(ref, at)
    if sch.enable_check:
        check_complete_or_reduction(ref)
        check_may_leave(ref, at)
    if is_output(ref, sch.state.func(ref.func)):
        what = f"block {ref.stmt.name_hint!r} is an output block: its results are used outside"
        raise ScheduleError(what, instead="reverse_compute_at moves outputs", at=ref.node)
    users = users_of(ref)
    outside = [user for user in users if not user.is_under(at)]
    if outside or not users:
        what = (
            f"compute_at requires all the consumers of block {ref.stmt.name_hint!r} below the loop"
        )
        hint = "a loop around all consumers"
        raise ScheduleError(what, instead=hint, at=[at.stmt, *(u.node for u in outside)])
    sources = [p for p in producers(ref) if p.is_under(at)]
    position = insert_position(at, sources, users, index)
    ana = sch.state.analyzer(ref)
    sch.state.analyzer(at)
    total: dict[Var, Span] | None = None
    for region in ref.stmt.writes:
        for user in users:
            more = sharing_loops(at, region.buffer.scope())
            box = relaxed_region(sch.state, user, at, region.buffer, write=False, more=more)
            if box is not None:
                spans = solve_axes(ana, region, box, ref.stmt, touching=True)
                total = union_spans(ana, total, spans)
    move(sch.state, ref, at, total or {}, position, preserve_unit_loops)
