"""The variables and the type variables of Relay's expressions and types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ....ir.expr import GlobalVar
from ....ir.module import IRModule
from ....ir.op import Op
from ..expr import Call, Expr, Function, Let, Var
from ..type_functor import parts
from ..types import FuncType, Type, TypeVar
from ..walk import all_vars, bound_vars, children, free_vars, post_order  # noqa: F401


def _types_of(node: GlobalVar | Expr) -> Iterator[Any]:
    """The types that are written at an expression."""
    if isinstance(node, Function):
        yield from (*node.type_params, *(p.type_annotation for p in node.params), node.ret_type)
    elif isinstance(node, Var):
        yield node.type_annotation
    elif isinstance(node, Call):
        yield from node.type_args


def _type_vars(root: Expr | FuncType) -> tuple[list[TypeVar], set[int]]:
    """The type variables in the order in which they are met, and the identities of those that a
    function or a type binds."""
    met: dict[int, TypeVar] = {}
    bound: set[int] = set()

    def walk(kind: Type) -> None:
        if isinstance(kind, FuncType):
            bound.update(id(p) for p in kind.type_params)
        if isinstance(kind, TypeVar):
            met.setdefault(id(kind), kind)
        for part in parts(kind):
            walk(part)

    if isinstance(root, Type):
        walk(root)
        return list(met.values()), bound
    nodes = list(post_order(root))
    functions = [node for node in nodes if isinstance(node, Function)]
    for func in functions:
        bound.update(id(p) for p in func.type_params)
    for node in [*reversed(functions), *nodes]:  # a function's own before those of its body
        for kind in _types_of(node):
            if kind is not None:
                walk(kind)
    return list(met.values()), bound


def all_type_vars(expr: Expr | FuncType, mod: IRModule | None = None) -> list[TypeVar]:
    """The type variables of an expression or a type."""
    return _type_vars(expr)[0]


def bound_type_vars(expr: Function, mod: IRModule | None = None) -> list[TypeVar]:
    """Those that a generic function, or its type, binds."""
    met, bound = _type_vars(expr)
    return [v for v in met if id(v) in bound]


def free_type_vars(expr: Function | FuncType, mod: IRModule | None = None) -> list[TypeVar]:
    """Those that nothing binds."""
    met, bound = _type_vars(expr)
    return [v for v in met if id(v) not in bound]


def all_dtypes(expr: Function) -> set[str]:
    """The dtypes of all tensors in an expression whose types are known."""
    dtypes: set[str] = set()

    def walk(kind: Type) -> None:
        if hasattr(kind, "dtype"):
            dtypes.add(str(kind.dtype))
        for part in parts(kind):
            walk(part)

    for node in post_order(expr):
        info = getattr(node, "struct_info", None)
        if isinstance(info, Type):
            walk(info)
    return dtypes


def well_formed(expr: Expr) -> bool:
    """Whether each variable is bound once, and used only where it is bound or nowhere bound."""
    inside: set[int] = set()  # bound where the walk is
    bound: set[int] = set()
    free: set[int] = set()
    seen: set[int] = set()
    steps: list[tuple[str, Any]] = [("visit", expr)]
    while steps:
        what, node = steps.pop()
        if what == "leave":
            inside.difference_update(map(id, node))
        elif what == "bind":
            if any(id(var) in bound or id(var) in free for var in node):
                return False
            inside.update(map(id, node))
            bound.update(map(id, node))
        elif isinstance(node, Var):
            if id(node) in bound and id(node) not in inside:
                return False
            if id(node) not in bound:
                free.add(id(node))
        elif id(node) not in seen:
            seen.add(id(node))
            steps += reversed(list(_scoped(node)))
    return True


def _scoped(node: Op | Expr) -> Iterator[tuple[str, Any]]:
    """The parts of a node, and where its variables are bound."""
    if isinstance(node, Let):
        yield from (("bind", [node.var]), ("visit", node.value), ("visit", node.body))
        yield "leave", [node.var]
    elif isinstance(node, Function):
        yield from (("bind", node.params), ("visit", node.body), ("leave", node.params))
    else:
        yield from (("visit", child) for child in children(node))
