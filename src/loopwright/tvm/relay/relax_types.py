"""Relay's types as Relax's struct infos and back.

An extent that is not known (`?`) is a variable of its own in Relax; an extent that depends on such a
variable is not known in Relay either.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any as AnyValue

from ...arith import Analyzer
from ...base.errors import explain
from ...ir.expr import BaseExpr
from ...ir.functor import rewrite
from ...ir.prim_expr import IntImm, PrimExpr, Var
from ...ir.prim_op import cast
from ...ir.variables import vars_in
from ...relax.struct_info import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from .types import Any, FuncType, TensorType, TupleType, Type


class Extents:
    """Converts types; records the variable of Relax for each extent of Relay."""

    def __init__(self) -> None:
        self._to: dict[Var, PrimExpr] = {}
        self._back: dict[Var, PrimExpr] = {}
        self._unknown: set[Var] = set()
        self._analyzer = Analyzer()

    def variables(self) -> list[Var]:
        """The variables of Relax that are extents."""
        return [*self._back, *self._unknown]

    def keep(self, values: Iterable[AnyValue]) -> None:
        """Take the variables in attributes for extents of Relay."""
        for value in values:
            if isinstance(value, (list, tuple)):
                self.keep(value)
            elif isinstance(value, BaseExpr):
                self._back |= {var: var for var in vars_in(value)}

    def info(self, type_: Type) -> StructInfo:
        """The struct info of a type. Raises TypeError for one that Relax has no values of."""
        if isinstance(type_, TensorType):
            return TensorStructInfo([self.dim(d) for d in type_.shape], type_.dtype)
        if isinstance(type_, TupleType):
            return TupleStructInfo([self.info(f) for f in type_.fields])
        if isinstance(type_, FuncType):
            return FuncStructInfo(
                [self.info(a) for a in type_.arg_types], self.info(type_.ret_type)
            )
        raise TypeError(explain("this type has no values that can be computed", got=str(type_)))

    def dim(self, extent: PrimExpr) -> PrimExpr:
        """An extent of Relay as one of Relax."""
        if isinstance(extent, IntImm):
            return IntImm("int64", extent.value)
        if isinstance(extent, Any):
            unknown = Var(f"any{len(self._unknown)}", "int64")
            self._unknown.add(unknown)
            return unknown
        for var in vars_in(extent):
            if var not in self._to:
                wide = var if var.dtype == "int64" else Var(var.name, "int64")
                self._to[var], self._back[wide] = wide, var
        return _replaced(extent, self._to, "int64")

    def type(self, info: AnyValue) -> Type:
        """The type of a value of Relax."""
        if isinstance(info, TensorStructInfo):
            shape = info.get_shape()
            if shape is None and info.ndim < 0:
                raise TypeError(explain("the rank of a tensor is not known", got=str(info)))
            dims = [Any()] * info.ndim if shape is None else [self.extent(d) for d in shape]
            return TensorType(dims, info.dtype)
        if isinstance(info, TupleStructInfo):
            return TupleType([self.type(f) for f in info.fields])
        if isinstance(info, PrimStructInfo):
            return TensorType((), info.dtype)
        if isinstance(info, ShapeStructInfo):
            return TensorType((Any() if info.ndim < 0 else info.ndim,), "int64")
        if isinstance(info, ObjectStructInfo):
            return TupleType(())
        raise TypeError(explain("Relay has no type for this", got=str(info)))

    def extent(self, dim: PrimExpr) -> PrimExpr:
        """An extent of Relax as one of Relay."""
        if isinstance(dim, IntImm):
            return IntImm("int32", dim.value)
        variables = vars_in(dim)
        if any(var in self._unknown or var not in self._back for var in variables):
            simple = self._analyzer.simplify(dim)
            return IntImm("int32", simple.value) if isinstance(simple, IntImm) else Any()
        if isinstance(dim, Var):
            return self._back[dim]
        dtype = next(self._back[var].dtype for var in variables)
        return _replaced(self._analyzer.simplify(dim), self._back, dtype)


def _replaced(expr: PrimExpr, table: dict[Var, PrimExpr], dtype: str) -> PrimExpr:
    """An expression over other variables, and literals of their dtype."""

    def post(node: AnyValue) -> AnyValue:
        if isinstance(node, Var):
            return table.get(node)
        if isinstance(node, IntImm) and node.dtype != dtype and node.dtype != "bool":
            return IntImm(dtype, node.value)
        return None

    new = rewrite(expr, post)
    return new if new.dtype == dtype else cast(dtype, new)
