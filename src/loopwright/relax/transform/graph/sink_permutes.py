"""SinkPermutes: images stay channels first between operators of models that have them channels last.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @R.function
          def main(x: R.Tensor((1, 4, 6, 6), dtype="float32"), w: R.Tensor((4, 4, 1, 1), dtype="float32")) -> R.Tensor((1, 4, 6, 6), dtype="float32"):
              with R.dataflow():
    -             lv: R.Tensor((1, 6, 6, 4), dtype="float32") = R.permute_dims(x, axes=[0, 2, 3, 1])
    -             lv1: R.Tensor((1, 6, 6, 4), dtype="float32") = R.nn.relu(lv)
    -             lv2: R.Tensor((1, 4, 6, 6), dtype="float32") = R.permute_dims(lv1, axes=[0, 3, 1, 2])
    +             lv1: R.Tensor((1, 4, 6, 6), dtype="float32") = R.nn.relu(x)
    +             lv2: R.Tensor((1, 4, 6, 6), dtype="float32") = lv1
                  gv: R.Tensor((1, 4, 6, 6), dtype="float32") = R.nn.conv2d(lv2, w)
                  R.output(gv)
              return gv

A permutation that puts channels last moves below the operators that have a hook `layout` (`relax.layout`),
until it meets one that puts them first, with which it vanishes, or an operator that needs the tensor as
it is.
"""

from __future__ import annotations

from ....ir.op import Op
from ....ir.transform import IRModule, ModulePass, PassContext
from ....tir import layout as layout_of
from ...expr import Call, Var
from ...layout import LayoutPlan
from ..layout_plans import Converter

# From channels first to channels last, and how the result is stored then.
_LAST = {(0, 2, 1): "ACB", (0, 2, 3, 1): "ADBC", (0, 2, 3, 4, 1): "AEBCD"}


class SinkPermutes(ModulePass):
    """Moves permutations between channels first and last below the operators that use them."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Rewrite every function."""
        return _Sinker(mod, {}, None).run()


class _Sinker(Converter):
    def plan(self, call: Call) -> LayoutPlan | None:
        if call.op is Op.get("relax.permute_dims"):
            stored = _LAST.get(tuple(call.attrs.axes or ()))
            source = call.args[0]
            if stored is not None and not (isinstance(source, Var) and source in self.laid):
                return LayoutPlan((None,), (layout_of(stored),), moves_nothing=True)
        return super().plan(call)
