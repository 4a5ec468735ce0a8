"""`decompose_reduction`: the init of a reduction as a block of its own."""

from __future__ import annotations

from ....ir.literals import conjunction, conjuncts
from ....ir.prim_expr import IterVar, Var
from ....ir.variables import uses_any, vars_in
from ...buffer import BufferRegion
from ...stmt import Block, BlockRealize, For, ForKind, Stmt, seq
from ..machinery import BlockArg, BlockRV, LoopRV, Ref, ScheduleBase, ScheduleError, primitive
from ..machinery.axis_bindings import driven, injective
from ..machinery.loop_nests import check_ranges
from ..machinery.regions import axis_values
from ..machinery.rewriting import substitute
from ..machinery.scope import why_not_reduction


@primitive("DecomposeReduction", inputs="block loop")
def decompose_reduction(sch: ScheduleBase, block: BlockArg, loop: LoopRV) -> BlockRV:
    """Put the init of a reduction into a block of its own, which runs before `loop`.

    Returns the new block; `block` is the update from then on.

    Raises ScheduleError when the block is not a reduction, the loop is not around it, or a loop
    outside of `loop` drives a reduction axis.

    Before (-) and after (+) ``i, j, k = sch.get_loops("C"); sch.decompose_reduction("C", k)``,
    with ``A: T.Buffer((8, 8)), B: T.Buffer((8, 8)), C: T.Buffer((8, 8))``::

          for i in range(8):
              for j in range(8):
        +         with T.block("C_init"):
        +             vi, vj = T.axis.remap("SS", [i, j])
        +             T.reads()
        +             C[vi, vj] = 0.0
                  for k in range(8):
        -             with T.block("C"):
        +             with T.block("C_update"):
                          vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        -                 with T.init():
        -                     C[vi, vj] = 0.0
        +                 T.reads(C[vi, vj], A[vi, vk], B[vk, vj])
                          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    """
    ref, at = sch.block(block), sch.loop(loop)
    check(sch, ref, at)
    node: Block = ref.stmt
    spatial = [a for a in node.iter_vars if a.iter_type == IterVar.DataPar]
    bound = axis_values(ref)
    used: set[Var] = set()
    for axis in spatial:
        used |= vars_in(bound[axis.var])
    inner: list[For] = []
    for above in ref.loops():
        if above.is_under(at) and above.stmt.loop_var in used:
            inner.append(above.stmt)
    own = {f.loop_var for f in inner}
    below = {r.stmt.loop_var for r in ref.loops() if r.is_under(at)} - own
    check_ranges(inner, below)
    predicate = conjunction(
        p for p in conjuncts(ref.realize.predicate) if vars_in(p).isdisjoint(below)
    )
    name, notes = f"{node.name_hint}_init", dict(node.annotations)
    init = Block._make(
        tuple(spatial), (), node.writes, name, node.init, None, (), (), notes, span=node.span
    )
    values = tuple(bound[a.var] for a in spatial)
    nest: Stmt = BlockRealize._make(values, predicate, init, span=ref.realize.span)
    for f in reversed(inner):
        kind = f.kind if f.kind != ForKind.PARALLEL else ForKind.SERIAL
        nest = f.replace(body=nest, kind=kind)
    renamed: dict[Block, Block] = {}
    defined = (*own, *(a.var for a in spatial))
    nest = substitute(nest, {v: v.copy_with_suffix("_init") for v in defined}, renamed)
    init = renamed.pop(init, init)
    update = node.replace(
        init=None, name_hint=f"{node.name_hint}_update", reads=(*_own_reads(node), *node.reads)
    )
    sch.state.update(ref.func, {ref: ref.realize.replace(block=update)}, {node: update, **renamed})
    again = sch.state.index(ref.func).loops[at.stmt.loop_var]
    sch.state.update(ref.func, {again: seq(nest, again.stmt)})
    return sch.new_block(ref.func, init)


def _own_reads(node: Block) -> list[BufferRegion]:
    read = {r.buffer for r in node.reads}
    return [r for r in node.writes if r.buffer not in read]


def check(sch: ScheduleBase, ref: Ref, at: Ref) -> None:
    """Raise ScheduleError where the init cannot run before the loop."""
    node = ref.stmt
    why = why_not_reduction(ref)
    if why is not None:
        what = f"block {node.name_hint!r} is not a reduction: {why}"
        raise ScheduleError(what, instead="a block with an init", at=ref.node)
    loops = ref.loops()
    if not any(at is above for above in loops):
        what = f"the loop is not around block {node.name_hint!r}"
        raise ScheduleError(what, instead="one of its loops", at=[at.stmt, ref.node])
    outer = loops[: next(n for n, r in enumerate(loops) if r is at)]
    for axis, value in zip(node.iter_vars, ref.realize.iter_values, strict=True):
        if axis.iter_type != IterVar.CommReduce:
            continue
        touched = vars_in(value)
        for above in outer:
            if above.stmt.loop_var in touched:
                what = f"loop {above.stmt.loop_var.name!r}, further out, drives the reduction"
                hint = "the outermost loop of the reduction, or one outside of it"
                raise ScheduleError(what, instead=hint, at=[above.stmt, at.stmt])
    if sch.enable_check and not injective(sch.state, ref, [r for r in loops if r.is_under(at)]):
        what = f"the loops inside give block {node.name_hint!r} the same element several times"
        hint = "a loop inside of those that repeat the reduction"
        raise ScheduleError(what, instead=hint, at=[at.stmt, ref.node])
    used, reduced = driven(ref)
    inner = {r.stmt.loop_var for r in loops if r.is_under(at)}
    for part in conjuncts(ref.realize.predicate):
        used_inside = vars_in(part) & inner
        if used_inside & (reduced - used) and used_inside & used:
            what = "the predicate ties spatial and reduction loops together"
            raise ScheduleError(what, got=part, at=ref.node)
    if sch.enable_check:
        check_goes_on(sch, ref, [r for r in loops if r.is_under(at)], used)


def check_goes_on(sch: ScheduleBase, ref: Ref, inner: list[Ref], used: set[Var]) -> None:
    """Raise ScheduleError where the block might not run after its init: there the predicate is not
    that of the init, which has no loops that drive no spatial axis."""
    ana = sch.state.analyzer(ref)
    starts = {r.stmt.loop_var: r.stmt.min for r in inner if r.stmt.loop_var not in used}
    around = {r.stmt.loop_var for r in ref.loops()} - set(starts)
    for part in conjuncts(ref.realize.predicate):
        first = substitute(part, starts)
        if first is not part and uses_any(first, around) and not ana.can_prove(first):
            what = f"the init of block {ref.stmt.name_hint!r} would run where the block does not"
            hint = "a loop outside of those in the predicate"
            raise ScheduleError(what, got=f"predicate {part}", instead=hint, at=ref.node)
