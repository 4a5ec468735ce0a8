"""Expressions of lowered TensorIR as LLVM text: the primitive operations of the machine.

`tir.transform.LowerScalarOps` has lowered the others; what remains means:

* integers wrap around; indices (in loads, stores and their `LetStmt`s) do not overflow;
* comparisons with NaN are false, except `!=`;
* a product and a sum may be fused into one rounding (`contract`; see `tir.contraction`), nothing else
  is reordered;
* `if_then_else` evaluates only the chosen operand, lane by lane (loads are masked). `Select`
  evaluates both unless its condition depends on indices and an operand loads: then as above.
"""

from __future__ import annotations

from typing import Any

from ...base.errors import LoopwrightError, explain
from ...ir import prim_expr as pe
from ...ir.dtype import DataType
from ...ir.prim_expr import Broadcast, Call, FloatImm, IntImm, PrimExpr, Ramp, Var
from ...tir.contraction import stays
from ...tir.expr import BufferLoad
from ..context import INDEX, call
from .choice import logical, select
from .convert import cast
from .function_text import FunctionText
from .memory import load
from .types import literal, llvm_type, scalar_type, wrap

# Instructions by node: on signed integers, unsigned ones, floats.


_BINARY = {
    pe.Add: ("add", "add", "fadd contract"),
    pe.Sub: ("sub", "sub", "fsub contract"),
    pe.Mul: ("mul", "mul", "fmul contract"),
    pe.Div: ("sdiv", "udiv", "fdiv"),
    pe.Mod: ("srem", "urem", "frem"),
    pe.EQ: ("icmp eq", "icmp eq", "fcmp oeq"),
    pe.NE: ("icmp ne", "icmp ne", "fcmp une"),
    pe.LT: ("icmp slt", "icmp ult", "fcmp olt"),
    pe.LE: ("icmp sle", "icmp ule", "fcmp ole"),
    pe.GT: ("icmp sgt", "icmp ugt", "fcmp ogt"),
    pe.GE: ("icmp sge", "icmp uge", "fcmp oge"),
}


_WRAPPING = (pe.Add, pe.Sub, pe.Mul)


def instruction(kind: type, dtype: DataType) -> str:
    """The instruction for an operation on a type."""
    return _BINARY[kind][2 if dtype.is_float else 0 if dtype.is_int else 1]


def binary(ctx: FunctionText, node: pe.BinaryOpExpr) -> str:
    """Arithmetic; on an index it does not overflow."""
    kind, dtype = type(node), node.dtype
    a, b = ctx.expr(node.a), ctx.expr(node.b)
    exact = " nsw" if ctx.mode == INDEX and dtype.is_int and kind in _WRAPPING else ""
    opcode = instruction(kind, dtype) + exact
    if dtype.is_float and stays(node):
        opcode = opcode.removesuffix(" contract")
    return ctx.op(opcode, dtype, a, b)


def compare(ctx: FunctionText, node: pe.CmpExpr) -> str:
    """A comparison; its operands are data."""
    dtype = node.a.dtype
    return ctx.op(instruction(type(node), dtype), dtype, ctx.data(node.a), ctx.data(node.b))


def extremum(ctx: FunctionText, node: pe.Min | pe.Max) -> str:
    """Min and max of integers."""
    if node.dtype.is_float:
        return ctx.expr(ctx.scalars(node))
    name = ("s" if node.dtype.is_int else "u") + ("max" if isinstance(node, pe.Max) else "min")
    return ctx.intrinsic(name, node.dtype, ctx.expr(node.a), ctx.expr(node.b))


def number(ctx: FunctionText, node: IntImm | FloatImm) -> str:
    return literal(node.value, node.dtype)


def string(ctx: FunctionText, node: pe.StringImm) -> str:
    return f"@{ctx.module.string(node.value)}"


def invert(ctx: FunctionText, node: pe.Not) -> str:
    return ctx.op("xor", node.dtype, ctx.expr(node.a), ctx.splat("true", node.dtype))


def let(ctx: FunctionText, node: pe.Let) -> str:
    ctx.env[node.var] = ctx.expr(node.value)
    return ctx.expr(node.body)


def broadcast(ctx: FunctionText, node: Broadcast) -> str:
    value = ctx.expr(node.value)
    if node.value.dtype.lanes == 1:
        return ctx.spread(value, node.dtype)
    return tiled(ctx, value, node.value.dtype, node.dtype.lanes)


def tiled(ctx: FunctionText, value: str, dtype: DataType, lanes: int) -> str:
    """A vector repeated until it has `lanes` lanes."""
    picks = [k % dtype.lanes for k in range(lanes)]
    return ctx.shuffled(llvm_type(dtype), value, "poison", picks)


def ramp(ctx: FunctionText, node: Ramp) -> str:
    """base, base + stride, ...; a vector base is repeated whole."""
    dtype, element = node.dtype, node.base.dtype.element
    inner, kind = node.base.dtype.lanes, llvm_type(node.dtype)
    base = ctx.expr(node.base)
    whole = (
        ctx.spread(base, dtype) if inner == 1 else tiled(ctx, base, node.base.dtype, dtype.lanes)
    )
    counts = [k // inner for k in range(dtype.lanes)]
    step = node.stride.value if isinstance(node.stride, Broadcast) else node.stride
    if isinstance(step, IntImm):
        offsets = _vector([wrap(k * step.value, element) for k in counts], element)
    else:
        value = ctx.expr(step)
        one = step.dtype.lanes == 1
        stride = ctx.spread(value, dtype) if one else tiled(ctx, value, step.dtype, dtype.lanes)
        offsets = ctx.op("mul", dtype, stride, _vector(counts, element))
    if base == "0" and inner == 1:
        return offsets
    return ctx.value(f"add {kind} {whole}, {offsets}")


def shuffle(ctx: FunctionText, node: pe.Shuffle) -> str:
    dtype = node.dtype
    picks = [_lane(index, node) for index in node.indices]
    sizes = {v.dtype.lanes for v in node.vectors}
    if len(sizes) == 1 and sizes != {1} and dtype.lanes > 1:
        return _picked(ctx, node, picks, sizes.pop())
    lanes: list[tuple[PrimExpr, int]] = []
    for v in node.vectors:
        lanes += [(v, k) for k in range(v.dtype.lanes)]
    kind, base, result = llvm_type(dtype), scalar_type(dtype), "poison"
    for lane, pick in enumerate(picks):
        vector, k = lanes[pick]
        item = ctx.expr(vector)
        if vector.dtype.lanes > 1:
            item = ctx.value(f"extractelement {llvm_type(vector.dtype)} {item}, i64 {k}")
        if dtype.lanes == 1:
            return item
        result = ctx.value(f"insertelement {kind} {result}, {base} {item}, i64 {lane}")
    return result


def _picked(ctx: FunctionText, node: pe.Shuffle, picks: list[int], lanes: int) -> str:
    """Lanes of vectors of one length: joined two by two, then shuffled once."""
    parts = [ctx.expr(v) for v in node.vectors]
    while len(parts) > 2:
        parts += ["poison"] * (len(parts) % 2)
        kind, whole = llvm_type(node.dtype.with_lanes(lanes)), list(range(2 * lanes))
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts, lanes = [ctx.shuffled(kind, a, b, whole) for a, b in pairs], 2 * lanes
    kind = llvm_type(node.dtype.with_lanes(lanes))
    return ctx.shuffled(kind, parts[0], (parts + ["poison"])[1], picks)


def _vector(values: list[int], element: DataType) -> str:
    base = scalar_type(element)
    return "<" + ", ".join(f"{base} {v}" for v in values) + ">"


def _lane(index: PrimExpr, node: pe.Shuffle) -> int:
    if not isinstance(index, IntImm):
        what = "Shuffle needs literal lanes"
        raise LoopwrightError(explain(what, got=str(index), span=node.span))
    return index.value


EXPRESSIONS: dict[type, Any] = {
    **dict.fromkeys((Var, pe.SizeVar), FunctionText.var),
    **dict.fromkeys((IntImm, FloatImm), number),
    pe.StringImm: string,
    **dict.fromkeys((pe.Add, pe.Sub, pe.Mul, pe.Div, pe.Mod), binary),
    **dict.fromkeys((pe.EQ, pe.NE, pe.LT, pe.LE, pe.GT, pe.GE), compare),
    **dict.fromkeys((pe.Min, pe.Max), extremum),
    **dict.fromkeys((pe.And, pe.Or), logical),
    pe.Not: invert,
    pe.Select: select,
    pe.Let: let,
    pe.Cast: cast,
    Broadcast: broadcast,
    Ramp: ramp,
    pe.Shuffle: shuffle,
    BufferLoad: load,
    Call: call,
}
