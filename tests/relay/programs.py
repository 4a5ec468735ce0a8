"""Small programs in Relay that passes change, or leave for a reason, by the passes."""

from __future__ import annotations

from typing import Any

import numpy as np

from loopwright import relay
from loopwright.relay import transform as passes

nn = relay.nn
rng = np.random.default_rng(3)
x, y = relay.var("x", shape=(2, 8)), relay.var("y", shape=(2, 8))
image = relay.var("image", shape=(2, 6, 6, 4))
cube = relay.var("cube", shape=(2, 3, 8))
whole = relay.var("whole", shape=(2, 8), dtype="int32")
W = [relay.var(f"w{i}", shape=(5, 8)) for i in range(3)]
PLAIN = relay.var("conv", shape=(3, 3, 4, 5))


def c(*shape: int, dtype: str = "float32") -> relay.Constant:
    return relay.const(rng.uniform(1, 3, shape).astype(dtype))


def layers(data: Any, units: tuple[int, ...], *steps: Any) -> relay.Tuple:
    """Dense layers of one input, and what follows each: a function of the value and the units."""
    values = []
    for k, n in enumerate(units):
        value = nn.dense(data, relay.var(f"m{k}", shape=(n, 8)))
        for step in steps:
            value = step(value, n)
        values.append(value)
    return relay.Tuple(values)


def products(columns: tuple[int, ...], turned: bool, *steps: Any) -> relay.Tuple:
    values = []
    for k, n in enumerate(columns):
        right = relay.var(f"m{k}", shape=(2, n, 8) if turned else (2, 8, n))
        value = nn.batch_matmul(cube, right, transpose_b=turned)
        for step in steps:
            value = step(value, n)
        values.append(value)
    return relay.Tuple(values)


def atrous(block: Any, pads: Any, crops: Any, value: float = 0.0, **options: Any) -> Any:
    there = nn.space_to_batch_nd(image, block, pads, value)
    kinds = {"data_layout": "NHWC", "kernel_layout": "HWIO", **options}
    return nn.batch_to_space_nd(nn.conv2d(there, PLAIN, **kinds), block, crops)


def convolved(*steps: Any, first: bool = False) -> relay.Tuple:
    """Convolutions of one image, its channels first or last."""
    values = []
    data = relay.var("i", shape=(1, 4, 6, 6)) if first else image
    for n in (3, 5):
        weight = relay.var(f"k{n}", shape=(n, 4, 1, 1) if first else (1, 1, 4, n))
        layouts = {} if first else {"data_layout": "NHWC", "kernel_layout": "HWIO"}
        value = nn.conv2d(data, weight, **layouts)
        for step in steps:
            value = step(value, n)
        values.append(value)
    return relay.Tuple(values)


def bias(value: Any, n: int) -> Any:
    return relay.add(value, c(n))


def relu(value: Any, n: int) -> Any:
    return nn.relu(value)


def scaled(value: Any, n: int) -> Any:
    return relay.multiply(value, relay.const(2.0))


def deeper(value: Any, n: int) -> Any:
    return relay.add(relay.expand_dims(value, 0), c(1, 1, n))


def one(value: Any, n: int) -> Any:
    return relay.add(value, c(1))


def let(name: str, value: Any, body: Any) -> relay.Let:
    variable = relay.var(name)
    return relay.Let(variable, value, body(variable))


def square(k: float, p: Any, q: Any, number: Any = relay.const) -> Any:
    return relay.multiply(number(k), relay.multiply(p, q))


def polynomial(a: float, b: float, d: float, v: Any = x, w: Any = y) -> Any:
    return square(a, v, v) + square(b, v, w) + square(d, w, w)


SIMPLIFIED: dict[str, Any] = {
    "reshapes": relay.reshape(relay.reshape(x, (4, 4)), (16,)),
    "reshape back": relay.reverse_reshape(relay.reshape(x, (4, 4)), (2, 8)),
    "transposes": relay.transpose(relay.transpose(cube, (1, 2, 0)), (1, 0, 2)),
    "transposes that undo": relay.transpose(relay.transpose(cube, (1, 2, 0)), (2, 0, 1)),
    "transpose of nothing": relay.transpose(cube, (0, 1, 2)),
    "turned round": relay.transpose(relay.transpose(cube)),
    "layouts": relay.layout_transform(relay.layout_transform(image, "NHWC", "NCHW"), "NCHW", "NCHW2c"),
    "layouts that undo": relay.layout_transform(relay.layout_transform(image, "NHWC", "NCHW"), "NCHW", "NHWC"),
    "layout of nothing": relay.layout_transform(image, "NHWC", "NHWC"),
    "other layouts": relay.layout_transform(relay.layout_transform(image, "NHWC", "NCHW"), "NHWC", "NCHW"),
    "transpose, then layout": relay.layout_transform(relay.transpose(image, (0, 3, 1, 2)), "NCHW", "NCHW2c"),
    "layout, then transpose": relay.transpose(relay.layout_transform(image, "NHWC", "NCHW"), (0, 2, 3, 1)),
    "blocks, then transpose": relay.transpose(
        relay.layout_transform(image, "NHWC", "NCHW2c"), (0, 2, 3, 1, 4)
    ),
    "transpose, then blocks": relay.layout_transform(
        relay.transpose(relay.reshape(image, (2, 6, 6, 2, 2)), (0, 3, 1, 2, 4)), "NCHW2c", "NCHW"
    ),
    "like": relay.Tuple([
        relay.reshape_like(x, relay.reshape(y, (4, 4))), relay.zeros_like(x), relay.ones_like(x),
        relay.full_like(x, relay.const(3.0)), relay.collapse_sum_like(x, relay.sum(y, 0, True)),
        relay.broadcast_to_like(relay.sum(x, 0, True), y), relay.cast_like(x, whole),
    ]),
    "cast of its dtype": relay.cast(x, "float32"),
    "cast back": relay.cast(relay.cast(x, "float64"), "float32"),
    "narrow cast back": relay.cast(relay.cast(x, "float16"), "float32"),
    "wider and wider": relay.cast(relay.cast(relay.cast(whole, "int16"), "int32"), "int64"),
    "through floats": relay.cast(relay.cast(relay.cast(whole, "int16"), "float32"), "int16"),
    "through as wide floats": relay.cast(relay.cast(whole, "float32"), "int32"),
    "unsigned in signed": relay.cast(relay.cast(relay.cast(whole, "uint8"), "int16"), "int32"),
    "unsigned in as wide": relay.cast(relay.cast(relay.cast(whole, "uint8"), "int8"), "int32"),
    "signed in unsigned": relay.cast(relay.cast(relay.cast(whole, "int8"), "uint16"), "int32"),
    "a bool": relay.cast(relay.cast(relay.cast(whole, "bool"), "int8"), "bool"),
    "clipped to bytes": relay.cast(relay.cast(relay.clip(whole, 0, 127), "int8"), "int32"),
    "clipped to more": relay.cast(relay.cast(relay.clip(whole, -129, 127), "int8"), "int32"),
    "floats clipped": relay.cast(relay.cast(relay.clip(x, 0.0, 9.0), "int8"), "int32"),
    "floats clipped to wide": relay.cast(relay.cast(relay.clip(x, 0.0, 9.0), "int32"), "int64"),
    "clip of all": relay.clip(relay.cast(whole, "int8"), -128, 127),
    "clip of some": relay.clip(relay.cast(whole, "int8"), -128, 126),
    "clip of floats": relay.clip(x, -1e38, 1e38),
    "neutral": relay.Tuple([
        x + relay.const(0.0), relay.const(0.0) + x, x - relay.zeros((2, 8), "float32"),
        x * relay.ones((2, 8), "float32"), relay.const(1.0) * x, x / relay.const(1.0),
    ]),
    "not neutral": relay.Tuple([
        relay.const(0.0) - x, relay.const(1.0) / x, x + relay.ones((2, 8), "float32"),
        relay.full(relay.const(3.0), (2, 8), "float32") * x, x - relay.ones_like(x),
        relay.full_like(x, relay.const(3.0)) - x, relay.sum(x, 0) + relay.zeros((2, 8), "float32"),
    ]),
    "constants that add": (x + c(8)) + c(8),
    "constants before": c(8) + (c(8) + x),
    "constants of products": (x * c(8)) * c(8),
    "a product of a sum": (x + c(8)) * c(8),
    "of two values": (x + y) * c(8),
    "twice": nn.relu(x) + nn.relu(x),
    "whole twice": whole + whole,
    "not twice": nn.relu(x) + nn.relu(y),
    "a square": polynomial(1.0, 2.0, 1.0),
    "factors": polynomial(1.0, 5.0, 6.0),
    "factors behind": polynomial(6.0, 5.0, 1.0),
    "no factors": polynomial(1.0, 1.0, 6.0),
    "no whole ones": polynomial(2.0, 5.0, 2.0),
    "three values": square(1.0, x, x) + square(2.0, x, y) + square(1.0, y, nn.relu(y)),
    "by a root": relay.Tuple([x / relay.sqrt(y), relay.const(1.0) / relay.sqrt(y)]),
}  # fmt: skip
PROGRAMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "simplified": (passes.SimplifyExpr(), SIMPLIFIED),
    "layers": (passes.CombineParallelDense(), {
        "alike": layers(x, (5, 5, 5)),
        "two": layers(x, (5, 5)),
        "other units": layers(x, (5, 5, 6)),
        "followed": layers(x, (5, 5, 5), bias, relu),
        "scaled": layers(x, (5, 5, 5), scaled),
        "deeper": layers(x, (5, 5, 5), deeper),
        "with an axis": layers(x, (5, 5, 5), lambda v, n: nn.bias_add(v, c(n)), relu),
    }),
    "layers below each other": (passes.CombineParallelDense(3, False), {
        "alike": layers(x, (5, 5, 5)),
        "units": layers(x, (5, 2, 6)),
        "followed": layers(x, (5, 2, 6), bias, relu),
        "scaled": layers(x, (5, 2, 6), scaled, one),
        "deeper": layers(x, (5, 2, 6), deeper),
        "with an axis": layers(x, (5, 2, 6), lambda v, n: nn.bias_add(v, c(n)), relu),
        "four": layers(x, (1, 2, 3, 4), relu),
    }),
    "products": (passes.CombineParallelBatchMatmul(), {
        "turned": products((5, 2, 6), True),
        "as they are": products((5, 2, 6), False),
        "followed": products((5, 2, 6), True, bias, relu),
        "one number": products((5, 2, 6), True, one),
        "deeper": products((5, 2, 6), True, deeper),
        "two": products((5, 2), True),
    }),
    "convolutions": (passes.CombineParallelConv2D(2), {
        "alike": convolved(),
        "followed": convolved(bias, relu),
        "scaled": convolved(one),
        "deeper": convolved(deeper),
        "channels first": convolved(lambda v, n: v + c(n, 1, 1), relu, first=True),
        "deeper, channels first": convolved(lambda v, n: relay.expand_dims(v, 0), first=True),
    }),
    "dilated": (passes.FlattenAtrousConv(), {
        "two by two": atrous((2, 2), ((2, 2), (2, 2)), ((0, 0), (0, 0))),
        "cropped": atrous((2, 2), ((2, 4), (2, 4)), ((0, 2), (0, 2))),
        "no square": atrous((1, 2), ((1, 1), (2, 2)), ((0, 0), (0, 0))),
        "other blocks": atrous((1, 2), ((2, 2), (2, 2)), ((0, 0), (0, 0))),
        "cropped more": atrous((2, 2), ((2, 2), (2, 2)), ((2, 2), (4, 2))),
        "not of zeros": atrous((2, 2), ((2, 2), (2, 2)), ((0, 0), (0, 0)), 1.0),
        "with strides": atrous((2, 2), ((3, 3), (3, 3)), ((0, 0), (0, 0)), strides=2),
        "padded": atrous((2, 2), ((2, 2), (2, 2)), ((0, 0), (0, 0)), padding=1),
    }),
    "dead": (passes.DeadCodeElimination(), {
        "unused": let("a", nn.relu(x), lambda a: y),
        "used once": let("a", nn.relu(x), lambda a: a + y),
        "used twice": let("a", nn.relu(x), lambda a: a + a),
        "the value itself": let("a", nn.relu(x), lambda a: a),
        "unused in unused": let("a", nn.relu(x), lambda a: let("b", a + y, lambda b: y)),
        "a function": let("f", relay.Function([z := relay.var("z", shape=(2, 8))], nn.relu(z)), lambda f: relay.Call(f, [x]) + relay.Call(f, [y])),
    }),
    "normal": (passes.ToANormalForm(), {
        "a function of nothing": let("f", relay.Function([], nn.relu(x)), lambda f: relay.Call(f, []) + y),
        "a function": relay.Call(relay.Function([u := relay.var("u", shape=(2, 8))], nn.relu(u + x)), [y]),
    }),
    "inlined": (passes.DeadCodeElimination(inline_once=True), {
        "used once": let("a", nn.relu(x), lambda a: a + y),
        "used twice": let("a", nn.relu(x), lambda a: a + a),
        "one in another": let("a", nn.relu(x), lambda a: let("b", a + y, lambda b: b * y)),
        "in a function": let("a", nn.relu(x), lambda a: relay.Call(relay.Function([v := relay.var("v", shape=(2, 8))], v + a), [y])),
    }),
}  # fmt: skip
