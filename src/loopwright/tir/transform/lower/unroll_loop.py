"""`UnrollLoop`: unrolls loops of constant extent.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((8,), "float32")):
          for i in range(4):
    -         for j in T.unroll(2):
    -             A[i * 2 + j] = T.float32(0)
    +         A[i * 2] = T.float32(0)
    +         A[i * 2 + 1] = T.float32(0)

Serial loops are unrolled too if the option `tir.UnrollLoop` ({"auto_max_step": ...}) or a
pragma `auto_unroll_max_step` allows that many statements. With `explicit_unroll` False, unrolled
loops become serial and unrolling is left to the code generator. Each copy has its own loop
variables. With `unroll_local_access`, a loop is unrolled whose variable is in an index of a buffer of scope
"local", since registers have no addresses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....arith import Analyzer
from ....ir.functor import Visitor, any_node, nodes_of
from ....ir.literals import int_value
from ....ir.prim_expr import Add, ConstExpr, PrimExpr, Var
from ....ir.prim_op import const, fold_binary
from ....ir.variables import uses_any
from ...buffer import Buffer
from ...expr import BufferLoad
from ...function import PrimFunc
from ...stmt import AttrStmt, BufferStore, Evaluate, For, ForKind, SeqStmt, Stmt, seq
from ...stmt_functor import ExprKeeper, definitions
from ..base import PrimFuncPass, StmtRewriter, Substitute

if TYPE_CHECKING:
    from ....ir.module import IRModule
    from ....ir.node import Node
    from ....ir.pass_context import Entries, PassContext


class _Unroll(ExprKeeper, StmtRewriter):
    def __init__(self, options: Entries) -> None:
        self.max_step = int(options.auto_max_step)
        self.max_depth = int(options.auto_max_depth)
        self.max_extent = int(options.auto_max_extent)
        self.explicit = bool(options.explicit_unroll)
        self.local = bool(options.unroll_local_access)
        self.ana = Analyzer()
        self.steps = 0  # statements seen since the count was last reset
        self.depth = 0  # of loops that were unrolled, innermost first

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        self.steps += 1
        return node

    visit_Evaluate = visit_BufferStore

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key == "pragma_auto_unroll_max_step":
            outer, self.max_step = self.max_step, int_value(node.value) or 0
            body = self.visit(node.body)
            self.max_step = outer
            return body
        if node.attr_key == "pragma_unroll_explicit":
            outer_explicit, self.explicit = self.explicit, bool(int_value(node.value) or 0)
            body = self.visit(node.body)
            self.explicit = outer_explicit
            return body
        return node.replace(body=self.visit(node.body))

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        depth, stmts = 0, []
        for item in node.seq:
            self.depth = 0
            stmts.append(self.visit(item))
            depth = max(depth, self.depth)
        self.depth = depth
        if all(a is b for a, b in zip(stmts, node.seq, strict=True)):
            return node
        return seq(*stmts)

    def visit_For(self, node: For) -> Stmt:
        before, self.steps, self.depth = self.steps, 0, 0
        body = self.visit(node.body)
        extent = int_value(self.ana.simplify(node.extent))
        unrolls = node.kind == ForKind.UNROLLED
        if extent is not None and node.kind == ForKind.SERIAL and extent > 0:
            small = self.steps * extent <= self.max_step or extent <= self.max_extent
            unrolls = small and self.depth < self.max_depth
            unrolls = unrolls or (self.local and _indexes_local(node))
        if extent is None or not unrolls:
            self.steps += before
            kind = ForKind.SERIAL if node.kind == ForKind.UNROLLED else node.kind
            return node.replace(body=body, kind=kind)
        self.steps = before + self.steps * extent
        self.depth += 1
        if self.explicit or extent <= self.max_extent == 1:
            return _written_out(node, body, extent)
        return node.replace(body=body, kind=ForKind.UNROLLED)


def _indexes_local(loop: For) -> bool:
    """Whether an element of a local buffer is another in each iteration."""

    def differs(node: Any) -> bool:
        is_access = isinstance(node, (BufferLoad, BufferStore))
        return is_access and node.buffer.scope() == "local" and uses_any(node.indices, at)

    at = {loop.loop_var}
    return any_node(loop.body, differs)


class _Uses(Visitor):
    """The ids of the nodes that contain one of some variables and buffers."""

    def __init__(self, sources: set[Any]) -> None:
        self.sources = sources
        self.dependent: set[int] = set()
        self.seen: set[int] = set()
        self.occurs = False

    def visit_Node(self, node: Node) -> None:
        if id(node) in self.seen:
            self.occurs = self.occurs or id(node) in self.dependent
            return
        self.seen.add(id(node))
        outer, self.occurs = self.occurs, False
        self.visit_default(node)
        if self.occurs:
            self.dependent.add(id(node))
        self.occurs = self.occurs or outer

    def visit_Var(self, node: Var) -> None:
        self.occurs = self.occurs or node in self.sources

    visit_Buffer = visit_Var

    def visit_ConstExpr(self, node: PrimExpr) -> None:
        pass


class _At(Substitute):
    """One iteration of a loop: subtrees that do not depend on its variable, or on definitions in
    its body, are kept, and shared subtrees are rewritten once."""

    def __init__(
        self, values: dict[Var, Any], buffers: dict[Buffer, Buffer], dependent: set[int]
    ) -> None:
        super().__init__(values, buffers)
        self.dependent = dependent
        self.rewritten: dict[int, Any] = {}

    @classmethod
    def _handler(cls, kind: type) -> Any:
        rewrite = super()._handler(kind)
        if not issubclass(kind, (PrimExpr, Stmt)) or issubclass(kind, (Var, ConstExpr)):
            return rewrite

        def once(self: _At, node: PrimExpr | Stmt) -> Any:
            if id(node) not in self.dependent:
                return node
            new = self.rewritten.get(id(node))
            if new is None:
                new = self.rewritten[id(node)] = rewrite(self, node)
            return new

        return once


def _written_out(node: For, body: Stmt, extent: int) -> Stmt:
    """The iterations in sequence, each with its own loop variables, allocations and so on."""
    stmts = []
    inner = definitions(body)
    buffers = _on_memory(body, set(inner.variables)) | set(inner.buffers)
    uses = _Uses({node.loop_var, *inner.variables, *buffers})
    uses.visit(body)
    for i in range(extent):
        offset = const(i, node.loop_var.dtype)
        value = fold_binary(Add, node.min, offset)
        value = Add(node.min, offset) if value is None else value
        if not inner.variables or i == 0:
            stmts.append(_At({node.loop_var: value}, {}, uses.dependent).visit(body))
            continue
        fresh = {v: v.copy_with_suffix("") for v in inner.variables}
        views = {b: b.replace(data=fresh.get(b.data, b.data)) for b in buffers}
        stmts.append(_At({node.loop_var: value, **fresh}, views, uses.dependent).visit(body))
    return seq(*stmts) if stmts else Evaluate(0)


def _on_memory(body: Stmt, pointers: set[Var]) -> set[Buffer]:
    """The buffers in memory allocated within."""
    return {b for b in nodes_of(body, Buffer) if b.data in pointers} if pointers else set()


class UnrollLoop(PrimFuncPass):
    """Unrolls loops of constant extent."""

    def run_function(self, func: PrimFunc, mod: IRModule | None, ctx: PassContext) -> PrimFunc:
        options = ctx.option("tir.UnrollLoop")
        return func.replace(body=_Unroll(options).visit(func.body))
