"""Patterns of graph expressions: the nodes, and the operators that combine them.

    x, w = wildcard(), wildcard()
    conv = is_op("relax.nn.conv2d")(x, w)
    pattern = is_op("relax.nn.relu")(conv) | conv
    pattern.match(expr)

A pattern object matches one value: if it occurs twice, both occurrences must match the same
expression. matcher.py matches; `used_by` and `only_used_by` add edges to the open PatternContext
(context.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from ...base.errors import explain
from ...base.late import own_names
from ...base.span import Span
from ...ir.dtype import DataType
from ...ir.expr import Attrs, BaseExpr
from ...ir.node import Node, field
from ...ir.op import Op
from ...ir.operators import TensorOperators
from ...ir.prim_expr import PrimExpr
from ...ir.target import Target
from ..expr import Expr, as_struct_info
from ..struct_info import StructInfo, shape_dim
from .constraints import Edge, current_graph


class DFPattern(TensorOperators, Node):
    """Base class of patterns. Compared by identity."""

    __slots__ = ("_owner", "_plan")

    # Installed by `text.py` and `matcher.py`, which know all patterns.
    _render: ClassVar[Any] = None
    _match: ClassVar[Any] = None

    def __repr__(self) -> str:
        return type(self)._render(self)

    __str__ = __repr__
    __iter__ = None  # iteration by index would not terminate

    def parts(self) -> tuple[DFPattern, ...]:
        """The patterns directly inside this one."""
        return tuple(c for c in self.children() if isinstance(c, DFPattern))

    # ------------------------------------------------------------------ combining

    def __call__(
        self, *args: Any, varg_default_wildcard: bool = False, add_constraint: bool = True
    ) -> CallPattern:
        """A call of this pattern. `varg_default_wildcard`: more arguments may follow."""
        return CallPattern(self, args, varg_default_wildcard, add_constraint)

    def __or__(self, other: DFPattern) -> OrPattern:
        """This pattern or the other, tried in this order."""
        return OrPattern(self, other)

    def __and__(self, other: DFPattern) -> AndPattern:
        """Both patterns match."""
        return AndPattern(self, other)

    def __invert__(self) -> NotPattern:
        """Anything that this pattern does not match."""
        return NotPattern(self)

    def __getitem__(self, index: int | None) -> Any:
        """A field of the tuple that this pattern matches; None: any of them."""
        return TupleGetItemPattern(self, index)

    def _binary(self, name: str, a: WildcardPattern, b: WildcardPattern) -> CallPattern:
        return is_op(f"relax.{name}")(a, b)

    def __matmul__(self, other: WildcardPattern) -> CallPattern:
        return is_op("relax.matmul")(self, other)

    def __neg__(self) -> CallPattern:
        return is_op("relax.negative")(self)

    def optional(self, option: ExprPattern) -> OrPattern:
        """`option(self)` where that matches, else this pattern: `conv.optional(is_op(RELU))`."""
        return OrPattern(option(self), self)

    # ------------------------------------------------------------------ narrowing

    def has_attr(self, attrs: dict[str, Any]) -> AttrPattern:
        """With these attributes (of a call, a function or an operator)."""
        return AttrPattern(self, attrs)

    def has_struct_info(self, struct_info: Any) -> StructInfoPattern:
        """With a struct info that `struct_info` covers; its symbolic variables match any expression,
        the same one everywhere."""
        return StructInfoPattern(self, struct_info)

    has_type = has_struct_info

    def has_dtype(self, dtype: str) -> DataTypePattern:
        """Of this dtype."""
        return DataTypePattern(self, dtype)

    def has_shape(self, shape: Sequence[PrimExpr | int | None]) -> ShapePattern:
        """Of this shape; a dimension None may be anything."""
        return ShapePattern(self, shape)

    def has_target(self, target: Target | str) -> TargetPattern:
        """Placed on a virtual device of this target: a kind ("cuda") or a whole target."""
        return TargetPattern(self, target)

    # ------------------------------------------------------------------ matching

    def match(self, expr: BaseExpr, var2val: dict[Any, Any] | None = None) -> bool:
        """Whether `expr` matches; `var2val` are the values of the variables in it."""
        return DFPattern._match(self, expr, var2val) is not None

    def extract_matched_expr(
        self, expr: Expr, var2val: dict[Any, Any] | None = None
    ) -> dict[DFPattern, Any] | None:
        """The match of each pattern inside this one, or None."""
        return DFPattern._match(self, expr, var2val)

    # ------------------------------------------------------------------ graphs

    def used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """In the open PatternContext: the value is used by `other`, as its operand `index`."""
        return PatternSeq([self]).used_by(other, index)

    def only_used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """In the open PatternContext: the value is used by `other` only."""
        return PatternSeq([self]).only_used_by(other, index)

    def __xor__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.used_by(other)

    def __rshift__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.only_used_by(other)

    def fork_to(self, *args: DFPattern | PatternSeq) -> None:
        """In the open PatternContext: the value is used by each of `args`."""
        for other in args:
            self.used_by(other)

    def same_shape_as(self, *args: DFPattern) -> SameShapeConstraint:
        """In the open PatternContext: all these values have one shape."""
        return SameShapeConstraint(self, *args)

    def dup(self) -> Any:
        """A copy of this pattern that matches a different value."""
        return self._make(*self.field_values(), span=self.span)


def _pattern(value: Node) -> DFPattern:
    if isinstance(value, PatternSeq) and len(value) == 1:
        return value[0]
    if not isinstance(value, DFPattern):
        what = "a pattern is made of patterns"
        hint = "wrap an expression in is_expr(...), an operator's name in is_op(...)"
        raise TypeError(explain(what, got=f"{type(value).__name__}: {value!r}", instead=hint))
    return value


def _patterns(values: Sequence[Any]) -> tuple[DFPattern, ...]:
    return tuple(_pattern(v) for v in values)


def _optional_patterns(values: Sequence[Any] | None) -> tuple[DFPattern, ...] | None:
    return None if values is None else _patterns(values)


def _attr_table(attrs: Attrs | Mapping[str, Any]) -> dict[str, Any]:
    return dict(attrs.items())


def _dims(shape: Sequence[PrimExpr | int | None]) -> tuple[Any, ...]:
    return tuple(None if d is None else shape_dim(d) for d in shape)


def topological(roots: Iterable[DFPattern]) -> list[DFPattern]:
    """All patterns below `roots`, each before its parts."""
    # With an explicit stack: patterns may be deep.
    done: dict[DFPattern, None] = {}
    work: list[tuple[DFPattern, bool]] = [(root, False) for root in roots]
    while work:
        pattern, left = work.pop()
        if left:
            done[pattern] = None
        elif pattern not in done:
            work.append((pattern, True))
            work += [(part, False) for part in pattern.parts()]
    return list(done)[::-1]


# ---------------------------------------------------------------------- leaves


class ExprPattern(DFPattern):
    """An expression structurally equal to `expr`."""

    expr: Any


class VarPattern(DFPattern):
    """A variable without a known binding (a parameter); `name_hint` "" matches any name."""

    name_hint: str = field(default="")

    @property
    def name(self) -> str:
        """The name hint."""
        return self.name_hint


class DataflowVarPattern(VarPattern):
    """A dataflow variable."""

    __slots__ = ()


class GlobalVarPattern(DFPattern):
    """A function of the module, by name; "" matches any."""

    name_hint: str = field(default="")


class ExternFuncPattern(DFPattern):
    """An external function, by symbol; "" matches any."""

    global_symbol: str = field(default="")


class ConstantPattern(DFPattern):
    """A constant."""

    __slots__ = ()

    def __init__(self, span: Span | None = None) -> None:
        self._set(span)


class WildcardPattern(DFPattern):
    """Any expression."""

    __slots__ = ()

    def __init__(self, span: Span | None = None) -> None:
        self._set(span)


class PrimArrPattern(DFPattern):
    """A shape with these dimensions."""

    fields: tuple[Any, ...]

    def __init__(self, shape: Sequence[PrimExpr | int | None], span: Any = None) -> None:
        self._set(_dims(shape), span)

    def __getitem__(self, index: int) -> Any:
        """A dimension."""
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)


# ---------------------------------------------------------------------- composites


class CallPattern(DFPattern):
    """A call. `args` None: any arguments. `varg_default_wildcard`: more may follow `args`."""

    op: DFPattern
    args: tuple[DFPattern, ...] | None
    varg_default_wildcard: bool = field(default=False)

    def __init__(
        self,
        op: DFPattern,
        args: Any,
        varg_default_wildcard: bool = False,
        add_constraint: bool = True,
        span: Span | PrimExpr | int | None = None,
    ) -> None:
        patterns = None if args is None else _patterns(args)
        self._set(_pattern(op), patterns, varg_default_wildcard, span)
        graph = current_graph() if add_constraint else None
        if graph is not None:
            graph.add_node(self)
            for i, arg in enumerate(patterns or ()):
                graph.add_edge(Edge(arg, self, index=i, stated=False))


class FunctionPattern(DFPattern):
    """A function. `params` None: any parameters. The body is its result."""

    params: tuple[DFPattern, ...] | None = field(converter=_optional_patterns)
    body: DFPattern = field(converter=_pattern)


class TuplePattern(DFPattern):
    """A tuple with these fields."""

    fields: tuple[DFPattern, ...] = field(converter=_patterns)

    def __getitem__(self, index: int | None) -> TupleGetItemPattern:
        """The access of a field."""
        if index is not None and not -len(self.fields) <= index < len(self.fields):
            what = "tuple pattern index out of range"
            raise IndexError(explain(what, got=f"{index} of {len(self.fields)} fields"))
        return TupleGetItemPattern(self, index if index is None else index % len(self.fields))

    def __len__(self) -> int:
        return len(self.fields)


class UnorderedTuplePattern(DFPattern):
    """A tuple with these fields in any order."""

    fields: tuple[DFPattern, ...] = field(converter=_patterns)

    def __len__(self) -> int:
        return len(self.fields)


class TupleGetItemPattern(DFPattern):
    """A field access of a tuple; `index` None: any field."""

    tuple: DFPattern
    index: int | None = field(default=None)

    def __init__(
        self, tuple_value: DFPattern, index: int | None = None, span: Span | None = None
    ) -> None:
        self._set(_pattern(tuple_value), index, span)


class _PatternPair(DFPattern):
    left: DFPattern = field(converter=_pattern)
    right: DFPattern = field(converter=_pattern)


class OrPattern(_PatternPair):
    """`left`, or where that fails `right`."""


class AndPattern(_PatternPair):
    """`left` and `right`."""


class NotPattern(DFPattern):
    """Anything that `reject` does not match. Patterns inside it are not bound."""

    reject: DFPattern

    def __init__(self, to_reject: DFPattern, span: Span | None = None) -> None:
        self._set(_pattern(to_reject), span)


class AttrPattern(DFPattern):
    """`pattern` with these attributes."""

    pattern: DFPattern = field(converter=_pattern)
    attrs: dict[str, Any] = field(converter=_attr_table)


class StructInfoPattern(DFPattern):
    """`pattern` with a struct info that `struct_info` covers. Its symbolic variables match any
    expression, the same one everywhere in the whole pattern."""

    pattern: DFPattern
    struct_info: StructInfo

    def __init__(self, pattern: DFPattern, struct_info: object, span: Span | None = None) -> None:
        # `R.Tensor` alone is any tensor.
        value = struct_info() if isinstance(struct_info, type) else struct_info
        info = as_struct_info(value)
        if not isinstance(info, StructInfo):
            what = "has_struct_info takes a struct info"
            hint = 'write R.Tensor((2, 3), "float32")'
            raise TypeError(explain(what, got=repr(struct_info), instead=hint))
        self._set(_pattern(pattern), info, span)


class DataTypePattern(DFPattern):
    """`pattern` with a dtype."""

    pattern: DFPattern = field(converter=_pattern)
    dtype: DataType = field(converter=DataType)


class ShapePattern(DFPattern):
    """`pattern` with a shape; a dimension None may be anything."""

    pattern: DFPattern = field(converter=_pattern)
    shape: tuple[Any, ...] = field(converter=_dims)


class TargetPattern(DFPattern):
    """`pattern` on a virtual device of a target: a kind's name or the whole target."""

    pattern: DFPattern
    target: Any

    def __init__(self, pattern: DFPattern, target: Target | str, span: Span | None = None) -> None:
        kind = isinstance(target, str) and " " not in target and "{" not in target
        self._set(_pattern(pattern), target if kind else Target(target), span)


# ---------------------------------------------------------------------- several values


class DFConstraint(Node):
    """Base class of conditions on several patterns."""

    __slots__ = ()


class SameShapeConstraint(DFConstraint):
    """The values of these patterns have the same shape. Belongs to the open PatternContext."""

    args: tuple[DFPattern, ...]

    def __init__(self, *args: DFPattern, span: Span | None = None) -> None:
        self._set(_patterns(args), span)
        _needed_graph("SameShapeConstraint").add_condition(self)


def _needed_graph(who: str) -> Any:
    graph = current_graph()
    if graph is None:
        what = f"{who} relates patterns of a PatternContext, and none is open"
        raise ValueError(explain(what, instead="write it inside `with PatternContext() as ctx:`"))
    return graph


class PatternSeq(Node):
    """A chain of patterns, each used by the next: `a ^ b` (used by), `a >> b` (only used by).

    links: for each adjacent pair (only used by?, operand index).
    """

    patterns: tuple[DFPattern, ...]
    links: tuple[tuple[bool, int], ...] = field(default=())

    def __init__(
        self,
        patterns: Sequence[DFPattern],
        only_use: bool = False,
        links: tuple[tuple[bool, int], ...] | None = None,
        span: Span | None = None,
    ) -> None:
        converted = _patterns(patterns)
        if not converted:
            raise ValueError(explain("a PatternSeq has at least one pattern", got="none"))
        self._set(
            converted, ((only_use, -1),) * (len(converted) - 1) if links is None else links, span
        )
        if links is None and len(converted) > 1:
            self._constrain()

    def _constrain(self) -> None:
        graph = _needed_graph("used_by")
        for i, (only, index) in enumerate(self.links):
            graph.add_edge(Edge(self.patterns[i], self.patterns[i + 1], only, index))

    def _then(self, other: DFPattern | PatternSeq, only: bool, index: int) -> PatternSeq:
        tail = other if isinstance(other, PatternSeq) else PatternSeq([other])
        edge = Edge(self.patterns[-1], tail.patterns[0], only, index)
        _needed_graph("only_used_by" if only else "used_by").add_edge(edge)
        links = (*self.links, (only, index), *tail.links)
        return PatternSeq((*self.patterns, *tail.patterns), links=links)

    def used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """The last value is used by `other` (its first pattern), as its operand `index`."""
        return self._then(other, False, index)

    def only_used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """The last value is used by `other` (its first pattern) only."""
        return self._then(other, True, index)

    def __xor__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.used_by(other)

    def __rshift__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.only_used_by(other)

    def __getitem__(self, index: int) -> DFPattern:
        return self.patterns[index]

    def __len__(self) -> int:
        return len(self.patterns)

    def dup(self) -> PatternSeq:
        """A copy of the chain that matches different values. Patterns that are in the context on
        their own (a wildcard shared by several calls) are not copied."""
        table: dict[Any, Any] = {}

        def copied(value: object) -> Any:
            if isinstance(value, tuple):
                return tuple(copied(v) for v in value)
            return table[value] if isinstance(value, DFPattern) else value

        for pattern in reversed(topological(self.patterns)):
            stays = pattern not in self.patterns and getattr(pattern, "_owner", None) is not None
            values = [copied(v) for v in pattern.field_values()]
            table[pattern] = pattern if stays else pattern._make(*values)
        sequence = PatternSeq([table[p] for p in self.patterns], links=self.links)
        sequence._constrain()
        return sequence

    def __repr__(self) -> str:
        arrows = [" >> " if only else " ^ " for only, _ in self.links]
        pairs = zip(self.patterns, [*arrows, ""], strict=True)
        return "".join(f"{pattern}{arrow}" for pattern, arrow in pairs)

    __str__ = __repr__


def is_op(op_name: str) -> ExprPattern:
    """The operator of this name; call it for a pattern of its calls.

    Raises AttributeError for an unknown name.
    """
    return ExprPattern(Op.get(op_name))


__all__ = own_names(globals())
