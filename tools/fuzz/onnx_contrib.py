"""Makers of com.microsoft's nodes: fused and quantized operators, attention."""

from __future__ import annotations

from typing import Any

from .build import Builder, Dim, Value
from .onnx_ops import maker
from .onnx_tensor import UNIFORM, few, some

BYTES = ["uint8", "int8"]


def contrib(*names: str):
    """Register a function that adds a node of one of these operators of com.microsoft; it gets the
    name without the domain."""

    def register(fn: Any) -> Any:
        for name in names:
            maker(f"com.microsoft::{name}")(lambda g, op, name=name: fn(g, name))
        return fn

    return register


def add(g: Builder, op: str, *args: Any, **more: Any) -> list[Value]:
    return g.add(f"com.microsoft::{op}", *args, **more)


def scalar(g: Builder, dtype: str, *choices: float) -> str:
    """A stored number."""
    return g.weight(dtype, [g.rng.choice(choices)], [])


def numbers(g: Builder, dtype: str, dims: list[Dim], low: float, high: float) -> str:
    """A stored tensor of uniform numbers."""
    name = g.name("w")
    shape = [d[0] for d in dims]
    g.case.weights[name] = {"dtype": dtype, "shape": shape, "draw": "uniform"}
    g.case.weights[name] |= {"low": low, "high": high}
    return name


# ---------------------------------------------------------------------- fused


@contrib("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation")
def fused_matmul(g, op):
    turns = [g.rng.choice([0, 1]) for _ in "ab"]
    batch = [g.dim()] if g.rng.random() < 0.5 else []
    m, k, n = (g.dim() for _ in "mkn")
    a = g.new("float32", [*batch, *([k, m] if turns[0] else [m, k])])
    b = g.new("float32", [*batch, *([n, k] if turns[1] else [k, n])])
    more = {"alpha": g.rng.choice([1.0, 0.5])}
    if op.endswith("Activation"):
        more |= {"activation": g.rng.choice(["Relu", "Tanh", "Sigmoid"])}
    add(g, op, [a, b], transA=turns[0], transB=turns[1], **more)


@contrib("FusedConv", "NhwcConv", "NhwcFusedConv")
def fused_conv(g, op):
    last = op.startswith("Nhwc")
    x, c = [g.dim(), g.dim(least=3), g.dim(least=3)], g.const(g.rng.choice([1, 3, 4]))
    out, k = g.const(g.rng.choice([1, 4, 17])), g.const(3)
    image = [x[0], *x[1:], c] if last else [x[0], c, *x[1:]]
    data = g.new("float32", image)
    weight = g.new("float32", [out, k, k, c] if last else [out, c, k, k])
    more = {"pads": [1] * 4, "kernel_shape": [3, 3]}
    shape = [x[0], *x[1:], out] if last else [x[0], out, *x[1:]]
    given = [data, weight, g.new("float32", [out])]
    if op != "NhwcConv":
        more["activation"] = g.rng.choice(["Relu", "Tanh", "Sigmoid", "Clip"])
        if more["activation"] == "Clip":
            more["activation_params"] = [-0.5, 0.5]
        if g.rng.random() < 0.3:
            given.append(g.new("float32", shape))
    add(g, op, given, **more)


@contrib("NhwcMaxPool")
def nhwc_max_pool(g, op):
    dims = [g.dim(), g.dim(least=2), g.dim(least=2), g.dim()]
    x = g.new(g.rng.choice(BYTES), dims)
    add(g, op, [x], kernel_shape=[2, 2])


@contrib("BiasAdd", "BiasSplitGelu", "BiasDropout")
def biased(g, op):
    width = g.const(g.rng.choice([2, 8, 18]))
    x = g.new("float32", [g.dim(), g.dim(), width])
    bias = g.new("float32", [width])
    if op == "BiasSplitGelu":
        add(g, op, [x, bias])
        return
    add(g, op, [x, bias, g.new("float32", x.shape)])


@maker("SimplifiedLayerNormalization")
@contrib("SimplifiedLayerNormalization")
def simple_norm(g, op):
    x = some(g, 1, g.dim())
    scale = g.new("float32", x.shape[-1:], **UNIFORM)
    g.add("SimplifiedLayerNormalization", [x, scale])


@contrib("EmbedLayerNormalization", "QEmbedLayerNormalization")
def embedded(g, op):
    batch, length, width = g.dim(least=1), g.dim(least=1), g.const(g.rng.choice([4, 8, 17]))
    words, kinds = g.const(g.rng.randint(1, 9)), g.const(2)
    ids = g.new("int32", [batch, length], low=0, high=words[0] - 1)
    segments = g.new("int32", [batch, length], low=0, high=1)
    tables: list[list[Dim]] = [
        [words, width], [g.const(max(length)), width], [kinds, width], [width], [width]
    ]  # fmt: skip
    outs = [("float32", [batch, length, width]), ("int32", [batch])]
    if op[0] == "E":
        given: list[Any] = [g.new("float32", t, **UNIFORM) for t in tables]
        mask = [g.new("int32", [batch, length], low=0, high=1)] * g.rng.choice([0, 1])
        add(g, op, [ids, segments, *given, *mask], outs=len(outs), epsilon=1e-3)
        return
    given = [g.new("uint8", t, low=0, high=255) for t in tables]
    scales = [scalar(g, "float32", 0.021, 0.013) for _ in tables]
    zeros = [scalar(g, "uint8", 120, 128) for _ in tables]
    add(g, op, [ids, segments, *given, "", *scales, *zeros], outs=len(outs), epsilon=1e-3)


# ---------------------------------------------------------------------- quantized


def quantity(g: Builder, shape: Any, dtype: str, weights: bool = False) -> list[Any]:
    """A tensor of bytes, its scale and zero point. Signed weights of a product have seven bits: without
    VNNI onnxruntime adds pairs of products in 16 bits."""
    bound = 64 if weights else 128
    low, high = (0, 255) if dtype == "uint8" else (-bound, bound - 1)
    zero = scalar(g, dtype, 0, 3, 100)
    return [g.new(dtype, shape, low=low, high=high), scalar(g, "float32", 0.0213, 0.0117), zero]


def result_of(g: Builder, dtype: str) -> list[str]:
    """The scale and zero point of a result."""
    return [scalar(g, "float32", 0.0331, 0.0457), scalar(g, dtype, 5, 90)]


@contrib("QLinearReduceMean")
def quantized_pool(g, op):
    kind = g.rng.choice(BYTES)
    shape = [g.dim(least=1), g.const(g.rng.choice([1, 4, 8])), *(g.dim(least=3) for _ in "hw")]
    given = [*quantity(g, shape, kind), *result_of(g, kind)]
    if op == "QLinearReduceMean":
        add(g, op, given, final=True, axes=[3], keepdims=1)
    elif op == "QLinearAveragePool":
        add(g, op, given, final=True, kernel_shape=[3, 3])
    else:
        last = g.rng.choice([0, 1])
        add(g, op, given, final=True, channels_last=last)


@contrib("MatMulInteger16")
def short_product(g, op):
    m, k, n = (g.dim(least=1) for _ in "mkn")
    a, b = (g.new("int16", s, low=-900, high=900) for s in ([m, k], [k, n]))
    add(g, op, [a, b])


@contrib("DynamicQuantizeLSTM")
def quantized_lstm(g, op):
    size, inputs, length = g.const(g.rng.choice([3, 8])), few(g), g.dim(least=1)
    one, gates = g.const(1), g.const(4 * size[0])
    x = g.new("float32", [length, one, inputs], **UNIFORM)  # in onnxruntime a batch shares a scale
    w = g.new("uint8", [one, inputs, gates], low=0, high=255)
    r = g.new("uint8", [one, size, gates], low=0, high=255)
    b = g.new("float32", [one, g.const(8 * size[0])], **UNIFORM)
    scales = [g.weight("float32", [0.007], [1]), g.weight("uint8", [128], [1])]
    state = ("float32", [one, one, size])
    outs = [("float32", [length, one, one, size]), state, state]
    given = [x, w, r, b, "", "", "", "", *scales, *scales]
    add(g, op, given, outs=len(outs), final=True, hidden_size=size[0])


# ---------------------------------------------------------------------- attention


# ---------------------------------------------------------------------- standard, under this name


@contrib("GridSample")
def grid_sample(g, op):
    x, batch = [g.dim(least=1) for _ in "chw"], few(g)
    data = g.new("float32", [batch, *x], **UNIFORM)
    out = [g.dim() for _ in "hw"]
    grid = g.new("float32", [batch, *out, g.const(2)], low=-1.6, high=1.6, **UNIFORM)
    mode = g.rng.choice(["bilinear", "nearest", "bicubic"])
    add(g, op, [data, grid], mode=mode)


# ---------------------------------------------------------------------- gates


@contrib("WordConvEmbedding")
def embedded_words(g, op):
    count, letters = g.dim(least=1), g.const(g.rng.randint(3, 6))
    words = g.new("int32", [count, letters], low=1, high=8)  # onnxruntime has no empty ones
    filters, window, size = (g.const(g.rng.randint(1, 3)) for _ in "fws")
    weight = numbers(g, "float32", [filters, g.const(1), window, size], -1, 1)
    bias = numbers(g, "float32", [filters], -1, 1)
    table = numbers(g, "float32", [g.const(9), size], -1, 1)
    add(g, op, [words, weight, bias, table])
