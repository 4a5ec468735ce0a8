"""ComputePrimValue: formulas over symbolic values are computed by PrimFuncs.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @R.function(pure=False)
          def main(x: R.Tensor(("n",), dtype="float32")) -> R.Tensor(("n",), dtype="float32"):
              n = T.int64()
    -         _: R.Tuple() = R.assert_op(R.prim_value(n % T.int64(16) == T.int64(0)), format=R.str("n is odd"))
    +         cls = Module
    +         gv: R.Prim("bool") = cls.compute_symbolic_expr(R.prim_value(n))
    +         _: R.Tuple() = R.assert_op(gv, format=R.str("n is odd"))
              return x
    +
    +     @T.prim_func(private=True)
    +     def compute_symbolic_expr(n: T.int64) -> T.bool:
    +         T.func_attr({"tir.is_host_func": True})
    +         T.ret(n % T.int64(16) == T.int64(0))
"""

from __future__ import annotations

from typing import Any

from ...ir.op import Op
from ...ir.prim_expr import FloatImm, IntImm, PrimType, Var
from ...ir.transform import IRModule, ModulePass, PassContext
from ...ir.variables import vars_in
from ...relax import expr as rx
from ...relax.functor import GraphRewriter
from ...tir.function import PrimFunc
from ...tir.op import ret
from ...tir.stmt import Evaluate


class _Computed(GraphRewriter):
    def value(self, expr: Op | rx.Expr) -> Any:
        if not isinstance(expr, rx.PrimValue) or isinstance(expr.value, (Var, IntImm, FloatImm)):
            return super().value(expr)
        symbols = list(dict.fromkeys(vars_in(expr.value)))
        formula = PrimFunc(
            symbols,
            Evaluate(ret(expr.value)),
            PrimType(expr.value.dtype),
            attrs={"tir.is_host_func": True},
        )
        gvar = self.builder.add_func(formula, "compute_symbolic_expr")
        return rx.Call(gvar, [rx.PrimValue(s) for s in symbols], span=expr.span)


class ComputePrimValue(ModulePass):
    """Formulas over symbolic values are computed by PrimFuncs."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return _Computed(mod).run()
