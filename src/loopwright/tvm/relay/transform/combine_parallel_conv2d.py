"""CombineParallelConv2D: convolutions of one input that differ in their weights become one.

before: (nn.conv2d(%x, %w1), nn.conv2d(%x, %w2), nn.conv2d(%x, %w3))
after:  %0 = nn.conv2d(%x, concatenate((%w1, %w2, %w3), axis=0), channels=...), and slices of it
"""

from __future__ import annotations

from typing import Any

from ....ir.module import IRModule
from ..expr import Call, Expr, Function
from ..operators.core import VIEWS
from .base import RelayPass
from .combine_parallel import Branch, Combiner, extents, keeps_axes, same_extent

# What two convolutions that become one have in common; their channels are those of the weights.
_SHARED = (
    "strides", "padding", "dilation", "groups", "data_layout", "kernel_layout", "out_dtype",
    "out_layout",
)  # fmt: skip


def _channels(conv: Call) -> Any:
    return extents(conv.args[1])[conv.attrs.kernel_layout.index("O")]


def _channel_axis(conv: Call) -> int:
    return (conv.attrs.out_layout or conv.attrs.data_layout).index("C")


def _supported(conv: Call) -> bool:
    plain = int(conv.attrs.groups) == 1 and conv.attrs.kernel_layout.isalpha()
    return plain and conv.attrs.data_layout.isalpha() and isinstance(_channels(conv), int)


def _same(a: Call, b: Call) -> bool:
    if any(a.attrs[name] != b.attrs[name] for name in _SHARED):
        return False
    axis = a.attrs.kernel_layout.index("O")
    pairs = list(zip(extents(a.args[1]), extents(b.args[1]), strict=True))
    return all(same_extent(x, y) for i, (x, y) in enumerate(pairs) if i != axis)


def _joined(branches: list[Branch]) -> Call:
    first = branches[0][0]
    axis = first.attrs.kernel_layout.index("O")
    weight = VIEWS["concatenate"]([b[0].args[1] for b in branches], axis)
    total = sum(_channels(b[0]) for b in branches)
    values = {**first.attrs.values, "channels": total}
    return Call(first.op, [first.args[0], weight], first.attrs.replace(values=values))


def _channel_position(conv: Call, rank: int) -> int:
    """The channel axis of an operand of some rank that is broadcast with the result."""
    return rank - (len(extents(conv)) - _channel_axis(conv))


def _fits(conv: Call, call: Call, i: int) -> bool:
    dims = extents(call.args[i])
    axis = _channel_position(conv, len(dims))
    return keeps_axes(conv, call) and axis >= 0 and dims[axis] == _channels(conv)


def _follow(value: Expr, branches: list[Branch], at: int) -> Call:
    call = branches[0][at]
    args = [value]
    for i, arg in enumerate(call.args[1:], 1):
        axis = _channel_position(branches[0][0], len(extents(arg)))
        args.append(VIEWS["concatenate"]([b[at].args[i] for b in branches], axis))
    return Call(call.op, args, call.attrs)


def _parts(value: Expr, branches: list[Branch], at: int) -> list[Any]:
    first = branches[0][0]
    axis = _channel_axis(first)
    begin, parts = 0, []
    for branch in branches:
        count = _channels(branch[0])
        low = [begin if i == axis else 0 for i in range(axis + 1)]
        size = [count if i == axis else -1 for i in range(axis + 1)]
        slices = VIEWS["strided_slice"]
        parts.append(slices(value, low, size, strides=[1] * (axis + 1), slice_mode="size"))
        begin += count
    return parts


class CombineParallelConv2D(RelayPass):
    """Convolutions of one input that differ in their weights become one. min_num_branches: fewer
    convolutions of one input stay as they are."""

    min_num_branches: int = 3

    opt_level = 4

    def run_function(self, func: Function, mod: IRModule) -> Function:
        least = self.min_num_branches
        parts = (_supported, _same, _joined, _fits, _follow, _parts)
        return Combiner("nn.conv2d", least, *parts).run(func)
