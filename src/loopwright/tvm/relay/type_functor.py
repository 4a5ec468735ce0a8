"""Visitors and mutators of Relay's types for users: a hook for each kind of type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.errors import explain
from .expr import Expr
from .types import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RelayRefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeRelation,
    TypeVar,
)

HOOKS: dict[type, str] = {
    GlobalTypeVar: "visit_global_type_var",
    TypeVar: "visit_type_var",
    IncompleteType: "visit_incomplete_type",
    TensorType: "visit_tensor_type",
    FuncType: "visit_func_type",
    TupleType: "visit_tuple_type",
    TypeRelation: "visit_type_relation",
    RelayRefType: "visit_ref_type",
    TypeCall: "visit_type_call",
}


def parts(typ: Type) -> list[Any]:
    """The types directly inside one: type variables that it binds, arguments, the result."""
    values: list[Any] = []
    for value in typ.field_values():
        values += value if isinstance(value, tuple) else [value]
    return [part for part in values if isinstance(part, Type)]


class TypeFunctor:
    """Dispatches a type to the hook of its kind; hooks have no defaults."""

    def visit(self, typ: Expr | Type) -> Any:
        """The result of the hook for a type."""
        name = next((HOOKS[kind] for kind in type(typ).__mro__ if kind in HOOKS), None)
        if name is None:
            what = "a functor does not visit this kind of type"
            raise TypeError(explain(what, got=repr(typ), instead=", ".join(HOOKS.values())))
        return getattr(self, name)(typ)


class TypeVisitor(TypeFunctor):
    """Visits all types inside one."""


class TypeMutator(TypeFunctor):
    """Rebuilds a type; what does not change is the same object."""


def _no_default(name: str) -> Callable[[Any, Any], Any]:
    def hook(self: Any, typ: FuncType) -> Any:
        what = f"{type(self).__name__} has no {name}"
        raise NotImplementedError(explain(what, got=type(typ).__name__))

    return hook


def _visiting(name: str) -> Callable[[Any, Any], Any]:
    def hook(self: Any, typ: Type) -> None:
        for part in parts(typ):
            self.visit(part)

    return hook


def _rebuilding(name: str) -> Callable[[Any, Any], Any]:
    def new(self: Any, value: object) -> Any:
        if isinstance(value, tuple):
            items = tuple([new(self, item) for item in value])
            return value if all(a is b for a, b in zip(items, value, strict=True)) else items
        return self.visit(value) if isinstance(value, Type) else value

    def hook(self: Any, typ: Type) -> Any:
        old = {f.name: getattr(typ, f.name) for f in typ.__fields__}
        changed = {n: v for n, value in old.items() if (v := new(self, value)) is not value}
        return typ.replace(**changed) if changed else typ

    return hook


def _fill(cls: type, make: Callable[[str], Any], what: str) -> None:
    for kind, name in HOOKS.items():
        hook = make(name)
        hook.__name__, hook.__qualname__ = name, f"{cls.__name__}.{name}"
        hook.__doc__ = f"{what} a {kind.__name__}."
        setattr(cls, name, hook)


_fill(TypeFunctor, _no_default, "Called for")
_fill(TypeVisitor, _visiting, "Visit the parts")
_fill(TypeMutator, _rebuilding, "Rebuild")
