"""AnnotateTIROpPattern: annotates every PrimFunc with its fusion kind.

The attribute `op_pattern` is 0 elementwise, 1 broadcast, 2 injective, 3 reduction, 4 product or
window (fusable with an elementwise epilogue), 8 opaque, as are kernels of very many buffers: their
groups would have more. Existing annotations are kept.

Before (-) and after (+)::

      @T.prim_func
      def main(x: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((T.int64(4),), "float32")):
    +     T.func_attr({"op_pattern": 0})
          for i in range(T.int64(4)):
              with T.block("y"):
                  vi = T.axis.spatial(T.int64(4), i)
                  y[vi] = T.exp(x[vi])
"""

from __future__ import annotations

from typing import Any

from ....ir import trace
from ....ir.transform import FunctionPass, IRModule, PassContext
from ....tir.analysis.op_pattern import OpPattern, analyze_op_pattern
from ....tir.function import PrimFunc

# Parameters of a kernel that may be fused: the number of tensors that `ops.joining` joins in one.
_MOST_BUFFERS = 16


class AnnotateTIROpPattern(FunctionPass):
    """Set `op_pattern` on the PrimFuncs that lack it, by analysing their loops."""

    function_type = PrimFunc

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> Any:
        if "op_pattern" in func.attrs:
            return func
        wide = len(func.params) > _MOST_BUFFERS
        kind = OpPattern.OPAQUE if wide else analyze_op_pattern(func)
        if trace.active() is not None:
            trace.note("fusion kind", func.attrs.get("global_symbol", ""), kind=kind.name.lower())
        return func.with_attr("op_pattern", int(kind))
