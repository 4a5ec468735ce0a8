"""The roots of all expressions, global variables, and attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from ..base.late import Slot
from .dtype import DataType
from .node import Node, derived, plain_attr

__all__ = ["Attrs", "BaseExpr", "DictAttrs", "GlobalVar", "RelaxExpr"]


# The printer of Relay's text format.
RELAY_TEXT: Slot[Callable[..., str]] = Slot("relay.text")


class BaseExpr(Node):
    """Root of primitive (scalar) and Relax (graph) expressions."""

    def astext(
        self, show_meta_data: bool = True, annotate: Callable[[Any], str] | None = None
    ) -> str:
        """The text in Relay. annotate: returns the comment after each expression."""
        return RELAY_TEXT.get()(self, show_meta_data=show_meta_data, annotate=annotate)


class RelaxExpr(BaseExpr):
    """Root of graph expressions. `struct_info` describes the value: its shape, its type; None until
    the normalizer has inferred it."""

    # Derived: a rebuilt node starts without it.
    struct_info: Any = derived()

    def _derive(self) -> None:
        self.struct_info = None


class GlobalVar(RelaxExpr):
    """The name of a function in a module. Two are the same when their names are.

    >>> lw.GlobalVar("main") == lw.GlobalVar("main")
    True
    """

    name_hint: str

    @property
    def checked_type(self) -> Any:
        """TVM's older name for `struct_info`."""
        return self.struct_info

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalVar) and self.name_hint == other.name_hint

    def __hash__(self) -> int:
        return hash(self.name_hint)


class Extent(int):
    """A number of a list among an operator's attributes, with what an IntImm says of itself."""

    __slots__ = ()
    dtype: ClassVar[DataType] = DataType("int64")

    @property
    def value(self) -> int:
        """The number."""
        return int(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return (int, (int(self),))


class Extents(tuple[Any, ...]):
    """Numbers of an operator's attribute; their text is that of a list, as in TVM."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(list(self))


class Attrs(Node):
    """An operator's compile-time arguments: `call.attrs.axes`, `call.attrs["axes"]`.

    `key` names the kind ("relax.nn.conv2d"); `values` keeps the order of declaration. The numbers of
    a list are an `Extent` each where it is read as an attribute.
    """

    key: str
    values: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            value = object.__getattribute__(self, "values")[name]
        except KeyError:
            attributes = ", ".join(self.values)
            raise AttributeError(
                f"{self.key} has no attribute {name!r}; it has: {attributes}"
            ) from None
        kind = type(value)
        if kind in (list, tuple) and type(self) is Attrs and all(type(v) is int for v in value):
            return Extents(map(Extent, value)) if kind is tuple else kind(map(Extent, value))
        return value

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def keys(self) -> list[str]:
        """The attributes' names in order of declaration."""
        return list(self.values)

    def items(self) -> list[tuple[str, Any]]:
        """(name, value) pairs in order of declaration."""
        return list(self.values.items())

    def get(self, name: str, default: Any = None) -> Any:
        """The value, or `default`."""
        return self.values.get(name, default)

    def get_int(self, key: str) -> int:
        """An attribute that is an integer, as a number."""
        return int(getattr(self, key))

    def get_int_tuple(self, key: str) -> tuple[int, ...]:
        """An attribute that is several integers, as numbers."""
        return tuple(map(int, getattr(self, key)))

    def get_str(self, key: str) -> str:
        """An attribute that is a text."""
        return str(getattr(self, key))


class DictAttrs(Attrs):
    """Attributes of a function or module."""

    def __init__(self, values: dict[str, Any] | None = None, span: Any = None) -> None:
        self._set("DictAttrs", dict(values or {}), span)

    def _plain(self) -> dict[str, Any]:
        return {k: plain_attr(v) for k, v in self.values.items()}

    def structural_compare(
        self, other: DictAttrs, comparer: Any, path: str, defining: bool
    ) -> None:
        """By key; `True`, 1 and a literal of any integer type are equal."""
        comparer.dicts(self._plain(), other._plain(), path, defining)

    def structural_hash(self, hasher: Any, defining: bool) -> int:
        """As they compare."""
        return hasher.hash(self._plain(), defining)
