"""Functions that build patterns; the nodes are in nodes.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.errors import explain
from ...base.late import own_names
from ...ir.prim_expr import PrimExpr
from ..expr import Expr
from . import nodes as nd
from .nodes import *  # noqa: F403


def wildcard() -> nd.WildcardPattern:
    """Any expression."""
    return nd.WildcardPattern()


def is_var(name: str = "") -> nd.VarPattern:
    """A variable without a known binding (a parameter), by name ("" matches any)."""
    return nd.VarPattern(name)


def is_dfv(name: str = "") -> nd.DataflowVarPattern:
    """A dataflow variable without a known binding."""
    return nd.DataflowVarPattern(name)


def is_gv(name: str = "") -> nd.GlobalVarPattern:
    """A function of the module."""
    return nd.GlobalVarPattern(name)


def is_const() -> nd.ConstantPattern:
    """A constant."""
    return nd.ConstantPattern()


def is_expr(expr: Expr) -> nd.ExprPattern:
    """An expression structurally equal to `expr`."""
    return nd.ExprPattern(expr)


def is_tuple(
    fields: Sequence[nd.DFPattern], unordered: bool = False
) -> nd.TuplePattern | nd.UnorderedTuplePattern:
    """A tuple with these fields, in this order or in any."""
    return nd.UnorderedTuplePattern(fields) if unordered else nd.TuplePattern(fields)


def is_tuple_get_item(
    tuple_value: nd.DFPattern, index: int | None = None
) -> nd.TupleGetItemPattern:
    """A field access of a tuple; None: any field."""
    return nd.TupleGetItemPattern(tuple_value, index)


def is_shape(shape: int | Sequence[PrimExpr | int | None]) -> nd.PrimArrPattern:
    """A shape with these dimensions; None may be anything."""
    if not isinstance(shape, (list, tuple)):
        what = "is_shape takes a list of dimensions"
        raise ValueError(explain(what, got=repr(shape), instead="write is_shape([1, 64])"))
    return nd.PrimArrPattern(shape)


def _call_dps(
    op_name: str,
    func: nd.DFPattern,
    args: nd.DFPattern | Sequence[nd.DFPattern] | None,
    *more: nd.DFPattern,
) -> nd.CallPattern:
    inputs = nd.TuplePattern(args) if isinstance(args, (list, tuple)) else args or wildcard()
    loose = args is None
    op = nd.is_op(op_name)
    return op(func, inputs, *more, varg_default_wildcard=loose, add_constraint=False)


def is_call_tir(
    func_name: str, args: nd.DFPattern | Sequence[nd.DFPattern] | None = None, tir_vars: Any = None
) -> nd.CallPattern:
    """A `call_tir` of a function of the module; `args` None: with any arguments."""
    more = ()
    if tir_vars is not None:
        is_list = isinstance(tir_vars, (list, tuple))
        more = (nd.PrimArrPattern(tir_vars) if is_list else tir_vars,)
    return _call_dps("relax.call_tir", nd.GlobalVarPattern(func_name), args, *more)


def is_call_dps_packed(
    func_name: str, args: Sequence[nd.DFPattern] | None = None
) -> nd.CallPattern:
    """A `call_dps_packed` of an external function; `args` None: with any arguments."""
    return _call_dps("relax.call_dps_packed", nd.ExternFuncPattern(func_name), args)


def is_call_packed(
    func_name: str, args: Sequence[nd.WildcardPattern] | None = None
) -> nd.CallPattern:
    """A direct call of an external function; `args` None: with any arguments."""
    return nd.CallPattern(nd.ExternFuncPattern(func_name), args)


def reject(pattern: nd.DFPattern) -> nd.NotPattern:
    """Anything that `pattern` does not match."""
    return nd.NotPattern(pattern)


def has_attr(attrs: dict[str, Any], pattern: nd.DFPattern | None = None) -> nd.AttrPattern:
    """`pattern` (default: anything) with these attributes."""
    return nd.AttrPattern(pattern if pattern is not None else wildcard(), attrs)


def has_dtype(dtype: str, pattern: nd.DFPattern | None = None) -> nd.DataTypePattern:
    """`pattern` (default: anything) with this dtype."""
    return nd.DataTypePattern(pattern if pattern is not None else wildcard(), dtype)


def is_same_shape(*patterns: nd.DFPattern) -> nd.SameShapeConstraint:
    """In the open PatternContext: the values of these patterns have the same shape."""
    return nd.SameShapeConstraint(*patterns)


def make_fused_bias_activation_pattern(
    op_name: str, with_bias: bool = False, activation: str | None = None
) -> nd.CallPattern:
    """A call of an operator with two operands, then a bias addition and an activation."""
    out = nd.is_op(op_name)(wildcard(), wildcard())
    if with_bias:
        out = nd.is_op("relax.add")(out, wildcard())
    return out if activation is None else nd.is_op(activation)(out)


__all__ = own_names(globals()) + nd.__all__
