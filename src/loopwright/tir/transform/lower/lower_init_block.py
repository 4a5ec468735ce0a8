"""`LowerInitBlock`: turns the init of a reduction block into a guarded statement of its body.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
          for i, k in T.grid(4, 8):
              with T.block("sum"):
                  vi, vk = T.axis.remap("SR", [i, k])
                  T.reads(A[vi, vk])
                  T.writes(B[vi])
    -             with T.init():
    +             if vk == 0:
                      B[vi] = T.float32(0)
                  B[vi] = B[vi] + A[vi, vk]

Where a reduction may be empty, its init becomes a nest of its own before the reduction's loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....ir.prim_expr import EQ, And, IterVar
from ...function import PrimFunc
from ...reduction_init import EarlyInits
from ...stmt import Block, IfThenElse, Stmt, seq
from ...stmt_functor import ExprKeeper
from ..base import PrimFuncPass, StmtRewriter

if TYPE_CHECKING:
    from ....ir.module import IRModule
    from ....ir.pass_context import PassContext


class _Lower(ExprKeeper, StmtRewriter):
    def visit_Block(self, node: Block) -> Block:
        body = self.visit(node.body)
        if node.init is None:
            return node if body is node.body else node.replace(body=body)
        return node.replace(body=seq(_guarded(node, self.visit(node.init)), body), init=None)


def _guarded(block: Block, init: Stmt) -> Stmt:
    condition = None
    for axis in block.iter_vars:
        if axis.iter_type == IterVar.CommReduce and axis.dom is not None:
            first = EQ(axis.var, axis.dom.min)
            condition = first if condition is None else And(condition, first)
    return init if condition is None else IfThenElse(condition, init, span=init.span)


class LowerInitBlock(PrimFuncPass):
    """Turns the init of a reduction block into a guarded statement of its body."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        return func.replace(body=_Lower().visit(EarlyInits().visit(func.body)))
