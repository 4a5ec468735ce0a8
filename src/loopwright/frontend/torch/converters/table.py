"""How converters are registered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from ...graph.registry import Converter, register_converter
from ..model import DOMAIN

T = TypeVar("T")


def full_name(overload: str) -> str:
    """The name of an overload: "add.Tensor" is "aten.add.Tensor", "relu" is "aten.relu.default"; those of
    other namespaces are in full, "prims.iota.default"."""
    if overload.count(".") == 2:
        return overload
    return f"aten.{overload}" if "." in overload else f"aten.{overload}.default"


def aten(*overloads: str) -> Callable[[Converter], Converter]:
    """Register a converter of ATen's overloads."""

    def register(convert: Converter) -> Converter:
        for name in overloads:
            register_converter(full_name(name), convert=convert, domain=DOMAIN)
        return convert

    return register


def each(table: Mapping[str, T], make: Callable[[T], Converter]) -> None:
    """Register `make(value)` for each row of a table of overloads, separated by blanks."""
    for names, value in table.items():
        aten(*names.split())(make(value))


def rows(table: Mapping[str, Converter]) -> None:
    """Register the converters of a table of overloads, separated by blanks."""
    each(table, lambda convert: convert)
