"""Texts of struct infos."""

from __future__ import annotations

from ...ir.functor import post_order_visit
from ...ir.module import VDevice
from ...ir.prim_expr import IntImm, PrimExpr
from ...ir.prim_expr import Var as TirVar
from ...relax import struct_info as si
from ...relax import types as ty
from ...relax.expr import ShapeExpr
from .core import RELAX, Printer, call_text, dtype_text, expr_of, mode_of, tuple_text
from .doc import quote

mode_of(si.StructInfo, RELAX)
mode_of(ty.Type, RELAX)


def dimension(p: Printer, expr: PrimExpr) -> str:
    """A dimension; within a function's signature, one with variables prints as a string."""
    text = p.expr(expr)
    if isinstance(expr, IntImm):
        return text
    frame = next((f for f in p.frames if f.func_vars is not None), None)
    names = None if frame is None else frame.func_vars
    if names is None or not _mentions(expr, names):
        return text
    inner = text.replace('"', '\\"')  # of a cast's dtype
    return f'"{inner}"'


def _mentions(expr: PrimExpr, names: set[int]) -> bool:
    mentioned = False

    def look(node: PrimExpr) -> None:
        nonlocal mentioned
        mentioned = mentioned or (isinstance(node, TirVar) and id(node) in names)

    post_order_visit(expr, look)
    return mentioned


expr_of(si.ObjectStructInfo)(lambda p, _: p.relax("Object"))


@expr_of(si.PrimStructInfo)
def _prim(p: Printer, info: si.PrimStructInfo) -> str:
    if info.value is not None:
        return f"{p.relax('Prim')}(value={dimension(p, info.value)})"
    return f"{p.relax('Prim')}({dtype_text(info.dtype)})"


@expr_of(si.ShapeStructInfo)
def _shape(p: Printer, info: si.ShapeStructInfo) -> str:
    if info.values is None:
        return f"{p.relax('Shape')}(ndim={info.ndim})"
    return f"{p.relax('Shape')}([{', '.join([dimension(p, v) for v in info.values])}])"


@expr_of(si.TensorStructInfo)
def _tensor(p: Printer, info: si.TensorStructInfo) -> str:
    args: list[str] = []
    if isinstance(info.shape, ShapeExpr):
        args.append(tuple_text([dimension(p, v) for v in info.shape.values]))
    elif info.shape is not None:
        args.append(p.expr(info.shape))
    keywords: dict[str, str] = {}
    if not info.dtype.is_void:
        keywords["dtype"] = dtype_text(info.dtype)
    if info.vdevice is not None and info.vdevice.target is not None:
        keywords["vdevice"] = f'"{device_name(p, info.vdevice)}"'
    if info.shape is None and info.ndim != -1:
        keywords["ndim"] = str(info.ndim)
    if not args and not keywords:
        return p.relax("Tensor")
    return call_text(p.relax("Tensor"), args, keywords)


def device_name(p: Printer, device: VDevice) -> str:
    """`cuda:0`: kind, and number among the module's devices of that kind."""
    kind = device.target.kind.name if device.target is not None else ""
    infos = p.module.global_infos.get("vdevice", []) if p.module is not None else []
    same_kind = [d for d in infos if d.target is not None and d.target.kind.name == kind]
    index = next((i for i, d in enumerate(same_kind) if d is device or _same_device(d, device)), -1)
    return f"{kind}:{index}"


def _same_device(a: VDevice, b: VDevice) -> bool:
    same_target = str(a.target) == str(b.target)
    return same_target and a.vdevice_id == b.vdevice_id and a.memory_scope == b.memory_scope


@expr_of(si.TupleStructInfo)
def _tuple(p: Printer, info: si.TupleStructInfo) -> str:
    if not info.fields:
        return p.relax("Tuple")
    return f"{p.relax('Tuple')}({p.exprs(info.fields)})"


@expr_of(si.FuncStructInfo)
def _func(p: Printer, info: si.FuncStructInfo) -> str:
    if info.params is None:
        keywords: dict[str, str] = {}
        if not isinstance(info.ret, si.ObjectStructInfo):
            keywords["ret"] = p.expr(info.ret)
        if isinstance(info.derive_func, str):
            keywords["derive_func"] = quote(info.derive_func)
        if info.purity:
            keywords["purity"] = "True"
        return call_text(p.relax("Callable"), [], keywords) if keywords else p.relax("Callable")
    args = [p.tuple(info.params), p.expr(info.ret), str(info.purity)]
    return call_text(p.relax("Callable"), args)


expr_of(ty.ObjectType)(lambda p, _: p.relax("Object"))


expr_of(ty.PackedFuncType)(lambda p, _: p.relax("PackedFunc"))


expr_of(ty.ShapeType)(lambda p, kind: f"{p.relax('Shape')}(ndim={kind.ndim})")


@expr_of(ty.TensorType)
def _tensor_type(p: Printer, kind: ty.TensorType) -> str:
    return f"{p.relax('Tensor')}(ndim={kind.ndim}, dtype={dtype_text(kind.dtype)})"


expr_of(ty.TupleType)(lambda p, kind: f"{p.relax('Tuple')}({p.exprs(kind.fields)})")


@expr_of(ty.FuncType)
def _func_type(p: Printer, kind: ty.FuncType) -> str:
    return call_text(p.relax("Callable"), [p.tuple(kind.arg_types), p.expr(kind.ret_type)])
