"""CombineParallelBatchMatmul: products of one left side become one.

before: (nn.batch_matmul(%x, %w1), nn.batch_matmul(%x, %w2), nn.batch_matmul(%x, %w3))
after:  %0 = nn.batch_matmul(%x, concatenate((%w1, %w2, %w3), axis=1)), and slices of it
"""

from __future__ import annotations

from typing import Any

from ....ir.module import IRModule
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


def _columns(product: Call) -> Any:
    return extents(product)[2]


def _row_axis(product: Call) -> int:
    """The axis of the right side that becomes the columns of the result."""
    return 1 if product.attrs.transpose_b else 2


def _supported(product: Call) -> bool:
    return isinstance(_columns(product), int)


def _same(a: Call, b: Call) -> bool:
    if any(a.attrs[n] != b.attrs[n] for n in ("out_dtype", "transpose_a", "transpose_b")):
        return False
    return same_but_for(a, b, _row_axis(a))


def _joined(branches: list[Branch]) -> Call:
    return with_joined_weights(branches, _row_axis(branches[0][0]))


def _fits(product: Call, call: Call, i: int) -> bool:
    dims = extents(call.args[i])
    return keeps_axes(product, call) and bool(dims) and dims[-1] == _columns(product)


def _follow(value: Expr, branches: list[Branch], at: int) -> Call:
    return followed(value, branches, at, lambda values: VIEWS["concatenate"](values, -1))


def _parts(value: Expr, branches: list[Branch], at: int) -> list[Any]:
    return slices(value, [_columns(b[0]) for b in branches], 2, 3)


class CombineParallelBatchMatmul(RelayPass):
    """Products of one left side become one. min_num_branches: fewer products of one input stay as
    they are."""

    min_num_branches: int = 3

    opt_level = 4

    def run_function(self, func: Function, mod: IRModule) -> Function:
        least = self.min_num_branches
        parts = (_supported, _same, _joined, _fits, _follow, _parts)
        return Combiner("nn.batch_matmul", least, *parts).run(func)
