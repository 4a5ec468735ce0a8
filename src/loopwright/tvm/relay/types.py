"""Relay's types: static facts about values."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any as AnyValue
from typing import ClassVar

from ...arith import Analyzer
from ...base.errors import explain
from ...base.span import Span
from ...ir.dtype import DataType
from ...ir.expr import RELAY_TEXT as TEXT
from ...ir.node import Node, as_tuple, define, field, ignore
from ...ir.prim_expr import IntImm, PrimExpr, Var
from ...ir.prim_op import convert
from ...ir.structural import structural_equal
from ...relax import types as relax_types


class TypeKind(IntEnum):
    """The kind of a type variable."""

    Type = 0
    ShapeVar = 1
    BaseType = 2
    Constraint = 4
    AdtHandle = 5
    TypeData = 6


class Type(relax_types.Type):
    """Base of the types of Relay."""

    __slots__ = ()

    def astext(
        self, show_meta_data: bool = True, annotate: Callable[[AnyValue], str] | None = None
    ) -> str:
        """The text of this type, with the version of the format."""
        return TEXT.get()(self, show_meta_data=show_meta_data, annotate=annotate)

    def __repr__(self) -> str:
        return TEXT.get()(self, show_meta_data=False, header=False)

    __str__ = __repr__


class Any(PrimExpr):
    """An extent that is known only at run time; each may be another. Printed as `?`."""

    __slots__ = ()

    def __init__(self, span: Span | None = None) -> None:
        self._set(span)

    def _derive(self) -> None:
        self.dtype = DataType("int32")

    def __eq__(self, other: object) -> AnyValue:
        return isinstance(other, Any)

    def __ne__(self, other: object) -> AnyValue:
        return not isinstance(other, Any)

    def __hash__(self) -> int:
        return hash(Any)


class BaseTensorType(Type):
    """Base of the types of tensors."""

    __slots__ = ()


class TensorType(BaseTensorType):
    """A tensor of a shape and dtype. An extent is an int, an expression, or `Any()`; two expressions
    that are always the same number are the same extent."""

    shape: tuple[PrimExpr, ...]
    dtype: DataType

    def __init__(self, shape: AnyValue, dtype: AnyValue = "float32", span: AnyValue = None) -> None:
        if isinstance(shape, (PrimExpr, int)):
            shape = (shape,)
        self._set(tuple(_extent(dim) for dim in shape), DataType(dtype), span)

    def structural_compare(
        self, other: TensorType, comparer: AnyValue, path: str, defining: bool
    ) -> None:
        """By the fields; an extent by what it means."""
        if len(self.shape) == len(other.shape):
            pairs = zip(self.shape, other.shape, strict=True)
            other = other.replace(shape=tuple([a if same_extent(a, b) else b for a, b in pairs]))
        comparer.fields(self, other, path, defining)

    def structural_hash(self, hasher: AnyValue, defining: bool) -> int:
        """Extents that are neither numbers nor variables have the same hash."""
        dims = [(d if isinstance(d, _PLAIN) else Analyzer().simplify(d)) for d in self.shape]
        parts = [hasher.hash(d if isinstance(d, _PLAIN) else 0, defining) for d in dims]
        return hash((*parts, str(self.dtype)))

    @property
    def concrete_shape(self) -> tuple[int, ...]:
        """The extents as ints. Raises TypeError where one is not known."""
        if is_dynamic(self):
            what = "Cannot convert type to a concrete shape: an extent is not known"
            raise TypeError(explain(what, got=str(self)))
        return tuple(dim.value for dim in self.shape if isinstance(dim, IntImm))


def _extent(value: AnyValue) -> PrimExpr:
    dim = convert(value)
    if isinstance(dim, IntImm):
        return dim if dim.dtype == "int32" else IntImm("int32", dim.value)
    if not isinstance(dim, PrimExpr) or not dim.dtype.is_integer:
        what = "an extent is an int, an expression or relay.Any()"
        raise TypeError(explain(what, got=repr(value)))
    return dim


_PLAIN = (IntImm, Var, Any)


def same_extent(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether two extents are always the same number."""
    if a is b or (isinstance(a, _PLAIN) and isinstance(b, _PLAIN)):
        return a is b
    return Analyzer().can_prove_equal(a, b)


class TupleType(Type):
    """A tuple of values."""

    fields: tuple[Type, ...] = field(converter=as_tuple)


class TypeVar(Type):
    """A variable of types, that a function is generic in."""

    name_hint: str = ignore()
    kind: TypeKind
    bound_by_identity: ClassVar[bool] = True

    def __init__(
        self, name_hint: str, kind: AnyValue = TypeKind.Type, span: AnyValue = None
    ) -> None:
        self._set(name_hint, TypeKind(kind), span)

    def __call__(self, *args: AnyValue) -> TypeCall:
        return TypeCall(self, args)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


class GlobalTypeVar(TypeVar, init=False):
    """The name of a type that a module defines."""

    __slots__ = ()


class IncompleteType(Type):
    """A type that inference has to find."""

    kind: TypeKind = field(default=TypeKind.Type, converter=TypeKind)
    bound_by_identity: ClassVar[bool] = True
    compare_when_free: ClassVar[bool] = True

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


class FuncType(Type):
    """A function from types to a type, generic in `type_params`."""

    type_params: tuple[TypeVar, ...] = define()
    type_constraints: tuple[Node, ...]
    arg_types: tuple[Type, ...]
    ret_type: Type
    opens_scope: ClassVar[bool] = True

    def __init__(
        self,
        arg_types: AnyValue,
        ret_type: Type,
        type_params: AnyValue = None,
        type_constraints: AnyValue = None,
        span: Span | None = None,
    ) -> None:
        params, constraints = tuple(type_params or ()), tuple(type_constraints or ())
        self._set(params, constraints, tuple(arg_types), ret_type, span)


class TypeConstraint(Type):
    """Base of constraints on several types together."""

    __slots__ = ()


class TypeRelation(TypeConstraint):
    """A relation between types: the first `num_inputs` of `args` decide the others."""

    func: AnyValue
    args: tuple[Node, ...]
    num_inputs: int
    attrs: AnyValue


class TypeCall(Type):
    """A generic type with its arguments."""

    func: Node
    args: tuple[Node, ...] = field(converter=as_tuple)


class RelayRefType(Type):
    """A reference to a value. Functions over references are refused: see `relay.unsupported`."""

    value: Type


RefType = RelayRefType


def scalar_type(dtype: str) -> TensorType:
    """A tensor without axes."""
    return TensorType((), dtype)


def ShapeVar(name: str) -> TypeVar:
    """A variable of shapes."""
    return TypeVar(name, TypeKind.ShapeVar)


def is_dynamic(tensor_type: AnyValue) -> bool:
    """Whether an extent is not a number. Of a tuple: whether one of its fields is so."""
    if isinstance(tensor_type, TupleType):
        return any(is_dynamic(f) for f in tensor_type.fields)
    shape = tensor_type.shape if isinstance(tensor_type, TensorType) else ()
    return any(not isinstance(dim, IntImm) for dim in shape)


def same_type(a: AnyValue, b: AnyValue) -> bool:
    """Whether two types are the same; each unknown extent is like every other."""
    return a is b or structural_equal(a, b)
