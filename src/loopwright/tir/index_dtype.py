"""Changes the type of a function's indices: loop variables, shapes, indices."""

from __future__ import annotations

from typing import Any

from ..ir import prim_expr as pe
from ..ir.dtype import DataType
from ..ir.functor import Rewriter
from ..ir.node import Node
from ..ir.op import Op
from ..ir.prim_op import cast, const, match_types
from ..ir.variables import vars_in
from .buffer import Buffer
from .expr import BufferLoad
from .function import PrimFunc
from .stmt import Allocate, AttrStmt, BlockRealize, BufferStore, For, LetStmt, MatchBufferRegion


class IndexTypeRewriter(Rewriter):
    """Loop variables, block axes, shape variables and integer literals in indices become `dtype`;
    values keep their type: stored values are cast back to the buffer's.

    force: parameters become `dtype`, too, and so do casts to a wider type of index.
    """

    def __init__(self, dtype: str, force: bool = False) -> None:
        self.dtype = DataType(dtype)
        self.force = force
        self.variables: dict[pe.Var, Any] = {}
        self.buffers: dict[Buffer, Buffer] = {}
        self.fixed: set[pe.IterVar] = set()

    def counts(self, dtype: DataType) -> bool:
        """Whether a variable of this type is to be changed."""
        return dtype.is_int and dtype.lanes == 1 and dtype.bits >= 16 and dtype != self.dtype

    def renew(self, var: pe.Var) -> pe.Var:
        """The variable in the new type."""
        renewed = self.variables.get(var)
        if renewed is None:
            renewed = var
            if self.counts(var.dtype):
                renewed = type(var)._make(var.name, self.dtype, var.type_annotation)
            self.variables[var] = renewed
        return renewed

    def index(self, value: Any) -> Any:
        """A shape or index with literals and variables in the new type."""
        index = self.visit(value)
        if isinstance(index, pe.IntImm) and self.counts(index.dtype):
            return const(index.value, self.dtype)
        return index

    def indices(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        new = tuple(self.index(v) for v in values)
        return values if all(a is b for a, b in zip(new, values, strict=True)) else new

    def visit_Var(self, node: pe.Var) -> Any:
        return self.variables.get(node, node)

    def visit_Range(self, node: pe.Range) -> pe.Range:
        low, size = self.index(node.min), self.index(node.extent)
        if low is node.min and size is node.extent:
            return node
        if isinstance(size, pe.IntImm) and not isinstance(low, pe.IntImm):
            size = const(size.value, low.dtype)  # a point keeps the type of its index
        return pe.Range._make(*match_types(low, size), span=node.span)

    def visit_IterVar(self, node: pe.IterVar) -> pe.IterVar:
        if node in self.fixed:
            return node
        dom = self.visit(node.dom)
        return node.replace(dom=dom, var=self.renew(node.var))

    def visit_Buffer(self, node: Buffer) -> Buffer:
        renewed = self.buffers.get(node)
        if renewed is None:
            for var in vars_in((*node.shape, *node.strides, node.elem_offset)):
                self.renew(var)
            offset = None if node.elem_offset is None else self.index(node.elem_offset)
            renewed = node.replace(
                shape=self.indices(node.shape),
                strides=self.indices(node.strides),
                elem_offset=offset,
            )
            self.buffers[node] = renewed
        return renewed

    def visit_BufferLoad(self, node: BufferLoad) -> BufferLoad:
        return node.replace(buffer=self.visit(node.buffer), indices=self.indices(node.indices))

    def visit_BufferStore(self, node: BufferStore) -> BufferStore:
        force = self.force
        self.force = force and not self.counts(node.buffer.dtype.element)
        value = self.visit(node.value)
        self.force = force
        if value is not node.value and value.dtype != node.value.dtype:
            value = cast(node.value.dtype, value)
        buffer, at = self.visit(node.buffer), self.indices(node.indices)
        return node.replace(buffer=buffer, value=value, indices=at)

    def visit_BinaryOpExpr(self, node: pe.BinaryOpExpr) -> pe.PrimExpr:
        a, b = self.visit(node.a), self.visit(node.b)
        if a is node.a and b is node.b:
            return node
        if a.dtype != b.dtype:
            a, b = match_types(self.literal(a, b), self.literal(b, a))
        return type(node)._make(a, b, span=node.span)

    def literal(self, value: pe.PrimExpr, other: pe.PrimExpr) -> Any:
        """A literal in the new type, where the other operand has got that and can hold it."""
        if not isinstance(value, pe.IntImm) or other.dtype != self.dtype:
            return value
        fits = pe.int_min(self.dtype) <= value.value <= pe.int_max(self.dtype)
        return const(value.value, self.dtype) if fits and self.counts(value.dtype) else value

    def visit_Not(self, node: pe.Not) -> pe.PrimExpr:
        return node.replace(a=self.visit(node.a))

    def visit_Cast(self, node: pe.Cast) -> pe.PrimExpr:
        value = self.visit(node.value)
        if self.force and self.counts(node.dtype) and node.dtype.bits > self.dtype.bits:
            return cast(self.dtype, value)
        return node if value is node.value else cast(node.dtype, value)

    def visit_Select(self, node: pe.Select) -> pe.PrimExpr:
        old = (node.condition, node.true_value, node.false_value)
        parts = self.visit(old)
        return node if parts is old else pe.Select(*parts)

    def visit_Ramp(self, node: pe.Ramp) -> pe.PrimExpr:
        base, stride = self.index(node.base), self.index(node.stride)
        if base is node.base and stride is node.stride:
            return node
        return pe.Ramp(base, stride, node.lanes)

    def visit_Broadcast(self, node: pe.Broadcast) -> pe.PrimExpr:
        return node.replace(value=self.visit(node.value))

    def visit_Let(self, node: pe.Let | LetStmt) -> Any:
        value = self.visit(node.value)
        self.bind(node.var, value)
        return node.replace(var=self.visit(node.var), value=value, body=self.visit(node.body))

    visit_LetStmt = visit_Let

    def bind(self, var: pe.Var, value: pe.PrimExpr) -> None:
        """A let variable gets the new type of its value."""
        if value.dtype != var.dtype:
            self.variables[var] = type(var)._make(var.name, value.dtype, var.type_annotation)

    def visit_Call(self, node: pe.Call) -> pe.PrimExpr:
        args = self.visit(node.args)
        if args is node.args:
            return node
        name = node.op.name if isinstance(node.op, Op) else ""
        if name == "tir.clz":  # of fewer bits, fewer are zero
            return node.replace(args=args) - args[0].dtype.bits + node.args[0].dtype.bits
        if name == "tir.if_then_else":
            t, f = match_types(args[1], args[2])
            return pe.Call._make(t.dtype, node.op, (args[0], t, f), span=node.span)
        if node.dtype.is_integer and name in _SAME_TYPE:
            left, right = match_types(args[0], args[1])
            return pe.Call._make(left.dtype, node.op, (left, right), span=node.span)
        if name in ("tir.likely", "tir.bitwise_not"):
            return pe.Call._make(args[0].dtype, node.op, args, span=node.span)
        return node.replace(args=args)

    def visit_For(self, node: For) -> For:
        var = self.renew(node.loop_var)
        low, size = match_types(self.index(node.min), self.index(node.extent))
        if var.dtype != size.dtype:
            low, size = cast(var.dtype, low), cast(var.dtype, size)
        thread = self.visit(node.thread_binding)
        body = self.visit(node.body)
        return node.replace(loop_var=var, min=low, extent=size, thread_binding=thread, body=body)

    def visit_Allocate(self, node: Allocate) -> Allocate:
        condition, body = self.visit(node.condition), self.visit(node.body)
        return node.replace(extents=self.indices(node.extents), condition=condition, body=body)

    def visit_AttrStmt(self, node: AttrStmt) -> AttrStmt:
        about = self.visit(node.node) if isinstance(node.node, Node) else node.node
        value, body = self.visit(node.value), self.visit(node.body)
        if isinstance(about, pe.IterVar) and about.var.dtype == self.dtype:
            value = self.literal(value, about.var)
        return node.replace(node=about, value=value, body=body)

    def visit_BlockRealize(self, node: BlockRealize) -> BlockRealize:
        # TVM keeps the type of an axis bound to a literal (the axis of a 0-d block).
        pairs = zip(node.block.iter_vars, node.iter_values, strict=True)
        self.fixed.update(axis for axis, value in pairs if isinstance(value, pe.IntImm))
        values = self.indices(node.iter_values)
        predicate, block = self.visit(node.predicate), self.visit(node.block)
        return node.replace(iter_values=values, predicate=predicate, block=block)

    def visit_MatchBufferRegion(self, node: MatchBufferRegion) -> MatchBufferRegion:
        source = self.visit(node.source)
        return node.replace(buffer=self.visit(node.buffer), source=source)

    def visit_PrimFunc(self, node: PrimFunc) -> PrimFunc:
        buffers = {key: self.visit(b) for key, b in node.buffer_map.items()}
        for param in node.params if self.force else ():
            self.renew(param)
        params = self.visit(node.params)
        same = all(a is b for a, b in zip(buffers.values(), node.buffer_map.values(), strict=True))
        views = node.buffer_map if same else buffers
        return node.replace(params=params, buffer_map=views, body=self.visit(node.body))


_SAME_TYPE = {
    f"tir.{name}"
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right")
}


def with_index_dtype(func: PrimFunc, dtype: str, force: bool = False) -> PrimFunc:
    """`func` with indices of type `dtype` ("int64"): loops, block axes, shapes and indices; see
    `IndexTypeRewriter`."""
    return IndexTypeRewriter(dtype, force).visit(func)
