"""Checks of a primitive's arguments against the annotations of its parameters, before each step, so
that a wrong argument is refused by the name of the parameter, wherever it would have been used."""

from __future__ import annotations

import functools
import inspect
import operator
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import numpy as np

from ....ir.prim_expr import FloatImm, IntImm, StringImm
from ...stmt import Block, For
from .errors import ScheduleError
from .random_variables import BlockRV, LoopRV
from .refs import Ref

if TYPE_CHECKING:
    from ...function import PrimFunc

Fn = TypeVar("Fn", bound=Callable[..., Any])
LARGEST = 1 << 63  # the bound of int64, the type of numbers in TVM's traces


class WrongArgument(ScheduleError, TypeError):
    """An argument of a kind, or of a value, that the parameter does not take."""


class Mismatch(Exception):
    """A value is not of a kind."""


@dataclass(frozen=True)
class AtLeast:
    """Of an int in an `Annotated`: its bounds, both included."""

    least: int
    most: int = LARGEST - 1


Positive = Annotated[int, AtLeast(1)]


@dataclass(frozen=True)
class Kind:
    """A text for the values that an annotation accepts; the types of values that are not converted;
    and a function that converts a value of another type, or raises Mismatch."""

    text: str
    plain: frozenset[type]
    convert: Callable[[Any], Any] = field(repr=False)

    def take(self, value: object) -> Any:
        """The value as the primitive takes it; raises Mismatch."""
        return value if type(value) in self.plain else self.convert(value)


def _no(value: Any) -> Any:
    raise Mismatch


def _int(value: object) -> int:
    if isinstance(value, IntImm):
        value = value.value
    if not isinstance(value, (int, np.integer, np.bool_)):
        raise Mismatch
    number = int(value) if isinstance(value, np.bool_) else operator.index(value)
    if not -LARGEST <= number < LARGEST:
        raise Mismatch
    return number


def _float(value: object) -> float:
    if isinstance(value, (float, FloatImm, np.floating)):
        return float(getattr(value, "value", value))
    return float(_int(value))


def _instance(*kinds: type) -> Callable[[Any], Any]:
    def convert(value: object) -> Any:
        if not isinstance(value, kinds):
            raise Mismatch
        return value

    return convert


def _text(value: object) -> str:
    return value.value if isinstance(value, StringImm) else _instance(str)(value)


def _callable(value: object) -> Any:
    if not callable(value) or isinstance(value, type):
        raise Mismatch
    return value


_PLAIN: dict[Any, Kind] = {
    # One in place of the other is refused where the step looks it up, with its place in the program.
    BlockRV: Kind("a block", frozenset((BlockRV, LoopRV, str)), _instance(Ref, Block, For)),
    LoopRV: Kind("a loop", frozenset((LoopRV, BlockRV)), _instance(Ref, For, Block)),
    int: Kind("an int of 64 bits", frozenset(), _int),
    float: Kind("a number", frozenset((float,)), _float),
    bool: Kind("True or False", frozenset((bool,)), lambda value: bool(_int(value))),
    str: Kind("a str", frozenset((str,)), _text),
    type(None): Kind("None", frozenset((type(None),)), _no),
    Any: Kind("anything", frozenset(), lambda value: value),
}


def kind_of(annotation: Any) -> Kind:
    """The kind of values that a parameter of this annotation takes."""
    plain = _PLAIN.get(annotation)
    if plain is not None:
        return plain
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return _either([kind_of(arg) for arg in args])
    if origin is typing.Annotated:
        return _bounded(kind_of(args[0]), args[1])
    if origin is tuple:
        return _tuple([kind_of(arg) for arg in args])
    if origin in (list, Sequence):
        return _list(kind_of(args[0]))
    if origin is Callable:
        return Kind("a function", frozenset(), _callable)
    return Kind(f"a {annotation.__name__}", frozenset((annotation,)), _instance(annotation))


def _either(kinds: list[Kind]) -> Kind:
    # A constant stays the expression that it is where expressions are taken.
    order = sorted(kinds, key=lambda kind: kind in (_PLAIN[int], _PLAIN[float], _PLAIN[bool]))

    def convert(value: Any) -> Any:
        for kind in order:
            try:
                return kind.take(value)
            except Mismatch:
                continue
        raise Mismatch

    texts = list(dict.fromkeys(kind.text for kind in kinds))
    return Kind(" or ".join(texts), frozenset().union(*(k.plain for k in kinds)), convert)


def _bounded(kind: Kind, bounds: AtLeast) -> Kind:
    def convert(value: Any) -> Any:
        value = kind.take(value)
        if not bounds.least <= value <= bounds.most:
            raise Mismatch
        return value

    most = "" if bounds.most == LARGEST - 1 else f", and {bounds.most} at most"
    return Kind(f"an int, {bounds.least} or more{most}", frozenset(), convert)


def _list(item: Kind) -> Kind:
    def convert(value: object) -> Any:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise Mismatch
        return [v if type(v) in item.plain else item.take(v) for v in value]

    return Kind(f"a list, of which each is {item.text}", frozenset(), convert)


def _tuple(items: list[Kind]) -> Kind:
    def convert(value: object) -> Any:
        if not isinstance(value, (tuple, list)) or len(value) != len(items):
            raise Mismatch
        return tuple(item.take(v) for item, v in zip(items, value, strict=True))

    return Kind(f"a pair of {' and '.join(i.text for i in items)}", frozenset(), convert)


def kinds_of(fn: Callable[..., Any]) -> dict[str, Kind]:
    """The kinds of a primitive's parameters."""
    hints = typing.get_type_hints(fn, include_extras=True)
    return {name: kind_of(hint) for name, hint in hints.items() if name not in ("sch", "return")}


def checked(fn: Fn) -> Fn:
    """A method whose arguments are checked as those of a primitive are."""
    names = list(inspect.signature(fn).parameters)[1:]

    @cache
    def takes() -> dict[str, Kind]:  # once all that the annotations name is there
        return kinds_of(fn)

    @functools.wraps(fn)
    def method(self: Any, *args: PrimFunc, **kwargs: str | int) -> Any:
        kinds = takes()
        converted = [
            converted_argument(kinds[name], name, a) for name, a in zip(names, args, strict=False)
        ]
        named = {
            n: converted_argument(kinds[n], n, a) if n in kinds else a for n, a in kwargs.items()
        }
        return fn(self, *converted, *args[len(converted) :], **named)

    return cast(Fn, method)


def converted_argument(kind: Kind, name: str, value: object) -> Any:
    """An argument as the primitive takes it. Raises WrongArgument."""
    try:
        return kind.take(value)
    except Mismatch:
        got = f"{_shown(value)} of type {type(value).__name__}"
        what = f"argument {name!r} is of a wrong type or value"
        raise WrongArgument(what, got=got, instead=kind.text) from None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
