"""Inference of an operator's struct info: by its hook, or by running its body on placeholders."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .. import te
from ..base.errors import explain
from ..ir.functor import post_order_visit
from ..ir.module import VDevice
from ..ir.prim_expr import PrimExpr, Var
from ..ir.structural import structural_equal
from ..relax import struct_info as si
from ..relax.expr import Call, Expr, ShapeExpr
from ..relax.expr import Var as GraphVar
from ..te.tensor import Tensor
from .params import Param


class RankUndetermined(ValueError):
    """The rank of a body's result is unknown: it depends on an unknown dimension."""


def info_of(value: Any) -> Any:
    """The struct info of an argument, or None."""
    return getattr(value, "struct_info", None)


def operand_info(value: Expr) -> Any:
    """The struct info of an argument, a scalar's as that of a 0-d tensor."""
    info = info_of(value)
    return si.TensorStructInfo([], info.dtype) if isinstance(info, si.PrimStructInfo) else info


_EXPECTED = {
    "Tensor": (si.TensorStructInfo, "a tensor"),
    "Tensors": (si.TupleStructInfo, "a tuple of tensors"),
    "Shape": (si.ShapeStructInfo, "a shape"),
    "Prim": (si.PrimStructInfo, "a scalar"),
    "Prims": (si.TupleStructInfo, "a tuple of scalars"),
}


def check_kind(p: Param, value: Expr | None, call: Call) -> None:
    """Raise TypeError if an argument of a call is not of its parameter's kind."""
    expected = _EXPECTED.get(p.kind)
    if value is None or expected is None or p.annotation == "Value":
        return
    info = info_of(value)
    if p.annotation == "Operand" and isinstance(info, si.PrimStructInfo):
        return
    ok = isinstance(info, expected[0])
    if ok and p.kind == "Tensors":
        ok = all(isinstance(f, si.TensorStructInfo) for f in info.fields)
    if ok and p.annotation == "Scalar" and info.ndim != 0:
        what = f"{call.op.name}: argument {p.name} must be a 0-d tensor"
        raise ValueError(explain(what, got=str(info), span=call.span))
    if not ok:
        what = f"{call.op.name}: argument {p.name} must be {expected[1]}"
        raise TypeError(explain(what, got=str(info), span=call.span))


def _tensor_infos(value: Expr) -> list[si.TensorStructInfo]:
    info = info_of(value)
    fields = info.fields if isinstance(info, si.TupleStructInfo) else [info]
    return [f for f in fields if isinstance(f, si.TensorStructInfo)]


def device_of(args: dict[str, Any]) -> VDevice | None:
    """The device of the tensors; None if none is placed. Raises TypeError for two devices."""
    placed: dict[str, VDevice] = {}
    for name, value in args.items():
        for info in _tensor_infos(value):
            if info.vdevice is not None:
                placed.setdefault(name, info.vdevice)
    devices = list(placed.values())
    if any(not structural_equal(device, devices[0]) for device in devices):
        text = ", ".join(f"{name} on {device.target}" for name, device in placed.items())
        hint = "move one of them with R.to_vdevice"
        raise TypeError(explain("tensors on different devices", got=text, instead=hint))
    return devices[0] if devices else None


def on_device(info: si.StructInfo, device: VDevice) -> si.StructInfo:
    """A struct info with its tensors placed on `device`, unless they already name another one."""
    if isinstance(info, si.TupleStructInfo):
        return si.TupleStructInfo([on_device(f, device) for f in info.fields])
    if not isinstance(info, si.TensorStructInfo) or info.vdevice is not None:
        return info
    return si.TensorStructInfo(info.shape, info.dtype, device, info.ndim)


def of_scalars(info: si.StructInfo, params: list[Param], args: dict[str, Any]) -> si.StructInfo:
    """The struct info of an operator's result: a scalar's, where all its operands are scalars."""
    scalars = [isinstance(info_of(args[p.name]), si.PrimStructInfo) for p in params]
    operands = all(p.annotation == "Operand" for p in params)
    if params and operands and all(scalars) and isinstance(info, si.TensorStructInfo):
        return si.PrimStructInfo(info.dtype)
    return info


def with_shape_argument(info: si.StructInfo, args: dict[str, Any]) -> si.StructInfo:
    """The struct info of a tensor whose shape is the argument `shape`, a variable. Where tensors are
    read too, known dimensions say more than the variable."""
    shape = args.get("shape")
    if not isinstance(shape, GraphVar) or not isinstance(info, si.TensorStructInfo):
        return info
    reads = any(t.ndim != 0 for value in args.values() for t in _tensor_infos(value))
    if reads and info.shape is not None:
        return info
    return si.TensorStructInfo(shape, info.dtype, info.vdevice)


def _rank_unknown(value: Expr) -> bool:
    info = info_of(value)
    if isinstance(info, si.ShapeStructInfo):
        return info.values is None
    return any(f.ndim == -1 for f in _tensor_infos(value))


def dtype_unknown(value: Expr) -> bool:
    """Whether an argument is, or contains, a tensor of unknown dtype."""
    return any(f.dtype.is_void for f in _tensor_infos(value))


def is_static(value: Expr) -> bool:
    """Whether every dimension is known as an expression (possibly symbolic)."""
    info = info_of(value)
    if isinstance(info, si.ShapeStructInfo):
        return info.values is not None
    if isinstance(info, si.PrimStructInfo):
        return info.value is not None
    return all(isinstance(f.shape, ShapeExpr) for f in _tensor_infos(value))


def infer_by_body(
    body: Callable[..., Any], params: list[Param], args: dict[str, Any], attrs: dict[str, Any]
) -> si.StructInfo:
    """The struct info of a body's result for placeholders of its graph arguments."""
    if any(_rank_unknown(args[p.name]) for p in params):
        return _of_any_rank(body, params, args, attrs)
    marks: dict[int, Var] = {}
    run = partial(_expression, body, params, args, attrs, marks)
    try:
        return _of_fixed_rank(run, args, marks)
    except RankUndetermined:
        first = info_of(next(args[p.name] for p in params if p.kind == "Tensor"))
        return si.TensorStructInfo(dtype=first.dtype)


def _of_fixed_rank(
    run: Callable[..., Any], args: dict[str, Any], marks: dict[int, Var]
) -> si.StructInfo:
    if not any(dtype_unknown(value) for value in args.values()):
        return _struct_info_of(run(), marks, True)
    results: list[Any] = []
    for void in _ANY_DTYPE:
        try:
            results.append(run(void))
        except TypeError:
            if void == _ANY_DTYPE[-1] and not results:
                raise
    kinds = {str([one.dtype for one in _each(result)]) for result in results}
    return _struct_info_of(results[0], marks, len(results) > 1 and len(kinds) == 1)


# Tried for an unknown dtype: a result that has one dtype for all that the body takes has that.
_ANY_DTYPE = ("float32", "float64", "int32", "int64")


def _each(result: Tensor) -> Any:
    return result if isinstance(result, (list, tuple)) else [result]


def _expression(
    body: Callable[..., Any],
    params: list[Param],
    args: dict[str, Any],
    attrs: dict[str, Any],
    marks: dict[int, Var],
    void: str = "float32",
) -> Any:
    """The tensor expression of a body for placeholders of the arguments."""
    return run_body(body, attrs, *(_placeholder(p, args[p.name], marks, void) for p in params))


def _of_any_rank(
    body: Callable[..., Any], params: list[Param], args: dict[str, Any], attrs: dict[str, Any]
) -> si.StructInfo:
    """The results of a body where the rank of a tensor is unknown: the struct info that they have in common
    for all ranks that it takes."""
    plain = all(p.kind in ("Tensor", "Prim", "Prims") or args[p.name] is None for p in params)
    typed = not any(dtype_unknown(value) for value in args.values())
    infos: list[si.StructInfo] = []
    for rank in range(1, 7) if plain else ():
        inputs = []
        for p in params:
            info = info_of(args[p.name])
            if isinstance(info, si.TensorStructInfo) and info.ndim == -1:
                info = si.TensorStructInfo(dtype=info.dtype, ndim=rank)
                inputs.append(_te_placeholder(info, p.name, {}))
            else:
                inputs.append(_placeholder(p, args[p.name], {}))
        try:
            result = run_body(body, attrs, *inputs)
        except (ValueError, TypeError, IndexError):
            continue
        infos.append(_ranks_of(result, typed))
    if infos:
        same = all(structural_equal(f, infos[0]) for f in infos)
        return infos[0] if same else _without_rank(infos[0])
    some = any(p.kind == "Tensors" for p in params)
    return si.ObjectStructInfo() if some else si.TensorStructInfo(dtype="void")


def _ranks_of(result: Tensor, typed: bool) -> si.StructInfo:
    if isinstance(result, (list, tuple)):
        return si.TupleStructInfo([_ranks_of(m, typed) for m in result])
    return si.TensorStructInfo(dtype=result.dtype if typed else "void", ndim=len(result.shape))


def _without_rank(info: si.StructInfo) -> si.StructInfo:
    if isinstance(info, si.TupleStructInfo):
        return si.TupleStructInfo([_without_rank(f) for f in info.fields])
    return si.TensorStructInfo(dtype=info.dtype)


def run_body(
    body: Callable[..., Any],
    attrs: dict[str, Any],
    *inputs: PrimExpr | Tensor | Sequence[PrimExpr | Tensor] | None,
) -> Any:
    """The tensor expression of a body. Raises TypeError if it returns None."""
    out = body(*inputs, **attrs)
    if out is None:
        hint = "return te.compute(...), or define it with @op(..., body=False) and hooks"
        raise TypeError(explain("its body returns no tensor expression", instead=hint))
    return out


_counter = itertools.count()


def _placeholder(p: Param, value: Expr, marks: dict[int, Var], void: str = "float32") -> Any:
    """void: the dtype used for an unknown one."""
    info = info_of(value)
    if value is None or p.kind == "Callee":
        return None
    if p.kind == "Tensor":
        return _te_placeholder(info, p.name, marks, void)
    if p.kind == "Tensors":
        return [_te_placeholder(f, p.name, marks, void) for f in info.fields]
    if p.kind == "Shape":
        return list(info.values)
    if p.kind == "Prim":
        return _prim_of(info, marks)
    return [_prim_of(f, marks) for f in info.fields]


def _prim_of(info: si.PrimStructInfo, marks: dict[int, Var]) -> PrimExpr:
    if info.value is not None:
        return info.value
    return _unknown_dim(marks)


def _unknown_dim(marks: dict[int, Var]) -> Var:
    var = Var(f"unknown_{next(_counter)}", "int64")
    marks[id(var)] = var  # kept alive, so that its id is not reused
    return var


def _te_placeholder(
    info: si.TensorStructInfo, name: str, marks: dict[int, Var], void: str = "float32"
) -> Any:
    shape = info.get_shape()
    if shape is None:
        shape = tuple(_unknown_dim(marks) for _ in range(info.ndim))
    return te.placeholder(shape, void if info.dtype.is_void else info.dtype, name)


def _struct_info_of(
    out: Tensor | list[Tensor], marks: dict[int, Var], has_dtype: bool
) -> si.StructInfo:
    if isinstance(out, (list, tuple)):
        return si.TupleStructInfo([_struct_info_of(o, marks, has_dtype) for o in out])
    dtype = out.dtype if has_dtype else "void"
    if marks and any(_mentions(dim, marks) for dim in out.shape):
        return si.TensorStructInfo(dtype=dtype, ndim=len(out.shape))
    return si.TensorStructInfo(tuple(out.shape), dtype)


def _mentions(expr: Any, marks: dict[int, Var]) -> bool:
    unknown = []
    post_order_visit(expr, lambda e: unknown.append(e) if id(e) in marks else None)
    return bool(unknown)
