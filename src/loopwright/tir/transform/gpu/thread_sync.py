"""`ThreadSync`: inserts barriers between writes of one thread and reads of another.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
          tx = T.launch_thread("threadIdx.x", 8)
          s = T.allocate([8], "float32", "shared")
          S = T.Buffer((8,), data=s, scope="shared")
          S[tx] = A[tx]
    +     T.tvm_storage_sync("shared")
          B[tx] = S[7 - tx]

Pass::

    ThreadSync("shared")

Statements of a sequence that access the same memory of the scope, at least one writing, are
separated; so are iterations of the enclosing loops. Existing barriers count. A barrier is never
placed under a condition: a whole conditional counts as one access.
"""

from __future__ import annotations

from typing import Any

from ....ir.prim_expr import Call, StringImm, Var
from ...expr import BufferLoad
from ...op import is_call_to
from ...stmt import AttrStmt, BufferStore, Evaluate, For, IfThenElse, SeqStmt, Stmt, seq
from ...stmt_functor import ExprKeeper
from ..base import RewriterPass, StmtRewriter, StmtVisitor


class _Touched(StmtVisitor):
    """The pointers of a scope that a statement reads and writes, and whether it contains a
    barrier."""

    def __init__(self, scope: str) -> None:
        self.scope = scope
        self.reads: set[Any] = set()
        self.writes: set[Any] = set()
        self.barrier = False

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        if node.buffer.scope() == self.scope:
            self.reads.add(node.buffer.data)
        self.visit_default(node)

    def visit_BufferStore(self, node: BufferStore) -> None:
        if node.buffer.scope() == self.scope:
            self.writes.add(node.buffer.data)
        self.visit_default(node)

    def visit_Var(self, node: Var) -> None:
        """A pointer that escapes may be read and written."""
        kind = node.type_annotation
        if kind is not None and kind[1] == self.scope:
            self.reads.add(node)
            self.writes.add(node)

    def visit_Call(self, node: Call) -> None:
        self.barrier = self.barrier or is_call_to(node, "tvm_storage_sync")
        self.visit(node.args)


class _Sync(ExprKeeper, StmtRewriter):
    def __init__(self, scope: str) -> None:
        self.scope = scope
        self.inside = False

    def touched(self, stmt: Stmt) -> _Touched:
        visitor = _Touched(self.scope)
        visitor.visit(stmt)
        return visitor

    def barrier(self) -> Stmt:
        return Evaluate(Call("int32", "tir.tvm_storage_sync", [StringImm(self.scope)]))

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        outer, self.inside = self.inside, self.inside or node.attr_key == "thread_extent"
        new = node.replace(body=self.visit(node.body))
        self.inside = outer
        return new

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        return node

    visit_While = visit_IfThenElse

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        if not self.inside:
            return self.visit_default(node)
        stmts: list[Stmt] = []
        reads: set[Any] = set()
        writes: set[Any] = set()
        for stmt in node.seq:
            stmt = self.visit(stmt)
            now = self.touched(stmt)
            if writes & (now.reads | now.writes) or reads & now.writes:
                stmts.append(self.barrier())
                reads, writes = set(), set()
            if now.barrier:
                reads, writes = set(), set()
            reads |= now.reads
            writes |= now.writes
            stmts.append(stmt)
        return seq(*stmts)

    def visit_For(self, node: For) -> Stmt:
        """The next iteration waits for this one if they share memory."""
        body = self.visit(node.body)
        now = self.touched(body)
        if self.inside and isinstance(body, SeqStmt) and now.writes & now.reads:
            body = seq(body, self.barrier())
        return node.replace(body=body)


class ThreadSync(RewriterPass):
    """Inserts barriers between writes of one thread and reads of another. `storage_scope` is the
    memory that threads share: "shared"."""

    storage_scope: str = "shared"

    def rewriter(self) -> Any:
        return _Sync(self.storage_scope)
