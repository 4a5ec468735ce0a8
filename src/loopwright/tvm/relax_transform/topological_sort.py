"""TopologicalSort: orders the bindings of dataflow blocks by a walk through them.

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
          with R.dataflow():
              a: R.Tensor((4,), dtype="float32") = R.exp(x)
    -         b: R.Tensor((4,), dtype="float32") = R.tanh(x)
              c: R.Tensor((4,), dtype="float32") = R.negative(a)
    +         b: R.Tensor((4,), dtype="float32") = R.tanh(x)
              d: R.Tensor((4,), dtype="float32") = R.negative(b)
              gv: R.Tensor((4,), dtype="float32") = R.add(c, d)
              R.output(gv)
          return gv

From the inputs, a binding comes as soon as the walk meets it and has met all that it uses; from the
outputs, the same holds backwards, for its users. Where the order leaves a choice, bindings keep
theirs.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Iterable
from typing import Any

from ...base.errors import explain
from ...ir.transform import IRModule, PassContext
from ...ir.variables import vars_in
from ...relax import expr as rx
from ...relax.relations import definable_tir_vars_in_struct_info
from ...relax.transform.decorators import FunctionPass
from ...relax.transform.queries import BodyRewriter, used_vars

ORDERS = ("depth-first", "breadth-first")
DIRECTIONS = ("from-inputs", "from-outputs")
_Arrows = dict[rx.Var, dict[rx.Var, None]]


class TopologicalSort(FunctionPass, repr=False):
    """Orders the bindings of dataflow blocks by a walk through them.

    order: "depth-first" follows a value to its end before the next one; "breadth-first" takes all
        that can come next in turn.
    direction: "from-inputs", or "from-outputs".
    """

    order: str = "depth-first"
    direction: str = "from-inputs"

    def __post_init__(self) -> None:
        for what, allowed in (("order", ORDERS), ("direction", DIRECTIONS)):
            if getattr(self, what) not in allowed:
                got = repr(getattr(self, what))
                what = f"TopologicalSort: no such {what}"
                raise ValueError(explain(what, got=got, instead=f"one of {', '.join(allowed)}"))

    def run_function(self, func: rx.Function, mod: IRModule, ctx: PassContext) -> Any:
        return _Sorter(mod, self.order == ORDERS[0], self.direction == DIRECTIONS[0]).function(func)


class _Sorter(BodyRewriter):
    def __init__(self, mod: IRModule, deep: bool, forward: bool) -> None:
        super().__init__(mod)
        self.deep = deep
        self.forward = forward
        self.params: tuple[rx.Var, ...] = ()

    def function(self, func: rx.Function) -> rx.Function:
        self.params = (*self.params, *func.params)
        return super().function(func)

    def block(self, block: rx.BindingBlock, live_out: dict[rx.Var, None]) -> Any:
        uses = _uses(block)
        if not isinstance(block, rx.DataflowBlock):
            changed = [b.replace(value=self.value(b.value)) for b in block.bindings]
            same = all(map(operator.is_, changed, block.bindings))
            return block if same else block.replace(bindings=changed)
        users: _Arrows = {var: {} for used in uses.values() for var in (*used, *uses)}
        for var, used in uses.items():
            for other in used:
                users[other][var] = None
        if self.forward:
            outside = dict.fromkeys([*self.params, *(u for u in users if u not in uses)])
            free = [var for var, used in uses.items() if not used]
            order = self.walk([*outside, *free], users, uses)
        else:
            end = rx.Var("end")  # it uses the block's results
            outputs = [v for v in live_out if v in uses]
            follows = {v: dict.fromkeys(reversed(used)) for v, used in uses.items()}
            follows[end] = dict.fromkeys(reversed(outputs))
            for output in outputs:
                users.setdefault(output, {})[end] = None
            unused = [v for v in uses if not users.get(v)]
            order = self.walk([end, *reversed(unused)], follows, users)[::-1]
        by_var = {b.var: b for b in block.bindings}
        bindings = [by_var[v] for v in order if v in by_var]
        same = all(map(operator.is_, bindings, block.bindings))
        return block if same else rx.DataflowBlock(bindings, block.span)

    def walk(self, roots: list[rx.Var], follows: _Arrows, needs: _Arrows) -> list[rx.Var]:
        """The values that a walk from the roots meets, each after all that it needs."""
        met: dict[rx.Var, None] = {}
        waiting = deque(roots)
        while waiting:
            var = waiting.popleft()
            if var in met or not _all_in(needs.get(var, ()), met):
                continue
            met[var] = None
            if self.deep:
                waiting.extendleft(reversed(follows.get(var, {})))
            else:
                waiting += [v for v in follows.get(var, ()) if _all_in(needs.get(v, ()), met)]
        return list(met)


def _all_in(needed: Iterable[rx.Var], met: dict[rx.Var, None]) -> bool:
    return all(v in met for v in needed)


def _uses(block: rx.BindingBlock) -> _Arrows:
    """What each binding uses, in order; also the `match_cast` that defines a dimension of it."""
    casts: dict[Any, rx.Var] = {}
    uses: _Arrows = {}
    for binding in block.bindings:
        dims = (d for part in (binding.value, binding.var) for d in vars_in(part))
        uses[binding.var] = dict.fromkeys(
            [*used_vars(binding.value), *(casts[d] for d in dims if d in casts)]
        )
        if isinstance(binding, rx.MatchCast):
            for dim in definable_tir_vars_in_struct_info(binding.struct_info):
                casts.setdefault(dim, binding.var)
    return uses
