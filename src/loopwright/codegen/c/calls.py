"""Calls in lowered TensorIR as C: math, integer and pointer intrinsics, external C functions."""

from __future__ import annotations

from typing import Any

from ...base.errors import LoopwrightError, explain
from ...base.span import merge_spans
from ...ir.prim_expr import Add, Call, IntImm, PrimExpr, StringImm, Var
from ...tir.expr import BufferLoad
from ..context import CALLS as COMMON
from ..context import called_name, not_of_type
from .expr import element, if_then_else
from .function_text import FunctionText
from .functions import by_function, definition, rint, same_bits, wrapped
from .scalar_code import NAMES, elementary
from .types import MATH_H, c_type, memory_type, unsigned

_BITWISE = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}


def refuse_value(ctx: FunctionText, node: Call) -> str:
    """Program functions return only a status, so the value of such a call cannot be used."""
    what = f"the value of a call of {node.op.name_hint} is used"
    hint = "store the value in a buffer that the function is given"
    raise LoopwrightError(explain(what, instead=hint, span=node.span))


def math(ctx: FunctionText, node: Call) -> str:
    """A function on floats: of math.h, or one defined in the file."""
    name, dtype = node.op.name.removeprefix("tir."), node.dtype
    if dtype.base not in ("float32", "float64"):
        return not_of_type(ctx, node)
    if name in NAMES and dtype.base == "float32":
        called = elementary(ctx.module, name)
    elif name in ("round", "rint", "nearbyint") and dtype.base == "float32":
        called = rint(ctx.module)
    else:
        called = "rint" if name == "round" else name  # ties to even
        called += "" if dtype.base == "float64" else "f"
    return f"{called}({', '.join(map(ctx.bare, node.args))})"


def next_after(ctx: FunctionText, node: Call) -> str:
    """`nextafter` by math.h, or on the bits for float types that C does not have."""
    if node.dtype.bits < 16:
        return not_of_type(ctx, node)
    return (math if node.dtype.bits >= 32 else by_function)(ctx, node)


def of_integers(ctx: FunctionText, node: Call) -> str:
    """An intrinsic with an integer variant (a helper function) and a float variant (math.h)."""
    return (by_function if node.dtype.is_integer else math)(ctx, node)


def is_nan(ctx: FunctionText, node: Call) -> str:
    """`isnan` of math.h, which returns any number but 0."""
    return f"(isnan({ctx.bare(node.args[0])}) != 0)"


def is_null(ctx: FunctionText, node: Call) -> str:
    return f"({ctx.expr(node.args[0])} == NULL)"


def shift(ctx: FunctionText, node: Call) -> str:
    """C's shift where the amount is less than the width; elsewhere a function, since C does not define it."""
    by, dtype = node.args[1], node.dtype
    if not (ctx.meaning_of is not None or (isinstance(by, IntImm) and 0 <= by.value < dtype.bits)):
        return by_function(ctx, node)
    a, b = ctx.expr(node.args[0]), str(by.value) if isinstance(by, IntImm) else ctx.expr(by)
    if node.op.name.endswith("left"):
        return f"({wrapped(ctx.module, f'(({unsigned(dtype)}){a} << {b})', dtype)})"
    return f"({a} >> {b})"


def bitwise(ctx: FunctionText, node: Call) -> str:
    """A bitwise operator on two operands."""
    a, b = map(ctx.expr, node.args)
    return f"({a} {_BITWISE[node.op.name.removeprefix('tir.')]} {b})"


def reinterpret(ctx: FunctionText, node: Call) -> str:
    """The bits of a value as one of another type; by a cast between integers, else by memcpy."""
    old, new = node.args[0].dtype, node.dtype
    text = ctx.expr(node.args[0])
    a, b = c_type(old), c_type(new)
    if a == b:
        return text
    if new.is_bool:
        return f"(({text} & 1) != 0)"
    not_integers = ("float", "double", "void*")
    if a not in not_integers and b not in not_integers:
        return f"({wrapped(ctx.module, text, new)})" if new.is_integer else f"(({b}){text})"
    return same_bits(ctx.module, text, a, b)


def access_ptr(ctx: FunctionText, node: Call) -> str:
    """A pointer to an element of a buffer, counted in elements of the type of the first argument."""
    tag, data, offset = node.args[:3]
    kind = memory_type(tag.dtype.element)
    return f"(({const_of(ctx, data)}{kind}*){ctx.expr(data)} + {index_operand(ctx, offset)})"


def address_of(ctx: FunctionText, node: Call) -> str:
    """A pointer to the element that is loaded."""
    load = node.args[0]
    if not isinstance(load, BufferLoad):
        return ctx.expr(load)
    return f"&{element(ctx, load.buffer, load.indices)}"


def byte_offset(ctx: FunctionText, node: Call) -> str:
    """A pointer advanced by a number of bytes."""
    base, offset = node.args
    text = ctx.expr(base)
    const = const_of(ctx, base)
    if ctx.pointees.get(base, "void").removeprefix("const ") != "uint8_t":
        text = f"({const}uint8_t*){text}"
    if isinstance(offset, IntImm) and offset.value == 0:
        return text if text.isidentifier() else f"({text})"
    return f"({text} + {index_operand(ctx, offset)})"


def index_operand(ctx: FunctionText, node: PrimExpr) -> str:
    """An index as an operand of `+`: in parentheses unless it is a name or a number."""
    text = ctx.index(node)
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def const_of(ctx: FunctionText, node: PrimExpr) -> str:
    """ "const " for a pointer to memory that must not be written."""
    return "const " if ctx.pointees.get(node, "").startswith("const ") else ""


def atomic_add(ctx: FunctionText, node: Call) -> str:
    """Add to the value at a pointer and return the old value; not atomic, since loops are serial in C code."""
    pointer, value = node.args[:2]
    old, by = Var("old", value.dtype), Var("by", value.dtype)
    name, kind = f"lw_add_{c_type(value.dtype)}", memory_type(value.dtype)
    ctx.env |= {old: "old", by: "by"}
    total = ctx.bare(ctx.scalars(Add._make(old, by)))
    lines = [f"const {kind} old = *at;", f"*at = {total};", "return old;"]
    ctx.module.helpers.setdefault(name, definition(kind, name, f"{kind}* at, {kind} by", *lines))
    return f"{name}(({kind}*){ctx.expr(pointer)}, {ctx.bare(value)})"


def checked_index(ctx: FunctionText, node: Call) -> str:
    """An index from data, non-negative; 0 where it is out of range, and the function fails: `bad`
    holds whether it does, the index and the extent."""
    name = "lw_checked_index"
    lines = ["const int64_t at = index < 0 ? index + extent : index;"]
    lines += ["if (at >= 0 && at < extent) return at;", "bad[0] = 1;", "bad[1] = index;"]
    lines += ["bad[2] = extent;", "return 0;"]
    params = "int64_t index, int64_t extent, int64_t* bad"
    ctx.module.helpers.setdefault(name, definition("int64_t", name, params, *lines))
    ctx.can_fail = True
    ctx.bad_index = ctx.bad_index or ctx.name("bad_index")
    ctx.index_span = merge_spans(ctx.index_span, node.span)
    index, extent = (ctx.bare(a) for a in node.args)
    return f"{name}({index}, {extent}, {ctx.bad_index})"


def bad_index_message(ctx: FunctionText, site: str) -> str:
    """Statements that say which index is out of range, in the array `text` (without stdio)."""
    lines = ["while (*s != 0) *to++ = *s++;", "*to = 0;", "return to;"]
    text = definition("char*", "lw_put_text", "char* to, const char* s", *lines)
    lines = ["char digits[20];", "int32_t n = 0;"]
    lines += ["uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;"]
    lines += ["do digits[n++] = (char)('0' + left % 10); while ((left /= 10) != 0);"]
    lines += ["if (value < 0) *to++ = '-';", "while (n > 0) *to++ = digits[--n];"]
    number = definition(
        "char*", "lw_put_int", "char* to, int64_t value", *lines, "*to = 0;", "return to;"
    )
    ctx.module.helpers |= {"lw_put_text": text, "lw_put_int": number}
    parts = [f"{site}: index ", " is out of range for an axis of extent "]
    first, second = (ctx.expr(StringImm(part)) for part in parts)
    size = sum(len(part.encode()) for part in parts) + 2 * 20 + 1
    at = f"lw_put_text(lw_put_int(lw_put_text(text, {first}), {ctx.bad_index}[1]), {second})"
    return f"char text[{size}]; lw_put_int({at}, {ctx.bad_index}[2]);"


def call_extern(ctx: FunctionText, node: Call) -> str:
    """A call of a C function by name."""
    name, args = called_name(node), node.args[1:]
    params = ctx.module.extern(name, node)
    converted = [argument(ctx, a, p) for a, p in zip(args, params, strict=True)]
    return f"{name}({', '.join(converted)})"


def argument(ctx: FunctionText, node: PrimExpr, kind: str) -> str:
    """An argument for a parameter of the C type `kind`; pointers of other types are cast to it."""
    text = ctx.bare(node)
    if isinstance(node, StringImm):
        return text
    if not kind.endswith("*") or kind in ("void*", "const void*"):
        return text
    pointee = ctx.pointees.get(node)
    if isinstance(node, Call) and getattr(node.op, "name", "") == "tir.handle_add_byte_offset":
        pointee = f"{const_of(ctx, node.args[0])}uint8_t"
    if kind in (f"{pointee}*", f"const {pointee}*"):
        return text
    plain = text.isidentifier() or (text[0] == "&" and "[" in text)
    return f"({kind}){text}" if plain else f"({kind})({text})"


def nothing(ctx: FunctionText, node: Call) -> str:
    """An expression of the call's type without effect."""
    return "((void)0)" if node.dtype.is_void else "NULL" if node.dtype.is_handle else "0"


# What to suggest instead of an intrinsic that has no C code.
INSTEAD = {
    "": "call a C function with T.call_extern",
    "call_packed": "C code cannot call registered functions; call a C function with T.call_extern",
    "call_cpacked": "C code cannot call registered functions; call a C function with T.call_extern",
    "call_llvm_intrin": "write it with the operators of tir, or call a C function",
    "call_llvm_pure_intrin": "write it with the operators of tir, or call a C function",
    "TVMBackendAllocWorkspace": "allocate a buffer of constant size",
}
# Hints, barriers of GPU threads and calls of a profiler, which do nothing on a CPU.
SILENT = (
    *("assume", "undef", "prefetch", "tvm_storage_sync"),
    *("start_profile_intrinsic", "end_profile_intrinsic"),
)
CALLS: dict[str, Any] = {
    **COMMON,
    "": refuse_value,
    **dict.fromkeys((*MATH_H, "round"), math),
    **dict.fromkeys(("pow", "fabs"), of_integers),
    "nextafter": next_after,
    "sigmoid": by_function,
    **dict.fromkeys(("popcount", "clz"), by_function),
    **dict.fromkeys(("q_multiply_shift", "q_multiply_shift_per_axis"), by_function),
    **dict.fromkeys(("shift_left", "shift_right"), shift),
    **dict.fromkeys(_BITWISE, bitwise),
    "isnan": is_nan,
    "isnullptr": is_null,
    "if_then_else": if_then_else,
    "checked_index": checked_index,
    "reinterpret": reinterpret,
    "tvm_access_ptr": access_ptr,
    "address_of": address_of,
    "handle_add_byte_offset": byte_offset,
    "atomic_add": atomic_add,
    **dict.fromkeys(("call_extern", "call_pure_extern"), call_extern),
    **dict.fromkeys(SILENT, nothing),
    "type_annotation": nothing,
}
