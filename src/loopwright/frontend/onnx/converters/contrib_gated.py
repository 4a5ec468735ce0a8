"""com.microsoft's gates and norms of groups, and weights and pads of other forms."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....base.errors import explain
from ....ir.prim_expr import PrimExpr
from ....ir.prim_op import floordiv
from ....relax import op
from ....relax.expr import ShapeExpr
from ...graph.values import Value, literal
from ..context import OnnxContext as Context
from ..reader import Node
from .block_quantized import unpacked
from .contrib import _FLOAT, _all_of, _contrib, _root_mean_square, counted, numbered


def _float(cx: Context, x: Value) -> Value:
    return cx.onnx.Cast(x, to=_FLOAT) if x.dtype.bits < 32 else x


def _grouped(cx: Context, x: Value, width: int | PrimExpr) -> Value:
    """[..., count * width] as [..., count, width]."""
    whole, size = literal(x.shape[-1]), literal(width)
    if not (isinstance(whole, int) and isinstance(size, int) and size > 0) or whole % size:
        what = "the last axis must be made of groups of this size"
        raise ValueError(explain(what, got=f"{x.info} in groups of {width}"))
    return cx.value(op.reshape(x.expr, ShapeExpr([*x.shape[:-1], whole // size, size])))


def _as_shaped(cx: Context, x: Value, like: Value) -> Value:
    return cx.value(op.reshape(x.expr, ShapeExpr(list(like.shape))))


@_contrib("GatedRMSNorm")
def gated_rms_norm(cx: Context, node: Node, x: Value, scale: Value, gate: Value) -> Any:
    o, z = cx.onnx, _float(cx, gate)
    act = node.choice("activation", ("silu", "swish", "sigmoid"))
    parts = _grouped(cx, _float(cx, x), scale.shape[0])
    norm = _root_mean_square(cx, parts, _float(cx, scale), -1, node.real("epsilon", 1e-5))[0]
    gates = o.Sigmoid(z) if act == "sigmoid" else o.Mul(z, o.Sigmoid(z))
    return o.CastLike(o.Mul(_as_shaped(cx, norm, x), gates), x)


@_contrib("BranchwiseRMSNorm")
def branchwise_rms_norm(cx: Context, node: Node, x: Value, scale: Value | None = None) -> Any:
    o, branches, parts = cx.onnx, node.integer("num_branches", 0), _float(cx, x)
    if branches:
        parts = _grouped(cx, parts, floordiv(x.shape[-1], branches))
    one = cx.value(cx.constant(np.ones(1, np.float32)))
    norm = _root_mean_square(cx, parts, one, -1, node.real("epsilon", 1e-5))[0]
    if scale is not None:
        width = literal(parts.shape[-1])
        each = scale.ndim == 1 and literal(scale.shape[0]) != width
        wide = _float(cx, scale)
        norm = o.Mul(norm, _grouped(cx, wide, width) if each else wide)
    return o.CastLike(_as_shaped(cx, norm, x), x)


@_contrib("GatedAdd")
def gated_add(
    cx: Context, node: Node, x: Value, y: Value, gate: Value, weight: Value | None = None
) -> Any:
    if weight is not None:
        raise ValueError(explain("a gate_weight", instead="MatMul and Sigmoid before it"))
    return cx.onnx.Add(x, cx.onnx.Mul(y, gate))


@_contrib("ScaledSiLU")
def scaled_silu(cx: Context, node: Node, x: Value, scale: Value | None = None) -> Any:
    o, alpha = cx.onnx, node.real("alpha", 1.0)
    scaled = o.Mul(_float(cx, x), alpha if scale is None else _float(cx, scale))
    z = o.CastLike(scaled, x)
    return o.Mul(z, o.Sigmoid(z))


@_contrib("LinearAttentionGate")
def linear_attention_gate(
    cx: Context, node: Node, a: Value, bias: Value, scale: Value, b: Value | None = None
) -> Any:
    o = cx.onnx
    decay = o.Mul(scale, o.Softplus(o.Add(_float(cx, a), bias)))
    return [o.CastLike(decay, a), None if b is None else o.Sigmoid(b)]


@_contrib("UnfoldTensor")
def unfold_tensor(cx: Context, node: Node, x: Value) -> Any:
    """The slices of an axis, each a new last axis."""
    o, axis = cx.onnx, node.integer("dim", -1) % x.ndim
    size, step = node.integer("size"), node.integer("step", 1)
    room = cx.simplify(x.shape[axis] - size)
    if size < 0 or step < 1 or (isinstance(least := literal(room), int) and least < 0):
        what = "size is at most the extent of the axis, step 1 or more"
        raise ValueError(explain(what, got=f"size {size} and step {step} of {x.info}"))
    count = cx.simplify(floordiv(room, step) + 1)
    first = o.Unsqueeze(o.Mul(counted(cx, count), np.int64(step)), [1])
    slices = o.Gather(x, o.Add(first, numbered(size)), axis=axis)
    order = [k for k in range(x.ndim + 1) if k != axis + 1]
    return o.Transpose(slices, perm=[*order, axis + 1])


@_contrib("ConvTransposeWithDynamicPads")
def conv_transpose_with_dynamic_pads(
    cx: Context, node: Node, x: Value, w: Value, pads: Value | None = None, b: Value | None = None
) -> Any:
    more = {} if pads is None else {"pads": cx.numbers(pads, "Pads")}
    return cx.onnx.ConvTranspose(x, w, b, **_all_of(node), **more)


_FP4 = np.array([0, 1 / 192, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4], np.float32)
# Dettmers et al., "QLoRA": the quantiles of a normal distribution.
_NF4 = np.array(
    [
        *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
        *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
        *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
        *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
    ],
    np.float32,
)


@_contrib("MatMulFpQ4")
def matmul_fp_q4(cx: Context, node: Node, a: Value, b: Value, shape: Value) -> Any:
    """b: bytes of blocks of 32 rows of each column: the scale (float32), with kind 1 the zero, then bytes of
    which the k-th has the numbers at k and k + 16."""
    (rows, columns), kind = cx.integers(shape, "B_shape"), node.integer("blk_quant_type", 1)
    data = b.constant
    if data is None or not isinstance(rows, int) or kind not in (0, 1):
        what = "the packed matrix of MatMulFpQ4 is a weight of the model, its kind 0 or 1"
        raise ValueError(explain(what, got=f"kind {kind}"))
    blocks = data.reshape(columns, -(-rows // 32), -1)
    scales = np.ascontiguousarray(blocks[..., :4]).view(np.float32)
    pairs, zeros = blocks[..., -16:], blocks[..., 4:5].astype(np.float32) if kind else np.float32(8)
    numbers = np.concatenate([pairs & 15, pairs >> 4], -1).astype(np.float32)
    weight = ((numbers - zeros) * scales).reshape(columns, -1)[:, :rows]
    return cx.onnx.MatMul(a, np.ascontiguousarray(weight.T))


@_contrib("MatMulBnb4")
def matmul_bnb4(cx: Context, node: Node, a: Value, b: Value, scales: Value) -> Any:
    """b: [N, K], two numbers in a byte, the high bits first, each an index into a table."""
    node.skip("training_mode")
    o, size = cx.onnx, node.integer("block_size")
    rows, columns, transposed = node.integer("K"), node.integer("N"), node.integer("transB", 1)
    if size < 1:
        raise ValueError(explain("attribute block_size must be 1 or more", got=size))
    table = _NF4 if node.integer("quant_type") else np.concatenate([_FP4, -_FP4])
    count = rows * columns
    halves = o.Reshape(unpacked(cx, b, 4), [-1, 2])
    codes = o.Reshape(o.Gather(halves, np.array([1, 0]), axis=1), [-1])
    numbers = o.Gather(table, o.Cast(o.Slice(codes, [0], [count], [0]), to=7))
    own = o.Gather(scales, numbered(count) // size)
    real = o.Mul(o.CastLike(numbers, scales), own)
    weight = o.Reshape(real, [columns, rows])
    return o.MatMul(a, o.Transpose(weight) if transposed else weight)
