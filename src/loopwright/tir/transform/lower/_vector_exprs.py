"""Expressions of a vectorized loop as vectors (see `VectorizeLoop`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ....ir import prim_expr as pe
from ....ir.functor import any_node
from ....ir.op import Op
from ....ir.prim_expr import And, Broadcast, Call, IntImm, Lanes, Not, PrimExpr, Ramp, Var
from ....ir.prim_op import cast, const, fold_binary, lanes_of, multiply
from ....ir.variables import uses_any
from ...buffer import Buffer
from ...expr import BufferLoad, Reduce
from ...op import if_then_else, is_call_to
from ..base import StmtRewriter
from ._lanes import may_trap

if TYPE_CHECKING:
    from ....arith.analyzer import Analyzer
    from ....ir.node import Node


class NotLanewise(Exception):
    """Raised inside a statement or an expression that has no vector form."""


def lanes_among(values: Iterable[Any]) -> Lanes:
    """The lanes of the first vector among values; 1 if all are scalars."""
    widths = (lanes_of(v.dtype) for v in values if isinstance(v, PrimExpr))
    return next((w for w in widths if w != 1), 1)


# Intrinsics of LLVM that have an overload for vectors, lane by lane.
_NAMES = """
sqrt fabs floor ceil trunc rint nearbyint round roundeven canonicalize sin cos exp exp2 log log2 log10
pow fma fmuladd minnum maxnum minimum maximum copysign ctpop bswap bitreverse smin smax umin umax
"""
LLVM_LANEWISE = frozenset(f"llvm.{name}" for name in _NAMES.split())


def spread(value: PrimExpr, lanes: Lanes) -> PrimExpr:
    """A scalar broadcast to `lanes` lanes; a vector of that length unchanged."""
    if lanes_of(value.dtype) == lanes:
        return value
    if value.dtype.lanes != 1:
        raise NotLanewise
    return Broadcast._make(value, lanes)


class VectorExprs(StmtRewriter):
    """Rewrites the expressions of one loop's body, whose variable becomes the vector low, low + 1, ...;
    values: the vectors of variables."""

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
        kind, lanes = type(node), lanes_among((a, b))
        if lanes == 1:
            folded = None if isinstance(node, pe.LogicalExpr) else fold_binary(kind, a, b)
            return kind._make(a, b, span=node.span) if folded is None else folded
        if isinstance(node, pe.LogicalExpr):
            return kind._make(spread(a, lanes), spread(b, lanes), span=node.span)
        ramp = self._ramp(kind, a, b)
        if ramp is not None:
            return ramp
        return kind._make(spread(a, lanes), spread(b, lanes), span=node.span)

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
        lanes = lanes_among(parts)
        if lanes == 1:
            return node.replace(condition=parts[0], true_value=parts[1], false_value=parts[2])
        return pe.Select._make(*(spread(p, lanes) for p in parts), span=node.span)

    def visit_Ramp(self, node: Ramp) -> Any:
        base, stride = self.visit(node.base), self.visit(node.stride)
        if base.dtype.lanes != 1 or stride.dtype.lanes != 1:
            raise NotLanewise
        return node.replace(base=base, stride=stride)

    def visit_Broadcast(self, node: Broadcast) -> Any:
        value = self.visit(node.value)
        if value.dtype.lanes != node.value.dtype.lanes:
            raise NotLanewise
        return node.replace(value=value)

    def visit_Shuffle(self, node: pe.Shuffle) -> Any:
        if uses_any(node, self.values):
            raise NotLanewise
        return node

    def visit_Let(self, node: pe.Let) -> Any:
        value, saved = self.visit(node.value), dict(self.values)
        var = self.let_var(node.var, value)
        body = self.visit(node.body)
        self.values = saved
        if var is node.var and value is node.value and body is node.body:
            return node
        return pe.Let._make(var, value, body, span=node.span)

    def let_var(self, var: Var, value: PrimExpr) -> Var:
        """The variable of a binding. The same one may have been bound before to another value, as where an
        expression was inlined twice."""
        if value.dtype.lanes == var.dtype.lanes:
            self.values.pop(var, None)
            return var
        vector = Var(var.name, value.dtype)
        self.values[var] = vector
        return vector

    def visit_Call(self, node: Call) -> Any:
        args = [self.visit(a) for a in node.args]
        if all(a is b for a, b in zip(args, node.args, strict=True)):
            return node
        lanes = lanes_among(args)
        if lanes == 1:
            return node.replace(args=tuple(args))
        if is_call_to(node, "call_llvm_pure_intrin"):
            return self.llvm_call(node, args, lanes)
        if not isinstance(node.op, Op) or not node.op.get_attr("vector", False):
            raise NotLanewise
        if node.dtype.lanes != 1:
            raise NotLanewise
        if node.op.name == "tir.likely":
            return spread(args[0], lanes)
        if node.op.name == "tir.checked_index" and self.mask is not None:
            zero = spread(const(0, node.dtype), lanes)
            args[0] = pe.Select._make(self.mask, spread(args[0], lanes), zero)
        if node.op.name == "tir.if_then_else" and args[0].dtype.lanes == 1:
            operands = [args[0], *(spread(a, lanes) for a in args[1:])]
        else:
            operands = [spread(a, lanes) for a in args]
            if node.op.name == "tir.if_then_else" and (not self.native or may_trap(node, self.ana)):
                raise NotLanewise
        return Call._make(
            pe.vector_type(node.dtype, lanes), node.op, tuple(operands), span=node.span
        )

    def llvm_call(self, node: Call, args: list[Any], lanes: Lanes) -> Call:
        """A call of an LLVM intrinsic as one of its overload for vectors."""
        head = 2 if isinstance(args[1], IntImm) and args[1].dtype.is_uint and len(args) > 2 else 1
        plain = all(a.dtype.element == node.dtype for a in args[head:])
        if getattr(args[0], "value", None) not in LLVM_LANEWISE or not plain:
            raise NotLanewise
        operands = (*args[:head], *(spread(a, lanes) for a in args[head:]))
        return Call._make(pe.vector_type(node.dtype, lanes), node.op, operands, span=node.span)

    def visit_Reduce(self, node: Reduce) -> Any:
        raise NotLanewise

    # ------------------------------------------------------------------ memory

    def indices(
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
                size = spread(size, self.lanes)
            at = multiply(vectors[0], size)
            vectors = (self.ana.simplify(spread(at, self.lanes) + lane),)
            return wide, vectors
        if any(i.dtype.lanes > 1 for i in vectors[:-1]):
            raise NotLanewise  # in buffers that are not flat, only the last index may be a vector
        return buffer, tuple(self._tidy(i) for i in vectors)

    def widened(self, buffer: Buffer) -> Buffer | None:
        """The view of memory allocated in the body with its elements for each lane; None for other memory."""
        views = self.own.get(buffer.data)
        if views is None:
            return None
        if len(buffer.shape) != 1:
            raise NotLanewise
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
        lanes = lanes_among(sides)
        if lanes == 1:
            return node
        sides = [spread(side, lanes) for side in sides]
        return if_then_else(self.visit(condition), *sides)

    def masked(self, predicate: PrimExpr | None, lanes: Lanes) -> PrimExpr | None:
        """The predicate of an access under the mask."""
        if predicate is None or self.mask is None:
            return self.mask
        return And(spread(predicate, lanes), self.mask)

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        if node.dtype.lanes > 1 and uses_any(node, self.values):
            raise NotLanewise
        condition = self._uniform_condition(node.indices)
        if condition is not None:
            return self._load_under(node, condition)
        buffer, indices = self.indices(node.buffer, node.indices)
        predicate = self.visit(node.predicate)
        lanes = lanes_among(indices[-1:])
        if lanes == 1 and self.mask is not None and not self.native:
            raise NotLanewise
        free = self.mask is None or lanes == 1
        if not free and not (self.native and self._inside(buffer, indices)):
            predicate = self.masked(predicate, lanes)
        same = all(a is b for a, b in zip(indices, node.indices, strict=True))
        if same and buffer is node.buffer and predicate is node.predicate:
            return node
        return BufferLoad._make(buffer, indices, predicate, span=node.span)

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

    def loads_scalar(self, value: PrimExpr) -> bool:
        """Whether `value` has a load of one element for all lanes that may be out of bounds."""

        def outside(n: Node) -> bool:
            return (
                isinstance(n, BufferLoad)
                and n.dtype.lanes == 1
                and not self._inside(n.buffer, n.indices)
            )

        return any_node(value, outside, skip=Buffer)

    def guarded(self, value: PrimExpr) -> PrimExpr:
        """Execute scalar loads only if some lane is active."""
        if not self.loads_scalar(value):
            return value
        other = const(0, value.dtype)
        choice = Op.get("tir.if_then_else")
        return Call._make(value.dtype, choice, (self.mask, value, other))
