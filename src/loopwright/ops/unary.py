"""Elementwise operators of one tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tir
from ..base.errors import explain
from ..ir.dtype import DataType, numpy_dtype
from ..ir.op import Op
from ..ir.prim_op import cast, const
from ..relax import op as R
from ..relax.expr import Constant, Expr
from ..relax.expr import const as constant
from ..relax.struct_info import TensorStructInfo
from ..tir.derivatives import DERIVATIVES
from .common import compute, like
from .core import case, op
from .family import unary
from .gradient import Backward
from .layout_rules import elementwise
from .params import DType, Prim, Tensor

_SMALL = {"low": -0.9, "high": 0.9}
_POSITIVE = {"low": 0.1, "high": 4.0}


def _float(name: str, doc: str, meaning: Callable[..., Any] | None = None, **options: Any) -> None:
    """An operator that is a function of scalars, with its numpy meaning (or another) and derivative."""

    def slope(cx: Backward, x: Expr) -> Any:
        return DERIVATIVES[name](R, cx.number, x, cx.out)

    numpy: Any = meaning or Op.get(f"tir.{name}").get_attr("numpy")
    options = {"float_only": True, "slope": slope, **options}
    unary(f"relax.{name}", getattr(tir, name), numpy, doc, **options)


def _sigmoid(x: np.ndarray[Any, Any]) -> Any:
    return 1 / (1 + np.exp(-np.asarray(x, np.float64)))


_float("exp", "e to the power x.")
_float("expm1", "exp(x) - 1, also near 0.")
_float("log", "The natural logarithm.", sample=_POSITIVE)
_float("sqrt", "The square root.", sample=_POSITIVE)
_float("rsqrt", "One over the square root.", sample=_POSITIVE)
_float("sin", "The sine of an angle in radians.")
_float("cos", "The cosine of an angle in radians.")
_float("tan", "The tangent of an angle in radians.", sample=_SMALL)
_float("sinh", "The hyperbolic sine.")
_float("cosh", "The hyperbolic cosine.")
_float("tanh", "The hyperbolic tangent.", finite=True)
_float("asin", "The arc sine, in radians.", sample=_SMALL)
_float("acos", "The arc cosine, in radians.", sample=_SMALL)
_float("atan", "The arc tangent, in radians.")
_float("asinh", "The inverse hyperbolic sine.")
_float("acosh", "The inverse hyperbolic cosine.", sample={"low": 1.1, "high": 4.0})
_float("atanh", "The inverse hyperbolic tangent.", sample=_SMALL)
_float("sigmoid", "1 / (1 + exp(-x)).", _sigmoid, finite=True)
_float("erf", "The error function.")

unary(
    "relax.abs",
    tir.abs,
    np.abs,
    "The absolute value.",
    finite=True,
    slope=lambda cx, x: R.where(x < cx.number(0), cx.number(-1), cx.number(1)),
)
unary(
    "relax.negative",
    lambda x: -x,
    np.negative,
    "Minus x.",
    finite=True,
    slope=lambda cx, x: cx.number(-1),
)
unary("relax.ceil", tir.ceil, np.ceil, "Rounded up to an integer.")
unary("relax.floor", tir.floor, np.floor, "Rounded down to an integer.")
unary(
    "relax.round", tir.round, np.rint, "Rounded to the nearest integer, ties to even.", finite=True
)
unary("relax.trunc", tir.trunc, np.trunc, "Rounded toward zero.")
unary(
    "relax.square", lambda x: x * x, np.square, "x times x.", slope=lambda cx, x: cx.number(2) * x
)
unary(
    "relax.sign",
    lambda x: tir.Select(
        x < const(0, x.dtype),
        const(-1, x.dtype),
        tir.Select(
            x > const(0, x.dtype),
            const(1, x.dtype),
            tir.Select(x.equal(0), const(0, x.dtype), x),  # the zero of -0; NaN
        ),
    ),
    np.sign,
    "-1, 0 or 1, by the sign of x; NaN of NaN.",
)
unary("relax.isnan", tir.isnan, np.isnan, "Whether x is not a number.", result="bool")
unary("relax.isinf", tir.isinf, np.isinf, "Whether x is an infinity.", result="bool")
unary("relax.isfinite", tir.isfinite, np.isfinite, "Whether x is finite.", result="bool")
unary(
    "relax.logical_not",
    lambda x: tir.Not(x),
    np.logical_not,
    "Whether x is false.",
    result="bool",
    sample={"dtype": "bool"},
)
unary(
    "relax.bitwise_not",
    lambda x: ~x,
    np.bitwise_not,
    "All bits inverted.",
    sample={"dtype": "int32", "low": -9, "high": 9},
)


@op("relax.astype", mixed="follow")
def cast_(x: Tensor, dtype: DType):
    """x converted to `dtype`; float to int truncates toward zero."""
    return compute(x.shape, lambda *i: cast(dtype, x(*i)), "compute", axes="i", tag="elemwise")


cast_.te_name = cast_.__name__ = "cast"


@cast_.legalize
def _(bb, call):
    """A number that is known is a constant."""
    (x,) = call.args
    if not isinstance(x, Constant) or x.struct_info.ndim != 0 or x.is_weight:
        return cast_._legalize(bb, call)
    return constant(x.data.numpy().astype(numpy_dtype(call.attrs.dtype)), call.attrs.dtype)


@cast_.grad
def _(cx, x, dtype):
    kind = x.struct_info.dtype
    return R.astype(cx.grad, str(kind)) if kind.is_float and DataType(dtype).is_float else [None]


cast_.infer(lambda x, dtype: TensorStructInfo(x.shape, dtype, ndim=x.ndim))
cast_.numpy(lambda x, dtype: x.astype(numpy_dtype(dtype)))
cast_.layout(elementwise(finite=True))
cast_.samples(
    case((2, 3), dtype="int32"), case(("n", 3), dtype="float16"), case((2, 3), dtype="float64")
)


@op("relax.reinterpret")
def reinterpret(x: Tensor, dtype: DType):
    """The bits of each element read as another dtype of the same width."""
    _check_width(x, dtype)
    return compute(x.shape, lambda *i: tir.reinterpret(dtype, x(*i)), "reinterpret", tag="elemwise")


def _check_width(x, dtype):
    have, want = DataType(x.dtype), DataType(dtype)
    if not have.is_void and have.bits != want.bits:
        what = "the dtypes of reinterpret are of one width"
        raise ValueError(explain(what, got=f"{have} as {want}", instead="use astype"))


@reinterpret.infer
def _(x: TensorStructInfo, dtype):
    _check_width(x, dtype)
    return like(x, dtype)


reinterpret.numpy(lambda x, dtype: x.view(numpy_dtype(dtype)))
reinterpret.samples(case((2, 3), dtype="int32"), case(("n", 3), dtype="uint32"))


@op("relax.wrap_param")
def wrap_param(data: Tensor, dtype: DType = "float32"):
    """A parameter of the model in `dtype`."""
    return cast_(data, dtype)


wrap_param.infer(lambda data, dtype: TensorStructInfo(data.shape, dtype, ndim=data.ndim))
wrap_param.numpy(lambda data, dtype="float32": data.astype(numpy_dtype(dtype)))
wrap_param.samples(case((2, 3), dtype="float16"), case((2,), dtype="float32"))


@op("relax.clip", mixed="follow")
def clip(x: Tensor, min: Prim, max: Prim):
    """x limited to [min, max]."""
    low, high = cast(x.dtype, min), cast(x.dtype, max)
    limit = lambda *i: tir.max(tir.min(x(*i), high), low)  # noqa: E731
    return compute(x.shape, limit, "compute", axes="i", tag="elemwise")


clip.te_name = "tir_clip"


@clip.numpy
def _(x, min, max):
    limited = np.clip(x, np.asarray(min, x.dtype), np.asarray(max, x.dtype))
    return limited.astype(x.dtype, copy=False)


@clip.grad
def _(cx, x, min, max):
    inside = R.logical_and(x >= cx.number(min.value.value), x <= cx.number(max.value.value))
    return [R.where(inside, cx.grad, cx.number(0)), None, None]


clip.infer(lambda x, *_: like(x))
clip.layout(elementwise(finite=True))
clip.samples(case((2, 3), -1.0, 1.0), case(("n", 8), 0.0, 6.0))
