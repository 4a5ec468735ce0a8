"""Fingerprints of functions: a table by them finds equal functions."""

from __future__ import annotations

from typing import Any

from ..ir.expr import GlobalVar
from ..ir.function import BaseFunc
from ..ir.literals import int_value
from ..ir.op import Op
from ..tir.function import PrimFunc
from ..tir.stmt import BlockRealize, BufferStore, SeqStmt
from . import expr as rx


def fingerprint(func: BaseFunc) -> Any:
    """A cheap fingerprint that equal functions share and most different ones do not."""
    if isinstance(func, PrimFunc):
        buffers = [(b.dtype, *map(int_value, b.shape)) for b in func.buffers]
        return (len(func.params), *buffers, *_first_store(func.body))
    if isinstance(func, rx.Function):
        values = (b.value for block in func.body.blocks for b in block.bindings)
        return ("graph", len(func.params), *(tuple(_callees(v)) for v in values))
    return type(func)


def _callees(value: rx.Expr) -> list[Any]:
    """The operator of a call and the function that it is given first."""
    nodes = (value.op, *value.args[:1]) if isinstance(value, rx.Call) else ()
    return [n for n in nodes if isinstance(n, (Op, GlobalVar))]


def _first_store(stmt: Any) -> list[Any]:
    """The kinds of statements on the path to the first store, and of its value."""
    kinds: list[Any] = []
    while stmt is not None:
        kinds.append(type(stmt))
        if isinstance(stmt, BufferStore):
            value = stmt.value
            kinds += [type(value), type(getattr(value, "a", None)), type(getattr(value, "b", None))]
            kinds.append(getattr(getattr(value, "op", None), "name", None))
        if isinstance(stmt, BlockRealize):
            kinds += [len(stmt.block.reads), len(stmt.block.alloc_buffers)]
            stmt = stmt.block.body
        elif isinstance(stmt, SeqStmt):
            kinds.append(len(stmt.seq))
            stmt = stmt.seq[0] if stmt.seq else None
        else:
            stmt = getattr(stmt, "body", None)
    return kinds
