"""Packed calls as LLVM text: arrays of values, tensors, structs and workspaces on the stack."""

from __future__ import annotations

from typing import Any

from ...base.errors import LoopwrightError, explain
from ...ir.dtype import DataType
from ...ir.op import Op
from ...ir.prim_expr import Call, IntImm, PrimExpr, StringImm
from ...runtime.dtype import dl_dtype
from ..context import called_name, is_packed
from .convert import F64, I32, I64, convert
from .function_text import FunctionText
from .memory import from_memory, to_memory
from .types import memory_type

# Fields of tvm_struct_get: of a DLTensor (offset in bytes), and of a 16-byte TVMFFIAny.
_TENSOR_BYTES = 48  # sizeof(DLTensor)
_TENSOR_FIELDS = {0: 0, 1: 0, 2: 24, 3: 32, 4: 16, 5: 20, 6: 21, 7: 22, 8: 40, 9: 12, 10: 8}
_ANY_VALUE = 15
_ANY_FIELDS = {13: 0, 14: 4, _ANY_VALUE: 8}
# Type indices of packed arguments.
_NONE, _INT, _BOOL, _FLOAT, _POINTER, _TENSOR, _STRING = 0, 1, 2, 3, 4, 7, 8
_STACK_BYTES = {"arg_value": 16, "tvm_ffi_any": 16, "arg_tcode": 4, "shape": 8, "array": 48}
_MAKE_ARRAY = Op.get("tir.tvm_stack_make_array")


def put(ctx: FunctionText, base: str, at: int, kind: str, value: str) -> None:
    """Store a value at a byte offset from an address."""
    address = ctx.fresh(f"getelementptr i8, ptr {base}, i64 {at}")
    ctx.emit(f"store {kind} {value}, ptr {address}, align {4 if kind == 'i32' else 8}")


def struct_field(ctx: FunctionText, node: Call) -> str:
    """The address of a field of an array of structs."""
    array, index, code = node.args[:3]
    number = code.value
    size, table = (16, _ANY_FIELDS) if number in _ANY_FIELDS else (_TENSOR_BYTES, _TENSOR_FIELDS)
    if number not in table:
        raise LoopwrightError(explain(f"{node.op.name}: unknown field", got=number, span=node.span))
    at = ctx.op("mul", I64, ctx.to_i64(ctx.expr(index), index.dtype), str(size))
    at = ctx.op("add", I64, at, str(table[number]))
    return ctx.value(f"getelementptr i8, ptr {ctx.expr(array)}, i64 {at}")


def struct_get(ctx: FunctionText, node: Call) -> str:
    pointer = struct_field(ctx, node)
    if node.args[2].value == 0:  # the struct's own address
        return pointer
    kind, align = memory_type(node.dtype), node.dtype.lane_bytes
    raw = ctx.fresh(f"load {kind}, ptr {pointer}, align {align}")
    return from_memory(ctx, raw, node.dtype, node.dtype)


def struct_set(ctx: FunctionText, node: Call) -> str:
    pointer = struct_field(ctx, node)
    stored = node.args[3]
    value, dtype = ctx.expr(stored), stored.dtype
    if node.args[2].value == _ANY_VALUE and not dtype.is_handle:  # a payload is always 8 bytes
        wide = F64 if dtype.is_float else I64
        value, dtype = convert(ctx, value, dtype, wide), wide
    value = to_memory(ctx, value, dtype)
    kind, align = memory_type(dtype), dtype.lane_bytes
    ctx.emit(f"store {kind} {value}, ptr {pointer}, align {align}")
    return "0"


def alloc_workspace(ctx: FunctionText, node: Call) -> str:
    """Allocate workspace of a size in bytes; free_workspace releases it."""
    size = node.args[2]
    count = ctx.to_i64(ctx.expr(size), size.dtype)
    return ctx.fresh(ctx.calling("ptr", "lw_workspace_alloc", ("i64", count)))


def free_workspace(ctx: FunctionText, node: Call) -> str:
    ctx.emit(ctx.calling("void", "lw_workspace_free", ("ptr", ctx.expr(node.args[2]))))
    return "0"


def throw(ctx: FunctionText, node: Call) -> str:
    """Leave with the error already raised."""
    ctx.leave_failed()
    ctx.start_block(ctx.label("unreachable"))
    return "0"


def stack_alloca(ctx: FunctionText, node: Call) -> str:
    """A stack slot for a number of values of a kind."""
    kind, count = getattr(node.args[0], "value", ""), getattr(node.args[1], "value", None)
    if count is None or kind not in _STACK_BYTES:
        what = "tvm_stack_alloca takes a kind and a number"
        hint = " or ".join(_STACK_BYTES)
        raise LoopwrightError(explain(what, got=str(node), instead=hint, span=node.span))
    return ctx.slot(f"[{max(count, 1) * _STACK_BYTES[kind]} x i8]")


def call_packed_lowered(ctx: FunctionText, node: Call) -> str:
    """Call a registered function on values begin..end of a stack of 16-byte values; its result is
    stored at `end`."""
    name, stack, begin, end = node.args[:4]
    if not (isinstance(begin, IntImm) and isinstance(end, IntImm)):
        what = f"{node.op.name} takes literal positions"
        raise LoopwrightError(explain(what, got=f"{begin} and {end}", span=node.span))
    base, count = ctx.expr(stack), end.value - begin.value
    values = ctx.slot(f"[{count + 1} x {{ i64, i64 }}]")
    ctx.emit(f"store i64 {_STRING}, ptr {values}, align 8")
    put(ctx, values, 8, "ptr", ctx.expr(name))
    for k in range(count):
        source = ctx.fresh(f"getelementptr i8, ptr {base}, i64 {16 * (begin.value + k)}")
        item = ctx.fresh(f"load <2 x i64>, ptr {source}, align 8")
        put(ctx, values, 16 * (k + 1), "<2 x i64>", item)
    result = ctx.fresh(f"getelementptr i8, ptr {base}, i64 {16 * end.value}")
    return called(ctx, node.dtype, ctx.expr(name), values, count + 1, result)


def call_packed(ctx: FunctionText, node: Call) -> str:
    """Call a registered function by name; the call's type selects how its result is read."""
    values, result, _ = put_arguments(ctx, node)
    return called(ctx, node.dtype, looked_up(ctx, node), values, len(node.args), result)


def trace_packed(ctx: FunctionText, node: Call) -> str:
    """Call a registered function by name; where it returns nothing, the value is the last
    argument's."""
    values, result, last = put_arguments(ctx, node)
    other = called(ctx, node.dtype, looked_up(ctx, node), values, len(node.args), result)
    code = ctx.fresh(f"load i32, ptr {result}, align 8")
    return ctx.choose(ctx.fresh(f"icmp eq i32 {code}, {_NONE}"), last, other, node.dtype)


def looked_up(ctx: FunctionText, node: Call) -> str:
    """The name of the called function, as the runtime finds it."""
    return f"@{ctx.module.packed_name(called_name(node))}"


def put_arguments(ctx: FunctionText, node: Call) -> tuple[str, str, str]:
    """(the array of a packed call's values, the place of its result, its last argument)"""
    count = len(node.args)
    values, result = ctx.slot(f"[{count} x {{ i64, i64 }}]"), ctx.slot("{ i64, i64 }")
    operand, packed = "", (_STRING, "ptr", looked_up(ctx, node))
    for k, arg in enumerate(node.args):
        if k:
            operand = ctx.expr(arg)
            packed = packed_value(ctx, arg, operand)
        code, kind, value = packed
        put(ctx, values, 16 * k, "i64", str(code))
        put(ctx, values, 16 * k + 8, kind, value)
    return values, result, operand


def called(
    ctx: FunctionText, dtype: DataType, name: str, values: str, count: int, result: str
) -> str:
    """The result of calling a registered function with an array of values."""
    args = (("ptr", name), ("ptr", values), ("i32", str(count)), ("ptr", result))
    ctx.check(ctx.calling("i32", "lw_call_packed", *args))
    return packed_result(ctx, dtype, result)


def packed_value(ctx: FunctionText, arg: PrimExpr, value: str) -> tuple[int, str, str]:
    """(type index, LLVM type, value) of a packed argument with that value."""
    if isinstance(arg, StringImm):
        return _STRING, "ptr", value
    dtype = arg.dtype
    if dtype.is_handle:
        tensor = isinstance(arg, Call) and arg.op is _MAKE_ARRAY
        return (_TENSOR if tensor else _POINTER), "ptr", value
    if dtype.lanes > 1:
        what = "a packed function cannot take vectors"
        raise LoopwrightError(explain(what, got=str(dtype), span=arg.span))
    if dtype.is_float:
        return _FLOAT, "double", convert(ctx, value, dtype, F64)
    return _BOOL if dtype.is_bool else _INT, "i64", convert(ctx, value, dtype, I64)


def packed_result(ctx: FunctionText, dtype: DataType, result: str) -> str:
    """A number returned by a packed function."""
    if dtype.is_handle:
        return "null"
    at = ctx.fresh(f"getelementptr i8, ptr {result}, i64 8")
    whole = ctx.fresh(f"load i64, ptr {at}, align 8")
    code = ctx.fresh(f"load i32, ptr {result}, align 8")
    is_real = ctx.fresh(f"icmp eq i32 {code}, {_FLOAT}")
    real = ctx.fresh(f"bitcast i64 {whole} to double")
    if dtype.is_float:
        other = ctx.fresh(f"sitofp i64 {whole} to double")
        picked = ctx.choose(is_real, real, other, F64)
        return convert(ctx, picked, F64, dtype)
    cut = convert(ctx, real, F64, I64)
    return convert(ctx, ctx.choose(is_real, cut, whole, I64), I64, dtype)


def make_shape(ctx: FunctionText, node: Call) -> str:
    """An int64 array on the stack."""
    array = ctx.slot(f"[{max(len(node.args), 1)} x i64]")
    for k, dim in enumerate(node.args):
        put(ctx, array, 8 * k, "i64", ctx.to_i64(ctx.expr(dim), dim.dtype))
    return array


def make_array(ctx: FunctionText, node: Call) -> str:
    """A DLTensor on the stack that views a buffer."""
    data, shape, strides, rank, kind, offset = node.args
    tensor = ctx.slot(f"[{_TENSOR_BYTES} x i8]")
    code, bits, lanes = dl_dtype(str(kind.dtype))
    steps = "null" if isinstance(strides, IntImm) else ctx.expr(strides)
    begin = ctx.to_i64(ctx.index(offset), offset.dtype)
    if is_packed(kind.dtype):  # whole bytes: Int4StorageLegalize guarantees it
        begin = ctx.op("lshr", I64, begin, str((8 // kind.dtype.bits).bit_length() - 1))
    else:
        begin = ctx.op("mul", I64, begin, str(kind.dtype.lane_bytes * kind.dtype.lanes))
    fields = (
        (0, "ptr", ctx.expr(data)),
        (8, "i64", "1"),  # the CPU, number 0
        (16, "i32", convert(ctx, ctx.expr(rank), rank.dtype, I32)),
        (20, "i32", str(code | bits << 8 | lanes << 16)),
        (24, "ptr", ctx.expr(shape)),
        (32, "ptr", steps),
        (40, "i64", begin),
    )
    for at, field, value in fields:
        put(ctx, tensor, at, field, value)
    return tensor


PACKED: dict[str, Any] = {
    **dict.fromkeys(("call_packed", "call_cpacked"), call_packed),
    "tvm_call_trace_packed": trace_packed,
    **dict.fromkeys(("call_packed_lowered", "call_cpacked_lowered"), call_packed_lowered),
    "tvm_stack_make_shape": make_shape,
    "tvm_stack_make_array": make_array,
    "tvm_stack_alloca": stack_alloca,
    "tvm_struct_get": struct_get,
    "tvm_struct_set": struct_set,
    "TVMBackendAllocWorkspace": alloc_workspace,
    "TVMBackendFreeWorkspace": free_workspace,
    "tvm_throw_last_error": throw,
}
