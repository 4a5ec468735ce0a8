"""Classes of visitors whose methods are filled in by kind: what Relay's functors of expressions and of
types share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...base.errors import explain

Hook = Callable[[Any, Any], Any]


def hook_of(hooks: Mapping[type, str], node: object, what: str) -> str:
    """The name of the method for a node. Raises TypeError for a kind that has none."""
    name = next((hooks[kind] for kind in type(node).__mro__ if kind in hooks), None)
    if name is None:
        what = f"a functor does not visit this kind of {what}"
        raise TypeError(explain(what, got=repr(node), instead=", ".join(hooks.values())))
    return name


def missing(self: object, name: str, node: object) -> Any:
    """The hook of a class without defaults."""
    what = f"{type(self).__name__} has no {name}"
    raise NotImplementedError(explain(what, got=type(node).__name__))


def _hook(name: str, default: Hook | None) -> Any:
    def hook(self: Any, node: Any) -> Any:
        return missing(self, name, node) if default is None else default(self, node)

    return hook


def fill(cls: type, hooks: Mapping[type, str], what: str, default: Hook | None = None) -> None:
    """Give a class a method for each kind. what: its docstring; default: what each does (None: it
    raises NotImplementedError)."""
    for kind, name in hooks.items():
        hook = _hook(name, default)
        hook.__name__, hook.__qualname__ = name, f"{cls.__name__}.{name}"
        hook.__doc__ = f"{what} a {kind.__name__}."
        setattr(cls, name, hook)
