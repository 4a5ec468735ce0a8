"""Copies of functions: with fresh variables, with parameters or symbolic dimensions bound, with
other functions inlined. They are also methods of `relax.Function`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base.errors import explain
from ..base.names import free_name
from ..ir.expr import GlobalVar
from ..ir.prim_expr import PrimExpr
from ..ir.prim_expr import Var as TirVar
from ..ir.prim_op import convert
from ..runtime.tensor import Tensor
from .analysis.variables import defined_symbolic_vars, free_symbolic_vars, overwritten_vars
from .block_builder import BlockBuilder
from .expr import Call, Constant, Expr, Function, SeqExpr, Var, const
from .functor import GraphRewriter
from .relations import BaseCheckResult, Substitute, match_struct_info
from .struct_info import StructInfo


class _Replace(Substitute):
    """Replaces graph and symbolic variables. A variable whose struct info changes is
    replaced by one of the same name; with `fresh`, so is every variable defined inside."""

    def __init__(self, table: dict[Any, Any], fresh: bool = False) -> None:
        super().__init__(table)
        self.fresh = fresh

    def visit_Var(self, var: Any) -> Any:
        if isinstance(var, TirVar):
            return super().visit_Var(var)
        new = self.table.get(var)
        if new is None:
            info = self.visit(var.struct_info)
            new = var if info is var.struct_info else type(var)(var.vid, info, var.span)
            self.table[var] = new
        return new

    def define(self, var: Var) -> None:
        if self.fresh and var not in self.table:
            info = self.visit(var.struct_info)
            self.table[var] = type(var)(var.name_hint, info, var.span)

    def visit_Function(self, func: Function) -> Any:
        for param in func.params:
            self.define(param)
        return self.visit_default(func)

    def visit_VarBinding(self, binding: Any) -> Any:
        self.define(binding.var)
        return self.visit_default(binding)

    def visit_MatchCast(self, binding: Any) -> Any:
        self.define(binding.var)
        return self.visit_default(binding)

    def visit_Attrs(self, attrs: Any) -> Any:
        return attrs

    def visit_PrimFunc(self, func: Any) -> Any:
        return func

    def visit_GlobalVar(self, var: Any) -> Any:
        return var


def _renormalized(func: Function) -> Function:
    return BlockBuilder().normalize(func)


def copy_with_new_vars(func: Function) -> Function:
    """A copy with new variables of the same names, including symbolic ones, which get names that
    differ."""
    table: dict[Any, Any] = {}
    taken: set[str] = set()
    for var in defined_symbolic_vars(func):
        name = free_name(var.name, taken)
        taken.add(name)
        table[var] = TirVar._make(name, var.dtype, var.type_annotation)
    return _renormalized(_Replace(table, fresh=True).visit(func))


def with_distinct_symbols(func: Function) -> Function:
    """The function, or where two symbolic variables have one name, a copy where they have two."""
    names = [v.name for v in defined_symbolic_vars(func)]
    return func if len(set(names)) == len(names) else copy_with_new_vars(func)


def _symbol(func: Function, key: Any, known: list[TirVar]) -> TirVar:
    if isinstance(key, TirVar):
        matching = [v for v in known if v is key]
    else:
        matching = [v for v in known if v.name == key]
    if len(matching) != 1:
        name = key.name if isinstance(key, TirVar) else key
        what = f"the function has {'no' if not matching else 'several'} symbolic variable {name!r}"
        names = ", ".join(v.name for v in known) or "none"
        raise ValueError(explain(what, instead=f"its symbolic variables are: {names}"))
    return matching[0]


def bind_symbolic_vars(func: Function, binding_map: Mapping[Any, Any]) -> Function:
    """The function with symbolic variables (by name or variable) replaced by values."""
    known = list(dict.fromkeys([*defined_symbolic_vars(func), *free_symbolic_vars(func)]))
    table: dict[Any, Any] = {}
    for key, value in binding_map.items():
        var = _symbol(func, key, known)
        if var in table:
            what = f"symbolic variable {var.name!r} is bound twice"
            raise ValueError(explain(what, instead="give it by name or by variable, not both"))
        extent = convert(value)
        if not isinstance(extent, PrimExpr):
            what = f"symbolic variable {var.name!r} needs an integer or an expression"
            raise TypeError(explain(what, got=repr(value)))
        table[var] = extent
    return _renormalized(_Replace(table).visit(func)) if table else func


def _as_value(value: Any) -> Any:
    if isinstance(value, (Tensor, np.ndarray)):
        return Constant(value)
    return value if isinstance(value, Expr) else const(value)


def bind_params(func: Function, binding_map: Mapping[Any, Any]) -> Function:
    """The function with parameters (by name or variable) fixed to tensors or expressions.

    Symbolic dimensions of a bound parameter take the value's. Raises ValueError for an unknown
    or ambiguous name, or a value that does not fit.
    """
    table: dict[Any, Any] = {}
    symbols: dict[Any, Any] = {}
    for key, value in binding_map.items():
        param = _param(func, key)
        constant = _as_value(value)
        if param in overwritten_vars(func) and isinstance(constant, Constant):
            what = f"parameter {param.name_hint} is written over by an in-place call"
            raise ValueError(explain(what, instead="do not bind it to a constant"))
        _bind(f"parameter {param.name_hint}", param.struct_info, constant.struct_info, symbols)
        table[param] = constant
    if not table:
        return func
    replace = _Replace({**table, **symbols})
    params = [replace.visit(p) for p in func.params if p not in table]
    body = replace.visit(func.body)
    ret = replace.visit(func.ret_struct_info)
    return _renormalized(Function._make(tuple(params), body, ret, func.is_pure, func.attrs))


def _param(func: Function, key: Any) -> Var:
    matching = [p for p in func.params if p is key or p.name_hint == key]
    if len(matching) != 1:
        name = key.name_hint if isinstance(key, Var) else key
        what = f"the function has {'no' if not matching else 'several'} parameter {name!r}"
        names = ", ".join(p.name_hint for p in func.params) or "none"
        raise ValueError(explain(what, instead=f"its parameters are: {names}"))
    return matching[0]


def _bind(what: str, pattern: StructInfo, info: StructInfo, table: dict[Any, Any]) -> None:
    result = match_struct_info(pattern, info, table)
    if result is BaseCheckResult.FAIL_L0:
        raise ValueError(explain(f"{what} cannot be this value", got=f"{info} for {pattern}"))


class _Inliner(GraphRewriter):
    def __init__(self, functions: dict[GlobalVar, Function]) -> None:
        super().__init__()
        self.functions = functions
        self.open: list[GlobalVar] = []

    def call(self, call: Call) -> Any:
        func = self.functions.get(call.op) if isinstance(call.op, GlobalVar) else None
        if func is None:
            return call
        if call.op in self.open:
            names = " -> ".join(g.name_hint for g in [*self.open, call.op])
            what = "a recursive function cannot be inlined"
            raise ValueError(explain(what, got=names, instead="leave it out of the map"))
        return self.body(func, call)

    def body(self, func: Function, call: Call) -> SeqExpr:
        func = copy_with_new_vars(func)
        table: dict[Any, Any] = {}
        for param, arg in zip(func.params, call.args, strict=True):
            arg = self.builder.normalize_argument(arg)
            _bind(f"parameter {param.name_hint}", param.struct_info, arg.struct_info, table)
            table[param] = arg
        self.open.append(call.op)
        body = self.seq(self.builder.normalize(_Replace(table).visit(func.body)))
        self.open.pop()
        return body


def inline_functions(func: Function, function_map: Mapping[Any, Function]) -> Function:
    """The function with calls of the given functions (by name or GlobalVar) replaced by their
    bodies. Raises ValueError if one of them is recursive."""
    functions: dict[GlobalVar, Function] = {}
    for key, value in function_map.items():
        functions[GlobalVar(key) if isinstance(key, str) else key] = value
    return _Inliner(functions).function(func)


for _method in (bind_params, bind_symbolic_vars, inline_functions):
    setattr(Function, _method.__name__, _method)

__all__ = ["bind_params", "bind_symbolic_vars", "copy_with_new_vars", "inline_functions"]
