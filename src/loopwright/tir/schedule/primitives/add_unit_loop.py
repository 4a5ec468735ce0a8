"""`add_unit_loop`: a loop of one iteration."""

from __future__ import annotations

from ....ir.prim_expr import Var
from ...stmt import For, ForKind
from ..machinery import BlockArg, LoopRV, ScheduleBase, ScheduleError, primitive


@primitive("AddUnitLoop", inputs="block_or_loop")
def add_unit_loop(sch: ScheduleBase, block_or_loop: BlockArg | LoopRV) -> LoopRV:
    """Put a loop of one iteration around a block or loop.

    Raises ScheduleError for the root block.

    Before (-) and after (+) ``sch.add_unit_loop("B")``,
    with ``A: T.Buffer((), "float32"), B: T.Buffer((), "float32")``::

        - with T.block("B"):
        -     vi = T.axis.spatial(1, 0)
        -     B[()] = A[()] * 2.0
        + for u in range(1):
        +     with T.block("B"):
        +         vi = T.axis.spatial(1, 0)
        +         B[()] = A[()] * 2.0
    """
    ref = sch.get_sref(block_or_loop)
    if ref.parent is None:
        what = "the root block has no loops around it"
        raise ScheduleError(what, instead="a block or a loop inside of it", at=ref.node)
    var = Var("u", "int32")
    sch.state.update(ref.func, {ref: For(var, 0, 1, ForKind.SERIAL, ref.node)})
    return sch.new_loop(ref.func, var)
