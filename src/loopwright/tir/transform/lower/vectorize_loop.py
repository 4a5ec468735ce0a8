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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....base.errors import InternalError, explain
from ....ir import prim_expr as pe
from ....ir.functor import any_node
from ....ir.literals import conjuncts, int_value
from ....ir.op import Op
from ....ir.prim_expr import And, Broadcast, Call, IntImm, Lanes, Not, PrimExpr, Ramp, Var
from ....ir.prim_op import (
    cast,
    const,
    fold_binary,
    lanes_of,
    multiply,
    scalable_lanes,
    vscale_factor,
)
from ....ir.target import Target
from ....ir.variables import substitute, uses_any
from ... import stmt as st
from ...buffer import Buffer
from ...expr import BufferLoad, Reduce
from ...function import PrimFunc
from ...op import if_then_else, is_call_to
from ...op_target import get_active_lane_mask
from ..base import PrimFuncPass, Simplifying, StmtRewriter, Substitute, bind_function
from ._lanes import maskable, may_trap, reads, separable, writes

if TYPE_CHECKING:
    from ....arith.analyzer import Analyzer
    from ....ir.module import IRModule
    from ....ir.node import Node
    from ....ir.pass_context import PassContext


class _NotLanewise(Exception):
    """Raised inside a statement or an expression that has no vector form."""


def _lanes(values: Iterable[Any]) -> Lanes:
    """The lanes of the first vector among values; 1 if all are scalars."""
    widths = (lanes_of(v.dtype) for v in values if isinstance(v, PrimExpr))
    return next((w for w in widths if w != 1), 1)


# Intrinsics of LLVM that have an overload for vectors, lane by lane.
_NAMES = """
sqrt fabs floor ceil trunc rint nearbyint round roundeven canonicalize sin cos exp exp2 log log2 log10
pow fma fmuladd minnum maxnum minimum maximum copysign ctpop bswap bitreverse smin smax umin umax
"""
LLVM_LANEWISE = frozenset(f"llvm.{name}" for name in _NAMES.split())


def _spread(value: PrimExpr, lanes: Lanes) -> PrimExpr:
    """A scalar broadcast to `lanes` lanes; a vector of that length unchanged."""
    if lanes_of(value.dtype) == lanes:
        return value
    if value.dtype.lanes != 1:
        raise _NotLanewise
    return Broadcast._make(value, lanes)


class _Vectorizer(StmtRewriter):
    """Rewrites the body of one loop, whose variable becomes the vector low, low + 1, ...; values: the
    vectors of variables."""

    def __init__(
        self, var: Var, low: PrimExpr, lanes: Lanes, ana: Analyzer, masks: bool, native: bool
    ) -> None:
        self.lanes = lanes
        self.masks = masks  # whether accesses may have predicates
        self.native = native  # whether masks and if_then_else may have any condition
        self.ana = ana
        self.var = var
        self.values: dict[Var, PrimExpr] = {var: Ramp._make(low, const(1, var.dtype), lanes)}
        self.own: dict[
            Var, dict[Buffer, Buffer]
        ] = {}  # memory allocated in the body -> its views, widened
        self.mask: PrimExpr | None = None
        self.assumed: dict[int, bool] = {}  # by id: uniform conditions (the same in all lanes)

    # ------------------------------------------------------------------ expressions

    def visit_Var(self, node: Var) -> Any:
        return self.values.get(node, node)

    def visit_BinaryOpExpr(self, node: pe.BinaryOpExpr) -> Any:
        a, b = self.visit(node.a), self.visit(node.b)
        if a is node.a and b is node.b:
            return node
        kind, lanes = type(node), _lanes((a, b))
        if lanes == 1:
            folded = None if isinstance(node, pe.LogicalExpr) else fold_binary(kind, a, b)
            return kind._make(a, b, span=node.span) if folded is None else folded
        if isinstance(node, pe.LogicalExpr):
            return kind._make(_spread(a, lanes), _spread(b, lanes), span=node.span)
        ramp = self._ramp(kind, a, b)
        if ramp is not None:
            return ramp
        return kind._make(_spread(a, lanes), _spread(b, lanes), span=node.span)

    def _ramp(self, kind: type[pe.BinaryOpExpr], a: PrimExpr, b: PrimExpr) -> Any:
        """A sum of a ramp and a scalar, or their product, as a ramp; None for other operands."""
        if not a.dtype.is_int:
            return None
        a_is_ramp, b_is_ramp = type(a) is Ramp, type(b) is Ramp
        if kind is pe.Add or kind is pe.Sub:
            if a_is_ramp and b.dtype.lanes == 1:
                return Ramp._make(self._fold(kind, a.base, b), a.stride, a.lanes)
            if b_is_ramp and a.dtype.lanes == 1:
                zero = const(0, b.stride.dtype)
                stride = b.stride if kind is pe.Add else self._fold(pe.Sub, zero, b.stride)
                return Ramp._make(self._fold(kind, a, b.base), stride, b.lanes)
        if kind is pe.Mul and (a_is_ramp or b_is_ramp):
            ramp, factor = (a, b) if a_is_ramp else (b, a)
            if factor.dtype.lanes == 1:
                parts = (multiply(ramp.base, factor), multiply(ramp.stride, factor))
                return Ramp._make(*parts, ramp.lanes)
        return None

    @staticmethod
    def _fold(kind: type[pe.BinaryOpExpr], a: PrimExpr, b: PrimExpr) -> Any:
        folded = fold_binary(kind, a, b)
        return kind._make(a, b) if folded is None else folded

    def visit_Not(self, node: Not) -> Any:
        a = self.visit(node.a)
        return node if a is node.a else Not._make(a, span=node.span)

    def visit_Cast(self, node: pe.Cast) -> Any:
        value = self.visit(node.value)
        if value is node.value:
            return node
        # The lanes of a narrow type may wrap around.
        exact = value.dtype.bits >= min(node.dtype.bits, 32)
        if type(value) is Ramp and node.dtype.is_int and value.dtype.is_int and exact:
            parts = [pe.Cast._make(node.dtype, p) for p in (value.base, value.stride)]
            return Ramp._make(*map(self.ana.simplify, parts), value.lanes)
        return pe.Cast._make(node.dtype.like(value.dtype), value, span=node.span)

    def visit_Select(self, node: pe.Select) -> Any:
        holds = self.assumed.get(id(node.condition))
        if holds is not None:
            return self.visit(node.true_value if holds else node.false_value)
        parts = [self.visit(p) for p in (node.condition, node.true_value, node.false_value)]
        lanes = _lanes(parts)
        if lanes == 1:
            return node.replace(condition=parts[0], true_value=parts[1], false_value=parts[2])
        return pe.Select._make(*(_spread(p, lanes) for p in parts), span=node.span)

    def visit_Ramp(self, node: Ramp) -> Any:
        base, stride = self.visit(node.base), self.visit(node.stride)
        if base.dtype.lanes != 1 or stride.dtype.lanes != 1:
            raise _NotLanewise
        return node.replace(base=base, stride=stride)

    def visit_Broadcast(self, node: Broadcast) -> Any:
        value = self.visit(node.value)
        if value.dtype.lanes != node.value.dtype.lanes:
            raise _NotLanewise
        return node.replace(value=value)

    def visit_Shuffle(self, node: pe.Shuffle) -> Any:
        if uses_any(node, self.values):
            raise _NotLanewise
        return node

    def visit_Let(self, node: pe.Let) -> Any:
        value = self.visit(node.value)
        var = self._let_var(node.var, value)
        body = self.visit(node.body)
        if var is node.var and value is node.value and body is node.body:
            return node
        return pe.Let._make(var, value, body, span=node.span)

    def _let_var(self, var: Var, value: PrimExpr) -> Var:
        if value.dtype.lanes == var.dtype.lanes:
            return var
        vector = Var(var.name, value.dtype)
        self.values[var] = vector
        return vector

    def visit_Call(self, node: Call) -> Any:
        args = [self.visit(a) for a in node.args]
        if all(a is b for a, b in zip(args, node.args, strict=True)):
            return node
        lanes = _lanes(args)
        if lanes == 1:
            return node.replace(args=tuple(args))
        if is_call_to(node, "call_llvm_pure_intrin"):
            return self.llvm_call(node, args, lanes)
        if not isinstance(node.op, Op) or not node.op.get_attr("vector", False):
            raise _NotLanewise
        if node.dtype.lanes != 1:
            raise _NotLanewise
        if node.op.name == "tir.likely":
            return _spread(args[0], lanes)
        if node.op.name == "tir.checked_index" and self.mask is not None:
            zero = _spread(const(0, node.dtype), lanes)
            args[0] = pe.Select._make(self.mask, _spread(args[0], lanes), zero)
        if node.op.name == "tir.if_then_else" and args[0].dtype.lanes == 1:
            spread = [args[0], *(_spread(a, lanes) for a in args[1:])]
        else:
            spread = [_spread(a, lanes) for a in args]
            if node.op.name == "tir.if_then_else" and (not self.native or may_trap(node, self.ana)):
                raise _NotLanewise
        return Call._make(pe.vector_type(node.dtype, lanes), node.op, tuple(spread), span=node.span)

    def llvm_call(self, node: Call, args: list[Any], lanes: Lanes) -> Call:
        """A call of an LLVM intrinsic as one of its overload for vectors."""
        head = 2 if isinstance(args[1], IntImm) and args[1].dtype.is_uint and len(args) > 2 else 1
        plain = all(a.dtype.element == node.dtype for a in args[head:])
        if getattr(args[0], "value", None) not in LLVM_LANEWISE or not plain:
            raise _NotLanewise
        spread = (*args[:head], *(_spread(a, lanes) for a in args[head:]))
        return Call._make(pe.vector_type(node.dtype, lanes), node.op, spread, span=node.span)

    def visit_Reduce(self, node: Reduce) -> Any:
        raise _NotLanewise

    # ------------------------------------------------------------------ memory

    def _indices(
        self, buffer: Buffer, indices: Sequence[PrimExpr]
    ) -> tuple[Buffer, tuple[Any, ...]]:
        vectors = tuple(self.visit(i) for i in indices)
        wide = self.widened(buffer)
        if wide is not None:
            # A buffer of the loop's body: element i of lane l is at i * lanes + l.
            kind = vectors[0].dtype.element
            lane = Ramp._make(const(0, kind), const(1, kind), self.lanes)
            size = cast(kind, self.lanes)
            if vectors[0].dtype.lanes > 1:  # the index differs between lanes
                size = _spread(size, self.lanes)
            at = multiply(vectors[0], size)
            vectors = (self.ana.simplify(_spread(at, self.lanes) + lane),)
            return wide, vectors
        if any(i.dtype.lanes > 1 for i in vectors[:-1]):
            raise _NotLanewise  # in buffers that are not flat, only the last index may be a vector
        return buffer, tuple(self._tidy(i) for i in vectors)

    def widened(self, buffer: Buffer) -> Buffer | None:
        """The view of memory allocated in the body with its elements for each lane; None for other memory."""
        views = self.own.get(buffer.data)
        if views is None:
            return None
        if len(buffer.shape) != 1:
            raise _NotLanewise
        if buffer not in views:
            size = buffer.shape[0]
            views[buffer] = buffer.replace(shape=(multiply(size, cast(size.dtype, self.lanes)),))
        return views[buffer]

    def _tidy(self, index: PrimExpr) -> PrimExpr:
        return index if index.dtype.lanes == 1 else self.ana.simplify(index)

    def _uniform_condition(self, indices: Sequence[PrimExpr]) -> PrimExpr | None:
        """A uniform condition that selects an index, as where an extent of 1 is broadcast."""
        conditions: list[PrimExpr] = []

        def visit(node: PrimExpr) -> bool:
            if isinstance(node, pe.Select) and id(node.condition) not in self.assumed:
                differs = not uses_any(node.condition, self.values) and uses_any(node, self.values)
                conditions.extend([node.condition] if differs else [])
            return bool(conditions)

        any(any_node(i, visit) for i in indices[-1:])
        return conditions[0] if conditions else None

    def _load_under(self, node: BufferLoad, condition: PrimExpr) -> Any:
        """A choice between two loads, one element or adjacent ones, instead of a gather with an index for
        each lane."""
        sides = []
        for holds in (True, False):
            self.assumed[id(condition)] = holds
            sides.append(self.visit(node))
        del self.assumed[id(condition)]
        lanes = _lanes(sides)
        if lanes == 1:
            return node
        sides = [_spread(side, lanes) for side in sides]
        return if_then_else(self.visit(condition), *sides)

    def _masked(self, predicate: PrimExpr | None, lanes: Lanes) -> PrimExpr | None:
        """The predicate of an access under the mask."""
        if predicate is None or self.mask is None:
            return self.mask
        return And(_spread(predicate, lanes), self.mask)

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        if node.dtype.lanes > 1 and uses_any(node, self.values):
            raise _NotLanewise
        condition = self._uniform_condition(node.indices)
        if condition is not None:
            return self._load_under(node, condition)
        buffer, indices = self._indices(node.buffer, node.indices)
        predicate = None if node.predicate is None else self.visit(node.predicate)
        lanes = _lanes(indices[-1:])
        if lanes == 1 and self.mask is not None and not self.native:
            raise _NotLanewise
        free = self.mask is None or lanes == 1
        if not free and not (self.native and self._inside(buffer, indices)):
            predicate = self._masked(predicate, lanes)
        same = all(a is b for a, b in zip(indices, node.indices, strict=True))
        if same and buffer is node.buffer and predicate is node.predicate:
            return node
        return BufferLoad._make(buffer, indices, predicate, span=node.span)

    def visit_BufferStore(self, node: st.BufferStore) -> st.Stmt:
        if node.value.dtype.lanes > 1:
            self.check_lengths(node)
            raise _NotLanewise
        value = self.visit(node.value)
        buffer, indices = self._indices(node.buffer, node.indices)
        lanes = _lanes(indices[-1:])
        predicate = None if node.predicate is None else self.visit(node.predicate)
        if lanes == 1 and value.dtype.lanes == 1 and self.mask is None:
            if predicate is not None and predicate.dtype.lanes > 1:
                raise _NotLanewise
            if reads(value, buffer):
                raise _NotLanewise  # each lane accumulates into the same element
            return node.replace(buffer=buffer, value=value, indices=indices, predicate=predicate)
        if lanes != self.lanes or type(indices[-1]) is Broadcast:
            raise _NotLanewise
        if self.mask is not None:
            predicate = self._masked(predicate, lanes)
            value = self._guarded(_spread(value, lanes))
        elif predicate is not None:
            predicate = _spread(predicate, lanes)
        return st.BufferStore._make(
            buffer, _spread(value, lanes), indices, predicate, span=node.span
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

    def _inside(self, buffer: Buffer, indices: tuple[Any, ...]) -> bool:
        """Whether an access is proven in bounds in all lanes, so that it needs no mask."""
        index = indices[-1]
        step, lanes = 0, lanes_of(index.dtype)
        if type(index) is Ramp and isinstance(index.stride, IntImm):
            index, step = index.base, index.stride.value
        if index.dtype.lanes > 1 or len(indices) > 1 or step < 0:
            return False
        last = index + step * (lanes - 1)
        prove = self.ana
        return prove.can_prove_greater_equal(index, 0) and prove.can_prove_less(
            last, buffer.shape[0]
        )

    def _loads_scalar(self, value: PrimExpr) -> bool:
        """Whether `value` has a load of one element for all lanes that may be out of bounds."""

        def outside(n: Node) -> bool:
            return (
                isinstance(n, BufferLoad)
                and n.dtype.lanes == 1
                and not self._inside(n.buffer, n.indices)
            )

        return any_node(value, outside, skip=Buffer)

    def _guarded(self, value: PrimExpr) -> PrimExpr:
        """Execute scalar loads only if some lane is active."""
        if not self._loads_scalar(value):
            return value
        other = const(0, value.dtype)
        choice = Op.get("tir.if_then_else")
        return Call._make(value.dtype, choice, (self.mask, value, other))

    # ------------------------------------------------------------------ statements

    def statement(self, node: st.Stmt) -> st.Stmt:
        """The vector form, or a serial loop around the statement."""
        saved = dict(self.values)
        try:
            return self.visit(node)
        except _NotLanewise:
            self.values = saved
            return self.scalarized(node)

    def scalarized(self, node: st.Stmt) -> st.Stmt:
        """The statement in a serial loop. Only valid if no vector variable is in scope."""
        if self.mask is not None or self.own or len(self.values) > 1:
            raise _NotLanewise
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
            except _NotLanewise:
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
            raise _NotLanewise
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
            raise _NotLanewise
        mask, outer = _all(varying), self.mask
        if not self.native:
            if node.else_case is not None or same or outer is not None or len(varying) > 1:
                raise _NotLanewise
            mask = self.lane_mask(mask)
        if node.else_case is not None and (same or not maskable(node.else_case, self.ana)):
            raise _NotLanewise
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
            raise _NotLanewise
        if low.lanes != self.lanes or int_value(low.stride) != 1:
            raise _NotLanewise
        return get_active_lane_mask(condition.dtype, low.base, end.value)

    def _under(self, mask: PrimExpr, body: st.Stmt, outer: PrimExpr | None) -> st.Stmt:
        self.mask = mask if outer is None else And(outer, mask)
        try:
            return self.visit(body)
        finally:
            self.mask = outer

    def visit_LetStmt(self, node: st.LetStmt) -> st.Stmt:
        value = self.visit(node.value)
        if value is node.value:
            return node.replace(body=self.statement(node.body))
        if value.dtype.lanes == 1:
            return node.replace(value=value, body=self.statement(node.body))
        if self._loads_scalar(value) and self.mask is not None:
            raise _NotLanewise
        var = self._let_var(node.var, value)
        return st.LetStmt(var, value, self.visit(node.body), span=node.span)

    def visit_Allocate(self, node: st.Allocate) -> st.Stmt:
        if len(node.extents) != 1 or uses_any(node.extents[0], self.values):
            raise _NotLanewise
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
            raise _NotLanewise
        return node.replace(body=self.statement(node.body))

    def visit_Evaluate(self, node: st.Evaluate) -> st.Stmt:
        if isinstance(node.value, IntImm):
            return node
        raise _NotLanewise

    def visit_Stmt(self, node: st.Stmt) -> st.Stmt:
        raise _NotLanewise


def _all(parts: list[PrimExpr]) -> PrimExpr:
    """The conjunction of one part or more."""
    conjunction = parts[0]
    for part in parts[1:]:
        conjunction = And(conjunction, part)
    return conjunction


class _Loops(Simplifying):
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

    def visit_PrimExpr(self, node: PrimExpr) -> Any:
        return node

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
        except _NotLanewise:
            return node.replace(kind=st.ForKind.SERIAL, body=body)


class _Serial(StmtRewriter):
    """Makes vectorized loops serial."""

    def visit_PrimExpr(self, node: PrimExpr) -> Any:
        return node

    def visit_For(self, node: st.For) -> st.Stmt:
        body = self.visit(node.body)
        kind = st.ForKind.SERIAL if node.kind == st.ForKind.VECTORIZED else node.kind
        return node.replace(body=body, kind=kind)


@dataclass(frozen=True)
class VectorizeLoop(PrimFuncPass):
    """Turns vectorized loops into vector expressions.

    enable_vectorize: if False, they become serial instead. native: any condition in them may become a
    mask, not only `low + i < end`. Raises InternalError for a loop whose extent is neither a constant
    nor, on a target with scalable vectors, a multiple of vscale.
    """

    name = "tir.VectorizeLoop"
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
