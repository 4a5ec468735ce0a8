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
    shape = [*batch, m, n]
    add(g, op, [a, b], ("float32", shape), exact=False, transA=turns[0], transB=turns[1], **more)


@contrib("FusedGemm")
def fused_gemm(g, op):
    turned = g.rng.choice([0, 1])
    m, k, n = (g.dim() for _ in "mkn")
    a, b = g.new("float32", [m, k]), g.new("float32", [n, k] if turned else [k, n])
    act = g.rng.choice(["Relu", "Tanh", "Sigmoid", "LeakyRelu"])
    more = {"activation_alpha": 0.2} if act == "LeakyRelu" else {}
    given = [a, b, g.new("float32", [n])]
    add(g, op, given, ("float32", [m, n]), exact=False, transB=turned, activation=act, **more)


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
    add(g, op, given, ("float32", shape), exact=False, **more)


@contrib("NhwcMaxPool")
def nhwc_max_pool(g, op):
    dims = [g.dim(), g.dim(least=2), g.dim(least=2), g.dim()]
    x = g.new(g.rng.choice(BYTES), dims)
    shape = [dims[0], *(tuple(d - 1 for d in e) for e in dims[1:3]), dims[3]]
    add(g, op, [x], (x.dtype, shape), kernel_shape=[2, 2])


@contrib("CDist")
def cdist(g, op):
    width = g.dim(least=1)
    a, b = (g.new("float32", [g.dim(least=1), width], **UNIFORM) for _ in "ab")
    metric = g.rng.choice(["euclidean", "sqeuclidean"])
    add(g, op, [a, b], ("float32", [a.shape[0], b.shape[0]]), exact=False, metric=metric)


@contrib("ExpandDims")
def expand_dims(g, op):
    v = g.pick(["float32", "int64"], (0, 3))
    k = g.rng.randint(0, v.rank)
    axis = g.weight("int32", [k], [])
    add(g, op, [v, axis], (v.dtype, [*v.shape[:k], g.const(1), *v.shape[k:]]))


@contrib("BiasAdd", "BiasSplitGelu", "BiasDropout")
def biased(g, op):
    width = g.const(g.rng.choice([2, 8, 18]))
    x = g.new("float32", [g.dim(), g.dim(), width])
    bias = g.new("float32", [width])
    if op == "BiasSplitGelu":
        shape = [*x.shape[:2], g.const(width[0] // 2)]
        add(g, op, [x, bias], ("float32", shape), exact=False)
        return
    add(g, op, [x, bias, g.new("float32", x.shape)], ("float32", x.shape), exact=False)


@contrib("SkipSimplifiedLayerNormalization")
def skip_norm(g, op):
    width = g.dim(static=True, least=1)
    x = g.new("float32", [g.dim(), g.dim(), width], **UNIFORM)
    given = [x, g.new("float32", x.shape, **UNIFORM), g.new("float32", [width], **UNIFORM)]
    given += [g.new("float32", [width], **UNIFORM)] * g.rng.choice([0, 1])
    add(g, op, given, ("float32", x.shape), exact=False, epsilon=1e-3)


@maker("SimplifiedLayerNormalization")
@contrib("SimplifiedLayerNormalization")
def simple_norm(g, op):
    x = some(g, 1, g.dim())
    scale = g.new("float32", x.shape[-1:], **UNIFORM)
    g.add("SimplifiedLayerNormalization", [x, scale], ("float32", x.shape), exact=False)


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
        add(g, op, [ids, segments, *given, *mask], *outs, exact=False, epsilon=1e-3)
        return
    given = [g.new("uint8", t, low=0, high=255) for t in tables]
    scales = [scalar(g, "float32", 0.021, 0.013) for _ in tables]
    zeros = [scalar(g, "uint8", 120, 128) for _ in tables]
    add(g, op, [ids, segments, *given, "", *scales, *zeros], *outs, exact=False, epsilon=1e-3)


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


@contrib("QLinearAdd", "QLinearMul")
def quantized_pair(g, op):
    kind = g.rng.choice(BYTES)
    shape = [g.dim() for _ in range(g.rng.randint(1, 3))]
    other = shape[g.rng.choice([0, len(shape) - 1]) :]
    given = [*quantity(g, shape, kind), *quantity(g, other, kind), *result_of(g, kind)]
    add(g, op, given, (kind, shape), final=True)


@contrib("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax")
def quantized_one(g, op):
    kind = g.rng.choice(BYTES)
    shape = [g.dim(least=1) for _ in range(g.rng.randint(1, 3))]
    more: dict[str, Any] = {}
    if op == "QLinearSoftmax":
        more = {"axis": len(shape) - 1, "opset": 13}
    if op == "QLinearLeakyRelu":
        more = {"alpha": 0.2}
    given = [*quantity(g, shape, kind), *result_of(g, kind)]
    add(g, op, given, (kind, shape), final=True, **more)


@contrib("QLinearGlobalAveragePool", "QLinearAveragePool", "QLinearReduceMean")
def quantized_pool(g, op):
    kind = g.rng.choice(BYTES)
    shape = [g.dim(least=1), g.const(g.rng.choice([1, 4, 8])), *(g.dim(least=3) for _ in "hw")]
    given = [*quantity(g, shape, kind), *result_of(g, kind)]
    if op == "QLinearReduceMean":
        add(g, op, given, (kind, [*shape[:3], g.const(1)]), final=True, axes=[3], keepdims=1)
    elif op == "QLinearAveragePool":
        out = [tuple(n - 2 for n in d) for d in shape[2:]]
        add(g, op, given, (kind, [*shape[:2], *out]), final=True, kernel_shape=[3, 3])
    else:
        ones = [g.const(1)] * 2
        last = g.rng.choice([0, 1])
        result = [shape[0], *ones, shape[3]] if last else [*shape[:2], *ones]
        add(g, op, given, (kind, result), final=True, channels_last=last)


@contrib("QLinearConcat")
def quantized_concat(g, op):
    kind, a, b, width = g.rng.choice(BYTES), g.dim(), g.dim(), g.dim()
    parts = [*quantity(g, [a, width], kind), *quantity(g, [b, width], kind)]
    shape = [tuple(m + n for m, n in zip(a, b)), width]
    add(g, op, [*result_of(g, kind), *parts], (kind, shape), final=True, axis=0)


@contrib("QLinearWhere")
def quantized_where(g, op):
    kind, shape = g.rng.choice(BYTES), [g.dim(), g.dim()]
    given = [*quantity(g, shape, kind), *quantity(g, shape, kind), *result_of(g, kind)]
    add(g, op, [g.new("bool", shape), *given], (kind, shape), final=True)


@contrib("QGemm")
def quantized_gemm(g, op):
    kind = g.rng.choice(BYTES)
    m, k, n, turned = g.dim(), g.dim(least=1), g.dim(static=True, least=1), g.rng.choice([0, 1])
    b = quantity(g, [n, k] if turned else [k, n], kind, weights=True)
    bias = [g.new("int32", [n], low=-99, high=99)]
    out = result_of(g, kind) if g.rng.random() < 0.6 else []
    result = (kind if out else "float32", [m, n])
    given = [*quantity(g, [m, k], kind), *b, *bias, *out]
    add(g, op, given, result, exact=False, final=True, transB=turned, alpha=1.0)


@contrib("MatMulIntegerToFloat", "DynamicQuantizeMatMul")
def dynamic_product(g, op):
    lead = [g.dim(least=1) for _ in range(g.rng.randint(1, 2))]
    k, n = g.dim(static=True, least=1), g.dim(static=True, least=1)
    kind = g.rng.choice(BYTES)
    each = g.rng.random() < 0.4
    b, scale, zero = quantity(g, [k, n], kind, weights=True)
    if each:
        scale, zero = numbers(g, "float32", [n], 0.01, 0.03), g.weight(kind, [0] * n[0], [n[0]])
    bias = [g.new("float32", [n], **UNIFORM)] * g.rng.choice([0, 1])
    result = ("float32", [*lead, n])
    if op[0] == "D":
        a = g.new("float32", [*lead, k], **UNIFORM)
        add(g, op, [a, b, scale, zero, *bias], result, exact=False, final=True)
    else:
        a, a_scale, a_zero = quantity(g, [*lead, k], kind)
        add(g, op, [a, b, a_scale, scale, a_zero, zero, *bias], result, exact=False, final=True)


@contrib("MatMulInteger16")
def short_product(g, op):
    m, k, n = (g.dim(least=1) for _ in "mkn")
    a, b = (g.new("int16", s, low=-900, high=900) for s in ([m, k], [k, n]))
    add(g, op, [a, b], ("int32", [m, n]))


@maker("DynamicQuantizeLinear")
def dynamic_quantize(g, op):
    x = some(g, g.rng.randint(1, 3))
    g.add(op, [x], ("uint8", x.shape), ("float32", []), ("uint8", []), exact=False, final=True)


@contrib("MatMulNBits")
def few_bits(g, op):
    n, size, bits = g.const(g.rng.choice([1, 5, 16, 70])), g.rng.choice([16, 32]), 4
    k = g.rng.choice([16, 32, 48, 64])
    blocks = g.const(-(-k // size))
    x = g.new("float32", [g.dim(), g.const(k)], **UNIFORM)
    data = g.new("uint8", [n, blocks, g.const(size * bits // 8)], low=0, high=255)
    scales = g.new("float32", [n, blocks], low=0, high=1, **UNIFORM)
    zeros = g.new("uint8", [n, g.const(-(-blocks[0] * bits // 8))], low=0, high=255)
    given = [x, data, scales, *([zeros] * g.rng.choice([0, 1]))]
    if g.rng.random() < 0.7:  # weights are mostly stored
        for name in (v.name for v in (data, scales, zeros) if v.name in g.case.inputs):
            g.case.weights[name] = g.case.inputs.pop(name)
    more = {"N": n[0], "K": k, "bits": bits, "block_size": size}
    add(g, op, given, ("float32", [x.shape[0], n]), exact=False, **more)


@contrib("GatherBlockQuantized")
def gather_blocks(g, op):
    rows, width = g.const(g.rng.randint(1, 9)), g.rng.choice([16, 32])
    data = g.new("uint8", [rows, g.const(width // 2)], low=0, high=255)
    places = g.new("int32", [g.dim(), g.dim()], low=0, high=rows[0] - 1)
    scales = g.new("float32", [rows, g.const(width // 16)], low=0, high=1, **UNIFORM)
    shape = [*places.shape, g.const(width)]
    add(g, op, [data, places, scales], ("float32", shape), exact=False, block_size=16)


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
    add(g, op, given, *outs, exact=False, final=True, hidden_size=size[0])


# ---------------------------------------------------------------------- attention


def heads_of(g: Builder) -> tuple[int, Dim]:
    """A number of heads and their size."""
    return g.rng.choice([1, 2, 3]), g.const(g.rng.choice([4, 8, 16]))


@contrib("Attention", "QAttention")
def self_attention(g, op):
    count, size = heads_of(g)
    batch, length, inputs = g.dim(least=1), g.dim(least=1), g.const(g.rng.choice([3, 8]))
    wide, all_ = g.const(count * size[0]), g.const(3 * count * size[0])
    mask: Any = ""
    way = g.rng.choice(["none", "matrix", "ends"])
    if way == "matrix":
        mask = g.new("int32", [batch, length], low=0, high=1)
    if way == "ends":
        mask = g.new("int32", [batch], low=1, high=min(length))
    bias = g.new("float32", [all_], **UNIFORM)
    more = {"num_heads": count, "unidirectional": g.rng.choice([0, 1])}
    result = ("float32", [batch, length, wide])
    if op[0] == "A":
        x = g.new("float32", [batch, length, inputs], **UNIFORM)
        w = g.new("float32", [inputs, all_], **UNIFORM)
        add(g, op, [x, w, bias, mask], result, exact=False, **more)
        return
    x, x_scale, x_zero = quantity(g, [batch, length, inputs], "uint8")
    w, w_scale, w_zero = quantity(g, [inputs, all_], "int8", weights=True)
    given = [x, w, bias, x_scale, w_scale, mask, x_zero, w_zero]
    add(g, op, given, result, exact=False, **more)


@contrib("MultiHeadAttention")
def many_heads(g, op):
    count, size = heads_of(g)
    batch, rows, keys = g.dim(least=1), g.dim(least=1), g.dim(least=1)
    wide = g.const(count * size[0])
    q = g.new("float32", [batch, rows, wide], **UNIFORM)
    k, v = (g.new("float32", [batch, keys, wide], **UNIFORM) for _ in "kv")
    given: list[Any] = [q, k, v]
    if g.rng.random() < 0.4:
        given.append(g.new("float32", [g.const(3 * wide[0])], **UNIFORM))
        if g.rng.random() < 0.6:
            given.append(g.new("int32", [batch, keys], low=0, high=1))
    more = {"scale": 0.3} if g.rng.random() < 0.4 else {}
    add(g, op, given, ("float32", q.shape), exact=False, num_heads=count, **more)


@contrib("RotaryEmbedding")
def rotated(g, op):
    count, size = heads_of(g)
    batch, length = g.dim(least=1), g.dim(least=1)
    table = [g.const(max(length) + 2), g.const(size[0] // 2)]
    x = g.new("float32", [batch, length, g.const(count * size[0])], **UNIFORM)
    if g.rng.random() < 0.5:
        at = g.new("int64", [batch, length], low=0, high=table[0][0] - 1)
    else:
        at = g.new("int64", [g.const(1)], low=0, high=2)
    cos, sin = (g.new("float32", table, **UNIFORM) for _ in "cs")
    mixed = g.rng.choice([0, 1])
    add(g, op, [x, at, cos, sin], ("float32", x.shape), exact=False, interleaved=mixed)


@contrib("GroupQueryAttention")
def grouped_attention(g, op):
    groups, size = g.rng.choice([1, 2]), g.const(g.rng.choice([8, 16]))
    count = groups * g.rng.choice([1, 2])
    batch, rows = few(g), g.const(g.rng.choice([1, 3, 7]))
    q = g.new("float32", [batch, rows, g.const(count * size[0])], **UNIFORM)
    k, v = (g.new("float32", [batch, rows, g.const(groups * size[0])], **UNIFORM) for _ in "kv")
    length = rows[0]
    given: list[Any] = [q, k, v, "", ""]
    more = {"num_heads": count, "kv_num_heads": groups}
    window = g.rng.random() < 0.3
    more |= {"local_window_size": 2} if window else {}
    # Of a row of padding whose window is empty each engine gives something else.
    first = length - 1 if window else 0
    last = [g.rng.randint(first, length - 1) for _ in range(batch[0])]
    given.append(g.weight("int32", last, [batch[0]]))
    given.append(g.weight("int32", [length], []))
    more |= {"softcap": 2.0} if g.rng.random() < 0.2 else {}
    if g.rng.random() < 0.4:
        table = [g.const(length + 1), g.const(size[0] // 2)]
        given += [g.new("float32", table, **UNIFORM) for _ in "cs"]
        more["do_rotary"] = 1
    state = ("float32", [batch, g.const(groups), rows, size])
    add(g, op, given, ("float32", q.shape), state, state, exact=False, final=True, **more)


# ---------------------------------------------------------------------- standard, under this name


@contrib(
    "Trilu", "Range", "GatherND", "Pad", "Unique", "QuantizeLinear", "DequantizeLinear", "Gelu"
)
def standard(g, op):
    if op == "Trilu":
        v = g.pick(["float32", "int64"], (2, 3))
        add(g, op, [v, g.weight("int64", [g.rng.randint(-2, 2)], [])], (v.dtype, v.shape))
    elif op == "Range":
        count = g.rng.randint(1, 7)
        given = [g.weight("int64", [n], []) for n in (3, 3 + 2 * count, 2)]
        add(g, op, given, ("int64", [g.const(count)]))
    elif op == "GatherND":
        v = g.pick(["float32", "int64"], (1, 3), least=1)
        at = g.new("int64", [g.dim(), g.const(1)], low=0, high=min(v.shape[0]) - 1)
        add(g, op, [v, at], (v.dtype, [at.shape[0], *v.shape[1:]]))
    elif op == "Pad":
        v = g.pick(["float32"], (1, 3))
        pads = [g.rng.randint(0, 3) for _ in range(2 * v.rank)]
        shape = [tuple(n + pads[k] + pads[k + v.rank] for n in d) for k, d in enumerate(v.shape)]
        add(g, op, [v, g.ints(pads), g.weight("float32", [1.5], [1])], (v.dtype, shape))
    elif op == "Gelu":
        v = g.pick(["float32"])
        add(g, op, [v], (v.dtype, v.shape), exact=False)
    elif op == "Unique":
        v = g.pick(["float32"], (1, 1), exact=True, finite=True)
        add(g, op, [v], ("float32", []), ("int64", []), ("int64", []), final=True)
    else:
        down = op[0] == "Q"
        v = g.new("float32" if down else "uint8", [g.dim(), g.dim()])
        given = [v, scalar(g, "float32", 0.0213), scalar(g, "uint8", 120)]
        add(g, op, given, ("uint8" if down else "float32", v.shape), exact=False, final=down)


@contrib("QLinearConv")
def quantized_conv(g, op):
    c, out = g.const(g.rng.choice([1, 4])), g.const(g.rng.choice([1, 5]))
    dims, last = [g.dim(least=3) for _ in "hw"], g.rng.choice([0, 1])
    batch = g.dim()
    x = quantity(g, [batch, *dims, c] if last else [batch, c, *dims], "uint8")
    w = quantity(g, [out, c, g.const(3), g.const(3)], "uint8")
    shape = [batch, *dims, out] if last else [batch, out, *dims]
    given = [*x, *w, scalar(g, "float32", 0.21), scalar(g, "uint8", 120)]
    add(g, op, given, ("uint8", shape), final=True, channels_last=last, pads=[1] * 4)


@contrib("GridSample")
def grid_sample(g, op):
    x, batch = [g.dim(least=1) for _ in "chw"], few(g)
    data = g.new("float32", [batch, *x], **UNIFORM)
    out = [g.dim() for _ in "hw"]
    grid = g.new("float32", [batch, *out, g.const(2)], low=-1.6, high=1.6, **UNIFORM)
    mode = g.rng.choice(["bilinear", "nearest", "bicubic"])
    add(g, op, [data, grid], ("float32", [*data.shape[:2], *out]), exact=False, mode=mode)


# ---------------------------------------------------------------------- gates


@contrib("GatedRMSNorm", "BranchwiseRMSNorm")
def grouped_norm(g, op):
    width, count = g.rng.choice([1, 4, 16]), g.rng.choice([1, 2, 3])
    x = some(g, 2, g.dim(least=1))
    x = g.new("float32", [*x.shape[:2], g.const(width * count)], **UNIFORM)
    scale = g.new("float32", [g.const(width)], **UNIFORM)
    if op == "GatedRMSNorm":
        gate, act = g.new("float32", x.shape, **UNIFORM), g.rng.choice(["silu", "sigmoid"])
        add(g, op, [x, scale, gate], ("float32", x.shape), exact=False, activation=act)
        return
    given = [x, *([scale] * g.rng.choice([0, 1]))]
    add(g, op, given, ("float32", x.shape), exact=False, num_branches=count)


@contrib("GatedAdd", "ScaledSiLU", "LinearAttentionGate")
def gated(g, op):
    x = some(g, 3)
    if op == "GatedAdd":
        gate = g.new("float32", [*x.shape[:-1], g.const(1)], **UNIFORM)
        given = [x, g.new("float32", x.shape, **UNIFORM), gate]
        add(g, op, given, ("float32", x.shape), exact=False)
    elif op == "ScaledSiLU":
        given = [x, *([scalar(g, "float32", 0.3, 1.7)] * g.rng.choice([0, 1]))]
        add(g, op, given, ("float32", x.shape), exact=False, alpha=0.7)
    else:
        bias, scale = (g.new("float32", x.shape[-1:], **UNIFORM) for _ in "bs")
        given = [x, bias, scale, g.new("float32", x.shape, **UNIFORM)]
        add(g, op, given, *[("float32", x.shape)] * 2, exact=False)


@contrib("UnfoldTensor")
def unfolded(g, op):
    size, step = g.rng.choice([1, 2, 3]), g.rng.choice([1, 2])
    x = g.new("float32", [g.dim(least=1), g.dim(least=3)])
    count = tuple((d - size) // step + 1 for d in x.shape[1])
    shape = [x.shape[0], count, g.const(size)]
    add(g, op, [x], ("float32", shape), dim=1, size=size, step=step)


@contrib("ConvTransposeWithDynamicPads")
def transposed_with_pads(g, op):
    c, out, edge = few(g), few(g), g.rng.choice([0, 1])
    x = some(g, 2, few(g), c)
    w = g.new("float32", [c, out, g.const(3), g.const(3)], **UNIFORM)
    shape = [x.shape[0], out, *(tuple(e + 2 - 2 * edge for e in d) for d in x.shape[2:])]
    name = g.name("w")
    g.case.weights[name] = {"dtype": "int64", "shape": [4], "values": [edge] * 4}
    add(g, op, [x, w, name], ("float32", shape), exact=False, kernel_shape=[3, 3])


@contrib("MatMulBnb4")
def four_bits(g, op):
    n, k, size = g.rng.choice([1, 5, 16]), g.rng.choice([3, 16, 33]), g.rng.choice([16, 32])
    kind = g.rng.choice([0, 1])  # transB=0: onnxruntime turns B all the same
    data = g.new("uint8", [g.const((n * k + 1) // 2)], low=0, high=255)
    scales = g.new("float32", [g.const(-(-n * k // size))], low=0, high=1, **UNIFORM)
    x = g.new("float32", [g.dim(), g.const(k)], **UNIFORM)
    more = {"N": n, "K": k, "block_size": size, "quant_type": kind}
    add(g, op, [x, data, scales], ("float32", [x.shape[0], g.const(n)]), exact=False, **more)


@contrib("WordConvEmbedding")
def embedded_words(g, op):
    count, letters = g.dim(least=1), g.const(g.rng.randint(3, 6))
    words = g.new("int32", [count, letters], low=1, high=8)  # onnxruntime has no empty ones
    filters, window, size = (g.const(g.rng.randint(1, 3)) for _ in "fws")
    weight = numbers(g, "float32", [filters, g.const(1), window, size], -1, 1)
    bias = numbers(g, "float32", [filters], -1, 1)
    table = numbers(g, "float32", [g.const(9), size], -1, 1)
    add(g, op, [words, weight, bias, table], ("float32", [count, filters]), exact=False)
