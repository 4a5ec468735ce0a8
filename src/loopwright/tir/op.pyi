"""Intrinsics: a table of their effects and numpy definitions, and the functions that build calls.

Made by `python -m tools.make_stubs`.
"""

from loopwright.base.late import Slot as _Slot
from loopwright.base.registry import Registry as _Registry
from loopwright.base.span import Span as _Span
from loopwright.ir.conversion import (
    cast as cast, const as const, convert as convert, match_types as match_types,
)
from loopwright.ir.dtype import DataType as DataType
from loopwright.ir.expr import GlobalVar as GlobalVar
from loopwright.ir.node import Node as _Node
from loopwright.ir.op import Op as Op, register_op as register_op
from loopwright.ir.prim_expr import (
    Call as Call, FloatImm as FloatImm, IntImm as IntImm, PrimExpr as PrimExpr,
    ScalarLike as _ScalarLike, StringImm as StringImm, Var as Var,
)
from loopwright.ir.prim_op import (
    add as add, bitwise_and as bitwise_and, bitwise_not as bitwise_not,
    bitwise_or as bitwise_or, bitwise_xor as bitwise_xor, ceildiv as ceildiv, div as div,
    floordiv as floordiv, floormod as floormod, indexdiv as indexdiv, indexmod as indexmod,
    logical_and as logical_and, logical_not as logical_not, logical_or as logical_or,
    max_value as max_value, maximum as maximum, min_value as min_value, minimum as minimum,
    multiply as multiply, neg as neg, shift_left as shift_left, shift_right as shift_right,
    subtract as subtract, truncdiv as truncdiv, truncmod as truncmod,
)
from loopwright.tir.buffer import Buffer as Buffer
from loopwright.tir.expr import BufferLoad as BufferLoad
from typing import Any as _Any

INTRINSIC_ID: _Slot
OPS: _Registry
def abs(x: _ScalarLike, span: _Span | None = None) -> PrimExpr: """Absolute value."""
def acos(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `acos` of a float or a vector of floats, in its dtype; of an integer in float32."""
def acosh(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `acosh` of a float or a vector of floats, in its dtype; of an integer in float32."""
def address_of(obj: _ScalarLike, span: _Span | None = None) -> PrimExpr: """A pointer to an element (a load) or to element 0 of a buffer."""
def all(*args: _ScalarLike, span: _Span | None = None) -> PrimExpr: """And of all arguments, at least one."""
def any(*args: _ScalarLike, span: _Span | None = None) -> PrimExpr: """Or of all arguments, at least one."""
def asin(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `asin` of a float or a vector of floats, in its dtype; of an integer in float32."""
def asinh(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `asinh` of a float or a vector of floats, in its dtype; of an integer in float32."""
def assume(cond: _ScalarLike | None = None) -> PrimExpr: """An assumption that `cond` holds."""
def atan(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `atan` of a float or a vector of floats, in its dtype; of an integer in float32."""
def atan2(x1: PrimExpr, x2: PrimExpr, span: _Span | None = None) -> PrimExpr: """The angle of the point (x2, x1)."""
def atanh(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `atanh` of a float or a vector of floats, in its dtype; of an integer in float32."""
def call_cpacked(*args: _Any, span: _Span | None = None) -> Call: """Call a function of this module with the packed calling convention."""
def call_cpacked_lowered(*args: _Any, span: _Span | None = None) -> Call: """`call_cpacked` with its arguments on the stack."""
def call_extern(dtype: str, func_name: str, *args: PrimExpr | str | int, span: _Span | None = None) -> Call: """Call the C function `func_name` with plain arguments (buffers as pointers)."""
def call_intrin(dtype: str, func_name: str, *args: PrimExpr | str | float | None, span: _Span | None = None) -> Call: """Call the intrinsic `func_name` ("tir.exp", or an Op); buffers become their pointer."""
def call_llvm_intrin(dtype: str, name: str, *args: _ScalarLike, span: _Span | None = None) -> Call: """Call an LLVM intrinsic by its name ("llvm.prefetch"). Raises ValueError for a name that LLVM does not know."""
def call_llvm_pure_intrin(dtype: str, name: str, *args: _ScalarLike, span: _Span | None = None) -> Call: """Call a side-effect-free LLVM intrinsic by its name ("llvm.fma"). Raises ValueError for a name that LLVM does not know."""
def call_packed(*args: _Any, span: _Span | None = None) -> Call: """Call a registered function by name; the result is its return value (int32 by default)."""
def call_packed_lowered(*args: _Any, span: _Span | None = None) -> Call: """`call_packed` with its arguments on the stack."""
def call_pure_extern(dtype: str, func_name: str, *args: _ScalarLike, span: _Span | None = None) -> Call: """Call a C function that has no side effect."""
def call_tir(global_var: GlobalVar, *args: _ScalarLike) -> Call: """Call another PrimFunc of the module."""
def ceil(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `ceil` of a float or a vector of floats, in its dtype; of an integer itself."""
def checked_index(index: _ScalarLike, extent: _ScalarLike, span: _Span | None = None) -> PrimExpr: """An index that comes from data, for an axis of `extent`: negative ones count from the end. Where it is run with another than -extent..extent-1, the function fails with an IndexError."""
def clz(x: _ScalarLike) -> PrimExpr: """Number of leading zero bits."""
def copysign(x1: PrimExpr, x2: PrimExpr, span: _Span | None = None) -> PrimExpr: """x1 with the sign of x2."""
def cos(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `cos` of a float or a vector of floats, in its dtype; of an integer in float32."""
def cosh(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `cosh` of a float or a vector of floats, in its dtype; of an integer in float32."""
def effect_of(call: Call) -> str: """The effect of a call, as of its operator."""
def erf(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `erf` of a float or a vector of floats, in its dtype; of an integer in float32."""
def exp(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `exp` of a float or a vector of floats, in its dtype; of an integer in float32."""
def exp10(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `exp10` of a float or a vector of floats, in its dtype; of an integer in float32."""
def exp2(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `exp2` of a float or a vector of floats, in its dtype; of an integer in float32."""
def expm1(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `expm1` of a float or a vector of floats, in its dtype; of an integer in float32."""
fabs = abs
def floor(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `floor` of a float or a vector of floats, in its dtype; of an integer itself."""
def fma(a: _ScalarLike, b: _ScalarLike, c: _ScalarLike) -> PrimExpr: """a * b + c rounded once."""
def fmod(x: _ScalarLike, y: _ScalarLike) -> PrimExpr: """Remainder of x / y with the sign of x."""
def handle_add_byte_offset(handle: _ScalarLike, offset: _ScalarLike) -> PrimExpr: """A pointer `offset` bytes further."""
def hypot(x1: PrimExpr, x2: PrimExpr, span: _Span | None = None) -> PrimExpr: """sqrt(x1² + x2²)."""
def if_then_else(cond: _ScalarLike, t: _ScalarLike, f: _ScalarLike, span: _Any = None) -> PrimExpr: """`t` if `cond` holds, else `f`; only the chosen operand is evaluated. Raises TypeError unless `cond` is a bool."""
def ignore_loop_partition(predicate: _ScalarLike) -> PrimExpr: """A predicate that LoopPartition ignores."""
def infinity(dtype: _Any, span: _Span | None = None) -> PrimExpr: """Positive infinity of a float type."""
def is_call_to(expr: _Node, name: str) -> bool: """Whether `expr` calls the intrinsic `tir.<name>`."""
def isfinite(x: _Any, span: _Span | None = None) -> PrimExpr: """Whether x is neither an infinity nor NaN."""
def isinf(x: _ScalarLike, span: _Span | None = None) -> PrimExpr: """Whether x is an infinity."""
def isnan(x: _ScalarLike, span: _Span | None = None) -> PrimExpr: """Whether x is not a number."""
def isnullptr(x: _ScalarLike, span: _Span | None = None) -> PrimExpr: """Whether a handle is null."""
def ldexp(x1: _ScalarLike, x2: _ScalarLike) -> PrimExpr: """x1 * 2**x2."""
def likely(cond: _ScalarLike, span: _Span | None = None) -> PrimExpr: """A hint that `cond` is nearly always true."""
def log(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `log` of a float or a vector of floats, in its dtype; of an integer in float32."""
def log10(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `log10` of a float or a vector of floats, in its dtype; of an integer in float32."""
def log1p(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `log1p` of a float or a vector of floats, in its dtype; of an integer in float32."""
def log2(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `log2` of a float or a vector of floats, in its dtype; of an integer in float32."""
def logaddexp(a: _Any, b: _Any, span: _Span | None = None) -> PrimExpr: """log(exp(a) + exp(b)) without overflow."""
def lookup_param(param_name: str, span: _Span | None = None) -> PrimExpr: """The address of a linked parameter."""
def nearbyint(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `nearbyint` of a float or a vector of floats, in its dtype; of an integer itself."""
def nextafter(x1: PrimExpr, x2: PrimExpr, span: _Span | None = None) -> PrimExpr: """The float next to x1 toward x2."""
def popcount(x: _ScalarLike) -> PrimExpr: """Number of set bits."""
pow = power
def power(x: _ScalarLike, y: _ScalarLike, span: _Span | None = None) -> PrimExpr: """x to the power y."""
def reinterpret(dtype: str, value: _ScalarLike, span: _Span | None = None) -> PrimExpr: """The same bits as another type."""
def ret(val: _ScalarLike | None = None, span: _Span | None = None) -> Call: """Return from the function."""
def round(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `round` of a float or a vector of floats, in its dtype; of an integer itself."""
def rsqrt(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `rsqrt` of a float or a vector of floats, in its dtype; of an integer in float32."""
def sigmoid(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `sigmoid` of a float or a vector of floats, in its dtype; of an integer in float32."""
def sin(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `sin` of a float or a vector of floats, in its dtype; of an integer in float32."""
def sinh(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `sinh` of a float or a vector of floats, in its dtype; of an integer in float32."""
def sqrt(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `sqrt` of a float or a vector of floats, in its dtype; of an integer in float32."""
def tan(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `tan` of a float or a vector of floats, in its dtype; of an integer in float32."""
def tanh(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `tanh` of a float or a vector of floats, in its dtype; of an integer in float32."""
def trunc(x: PrimExpr, span: _Span | None = None) -> PrimExpr: """The intrinsic `trunc` of a float or a vector of floats, in its dtype; of an integer itself."""
def tvm_access_ptr(ptype: _ScalarLike, data: _ScalarLike, offset: _ScalarLike, extent: _ScalarLike, rw_mask: _ScalarLike) -> PrimExpr: """A pointer to `extent` elements at `offset` of `data`."""
def tvm_stack_alloca(dtype_str: str, num: _ScalarLike) -> PrimExpr: """A stack array of `num` values ("arg_value", "shape", "array")."""
def tvm_stack_make_array(data: _ScalarLike, shape: _ScalarLike, strides: _ScalarLike, ndim: _ScalarLike, arr_dtype: _ScalarLike, elem_offset: _ScalarLike) -> PrimExpr: """A DLTensor on the stack."""
def tvm_stack_make_shape(*args: int) -> PrimExpr: """An int64 array of the arguments on the stack."""
def tvm_storage_sync(storage_scope: str) -> PrimExpr: """Wait for all threads of a block."""
def tvm_struct_get(arr: _ScalarLike, index: int, field: _ScalarLike, dtype: str) -> PrimExpr: """A field of the `index`-th struct at `arr`."""
def tvm_struct_set(arr: _ScalarLike, index: int, field: _ScalarLike, value: _ScalarLike) -> PrimExpr: """Set a field of the `index`-th struct at `arr`."""
def tvm_thread_allreduce(*freduce_args: _ScalarLike) -> PrimExpr: """Reduce over the threads of a block."""
def tvm_thread_invariant(cond: _Any) -> PrimExpr: """A hint that `cond` is the same for all threads."""
def tvm_throw_last_error() -> PrimExpr: """Raise the error set by the last call."""
def tvm_tuple(*value: PrimExpr | str | int) -> PrimExpr: """Several values as one argument."""
def type_annotation(dtype: str) -> PrimExpr: """A type as an argument."""
def undef() -> PrimExpr: """An undefined value."""
def vectorcombine(dtype: str, vec1: _ScalarLike, vec2: _ScalarLike) -> PrimExpr: """Two vectors as one."""
def vectorhigh(dtype: str, vec: _ScalarLike) -> PrimExpr: """The upper half of a vector."""
def vectorlow(dtype: str, vec: _ScalarLike) -> PrimExpr: """The lower half of a vector."""
