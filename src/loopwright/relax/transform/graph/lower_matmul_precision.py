"""LowerMatmulPrecision: products with constant matrices multiply bfloat16 numbers.

Pass::

    LowerMatmulPrecision("bfloat16")

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((3, 2), dtype="float32")) -> R.Tensor((3, 2), dtype="float32"):
          with R.dataflow():
    -         gv: R.Tensor((3, 2), dtype="float32") = R.matmul(x, R.const([[1.0, 2.0], [3.0, 4.0]], "float32"))
    +         lv: R.Tensor((3, 2), dtype="bfloat16") = R.astype(x, dtype="bfloat16")
    +         lv1: R.Tensor((2, 2), dtype="bfloat16") = R.astype(R.const([[1.0, 2.0], [3.0, 4.0]], "float32"), dtype="bfloat16")
    +         gv: R.Tensor((3, 2), dtype="float32") = R.matmul(lv, lv1, out_dtype="float32")
              R.output(gv)
          return gv

Their sums stay float32. Enabled by the option `relax.matmul_precision`; each factor keeps 8 of its 24
bits, a relative error of up to 2^-9 each. A processor with such an instruction takes half
the time.
"""

from __future__ import annotations

from typing import Any

from ....base.errors import explain
from ....ir.target import Target
from ....ir.transform import IRModule, ModulePass, PassContext
from ... import op as relax_op
from ...expr import Call, Constant
from ..legalize_ops.common import may_be_taken
from ..products import is_call
from ..rewriting import SweepingRewriter


class LowerMatmulPrecision(ModulePass):
    """Rounds the operands of products to bfloat16. precision: "float32" changes nothing; default: the option's."""

    precision: str | None = None

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Rewrite every function."""
        precision = self.precision or ctx.option("relax.matmul_precision")
        if precision not in ("float32", "bfloat16"):
            raise ValueError(
                explain("relax.matmul_precision is float32 or bfloat16", got=str(precision))
            )
        return mod if precision == "float32" else _Lowerer(mod, precision).run()


class _Lowerer(SweepingRewriter):
    def __init__(self, mod: IRModule, precision: str) -> None:
        super().__init__(mod)
        self.precision = precision

    def call(self, call: Call) -> Any:
        if not is_call(call, "relax.matmul") or not isinstance(
            self.definition(call.args[1]), Constant
        ):
            return call
        x, w = call.args
        if {str(t.struct_info.dtype) for t in (x, w, call)} != {
            "float32"
        } or w.struct_info.ndim != 2:
            return call
        if may_be_taken(call, Target.current(allow_none=True)):
            return call
        x, w = (relax_op.astype(t, self.precision) for t in (x, w))
        return relax_op.matmul(x, w, out_dtype="float32")
