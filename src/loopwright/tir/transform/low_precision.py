"""Storage of small floats as integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir.dtype import DataType
from ...ir.prim_expr import Call, Cast, FloatImm, PrimExpr, Var
from ...ir.prim_op import cast, const
from ..buffer import Buffer
from ..function import PrimFunc
from ..op import is_call_to
from ..stmt import Allocate, DeclBuffer
from ..stmt_functor import renew_defs
from .base import StmtRewriter
from .lower._scalar_ops import bits_as
from .lower.lower_scalar_ops import ScalarOps


class StoreAsBits(StmtRewriter):
    """Memory of small types holds integers of the same size; loads and stores convert."""

    def __init__(self, small: Callable[[DataType], bool]) -> None:
        self.small = small
        self.convert = ScalarOps(frozenset(("float32", "float64")))
        self.vars: dict[Var, Var] = {}
        self.buffers: dict[Buffer, Buffer] = {}

    def bits(self, dtype: DataType) -> DataType:
        return DataType(f"uint{dtype.bits}").with_lanes(dtype.lanes)

    def decode(self, bits: PrimExpr, dtype: DataType) -> Any:
        """The float32 of the bits of a small type."""
        wide = DataType("float32").with_lanes(dtype.lanes)
        return self.convert(Cast._make(wide, Call(dtype, "tir.reinterpret", [bits])))

    def encode(self, value: PrimExpr, dtype: DataType) -> Any:
        """The bits of a float32 rounded to a small type."""
        return bits_as(self.convert(Cast._make(dtype, value)), self.bits(dtype))

    def visit_Var(self, node: Var) -> Any:
        kind = node.type_annotation
        if kind is None or not self.small(DataType(kind[0])):
            return node
        if node not in self.vars:
            annotation = (str(self.bits(DataType(kind[0]))), kind[1])
            self.vars[node] = Var(node.name, node.dtype, type_annotation=annotation)
        return self.vars[node]

    def visit_Buffer(self, node: Buffer) -> Any:
        if not self.small(node.dtype):
            return node
        if node not in self.buffers:
            kind = self.bits(node.dtype)
            self.buffers[node] = node.replace(dtype=kind, data=self.visit(node.data))
        return self.buffers[node]

    def visit_Call(self, node: Call) -> Any:
        """A reinterpretation as the value's own type is the value."""
        call = self.visit_default(node)
        if not is_call_to(call, "reinterpret"):
            return call
        (arg,) = call.args
        expected = self.bits(call.dtype) if self.small(call.dtype) else call.dtype
        return arg if arg.dtype == expected else call

    def visit_Cast(self, node: Cast) -> Any:
        """Casts between a small type and a wider one are computed on the bits of the small type."""
        if self.small(node.dtype):
            value = cast(DataType("float32").with_lanes(node.dtype.lanes), self.visit(node.value))
            return self.encode(value, node.dtype)
        if self.small(node.value.dtype):
            return cast(node.dtype, self.decode(self.visit(node.value), node.value.dtype))
        return self.visit_default(node)

    def visit_FloatImm(self, node: FloatImm) -> Any:
        if not self.small(node.dtype):
            return node
        return self.encode(const(node.value, "float32"), node.dtype)

    def visit_Allocate(self, node: Allocate) -> Any:
        new = self.visit_default(node)
        return new.replace(dtype=self.bits(node.dtype)) if self.small(node.dtype) else new

    def visit_DeclBuffer(self, node: DeclBuffer) -> Any:
        return node.replace(buffer=self.visit(node.buffer), body=self.visit(node.body))

    def run(self, func: PrimFunc) -> PrimFunc:
        """The function; parameters in `buffer_map` change too."""
        func = renew_defs(func)
        params = tuple(self.visit(p) for p in func.params)
        views = {self.visit(p): self.visit(b) for p, b in func.buffer_map.items()}
        return func.replace(params=params, buffer_map=views, body=self.visit(func.body))
