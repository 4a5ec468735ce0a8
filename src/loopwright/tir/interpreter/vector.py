"""Translation of vectors: numpy arrays, computed in their own type."""

from __future__ import annotations

from ...base.errors import LoopwrightError, explain
from ...ir import prim_expr as pe
from ...ir.prim_expr import Call, PrimExpr, Var
from ..expr import BufferLoad
from . import meaning
from .expr import INFIX, ExprTranslator


class VectorTranslator(ExprTranslator):
    """Source text of vector expressions."""

    def vector(self, expr: PrimExpr) -> str:
        """Text of the numpy array of a vector expression."""
        if isinstance(expr, Var):
            return self.var(expr)[0]
        if isinstance(expr, BufferLoad):
            return self.vector_load(expr)
        if isinstance(expr, pe.Ramp):
            made = f"{self.helper(meaning.ramp)}({self.value(expr.base)}, {self.value(expr.stride)}"
            return f"{made}, {expr.lanes})"
        if isinstance(expr, pe.Broadcast):
            kind = self.kind(expr.dtype)
            value = self.value(expr.value)
            return f"{self.helper(meaning.broadcast)}({value}, {expr.lanes}, {kind})"
        if isinstance(expr, pe.Shuffle):
            return self.shuffle(expr)
        if isinstance(expr, pe.Cast):
            return f"{self.value(expr.value)}.astype({self.kind(expr.dtype)})"
        if isinstance(expr, pe.Not):
            return f"(~{self.value(expr.a)})"
        if isinstance(expr, pe.Select):
            return self.vector_choice(expr.condition, expr.true_value, expr.false_value)
        if isinstance(expr, pe.Let):
            return self.let(expr)[0]
        if isinstance(expr, Call):
            return self.vector_call(expr)
        if isinstance(expr, pe.BinaryOpExpr):
            return self.vector_binary(expr)
        raise LoopwrightError(explain("no vector meaning", got=type(expr).__name__))

    def vector_binary(self, expr: pe.BinaryOpExpr) -> str:
        a, b = self.value(expr.a), self.value(expr.b)
        sign = INFIX.get(type(expr))
        if sign is not None:
            return f"({a} {sign} {b})"
        if isinstance(expr, (pe.And, pe.Or)):
            return f"({a} {'&' if isinstance(expr, pe.And) else '|'} {b})"
        np_name = self.use("np", meaning.np)
        if isinstance(expr, (pe.Min, pe.Max)):
            word = "minimum" if isinstance(expr, pe.Min) else "maximum"
            return f"{np_name}.{word}({a}, {b})"
        if expr.dtype.is_float:
            return f"({a} / {b})" if isinstance(expr, pe.Div) else f"{np_name}.fmod({a}, {b})"
        if isinstance(expr, pe.Div):
            return f"{self.helper(meaning.vector_trunc_div)}({a}, {b})"
        return f"{np_name}.fmod({a}, {b})"

    def vector_load(self, node: BufferLoad) -> str:
        mask = self.mask
        if node.predicate is not None:
            own = self.value(node.predicate)
            mask = own if mask is None else f"({mask} & {own})"
        if mask is not None and node.indices[-1].dtype.lanes == 1:
            mask = None
        at = self.flat(node.buffer, node.indices, node.span, mask)
        lanes = node.buffer.dtype.lanes
        if lanes > 1:
            at = f"{self.helper(meaning.element_lanes)}({at}, {lanes})"
        return f"{self.view(node.buffer, 'n')}[{at}]"

    def vector_choice(self, cond: PrimExpr, yes: PrimExpr, no: PrimExpr) -> str:
        if cond.dtype.lanes == 1:
            return f"({self.value(yes)} if {self.scalar(cond)} else {self.value(no)})"
        outer, name = self.mask, self.fresh("m")
        test = self.value(cond)
        self.mask = name if outer is None else f"({outer} & {name})"
        left = self.value(yes)
        self.mask = f"~{name}" if outer is None else f"({outer} & ~{name})"
        right = self.value(no)
        self.mask = outer
        return f"{self.helper(meaning.vector_select)}(({name} := {test}), {left}, {right})"

    def shuffle(self, node: pe.Shuffle) -> str:
        np_name = self.use("np", meaning.np)
        parts = ", ".join(self.value(v) for v in node.vectors)
        picks = ", ".join(self.scalar(i) for i in node.indices)
        return f"{np_name}.hstack([{parts}])[[{picks}]]"

    def vector_call(self, node: Call) -> str:
        """Text of a call that gives a vector."""
        raise NotImplementedError
