"""Facts about functions and blocks without a use here, for scripts written for TVM: memory, the anchor block."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from ...base.errors import explain
from ...ir.functor import Visitor, any_node
from ...ir.prim_expr import IntImm, IterVar, PrimExpr, Var
from ...ir.structural import structural_equal
from ...ir.variables import vars_in
from ...tir import stmt as st
from ...tir.analysis.query import Flops, impurity
from ...tir.buffer import Buffer
from ...tir.expr import BufferLoad
from ...tir.function import PrimFunc
from ...tir.op import is_call_to

if TYPE_CHECKING:
    from ...ir.dtype import DataType
    from ...ir.module import IRModule


def expr_deep_equal(lhs: PrimExpr, rhs: PrimExpr) -> bool:
    """Whether two expressions are the same, variables compared by identity."""
    return structural_equal(lhs, rhs)


def has_if_then_else(node: PrimExpr) -> bool:
    """Whether a conditional statement or `T.if_then_else` occurs."""
    return any_node(node, lambda n: type(n) is st.IfThenElse or is_call_to(n, "if_then_else"))


def assert_pure_function(func: PrimFunc) -> bool:
    """True for a pure function; raises AssertionError naming the impure part."""
    why = impurity(func)
    if why is not None:
        name = func.attrs.get("global_symbol", "the function")
        raise AssertionError(explain(f"{name} is not pure", got=why))
    return True


class _Memory(Visitor):
    """Greatest number of bytes that are allocated at one time, by storage scope."""

    def __init__(self) -> None:
        self.now: dict[str, int] = {}
        self.most: dict[str, int] = {}

    def visit_Allocate(self, node: st.Allocate) -> None:
        self.count(node.buffer_var, node.dtype, node.extents)
        self.visit(node.body)
        self.count(node.buffer_var, node.dtype, node.extents, -1)

    visit_AllocateConst = visit_Allocate

    def visit_Block(self, node: st.Block) -> None:
        for buffer in node.alloc_buffers:
            self.count(buffer.data, buffer.dtype, buffer.shape)
        self.visit(node.body)
        for buffer in node.alloc_buffers:
            self.count(buffer.data, buffer.dtype, buffer.shape, -1)

    def count(self, var: Var, dtype: DataType, extents: Sequence[PrimExpr], sign: int = 1) -> None:
        size = dtype.lane_bytes * dtype.lanes
        for extent in extents:
            size *= extent.value if isinstance(extent, IntImm) else 0
        scope = var.type_annotation[1] if var.type_annotation else "global"
        self.now[scope] = self.now.get(scope, 0) + sign * size
        self.most[scope] = max(self.most.get(scope, 0), self.now[scope])


def calculate_allocated_bytes(func_or_mod: IRModule | PrimFunc) -> dict[str, dict[str, int]]:
    """{function: {storage scope: bytes}} held at one time; symbolic sizes count as 0."""
    if isinstance(func_or_mod, PrimFunc):
        named = {"main": func_or_mod}
    else:
        named = {g.name_hint: f for g, f in func_or_mod.functions.items()}
    sizes = {}
    for name, func in named.items():
        if isinstance(func, PrimFunc):
            walk = _Memory()
            walk.visit(func.body)
            sizes[name] = walk.most
    return sizes


class _Lca(Visitor):
    """For each buffer the innermost loop or block around all its accesses."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.paths: dict[Buffer, list[Any]] = {}
        self.by_data: dict[Var, Buffer] = {}
        self.limits: list[tuple[set[Buffer], int]] = []
        self.grids: list[list[Any]] = []  # the paths to loops over the blocks of a grid

    def access(self, buffer: Buffer) -> None:
        depth = len(self.stack)
        for buffers, limit in self.limits:
            if buffer in buffers:
                depth = min(depth, limit)
        path = self.stack[:depth]
        previous = self.paths.get(buffer)
        self.paths[buffer] = path if previous is None else _common(previous, path)

    def scope_paths(self) -> dict[Buffer, list[Any]]:
        """The paths; all blocks of a grid share global memory."""
        for grid in self.grids:
            for buffer, path in self.paths.items():
                if buffer.scope() == "global":
                    self.paths[buffer] = _common(path, grid)
        return self.paths

    def visit_For(self, node: st.For) -> None:
        self.stack.append(node)
        bound = node.thread_binding
        if bound is not None and bound.thread_tag.startswith("blockIdx"):
            self.grids.append(list(self.stack))
        self.visit_default(node)
        self.stack.pop()

    def visit_BlockRealize(self, node: st.BlockRealize) -> None:
        """Buffers that a reduction writes live across the loops it reduces over."""
        self.visit(node.iter_values)
        self.visit(node.predicate)
        block, loops = node.block, set[Var]()
        for axis, value in zip(block.iter_vars, node.iter_values, strict=True):
            if axis.iter_type != IterVar.DataPar:
                loops |= vars_in(value)
        inside = (
            n for n, s in enumerate(self.stack) if isinstance(s, st.For) and s.loop_var in loops
        )
        limit = next(inside, sys.maxsize)
        self.limits.append(({r.buffer for r in block.writes}, limit))
        self.stack.append(block)
        for buffer in block.alloc_buffers:
            self.by_data[buffer.data] = buffer
        for match in block.match_buffers:
            self.access(match.source.buffer)
        if block.init is not None:
            self.visit(block.init)
        self.visit(block.body)
        self.stack.pop()
        self.limits.pop()

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.access(node.buffer)
        self.visit(node.indices)

    def visit_BufferStore(self, node: st.BufferStore) -> None:
        self.access(node.buffer)
        self.visit(node.value)
        self.visit(node.indices)

    def visit_Var(self, node: Var) -> None:
        buffer = self.by_data.get(node)
        if buffer is not None:
            self.access(buffer)

    def visit_Buffer(self, node: Buffer) -> None:
        """Only accesses count."""


def _common(a: list[Any], b: list[Any]) -> list[Any]:
    """The beginning that two paths share."""
    return [x for x, _ in takewhile(lambda pair: pair[0] is pair[1], zip(a, b, strict=False))]


def detect_buffer_access_lca(func: PrimFunc) -> dict[Buffer, Any]:
    """{buffer: the innermost For or Block that holds all its accesses}, None where that is the
    function itself."""
    walk = _Lca()
    for buffer in func.buffer_map.values():
        walk.by_data[buffer.data] = buffer
    walk.visit(func.body)
    return {buffer: path[-1] if path else None for buffer, path in walk.scope_paths().items()}


def _blocks(stmt: st.Stmt | None, around: float = 1.0) -> list[tuple[st.Block, float]]:
    """(leaf block, number of times it runs) of a statement."""
    if isinstance(stmt, st.For):
        extent = stmt.extent.value if isinstance(stmt.extent, IntImm) else 1
        return _blocks(stmt.body, around * extent)
    if isinstance(stmt, st.SeqStmt):
        return [pair for part in stmt.seq for pair in _blocks(part, around)]
    if isinstance(stmt, st.BlockRealize):
        inner = _blocks(stmt.block.body, around)
        return inner or [(stmt.block, around)]
    if isinstance(stmt, st.LetStmt):
        return _blocks(stmt.body, around)
    if isinstance(stmt, st.IfThenElse):
        return _blocks(stmt.then_case, around) + _blocks(stmt.else_case, around)
    return []


def find_anchor_block(mod: PrimFunc) -> st.Block | None:
    """The block a schedule is built around: the most expensive reduction, or None."""
    if isinstance(mod, PrimFunc):
        functions = [mod]
    else:
        functions = [f for f in mod.functions.values() if isinstance(f, PrimFunc)]
    best, cost = None, -1.0
    for func in functions:
        for block, times in _blocks(func.body):
            if any(a.iter_type == IterVar.CommReduce for a in block.iter_vars):
                work = Flops().count(block) * times
                if work > cost:
                    best, cost = block, work
    return best
