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
from .combine_parallel import Branch, Combiner, extents, keeps_axes, same_extent


def _columns(product: Call) -> Any:
    return extents(product)[2]


def _row_axis(product: Call) -> int:
    """The axis of the right side that becomes the columns of the result."""
    return 1 if product.attrs.transpose_b else 2


def _supported(product: Call) -> bool:
    return isinstance(_columns(product), int)


def _same(a: Call, b: Call) -> bool:
    axis = _row_axis(a)
    if any(a.attrs[n] != b.attrs[n] for n in ("out_dtype", "transpose_a", "transpose_b")):
        return False
    pairs = enumerate(zip(extents(a.args[1]), extents(b.args[1]), strict=True))
    return all(same_extent(x, y) for i, (x, y) in pairs if i != axis)


def _joined(branches: list[Branch]) -> Call:
    first = branches[0][0]
    right = VIEWS["concatenate"]([b[0].args[1] for b in branches], axis=_row_axis(first))
    return Call(first.op, [first.args[0], right], first.attrs)


def _fits(product: Call, call: Call, i: int) -> bool:
    dims = extents(call.args[i])
    return keeps_axes(product, call) and bool(dims) and dims[-1] == _columns(product)


def _follow(value: Expr, branches: list[Branch], at: int) -> Call:
    call = branches[0][at]
    rest = [
        VIEWS["concatenate"]([b[at].args[i] for b in branches], axis=-1)
        for i in range(1, len(call.args))
    ]
    return Call(call.op, [value, *rest], call.attrs)


def _parts(value: Expr, branches: list[Branch], at: int) -> list[Any]:
    begin, parts = 0, []
    for branch in branches:
        count = _columns(branch[0])
        low, size = [0, 0, begin], [-1, -1, count]
        slices = VIEWS["strided_slice"]
        parts.append(slices(value, low, size, strides=[1, 1, 1], slice_mode="size"))
        begin += count
    return parts


class CombineParallelBatchMatmul(RelayPass):
    """Products of one left side become one. min_num_branches: fewer products of one input stay as
    they are."""

    min_num_branches: int = 3

    opt_level = 4

    def run_function(self, func: Function, mod: IRModule) -> Function:
        least = self.min_num_branches
        parts = (_supported, _same, _joined, _fits, _follow, _parts)
        return Combiner("nn.batch_matmul", least, *parts).run(func)
