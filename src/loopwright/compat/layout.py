"""What exists in TVM's layout and has another form here, for scripts that ask for its kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


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


class VirtualDevice(NamedTuple("VirtualDevice", [
    ("device_type", int), ("virtual_device_id", int), ("target", Any), ("memory_scope", str),
])):  # fmt: skip
    """Where a value is to be, as far as it is known: device, target and memory."""

    __slots__ = ()

    def __new__(cls, device: Any = None, target: Any = None, memory_scope: str = "") -> Any:
        place = (-1, -1) if device is None else (device.device_type, device.device_id)
        return super().__new__(cls, *place, target, memory_scope)


class IntImmEnum(_NoInstance):
    """An IntImm that is not made yet; here the values of enums are plain integers."""


def update_struct_info(expr: Any, info: Any) -> None:
    """Set the struct info of an expression."""
    expr._update_struct_info(info)


__all__ = [
    "Array",
    "EqualOp",
    "IntImmEnum",
    "Map",
    "NotEqualOp",
    "String",
    "VirtualDevice",
    "update_struct_info",
]
