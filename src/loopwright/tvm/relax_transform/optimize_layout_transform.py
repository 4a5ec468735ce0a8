"""OptimizeLayoutTransform: leaves out changes of layout that undo each other.

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((4, 4), dtype="float32")) -> R.Tensor((4, 4), dtype="float32"):
          with R.dataflow():
              a: R.Tensor((4, 4), dtype="float32") = R.exp(x)
    -         b: R.Tensor((16,), dtype="float32") = R.layout_transform(a, index_map=lambda i, j: (i * 4 + j,))
    -         c: R.Tensor((4, 4), dtype="float32") = R.layout_transform(b, index_map=lambda i: (i // 4, i % 4))
    -         gv: R.Tensor((4, 4), dtype="float32") = R.exp(c)
    +         gv: R.Tensor((4, 4), dtype="float32") = R.exp(a)
              R.output(gv)
          return gv

Between the two may be a kernel `remove_pad`, as AlterOpImpl inserts it: what it takes away is
padding again afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...arith import Analyzer
from ...ir.prim_expr import Range
from ...ir.structural import structural_equal
from ...ir.transform import IRModule, PassContext
from ...relax.dpl import rewrite
from ...relax.dpl.nodes import DFPattern
from ...relax.dpl.pattern import TuplePattern, is_op, wildcard
from ...relax.expr import Call, Expr, Function
from ...relax.transform.decorators import FunctionPass

_CHANGE = "relax.layout_transform"


class OptimizeLayoutTransform(FunctionPass):
    """Replace a value whose layout is changed and changed back by the value before."""

    def run_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        if func.attrs.get("Primitive"):
            return func
        source, kernel = wildcard(), wildcard()
        first = is_op(_CHANGE)(source)
        cut = is_op("relax.call_tir")(kernel, TuplePattern([first]))

        def replace(call: Call, matches: Mapping[DFPattern, Any]) -> Any:
            if kernel in matches:
                attrs = getattr(mod.get(matches[kernel]), "attrs", {})
                if attrs.get("operator_name") != "remove_pad":
                    return call
            value = matches[source]
            return value if _undone(value, matches[first], call) else call

        rules = [rewrite.ExprRule(is_op(_CHANGE)(inner), replace) for inner in (first, cut)]
        return rewrite.PatternMatchingRewriter(rules)(func)


def _undone(value: Expr, first: Call, second: Call) -> bool:
    """Whether the second change of layout takes each element back to where it was."""
    before, after = value.struct_info, second.struct_info
    dims = before.get_shape()
    if dims is None or not structural_equal(before, after):
        return False
    one, two = first.attrs.index_map, second.attrs.index_map
    analyzer = Analyzer()
    for index, extent in zip(one.initial_indices, dims, strict=True):
        analyzer.bind(index, Range.upto(extent))
    back = two.map_indices(one.final_indices, analyzer)
    pairs = zip(back, one.initial_indices, strict=True)
    return all(analyzer.can_prove_equal(a, b) for a, b in pairs)
