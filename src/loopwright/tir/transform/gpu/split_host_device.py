"""`SplitHostDevice`: outlines annotated regions into functions called from the host.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @T.prim_func
          def main(A: T.handle("float32", "global"), n: T.int32):
              T.func_attr({"global_symbol": "main", "target": T.target("cuda", host="llvm")})
    +         Module.main_kernel(A, n)
    +
    +     @T.prim_func(private=True)
    +     def main_kernel(A: T.handle("float32", "global"), n: T.int32):
    +         T.func_attr({"target": T.target("cuda"), "tir.is_global_func": True, "tir.noalias": True})
    -         A_1 = T.Buffer((16,), data=A)
    +         A_1 = T.decl_buffer((16,), data=A)
    -         with T.attr(T.target("cuda"), "target", 0):
    -             with T.launch_thread("threadIdx.x", 16) as tx:
    -                 A_1[tx] = T.Cast("float32", n)
    +         with T.launch_thread("threadIdx.x", 16) as tx:
    +             A_1[tx] = T.Cast("float32", n)

The parameters are the region's free variables by name, pointers first. A region for a device that
shares the host's address space (a CPU) becomes a function that returns 0 where it succeeds; the host
asserts that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....base.names import free_name
from ....ir.dtype import DataType
from ....ir.expr import GlobalVar
from ....ir.functor import pre_order_visit
from ....ir.prim_expr import EQ, Call, PrimType, StringImm, Var
from ....ir.prim_op import const
from ....ir.target import Target
from ....ir.transform import IRModule, Pass, PassContext
from ...analysis.definitions import undefined_vars
from ...buffer import Buffer
from ...expr import BufferLoad
from ...function import PrimFunc
from ...op import ret
from ...stmt import AssertStmt, AttrStmt, BufferStore, DeclBuffer, Evaluate, LetStmt, Stmt, seq
from ...stmt_functor import ExprKeeper, definitions, renew_defs
from ..base import StmtRewriter

if TYPE_CHECKING:
    from ....ir.node import Node

_REPORTING = ("cpu", "ext_dev", "hexagon")


class _Split(ExprKeeper, StmtRewriter):
    def __init__(self, name: str, used: set[str]) -> None:
        self.name, self.used = name, used
        self.kernels: list[tuple[GlobalVar, PrimFunc]] = []

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key != "target" or not isinstance(node.node, Target):
            return self.visit_default(node)
        used = undefined_vars(node.body)
        params: list[Var] = sorted(used, key=lambda v: (not v.dtype.is_handle, v.name))
        attrs = {"target": node.node, "tir.is_global_func": True, "tir.noalias": True}
        reports = node.node.device_type in _REPORTING
        body = seq(node.body, Evaluate(ret(const(0, "int32")))) if reports else node.body
        for buffer in _declared_outside(node.body, set(params)):
            body = DeclBuffer(buffer, body, span=node.span)
        returns = PrimType(DataType("int32")) if reports else None
        kernel = PrimFunc(params, body, returns, None, attrs, span=node.span)
        var = GlobalVar(self.fresh())
        self.kernels.append((var, renew_defs(kernel)))
        if not reports:
            return Evaluate(Call("void", var, params), span=node.span)
        code = Var(f"{var.name_hint}_error_code", "int32")
        message = StringImm("Error executing compute kernel")
        check = AssertStmt(EQ(code, const(0, "int32")), message, Evaluate(0), span=node.span)
        return LetStmt(code, Call("int32", var, params), check, span=node.span)

    def fresh(self) -> str:
        name = free_name(f"{self.name}_kernel", self.used)
        self.used.add(name)
        return name


def _declared_outside(body: Stmt, memory: set[Var]) -> list[Buffer]:
    """The buffers on some pointers that are used in a statement and declared outside of it, in order
    of use."""
    own, buffers = definitions(body).buffers, dict[Buffer, None]()

    def visit(node: Node) -> None:
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer.data in memory:
            if node.buffer not in own:
                buffers.setdefault(node.buffer)

    pre_order_visit(body, visit)
    return list(buffers)


class SplitHostDevice(Pass):
    """Outlines annotated regions into functions called from the host."""

    name = "tir.SplitHostDevice"

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        used = {var.name_hint for var in mod.functions}
        functions: dict[GlobalVar, Any] = {}
        for var, func in mod.functions.items():
            if not isinstance(func, PrimFunc):
                functions[var] = func
                continue
            split = _Split(var.name_hint, used)
            functions[var] = func.replace(body=split.visit(func.body))
            functions.update(split.kernels)
        return mod.replace(functions=functions)
