"""com.microsoft: what exporters, and onnxruntime's optimizer and quantizer, write.

Most are standard operators put together; `cx.onnx` converts these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....base import budget
from ....base.errors import explain
from ....relax import op
from ....relax.expr import ShapeExpr
from ...graph.values import Value, literal
from ..context import OnnxContext as Context
from ..reader import NEWEST_OPSET, Node
from ..registry import register_converter
from .block_quantized import Weight, product, unpacked
from .nn import with_skip
from .recurrent import LAYERS

DOMAIN = "com.microsoft"
_FLOAT, _INT32, _INT64, _UINT32 = 1, 6, 7, 12  # TensorProto's data types
Convert = Callable[..., Any]


def _contrib(*names: str) -> Callable[[Convert], Convert]:
    """Make a function the converter of these operators."""

    def define(convert: Convert) -> Convert:
        for name in names:
            register_converter(name, 1, convert, DOMAIN)
        return convert

    return define


def _all_of(node: Node, *without: str) -> dict[str, Any]:
    """The attributes of a node, for another that has the same."""
    node.skip(*node.attributes)
    return {name: v for name, v in node.attributes.items() if name not in without}


def counted(cx: Context, length: Any) -> Value:
    """0, 1, ... to a length, int64."""
    row = cx.value(op.arange(0, length, 1, "int64"))
    return row if isinstance(literal(length), int) else cx.with_dims(row, {0: length})


def numbered(count: int) -> np.ndarray:
    """0, 1, ... below a number of the file, which may be a very large one. Raises BudgetError."""
    budget.spend(size=8 * max(count, 0))
    return np.arange(count)


def _as_standard(name: str, to: str | None = None) -> None:
    """A standard operator under the name of this domain."""

    def convert(cx: Context, node: Node, *inputs: Value | None) -> Any:
        count = len(node.outputs)
        return getattr(cx.onnx, to or name)(*inputs, outputs=count, **_all_of(node))

    register_converter(name, 1, convert, DOMAIN)


for _name in ("Trilu", "Range", "GatherND", "Pad", "GridSample"):
    _as_standard(_name)
_as_standard("ExpandDims", "Unsqueeze")
_as_standard("SampleOp", "Identity")


# ---------------------------------------------------------------- products


def _transposed(cx: Context, x: Value, matrix: bool, batch: bool) -> Value:
    """The last two axes exchanged; before that the first one, of the rows, made the last but one. A
    vector stays."""
    axes = list(range(x.ndim))
    if len(axes) < 2:
        return x
    if batch:
        axes = [*axes[1:-1], 0, axes[-1]]
    if matrix:
        axes = [*axes[:-2], axes[-1], axes[-2]]
    return x if axes == sorted(axes) else cx.onnx.Transpose(x, perm=axes)


@_contrib("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation", "SparseToDenseMatMul")
def fused_matmul(cx: Context, node: Node, a: Value, b: Value) -> Any:
    a, b = (
        _transposed(cx, v, node.flag(f"trans{side}"), node.flag(f"transBatch{side}"))
        for v, side in ((a, "A"), (b, "B"))
    )
    out = cx.onnx.MatMul(a, b)
    alpha = node.real("alpha", 1.0)
    return _activated(cx, node, out if alpha == 1.0 else cx.onnx.Mul(out, alpha))


def _activated(cx: Context, node: Node, x: Value) -> Value:
    """x after the attribute `activation`, with its parameters."""
    kind = node.text("activation", "")
    params = node.reals("activation_params", [])
    letters = [node.real(f"activation_{n}", None) for n in ("alpha", "beta", "gamma")]
    node.skip("activation_axis")
    params = params or [v for v in letters if v is not None]
    names = {"LeakyRelu": ["alpha"], "HardSigmoid": ["alpha", "beta"], "Elu": ["alpha"]}
    if not kind:
        return x
    if kind == "Clip":
        return cx.onnx.Clip(x, *params[:2])
    if kind not in ("Relu", "Tanh", "Sigmoid", "Softplus", "Softsign", "HardSwish", "Gelu", *names):
        raise ValueError(explain("unknown activation", got=kind))
    own = dict(zip(names.get(kind, ()), params, strict=False))
    return getattr(cx.onnx, kind)(x, **own)


@_contrib("FusedGemm")
def fused_gemm(cx: Context, node: Node, a: Value, b: Value, c: Value | None = None) -> Any:
    own = ("activation", "activation_alpha", "activation_beta", "activation_gamma")
    return _activated(cx, node, cx.onnx.Gemm(a, b, c, **_all_of(node, *own)))


@_contrib("FusedConv")
def fused_conv(
    cx: Context, node: Node, x: Value, w: Value, b: Value | None = None, z: Value | None = None
) -> Any:
    out = cx.onnx.Conv(x, w, b, **_all_of(node, "activation", "activation_params"))
    return _activated(cx, node, out if z is None else cx.onnx.Add(out, z))


def first_channels(cx: Context, x: Value) -> Value:
    """[N, ..., C] as [N, C, ...]."""
    return cx.onnx.Transpose(x, perm=[0, x.ndim - 1, *range(1, x.ndim - 1)])


def last_channels(cx: Context, x: Value) -> Value:
    return cx.onnx.Transpose(x, perm=[0, *range(2, x.ndim), 1])


@_contrib("NhwcConv", "NhwcFusedConv")
def nhwc_conv(
    cx: Context, node: Node, x: Value, w: Value, b: Value | None = None, z: Value | None = None
) -> Any:
    attrs = _all_of(node, "activation", "activation_params")
    out = last_channels(cx, cx.onnx.Conv(first_channels(cx, x), first_channels(cx, w), b, **attrs))
    return _activated(cx, node, out if z is None else cx.onnx.Add(out, z))


@_contrib("NhwcMaxPool")
def nhwc_max_pool(cx: Context, node: Node, x: Value) -> Any:
    return last_channels(cx, cx.onnx.MaxPool(first_channels(cx, x), **_all_of(node)))


@_contrib("CDist")
def cdist(cx: Context, node: Node, a: Value, b: Value) -> Any:
    metric, o = node.choice("metric", ("sqeuclidean", "euclidean")), cx.onnx
    apart = o.Sub(o.Unsqueeze(a, [1]), o.Unsqueeze(b, [0]))
    out = o.ReduceSumSquare(apart, [2], keepdims=0)
    return o.Sqrt(out) if metric == "euclidean" else out


@_contrib("Unique")
def unique(cx: Context, node: Node, x: Value) -> Any:
    values, _, inverse, counts = cx.onnx.Unique(x, sorted=0, outputs=4)
    return [values, inverse, counts]


# ---------------------------------------------------------------- activations and norms


@_contrib("BiasAdd")
def bias_add(cx: Context, node: Node, x: Value, bias: Value, skip: Value) -> Any:
    return cx.onnx.Add(cx.onnx.Add(x, bias), skip)


@_contrib("BiasSplitGelu")
def bias_split_gelu(cx: Context, node: Node, x: Value, bias: Value) -> Any:
    left, right = cx.onnx.Split(cx.onnx.Add(x, bias), axis=-1, num_outputs=2, outputs=2)
    return cx.onnx.Mul(left, cx.onnx.Gelu(right))


@_contrib("BiasDropout")
def bias_dropout(
    cx: Context, node: Node, x: Value, bias: Value, residual: Value | None = None,
    ratio: Value | None = None, training: Value | None = None,
) -> Any:  # fmt: skip
    node.skip("seed")
    if training is not None and training.constant is not None and training.constant.any():
        raise ValueError(explain("training form is not supported", instead="export for inference"))
    out = cx.onnx.Add(x, bias)
    return [out if residual is None else cx.onnx.Add(out, residual)]


def _root_mean_square(
    cx: Context, x: Value, scale: Value, axis: int, epsilon: float
) -> list[Value]:
    """[x / its root mean square over the axes from `axis` on * scale, 1 / that]."""
    o, axes = cx.onnx, list(range(axis % x.ndim, x.ndim))
    wide = o.Cast(x, to=_FLOAT) if x.dtype.bits < 32 else x
    factor = o.Reciprocal(o.Sqrt(o.Add(o.ReduceMean(o.Mul(wide, wide), axes), epsilon)))
    return [o.Mul(o.CastLike(o.Mul(wide, factor), scale), scale), factor]


def simplified_layer_normalization(cx: Context, node: Node, x: Value, scale: Value) -> Any:
    node.skip("stash_type")
    options = node.integer("axis", -1), node.real("epsilon", 1e-5)
    if len([name for name in node.outputs if name]) == 1:
        return [cx.onnx.RMSNormalization(x, scale, axis=options[0], epsilon=options[1])]
    out, factor = _root_mean_square(cx, x, scale, *options)
    return [out, cx.onnx.Cast(factor, to=_FLOAT)]  # stash_type 1


for _domain in ("", DOMAIN):  # onnxruntime has it in the standard domain
    register_converter("SimplifiedLayerNormalization", 1, simplified_layer_normalization, _domain)


@_contrib("SkipSimplifiedLayerNormalization")
def skip_simplified_layer_normalization(
    cx: Context, node: Node, x: Value, skip: Value, gamma: Value, bias: Value | None = None
) -> Any:
    total = with_skip(cx, x, skip)
    total = total if bias is None else cx.onnx.Add(total, bias)
    out, factor = _root_mean_square(cx, total, gamma, -1, node.real("epsilon", 1e-12))
    return [out, None, factor, total]


@_contrib("EmbedLayerNormalization")
def embed_layer_normalization(cx: Context, node: Node, ids: Value, *rest: Value | None) -> Any:
    if not 6 <= len(rest) <= 8 or any(rest[k] is None for k in (1, 2, 4, 5)):
        what = (
            "its inputs are 7 to 9, of which those of segments, mask and positions may be missing"
        )
        raise ValueError(explain(what, got=", ".join(node.inputs)))
    segments, words, positions, segment_words, gamma, beta, mask, position_ids = (
        *rest,
        None,
        None,
    )[:8]
    o = cx.onnx
    node.skip("mask_index_type")
    if position_ids is None:
        position_ids = cx.onnx.Unsqueeze(counted(cx, ids.shape[1]), [0])

    def rows(table: Value | None, ids: Value) -> Value:
        """Rows of a table; as unsigned numbers, negative ids are beyond it and do not count from its end."""
        return o.Gather(table, o.Cast(ids, to=_UINT32))

    total = o.Add(rows(words, ids), rows(positions, position_ids))
    if segments is not None and segment_words is not None:
        total = o.Add(total, rows(segment_words, segments))
    epsilon = node.real("epsilon", 1e-12)
    out = o.LayerNormalization(total, gamma, beta, axis=-1, epsilon=epsilon)
    if mask is not None:
        counts = o.ReduceSum(o.Cast(o.Equal(mask, np.int32(1)), to=_INT32), [1], keepdims=0)
    else:
        counts = cx.value(op.zeros(ShapeExpr([ids.shape[0]]), "int32"))
    return [out, counts, total]


@_contrib("QEmbedLayerNormalization")
def quantized_embed_layer_normalization(
    cx: Context, node: Node, ids: Value, *inputs: Value | None
) -> Any:
    if len(inputs) < 17:
        what = "it takes 18 inputs: the ids, and five tables with a scale and a zero point each"
        raise ValueError(explain(what, got=", ".join(node.inputs)))
    segments, *rest = inputs
    tables, mask, scales, zeros = rest[:5], rest[5], rest[6:11], rest[11:16]
    real = [
        None if t is None else cx.onnx.DequantizeLinear(t, s, z)
        for t, s, z in zip(tables, scales, zeros, strict=True)
    ]
    return embed_layer_normalization(cx, node, ids, segments, *real, mask)[:2]


# ---------------------------------------------------------------- quantized


def _quantized(cx: Context, real: Value, scale: Value, zero: Value | None, like: Value) -> Value:
    """A real result in the type of `zero`, or else of `like`."""
    none = np.zeros((), like.dtype.numpy())
    return cx.onnx.QuantizeLinear(real, scale, none if zero is None else zero)


def _qlinear(
    name: str, count: int, build: Convert, step: Callable[[Context, Any], Any] = lambda cx, s: s
) -> None:
    """An operator of `count` quantized inputs (x, scale, zero point each), then scale and zero point
    of its output: `build(o, node, *real)` on the real values of the inputs. step: which scale is meant
    by the given one."""

    def convert(cx: Context, node: Node, *inputs: Value | None) -> Any:
        if len(inputs) < 3 * count + 1:
            raise ValueError(explain(f"{name} has {3 * count + 2} inputs", got=len(inputs)))
        triples = [inputs[3 * k : 3 * k + 3] for k in range(count)]
        real = [cx.onnx.DequantizeLinear(*g) for g in triples]
        scale, zero = (*inputs[3 * count :], None)[:2]
        result = build(cx, node, *real)
        return _quantized(cx, result, step(cx, scale), zero, triples[0][0])  # type: ignore[arg-type]

    register_converter(name, 1, convert, DOMAIN)


def _pooled(kind: str) -> Convert:
    def build(cx: Context, node: Node, x: Value) -> Value:
        last = node.integer("channels_last", 0)
        attrs = _all_of(node, "channels_last")
        pool = getattr(cx.onnx, kind)
        return last_channels(cx, pool(first_channels(cx, x), **attrs)) if last else pool(x, **attrs)

    return build


def _softmax(cx: Context, node: Node, x: Value) -> Value:
    opset = node.integer("opset", 13)
    if not 1 <= opset <= NEWEST_OPSET:
        raise ValueError(explain(f"attribute opset must be 1 to {NEWEST_OPSET}", got=opset))
    return cx.onnx.Softmax(x, axis=node.integer("axis", -1), opset=opset)


def _whole_steps(cx: Context, scale: Value) -> Value:
    """The scale of which a whole number makes 1, as onnxruntime's softmax rounds it."""
    return cx.onnx.Reciprocal(cx.onnx.Floor(cx.onnx.Reciprocal(scale)))


_qlinear("QLinearAdd", 2, lambda cx, node, a, b: cx.onnx.Add(a, b))
_qlinear("QLinearMul", 2, lambda cx, node, a, b: cx.onnx.Mul(a, b))
_qlinear("QLinearSigmoid", 1, lambda cx, node, x: cx.onnx.Sigmoid(x))
_qlinear("QLinearLeakyRelu", 1, lambda cx, node, x: cx.onnx.LeakyRelu(x, **_all_of(node)))
_qlinear("QLinearGlobalAveragePool", 1, _pooled("GlobalAveragePool"))
_qlinear("QLinearAveragePool", 1, _pooled("AveragePool"))
_qlinear("QLinearSoftmax", 1, _softmax, _whole_steps)


@_contrib("QLinearReduceMean")
def quantized_reduce_mean(
    cx: Context, node: Node, x: Value, scale: Value, zero: Value | None, y_scale: Value,
    y_zero: Value | None = None,
) -> Any:  # fmt: skip
    real = cx.onnx.DequantizeLinear(x, scale, zero)
    axes, keep = node.integers("axes", None), node.integer("keepdims", 1)
    return _quantized(cx, cx.onnx.ReduceMean(real, axes, keepdims=keep), y_scale, y_zero, x)


@_contrib("QLinearConcat")
def quantized_concat(cx: Context, node: Node, scale: Value, zero: Value, *inputs: Value) -> Any:
    real = [cx.onnx.DequantizeLinear(*inputs[k : k + 3]) for k in range(0, len(inputs), 3)]
    out = cx.onnx.Concat(*real, axis=node.integer("axis"))
    return cx.onnx.QuantizeLinear(out, scale, zero)


@_contrib("QLinearWhere")
def quantized_where(
    cx: Context, node: Node, condition: Value, x: Value, x_scale: Value, x_zero: Value, y: Value,
    y_scale: Value, y_zero: Value, scale: Value, zero: Value,
) -> Any:  # fmt: skip
    o = cx.onnx
    real = o.DequantizeLinear(x, x_scale, x_zero), o.DequantizeLinear(y, y_scale, y_zero)
    return o.QuantizeLinear(o.Where(condition, *real), scale, zero)


@_contrib("QLinearConv")
def quantized_conv(cx: Context, node: Node, x: Value, *rest: Value | None) -> Any:
    last = node.integer("channels_last", 0)
    attrs = _all_of(node, "channels_last")
    out = cx.onnx.QLinearConv(first_channels(cx, x) if last else x, *rest, **attrs)
    return last_channels(cx, out) if last else out


def _real_product(
    cx: Context, a: Value, b: Value, scales: tuple[Value, Value], zeros: tuple[Any, Any]
) -> Value:
    """The product of quantized matrices as real numbers; those of b may be one for each column."""
    o = cx.onnx
    return o.Mul(o.Cast(o.MatMulInteger(a, b, *zeros), to=_FLOAT), o.Mul(*scales))


@_contrib("MatMulIntegerToFloat")
def matmul_integer_to_float(
    cx: Context, node: Node, a: Value, b: Value, a_scale: Value, b_scale: Value,
    a_zero: Value | None = None, b_zero: Value | None = None, bias: Value | None = None,
) -> Any:  # fmt: skip
    out = _real_product(cx, a, b, (a_scale, b_scale), (a_zero, b_zero))
    return out if bias is None else cx.onnx.Add(out, bias)


@_contrib("DynamicQuantizeMatMul")
def dynamic_quantize_matmul(
    cx: Context, node: Node, a: Value, b: Value, scale: Value, zero: Value | None = None,
    bias: Value | None = None,
) -> Any:  # fmt: skip
    short, a_scale, a_zero = cx.onnx.DynamicQuantizeLinear(a, outputs=3)
    return matmul_integer_to_float(cx, node, short, b, a_scale, scale, a_zero, zero, bias)


@_contrib("MatMulInteger16")
def matmul_integer16(cx: Context, node: Node, a: Value, b: Value) -> Any:
    return cx.onnx.MatMul(cx.onnx.Cast(a, to=6), cx.onnx.Cast(b, to=6))


@_contrib("QGemm")
def quantized_gemm(
    cx: Context, node: Node, a: Value, a_scale: Value, a_zero: Value, b: Value, b_scale: Value,
    b_zero: Value, c: Value | None = None, y_scale: Value | None = None,
    y_zero: Value | None = None,
) -> Any:  # fmt: skip
    o, alpha = cx.onnx, node.real("alpha", 1.0)
    left = _transposed(cx, a, node.flag("transA"), False)
    right = _transposed(cx, b, node.flag("transB"), False)
    if c is not None and c.dtype != "int32":
        instead = "values of C in steps of a_scale * b_scale, or a model in the QDQ form"
        raise ValueError(explain("input C must be int32", got=c.dtype, instead=instead))
    total = o.MatMulInteger(left, right, a_zero, b_zero)
    total = total if c is None else o.Add(total, c)
    real = o.Mul(o.Cast(total, to=_FLOAT), o.Mul(o.Mul(a_scale, b_scale), alpha))
    if y_scale is not None and y_zero is None:  # onnxruntime divides by it and stays in float32
        what = "an output with a scale and no zero point is neither quantized nor real"
        raise ValueError(explain(what, instead="give y_zero_point, or neither of them"))
    return real if y_scale is None else _quantized(cx, real, y_scale, y_zero, a)


@_contrib("DynamicQuantizeLSTM")
def dynamic_quantize_lstm(
    cx: Context, node: Node, x: Value, w: Value, r: Value, b: Value | None, lengths: Value | None,
    h: Value | None, c: Value | None, p: Value | None, w_scale: Value, w_zero: Value, r_scale: Value,
    r_zero: Value,
) -> Any:  # fmt: skip
    """Inputs are rounded to bytes all together, each state of a sequence separately, so that it does not
    depend on the others of the batch (in onnxruntime those of a thread share a scale)."""
    o = cx.onnx

    def real(q: Value, scale: Value, zero: Value) -> Value:
        """[directions, inputs, gates] with a scale for each direction, or each gate of it."""
        axes = [1, 2] if scale.ndim == 1 else [1]
        wide = o.Sub(o.Cast(q, to=_FLOAT), o.Cast(o.Unsqueeze(zero, axes), to=_FLOAT))
        return o.Transpose(o.Mul(wide, o.Unsqueeze(scale, axes)), perm=[0, 2, 1])

    weights = real(w, w_scale, w_zero), real(r, r_scale, r_zero)
    short = o.DequantizeLinear(*o.DynamicQuantizeLinear(x, outputs=3))
    return LAYERS["lstm"](cx, node, short, *weights, b, lengths, h, c, p, rounded=True)


# ---------------------------------------------------------------- weights of few bits


@_contrib("MatMulNBits")
def matmul_n_bits(
    cx: Context, node: Node, a: Value, b: Value, scales: Value, zeros: Value | None = None,
    group: Value | None = None, bias: Value | None = None,
) -> Any:  # fmt: skip
    """b: [columns, blocks, bytes of a block], each block of a column with a scale."""
    node.skip("weight_prepacked")
    in_bytes = node.integer("accuracy_level", 0) == 4
    o, bits, size = cx.onnx, node.integer("bits", 4), node.integer("block_size")
    rows, columns = node.integer("K"), node.integer("N")
    if bits not in (2, 4, 8) or size < 16:
        what = "bits must be 2, 4 or 8, and block_size 16 or more"
        raise ValueError(explain(what, got=f"{bits} and {size}"))
    blocks = -(-rows // size)
    constants: list[Any] = [None if v is None else v.constant for v in (b, scales, zeros)]
    fixed = all(c is not None for c in constants[:2]) and (zeros is None) == (constants[2] is None)
    fixed = fixed and constants[0].size == columns * blocks * size * bits // 8 > 0
    if fixed and group is None and a.dtype == scales.dtype == "float32" and not size % (32 // bits):
        numbers, scale, zero = constants
        if zero is None:
            zero = np.full((columns, blocks), 1 << (bits - 1))
        elif zero.dtype == np.uint8:
            parts = zero.reshape(columns, -1, 1) >> np.arange(0, 8, bits, dtype=np.uint8)
            zero = (parts & np.uint8((1 << bits) - 1)).reshape(columns, -1)[:, :blocks]
        by_column = (v.reshape(columns, -1) for v in (numbers, scale, zero))
        out = product(cx, a, Weight(*by_column, bits, size, rows), in_bytes)
        return out if bias is None else o.Add(out, bias)
    short = o.Reshape(b, [columns, blocks, size * bits // 8])
    wide = o.CastLike(unpacked(cx, short, bits), scales)
    if zeros is None:
        middle: Any = float(1 << (bits - 1))
    elif zeros.dtype == "uint8":
        packed = o.Reshape(zeros, [columns, -(-blocks * bits // 8)])
        middle = o.Slice(unpacked(cx, packed, bits), [0], [blocks], [1])
        middle = o.CastLike(o.Unsqueeze(middle, [2]), scales)
    else:
        middle = o.Reshape(zeros, [columns, blocks, 1])
    if group is None:
        real = o.Mul(o.Sub(wide, middle), o.Reshape(scales, [columns, blocks, 1]))
        real = o.Slice(o.Reshape(real, [columns, blocks * size]), [0], [rows], [1])
    else:  # the block of each row
        flat = o.Slice(o.Reshape(wide, [columns, blocks * size]), [0], [rows], [1])
        own = o.Gather(o.Reshape(scales, [columns, blocks]), group, axis=1)
        if isinstance(middle, Value):
            middle = o.Gather(o.Reshape(middle, [columns, blocks]), group, axis=1)
        real = o.Mul(o.Sub(flat, middle), own)
    weight = real.constant  # folded here, the bytes need not stay
    weight = None if weight is None else np.ascontiguousarray(weight.T)
    out = o.MatMul(a, o.Transpose(real) if weight is None else weight)
    return out if bias is None else o.Add(out, bias)


@_contrib("GatherBlockQuantized")
def gather_block_quantized(
    cx: Context, node: Node, data: Value, indices: Value, scales: Value, zeros: Value | None = None
) -> Any:
    o, axis, size = cx.onnx, node.integer("gather_axis", 0), node.integer("block_size", 128)
    along, bits = node.integer("quantize_axis", 1) % data.ndim, node.integer("bits", 4)
    axis = axis % data.ndim
    packed = data.dtype == "uint8"
    chosen, factor = (o.Gather(v, indices, axis=axis) for v in (data, scales))
    middle = None if zeros is None else o.Gather(zeros, indices, axis=axis)
    if packed:
        chosen = unpacked(cx, chosen, bits)
        if middle is None:
            middle = o.Add(o.Cast(o.Mul(factor, 0.0), to=2), np.uint8(1 << (bits - 1)))
        else:
            middle = unpacked(cx, middle, bits)
    along = along + indices.ndim - 1 if along > axis else along
    if middle is not None and literal(middle.shape[-1]) != literal(factor.shape[-1]):
        middle = o.Slice(middle, [0], [literal(factor.shape[-1])], [middle.ndim - 1])
    return o.DequantizeLinear(chosen, factor, middle, axis=along, block_size=size)
