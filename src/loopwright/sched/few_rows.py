"""Tiles of which only the first rows exist are computed row by row.

    for rows in range(ceildiv(n, 8)):          # n is symbolic
        if n - rows * 8 <= 2:
            for row in range(n - rows * 8):
                ...                            # a tile of one row
        else:
            ...                                # a tile of 8

Without that a product of one row (a batch of 1, one token) takes as long as one of 8.
"""

from __future__ import annotations

from typing import Any

from ..ir.functor import nodes_of
from ..ir.prim_expr import IterVar, PrimExpr, Var
from ..ir.prim_op import const, less_equal, subtract
from ..ir.variables import substitute, vars_in
from ..tir import stmt as st
from ..tir.buffer import Buffer
from ..tir.function import PrimFunc
from ..tir.stmt_functor import LeafKeeper, renew_defs

TILE = "row_tile"  # annotates the loop over tiles with the axis of the blocks' rows
_FEW = 2  # rows that take no longer one by one


def split_few_rows(func: PrimFunc) -> PrimFunc:
    """Give the loops annotated `TILE` a branch for tiles of few rows."""
    work = _FewRows()
    body = work.visit(func.body)
    if not work.copies:
        return func.replace(body=body)
    assert isinstance(body, st.BlockRealize)
    root = body.block
    root = root.replace(alloc_buffers=(*root.alloc_buffers, *work.copies))
    return func.replace(body=body.replace(block=root))


class _FewRows(LeafKeeper):
    def __init__(self) -> None:
        self.copies: list[Buffer] = []

    def visit_For(self, node: st.For) -> Any:
        if TILE not in node.annotations:
            return self.visit_default(node)
        notes = dict(node.annotations)
        axis = int(notes.pop(TILE))
        rows = _row_loops(node.body, axis)
        start, extent = _start(node.body, axis, rows)
        left = subtract(extent, start)
        few = st.IfThenElse(
            less_equal(left, const(_FEW, left.dtype)),
            self.by_rows(node.body, rows, left),
            node.body,
        )
        return node.replace(body=few, annotations=notes)

    def by_rows(self, body: st.Stmt, rows: set[Var], left: PrimExpr) -> st.Stmt:
        """The statements of a tile for each of the rows that are left, with buffers of their own."""
        row = Var("row", left.dtype)
        single = _SingleRow(rows, row)
        one = renew_defs(single.visit(body))
        self.copies += single.own.values()
        return st.For(row, const(0, row.dtype), left, st.ForKind.SERIAL, one)


class _SingleRow(LeafKeeper):
    """Puts one row in the place of loops over rows, and new buffers in that of local ones."""

    def __init__(self, rows: set[Var], row: Var) -> None:
        self.rows, self.row = rows, row
        self.own: dict[Buffer, Buffer] = {}

    def visit_For(self, node: st.For) -> Any:
        return self.visit(node.body) if node.loop_var in self.rows else self.visit_default(node)

    def visit_Var(self, node: Var) -> Var:
        return self.row if node in self.rows else node

    def visit_Buffer(self, node: Buffer) -> Buffer:
        if node.scope() != "local":
            return node
        if node not in self.own:
            self.own[node] = node.replace(data=node.data.copy_with_suffix("_row"))
        return self.own[node]


def _row_of(realize: st.BlockRealize, axis: int) -> tuple[IterVar, PrimExpr]:
    spatial = [
        (v, e)
        for v, e in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        if v.iter_type == IterVar.DataPar
    ]
    return spatial[axis]


def _row_loops(body: st.Stmt, axis: int) -> set[Var]:
    """The loops over the rows of a tile."""
    inside = {loop.loop_var for loop in nodes_of(body, st.For)}
    return {
        v
        for r in nodes_of(body, st.BlockRealize)
        for v in vars_in(_row_of(r, axis)[1])
        if v in inside
    }


def _start(body: st.Stmt, axis: int, rows: set[Var]) -> tuple[PrimExpr, PrimExpr]:
    """The first row of a tile and the number of all rows, as the block that stores them says."""
    last = nodes_of(body, st.BlockRealize)[-1]
    row, value = _row_of(last, axis)
    return substitute(value, {v: const(0, v.dtype) for v in rows}), row.dom.extent
