"""What the rules of layouts answer (`operators.layouts`): arguments -> results, and attributes that change."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright import IRModule, relay
from loopwright.relay.transform import InferType
from loopwright.tir import layout

pytestmark = pytest.mark.no_roundtrip
nn = relay.nn


def t(*shape: int) -> relay.Var:
    return relay.var("t", shape=shape)


x = t(2, 8, 4, 6)
open_channels = relay.var("d", relay.TensorType((2, relay.Any(), 4, 6)))

# a call, the layouts by which its arguments were named ("-": not known), those in which they are stored
# now ("": nothing moved yet), and the answer; None: the rule gives up
RULES: list[tuple[Any, str, str, str | None]] = [
    (x + t(2, 8, 4, 6), "NCHW NCHW", "", "NCHW,NCHW -> NCHW"),
    (x + t(2, 8, 4, 6), "- NCHW", "", "NCHW,NCHW -> NCHW"),
    (x + t(2, 8, 4, 6), "NCHW -", "", "NCHW,NCHW -> NCHW"),
    (x + t(2, 8, 4, 6), "- -", "", None),
    (x + t(4, 6), "- HW", "", None),
    (x + t(4, 6), "NCHW -", "", "NCHW,HW -> NCHW"),
    (t(4, 6) + x, "- NCHW", "", "HW,NCHW -> NCHW"),
    (t(4, 6) + x, "HW NCHW", "HW NCHW4c", "NCHW1c,NCHW4c -> NCHW4c"),
    (x + t(8, 1, 1), "NCHW CHW", "NCHW4c CHW", "NCHW4c,NCHW4c -> NCHW4c"),
    (x + t(1, 4, 6), "NCHW CHW", "NCHW4c CHW", "NCHW4c,NCHW1c -> NCHW4c"),
    (x + t(4, 6), "NCHW HW", "NHWC HW", "NHWC,NHWC -> NHWC"),
    (x + t(4, 6), "NCHW AB", "NCHW2h AB", "NCHW2h,NCAB2a -> NCHW2h"),
    (x + t(4, 6), "NCHW CN", "NCHW4c CN", "NCHW4c,BACN1a -> NCHW4c"),
    (t(4, 6) + t(6), "HW W", "HW CHW", None),
    (t(4, 6) + t(6), "HW W", "HW HW", "HW,HW -> HW"),
    (t(4, 6) + t(6), "HW W", "WH W", "WH,WH -> WH"),
    (x + relay.const(1.0), "NCHW ''", "NHWC ''", "NHWC,'' -> NHWC"),
    (t(2, 2, 4, 6, 4) + t(4), "NCHW4c C", "NCHW4c C", None),
    (t(2, 2, 4, 6, 4) + t(6, 4), "NCHW4c WC", "NHWC WC", None),
    (t(2, 2, 4, 6, 4) + t(2, 1, 1, 4), "NCHW4c CHW4c", "NHWC CHW4c", "NHWC,NHWC -> NHWC"),
    (t(2, 2, 4, 6, 4) + t(2, 1, 1, 1), "NCHW4c CHW4c", "NCHW2c CHW4c", "NCHW2c,NCHW2c -> NCHW2c"),
    (t(2, 2, 4, 6, 4) + t(2, 1, 1, 4), "NCHW4c CHW2c", "NHWC CHW2c", None),
    (t(2, 2, 4, 6, 4) + t(2, 4, 6, 4), "NCHW4c CHWA", "NHWC CHWA", None),
    (t(1, 1, 2, 2, 8, 2) + t(1, 1, 2, 2, 8, 2), "IOX2i8o2i JPK2j8p2k", "XIO JPK", None),
    (t(1, 1, 2, 2, 8, 2) + t(1, 1, 2, 2, 8, 2), "IOX2i8o2x JPK2j8p2j", "XIO JPK", None),
    (
        t(1, 1, 2, 2, 8, 2) + t(1, 1, 2, 2, 8, 2),
        "IOX2i8o2i JPK2j8p2j",
        "XIO JPK2j8p2j",
        "XIO,KJP -> XIO",
    ),
    (relay.sum(x, 1), "NCHW", "NCHW", "NCHW -> NHW"),
    (relay.sum(x, 1), "NCHW", "", "NCHW -> NHW"),
    (relay.sum(x, 1), "-", "", None),
    (relay.sum(x), "NCHW", "NCHW", "NCHW -> ''"),
    (relay.sum(x), "NCHW", "NHWC", "NHWC -> '' {'axis': (0, 1, 2, 3)}"),
    (relay.sum(x, 1, exclude=True), "NCHW", "NCHW4c", "NCHW4c -> C4c {'axis': (1, 4)}"),
    (relay.sum(t(2, 2, 4, 6, 4), 4), "NCHW4c", "NCHW", "NCHW4c -> NCHW"),
    (relay.sum(t(2, 2, 4, 6, 4), 1, True), "NCHW4c", "NCHW4c", "NCHW4c -> NCHW4c"),
    (relay.sum(t(2, 2, 4, 6, 4), 1), "NCHW4c", "", None),
    (relay.sum(x, 1, True), "NCHW", "NCHW4c", "NCHW4c -> NCHW1c {'axis': (1, 4)}"),
    (relay.argmax(x, (1, 3)), "NCHW", "NHWC", "NCHW -> NH"),
    (relay.argmax(x, (1, 3)), "NCHW", "NCHW4c", "NCHW -> NH"),
    (relay.argmax(x, (2, 3)), "NCHW", "NHWC", "NHWC -> NC {'axis': (1, 2)}"),
    (relay.argmax(x, (2, 3)), "NCHW", "NWHC", "NCHW -> NC"),
    (relay.variance(x, 1), "NCHW NCHW", "NCHW4c NCHW", "NCHW4c,NCHW1c -> NHW {'axis': (1, 4)}"),
    (relay.variance(x, 1), "NCHW NCHW", "", "NCHW,NCHW -> NHW"),
    (relay.squeeze(t(1, 8, 1, 1)), "NCHW", "", "NCHW -> C"),
    (relay.squeeze(t(1, 8, 1, 1)), "-", "", None),
    (relay.squeeze(t(1, 8, 1, 1), [-1]), "NCHW", "NHWC", "NHWC -> NHC {'axis': (2,)}"),
    (relay.squeeze(t(1, 8, 1, 1), [0, 2]), "NCHW", "NCHW4c", "NCHW4c -> CW4c"),
    (relay.squeeze(t(2, 1, 4, 6), [1]), "NCHW", "NCHW1c", "NCHW -> NHW"),
    (relay.squeeze(t(2, 8, 4, 6, 1), [4]), "NCHW1c", "NCHW1c", "NCHW1c -> NCHW"),
    (relay.squeeze(t(2, 1, 4, 6, 4), [1]), "NCHW4c", "", None),
    (relay.transpose(x, (0, 2, 3, 1)), "NCHW", "", "NCHW -> NHWC"),
    (relay.transpose(x), "NCHW", "", "NCHW -> WHCN"),
    (relay.transpose(x, (0, -2, -1, 1)), "NCHW", "NHWC", "NHWC -> NHWC {'axes': (0, 1, 2, 3)}"),
    (relay.transpose(x), "-", "", None),
    (relay.transpose(x), "NCHW", "NCHW4c", "NCHW -> WHCN"),
    (
        relay.transpose(t(2, 8, 4, 6, 1)),
        "NCHW1c",
        "WHCN1c",
        "WHCN1c -> 1cWHCN {'axes': (4, 0, 1, 2, 3)}",
    ),
    (relay.transpose(t(2, 8, 4, 6, 1)), "NCHW1c", "NCHWD", "NCHW1c -> 1cWHCN"),
    (nn.pad(x, ((0, 0), (0, 0), (1, 0), (0, 2))), "NCHW ''", "", "NCHW,'' -> NCHW"),
    (nn.pad(x, ((0, 0), (0, 0), (1, 0), (0, 2))), "NCHW", "", "NCHW -> NCHW"),
    (nn.pad(x, ((0, 0), (0, 0), (1, 0), (0, 2))), "- ''", "", None),
    (
        nn.pad(x, ((0, 0), (0, 0), (1, 0), (0, 2))),
        "NCHW ''",
        "NCHW4c ''",
        "NCHW4c,'' -> NCHW4c {'pad_width': ((0, 0), (0, 0), (1, 0), (0, 2), (0, 0))}",
    ),
    (nn.pad(x, ((0, 0), (0, 1), (1, 0), (0, 2))), "NCHW ''", "NCHW4c ''", "NCHW,'' -> NCHW"),
    (nn.pad(x, ((0, 0), (1, 0), (1, 0), (0, 2))), "NCHW ''", "NCHW4c ''", "NCHW,'' -> NCHW"),
    (
        nn.pad(x, ((0, 0), (1, 0), (1, 0), (0, 2))),
        "NCHW ''",
        "NHWC ''",
        "NHWC,'' -> NHWC {'pad_width': ((0, 0), (1, 0), (0, 2), (1, 0))}",
    ),
    (
        nn.pad(t(2, 2, 4, 6, 4), ((0, 0), (0, 0), (1, 0), (0, 0), (0, 0))),
        "NCHW4c ''",
        "NCHW ''",
        "NCHW,'' -> NCHW {'pad_width': ((0, 0), (0, 0), (1, 0), (0, 0))}",
    ),
    (
        nn.pad(t(2, 2, 4, 6, 4), ((0, 0), (1, 0), (1, 0), (0, 0), (0, 0))),
        "NCHW4c ''",
        "NCHW ''",
        "NCHW4c,'' -> NCHW4c",
    ),
    (relay.slice_like(x, t(2, 4, 4, 6)), "NCHW NCHW", "", "NCHW,NCHW -> NCHW"),
    (relay.slice_like(x, t(2, 4, 4, 6)), "NCHW NHWC", "", None),
    (relay.slice_like(x, t(2, 4, 4, 6)), "- -", "", None),
    (
        relay.slice_like(x, t(2, 4, 4, 6), (1,)),
        "NCHW NCHW",
        "NHWC NHWC",
        "NHWC,NHWC -> NHWC {'axes': (3,)}",
    ),
    (relay.slice_like(x, t(2, 4, 4, 6)), "NCHW NCHW", "NHWC NHWC", "NCHW,NCHW -> NCHW"),
    (relay.slice_like(x, t(2, 4, 4, 6), (1, 2)), "NCHW NCHW", "NHWC NCHW", "NCHW,NCHW -> NCHW"),
    (relay.slice_like(x, t(2, 4, 4, 6), (1, 2)), "NCHW NCHW", "NCHW4c NCHW4c", "NCHW,NCHW -> NCHW"),
    (relay.split(x, 2, 1), "NCHW", "", "NCHW -> NCHW,NCHW"),
    (relay.split(x, 2, 1), "-", "", None),
    (relay.split(x, 2, 1), "NCHW", "NCHW4c", "NCHW4c -> NCHW4c,NCHW4c"),
    (relay.split(x, 2, 1), "NCHW", "NCHW8c", "NCHW -> NCHW,NCHW"),
    (relay.split(x, 2, 1), "NCHW", "NHWC", "NHWC -> NHWC,NHWC {'axis': 3}"),
    (
        relay.split(x, (4,), 1),
        "NCHW",
        "NCHW4c",
        "NCHW4c -> NCHW4c,NCHW4c {'indices_or_sections': (1,)}",
    ),
    (relay.split(x, (4, 6), 1), "NCHW", "NCHW4c", "NCHW -> NCHW,NCHW,NCHW"),
    (relay.split(x, (4, 6), 1), "NCHW", "NHWC", "NHWC -> NHWC,NHWC,NHWC {'axis': 3}"),
    (relay.split(t(2, 8, 4, 6, 4), 2, 4), "NCHW4c", "NHWC", "NCHW4c -> NCHW4c,NCHW4c"),
    (relay.split(t(2, 8, 4, 6, 4), 2, 1), "NCHW4c", "NCHW8c", "NCHW4c -> NCHW4c,NCHW4c"),
    (
        relay.split(t(2, 8, 4, 6, 4), 2, 1),
        "NCHW4c",
        "NHWC4c",
        "NHWC4c -> NHWC4c,NHWC4c {'axis': 3}",
    ),
    (relay.split(t(2, 8, 4, 6, 4), 2, 4), "NCHW4c", "NHWC4c", "NHWC4c -> NHWC4c,NHWC4c"),
    (relay.split(x, 2, 1), "NCHW", "NHW", "NCHW -> NCHW,NCHW"),
    (relay.split(open_channels, 2, 1), "NCHW", "NHWC", "NHWC -> NHWC,NHWC {'axis': 3}"),
    (relay.split(open_channels, 2, 1), "NCHW", "NCHW4c", "NCHW -> NCHW,NCHW"),
    (relay.split(open_channels, 2, 1), "NCHW", "NCHW1c", "NCHW1c -> NCHW1c,NCHW1c"),
    (relay.concatenate([x, x], 1), "NCHW NCHW", "", "NCHW,NCHW -> NCHW"),
    (relay.concatenate([x, x], 1), "- NCHW", "", "NCHW,NCHW -> NCHW"),
    (relay.concatenate([x, x], 1), "- -", "", None),
    (relay.concatenate([x, x], 1), "NCHW NCHW", "NHWC NHWC", "NHWC,NHWC -> NHWC {'axis': 3}"),
    (relay.concatenate([x, x], 1), "NCHW NCHW", "NHWC NCHW", "NCHW,NCHW -> NCHW"),
    (relay.concatenate([x, x], 1), "- NCHW", "NHWC NHWC", "NCHW,NCHW -> NCHW"),
    (relay.concatenate([t(2, 2, 4, 6, 4)] * 2, 4), "NCHW4c NCHW4c", "", None),
    (relay.concatenate([x, x], 1), "NCHW NCHW", "HWNA HWNA", None),
    (relay.concatenate([x, x], 1), "NCHW NCHW", "CNHW CNHW", "CNHW,CNHW -> CNHW {'axis': 0}"),
    (relay.topk(x, 2, 1), "NCHW", "NHWC", "NHWC -> NHWC,NHWC {'axis': 3}"),
    (relay.topk(x, 2, 1, "values"), "NCHW", "NHWC", "NHWC -> NHWC {'axis': 3}"),
    (relay.topk(x, 2, 1), "NCHW", "NCHW4c", "NCHW -> NCHW,NCHW"),
    (relay.topk(x, 2, 1), "-", "", None),
    (nn.l2_normalize(x, 1e-05, [1, 2]), "NCHW", "NHWC", "NHWC -> NHWC {'axis': (3, 1)}"),
    (nn.l2_normalize(x, 1e-05, [1, 2]), "NCHW", "NCHW4c", "NCHW -> NCHW"),
    (nn.dense(t(2, 8), t(3, 8)), "- -", "", "NC,NC -> NC"),
    (nn.dense(t(1, 1, 1, 1, 2, 8), t(3, 8)), "- -", "", "ABDENC,NC -> ABDENC"),
    (nn.dense(t(1, 1, 1, 1, 1, 2, 8), t(3, 8)), "- -", "", None),
    (nn.prelu(x, t(8)), "NCHW C", "NCHW4c C", "NCHW,C -> NCHW"),
    (nn.max_pool2d(x, (2, 2)), "NCHW", "", "NCHW -> NCHW"),
    (nn.max_pool2d(x, (2, 2)), "NCHW", "NCHW4c", "NCHW4c -> NCHW4c {'layout': 'NCHW4c'}"),
    (nn.max_pool2d(x, (2, 2)), "NCHW", "NWHC", "NCHW -> NCHW"),
    (nn.max_pool2d(x, (2, 2)), "NCHW", "NCHW2h", "NCHW -> NCHW"),
    (nn.max_pool2d(x, (2, 2)), "NHWC", "NCHW4c", "NCHW -> NCHW"),
    (nn.max_pool2d(x, (2, 2), out_layout="NHWC"), "NCHW", "NCHW4c", "NCHW -> NHWC"),
    (nn.max_pool2d(x, (2, 2)), "-", "", "NCHW -> NCHW"),
    (relay.image.resize2d(x, (9, 4)), "NCHW", "NCHW4c", "NCHW -> NCHW"),
    (relay.image.resize2d(x, (9, 4)), "NCHW", "NHWC", "NHWC -> NHWC {'layout': 'NHWC'}"),
    (nn.conv2d(x, t(3, 8, 1, 1)), "NHWC OIHW", "", "NCHW,OIHW -> NCHW"),
    (nn.conv2d(x, t(3, 8, 1, 1), out_layout="NHWC"), "- -", "", "NCHW,OIHW -> NHWC"),
    (nn.dropout(x), "NCHW", "", "NCHW -> NCHW,NCHW"),
    (nn.dropout(x), "NCHW", "NHWC", "NHWC -> NHWC,NHWC"),
    (nn.relu(x), "NCHW", "", "NCHW -> NCHW"),
    (
        nn.batch_norm(x, t(8), t(8), t(8), t(8)),
        "NCHW C C C C",
        "NHWC C C C C",
        "NHWC,C,C,C,C -> NHWC,C,C {'axis': 3}",
    ),
    (nn.layer_norm(x, t(8), t(8), axis=1), "NCHW C C", "NCHW4c C C", "NCHW,C,C -> NCHW"),
    (relay.strided_slice(x, [0, 4], [2, 8]), "NCHW", "", "NCHW -> NCHW"),
    (relay.strided_slice(x, [0, 4], [2, 8]), "-", "", None),
    (relay.strided_slice(x, [0, 4], [2, 8]), "NCHW", "NCHW", "NCHW -> NCHW"),
    (
        relay.strided_slice(x, [0, 4], [2, 8]),
        "NCHW",
        "NCHW4c",
        "NCHW4c -> NCHW4c {'begin': (0, 1), 'end': (2, 2), 'strides': (1, 1)}",
    ),
    (
        relay.strided_slice(x, [0, 4], [2, 8]),
        "NCHW",
        "NHWC",
        "NHWC -> NHWC {'begin': (0, 0, 0, 4), 'end': (2, 4, 6, 8), 'strides': (1, 1, 1, 1)}",
    ),
    (relay.strided_slice(x, [0, 2], [2, 8]), "NCHW", "NCHW4c", None),
    (relay.strided_slice(x, [0, 4], [2, 7]), "NCHW", "NCHW4c", None),
    (relay.strided_slice(x, [0, 0], [2, 8], [1, 2]), "NCHW", "NCHW4c", None),
    (relay.strided_slice(x, [0, 1], [2, 7], [1, 2]), "NCHW", "NCHW1c", "NCHW1c -> NCHW1c"),
    (
        relay.strided_slice(x, [0, 1], [2, 7], [1, 2]),
        "NCHW",
        "HWNC",
        "HWNC -> HWNC {'begin': (0, 0, 0, 1), 'end': (4, 6, 2, 7), 'strides': (1, 1, 1, 2)}",
    ),
    (relay.strided_slice(x, [1], [2]), "NCHW", "NHWC", "NHWC -> NHWC"),
    (
        relay.strided_slice(x, [1], [2]),
        "NCHW",
        "CNHW",
        "CNHW -> CNHW {'begin': (0, 1), 'end': (8, 2), 'strides': (1, 1)}",
    ),
    (
        relay.strided_slice(x, [1], [2]),
        "NCHW",
        "CNHW4c",
        "CNHW4c -> CNHW4c {'begin': (0, 1), 'end': (8, 2), 'strides': (1, 1)}",
    ),
    (
        relay.strided_slice(x, [1, 0, 2], [2]),
        "NCHW",
        "NHWC",
        "NHWC -> NHWC {'begin': (1, 2, 0, 0), 'end': (2, 4, 6, 8), 'strides': (1, 1, 1, 1)}",
    ),
    (
        relay.strided_slice(x, [1], [2, 4]),
        "NCHW",
        "NHWC",
        "NHWC -> NHWC {'begin': (1, 0, 0, 0), 'end': (2, 4, 6, 4), 'strides': (1, 1, 1, 1)}",
    ),
    (
        relay.strided_slice(x, [1, 2], [1, -1], slice_mode="size"),
        "NCHW",
        "NHWC",
        "NHWC -> NHWC {'begin': (1, 0, 0, 2), 'end': (2, 4, 6, 8), 'strides': (1, 1, 1, 1), 'slice_mode': 'end'}",
    ),
    (
        relay.strided_slice(x, [1, 4], [1, 0], slice_mode="size"),
        "NCHW",
        "NHWC",
        "NHWC -> NHWC {'begin': (1, 0, 0, 4), 'end': (2, 4, 6, 4), 'strides': (1, 1, 1, 1), 'slice_mode': 'end'}",
    ),
    (relay.strided_slice(open_channels, [0, 4], [2, 8]), "NCHW", "NHWC", None),
    (relay.strided_slice(open_channels, [0], [2]), "NCHW", "NHWC", "NHWC -> NHWC"),
    (relay.strided_slice(t(2, 2, 4, 6, 4), [0, 0, 1], [2, 2, 3]), "NCHW4c", "NHWC", None),
    (
        relay.strided_slice(x, [4, 1], [8, 3], axes=[1, 2]),
        "NCHW",
        "NHWC",
        "NHWC -> NHWC {'strides': (1, 1), 'axes': (3, 1)}",
    ),
    (relay.strided_slice(x, [4, 1], [8, 3], axes=[1, 2]), "NCHW", "NHW", None),
    (
        relay.strided_slice(x, [0, 0], [2, 8], axes=[1, 2]),
        "NCHW",
        "NCHW2h",
        "NCHW2h -> NCHW2h {'end': (2, 4), 'strides': (1, 1)}",
    ),
]


def _read(text: str) -> list[Any]:
    return [None if p == "-" else layout(p.strip("'")) for p in text.split()]


def _answer(call: Any, old: str, new: str) -> str | None:
    rule = call.op.get_attr("FInferCorrectLayout")
    types = [a.checked_type for a in call.args]
    out = rule(call.attrs, _read(new) if new else None, _read(old), types)
    if out is None:
        return None
    sides = (
        ",".join(str(one) or "''" for one in ones)
        for ones in (out.input_layouts, out.output_layouts)
    )
    before = {} if call.attrs is None else dict(call.attrs.items())
    after = {} if out.new_attrs is None else dict(out.new_attrs.items())
    changed = {k: v for k, v in after.items() if v != before.get(k)}
    return f"{' -> '.join(sides)} {changed or ''}".strip()


@pytest.mark.parametrize(("expr", "old", "new", "wanted"), RULES)
def test_answers(expr: Any, old: str, new: str, wanted: str | None) -> None:
    whole = getattr(expr, "tuple_value", expr)
    call = InferType()(IRModule.from_expr(whole))["main"].body
    assert _answer(call, old, new) == wanted
