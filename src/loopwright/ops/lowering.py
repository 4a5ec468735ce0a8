"""Lowers a call by the operator's body; equal kernels are built once per block builder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from ..ir.prim_expr import FloatImm, IntImm, PrimExpr, Var
from ..ir.structural import StructuralKey
from ..ir.variables import substitute, vars_in
from ..relax.block_builder import BlockBuilder
from ..relax.expr import Call, Constant, Expr, PrimValue, ShapeExpr, Tuple
from ..relax.expr import Var as GraphVar
from ..relax.struct_info import PrimStructInfo, ShapeStructInfo, StructInfo, TensorStructInfo
from ..relax.te_call import scalar_literal
from .extents import is_in_order
from .inference import dtype_unknown, info_of, is_static, run_body
from .params import Param

# By block builder: the key of a kernel -> its first call, and the variables of that one's shapes.
_LOWERED: WeakKeyDictionary[Any, dict[Any, tuple[Call, list[Var]]]] = WeakKeyDictionary()


def lower_by_body(
    bb: BlockBuilder, call: Call, body: Callable[..., Any], params: list[Param],
    args: dict[str, Any], attrs: dict[str, Any], hint: str, marks: dict[str, Any],
) -> Any:  # fmt: skip
    """A call of the kernel that `body` defines for the graph arguments `args` (by the names of
    `params`) and the attributes `attrs`; the call itself if a shape is unknown. marks: the kernel's
    own attributes."""
    values: list[Any] = []
    if isinstance(call.struct_info, PrimStructInfo):
        return call
    one = _is_one_float(call.struct_info)
    literals = [not one or p.annotation == "Scalar" or p.kind != "Tensor" for p in params]
    for p, literal, value in zip(params, literals, args.values(), strict=True):
        passed = p.annotation == "Operand" and isinstance(info_of(value), PrimStructInfo)
        if value is not None and not passed and not is_static(value):
            return call
        info = info_of(value)
        if isinstance(info, ShapeStructInfo):
            value = ShapeExpr(info.values)
        elif literal and (
            p.annotation == "Scalar" or (p.kind == "Tensor" and _has_tensor(call.args))
        ):
            number = scalar_literal(value)
            value = value if number is None else number
        values.append(value)
    for value in call.args:
        _check_dtype_known(call, value)
    bound = partial(run_body, body, attrs)  # call_te takes graph arguments only
    key, tensors, sizes = _loops_key(call, args, values, literals)
    build = partial(bb.call_te, bound, *values, primfunc_name_hint=hint, primfunc_attrs=marks)
    if key is None:
        return build()
    lowered = _LOWERED.setdefault(bb, {})
    if key not in lowered:
        lowered[key] = build(), sizes
        return lowered[key][0]
    # The same kernel, called with other tensors, of sizes with other names.
    earlier, old_sizes = lowered[key]
    names = dict(zip(old_sizes, sizes, strict=True))
    parts = (earlier.args[2:], earlier.sinfo_args)
    more, infos = parts if sizes == old_sizes else substitute(parts, names)
    if not all(map(_in_order, infos)):
        return build()
    return earlier.replace(args=(earlier.args[0], Tuple(tensors), *more), sinfo_args=infos)


def _in_order(info: StructInfo) -> bool:
    """Whether a result's extents are as inference writes them (`broadcast_extent`)."""
    dims = info.get_shape() if isinstance(info, TensorStructInfo) else None
    return all(is_in_order(d) for d in dims or ())


def _is_one_float(info: StructInfo) -> bool:
    """Whether a result is one number: then a constant operand is loaded, so that all share a kernel."""
    return isinstance(info, TensorStructInfo) and info.ndim == 0 and info.dtype.is_float


def _has_tensor(args: Sequence[Any]) -> bool:
    """Whether there is a tensor among the arguments that is not a scalar constant."""
    fields = (f for a in args for f in (a.fields if isinstance(a, Tuple) else [a]))
    tensors = (f for f in fields if isinstance(f.struct_info, TensorStructInfo))
    return any(scalar_literal(tensor) is None for tensor in tensors)


def _check_dtype_known(call: Call, value: Expr) -> None:
    if dtype_unknown(value):
        raise AssertionError(
            f"To legalize {call.op.name.replace('relax', 'R', 1)} the dtype of its arguments "
            f"must be known; got {info_of(value)}"
        )


def _loops_key(
    call: Call, args: dict[str, Any], values: list[Any], literals: list[bool]
) -> tuple[Any, list[Any], list[Var]]:
    """The key of the kernel that a call is lowered to, the tensors passed to it, and the variables
    of their shapes, whose names are not in the key. values: the arguments as they are passed to the body;
    literals: whether one may be passed as a number. None instead of the key if the kernel depends on more."""
    tensors: list[Any] = []
    dims: list[Any] = []
    attrs = () if call.attrs is None else _plain_key(call.attrs.values)
    parts = [
        _argument_key(value, tensors, dims, literal)
        if number is value or not isinstance(number, (IntImm, FloatImm))
        else ("literal", type(number), str(number.dtype), repr(number.value))
        for value, number, literal in zip(args.values(), values, literals, strict=True)
    ]
    if attrs is None or None in parts:
        return None, tensors, []
    key = (call.op.name, attrs, *parts, StructuralKey(tuple(dims)))
    return key, tensors, list(vars_in(dims))


def _plain_key(values: dict[str, Any]) -> tuple[Any, ...] | None:
    """Attributes as a key, or None if one is not plain data."""
    plain = (str, int, float, bool, type(None))
    key: list[Any] = []
    for name, value in values.items():
        items = value if isinstance(value, (list, tuple)) else (value,)
        if not all(isinstance(item, plain) for item in items):
            return None
        key.append((name, tuple(items), type(value)))
    return tuple(key)


def _argument_key(value: Expr | None, tensors: list[Any], dims: list[Any], literal: bool) -> Any:
    shape = partial(map, partial(_dim_key, dims))
    info = info_of(value)
    if value is None:
        return "none"
    if isinstance(info, TensorStructInfo) and isinstance(value, (GraphVar, Constant)):
        if literal and isinstance(value, Constant) and info.ndim == 0:
            return None
        tensors.append(value)
        return (str(info.dtype), *shape(info.get_shape() or ()))
    if isinstance(info, ShapeStructInfo):
        return ("shape", *shape(info.values or ()))
    if isinstance(value, PrimValue):
        return ("prim", str(value.value.dtype), *shape([value.value]))
    if isinstance(value, Tuple):
        parts = [_argument_key(field, tensors, dims, literal) for field in value.fields]
        return None if None in parts else ("tuple", *parts)
    return None


def _dim_key(dims: list[Any], dim: PrimExpr) -> Any:
    """The key of a constant dimension; others are compared together, as `dims`."""
    if isinstance(dim, (IntImm, FloatImm)):
        return dim.value
    dims.append(dim)
    return "symbolic"
