"""Visitors and mutators of Relay's types for users: a hook for each kind of type."""

from __future__ import annotations

from typing import Any

from .expr import Expr
from .hooks import fill, hook_of
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
        return getattr(self, hook_of(HOOKS, typ, "type"))(typ)


class TypeVisitor(TypeFunctor):
    """Visits all types inside one."""


class TypeMutator(TypeFunctor):
    """Rebuilds a type; what does not change is the same object."""


def _visit_parts(self: TypeVisitor, typ: Type) -> None:
    for part in parts(typ):
        self.visit(part)


def _rebuilt(self: TypeMutator, typ: Type) -> Any:
    def new(value: object) -> Any:
        if isinstance(value, tuple):
            items = tuple([new(item) for item in value])
            return value if all(a is b for a, b in zip(items, value, strict=True)) else items
        return self.visit(value) if isinstance(value, Type) else value

    old = {f.name: getattr(typ, f.name) for f in typ.__fields__}
    changed = {n: v for n, value in old.items() if (v := new(value)) is not value}
    return typ.replace(**changed) if changed else typ


fill(TypeFunctor, HOOKS, "Called for")
fill(TypeVisitor, HOOKS, "Visit the parts", _visit_parts)
fill(TypeMutator, HOOKS, "Rebuild", _rebuilt)
