"""Visitors and mutators for users: one method for each kind of statement and expression.

    @tir.functor.visitor
    class Count(tir.functor.PyStmtExprVisitor):
        def visit_buffer_load_(self, op):
            self.loads += 1
            super().visit_buffer_load_(op)

A method that is not overridden visits the children; `super().visit_x_(op)` does too.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

from ...base.errors import explain
from ...ir import prim_expr as pe
from ...ir.node import DEF, Node
from ...ir.prim_expr import IterVar, PrimExpr, Range, Var
from ...tir import expr as te
from ...tir import stmt as st
from ...tir.buffer import BufferRegion
from ...tir.stmt import MatchBufferRegion, Stmt

C = TypeVar("C", bound="type[_Dispatch]")

_STMTS = (
    *(st.AttrStmt, st.IfThenElse, st.LetStmt, st.For, st.While, st.Allocate, st.AllocateConst),
    *(st.DeclBuffer, st.BufferStore, st.BufferRealize, st.AssertStmt, st.SeqStmt, st.Evaluate),
    *(st.Block, st.BlockRealize),
)
_EXPRS = (
    *(pe.Var, pe.SizeVar, te.BufferLoad, te.ProducerLoad, pe.Let, pe.Call, pe.Add, pe.Sub),
    *(pe.Mul, pe.Div, pe.Mod, pe.FloorDiv, pe.FloorMod, pe.Min, pe.Max, pe.EQ, pe.NE, pe.LT),
    *(pe.LE, pe.GT, pe.GE, pe.And, pe.Or, te.Reduce, pe.Cast, pe.Not, pe.Select, pe.Ramp),
    *(pe.Broadcast, pe.Shuffle, pe.IntImm, pe.FloatImm, pe.StringImm),
)


def _method_name(kind: type) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()
    return f"visit_{words}_"


_METHODS = {kind: _method_name(kind) for kind in (*_STMTS, *_EXPRS)}


def _defined(node: Node, name: str, role: str) -> bool:
    """Whether a field holds a bare variable that the node defines."""
    return role is DEF and isinstance(getattr(node, name), Var)


class _Dispatch:
    _cls: type  # a decorated class itself

    def visit_stmt(self, stmt: Stmt) -> Any:
        """Dispatch on the kind of statement."""
        return self._go(stmt)

    def visit_expr(self, expr: PrimExpr) -> Any:
        """Dispatch on the kind of expression."""
        return self._go(expr)

    def _go(self, node: Any) -> Any:
        name = _METHODS.get(type(node))
        if name is None:
            what = f"{type(self).__name__} has no method for this"
            raise TypeError(explain(what, got=type(node).__name__))
        return getattr(self, name)(node)

    def _default(self, op: PrimExpr | Stmt) -> Any:
        raise NotImplementedError


def _install(cls: type, doc: str) -> None:
    for kind, name in _METHODS.items():

        def method(self: Any, op: PrimExpr | Stmt) -> Any:
            return self._default(op)

        method.__name__ = name
        method.__doc__ = f"{doc} of a {kind.__name__}."
        setattr(cls, name, method)


class PyStmtExprVisitor(_Dispatch):
    """Visits nodes; the methods' results are ignored."""

    def _default(self, op: PrimExpr | Stmt) -> None:
        for f in op.__fields__:
            if not _defined(op, f.name, f.role):
                self._visit(getattr(op, f.name))

    def _visit(self, value: object) -> None:
        if isinstance(value, IterVar):
            self._visit(value.dom)
        elif isinstance(value, PrimExpr):
            self.visit_expr(value)
        elif isinstance(value, Stmt):
            self.visit_stmt(value)
        elif isinstance(value, (tuple, list)):
            for item in value:
                self._visit(item)
        elif isinstance(value, Range):
            self._visit(value.min)
            self._visit(value.extent)
        elif isinstance(value, BufferRegion):
            self._visit(value.region)
        elif isinstance(value, MatchBufferRegion):
            self._visit(value.source)


class PyStmtExprMutator(_Dispatch):
    """Rebuilds nodes; the methods return the new node, or the same object if nothing changed."""

    def _default(self, op: PrimExpr | Stmt) -> Any:
        values, changed = [], False
        for f in op.__fields__:
            old = getattr(op, f.name)
            new = old if _defined(op, f.name, f.role) else self._mutate(old)
            changed = changed or new is not old
            values.append(new)
        return op._make(*values, span=op.span) if changed else op

    def _mutate(self, value: object) -> Any:
        if isinstance(value, IterVar):
            return value.replace(dom=self._mutate(value.dom))
        if isinstance(value, PrimExpr):
            return self.visit_expr(value)
        if isinstance(value, Stmt):
            return self.visit_stmt(value)
        if isinstance(value, (tuple, list)):
            items = [self._mutate(item) for item in value]
            same = all(a is b for a, b in zip(items, value, strict=True))
            return value if same else type(value)(items)
        if isinstance(value, (Range, BufferRegion, MatchBufferRegion)):
            fields = [f.name for f in value.__fields__ if f.name != "buffer"]
            return value.replace(**{name: self._mutate(getattr(value, name)) for name in fields})
        return value


_install(PyStmtExprVisitor, "Visit the parts")
_install(PyStmtExprMutator, "Rebuild the parts")


def visitor(cls: C) -> C:
    """Decorates a visitor class, as in TVM; `cls._cls` is the class itself."""
    return _marked(cls, PyStmtExprVisitor)


def mutator(cls: C) -> C:
    """Decorates a mutator class, as in TVM; `cls._cls` is the class itself."""
    return _marked(cls, PyStmtExprMutator)


def _marked(cls: C, base: type) -> C:
    if not issubclass(cls, base):
        what = f"{cls.__name__} is not a {base.__name__}"
        raise TypeError(explain(what, instead=f"derive it from {base.__name__}"))
    cls._cls = cls
    return cls
