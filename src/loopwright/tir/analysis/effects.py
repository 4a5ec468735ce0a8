"""The effects of a statement's stores."""

from __future__ import annotations

from typing import Any

from ...ir.functor import any_node
from ...ir.prim_expr import Call, PrimExpr, Range, Var
from ..buffer import Buffer
from ..expr import BufferLoad
from ..op import HARMLESS, effect_of
from ..stmt import Block, BufferStore, Stmt


def has_effect(expr: PrimExpr | Block) -> bool:
    """Whether evaluating an expression has a side effect."""
    return any_node(expr, lambda n: type(n) is Call and effect_of(n) not in HARMLESS)


def can_change(stmt: Stmt | PrimExpr, what: PrimExpr | Range) -> bool:
    """Whether a statement may change the value of an expression or range: it stores to memory that
    this reads, or calls what may store anywhere."""
    read: set[Var] = set()
    called: list[Call] = []

    def collect(node: Any) -> bool:
        kind = type(node)
        if kind is BufferLoad:
            read.add(node.buffer.data)
        elif kind is Call and effect_of(node) not in ("pure", "annotation"):
            called.append(node)
        return False

    def changes(node: Any) -> bool:
        kind = type(node)
        if kind is BufferStore:
            return bool(called) or node.buffer.data in read
        return kind is Call and effect_of(node) not in HARMLESS

    any_node(what, collect, skip=Buffer)
    return bool(read or called) and any_node(stmt, changes, skip=Buffer)
