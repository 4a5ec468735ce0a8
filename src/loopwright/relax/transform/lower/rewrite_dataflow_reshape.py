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
from ....tir.analysis.reshape import reshaped_input, size_of
from ....tir.function import PrimFunc
from ... import op as graph_op
from ...analysis.variables import overwritten_vars
from ...expr import Binding, DataflowBlock, DataflowVar, Function
from ...functor import GraphRewriter
from ...op.base import CALL_TIR
from ...struct_info import TensorStructInfo
from ..decorators import RewriterPass
from ..queries import call_fields, shape_known


class _Reshapes(GraphRewriter):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.inputs: dict[GlobalVar, int | None] = {}
        self.inside = False
        self.written: set[Any] = set()  # by in-place calls: a copy of it must stay one

    def function(self, func: Function) -> Function:
        self.written = overwritten_vars(func)
        return super().function(func)

    def block(self, block: Any) -> Any:
        outer, self.inside = self.inside, isinstance(block, DataflowBlock)
        new = super().block(block)
        self.inside = outer
        return new

    def binding(self, binding: Binding) -> None:
        call = binding.value
        # A result of the block may outlive it: it must have its own memory.
        inner = self.inside and isinstance(binding.var, DataflowVar)
        source = self.source(call) if inner and getattr(call, "op", None) is CALL_TIR else None
        if source is None or self.written & {source, binding.var}:
            super().binding(binding)
            return
        reshaped = graph_op.reshape(self.value(source), call.sinfo_args[0].shape)
        self.emit(binding, reshaped.with_span(call.span))

    def source(self, call: Any) -> Any:
        """The argument that a call_tir only reshapes, None for other calls."""
        fields, out = call_fields(call), call.sinfo_args[0]
        gvar = call.args[0]
        if gvar not in self.inputs:
            func = self.mod.get(gvar) if self.mod is not None else None
            self.inputs[gvar] = reshaped_input(func) if isinstance(func, PrimFunc) else None
        index = self.inputs[gvar]
        if index is None or not isinstance(out, TensorStructInfo):
            return None
        info = fields[index].struct_info
        if not isinstance(info, TensorStructInfo) or not (shape_known(info) and shape_known(out)):
            return None
        sizes = [size_of(i.get_shape()) for i in (info, out)]
        same = info.dtype == out.dtype and self.builder.analyzer.can_prove_equal(*sizes)
        return fields[index] if same else None


class RewriteDataflowReshape(RewriterPass):
    """Replace calls of kernels that keep all elements in order by R.reshape."""

    rewriter = _Reshapes
