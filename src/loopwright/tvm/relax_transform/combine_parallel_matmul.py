"""CombineParallelMatmul: products of one tensor with several weights become one product, which is split.

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((2, 16), dtype="float32"), q: R.Tensor((16, 8), dtype="float32"), k: R.Tensor((16, 4), dtype="float32")) -> R.Tuple(R.Tensor((2, 8), dtype="float32"), R.Tensor((2, 4), dtype="float32")):
          with R.dataflow():
    -         a: R.Tensor((2, 8), dtype="float32") = R.matmul(x, q)
    -         b: R.Tensor((2, 4), dtype="float32") = R.matmul(x, k)
    +         lv: R.Tensor((16, 12), dtype="float32") = R.concat((q, k), axis=1)
    +         lv1: R.Tensor((2, 12), dtype="float32") = R.matmul(x, lv, out_dtype="float32")
    +         lv2: R.Tuple(R.Tensor((2, 8), dtype="float32"), R.Tensor((2, 4), dtype="float32")) = R.split(lv1, indices_or_sections=[8], axis=1)
    +         a: R.Tensor((2, 8), dtype="float32") = lv2[0]
    +         b: R.Tensor((2, 4), dtype="float32") = lv2[1]
              R.output(a, b)
          return a, b

Where a bias follows each product, and then the same activation, these are combined too. One weight
of a group may have a width that is not known; it is the last one of the combined weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ...arith import Analyzer
from ...ir.prim_expr import IntImm
from ...ir.structural import structural_equal
from ...ir.transform import IRModule, PassContext
from ...relax import expr as rx
from ...relax import op as relax_op
from ...relax.analysis.variables import remove_all_unused, used_vars
from ...relax.dpl.rules import BlockRewriting
from ...relax.transform.decorators import FunctionPass
from ...relax.transform.products import is_call, shape_of

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")


class CombineParallelMatmul(FunctionPass, repr=False):
    """Products of one tensor with several weights become one product, which is split.

    check: called as check(tensor, weights, biases, {variable: value} of the block) for each group;
        where it answers False, the group stays. The biases are empty where they are not combined.
    """

    check: Callable[..., bool] | None = None

    def run_function(self, func: rx.Function, mod: IRModule, ctx: PassContext) -> Any:
        return _Combine(mod, self.check).function(func)


@dataclass(frozen=True)
class _Branch:
    """A product of a group, its weight, and what dimensions the weight has."""

    var: rx.Var
    weight: Any
    batch: tuple[Any, ...]
    width: Any


class _Combine(BlockRewriting):
    def __init__(self, mod: IRModule, check: Callable[..., bool] | None) -> None:
        super().__init__(mod)
        self.check = check
        self.refused: set[tuple[rx.Var, ...]] = set()

    def rewrite_block(self, block: rx.BindingBlock) -> rx.BindingBlock:
        if not isinstance(block, rx.DataflowBlock):
            return block
        values = {b.var: b.value for b in block.bindings}
        for branches, later in _groups(values):
            group = tuple(b.var for b in branches)
            if len(group) < 2 or group in self.refused or not _same_batch(branches):
                continue
            news = self.combined(values[group[0]].args[0], branches, later, values)
            if news is None:
                self.refused.add(group)
                continue
            changed = self.replaced(block, news, self.combined, False)
            assert isinstance(changed, rx.DataflowBlock)  # the branches are independent
            return remove_all_unused(changed)
        return block

    def combined(
        self, x: rx.Var, branches: list[_Branch], later: set[rx.Var], values: dict[rx.Var, Any]
    ) -> dict[rx.Var, Any] | None:
        """The new values of the last variables of the branches; None if they are to stay."""
        tails = [b.var for b in branches]
        users = _users(values)
        added = [_only_user(t, users, values) for t in tails]
        biases = _biases(branches, added, later)
        if self.check and not self.check(x, [b.weight for b in branches], biases or [], values):
            return None
        rank = branches[0].weight.struct_info.ndim
        whole = relax_op.concat([b.weight for b in branches], rank - 1)
        out = relax_op.matmul(x, whole, tails[0].struct_info.dtype)
        if biases:
            out = relax_op.add(out, relax_op.concat(biases, biases[0].struct_info.ndim - 1))
            tails = [var for var, _ in added]
        ends = [_only_user(t, users, values) for t in tails]
        if _same_activation([value for _, value in ends]):
            out = ends[0][1].replace(args=(out,))
            tails = [var for var, _ in ends]
        cuts = [sum(b.width.value for b in branches[: n + 1]) for n in range(len(branches) - 1)]
        parts = relax_op.split(out, cuts, tails[0].struct_info.ndim - 1)
        return {tail: rx.TupleGetItem(parts, n) for n, tail in enumerate(tails)}


def _key(value: rx.Expr) -> Any:
    """What products that can be combined have in common; None: not such a product."""
    if not is_call(value, "relax.matmul") or not isinstance(value.args[0], rx.Var):
        return None
    x, weight = value.args
    shape, rank = shape_of(weight), weight.struct_info.ndim
    if shape is None or rank < 2 or shape_of(value) is None:
        return None
    return x, rank, str(weight.struct_info.dtype), str(value.struct_info.dtype)


def _groups(values: dict[rx.Var, Any]) -> Iterator[tuple[list[_Branch], set[rx.Var]]]:
    """Products that can be combined, as none of them needs another one: those weights last whose width is
    not known; and the variables that need one of them."""
    left: dict[Any, dict[rx.Var, None]] = {}
    for var, value in values.items():
        left.setdefault(_key(value), {})[var] = None
    left.pop(None, None)
    for products in left.values():
        while products:
            fixed: list[_Branch] = []
            open_ones: list[_Branch] = []
            later: set[rx.Var] = set()
            for var, value in values.items():
                needs = not later.isdisjoint(used_vars(value))
                if var in products and not needs:
                    shape = list(shape_of(value.args[1]) or ())
                    branch = _Branch(var, value.args[1], tuple(shape[:-2]), shape[-1])
                    is_fixed = isinstance(branch.width, IntImm)
                    if is_fixed or not open_ones:
                        (fixed if is_fixed else open_ones).append(branch)
                        needs = True
                        del products[var]
                if needs:
                    later.add(var)
            yield fixed + open_ones, later


def _same_batch(branches: list[_Branch]) -> bool:
    equal = Analyzer().can_prove_equal
    return all(all(map(equal, b.batch, branches[0].batch)) for b in branches)


def _users(values: dict[rx.Var, Any]) -> dict[rx.Var, list[rx.Var]]:
    users: dict[rx.Var, list[rx.Var]] = {}
    for var, value in values.items():
        for used in used_vars(value):
            users.setdefault(used, []).append(var)
    return users


def _only_user(
    var: rx.Var, users: dict[rx.Var, list[rx.Var]], values: dict[rx.Var, Any]
) -> tuple[rx.Var, Any]:
    """The one binding that uses a variable; itself and None if it has other uses."""
    uses = users.get(var, [])
    if len(uses) != 1 or not isinstance(var, rx.DataflowVar):
        return var, None
    return uses[0], values[uses[0]]


def _biases(
    branches: list[_Branch], added: list[tuple[rx.Var, Any]], later: set[rx.Var]
) -> list[Any] | None:
    """The biases that are added to the products, if they can be joined."""
    biases = []
    for branch, (_, value) in zip(branches, added, strict=True):
        if not is_call(value, "relax.add") or value.args[0] is not branch.var:
            return None
        bias = value.args[1]
        shape = shape_of(bias)
        if not shape or bias in later or not Analyzer().can_prove_equal(shape[-1], branch.width):
            return None
        biases.append(bias)
    fronts = [(shape_of(b) or ())[:-1] for b in biases]
    return biases if all(structural_equal(front, fronts[0]) for front in fronts) else None


def _same_activation(values: list[Any]) -> bool:
    """Whether all are calls of one activation with the same attributes."""
    if not any(is_call(values[0], f"relax.nn.{name}") for name in ACTIVATIONS):
        return False
    first = values[0]
    return all(is_call(v, first.op.name) and structural_equal(v.attrs, first.attrs) for v in values)
