"""ReorderTakeAfterMatmul: a product with rows taken of a table becomes rows of the product with the table.

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((1, 16), dtype="float32"), table: R.Tensor((16, "n"), dtype="float32"), routes: R.Tensor((32,), dtype="int64")) -> R.Tensor((1, 32), dtype="float32"):
          n = T.int64()
          with R.dataflow():
    -         weight: R.Tensor((16, 32), dtype="float32") = R.take(table, routes, axis=1)
    -         out: R.Tensor((1, 32), dtype="float32") = R.matmul(x, weight)
    +         lv: R.Tensor((1, n), dtype="float32") = R.matmul(x, table)
    +         out: R.Tensor((1, 32), dtype="float32") = R.take(lv, routes, axis=1)
              R.output(out)
          return out

Where each matrix of a batch takes a matrix of its own (`axis=0` of a table of three axes), all products are computed and the
diagonal is taken of them. It pays where the table is small, as in a batch of requests with LoRA weights.
"""

from __future__ import annotations

from typing import Any

from ...arith import Analyzer
from ...relax import expr as rx
from ...relax import op as relax_op
from ...relax.dpl.pattern import wildcard
from ...relax.transform.products import keeps_dtype, product, shape_of
from ...relax.transform.rewriting import PatternPass, calls


class ReorderTakeAfterMatmul(PatternPass):
    """A product with rows taken of a table becomes rows of the product with the table."""

    def rules(self, func: rx.Function) -> list[Any]:
        x, table, routes = wildcard(), wildcard(), wildcard()
        rows = calls("take", table, routes)

        def reorder(value: rx.Call, m: dict[Any, Any]) -> Any:
            take = m[rows]
            ranks = [m[p].struct_info.ndim for p in (x, table, routes)]
            if take.attrs.axis is None or -1 in ranks or ranks[2] != 1 or not keeps_dtype(value):
                return None
            mode, axis = take.attrs.mode, int(take.attrs.axis) % ranks[1]
            if ranks[1] == 2 and axis == 1:
                return relax_op.take(product(m[x], m[table]), m[routes], ranks[0] - 1, mode)
            if ranks[:2] == [3, 3] and axis == 0:
                return _diagonal(m[x], m[table], m[routes], mode)
            return None

        return [(calls("matmul", x, rows), reorder)]


def _diagonal(x: rx.Expr, table: rx.Expr, routes: rx.Expr, mode: str) -> Any:
    """x[i] times table[routes[i]], from the product of `x` with the whole table."""
    data, shape, count = (shape_of(v) for v in (x, table, routes))
    if data is None or shape is None or count is None:
        return None
    if not Analyzer().can_prove_equal(data[0], count[0]):
        return None
    entries, depth, width = shape
    joined = relax_op.reshape(relax_op.permute_dims(table, [1, 0, 2]), [depth, entries * width])
    apart = relax_op.reshape(product(x, joined), [data[0], data[1], entries, width])
    return relax_op.einsum([relax_op.take(apart, routes, 2, mode)], "ijik->ijk")
