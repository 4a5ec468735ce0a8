"""Facts about functions and blocks: cost, purity."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...arith import Analyzer
from ...base.errors import explain
from ...ir.functor import Visitor
from ...ir.op import Op
from ...ir.prim_expr import BinaryOpExpr, Call, Cast, CmpExpr, LogicalExpr, Select, Var
from ...ir.variables import vars_in
from .. import stmt as st
from ..expr import BufferLoad
from ..function import PrimFunc
from ..op import effect_of, is_call_to

if TYPE_CHECKING:
    from ...ir.module import IRModule
    from ...ir.node import Node


def free_of(
    errors_of: Callable[[PrimFunc], list[str]],
    obj: IRModule | PrimFunc,
    raises: type[Exception] | None,
) -> bool:
    """Whether a PrimFunc (or each of a module) has no errors. The first is raised as `raises`, if
    given."""
    functions = [obj] if isinstance(obj, PrimFunc) else list(obj.functions.values())
    for func in functions:
        if isinstance(func, PrimFunc) and (errors := errors_of(func)):
            if raises is not None:
                raise raises(errors[0])
            return False
    return True


class Flops(Visitor):
    """Counts arithmetic operations; comparisons, calls and indices cost nothing, of two branches
    the more expensive one counts."""

    def __init__(self) -> None:
        self.total = 0.0
        self.ana = Analyzer()
        self.loops: set[Var] = set()

    def count(self, node: Node) -> float:
        outer, self.total = self.total, 0.0
        self.visit(node)
        inner, self.total = self.total, outer
        return inner

    def visit_BinaryOpExpr(self, node: BinaryOpExpr) -> None:
        self.total += node.a.dtype.lanes
        self.visit_default(node)

    def visit_CmpExpr(self, node: CmpExpr) -> None:
        """A comparison decides which values are computed."""

    def visit_LogicalExpr(self, node: LogicalExpr) -> None:
        self.visit_default(node)

    def visit_Select(self, node: Select) -> None:
        self.visit(node.condition)
        self.total += max(self.count(node.true_value), self.count(node.false_value))

    def visit_Cast(self, node: Cast) -> None:
        self.visit(node.value)

    def visit_Call(self, node: Call) -> None:
        if is_call_to(node, "if_then_else"):
            self.visit(node.args[0])
            self.total += max(self.count(node.args[1]), self.count(node.args[2]))
            return
        self.visit(node.args)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        """Index arithmetic is not counted."""

    def visit_BufferStore(self, node: st.BufferStore) -> None:
        self.visit(node.value)

    def visit_Evaluate(self, node: st.Evaluate) -> None:
        """The operations of a callee are not counted."""

    def visit_IfThenElse(self, node: st.IfThenElse) -> None:
        self.visit(node.condition)
        other = 0.0 if node.else_case is None else self.count(node.else_case)
        self.total += max(self.count(node.then_case), other)

    def visit_For(self, node: st.For) -> None:
        """Where the extent depends on loops around, its greatest value counts."""
        extent = self.ana.const_int_bound(node.extent).max_value
        extent_known = vars_in(node.extent) <= self.loops
        self.loops.add(node.loop_var)
        with self.ana.loop_scope(node.loop_var, node.range):
            inner = self.count(node.body)
        if inner and not extent_known:
            what = "the work of a loop of symbolic extent cannot be counted"
            raise ValueError(explain(what, got=str(node.extent), instead="specialize the function"))
        self.total += inner * max(extent, 0) if inner else 0

    def visit_While(self, node: st.While) -> None:
        what, hint = "the work of a while loop cannot be counted", "annotate estimated_flops"
        raise ValueError(explain(what, instead=hint))

    def visit_BlockRealize(self, node: st.BlockRealize) -> None:
        self.visit(node.block)

    def visit_Block(self, node: st.Block) -> None:
        said = node.annotations.get("estimated_flops")
        if said is not None:
            self.total += float(getattr(said, "value", said))
            return
        if node.init is not None:
            self.visit(node.init)
        self.visit(node.body)


def estimate_tir_flops(stmt_or_mod: Node) -> float:
    """Number of arithmetic operations of a statement, a PrimFunc, or all PrimFuncs of a module.

    A function or block may give its number as the attribute `estimated_flops`. Raises
    ValueError for loops of symbolic extent.
    """
    if isinstance(stmt_or_mod, PrimFunc):
        said = stmt_or_mod.attrs.get("estimated_flops")
        return float(said) if said is not None else Flops().count(stmt_or_mod.body)
    functions = getattr(stmt_or_mod, "functions", None)
    if functions is None:
        return Flops().count(stmt_or_mod)
    return sum(estimate_tir_flops(f) for f in functions.values() if isinstance(f, PrimFunc))


class _Purity(Visitor):
    def __init__(self) -> None:
        self.own: set[Var] = set()
        self.why: str | None = None

    def visit_Allocate(self, node: st.Allocate) -> None:
        self.own.add(node.buffer_var)
        self.visit_default(node)

    def visit_Block(self, node: st.Block) -> None:
        self.own.update(b.data for b in node.alloc_buffers)
        self.visit_default(node)

    def visit_BufferStore(self, node: st.BufferStore) -> None:
        if node.buffer.data not in self.own:
            self.why = self.why or f"it writes to {node.buffer.name}"
        self.visit_default(node)

    def visit_Call(self, node: Call) -> None:
        if effect_of(node) in ("opaque", "update"):
            name = node.op.name if isinstance(node.op, Op) else str(node.op)
            self.why = self.why or f"it calls {name}"
        self.visit(node.args)


def is_pure_function(func: PrimFunc) -> bool:
    """Whether a function writes only to its own memory and calls nothing with side effects."""
    return impurity(func) is None


def impurity(func: PrimFunc) -> str | None:
    """The first effect of a function on more than its own memory; None for a pure one."""
    walk = _Purity()
    walk.visit(func.body)
    return walk.why
