"""The last tile of a loop whose extent is not divisible: computed in full, stored in part."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from typing import TYPE_CHECKING, Any

from ..arith import Analyzer, eval_set
from ..arith.interval import is_infinite
from ..ir.functor import nodes_of, rewrite
from ..ir.literals import conjuncts, is_one
from ..ir.prim_expr import (
    LT,
    And,
    BinaryOpExpr,
    CmpExpr,
    FloatImm,
    IntImm,
    IterVar,
    Let,
    PrimExpr,
    Range,
    Select,
    Var,
)
from ..ir.prim_op import add, const, floordiv, less, logical_and, minimum, multiply
from ..ir.structural import structural_equal
from ..ir.variables import substitute, vars_in
from ..tir import stmt as st
from ..tir.buffer import Buffer
from ..tir.expr import BufferLoad
from ..tir.function import PrimFunc
from ..tir.op import if_then_else, is_call_to
from ..tir.stmt_functor import ExprKeeper, keep_buffers
from .dots import DOT

if TYPE_CHECKING:
    from ..ir.node import Node
    from ..ir.op import Op


def compute_whole_tiles(func: PrimFunc, blocks: set[str]) -> PrimFunc:
    """Remove the bounds predicate of blocks that fill local accumulators.

    Their out-of-bounds loads give 0 instead, so a tile is computed in full, without branches;
    the block that stores its result keeps its predicate, so the excess is never
    stored. The accumulators and the axes over them grow to a multiple of the tile.
    `blocks` are names of blocks that write only to buffers of the kernel's own that only blocks of
    these, or with such a predicate, read.
    """
    whole = _Whole(blocks, written_by(func, blocks) - set(func.buffer_map.values()))
    body = whole.visit(func.body)
    grown = {b: b.replace(shape=shape) for b, shape in whole.shapes.items()}
    if grown:
        body = rewrite(body, None, pre=lambda n: grown.get(n, n) if isinstance(n, Buffer) else None)
    return func.replace(body=body)


def written_by(func: PrimFunc, blocks: set[str]) -> set[Buffer]:
    """The buffers that the blocks of these names write."""
    writers = (b for b in nodes_of(func.body, st.Block) if b.name_hint in blocks)
    return {region.buffer for block in writers for region in block.writes}


class _Whole(ExprKeeper):
    def __init__(self, blocks: set[str], own: Collection[Buffer] = ()) -> None:
        self.blocks, self.own = blocks, own  # `own`: what they write
        self.ana = Analyzer()
        self.dots = False
        self.loops: dict[Var, Range] = {}
        self.shapes: dict[Buffer, tuple[PrimExpr, ...]] = {}  # of accumulators that grow

    def visit_For(self, node: st.For) -> Any:
        self.loops[node.loop_var] = node.range
        outer, self.dots = self.dots, self.dots or DOT in node.annotations
        if is_one(node.extent):
            self.ana.bind(node.loop_var, node.range)
        # A loop's body runs where the loop does: i % m of i < 4 * m is less than m.
        with self.ana.constraint_scope(less(const(0, node.extent.dtype), node.extent)):
            loop = self.visit_default(node)
        del self.loops[node.loop_var]
        self.dots = outer
        return loop

    def visit_BlockRealize(self, node: st.BlockRealize) -> Any:
        if node.block.name_hint not in self.blocks:
            return self.visit_default(node)
        realize = self.without_predicate(node)
        return node if realize is None else self.grown(realize)

    def without_predicate(self, node: st.BlockRealize) -> st.BlockRealize | None:
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

        def guard(load: Node) -> Any:
            if not isinstance(load, BufferLoad) or load.buffer in self.own:
                return None
            conditions = [inner for axis, inner in guards.items() if leaves(load, axis)]
            if not conditions:
                return None
            if self.dots and all(
                isinstance(c, LT) for c in conditions
            ):  # descriptions have plain loads
                last = {c.a: minimum(c.a, c.b - 1) for c in conditions}
                return load.replace(indices=substitute(load.indices, last))
            return if_then_else(reduce(And, conditions), load, const(0, load.dtype))

        body = rewrite(block.body, guard, keep_buffers)
        return node.replace(predicate=const(True, "bool"), block=block.replace(body=body))

    def bound_axis(self, part: CmpExpr, node: st.BlockRealize) -> tuple[Var, PrimExpr] | None:
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

    def grown(self, node: st.BlockRealize) -> st.BlockRealize:
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


def whole_rows(func: PrimFunc, widths: dict[str, int]) -> PrimFunc:
    """Round the last reduction axis of some blocks up to a multiple of a width: beyond its end a
    term is the reduction's identity. The blocks' store is `acc op term`."""
    return func.replace(body=_WholeRows(widths).visit(func.body))


class _WholeRows(_Whole):
    def __init__(self, widths: dict[str, int]) -> None:
        super().__init__(set(widths))
        self.widths = widths
        self.loops: dict[Any, PrimExpr] = {}  # with their new extents

    def visit_For(self, node: st.For) -> Any:
        body = self.visit(node.body)
        extent = self.loops.pop(node.loop_var, node.extent)
        return node if body is node.body else node.replace(body=body, extent=extent)

    def visit_BlockRealize(self, node: st.BlockRealize) -> Any:
        block, width = node.block, self.widths.get(node.block.name_hint)
        if width is None:
            return self.visit_default(node)
        at = max(k for k, v in enumerate(block.iter_vars) if v.iter_type == IterVar.CommReduce)
        axis, loop = block.iter_vars[at], node.iter_values[at]
        assert axis.dom is not None and isinstance(loop, Var)
        extent = axis.dom.extent
        if isinstance(extent, IntImm) and extent.value % width == 0:
            return node
        whole = Analyzer().simplify(multiply(floordiv(add(extent, width - 1), width), width))
        self.loops[loop] = whole
        store, start = block.body, block.init
        assert isinstance(store, st.BufferStore) and isinstance(start, st.BufferStore)
        fold = store.value
        assert isinstance(fold, BinaryOpExpr)
        inside = less(axis.var, extent)
        term = if_then_else(inside, fold.b, start.value)
        body = store.replace(value=fold.replace(b=term))
        wider = axis.replace(dom=Range.from_min_extent(axis.dom.min, whole))
        axes = (*block.iter_vars[:at], wider, *block.iter_vars[at + 1 :])
        return node.replace(block=block.replace(iter_vars=axes, body=body))


def whole_columns(
    func: PrimFunc, axes: dict[str, int], first: str, width: int, fill: PrimExpr
) -> PrimFunc:
    """Round an axis of some blocks up to a multiple of a width, and with it the last axis of the buffers
    that they write or reduce: beyond its end the block `first` stores `fill`, the others what follows
    from that. axes: the position of the axis, by the block's name."""
    work = _WholeColumns(axes, first, width, fill)
    work.arguments = set(func.buffer_map.values())
    body = work.visit(func.body)
    grown = {b: b.replace(shape=(*b.shape[:-1], work.whole)) for b in work.buffers}
    pre = lambda n: grown.get(n, n) if isinstance(n, Buffer) else None  # noqa: E731
    return func.replace(body=rewrite(body, None, pre=pre))


class _WholeColumns(_WholeRows):
    def __init__(self, axes: dict[str, int], first: str, width: int, fill: PrimExpr) -> None:
        super().__init__(dict.fromkeys(axes, width))
        self.axes, self.first, self.fill = axes, first, fill
        self.buffers: set[Buffer] = set()
        self.whole: Any = None

    def visit_BlockRealize(self, node: st.BlockRealize) -> Any:
        block, at = node.block, self.axes.get(node.block.name_hint)
        if at is None:
            return self.visit_default(node)
        axis, width = block.iter_vars[at], self.widths[block.name_hint]
        assert axis.dom is not None
        extent = axis.dom.extent
        whole = self.whole = Analyzer().simplify(
            multiply(floordiv(add(extent, width - 1), width), width)
        )
        self.loops[node.iter_values[at]] = whole
        store = block.body
        assert isinstance(store, st.BufferStore)
        if axis.iter_type == IterVar.DataPar:
            self.buffers.add(store.buffer)
        if block.name_hint == self.first:
            inside = less(axis.var, extent)

            def guard(load: Op | PrimExpr) -> Any:
                if not isinstance(load, BufferLoad) or load.buffer not in self.arguments:
                    return None
                return if_then_else(inside, load, const(0, load.dtype))

            value = rewrite(store.value, guard, keep_buffers)
            score = Var("score", value.dtype)  # bound first: not a load under a condition
            store = store.replace(value=Let(score, value, Select(inside, score, self.fill)))
        wider = axis.replace(dom=Range.from_min_extent(axis.dom.min, whole))
        axes = (*block.iter_vars[:at], wider, *block.iter_vars[at + 1 :])
        return node.replace(block=block.replace(iter_vars=axes, body=store))


def _is_nothing(value: PrimExpr) -> bool:
    """Whether a value is the literal 0 of any type."""
    return isinstance(value, (IntImm, FloatImm)) and value.value == 0


def skip_padding(func: PrimFunc, blocks: set[str]) -> PrimFunc:
    """Leave out the terms of a sum of products that are in the padding, if that holds for a
    whole tile: their guard (on a row, not on a column) becomes the block's predicate.

    `blocks` are names of blocks that accumulate products of a guarded load. A term outside is 0
    where the guard selects 0; the zero point of quantized data is another number, and its terms
    stay.
    """
    return func.replace(body=_SkipPadding(blocks).visit(func.body))


class _SkipPadding(_Whole):
    def __init__(self, blocks: set[str]) -> None:
        super().__init__(blocks)
        self.tile: set[Var] = set()

    def visit_For(self, node: st.For) -> Any:
        inner = node.kind in (st.ForKind.UNROLLED, st.ForKind.VECTORIZED)
        if inner:
            self.tile.add(node.loop_var)
        loop = self.visit_default(node)
        if inner:
            self.tile.discard(node.loop_var)
        return loop

    def visit_BlockRealize(self, node: st.BlockRealize) -> Any:
        if node.block.name_hint not in self.blocks:
            return self.visit_default(node)
        values = {
            v.var: value for v, value in zip(node.block.iter_vars, node.iter_values, strict=True)
        }
        moved: list[PrimExpr] = []

        def lift(call: Any) -> Any:
            if not is_call_to(call, "if_then_else") or not _is_nothing(call.args[2]):
                return None
            conditions = []
            for part in conjuncts(call.args[0]):
                outside = substitute(part, values)
                if vars_in(outside) & self.tile or not isinstance(part, CmpExpr):
                    conditions.append(part)
                else:
                    moved.append(outside)
            if not conditions:
                return call.args[1]
            condition = conditions[0]
            for other in conditions[1:]:
                condition = And(condition, other)
            return if_then_else(condition, call.args[1], call.args[2])

        body = rewrite(node.block.body, lift, keep_buffers)
        if not moved:
            return node
        predicate = node.predicate
        for part in moved:
            predicate = logical_and(predicate, part)
        return node.replace(predicate=predicate, block=node.block.replace(body=body))
