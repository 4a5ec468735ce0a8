"""Types of scalars and of pointers, as TVM spells them."""

from __future__ import annotations

from typing import Any

from ..base.errors import CallTypeError, explain
from .dtype import DataType
from .node import Node, field


class PrimType(Node):
    """The type of a scalar, as TVM spells it."""

    dtype: DataType = field(converter=DataType)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrimType) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


def as_text(what: str, value: str) -> str:
    """A value that must be text."""
    if not isinstance(value, str):
        raise CallTypeError(explain(f"{what} is text", got=repr(value)))
    return value


class PointerType(tuple[str, str]):
    """The type of a pointer variable: (the type it points to, the storage scope)."""

    __slots__ = ()
    script: Any = Node.script
    show: Any = Node.show
    __repr__: Any = Node.__repr__
    __str__: Any = Node.__repr__

    def __new__(cls, element_type: Any, storage_scope: str = "global") -> PointerType:
        element = element_type.dtype if isinstance(element_type, PrimType) else element_type
        return super().__new__(cls, (element, as_text("a storage scope", storage_scope)))

    def __getnewargs__(self) -> tuple[str, str]:
        return self[0], self[1]

    @property
    def element_type(self) -> Any:
        """The type that it points to."""
        return self[0] if isinstance(self[0], PointerType) else PrimType(self[0])

    @property
    def storage_scope(self) -> str:
        """The storage scope: "global", "shared", ..."""
        return self[1]
