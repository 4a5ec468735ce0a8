"""`LowerMatchBuffer`: replaces aliases of buffer regions by the original buffer.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((8, 8), "float32")):
          for i in range(8):
              with T.block(""):
                  T.reads()
                  T.writes(A[i, 4:8])
    -             row = T.match_buffer(A[i, 4:8], (4,), offset_factor=1)
                  for j in range(4):
    -                 row[j] = T.float32(0)
    +                 A[i, 4 + j] = T.float32(0)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ....arith import Analyzer
from ....base.errors import LoopwrightError, explain
from ....ir.prim_expr import IntImm, PrimExpr, Ramp, Var
from ....ir.prim_op import add, cast, const, multiply
from ...buffer import Buffer, BufferRegion
from ...expr import BufferLoad
from ...function import PrimFunc
from ...stmt import Block, BufferStore, MatchBufferRegion
from ..base import PrimFuncPass, Substitute

if TYPE_CHECKING:
    from ....ir.module import IRModule
    from ....ir.pass_context import PassContext


class _Lower(Substitute):
    def __init__(self, params: Iterable[Var] = ()) -> None:
        super().__init__({})
        self.params = set(params)
        self.ana = Analyzer()
        self.matched: dict[Buffer, BufferRegion] = {}

    def visit_Block(self, node: Block) -> Any:
        for match in node.match_buffers:
            self.match(match)
        new = self.visit_default(node.replace(match_buffers=()))
        return node if new is node else new

    def match(self, match: MatchBufferRegion) -> None:
        source = self.visit(match.source)
        source = self.resolved(source)
        target = match.buffer
        self.matched[target] = source
        owner, starts = source.buffer, [r.min for r in source.region]
        self.table[target.data] = owner.data
        extents = [r.extent for r in source.region][-len(target.shape) :] if target.shape else []
        for n, (dim, extent) in enumerate(zip(target.shape, extents, strict=True)):
            self.define(target, f"dimension {n}", dim, extent)
        steps = owner.strides or _row_major(owner)
        tail = steps[len(steps) - len(target.strides) :]
        for n, (stride, value) in enumerate(zip(target.strides, tail, strict=True)):
            self.define(target, f"stride {n}", stride, value)
        offset = owner.flat_offset(list(starts))
        begin = const(0, offset.dtype) if target.elem_offset is None else target.elem_offset
        self.define(target, "elem_offset", begin, offset)

    def define(self, buffer: Buffer, what: str, declared: PrimExpr, value: PrimExpr) -> None:
        """A variable is defined by what it is matched with; anything else must be that."""
        actual = declared
        if isinstance(declared, Var) and declared not in self.params:
            actual = self.table.setdefault(declared, value)
        elif not isinstance(declared, IntImm):
            actual = self.visit(declared)
        if actual is value or (
            actual.dtype.is_integer and self.ana.can_prove_equal(actual, cast(actual.dtype, value))
        ):
            return
        what = f"{what} of buffer {buffer.name} does not match the region"
        got = f"{actual} for {self.ana.simplify(value)}"
        hint = "leave it out, or give a new variable (offset_factor=1 makes one for the offset)"
        raise LoopwrightError(explain(what, got=got, instead=hint, span=buffer.span))

    def resolved(self, region: BufferRegion) -> BufferRegion:
        """A region of a matched buffer as a region of the original buffer."""
        behind = self.matched.get(region.buffer)
        if behind is None:
            return region
        lead = len(behind.region) - len(region.region)
        moved = list(behind.region[:lead])
        for outer, inner in zip(behind.region[lead:], region.region, strict=True):
            moved.append(inner.replace(min=add(outer.min, inner.min)))
        return BufferRegion(behind.buffer, tuple(moved))

    def moved(self, buffer: Buffer, indices: tuple[Any, ...]) -> tuple[Buffer, tuple[Any, ...]]:
        source = self.matched[buffer]
        lead = len(source.region) - len(indices)
        if lead < 0:
            what = f"buffer {buffer.name} has more dimensions than the region it matches"
            raise ValueError(explain(what, got=f"{len(indices)} and {len(source.region)}"))
        begins = [r.min for r in source.region]
        shifted = [_shifted(b, i) for i, b in zip(indices, begins[lead:], strict=True)]
        return source.buffer, (*begins[:lead], *shifted)

    def visit_BufferLoad(self, node: BufferLoad | BufferStore) -> Any:
        node = self.visit_default(node)
        if node.buffer not in self.matched:
            return node
        buffer, indices = self.moved(node.buffer, node.indices)
        return node.replace(buffer=buffer, indices=indices)

    visit_BufferStore = visit_BufferLoad

    def visit_BufferRegion(self, node: BufferRegion) -> Any:
        return self.resolved(self.visit_default(node))


def _shifted(begin: PrimExpr, index: PrimExpr) -> PrimExpr:
    """The index in the source; adjacent lanes stay a ramp, which later passes know."""
    if isinstance(index, Ramp):
        return index.replace(base=add(begin, index.base))
    return add(begin, index)


def _row_major(buffer: Buffer) -> list[PrimExpr]:
    steps: list[PrimExpr] = []
    step: PrimExpr = const(1, buffer.shape[0].dtype) if buffer.shape else IntImm("int32", 1)
    for extent in reversed(buffer.shape):
        steps.insert(0, step)
        step = multiply(step, extent)
    return steps


class LowerMatchBuffer(PrimFuncPass):
    """Replaces aliases of buffer regions by the original buffer. Raises LoopwrightError where an
    alias states a dimension, stride or offset that the region does not have."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        return func.replace(body=_Lower(func.params).visit(func.body))
