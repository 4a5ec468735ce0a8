"""Operators that work element by element. They compute in the type of the result, as torch promotes it."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from ....ir.dtype import DataType
from ...graph.registry import Converter
from ..context import Arg, Number, Term, op
from ..context import TorchContext as Context
from ..dtypes import dtype_of
from ..model import TorchNode as Node
from .table import aten, each, rows

Build = Callable[..., Term]
# Of a float: the bits of its mantissa, and the exponent of the least normal number.
_LEAST_NORMAL = {
    "float64": (52, 1022), "float32": (23, 126), "float16": (10, 14), "bfloat16": (7, 126),
}  # fmt: skip


def _promoted(build: Build) -> Converter:
    """Of tensors and numbers in the type of the result."""
    return lambda cx, node, *args: build(*cx.tensors(node.dtype, *args))


def _exact(build: Build) -> Converter:
    """Of floats; integers stay."""
    return lambda cx, node, x: build(x) if x.dtype.is_float else x


def _scaled(build: Build) -> Converter:
    """With the second argument times alpha."""

    def convert(cx: Context, node: Node, a: Arg, b: Arg, alpha: Number) -> Term:
        b = b if alpha == 1 else cx.tensor(b, node.dtype) * alpha
        return _promoted(build)(cx, node, a, b)

    return convert


def _compared(build: Build) -> Converter:
    """In the type that both have in common."""
    return lambda cx, node, a, b: build(*cx.tensors(_common(node), a, b))


def _common(node: Node) -> str:
    """The type in which torch computes with the first two arguments of a node."""
    a, b = (x.meta["val"] if hasattr(x, "meta") else x for x in node.source.args[:2])
    return dtype_of(torch.result_type(a, b))


def _logical(build: Build) -> Converter:
    return lambda cx, node, *tensors: build(*cx.tensors("bool", *tensors))


each(
    {
        "abs": op.abs, "acos": op.acos, "acosh": op.acosh, "asin": op.asin, "asinh": op.asinh,
        "atan": op.atan, "atanh": op.atanh, "bitwise_not": op.bitwise_not, "cos": op.cos,
        "cosh": op.cosh, "erf": op.erf, "exp": op.exp, "expm1": op.expm1, "log": op.log,
        "neg": op.negative, "rsqrt": op.rsqrt, "sigmoid": op.sigmoid, "sign sgn": op.sign,
        "sin": op.sin, "sinh": op.sinh, "sqrt": op.sqrt, "tan": op.tan, "tanh": op.tanh,
        "square": op.square, "relu": op.nn.relu, "silu": op.nn.silu, "relu6": op.nn.relu6,
        "selu": op.nn.selu, "hardswish": op.nn.hardswish, "hardsigmoid": op.nn.hardsigmoid,
    },
    _promoted,
)  # fmt: skip
each({"ceil": op.ceil, "floor": op.floor, "round": op.round, "trunc": op.trunc}, _exact)
each(
    {
        "mul.Tensor mul.Scalar": op.multiply, "maximum": op.maximum, "minimum": op.minimum,
        "atan2": op.atan2, "logaddexp": op.log_add_exp, "fmod.Tensor fmod.Scalar": op.mod,
        "bitwise_and.Tensor bitwise_and.Scalar bitwise_and.Scalar_Tensor": op.bitwise_and,
        "bitwise_or.Tensor bitwise_or.Scalar bitwise_or.Scalar_Tensor": op.bitwise_or,
        "bitwise_xor.Tensor bitwise_xor.Scalar bitwise_xor.Scalar_Tensor": op.bitwise_xor,
        "remainder.Tensor remainder.Scalar remainder.Scalar_Tensor": op.floor_mod,
        "bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar __lshift__.Scalar __lshift__.Tensor": op.left_shift,
        "bitwise_right_shift.Tensor bitwise_right_shift.Tensor_Scalar __rshift__.Scalar __rshift__.Tensor": op.right_shift,
    },
    _promoted,
)  # fmt: skip
each({"add.Tensor add.Scalar": op.add, "sub.Tensor sub.Scalar": op.subtract}, _scaled)
each(
    {
        "eq.Tensor eq.Scalar": op.equal, "ne.Tensor ne.Scalar": op.not_equal,
        "lt.Tensor lt.Scalar": op.less, "le.Tensor le.Scalar": op.less_equal,
        "gt.Tensor gt.Scalar": op.greater, "ge.Tensor ge.Scalar": op.greater_equal,
    },
    _compared,
)  # fmt: skip
each(
    {
        "logical_and": op.logical_and, "logical_or": op.logical_or, "logical_xor": op.logical_xor,
        "logical_not": op.logical_not,
    },
    _logical,
)  # fmt: skip


@aten("div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode", "floor_divide")
def div(cx: Context, node: Node, a: Arg, b: Arg, rounding_mode: str | None = None) -> Term:
    x = cx.tensor(a, node.dtype)
    if rounding_mode == "floor" or "floor_divide" in node.op_type:
        return _floored(cx, a, b, x.dtype) if x.dtype.is_float else x // b
    out = x / b  # of integers: it truncates
    return out.trunc() if rounding_mode and x.dtype.is_float else out


def _floored(cx: Context, a: Arg, b: Arg, dtype: DataType) -> Term:
    """The quotient as Python rounds it down, by the exact remainder: a quotient that is rounded first may be
    the next whole number."""
    x, y = cx.tensors("float32" if dtype.bits < 32 else str(dtype), a, b)
    rest = op.mod(x, y)
    apart = rest.not_equal(0.0) & (rest < 0.0).not_equal(y < 0.0)
    quotient = (x - rest) / y - apart.astype(str(x.dtype))
    down = quotient.floor()
    whole = cx.where(quotient - down > 0.5, down + 1.0, down)
    return cx.where(y.equal(0.0), x / y, whole)


@aten("log1p")
def log1p(cx: Context, node: Node, x: Term) -> Term:
    """log(1 + x), corrected by what 1 + x rounds away: x * log(u) / (u - 1) with u = 1 + x (Kahan)."""
    value = cx.tensor(x, node.dtype)
    u = value + 1.0
    less = u - 1.0
    exact = less.equal(0.0) | u.equal(math.inf)
    return cx.where(exact, value, value * (u.log() / less))


@aten("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def power(cx: Context, node: Node, x: Arg, y: Arg) -> Term:
    base = cx.tensor(x, node.dtype)
    if isinstance(y, (int, float)):
        if y == 0.5 and base.dtype.is_float:
            return cx.where(base.equal(-math.inf), math.inf, base.sqrt())
        if y in (1, 2):
            return base if y == 1 else base * base
        if y == -1 and base.dtype.is_float:
            return 1.0 / base
    return base.power(y)


@aten("isnan", "isinf", "isfinite")
def class_of(cx: Context, node: Node, x: Term) -> Term:
    name = node.op_type.split(".")[1]
    if x.dtype.is_float:
        return getattr(x, name)()
    return cx.filled(cx.dims(node.value), name == "isfinite", "bool")


@aten("signbit")
def signbit(cx: Context, node: Node, x: Term) -> Term:
    return (x.reinterpret(f"int{x.dtype.bits}") if x.dtype.is_float else x) < 0


@aten("copysign.Tensor", "copysign.Scalar")
def copysign(cx: Context, node: Node, x: Arg, sign: Arg) -> Term:
    size = cx.tensor(x, node.dtype).abs()
    return cx.where(signbit(cx, node, cx.tensor(sign, node.dtype)), -size, size)


@aten("clamp", "clamp.Tensor", "clamp_min", "clamp_min.Tensor", "hardtanh")
def clamp(cx: Context, node: Node, x: Term, low: Arg | None, high: Arg | None = None) -> Term:
    out = cx.tensor(x, node.dtype)
    out = out if low is None else out.maximum(low)
    return out if high is None else out.minimum(high)


@aten("fmax", "fmin")
def without_nan(cx: Context, node: Node, a: Term, b: Term) -> Term:
    x, y = cx.tensors(node.dtype, a, b)
    out = x.maximum(y) if "fmax" in node.op_type else x.minimum(y)
    return cx.where(x.isnan(), y, cx.where(y.isnan(), x, out)) if x.dtype.is_float else out


@aten("angle")
def angle(cx: Context, node: Node, x: Term) -> Term:
    value = cx.tensor(x, node.dtype)
    positive = cx.filled(value.shape, 0, node.dtype)
    return cx.where(value.isnan(), value, cx.where(value < 0.0, math.pi, positive))


@aten("hypot")
def hypot(cx: Context, node: Node, a: Term, b: Term) -> Term:
    """The larger one times sqrt(1 + ratio ** 2), whose square cannot overflow."""
    x, y = (v.abs() for v in cx.tensors(node.dtype, a, b))
    most = x.maximum(y)
    ratio = x.minimum(y) / cx.where(most.equal(0.0), 1.0, most)
    return cx.where(x.isinf() | y.isinf(), math.inf, most * (ratio * ratio + 1.0).sqrt())


@aten("round.decimals")
def round_decimals(cx: Context, node: Node, x: Term, *, decimals: int) -> Term:
    """Rounded at a power of ten, by which positive numbers of decimals multiply, negative ones divide."""
    power = float(10 ** abs(decimals))
    if not x.dtype.is_float:
        return x
    return (x * power).round() / power if decimals > 0 else (x / power).round() * power


@aten("frexp.Tensor")
def frexp(cx: Context, node: Node, x: Term) -> list[Term]:
    """mantissa * 2 ** exponent, the mantissa's absolute value in [0.5, 1): from the bits of a normal number,
    which a subnormal one becomes by a multiplication."""
    dtype, kind = str(x.dtype), f"int{x.dtype.bits}"
    width, bias = _LEAST_NORMAL[dtype]
    mask = (1 << (x.dtype.bits - 1 - width)) - 1
    tiny = x.abs() < 2.0 ** (2 - bias)
    bits = cx.where(tiny, x * 2.0**width, x).reinterpret(kind)
    exponent = ((bits >> width) & mask).astype("int32") - bias
    exponent = cx.where(tiny, exponent - width, exponent)
    mantissa = ((bits & ~(mask << width)) | (bias << width)).reinterpret(dtype)
    whole = x.isfinite() & x.not_equal(0.0)
    return [cx.where(whole, mantissa, x), cx.where(whole, exponent, 0)]


@aten("nextafter")
def nextafter(cx: Context, node: Node, a: Term, b: Term) -> Term:
    """The next float from a towards b: the bits of floats of one sign are ordered as integers."""
    x, y = cx.tensors(node.dtype, a, b)
    bits = x.reinterpret(f"int{x.dtype.bits}")
    grows = (y > x).equal(x > 0.0)
    step = cx.where(grows, bits + 1, bits - 1).reinterpret(node.dtype)
    least = (bits * 0 + 1).reinterpret(node.dtype)
    out = cx.where(x.equal(0.0), cx.where(y > 0.0, least, -least), step)
    return cx.where(x.isnan() | y.isnan(), x + y, cx.where(x.equal(y), y, out))


# The rest are formulas.
rows({
    # In the type of eager torch: that of fake tensors is the gradient's.
    "threshold_backward": lambda cx, node, grad, x, threshold:
        [cx.where(x <= threshold, 0, cx.tensor(grad, _common(node)))],
    "clone alias detach lift_fresh_copy lift_fresh contiguous": lambda cx, node, x: x,
    "_to_copy to.dtype type_as prims.convert_element_type.default _conj _conj_physical resolve_conj resolve_neg":
        lambda cx, node, x: cx.tensor(x, node.dtype),
    "copy":
        lambda cx, node, x, source: cx.tensor(source, node.dtype).broadcast_to(cx.shape(node.value)),
    "where.self where.ScalarSelf where.ScalarOther where.Scalar": lambda cx, node, condition, x, y:
        cx.where(cx.tensor(condition, "bool"), cx.tensor(x, node.dtype), cx.tensor(y, node.dtype)),
    "rsub.Tensor rsub.Scalar":
        lambda cx, node, a, b, alpha: cx.tensor(b, node.dtype) - cx.tensor(a, node.dtype) * alpha,
    "ldexp.Tensor": lambda cx, node, x, exponent: cx.tensor(2.0, node.dtype).power(exponent) * x,
    "exp2": lambda cx, node, x: cx.tensor(2.0, node.dtype).power(x),
    "log2": lambda cx, node, x: cx.tensor(x, node.dtype).log() * (1.0 / math.log(2.0)),
    "log10": lambda cx, node, x: cx.tensor(x, node.dtype).log() * (1.0 / math.log(10.0)),
    "reciprocal": lambda cx, node, x: 1.0 / cx.tensor(x, node.dtype),
    "clamp_max clamp_max.Tensor": lambda cx, node, x, high: clamp(cx, node, x, None, high),
    "leaky_relu": lambda cx, node, x, slope: op.nn.leakyrelu(x, slope),
    "gelu": lambda cx, node, x, *, approximate:
        op.nn.gelu_tanh(x) if approximate == "tanh" else op.nn.gelu(x),
    "elu": lambda cx, node, x, alpha, scale, inner:
        cx.where(x > 0, x * scale, (x * inner).expm1() * (alpha * scale)),
    "softplus": lambda cx, node, x, beta, most: op.nn.softplus(x, float(beta), float(most)),
})  # fmt: skip
