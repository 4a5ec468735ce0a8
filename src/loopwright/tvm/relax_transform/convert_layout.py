"""ConvertLayout: converts the named operators, and those that follow, to the desired layouts.

Pass::

    ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @R.function
          def main(x: R.Tensor((2, 3, 8, 8), dtype="float32"), w: R.Tensor((4, 3, 3, 3), dtype="float32")) -> R.Tensor((2, 4, 6, 6), dtype="float32"):
              with R.dataflow():
    -             lv: R.Tensor((2, 4, 6, 6), dtype="float32") = R.nn.conv2d(x, w)
    -             gv: R.Tensor((2, 4, 6, 6), dtype="float32") = R.nn.relu(lv)
    +             lv: R.Tensor((2, 8, 8, 3), dtype="float32") = R.permute_dims(x, axes=[0, 2, 3, 1])
    +             lv1: R.Tensor((4, 3, 3, 3), dtype="float32") = R.permute_dims(w, axes=[0, 2, 3, 1])
    +             lv2: R.Tensor((2, 6, 6, 4), dtype="float32") = R.nn.conv2d(lv, lv1, data_layout="NHWC", kernel_layout="OHWI", out_layout="NHWC")
    +             gv1: R.Tensor((2, 6, 6, 4), dtype="float32") = R.nn.relu(lv2)
    +             gv: R.Tensor((2, 4, 6, 6), dtype="float32") = R.permute_dims(gv1, axes=[0, 3, 1, 2])
                  R.output(gv)
              return gv

Each operator's hook `layout` (`relax.layout`) says which layouts it takes and how its attributes
change; other operators follow their inputs. A tensor is transposed back if an
operator needs it plain. Blocked layouts such as NCHW16c are used if the blocks divide the axis.
"""

from __future__ import annotations

from collections.abc import Callable

from ...base.errors import explain
from ...ir.op import Op
from ...ir.transform import IRModule, ModulePass, PassContext
from ...relax.expr import Call
from ...relax.transform.layout_plans import Converter, Layouts


class ConvertLayout(ModulePass):
    """Converts the named operators, and those that follow, to the desired layouts.

    desired_layouts: by the operator's name, the layout of its data, of its weight, and of its
        result (without it, the data's).
    layout_cb: called with each call; its answer for the operator takes precedence over the map.
    """

    desired_layouts: Layouts
    layout_cb: Callable[[Call], Layouts] | None = None

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Rewrite every function. Raises ValueError for an operator without the hook `layout`."""
        for name in self.desired_layouts:
            if not Op.get(name).has_attr("FRelaxInferLayout"):
                what = f"ConvertLayout: {name} does not say how layouts pass through it"
                raise ValueError(explain(what, instead="give its definition the hook `layout`"))
        return Converter(mod, self.desired_layouts, self.layout_cb).run()
