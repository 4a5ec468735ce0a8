"""`split`: one loop into several nested ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ir.literals import is_one, is_zero
from ....ir.prim_expr import IntImm, PrimExpr, Var
from ....ir.prim_op import add, cast, ceildiv, const, less, multiply
from ...stmt import For
from ..machinery import LoopRV, Ref, ScheduleBase, ScheduleError, primitive
from ..machinery.loop_nests import check_plain
from ..machinery.rewriting import Rebind
from ..machinery.state import bind_range


@primitive("Split", inputs="loop *factors", attrs="preserve_unit_iters disable_predication")
def split(
    sch: ScheduleBase,
    loop: LoopRV,
    factors: Sequence[int | PrimExpr | None],
    preserve_unit_iters: bool = True,
    disable_predication: bool = False,
) -> list[LoopRV]:
    """Split a loop into nested loops of the given extents, the outermost first.

    One factor may be None: it is inferred, rounded up. Where the factors do not divide the
    extent, the blocks below run under the predicate that the old loop's value is in range
    (not with `disable_predication`: the caller guarantees that it is).

    Raises ScheduleError when the loop is bound to a thread or has annotations, and when the
    factors do not cover the extent.

    Before (-) and after (+) ``i, = sch.get_loops("B"); sch.split(i, [None, 32])``,
    with ``A: T.Buffer(100), B: T.Buffer(100)``::

        - for i in range(100):
        + for i_0, i_1 in T.grid(4, 32):
              with T.block("B"):
        -         v = T.axis.spatial(100, i)
        +         v = T.axis.spatial(100, i_0 * 32 + i_1)
        +         T.where(i_0 * 32 + i_1 < 100)
                  B[v] = A[v] * 2.0
    """
    ref = sch.loop(loop)
    node: For = ref.stmt
    check_plain(ref)
    extents = infer_extents(sch, ref, [sch.value(f) for f in factors])
    ana = sch.state.analyzer(ref)
    dtype = node.loop_var.dtype
    parts: list[tuple[Var, PrimExpr]] = []
    value: PrimExpr = const(0, dtype)
    for n, extent in enumerate(extents):
        var = Var(f"{node.loop_var.name}_{n}", dtype)
        bind_range(ana, var, const(0, dtype), extent)
        parts.append((var, extent))
        unit = is_one(extent) and not preserve_unit_iters
        value = multiply(value, extent)
        value = value if unit else add(value, var)
    total = extents[0]
    for extent in extents[1:]:
        total = multiply(total, extent)
    predicate = None
    if not disable_predication and not ana.can_prove(total <= node.extent):
        predicate = less(value, node.extent)
    if not is_zero(node.min):
        value = add(value, node.min)
    rebind = Rebind({node.loop_var: ana.expand(value)}, ana, predicate)
    body = rebind.visit(node.body)
    for var, extent in reversed(parts):
        body = For._make(var, const(0, dtype), extent, node.kind, body, None, {}, span=node.span)
    sch.state.update(ref.func, {ref: body}, rebind.renamed)
    return [sch.new_loop(ref.func, var) for var, _ in parts]


def infer_extents(sch: ScheduleBase, ref: Ref, factors: Sequence[Any]) -> list[PrimExpr]:
    """The extents of the new loops; they cover the old one."""
    node = ref.stmt
    dtype = node.loop_var.dtype
    missing = [n for n, f in enumerate(factors) if f is None]
    if len(missing) > 1:
        what = "only one factor can be inferred"
        raise ScheduleError(what, got=factors, instead="one None at most", at=node)
    if not factors:
        raise ScheduleError("a loop is split by one factor or more", got=[], at=node)
    ana = sch.state.analyzer(ref)
    extents: list[Any] = []
    product: PrimExpr = const(1, dtype)
    for f in factors:
        if f is None:
            extents.append(None)
            continue
        extent = const(f, dtype) if isinstance(f, int) else ana.simplify(cast(dtype, f))
        if isinstance(extent, IntImm) and extent.value <= 0:
            raise ScheduleError("a factor is 1 or more", got=f, at=node)
        extents.append(extent)
        product = multiply(product, extent)
    if missing:
        extents[missing[0]] = ana.simplify(ceildiv(node.extent, product))
    elif not ana.can_prove(product >= node.extent):
        what = f"the factors do not cover loop {node.loop_var.name!r}"
        got = f"{' * '.join(map(str, factors))} against an extent of {node.extent}"
        raise ScheduleError(what, got=got, instead="larger factors, or None for one", at=node)
    return extents
