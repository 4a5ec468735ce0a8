"""Conversion of a te function and graph arguments to a call_tir."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import te
from ..base.errors import explain
from ..ir.expr import Attrs
from ..ir.prim_expr import IntImm, PrimExpr, StringImm
from ..ir.prim_expr import Var as TirVar
from ..ir.prim_op import const as prim_const
from ..ir.variables import vars_in
from ..tir.function import PrimFunc
from .expr import Constant, Expr, ShapeExpr, Tuple, Var
from .relations import substitute
from .struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo, TupleStructInfo


def te_tensor(value: Expr, tir_var_map: dict[TirVar, PrimExpr], name: str = "rxplaceholder") -> Any:
    """A te placeholder of the shape and dtype of a tensor expression; its symbolic dimensions
    are replaced by `tir_var_map`."""
    info = value.struct_info
    dims = info.get_shape() if isinstance(info, TensorStructInfo) else None
    if dims is None:
        what = "a te tensor needs a tensor of known shape"
        hint = "R.match_cast it to a shape first"
        raise ValueError(explain(what, got=f"{value} with {info}", instead=hint))
    shape = [substitute(dim, tir_var_map) for dim in dims]
    return te.placeholder(shape, info.dtype, name)


def scalar_literal(expr: Expr | None) -> PrimExpr | None:
    """A 0-d constant tensor as a literal of its dtype, or None; complex numbers have no literals."""
    if not isinstance(expr, Constant) or expr.data.shape or expr.is_weight:
        return None
    if expr.struct_info.dtype.code == "complex":
        return None
    return prim_const(expr.data.numpy().item(), expr.struct_info.dtype)


class _TEArguments:
    """Converts the arguments of a te function call to te's, and records the PrimFunc's
    parameters (`inputs`) and the graph's arguments for them (`call_args`)."""

    def __init__(self) -> None:
        self.fresh: dict[Any, Any] = {}  # the graph's symbolic variables -> the PrimFunc's
        self.inputs: list[Any] = []
        self.call_args: list[Any] = []
        self.scalars: list[PrimExpr] = []

    def convert(self, arg: object) -> Any:
        if isinstance(arg, Expr):
            return self.expression(arg)
        if isinstance(arg, (list, tuple)):
            return type(arg)([self.convert(a) for a in arg])
        if isinstance(arg, dict):
            return {key: self.convert(value) for key, value in arg.items()}
        if isinstance(arg, PrimExpr):
            operand = self.renamed(arg)
            self.scalars.append(operand)
            return operand
        if arg is None or isinstance(arg, (bool, int, float, str, Attrs)) or callable(arg):
            return arg
        what = "emit_te cannot pass this argument on"
        hint = "tensors, shapes, scalars, Python values, and lists or dicts of them can be passed"
        raise TypeError(explain(what, got=f"{type(arg).__name__}: {arg!r}", instead=hint))

    def expression(self, arg: Expr) -> Any:
        info = arg.struct_info
        if isinstance(info, TensorStructInfo):
            for dim in info.get_shape() or ():
                self.renamed(dim)
            operand = te_tensor(arg, self.fresh, self.name_of(arg))
            self.call_args.append(arg)
            self.inputs.append(operand)
            return operand
        if isinstance(info, ShapeStructInfo):
            if info.values is None:
                what = "emit_te can pass a shape of known dimensions only"
                raise ValueError(explain(what, got=f"{arg} with {info}"))
            return [self.convert(value) for value in info.values]
        if isinstance(info, PrimStructInfo):
            if info.value is not None:
                value = info.value
                return value.value if isinstance(value, StringImm) else self.convert(value)
            operand = TirVar(self.name_of(arg), info.dtype)
            self.call_args.append(arg)
            self.inputs.append(operand)
            return operand
        if isinstance(info, TupleStructInfo):
            fields = arg.fields if isinstance(arg, Tuple) else list(arg)
            return [self.convert(field) for field in fields]
        what = "emit_te cannot pass this expression on"
        raise TypeError(explain(what, got=f"{arg} with {info}", instead="pass tensors or shapes"))

    def renamed(self, value: PrimExpr) -> PrimExpr:
        """The expression with each variable of the graph replaced by one of the PrimFunc's own."""
        if isinstance(value, IntImm):
            return value
        for var in vars_in(value):
            if var not in self.fresh:
                self.fresh[var] = TirVar(var.name, var.dtype)
        return substitute(value, self.fresh)

    def name_of(self, arg: Expr) -> str:
        if isinstance(arg, Var):
            return arg.name_hint
        count = len(self.inputs)
        return chr(ord("A") + count) if count < 26 else f"input{count}"


def gen_call_tir_inputs(
    func: Callable[..., Any], *args: Any, **kwargs: dict[str, Any] | str
) -> tuple[PrimFunc, Tuple, Any, ShapeExpr | None]:
    """(PrimFunc, arguments, output struct info, tir_vars) of a `call_tir` of the te function.

    The outputs are on the device of the first argument that has one. The keyword `primfunc_attrs` is set on the PrimFunc; other keywords are passed to `func`.
    """
    attrs = kwargs.pop("primfunc_attrs", None)
    arguments = _TEArguments()
    te_args = arguments.convert(list(args))
    te_kwargs = arguments.convert(kwargs)
    result = func(*te_args, **te_kwargs)
    outs = [result] if isinstance(result, te.Tensor) else list(result)
    for out in outs:
        if not isinstance(out, te.Tensor):
            what = f"{getattr(func, '__name__', 'the function')} must return te tensors"
            raise TypeError(
                explain(what, got=type(out).__name__, instead="build them by te.compute")
            )
    unbound = _unbound_vars([*arguments.inputs, *outs], arguments.scalars)
    back = {fresh: var for var, fresh in arguments.fresh.items()}
    prim_func = te.create_prim_func(
        [*arguments.inputs, *outs, *unbound], index_dtype_override="int64"
    )
    prim_func = prim_func.without_attr("global_symbol")
    if attrs:
        prim_func = prim_func.with_attrs(attrs)
    device = next(filter(None, (_device(a.struct_info) for a in arguments.call_args)), None)
    infos = [
        TensorStructInfo([substitute(d, back) for d in o.shape], o.dtype, device) for o in outs
    ]
    out_sinfo = infos[0] if len(infos) == 1 else TupleStructInfo(infos)
    tir_vars = ShapeExpr([back.get(v, v) for v in unbound]) if unbound else None
    return prim_func, Tuple(arguments.call_args), out_sinfo, tir_vars


def _device(info: TensorStructInfo) -> Any:
    return info.vdevice if isinstance(info, TensorStructInfo) else None


def _unbound_vars(tensors: list[Any], scalars: list[PrimExpr]) -> list[TirVar]:
    """The variables that are not a whole dimension of any buffer, so must be passed."""
    bound: set[TirVar] = set()
    used: dict[TirVar, None] = {}
    for tensor in tensors:
        if isinstance(tensor, TirVar):
            bound.add(tensor)
            continue
        for dim in tensor.shape:
            if isinstance(dim, TirVar):
                bound.add(dim)
            used.update(dict.fromkeys(vars_in(dim)))
    for scalar in scalars:
        used.update(dict.fromkeys(vars_in(scalar)))
    return [var for var in used if var not in bound]
