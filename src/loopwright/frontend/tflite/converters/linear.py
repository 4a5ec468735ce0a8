"""Matrix products, and the recurrent layers that are made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....base.errors import explain
from ....ir.prim_expr import PrimExpr
from ....relax import op
from ....relax.expr import ShapeExpr
from ...graph.values import Value, literal
from ..context import TFLiteContext as Context
from ..reader import Operator
from .base import limited_real, operator
from .image import rearranged


@operator("FULLY_CONNECTED")
def fully_connected(
    cx: Context, node: Operator, x: Value, weight: Value, bias: Value | None = None
) -> Any:
    rows, weight = rows_of(cx, node, x, weight)
    out = cx.ops.matmul(rows, weight)
    return out if bias is None else cx.ops.add(out, bias)


def rows_of(cx: Context, node: Operator, x: Value, weight: Value) -> tuple[Value, Value]:
    """(x as rows of the weight's depth, the weight as (in, out))."""
    if node.option("WeightsFormat", 0):
        raise ValueError(explain("shuffled weights are not supported"))
    depth = literal(weight.shape[1])
    keep_dims = node.option("KeepNumDims", False) or x.ndim == 2
    if not keep_dims or not cx.equal(x.shape[-1], depth):
        x = cx.ops.reshape(x, np.array([-1, depth]))
    return x, rearranged(cx, weight, [1, 0])


operator("BATCH_MATMUL")(lambda cx, node, a, b: cx.ops.matmul(*in_order(cx, node, a, b)))


def in_order(cx: Context, node: Operator, a: Value, b: Value) -> list[Value]:
    """The operands of a product with their last two axes in order."""
    sides = []
    for value, name in ((a, "AdjX"), (b, "AdjY")):
        if node.option(name, False):
            ndim = value.ndim
            value = rearranged(cx, value, [*range(ndim - 2), ndim - 1, ndim - 2])
        sides.append(value)
    return sides


# ---------------------------------------------------------------- recurrent layers


def _steps(cx: Context, node: Operator, x: Value) -> tuple[list[Value], int]:
    """(x at each time, the axis of time)"""
    axis = 0 if node.option("TimeMajor", False) else 1
    count = literal(x.shape[axis])
    if not isinstance(count, int) or count < 1:
        what = "the number of time steps must be known"
        raise ValueError(explain(what, got=str(x.info), instead="give it by shape_dict"))
    at = [np.array([axis])] * 2
    parts = cx.ops.split(x, axis=axis, count=count) if count > 1 else [x]
    return [cx.ops.squeeze(p, at[0]) for p in parts], axis


def _joined(cx: Context, steps: list[Value], axis: int) -> Value:
    return cx.ops.concat(*(cx.ops.expand_dims(s, np.array([axis])) for s in steps), axis=axis)


def _started(cx: Context, state: Value | None, batch: PrimExpr) -> Value:
    """The state before the first step: that of each row, where the file has a batch of one."""
    assert state is not None
    if cx.equal(state.shape[0], batch):
        return state
    return cx.value(op.broadcast_to(state.expr, ShapeExpr([batch, *state.shape[1:]])))


@operator("UNIDIRECTIONAL_SEQUENCE_RNN", activates=True)
def rnn(
    cx: Context, node: Operator, x: Value, w: Value, r: Value, bias: Value, state: Value
) -> Any:
    o, kind = cx.ops, node.option("FusedActivationFunction")
    steps, axis = _steps(cx, node, x)
    w, r = (rearranged(cx, v, [1, 0]) for v in (w, r))
    state_value, outs = _started(cx, state, steps[0].shape[0]), []
    for step in steps:
        total = o.add(o.add(o.matmul(step, w), o.matmul(state_value, r)), bias)
        state_value = cx.value(limited_real(cx, total, kind))
        outs.append(state_value)
    return _joined(cx, outs, axis)


# The inputs of an LSTM by place: for the gates i, f, c, o.
_WEIGHTS, _RECURRENT, _BIASES = (1, 2, 3, 4), (5, 6, 7, 8), (12, 13, 14, 15)
_PEEPHOLES, _PROJECTION, _STATES, _NORMS = (9, 10, None, 11), (16, 17), (18, 19), (20, 21, 22, 23)


@operator("UNIDIRECTIONAL_SEQUENCE_LSTM", activates=True)
def lstm(cx: Context, node: Operator, x: Value, *tensors: Value | None) -> Any:
    """Each gate: an activation of x W + h R + (c P) + b, normalized where there are norms. Without
    weights of its own the input gate is 1 - the forget gate."""
    o = cx.ops
    inputs = [x, *tensors, *[None] * (24 - len(tensors))]
    pick = lambda positions: [None if k is None else inputs[k] for k in positions]  # noqa: E731
    steps, axis = _steps(cx, node, x)
    own = [k for k in range(4) if inputs[_WEIGHTS[k]] is not None]  # without i: [1, 2, 3]

    def joined(positions: Sequence[int]) -> Value:
        """The weights of all gates, as (in, gates * units)."""
        return rearranged(cx, o.concat(*(inputs[positions[k]] for k in own), axis=0), [1, 0])

    every = rearranged_constant(cx, joined(_WEIGHTS)), rearranged_constant(cx, joined(_RECURRENT))
    peepholes, norms, biases = pick(_PEEPHOLES), pick(_NORMS), pick(_BIASES)
    projection, shift = pick(_PROJECTION)
    batch = steps[0].shape[0]
    h, c = (_started(cx, s, batch) for s in pick(_STATES))
    kind = node.option("FusedActivationFunction")
    clips = [node.option(name, 0.0) for name in ("CellClip", "ProjClip")]
    outs = []

    def clipped(v: Value, most: float) -> Value:
        return o.clip(v, np.float32(-most), np.float32(most)) if most > 0 else v

    def gate(total: Value, k: int, cell: Value) -> Value:
        if peepholes[k] is not None:
            total = o.add(total, o.multiply(cell, peepholes[k]))
        if norms[k] is not None:
            gap = o.subtract(total, o.mean(total, [-1], keepdims=True))
            spread = o.mean(o.multiply(gap, gap), [-1], keepdims=True)
            total = o.multiply(o.divide(gap, o.sqrt(o.add(spread, 1e-8))), norms[k])
        total = total if biases[k] is None else o.add(total, biases[k])
        return cx.value(limited_real(cx, total, kind)) if k == 2 else o.sigmoid(total)

    for step in steps:
        total = o.add(o.matmul(step, every[0]), o.matmul(h, every[1]))
        parts = dict(zip(own, o.split(total, axis=1, count=len(own))))
        forget = gate(parts[1], 1, c)
        enter = gate(parts[0], 0, c) if 0 in parts else o.subtract(1.0, forget)
        c = clipped(o.add(o.multiply(forget, c), o.multiply(enter, gate(parts[2], 2, c))), clips[0])
        h = o.multiply(gate(parts[3], 3, c), cx.value(limited_real(cx, c, kind)))
        if projection is not None:
            h = o.matmul(h, rearranged(cx, projection, [1, 0]))
            h = clipped(h if shift is None else o.add(h, shift), clips[1])
        outs.append(h)
    return _joined(cx, outs, axis)


def rearranged_constant(cx: Context, value: Value) -> Value:
    """The value as one constant, if its parts are."""
    constant = value.constant
    return value if constant is None else cx.value(cx.constant(constant))


@operator("SVDF")
def svdf(
    cx: Context, node: Operator, x: Value, features: Value, times: Value, *rest: Value | None
) -> Any:
    """Each filter sums its features of this and earlier steps with weights by time; `rank` filters
    make an output."""
    o, rank = cx.ops, node.option("Rank")
    bias, state = rest if len(rest) == 2 else (None, rest[0])
    filters, memory = (literal(d) for d in times.shape)
    batch = x.shape[0]
    now = o.expand_dims(o.matmul(x, rearranged(cx, features, [1, 0])), np.array([2]))
    before = cx.value(
        op.reshape(_started(cx, state, batch).expr, ShapeExpr([batch, filters, memory]))
    )
    before = o.strided_slice(before, np.array([1]), np.array([memory]), np.array([2]))
    weighted = o.multiply(o.concat(before, now, axis=2), o.expand_dims(times, np.array([0])))
    grouped = o.reshape(weighted, np.array([-1, filters // rank, rank * memory]))
    out = o.sum(grouped, [2])
    return out if bias is None else o.add(out, bias)
