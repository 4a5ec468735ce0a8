"""ExpandMatmulOfSum: a product with a sum becomes the sum of two products.

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((2, 16), dtype="float32"), A: R.Tensor((16, 32), dtype="float32"), B: R.Tensor((16, 32), dtype="float32")) -> R.Tensor((2, 32), dtype="float32"):
    -     weight: R.Tensor((16, 32), dtype="float32") = R.add(A, B)
    -     out: R.Tensor((2, 32), dtype="float32") = R.matmul(x, weight)
    +     gv: R.Tensor((2, 32), dtype="float32") = R.matmul(x, A)
    +     gv1: R.Tensor((2, 32), dtype="float32") = R.matmul(x, B)
    +     out: R.Tensor((2, 32), dtype="float32") = R.add(gv, gv1)
          return out

The sum may be transposed in between. A sum of weights, known at compile time (`num_input`), stays:
it costs nothing at run time. With LoRA, B is a product of small matrices, which `AdjustMatmulOrder` then takes
apart.
"""

from __future__ import annotations

from typing import Any

from ...arith import Analyzer
from ...relax import expr as rx
from ...relax import op as relax_op
from ...relax.analysis.variables import computable_at_compile_time
from ...relax.dpl.pattern import wildcard
from ...relax.transform.products import keeps_dtype, product, shape_of, transposed, transposes
from ...relax.transform.rewriting import PatternPass, calls


class ExpandMatmulOfSum(PatternPass):
    """A product with a sum becomes the sum of two products."""

    def rules(self, func: rx.Function) -> list[Any]:
        early = set(computable_at_compile_time(func))
        x, a, b = wildcard(), wildcard(), wildcard()
        total = calls("add", a, b)
        permuted = calls("permute_dims", total)

        def expand(value: rx.Call, m: dict[Any, Any]) -> Any:
            is_early = all(m[p] in early or isinstance(m[p], rx.Constant) for p in (a, b))
            if is_early or not keeps_dtype(value) or not _both_matrices(m[a], m[b]):
                return None
            if permuted in m and not transposes(m[permuted]):
                return None
            summands = (transposed(m[p]) if permuted in m else m[p] for p in (a, b))
            return relax_op.add(*(product(m[x], s) for s in summands))

        return [(calls("matmul", x, total), expand), (calls("matmul", x, permuted), expand)]


def _both_matrices(a: rx.Expr, b: rx.Expr) -> bool:
    """Whether a sum adds whole matrices, perhaps of batches that are broadcast."""
    one, other = ((shape_of(v) or ())[-2:] for v in (a, b))
    return len(one) == len(other) == 2 and all(map(Analyzer().can_prove_equal, one, other))
