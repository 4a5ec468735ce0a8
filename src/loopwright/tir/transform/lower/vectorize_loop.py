"""`VectorizeLoop`: turns vectorized loops into vector expressions.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
          for i in range(8):
    -         for j in T.vectorized(8):
    -             B[i * 8 + j] = A[i * 8 + j] + T.float32(1)
    +         B[i * 8:i * 8 + 8] = A[i * 8:i * 8 + 8] + T.Broadcast(T.float32(1), 8)

A statement that cannot be vectorized (a function call, a store of all lanes to one element) runs in
a serial loop instead; so do statements under a condition that differs between lanes, unless
accesses may be masked. With the option `tir.enable_buffer_level_predication`, which is the default
for targets with scalable vectors, a condition `low + i < end` becomes the mask
`T.get_active_lane_mask` of all the loads and stores under it. With `native`, as in the pipelines of
this package, any condition becomes a mask, on every target. With the option `tir.disable_vectorize`
all vectorized loops become serial.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....base.errors import InternalError, explain
from ....ir import prim_expr as pe
from ....ir.literals import conjuncts, int_value
from ....ir.prim_expr import And, Broadcast, IntImm, Not, PrimExpr, Ramp, Var
from ....ir.prim_op import cast, multiply, scalable_lanes, vscale_factor
from ....ir.target import Target
from ....ir.variables import substitute, uses_any
from ... import stmt as st
from ...function import PrimFunc
from ...op_target import get_active_lane_mask
from ...stmt_functor import ExprKeeper
from ..base import PrimFuncPass, Simplifying, StmtRewriter, Substitute, bind_function
from ._lanes import maskable, reads, separable, writes
from ._vector_exprs import NotLanewise, VectorExprs, lanes_among, spread

if TYPE_CHECKING:
    from ....ir.module import IRModule
    from ....ir.pass_context import PassContext


class _Vectorizer(VectorExprs):
    """Rewrites the statements of one loop's body."""

    def visit_BufferStore(self, node: st.BufferStore) -> st.Stmt:
        if node.value.dtype.lanes > 1:
            self.check_lengths(node)
            raise NotLanewise
        value = self.visit(node.value)
        buffer, indices = self.indices(node.buffer, node.indices)
        lanes = lanes_among(indices[-1:])
        predicate = self.visit(node.predicate)
        if lanes == 1 and value.dtype.lanes == 1 and self.mask is None:
            if predicate is not None and predicate.dtype.lanes > 1:
                raise NotLanewise
            if reads(value, buffer):
                raise NotLanewise  # each lane accumulates into the same element
            return node.replace(buffer=buffer, value=value, indices=indices, predicate=predicate)
        if lanes != self.lanes or type(indices[-1]) is Broadcast:
            raise NotLanewise
        if self.mask is not None:
            predicate = self.masked(predicate, lanes)
            value = self.guarded(spread(value, lanes))
        elif predicate is not None:
            predicate = spread(predicate, lanes)
        return st.BufferStore._make(
            buffer, spread(value, lanes), indices, predicate, span=node.span
        )

    def check_lengths(self, node: st.BufferStore) -> None:
        """Raise InternalError for a store of vectors in a loop, if one of the two is scalable."""
        if self.native:
            return
        value, buffer = node.value.dtype, node.buffer.dtype
        if buffer.is_scalable:
            what = "Vectorizing over scalable buffer elements is not supported in vectorizer."
        elif not isinstance(self.lanes, int):
            what = "Creating scalable vectors from existing vectors is not supported."
        elif value.is_scalable:
            what = "Vectorizing over existing scalable vectors is not supported."
        else:
            return
        got = f"a store of {value} to {node.buffer.name} in loop {self.var.name}"
        hint = "make the loop serial, or store elements in it"
        raise InternalError(explain(what, got=got, instead=hint, span=node.span))

    def statement(self, node: st.Stmt) -> st.Stmt:
        """The vector form, or a serial loop around the statement."""
        saved = dict(self.values)
        try:
            return self.visit(node)
        except NotLanewise:
            self.values = saved
            return self.scalarized(node)

    def scalarized(self, node: st.Stmt) -> st.Stmt:
        """The statement in a serial loop. Only valid if no vector variable is in scope."""
        if self.mask is not None or self.own or len(self.values) > 1:
            raise NotLanewise
        if not uses_any(node, self.values) and not writes(node):
            return node
        ramp = self.values[self.var]
        assert isinstance(ramp, Ramp)
        index = Var(self.var.name, self.var.dtype)
        body = substitute(node, {self.var: index})  # in the shapes of buffers, too
        return st.For(
            index, ramp.base, cast(index.dtype, self.lanes), st.ForKind.SERIAL, body, span=node.span
        )

    def visit_SeqStmt(self, node: st.SeqStmt) -> st.Stmt:
        stmts: list[Any] = []
        for item in node.seq:
            saved = dict(self.values)
            try:
                stmts.append(self.visit(item))
            except NotLanewise:
                self.values = saved
                # Its serial loop finishes before the next statement starts. A value passed between them
                # must have an element for each lane: in a shared one, only the last lane's would remain.
                if not separable(item, node.seq, self.var):
                    raise
                stmts.append(self.scalarized(item))
        return st.seq(*stmts)

    def visit_For(self, node: st.For) -> st.Stmt:
        low, extent = self.visit(node.min), self.visit(node.extent)
        if low.dtype.lanes > 1 or extent.dtype.lanes > 1:
            raise NotLanewise
        return node.replace(min=low, extent=extent, body=self.statement(node.body))

    def visit_IfThenElse(self, node: st.IfThenElse) -> st.Stmt:
        same, varying = [], []
        for part in conjuncts(node.condition):
            operand = self.visit(part)
            if operand.dtype.lanes != 1 and self.native:
                operand = self.ana.simplify(operand)
            if type(operand) is Broadcast:
                operand = operand.value
            (same if operand.dtype.lanes == 1 else varying).append(operand)
        if not varying:
            condition = (
                node.condition
                if all(a is b for a, b in zip(same, conjuncts(node.condition), strict=True))
                else _all(same)
            )
            then = self.statement(node.then_case)
            other = None if node.else_case is None else self.statement(node.else_case)
            return node.replace(condition=condition, then_case=then, else_case=other)
        if not self.masks or not maskable(node.then_case, self.ana):
            raise NotLanewise
        mask, outer = _all(varying), self.mask
        if not self.native:
            if node.else_case is not None or same or outer is not None or len(varying) > 1:
                raise NotLanewise
            mask = self.lane_mask(mask)
        if node.else_case is not None and (same or not maskable(node.else_case, self.ana)):
            raise NotLanewise
        if same:
            with self.ana.constraint_scope(_all(same)):
                then = self._under(mask, node.then_case, outer)
            return st.IfThenElse(_all(same), then, span=node.span)
        then = self._under(mask, node.then_case, outer)
        if node.else_case is None:
            return then
        return st.seq(then, self._under(Not(mask), node.else_case, outer))

    def lane_mask(self, condition: PrimExpr) -> PrimExpr:
        """The mask of active lanes for the condition `ramp < end`."""
        low = getattr(condition, "a", None)
        end = getattr(condition, "b", None)
        if not (type(condition) is pe.LT and type(low) is Ramp and type(end) is Broadcast):
            raise NotLanewise
        if low.lanes != self.lanes or int_value(low.stride) != 1:
            raise NotLanewise
        return get_active_lane_mask(condition.dtype, low.base, end.value)

    def _under(self, mask: PrimExpr, body: st.Stmt, outer: PrimExpr | None) -> st.Stmt:
        self.mask = mask if outer is None else And(outer, mask)
        try:
            return self.visit(body)
        finally:
            self.mask = outer

    def visit_LetStmt(self, node: st.LetStmt) -> st.Stmt:
        value = self.visit(node.value)
        if value.dtype.lanes == 1:
            var = self.let_var(node.var, value)
            return node.replace(var=var, value=value, body=self.statement(node.body))
        if self.loads_scalar(value) and self.mask is not None:
            raise NotLanewise
        var = self.let_var(node.var, value)
        return st.LetStmt(var, value, self.visit(node.body), span=node.span)

    def visit_Allocate(self, node: st.Allocate) -> st.Stmt:
        if len(node.extents) != 1 or uses_any(node.extents[0], self.values):
            raise NotLanewise
        size = multiply(node.extents[0], cast(node.extents[0].dtype, self.lanes))
        self.own[node.buffer_var] = {}
        try:
            return node.replace(extents=(size,), body=self.visit(node.body))
        finally:
            del self.own[node.buffer_var]

    def visit_DeclBuffer(self, node: st.DeclBuffer) -> st.Stmt:
        wide = self.widened(node.buffer)
        body = self.visit(node.body)
        return node.replace(body=body, buffer=node.buffer if wide is None else wide)

    def visit_AttrStmt(self, node: st.AttrStmt) -> st.Stmt:
        return node.replace(body=self.statement(node.body))

    def visit_AssertStmt(self, node: st.AssertStmt) -> st.Stmt:
        if uses_any(node.condition, self.values) or uses_any(node.message, self.values):
            raise NotLanewise
        return node.replace(body=self.statement(node.body))

    def visit_Evaluate(self, node: st.Evaluate) -> st.Stmt:
        if isinstance(node.value, IntImm):
            return node
        raise NotLanewise

    def visit_Stmt(self, node: st.Stmt) -> st.Stmt:
        raise NotLanewise


def _all(parts: list[PrimExpr]) -> PrimExpr:
    """The conjunction of one part or more."""
    conjunction = parts[0]
    for part in parts[1:]:
        conjunction = And(conjunction, part)
    return conjunction


class _Loops(ExprKeeper, Simplifying):
    """Vectorizes the loops of a function. masks: see `_Vectorizer`; None: as the target does."""

    def __init__(self, masks: bool | None, native: bool, target: Target | None) -> None:
        super().__init__()
        self.masks, self.native, self.target = masks, native, target

    @property
    def scalable(self) -> bool:
        """Whether the target has scalable vectors."""
        return self.target is not None and self.target.has_scalable_vectors

    def visit_AttrStmt(self, node: st.AttrStmt) -> st.Stmt:
        if node.attr_key != "target" or not isinstance(node.node, Target):
            return super().visit_AttrStmt(node)
        outer, self.target = self.target, node.node
        body = self.visit(node.body)
        self.target = outer
        return node.replace(body=body)

    def visit_BufferStore(self, node: st.BufferStore) -> st.Stmt:
        return node

    def visit_For(self, node: st.For) -> st.Stmt:
        # In the body the extent is positive, so divisors of fused loops like `extent // size` are not 0.
        with self.loop(node), self.assuming(node.extent > 0, node.body):
            if node.kind == st.ForKind.VECTORIZED:
                return self.vectorized(node)
            return node.replace(body=self.visit(node.body))

    def vectorized(self, node: st.For) -> st.Stmt:
        """A loop as vector statements, or as a serial loop if it cannot be vectorized."""
        extent = self.ana.simplify(node.extent)
        factor = vscale_factor(extent)
        if not isinstance(extent, IntImm) and not (factor and self.scalable):
            target = self.target or "(nullptr)"
            what = f"Failed to vectorize loop with extent {extent} for target {target}"
            hint = "split the loop by the vector length first"
            got = f"loop {node.loop_var.name}, whose extent is not a constant"
            raise InternalError(explain(what, got=got, instead=hint, span=node.span))
        body = self.visit(node.body)
        lanes = scalable_lanes(factor) if factor else extent.value
        if lanes == 1:
            return Substitute({node.loop_var: node.min}).visit(body)
        masks = (self.native or self.scalable) if self.masks is None else self.masks
        worker = _Vectorizer(node.loop_var, node.min, lanes, self.ana, masks, self.native)
        try:
            return worker.statement(body)
        except NotLanewise:
            return node.replace(kind=st.ForKind.SERIAL, body=body)


class _Serial(ExprKeeper, StmtRewriter):
    """Makes vectorized loops serial."""

    def visit_For(self, node: st.For) -> st.Stmt:
        body = self.visit(node.body)
        kind = st.ForKind.SERIAL if node.kind == st.ForKind.VECTORIZED else node.kind
        return node.replace(body=body, kind=kind)


class VectorizeLoop(PrimFuncPass):
    """Turns vectorized loops into vector expressions.

    enable_vectorize: if False, they become serial instead. native: any condition in them may become a
    mask, not only `low + i < end`. Raises InternalError for a loop whose extent is neither a constant
    nor, on a target with scalable vectors, a multiple of vscale.
    """

    enable_vectorize: bool = True
    native: bool = False

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        if not self.enable_vectorize or ctx.option("tir.disable_vectorize"):
            return func.replace(body=_Serial().visit(func.body))
        target = func.attrs.get("target", Target.current())
        masks = ctx.option("tir.enable_buffer_level_predication")
        loops = _Loops(masks, self.native, target)
        bind_function(loops.ana, func)
        return func.replace(body=loops.visit(func.body))
