"""How converters are registered, and how quantized tensors come to them.

A converter computes its operator in real numbers, by operators on values (`cx.ops`) where it can. For
an operator on quantized tensors the first of these holds:

1. `integer.py` has a converter of its own, with TFLite's arithmetic;
2. it moves elements (`moves`), and all have one scale;
3. it is a function of one byte (`unary`): a table of 256 results;
4. the tensors are made real numbers, and the results quantized again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ....base.errors import explain
from ....base.registry import Registry
from ....relax import op
from ....relax.expr import Expr
from ...graph.registry import all_required, register_converter
from ...graph.values import Value
from ..context import TFLiteContext as Context
from ..reader import DOMAIN, Operator, Tensor

Converter = Callable[..., Any]
# For each operator, how quantized tensors come in.
HOW: Registry[str, str] = Registry("TFLite operator")
# Integer arithmetic; None as an answer: not this one.
INTEGER: Registry[str, Converter] = Registry("integer TFLite operator", compiles=True)
_BYTES = ("int8", "uint8")
# ActivationFunctionType -> least and greatest real number.
_LIMITS = {1: (0.0, None), 2: (-1.0, 1.0), 3: (0.0, 6.0)}


def operator(
    *names: str, moves: bool = False, unary: bool = False, activates: bool = False
) -> Callable[[Converter], Converter]:
    """Register a converter for operators; see the file's docstring. activates: it applies the activation
    of its options itself, not to the result."""
    after = (lambda cx, node, out: out) if activates else activated

    def define(convert: Converter) -> Converter:
        convert = convert if convert.__annotations__ else all_required(convert)

        @functools.wraps(convert)
        def dispatched(cx: Context, node: Operator, *inputs: Any) -> Any:
            plain = not any(
                t is not None and t.is_quantized
                for t in (*node.input_tensors, *node.output_tensors)
            )
            if plain:
                return after(cx, node, convert(cx, node, *inputs))
            own = INTEGER.get(node.op_type)
            out = own(cx, node, *inputs) if own and node.output_tensors[0].is_quantized else None
            if out is not None:
                return out
            if moves and _one_scale(node):
                return _limited(cx, node, convert(cx, node, *inputs))
            if (
                unary
                and node.input_tensors[0] is not None
                and node.input_tensors[0].dtype in _BYTES
            ):
                return _looked_up(cx, node, convert, *inputs)
            pairs = zip(inputs, node.input_tensors, strict=False)
            reals = [dequantized(cx, x, t) if t and t.is_quantized else x for x, t in pairs]
            out = after(cx, node, convert(cx, node, *reals))
            parts = out if isinstance(out, list) else [out]
            return [
                quantized(cx, p, t) if t.is_quantized and p is not None else p
                for p, t in zip(parts, node.output_tensors, strict=False)
            ]

        for name in names:
            HOW.register(name, "moved" if moves else "table" if unary else "real numbers")
            register_converter(name, 1, dispatched, domain=DOMAIN)
        return convert

    return define


def integer(*names: str) -> Callable[[Converter], Converter]:
    """Register the integer arithmetic of operators whose first result is quantized."""

    def define(convert: Converter) -> Converter:
        for name in names:
            INTEGER.register(name, convert)
        return convert

    return define


def _one_scale(node: Operator) -> bool:
    """Whether all quantized tensors have the same scale and zero point."""
    tensors = [
        t for t in (*node.input_tensors, *node.output_tensors) if t is not None and t.is_quantized
    ]
    first, kind = tensors[0].quantization, tensors[0].dtype
    return all(
        t.dtype == kind
        and np.array_equal(t.quantization.scale, first.scale)
        and np.array_equal(t.quantization.zero, first.zero)
        for t in tensors
        if t.quantization is not None and first is not None
    )


# ---------------------------------------------------------------- activations


def activated(cx: Context, node: Operator, out: Value | Expr | list[Value]) -> Any:
    """A result after the activation that the operator's options name."""
    kind = node.option("FusedActivationFunction", 0)
    if kind == 0:
        return out
    x, *rest = [cx.value(v) for v in (out if isinstance(out, list) else [out])]
    return [limited_real(cx, x, kind), *rest] if rest else limited_real(cx, x, kind)


def limited_real(cx: Context, x: Value, kind: int) -> Any:
    """x after an activation, by its number in the schema."""
    if kind == 0:
        return x
    if kind == 1:
        return cx.ops.relu(x)
    if kind in _LIMITS:
        return cx.ops.clip(x, *map(np.float32, _LIMITS[kind]))
    if kind == 4:
        return cx.ops.tanh(x)
    raise ValueError(explain("a fused activation that is not supported", got=kind))


def bounds(node: Operator) -> tuple[int, int]:
    """The least and the greatest quantized number of the result, after the fused activation."""
    out, kind = node.output_tensors[0], node.option("FusedActivationFunction", 0)
    info = np.iinfo(out.dtype)
    if kind and kind not in _LIMITS:
        raise ValueError(explain("a fused activation of integers", got=kind))
    low, high = (
        default if v is None else int(np.clip(codes(np.float64(v), out), info.min, info.max))
        for v, default in zip(_LIMITS.get(kind, (None, None)), (info.min, info.max), strict=True)
    )
    return low, high


def _limited(cx: Context, node: Operator, out: Value | Expr) -> Any:
    """Moved integers within the bounds of the fused activation."""
    if not node.option("FusedActivationFunction", 0):
        return out
    return op.clip(cx.emit(out), *bounds(node))


# ---------------------------------------------------------------- quantized numbers


def codes(real: Any, tensor: Tensor) -> np.ndarray:
    """The integers of real numbers, not yet limited to the type; halves round away from zero.
    Infinities become numbers outside of any type, NaN zero."""
    q = tensor.quantization
    assert q is not None
    scaled = real / np.asarray(q.scale[0], np.asarray(real).dtype)
    scaled = np.nan_to_num(scaled, posinf=2.0**31, neginf=-(2.0**31))
    return (np.sign(scaled) * np.floor(np.abs(scaled) + 0.5)).astype(np.int64) + q.one_zero


def away(cx: Context, x: Value | Expr) -> Value:
    """Real numbers rounded to the nearest, halves away from zero."""
    o, x = cx.ops, cx.value(x)
    return o.multiply(o.sign(x), o.floor(o.add(o.abs(x), 0.5)))


def stored(
    cx: Context, x: Value | Expr, tensor: Tensor, low: int | None = None, high: int | None = None
) -> Expr:
    """Whole numbers (real or integer ones) limited to a tensor's type, or to less, in it."""
    info = np.iinfo(tensor.dtype)
    value = cx.value(x)
    number = float if value.dtype.is_float else int
    least, most = info.min if low is None else low, info.max if high is None else high
    return op.astype(op.clip(value.expr, number(least), number(most)), tensor.dtype)


def quantized(cx: Context, x: Value | Expr, tensor: Tensor) -> Expr:
    """Real numbers quantized to integers."""
    q = tensor.quantization
    assert q is not None
    scaled = away(cx, op.divide(cx.emit(x), cx.scalar(q.one_scale, "float32")))
    return stored(cx, cx.ops.add(scaled, float(q.one_zero)), tensor)


def dequantized(cx: Context, x: Value | None, tensor: Tensor) -> Value | None:
    """The real numbers of quantized integers; those of constants are computed here."""
    q = tensor.quantization
    if x is None or q is None:
        return x
    if x.is_constant or tensor.dtype == "int4":
        array, dims = x.constant, [1] * len(tensor.dims)
        if array is None:
            raise ValueError(explain("a tensor of int4 must be a constant", got=tensor.name))
        if q.scale.size > 1:
            dims[q.axis] = -1
        centered = (array.astype(np.int32) - q.zero.reshape(dims)).astype(np.float32)
        return cx.value(cx.constant(centered * q.scale.reshape(dims)))
    centered = op.subtract(op.astype(x.expr, "int32"), cx.scalar(q.one_zero, "int32"))
    return cx.value(op.multiply(op.astype(centered, "float32"), cx.scalar(q.one_scale, "float32")))


def _looked_up(cx: Context, node: Operator, convert: Converter, x: Value, *rest: Value) -> Any:
    source, out = node.input_tensors[0], node.output_tensors[0]
    assert source is not None
    q, info = source.quantization, np.iinfo(source.dtype)
    all_codes = np.arange(info.min, info.max + 1) - (q.one_zero if q else 0)
    real = all_codes.astype(np.float32) * np.float32(q.one_scale if q else 1)
    outputs = cx.value(activated(cx, node, convert(cx, node, cx.value(cx.constant(real)), *rest)))
    table = outputs.constant
    if table is None:
        raise ValueError(explain("a function of bytes that is not known", got=node.op_type))
    if out.is_quantized:
        kind = np.iinfo(out.dtype)
        table = np.clip(codes(table, out), kind.min, kind.max).astype(out.dtype)
    return op.byte_lookup(x.expr, cx.constant(table))


# ---------------------------------------------------------------- layouts


def channels_first(cx: Context, x: Value) -> Value:
    """An image (n, ..., c) as (n, c, ...)."""
    ndim = x.ndim
    return cx.value(op.permute_dims(x.expr, [0, ndim - 1, *range(1, ndim - 1)]))


def channels_last(cx: Context, x: Value | Expr) -> Expr:
    """The inverse of `channels_first`."""
    x = cx.value(x)
    return op.permute_dims(x.expr, [0, *range(2, x.ndim), 1])
