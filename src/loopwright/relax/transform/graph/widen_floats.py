"""WidenFloats: values of float16 between products are kept in float32.

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((2, 3), dtype="float16"), w: R.Tensor((3, 4), dtype="float16")) -> R.Tensor((2, 4), dtype="float16"):
          with R.dataflow():
    -         lv: R.Tensor((2, 4), dtype="float16") = R.matmul(x, w)
    -         gv: R.Tensor((2, 4), dtype="float16") = R.nn.relu(lv)
    +         x_wide: R.Tensor((2, 3), dtype="float32") = R.astype(x, dtype="float32")
    +         lv: R.Tensor((2, 4), dtype="float32") = R.matmul(x_wide, w, out_dtype="float32")
    +         gv1: R.Tensor((2, 4), dtype="float32") = R.nn.relu(lv)
    +         gv: R.Tensor((2, 4), dtype="float16") = R.astype(gv1, dtype="float16")
              R.output(gv)
          return gv

A product in float16 is computed in float32 anyway, unless the processor has such instructions; an operand
that many results read is cast once, where it is computed. Values kept wide are not rounded in between, as with
onnxruntime: rounding where the graph has float16 makes ppocr-rec's error 5 to 20 times as large. Products request it, and the users of their results follow. The right side of a matrix product, which is read
once for many rows, stays short unless it is a result, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....ir.op import Op
from ....ir.target import Target
from ....ir.transform import IRModule, ModulePass, PassContext
from ... import op as relax_op
from ...expr import Binding, Call, Constant, DataflowVar, Expr, MatchCast, Var, VarBinding
from ...layout import LayoutPlan, LayoutRewriter, tensor_arguments, with_tensors
from ...struct_info import TensorStructInfo
from ...weights import computed
from ..legalize_ops.common import may_be_taken
from ..products import is_call

NARROW, WIDE = ("float16", "bfloat16"), "float32"
_ALWAYS, _FOLLOW = 0, 1  # values of the attribute TMixedPrecisionPolicy
_REDUCTIONS = {
    f"relax.{name}" for name in ("nn.softmax", "nn.log_softmax", "mean", "sum", "variance", "std")
}


class WidenFloats(ModulePass):
    """Removes casts to float16 between products that are computed in float32."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Rewrite every function."""
        return _Widener(mod).run()


@dataclass(frozen=True)
class _Wide:
    """A tensor in float32, and its dtype in the graph."""

    tensor: Any
    dtype: str


class _Widener(LayoutRewriter):
    """`packed` are the operands in float32, by the old variable."""

    def restore(self, laid: _Wide) -> Any:
        return relax_op.astype(laid.tensor, laid.dtype)

    def laid_out(self, binding: VarBinding) -> Any:
        call = binding.value
        if not isinstance(call, Call) or not isinstance(call.op, Op):
            return None
        tensors = tensor_arguments(call)
        follows = any(isinstance(t, Var) and t in self.laid for t in tensors)
        if is_call(call, "relax.astype") and follows and _dtype(call) == WIDE:
            return self.wide(tensors[0])
        policy, dtype = call.op.get_attr("TMixedPrecisionPolicy"), _dtype(call)
        asks = policy == _ALWAYS and _dtype(tensors[0]) in NARROW
        if not (asks or (follows and (policy == _FOLLOW or call.op.name in _REDUCTIONS))):
            return None
        if dtype not in (*NARROW, WIDE) or may_be_taken(call, Target.current(allow_none=True)):
            return None
        attrs = {"out_dtype": WIDE} if hasattr(call.attrs, "out_dtype") else {}
        plan = LayoutPlan((), (), attrs)
        as_is = tensors[1:] if is_call(call, "relax.matmul") and tensors[1] not in self.laid else ()
        parts = [self.value(t) if t in as_is else self.wide(t) for t in tensors]
        new = with_tensors(call, parts, plan).with_span(call.span)
        if dtype == WIDE:
            return new
        return _Wide(self.builder.emit(new, binding.var.name_hint), dtype)

    def binding(self, binding: Binding) -> None:
        """A cast to another shape applies to the wide form of the tensor."""
        laid = self.laid.get(binding.value) if isinstance(binding.value, Var) else None
        info = binding.struct_info if isinstance(binding, MatchCast) else None
        if laid is None or not (
            isinstance(info, TensorStructInfo) and isinstance(binding.var, DataflowVar)
        ):
            super().binding(binding)
            return
        wide = TensorStructInfo(info.shape, WIDE, info.vdevice, info.ndim)
        cast = self.builder.match_cast(laid.tensor, wide, binding.var.name_hint)
        self.laid[binding.var] = _Wide(cast, laid.dtype)

    def wide(self, tensor: Any) -> Any:
        """A tensor in float32 if it is in a shorter type."""
        if _dtype(tensor) not in NARROW:
            return self.value(tensor)
        if isinstance(tensor, Constant):
            if tensor.is_weight:
                return computed(self.builder.normalize(relax_op.astype(tensor, WIDE)))
            return Constant(tensor.data.numpy().astype(np.float32))
        if tensor in self.laid:
            return self.laid[tensor].tensor
        value = self.definition(tensor)
        whole = value.args[0] if is_call(value, "relax.astype") else None
        if isinstance(whole, Constant) and _dtype(whole) == WIDE:  # not rounded yet
            return whole
        if tensor not in self.packed:
            cast = relax_op.astype(self.value(tensor), WIDE)
            self.packed[tensor] = self.builder.emit(cast, f"{tensor.name_hint}_wide")
        return self.packed[tensor]


def _dtype(value: Expr) -> str:
    info = value.struct_info
    return str(info.dtype) if isinstance(info, TensorStructInfo) else ""
