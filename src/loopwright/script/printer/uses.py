"""Where variables and buffers are used: the scopes around all uses of each, so that the
definition of a free one can be printed in the innermost scope that holds them all."""

from __future__ import annotations

from typing import Any

from ...ir.node import Node
from ...ir.prim_expr import Var
from ...tir.buffer import Buffer, DataProducer
from ...tir.function import PrimFunc
from ...tir.stmt import Stmt


class Uses:
    """The common scopes of each variable's uses below a root, found when first asked for."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.paths: dict[int, list[Any]] | None = None

    def common_scopes(self, obj: Any) -> list[Any]:
        """The statements and functions around every use of `obj`, outermost first."""
        if self.paths is None:
            self.paths = {}
            _Walk(self.paths).visit(self.root)
        return self.paths.get(id(obj), [])

    def is_above_all_uses(self, node: Any, obj: Any) -> bool:
        """Whether all uses of `obj` are within `node`."""
        return any(scope is node for scope in self.common_scopes(obj))


class _Walk:
    def __init__(self, paths: dict[int, list[Any]]) -> None:
        self.paths = paths
        self.path: list[Any] = []

    def visit(self, value: Any) -> None:
        if isinstance(value, Node):
            if isinstance(value, DataProducer):
                return
            scope = isinstance(value, (Stmt, PrimFunc))
            if scope:
                self.path.append(value)
            elif isinstance(value, (Var, Buffer)):
                self.use(value)
            for f in value.__fields__:
                item = getattr(value, f.name, None)
                if isinstance(item, Node) or type(item) in _CONTAINERS:
                    self.visit(item)
            if scope:
                self.path.pop()
        elif isinstance(value, (tuple, list)):
            for item in value:
                self.visit(item)
        elif isinstance(value, dict):
            for key, item in value.items():
                self.visit(key)
                self.visit(item)

    def use(self, obj: Any) -> None:
        known = self.paths.get(id(obj))
        if known is None:
            self.paths[id(obj)] = list(self.path)
            return
        n = 0
        for a, b in zip(known, self.path, strict=False):
            if a is not b:
                break
            n += 1
        del known[n:]


_CONTAINERS = (tuple, list, dict)


def occurs(body: Any, wanted: set[int]) -> set[int]:
    """Those of the variables (by id) that occur in `body`."""
    occurring: set[int] = set()
    seen: set[int] = set()
    stack = [body]
    while stack:
        value = stack.pop()
        if isinstance(value, Node):
            if isinstance(value, Var):
                if id(value) in wanted:
                    occurring.add(id(value))
                continue
            if isinstance(value, DataProducer):
                continue
            if isinstance(value, Buffer):
                if id(value) in seen:
                    continue
                seen.add(id(value))
            for f in value.__fields__:
                item = getattr(value, f.name, None)
                if isinstance(item, Node) or type(item) in _CONTAINERS:
                    stack.append(item)
        elif isinstance(value, (tuple, list)):
            stack.extend(value)
        elif isinstance(value, dict):
            stack.extend(value)
            stack.extend(value.values())
    return occurring
