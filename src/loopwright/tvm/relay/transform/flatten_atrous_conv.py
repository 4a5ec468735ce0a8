"""FlattenAtrousConv: a convolution between space_to_batch_nd and its inverse becomes a dilated one.

before: nn.batch_to_space_nd(nn.conv2d(nn.space_to_batch_nd(%x, block_shape=[2, 2], ...), %w), ...)
after:  nn.conv2d(%x, %w, dilation=[2, 2], padding=...)
"""

from __future__ import annotations

from typing import Any

from ..expr import Call
from ..walk import name_of
from .base import RelayPass


class FlattenAtrousConv(RelayPass):
    """A convolution between space_to_batch_nd and its inverse becomes a dilated one."""

    opt_level = 0

    operators = ("nn.batch_to_space_nd",)

    def replaced(self, old: Call, new: Call) -> Any:
        return _flattened(new)


def _flattened(back: Call) -> Any:
    conv = back.args[0]
    if name_of(conv) != "nn.conv2d" or name_of(conv.args[0]) != "nn.space_to_batch_nd":
        return None
    there = conv.args[0]
    block = [int(b) for b in back.attrs.block_shape]
    pads = [[int(v) for v in pair] for pair in there.attrs.paddings]
    crops = [[int(v) for v in pair] for pair in back.attrs.crops]
    if [int(b) for b in there.attrs.block_shape] != block or len(block) != 2:
        return None
    value = getattr(there.attrs, "pad_value", 0)
    if float(getattr(value, "value", value)) or not _plain(conv):
        return None
    # The zeros that remain once the crops took theirs are the dilated convolution's.
    left = [p[0] - c[0] for p, c in zip(pads, crops, strict=True)]
    right = [p[1] - c[1] for p, c in zip(pads, crops, strict=True)]
    if min(*left, *right) < 0:
        return None
    values = {**conv.attrs.values, "padding": (*left, *right), "dilation": tuple(block)}
    return conv.replace(
        args=(there.args[0], *conv.args[1:]), attrs=conv.attrs.replace(values=values)
    )


def _plain(conv: Call) -> bool:
    """Whether a convolution moves by one and pads nothing, over the axes that blocks are made of."""
    attrs = conv.attrs
    ones = all(int(v) == 1 for v in (*attrs.strides, *attrs.dilation))
    return ones and not any(int(p) for p in attrs.padding) and attrs.data_layout == "NHWC"
