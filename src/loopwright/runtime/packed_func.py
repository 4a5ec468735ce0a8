"""Functions by name: the table native code, the virtual machine and users share.

@register_func("my.scale")
def scale(x, out): ...

get_global_func("my.scale")(a, b)
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar, overload

from ..base.registry import Registry
from .native import NativeFunction, PythonView, native_view

F = TypeVar("F", bound=Callable[..., Any])


class PackedFunc:
    """A Python function as a runtime function. Calling it calls the function directly."""

    __slots__ = ("_view", "function", "name")

    def __init__(self, function: Callable[..., Any], name: str | None = None) -> None:
        self.function = function
        self.name = name or getattr(function, "__name__", "function")
        self._view: Any = None

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    def __tvm_ffi_object__(self) -> Any:
        """The tvm-ffi function that calls this one with our types."""
        if self._view is None:
            self._view = native_view(self.function)
        return self._view

    def handle(self) -> int:
        """The function object's address, for native code that calls it; valid while this lives."""
        return self.__tvm_ffi_object__().__chandle__()

    def __repr__(self) -> str:
        return f"<PackedFunc {self.name}>"


Function = PackedFunc | NativeFunction | PythonView

FUNCTIONS: Registry[str, Function] = Registry("global function")


@overload
def register_func(func_name: F, f: None = None, override: bool = False) -> F: ...
@overload
def register_func(func_name: str, f: F, override: bool = False) -> F: ...
@overload
def register_func(func_name: str, f: None = None, override: bool = False) -> Callable[[F], F]: ...
def register_func(
    func_name: Any, f: Callable[..., Any] | type | None = None, override: bool = False
) -> Any:
    """Put a function in the table, directly or as a decorator; returns the function unchanged.

    func_name: its name, or the function itself, registered under its own name. Raises TypeError for another
    value, ValueError when the name is taken and `override` is false.

    >>> @lw.register_global_func("my.double", override=True)
    ... def double(x):
    ...     return 2 * x
    >>> lw.get_global_func("my.double")(4)
    8
    """
    if callable(func_name):
        return register_func(func_name.__name__, func_name, override)
    if not isinstance(func_name, str):
        raise TypeError(f"register_func expects a name, got {type(func_name).__name__}")

    def put(function: Callable[..., Any] | type) -> Any:
        if func_name in FUNCTIONS and not override:
            raise ValueError(
                f"global function {func_name!r} is already registered; pass override=True to replace it"
            )
        FUNCTIONS.register(func_name, convert_func(function, func_name), override=True)
        return function

    return put if f is None else put(f)


def _foreign(name: str) -> Any:
    """A function of tvm-ffi's own table, if that library is in use."""
    package = sys.modules.get("tvm_ffi")
    return None if package is None else package.get_global_func(name, allow_missing=True)


def get_global_func(name: str, allow_missing: bool = False) -> Any:
    """The function registered under `name`, from this table, then tvm-ffi's.

    Raises ValueError when it is missing, or returns None if `allow_missing`.

    >>> lw.get_global_func("my.unknown", allow_missing=True)
    """
    func = FUNCTIONS.get(name)
    if func is not None:
        return func
    other = _foreign(name)
    if other is not None:
        return PythonView(other)
    if allow_missing:
        return None
    raise ValueError(
        f"cannot find global function {name!r}; register it with register_func({name!r}, f)"
    )


def remove_global_func(name: str) -> None:
    """Take a name out of the table; a missing one is not an error."""
    FUNCTIONS.remove(name)


def list_global_func_names() -> list[str]:
    """The names registered here, sorted."""
    return sorted(FUNCTIONS)


def convert_func(
    function: PythonView | Callable[..., Any] | type, name: str | None = None
) -> Function:
    """A callable as a runtime function."""
    if isinstance(function, (PackedFunc, NativeFunction, PythonView)):
        return function
    if not callable(function):
        raise TypeError(f"expected a function, got {type(function).__name__}")
    return PackedFunc(function, name)


def convert(value: object) -> Any:
    """A Python value as a runtime value: callables become functions, containers are walked."""
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return tuple(convert(v) for v in value)
    if isinstance(value, dict):
        return {k: convert(v) for k, v in value.items()}
    is_node = hasattr(type(value), "node_key")  # an expression that can be called is not a function
    if callable(value) and not isinstance(value, type) and not is_node:
        return convert_func(value)
    return value
