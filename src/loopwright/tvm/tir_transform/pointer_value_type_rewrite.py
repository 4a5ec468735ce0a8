"""`PointerValueTypeRewrite`: memory that is accessed by vectors of one width is declared as vectors.

Before (-) and after (+)::

      @T.prim_func
    - def main(A: T.Buffer((16,), "float32"), B: T.Buffer((4,), "float32")):
    + def main(A: T.Buffer((4,), "float32x4"), B: T.Buffer((4,), "float32")):
          for i in range(4):
    -         B[i] = A[i * 4] + T.Shuffle([A[i * 4 : i * 4 + 4]], [3])
    +         B[i] = T.Shuffle([A[T.Div(i * 4, 4)]], [0]) + T.Shuffle([A[T.Div(i * 4, 4)]], [3])

A pointer keeps its type if it is used but through flat buffers, if single elements are stored, or if an
access does not begin at a multiple of the width.
"""

from __future__ import annotations

from ...arith import Analyzer
from ...ir.literals import is_zero
from ...ir.module import IRModule
from ...ir.pass_context import PassContext
from ...ir.prim_expr import Call, IntImm, PointerType, PrimExpr, Ramp, Shuffle, Var
from ...ir.prim_op import truncdiv
from ...tir.buffer import Buffer
from ...tir.expr import BufferLoad
from ...tir.function import PrimFunc
from ...tir.op import is_call_to
from ...tir.stmt import Allocate, BufferStore, LetStmt
from ...tir.transform.base import PrimFuncPass, StmtRewriter, StmtVisitor


def _width(node: BufferLoad | BufferStore) -> int | None:
    """The elements that an access of a flat buffer of scalars has, 1 for a scalar; None for others."""
    buffer = node.buffer
    flat = len(node.indices) == 1 and not buffer.strides and node.predicate is None
    at_start = buffer.elem_offset is None or is_zero(buffer.elem_offset)
    if not flat or not at_start or buffer.dtype.lanes > 1:
        return None
    index = node.indices[0]
    if isinstance(index, Ramp):
        stride, lanes = index.stride, index.dtype.lanes
        one = isinstance(stride, IntImm) and stride.value == 1
        return lanes if one and isinstance(lanes, int) else None
    return 1 if index.dtype.lanes == 1 else None


class _Widths(StmtVisitor):
    """Collects how pointers are used: the widths of vectors, and those that keep their type."""

    def __init__(self) -> None:
        self.ana = Analyzer()
        self.widths: dict[Var, set[int]] = {}
        self.accesses: list[tuple[Var, PrimExpr]] = []
        self.unchanged: set[Var] = set()
        self.lets: set[Var] = set()
        self.sizes: dict[Var, list[PrimExpr]] = {}

    def visit_Var(self, node: Var) -> None:
        self.unchanged.add(node)

    def access(self, node: BufferLoad | BufferStore, may_be_one: bool) -> None:
        data, width = node.buffer.data, _width(node)
        if width is None or (width == 1 and not may_be_one):
            self.unchanged.add(data)
            return
        if width > 1:
            self.widths.setdefault(data, set()).add(width)
        self.accesses.append((data, node.indices[0]))
        self.sizes.setdefault(data, []).append(node.buffer.shape[0])

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.access(node, True)
        self.visit(node.indices)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.access(node, False)
        self.visit((node.value, node.indices))

    def visit_Call(self, node: Call) -> None:
        for arg in node.args:
            if is_call_to(node, "address_of") and isinstance(arg, BufferLoad):
                self.unchanged.add(arg.buffer.data)
        self.visit(node.args)

    def visit_LetStmt(self, node: LetStmt) -> None:
        self.lets.add(node.var)
        self.visit((node.value, node.body))

    def visit_Allocate(self, node: Allocate) -> None:
        if len(node.extents) == 1 and not node.annotations:
            self.sizes.setdefault(node.buffer_var, []).append(node.extents[0])
        else:
            self.unchanged.add(node.buffer_var)
        self.visit((node.extents, node.body))

    def chosen(self) -> dict[Var, int]:
        """The width of each pointer that is redeclared."""
        widths_of = {
            data: next(iter(widths))
            for data, widths in self.widths.items()
            if data not in self.unchanged and len(widths) == 1
        }
        for data, index in self.accesses:
            if data in widths_of and not self._begins_well(index, widths_of[data]):
                del widths_of[data]
        for data, sizes in self.sizes.items():
            if data in widths_of and not all(_divides(widths_of[data], size) for size in sizes):
                del widths_of[data]
        return widths_of

    def _begins_well(self, index: PrimExpr, width: int) -> bool:
        """Whether a vector begins at a multiple of the width, and a scalar's lane is known."""
        modular = self.ana.modular_set(index.base if isinstance(index, Ramp) else index)
        return modular.coeff % width == 0 and not (isinstance(index, Ramp) and modular.base % width)


def _divides(width: int, size: PrimExpr) -> bool:
    return isinstance(size, IntImm) and size.value % width == 0


class _Declare(StmtRewriter):
    """Declares pointers and buffers as vectors."""

    def __init__(self, widths: dict[Var, int]) -> None:
        self.ana = Analyzer()
        self.widths = widths
        self.variables: dict[Var, Var] = {}
        self.buffers: dict[Buffer, Buffer] = {}

    def visit_Var(self, node: Var) -> Var:
        width = self.widths.get(node)
        if width is None:
            return node
        if node not in self.variables:
            element, scope = node.type_annotation or ("handle", "global")
            kind = PointerType(f"{element}x{width}", scope)
            self.variables[node] = Var(node.name, kind)
        return self.variables[node]

    def visit_Buffer(self, node: Buffer) -> Buffer:
        width = self.widths.get(node.data)
        if width is None:
            return node
        if node not in self.buffers:
            shape = (truncdiv(node.shape[0], width),)
            dtype = node.dtype.with_lanes(width)
            self.buffers[node] = node.replace(data=self.visit(node.data), dtype=dtype, shape=shape)
        return self.buffers[node]

    def visit_BufferLoad(self, node: BufferLoad) -> PrimExpr:
        width = self.widths.get(node.buffer.data)
        if width is None:
            return self.visit_default(node)
        (index,) = node.indices
        start = self.visit(index.base if isinstance(index, Ramp) else index)
        load = BufferLoad(self.visit(node.buffer), [truncdiv(start, width)], span=node.span)
        if isinstance(index, Ramp):
            return load
        return Shuffle([load], [self.ana.modular_set(start).base % width], span=node.span)

    def visit_BufferStore(self, node: BufferStore) -> BufferStore:
        width = self.widths.get(node.buffer.data)
        if width is None:
            return self.visit_default(node)
        start = self.visit(node.indices[0].base)
        value = self.visit(node.value)
        return BufferStore(self.visit(node.buffer), value, [truncdiv(start, width)], span=node.span)

    def visit_Allocate(self, node: Allocate) -> Allocate:
        width = self.widths.get(node.buffer_var)
        new = self.visit_default(node)
        if width is None:
            return new
        extents = (truncdiv(node.extents[0], width),)
        var = self.visit(node.buffer_var)
        return new.replace(buffer_var=var, dtype=node.dtype.with_lanes(width), extents=extents)

    def visit_LetStmt(self, node: LetStmt) -> LetStmt:
        return self.visit_default(node).replace(var=self.visit(node.var))


def declare_as_vectors(func: PrimFunc, only_lets: bool = False) -> PrimFunc:
    """Declare memory that is accessed by vectors of one width as vectors. only_lets: leave out
    pointers that no statement binds."""
    uses = _Widths()
    uses.visit(func.body)
    widths = uses.chosen()
    if only_lets:
        widths = {var: width for var, width in widths.items() if var in uses.lets}
    if not widths:
        return func
    worker = _Declare(widths)
    buffers = {param: worker.visit(buffer) for param, buffer in func.buffer_map.items()}
    return func.replace(body=worker.visit(func.body), buffer_map=buffers)


class PointerValueTypeRewrite(PrimFuncPass):
    """Memory that is accessed by vectors of one width is declared as vectors."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        return declare_as_vectors(func)
