"""Type conversions as LLVM text: those that `tir.transform.LowerScalarOps` leaves.

float to int32 or int64 truncates; out-of-range values give the machine's result (on x86 the
least value). Floats of at most 8 bits are widened through a table.
"""

from __future__ import annotations

import numpy as np

from ...base.errors import LoopwrightError, explain
from ...ir.dtype import DataType, numpy_dtype
from ...ir.prim_expr import Call, Cast, PrimExpr, Var
from ..context import INDEX
from .function_text import FunctionText
from .types import is_soft, literal, llvm_type, mangle, scalar_type, vector_of

F32, F64, I32, I64 = (DataType(t) for t in ("float32", "float64", "int32", "int64"))


def convert(ctx: FunctionText, value: str, old: DataType, new: DataType) -> str:
    """A value converted between types of the same number of lanes."""
    if old.base == new.base:
        return value
    var = Var("value", old)
    ctx.env[var] = value
    return ctx.data(ctx.scalars(Cast._make(new, var)))


def cast(ctx: FunctionText, node: Cast) -> str:
    """A conversion that the machine has."""
    old, new = node.value.dtype, node.dtype
    if ctx.module.rounds and (old.base, new.base) == ("float32", "int32") and _is_round(node.value):
        kind, value = llvm_type(old), ctx.data(node.value.args[0])
        name = f"llvm.lrint.{mangle(new)}.{mangle(old)}"  # one instruction
        return ctx.value(ctx.calling(llvm_type(new), name, (kind, value)))
    value = ctx.data(node.value) if old.is_float and ctx.mode == INDEX else ctx.expr(node.value)
    if scalar_type(old) == scalar_type(new) and not old.is_float:
        return value
    if new.is_bool:  # pointer to bool
        return ctx.op("icmp ne", old, value, "null")
    if is_soft(new):
        return narrow(ctx, value, new)
    if is_soft(old):
        return widen(ctx, value, old)
    name = _instruction(old, new)
    if name == "ptrtoint" and value == "null":
        return "0"
    converted = ctx.value(f"{name} {llvm_type(old)} {value} to {llvm_type(new)}")
    if name == "fptosi":  # out-of-range values must not be poison
        return ctx.value(f"freeze {llvm_type(new)} {converted}")
    return converted


def _is_round(node: PrimExpr) -> bool:
    return isinstance(node, Call) and getattr(node.op, "name", "") == "tir.round"


def _instruction(old: DataType, new: DataType) -> str:
    if old.is_handle or new.is_handle:
        return "ptrtoint" if old.is_handle else "inttoptr"
    if old.is_float and new.is_float:
        return "fpext" if new.bits > old.bits else "fptrunc"
    if old.is_float:
        return "fptosi"
    if new.is_float:
        return "sitofp" if old.is_int else "uitofp"
    if not old.is_bool and new.bits < old.bits:
        return "trunc"
    return "sext" if old.is_int else "zext"


def widen(ctx: FunctionText, value: str, old: DataType) -> str:
    """A float of at most 8 bits as float32."""
    lanes, name = old.lanes, f"lw.from_{old.element}"
    table = ctx.module.helper(name, lambda: table_text(name, old.element))
    at = ctx.value(f"zext {llvm_type(old)} {value} to {vector_of('i64', lanes)}")
    pointers = ctx.value(f"getelementptr float, ptr @{table}, {vector_of('i64', lanes)} {at}")
    if lanes == 1:
        return ctx.value(f"load float, ptr {pointers}, align 4")
    wide, flags = f"<{lanes} x float>", (f"<{lanes} x i1>", "splat (i1 true)")
    args = (f"<{lanes} x ptr>", pointers), ("i32", "4"), flags, (wide, "zeroinitializer")
    return ctx.value(ctx.calling(wide, f"llvm.masked.gather.v{lanes}f32.v{lanes}p0", *args))


def narrow(ctx: FunctionText, value: str, new: DataType) -> str:
    """A float32 rounded to a float of at most 8 bits, by a function of the module."""
    if new.base == "float8_e8m0fnu":
        what = "this type has no rounding in LLVM code"
        raise LoopwrightError(explain(what, got=str(new), instead="compute in float32"))
    name, wide = f"lw_to_{new.base}_x{new.lanes}", F32.with_lanes(new.lanes)
    target, kind = llvm_type(new), llvm_type(wide)

    def text() -> str:
        (x,), meaning = ctx.scalars.meaning(Cast._make(new, Var("x", wide)))
        inside = type(ctx)(ctx.module, name, ctx.func)
        inside.env[x] = "%x"
        inside.emit(f"ret {target} {inside.expr(meaning)}")
        header = f"define internal {target} @{name}({kind} %x) nounwind {{"
        return "\n".join([header, *inside.lines, "}"])

    return ctx.value(f"call {target} @{ctx.module.helper(name, text)}({kind} {value})")


def table_text(name: str, dtype: DataType) -> str:
    """The constant `@name`: the float32 values of all 256 bytes of a float of at most 8 bits."""
    codes = np.arange(256, dtype=np.uint8)
    with np.errstate(invalid="ignore"):
        values = codes.view(numpy_dtype(dtype)).astype(np.float32)
    items = ", ".join(f"float {literal(float(v), F32)}" for v in values)
    return f"@{name} = private unnamed_addr constant [256 x float] [{items}], align 64"
