"""Operators on tensors element by element, and a few that make tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....base.errors import explain
from ....ir.dtype import DataType
from ....ir.prim_expr import IntImm, PrimExpr
from ....ir.prim_op import max_value, min_value
from ....ops.core import BROADCAST, ELEMENTWISE, FUSABLE, INJECTIVE
from ....relax import expr as rx
from ... import topi
from ..types import Any as AnyDim
from ..types import TensorType, TupleType
from . import layouts
from .core import Input, Inputs, Numbers, R, kernel, op, same, with_category

# A name and, after a colon, the category of mixed precision.
_UNARY = with_category("""
    log tan cos cosh sin sinh acos acosh asin asinh atan atanh exp:never erf:never sqrt:follow rsqrt
    sigmoid:follow floor ceil trunc round abs sign tanh:follow negative logical_not bitwise_not isnan
    isfinite isinf fast_exp:follow fast_erf:follow fast_tanh:follow
""")
# The result has another dtype than the operand.
_ANSWERS = {"isnan": "bool", "isfinite": "bool", "isinf": "bool"}


def _unary(name: str, mixed: str) -> None:
    @same(name, name.removeprefix("fast_"), "data", kind=ELEMENTWISE, mixed=mixed).infer
    def _(types: list[Any], attrs: dict[str, Any]) -> Any:
        (data,) = types
        if not isinstance(data, TensorType):
            raise TypeError(explain(f"{name} takes a tensor", got=str(data)))
        return data.replace(dtype=DataType(_ANSWERS.get(name, data.dtype)))


for _name, _mixed in _UNARY.items():
    _unary(_name, _mixed)


def broadcast(a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> tuple[Any, ...]:
    """The shape of two operands together: an extent of 1 is repeated, one that is not known is
    taken to fit. Raises ValueError."""
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    lead = len(longer) - len(shorter)
    dims = list(longer[:lead])
    for x, y in zip(longer[lead:], shorter, strict=True):
        one_x, one_y = _is(x, 1), _is(y, 1)
        if one_x or one_y:
            dims.append(y if one_x else x)
        elif isinstance(x, AnyDim) or isinstance(y, AnyDim):
            dims.append(y if isinstance(x, AnyDim) else x)
        elif isinstance(x, IntImm) and isinstance(y, IntImm) and x.value != y.value:
            got = f"{[str(d) for d in a]} and {[str(d) for d in b]}"
            raise ValueError(explain("Incompatible broadcast type", got=got))
        else:
            dims.append(x if isinstance(x, IntImm) or not isinstance(y, IntImm) else y)
    return tuple(dims)


def _is(dim: PrimExpr, value: int) -> bool:
    return isinstance(dim, IntImm) and dim.value == value


_BINARY = with_category("""
    add:follow subtract:follow multiply:follow divide:follow floor_divide power:never floor_mod
    logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor equal not_equal less:follow
    less_equal:follow greater:follow greater_equal:follow maximum:follow minimum:follow right_shift
    left_shift mod trunc_mod
""")
_COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}


@op("trunc_divide", kind=BROADCAST, layout=layouts.broadcasting)
def trunc_divide(lhs: Input, rhs: Input) -> Any:
    """lhs / rhs rounded towards zero; of integers exactly."""
    quotient = R.divide(lhs, rhs)
    return quotient if DataType(lhs.struct_info.dtype).is_integer else R.trunc(quotient)


def _broadcast_rule(name: str) -> Callable[..., TensorType]:
    """The hook `infer` of an operator on two tensors."""

    def infer(types: list[Any], attrs: dict[str, Any]) -> TensorType:
        a, b = types
        if not (isinstance(a, TensorType) and isinstance(b, TensorType)):
            raise TypeError(explain(f"{name} takes tensors", got=f"{a}, {b}"))
        if a.dtype != b.dtype:
            what = f"{name} takes operands of one dtype"
            raise ValueError(explain(what, got=f"{a.dtype} and {b.dtype}", instead="cast one"))
        dtype = "bool" if name in _COMPARISONS else a.dtype
        return TensorType(broadcast(a.shape, b.shape), dtype)

    return infer


for _name, _mixed in _BINARY.items():
    _row = same(_name, _name.removeprefix("trunc_"), "lhs rhs", kind=BROADCAST, mixed=_mixed,
        layout=layouts.broadcasting)  # fmt: skip
    _row.infer(_broadcast_rule(_name))
trunc_divide.infer(_broadcast_rule("trunc_divide"))


def scalar(value: np.generic | float | None, like: Any) -> Any:
    """A constant without axes of the dtype of an expression."""
    return rx.const(value, str(like.struct_info.dtype))


def extent_value(extent: PrimExpr) -> Any:
    """An extent as an int64 without axes."""
    if isinstance(extent, (int, IntImm)):
        return rx.const(int(getattr(extent, "value", extent)), "int64")
    return R.reshape(R.shape_to_tensor(rx.ShapeExpr([extent])), [])


@op("log2", kind=ELEMENTWISE)
def log2(data: Input) -> Any:
    """The logarithm to base 2."""
    return R.multiply(R.log(data), scalar(1 / np.log(2), data))


@op("log10", kind=ELEMENTWISE)
def log10(data: Input) -> Any:
    """The logarithm to base 10."""
    return R.multiply(R.log(data), scalar(1 / np.log(10), data))


@op("clip", attrs="ClipAttrs", kind=ELEMENTWISE, mixed="bounded")
def clip(a: Input, a_min: float, a_max: float) -> Any:
    """Each element, but no less than a_min and no more than a_max."""
    dtype = DataType(a.struct_info.dtype)
    if dtype.is_integer:
        low, high = min_value(dtype).value, max_value(dtype).value
        a_min = min(max(int(np.ceil(max(a_min, float(low)))), int(low)), int(high))
        a_max = min(max(int(np.floor(min(a_max, float(high)))), int(low)), int(high))
    return R.clip(a, a_min, a_max)


@op("copy", kind=ELEMENTWISE, mixed="follow")
def copy(data: Input) -> Any:
    """The same values."""
    return data


@op("zeros", attrs="InitOpAttrs", kind=INJECTIVE, mixed="follow")
def zeros(shape: Numbers = (), dtype: str = "float32") -> Any:
    """A tensor of zeros."""
    return R.zeros(list(shape), dtype)


@op("ones", attrs="InitOpAttrs", kind=INJECTIVE)
def ones(shape: Numbers = (), dtype: str = "float32") -> Any:
    """A tensor of ones."""
    return R.ones(list(shape), dtype)


def shape_of_tensor(shape: Any) -> Any:
    """The shape that a tensor of integers says, for Relax."""
    wide = shape if shape.struct_info.dtype == "int64" else R.astype(shape, "int64")
    return R.tensor_to_shape(wide)


@op("dyn.zeros", attrs="InitOpAttrs", static=zeros)
def dyn_zeros(shape: Input, dtype: str = "float32") -> Any:
    """A tensor of zeros whose shape is a value."""
    return R.zeros(shape_of_tensor(shape), dtype)


@op("dyn.ones", attrs="InitOpAttrs", static=ones)
def dyn_ones(shape: Input, dtype: str = "float32") -> Any:
    """A tensor of ones whose shape is a value."""
    return R.ones(shape_of_tensor(shape), dtype)


def i64(value: np.ndarray[Any, Any] | int) -> Any:
    """A constant of int64."""
    return rx.const(np.asarray(value, "int64"))


def as_i64(data: Any) -> Any:
    """A tensor of integers as int64."""
    return data if data.struct_info.dtype == "int64" else R.astype(data, "int64")


same("zeros_like", params="data", kind=ELEMENTWISE)
same("ones_like", params="data", kind=ELEMENTWISE)


@op("concatenate", attrs="ConcatenateAttrs", kind=INJECTIVE, mixed="follow", layout=layouts.joining)
def concatenate(data: Inputs, axis: int = 0) -> Any:
    """The tensors of a tuple, one after another along an axis."""
    return R.concat(fields(data), axis)


@concatenate.infer
def _(types: list[Any], attrs: dict[str, Any]) -> Any:
    (tensors,) = types
    if not isinstance(tensors, TupleType) or not tensors.fields:
        raise TypeError(explain("concatenate takes a tuple of tensors", got=str(tensors)))
    first = tensors.fields[0]
    axis, rank = int(attrs["axis"]), len(first.shape)
    if not -rank <= axis < rank:
        raise ValueError(explain("concatenate: the axis is out of range", got=f"{axis} of {rank}"))
    if any(isinstance(d, AnyDim) for t in tensors.fields for d in t.shape):
        parts = [t.shape[axis] for t in tensors.fields]
        is_static = all(isinstance(d, IntImm) for d in parts)
        whole = sum(d.value for d in parts) if is_static else AnyDim()
        dims = [whole if i == axis % rank else d for i, d in enumerate(first.shape)]
        for other in tensors.fields[1:]:
            dims = [o if isinstance(d, AnyDim) and i != axis % rank else d
                    for i, (d, o) in enumerate(zip(dims, other.shape, strict=True))]  # fmt: skip
        return TensorType(dims, first.dtype)
    return None


def fields(data: Any) -> list[Any]:
    """The fields of a tuple in Relax."""
    if isinstance(data, rx.Tuple):
        return list(data.fields)
    return [rx.TupleGetItem(data, i) for i in range(len(data.struct_info.fields))]


same("stack", params="data axis", attrs="StackAttrs", kind=INJECTIVE)
same("einsum", params="data equation", attrs="EinsumAttrs", kind=FUSABLE)


@op("shape_of", attrs="ShapeOfAttrs", kind=INJECTIVE, mixed="follow")
def shape_of(data: Input, dtype: str = "int32") -> Any:
    """The shape, as a tensor."""
    values = R.shape_to_tensor(R.shape_of(data))
    return values if dtype == "int64" else R.astype(values, dtype)


@op("ndarray_size", attrs="NdarraySizeAttrs", kind=INJECTIVE)
def ndarray_size(data: Input, dtype: str = "int32") -> Any:
    """The number of elements."""
    dims = data.struct_info.get_shape()
    if dims is not None and all(isinstance(d, IntImm) for d in dims):
        return rx.const(int(np.prod([d.value for d in dims], dtype="int64")), dtype)
    return R.astype(R.prod(R.shape_to_tensor(R.shape_of(data))), dtype)


@op("fixed_point_multiply", attrs="FixedPointMultiplyAttrs", kind=ELEMENTWISE)
def fixed_point_multiply(data: Input, multiplier: int, shift: int) -> Any:
    """data * multiplier / 2**31 * 2**shift, rounded half up, in 64 bits."""
    wide = R.multiply(R.astype(data, "int64"), rx.const(int(multiplier), "int64"))
    right = 31 - int(shift)
    if right > 0:
        wide = R.right_shift(
            R.add(wide, rx.const(1 << (right - 1), "int64")), rx.const(right, "int64")
        )
    else:
        wide = R.left_shift(wide, rx.const(-right, "int64"))
    return R.astype(wide, str(data.struct_info.dtype))


@op("fixed_point_multiply_per_axis", attrs="FixedPointMultiplyPerAxisAttrs")
def fixed_point_multiply_per_axis(
    x: Input, multiplier: Input, lshift: Input, rshift: Input, is_lshift_required: bool = False,
    is_rshift_required: bool = False, axes: Any = (),
) -> Any:  # fmt: skip
    """`fixed_point_multiply` by multipliers and shifts of their own along `axes`."""
    shifts = (bool(is_lshift_required), bool(is_rshift_required))
    args = (x, multiplier, lshift, rshift, *shifts, [int(a) for a in axes])
    return kernel(topi.fixed_point_multiply_per_axis, *args)
