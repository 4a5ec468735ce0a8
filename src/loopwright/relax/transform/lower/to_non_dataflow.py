"""ToNonDataflow: turns dataflow blocks into plain blocks.

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
    -     with R.dataflow():
    -         lv = R.add(x, x)
    -         gv = R.exp(lv)
    -         R.output(gv)
    +     lv = R.add(x, x)
    +     gv = R.exp(lv)
          return gv
"""

from __future__ import annotations

from typing import Any

from ...expr import BindingBlock, DataflowVar, Var
from ..decorators import RewriterPass
from ..queries import BodyRewriter


class _Plain(BodyRewriter):
    def block(self, block: BindingBlock, live_out: dict[Var, None]) -> Any:
        bindings = []
        for binding in block.bindings:
            value = self.value(binding.value)
            var = binding.var
            if isinstance(var, DataflowVar):
                var = Var._make(var.name_hint, var.struct_info, span=var.span)
                self.table[binding.var] = var
            bindings.append(binding.replace(var=var, value=value))
        same = type(block) is BindingBlock and all(
            a is b for a, b in zip(bindings, block.bindings, strict=True)
        )
        return block if same else BindingBlock(bindings, span=block.span)


class ToNonDataflow(RewriterPass):
    """Replace dataflow blocks and variables by plain ones."""

    rewriter = _Plain
