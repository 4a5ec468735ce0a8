"""Expressions of lowered TensorIR as C: primitive operations, and calls of small functions.

`tir.transform.LowerScalarOps` has lowered operations to ones that C has. Integers wrap around:
arithmetic that may overflow is done in unsigned types. Index arithmetic does not overflow.
`if_then_else` and `Select` evaluate only the chosen operand.
"""

from __future__ import annotations

from typing import Any

from ...base.errors import LoopwrightError, explain
from ...ir import prim_expr as pe
from ...ir.prim_expr import Call, FloatImm, IntImm, PrimExpr, Var
from ...tir.buffer import Buffer
from ...tir.contraction import stays
from ...tir.expr import BufferLoad
from ..context import DATA, NARROW, call, flat_index
from .function_text import FunctionText
from .functions import by_function, multiply_add, wrapped
from .types import bare, c_type, is_odd, is_small, literal, memory_type, unsigned

_SIGNS = {pe.Add: "+", pe.Sub: "-", pe.Mul: "*"}
_FMA = ("float32", "float64")
_COMPARE = {pe.EQ: "==", pe.NE: "!=", pe.LT: "<", pe.LE: "<=", pe.GT: ">", pe.GE: ">="}
_FLOORS, _REMAINDERS = (pe.FloorDiv, pe.FloorMod), (pe.Mod, pe.FloorMod)


def number(ctx: FunctionText, node: IntImm | FloatImm) -> str:
    return literal(node.value, ctx.type_of(node))


def string(ctx: FunctionText, node: pe.StringImm) -> str:
    escaped = "".join(
        c if 32 <= ord(c) < 127 and c not in '"\\?' else "".join(f"\\{b:03o}" for b in c.encode())
        for c in node.value
    )
    return f'"{escaped}"'


def binary(ctx: FunctionText, node: pe.BinaryOpExpr) -> str:
    """a + b, a - b or a * b."""
    dtype, sign = node.dtype, _SIGNS[type(node)]
    if (text := _fused(ctx, node)) is not None:
        return text
    a, b = ctx.expr(node.a), ctx.expr(node.b)
    wide = unsigned(dtype)
    if dtype.is_float or (c_type(dtype) == wide and not is_odd(dtype)):
        return f"({a} {sign} {b})"
    if dtype.is_int and dtype.bits >= 32 and (ctx.mode != DATA or ctx.ranges.fits(node)):
        return f"({a} {sign} {b})"  # cannot overflow
    return f"({wrapped(ctx.module, f'(({wide}){a} {sign} ({wide}){b})', dtype)})"


def _fused(ctx: FunctionText, node: pe.BinaryOpExpr) -> str | None:
    """a * b + c, a * b - c or c - a * b of floats, rounded once where the machine has an instruction."""
    if isinstance(node, pe.Mul) or str(node.dtype) not in _FMA or stays(node):
        return None
    less = isinstance(node, pe.Sub)
    for product, other, left in ((node.a, node.b, True), (node.b, node.a, False)):
        if isinstance(product, pe.Mul) and not stays(product):
            a, b, c = (ctx.bare(v) for v in (product.a, product.b, other))
            if less:
                a, c = (a, f"-({c})") if left else (f"-({a})", c)
            return f"{multiply_add(ctx.module, str(node.dtype))}({a}, {b}, {c})"
    return None


def divide(ctx: FunctionText, node: pe.BinaryOpExpr) -> str:
    """Division of floats; `Div`, `Mod`, `FloorDiv` and `FloorMod` of integers."""
    kind, dtype = type(node), ctx.type_of(node)
    divisor = node.b.value if isinstance(node.b, IntImm) else 0
    sign = "%" if kind in _REMAINDERS else "/"
    if dtype.is_float:
        return by_function(ctx, node) if kind in _REMAINDERS else quotient(ctx, node, sign)
    if ctx.meaning_of is not None:
        text = quotient(ctx, node, sign)
        return text if dtype.bits >= 32 else f"(({c_type(dtype)}){text})"
    if divisor > 0 and dtype.bits >= 32:
        if kind in _FLOORS and dtype.is_int and divisor & (divisor - 1) == 0:
            a = ctx.expr(node.a)
            part = kind is pe.FloorMod
            return f"({a} & {divisor - 1})" if part else f"({a} >> {divisor.bit_length() - 1})"
        if kind not in _FLOORS or not dtype.is_int or ctx.ranges.interval(node.a)[0] >= 0:
            return quotient(ctx, node, sign)
    return by_function(ctx, node)


def quotient(ctx: FunctionText, node: pe.BinaryOpExpr, sign: str) -> str:
    """Division by C's operator."""
    return f"({ctx.expr(node.a)} {sign} {ctx.expr(node.b)})"


def extremum(ctx: FunctionText, node: pe.Min | pe.Max) -> str:
    """Min and max; the operand that is not tested for NaN comes last."""
    if isinstance(node.a, FloatImm):
        node = type(node)._make(node.b, node.a)
    return by_function(ctx, node)


def compare(ctx: FunctionText, node: pe.CmpExpr) -> str:
    if ctx.ranges.fits_narrow(node.a) and ctx.ranges.fits_narrow(node.b):
        a, b = (f"({t})" if " " in t else t for t in map(ctx.index, (node.a, node.b)))
    else:
        a, b = ctx.data(node.a), ctx.data(node.b)
    return f"({a} {_COMPARE[type(node)]} {b})"


def logical(ctx: FunctionText, node: pe.And | pe.Or) -> str:
    sign = "&&" if isinstance(node, pe.And) else "||"
    sides = (ctx.expr(node.a), ctx.expr(node.b))
    # a && b && c needs no parentheses; compilers warn about && inside || without them.
    a, b = (
        bare(text) if type(side) is type(node) else text
        for side, text in zip((node.a, node.b), sides, strict=True)
    )
    return f"({a} {sign} {b})"


def invert(ctx: FunctionText, node: pe.Not) -> str:
    return f"!{ctx.expr(node.a)}"


def choice(ctx: FunctionText, cond: PrimExpr, yes: PrimExpr, no: PrimExpr) -> str:
    """`yes` if `cond` holds, else `no`; the other operand is not evaluated."""
    operands = (ctx.data(cond), ctx.expr(yes), ctx.expr(no))
    chosen = f"({operands[0]} ? {operands[1]} : {operands[2]})"
    kind = c_type(yes.dtype)
    # Both operands of ?: are promoted to int.
    return f"(({kind}){chosen})" if kind in ("int8_t", "int16_t", "uint8_t", "uint16_t") else chosen


def select(ctx: FunctionText, node: pe.Select) -> str:
    return choice(ctx, node.condition, node.true_value, node.false_value)


def if_then_else(ctx: FunctionText, node: Call) -> str:
    return choice(ctx, *node.args)


def let(ctx: FunctionText, node: pe.Let) -> str:
    """The value substituted for the variable: C has no variables inside expressions."""
    ctx.env[node.var] = ctx.expr(node.value)
    return ctx.expr(node.body)


def cast(ctx: FunctionText, node: pe.Cast) -> str:
    """A C conversion, or a call of a helper function."""
    old, new = node.value.dtype, node.dtype
    if ctx.mode == NARROW:
        return ctx.expr(node.value)
    if (old.is_float and (new.is_integer or is_small(old))) or is_small(new):
        same = ctx.meaning_of
        own = isinstance(same, pe.Cast) and (same.value.dtype.base, same.dtype.base)
        if new.base == "float8_e8m0fnu":
            what = "this type has no rounding in C code"
            raise LoopwrightError(explain(what, got=str(new), instead="compute in float32"))
        if own != (old.base, new.base):
            before, ctx.mode = ctx.mode, DATA
            text = by_function(ctx, node)
            ctx.mode = before
            return text
    text = ctx.data(node.value) if old.is_float else ctx.expr(node.value)
    if new.is_bool:
        return f"({text} != NULL)"
    if old.is_handle or new.is_handle:
        return f"(({c_type(new)})(uintptr_t){text})"
    if is_odd(new) and not (old.is_integer and old.bits < new.bits and old.is_int == new.is_int):
        return f"({wrapped(ctx.module, text, new)})"
    return f"(({c_type(new)}){text})"


def element(ctx: FunctionText, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> str:
    """The element of a flat buffer as a C lvalue."""
    if buffer.data_alignment < buffer.dtype.element.lane_bytes:
        what = f"C code accesses elements of {buffer.name} at multiples of their size"
        got = f"{buffer.dtype} aligned to {buffer.data_alignment}"
        raise LoopwrightError(explain(what, got=got, instead="copy it as bytes, or use LLVM"))
    index = flat_index(buffer, indices)
    base, kind = ctx.var(buffer.data), memory_type(buffer.dtype)
    at = ctx.index(index)
    pointee = ctx.pointees.get(buffer.data, "void")
    const = "const " if pointee.startswith("const ") else ""
    if pointee.removeprefix("const ") != kind:
        base = f"(({const}{kind}*){base})"
    return f"{base}[{at}]"


def load(ctx: FunctionText, node: BufferLoad) -> str:
    text = element(ctx, node.buffer, node.indices)
    if node.buffer.dtype.is_bool:
        text = f"({text} != 0)"
    if node.predicate is not None:
        return f"({ctx.data(node.predicate)} ? {text} : {literal(0, node.dtype)})"
    return text


EXPRESSIONS: dict[type, Any] = {
    **dict.fromkeys((Var, pe.SizeVar), FunctionText.var),
    **dict.fromkeys((IntImm, FloatImm), number),
    pe.StringImm: string,
    **dict.fromkeys(_SIGNS, binary),
    **dict.fromkeys((pe.Div, pe.Mod, pe.FloorDiv, pe.FloorMod), divide),
    **dict.fromkeys(_COMPARE, compare),
    **dict.fromkeys((pe.Min, pe.Max), extremum),
    **dict.fromkeys((pe.And, pe.Or), logical),
    pe.Not: invert,
    pe.Select: select,
    pe.Let: let,
    pe.Cast: cast,
    BufferLoad: load,
    Call: call,
}
