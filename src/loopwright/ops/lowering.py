"""Lowers a call by the operator's body; equal kernels are built once per block builder."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from ..ir.prim_expr import FloatImm, IntImm, Var
from ..ir.structural import StructuralKey
from ..relax.expr import Call, Constant, PrimValue, ShapeExpr, Tuple
from ..relax.expr import Var as GraphVar
from ..relax.struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo
from ..relax.te_call import scalar_literal
from .inference import dtype_unknown, info_of, is_static, run_body
from .params import Param

# By block builder: the key of a kernel -> its first call.
_LOWERED: WeakKeyDictionary[Any, dict[Any, Call]] = WeakKeyDictionary()


def lower_by_body(
    bb: Any,
    call: Call,
    body: Callable[..., Any],
    params: list[Param],
    args: dict[str, Any],
    attrs: dict[str, Any],
    hint: str,
    marks: dict[str, Any],
) -> Any:
    """A call of the kernel that `body` defines for the graph arguments `args` (by the names of
    `params`) and the attributes `attrs`; the call itself if a shape is unknown. marks: the kernel's
    own attributes."""
    given: list[Any] = []
    if isinstance(call.struct_info, PrimStructInfo):
        return call
    for p, value in zip(params, args.values(), strict=True):
        passed = p.annotation == "Operand" and isinstance(info_of(value), PrimStructInfo)
        if value is not None and not passed and not is_static(value):
            return call
        info = info_of(value)
        if isinstance(info, ShapeStructInfo):
            value = ShapeExpr(info.values)
        elif p.annotation == "Scalar":
            literal = scalar_literal(value)
            value = value if literal is None else literal
        given.append(value)
    for value in call.args:
        _check_dtype_known(call, value)
    bound = functools.partial(run_body, body, attrs)  # call_te takes graph arguments only
    key, tensors = _loops_key(call, args)
    build = functools.partial(
        bb.call_te, bound, *given, primfunc_name_hint=hint, primfunc_attrs=marks
    )
    if key is None:
        return build()
    lowered = _LOWERED.setdefault(bb, {})
    earlier = lowered.get(key)
    if earlier is None:
        earlier = lowered[key] = build()
        return earlier
    # The same kernel, called with other tensors.
    return earlier.replace(args=(earlier.args[0], Tuple(tensors), *earlier.args[2:]))


def _check_dtype_known(call: Call, value: Any) -> None:
    if dtype_unknown(value):
        raise AssertionError(
            f"To legalize {call.op.name.replace('relax', 'R', 1)} the dtype of its arguments "
            f"must be known; got {info_of(value)}"
        )


def _loops_key(call: Call, args: dict[str, Any]) -> tuple[Any, list[Any]]:
    """The key of the kernel that a call is lowered to, and the tensors passed to it. The key is
    None if the kernel depends on more (scalar constants become literals in it)."""
    tensors: list[Any] = []
    attrs = () if call.attrs is None else _plain_key(call.attrs.values)
    parts = [_argument_key(value, tensors) for value in args.values()]
    if attrs is None or None in parts:
        return None, tensors
    return (call.op.name, attrs, *parts), tensors


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


def _argument_key(value: Any, tensors: list[Any]) -> Any:
    info = info_of(value)
    if value is None:
        return "none"
    if isinstance(info, TensorStructInfo) and isinstance(value, (GraphVar, Constant)):
        if isinstance(value, Constant) and info.ndim == 0:
            return None
        tensors.append(value)
        return (str(info.dtype), *map(_dim_key, info.get_shape() or ()))
    if isinstance(info, ShapeStructInfo):
        return ("shape", *map(_dim_key, info.values or ()))
    if isinstance(value, PrimValue):
        return ("prim", str(value.value.dtype), _dim_key(value.value))
    if isinstance(value, Tuple):
        parts = [_argument_key(field, tensors) for field in value.fields]
        return None if None in parts else ("tuple", *parts)
    return None


def _dim_key(dim: Any) -> Any:
    if isinstance(dim, (IntImm, FloatImm)):
        return dim.value
    return dim if isinstance(dim, Var) else StructuralKey(dim, map_free_vars=False)
