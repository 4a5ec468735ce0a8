"""`InjectDoubleBuffer`: fetches the next iteration's data while the current one's is used.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((32,), "float32"), C: T.Buffer((32,), "float32")):
    +     b = T.allocate([8], "float32", "local")
    +     B = T.Buffer((8,), data=b, scope="local")
    +     for j in range(4):
    +         B[j] = A[j]
          for i in range(8):
    -         b = T.allocate([4], "float32", "local")
    -         B = T.Buffer((4,), data=b, scope="local")
    -         with T.attr(b, "double_buffer_scope", 1):
    +         if i + 1 < 8:
                  for j in range(4):
    -                 B[j] = A[i * 4 + j]
    +                 B[(i + 1) % 2 * 4 + j] = A[(i + 1) * 4 + j]
              for j in range(4):
    -             C[i * 4 + j] = B[j] + T.float32(1)
    +             C[i * 4 + j] = B[i % 2 * 4 + j] + T.float32(1)

The loop's body is one flat allocation around the fetch, marked `double_buffer_scope`, and its
uses. A fetch that depends on writes of the rest of the body is an error. The option
`tir.InjectDoubleBuffer` ({"split_loop": 2}) unrolls this number of iterations, so that the half
that each uses is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....base.errors import explain
from ....ir.functor import nodes_of
from ....ir.literals import int_value
from ....ir.prim_expr import IntImm, PrimExpr, Var
from ....ir.prim_op import add, const, floordiv, floormod, less, multiply, subtract
from ...buffer import Buffer
from ...expr import BufferLoad
from ...function import PrimFunc
from ...stmt import Allocate, AttrStmt, BufferStore, DeclBuffer, For, IfThenElse, SeqStmt, Stmt, seq
from ...stmt_functor import ExprKeeper, renew_defs
from ..base import PrimFuncPass, StmtRewriter, Substitute

if TYPE_CHECKING:
    from ....ir.module import IRModule
    from ....ir.pass_context import PassContext


def _memory(stmts: Stmt | list[Stmt], kind: type[BufferLoad | BufferStore]) -> set[Var]:
    """The memory that statements read (a BufferLoad) or write (a BufferStore)."""
    return {access.buffer.data for access in nodes_of(stmts, kind)}


class _Shift(StmtRewriter):
    """Redirects accesses of a buffer to one of its two halves."""

    def __init__(self, pointer: PrimExpr, doubled: dict[Buffer, Buffer], offset: PrimExpr) -> None:
        self.pointer, self.doubled, self.offset = pointer, doubled, offset

    def visit_BufferLoad(self, node: BufferLoad | BufferStore) -> Any:
        node = self.visit_default(node)
        if node.buffer.data is not self.pointer:
            return node
        buffer = self.doubled.get(node.buffer)
        if buffer is None:
            size = multiply(node.buffer.shape[0], 2)
            buffer = self.doubled[node.buffer] = node.buffer.replace(shape=(size,))
        return node.replace(buffer=buffer, indices=(add(self.offset, node.indices[0]),))

    visit_BufferStore = visit_BufferLoad


class _Double(ExprKeeper, StmtRewriter):
    def __init__(self, together: int) -> None:
        self.together = together  # iterations written in a row

    def visit_For(self, node: For) -> Stmt:
        loop = node.replace(body=self.visit(node.body))
        marked = _marked(loop)
        return loop if marked is None else self.double(loop, *marked)

    def double(self, loop: For, alloc: Allocate, fetch: Stmt, use: list[Stmt]) -> Stmt:
        pointer = alloc.buffer_var
        written = _memory(use, BufferStore)
        clash = _memory(fetch, BufferLoad) & written
        clash = clash or (_memory(fetch, BufferStore) & written) - {pointer}
        if clash:
            names = ", ".join(sorted(v.name for v in clash))
            what = f"the fetch into {pointer.name} depends on writes of the loop"
            hint = "leave out double_buffer_scope"
            raise ValueError(explain(what, got=names, instead=hint, span=loop.span))
        if len(alloc.extents) != 1:
            what = f"{pointer.name} is not flat"
            raise ValueError(explain(what, instead="run FlattenBuffer before", span=loop.span))
        (size,) = alloc.extents
        var = loop.loop_var
        buffers: dict[Buffer, Buffer] = {}
        zero = const(0, var.dtype)

        def at(stmt: Stmt, iteration: PrimExpr) -> Any:
            half = floormod(subtract(iteration, loop.min), 2)
            stmt = Substitute({var: iteration}).visit(stmt)
            return _Shift(pointer, buffers, multiply(half, size)).visit(stmt)

        following = add(var, 1)
        ahead = IfThenElse(
            less(following, add(loop.min, loop.extent)), at(renew_defs(fetch), following)
        )
        first: Stmt = at(fetch, loop.min)
        if not (isinstance(loop.extent, IntImm) and loop.extent.value > 0):
            first = IfThenElse(less(zero, loop.extent), first)
        again = loop.replace(body=seq(ahead, [at(s, var) for s in use]))
        body: Stmt = seq(first, _in_a_row(again, self.together))
        return alloc.replace(extents=(multiply(size, 2),), body=body)


def _in_a_row(loop: For, count: int) -> Stmt:
    """A loop over groups of `count` iterations, then one over the remaining iterations."""
    if count < 2:
        return loop
    group = loop.loop_var.copy_with_suffix("_outer")
    first = add(loop.min, multiply(group, count))
    copies = [
        Substitute({loop.loop_var: add(first, k)}).visit(renew_defs(loop.body))
        for k in range(count)
    ]
    whole = floordiv(loop.extent, count)
    groups = loop.replace(loop_var=group, min=const(0, group.dtype), extent=whole, body=seq(copies))
    left = floormod(loop.extent, count)
    rest = loop.replace(min=add(loop.min, multiply(whole, count)), extent=left)
    return groups if int_value(left) == 0 else seq(groups, renew_defs(rest))


def _marked(loop: For) -> tuple[Allocate, Stmt, list[Stmt]] | None:
    """(allocation, fetch, the rest) of a loop with a marked body."""
    alloc: Any = loop.body
    if not isinstance(alloc, Allocate):
        return None
    body: Any = alloc.body
    while isinstance(body, DeclBuffer) and body.buffer.data is alloc.buffer_var:
        body = body.body
    if not isinstance(body, SeqStmt):
        return None
    head = body.seq[0]
    if not isinstance(head, AttrStmt) or head.attr_key != "double_buffer_scope":
        return None
    marked = head.node.data if isinstance(head.node, Buffer) else head.node
    if marked is not alloc.buffer_var:
        return None
    return alloc, head.body, list(body.seq[1:])


class InjectDoubleBuffer(PrimFuncPass):
    """Fetches the next iteration's data while the current one's is used."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        options = ctx.option("tir.InjectDoubleBuffer") or {}
        return func.replace(body=_Double(int(options.get("split_loop", 1))).visit(func.body))
