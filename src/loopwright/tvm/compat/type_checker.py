"""TVM's `tir.schedule._type_checker`: functions whose arguments are checked by their annotations."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from ...base.errors import explain

F = TypeVar("F", bound=Callable[..., Any])
# Types whose instances count as another type's, too.
_ALSO: dict[type, tuple[type, ...]] = {float: (int,), list: (tuple,)}


def type_checked(func: F) -> F:
    """The function, which raises TypeError for arguments that do not fit their annotations.

    Lists may be tuples, as both are sequences of the IR; of callables, only that they are callable.
    """
    signature, hints = inspect.signature(func), get_type_hints(func)

    @functools.wraps(func)
    def checked(*args: Any, **kwargs: int) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            kind = signature.parameters[name].kind
            if name in hints and kind not in (kind.VAR_POSITIONAL, kind.VAR_KEYWORD):
                misfit = _misfit(value, hints[name], name)
                if misfit is not None:
                    raise TypeError(f"{func.__qualname__}: {misfit}")
        return func(*bound.args, **bound.kwargs)

    return checked  # type: ignore[return-value]


def _misfit(value: Any, annotation: Any, path: str) -> str | None:
    """Why a value does not fit a type: the message of its first part that does not; else None."""
    origin, parts = get_origin(annotation) or annotation, get_args(annotation)
    if origin in (Union, types.UnionType):
        fits = any(_misfit(value, part, path) is None for part in parts)
    elif origin is collections.abc.Callable:
        fits = callable(value)
    elif origin is Any or not isinstance(origin, type):  # type variables, too
        fits = True
    else:
        fits = isinstance(value, (origin, *_ALSO.get(origin, ())))
        fixed = origin is tuple and parts and parts[-1] is not ...
        if fits and not (fixed and len(parts) != len(value)):
            misfits = (
                _misfit(v, part, f"{path}{at}") for v, part, at in _inner(value, origin, parts)
            )
            return next((misfit for misfit in misfits if misfit is not None), None)
        fits = False
    shown = annotation.__name__ if annotation in (int, str, float, bool) else str(annotation)
    return None if fits else explain(f"{path} is not of type {shown}", got=repr(value))


def _inner(value: Any, origin: type, parts: tuple[Any, ...]) -> list[tuple[Any, Any, str]]:
    """(part, its type, its place) of a container."""
    if not parts:
        return []
    if issubclass(origin, collections.abc.Mapping):
        keys = [(key, parts[0], f"'s key {key!r}") for key in value]
        return keys + [(item, parts[1], f"[{key!r}]") for key, item in value.items()]
    if origin is tuple and parts[-1] is not ...:
        return [(v, p, f"[{k}]") for k, (v, p) in enumerate(zip(value, parts, strict=True))]
    if issubclass(origin, (collections.abc.Sequence, collections.abc.Set)):
        return [(v, parts[0], f"[{k}]") for k, v in enumerate(value)]
    return []
