"""AttachAttrLayoutFreeBuffers: kernels list their inputs that may be stored in another layout.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @T.prim_func(private=True)
    -     def add(x: T.Buffer((T.int64(4),), "float32"), w: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((T.int64(4),), "float32")):
    +     def add1(x: T.Buffer((T.int64(4),), "float32"), w: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((T.int64(4),), "float32")):
    +         T.func_attr({"layout_free_buffers": [1]})
              for i in range(T.int64(4)):
                  with T.block("y"):
                      vi = T.axis.spatial(T.int64(4), i)
                      y[vi] = x[vi] + w[vi]

          @R.function
          def main(x: R.Tensor((4,), dtype="float32"), w: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
              R.func_attr({"num_input": 1})
              cls = Module
    -         gv = R.call_tir(cls.add, (x, w), out_sinfo=R.Tensor((4,), dtype="float32"))
    +         gv = R.call_tir(cls.add1, (x, w), out_sinfo=R.Tensor((4,), dtype="float32"))
              return gv

Those are constants and weights, the parameters after the first `num_input`.
"""

from __future__ import annotations

from typing import Any

from ...ir.transform import IRModule, ModulePass, PassContext
from ...relax import expr as rx
from ...relax.functor import GraphRewriter
from ...relax.op.base import CALL_TIR
from ...relax.transform.graph.dead_code import DeadCodeElimination
from ...relax.transform.graph.mark_constants import ATTR
from ...relax.transform.queries import call_fields
from ...tir.function import PrimFunc


class AttachAttrLayoutFreeBuffers(ModulePass):
    """Kernels list their inputs that may be stored in another layout."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        new = _Attacher(mod).run()
        return mod if new is mod else DeadCodeElimination(keep_packed=True)(new)


class _Attacher(GraphRewriter):
    weights: tuple[rx.Var, ...] = ()

    def function(self, func: rx.Function) -> rx.Function:
        count = func.attrs.get("num_input")
        if count is not None:
            self.weights = func.params[int(count) :]
        new = super().function(func)
        self.weights = ()
        return new

    def call(self, call: rx.Call) -> Any:
        kernel = self.mod.get(call.args[0]) if call.op is CALL_TIR and self.mod else None
        if not isinstance(kernel, PrimFunc):
            return call
        fields = enumerate(call_fields(call))
        free = [i for i, f in fields if isinstance(f, rx.Constant) or f in self.weights]
        if not free:
            return call
        gvar = self.builder.add_func(kernel.with_attr(ATTR, free), call.args[0].name_hint)
        return call.replace(args=(gvar, *call.args[1:]))
