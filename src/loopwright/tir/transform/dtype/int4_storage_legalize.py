"""`Int4StorageLegalize`: packs integers below 8 bits into bytes.

Before (-) and after (+)::

      @T.prim_func
    - def main(A: T.Buffer((16,), "int4"), B: T.Buffer((16,), "int32")):
    + def main(A: T.Buffer((8,), "uint8"), B: T.Buffer((16,), "int32")):
          for i in range(16):
    -         B[i] = T.Cast("int32", A[i])
    +         B[i] = T.Cast("int32", T.Cast("int4", T.shift_right(A[i // 2], T.Cast("uint8", i % 2 * 4))))

The first element is in the lowest bits, as in DLPack. Vectors that cover whole bytes are loaded and
stored directly; other stores read the byte, change their bits and write it back. A parallel loop
in which two iterations may write the same byte becomes serial, which the trace records. Parameters
change their type. Runs on flat buffers after vectorization; int4 in registers is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....arith import Analyzer
from ....base.errors import LoopwrightError, explain
from ....ir import prim_expr as pe
from ....ir import prim_op as po
from ....ir import trace
from ....ir.dtype import DataType
from ....ir.literals import is_one
from ....ir.op import Op
from ....ir.prim_expr import Broadcast, Call, IntImm, PrimExpr, Ramp, Range, ScalarLike, Var
from ....runtime.dtype import pack_bits
from ....runtime.tensor import PackedTensor, Tensor
from ... import stmt as st
from ...buffer import Buffer
from ...expr import BufferLoad
from ...function import PrimFunc
from ...stmt_functor import renew_defs, substitute
from ..base import PrimFuncPass, Simplifying, StmtVisitor, bind_function

if TYPE_CHECKING:
    from ....base.span import Span
    from ....ir.module import IRModule
    from ....ir.pass_context import PassContext

BYTE = DataType("uint8")


def is_packed(dtype: DataType) -> bool:
    """Whether elements of this type are packed: int4, uint4, int2, ..."""
    return (dtype.is_int or dtype.is_uint) and dtype.bits < 8


def _pointed(var: Var) -> DataType | None:
    """The packed type that a pointer points to."""
    kind = var.type_annotation
    pointee = DataType(kind[0]) if kind is not None else None
    return pointee if pointee is not None and is_packed(pointee) else None


class _Found(Exception):
    """Ends the search."""


class _Finder(StmtVisitor):
    """Raises _Found if a function uses packed memory. Most functions do not, and at this
    stage they are long, so nodes that cannot contain a buffer are skipped."""

    def visit_Buffer(self, node: Buffer) -> None:
        if is_packed(node.dtype) or _pointed(node.data) is not None:
            raise _Found

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.visit_Buffer(node.buffer)
        self.visit(node.indices)
        self.visit(node.predicate)

    def visit_Var(self, node: Var) -> None:
        if node.dtype.is_handle and _pointed(node) is not None:
            raise _Found

    def visit_Allocate(self, node: st.Stmt) -> None:
        if is_packed(node.dtype):
            raise _Found
        self.visit_default(node)

    visit_AllocateConst = visit_Allocate


class _Packer(Simplifying):
    """Rewrites accesses; knows the ranges of the enclosing loops."""

    def __init__(self, ana: Analyzer) -> None:
        super().__init__(ana)
        self.vars: dict[Var, Var] = {}
        self.buffers: dict[Buffer, Buffer] = {}
        self.parallel: list[_Parallel] = []

    # -- memory --------------------------------------------------------------------------------

    def visit_Var(self, node: Var) -> Any:
        kind = node.type_annotation
        if not node.dtype.is_handle or kind is None or _pointed(node) is None:
            return node
        if node not in self.vars:
            self.vars[node] = Var(node.name, node.dtype, type_annotation=("uint8", kind[1]))
        return self.vars[node]

    def visit_Buffer(self, node: Buffer) -> Any:
        if not is_packed(node.dtype):
            data = self.visit(node.data)
            return node if data is node.data else self.moved(node, data)
        if node not in self.buffers:
            if node.dtype.lanes > 1:
                what = f"buffer {node.name} holds vectors of integers below 8 bits"
                raise LoopwrightError(explain(what, got=node.dtype, instead="use scalar elements"))
            offset = node.elem_offset
            if node.strides or not (offset is None or self.is_zero(offset)):
                what = f"buffer {node.name} of {node.dtype} is not flat"
                raise LoopwrightError(explain(what, instead="run FlattenBuffer first"))
            shape = (self.bytes_of(node.shape, node.dtype),)
            data = self.visit(node.data)
            self.buffers[node] = Buffer(data, BYTE, shape, (), None, node.name)
        return self.buffers[node]

    def moved(self, node: Buffer, data: Var) -> Buffer:
        """A buffer of another type that aliases packed memory."""
        if node not in self.buffers:
            self.buffers[node] = node.with_data(data)
        return self.buffers[node]

    def is_zero(self, expr: PrimExpr) -> bool:
        return self.ana.can_prove_equal(expr, po.const(0, expr.dtype))

    def bytes_of(self, shape: Sequence[PrimExpr], dtype: DataType) -> PrimExpr:
        """The bytes that elements of a shape take."""
        size: PrimExpr = po.const(dtype.lanes, shape[0].dtype if shape else "int32")
        for extent in shape:
            size = po.multiply(size, extent)
        per = 8 // dtype.bits
        return self.ana.simplify(po.floordiv(po.add(size, per - 1), per))

    def visit_Allocate(self, node: st.Allocate) -> Any:
        new = self.inside_parallel(node)
        if not is_packed(node.dtype):
            return new
        extents = (self.bytes_of(node.extents, node.dtype),)
        var = self.visit(node.buffer_var)
        return new.replace(buffer_var=var, dtype=BYTE, extents=extents)

    def inside_parallel(self, node: st.Allocate) -> Any:
        """Memory allocated within a parallel loop is private to an iteration."""
        for loop in self.parallel:
            loop.own.add(node.buffer_var)
        return self.visit_default(node)

    def visit_AllocateConst(self, node: st.AllocateConst) -> Any:
        new = self.visit_default(node)
        dtype = _pointed(node.buffer_var) or node.dtype  # the data may be int8 that contains int4
        if not is_packed(dtype):
            return new
        contents = node.data
        same = isinstance(contents, PackedTensor) and contents.dtype == dtype
        data = contents.bytes() if same else pack_bits(np.asarray(contents), str(dtype))
        extents = (po.const(data.size, "int64"),)
        var = self.visit(node.buffer_var)
        return new.replace(buffer_var=var, dtype=BYTE, extents=extents, data=Tensor(data))

    def visit_DeclBuffer(self, node: st.DeclBuffer) -> Any:
        return node.replace(buffer=self.visit(node.buffer), body=self.visit(node.body))

    # -- loads ---------------------------------------------------------------------------------

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        if not is_packed(node.buffer.dtype):
            load = self.visit_default(node)
            buffer = self.visit(node.buffer)
            return load if buffer is node.buffer else load.replace(buffer=buffer)
        index = self.visit(_flat(node))
        predicate = self.visit(node.predicate)
        buffer, dtype, per = self.visit(node.buffer), node.dtype, 8 // node.dtype.bits
        if predicate is None and self.whole_bytes(index, per):
            count = dtype.lanes // per
            var = Var("bytes", BYTE.with_lanes(count))
            parts = [
                po.cast(dtype.with_lanes(count), _shifted(var, k * dtype.bits)) for k in range(per)
            ]
            order = [k % per * count + k // per for k in range(dtype.lanes)]
            loaded = BufferLoad(buffer, [self.bytes_at(index, per)], span=node.span)
            return pe.Let(var, loaded, pe.Shuffle(parts, order))
        loaded = BufferLoad(buffer, [self.byte_of(index, per)], predicate, span=node.span)
        return po.cast(dtype, _shifted(loaded, self.bit_of(index, dtype)))

    def whole_bytes(self, index: PrimExpr, per: int) -> bool:
        """Whether a dense vector starts and ends at byte boundaries."""
        if not isinstance(index, Ramp) or index.lanes % per or index.base.dtype.lanes > 1:
            return False
        return is_one(index.stride) and self.offset_in_byte(index.base, per) == 0

    def offset_in_byte(self, index: PrimExpr, per: int) -> int | None:
        remainder = self.ana.simplify(po.floormod(index, po.const(per, index.dtype)))
        return remainder.value if isinstance(remainder, IntImm) else None

    def bytes_at(self, index: Any, per: int) -> PrimExpr:
        """The bytes of a dense vector, each once."""
        first = self.byte_of(index.base, per)
        return first if index.lanes == per else Ramp(first, 1, index.lanes // per)

    def byte_of(self, index: PrimExpr, per: int) -> PrimExpr:
        """The byte of each element."""
        byte = po.floordiv(index, po.const(per, index.dtype))
        return self.ana.simplify(byte) if index.dtype.lanes == 1 else byte

    def bit_of(self, index: PrimExpr, dtype: DataType) -> Any:
        """The position of an element's lowest bit: a number, or a uint8 expression."""
        per = 8 // dtype.bits
        if index.dtype.lanes == 1:
            offset = self.offset_in_byte(index, per)
            if offset is not None:
                return offset * dtype.bits
        shift = po.multiply(
            po.floormod(index, po.const(per, index.dtype)), po.const(dtype.bits, index.dtype)
        )
        return po.cast(BYTE.with_lanes(index.dtype.lanes), shift)

    # -- stores --------------------------------------------------------------------------------

    def visit_BufferStore(self, node: st.BufferStore) -> Any:
        if not is_packed(node.buffer.dtype):
            store = self.visit_default(node)
            buffer = self.visit(node.buffer)
            return store if buffer is node.buffer else store.replace(buffer=buffer)
        index, value = self.visit(_flat(node)), self.visit(node.value)
        predicate = self.visit(node.predicate)
        buffer, dtype, per = self.visit(node.buffer), node.value.dtype, 8 // node.value.dtype.bits
        if predicate is None and self.whole_bytes(index, per):
            var = Var("values", dtype)
            packed: Any = None
            for k in range(per):
                lanes = list(range(k, dtype.lanes, per))
                part = _bits(po.cast(BYTE.with_lanes(len(lanes)), pe.Shuffle([var], lanes)), dtype)
                part = part if k == 0 else po.shift_left(part, po.const(k * dtype.bits, part.dtype))
                packed = part if packed is None else po.bitwise_or(packed, part)
            at = self.bytes_at(index, per)
            return st.BufferStore(buffer, pe.Let(var, value, packed), [at], span=node.span)
        self.note_store(node, index)
        if dtype.lanes == 1:
            return self.store_one(buffer, index, value, predicate, node.span)
        return self.store_lanes(buffer, index, value, predicate, node.span)

    def store_one(
        self, buffer: Buffer, index: PrimExpr, value: PrimExpr, predicate: Any, span: Span | None
    ) -> st.Stmt:
        """Change the bits of one element in its byte."""
        dtype = value.dtype
        at, bit = self.byte_of(index, 8 // dtype.bits), self.bit_of(index, dtype)
        shift = po.const(bit, BYTE) if isinstance(bit, int) else bit
        all_bits = po.const((1 << dtype.bits) - 1, BYTE)
        other_bits = po.bitwise_and(
            BufferLoad(buffer, [at]), po.bitwise_not(po.shift_left(all_bits, shift))
        )
        new = po.shift_left(_bits(po.cast(BYTE, value), dtype), shift)
        return st.BufferStore(buffer, po.bitwise_or(other_bits, new), [at], predicate, span)

    def store_lanes(
        self,
        buffer: Buffer,
        index: PrimExpr,
        value: PrimExpr,
        predicate: PrimExpr | None,
        span: Span | None,
    ) -> st.Stmt:
        """A vector whose ends are within bytes: stored lane by lane."""
        values = Var("values", value.dtype)
        mask = None if predicate is None else Var("mask", predicate.dtype)
        steps: list[st.Stmt] = []
        for k in range(value.dtype.lanes):
            item = self.store_one(buffer, _lane(index, k), pe.Shuffle([values], [k]), None, span)
            if mask is not None:
                item = st.IfThenElse(pe.Shuffle([mask], [k]), item, None, span)
            steps.append(item)
        body = st.seq(*steps)
        if mask is not None:
            body = st.LetStmt(mask, predicate, body)
        return st.LetStmt(values, value, body)

    # -- parallel loops ------------------------------------------------------------------------

    def visit_For(self, node: st.For) -> Any:
        if node.kind != st.ForKind.PARALLEL:
            return super().visit_For(node)
        self.parallel.append(_Parallel(node.loop_var))
        new = super().visit_For(node)
        loop = self.parallel.pop()
        if not loop.shares_bytes:
            return new
        why = "two of its iterations may store to one byte"
        trace.note("serial loop", node.loop_var.name, buffers=", ".join(loop.shares_bytes), why=why)
        return new.replace(kind=st.ForKind.SERIAL)

    def note_store(self, node: st.BufferStore, index: PrimExpr) -> None:
        """Two iterations of a parallel loop must not modify the same byte."""
        for loop in self.parallel:
            if node.buffer.data not in loop.own:
                per = 8 // node.value.dtype.bits
                if not self.apart(index, loop.var, per):
                    loop.shares_bytes[node.buffer.name] = None

    def apart(self, index: PrimExpr, var: Var, per: int) -> bool:
        """Whether different values of `var` store to different bytes: the index is c * var + r with
        c a multiple of the elements per byte and 0 <= r < c."""
        if index.dtype.lanes > 1:
            if not isinstance(index, Ramp) or index.base.dtype.lanes > 1:
                return False
            lane = Var("lane", index.base.dtype)
            self.ana.bind(lane, Range(po.const(0, lane.dtype), po.const(index.lanes, lane.dtype)))
            index = po.add(index.base, po.multiply(lane, index.stride))
        rest = self.ana.simplify(substitute(index, {var: po.const(0, var.dtype)}))
        one = self.ana.simplify(substitute(index, {var: po.const(1, var.dtype)}))
        step = self.ana.simplify(pe.Sub(one, rest))
        if not isinstance(step, IntImm) or step.value < per or step.value % per:
            return False
        line = po.add(po.multiply(po.cast(step.dtype, var), step), rest)
        bound = self.ana.const_int_bound(rest)
        inside = bound.min_value // step.value == bound.max_value // step.value
        return inside and self.ana.can_prove_equal(index, line)

    # -- calls ---------------------------------------------------------------------------------

    def visit_Call(self, node: Call) -> Any:
        name = node.op.name if isinstance(node.op, Op) else ""
        if name == "tir.address_of" and isinstance(node.args[0], BufferLoad):
            load = node.args[0]
            if is_packed(load.buffer.dtype):
                index = self.visit(_flat(load))
                at = self.begin(index.base if isinstance(index, Ramp) else index, load)
                return node.replace(args=(BufferLoad(self.visit(load.buffer), [at]),))
        if name == "tir.tvm_access_ptr" and is_packed(node.args[0].dtype):
            kind, data, offset, extent, mask = (self.visit(a) for a in node.args)
            size = self.bytes_of((extent,), kind.dtype)
            at = self.begin(offset, node, kind.dtype)
            return node.replace(args=(Call(BYTE, kind.op, kind.args), data, at, size, mask))
        packed = [a.dtype for a in node.args[1:] if is_packed(a.dtype)]
        if name == "tir.atomic_add" and packed:
            what = f"atomic_add on {packed[0]}, which shares a byte with others"
            raise LoopwrightError(explain(what, instead="add in int32", span=node.span))
        return self.visit_default(node)

    def begin(self, index: PrimExpr, node: PrimExpr, dtype: DataType | None = None) -> PrimExpr:
        """The byte of a pointer, which must point to the byte's first element."""
        kind = dtype or node.buffer.dtype
        per = 8 // kind.bits
        if self.offset_in_byte(index, per) != 0:
            what = f"a pointer to {kind} may point within a byte"
            hint = f"make its index a multiple of {per}"
            raise LoopwrightError(explain(what, got=f"index {index}", instead=hint, span=node.span))
        return self.byte_of(index, per)

    def run(self, func: PrimFunc) -> PrimFunc:
        """The function; parameters change too."""
        params = tuple(self.visit(p) for p in func.params)
        views = {self.visit(p): self.visit(b) for p, b in func.buffer_map.items()}
        return func.replace(params=params, buffer_map=views, body=self.visit(func.body))


class _Parallel:
    """A parallel loop around a store: memory allocated in it, and buffers whose bytes iterations
    may share."""

    def __init__(self, var: Var) -> None:
        self.var = var
        self.own: set[Var] = set()
        self.shares_bytes: dict[str, None] = {}


def _flat(node: BufferLoad | st.BufferStore) -> PrimExpr:
    if len(node.indices) > 1:
        what = f"buffer {node.buffer.name} of {node.buffer.dtype} is not flat"
        raise LoopwrightError(explain(what, instead="run FlattenBuffer first", span=node.span))
    return node.indices[0] if node.indices else po.const(0, "int32")


def _shifted(value: PrimExpr, bits: ScalarLike) -> PrimExpr:
    if isinstance(bits, int):
        return value if bits == 0 else po.shift_right(value, po.const(bits, value.dtype))
    return po.shift_right(value, bits)


def _bits(value: PrimExpr, dtype: DataType) -> PrimExpr:
    """The lowest bits of a byte, the number that the type has."""
    return po.bitwise_and(value, po.const((1 << dtype.bits) - 1, value.dtype))


def _lane(index: PrimExpr, k: int) -> PrimExpr:
    if isinstance(index, Ramp) and index.base.dtype.lanes == 1:
        return po.add(index.base, po.multiply(index.stride, po.const(k, index.base.dtype)))
    if isinstance(index, Broadcast) and index.value.dtype.lanes == 1:
        return index.value
    return pe.Shuffle([index], [k])


class Int4StorageLegalize(PrimFuncPass):
    """Packs integers below 8 bits into bytes."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        try:
            _Finder().visit((*func.params, *func.buffers, func.body))
            return func
        except _Found:
            func = renew_defs(func)
        ana = Analyzer()
        bind_function(ana, func)
        return _Packer(ana).run(func)
