"""`InjectVirtualThread`: runs each statement for all virtual threads before the next one.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((2, 8), "float32"), B: T.Buffer((2, 8), "float32")):
    -     for v in T.thread_binding(2, thread="vthread.x"):
    -         for i in range(8):
    -             C = T.decl_buffer((1,), scope="local")
    -             C[0] = A[v, i]
    -             B[v, i] = C[0] + T.float32(1)
    +     for i in range(8):
    +         C = T.decl_buffer((2,), scope="local")
    +         C[0] = A[0, i]
    +         C[1] = A[1, i]
    +         B[0, i] = C[0] + T.float32(1)
    +         B[1, i] = C[1] + T.float32(1)

Memory that is allocated inside is enlarged if values stored there depend on the thread, so that
each has a part of its own; that of a "cthread" always is, and each statement runs for each of them.
A statement with loops, and one for 16 threads or more, runs in a loop over the threads. Where a
pointer to such memory is passed on (but by `T.tvm_access_ptr`), or it is not flat, all statements
run in one loop over the threads, and a barrier among them is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ....arith import Analyzer
from ....base.errors import explain
from ....ir.functor import any_node, nodes_of
from ....ir.literals import int_value
from ....ir.prim_expr import Broadcast, Call, IterVar, PrimExpr, ScalarLike, Var
from ....ir.prim_op import add, cast, const, floordiv, multiply
from ....ir.variables import vars_in
from ...buffer import Buffer
from ...expr import BufferLoad
from ...op import is_call_to
from ...stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
    seq,
)
from ...stmt_functor import ExprKeeper, renew_defs
from ..base import RewriterPass, StmtRewriter, StmtVisitor, Substitute

if TYPE_CHECKING:
    from ....base.span import Span

_TAGS = ("vthread", "cthread")
_WRITES = 2  # the bit of an access mask
_WRITTEN_OUT = 16  # threads; more run in a loop


class _Opaque(Exception):
    """The statements cannot be separated."""


def _memory(node: PrimExpr) -> set[Var]:
    """The variables and the memory that an expression uses."""
    return {*vars_in(node), *(n.buffer.data for n in nodes_of(node, BufferLoad))}


class _Uses(StmtVisitor):
    """{variable or memory: what its value depends on}"""

    def __init__(self) -> None:
        self.uses: dict[Var, set[Var]] = {}

    def record(self, var: Var, *parts: PrimExpr) -> None:
        memory = self.uses.setdefault(var, set())
        for part in parts:
            memory |= _memory(part)

    def visit_LetStmt(self, node: LetStmt) -> None:
        self.record(node.var, node.value)
        self.visit_default(node)

    def visit_For(self, node: For) -> None:
        self.record(node.loop_var, node.min, node.extent)
        self.visit(node.body)

    def visit_Allocate(self, node: Allocate) -> None:
        self.record(node.buffer_var, *node.extents)
        self.visit(node.body)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.record(node.buffer.data, node.value, *node.indices)

    def visit_Evaluate(self, node: Evaluate) -> None:
        """The memory that a call writes depends on all its arguments."""
        for n in nodes_of(node.value, Call):
            if is_call_to(n, "tvm_access_ptr") and (int_value(n.args[4]) or 0) & _WRITES:
                self.record(n.args[1], node.value)

    def touched(self, var: Var) -> set[Var]:
        """All that depends on a variable."""
        variables, size = {var}, 0
        while size != len(variables):
            size = len(variables)
            variables |= {v for v, used in self.uses.items() if used & variables}
        return variables


class _Threads(StmtRewriter):
    """Statements of one thread as statements of all."""

    def __init__(self, axis: IterVar, count: int, body: Stmt, ana: Analyzer) -> None:
        self.var, self.count, self.ana = axis.var, count, ana
        self.share = not axis.thread_tag.startswith("cthread")
        uses = _Uses()
        uses.visit(body)
        self.touched = uses.touched(axis.var)
        self.sizes: dict[Var, PrimExpr] = {}  # enlarged memory -> the size of a thread's part
        self.buffers: dict[Buffer, Buffer] = {}
        self.inside = False

    # ------------------------------------------------------------------ statements

    def depends(self, *parts: PrimExpr) -> bool:
        """Whether expressions differ between threads."""
        own = self.touched | self.sizes.keys()
        return any(
            bool(_memory(p) & own)
            or (not self.share and any_node(p, lambda n: is_call_to(n, "tvm_context_id")))
            for p in parts
        )

    def leaf(self, node: Stmt, differs: bool, rewrite: Callable[[Any], Stmt]) -> Stmt:
        """A statement, for each thread if it differs between them and none around it does."""
        if self.inside or not differs:
            return rewrite(node)
        self.inside = True
        stmt = rewrite(node)
        self.inside = False
        if self.count >= _WRITTEN_OUT or any_node(stmt, lambda n: isinstance(n, (For, While))):
            return _loop(self.var, self.count, stmt)
        at = [const(n, self.var.dtype) for n in range(self.count)]
        return seq(*(Substitute({self.var: i}).visit(renew_defs(stmt)) for i in at))

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        own = self.touched | self.sizes.keys()
        differs = not self.share or node.buffer.data in own
        return self.leaf(node, differs or self.depends(node.value, *node.indices), self.access)

    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        barrier = is_call_to(node.value, "tvm_storage_sync")
        differs = not barrier and (not self.share or self.depends(node.value))
        return self.leaf(node, differs, self.visit_default)

    def visit_For(self, node: For) -> Stmt:
        return self.leaf(node, self.depends(node.min, node.extent), self.visit_default)

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        return self.leaf(node, self.depends(node.condition), self.visit_default)

    visit_While = visit_AssertStmt = visit_IfThenElse

    def visit_LetStmt(self, node: LetStmt | AttrStmt) -> Stmt:
        value = node.value
        differs = isinstance(value, PrimExpr) and self.depends(value)
        return self.leaf(node, differs, self.visit_default)

    visit_AttrStmt = visit_LetStmt

    def visit_Allocate(self, node: Allocate) -> Stmt:
        if not self.inside and self.depends(node.condition, *node.extents):
            return self.leaf(node, True, self.visit_default)
        if self.share and node.buffer_var not in self.touched:
            return self.visit_default(node)
        if len(node.extents) != 1:
            raise _Opaque
        (size,) = node.extents
        self.sizes[node.buffer_var] = size
        body = self.visit(node.body)
        del self.sizes[node.buffer_var]
        return node.replace(extents=(self.enlarged(size),), body=body)

    def visit_DeclBuffer(self, node: DeclBuffer) -> Stmt:
        return node.replace(buffer=self.buffer(node.buffer), body=self.visit(node.body))

    # ------------------------------------------------------------------ memory

    def enlarged(self, size: PrimExpr) -> PrimExpr:
        return self.ana.simplify(multiply(size, const(self.count, size.dtype)))

    def buffer(self, buffer: Buffer) -> Buffer:
        if buffer.data not in self.sizes:
            return buffer
        if len(buffer.shape) != 1:
            raise _Opaque
        if buffer not in self.buffers:
            self.buffers[buffer] = buffer.replace(shape=(self.enlarged(buffer.shape[0]),))
        return self.buffers[buffer]

    def moved(self, index: PrimExpr, size: PrimExpr) -> PrimExpr:
        """An index in the part of the current thread."""
        kind = index.dtype.element
        start = multiply(cast(kind, self.var), cast(kind, size))
        if index.dtype.lanes != 1:
            start = Broadcast(start, index.dtype.lanes)
        return self.ana.simplify(add(index, start))

    def access(self, node: BufferStore | BufferLoad) -> Any:
        access = self.visit_default(node)
        size = self.sizes.get(node.buffer.data)
        if size is None:
            return access
        buffer = self.buffer(node.buffer)
        return access.replace(buffer=buffer, indices=(self.moved(access.indices[0], size),))

    visit_BufferLoad = access

    def visit_Var(self, node: Var) -> Var:
        if node in self.sizes:
            raise _Opaque
        return node

    def visit_Call(self, node: Call) -> Any:
        if is_call_to(node, "tvm_context_id") and not self.share:
            return cast(node.dtype, self.var)
        size = self.sizes.get(node.args[1]) if is_call_to(node, "tvm_access_ptr") else None
        if size is None:
            return self.visit_default(node)
        kind, pointer, offset, extent, mask = node.args
        parts = self.visit((offset, extent))
        lanes = const(kind.dtype.lanes, size.dtype)
        start = self.moved(parts[0], floordiv(size, lanes) if kind.dtype.lanes > 1 else size)
        return node.replace(args=(kind, pointer, start, parts[1], mask))


def _loop(var: Var, count: ScalarLike, body: Stmt, span: Span | None = None) -> Stmt:
    index, low = var.copy_with_suffix("_s"), const(0, var.dtype)
    body = Substitute({var: index}).visit(body)
    return For(index, low, cast(var.dtype, count), ForKind.SERIAL, body, span=span)


class _Inject(ExprKeeper, StmtRewriter):
    def __init__(self) -> None:
        self.ana = Analyzer()

    def visit_For(self, node: For) -> Stmt:
        body = self.visit(node.body)
        bound = node.thread_binding
        if bound is None or not bound.thread_tag.startswith(_TAGS):
            return node.replace(body=body)
        axis = bound.replace(var=node.loop_var)
        if int_value(node.min) != 0:
            new = Var(node.loop_var.name, node.loop_var.dtype)
            body = Substitute({node.loop_var: add(node.min, new)}).visit(body)
            axis = bound.replace(var=new)
        return self.threads(axis, node.extent, body, node.span)

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        body = self.visit(node.body)
        if node.attr_key != "virtual_thread" or not isinstance(node.node, IterVar):
            return node.replace(body=body)
        return self.threads(node.node, node.value, body, node.span)

    def threads(self, axis: IterVar, extent: PrimExpr, body: Stmt, span: Span | None) -> Stmt:
        count = int_value(extent)
        try:
            if count is None:
                raise _Opaque
            return _Threads(axis, count, body, self.ana).visit(body)
        except _Opaque:
            _check_no_barrier(body)
            return _loop(axis.var, extent, body, span)


def _check_no_barrier(body: Stmt) -> None:
    for call in nodes_of(body, Call):
        if is_call_to(call, "tvm_storage_sync"):
            what = "a barrier inside of virtual threads"
            hint = "split the loop at the barrier, or bind it to threadIdx"
            raise ValueError(explain(what, instead=hint, span=call.span))


class InjectVirtualThread(RewriterPass):
    """Runs each statement for all virtual threads before the next one."""

    rewriter = _Inject
