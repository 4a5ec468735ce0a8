"""`fuse`: nested loops into one."""

from __future__ import annotations

from typing import Any

from ....ir.literals import is_one
from ....ir.prim_expr import PrimExpr, Var
from ....ir.prim_op import add, cast, const, indexdiv, indexmod, multiply
from ...stmt import For
from ..machinery import LoopRV, ScheduleBase, ScheduleError, primitive
from ..machinery.loop_nests import LONGEST, check_nest
from ..machinery.rewriting import Rebind
from ..machinery.state import bind_range


@primitive("Fuse", inputs="*loops", attrs="preserve_unit_iters")
def fuse(sch: ScheduleBase, *loops: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
    """Fuse loops that are directly inside each other, given outermost first.

    Raises ScheduleError when something is between the loops, when an inner extent depends on
    an outer loop, or a loop is bound to a thread or annotated.

    Before (-) and after (+) ``i, j = sch.get_loops("B"); sch.fuse(i, j)``,
    with ``A: T.Buffer((8, 4)), B: T.Buffer((8, 4))``::

        - for i, j in T.grid(8, 4):
        + for i_j_fused in range(32):
              with T.block("B"):
        -         v_i, v_j = T.axis.remap("SS", [i, j])
        +         v_i = T.axis.spatial(8, i_j_fused // 4)
        +         v_j = T.axis.spatial(4, i_j_fused % 4)
                  B[v_i, v_j] = A[v_i, v_j] * 2.0
    """
    refs = [sch.loop(loop) for loop in loops]
    if not refs:
        raise ScheduleError("fuse takes one loop or more", got=0)
    check_nest(refs)
    ana = sch.state.analyzer(refs[-1])
    kinds = {ref.stmt.kind for ref in refs}
    if len(kinds) > 1:
        what, got = "fused loops run in the same way", ", ".join(k.name for k in kinds)
        raise ScheduleError(what, got=got, instead="fuse first", at=[r.stmt for r in refs])
    dtypes = [ref.stmt.loop_var.dtype for ref in refs]
    dtype = max(dtypes, key=lambda t: t.bits)
    name = "_".join(r.stmt.loop_var.name for r in refs) + "_fused"
    var = Var(
        name if len(name) <= LONGEST else "fused", dtype
    )  # repeated fusing would double the length
    values: dict[Var, Any] = {}
    inner: PrimExpr = const(1, dtype)
    for n in range(len(refs) - 1, -1, -1):
        node: For = refs[n].stmt
        value = var if n == 0 else indexmod(var, multiply(inner, node.extent))
        value = indexdiv(value, inner)
        if is_one(node.extent) and len(refs) > 1:
            value = value if preserve_unit_iters and n == 0 else const(0, dtype)
        values[node.loop_var] = add(cast(node.loop_var.dtype, value), node.min)
        inner = multiply(inner, node.extent)
    total = ana.expand(inner)
    bind_range(ana, var, const(0, dtype), total)
    values = {v: ana.simplify(value) for v, value in values.items()}
    rebind = Rebind(values, ana)
    body = rebind.visit(refs[-1].stmt.body)
    outer: For = refs[0].stmt
    fused = For._make(var, const(0, dtype), total, outer.kind, body, None, {}, span=outer.span)
    sch.state.update(refs[0].func, {refs[0]: fused}, rebind.renamed)
    return sch.new_loop(refs[0].func, var)
