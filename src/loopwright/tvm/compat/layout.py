"""Names of TVM's layout that have another form here, for scripts that check their kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...ir.expr import GlobalVar
from ...runtime.device import VirtualDevice  # noqa: F401

if TYPE_CHECKING:
    from ...relax.expr import Expr
    from ...relax.struct_info import StructInfo


class _Sequences(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, (tuple, list))


class Array(metaclass=_Sequences):
    """TVM's sequence; here those of the IR are tuples, and those that functions return lists."""

    def __new__(cls, items: Iterable[Any] = ()) -> Any:
        return tuple(items)


# Other containers of the IR are Python's own.
Map = dict
String = str


class _NoInstance:
    """A kind of object that is never made here."""

    def asobject(self) -> object:
        """What TVM turns such an object into where it is used."""
        return self


class EqualOp(_NoInstance):
    """`a == b` before it is used as an expression or as a bool; here it is an `EQ` at once."""


class NotEqualOp(_NoInstance):
    """`a != b` before it is used; here it is an `NE` at once."""


class IntImmEnum(_NoInstance):
    """An IntImm that is not made yet; here the values of enums are plain integers."""


@contextmanager
def spans_as_they_are() -> Iterator[None]:
    """TVM's `testing.enable_span_filling` and `disable_span_filling`: importers always say where
    nodes come from, and no comparison looks at it."""
    yield


def update_struct_info(expr: GlobalVar | Expr, info: StructInfo) -> None:
    """Set the struct info of an expression."""
    if isinstance(expr, GlobalVar):
        expr.struct_info = info
    else:
        expr._update_struct_info(info)
