"""com.microsoft.nchwc: what onnxruntime saves after its layout optimization (level "all" on a CPU).

Its tensors have channels in blocks: in memory [N, C / block, H, W, block], while the shape says [N, C, H, W] with
C rounded up to whole blocks. Here they are plain NCHW of that shape, which Add, Concat and similar between them
do not distinguish; our own passes choose layouts (docs/decisions/004-blocked-channels.md). Only weights are stored
in blocks. How many channels a block has is that of the machine that saved the model (MLAS: 16 with AVX-512 and on
ARM, else 8), and is not in the file.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....base.errors import explain
from ....base.host import native_arch, this_machine
from ...graph.values import Value, literal
from ..context import OnnxContext as Context
from ..reader import Model, Node
from ..registry import converter
from .contrib import DOMAIN, first_channels, fused_conv, last_channels

_NCHWC = f"{DOMAIN}.nchwc"
_WIDE, _NARROW = 16, 8


def _block(cx: Context) -> int:
    """The channels of a block: the number that the model's weights allow, else those of this machine, as for
    onnxruntime."""
    return cx.walk.of_model(_block_of)


def _block_of(model: Model) -> int:
    blocked = [n for n in model.nodes if n.domain == _NCHWC]
    convs = [n for n in blocked if n.op_type == "Conv" and n.inputs[1] in model.initializers]
    channels_of = {}  # channels by output
    for conv in convs:
        outs, ins = model.initializers[conv.inputs[1]].dims[:2]
        channels_of[conv.outputs[0]] = outs
        if outs % _WIDE or (ins > _NARROW and ins % _WIDE == _NARROW):
            return _NARROW
        if _NARROW < ins < _WIDE:
            return _WIDE
    for node in blocked:
        if node.op_type == "ReorderOutput":
            extra = channels_of.get(node.inputs[0], 0) - node.attributes.get("channels", 0)
            if node.inputs[0] in channels_of and extra >= _NARROW:
                return _WIDE
    wide = native_arch() == "aarch64" or "avx512f" in this_machine().record.features
    return _WIDE if wide else _NARROW


@converter("ReorderInput", domain=_NCHWC)
def reorder_input(cx: Context, node: Node, x: Value) -> Any:
    x = first_channels(cx, x) if node.flag("channels_last") else x
    channels = literal(x.shape[1])
    if not isinstance(channels, int):
        raise ValueError(explain("the channels must be known", got=str(x.info)))
    more = -channels % _block(cx)
    return cx.onnx.Pad(x, [0, 0, 0, 0, 0, more, 0, 0]) if more else x


@converter("ReorderOutput", domain=_NCHWC)
def reorder_output(cx: Context, node: Node, x: Value) -> Any:
    x = cx.onnx.Slice(x, [0], [node.integer("channels")], [1])
    return last_channels(cx, x) if node.flag("channels_last") else x


@converter("Conv", domain=_NCHWC)
def conv(
    cx: Context, node: Node, x: Value, w: Value, b: Value | None = None, z: Value | None = None
) -> Any:
    stored = w.constant
    if stored is None:
        raise ValueError(
            explain("the weight of a blocked convolution is a constant", got=str(w.info))
        )
    return fused_conv(cx, node, x, cx.literal(_plain(stored, _block(cx))), b, z)


def _plain(stored: np.ndarray, block: int) -> np.ndarray:
    """A weight [O, I, H, W] whose memory is in blocks of outputs, and of inputs unless these are fewer than a
    block: [O / block, I / block, H, W, block of I, block of O], or [O / block, I, H, W, block of O]."""
    outs, ins, *window = stored.shape
    inner = 1 if ins < block else block
    if outs % block or ins % inner:
        what = "a blocked weight has whole blocks of channels"
        raise ValueError(explain(what, got=f"{stored.shape} in blocks of {block}"))
    blocks = stored.reshape(outs // block, ins // inner, *window, inner, block)
    return np.ascontiguousarray(blocks.transpose(0, 5, 1, 4, 2, 3)).reshape(stored.shape)


@converter("Upsample", domain=_NCHWC)
def upsample(cx: Context, node: Node, x: Value) -> Any:
    scales = np.float32(node.integers("scales"))
    attrs = {
        "coordinate_transformation_mode": node.text("coordinate_transformation_mode", "asymmetric")
    }
    mode = node.text("mode", "nearest")
    return cx.onnx.Resize(x, None, scales, mode=mode, nearest_mode="floor", **attrs)


@converter("MaxPool", domain=_NCHWC)
@converter("AveragePool", domain=_NCHWC)
@converter("GlobalMaxPool", domain=_NCHWC)
@converter("GlobalAveragePool", domain=_NCHWC)
def pool(cx: Context, node: Node, x: Value) -> Any:
    node.skip(*node.attributes)
    return getattr(cx.onnx, node.op_type)(x, **node.attributes)
