"""Static types under TVM's former names: struct infos without values."""

from __future__ import annotations

from ..base.span import Span
from ..ir.dtype import DataType
from ..ir.node import Node, as_tuple, field
from ..ir.structural import ByStructure


class Type(ByStructure, Node):
    """Base class of types."""

    __slots__ = ()


class ObjectType(Type):
    """Any value."""

    __slots__ = ()

    def __init__(self, span: Span | None = None) -> None:
        self._set(span)


class PackedFuncType(Type):
    """A function of the runtime's registry."""

    __slots__ = ()

    def __init__(self, span: Span | None = None) -> None:
        self._set(span)


class ShapeType(Type):
    """A shape of rank `ndim`; -1 unknown."""

    ndim: int = field(default=-1)


class TensorType(Type):
    """A tensor of rank `ndim` (-1 unknown) and dtype ("void" unknown)."""

    ndim: int
    dtype: DataType

    def __init__(
        self, ndim: int = -1, dtype: DataType | str = "float32", span: Span | None = None
    ) -> None:
        self._set(ndim, DataType(dtype), span)


DynTensorType = TensorType


class TupleType(Type):
    """A tuple."""

    fields: tuple[Node, ...] = field(converter=as_tuple)


class FuncType(Type):
    """A function."""

    arg_types: tuple[Node, ...] = field(converter=as_tuple)
    ret_type: Node
