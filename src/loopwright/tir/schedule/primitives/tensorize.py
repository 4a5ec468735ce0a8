"""`tensorize`: a tensor intrinsic replaces loops that compute the same."""

from __future__ import annotations

from typing import Any

from ....arith import Analyzer
from ....ir.functor import any_node
from ....ir.literals import is_one
from ....ir.node import Node
from ....ir.op import Op
from ....ir.prim_expr import Call, FloatImm, IntImm, IterVar, PrimExpr, Range, Var
from ....ir.prim_op import cast, const
from ....ir.variables import vars_in
from ...buffer import Buffer, BufferRegion
from ...expr import BufferLoad
from ...function import TensorIntrin
from ...index_dtype import with_index_dtype
from ...stmt import Block, BlockRealize, BufferStore, For, MatchBufferRegion, Stmt
from ...stmt_functor import renew_defs
from ..machinery import BlockArg, LoopRV, ScheduleBase, ScheduleError, primitive
from ..machinery.rewriting import substitute
from .blockize import outer_block


@primitive("Tensorize", inputs="block_or_loop", attrs="tensor_intrin preserve_unit_iters")
def tensorize(
    sch: ScheduleBase,
    block_or_loop: BlockArg | LoopRV,
    tensor_intrin: str | TensorIntrin,
    preserve_unit_iters: bool = True,
) -> None:
    """Replace a loop (or a block with loops) by an intrinsic.

    The intrinsic's description must have the same loops, blocks and expressions; its buffers
    become windows of the program's.

    Raises ScheduleError at the first difference.

    Before (-) and after (+) ``sch.tensorize(sch.get_loops("B")[1], double)``,
    with ``A: T.Buffer(32), B: T.Buffer(32)``::

        - for i, j in T.grid(4, 8):
        -     with T.block("B"):
        -         v = T.axis.spatial(32, i * 8 + j)
        -         B[v] = A[v] * 2.0
        + for i in range(4):
        +     with T.block("B_o"):
        +         v_o = T.axis.spatial(4, i)
        +         T.reads(A[v_o * 8:v_o * 8 + 8])
        +         T.writes(B[v_o * 8:v_o * 8 + 8])
        +         X = T.match_buffer(A[v_o * 8:v_o * 8 + 8], (8,), offset_factor=1)
        +         Y = T.match_buffer(B[v_o * 8:v_o * 8 + 8], (8,), offset_factor=1)
        +         Y[0:8] = X[0:8] * T.Broadcast(2.0, 8)
    """
    intrin: Any = tensor_intrin
    if isinstance(tensor_intrin, str):
        try:
            intrin = TensorIntrin.get(tensor_intrin)
        except ValueError as error:
            raise ScheduleError(str(error)) from None
    at = sch.get_sref(block_or_loop)
    renamed: dict[Block, Block] = {}
    if at.is_block:
        realize = at.realize
    else:
        realize, renamed = outer_block(sch, at, preserve_unit_iters)
    outer: Block = realize.block
    ana = sch.state.analyzer(at)
    for axis in outer.iter_vars:
        ana.bind(axis.var, axis.dom)
    match = _Match(ana, at)
    match.stmt(intrin.desc.body.block.body, outer.body)
    impl = renew_defs(intrin.impl)
    if any(low.dtype == "int64" for base in match.base.values() for low in base):
        impl = with_index_dtype(impl, "int64")  # offsets of 32 bits could be too short
    body: Block = impl.body.block
    windows = []
    for desc_buffer, impl_buffer in zip(intrin.desc.buffers, impl.buffers, strict=True):
        windows.append(MatchBufferRegion(impl_buffer, match.window(desc_buffer, impl_buffer)))
    replaced = outer.replace(
        body=body.body,
        alloc_buffers=body.alloc_buffers,
        match_buffers=tuple(windows),
        annotations={**outer.annotations, **body.annotations},
    )
    if at.is_block:
        renamed[at.stmt] = replaced
    sch.state.update(at.func, {at: realize.replace(block=replaced)}, renamed)


class _Match:
    """Compares the description with the program; collects the regions its buffers correspond to."""

    def __init__(self, ana: Analyzer, at: Any) -> None:
        self.ana = ana
        self.at = at
        self.values: dict[Var, PrimExpr] = {}
        self.inner: set[Var] = set()
        self.buffers: dict[Buffer, Buffer] = {}
        self.base: dict[Buffer, list[PrimExpr]] = {}

    def fail(self, what: str, expected: object, actual: object) -> Any:
        text = f"the intrinsic's description differs from the program: {what}"
        got = f"{actual!s} in the program"
        hint = f"{expected!s}, as in the description"
        # The compared block itself is not in the program; its parts are.
        inner = [self.at] if self.at.is_block else self.at.blocks()
        raise ScheduleError(text, got=got, instead=hint, at=[self.at.node, inner[0].stmt.body])

    def stmt(self, a: Stmt, b: Any) -> None:
        """`a` of the description, `b` of the program."""
        if type(a) is not type(b):
            self.fail("other kinds of statement", type(a).__name__, type(b).__name__)
        if isinstance(a, For):
            self.same_number("a loop's extent", a.extent, b.extent)
            self.same_number("where a loop starts", a.min, b.min)
            self.define(a.loop_var, b.loop_var)
            self.ana.bind(b.loop_var, b.range)
            self.stmt(a.body, b.body)
        elif isinstance(a, BlockRealize):
            self.realize(a, b)
        elif isinstance(a, BufferStore):
            self.access(a, b)
            self.expr(a.value, b.value)
        else:
            self.children(a, b)

    def realize(self, a: BlockRealize, b: BlockRealize) -> None:
        program_axes = list(zip(b.block.iter_vars, b.iter_values, strict=True))
        desc_axes = list(zip(a.block.iter_vars, a.iter_values, strict=True))
        extra = len(program_axes) - len(desc_axes)
        for axis, value in program_axes[: max(extra, 0)]:  # leading axes of extent 1 do not count
            if not is_one(axis.dom.extent):
                extra = -1
            self.ana.bind(axis.var, axis.dom.min)
            del value
        if extra < 0:
            self.fail("the number of axes", len(desc_axes), len(program_axes))
        for (x, v), (y, w) in zip(desc_axes, program_axes[extra:], strict=True):
            if (x.iter_type == IterVar.CommReduce) != (y.iter_type == IterVar.CommReduce):
                self.fail("kinds of axes", x.var, y.var)
            self.same_number("an axis's extent", x.dom.extent, y.dom.extent)
            self.expr(v, w)
            self.define(x.var, y.var)
            self.ana.bind(y.var, y.dom)
        self.expr(a.predicate, b.predicate)
        if (a.block.init is None) != (b.block.init is None):
            self.fail("the init", a.block.init, b.block.init)
        if a.block.init is not None:
            self.stmt(a.block.init, b.block.init)
        self.stmt(a.block.body, b.block.body)

    def define(self, expected: Var, actual: Var) -> None:
        self.values[expected] = actual
        self.inner.add(actual)

    def same_number(self, what: str, a: PrimExpr, b: PrimExpr) -> None:
        if not self.ana.can_prove_equal(cast(b.dtype, substitute(a, self.values)), b):
            self.fail(what, a, b)

    def access(self, a: BufferLoad | BufferStore, b: Stmt | PrimExpr) -> None:
        bound = self.buffers.setdefault(a.buffer, b.buffer)
        if bound is not b.buffer:
            self.fail("a buffer", f"{a.buffer.name}, which is {bound.name}", b.buffer.name)
        if a.buffer.dtype != b.buffer.dtype:
            types = [f"{x.buffer.name} of type {x.buffer.dtype}" for x in (a, b)]
            self.fail("a buffer's type", *types)
        offset = len(b.indices) - len(a.indices)
        if offset < 0:
            self.fail(f"the dimensions of {a.buffer.name}", len(a.indices), len(b.indices))
        base: list[PrimExpr] = []
        for n, index in enumerate(b.indices):
            low = index
            if n >= offset:
                relative = substitute(a.indices[n - offset], self.values)
                low = index - cast(index.dtype, relative)
            low = self.ana.simplify(low)
            if vars_in(low) & self.inner:
                self.fail(f"an index of {a.buffer.name}", a.indices, b.indices)
            base.append(low)
        before = self.base.setdefault(a.buffer, base)
        if not all(self.ana.can_prove_equal(x, y) for x, y in zip(before, base, strict=True)):
            self.fail(f"the offset of {a.buffer.name}", before, base)

    def expr(self, a: PrimExpr, b: PrimExpr) -> None:
        if self.same_index(a, b):
            return
        if isinstance(a, Var):
            bound = self.values.get(a)
            if bound is not b and (bound is None or not self.ana.can_prove_equal(bound, b)):
                self.fail("a variable", a, b)
        elif isinstance(a, (IntImm, FloatImm)):
            if type(a) is not type(b) or a.value != b.value:
                self.fail("a number", a, b)
        elif isinstance(a, BufferLoad):
            if not isinstance(b, BufferLoad):
                self.fail("an operand", a, b)
            self.access(a, b)
        elif type(a) is not type(b) or a.dtype != b.dtype:
            if not (isinstance(b, PrimExpr) and a.dtype.is_integer and type(a) is type(b)):
                self.fail("an expression", a, b)
            self.children(a, b)
        else:
            self.children(a, b)

    def same_index(self, a: PrimExpr, b: PrimExpr) -> bool:
        """Whether two integers computed of loops and axes alone are provably equal."""
        if isinstance(a, (Var, IntImm)) or not all(isinstance(e, PrimExpr) for e in (a, b)):
            return False
        if not (a.dtype.is_integer and b.dtype.is_integer) or not vars_in(a) <= self.values.keys():
            return False
        if any_node((a, b), lambda n: isinstance(n, (BufferLoad, Call))):
            return False
        return self.ana.can_prove_equal(cast(b.dtype, substitute(a, self.values)), b)

    def children(self, a: Node, b: Node) -> None:
        if isinstance(getattr(a, "op", None), Op) and a.op is not b.op:
            self.fail("a call", a, b)
        xs, ys = list(a.children()), list(b.children())
        if len(xs) != len(ys):
            self.fail("operands", a, b)
        for x, y in zip(xs, ys, strict=True):
            if isinstance(x, PrimExpr):
                self.expr(x, y)
            elif not isinstance(x, Op):
                self.stmt(x, y)

    def window(self, desc_buffer: Buffer, impl: Buffer) -> BufferRegion:
        """The part of the program's buffer that a buffer of the description corresponds to."""
        buffer = self.buffers.get(desc_buffer)
        if buffer is None:
            raise ScheduleError(f"the description does not use {desc_buffer.name}", at=self.at.node)
        if impl.scope() != "global" and impl.scope() != buffer.scope():
            what = f"the intrinsic needs {impl.name} in scope {impl.scope()!r}"
            got = f"{buffer.name} in {buffer.scope()!r}"
            raise ScheduleError(what, got=got, instead="set_scope, cache_read", at=self.at.node)
        base = self.base[desc_buffer]
        lead = len(base) - len(desc_buffer.shape)
        ranges = []
        for n, low in enumerate(base):
            extent = (
                const(1, low.dtype) if n < lead else cast(low.dtype, desc_buffer.shape[n - lead])
            )
            ranges.append(Range.from_min_extent(low, extent))
        return BufferRegion(buffer, tuple(ranges))
