"""Expressions of lowered TensorIR as LLVM text. What they mean, where LLVM leaves a choice:

* integers wrap around; indices (in loads, stores and their `LetStmt`s) do not overflow;
* integer division and remainder by 0 give 0, as in numpy; the least value by -1 wraps;
* shifts by as many bits as the type has, or more, move every bit out;
* min and max of floats: NaN wins; comparisons with NaN are false but for `!=`;
* a product and a sum may be fused into one rounding (`contract`), nothing else is reordered;
* `if_then_else` evaluates only the chosen side, lane by lane (loads are masked). `Select`
  evaluates both unless its condition looks at indices and a side loads: then as `if_then_else`.
"""

from __future__ import annotations

from typing import Any

from ...base.errors import LoopwrightError, explain
from ...ir import prim_expr as pe
from ...ir.dtype import DataType
from ...ir.prim_expr import Broadcast, Call, FloatImm, IntImm, PrimExpr, Ramp, Var
from ...tir.expr import BufferLoad
from ...tir.op import is_call_to
from .calls import CallEmitter
from .types import flag_type, is_soft, literal, llvm_type, scalar_type, wrap

_BINARY = {
    pe.Add: ("add", "fadd contract", "or"),
    pe.Sub: ("sub", "fsub contract", "xor"),
    pe.Mul: ("mul", "fmul contract", "and"),
}
_COMPARE = {
    pe.EQ: ("eq", "eq", "oeq"),
    pe.NE: ("ne", "ne", "une"),
    pe.LT: ("slt", "ult", "olt"),
    pe.LE: ("sle", "ule", "ole"),
    pe.GT: ("sgt", "ugt", "ogt"),
    pe.GE: ("sge", "uge", "oge"),
}


class ExprEmitter(CallEmitter):
    """Emits expressions."""

    def expr(self, node: Any) -> str:
        """The value of an expression."""
        handler = _EXPRESSIONS.get(type(node))
        if handler is None:
            what = f"{type(node).__name__} has no LLVM code"
            hint = "run the passes of tir.transform.default_tir_pipeline() first"
            raise LoopwrightError(explain(what, got=str(node), instead=hint, span=node.span))
        return handler(self, node)

    def number(self, node: IntImm | FloatImm) -> str:
        return literal(node.value, node.dtype)

    def string(self, node: pe.StringImm) -> str:
        return f"@{self.module.string(node.value)}"

    # -- arithmetic ----------------------------------------------------------------------------

    def binary(self, node: pe.BinaryOpExpr) -> str:
        dtype = node.dtype
        a, b = self.expr(node.a), self.expr(node.b)
        whole, real, logical = _BINARY[type(node)]
        if dtype.is_float:
            if is_soft(dtype):
                return self.in_float32(dtype, (a, b), lambda f, x, y: self.op(real, f, x, y))
            return self.op(real, dtype, a, b)
        if dtype.is_bool:
            return self.op(logical, dtype, a, b)
        return self.op(f"{whole} nsw" if self.indexing and dtype.is_int else whole, dtype, a, b)

    def divide(self, node: Any) -> str:
        """Div, Mod, FloorDiv and FloorMod."""
        dtype, kind = node.dtype, type(node)
        a, b = self.expr(node.a), self.expr(node.b)
        if dtype.is_float:
            if is_soft(dtype):
                return self.in_float32(dtype, (a, b), lambda f, x, y: self.real(kind, f, x, y))
            return self.real(kind, dtype, a, b)
        known = _divisor(node.b, dtype)
        floors = kind is pe.FloorDiv or kind is pe.FloorMod or not dtype.is_int
        if known is not None and known > 0 and known & (known - 1) == 0 and floors:
            if kind is pe.FloorMod or kind is pe.Mod:
                return self.op("and", dtype, a, self.splat(str(known - 1), dtype))
            shift = "ashr" if dtype.is_int else "lshr"
            return self.op(shift, dtype, a, self.splat(str(known.bit_length() - 1), dtype))
        if known in (None, 0, -1) and not (self.indexing and self.mask is None):
            return self.guarded_divide(kind, dtype, a, b)
        return self.plain_divide(kind, dtype, a, b)

    def real(self, kind: type, dtype: DataType, a: str, b: str) -> str:
        """Division of floats; floor division and its remainder are Python's."""
        if kind is pe.Div:
            return self.op("fdiv", dtype, a, b)
        if kind is pe.FloorDiv:
            return self.intrinsic("floor", dtype, self.op("fdiv", dtype, a, b))
        rest = self.op("frem", dtype, a, b)
        if kind is pe.Mod:
            return rest
        zero = self.splat(literal(0.0, dtype.element), dtype)
        flags = DataType("bool").with_lanes(dtype.lanes)
        signs = (self.test("fcmp olt", dtype, x, zero) for x in (rest, b))
        mixed = self.op("xor", flags, *signs)
        some = self.test("fcmp une", dtype, rest, zero)
        moved = self.op("fadd", dtype, rest, b)
        return self.choose(self.op("and", flags, mixed, some), moved, rest, dtype)

    def plain_divide(self, kind: type, dtype: DataType, a: str, b: str) -> str:
        """Division by what is neither 0 nor -1."""
        quotient = kind is pe.Div or kind is pe.FloorDiv
        if not dtype.is_int:
            return self.op("udiv" if quotient else "urem", dtype, a, b)
        if kind is pe.Div or kind is pe.Mod:
            return self.op("sdiv" if quotient else "srem", dtype, a, b)
        # Round down: where a rest has the other sign than the divisor, one less.
        rest = self.op("srem", dtype, a, b)
        zero = self.splat("0", dtype)
        some = self.test("icmp ne", dtype, rest, zero)
        mixed = self.test("icmp slt", dtype, self.op("xor", dtype, rest, b), zero)
        moved = self.op("and", DataType("bool").with_lanes(dtype.lanes), some, mixed)
        if not quotient:
            return self.choose(moved, self.op("add", dtype, rest, b), rest, dtype)
        toward_zero = self.op("sdiv", dtype, a, b)
        low = self.op("sub", dtype, toward_zero, self.splat("1", dtype))
        return self.choose(moved, low, toward_zero, dtype)

    def guarded_divide(self, kind: type, dtype: DataType, a: str, b: str) -> str:
        """Division by anything: the machine's would stop the process for 0, and -1 may overflow."""
        zero, one = self.splat("0", dtype), self.splat(literal(1, dtype.element), dtype)
        none = self.test("icmp eq", dtype, b, zero)
        special = none
        if dtype.is_int:
            minus = self.test("icmp eq", dtype, b, self.splat("-1", dtype))
            special = self.op("or", DataType("bool").with_lanes(dtype.lanes), none, minus)
        safe = self.choose(special, one, b, dtype)
        result = self.plain_divide(kind, dtype, a, safe)
        if kind is pe.Mod or kind is pe.FloorMod:
            return result  # of 1: 0
        if dtype.is_int:
            result = self.choose(minus, self.op("sub", dtype, zero, a), result, dtype)
        return self.choose(none, zero, result, dtype)

    def extremum(self, node: pe.Min | pe.Max) -> str:
        """Min and max. On floats NaN wins: a NaN on either side is the result."""
        a, b = self.expr(node.a), self.expr(node.b)
        dtype, largest = node.dtype, isinstance(node, pe.Max)
        if dtype.is_bool:
            return self.op("or" if largest else "and", dtype, a, b)
        if not dtype.is_float:
            name = ("s" if dtype.is_int else "u") + ("max" if largest else "min")
            return self.intrinsic(name, dtype, a, b)
        if _is_number(node.a):
            a, b = b, a
        checked = not (_is_number(node.a) or _is_number(node.b))
        if is_soft(dtype):
            wide = lambda f, x, y: self.real_extremum(largest, checked, f, x, y)  # noqa: E731
            return self.in_float32(dtype, (a, b), wide)
        return self.real_extremum(largest, checked, dtype, a, b)

    def real_extremum(self, largest: bool, checked: bool, dtype: DataType, a: str, b: str) -> str:
        # x86's max(b, a) gives a when either is NaN: a's NaN passes, b's needs a look.
        wins = self.test("fcmp ogt" if largest else "fcmp olt", dtype, b, a)
        chosen = self.choose(wins, b, a, dtype)
        if not checked:
            return chosen
        broken = self.test("fcmp uno", dtype, b, b)
        return self.choose(broken, b, chosen, dtype)

    # -- conditions ----------------------------------------------------------------------------

    def compare(self, node: pe.CmpExpr) -> str:
        dtype = node.a.dtype
        before, self.indexing = self.indexing, False
        a, b = self.expr(node.a), self.expr(node.b)
        self.indexing = before
        signed, unsigned, real = _COMPARE[type(node)]
        if not dtype.is_float:
            return self.test(f"icmp {signed if dtype.is_int else unsigned}", dtype, a, b)
        if is_soft(dtype):
            wide = DataType("float32").with_lanes(dtype.lanes)
            a, b, dtype = self.widen(a, dtype), self.widen(b, dtype), wide
        return self.test(f"fcmp {real}", dtype, a, b)

    def logical(self, node: pe.And | pe.Or) -> str:
        """Both sides, unless the left one guards a load in the right one."""
        if node.dtype.lanes == 1 and reads_memory(node.b) and guards(node.a):
            return self.short_circuit(node)
        name = "and" if isinstance(node, pe.And) else "or"
        return self.op(name, node.dtype, self.expr(node.a), self.expr(node.b))

    def short_circuit(self, node: pe.And | pe.Or) -> str:
        """The right side only where the left one does not decide."""
        both = isinstance(node, pe.And)
        more, done = self.label("more"), self.label("decided")
        left = self.expr(node.a)
        start = self.block
        self.jump_if(left, *((more, done) if both else (done, more)))
        self.place(more)
        mark = len(self.trail)
        right = self.expr(node.b)
        self.forget(mark)
        end = self.block
        self.jump(done)
        self.place(done)
        known = "false" if both else "true"
        return self.fresh(f"phi i1 [ {known}, %{start} ], [ {right}, %{end} ]")

    def invert(self, node: pe.Not) -> str:
        return self.op("xor", node.dtype, self.expr(node.a), self.splat("true", node.dtype))

    def select(self, node: pe.Select) -> str:
        sides = (node.true_value, node.false_value)
        if any(map(reads_memory, sides)) and guards(node.condition):
            return self.choice(node.condition, *sides, node.dtype)
        cond = self.expr(node.condition)
        yes, no = map(self.expr, sides)
        return self.choose(cond, yes, no, node.dtype, node.condition.dtype.lanes)

    def let(self, node: pe.Let) -> str:
        self.env[node.var] = self.expr(node.value)
        return self.expr(node.body)

    def cast(self, node: pe.Cast) -> str:
        if self.indexing and node.value.dtype.is_float:
            return self.convert(self.value_of(node.value), node.value.dtype, node.dtype)
        return self.convert(self.expr(node.value), node.value.dtype, node.dtype)

    # -- vectors -------------------------------------------------------------------------------

    def broadcast(self, node: Broadcast) -> str:
        value = self.expr(node.value)
        if node.value.dtype.lanes == 1:
            return self.spread(value, node.dtype)
        return self.tiled(value, node.value.dtype, node.lanes)

    def tiled(self, value: str, dtype: DataType, times: int) -> str:
        """A vector repeated."""
        return self.shuffled(llvm_type(dtype), value, "poison", [*range(dtype.lanes)] * times)

    def ramp(self, node: Ramp) -> str:
        """base, base + stride, ...; a vector base comes whole each time."""
        dtype, element = node.dtype, node.base.dtype.element
        inner, kind = node.base.dtype.lanes, llvm_type(node.dtype)
        base = self.expr(node.base)
        whole = (
            self.spread(base, dtype)
            if inner == 1
            else self.tiled(base, node.base.dtype, node.lanes)
        )
        counts = [k // inner for k in range(dtype.lanes)]
        if isinstance(node.stride, IntImm):
            offsets = _vector([wrap(k * node.stride.value, element) for k in counts], element)
        else:
            stride = self.spread(self.expr(node.stride), dtype)
            offsets = self.op("mul", dtype, stride, _vector(counts, element))
        if base == "0" and inner == 1:
            return offsets
        return self.value(f"add {kind} {whole}, {offsets}")

    def shuffle(self, node: pe.Shuffle) -> str:
        dtype = node.dtype
        picks = [_lane(index, node) for index in node.indices]
        if len(node.vectors) == 1 and node.vectors[0].dtype.lanes > 1 and dtype.lanes > 1:
            vector = node.vectors[0]
            return self.shuffled(llvm_type(vector.dtype), self.expr(vector), "poison", picks)
        lanes: list[tuple[PrimExpr, int]] = []
        for v in node.vectors:
            lanes += [(v, k) for k in range(v.dtype.lanes)]
        kind, base, result = llvm_type(dtype), scalar_type(dtype), "poison"
        for place, pick in enumerate(picks):
            vector, k = lanes[pick]
            item = self.expr(vector)
            if vector.dtype.lanes > 1:
                item = self.value(f"extractelement {llvm_type(vector.dtype)} {item}, i64 {k}")
            if dtype.lanes == 1:
                return item
            result = self.value(f"insertelement {kind} {result}, {base} {item}, i64 {place}")
        return result

    # -- choices -------------------------------------------------------------------------------

    def choice(self, cond: PrimExpr, yes: PrimExpr, no: PrimExpr, dtype: DataType) -> str:
        """`yes` where `cond` holds, else `no`; the other side has no effect."""
        if cond.dtype.lanes > 1:
            return self.masked_choice(cond, yes, no, dtype)
        conditions, inner = _guards(cond, yes, no)
        load = inner.value if isinstance(inner, Broadcast) else inner
        if isinstance(load, BufferLoad) and _is_zero(no) and self.can_redirect(load):
            flag, *others = map(self.expr, conditions)
            for other in others:
                flag = self.op("and", cond.dtype, flag, other)
            return self.guarded_load(flag, load, inner)
        return self.branching_choice(cond, yes, no, dtype)

    def branching_choice(self, cond: PrimExpr, yes: PrimExpr, no: PrimExpr, dtype: DataType) -> str:
        labels = self.label("yes"), self.label("no"), self.label("chosen")
        self.jump_if(self.expr(cond), labels[0], labels[1])
        arms = []
        for label, value in ((labels[0], yes), (labels[1], no)):
            self.place(label)
            mark = len(self.trail)
            arms.append((self.expr(value), self.block))
            self.forget(mark)
            self.jump(labels[2])
        self.place(labels[2])
        sources = ", ".join(f"[ {v}, %{b} ]" for v, b in arms)
        return self.fresh(f"phi {llvm_type(dtype)} {sources}")

    def masked_choice(self, cond: PrimExpr, yes: PrimExpr, no: PrimExpr, dtype: DataType) -> str:
        """A choice lane by lane: each side is evaluated with its loads masked."""
        flag = self.expr(cond)
        lanes, kind = cond.dtype.lanes, flag_type(cond.dtype)
        inverse = self.value(f"xor {kind} {flag}, splat (i1 true)")
        outer, arms = self.mask, []
        for mask, value in ((flag, yes), (inverse, no)):
            if outer is not None and outer[1] == lanes:
                mask = self.value(f"and {kind} {mask}, {outer[0]}")
            self.mask = (mask, lanes)
            arms.append(self.expr(value))
        self.mask = outer
        return self.choose(flag, arms[0], arms[1], dtype)


def _vector(values: list[int], element: DataType) -> str:
    base = scalar_type(element)
    return "<" + ", ".join(f"{base} {v}" for v in values) + ">"


def _lane(index: PrimExpr, node: pe.Shuffle) -> int:
    if not isinstance(index, IntImm):
        what = "Shuffle needs literal lanes"
        raise LoopwrightError(explain(what, got=str(index), span=node.span))
    return index.value


def _divisor(expr: PrimExpr, dtype: DataType) -> int | None:
    """The literal divisor (of every lane)."""
    if isinstance(expr, Broadcast):
        expr = expr.value
    return wrap(expr.value, dtype) if isinstance(expr, IntImm) else None


def _is_number(expr: PrimExpr) -> bool:
    """A float literal that is not NaN."""
    if isinstance(expr, Broadcast):
        expr = expr.value
    return isinstance(expr, FloatImm) and expr.value == expr.value


def _is_plain(expr: PrimExpr) -> bool:
    """Whether an expression neither loads nor calls, so that it can be evaluated anywhere."""
    return not isinstance(expr, (BufferLoad, Call)) and all(map(_is_plain, _parts(expr)))


def _guards(cond: PrimExpr, yes: PrimExpr, no: PrimExpr) -> tuple[list[PrimExpr], PrimExpr]:
    """The conditions of nested choices that are all 0 where they fail, and what they guard."""
    found = [cond]
    while _is_zero(no) and is_call_to(yes, "if_then_else"):
        cond, inner, no = yes.args
        if cond.dtype.lanes > 1 or not _is_zero(no) or not _is_plain(cond):
            break
        found.append(cond)
        yes = inner
    return found, yes


def _is_zero(expr: PrimExpr) -> bool:
    if isinstance(expr, Broadcast):
        expr = expr.value
    return isinstance(expr, (IntImm, FloatImm)) and expr.value == 0 and str(expr.value)[0] != "-"


def reads_memory(expr: PrimExpr) -> bool:
    """Whether an expression loads."""
    if isinstance(expr, BufferLoad):
        return True
    return any(reads_memory(c) for c in _parts(expr))


def guards(cond: PrimExpr) -> bool:
    """Whether a condition looks at variables, as one that guards a load does, and not only at data."""
    if isinstance(cond, (Var, pe.SizeVar)):
        return cond.dtype.is_integer
    if isinstance(cond, BufferLoad):
        return False
    return any(map(guards, _parts(cond)))


def _parts(expr: PrimExpr) -> Any:
    if isinstance(expr, pe.BinaryOpExpr):
        return (expr.a, expr.b)
    if isinstance(expr, (IntImm, FloatImm, Var)):
        return ()
    return [c for c in expr.children() if isinstance(c, PrimExpr)]


_E = ExprEmitter
_EXPRESSIONS: dict[type, Any] = {
    Var: _E.var,
    pe.SizeVar: _E.var,
    IntImm: _E.number,
    FloatImm: _E.number,
    pe.StringImm: _E.string,
    **dict.fromkeys(_BINARY, _E.binary),
    **dict.fromkeys((pe.Div, pe.Mod, pe.FloorDiv, pe.FloorMod), _E.divide),
    **dict.fromkeys(_COMPARE, _E.compare),
    pe.Min: _E.extremum,
    pe.Max: _E.extremum,
    pe.And: _E.logical,
    pe.Or: _E.logical,
    pe.Not: _E.invert,
    pe.Select: _E.select,
    pe.Let: _E.let,
    pe.Cast: _E.cast,
    Broadcast: _E.broadcast,
    Ramp: _E.ramp,
    pe.Shuffle: _E.shuffle,
    BufferLoad: _E.load,
    Call: _E.call,
}
