"""What a program of a stranger may do: the closed set of names, attributes and calls.

`from_source(text)` reads a text under these rules. What is reached by a name is I, T and R, the builtins
below, what the caller gives in `extra_vars`, and what the text itself defines; from there, public
attributes of this package's own objects. No module but those of the script's namespaces, no name
that starts with an underscore, no foreign object's methods, and no number, text or loop beyond
`MOST`.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

from ...base.errors import explain
from ...base.registry import PACKAGE

MOST = 100_000  # items of a Python loop or sequence
_BITS = 4_096  # of a Python integer
_NAMESPACES = tuple(f"{PACKAGE}.{part}" for part in ("script", "relax.op"))
_HINT = "pass run_python=True for text that you trust"


class Closed(PermissionError):
    """What a text may not do."""


def refuse(what: str, got: str) -> Closed:
    """An error that `eval` will locate."""
    return Closed(explain(what, got=got[:200], instead=_HINT))


def bounded(items: Iterable[Any]) -> Iterator[Any]:
    """The items, at most MOST of them."""
    for count, item in enumerate(items):
        if count >= MOST:
            raise refuse(f"a Python loop of more than {MOST} items", type(items).__name__)
        yield item


def _over(make: Callable[..., Any], many: bool = False) -> Callable[..., Any]:
    @functools.wraps(make)
    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 or many:
            args = tuple(bounded(a) if isinstance(a, Iterable) else a for a in args)
        return make(*args, **kwargs)

    return call


BUILTINS: dict[str, Any] = {
    **{f.__name__: f for f in (abs, bool, float, int, isinstance, len, range, round, slice, str)},
    **{f.__name__: _over(f) for f in (all, any, dict, enumerate, list, max, min, set, sorted)},
    **{f.__name__: _over(f, many=True) for f in (sum, tuple, zip)},
    "reversed": lambda items: reversed(tuple(bounded(items))),
    "print": lambda *_: None,
}
_CALLABLE = {id(function) for function in BUILTINS.values()}


def _is_ours(value: Any) -> bool:
    name = getattr(value, "__module__", None) or ""
    return name.startswith(f"{PACKAGE}.") and not name.startswith(f"{PACKAGE}.base.")


def check_attribute(value: Any, name: str, given: Iterable[Any] = ()) -> None:
    """Raise Closed unless a text may read an attribute."""
    if name.startswith(("_", "register")):
        raise refuse("a program as text reads public attributes only", name)
    if any(value is item for item in given):
        return
    if isinstance(value, ModuleType):
        allowed = value.__name__.startswith(_NAMESPACES)
    else:
        allowed = _is_ours(type(value)) or (isinstance(value, type) and _is_ours(value))
    if not allowed:
        what = "a program as text reads attributes of nodes and of I, T and R only"
        raise refuse(what, f"{name} of {type(value).__name__}")


def check_found(value: Any, name: str) -> None:
    """Raise Closed for an attribute's value that a text may not have."""
    if isinstance(value, ModuleType) and not value.__name__.startswith(_NAMESPACES):
        raise refuse("a program as text reaches no module but I, T and R", name)


def check_call(function: Any, given: Iterable[Any] = ()) -> None:
    """Raise Closed unless a text may call it."""
    if id(function) in _CALLABLE or any(function is item for item in given):
        return
    owner = getattr(function, "__self__", function)
    if not (_is_ours(function) or _is_ours(type(owner)) or _is_ours(owner)):
        raise refuse("a program as text calls functions of I, T and R only", repr(function))


def check_operation(operation: type[ast.operator], left: Any, right: Any) -> None:
    """Raise Closed for an operation on Python values whose result is too large."""
    large = False
    if isinstance(left, int) and isinstance(right, int):
        if operation is ast.Pow:
            large = left.bit_length() * abs(right) > _BITS
        elif operation is ast.LShift:
            large = left.bit_length() + right > _BITS
        elif operation is ast.Mult:
            large = left.bit_length() + right.bit_length() > _BITS
    elif operation is ast.Mult:
        for items, count in ((left, right), (right, left)):
            if isinstance(items, (str, bytes, list, tuple)) and isinstance(count, int):
                large |= len(items) * count > MOST
    elif operation is ast.Add and isinstance(left, (str, bytes, list, tuple)):
        large = len(left) > MOST
    elif operation is ast.Mod and isinstance(left, (str, bytes)):
        large = True
    if large:
        raise refuse("a Python value of this size", f"{type(left).__name__} {operation.__name__}")


def check_format(value: Any, spec: str) -> None:
    """Raise Closed for a format of something that is no number, text or node, or that is too wide."""
    if not (isinstance(value, (int, float, str)) or _is_ours(type(value))):
        raise refuse("an f-string shows numbers, texts and nodes", type(value).__name__)
    if any(len(digits) > 3 for digits in re.findall(r"\d+", spec)):
        raise refuse("a format of this width", spec)
