"""`reorder`: nested loops in another order."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ....ir.prim_expr import IterVar
from ....ir.variables import uses_any
from ...analysis import order_errors
from ...stmt import For
from ..machinery import LoopRV, Ref, ScheduleBase, ScheduleError, primitive
from ..machinery.axis_bindings import driven, injective
from ..machinery.parallel_checks import check_independent_iterations, writes_by_axes
from ..machinery.scope import axes_of_kinds, check_bounds_keep


@primitive("Reorder", inputs="*ordered_loops")
def reorder(sch: ScheduleBase, *ordered_loops: LoopRV) -> None:
    """Put loops of one nest in the given order, outermost first; loops between them that are not
    given keep their positions.

    Raises ScheduleError when the loops are not on one path without statements between them, when
    a range would be outside the loop it depends on, and when a block below has axes that are
    neither spatial nor reduction.

    Before (-) and after (+) ``i, j = sch.get_loops("B"); sch.reorder(j, i)``,
    with ``A: T.Buffer((8, 4)), B: T.Buffer((8, 4))``::

        - for i, j in T.grid(8, 4):
        + for j, i in T.grid(4, 8):
              with T.block("B"):
                  v_i, v_j = T.axis.remap("SS", [i, j])
                  B[v_i, v_j] = A[v_i, v_j] * 2.0
    """
    refs = [sch.loop(loop) for loop in ordered_loops]
    if len({id(ref) for ref in refs}) < len(refs):
        what, hint = "a loop is given twice", "each loop once"
        raise ScheduleError(what, instead=hint, at=[r.stmt for r in refs])
    if len(refs) < 2:
        return
    chain = path(refs)
    in_order = iter(refs)
    listed = {id(ref) for ref in refs}
    order = [next(in_order) if id(ref) in listed else ref for ref in chain]
    if all(a is b for a, b in zip(order, chain, strict=True)):
        return
    if sch.enable_check:
        check_reorder(sch, chain, order)
    body = chain[-1].stmt.body
    for ref in reversed(order):
        body = ref.stmt.replace(body=body)
    sch.state.update(chain[0].func, {chain[0]: body})


def path(refs: list[Ref]) -> list[Ref]:
    """The loops from the outermost to the innermost of `refs`, directly inside each other."""
    left = {id(ref) for ref in refs}
    innermost = max(refs, key=lambda ref: sum(1 for _ in ref.ancestors()))
    chain: list[Ref] = []
    at: Ref | None = innermost
    while at is not None and not at.is_block and left:
        left.discard(id(at))
        chain.append(at)
        at = at.parent
    chain.reverse()
    if left:
        what = "the loops are not inside each other"
        raise ScheduleError(what, instead="loops of one nest", at=[ref.stmt for ref in refs])
    for outer, inner in pairwise(chain):
        if outer.stmt.body is not inner.stmt:
            what = f"something else is inside loop {outer.stmt.loop_var.name!r}"
            got = f"{inner.stmt.loop_var.name!r} is not all of its body"
            hint = "reorder before other blocks are put there"
            raise ScheduleError(what, got=got, instead=hint, at=[outer.stmt, inner.stmt])
    return chain


def check_reorder(sch: ScheduleBase, chain: list[Ref], order: list[Ref]) -> None:
    """Raise ScheduleError where the new order could change the result."""
    inside = {ref.stmt.loop_var for ref in order}
    for ref in order:
        node: For = ref.stmt
        if uses_any(node.min, inside) or uses_any(node.extent, inside):
            what = f"the range of loop {node.loop_var.name!r} depends on a loop it would leave"
            raise ScheduleError(what, got=f"extent {node.extent}", at=node)
        inside.discard(node.loop_var)
    blocks = chain[-1].blocks()
    check_bounds_keep(chain[0].scope(), blocks)
    for block in blocks:
        if not axes_of_kinds(block.stmt, (IterVar.DataPar, IterVar.CommReduce)):
            what = f"block {block.stmt.name_hint!r} has axes that run in a fixed order"
            raise ScheduleError(what, instead="spatial and reduction axes only", at=block.node)
        if axes_of_kinds(block.stmt, (IterVar.DataPar,)):
            continue
        check_reduction(sch, block, chain, order)
    check_independent_iterations(sch.state, chain[-1], blocks)
    if not all(writes_by_axes(ref, across_threads=False) for ref in chain):
        before, after = ([ref.stmt.loop_var for ref in nest] for nest in (chain, order))
        errors = order_errors(sch.state.func(chain[0].func), before, after)
        if errors:
            what = "iterations that access the same element would run in the opposite order"
            hint = "loops whose iterations do not depend on each other"
            raise ScheduleError(what, got=errors[0], instead=hint, at=chain[0].stmt)


def check_reduction(sch: ScheduleBase, block: Ref, chain: list[Ref], order: list[Ref]) -> None:
    """Raise ScheduleError where a reduction would not start with its init, or repeat after it."""
    spatial, reduced = driven(block)
    if block.stmt.init is not None:
        for ref in order:
            if ref.stmt.loop_var in spatial & reduced:
                what = (
                    f"loop {ref.stmt.loop_var.name!r} drives spatial and reduction axes of block "
                    f"{block.stmt.name_hint!r}, so its iterations run in order"
                )
                hint = "decompose_reduction before, or do not fuse the two kinds of loops"
                raise ScheduleError(what, instead=hint, at=[ref.stmt, block.node])
    loops = block.loops()
    start = next(n for n, ref in enumerate(loops) if ref is chain[0])
    after = [*loops[:start], *order, *loops[start + len(chain) :]]
    inside, before = _inside(after, reduced), _inside(loops, reduced)
    if {id(r) for r in inside} <= {id(r) for r in before}:
        return
    if not injective(sch.state, block, inside):
        what = (
            f"loops inside the reduction of block {block.stmt.name_hint!r} would give it the same "
            "element twice"
        )
        hint = "keep such loops outside of the reduction's"
        raise ScheduleError(what, instead=hint, at=[*(r.stmt for r in inside[:1]), block.node])


def _inside(loops: list[Ref], reduced: set[Any]) -> list[Ref]:
    """The loops from the outermost one of the reduction on."""
    for n, ref in enumerate(loops):
        if ref.stmt.loop_var in reduced:
            return loops[n:]
    return []
