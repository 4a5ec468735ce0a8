"""`AnnotateDeviceRegions`: annotates the regions that run in device threads with the target.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((16,), "float32")):
          T.func_attr({"target": T.target("cuda", host="llvm")})
    -     with T.launch_thread("threadIdx.x", 16) as tx:
    -         A[tx] = T.float32(0)
    +     with T.attr(T.target("cuda"), "target", 0):
    +         with T.launch_thread("threadIdx.x", 16) as tx:
    +             A[tx] = T.float32(0)

`SplitHostDevice` outlines the annotated regions into functions. A function whose target has no host
runs entirely on one device and is not changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....ir.prim_expr import IntImm
from ....ir.target import Target
from ...function import PrimFunc
from ...stmt import AttrStmt, For, ForKind, Stmt
from ..base import PrimFuncPass, StmtRewriter

if TYPE_CHECKING:
    from ....ir.module import IRModule
    from ....ir.pass_context import PassContext

_REGIONS = ("thread_extent", "device_scope", "pipeline_exec_scope")


class _Annotate(StmtRewriter):
    def __init__(self, target: Target) -> None:
        self.target = target

    def marked(self, node: Stmt) -> Stmt:
        return AttrStmt(self.target, "target", IntImm("int32", 0), node)

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key == "target":
            return node
        return self.marked(node) if node.attr_key in _REGIONS else self.visit_default(node)

    def visit_For(self, node: For) -> Stmt:
        return (
            self.marked(node) if node.kind == ForKind.THREAD_BINDING else self.visit_default(node)
        )


class AnnotateDeviceRegions(PrimFuncPass):
    """Annotates the regions that run in device threads with the target."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        target = func.attrs.get("target")
        if target is None or target.host is None:
            return func
        return func.replace(body=_Annotate(target.replace(host=None)).visit(func.body))
