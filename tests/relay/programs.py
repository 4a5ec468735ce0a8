"""Small programs in Relay that passes change, or leave for a reason, by the passes."""

from __future__ import annotations

from typing import Any

import numpy as np

from loopwright import relay
from loopwright.relay import transform as passes

from ..drawing import drawn

nn = relay.nn
TABLE = drawn("programs")
x, y = relay.var("x", shape=(2, 8)), relay.var("y", shape=(2, 8))
image = relay.var("image", shape=(2, 6, 6, 4))
cube = relay.var("cube", shape=(2, 3, 8))
whole = relay.var("whole", shape=(2, 8), dtype="int32")
W = [relay.var(f"w{i}", shape=(5, 8)) for i in range(3)]
PLAIN = relay.var("conv", shape=(3, 3, 4, 5))


def c(*shape: int, dtype: str = "float32") -> relay.Constant:
    return relay.const(TABLE.uniform(1, 3, shape).astype(dtype))


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


def raised(value: Any, n: int) -> Any:
    """Of one axis more."""
    rank = 3 if value.op.name == "nn.dense" else 4 if value.op.name == "nn.batch_matmul" else 5
    return relay.add(value, c(*[1] * (rank - 1), n))


def unlike(value: Any, n: int) -> Any:
    """Alike but for the last one."""
    return nn.relu(value) if n == 5 else relay.tanh(value)


def of_ranks(value: Any, n: int) -> Any:
    """Of vectors and a matrix."""
    return relay.add(value, c(n) if n == 5 else c(1, n))


def one(value: Any, n: int) -> Any:
    return relay.add(value, c(1))


def let(name: str, value: Any, body: Any) -> relay.Let:
    variable = relay.var(name)
    return relay.Let(variable, value, body(variable))


def square(k: float, p: Any, q: Any, number: Any = relay.const) -> Any:
    return relay.multiply(number(k), relay.multiply(p, q))


def polynomial(a: float, b: float, d: float, v: Any = x, w: Any = y) -> Any:
    return square(a, v, v) + square(b, v, w) + square(d, w, w)


def padded(value: float, mode: str = "constant") -> Any:
    return nn.pad(image, ((0, 0), (1, 0), (2, 1), (0, 0)), value, mode)


def shared(value: Any) -> Any:
    """A value that two calls take."""
    return nn.relu(value) + relay.tanh(value)


def shape_of(value: Any) -> Any:
    return relay.shape_of(value, "int64")


LAST: dict[str, Any] = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
LEAST = float(np.finfo("float32").min)
bytes_ = relay.cast(relay.var("bytes", shape=(1, 2, 5, 6)), "int8")
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
        "raised": layers(x, (5, 5, 5), raised, relu),
        "of ranks": relay.Tuple([nn.dense(x, w) + c(*s, 5) for w, s in zip(W, ((), (1,), ()), strict=True)]),
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
        "raised": layers(x, (5, 2, 6), raised, relu),
        "unlike": layers(x, (5, 2, 6), relu, unlike),
        "of ranks": layers(x, (5, 2, 6), relu, of_ranks),
    }),
    "products": (passes.CombineParallelBatchMatmul(), {
        "turned": products((5, 2, 6), True),
        "as they are": products((5, 2, 6), False),
        "followed": products((5, 2, 6), True, bias, relu),
        "one number": products((5, 2, 6), True, one),
        "deeper": products((5, 2, 6), True, deeper),
        "two": products((5, 2), True),
        "raised": products((5, 2, 6), True, raised, relu),
        "unlike": products((5, 2, 6), True, relu, unlike),
        "of ranks": products((5, 2, 6), True, of_ranks),
        "turned or not": relay.Tuple([
            *products((5, 2, 6), True).fields, *products((8, 8, 8, 5), False).fields,
        ]),
    }),
    "convolutions": (passes.CombineParallelConv2D(2), {
        "alike": convolved(),
        "followed": convolved(bias, relu),
        "scaled": convolved(one),
        "deeper": convolved(deeper),
        "raised": convolved(raised, relu),
        "unlike": convolved(relu, unlike),
        "of ranks": convolved(of_ranks),
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
    "padded": (passes.FoldExplicitPadding(), {
        "a convolution": nn.conv2d(padded(0.0), PLAIN, padding=1, **LAST),
        "of one side": nn.conv2d(padded(0.0), PLAIN, padding=(0, 1), **LAST),
        "of four sides": nn.conv2d(padded(0.0), PLAIN, padding=(0, 1, 2, 3), **LAST),
        "with ones": nn.conv2d(padded(1.0), PLAIN, **LAST),
        "by its edges": nn.conv2d(padded(0.0, "edge"), PLAIN, **LAST),
        "of channels": nn.conv2d(nn.pad(image, ((0, 0), (0, 0), (0, 0), (0, 1))), relay.var("k", shape=(3, 3, 5, 5)), **LAST),
        "of images": nn.conv2d(nn.pad(image, ((1, 0), (1, 0), (0, 0), (0, 0))), PLAIN, **LAST),
        "a greatest one": nn.max_pool2d(padded(LEAST), 3, layout="NHWC"),
        "a greatest one of zeros": nn.max_pool2d(padded(0.0), 3, layout="NHWC"),
        "a greatest integer": nn.max_pool2d(nn.pad(bytes_, ((0, 0), (0, 0), (1, 1), (1, 1)), -128), 3),
        "a mean": nn.avg_pool2d(padded(0.0), 3, layout="NHWC"),
        "a mean with padding": nn.avg_pool2d(padded(0.0), 3, padding=1, layout="NHWC"),
        "a mean with padding that counts": nn.avg_pool2d(padded(0.0), 3, padding=1, layout="NHWC", count_include_pad=True),
        "not by the pass": nn.relu(padded(0.0)),
    }),
    "the same": (passes.EliminateCommonSubexpr(), {
        "numbers": (x + relay.const(2.0)) * (x + relay.const(2.0)),
        "other numbers": (x + relay.const(2.0)) * (x + relay.const(3.0)),
        "vectors": (x + c(8)) * (x + c(8)),
        "parts": relay.concatenate([x, y], 0) * relay.concatenate([x, y], 0),
        "parts in turn": relay.concatenate([x, y], 0) * relay.concatenate([y, x], 0),
        "more parts": relay.sum(relay.concatenate([x, y], 0), 0) * relay.sum(relay.concatenate([x, y, x], 0), 0),
        "of other axes": relay.sum(x, 1, True) * relay.sum(x, 0, True),
        "results of a split": relay.split(x, 2, 1)[0] * relay.split(x, 2, 1)[1],
    }),
    "casts": (passes.CanonicalizeCast(), {
        "of two users": let("h", relay.cast(x, "float64"), lambda h: nn.relu(h) + relay.tanh(h)),
        "twice in one": relay.cast(x, "float64") + relay.cast(x, "float64"),
        "shared": shared(relay.cast(x, "float64")),
        "of casts": shared(relay.cast(relay.cast(x, "float64"), "float16")),
    }),
    "known": (passes.DynamicToStatic(), {
        "zeros": x + relay.zeros(shape_of(x), "float32"),
        "ones": x + relay.ones(shape_of(x), "float32"),
        "filled": x + relay.full(relay.const(2.0), shape_of(x), "float32"),
        "spread": relay.broadcast_to(relay.sum(x, 0), shape_of(y)),
        "tiled": relay.tile(x, shape_of(x)),
        "shaped": relay.reshape(cube, relay.concatenate([relay.const([3], "int64"), shape_of(x)], 0)),
        "padded": nn.pad(x, relay.reshape(shape_of(relay.reshape(cube, (1, 2, 3, 8))), (2, 2)), relay.const(2.0)),
        "sliced": relay.strided_slice(cube, relay.const([0, 1, 0]), shape_of(cube), relay.const([1, 1, 2])),
        "sliced in part": relay.strided_slice(cube, relay.const([0, 1]), relay.const([1, 3]), relay.const([1, 1])),
        "resized": relay.image.resize2d(image, shape_of(x), layout="NHWC"),
        "best": relay.topk(x, relay.ndarray_size(relay.const([1, 2, 3])), ret_type="values"),
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
