"""Intrinsics: a table of their effects and numpy definitions, and the functions that build calls.

`Op.get("tir.exp")` has "effect" ("pure", "read", "update", "opaque", "control", "annotation"),
"numpy" (its definition on numpy scalars and arrays, if any) and "vector" (whether it may
be applied lane by lane).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce as _reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import registry as _registry
from ..base.errors import CallTypeError, CallValueError, explain
from ..base.late import Slot
from ..base.names import named as _named
from ..ir.dtype import DataType
from ..ir.expr import GlobalVar
from ..ir.op import OPS, Op, register_op
from ..ir.prim_expr import Call, FloatImm, IntImm, PrimExpr, ScalarLike, StringImm, Var
from ..ir.prim_op import (  # noqa: F401  (they are names of this module, too)
    add,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    cast,
    ceildiv,
    const,
    convert,
    div,
    floordiv,
    floormod,
    indexdiv,
    indexmod,
    logical_and,
    logical_not,
    logical_or,
    match_types,
    max_value,
    maximum,
    min_value,
    minimum,
    multiply,
    neg,
    shift_left,
    shift_right,
    subtract,
    truncdiv,
    truncmod,
)
from .buffer import Buffer
from .expr import BufferLoad

if TYPE_CHECKING:
    from ..base.span import Span
    from ..ir.node import Node

# The number of an LLVM intrinsic; 0 for a name that LLVM does not know.
INTRINSIC_ID: Slot[Callable[[str], int]] = Slot("tir.intrinsic_id")

_erf = np.vectorize(math.erf, otypes=[np.float64])

_SAME = "exp exp2 tanh log log2 log10 log1p expm1 tan cos cosh acos acosh sin sinh asin asinh atan atanh sqrt"
_FLOAT_UNARY: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in _SAME.split()},
    "exp10": lambda x: np.power(np.asarray(10, np.asarray(x).dtype), x),
    "erf": lambda x: _erf(x).astype(np.asarray(x).dtype),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "rsqrt": lambda x: 1 / np.sqrt(x),
}
_ROUNDING: dict[str, Callable[..., Any]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "nearbyint": np.rint,
}
_BINARY: dict[str, Callable[..., Any]] = {
    "atan2": np.arctan2,
    "nextafter": np.nextafter,
    "hypot": np.hypot,
    "copysign": np.copysign,
    "ldexp": lambda x, e: np.ldexp(x, np.asarray(e).astype(np.int32)),
    "pow": np.power,
    "fmod": np.fmod,
}
_INTEGER: dict[str, Callable[..., Any]] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "bitwise_not": np.bitwise_not,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
    "popcount": np.bitwise_count,
}
_TEST: dict[str, Callable[..., Any]] = {"isnan": np.isnan, "isinf": np.isinf}
# Intrinsics without a definition on numbers, by effect.
_OTHER = {
    "pure": """
        fabs clz checked_index if_then_else reinterpret vectorlow vectorhigh vectorcombine
        vscale get_active_lane_mask isnullptr q_multiply_shift q_multiply_shift_per_axis fma
        large_uint_imm address_of call_pure_extern call_llvm_pure_intrin tvm_tuple
        tvm_access_ptr tvm_static_handle type_annotation handle_add_byte_offset dp4a
    """,
    "annotation": "likely assume tvm_thread_invariant ignore_loop_partition",
    "control": "ret thread_return",
    "read": "undef lookup_param tvm_struct_get tvm_context_id anylist_getitem",
    "opaque": """
        call_packed call_cpacked call_packed_lowered call_cpacked_lowered call_extern
        call_llvm_intrin tvm_stack_alloca tvm_stack_make_shape tvm_stack_make_array
        tvm_throw_last_error tvm_thread_allreduce tvm_storage_sync tvm_warp_shuffle
        tvm_warp_shuffle_up tvm_warp_shuffle_down tvm_warp_activemask tvm_check_return
        start_profile_intrinsic end_profile_intrinsic TVMBackendAllocWorkspace
        TVMBackendFreeWorkspace trace
    """,
    "update": """
        tvm_struct_set atomic_add anylist_resetitem anylist_setitem_call_packed
        anylist_setitem_call_cpacked
    """,
}


def _register() -> None:
    for table in (_FLOAT_UNARY, _ROUNDING, _BINARY, _INTEGER, _TEST):
        for name, meaning in table.items():
            op = register_op(f"tir.{name}")
            op.set_attr("effect", "pure")
            op.set_attr("vector", True)
            op.set_attr("numpy", meaning)
    for effect, names in _OTHER.items():
        for name in names.split():
            register_op(f"tir.{name}").set_attr("effect", effect)
    for name in ("call_packed", "call_cpacked"):  # under TVM's older names, too
        OPS.register(f"tir.tvm_{name}", Op.get(f"tir.{name}"))
    register_op("tir.fabs").set_attr("numpy", np.abs)
    for name in ("fabs", "clz", "likely", "if_then_else", "reinterpret", "fma", "checked_index"):
        register_op(f"tir.{name}").set_attr("vector", True)


with _registry.registering(__name__):
    _register()


HARMLESS = ("pure", "read", "annotation")  # the effects of calls that change nothing


def effect_of(call: Call) -> str:
    """The effect of a call, as of its operator."""
    return call.op.effect if isinstance(call.op, Op) else "opaque"


def is_call_to(expr: Node, name: str) -> bool:
    """Whether `expr` calls the intrinsic `tir.<name>`."""
    return type(expr) is Call and isinstance(expr.op, Op) and expr.op.name == f"tir.{name}"


def call_intrin(
    dtype: str, func_name: str, *args: PrimExpr | str | float | None, span: Span | None = None
) -> Call:
    """Call the intrinsic `func_name` ("tir.exp", or an Op); buffers become their pointer."""
    if isinstance(func_name, str) and not func_name.startswith("tir."):
        func_name = f"tir.{func_name}"
    return Call(dtype, func_name, [_as_arg(a) for a in args], span)


def _as_arg(value: PrimExpr | str | float | None) -> Any:
    arg = convert(value) if hasattr(value, "asobject") else value
    return arg.data if isinstance(arg, Buffer) else value


def _packed_arg(value: object) -> Any:
    """A buffer argument of a packed call as a DLTensor view of it."""
    if not isinstance(value, Buffer):
        return value
    shape = call_intrin("handle", "tir.tvm_stack_make_shape", *value.shape)
    strides: Any = const(0, "int32")
    if value.strides:
        strides = call_intrin("handle", "tir.tvm_stack_make_shape", *value.strides)
    offset = const(0, "int32") if value.elem_offset is None else value.elem_offset
    rank, kind = const(len(value.shape), "int32"), const(0, value.dtype)
    parts = (value.data, shape, strides, rank, kind, offset)
    return call_intrin("handle", "tir.tvm_stack_make_array", *parts)


def _packed(name: str, doc: str) -> Callable[..., Call]:
    def build(*args: Any, span: Span | None = None) -> Call:
        return call_intrin("int32", f"tir.{name}", *map(_packed_arg, args), span=span)

    return _named(build, name, doc)


call_packed = _packed(
    "call_packed",
    "Call a registered function by name; the result is its return value (int32 by default).",
)
call_cpacked = _packed(
    "call_cpacked", "Call a function of this module with the packed calling convention."
)
call_packed_lowered = _packed(
    "call_packed_lowered", "`call_packed` with its arguments on the stack."
)
call_cpacked_lowered = _packed(
    "call_cpacked_lowered", "`call_cpacked` with its arguments on the stack."
)


def call_extern(
    dtype: str, func_name: str, *args: PrimExpr | str | int, span: Span | None = None
) -> Call:
    """Call the C function `func_name` with plain arguments (buffers as pointers)."""
    return call_intrin(dtype, "tir.call_extern", func_name, *args, span=span)


def call_pure_extern(
    dtype: str, func_name: str, *args: ScalarLike, span: Span | None = None
) -> Call:
    """Call a C function that has no side effect."""
    return call_intrin(dtype, "tir.call_pure_extern", func_name, *args, span=span)


def call_llvm_intrin(dtype: str, name: str, *args: ScalarLike, span: Span | None = None) -> Call:
    """Call an LLVM intrinsic by its name ("llvm.prefetch"). Raises ValueError for a name that LLVM
    does not know."""
    return call_intrin(dtype, "tir.call_llvm_intrin", _intrinsic(name), *args, span=span)


def call_llvm_pure_intrin(
    dtype: str, name: str, *args: ScalarLike, span: Span | None = None
) -> Call:
    """Call a side-effect-free LLVM intrinsic by its name ("llvm.fma"). Raises ValueError for a name
    that LLVM does not know."""
    return call_intrin(dtype, "tir.call_llvm_pure_intrin", _intrinsic(name), *args, span=span)


def _intrinsic(name: str) -> StringImm:
    if isinstance(name, str) and not INTRINSIC_ID.get()(name):  # else it is a number of TVM's LLVM
        what = f"Unknown llvm intrinsic function {name}"
        raise CallValueError(explain(what, instead='a name of LLVM\'s, such as "llvm.prefetch"'))
    return StringImm(name)


def call_tir(global_var: GlobalVar, *args: ScalarLike) -> Call:
    """Call another PrimFunc of the module."""
    return Call("void", global_var, [_as_arg(a) for a in args])


def ret(val: ScalarLike | None = None, span: Span | None = None) -> Call:
    """Return from the function."""
    value = const(0, "int32") if val is None else convert(val)
    return call_intrin(value.dtype, "tir.ret", value, span=span)


def _float_unary(name: str, x: PrimExpr, span: Span | None = None) -> PrimExpr:
    x = convert(x)
    if x.dtype.is_integer:
        x = cast(DataType("float32").like(x.dtype), x)
    return Call(x.dtype, f"tir.{name}", [x], span)


def _rounding(name: str, x: PrimExpr, span: Span | None = None) -> PrimExpr:
    x = convert(x)
    if x.dtype.is_integer:
        return x
    if isinstance(x, FloatImm):
        return const(float(_ROUNDING[name](x.value)), x.dtype)
    return Call(x.dtype, f"tir.{name}", [x], span)


def _make_unary(name: str, builder: Callable[..., PrimExpr]) -> Callable[..., PrimExpr]:
    def build(x: PrimExpr, span: Span | None = None) -> PrimExpr:
        return builder(name, x, span)

    kind = "in float32" if builder is _float_unary else "itself"
    doc = f"""The intrinsic `{name}` of a float or a vector of floats, in its dtype; of an integer {kind}.

    >>> tir.{name}(tir.Var("x", "float32"))
    T.{name}(x)
    """
    return _named(build, name, doc)


for _name in _FLOAT_UNARY:
    globals()[_name] = _make_unary(_name, _float_unary)
for _name in _ROUNDING:
    globals()[_name] = _make_unary(_name, _rounding)


def abs(x: ScalarLike, span: Span | None = None) -> PrimExpr:
    """Absolute value."""
    x = convert(x)
    if isinstance(x, (IntImm, FloatImm)):
        return const(x.value if x.value >= 0 else -x.value, x.dtype)
    if x.dtype.is_uint or x.dtype.is_bool:
        return x
    if x.dtype.is_int:
        from_zero = x >= const(0, x.dtype)
        return call_intrin(x.dtype, "tir.if_then_else", from_zero, x, neg(x), span=span)
    return Call(x.dtype, "tir.fabs", [x], span)


fabs = abs


def _of_matched(name: str, x: ScalarLike, y: ScalarLike, span: Span | None = None) -> PrimExpr:
    x, y = match_types(x, y)
    return Call(x.dtype, f"tir.{name}", [x, y], span)


def _make_binary(name: str, doc: str) -> Callable[..., PrimExpr]:
    def build(x1: PrimExpr, x2: PrimExpr, span: Span | None = None) -> PrimExpr:
        return _of_matched(name, x1, x2, span)

    return _named(build, name, doc)


atan2 = _make_binary("atan2", "The angle of the point (x2, x1).")
nextafter = _make_binary("nextafter", "The float next to x1 toward x2.")
hypot = _make_binary("hypot", "sqrt(x1² + x2²).")
copysign = _make_binary("copysign", "x1 with the sign of x2.")


def ldexp(x1: ScalarLike, x2: ScalarLike) -> PrimExpr:
    """x1 * 2**x2."""
    x1 = convert(x1)
    return Call(x1.dtype, "tir.ldexp", [x1, convert(x2)])


def power(x: ScalarLike, y: ScalarLike, span: Span | None = None) -> PrimExpr:
    """x to the power y."""
    return _of_matched("pow", x, y, span)


pow = power


def fmod(x: ScalarLike, y: ScalarLike) -> PrimExpr:
    """Remainder of x / y with the sign of x."""
    return _of_matched("fmod", x, y)


def logaddexp(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """log(exp(a) + exp(b)) without overflow."""
    top, low = maximum(a, b), minimum(a, b)
    return add(top, _float_unary("log1p", _float_unary("exp", subtract(low, top)), span))


def popcount(x: ScalarLike) -> PrimExpr:
    """Number of set bits."""
    x = convert(x)
    return Call(x.dtype, "tir.popcount", [x])


def clz(x: ScalarLike) -> PrimExpr:
    """Number of leading zero bits."""
    x = convert(x)
    return Call(DataType("int32").like(x.dtype), "tir.clz", [x])


def isnan(x: ScalarLike, span: Span | None = None) -> PrimExpr:
    """Whether x is not a number."""
    return _float_test("isnan", x, span)


def isinf(x: ScalarLike, span: Span | None = None) -> PrimExpr:
    """Whether x is an infinity."""
    return _float_test("isinf", x, span)


def _float_test(name: str, x: ScalarLike, span: Span | None) -> PrimExpr:
    x = convert(x)
    result = DataType("bool").like(x.dtype)
    return const(False, result) if x.dtype.is_integer else Call(result, f"tir.{name}", [x], span)


def isfinite(x: Any, span: Span | None = None) -> PrimExpr:
    """Whether x is neither an infinity nor NaN."""
    return logical_and(logical_not(isinf(x, span)), logical_not(isnan(x, span)))


def isnullptr(x: ScalarLike, span: Span | None = None) -> PrimExpr:
    """Whether a handle is null."""
    return call_intrin("bool", "tir.isnullptr", x, span=span)


def infinity(dtype: Any, span: Span | None = None) -> PrimExpr:
    """Positive infinity of a float type."""
    return FloatImm(dtype, math.inf, span)


def reinterpret(dtype: str, value: ScalarLike, span: Span | None = None) -> PrimExpr:
    """The same bits as another type."""
    value = convert(value)
    if value.dtype == DataType(dtype):
        return value
    return call_intrin(dtype, "tir.reinterpret", value, span=span)


def likely(cond: ScalarLike, span: Span | None = None) -> PrimExpr:
    """A hint that `cond` is nearly always true."""
    cond = convert(cond)
    return cond if isinstance(cond, IntImm) else call_intrin(cond.dtype, "tir.likely", cond)


def checked_index(index: ScalarLike, extent: ScalarLike, span: Span | None = None) -> PrimExpr:
    """An index that comes from data, for an axis of `extent`: negative ones count from the end.
    Where it is run with another than -extent..extent-1, the function fails with an IndexError.

    >>> print(checked_index(-1, 4))
    T.int64(3)
    """
    index, extent = convert(index), convert(extent)
    dtype = DataType("int64").with_lanes(max(index.dtype.lanes, extent.dtype.lanes))
    index, extent = cast(dtype, index), cast(dtype, extent)
    if isinstance(index, IntImm) and isinstance(extent, IntImm):
        if -extent.value <= index.value < extent.value:
            return const(index.value % extent.value, "int64")
    return call_intrin(dtype, "tir.checked_index", index, extent, span=span)


def if_then_else(cond: ScalarLike, t: ScalarLike, f: ScalarLike, span: Any = None) -> PrimExpr:
    """`t` if `cond` holds, else `f`; only the chosen operand is evaluated. Raises TypeError unless `cond` is a
    bool."""
    t, f = match_types(t, f)
    cond = convert(cond)
    if not cond.dtype.is_bool:
        what = "the condition of if_then_else is a bool"
        raise CallTypeError(explain(what, got=str(cond.dtype), instead="compare it with 0"))
    if isinstance(cond, IntImm):
        return t if cond.value else f
    return call_intrin(t.dtype, "tir.if_then_else", cond, t, f, span=span)


def _first(args: tuple[Any, ...]) -> PrimExpr:
    if not args:
        raise ValueError(explain("a condition of nothing", instead="give at least one part"))
    return convert(args[0])


def any(*args: ScalarLike, span: Span | None = None) -> PrimExpr:
    """Or of all arguments, at least one."""
    return _reduce(lambda a, b: logical_or(a, b, span), args[1:], _first(args))


def all(*args: ScalarLike, span: Span | None = None) -> PrimExpr:
    """And of all arguments, at least one."""
    return _reduce(lambda a, b: logical_and(a, b, span), args[1:], _first(args))


def address_of(obj: ScalarLike, span: Span | None = None) -> PrimExpr:
    """A pointer to an element (a load) or to element 0 of a buffer."""
    if isinstance(obj, Buffer):
        obj = BufferLoad(obj, [const(0, e.dtype) for e in obj.shape])
    return call_intrin("handle", "tir.address_of", obj, span=span)


def lookup_param(param_name: str, span: Span | None = None) -> PrimExpr:
    """The address of a linked parameter."""
    return call_intrin("handle", "tir.lookup_param", param_name, span=span)


def tvm_tuple(*value: PrimExpr | str | int) -> PrimExpr:
    """Several values as one argument."""
    return call_intrin("handle", "tir.tvm_tuple", *value)


def tvm_stack_alloca(dtype_str: str, num: ScalarLike) -> PrimExpr:
    """A stack array of `num` values ("arg_value", "shape", "array")."""
    return call_intrin("handle", "tir.tvm_stack_alloca", dtype_str, num)


def tvm_stack_make_shape(*args: int) -> PrimExpr:
    """An int64 array of the arguments on the stack."""
    return call_intrin("handle", "tir.tvm_stack_make_shape", *args)


def tvm_stack_make_array(
    data: ScalarLike,
    shape: ScalarLike,
    strides: ScalarLike,
    ndim: ScalarLike,
    arr_dtype: ScalarLike,
    elem_offset: ScalarLike,
) -> PrimExpr:
    """A DLTensor on the stack."""
    args = (data, shape, strides, ndim, arr_dtype, elem_offset)
    return call_intrin("handle", "tir.tvm_stack_make_array", *args)


def tvm_struct_get(arr: ScalarLike, index: int, field: ScalarLike, dtype: str) -> PrimExpr:
    """A field of the `index`-th struct at `arr`."""
    return call_intrin(dtype, "tir.tvm_struct_get", arr, index, field)


def tvm_struct_set(arr: ScalarLike, index: int, field: ScalarLike, value: ScalarLike) -> PrimExpr:
    """Set a field of the `index`-th struct at `arr`."""
    return call_intrin("int32", "tir.tvm_struct_set", arr, index, field, value)


def tvm_access_ptr(
    ptype: ScalarLike, data: ScalarLike, offset: ScalarLike, extent: ScalarLike, rw_mask: ScalarLike
) -> PrimExpr:
    """A pointer to `extent` elements at `offset` of `data`."""
    return call_intrin("handle", "tir.tvm_access_ptr", ptype, data, offset, extent, rw_mask)


def tvm_throw_last_error() -> PrimExpr:
    """Raise the error set by the last call."""
    return call_intrin("handle", "tir.tvm_throw_last_error")


def tvm_storage_sync(storage_scope: str) -> PrimExpr:
    """Wait for all threads of a block."""
    return call_intrin("int32", "tir.tvm_storage_sync", storage_scope)


def tvm_thread_allreduce(*freduce_args: ScalarLike) -> PrimExpr:
    """Reduce over the threads of a block."""
    return call_intrin("handle", "tir.tvm_thread_allreduce", *freduce_args)


def tvm_thread_invariant(cond: Any) -> PrimExpr:
    """A hint that `cond` is the same for all threads."""
    return call_intrin(convert(cond).dtype, "tir.tvm_thread_invariant", cond)


def type_annotation(dtype: str) -> PrimExpr:
    """A type as an argument."""
    return call_intrin(dtype, "tir.type_annotation")


def handle_add_byte_offset(handle: ScalarLike, offset: ScalarLike) -> PrimExpr:
    """A pointer `offset` bytes further."""
    return call_intrin("handle", "tir.handle_add_byte_offset", handle, offset)


def assume(cond: ScalarLike | None = None) -> PrimExpr:
    """An assumption that `cond` holds."""
    return call_intrin("bool", "tir.assume", cond)


def undef() -> PrimExpr:
    """An undefined value."""
    return call_intrin("int32", "tir.undef")


def ignore_loop_partition(predicate: ScalarLike) -> PrimExpr:
    """A predicate that LoopPartition ignores."""
    return call_intrin("bool", "tir.ignore_loop_partition", predicate)


def vectorlow(dtype: str, vec: ScalarLike) -> PrimExpr:
    """The lower half of a vector."""
    return call_intrin(dtype, "tir.vectorlow", vec)


def vectorhigh(dtype: str, vec: ScalarLike) -> PrimExpr:
    """The upper half of a vector."""
    return call_intrin(dtype, "tir.vectorhigh", vec)


def vectorcombine(dtype: str, vec1: ScalarLike, vec2: ScalarLike) -> PrimExpr:
    """Two vectors as one."""
    return call_intrin(dtype, "tir.vectorcombine", vec1, vec2)


def fma(a: ScalarLike, b: ScalarLike, c: ScalarLike) -> PrimExpr:
    """a * b + c rounded once."""
    a, b = match_types(a, b)
    return call_intrin(a.dtype, "tir.fma", a, b, c)


__all__ = ["Var"]
_OWN = {n for n, v in list(globals().items()) if callable(v) and n[0] != "_" and n.islower()}
__all__ += sorted(_OWN - {*__all__, "explain", "register_op", "effect_of", "is_call_to"})
