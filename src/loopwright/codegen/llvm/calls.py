"""Calls in lowered TensorIR as LLVM text: numeric and pointer intrinsics, C functions, kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.errors import LoopwrightError, explain
from ...ir.dtype import DataType
from ...ir.prim_expr import Call, IntImm, PrimExpr
from ...tir.expr import BufferLoad
from ...tir.transform.lower.lower_scalar_ops import FUNCTIONS
from ..context import CALLS as COMMON
from ..context import called_name, flat_index, no_code, not_of_type
from .choice import checked_index, if_then_else
from .convert import convert
from .function_text import FunctionText
from .memory import address, first_of, from_memory
from .packed import PACKED
from .types import llvm_type, mangle, memory_type, scalar_type, symbol

# -- numeric intrinsics ----------------------------------------------------------------------------


def intrinsic(ctx: FunctionText, node: Call) -> str:
    """An LLVM intrinsic whose operands and result have one type."""
    name = _INTRINSICS[node.op.name.removeprefix("tir.")]
    if not node.dtype.is_float:
        return not_of_type(ctx, node)
    return ctx.intrinsic(name, node.dtype, *map(ctx.expr, node.args))


def math(ctx: FunctionText, node: Call) -> str:
    """A function of the vector math library."""
    dtype, name = node.dtype, node.op.name.removeprefix("tir.")
    try:
        called = ctx.module.vecmath.require(name, dtype.base, dtype.lanes)
    except ValueError as err:
        raise no_code(ctx, node, "call a C function with T.call_extern", str(dtype)) from err
    kind = llvm_type(dtype)
    args = ", ".join(f"{kind} {ctx.expr(a)}" for a in node.args)
    return ctx.value(f"call {kind} @{called}({args})")


def power(ctx: FunctionText, node: Call) -> str:
    """Integers by repeated squaring, floats by the vector math library."""
    if not node.dtype.is_integer:
        return math(ctx, node)
    kind = llvm_type(node.dtype)
    args = ", ".join(f"{kind} {ctx.expr(a)}" for a in node.args)
    return ctx.value(f"call {kind} @{ctx.module.integer_power(node.dtype)}({args})")


def bits(ctx: FunctionText, node: Call) -> str:
    """One bitwise instruction on integers; shift amounts are less than the width."""
    name = _BITS[node.op.name.removeprefix("tir.")]
    if name == "shr":
        name = "ashr" if node.dtype.is_int else "lshr"
    return ctx.op(name, node.dtype, *map(ctx.expr, node.args))


def is_nan(ctx: FunctionText, node: Call) -> str:
    value = ctx.expr(node.args[0])
    return ctx.op("fcmp uno", node.args[0].dtype, value, value)


def is_null(ctx: FunctionText, node: Call) -> str:
    return ctx.value(f"icmp eq ptr {ctx.expr(node.args[0])}, null")


def remainder(ctx: FunctionText, node: Call) -> str:
    return ctx.op("frem", node.dtype, *map(ctx.expr, node.args))


def ldexp(ctx: FunctionText, node: Call) -> str:
    """x * 2**e, e an int32."""
    x, e = node.args
    name = f"llvm.ldexp.{mangle(x.dtype)}.{mangle(e.dtype)}"
    args = ((llvm_type(a.dtype), ctx.expr(a)) for a in (x, e))
    return ctx.value(ctx.calling(llvm_type(x.dtype), name, *args))


def count_bits(ctx: FunctionText, node: Call) -> str:
    """popcount and clz."""
    (x,) = node.args
    name, kind = "ctpop" if node.op.name == "tir.popcount" else "ctlz", llvm_type(x.dtype)
    rest = [("i1", "false")] if name == "ctlz" else []
    text = ctx.calling(kind, f"llvm.{name}.{mangle(x.dtype)}", (kind, ctx.expr(x)), *rest)
    return convert(ctx, ctx.value(text), x.dtype, node.dtype)


def reinterpret(ctx: FunctionText, node: Call) -> str:
    value, old = ctx.expr(node.args[0]), node.args[0].dtype
    a, b = llvm_type(old), llvm_type(node.dtype)
    if a == b:
        return value
    name = "ptrtoint" if a == "ptr" else "inttoptr" if b == "ptr" else "bitcast"
    if node.dtype.is_bool or old.is_bool:
        name = "trunc" if node.dtype.is_bool else "zext"
    return ctx.value(f"{name} {a} {value} to {b}")


def half(ctx: FunctionText, node: Call) -> str:
    source, lanes = node.args[0].dtype, node.dtype.lanes
    start = lanes if node.op.name.endswith("high") else 0
    value = ctx.expr(node.args[0])
    return ctx.shuffled(llvm_type(source), value, "poison", range(start, start + lanes))


def combine(ctx: FunctionText, node: Call) -> str:
    a, b = map(ctx.expr, node.args)
    return ctx.shuffled(llvm_type(node.args[0].dtype), a, b, range(node.dtype.lanes))


def lane_mask(ctx: FunctionText, node: Call) -> str:
    """The mask of the lanes k with base + k < limit."""
    base, limit = node.args
    wide = base.dtype.with_lanes(node.dtype.lanes)
    low, high = (ctx.spread(ctx.expr(a), wide) for a in (base, limit))
    steps = ", ".join(f"{scalar_type(wide)} {k}" for k in range(wide.lanes))
    return ctx.op("icmp slt", wide, ctx.op("add", wide, low, f"<{steps}>"), high)


def access_ptr(ctx: FunctionText, node: Call) -> str:
    tag, data, offset = node.args[:3]
    at = ctx.to_i64(ctx.index(offset), offset.dtype)
    kind = memory_type(tag.dtype.element)
    return ctx.value(f"getelementptr {kind}, ptr {ctx.expr(data)}, i64 {at}")


def address_of(ctx: FunctionText, node: Call) -> str:
    load = node.args[0]
    if not isinstance(load, BufferLoad):
        return ctx.expr(load)
    index = flat_index(load.buffer, load.indices)
    return address(ctx, load.buffer, first_of(index))


def byte_offset(ctx: FunctionText, node: Call) -> str:
    at = ctx.to_i64(ctx.index(node.args[1]), node.args[1].dtype)
    return ctx.value(f"getelementptr i8, ptr {ctx.expr(node.args[0])}, i64 {at}")


def atomic_add(ctx: FunctionText, node: Call) -> str:
    """Add to the value at a pointer; return the old value."""
    pointer, value = node.args[:2]
    dtype = value.dtype
    kind, name = llvm_type(dtype), "fadd" if dtype.is_float else "add"
    at, by = ctx.expr(pointer), ctx.expr(value)
    return ctx.fresh(f"atomicrmw {name} ptr {at}, {kind} {by} monotonic")


def call_extern(ctx: FunctionText, node: Call) -> str:
    """A call of a C function by name, or of a function of the program."""
    name, args = called_name(node), node.args[1:]
    own = ctx.module.is_function(name)
    if own and (node.dtype in ("void", "int32") or ctx.module.returned(name) is not None):
        return call_function(ctx, node, name, args)
    pure = node.op.name == "tir.call_pure_extern"
    lanes = max((a.dtype.lanes for a in args), default=1)
    if lanes > 1 and node.dtype.lanes == lanes:
        return lane_by_lane(ctx, name, node.dtype, args)
    return call_symbol(ctx, name, node.dtype, args, pure)


def call_llvm(ctx: FunctionText, node: Call) -> str:
    """An LLVM intrinsic by its full name, or by the name without its overload suffixes."""
    first = node.args[0]
    name, args = getattr(first, "value", None), list(node.args[1:])
    if not isinstance(name, str):
        what = "call_llvm_intrin takes the intrinsic's name"
        raise LoopwrightError(explain(what, got=str(first), instead='"llvm.fma"'))
    if len(args) > 1 and isinstance(args[0], IntImm) and args[0].dtype.is_uint:
        args = args[1:]  # older scripts pass the number of overload types first
    if name.count(".") == 1:
        overload = args[0].dtype if node.dtype.is_void and args else node.dtype
        name = f"{name}.{mangle(overload)}"
    pure = node.op.name == "tir.call_llvm_pure_intrin"
    operands = [_of_intrinsic(ctx, a) for a in args]
    return call_typed(ctx, name, node.dtype, operands, pure)


def _of_intrinsic(ctx: FunctionText, arg: PrimExpr) -> tuple[str, str]:
    """The type and the value of an argument: intrinsics have bfloat, which elsewhere are its bits."""
    kind, value = llvm_type(arg.dtype), ctx.expr(arg)
    if arg.dtype.base != "bfloat16":
        return kind, value
    real = kind.replace("i16", "bfloat")
    return real, ctx.value(f"bitcast {kind} {value} to {real}")


def dot_of_bytes(ctx: FunctionText, node: Call) -> str:
    """dp4a: the dot product of two vectors of four bytes, plus an accumulator."""
    total = ctx.expr(node.args[2])
    wide = node.dtype.with_lanes(4)
    a, b = (convert(ctx, ctx.expr(x), x.dtype, wide) for x in node.args[:2])
    product, kind = ctx.op("mul", wide, a, b), llvm_type(wide)
    name = f"llvm.vector.reduce.add.{mangle(wide)}"
    dot = ctx.value(ctx.calling(llvm_type(node.dtype), name, (kind, product)))
    return ctx.op("add", node.dtype, dot, total)


def call_symbol(
    ctx: FunctionText, name: str, dtype: DataType, args: Sequence[PrimExpr], pure: bool
) -> str:
    """A call of a function by its symbol."""
    return call_typed(ctx, name, dtype, [(llvm_type(a.dtype), ctx.expr(a)) for a in args], pure)


def call_typed(
    ctx: FunctionText, name: str, dtype: DataType, args: list[tuple[str, str]], pure: bool
) -> str:
    """A call of a function by its symbol, with types and values."""
    text = ctx.calling(llvm_type(dtype), name, *args)
    if dtype.is_void:
        ctx.emit(text)
        return ""
    return ctx.value(text) if pure else ctx.fresh(text)


def lane_by_lane(ctx: FunctionText, name: str, dtype: DataType, args: Sequence[PrimExpr]) -> str:
    """A C function of scalars applied to each lane."""
    values, element, whole = [ctx.expr(a) for a in args], scalar_type(dtype), llvm_type(dtype)
    result = "poison"
    for k in range(dtype.lanes):
        items = []
        for a, v in zip(args, values, strict=True):
            if a.dtype.lanes > 1:
                v = ctx.value(f"extractelement {llvm_type(a.dtype)} {v}, i64 {k}")
            items.append((scalar_type(a.dtype), v))
        item = ctx.fresh(ctx.calling(element, name, *items))
        result = ctx.fresh(f"insertelement {whole} {result}, {element} {item}, i64 {k}")
    return result


def call_global(ctx: FunctionText, node: Call) -> str:
    """A call of another function of the program through its GlobalVar."""
    return call_function(ctx, node, node.op.name_hint, node.args)


def call_function(ctx: FunctionText, node: Call, name: str, args: Sequence[PrimExpr]) -> str:
    """Another function of the program: its failure propagates; T.ret returns the value."""
    typed = [(llvm_type(a.dtype), ctx.expr(a)) for a in args]
    returned, slot = ctx.module.returned(name), ""
    if returned is not None:
        slot = ctx.slot("i64")
        typed.append(("ptr", slot))
    ctx.check(ctx.calling("i32", symbol(name), *typed))
    if returned is None:
        return "0"
    raw = ctx.fresh(f"load {memory_type(returned)}, ptr {slot}, align 8")
    value = from_memory(ctx, raw, returned, returned)
    return value if node.dtype.is_void else convert(ctx, value, returned, node.dtype)


def prefetch(ctx: FunctionText, node: Call) -> str:
    """prefetch(address, write, locality from 0 to 3, data cache)"""
    hints = [("i32", str(int(a.value))) for a in node.args[1:]]
    ctx.emit(ctx.calling("void", "llvm.prefetch.p0", ("ptr", ctx.expr(node.args[0])), *hints))
    return ""


def nothing(ctx: FunctionText, node: Call) -> str:
    return "" if node.dtype.is_void else "null" if node.dtype.is_handle else "0"


_INTRINSICS = {
    n: n for n in ("sqrt", "fabs", "floor", "ceil", "trunc", "nearbyint", "copysign", "fma")
}
_INTRINSICS["round"] = "rint"
_BITS = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}
_BITS |= {"shift_left": "shl", "shift_right": "shr"}
# What to suggest instead of an intrinsic that has no code.
INSTEAD = {
    "": "it belongs to other targets; use an intrinsic of the CPU",
    "vscale": "vectors here have a fixed number of lanes; write that number",
    "lookup_param": "bind the parameter (relax.transform.BindParams), or T.allocate_const",
    "tvm_context_id": "the CPU is device 0",
    "tvm_tuple": "pass its parts as arguments",
    "tvm_static_handle": "keep the value in a buffer",
    "trace": "call a registered function with T.call_packed",
    "anylist_getitem": "pass the values as arguments",
    "anylist_resetitem": "pass the values as arguments",
    "anylist_setitem_call_packed": "use T.call_packed",
    "anylist_setitem_call_cpacked": "use T.call_cpacked",
}
CALLS: dict[str, Any] = {
    **COMMON,
    **PACKED,
    "": call_global,
    **dict.fromkeys((*FUNCTIONS, "sigmoid", "exp10"), math),
    **dict.fromkeys(_INTRINSICS, intrinsic),
    **dict.fromkeys(_BITS, bits),
    "if_then_else": if_then_else,
    "checked_index": checked_index,
    "pow": power,
    "isnan": is_nan,
    "isnullptr": is_null,
    "fmod": remainder,
    "ldexp": ldexp,
    **dict.fromkeys(("popcount", "clz"), count_bits),
    "reinterpret": reinterpret,
    **dict.fromkeys(("vectorlow", "vectorhigh"), half),
    "vectorcombine": combine,
    "get_active_lane_mask": lane_mask,
    "dp4a": dot_of_bytes,
    "tvm_access_ptr": access_ptr,
    "address_of": address_of,
    "handle_add_byte_offset": byte_offset,
    "atomic_add": atomic_add,
    **dict.fromkeys(("call_extern", "call_pure_extern"), call_extern),
    **dict.fromkeys(("call_llvm_intrin", "call_llvm_pure_intrin"), call_llvm),
    **dict.fromkeys(("assume", "undef", "tvm_storage_sync"), nothing),
    "prefetch": prefetch,
    **dict.fromkeys(("start_profile_intrinsic", "end_profile_intrinsic"), nothing),
    "type_annotation": nothing,
}
