"""The contents of memory at a point of the code, found by going back to the store.

`Simplify` uses it with `propagate_knowns_to_prove_conditional`, `RemoveNoOp` with
`use_dataflow_analysis`. A load is followed backwards, statement by statement and out of the loops
and branches around it, to the store (or `T.assume`) that defines its value::

    for i in range(16):
        A[i] = i
    for j in range(16):
        if A[j] == j:  # stored when i was j, and by no later iteration: this holds
            B[j] = 42

A statement between either provably leaves the place alone or the value is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....arith import Analyzer
from ....ir import prim_expr as pe
from ....ir.functor import any_node, rewrite
from ....ir.literals import conjunction
from ....ir.prim_expr import IntImm, PrimExpr, Var
from ....ir.prim_op import add, floordiv, multiply, subtract
from ....ir.variables import substitute, vars_in
from ... import stmt as st
from ...analysis.effects import can_change, has_effect
from ...expr import BufferLoad, reads_memory
from ...op import is_call_to
from ...stmt_functor import SubstituteStmt, keep_buffers
from ..base import Simplifying, parts_of

if TYPE_CHECKING:
    from ....ir.node import Node

_STEPS = 120  # statements looked at for one question
_DEEPEST = 4  # values within values
_ORDERED = (st.ForKind.SERIAL, st.ForKind.UNROLLED)


@dataclass(frozen=True)
class Before:
    """Statements of a sequence that have run."""

    stmts: tuple[st.Stmt, ...]


@dataclass(frozen=True)
class Assumed:
    """A condition that holds from here on."""

    condition: PrimExpr


@dataclass(frozen=True)
class Turn:
    """One iteration of a loop."""

    loop: st.For
    at: PrimExpr


@dataclass(frozen=True)
class Unclear:
    """A statement whose parts run at unknown times and with an unknown count."""

    stmt: Any


Frame = Before | Assumed | Turn | Unclear
Path = tuple[Frame, ...]  # where in the code, from outside to inside


class _Same:
    """The effect of a statement on memory that it does not change."""


SAME = _Same()
Value = PrimExpr | _Same | None  # None: not known


class KnownValues:
    """Values of memory under the facts of an analyzer."""

    def __init__(self, ana: Analyzer) -> None:
        self.ana = ana
        self.steps = 0
        self.depth = 0

    def resolved(self, expr: PrimExpr, path: Path) -> Any:
        """`expr`, evaluated at a point of the code, with loads replaced by their values where
        known, simplified."""
        self.steps = 0

        def loaded(load: BufferLoad) -> Any:
            return self.value(load, path) if _plain(load) else None

        return self.ana.simplify(rewrite(expr, {BufferLoad: loaded}, pre=keep_buffers))

    def holds_already(self, store: st.BufferStore, path: Path) -> bool:
        """Whether a statement stores the value that the memory already holds."""
        if store.predicate is not None or any(i.dtype.lanes > 1 for i in store.indices):
            return False
        if has_effect(store.value) or any(map(has_effect, store.indices)):
            return False
        self.steps = 0
        there = self.value(BufferLoad(store.buffer, store.indices), path)
        if there is None:
            return False
        return self.ana.can_prove_equal(there, self._then(store.value, path))

    # ------------------------------------------------------------------ going back

    def value(self, load: BufferLoad, path: Path) -> PrimExpr | None:
        """The value of a load at a point of the code; None if not known. Values of other loads at
        other times are unknowns in it, variables."""
        if self.depth == _DEEPEST:
            return None
        self.depth += 1
        try:
            for n in range(len(path) - 1, -1, -1):
                value = self._through(path[n], load, path[:n])
                if not isinstance(value, _Same):
                    return value
            return None
        finally:
            self.depth -= 1

    def _through(self, frame: Frame, load: BufferLoad, path: Path) -> Value:
        """The value of a load according to the statements that ran in a frame."""
        if isinstance(frame, Before):
            return self.sequence(frame.stmts, load, path)
        if isinstance(frame, Assumed):
            return self.from_condition(frame.condition, load)
        if isinstance(frame, Unclear):
            return None if can_change(frame.stmt, load) else SAME
        return SAME if self.others(frame.loop, frame.at, load, path, earlier=True) else None

    def sequence(self, stmts: tuple[st.Stmt, ...], load: BufferLoad, path: Path) -> Value:
        """The value in memory after statements ran one after another."""
        for n in range(len(stmts) - 1, -1, -1):
            value = self.effect(stmts[n], load, (*path, Before(stmts[:n])))
            if value is not SAME:
                return value
        return SAME

    def effect(self, stmt: st.Stmt, load: BufferLoad, path: Path) -> Value:
        """The value in memory after a statement ran."""
        self.steps += 1
        if self.steps > _STEPS:
            return None
        if not any_node(stmt, lambda n: is_call_to(n, "assume")) and not can_change(stmt, load):
            return SAME
        handler = _EFFECTS.get(type(stmt))
        return None if handler is None else handler(self, stmt, load, path)

    def _store(self, stmt: st.BufferStore, load: BufferLoad, path: Path) -> Value:
        if stmt.buffer.data is not load.buffer.data:
            return None if has_effect(stmt.value) else SAME
        if stmt.buffer is not load.buffer or stmt.predicate is not None or has_effect(stmt.value):
            return None
        if any(i.dtype.lanes > 1 for i in stmt.indices):
            return self._lane(stmt, load, path)
        pairs = list(zip(stmt.indices, load.indices, strict=True))
        if any(self.ana.can_prove(a != b) for a, b in pairs):
            return SAME
        if all(self.ana.can_prove_equal(a, b) for a, b in pairs):
            return self._stored(stmt.value, load, path)
        with ExitStack() as scopes:  # if it is the same place, is the same value stored?
            for a, b in pairs:
                scopes.enter_context(self.ana.constraint_scope(a == b))
            return SAME if self._stored(stmt.value, load, path) is SAME else None

    def _stored(self, value: PrimExpr, load: BufferLoad, path: Path) -> Value:
        """A stored value; SAME for what was there before."""
        before = Var("before", load.dtype)
        new = self._then(value, path, (load, before))
        if new is before:
            return SAME
        there = self.value(load, path) if before in vars_in(new) else None
        return new if there is None else self.ana.simplify(substitute(new, {before: there}))

    def _lane(self, stmt: st.BufferStore, load: BufferLoad, path: Path) -> Value:
        """The same for a store of several elements in a row."""
        index = stmt.indices[-1]
        if len(stmt.indices) > 1 or not isinstance(index, pe.Ramp):
            return None
        lanes, stride = index.lanes, index.stride
        if not isinstance(lanes, int) or not isinstance(stride, IntImm) or stride.value < 1:
            return None
        offset = self.ana.simplify(subtract(load.indices[0], index.base))
        last = (lanes - 1) * stride.value
        prove = self.ana.can_prove
        if prove(offset < 0) or prove(offset > last) or prove(offset % stride != 0):
            return SAME
        if not (prove(offset >= 0) and prove(offset <= last) and prove(offset % stride == 0)):
            return None
        value = stmt.value
        if isinstance(value, pe.Ramp):
            value = add(value.base, multiply(value.stride, floordiv(offset, stride)))
        elif isinstance(value, pe.Broadcast):
            value = value.value
        else:
            return None
        return self._stored(value, load, path)

    def _for(self, stmt: st.For, load: BufferLoad, path: Path) -> Value:
        if has_effect(stmt.min) or has_effect(stmt.extent):
            return None
        low, end = stmt.min, add(stmt.min, stmt.extent)
        for at in self._turns(stmt, load):
            if not (self.ana.can_prove(low <= at) and self.ana.can_prove(at < end)):
                continue
            if not self.others(stmt, at, load, path):
                continue
            body = SubstituteStmt({stmt.loop_var: at}).visit(stmt.body)
            value = self.effect(body, load, (*path, Turn(stmt, at)))
            if value is not None and value is not SAME:
                return value
        return SAME if self.others(stmt, None, load, path) else None

    def _turns(self, loop: st.For, load: BufferLoad) -> Iterable[PrimExpr]:
        """Values of a loop's variable for which the body accesses the loaded element."""
        var, seen = loop.loop_var, []

        def collect(node: Node) -> bool:
            if isinstance(node, (st.BufferStore, BufferLoad)) and node.buffer is load.buffer:
                seen.extend(zip(node.indices, load.indices, strict=True))
            return False

        any_node(loop.body, collect)
        inner = {n for n in vars_in(loop.body) if n is not var}
        fresh = Var(var.name, var.dtype)
        for index, other in seen:
            if index.dtype.lanes > 1 or var not in vars_in(index):
                continue
            index = SubstituteStmt({var: fresh}).visit(index)
            for at in (fresh + (other - index), fresh - (other - index)):
                at = self.ana.simplify(at)
                used = vars_in(at)
                if fresh not in used and not (used & inner - vars_in(other)):
                    yield at

    def others(
        self, loop: st.For, at: PrimExpr | None, load: BufferLoad, path: Path, earlier: bool = False
    ) -> bool:
        """Whether the iterations of a loop do not change the loaded element: all (for None), those
        that run before the one at `at`, or those after it."""
        var = Var(loop.loop_var.name, loop.loop_var.dtype)
        body = SubstituteStmt({loop.loop_var: var}).visit(loop.body)
        with ExitStack() as scopes:
            scopes.enter_context(self.ana.loop_scope(var, loop.range))
            if at is not None:
                ordered = loop.kind in _ORDERED
                when = (var < at if earlier else var > at) if ordered else var != at
                if self.ana.can_prove(pe.Not(when)):
                    return True
                scopes.enter_context(self.ana.constraint_scope(when))
            return self.effect(body, load, (*path, Turn(loop, var))) is SAME

    def _if(self, stmt: st.IfThenElse, load: BufferLoad, path: Path) -> Value:
        if has_effect(stmt.condition):
            return None
        yes, no = (
            conjunction(p for p in parts_of(stmt.condition, holds) if not reads_memory(p))
            for holds in (True, False)
        )
        value = self._branches(stmt, yes, no, load, path)
        if value is None and reads_memory(stmt.condition):
            condition = self._then(stmt.condition, path)
            value = self._branches(stmt, condition, pe.Not(condition), load, path)
        return value

    def _branches(
        self, stmt: st.IfThenElse, yes: PrimExpr, no: PrimExpr, load: BufferLoad, path: Path
    ) -> Value:
        """The value in memory after the branches; `yes`, `no`: the conditions under which they
        run."""
        results: list[Value] = []
        entered = (stmt.condition, pe.Not(stmt.condition))
        for case, condition, branch in zip(
            (stmt.then_case, stmt.else_case), (yes, no), entered, strict=True
        ):
            if self._is_false(condition):
                continue
            if case is None:
                results.append(SAME)
                continue
            with self.ana.constraint_scope(condition):
                results.append(self.effect(case, load, (*path, Assumed(branch))))
        first = results[0] if results else None
        return first if all(_equal(first, r) for r in results) else None

    def _evaluate(self, stmt: st.Evaluate, load: BufferLoad, path: Path) -> Value:
        if is_call_to(stmt.value, "assume"):
            return self.from_condition(stmt.value.args[0], load)
        return None if has_effect(stmt.value) else SAME

    def _let(self, stmt: st.LetStmt, load: BufferLoad, path: Path) -> Value:
        if has_effect(stmt.value):
            return None
        body = stmt.body
        if not reads_memory(stmt.value):
            body = SubstituteStmt({stmt.var: stmt.value}).visit(body)
        return self.effect(body, load, path)

    def from_condition(self, condition: PrimExpr, load: BufferLoad) -> Value:
        """The value of a load that a condition, which holds, says is equal to it."""
        for part in parts_of(condition, True):
            sides = [c for c in disjuncts(part) if reads_memory(c) or not self._is_false(c)]
            if len(sides) != 1 or not isinstance(sides[0], pe.EQ):
                continue
            a, b = sides[0].a, sides[0].b
            for one, other in ((a, b), (b, a)):
                if isinstance(one, BufferLoad) and self._is(one, load) and not reads_memory(other):
                    return other
        return SAME

    # ------------------------------------------------------------------ expressions

    def _is_false(self, condition: PrimExpr) -> bool:
        simple = self.ana.simplify(condition)
        return isinstance(simple, IntImm) and not simple.value

    def _is(self, a: BufferLoad, b: BufferLoad) -> bool:
        if a.buffer is not b.buffer or not _plain(a):
            return False
        return all(map(self.ana.can_prove_equal, a.indices, b.indices))

    def _then(self, expr: PrimExpr, path: Path, name: tuple[BufferLoad, Var] | None = None) -> Any:
        """The value of `expr` at a time that may be past, without loads: facts about memory are
        of now. `name`: the variable that replaces loads of one element."""

        def loaded(load: BufferLoad) -> Any:
            if name is not None and self._is(load, name[0]):
                return name[1]
            value = self.value(load, path) if _plain(load) else None
            return Var("unknown", load.dtype) if value is None else value

        return self.ana.simplify(rewrite(expr, {BufferLoad: loaded}, pre=keep_buffers))


class Following(Simplifying):
    """A rewriter that can look up the contents of memory. Its methods for sequences, loops and
    branches record their position, by `inside`."""

    def __init__(self, ana: Analyzer | None = None) -> None:
        super().__init__(ana)
        self.memory = KnownValues(self.ana)
        self.path: Path = ()

    @contextmanager
    def inside(self, *frames: Frame) -> Iterator[None]:
        """A scope further inside the code."""
        path = self.path
        self.path = (*path, *frames)
        try:
            yield
        finally:
            self.path = path

    def visit_While(self, node: st.While) -> Any:
        with self.inside(Unclear(node)):
            return super().visit_default(node)

    def visit_BlockRealize(self, node: st.BlockRealize) -> Any:
        with self.inside(Unclear(node)):
            return super().visit_BlockRealize(node)

    def visit_AttrStmt(self, node: st.AttrStmt) -> Any:
        with self.inside(Unclear(node)) if isinstance(node.node, pe.IterVar) else nullcontext():
            return super().visit_AttrStmt(node)


def _plain(load: BufferLoad) -> bool:
    return load.predicate is None and all(i.dtype.lanes == 1 for i in load.indices)


def disjuncts(condition: PrimExpr) -> list[Any]:
    """The conditions of which one must hold."""
    if isinstance(condition, pe.Or):
        return disjuncts(condition.a) + disjuncts(condition.b)
    if isinstance(condition, pe.Not) and isinstance(condition.a, pe.NE):
        return [pe.EQ(condition.a.a, condition.a.b)]
    return [condition]


def _equal(a: Value, b: Value) -> bool:
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return a.value == b.value
    return a is b


def _body(memory: KnownValues, stmt: Any, load: BufferLoad, path: Path) -> Value:
    return memory.effect(stmt.body, load, path)


_EFFECTS: dict[type, Any] = {
    st.BufferStore: KnownValues._store,
    st.For: KnownValues._for,
    st.IfThenElse: KnownValues._if,
    st.Evaluate: KnownValues._evaluate,
    st.LetStmt: KnownValues._let,
    st.SeqStmt: lambda memory, stmt, load, path: memory.sequence(tuple(stmt.seq), load, path),
    st.Allocate: _body,
    st.DeclBuffer: _body,
    st.AssertStmt: _body,
}
