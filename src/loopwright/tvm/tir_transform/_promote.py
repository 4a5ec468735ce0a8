"""Arithmetic of small floats in a wider type."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...ir.dtype import DataType
from ...ir.functor import any_node
from ...ir.op import Op
from ...ir.prim_expr import BinaryOpExpr, Call, Cast, FloatImm, Let, PrimExpr, Select, Var
from ...ir.prim_op import cast, const
from ...tir.buffer import Buffer
from ...tir.expr import BufferLoad
from ...tir.function import PrimFunc
from ...tir.op import effect_of, is_call_to
from ...tir.stmt import Allocate, BufferStore, LetStmt, Stmt
from ...tir.transform.base import StmtRewriter

if TYPE_CHECKING:
    from ...ir.node import Node


def has_native(func: PrimFunc, least: int) -> bool:
    """Whether the function's target is a GPU that computes in a small type: CUDA from this compute
    capability (80 for 8.0) on."""
    target = func.attrs.get("target")
    if target is None or target.kind.name != "cuda":
        return False
    digits = (
        str(target.attrs.get("arch", "")).removeprefix("sm_").rstrip("abcdefghijklmnopqrstuvwxyz")
    )
    return digits.isdigit() and int(digits) >= least


class Promote(StmtRewriter):
    """Computes values of small types in a wider one; memory that is passed in or out keeps its type.

    A result is rounded when it is stored there, not after each operation. Memory allocated within,
    whose pointer does not escape, holds values of the wider type.
    """

    def __init__(self, small: Callable[[DataType], bool], wide: str) -> None:
        self.small, self.wide = small, DataType(wide)
        self.vars: dict[Var, Var] = {}
        self.buffers: dict[Buffer, Buffer] = {}

    def visit_Allocate(self, node: Allocate) -> Any:
        kind = node.buffer_var.type_annotation
        if not self.small(node.dtype) or kind is None or _escapes(node.buffer_var, node.body):
            return self.visit_default(node)
        scope = (str(self.wide), kind[1])
        self.vars[node.buffer_var] = Var(node.buffer_var.name, "handle", type_annotation=scope)
        return self.visit_default(node).replace(dtype=self.widened(node.dtype))

    def visit_Buffer(self, node: Buffer) -> Any:
        data = self.vars.get(node.data)
        if data is None:
            return node
        if node not in self.buffers:
            self.buffers[node] = node.replace(data=data, dtype=self.widened(node.dtype))
        return self.buffers[node]

    def widened(self, dtype: DataType) -> DataType:
        return self.wide.with_lanes(dtype.lanes)

    def visit_Var(self, node: Var) -> Any:
        return self.vars.get(node, node)

    def visit_FloatImm(self, node: FloatImm) -> Any:
        return const(node.value, self.wide) if self.small(node.dtype) else node

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        new = self.visit_default(node)
        return cast(self.widened(new.dtype), new) if self.small(new.dtype) else new

    def visit_Cast(self, node: Cast) -> Any:
        value = self.visit(node.value)
        if not self.small(node.dtype):
            return cast(node.dtype, value)
        rounded = value if self.small(value.dtype) else Cast(node.dtype, value)
        return cast(self.widened(node.dtype), rounded)

    def visit_Call(self, node: Call) -> Any:
        if isinstance(node.op, Op) and node.op.name == "tir.reinterpret":
            return self.reinterpreted(node)
        args = tuple(self.visit(a) for a in node.args)
        if not self.small(node.dtype):
            return node.replace(args=args)
        if isinstance(node.op, Op) and effect_of(node) in ("pure", "annotation"):
            return node.replace(dtype=self.widened(node.dtype), args=args)
        return cast(self.widened(node.dtype), node.replace(args=args))

    def reinterpreted(self, node: Call) -> Any:
        """The bits are those of the small type."""
        (arg,) = node.args
        value = self.visit(arg)
        if self.small(arg.dtype):
            value = Cast(arg.dtype, value)
        bits = node.replace(args=(value,))
        return cast(self.widened(node.dtype), bits) if self.small(node.dtype) else bits

    def visit_Let(self, node: Let | LetStmt) -> Any:
        value = self.visit(node.value)
        if value.dtype == node.var.dtype:
            return node.replace(value=value, body=self.visit(node.body))
        var = Var(node.var.name, value.dtype)
        self.vars[node.var] = var
        return type(node)(var, value, self.visit(node.body), span=node.span)

    visit_LetStmt = visit_Let

    def visit_Select(self, node: Select) -> Any:
        parts = (self.visit(p) for p in (node.condition, node.true_value, node.false_value))
        return Select._make(*parts, span=node.span)

    def visit_BinaryOpExpr(self, node: BinaryOpExpr) -> Any:
        a, b = self.visit(node.a), self.visit(node.b)
        if a is node.a and b is node.b:
            return node
        return type(node)._make(a, b, span=node.span)

    def visit_BufferStore(self, node: BufferStore) -> Any:
        made_value, buffer = self.visit(node.value), self.visit(node.buffer)
        indices = tuple(self.visit(i) for i in node.indices)
        if buffer is not node.buffer:
            made_value = cast(self.widened(made_value.dtype), made_value)
        elif self.small(node.value.dtype) and made_value.dtype != node.value.dtype:
            made_value = _narrowed(node.value.dtype, made_value)
        predicate = self.visit(node.predicate)
        return BufferStore._make(buffer, made_value, indices, predicate, span=node.span)


def _escapes(pointer: Var, body: Stmt) -> bool:
    """Whether more is done with a pointer than loads and stores."""

    def is_use(node: Node) -> bool:
        if is_call_to(node, "address_of"):
            return node.args[0].buffer.data is pointer
        return node is pointer

    return any_node(body, is_use, skip=Buffer)


def _narrowed(dtype: DataType, value: PrimExpr) -> Any:
    """A value rounded for storage; a value that was only widened is stored unchanged."""
    if isinstance(value, Cast) and value.value.dtype == dtype:
        return value.value
    if isinstance(value, FloatImm):
        return const(value.value, dtype)
    return Cast(dtype, value)
