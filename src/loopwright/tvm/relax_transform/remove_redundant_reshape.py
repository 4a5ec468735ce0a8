"""RemoveRedundantReshape: of reshapes in a row the last one stays, and one that changes nothing is
removed.

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((2, 6, 1), dtype="float32")) -> R.Tensor((12,), dtype="float32"):
          with R.dataflow():
    -         lv: R.Tensor((2, 6), dtype="float32") = R.reshape(x, R.shape([2, 6]))
    -         lv1: R.Tensor((2, 6), dtype="float32") = R.reshape(lv, R.shape([2, 6]))
    -         gv: R.Tensor((12,), dtype="float32") = R.reshape(lv1, R.shape([12]))
    +         gv: R.Tensor((12,), dtype="float32") = R.reshape(x, R.shape([12]))
              R.output(gv)
          return gv
"""

from __future__ import annotations

from typing import Any

from ...relax import expr as rx
from ...relax import op as relax_op
from ...relax.dpl.pattern import wildcard
from ...relax.relations import can_prove_shape_equal
from ...relax.transform.products import shape_of
from ...relax.transform.rewriting import PatternPass, calls


class RemoveRedundantReshape(PatternPass):
    """Of reshapes in a row the last one stays, and one that changes nothing is removed."""

    def rules(self, func: rx.Function) -> list[Any]:
        x, shape = wildcard(), wildcard()
        once = calls("reshape", x, shape)
        twice = calls("reshape", calls("reshape", x, wildcard()), shape)
        return [
            (twice, lambda value, m: relax_op.reshape(m[x], m[shape])),
            (once, lambda value, m: m[x] if _same_shape(m[x], value) else None),
        ]


def _same_shape(one: rx.Expr, other: rx.Expr) -> bool:
    dims = shape_of(one), shape_of(other)
    return None not in dims and can_prove_shape_equal(*dims)
