"""Splitting loops where the truth of their conditions changes; part of `LoopPartition`.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((16,), "float32"), B: T.Buffer((24,), "float32")):
    -     for i in T.serial(24, annotations={"pragma_loop_partition_hint": 1}):
    -         if i < 16:
    -             B[i] = A[i]
    -         else:
    -             B[i] = T.float32(0)
    +     for i in range(16):
    +         B[i] = A[i]
    +     for i in range(8):
    +         B[i + 16] = T.float32(0)

Conditions are those in `T.likely`, and all inside a loop with the annotation. A condition holds over
a part of the loop if it does for all values of the loops further inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ....arith import Analyzer
from ....arith import poly as P
from ....arith.build import build
from ....arith.division import poly_div
from ....arith.interval import Evaluator
from ....arith.normal import normal
from ....arith.poly import Poly
from ....ir import prim_expr as pe
from ....ir.functor import any_node
from ....ir.literals import int_value
from ....ir.prim_expr import PrimExpr, Range, ScalarLike, Var
from ....ir.prim_op import add, const, maximum, minimum, multiply
from ...expr import BufferLoad
from ...function import PrimFunc
from ...op import is_call_to
from ...stmt import AttrStmt, Block, For, ForKind, IfThenElse, LetStmt, Stmt, seq
from ...stmt_functor import ExprKeeper, renew_defs
from ..base import Simplifying, StmtRewriter, StmtVisitor, Substitute, bind_function

if TYPE_CHECKING:
    from ....arith.atoms import Atom
    from ....base.span import Span
    from ....ir.node import Node

HINT = "pragma_loop_partition_hint"
_MOST = 64  # parts of a loop: more would be unreadable code

# Begin, extent, the known truth of conditions, by id, and whether that is all.
_Part = tuple[Any, Any, dict[int, bool], bool]
Ends = tuple[Poly | None, Poly | None]  # [low, high); None: no bound


def variables_of(condition: PrimExpr) -> set[Var] | None:
    """The variables of a condition, or None if it reads memory or calls a function."""
    variables: set[Var] = set()
    stack = [condition]
    while stack:
        node = stack.pop()
        if isinstance(node, Var):
            variables.add(node)
        elif isinstance(node, (BufferLoad, pe.Call)):
            return None
        else:
            stack += list(node.children())
    return variables


@dataclass(frozen=True)
class _Condition:
    """A comparison and the parts of the loop over which it holds, and over which it does not."""

    node: PrimExpr
    holds: list[Ends]
    fails: list[Ends]

    def over(self, low: int, high: int) -> bool | None:
        """Its truth over a part of the loop; None where that varies."""
        for value, spans in ((True, self.holds), (False, self.fails)):
            for ends in spans:
                a, b = (None if e is None else P.constant_value(e) for e in ends)
                if (a is not None or ends[0] is None) and (b is not None or ends[1] is None):
                    if (a is None or a <= low) and (b is None or high <= b):
                        return value
        return None


class _Conditions(StmtVisitor):
    """The conditions in the body of a loop whose truth depends on the loop's variable."""

    def __init__(self, ana: Analyzer, var: Var, hinted: bool) -> None:
        self.ana = ana
        self.var = var
        self.number = ana.atoms.of_var(var)
        self.hinted = hinted
        self.loops: dict[Var, Any] = {}
        self.unknown: set[Var] = set()
        self.conditions: list[_Condition] = []

    def visit_For(self, node: For) -> None:
        self.visit((node.min, node.extent))
        self.loops[node.loop_var] = node.range
        with self.ana.loop_scope(node.loop_var, node.range):
            self.visit(node.body)

    def visit_LetStmt(self, node: LetStmt) -> None:
        self.unknown.add(node.var)
        self.visit_default(node)

    def visit_AttrStmt(self, node: AttrStmt) -> None:
        if isinstance(node.node, pe.IterVar):
            self.unknown.add(node.node.var)
        self.visit_default(node)

    def visit_IfThenElse(self, node: IfThenElse) -> None:
        self.check(node.condition, self.hinted)
        self.visit_default(node)

    visit_Select = visit_IfThenElse

    def visit_Call(self, node: pe.Call) -> None:
        if is_call_to(node, "if_then_else"):
            self.check(node.args[0], self.hinted)
        self.visit_default(node)

    def check(self, condition: PrimExpr, holds: bool) -> None:
        """Take up the comparisons in a condition."""
        if isinstance(condition, (pe.And, pe.Or)):
            self.check(condition.a, holds)
            self.check(condition.b, holds)
        elif isinstance(condition, pe.Not):
            self.check(condition.a, holds)
        elif is_call_to(condition, "likely"):
            self.check(condition.args[0], True)
        elif holds and isinstance(condition, pe.CmpExpr) and condition.a.dtype.is_int:
            self.compare(condition)

    def compare(self, condition: pe.CmpExpr) -> None:
        used = variables_of(condition)
        if used is None or self.var not in used or used & self.unknown:
            return
        ana = self.ana
        truth, p = normal(ana, type(condition), ana.poly(condition.a), ana.poly(condition.b))
        if truth is not None:
            return
        low, high = Evaluator(ana, self.loops).ends(p)
        above = [] if low is None else self.solve(low)  # where p >= 0
        below = [] if high is None else self.solve(P.scaled(high, -1), -1)  # where p < 0
        if isinstance(condition, (pe.EQ, pe.NE)):
            # Of the loops further inside, p must not depend: it is 0 for all their values or none.
            more = [] if low is None else self.solve(low, -1)
            equal = []
            if low is not None and high is not None and not P.add(low, high, -1):
                equal = [_both(a, b) for a in above for b in self.solve(P.scaled(high, -1))]
            sides = (equal, more + below)
            holds, fails = sides if isinstance(condition, pe.EQ) else sides[::-1]
        else:
            holds, fails = above, below
        self.conditions.append(_Condition(condition, holds, fails))

    def solve(self, p: Poly, offset: int = 0) -> list[Ends]:
        """The values of the variable for which p + offset >= 0, in a list; none if not known."""
        p = P.shift(p, offset)
        own = Evaluator(self.ana, {self.var: Range(0, 1)})
        moving = [m for m in p if own.involved({m: 1})]
        if len(moving) != 1 or len(moving[0]) != 1:
            return []
        (number,), factor = moving[0], p[moving[0]]
        rest = {m: f for m, f in p.items() if m != moving[0]}
        # factor * x + rest >= 0: x >= -(rest // factor), or x <= rest // -factor
        least = poly_div(self.ana, rest, P.constant(abs(factor)), self.var.dtype)
        if least is None:
            return []
        if number == self.number:
            return [(P.scaled(least, -1), None) if factor > 0 else (None, P.shift(least, 1))]
        atom = self.ana.atoms.all[number]
        divisor = P.constant_value(atom.data[1]) if _is_division(atom) else None
        if divisor is None or divisor <= 0:
            return []
        n = atom.data[0]
        if factor > 0:  # n // d >= k: n >= k * d
            return self.solve(P.add(n, P.scaled(least, divisor)))
        return self.solve(P.add(P.scaled(least, divisor), n, -1), divisor - 1)


def _is_division(atom: Atom) -> bool:
    return atom.expr is None and isinstance(atom.data, tuple) and atom.kind == 1


def _both(a: Ends, b: Ends) -> Ends:
    """The part that is in two parts, each with one end."""
    low = a[0] if b[0] is None else b[0]
    return low, a[1] if b[1] is None else b[1]


class _Decided(StmtRewriter):
    """The statement where the truth of some comparisons is known, by id."""

    def __init__(self, truths: dict[int, bool]) -> None:
        self.truths = truths

    def visit_CmpExpr(self, node: PrimExpr) -> Any:
        truth = self.truths.get(id(node))
        return self.visit_default(node) if truth is None else pe.IntImm("bool", truth)


class _Section(Substitute):
    """A copy for a part of a loop, with definitions of its own and literal conditions folded."""

    def folded(self, kind: type, a: PrimExpr, b: PrimExpr, span: Span) -> PrimExpr:
        """A literal that is added comes last, out of sums and products."""
        if isinstance(b, pe.Add) and isinstance(b.b, pe.IntImm) and kind is pe.Add:
            return self.folded(kind, super().folded(kind, a, b.a, span), b.b, span)
        if kind is pe.Mul and isinstance(a, pe.Add) and isinstance(a.b, pe.IntImm):
            if isinstance(b, pe.IntImm) and a.dtype.is_int:
                return super().folded(pe.Add, pe.Mul._make(a.a, b), multiply(a.b, b), span)
        return super().folded(kind, a, b, span)

    def visit_And(self, node: pe.And) -> Any:
        return self.joined(node, True)

    def visit_Or(self, node: pe.Or) -> Any:
        return self.joined(node, False)

    def joined(self, node: pe.BinaryOpExpr, neutral: bool) -> Any:
        a, b = self.visit(node.a), self.visit(node.b)
        for one, other in ((a, b), (b, a)):
            if isinstance(one, pe.IntImm):
                return other if bool(one.value) is neutral else one
        return type(node)._make(a, b, span=node.span)

    def visit_Not(self, node: pe.Not) -> Any:
        a = self.visit(node.a)
        return pe.IntImm("bool", not a.value) if isinstance(a, pe.IntImm) else pe.Not(a)

    def visit_Select(self, node: pe.Select) -> Any:
        c, yes, no = map(self.visit, (node.condition, node.true_value, node.false_value))
        return (yes if c.value else no) if isinstance(c, pe.IntImm) else pe.Select(c, yes, no)

    def visit_Call(self, node: pe.Call) -> Any:
        new = super().visit_Call(node)
        marked = is_call_to(new, "likely") or is_call_to(new, "ignore_loop_partition")
        return new.args[0] if marked and isinstance(new.args[0], pe.IntImm) else new


class RangeSplitter(ExprKeeper, Simplifying):
    """Splits the loops of a function. const_loops: also those of a known number of iterations that
    have no annotation; unroll: loops with one of which no condition is decided become unrolled."""

    def __init__(self, func: PrimFunc, const_loops: bool, unroll: bool) -> None:
        super().__init__()
        self.const_loops = const_loops
        self.unroll = unroll
        bind_function(self.ana, func)

    def visit_For(self, node: For) -> Stmt:
        hinted = HINT in node.annotations
        kinds = (ForKind.VECTORIZED, ForKind.THREAD_BINDING)
        if node.kind in kinds[0 if not hinted else 1 :]:
            return super().visit_For(node)
        low, extent = (int_value(self.ana.simplify(e)) for e in (node.min, node.extent))
        constant_ends = low is not None and extent is not None
        if constant_ends and not hinted and not self.const_loops:
            return super().visit_For(node)
        with self.loop(node):
            finder = _Conditions(self.ana, node.loop_var, hinted)
            finder.visit(node.body)
        if any_node(node.body, lambda n: isinstance(n, Block)):
            return super().visit_For(node)
        if low is not None and extent is not None:
            parts = self.constant_parts(low, low + extent, finder.conditions)
        else:
            parts = self.symbolic_parts(node, finder.conditions)
        if not parts:
            return self.unsplit(node, hinted)
        return seq(*(self.part(node, *part) for part in parts))

    def unsplit(self, node: For, hinted: bool) -> Stmt:
        """A loop that stays whole."""
        if hinted:
            kind = ForKind.UNROLLED if self.unroll else node.kind
            node = node.replace(kind=kind, annotations=_unhinted(node))
        return super().visit_For(node)

    def constant_parts(self, low: int, high: int, conditions: list[_Condition]) -> list[_Part]:
        """The parts of a loop over low .. high."""
        cuts = {low, high}
        for condition in conditions:
            for ends in condition.holds + condition.fails:
                values = (P.constant_value(e) for e in ends if e is not None)
                cuts |= {v for v in values if v is not None}
        order = sorted(c for c in cuts if low <= c <= high)
        parts: list[tuple[int, int, list[bool | None]]] = []
        for a, b in pairwise(order):
            truths = [c.over(a, b) for c in conditions]
            if parts and parts[-1][2] == truths:
                parts[-1] = (parts[-1][0], b, truths)
            else:
                parts.append((a, b, truths))
        if not 1 < len(parts) <= _MOST:
            return []
        return [(a, b - a, _truths(conditions, t), None not in t) for a, b, t in parts]

    def symbolic_parts(self, node: For, conditions: list[_Condition]) -> list[_Part]:
        """The same for a loop between symbolic ends: the part over which all solvable conditions
        hold, and the parts before and after it."""
        begin, end = node.min, self.ana.simplify(add(node.min, node.extent))
        low, high, decided = begin, end, []
        for condition in conditions:
            spans = [ends for ends in condition.holds if ends != (None, None)]
            if len(spans) != 1:
                continue
            a, b = (None if e is None else _built(self.ana, e, node) for e in spans[0])
            low = low if a is None else maximum(low, a)
            high = high if b is None else minimum(high, b)
            decided.append(condition)
        if not decided:
            return []
        low = self.ana.simplify(minimum(low, end))
        high = self.ana.simplify(maximum(high, low))
        first, last = self.ana.simplify(low - begin), self.ana.simplify(end - high)
        true = _truths(decided, [True] * len(decided))
        middle = (low, self.ana.simplify(high - low), true, True)
        parts: list[_Part] = [(begin, first, {}, False), middle, (high, last, {}, False)]
        return [part for part in parts if int_value(part[1]) != 0]

    def part(
        self,
        node: For,
        begin: ScalarLike,
        extent: ScalarLike,
        truths: dict[int, bool],
        decided: bool,
    ) -> Stmt:
        """The loop over a part of its range, from 0."""
        hinted = HINT in node.annotations
        dtype = node.loop_var.dtype
        var = Var(node.loop_var.name, dtype)
        begin, extent = const(begin, dtype), const(extent, dtype)
        once, notes = int_value(extent) == 1, _unhinted(node)
        value = begin if once and not notes else self.ana.simplify(add(var, begin))
        body = renew_defs(_Decided(truths).visit(node.body))
        body = _Section({node.loop_var: value}).visit(body)
        if value is begin:
            return self.visit(body)
        unrolled = hinted and self.unroll and not decided and not once
        kind = ForKind.UNROLLED if unrolled else node.kind
        loop = For(var, const(0, dtype), extent, kind, body, annotations=notes, span=node.span)
        return super().visit_For(loop)


def _unhinted(node: For) -> dict[str, Any]:
    return {k: v for k, v in node.annotations.items() if k != HINT}


def _built(ana: Analyzer, end: Poly, node: For) -> PrimExpr:
    return build(ana, end, node.loop_var.dtype)


def _truths(conditions: list[_Condition], truths: list[bool | None]) -> dict[int, bool]:
    """The truth of conditions by id; one that occurs twice must have it in both."""
    values: dict[int, set[bool | None]] = {}
    for condition, truth in zip(conditions, truths, strict=True):
        values.setdefault(id(condition.node), set()).add(truth)
    return {
        key: truth
        for key, seen in values.items()
        if len(seen) == 1 and (truth := seen.pop()) is not None
    }


class _Unmarked(StmtRewriter):
    """Without the marks that speak to this pass."""

    def visit_For(self, node: For) -> Stmt:
        new = self.visit_default(node)
        return new.replace(annotations=_unhinted(new)) if HINT in new.annotations else new

    def visit_Call(self, node: pe.Call) -> Any:
        new = self.visit_default(node)
        marks = is_call_to(node, "likely") or is_call_to(node, "ignore_loop_partition")
        return new.args[0] if marks else new


def split_ranges(func: PrimFunc, options: dict[str, Any]) -> PrimFunc:
    """A function with the loops split that are marked, or have conditions that are."""

    def marked(node: Node) -> bool:
        if isinstance(node, For):
            return HINT in node.annotations
        return is_call_to(node, "likely") or is_call_to(node, "ignore_loop_partition")

    if not any_node(func.body, marked):
        return func
    unroll = bool(options.get("unroll_loop_with_partition_hint_no_interval"))
    splitter = RangeSplitter(func, bool(options.get("partition_const_loop")), unroll)
    return func.replace(body=_Unmarked().visit(splitter.visit(func.body)))
