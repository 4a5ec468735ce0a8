"""`LowerWarpMemory`: distributes memory of scope "warp" over the registers of a warp's threads;
other threads' elements are read by shuffles.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
          tx = T.launch_thread("threadIdx.x", 32)
    -     w = T.allocate([32], "float32", "warp")
    -     W = T.Buffer((32,), data=w, scope="warp")
    -     W[tx] = A[tx]
    -     B[tx] = W[(tx + 1) % 32] + W[tx]
    +     w = T.allocate([1], "float32", "local")
    +     W = T.Buffer((1,), data=w, scope="local")
    +     W[0] = A[tx]
    +     B[tx] = T.tvm_warp_shuffle(T.tvm_warp_activemask(), W[0], (tx + 1) % 32, 32, 32) + W[0]

Pass::

    LowerWarpMemory(32)

Element x is held by lane x // m % width, m consecutive elements per lane in turn, where m is the
distance between the stores of adjacent threads: every store is at tx * m + something below m
(plus multiples of width * m). The width is the target's warp size (`thread_warp_size`), or the
number of threads along x if that is less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....arith import Analyzer, detect_linear_equation
from ....base.errors import explain
from ....ir.functor import nodes_of
from ....ir.literals import int_value
from ....ir.prim_expr import IntImm, IterVar, PrimExpr, Range, Var
from ....ir.prim_op import add, const, floordiv, floormod, multiply
from ....ir.target import Target
from ....ir.variables import uses_any
from ...buffer import Buffer
from ...expr import BufferLoad
from ...function import PrimFunc
from ...op_target import tvm_warp_activemask, tvm_warp_shuffle
from ...stmt import Allocate, AttrStmt, BufferStore, For, Stmt
from ...stmt_functor import ExprKeeper
from ..base import PrimFuncPass, StmtRewriter

if TYPE_CHECKING:
    from ....ir.module import IRModule
    from ....ir.pass_context import PassContext


def _number(value: int) -> PrimExpr:
    return const(value, "int32")


class _Spread(StmtRewriter):
    """One allocation's accesses: by index within a lane, by shuffles from other lanes."""

    def __init__(self, old: Var, new: Var, lane: Var, width: int, each: int, size: int) -> None:
        self.old, self.new, self.lane = old, new, lane
        self.width, self.each, self.size = width, each, size
        self.ana = Analyzer()
        self.ana.bind(lane, Range.from_min_extent(_number(0), _number(width)))
        self.buffers: dict[Buffer, Buffer] = {}

    def buffer(self, old: Buffer) -> Buffer:
        if old not in self.buffers:
            self.buffers[old] = old.replace(data=self.new, shape=(_number(self.size),))
        return self.buffers[old]

    def split(self, index: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        """(index within a lane, lane) of an element."""
        turn = _number(self.each * self.width)
        each = _number(self.each)
        own = add(multiply(floordiv(index, turn), each), floormod(index, each))
        lane = floormod(floordiv(index, each), _number(self.width))
        return self.ana.simplify(own), self.ana.simplify(lane)

    def visit_For(self, node: For) -> Stmt:
        with self.ana.loop_scope(node.loop_var, node.range):
            return self.visit_default(node)

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        node = self.visit_default(node)
        if node.buffer.data is not self.old:
            return node
        (index,) = node.indices
        own, lane = self.split(index)
        if not self.ana.can_prove_equal(lane, self.lane):
            what = f"a thread stores to what another lane holds of {node.buffer.name}"
            hint = f"store at {self.lane.name} * m + something below m"
            raise ValueError(explain(what, got=str(index), instead=hint, span=node.span))
        return node.replace(buffer=self.buffer(node.buffer), indices=(own,))

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        node = self.visit_default(node)
        if node.buffer.data is not self.old:
            return node
        own, lane = self.split(node.indices[0])
        own_element = node.replace(buffer=self.buffer(node.buffer), indices=(own,))
        if self.ana.can_prove_equal(lane, self.lane):
            return own_element
        if uses_any(own, (self.lane,)):
            what = f"which of a lane's elements of {node.buffer.name} is read depends on the reader"
            raise ValueError(explain(what, got=str(node.indices[0]), span=node.span))
        width = _number(self.width)
        return tvm_warp_shuffle(tvm_warp_activemask(), own_element, lane, width, width)


class _Lower(ExprKeeper, StmtRewriter):
    def __init__(self, warp: int) -> None:
        self.warp = warp
        self.lane: Var | None = None
        self.threads = 0

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        is_x = isinstance(node.node, IterVar) and node.node.thread_tag == "threadIdx.x"
        if node.attr_key == "thread_extent" and is_x and isinstance(node.value, IntImm):
            outer = (self.lane, self.threads)
            self.lane, self.threads = node.node.var, node.value.value
            new = self.visit_default(node)
            self.lane, self.threads = outer
            return new
        return self.visit_default(node)

    def visit_Allocate(self, node: Allocate) -> Stmt:
        kind = node.buffer_var.type_annotation
        if kind is None or kind[1] != "warp":
            return self.visit_default(node)
        body = self.visit(node.body)
        sizes = [e.value for e in node.extents if isinstance(e, IntImm)]
        width = min(self.warp, self.threads)
        name = node.buffer_var.name
        if self.lane is None or len(sizes) != 1 or self.threads % width:
            what = f"buffer {name} of the scope warp must be in a launch of threadIdx.x"
            hint = "launch a multiple of the warp's threads around a flat allocation"
            raise ValueError(explain(what, got=f"{self.threads} threads", instead=hint))
        each = _step(node.buffer_var, self.lane, body)
        if sizes[0] % (each * width):
            what = f"buffer {name} must have a multiple of the elements that its lanes hold"
            got = f"{sizes[0]} elements, {width} lanes that hold {each} in a turn"
            raise ValueError(explain(what, got=got, span=node.span))
        var = Var(name, "handle", type_annotation=(kind[0], "local"))
        lane = self.lane if self.threads == width else None
        if lane is None:
            what = f"more threads along x than a warp has use {name}"
            hint = "put the warps along threadIdx.y"
            raise ValueError(explain(what, got=self.threads, instead=hint, span=node.span))
        size = sizes[0] // width
        spread = _Spread(node.buffer_var, var, lane, width, each, size)
        new = spread.visit(body)
        return Allocate(
            var, node.dtype, (_number(size),), node.condition, new, node.annotations, node.span
        )


def _step(pointer: Var, lane: Var, body: Stmt) -> int:
    """The distance between the stores of adjacent threads."""
    steps: set[int | None] = set()
    for store in nodes_of(body, BufferStore):
        if store.buffer.data is pointer:
            parts = detect_linear_equation(store.indices[0], [lane])
            steps.add(int_value(parts[0]) if parts else None)
    step = next(iter(steps)) if len(steps) == 1 else None
    if step is None or step <= 0:
        what = f"the stores to {pointer.name} are at threadIdx.x times one number"
        got = ", ".join(map(str, steps)) or "no store"
        raise ValueError(explain(what, got=got, instead="store at tx * m + something below m"))
    return step


class LowerWarpMemory(PrimFuncPass):
    """Distributes memory of scope "warp" over the registers of a warp's threads; other threads'
    elements are read by shuffles. `warp_size` 0: the target's warp size."""

    warp_size: int = 0

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        size = self.warp_size
        if not size:
            target = func.attrs.get("target") or Target.current(allow_none=True)
            size = 32 if target is None else int(target.attrs.get("thread_warp_size", 1))
        return func.replace(body=_Lower(size).visit(func.body))
