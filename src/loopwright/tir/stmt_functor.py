"""Visiting and rewriting of statements and expressions: substitution, fresh definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..ir.functor import Rewriter, Visitor, post_order_visit, pre_order_visit, rewrite
from ..ir.node import NODE_TYPES, Node
from ..ir.prim_expr import Call, IntImm, PrimExpr, Var
from ..ir.variables import Substitute, substitute
from .buffer import Buffer
from .function import PrimFunc
from .op import is_call_to
from .stmt import Block, DeclBuffer, MatchBufferRegion, Stmt


def substitute_buffers(node: Stmt, bmap: dict[Buffer, Buffer], vmap: Any = None) -> Any:
    """`node` with buffers, their data pointers, and the variables of `vmap` replaced."""
    pointers: dict[Any, Any] = {old.data: new.data for old, new in bmap.items()}
    pointers.update(vmap or {})

    def replaced(n: Node) -> Any:
        if isinstance(n, Buffer):
            return bmap.get(n)
        return pointers.get(n) if isinstance(n, Var) else None

    return rewrite(node, None, pre=replaced)


class LeafKeeper(Rewriter):
    """Rebuilds statements and their expressions; buffers, variables and literals are kept."""

    def visit_Buffer(self, node: Node) -> Any:
        return node

    visit_Var = visit_ConstExpr = visit_Op = visit_GlobalVar = visit_Buffer


class ExprKeeper(LeafKeeper):
    """Rebuilds statements; their expressions and buffers are kept. The first of a rewriter's bases."""

    def visit_PrimExpr(self, node: PrimExpr) -> Any:
        return node


class SubstituteStmt(Substitute, LeafKeeper):
    """Replaces variables and buffers in statements and folds literals; of the buffers whose
    shape mentions a variable those that the statement declares are replaced, others are kept."""

    def __init__(
        self, table: dict[Var, Any] | None = None, buffers: dict[Any, Any] | None = None
    ) -> None:
        super().__init__({} if table is None else table)
        self.buffers = buffers or {}

    def visit_Buffer(self, node: Buffer) -> Any:
        return self.buffers.get(node, node)

    def visit_DeclBuffer(self, node: DeclBuffer) -> Any:
        buffer = self.visit_Buffer(node.buffer)
        before = {part: getattr(buffer, part) for part in ("shape", "strides", "elem_offset")}
        dims = Substitute(self.table)
        after = {part: dims.visit(value) for part, value in before.items()}
        if any(after[part] is not value for part, value in before.items()):
            self.buffers = {**self.buffers, node.buffer: buffer.replace(**after)}
        return self.visit_default(node)

    def visit_Call(self, node: Call) -> Any:
        """A choice whose condition became a literal is made, as `if_then_else` and `likely` do."""
        call = self.visit_default(node)
        if call is node or not (call.args and isinstance(call.args[0], IntImm)):
            return call
        if is_call_to(call, "if_then_else"):
            return call.args[1 if call.args[0].value else 2]
        return call.args[0] if is_call_to(call, "likely") else call


def keep_buffers(node: Node) -> Any:
    """For `rewrite(..., pre=keep_buffers)`: buffers stay the same objects, whatever variables
    their shapes have."""
    return node if isinstance(node, Buffer) else None


def ir_transform(
    stmt: Stmt,
    preorder: Callable[[Any], Any] | None,
    postorder: Callable[[Any], Any] | None,
    only_enable: Iterable[str] | None = None,
) -> Any:
    """Rewrite `stmt`: `preorder(n)` before visiting children (a result replaces the node without
    visiting them), `postorder(n)` after; None keeps the node. `only_enable` names the node types
    to call them on ("tir.For")."""
    kinds: tuple[type, ...] = ()
    if only_enable is not None:
        names = [name.removeprefix("tir.") for name in only_enable]
        kinds = tuple({t for t in NODE_TYPES.values() if t.__name__ in names})

    def chosen(fn: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
        if fn is None or only_enable is None:
            return fn
        return lambda n: fn(n) if isinstance(n, kinds) else None

    return rewrite(stmt, chosen(postorder), pre=chosen(preorder))


def _defines(field: str) -> Callable[[Any, Any], None]:
    """The method for nodes that define the variable in this field."""

    def visit(self: _Definitions, node: PrimExpr | Stmt) -> None:
        self.variables.setdefault(getattr(node, field))
        self.visit_default(node)

    return visit


class _Definitions(Visitor):
    """All variables and buffers that a piece of IR defines."""

    def __init__(self) -> None:
        self.variables: dict[Var, None] = {}
        self.buffers: dict[Buffer, None] = {}

    def buffer(self, buffer: Buffer) -> None:
        self.buffers.setdefault(buffer)

    visit_For = _defines("loop_var")
    visit_LetStmt = visit_Let = visit_IterVar = _defines("var")
    visit_Allocate = visit_AllocateConst = _defines("buffer_var")

    def visit_DeclBuffer(self, node: DeclBuffer) -> None:
        self.buffer(node.buffer)
        self.visit_default(node)

    def visit_Block(self, node: Block) -> None:
        for buffer in node.alloc_buffers:
            self.buffer(buffer)
            self.variables.setdefault(buffer.data)
        self.visit_default(node)

    def visit_MatchBufferRegion(self, node: MatchBufferRegion) -> None:
        self.matched(node.buffer)
        self.visit_default(node)

    def visit_PrimFunc(self, node: PrimFunc) -> None:
        for param in node.params:
            self.variables.setdefault(param)
        for buffer in node.buffer_map.values():
            self.matched(buffer)
        self.visit(node.body)

    def matched(self, buffer: Buffer) -> None:
        """A buffer whose pointer, strides and so on are bound by a match."""
        self.buffer(buffer)
        for part in (buffer.data, *buffer.shape, *buffer.strides, buffer.elem_offset):
            if isinstance(part, Var):
                self.variables.setdefault(part)


def definitions(node: PrimFunc | Stmt) -> _Definitions:
    """The definitions in a function or statement: `.variables` and `.buffers`, in order."""
    visitor = _Definitions()
    visitor.visit(node)
    return visitor


def renew_defs(func: PrimFunc | Stmt) -> Any:
    """A copy of a function or statement in which every variable and buffer it defines is
    replaced by a new one."""
    defined = definitions(func)
    fresh = {old: old.copy_with_suffix("") for old in defined.variables}

    def post(node: Node) -> Any:
        if isinstance(node, Var):
            return fresh.get(node)
        if isinstance(node, Buffer) and node in defined.buffers:  # unchanged
            return Buffer._make(*node.field_values(), span=node.span)
        return None

    return rewrite(func, post)


__all__ = [
    "ir_transform",
    "post_order_visit",
    "pre_order_visit",
    "renew_defs",
    "substitute",
    "substitute_buffers",
]
