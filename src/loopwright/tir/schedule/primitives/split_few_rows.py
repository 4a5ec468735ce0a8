"""`split_few_rows`: tiles of which only the first rows exist are computed row by row."""

from __future__ import annotations

from typing import Annotated, Any

from ....ir.functor import nodes_of
from ....ir.prim_expr import IterVar, PrimExpr, Var
from ....ir.prim_op import const, less_equal, subtract
from ....ir.variables import vars_in
from ...buffer import Buffer
from ...stmt import Block, BlockRealize, For, ForKind, IfThenElse, Stmt
from ...stmt_functor import LeafKeeper, renew_defs
from ..machinery import LoopRV, Ref, ScheduleBase, ScheduleError, primitive
from ..machinery.arguments import AtLeast, Positive
from ..machinery.rewriting import substitute


@primitive("SplitFewRows", inputs="loop", attrs="axis most")
def split_few_rows(
    sch: ScheduleBase, loop: LoopRV, axis: Annotated[int, AtLeast(0)], most: Positive = 2
) -> None:
    """Give a loop over tiles of rows a branch for tiles of at most `most` rows, with a copy of the tile
    for a single row and local buffers of its own.

    Without that a product of one row of a symbolic number (a batch of 1, one token) takes as long as
    one of a tile's. axis: the position of the rows among the spatial axes of each block inside (of a symbolic number:
    of each whose axis there has its symbols); the rows of the last block say where a tile begins. Raises ScheduleError if a block inside has no
    such axis, or the tile no loop over it.

    Before (-) and after (+) ``sch.split_few_rows(sch.get_loops("B")[0], 0)``,
    with ``a: T.handle, b: T.handle``::

          n = T.int32()
          A = T.match_buffer(a, (n,))
          B = T.match_buffer(b, (n,))
          for i in range((n + 7) // 8):
        -     for r in T.unroll(8):
        -         with T.block("B"):
        -             v = T.axis.spatial(n, i * 8 + r)
        -             T.where(i * 8 + r < n)
        -             B[v] = A[v] * 2.0
        +     if n - i * 8 <= 2:
        +         for row in range(n - i * 8):
        +             with T.block("B"):
        +                 v = T.axis.spatial(n, i * 8 + row)
        +                 T.where(i * 8 + row < n)
        +                 B[v] = A[v] * 2.0
        +     else:
        +         for r in T.unroll(8):
        +             with T.block("B"):
        +                 v = T.axis.spatial(n, i * 8 + r)
        +                 T.where(i * 8 + r < n)
        +                 B[v] = A[v] * 2.0
    """
    ref = sch.loop(loop)
    node: For = ref.stmt
    rows = _row_loops(ref, axis)
    start, extent = _start(node.body, axis, rows)
    left = subtract(extent, start)
    row = Var("row", left.dtype)
    single = _SingleRow(rows, row)
    by_row = renew_defs(single.visit(node.body))
    few = For(row, const(0, row.dtype), left, ForKind.SERIAL, by_row)
    branch = IfThenElse(less_equal(left, const(most, left.dtype)), few, node.body)
    copies = tuple(single.own.values())

    def with_copies(block: Block) -> Block:
        return block.replace(alloc_buffers=(*block.alloc_buffers, *copies))

    changes: dict[Ref, Any] = {ref: node.replace(body=branch)}
    sch.state.update(ref.func, changes, None, {ref.scope(): with_copies} if copies else {})


class _SingleRow(LeafKeeper):
    """Replaces loops over rows by one row, and local buffers by others."""

    def __init__(self, rows: set[Var], row: Var) -> None:
        self.rows, self.row = rows, row
        self.own: dict[Buffer, Buffer] = {}

    def visit_For(self, node: For) -> Any:
        return self.visit(node.body) if node.loop_var in self.rows else self.visit_default(node)

    def visit_Var(self, node: Var) -> Var:
        return self.row if node in self.rows else node

    def visit_Buffer(self, node: Buffer) -> Buffer:
        if node.scope() != "local":
            return node
        if node not in self.own:
            self.own[node] = node.replace(data=node.data.copy_with_suffix("_row"))
        return self.own[node]


def _row_of(realize: BlockRealize, axis: int) -> tuple[IterVar, PrimExpr]:
    """An axis of a block among the spatial ones, and its value."""
    both = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    spatial = [(v, e) for v, e in both if v.iter_type == IterVar.DataPar]
    if axis >= len(spatial):
        what = f"block {realize.block.name_hint!r} has no spatial axis {axis}"
        raise ScheduleError(what, got=f"{len(spatial)} axes", at=realize)
    return spatial[axis]


def _row_loops(ref: Ref, axis: int) -> set[Var]:
    """The loops over the rows of a tile."""
    body = ref.stmt.body
    inside = {loop.loop_var for loop in nodes_of(body, For)}
    axes = [_row_of(realize, axis) for realize in nodes_of(body, BlockRealize)]
    # What all rows of a tile share, such as unpacked weights, has another axis there, of other symbols.
    symbols = vars_in(axes[-1][0].dom)
    own = [value for v, value in axes if not symbols or symbols & vars_in(v.dom)]
    rows = {v for value in own for v in vars_in(value) if v in inside}
    if not rows:
        what = f"no loop inside of {ref.stmt.loop_var.name!r} is over the rows of a tile"
        raise ScheduleError(what, instead="the loop over tiles", at=ref.node)
    return rows


def _start(body: Stmt, axis: int, rows: set[Var]) -> tuple[PrimExpr, PrimExpr]:
    """The first row of a tile and the number of all rows, as the block that stores them says."""
    last = nodes_of(body, BlockRealize)[-1]
    row, value = _row_of(last, axis)
    return substitute(value, {v: const(0, v.dtype) for v in rows}), row.dom.extent
