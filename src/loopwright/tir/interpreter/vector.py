"""Translation of vector expressions to numpy arrays, computed in their own type."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.errors import LoopwrightError, explain
from ...ir import prim_expr as pe
from ...ir.dtype import DataType, numpy_dtype
from ...ir.prim_expr import Call, PrimExpr, Var
from ..expr import BufferLoad
from . import lanes, meaning
from .expr import INFIX, ExprTranslator, is_small


def is_number(expr: PrimExpr) -> bool:
    """A float literal that is not NaN, in every lane."""
    if isinstance(expr, pe.Broadcast):
        expr = expr.value
    return isinstance(expr, pe.FloatImm) and expr.value == expr.value


class VectorTranslator(ExprTranslator):
    """Translates vector expressions to source text."""

    def vector(self, expr: PrimExpr) -> str:
        """The source text of a vector expression, a numpy array."""
        if expr.dtype.is_scalable:
            what = "the interpreter has no vectors whose length is known at run time"
            raise LoopwrightError(explain(what, got=expr.dtype))
        text = self.uncut(expr)
        dtype = expr.dtype
        computed = isinstance(expr, (pe.BinaryOpExpr, pe.Cast, Call, pe.Ramp))
        if computed and dtype.bits < 8 and (dtype.is_int or dtype.is_uint):
            return f"{self.helper(lanes.vector_cut)}({text}, {dtype.bits}, {dtype.is_int})"
        return text

    def uncut(self, expr: PrimExpr) -> str:
        """The source text before int4 is wrapped to its range."""
        if isinstance(expr, Var):
            return self.var(expr)[0]
        if isinstance(expr, BufferLoad):
            return self.vector_load(expr)
        if isinstance(expr, pe.Ramp):
            base, stride = self.value(expr.base), self.value(expr.stride)
            fn = self.helper(lanes.ramp)
            text = f"{fn}({base}, {stride}, {expr.lanes})"
            if isinstance(expr.stride, pe.IntImm) and expr.base.dtype.lanes == 1:
                text = f"({base} + {self.once(f'{fn}(0, {stride}, {expr.lanes})')})"
            return f"{text}.astype({self.kind(expr.dtype)})" if expr.dtype.bits < 32 else text
        if isinstance(expr, pe.Broadcast):
            value, kind = self.value(expr.value), self.kind(expr.dtype)
            text = f"{self.helper(lanes.broadcast)}({value}, {expr.lanes}, {kind})"
            return self.once(text) if isinstance(expr.value, pe.ConstExpr) else text
        if isinstance(expr, pe.Shuffle):
            return self.shuffle(expr)
        if isinstance(expr, pe.Cast):
            return self.vector_cast(expr)
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

    def once(self, text: str) -> str:
        """A value without variables, computed before all loops."""
        return self.hoisted(text, 0) if self.depth else text

    def vector_binary(self, expr: pe.BinaryOpExpr) -> str:
        a, b = self.value(expr.a), self.value(expr.b)
        sign = INFIX.get(type(expr))
        if expr.dtype.is_float and isinstance(expr, (pe.FloorDiv, pe.FloorMod)):
            down = isinstance(expr, pe.FloorDiv)
            fn = lanes.vector_floor_div if down else lanes.vector_floor_mod
            return self.as_float32(self.helper(fn), [a, b], expr.dtype)
        if sign is not None:
            return f"({a} {sign} {b})"
        if isinstance(expr, (pe.And, pe.Or)):
            return f"({a} {'&' if isinstance(expr, pe.And) else '|'} {b})"
        np_name = self.use("np", meaning.np)
        if isinstance(expr, (pe.Min, pe.Max)):
            if expr.dtype.is_float:
                if is_number(expr.a):
                    a, b = b, a  # as in scalars
                fn = lanes.vector_min if isinstance(expr, pe.Min) else lanes.vector_max
                return f"{self.helper(fn)}({a}, {b})"
            word = "minimum" if isinstance(expr, pe.Min) else "maximum"
            return f"{np_name}.{word}({a}, {b})"
        if expr.dtype.is_float:
            return f"({a} / {b})" if isinstance(expr, pe.Div) else f"{np_name}.fmod({a}, {b})"
        if isinstance(expr, pe.Div):
            return f"{self.helper(lanes.vector_trunc_div)}({a}, {b})"
        return f"{np_name}.fmod({a}, {b})"

    def as_float32(self, fn: str, args: list[str], dtype: DataType) -> str:
        """A call on vectors; small floats are computed in float32, as in compiled code."""
        if not is_small(dtype):
            return f"{fn}({', '.join(args)}).astype({self.kind(dtype)})"
        wide = self.kind(DataType("float32"))
        operands = ", ".join(f"{a}.astype({wide})" for a in args)
        return f"{fn}({operands}).astype({self.kind(dtype)})"

    def vector_cast(self, expr: pe.Cast) -> str:
        value, old, new = self.value(expr.value), expr.value.dtype, expr.dtype
        if new.is_bool:
            return f"({value} != 0)"
        if old.is_float and new.is_integer:
            key = f"_vector_to_{new.element}"
            if key not in self.names:
                kind = numpy_dtype(new.element)
                self.names[key] = lanes.vector_to_int(new.bits, new.is_int, kind)
            return f"{key}({value})"
        return f"{value}.astype({self.kind(new)})"

    def vector_load(self, node: BufferLoad) -> str:
        mask = self.mask
        if node.predicate is not None:
            own = self.value(node.predicate)
            mask = own if mask is None else f"({mask} & {own})"
        if mask is not None and node.indices[-1].dtype.lanes == 1:
            mask = None
        at = self.flat(node.buffer, node.indices, node.span, mask)
        if node.buffer.dtype.lanes > 1:
            at = f"{self.helper(lanes.element_lanes)}({at}, {node.buffer.dtype.lanes})"
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
        return f"{self.helper(lanes.vector_select)}(({name} := {test}), {left}, {right})"

    def unmasked(self, vectors: Sequence[PrimExpr]) -> list[str]:
        """Vectors whose lanes are not those of the choice around them: all their lanes count."""
        outer, self.mask = self.mask, None
        texts = [self.value(v) for v in vectors]
        self.mask = outer
        return texts

    def shuffle(self, node: pe.Shuffle) -> str:
        np_name = self.use("np", meaning.np)
        parts = ", ".join(self.unmasked(node.vectors))
        picks = ", ".join(self.scalar(i) for i in node.indices)
        return f"{np_name}.hstack([{parts}])[[{picks}]].astype({self.kind(node.dtype)})"

    def vector_call(self, node: Call) -> str:
        """The source text of a call that returns a vector."""
        raise NotImplementedError
