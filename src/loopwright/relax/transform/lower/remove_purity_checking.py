"""RemovePurityChecking: allows impure calls in pure functions during lowering.

Every pure function gets the attribute `relax.force_pure`: it counts as pure as a whole, whatever
its bindings are lowered to.

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
    +     R.func_attr({"relax.force_pure": True})
          gv = R.exp(x)
          return gv
"""

from __future__ import annotations

from typing import Any

from ...expr import Function, Var
from ..decorators import RewriterPass
from ..queries import BodyRewriter


class _Marker(BodyRewriter):
    def function(self, func: Function) -> Function:
        new = super().function(func)
        if not new.is_pure or new.attrs.get("relax.force_pure", False):
            return new
        return new.with_attr("relax.force_pure", True)

    def block(self, block: Any, live_out: dict[Var, None]) -> Any:
        bindings = [b.replace(value=self.value(b.value)) for b in block.bindings]
        same = all(a is b for a, b in zip(bindings, block.bindings, strict=True))
        return block if same else type(block)(bindings, span=block.span)


class RemovePurityChecking(RewriterPass):
    """Mark pure functions, including local ones, with `relax.force_pure`."""

    rewriter = _Marker
