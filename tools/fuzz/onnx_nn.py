"""Makers of ONNX nodes of networks: products, convolutions, pools, norms, quantization."""

from __future__ import annotations

import math
from typing import Any

from .build import UNIFORM, Builder, Dim, NotHere, few, since
from .onnx_ops import large_half, maker
from .onnx_shapes import each

F = ["float32"] * 4 + ["float64"]


@maker("MatMul")
def matmul(g, op):
    a = g.pick([*F, "float16", "int32"], (1, 4))
    k, n = a.shape[-1], g.dim()
    if a.dtype == "int32" and not a.exact:
        raise NotHere
    batch = list(a.shape[:-2])[g.rng.choice([0, 1]) :]
    batch = [g.const(1) if g.rng.random() < 0.3 else g.beside(d) for d in batch]
    b = g.new(a.dtype, g.rng.choice([[k], [k, n], [*batch, k, n]]))
    g.add(op, [a, b])


@maker("Gemm")
def gemm(g, op):
    a = g.pick(F, (2, 2))
    ta, tb = g.rng.choice([0, 1]), g.rng.choice([0, 1])
    (m, k), n = (a.shape[::-1] if ta else a.shape), g.dim()
    b = g.new(a.dtype, [n, k] if tb else [k, n])
    c = [g.new(a.dtype, g.rng.choice([[m, n], [n], [], [m, g.const(1)], [g.const(1), n]]))]
    attrs = {"alpha": 0.5, "beta": 2.0} if g.rng.random() < 0.4 else {}
    g.add(op, [a, b, *(c if g.rng.random() < 0.6 else [])], transA=ta, transB=tb, **attrs)


# ---------------------------------------------------------------------- windows


def window(
    g: Builder,
    d: Dim,
    kernel: int,
    stride: int,
    dilation: int,
    pads: tuple[int, int],
    ceil: bool = False,
) -> Dim:
    """How many windows there are."""
    span = dilation * (kernel - 1) + 1

    def count(n: int) -> int:
        room = n + sum(pads) - span
        if room < 0:
            raise NotHere
        whole = room // stride + 1
        if ceil and room % stride and whole * stride < n + pads[0]:
            whole += 1
        return whole

    return tuple(map(count, d))


def spatial(g: Builder, rank: int, dilate: bool = True):
    """kernel, strides, dilations, pads of a window."""
    r = g.rng
    kernel = [r.choice([1, 2, 3, 3, 5]) for _ in range(rank)]
    strides = [r.choice([1, 1, 2, 3]) for _ in range(rank)]
    dilations = [r.choice([1, 1, 1, 2]) if dilate else 1 for _ in range(rank)]
    pads = [
        (r.randint(0, k - 1), r.randint(0, k - 1)) if r.random() < 0.6 else (0, 0) for k in kernel
    ]
    return kernel, strides, dilations, pads


def image(g: Builder, rank: int, channels: Dim | None = None, dtype: str = "float32"):
    """An input of a network."""
    return g.new(dtype, [g.dim(), channels or g.dim(static=True), *[g.dim() for _ in range(rank)]])


def attributes(kernel, strides, dilations, pads) -> dict:
    return {
        "kernel_shape": kernel, "strides": strides, "dilations": dilations,
        "pads": [p[0] for p in pads] + [p[1] for p in pads],
    }  # fmt: skip


@maker("Conv", "Conv", "ConvInteger")
def conv(g, op):
    rank = g.rng.choice([1, 2, 2, 2, 3])
    parts = kernel, strides, dilations, pads = spatial(g, rank)
    groups = g.rng.choice([1, 1, 1, 2, 3])
    inner, outer = g.rng.choice([1, 2, 3, 4, 8, 16]), g.rng.choice([1, 2, 4, 5, 8, 16, 17])
    integer = op == "ConvInteger"
    images = [v for v in g.values if (v.dtype, v.rank) == ("float32", rank + 2)]
    known = [v for v in images if len(set(v.shape[1])) == 1 and v.shape[1][0] > 0]
    if known and not integer and g.rng.random() < 0.7:
        x = g.rng.choice(known)
        groups = g.rng.choice([1, x.shape[1][0]])
        inner = x.shape[1][0] // groups
    else:
        x = image(g, rank, g.const(inner * groups), "uint8" if integer else "float32")
    sides = [g.const(outer * groups), g.const(inner), *map(g.const, kernel)]
    w = g.new("uint8" if integer else "float32", sides)
    if "x" in w.name and w.name in g.case.inputs and g.rng.random() < 0.7:  # weights mostly stored
        g.case.weights[w.name] = g.case.inputs.pop(w.name)
    attrs = attributes(*parts)
    if g.rng.random() < 0.2 and not integer:
        attrs["auto_pad"] = g.rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
        del attrs["pads"]
        attrs["dilations"] = dilations = [1] * rank
        pads = [(0, 0) if attrs["auto_pad"] == "VALID" else (k, k) for k in kernel]
    for row in zip(x.shape[2:], kernel, strides, dilations, pads):
        window(g, *row)
    with_bias = g.rng.random() < 0.5 and not integer
    bias = [g.new("float32", [g.const(outer * groups)])] * with_bias
    g.add(op, [x, w, *bias], group=groups, **attrs)


@maker("ConvTranspose")
def conv_transpose(g, op):
    rank = g.rng.choice([1, 2, 2, 3])
    kernel, strides, dilations, pads = spatial(g, rank)
    groups = g.rng.choice([1, 1, 2])
    inner, outer = g.rng.choice([1, 3, 4]), g.rng.choice([1, 2, 5])
    x = image(g, rank, g.const(inner * groups))
    w = g.new("float32", [g.const(inner * groups), g.const(outer), *map(g.const, kernel)])
    more = [g.rng.randint(0, max(s, d) - 1) for s, d in zip(strides, dilations)]
    dims = [
        each(g, lambda n, k=k, s=s, d=d, p=p, m=m: (n - 1) * s + d * (k - 1) + 1 - sum(p) + m, dim)
        for dim, k, s, d, p, m in zip(x.shape[2:], kernel, strides, dilations, pads, more)
    ]
    if any(min(d) < 1 for d in (*dims, *x.shape)):
        raise NotHere
    attrs = attributes(kernel, strides, dilations, pads)
    g.add(op, [x, w], group=groups, output_padding=more, **attrs)


@maker("MaxPool", "AveragePool", "LpPool")
def pool(g, op):
    rank = g.rng.choice([1, 2, 2, 3])
    dilate = op == "MaxPool" or g.case.opset >= 19 or (op == "LpPool" and g.case.opset >= 18)
    parts = kernel, strides, dilations, pads = spatial(g, rank, dilate)
    pads[:] = [tuple(min(p, k - 1) for p in ps) for ps, k in zip(pads, kernel)]
    x = g.pick(["float32"] * 4 + ["float64"], (rank + 2, rank + 2), exact=op == "MaxPool", least=1)
    ceil = g.rng.random() < 0.3 and (op != "LpPool" or g.case.opset >= 18)
    for row in zip(x.shape[2:], kernel, strides, dilations, pads):
        window(g, *row, ceil)
    attrs = attributes(*parts)
    if not dilate:
        del attrs["dilations"]
    attrs |= {"ceil_mode": 1} if ceil else {}
    attrs |= {"count_include_pad": 1} if op == "AveragePool" and g.rng.random() < 0.5 else {}
    attrs |= {"p": g.rng.choice([1, 2, 3])} if op == "LpPool" else {}
    g.add(op, [x], outs=1 + (op == "MaxPool" and g.rng.random() < 0.3), **attrs)


@maker("Resize")
def resize(g, op):
    rank = g.rng.choice([1, 2, 2])
    x = image(g, rank)
    if min(map(min, x.shape)) < 1:
        raise NotHere
    mode = g.rng.choice(["nearest", "linear", "cubic"] if rank == 2 else ["nearest", "linear"])
    way = g.rng.choice(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
    attrs = {"mode": mode, "coordinate_transformation_mode": way}
    if mode == "nearest":
        attrs["nearest_mode"] = g.rng.choice(
            ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]
        )
    factors = [g.rng.choice([0.5, 1.0, 2.0, 3.0, 1.3, 0.75]) for _ in range(rank)]
    dims = [each(g, lambda n, f=f: int(n * f), d) for d, f in zip(x.shape[2:], factors)]
    if any(min(d) < 1 for d in dims):
        raise NotHere
    # onnxruntime copies where the size stays, whatever the factor.
    if any(f != 1 and m == n for f, d, e in zip(factors, x.shape[2:], dims) for n, m in zip(d, e)):
        raise NotHere
    fixed = all(len(set(d)) == 1 for d in x.shape)
    scales = [g.weight("float32", [1.0, 1.0, *factors], [rank + 2])]
    if fixed and g.rng.random() < 0.5:
        dims = [g.const(g.rng.choice([1, 2, 3, 7, 16])) for _ in range(rank)]
        scales = ["", g.ints([d[0] for d in (*x.shape[:2], *dims)])]
    g.add(op, [x, "", *scales], **attrs)


# ---------------------------------------------------------------------- norms


@maker("LayerNormalization", "RMSNormalization")
def layer_norm(g, op):
    if (op == "LayerNormalization" and g.case.opset < 17) or (op[0] == "R" and g.case.opset < 23):
        raise NotHere
    x = g.pick(["float32", "float32", "float16"], (1, 4))  # of float64 it computes in float32
    axis = g.axis(x)
    scale = g.new(x.dtype, x.shape[axis:])
    bias = [g.new(x.dtype, x.shape[axis:])] if g.rng.random() < 0.6 and op[0] == "L" else []
    g.add(op, [x, scale, *bias], axis=axis)


# ---------------------------------------------------------------------- quantized


@maker("QuantizeLinear")
def quantize(g, op):
    x = g.pick(["float32"], (0, 4), exact=True)
    to = g.rng.choice(["uint8", "int8"])
    scale = g.weight("float32", [g.rng.choice([0.5, 1.0, 0.25])], [])
    zero = g.weight(to, [g.rng.choice([0, 3, 100])], [])
    g.add(op, [x, scale, zero])


@maker("DequantizeLinear")
def dequantize(g, op):
    x = g.pick(["uint8", "int8", "int32"], (1, 4))
    axis = g.axis(x)
    static = len(set(x.shape[axis])) == 1 and x.shape[axis][0] > 0
    n = x.shape[axis][0] if static and g.rng.random() < 0.5 else 0
    scale = g.weight("float32", [0.25 * (k + 1) for k in range(n or 1)], [n] if n else [])
    zero = [g.weight(x.dtype, [k % 3 for k in range(n or 1)], [n] if n else [])]
    attrs = {"axis": axis} if n else {}
    g.add(op, [x, scale, *(zero if x.dtype != "int32" else [])], **attrs)


@maker("QLinearConv")
def quantized_conv(g, op):
    rank, groups = g.rng.choice([1, 2]), g.rng.choice([1, 2])
    parts = kernel, _strides, _dilations, _pads = spatial(g, rank)
    inner, outer = g.rng.choice([1, 3]), g.rng.choice([1, 4])
    x = image(g, rank, g.const(inner * groups), "uint8")
    w = g.new("uint8", [g.const(outer * groups), g.const(inner), *map(g.const, kernel)])
    s = [g.weight("float32", [v], []) for v in (0.5, 0.25, 8.0)]
    zero = [g.weight("uint8", [v], []) for v in (3, 5, 7)]
    inputs = [x, s[0], zero[0], w, s[1], zero[1], s[2], zero[2]]
    g.add(op, inputs, group=groups, **attributes(*parts))


@maker("LRN", "MeanVarianceNormalization")
def channel_norm(g, op):
    half = op == "LRN" and g.rng.random() < 0.3
    x = large_half(g, (4, 4), 1) if half else g.pick(["float32"], (4, 4), least=1)
    attrs = {"size": g.rng.choice([1, 3, 5])} if op == "LRN" else {}
    g.add(op, [x], **attrs)


@maker("RNN", "GRU", "LSTM")
def recurrent(g, op):
    since(g, 14)
    many, size, inputs = {"RNN": 1, "GRU": 3, "LSTM": 4}[op], g.rng.choice([2, 5, 16, 17]), few(g)
    direction = g.rng.choice(["forward", "reverse", "bidirectional"])
    ways = g.const(1 + (direction == "bidirectional"))
    length, batch = g.dim(least=1), g.dim(least=1)
    x = g.new("float32", [length, batch, inputs], **UNIFORM)
    dims = [[ways, g.const(many * size), d] for d in (inputs, g.const(size))]
    dims.append([ways, g.const(2 * many * size)])
    given: list[Any] = [x]
    for shape in dims:
        extents = [d[0] for d in shape]
        values = [g.rng.uniform(-0.5, 0.5) for _ in range(math.prod(extents))]
        given.append(g.weight("float32", values, extents))
    if g.rng.random() < 0.4:
        given.append(g.new("int32", [batch], low=1, high=min(length)))
    more = {"linear_before_reset": g.rng.choice([0, 1])} if op == "GRU" else {}
    g.add(op, given, outs=2 + (op == "LSTM"), hidden_size=size, direction=direction, **more)
