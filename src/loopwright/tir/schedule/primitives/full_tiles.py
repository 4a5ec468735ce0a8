"""`compute_full_tiles`, `hoist_padding`: fewer conditions in a tile of accumulators."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from typing import TYPE_CHECKING

from ....arith import Analyzer, eval_set
from ....arith.interval import is_infinite
from ....ir.functor import rewrite
from ....ir.literals import conjunction, conjuncts, is_one
from ....ir.prim_expr import (
    LT,
    Add,
    And,
    Cast,
    CmpExpr,
    FloatImm,
    IntImm,
    IterVar,
    Mul,
    PrimExpr,
    Range,
    Var,
)
from ....ir.prim_op import add, const, floordiv, less, logical_and, minimum
from ....ir.structural import structural_equal
from ....ir.variables import substitute, vars_in
from ...buffer import Buffer
from ...expr import BufferLoad
from ...op import if_then_else, is_call_to
from ...stmt import Block, BlockRealize, BufferStore, For, ForKind
from ...stmt_functor import ExprKeeper, keep_buffers
from ..machinery import BlockRV, ScheduleBase, ScheduleError, primitive
from ..machinery.buffer_accesses import ReplaceBuffer
from ..machinery.rewriting import BlockRewriter

if TYPE_CHECKING:
    from ....ir.node import Node


@primitive("ComputeFullTiles", inputs="*blocks", attrs="clamp")
def compute_full_tiles(sch: ScheduleBase, *blocks: BlockRV, clamp: bool = False) -> None:
    """Remove the bounds predicates of blocks that fill buffers of the function's own.

    A tile is then computed in full, without branches: beyond an operand's end it reads 0 or, with
    `clamp`, an element inside, so that the load stays plain. The buffers that they write, and the
    axes over them, grow to whole tiles. The block that stores the result keeps its predicate, so the
    excess is never stored: that each reader of these buffers is one of the blocks or has such a
    predicate is not checked. A block whose predicate does not bound its axes keeps it.

    Before (-) and after (+)
    ``sch.compute_full_tiles(sch.get_block("T"))``,
    with ``A: T.Buffer(10), B: T.Buffer(10)``::

        - tile = T.alloc_buffer(10, scope="local")
        + tile = T.alloc_buffer(12, scope="local")
          for i in range(3):
              for j in T.unroll(4):
                  with T.block("T"):
        -             v = T.axis.spatial(10, i * 4 + j)
        -             T.where(i * 4 + j < 10)
        -             tile[v] = A[v] * 2.0
        +             v = T.axis.spatial(12, i * 4 + j)
        +             T.reads(A[v])
        +             T.writes(tile[v])
        +             tile[v] = T.if_then_else(v < 10, A[v], 0.0) * 2.0
              for j in range(4):
                  with T.block("B"):
                      v = T.axis.spatial(10, i * 4 + j)
                      T.where(i * 4 + j < 10)
                      B[v] = tile[v]
    """
    refs = [sch.block(rv) for rv in blocks]
    if not refs:
        return
    gvar = refs[0].func
    func = sch.state.func(gvar)
    written = {region.buffer for ref in refs for region in ref.stmt.writes}
    tiles = _FullTiles({ref.stmt for ref in refs}, written - set(func.buffer_map.values()), clamp)
    body = tiles.visit(func.body)
    sch.state.set_func(gvar, func.with_body(body), tiles.renamed)
    if tiles.shapes:
        table = {b: b.replace(shape=shape) for b, shape in tiles.shapes.items()}
        renamed: dict[Block, Block] = {}
        body = ReplaceBuffer(table, renamed).visit(body)
        sch.state.set_func(gvar, func.with_body(body), renamed)


class _FullTiles(ExprKeeper, BlockRewriter):
    def __init__(self, blocks: set[Block], own: Collection[Buffer], clamp: bool) -> None:
        super().__init__()
        self.blocks, self.own, self.clamp = blocks, own, clamp  # `own`: what they write
        self.ana = Analyzer()
        self.loops: dict[Var, Range] = {}
        self.shapes: dict[Buffer, tuple[PrimExpr, ...]] = {}  # of accumulators that grow

    def visit_For(self, node: For) -> For:
        self.loops[node.loop_var] = node.range
        if is_one(node.extent):
            self.ana.bind(node.loop_var, node.range)
        # A loop's body runs where the loop does: i % m of i < 4 * m is less than m.
        with self.ana.constraint_scope(less(const(0, node.extent.dtype), node.extent)):
            loop = self.visit_default(node)
        del self.loops[node.loop_var]
        return loop

    def visit_BlockRealize(self, node: BlockRealize) -> BlockRealize:
        if node.block not in self.blocks:
            return self.visit_default(node)
        realize = self.without_predicate(node)
        if realize is None:
            return node
        realize = self.grown(realize)
        self.renamed[node.block] = realize.block
        return realize

    def without_predicate(self, node: BlockRealize) -> BlockRealize | None:
        """The block with guards on the loads that would leave their buffers instead; None if it has
        no predicate, or would write elsewhere than in a buffer of its own that can grow."""
        block = node.block
        if any(w.buffer not in self.own for w in block.writes):
            return None
        guards: dict[Var, PrimExpr] = {}
        for part in conjuncts(node.predicate):
            if isinstance(part, CmpExpr):
                bound = self.bound_axis(part, node)
                if bound is None:
                    return None
                axis, inner = bound
                guards[axis] = And(guards[axis], inner) if axis in guards else inner
        if not guards:
            return None
        ranges = {
            axis.var: eval_set(value, self.loops, self.ana)
            for axis, value in zip(block.iter_vars, node.iter_values, strict=True)
        }

        def may_leave(index: PrimExpr, extent: PrimExpr) -> bool:
            """Whether an index may be outside where axes run past their ends."""
            top = eval_set(index, ranges, self.ana).max_value
            return is_infinite(top) or not self.ana.can_prove(less(top, extent))

        def stays(index: PrimExpr, extent: PrimExpr) -> bool:
            """Whether a write stays in its buffer, which grows along a single axis."""
            if isinstance(index, Var):
                return index not in guards or not is_infinite(ranges[index].max_value)
            return not vars_in(index) & guards.keys() or not may_leave(index, extent)

        def leaves(load: BufferLoad, axis: Var) -> bool:
            """Whether a load may be outside where the axis runs past its end."""
            dims = zip(load.indices, load.buffer.shape, strict=True)
            return any(axis in vars_in(i) and may_leave(i, extent) for i, extent in dims)

        # A local buffer is compacted to the tile that is computed at once, whatever its extents.
        shared = [w for w in block.writes if w.buffer.scope() != "local"]
        written = (zip(w.region, w.buffer.shape, strict=True) for w in shared)
        if not all(stays(r.min, extent) for dims in written for r, extent in dims):
            return None

        def guard(load: Node) -> PrimExpr | None:
            if not isinstance(load, BufferLoad) or load.buffer in self.own:
                return None
            conditions = [inner for axis, inner in guards.items() if leaves(load, axis)]
            if not conditions:
                return None
            if self.clamp and all(isinstance(c, LT) for c in conditions):
                last = {c.a: minimum(c.a, c.b - 1) for c in conditions}
                return load.replace(indices=substitute(load.indices, last))
            return if_then_else(reduce(And, conditions), load, const(0, load.dtype))

        body = rewrite(block.body, guard, keep_buffers)
        return node.replace(predicate=const(True, "bool"), block=block.replace(body=body))

    def bound_axis(self, part: CmpExpr, node: BlockRealize) -> tuple[Var, PrimExpr] | None:
        """The block axis whose loop expression a condition bounds, or of which it bounds groups of
        equal size, and the condition on that axis."""
        for axis, value in zip(node.block.iter_vars, node.iter_values, strict=True):
            if structural_equal(value, part.a) or self.ana.can_prove_equal(value, part.a):
                return axis.var, part.replace(a=axis.var)
            end, groups = axis.dom.extent, part.b
            if not (isinstance(end, IntImm) and isinstance(groups, IntImm) and groups.value > 0):
                continue
            size, rest = divmod(end.value, groups.value)
            if rest == 0 and size > 1 and isinstance(part, LT):
                ana = Analyzer()
                for loop, extents in self.loops.items():
                    ana.bind(loop, extents)
                if ana.can_prove_equal(floordiv(value, size), part.a):
                    return axis.var, less(axis.var, end)
        return None

    def grown(self, node: BlockRealize) -> BlockRealize:
        """The block with axes extended to the range of their bindings; records which dimensions
        of its output they index."""
        axes, extents = [], {}
        for axis, value in zip(node.block.iter_vars, node.iter_values, strict=True):
            top = eval_set(value, self.loops, self.ana).max_value
            extent = axis.dom.extent
            if not is_infinite(top):
                end = self.ana.simplify(add(top, const(1, top.dtype)))
                if self.ana.can_prove(end > extent) or not (
                    self.ana.can_prove(end <= extent) or isinstance(end, IntImm)
                ):
                    extent = extents[axis.var] = end
            dom = Range.from_min_extent(axis.dom.min, extent)
            axes.append(IterVar(dom, axis.var, axis.iter_type, axis.thread_tag))
        if not extents:
            return node
        for region in node.block.writes:
            old_shape = self.shapes.get(region.buffer, region.buffer.shape)
            ends = [extents.get(r.min) if isinstance(r.min, Var) else None for r in region.region]
            shape = tuple(
                e if w is None or self.ana.can_prove(w <= e) else w
                for e, w in zip(old_shape, ends, strict=True)
            )
            if shape != region.buffer.shape:
                self.shapes[region.buffer] = shape
        return node.replace(block=node.block.replace(iter_vars=tuple(axes)))


@primitive("HoistPadding", inputs="block")
def hoist_padding(sch: ScheduleBase, block: BlockRV) -> None:
    """Make the conditions under which a factor of an added product is not 0 the block's predicate.

    Only conditions that hold for a whole tile: those that do not depend on unrolled or vectorized
    loops around the block. Such terms are then left out, not computed. The zero point of quantized
    data is another number, and its terms stay. Raises ScheduleError for a block that initializes what
    it adds to.

    Before (-) and after (+) ``sch.hoist_padding(sch.get_block("S"))``,
    with ``A: T.Buffer(8), W: T.Buffer((3, 4)), S: T.Buffer((8, 4))``::

          for i, k in T.grid(8, 3):
              for j in T.vectorized(4):
                  with T.block("S"):
                      v, vk, vj = T.axis.remap("SRS", [i, k, j])
                      T.reads(S[v, vj], A[v + vk - 1], W[vk, vj])
                      T.writes(S[v, vj])
        -             S[v, vj] = S[v, vj] + T.if_then_else(
        -                 1 <= v + vk and v + vk < 9, A[v + vk - 1], 0.0) * W[vk, vj]
        +             T.where(1 <= i + k and i + k < 9)
        +             S[v, vj] = S[v, vj] + A[v + vk - 1] * W[vk, vj]
    """
    ref = sch.block(block)
    node: Block = ref.stmt
    store = node.body
    if node.init is not None or not isinstance(store, BufferStore):
        what = f"block {node.name_hint!r} does not only add to what another block has initialized"
        raise ScheduleError(what, instead="decompose_reduction", at=ref.node)
    if not isinstance(store.value, Add) or not _is_load_of(store.value.a, store.buffer):
        return
    inner = (ForKind.UNROLLED, ForKind.VECTORIZED)
    tile = {r.stmt.loop_var for r in ref.loops() if r.stmt.kind in inner}
    values = dict(zip((v.var for v in node.iter_vars), ref.realize.iter_values, strict=True))
    moved: list[PrimExpr] = []

    def product(factor: PrimExpr) -> PrimExpr:
        """The factors with the conditions that are left."""
        if isinstance(factor, Mul):
            return factor.replace(a=product(factor.a), b=product(factor.b))
        if isinstance(factor, Cast):
            return factor.replace(value=product(factor.value))
        if not is_call_to(factor, "if_then_else") or not _is_zero(factor.args[2]):
            return factor
        left = []
        for part in conjuncts(factor.args[0]):
            outside = substitute(part, values)
            if vars_in(outside) & tile or not isinstance(part, CmpExpr):
                left.append(part)
            else:
                moved.append(outside)
        inside = product(factor.args[1])
        return if_then_else(conjunction(left), inside, factor.args[2]) if left else inside

    term = product(store.value.b)
    if not moved:
        return
    changed = node.replace(body=store.replace(value=store.value.replace(b=term)))
    predicate = reduce(logical_and, moved, ref.realize.predicate)
    sch.state.update(
        ref.func, {ref: ref.realize.replace(predicate=predicate, block=changed)}, {node: changed}
    )


def _is_load_of(value: PrimExpr, buffer: Buffer) -> bool:
    return isinstance(value, BufferLoad) and value.buffer is buffer


def _is_zero(value: PrimExpr) -> bool:
    return isinstance(value, (IntImm, FloatImm)) and value.value == 0
