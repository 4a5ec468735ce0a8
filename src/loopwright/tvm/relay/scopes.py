"""Where in a program the value of a shared expression belongs, and programs in which it is bound there.

A function's body, a branch and what follows a `let` are scopes. An expression belongs to the innermost
scope that has all its uses in it.
"""

from __future__ import annotations

from typing import Any

from ...base.errors import LoopwrightError, explain
from ...ir.expr import GlobalVar
from ...ir.op import Op
from .expr import Call, Expr, Function, If, Let, Var
from .walk import children, post_order, rebuilt

_SCOPED = (Function, If, Let)


class Scope:
    """A scope and its bindings, in order."""

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.bindings: list[tuple[Var, Any]] = []

    def bind(self, var: Var, value: Expr | Op) -> Var:
        """Bind a value; returns the variable."""
        self.bindings.append((var, value))
        return var

    def around(self, body: Expr) -> Any:
        """An expression below the scope's bindings."""
        for var, value in reversed(self.bindings):
            body = Let(var, value, body)
        return body


def _common(a: Scope | None, b: Scope) -> Scope:
    """The innermost scope that has both in it."""
    left: Any = b if a is None else a
    right: Any = b
    while left is not right:
        if left.depth >= right.depth:
            left = left.parent
        else:
            right = right.parent
    return left


def _is_kernel(node: Op | Expr) -> bool:
    return isinstance(node, Function) and bool(node.attrs.get("Primitive"))


class Scopes:
    """The scope of each expression in a program; `lifted`: the identities of those whose first use is not
    in it."""

    def __init__(self, root: Expr) -> None:
        self._first: dict[int, tuple[Any, int]] = {}
        self._order = list(self._walk(root))  # keeps identities
        self.of: dict[int, Scope] = {id(root): Scope()}
        self.inner: dict[int, list[Scope]] = {}
        self.lifted: dict[int, Any] = {}
        for node in reversed(self._order):
            scope = self.of[id(node)]
            first = self._first.get(id(node))
            if first is not None and not isinstance(node, Op):
                user, position = first
                if self.inner[id(user)][position] is not scope:
                    self.lifted[id(node)] = node
            self.inner[id(node)] = inner = _inner_scopes(node, scope)
            for part, own in zip(_parts(node), inner, strict=True):
                self.of[id(part)] = _common(self.of.get(id(part)), own)

    def _walk(self, root: Expr) -> Any:
        """The parts in the order of use; records the first use of each."""

        def note(node: Op | Expr) -> tuple[Any, ...]:
            parts = _parts(node)
            for position, part in enumerate(parts):
                self._first.setdefault(id(part), (node, position))
            return parts

        def enter(node: Op | Expr) -> tuple[Any, ...]:
            return note(node) if isinstance(node, _SCOPED) else _parts(node)

        for node in post_order(root, parts=enter):
            note(node)
            yield node


def _parts(node: Op | Expr) -> tuple[Any, ...]:
    """The parts of an expression in the order in which they are computed."""
    if _is_kernel(node):
        return ()
    if isinstance(node, Call):
        return (*node.args, node.op)
    return (node.var, node.value, node.body) if isinstance(node, Let) else children(node)


def _inner_scopes(node: Op | Expr, scope: Scope) -> list[Scope]:
    """The scope of each part of an expression in `scope`."""
    count = len(_parts(node))
    if isinstance(node, If):
        return [scope, Scope(scope), Scope(scope)]
    return [Scope(scope) if isinstance(node, _SCOPED) else scope] * count


class Binder:
    """A program with `let` for its expressions, in their scopes: for all that are not variables, or
    (all=False) for those that are used in other scopes than their own, where a graph would not say
    where they are computed."""

    def __init__(self, root: Expr, all: bool) -> None:
        self.root, self.all = root, all
        self.scopes = Scopes(root)
        self.new: dict[int, Any] = {}
        self.names: dict[int, Var] = {}  # the variables that `let` binds to values

    def run(self) -> Any:
        """The new program."""
        for node in post_order(self.root, parts=self._enter):
            self.new[id(node)] = self._new_value(node)
        return self.scopes.of[id(self.root)].around(self.new[id(self.root)])

    def _enter(self, node: Op | Expr) -> tuple[Any, ...]:
        if isinstance(node, Let):
            value = self.new.get(id(node.value))
            if value is None:
                self.names[id(node.value)] = node.var
            else:
                self.scopes.of[id(node.value)].bind(node.var, value)
            return (node.value, node.body)
        return () if isinstance(node, Var) else _parts(node)

    def _new_value(self, node: Op | Expr) -> Any:
        name = self.names.get(id(node))
        if isinstance(node, (Var, GlobalVar, Op)):
            return node if name is None else self.scopes.of[id(node)].bind(name, node)
        new = self._rebuilt(node)
        if node is self.root and isinstance(node, Function):
            return new
        if name is None and not self.all and id(node) not in self.scopes.lifted:
            return new
        scope = self.scopes.of[id(node)]
        while isinstance(new, Let):  # no `let` in a bound value
            scope.bind(new.var, new.value)
            new = new.body
        return scope.bind(Var("x") if name is None else name, new)

    def _rebuilt(self, node: Expr) -> Any:
        """An expression with its new parts, each below the bindings of its scope."""
        inner = self.scopes.inner[id(node)]
        if isinstance(node, Let):
            return inner[-1].around(self.new[id(node.body)])
        if isinstance(node, If):
            arms = [(node.true_branch, inner[1]), (node.false_branch, inner[2])]
            branches = [scope.around(self.new[id(arm)]) for arm, scope in arms]
            return If(self.new[id(node.cond)], *branches, span=node.span)
        if isinstance(node, Function) and not _is_kernel(node):
            return node.replace(body=inner[-1].around(self.new[id(node.body)]))
        return rebuilt(node, {} if _is_kernel(node) else self.new)


def check_basic_block_normal_form(expr: Function) -> bool:
    """True for a program in which each expression has a use in the scope that it belongs to. Raises
    LoopwrightError for any other."""
    for node in Scopes(expr).lifted.values():
        what = "an expression is used in several scopes, and bound in none that has them all in it"
        hint = "relay.transform.ToBasicBlockNormalForm(), or a let"
        raise LoopwrightError(explain(what, got=str(node), instead=hint, span=node.span))
    return True
