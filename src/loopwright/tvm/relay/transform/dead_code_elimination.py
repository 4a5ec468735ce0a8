"""DeadCodeElimination: values that are bound and not used are removed.

    before: let %x = 1; let %y = 2; add(%x, %x)
    after:  let %x = 1; add(%x, %x)

inline_once: a value that is used once, and not in a function of its own, is put where it is used.
What has an effect stays where it is; ignore_impurity takes it as any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ....ir.expr import BaseExpr, GlobalVar
from ....ir.module import IRModule
from ....ir.op import Op
from ..expr import Call, Function, If, Let, Var
from ..walk import children, post_order, rebuilt, rewrite
from .base import RelayPass

EFFECTS = ("memory.", "vm.", "debug")


class DeadCodeElimination(RelayPass):
    """Values that are bound and not used are removed."""

    inline_once: bool = False
    ignore_impurity: bool = False

    opt_level = 1

    def run_function(self, func: Function, mod: IRModule) -> Function:
        while True:
            new = _Eliminator(func, mod, self.inline_once, self.ignore_impurity).run()
            if new is func:
                return func
            func = new


class _Eliminator:
    def __init__(self, func: Function, mod: IRModule, inline_once: bool, ignore: bool) -> None:
        self.func, self.mod, self.inline_once, self.ignore = func, mod, inline_once, ignore
        self.uses: dict[int, int] = {}
        self.effects: dict[int, bool] = {}
        self.values: dict[int, Any] = {}  # of bound variables
        self.inlined: dict[int, Any] = {}

    def run(self) -> Function:
        nodes = list(post_order(self.func))
        self._bind(nodes)
        for node in nodes:
            self._count(node)
            self.effects[id(node)] = self._has_effect(node)
        new: dict[int, Any] = {}
        for node in nodes:
            if isinstance(node, Let):
                binding = self._let(node, new)
                if binding is not None:
                    new[id(node)] = binding
                    continue
            new[id(node)] = rebuilt(node, new)
        result = new[id(self.func)]
        return _substituted(result, self.inlined) if self.inlined else result

    def _bind(self, nodes: Iterable[Any]) -> None:
        self.values.update((id(n.var), n.value) for n in nodes if isinstance(n, Let))

    def _count(self, node: BaseExpr) -> None:
        skip = {id(node.var)} if isinstance(node, Let) else set()
        skip |= {id(p) for p in node.params} if isinstance(node, Function) else set()
        for child in children(node):
            if isinstance(child, Var) and id(child) not in skip:
                self.uses[id(child)] = self.uses.get(id(child), 0) + 1
        if isinstance(node, Let) and node.body is node.var:
            self.uses[id(node.var)] = self.uses.get(id(node.var), 0) + 1
        if isinstance(node, Function) and any(node.body is p for p in node.params):
            self.uses[id(node.body)] = self.uses.get(id(node.body), 0) + 1

    def _has_effect(self, node: BaseExpr) -> bool:
        if isinstance(node, Function):
            return False  # to make one has none
        if any(self.effects.get(id(c), False) for c in children(node)):
            return True
        if not isinstance(node, Call):
            return False
        return self._calls_with_effect(node.op)

    def _calls_with_effect(self, callee: BaseExpr, seen: frozenset[Any] = frozenset()) -> bool:
        """Whether a call of that value may have an effect: of one that is not known, it may."""
        if isinstance(callee, Op):
            return callee.name.startswith(EFFECTS)
        if isinstance(callee, Function):
            nodes = list(post_order(callee.body))
            self._bind(nodes)
            return any(self._calls_with_effect(n.op, seen) for n in nodes if isinstance(n, Call))
        key = callee.name_hint if isinstance(callee, GlobalVar) else id(callee)
        if key in seen:
            return False
        if isinstance(callee, GlobalVar):
            body = self.mod.get(callee)
            return isinstance(body, Function) and self._calls_with_effect(body, seen | {key})
        value = self.values.get(id(callee))
        return value is None or self._calls_with_effect(value, seen | {key})

    def _let(self, let: Let, new: dict[int, Any]) -> Any:
        """The replacement of a `let` that is removed; None if it stays."""
        uses = self.uses.get(id(let.var), 0)
        value = let.value
        own = sum(n is let.var for n in post_order(value)) if isinstance(value, Function) else 0
        if self.effects[id(value)] and not self.ignore:
            if not (self.inline_once and uses == 1 and self._next_uses(let)):
                return None
        body = new.get(id(let.body), let.body)
        if uses == 0 or (own and not self._used_outside(let)):
            return body
        if self.inline_once and uses == 1 and not own and not self._in_function(let):
            self.inlined[id(let.var)] = new.get(id(value), value)
            return body
        return None

    def _used_outside(self, let: Let) -> bool:
        return any(n is let.var for n in post_order(let.body))

    def _next_uses(self, let: Let) -> bool:
        """Whether the next binding uses the value before it does what else has an effect."""
        nearest = let.body.value if isinstance(let.body, Let) else let.body
        parts = (nearest.cond,) if isinstance(nearest, If) else children(nearest)
        return next((c for c in parts if c is let.var or self.effects[id(c)]), None) is let.var

    def _in_function(self, let: Let) -> bool:
        """Whether the use is in a function, which may run many times or never."""
        functions = (n for n in post_order(let.body) if isinstance(n, Function))
        return any(v is let.var for f in functions for v in post_order(f))


def _substituted(func: Function, table: dict[int, Any]) -> Function:
    """Variables replaced by values, which may contain others of them."""
    while True:
        after = rewrite(func, pre=lambda node: table.get(id(node)))
        if after is func:
            return func
        func = after
