"""Patterns of Relay's expressions: those of `relax.dpl`, which match Relay and build Relay's operators,
and those of what only Relay has.

    conv = is_op("nn.conv2d")(wildcard(), wildcard())
    pattern = is_op("nn.relu")(conv.optional(lambda x: is_op("nn.bias_add")(x, wildcard())))
    pattern.match(expr)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ....base.errors import explain
from ....base.span import Span
from ....ir.op import Op
from ....relax import expr as rx
from ....relax.dpl import nodes as nd
from ..expr import Expr
from ..types import TensorType, Type


class DFPattern(nd.DFPattern):
    """Base class of patterns. A pattern matches one expression: if it occurs twice, both
    occurrences match the same one."""

    __slots__ = ()

    # Installed by `matcher.py` and `rewriting.py`.
    _partition: ClassVar[Any] = None

    def __call__(self, *args: Expr | DFPattern | None) -> CallPattern:
        """A call of this pattern; `pattern(None)` has any arguments."""
        return CallPattern(self, None if args == (None,) else args)

    def __or__(self, other: nd.DFPattern) -> AltPattern:
        return AltPattern(self, other)

    def __and__(self, other: nd.DFPattern) -> Any:
        return _unknown("&", "has_type, has_dtype, has_shape and has_attr narrow a pattern")

    def __invert__(self) -> Any:
        return _unknown("~", "partition and rewrite take a check of yours")

    def __getitem__(self, index: int | None) -> TupleGetItemPattern:
        return TupleGetItemPattern(self, index)

    def _binary(self, name: str, a: DFPattern, b: DFPattern) -> CallPattern:
        return is_op(name)(a, b)

    def __neg__(self) -> CallPattern:
        return is_op("negative")(self)

    def optional(self, option_constructor: Callable[[DFPattern], DFPattern]) -> AltPattern:
        """This pattern, or where it does not match, `option_constructor(self)`."""
        return AltPattern(self, option_constructor(self))

    def has_attr(self, attrs: dict[str, Any]) -> AttrPattern:
        """With these attributes (of a call, a function or an operator)."""
        return AttrPattern(self, attrs)

    def has_type(self, ttype: Type) -> TypePattern:
        """Of this type."""
        return TypePattern(self, ttype)

    def has_dtype(self, dtype: str) -> DataTypePattern:
        """Of this dtype."""
        return DataTypePattern(self, dtype)

    def has_shape(self, shape: Sequence[int]) -> ShapePattern:
        """Of this shape."""
        return ShapePattern(self, shape)

    def dominates(self, parent: DFPattern, path: DFPattern | None = None) -> DominatorPattern:
        """All ways from `parent` lead here, through what `path` matches (default: anything)."""
        return DominatorPattern(parent, wildcard() if path is None else path, self)

    def match(self, expr: Expr, var2val: Any = None) -> bool:
        """Whether an expression matches."""
        return DFPattern._match(self, expr) is not None

    def extract_matched_expr(self, expr: rx.Expr, var2val: Any = None) -> Any:
        """The expressions that each pattern inside this one matched, or None."""
        return DFPattern._match(self, expr)

    def partition(
        self,
        expr: Expr,
        attrs: dict[str, Any] | None = None,
        check: Callable[[Any], bool] = lambda x: True,
    ) -> Any:
        """The expression with each match as a call of a function; see `partition`."""
        return DFPattern._partition(self, expr, attrs, check)


def _unknown(sign: str, instead: str) -> Any:
    raise TypeError(explain(f"patterns of Relay have no {sign}", instead=instead))


class ExprPattern(DFPattern, nd.ExprPattern):
    """An expression structurally equal to `expr`."""


class VarPattern(DFPattern, nd.VarPattern):
    """A variable; `name` "" matches any."""

    @property
    def name(self) -> str:
        """The variable's name."""
        return self.name_hint


class ConstantPattern(DFPattern, nd.ConstantPattern):
    """A constant."""


class WildcardPattern(DFPattern, nd.WildcardPattern):
    """Any expression."""

    __slots__ = ("_target",)

    @property
    def pattern(self) -> DFPattern | None:
        """The pattern that this one was redirected to."""
        return getattr(self, "_target", None)

    def redirect_to(self, pat: DFPattern) -> None:
        """Match what `pat` matches, which may contain this pattern."""
        self._target = pat


class CallPattern(DFPattern, nd.CallPattern):
    """A call. `args` None: any arguments."""

    def __init__(self, op: Any, args: tuple[Any, ...] | None, span: Span | None = None) -> None:
        nd.CallPattern.__init__(self, op, args, False, False, span)


class FunctionPattern(DFPattern, nd.FunctionPattern):
    """A function. `params` None: any parameters."""


class TuplePattern(DFPattern, nd.TuplePattern):
    """A tuple. `fields` None: any fields."""

    def __init__(self, fields: Sequence[DFPattern] | None, span: Span | None = None) -> None:
        if fields is None:
            self._set(None, span)
        else:
            nd.TuplePattern.__init__(self, fields, span)

    def __getitem__(self, index: int) -> Any:
        """The pattern of a field."""
        return self.fields[index]


class TupleGetItemPattern(DFPattern, nd.TupleGetItemPattern):
    """A field of a tuple; `index` None: any field."""


class AltPattern(DFPattern, nd.OrPattern):
    """`left`, or where that fails `right`."""


class AttrPattern(DFPattern, nd.AttrPattern):
    """`pattern` with these attributes."""


class DataTypePattern(DFPattern, nd.DataTypePattern):
    """`pattern` with a dtype."""

    def __init__(self, pattern: DFPattern, dtype: str, span: Span | None = None) -> None:
        nd.DataTypePattern.__init__(self, pattern, dtype, span)


class ShapePattern(DFPattern, nd.ShapePattern):
    """`pattern` with a shape."""

    def __init__(self, pattern: DFPattern, shape: Sequence[int], span: Span | None = None) -> None:
        self._set(pattern, TensorType(tuple(shape)).shape, span)


class TypePattern(DFPattern):
    """`pattern` with a type."""

    pattern: DFPattern
    type: Any


class IfPattern(DFPattern):
    """An `if`."""

    cond: DFPattern
    true_branch: DFPattern
    false_branch: DFPattern


class LetPattern(DFPattern):
    """A `let`."""

    var: DFPattern
    value: DFPattern
    body: DFPattern


class DominatorPattern(DFPattern):
    """What `child` matches, where all ways from an expression that `parent` matches lead to it, only
    through calls that `path` matches."""

    parent: DFPattern
    path: DFPattern
    child: DFPattern


# ---------------------------------------------------------------------- builders


# TVM's names of the classes, as functions of the same parameters.
dominates, is_constant, is_expr = DominatorPattern, ConstantPattern, ExprPattern
is_if, is_let, is_tuple, wildcard = IfPattern, LetPattern, TuplePattern, WildcardPattern


def is_var(name: str = "") -> VarPattern:
    """A variable, by name ("" matches any)."""
    return VarPattern(name)


def is_op(op_name: str) -> ExprPattern:
    """The operator of this name; call it for a pattern of its calls. Raises AttributeError for an
    unknown one."""
    return ExprPattern(Op.get(op_name))


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> TupleGetItemPattern:
    """A field of a tuple; None: any field."""
    return TupleGetItemPattern(tuple_value, index)


def has_type(ttype: Type, pattern: DFPattern | None = None) -> TypePattern:
    """`pattern` (default: anything) of this type."""
    return TypePattern(wildcard() if pattern is None else pattern, ttype)


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    """`pattern` (default: anything) of this dtype."""
    return DataTypePattern(wildcard() if pattern is None else pattern, dtype)


def has_shape(shape: Sequence[int], pattern: DFPattern | None = None) -> ShapePattern:
    """`pattern` (default: anything) of this shape."""
    return ShapePattern(wildcard() if pattern is None else pattern, shape)


def has_attr(attrs: dict[str, Any], pattern: DFPattern | None = None) -> AttrPattern:
    """`pattern` (default: anything) with these attributes."""
    return AttrPattern(wildcard() if pattern is None else pattern, attrs)


__all__ = [
    "AltPattern",
    "AttrPattern",
    "CallPattern",
    "ConstantPattern",
    "DFPattern",
    "DataTypePattern",
    "DominatorPattern",
    "ExprPattern",
    "FunctionPattern",
    "IfPattern",
    "LetPattern",
    "ShapePattern",
    "TupleGetItemPattern",
    "TuplePattern",
    "TypePattern",
    "VarPattern",
    "WildcardPattern",
    "dominates",
    "has_attr",
    "has_dtype",
    "has_shape",
    "has_type",
    "is_constant",
    "is_expr",
    "is_if",
    "is_let",
    "is_op",
    "is_tuple",
    "is_tuple_get_item",
    "is_var",
    "wildcard",
]
