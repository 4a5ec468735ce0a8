"""`loop_partition`: one loop into several, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ir.prim_expr import IntImm, PrimExpr, Var
from ....ir.prim_op import add, cast, const, subtract
from ...stmt import Block, For, seq
from ...stmt_functor import ExprKeeper, renew_defs
from ..machinery import LoopRV, Ref, ScheduleBase, ScheduleError, primitive
from ..machinery.loop_nests import check_plain
from ..machinery.parallel_checks import check_together
from ..machinery.rewriting import BlockRewriter, Rebind
from ..machinery.state import bind_range


@primitive("LoopPartition", inputs="loop *factors", attrs="preserve_unit_iters")
def loop_partition(
    sch: ScheduleBase,
    loop: LoopRV,
    factors: Sequence[int | PrimExpr | None],
    preserve_unit_iters: bool = True,
) -> list[LoopRV]:
    """Cut the range of a loop into consecutive parts of the given lengths.

    One length may be None: it takes the rest. The blocks of the parts are copies, named after
    the loop and the part. preserve_unit_iters is TVM's and changes nothing: values of axes are
    simplified, and loops of one iteration are preserved.

    Raises ScheduleError if the lengths do not add up to the loop's extent, a length is below 1, or
    iterations had buffers of their own that parts would share.

    Before (-) and after (+) ``sch.loop_partition(sch.get_loops("B")[0], [8, None])``,
    with ``A: T.Buffer(10), B: T.Buffer(10)``::

        - for i in range(10):
        -     with T.block("B"):
        -         v = T.axis.spatial(10, i)
        + for i0 in range(8):
        +     with T.block("B_i0"):
        +         v = T.axis.spatial(10, i0)
                  B[v] = A[v] * 2.0
        + for i1 in range(2):
        +     with T.block("B_i1"):
        +         v = T.axis.spatial(10, i1 + 8)
        +         B[v] = A[v] * 2.0
    """
    ref = sch.loop(loop)
    node: For = ref.stmt
    check_plain(ref)
    ana = sch.state.analyzer(ref)
    lengths = _lengths(sch, ref, [sch.value(f) for f in factors])
    start: PrimExpr = node.min
    parts, loop_vars = [], []
    for n, length in enumerate(lengths):
        name = f"{node.loop_var.name}{n}"
        var = Var(name, node.loop_var.dtype)
        bind_range(ana, var, const(0, var.dtype), length)
        body = node.body if n == 0 else renew_defs(node.body)
        body = _Renamed(name).visit(body)
        body = Rebind({node.loop_var: add(var, start)}, ana).visit(body)
        parts.append(For._make(var, const(0, var.dtype), length, node.kind, body, None, {}))
        loop_vars.append(var)
        start = ana.simplify(add(start, length))
    sch.state.update(ref.func, {ref: seq(*parts)})
    if sch.enable_check:
        _check_still_parallel(sch, [sch.state.index(ref.func).loops[var] for var in loop_vars])
    return [sch.new_loop(ref.func, var) for var in loop_vars]


def _check_still_parallel(sch: ScheduleBase, loops: list[Ref]) -> None:
    """Raise ScheduleError where iterations had buffers of their own, which the parts now share."""
    for ref in loops:
        if not ref.is_block:
            check_together(sch.state, ref)
        _check_still_parallel(sch, ref.children)


def _lengths(sch: ScheduleBase, ref: Ref, factors: Sequence[Any]) -> list[PrimExpr]:
    """The iterations of each part, of the loop's dtype; they add up to the loop's extent."""
    node = ref.stmt
    dtype = node.loop_var.dtype
    ana = sch.state.analyzer(ref)
    if sum(f is None for f in factors) > 1 or not factors:
        what = "a loop is cut into given lengths, one of which may be None"
        raise ScheduleError(what, got=factors, at=node)
    total: PrimExpr = const(0, dtype)
    lengths: list[Any] = []
    for f in factors:
        length = None if f is None else const(f, dtype) if isinstance(f, int) else cast(dtype, f)
        if isinstance(length, IntImm) and length.value <= 0:
            raise ScheduleError("a part has one iteration or more", got=f, at=node)
        lengths.append(length)
        total = total if length is None else add(total, length)
    left = ana.simplify(subtract(node.extent, total))
    if None in lengths:
        lengths[lengths.index(None)] = left
        complete = ana.can_prove(left >= 1)
    else:
        complete = ana.can_prove_equal(left, 0)
    if not complete:
        what = f"the parts do not add up to loop {node.loop_var.name!r}"
        got = f"{' + '.join(map(str, factors))} against {node.extent}"
        raise ScheduleError(what, got=got, instead="lengths of that sum, or None for one", at=node)
    return lengths


class _Renamed(ExprKeeper, BlockRewriter):
    """Blocks named after a part."""

    def __init__(self, suffix: str) -> None:
        super().__init__()
        self.suffix = suffix

    def visit_Block(self, node: Block) -> Any:
        block = self.visit_default(node)
        return block.replace(name_hint=f"{node.name_hint}_{self.suffix}")
