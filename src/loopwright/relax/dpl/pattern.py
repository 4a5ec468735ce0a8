"""Functions that build patterns; the nodes that they build are in nodes.py."""

from __future__ import annotations

from typing import Any

from ...base.errors import explain
from ..expr import Expr
from .nodes import (
    AndPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataflowVarPattern,
    DataTypePattern,
    DFConstraint,
    DFPattern,
    ExprPattern,
    ExternFuncPattern,
    FunctionPattern,
    GlobalVarPattern,
    NotPattern,
    OrPattern,
    PatternSeq,
    PrimArrPattern,
    SameShapeConstraint,
    ShapePattern,
    StructInfoPattern,
    TargetPattern,
    TupleGetItemPattern,
    TuplePattern,
    UnorderedTuplePattern,
    VarPattern,
    WildcardPattern,
    is_op,
    topological,
)


def wildcard() -> WildcardPattern:
    """Any expression."""
    return WildcardPattern()


def is_var(name: str = "") -> VarPattern:
    """A variable bound to nothing known (a parameter), of this name ("" is any)."""
    return VarPattern(name)


def is_dfv(name: str = "") -> DataflowVarPattern:
    """A dataflow variable bound to nothing known."""
    return DataflowVarPattern(name)


def is_gv(name: str = "") -> GlobalVarPattern:
    """A function of the module."""
    return GlobalVarPattern(name)


def is_const() -> ConstantPattern:
    """A constant."""
    return ConstantPattern()


def is_expr(expr: Expr) -> ExprPattern:
    """An expression structurally equal to `expr`."""
    return ExprPattern(expr)


def is_tuple(fields: Any, unordered: bool = False) -> TuplePattern | UnorderedTuplePattern:
    """A tuple with these fields, in this order or in any."""
    return UnorderedTuplePattern(fields) if unordered else TuplePattern(fields)


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> TupleGetItemPattern:
    """The access of a tuple's field; None: of any."""
    return TupleGetItemPattern(tuple_value, index)


def is_shape(shape: Any) -> PrimArrPattern:
    """A shape with these dimensions; None may be anything."""
    if not isinstance(shape, (list, tuple)):
        what = "is_shape takes a list of dimensions"
        raise ValueError(explain(what, got=repr(shape), instead="write is_shape([1, 64])"))
    return PrimArrPattern(shape)


def _call_dps(op_name: str, func: DFPattern, args: Any, *more: DFPattern) -> CallPattern:
    inputs = TuplePattern(args) if isinstance(args, (list, tuple)) else args or wildcard()
    loose = args is None
    op = is_op(op_name)
    return op(func, inputs, *more, varg_default_wildcard=loose, add_constraint=False)


def is_call_tir(func_name: str, args: Any = None, tir_vars: Any = None) -> CallPattern:
    """A `call_tir` of a function of the module; `args` None: with any arguments."""
    more = ()
    if tir_vars is not None:
        is_list = isinstance(tir_vars, (list, tuple))
        more = (PrimArrPattern(tir_vars) if is_list else tir_vars,)
    return _call_dps("relax.call_tir", GlobalVarPattern(func_name), args, *more)


def is_call_dps_packed(func_name: str, args: Any = None) -> CallPattern:
    """A `call_dps_packed` of an external function; `args` None: with any arguments."""
    return _call_dps("relax.call_dps_packed", ExternFuncPattern(func_name), args)


def is_call_packed(func_name: str, args: Any = None) -> CallPattern:
    """A direct call of an external function; `args` None: with any arguments."""
    return CallPattern(ExternFuncPattern(func_name), args)


def reject(pattern: DFPattern) -> NotPattern:
    """What `pattern` does not match."""
    return NotPattern(pattern)


def has_attr(attrs: dict[str, Any], pattern: DFPattern | None = None) -> AttrPattern:
    """`pattern` (anything) with these attributes."""
    return AttrPattern(pattern if pattern is not None else wildcard(), attrs)


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    """`pattern` (anything) of this dtype."""
    return DataTypePattern(pattern if pattern is not None else wildcard(), dtype)


def is_same_shape(*patterns: DFPattern) -> SameShapeConstraint:
    """In the open PatternContext: the values of these patterns have one shape."""
    return SameShapeConstraint(*patterns)


def make_fused_bias_activation_pattern(
    op_name: str, with_bias: bool = False, activation: str | None = None
) -> CallPattern:
    """A call of an operator with two operands, then a bias addition and an activation."""
    out = is_op(op_name)(wildcard(), wildcard())
    if with_bias:
        out = is_op("relax.add")(out, wildcard())
    return out if activation is None else is_op(activation)(out)


__all__ = [
    "AndPattern",
    "AttrPattern",
    "CallPattern",
    "ConstantPattern",
    "DFConstraint",
    "DFPattern",
    "DataTypePattern",
    "DataflowVarPattern",
    "ExprPattern",
    "ExternFuncPattern",
    "FunctionPattern",
    "GlobalVarPattern",
    "NotPattern",
    "OrPattern",
    "PatternSeq",
    "PrimArrPattern",
    "SameShapeConstraint",
    "ShapePattern",
    "StructInfoPattern",
    "TargetPattern",
    "TupleGetItemPattern",
    "TuplePattern",
    "UnorderedTuplePattern",
    "VarPattern",
    "WildcardPattern",
    "has_attr",
    "has_dtype",
    "is_call_dps_packed",
    "is_call_packed",
    "is_call_tir",
    "is_const",
    "is_dfv",
    "is_expr",
    "is_gv",
    "is_op",
    "is_same_shape",
    "is_shape",
    "is_tuple",
    "is_tuple_get_item",
    "is_var",
    "make_fused_bias_activation_pattern",
    "reject",
    "topological",
    "wildcard",
]
