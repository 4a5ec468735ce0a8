"""`reverse_compute_at`: a consumer moves into a loop of its producers."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from ....arith import Analyzer, IterMapLevel, detect_iter_map, eval_set
from ....arith.interval import is_infinite
from ....ir.literals import is_one
from ....ir.prim_expr import IntImm, PrimExpr, Var
from ....ir.prim_op import add, multiply, subtract
from ....ir.variables import vars_in
from ...stmt import For, ForKind
from ..machinery import BlockArg, LoopRV, Ref, ScheduleBase, ScheduleError, primitive, unrecorded
from ..machinery.axis_bindings import driven, injective
from ..machinery.axis_domains import Span, solve_axes
from ..machinery.block_moves import Checks, check_movable, insert_position, move, users_of
from ..machinery.leaving import check_may_leave
from ..machinery.predicates import check_runs_everywhere, covers_axes, tests_around
from ..machinery.random_variables import INLINE
from ..machinery.regions import loop_domain, relaxed_region
from ..machinery.scope import check_complete_or_reduction, producers, read_buffers, write_buffers
from ..machinery.state import ScheduleState
from .reverse_compute_inline import reverse_compute_inline

if TYPE_CHECKING:
    from ...buffer import BufferRegion


@primitive("ReverseComputeAt", inputs="block loop", attrs="preserve_unit_loops index")
def reverse_compute_at(
    sch: ScheduleBase,
    block: BlockArg,
    loop: LoopRV,
    preserve_unit_loops: bool = False,
    index: int = -1,
) -> None:
    """Run a block, in each iteration of `loop`, on what its producers have computed there.

    index: where in the loop's body: -1 as late as possible, -2 as early as possible.

    Raises ScheduleError when the block is neither complete nor a reduction, no producer is below
    the loop, a producer's reduction is not finished there, or the block reads more than what one
    iteration computes.

    Before (-) and after (+) ``i, j = sch.get_loops("B"); sch.reverse_compute_at("C", i)``,
    with ``A: T.Buffer(8), C: T.Buffer(8)``::

          B = T.alloc_buffer(8)
          for i in range(2):
              for j in range(4):
                  with T.block("B"):
                      v = T.axis.spatial(8, i * 4 + j)
                      B[v] = A[v] * 2.0
        - for i in range(8):
        -     with T.block("C"):
        -         v = T.axis.spatial(8, i)
        -         C[v] = B[v] + 1.0
        +     for ax0 in range(4):
        +         with T.block("C"):
        +             v = T.axis.spatial(8, i * 4 + ax0)
        +             C[v] = B[v] + 1.0
    """
    mark = sch.mark(loop)
    if mark is not None:  # a sampled place that is not a loop
        if mark == INLINE:
            unrecorded(reverse_compute_inline)(sch, block)
        return
    ref, at = sch.block(block), sch.loop(loop)
    check_movable(ref, at)
    if sch.enable_check:
        check_complete_or_reduction(ref)
        check_may_leave(ref, at)
        check_runs_everywhere(sch.state, ref)
    makers = producers(ref)
    sources = [
        p for p in makers if p.is_under(at) and write_buffers(p.stmt) & read_buffers(ref.stmt)
    ]
    if not sources:
        what = f"no producer of block {ref.stmt.name_hint!r} is below the loop"
        raise ScheduleError(what, instead="a loop around a producer", at=[at.stmt, ref.node])
    users = [user for user in users_of(ref) if user.is_under(at)]
    position = insert_position(at, sources, users, index)
    ana = sch.state.analyzer(at)
    axes = {a.var for a in ref.stmt.iter_vars}
    spans: dict[Var, Span] = {}
    for region in ref.stmt.reads:
        for source in sources:
            box = relaxed_region(sch.state, source, at, region.buffer, write=True)
            if box is None:
                continue
            if not points_or_whole(region, axes):
                continue
            for var, span in solve_axes(ana, region, box, ref.stmt, touching=False).items():
                spans.setdefault(var, span)
    if sch.enable_check:
        inside = check_whole(sch, ref, at, spans)
    else:
        inside = set()
    more = Checks(check_moved, tests_around(sources, at), exact=True, inside=inside)
    move(sch.state, ref, at, spans, position, preserve_unit_loops, more)


def points_or_whole(region: BufferRegion, axes: set[Var]) -> bool:
    """Whether no axis reads several elements of a dimension: then each value of an axis belongs
    to the iteration that computes its element."""
    return all(not vars_in(r.min) & axes or is_one(r.extent) for r in region.region)


def check_whole(sch: ScheduleBase, ref: Ref, at: Ref, spans: dict[Var, Span]) -> set[Var]:
    """Raise ScheduleError unless the iterations together cover the block's domain; the axes that
    they never leave it by."""
    ana = sch.state.analyzer(at)
    inside: set[Var] = set()
    domain = loop_domain([at, *at.loops()])
    for axis in ref.stmt.iter_vars:
        span = spans.get(axis.var)
        if span is None:
            continue
        first, last = ends_of(span, domain, ana)
        end = axis.dom.min + axis.dom.extent
        whole = is_bound(first) and is_bound(last)
        whole = whole and ana.can_prove(first <= axis.dom.min) and ana.can_prove(last + 1 >= end)
        if not whole:
            what = (
                f"the loop would run axis {axis.var.name!r} of block {ref.stmt.name_hint!r} "
                "over only a part of its domain"
            )
            got = f"{first} to {last} of {axis.dom.min} to {end - 1}"
            hint = "a loop around everything that the block's elements come from"
            raise ScheduleError(what, got=got, instead=hint, at=[ref.node, at.stmt])
        if ana.can_prove(first >= axis.dom.min) and ana.can_prove(last < end):
            inside.add(axis.var)
    return inside


def ends_of(span: Span, domain: dict[Var, Any], ana: Analyzer) -> Span:
    """The least and the greatest value of an axis while loops run."""
    first, last = eval_set(span[0], domain, ana).min_value, eval_set(span[1], domain, ana).max_value
    if (is_bound(first) and is_bound(last)) or not ana.can_prove_equal(*span):
        return first, last
    detected = detect_iter_map([span[0]], domain, check_level=IterMapLevel.NoCheck)
    if detected.errors:
        return first, last
    steps = [multiply(part.scale, subtract(part.extent, 1)) for part in detected.indices[0].args]
    base = detected.indices[0].base
    return base, ana.simplify(reduce(add, steps, base))


def is_bound(end: PrimExpr) -> bool:
    """Whether an end of an interval is known: neither infinite nor the limit of a type."""
    return not (is_infinite(end) or (isinstance(end, IntImm) and abs(end.value) >= 1 << 30))


def check_moved(state: ScheduleState, ref: Ref, at: Ref) -> None:
    """Raise ScheduleError where the block would leave out elements that are computed outside of the
    loop, or cut a reduction into pieces."""
    check_once(state, ref, at)
    needed = read_buffers(ref.stmt)
    away = [p for p in producers(ref) if not p.is_under(at) and write_buffers(p.stmt) & needed]
    if away and not (injective(state, ref, ref.loops()) and covers_axes(state, ref)):
        what = f"block {ref.stmt.name_hint!r} would run on only a part of what it reads"
        got = f"{away[0].stmt.name_hint!r} computes some of it outside of the loop"
        hint = "a loop around all of the block's producers"
        raise ScheduleError(what, got=got, instead=hint, at=[ref.node, at.stmt])


def check_once(state: ScheduleState, ref: Ref, at: Ref) -> None:
    """Raise ScheduleError where a reduction was cut into pieces that do not add up."""
    outer = {r.stmt.loop_var for r in (at, *at.loops())}
    _, reduced = driven(ref)
    if not reduced & outer:
        return
    cut = [r for r in (at, *at.loops()) if r.stmt.loop_var in reduced]
    if not all(may_cut(r.stmt) for r in cut) or not injective(state, ref, ref.loops()):
        what = f"the reduction of block {ref.stmt.name_hint!r} would be cut into pieces"
        hint = "a loop that leaves the reduction whole"
        raise ScheduleError(what, instead=hint, at=[ref.node, at.stmt])


def may_cut(loop: For) -> bool:
    """Whether the iterations of a loop may be steps of one reduction: one after the other, or
    threads of one block, whose reduction is lowered as a whole."""
    thread = loop.thread_binding
    across = thread is not None and thread.thread_tag.startswith("threadIdx")
    return across or loop.kind in (ForKind.SERIAL, ForKind.UNROLLED)
