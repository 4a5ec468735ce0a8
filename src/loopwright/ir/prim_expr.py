"""Primitive expressions: scalars and short vectors, integer arithmetic of shapes and indices.

They are defined in `ir/`, below `arith/`, because the simplifier works on them; `tir` re-exports
them and adds the expressions that read memory (`BufferLoad`, `ProducerLoad`, `Reduce`).

Operators on expressions build expressions and fold constants (`x + 0` is `x`); the classes fold
nothing. `a == b` builds an `EQ` whose truth value is identity, so expressions can be dict keys;
house code uses `same(a, b)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from ..base.errors import CallTypeError, explain
from ..base.late import own_names
from ..base.span import Span
from .dtype import DataType
from .expr import BaseExpr
from .node import Node, define, derived, field, ignore
from .operators import TensorOperators
from .types import PointerType as PointerType
from .types import PrimType as PrimType
from .types import as_text

if TYPE_CHECKING:
    from .op import Op

# A number of lanes, or `vscale() * number`: one object for each number, so `==` and `is` agree.
Lanes: TypeAlias = "int | PrimExpr"


def _infix(builder: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """The methods of an operator, that of its left operand and that of its right one. With a tensor
    that has axes as the other operand, the tensor's method applies."""

    def of_left(self: Any, other: ScalarLike) -> Any:
        if isinstance(other, TensorOperators) and getattr(other, "ndim", None) != 0:
            return NotImplemented
        return getattr(self._build, builder)(self, other)

    def of_right(self: Any, other: float) -> Any:
        return getattr(self._build, builder)(other, self)

    return of_left, of_right


class PrimExpr(BaseExpr):
    """Root of primitive expressions; `dtype` is always known."""

    dtype: DataType = derived()

    # The arithmetic builders live in prim_op.py, which installs them here (see `install`).
    _build: ClassVar[Any] = None

    __add__, __radd__ = _infix("add")
    __sub__, __rsub__ = _infix("subtract")
    __mul__, __rmul__ = _infix("multiply")
    __truediv__, __rtruediv__ = _infix("div")
    __floordiv__, __rfloordiv__ = _infix("floordiv")
    __mod__, __rmod__ = _infix("floormod")
    __lshift__, __rlshift__ = _infix("shift_left")
    __rshift__, __rrshift__ = _infix("shift_right")
    __and__, __rand__ = _infix("bitwise_and")
    __or__, __ror__ = _infix("bitwise_or")
    __xor__, __rxor__ = _infix("bitwise_xor")
    __lt__, _ = _infix("less")
    __le__, _ = _infix("less_equal")
    __gt__, _ = _infix("greater")
    __ge__, _ = _infix("greater_equal")

    def __neg__(self) -> PrimExpr:
        return self._build.neg(self)

    def __invert__(self) -> PrimExpr:
        return self._build.bitwise_not(self)

    def __eq__(self, other: object) -> Any:
        return False if other is None else self._build.equal(self, other)

    def __ne__(self, other: object) -> Any:
        return True if other is None else self._build.not_equal(self, other)

    __hash__ = object.__hash__  # by identity

    def __bool__(self) -> bool:
        what = "a symbolic expression has no truth value while the program is being built"
        hint = "use T.if_then_else, T.And / T.Or / T.Not, or compare with `is`"
        raise ValueError(explain(what, got=str(self), instead=hint))

    def equal(self, other: ScalarLike, span: Span | None = None) -> PrimExpr:
        """An `EQ` of this and `other`."""
        return self._build.equal(self, other, span)

    def astype(self, dtype: str, span: Span | None = None) -> PrimExpr:
        """Cast to `dtype`."""
        return self._build.cast(dtype, self, span)


ExprOp = PrimExpr
# What builders take for a value: an expression, or a number that becomes a literal.
ScalarLike: TypeAlias = PrimExpr | float


class PrimExprWithOp(PrimExpr):
    """TVM's name for expressions with operators; here every PrimExpr has them."""


class ConstExpr(PrimExpr):
    """Root of literals."""

    @property
    def attr_literal(self) -> Any:
        """The plain value, for comparing attributes."""
        return self.value


class Var(PrimExpr):
    """A scalar variable, or with dtype "handle" a pointer. Each object is its own variable.

    `type_annotation` holds the type that a pointer points to, and the storage scope.
    """

    name: str = ignore()
    dtype: DataType
    type_annotation: PointerType | None = field(default=None)
    bound_by_identity: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        dtype: str | PointerType = "int32",
        span: Span | None = None,
        type_annotation: tuple[str, str] | None = None,
    ) -> None:
        if isinstance(dtype, PointerType):
            type_annotation, dtype = dtype, "handle"
        elif type_annotation is not None:
            type_annotation = PointerType(*type_annotation)
        self._set(as_text("the name of a variable", name), DataType(dtype), type_annotation, span)

    @property
    def name_hint(self) -> str:
        """Older name for `name`."""
        return self.name

    def copy_with_suffix(self, suffix: str) -> Var:
        """A fresh variable of the same type."""
        return type(self)._make(self.name + suffix, self.dtype, self.type_annotation)


class SizeVar(Var, init=False):
    """A variable that is never negative (a shape's dimension)."""


class Range(Node):
    """Integers from `min` on, `extent` of them. `Range(n)` starts at 0; `Range(a, b)` ends
    before b."""

    min: PrimExpr
    extent: PrimExpr

    def __init__(
        self,
        begin: ScalarLike | Sequence[ScalarLike],
        end: ScalarLike | None = None,
        span: Span | None = None,
    ) -> None:
        convert, b = PrimExpr._build.convert, PrimExpr._build
        if end is None:
            extent = convert(begin)
            self._set(b.const(0, extent.dtype), extent, span)
        else:
            begin, end = b.match_types(begin, end)
            self._set(begin, b.subtract(end, begin), span)

    @staticmethod
    def from_min_extent(
        min_value: ScalarLike, extent: ScalarLike, span: Span | None = None
    ) -> Range:
        """The range [min_value, min_value + extent)."""
        low, size = PrimExpr._build.match_types(min_value, extent)
        return Range._make(low, size, span=span)

    @staticmethod
    def upto(extent: PrimExpr) -> Range:
        """The range [0, extent)."""
        return Range._make(PrimExpr._build.const(0, extent.dtype), extent)

    @property
    def last(self) -> PrimExpr:
        """The greatest value, which is in the range."""
        return self.min + self.extent - 1


class IterVar(PrimExpr):
    """An axis of a block or of a compute: a variable, its domain, and what kind of axis it is.

    `iter_type`: DataPar "S", CommReduce "R", ThreadIndex, Ordered "scan", Opaque ...
    """

    DataPar = 0
    ThreadIndex = 1
    CommReduce = 2
    Ordered = 3
    Opaque = DimInfo = 4
    Unrolled = 5
    Vectorized = 6
    Parallelized = 7
    Tensorized = 8

    dom: Range  # None for a thread whose extent is not set yet
    var: Var = define()
    iter_type: int
    thread_tag: str = field(default="")

    def __init__(
        self,
        dom: Range | tuple[ScalarLike, ScalarLike] | None,
        var: Var | str,
        iter_type: int = 0,
        thread_tag: str = "",
        span: Span | None = None,
    ) -> None:
        if isinstance(dom, (list, tuple)):
            dom = Range(*dom)
        elif dom is not None and not isinstance(dom, Range):
            dom = Range(dom)
        if isinstance(var, str):
            var = Var(var, dom.extent.dtype if dom is not None else "int32")
        self._set(dom, var, iter_type, as_text("the tag of a thread", thread_tag), span)

    def _derive(self) -> None:
        self.dtype = self.var.dtype


class IntImm(ConstExpr):
    """An integer or boolean literal; `value` is a Python int (for bool 0 or 1)."""

    dtype: DataType
    value: int

    def __init__(self, dtype: str, value: int, span: Span | None = None) -> None:
        dtype, value = DataType(dtype), int(value)
        if not dtype.is_integer or dtype.lanes != 1:
            what = "IntImm holds one integer or bool"
            raise ValueError(explain(what, got=f"dtype {dtype}", instead="use FloatImm or const"))
        if dtype.is_bool:
            value = int(bool(value))
        elif not int_min(dtype) <= value <= int_max(dtype) and (dtype.bits, value) != (1, 1):
            what = f"literal does not fit {dtype}"
            raise ValueError(explain(what, got=value, instead="use a wider type"))
        self._set(dtype, value, span)

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __bool__(self) -> bool:
        return bool(self.value)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, (int, float)):
            return self.value == other
        return super().__eq__(other)

    def __ne__(self, other: object) -> Any:
        if isinstance(other, (int, float)):
            return self.value != other
        return super().__ne__(other)

    def __hash__(self) -> int:
        return hash(self.value)


class FloatImm(ConstExpr):
    """A floating point literal of any float type."""

    dtype: DataType
    value: float

    def __init__(self, dtype: str, value: float, span: Span | None = None) -> None:
        kind = DataType(dtype)
        if kind.is_integer or kind.is_bool:
            raise CallTypeError(explain("FloatImm is for floats", got=kind, instead="IntImm"))
        self._set(kind, float(value), span)

    def __float__(self) -> float:
        return self.value


class StringImm(ConstExpr):
    """A string literal."""

    value: str

    def _derive(self) -> None:
        self.dtype = HANDLE

    def __eq__(self, other: object) -> Any:
        if isinstance(other, ConstExpr):
            return isinstance(other, StringImm) and self.value == other.value
        return self.value == other

    def __ne__(self, other: object) -> Any:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.value)


class Cast(PrimExpr):
    """Conversion of a value; float to int truncates toward zero."""

    dtype: DataType
    value: PrimExpr

    def __init__(self, dtype: str, value: ScalarLike, span: Span | None = None) -> None:
        self._set(DataType(dtype), PrimExpr._build.convert(value), span)


class BinaryOpExpr(PrimExpr):
    """Root of `a op b`."""

    a: PrimExpr
    b: PrimExpr

    def __init__(self, a: Any, b: Any, span: Span | None = None) -> None:
        a, b = PrimExpr._build.convert_pair(a, b)
        if a.dtype != b.dtype:
            what = f"{type(self).__name__} needs operands of one type"
            raise TypeError(explain(what, got=f"{a.dtype} and {b.dtype}", instead="cast one side"))
        self._set(a, b, span)

    def _derive(self) -> None:
        self.dtype = self.a.dtype


class Add(BinaryOpExpr, init=False):
    """a + b"""


class Sub(BinaryOpExpr, init=False):
    """a - b"""


class Mul(BinaryOpExpr, init=False):
    """a * b"""


class Div(BinaryOpExpr, init=False):
    """a / b; on integers rounds toward zero, as C does."""


class Mod(BinaryOpExpr, init=False):
    """Remainder of `Div`: it has the sign of a."""


class FloorDiv(BinaryOpExpr, init=False):
    """Division rounded toward minus infinity."""


class FloorMod(BinaryOpExpr, init=False):
    """Remainder of `FloorDiv`: it has the sign of b."""


class Min(BinaryOpExpr, init=False):
    """The smaller of a and b."""


class Max(BinaryOpExpr, init=False):
    """The larger of a and b."""


class CmpExpr(BinaryOpExpr, init=False):
    """Root of comparisons; dtype bool with the operands' lanes."""

    def _derive(self) -> None:
        kind = self.a.dtype
        self.dtype = BOOL if kind.lanes == 1 else BOOL.like(kind)


class EQ(CmpExpr, init=False):
    """a == b"""

    def __bool__(self) -> bool:
        return _same_or_equal_literals(self.a, self.b)


class NE(CmpExpr, init=False):
    """a != b"""

    def __bool__(self) -> bool:
        return not _same_or_equal_literals(self.a, self.b)


def _same_or_equal_literals(a: PrimExpr, b: PrimExpr) -> bool:
    if a is b:
        return True
    if not isinstance(a, (IntImm, FloatImm)) or not isinstance(b, (IntImm, FloatImm)):
        return False
    return type(a) is type(b) and a.dtype == b.dtype and a.value == b.value


class LT(CmpExpr, init=False):
    """a < b"""


class LE(CmpExpr, init=False):
    """a <= b"""


class GT(CmpExpr, init=False):
    """a > b"""


class GE(CmpExpr, init=False):
    """a >= b"""


class LogicalExpr(BinaryOpExpr, init=False):
    """Root of `And`, `Or` on booleans."""


class And(LogicalExpr, init=False):
    """a and b"""


class Or(LogicalExpr, init=False):
    """a or b"""


class Not(PrimExpr):
    """not a"""

    a: PrimExpr

    def _derive(self) -> None:
        self.dtype = self.a.dtype


class Select(PrimExpr):
    """`true_value` where `condition` holds, else `false_value`; both sides are evaluated.

    Raises CallTypeError for a condition that is not a bool.
    """

    condition: PrimExpr
    true_value: PrimExpr
    false_value: PrimExpr

    def __init__(
        self,
        condition: Any,
        true_value: ScalarLike,
        false_value: ScalarLike,
        span: Span | None = None,
    ) -> None:
        build = PrimExpr._build
        true_value, false_value = build.match_types(true_value, false_value)
        condition = build.convert(condition)
        if not condition.dtype.is_bool:
            what = "the condition of Select is a bool"
            raise CallTypeError(explain(what, got=condition.dtype, instead="compare it with 0"))
        self._set(condition, true_value, false_value, span)

    def _derive(self) -> None:
        self.dtype = self.true_value.dtype


class Ramp(PrimExpr):
    """The vector base, base + stride, ... of `lanes` values: a number, or `vscale() * number`."""

    base: PrimExpr
    stride: PrimExpr
    lanes: Lanes

    def __init__(
        self, base: ScalarLike, stride: ScalarLike, lanes: ScalarLike, span: Span | None = None
    ) -> None:
        base, stride = PrimExpr._build.match_types(base, stride)
        self._set(base, stride, PrimExpr._build.as_lanes(lanes), span)

    def _derive(self) -> None:
        self.dtype = vector_type(self.base.dtype, self.lanes)


class Broadcast(PrimExpr):
    """The vector of `lanes` copies of `value`; lanes as in `Ramp`."""

    value: PrimExpr
    lanes: Lanes

    def __init__(
        self, value: float | BaseExpr, lanes: ScalarLike, span: Span | None = None
    ) -> None:
        self._set(PrimExpr._build.convert(value), PrimExpr._build.as_lanes(lanes), span)

    def _derive(self) -> None:
        self.dtype = vector_type(self.value.dtype, self.lanes)


class Shuffle(PrimExpr):
    """The lanes `indices` of the concatenated `vectors`."""

    vectors: tuple[PrimExpr, ...]
    indices: tuple[PrimExpr, ...]

    def __init__(
        self, vectors: Sequence[PrimExpr], indices: list[int], span: Span | None = None
    ) -> None:
        convert = PrimExpr._build.convert
        self._set(tuple(vectors), tuple(convert(i) for i in indices), span)

    def _derive(self) -> None:
        self.dtype = self.vectors[0].dtype.with_lanes(len(self.indices))


class Let(PrimExpr):
    """`body` with `var` standing for `value`."""

    var: Var = define()
    value: PrimExpr
    body: PrimExpr

    def __init__(self, var: Var, value: Any, body: ScalarLike, span: Span | None = None) -> None:
        convert = PrimExpr._build.convert
        value = PrimExpr._build.const(value, var.dtype) if type(value) is int else convert(value)
        if value.dtype != var.dtype:
            raise CallTypeError(explain(f"{var.name} holds {var.dtype}", got=value.dtype))
        self._set(var, value, convert(body), span)

    def _derive(self) -> None:
        self.dtype = self.body.dtype


class Call(PrimExpr):
    """A call of an intrinsic (`op` an `Op` such as tir.exp) or of a function (a `GlobalVar`)."""

    dtype: DataType
    op: Op | BaseExpr
    args: tuple[Any, ...]

    def __init__(self, dtype: str, op: Any, args: Any, span: Span | None = None) -> None:
        build = PrimExpr._build
        if isinstance(op, str):
            op = build.get_op(op)
        self._set(DataType(dtype), op, tuple(build.convert(a) for a in args), span)


def vector_type(dtype: DataType, lanes: Lanes) -> DataType:
    """The type of a vector of `lanes` values of a type."""
    if isinstance(lanes, int):
        return dtype.with_lanes(lanes * dtype.lanes)
    factor: Any = lanes  # vscale() * factor
    return dtype.with_vscale(factor.b.value * dtype.lanes)


BOOL, HANDLE = DataType("bool"), DataType("handle")
TRUE, FALSE = IntImm(BOOL, 1), IntImm(BOOL, 0)


def int_min(dtype: DataType) -> int:
    """The least value of an integer type."""
    return -(1 << (dtype.bits - 1)) if dtype.is_int else 0


def int_max(dtype: DataType) -> int:
    """The greatest value of an integer type."""
    if dtype.is_bool:
        return 1
    return (1 << (dtype.bits - (1 if dtype.is_int else 0))) - 1


__all__ = own_names(globals(), type)
