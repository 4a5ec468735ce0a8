"""FastMathTransform: exp, erf, tanh and softmax of float32 by fast approximations.

Before (-) and after (+)::

      @I.ir_module
      class Module:
    +     @T.prim_func(private=True)
    +     def fast_exp(x: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((T.int64(4),), "float32")):
    +         T.func_attr({"tir.noalias": True})
    +         for i0 in range(T.int64(4)):
    +             with T.block("T_fast_exp"):
    +                 v_i0 = T.axis.spatial(T.int64(4), i0)
    +                 T.reads(x[v_i0])
    +                 T.writes(y[v_i0])
    +                 v = T.float32()
    +                 whole = T.float32()
    +                 rest = T.float32()
    +                 y[v_i0] = T.Let(T.Let(T.Let(((((((T.float32(0.0013888888888888889) * rest + T.float32(0.0083333333333333332)) * rest + T.float32(0.041666666666666664)) * rest + T.float32(0.16666666666666666)) * rest + T.float32(0.5)) * rest + T.float32(1.0)) * rest + T.float32(1.0)) * T.reinterpret("float32", T.shift_left(T.Cast("int32", whole) + 127, 23)), where={rest: v - whole * T.float32(0.693359375) - whole * T.float32(-0.00021219444)}), where={whole: T.floor(v * T.float32(1.44269504) + T.float32(0.5))}), where={v: T.max(T.min(x[v_i0], T.float32(88.376262664794893)), T.float32(-88.376262664794893))})
    +
          @R.function
          def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
    +         cls = Module
              with R.dataflow():
    -             gv: R.Tensor((4,), dtype="float32") = R.exp(x)
    +             gv = R.call_tir(cls.fast_exp, (x,), out_sinfo=R.Tensor((4,), dtype="float32"))
                  R.output(gv)
              return gv

A value of exp or softmax is within about 1e-6 of itself, one of erf or tanh within 1e-6. The kernels are those of `topi.fast`.
"""

from __future__ import annotations

from typing import Any

from ...ir.op import Op
from ...ir.transform import IRModule, ModulePass, PassContext
from ...relax import expr as rx
from ...relax.functor import GraphRewriter
from ...relax.transform.products import shape_of
from ..topi.fast import BY_OPERATOR


class FastMathTransform(ModulePass):
    """Exp, erf, tanh and softmax of float32 by fast approximations."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return _Faster(mod).run()


class _Faster(GraphRewriter):
    def call(self, call: rx.Call) -> Any:
        fast = BY_OPERATOR.get(call.op.name) if isinstance(call.op, Op) else None
        if fast is None or shape_of(call.args[0]) is None:
            return call
        if str(call.args[0].struct_info.dtype) != "float32":
            return call
        return self.builder.call_te(fast, call.args[0], **(call.attrs or {}))
