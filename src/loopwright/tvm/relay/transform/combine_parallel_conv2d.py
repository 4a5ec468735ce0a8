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
    same = all(a.attrs[name] == b.attrs[name] for name in _SHARED)
    return same and same_but_for(a, b, a.attrs.kernel_layout.index("O"))


def _joined(branches: list[Branch]) -> Call:
    axis = branches[0][0].attrs.kernel_layout.index("O")
    return with_joined_weights(branches, axis, "channels")


def _channel_position(conv: Call, rank: int) -> int:
    """The channel axis of an operand of some rank that is broadcast with the result."""
    return rank - (len(extents(conv)) - _channel_axis(conv))


def _fits(conv: Call, call: Call, i: int) -> bool:
    dims = extents(call.args[i])
    axis = _channel_position(conv, len(dims))
    return keeps_axes(conv, call) and axis >= 0 and dims[axis] == _channels(conv)


def _follow(value: Expr, branches: list[Branch], at: int) -> Call:
    def join(values: list[Any]) -> Any:
        axis = _channel_position(branches[0][0], len(extents(values[0])))
        return VIEWS["concatenate"](values, axis)

    return followed(value, branches, at, join)


def _parts(value: Expr, branches: list[Branch], at: int) -> list[Any]:
    axis = _channel_axis(branches[0][0])
    return slices(value, [_channels(b[0]) for b in branches], axis, axis + 1)


class CombineParallelConv2D(RelayPass):
    """Convolutions of one input that differ in their weights become one. min_num_branches: fewer
    convolutions of one input stay as they are."""

    min_num_branches: int = 3

    opt_level = 4

    def run_function(self, func: Function, mod: IRModule) -> Function:
        least = self.min_num_branches
        parts = (_supported, _same, _joined, _fits, _follow, _parts)
        return Combiner("nn.conv2d", least, *parts).run(func)
