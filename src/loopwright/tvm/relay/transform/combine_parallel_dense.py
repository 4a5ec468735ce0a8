"""CombineParallelDense: dense layers of one input become one product.

    before: (nn.dense(%x, %w1), nn.dense(%x, %w2), nn.dense(%x, %w3))
    after:  %0 = nn.batch_matmul(stack((%x, %x, %x)), stack((%w1, %w2, %w3))); squeezed parts of
            split(%0, 3)

With to_batch=False the weights are put below each other, and may have different numbers of units.
"""

from __future__ import annotations

from typing import Any

from ....ir.module import IRModule
from ....ir.op import Op
from ..expr import Call, Expr, Function
from ..operators.core import VIEWS
from .base import RelayPass
from .combine_parallel import (
    Branch,
    Combiner,
    extents,
    followed,
    keeps_axes,
    same_but_for,
    slices,
    with_joined_weights,
)


def _units(dense: Call) -> Any:
    return extents(dense.args[1])[0]


def _supported(dense: Call) -> bool:
    return len(extents(dense.args[0])) == 2 and isinstance(_units(dense), int)


# ---------------------------------------------------------------------- to one batch


def _same_batch(a: Call, b: Call) -> bool:
    return a.attrs.out_dtype == b.attrs.out_dtype and same_but_for(a, b, -1)


def _batch_joined(branches: list[Branch]) -> Call:
    data = VIEWS["stack"]([b[0].args[0] for b in branches], axis=0)
    weight = VIEWS["stack"]([b[0].args[1] for b in branches], axis=0)
    return VIEWS["nn.batch_matmul"](data, weight, branches[0][0].attrs.out_dtype)


def _batch_follow(value: Expr, branches: list[Branch], at: int) -> Call:
    rank = len(extents(branches[0][at]))

    def join(values: list[Any]) -> Any:
        wide = len(extents(values[0])) >= rank
        return VIEWS["stack"]([v if wide else VIEWS["expand_dims"](v, 0) for v in values], axis=0)

    return followed(value, branches, at, join)


def _batch_fits(dense: Call, call: Call, i: int) -> bool:
    return keeps_axes(dense, call) and len(extents(call.args[i])) >= 1


def _batch_parts(value: Expr, branches: list[Branch], at: int) -> list[Any]:
    pieces = VIEWS["split"](value, len(branches))
    return [VIEWS["squeeze"](piece, [0]) for piece in pieces]


# ---------------------------------------------------------------------- to one matrix


def _same_flat(a: Call, b: Call) -> bool:
    return a.attrs.out_dtype == b.attrs.out_dtype and same_but_for(a, b, 0)


def _flat_joined(branches: list[Branch]) -> Call:
    return with_joined_weights(branches, 0, "units")


def _flat_fits(dense: Call, call: Call, i: int) -> bool:
    dims = extents(call.args[i])
    return not dims or dims[-1] in (1, _units(dense))


def _flat_follow(value: Expr, branches: list[Branch], at: int) -> Call:
    def join(values: list[Any]) -> Any:
        axis = max(0, len(extents(values[0])) - 1)
        return VIEWS["concatenate"](list(map(_per_unit, values, branches)), axis)

    return followed(value, branches, at, join)


def _per_unit(operand: Expr, branch: Branch) -> Any:
    """An operand with an element for each unit of a branch."""
    dims, units = extents(operand), _units(branch[0])
    if not dims:
        return VIEWS["repeat"](VIEWS["expand_dims"](operand, -1), units, 0)
    return operand if dims[-1] == units else VIEWS["repeat"](operand, units, len(dims) - 1)


def _flat_parts(value: Expr, branches: list[Branch], at: int) -> list[Any]:
    sizes, rank = [_units(b[0]) for b in branches], len(extents(branches[0][at]))
    return slices(value, sizes, _units_axis(branches[0], at), rank)


def _units_axis(branch: Branch, at: int) -> int:
    """Where the units are in the result of a branch."""
    axis = 1
    for call in branch[1 : at + 1]:
        if call.op is Op.get("expand_dims"):
            first = int(call.attrs.axis)
            rank = len(extents(call.args[0]))
            first = first + rank + 1 if first < 0 else first
            axis += int(call.attrs.num_newaxis) if first <= axis else 0
        else:
            axis += len(extents(call)) - len(extents(call.args[0]))
    return axis


class CombineParallelDense(RelayPass):
    """Dense layers of one input become one product. min_num_branches: fewer layers of one input
    stay as they are."""

    min_num_branches: int = 3
    to_batch: bool = True

    opt_level = 4

    def run_function(self, func: Function, mod: IRModule) -> Function:
        batch = (_same_batch, _batch_joined, _batch_fits, _batch_follow, _batch_parts)
        flat = (_same_flat, _flat_joined, _flat_fits, _flat_follow, _flat_parts)
        steps = batch if self.to_batch else flat
        return Combiner("nn.dense", self.min_num_branches, _supported, *steps).run(func)
