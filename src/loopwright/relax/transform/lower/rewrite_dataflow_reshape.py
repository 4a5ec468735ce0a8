"""RewriteDataflowReshape: turns kernels that only reshape into R.reshape, which moves no memory.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @T.prim_func(private=True)
          def reshape(x: T.Buffer((T.int64(2), T.int64(3)), "float32"), y: T.Buffer((T.int64(6),), "float32")):
              for i in range(T.int64(6)):
                  with T.block("y"):
                      vi = T.axis.spatial(T.int64(6), i)
                      y[vi] = x[vi // T.int64(3), vi % T.int64(3)]

          @R.function
          def main(x: R.Tensor((2, 3), dtype="float32")) -> R.Tensor((6,), dtype="float32"):
    -         cls = Module
              with R.dataflow():
    -             lv = R.call_tir(cls.reshape, (x,), out_sinfo=R.Tensor((6,), dtype="float32"))
    +             lv: R.Tensor((6,), dtype="float32") = R.reshape(x, R.shape([6]))
                  gv = R.exp(lv)
                  R.output(gv)
              return gv
"""

from __future__ import annotations

from typing import Any

from ....ir.expr import GlobalVar
from ....ir.module import IRModule
from ....tir.analysis.reshape import has_reshape_pattern
from ....tir.function import PrimFunc
from ... import op as graph_op
from ...expr import DataflowBlock, DataflowVar
from ...functor import GraphRewriter
from ...op.base import CALL_TIR
from ...struct_info import TensorStructInfo
from .._decorators import RewriterPass
from .._graph import call_fields, shape_known


class _Reshapes(GraphRewriter):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.known: dict[GlobalVar, bool] = {}
        self.inside = False

    def block(self, block: Any) -> Any:
        outer, self.inside = self.inside, isinstance(block, DataflowBlock)
        new = super().block(block)
        self.inside = outer
        return new

    def binding(self, binding: Any) -> None:
        call = binding.value
        # A result of the block may outlive it: it must have its own memory.
        inner = self.inside and isinstance(binding.var, DataflowVar)
        if not inner or getattr(call, "op", None) is not CALL_TIR or not self.reshapes(call):
            super().binding(binding)
            return
        source = self.value(call_fields(call)[0])
        reshaped = graph_op.reshape(source, call.sinfo_args[0].shape).with_span(call.span)
        self.emit(binding, reshaped)

    def reshapes(self, call: Any) -> bool:
        """Whether a call_tir only reshapes its one argument."""
        fields, out = call_fields(call), call.sinfo_args[0]
        if len(fields) != 1 or len(call.args) > 2 or not isinstance(out, TensorStructInfo):
            return False
        info = fields[0].struct_info
        if not isinstance(info, TensorStructInfo) or not (shape_known(info) and shape_known(out)):
            return False
        if info.dtype != out.dtype:
            return False
        gvar = call.args[0]
        if gvar not in self.known:
            func = self.mod.get(gvar) if self.mod is not None else None
            self.known[gvar] = isinstance(func, PrimFunc) and has_reshape_pattern(func)
        return self.known[gvar]


class RewriteDataflowReshape(RewriterPass):
    """Replace calls of kernels that keep all elements in order by R.reshape."""

    name = "RewriteDataflowReshape"
    rewriter = _Reshapes


__all__ = ["RewriteDataflowReshape"]
