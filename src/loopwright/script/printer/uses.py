"""Where variables and buffers are used: the scopes around all uses of each, so that the
definition of a free one can be printed in the innermost scope that holds them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Any

from ...ir.node import Node
from ...ir.prim_expr import FloatImm, IntImm, PrimExpr, StringImm, Var
from ...tir.buffer import Buffer, DataProducer
from ...tir.function import PrimFunc
from ...tir.stmt import AttrStmt, BufferStore, Evaluate, IfThenElse, Stmt


class Uses:
    """The common scopes of each variable's uses below a root, computed on first use."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self.paths: dict[int, list[Any]] | None = None

    def common_scopes(self, obj: PrimExpr | Buffer) -> list[Any]:
        """The statements with bodies and functions around every use of `obj`, outermost first."""
        if self.paths is None:
            self.paths = {}
            _Walk(self.paths).visit([self.root])
        return self.paths.get(id(obj), [])

    def is_above_all_uses(self, node: AttrStmt, obj: PrimExpr) -> bool:
        """Whether all uses of `obj` are within `node`."""
        return any(scope is node for scope in self.common_scopes(obj))


class _Walk:
    def __init__(self, paths: dict[int, list[Any]]) -> None:
        self.paths = paths
        self.path: list[Any] = []
        self.seen: dict[int, None] = {}  # in the scopes of the path: a repetition adds nothing

    def visit(self, value: Node | Sequence[Any] | Mapping[Any, Any], is_case: bool = False) -> None:
        """Note the uses in a value; a case of an `if` is a scope, also if it is one store."""
        role, parts = _walked(type(value))
        seen, is_scope = self.seen, is_case or role is _SCOPE
        count = len(seen)
        if is_scope:
            self.path.append(value)
        elif role is _BUFFER:
            self.use(value)
        for part in parts(value):
            below = _walked(type(part))[0]
            if below and id(part) not in seen:
                if below is _VARIABLE:
                    self.use(part)
                else:
                    self.visit(part, type(value) is IfThenElse and isinstance(part, Stmt))
                if below is not _LIST:
                    seen[id(part)] = None
        if is_scope:
            self.path.pop()
            while len(seen) > count:
                seen.popitem()

    def use(self, obj: Any) -> None:
        path = self.paths.get(id(obj))
        if path is None:
            self.paths[id(obj)] = list(self.path)
            return
        n = 0
        for a, b in zip(path, self.path, strict=False):
            if a is not b:
                break
            n += 1
        del path[n:]


# The role of a value in a walk; other values are left out.
_SCOPE, _VARIABLE, _BUFFER, _NODE, _LIST, _DICT = (
    "scope",
    "variable",
    "buffer",
    "node",
    "list",
    "dict",
)
_ROLES = {
    (BufferStore, Evaluate): _NODE,  # nothing is defined in them
    (Stmt, PrimFunc): _SCOPE,
    Var: _VARIABLE,
    Buffer: _BUFFER,
    Node: _NODE,
    (tuple, list): _LIST,
    dict: _DICT,
}


_LEAVES = (DataProducer, IntImm, FloatImm, StringImm)


@cache
def _walked(kind: type) -> tuple[str, Callable[[Any], Iterable[Any]]]:
    """The role of the values of a class, and the function that returns the values directly inside one."""
    if issubclass(kind, _LEAVES):
        return "", _nothing
    role = next((role for kinds, role in _ROLES.items() if issubclass(kind, kinds)), "")
    if role is _LIST:
        return role, iter
    if role is _DICT:
        return role, lambda value: [*value, *value.values()]
    if role in ("", _VARIABLE):
        return role, _nothing
    names = [f.name for f in kind.__fields__ if f.name != "span"]
    if len(names) > 1:
        return role, attrgetter(*names)
    return role, lambda value: [getattr(value, name) for name in names]


def _nothing(value: Any) -> tuple[()]:
    return ()


def occurs(body: Stmt | PrimExpr, targets: set[int]) -> set[int]:
    """Those of the variables (by id) that occur in `body`."""
    occurring: set[int] = set()
    seen: set[int] = set()
    stack = [body]
    while stack and len(occurring) < len(targets):
        value = stack.pop()
        role, parts = _walked(type(value))
        if role is _VARIABLE and id(value) in targets:
            occurring.add(id(value))
        if role in (_SCOPE, _BUFFER, _NODE) and id(value) in seen:
            continue
        seen.add(id(value))
        stack.extend(parts(value))
    return occurring
