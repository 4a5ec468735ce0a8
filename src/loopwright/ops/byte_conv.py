"""Convolutions of bytes, added in int32, in any layout.

In blocks of channels their products are those of one instruction, as in matrix products: the weights hold
four inputs of each output side by side (OIHW4i16o4i), and a copy of the image has its zero point around it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..relax.expr import Call, Constant
from ..relax.layout import PLAIN_CONVOLUTIONS, LayoutPlan, LayoutQuery
from ..te.tensor import Tensor as TeTensor
from ..tir.tensor_intrin.instructions import FACTS, PAIRS_FIT
from .conv import (
    ConvPlan,
    conv_arguments,
    conv_info,
    convolve,
    moved_conv,
    numpy_conv,
)
from .core import Operator, case, op
from .integer import check_dtypes, random_bytes
from .layout import pack_weight
from .layout_rules import numbered
from .params import Ints, Tensor

DEPTH = 4  # products of an instruction


def _make(rank: int) -> Operator:
    letters = "DHW"[3 - rank :]
    data_default, kernel_default = f"NC{letters}", f"OI{letters}"

    def body(
        data: Tensor, weight: Tensor, zero: Tensor, strides: Ints = (1,) * rank,
        padding: Ints = (0,) * rank, dilation: Ints = (1,) * rank, groups: int = 1,
        data_layout: str = data_default, kernel_layout: str = kernel_default,
        out_layout: str | None = None, narrow: bool = False,
    ):  # fmt: skip
        plan = ConvPlan(data.shape, weight.shape, strides, padding, dilation, groups)
        plan.layouts(data_layout, kernel_layout, out_layout, rank)
        fill = zero() if isinstance(zero, TeTensor) else zero
        facts = {FACTS: [PAIRS_FIT]} if narrow else None
        return convolve(plan, data, weight, "int32", fill, facts)

    body.__name__ = f"byte_conv{rank}d"
    body.__doc__ = (
        f"{rank}-D convolution of uint8 or int8 by int8, in int32: `relax.nn.conv{rank}d` of an image around "
        "which is `zero`, a scalar of its dtype. narrow: any two bytes of its dtype times the weights of two "
        "adjacent inputs of an output (in depthwise ones: pixels) add up to 16 bits."
    )
    operator = op(f"relax.nn.byte_conv{rank}d")(body)
    operator.build(lambda **arguments: conv_arguments(rank, arguments))

    @operator.infer
    def _(data, weight, zero, narrow, **attrs):
        check_dtypes(data=(data, "uint8", "int8"), weight=(weight, "int8"))
        check_dtypes(zero=(zero, str(data.dtype)))
        return conv_info(rank, data, weight, "int32", **attrs)

    @operator.numpy
    def _(data, weight, zero, narrow, **attrs):
        return numpy_conv(data, weight, **attrs, out_dtype="int32", fill=zero)

    operator.layout(_byte_layout)
    operator.samples(*_cases(rank))
    return operator


def _byte_layout(call: Call, query: LayoutQuery) -> LayoutPlan | None:
    """As other convolutions; in blocks of channels where the weight is a constant. A plain image is packed as it is
    copied."""
    if not query.block:
        return moved_conv(call, query)
    attrs, weight, size = call.attrs, call.args[1], query.block
    plain, weights = attrs.data_layout, attrs.kernel_layout
    fits = attrs.out_layout == plain and (plain, weights) in PLAIN_CONVOLUTIONS
    if not (size % DEPTH == 0 and fits and isinstance(weight, Constant)):
        return None
    if attrs.groups != 1:
        return _depthwise_layout(call, size, weight)
    channels = weight.data.shape[1]
    image = numbered(f"{plain}{size}c", plain)
    changed = {"out_layout": f"{plain}{size}c"}
    source = image if query.inputs[0] is not None else None
    if source is not None:
        changed["data_layout"] = f"{plain}{size}c"
    read = min(-(-channels // DEPTH) * DEPTH, size)  # of a block: its padding is not read
    inputs = f"{read // DEPTH}i" if read > DEPTH else ""
    changed["kernel_layout"] = kernel_layout = f"{weights}{inputs}{size}o{DEPTH}i"
    one_tap = {*weight.data.shape[2:], *attrs.strides} == {1} and not any(attrs.padding)
    pixels = "merged" if one_tap and source is not None else "apart"
    packed = {1: pack_weight.builder(weight, kernel_layout)}
    return LayoutPlan((source, None, None), (image,), changed, packed, pixels=pixels)


def _depthwise_layout(call: Call, size: int, weight: Constant) -> LayoutPlan | None:
    """Blocks of channels; the last side of a window is filled up to whole instructions, and so the image."""
    attrs, kernel = call.attrs, weight.data.shape
    channels = kernel[0]
    if attrs.groups != channels or kernel[1] != 1 or attrs.dilation[-1] != 1:
        return None
    plain = f"{attrs.data_layout}{size}c"
    kernel_layout = f"{attrs.kernel_layout}{size}o{DEPTH}w"
    *padding, last = map(int, attrs.padding)
    changed = {
        "data_layout": plain, "out_layout": plain, "kernel_layout": kernel_layout,
        "groups": -(-channels // size) * size, "padding": [*padding, last + -kernel[-1] % DEPTH],
    }  # fmt: skip
    image = numbered(plain, attrs.data_layout)
    packed = {1: pack_weight.builder(weight, kernel_layout)}
    return LayoutPlan((image, None, None), (image,), changed, packed)


def _cases(rank: int) -> list[Any]:
    data, window = {1: (9,), 2: (6, 7), 3: (4, 5, 4)}[rank], (3,) * rank
    weight, zero = random_bytes(6, 4, *window, dtype="int8"), np.uint8(7)
    letters = "DHW"[3 - rank :]
    packed = random_bytes(2, 1, *window, 2, 8, 4, dtype="int8")
    blocks: dict[str, Any] = {"data_layout": f"NC{letters}8c", "out_layout": f"NC{letters}8c"}
    return [
        case(random_bytes(2, 4, *data), weight, zero, padding=(1,) * rank, narrow=True),
        case(random_bytes(1, 4, *data, dtype="int8"), weight, np.int8(-3), strides=(2,) * rank),
        case(
            random_bytes(1, 1, *data, 8), packed, zero, padding=(1,) * rank, **blocks,
            kernel_layout=f"OI{letters}2i8o4i",
        ),
        case(
            random_bytes(1, 8, *data), packed, zero, padding=(1,) * rank,
            kernel_layout=f"OI{letters}2i8o4i", out_layout=f"NC{letters}8c",
        ),
    ]  # fmt: skip


byte_conv1d, byte_conv2d, byte_conv3d = (_make(rank) for rank in (1, 2, 3))
