"""MarkConstants: marks in kernels which of their inputs are constants in all calls.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @T.prim_func(private=True)
          def add(x: T.Buffer((4,), "float32"), w: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
    +         T.func_attr({"layout_free_buffers": [1]})
              for i in range(4):
                  with T.block("y"):
                      vi = T.axis.spatial(4, i)
                      y[vi] = x[vi] + w[vi]

          @R.function
          def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
              cls = Module
              gv = R.call_tir(cls.add, (x, R.const([1.0, 2.0, 3.0, 4.0], "float32")), out_sinfo=R.Tensor((4,), dtype="float32"))
              return gv

Only of private kernels: others are called from outside too. A schedule may store those in an order of its own: a block with the annotation
meta_schedule.layout_rewrite_preproc packs them, which SplitLayoutRewritePreproc takes out of the
kernel and FoldConstant runs when the model is compiled.
"""

from __future__ import annotations

from ....ir.expr import GlobalVar
from ....ir.transform import IRModule, ModulePass, PassContext
from ....tir.function import PrimFunc
from ... import expr as rx
from ..queries import call_fields, expressions, functions_of, is_private, is_tir_call

ATTR = "layout_free_buffers"


class MarkConstants(ModulePass):
    """Marks the inputs of kernels that are constants in all calls."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        indices: dict[GlobalVar, set[int]] = {}
        for _, func in functions_of(mod):
            for call in filter(is_tir_call, expressions(func)):
                fields = enumerate(call_fields(call))
                constant = {i for i, field in fields if isinstance(field, rx.Constant)}
                indices[call.args[0]] = constant & indices.get(call.args[0], constant)
        kernels = {g: f for g, f in mod.functions.items() if indices.get(g)}
        marked = {
            g: f.with_attr(ATTR, sorted(indices[g]))
            for g, f in kernels.items()
            if isinstance(f, PrimFunc) and is_private(f) and not f.attrs.get("tir.is_scheduled")
        }
        return mod.with_functions(marked) if marked else mod
