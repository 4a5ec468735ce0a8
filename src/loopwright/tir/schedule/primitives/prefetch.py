"""`prefetch`: lines of a buffer that a later iteration reads are fetched into a cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from ....ir.dtype import DataType
from ....ir.functor import nodes_of
from ....ir.prim_expr import PrimExpr, Var
from ....ir.prim_op import const
from ....ir.variables import uses_any
from ...expr import BufferLoad
from ...function import PrimFunc
from ...index_map import IndexMap
from ...op import address_of, call_intrin
from ...stmt import Evaluate, For, ForKind, IfThenElse, Stmt, seq
from ..machinery import BlockArg, LoopRV, ScheduleBase, ScheduleError, primitive
from ..machinery.arguments import AtLeast
from ..machinery.buffer_lookup import BufferArg, buffer_at
from ..machinery.rewriting import substitute

_TO_READ, _DATA = 0, 1  # the second and the fourth argument of LLVM's prefetch


@primitive("Prefetch", inputs="block loop", attrs="buffer_index index_map lines condition locality")
def prefetch(
    sch: ScheduleBase,
    block: BlockArg,
    loop: LoopRV,
    buffer_index: BufferArg,
    index_map: IndexMap | Callable[..., Any],
    lines: Annotated[int, AtLeast(1)] = 1,
    condition: IndexMap | Callable[..., Any] | None = None,
    locality: Annotated[int, AtLeast(0, 3)] = 3,
) -> None:
    """Begin each iteration of a loop around a block with fetching elements of a buffer that the block
    reads.

    `index_map` maps the variables of the block's loops, up to this one, the number of the line, and the
    symbolic sizes of the function, if it has some, to the indices of an element: `lines` of them are
    fetched, if `condition`, of the same variables, holds. The elements need not exist. locality: from
    0, not to be kept in a cache, to 3, in all of them.

    Raises ScheduleError when the block is not in the loop, and for another number of indices than the
    buffer has dimensions.

    Before (-) and after (+) ``sch.prefetch("B", sch.get_loops("B")[0], 0,
    lambda i, line: (i + 1, line * 16), lines=2)``,
    with ``A: T.Buffer((8, 32)), B: T.Buffer((8, 32))``::

          for i in range(8):
        +     for line in T.unroll(2):
        +         T.prefetch(T.address_of(A[i + 1, line * 16]), 0, 3, 1)
              for j in range(32):
                  with T.block("B"):
                      vi, vj = T.axis.remap("SS", [i, j])
                      B[vi, vj] = A[vi, vj] * 2.0
    """
    block_ref, ref = sch.block(block), sch.loop(loop)
    if not block_ref.is_under(ref):
        what = f"block {block_ref.stmt.name_hint!r} is not in loop {ref.stmt.loop_var.name!r}"
        raise ScheduleError(what, instead="one of sch.get_loops(block)", at=ref.node)
    buffer = buffer_at(block_ref, buffer_index, write=False)
    around = [r.stmt.loop_var for r in (*ref.loops(), ref)]
    line = Var("line", around[-1].dtype)
    sizes, zero = symbolic_sizes(sch.state.func(ref.func)), const(0, line.dtype)
    variables = [*around, line if lines > 1 else zero, *sizes]
    to = _as_map(index_map, variables, line.dtype)
    indices = _applied(to, variables)
    if len(indices) != len(buffer.shape):
        what = f"{buffer.name} has {len(buffer.shape)} dimensions"
        raise ScheduleError(what, got=f"{len(indices)} indices", at=ref.node)
    hints = (const(n, "int32") for n in (_TO_READ, locality, _DATA))
    pointer = address_of(BufferLoad(buffer, indices))
    fetch: Stmt = Evaluate(call_intrin("void", "tir.prefetch", pointer, *hints))
    test = None if condition is None else _as_map(condition, variables, line.dtype)
    holds = None if test is None else _applied(test, variables)
    if holds is not None and len(holds) != 1:
        what = "a condition is one expression"
        raise ScheduleError(what, got=f"{len(holds)} values", at=ref.node)
    for_each = holds is not None and uses_any(holds, (line,))
    if holds is not None and for_each:
        fetch = IfThenElse(holds[0], fetch)
    if lines > 1:
        count = const(lines, line.dtype)
        fetch = For(line, zero, count, ForKind.UNROLLED, fetch)
    if holds is not None and not for_each:
        fetch = IfThenElse(holds[0], fetch)
    sch.record_as(index_map=to, condition=test)
    sch.state.replace(ref, ref.stmt.replace(body=seq(fetch, ref.stmt.body)))


def symbolic_sizes(func: PrimFunc) -> list[Var]:
    """The variables in the shapes of a function's arguments, in order."""
    shapes = (dim for buffer in func.buffer_map.values() for dim in buffer.shape)
    return list(dict.fromkeys(v for dim in shapes for v in nodes_of(dim, Var)))


def _as_map(
    function: IndexMap | Callable[..., Any], variables: list[Any], dtype: DataType
) -> IndexMap:
    if isinstance(function, IndexMap):
        return function.with_dtype(str(dtype))
    return IndexMap.from_func(function, len(variables), index_dtype=str(dtype))


def _applied(index_map: IndexMap, values: list[Any]) -> tuple[PrimExpr, ...]:
    initial = index_map.initial_indices
    if len(initial) != len(values):
        what = f"the function takes {len(initial)} variables"
        hint = f"{len(values)}: of the loops, the line, symbolic sizes"
        raise ScheduleError(what, got=index_map, instead=hint)
    return substitute(index_map.final_indices, dict(zip(initial, values, strict=True)))
