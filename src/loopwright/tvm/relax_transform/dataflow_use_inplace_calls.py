"""DataflowUseInplaceCalls: elementwise operators write over an argument that is not used again.

Before (-) and after (+)::

      @I.ir_module
      class Module:
    +     @T.prim_func(private=True)
    +     def negative_inplace(x: T.Buffer((T.int64(4),), "float32")):
    +         T.func_attr({"tir.noalias": True})
    +         for i0 in range(T.int64(4)):
    +             with T.block("compute"):
    +                 v_i0 = T.axis.spatial(T.int64(4), i0)
    +                 x[v_i0] = x[v_i0] * T.float32(-1.0)
    +
          @R.function
          def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
    +         cls = Module
              with R.dataflow():
                  y: R.Tensor((4,), dtype="float32") = R.exp(x)
    -             z: R.Tensor((4,), dtype="float32") = R.negative(y)
    +             z: R.Tensor((4,), dtype="float32") = R.call_tir_inplace(cls.negative_inplace, (y,), out_sinfo=R.Tensor((4,), dtype="float32"), inplace_indices=[0])
                  R.output(z)
              return z

Parameters, constants and values from outside of the dataflow block are not written over, nor what
may share their memory (`tvm.relax.in_place`). The kernels are those of LegalizeOps.
"""

from __future__ import annotations

from typing import Any

from ...ir.transform import IRModule, ModulePass, PassContext
from ...relax import expr as rx
from ...relax.functor import GraphRewriter
from ..relax.in_place import in_place_calls
from ..relax.in_place_kernels import in_place


class DataflowUseInplaceCalls(ModulePass):
    """Elementwise operators write over an argument that is not used again."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return _Overwriter(mod).run()


class _Overwriter(GraphRewriter):
    inputs: tuple[rx.Var, ...] = ()
    chosen: dict[rx.Var, int] = {}  # of a block: which argument is written over

    def function(self, func: rx.Function) -> rx.Function:
        outer, self.inputs = self.inputs, func.params
        new = super().function(func)
        self.inputs = outer
        return new

    def block(self, block: rx.BindingBlock) -> rx.BindingBlock:
        self.chosen = {}
        if isinstance(block, rx.DataflowBlock):
            for index, args in in_place_calls(block, self.inputs):
                self.chosen[block.bindings[index].var] = max(args)
        return super().block(block)

    def binding(self, binding: Any) -> None:
        index = self.chosen.get(binding.var)
        if index is None:
            super().binding(binding)
            return
        new = in_place(self.builder, binding.value, index)
        self.emit(binding, binding.value if new is None else self.value(new))
