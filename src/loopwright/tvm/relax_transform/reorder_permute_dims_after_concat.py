"""ReorderPermuteDimsAfterConcat: tensors with the same permutation are joined before they are
permuted.

Before (-) and after (+)::

      @R.function
      def main(A: R.Tensor((128, 32), dtype="float32"), B: R.Tensor((64, 32), dtype="float32")) -> R.Tensor((32, 192), dtype="float32"):
          with R.dataflow():
    -         lv: R.Tensor((32, 128), dtype="float32") = R.permute_dims(A)
    -         lv1: R.Tensor((32, 64), dtype="float32") = R.permute_dims(B)
    -         gv: R.Tensor((32, 192), dtype="float32") = R.concat((lv, lv1), axis=1)
    +         lv: R.Tensor((192, 32), dtype="float32") = R.concat((A, B), axis=0)
    +         gv: R.Tensor((32, 192), dtype="float32") = R.permute_dims(lv)
              R.output(gv)
          return gv

It brings the permutation next to a product that follows, where it can be fused.
"""

from __future__ import annotations

from typing import Any

from ...relax import expr as rx
from ...relax import op as relax_op
from ...relax.transform.decorators import RewriterPass
from ...relax.transform.products import is_call, permuted_axes
from ...relax.transform.rewriting import SweepingRewriter


class _Reorder(SweepingRewriter):
    def call(self, call: rx.Call) -> Any:
        if not is_call(call, "relax.concat") or call.attrs.axis is None:
            return call
        joined = self.definition(call.args[0])
        parts = [self.definition(f) for f in joined.fields] if isinstance(joined, rx.Tuple) else []
        if len(parts) < 2 or not all(is_call(p, "relax.permute_dims") for p in parts):
            return call
        axes = permuted_axes(parts[0])
        if axes is None or any(permuted_axes(p) != axes for p in parts):
            return call
        whole = relax_op.concat([p.args[0] for p in parts], axes[int(call.attrs.axis)])
        return relax_op.permute_dims(whole, parts[0].attrs.axes)


class ReorderPermuteDimsAfterConcat(RewriterPass):
    """Tensors with the same permutation are joined before they are permuted."""

    rewriter = _Reorder
