"""The namespace `T` of TVMScript: the names behind `T.` in a prim_func.

Made by `python -m tools.make_stubs`.
"""

import builtins as _py
from collections.abc import Callable as _Callable, Mapping as _Mapping, Sequence as _Sequence
from loopwright.ir.conversion import (
    const as const, convert as convert, match_types as match_types, vscale as vscale,
)
from loopwright.ir.dtype import DataType as DataType
from loopwright.ir.expr import BaseExpr as BaseExpr
from loopwright.ir.op import Op as Op
from loopwright.ir.prim_expr import (
    Add as Add, And as And, Broadcast as Broadcast, Call as Call, Cast as Cast, Div as Div,
    EQ as EQ, FloatImm as FloatImm, FloorDiv as FloorDiv, FloorMod as FloorMod, GE as GE,
    GT as GT, IntImm as IntImm, IterVar as IterVar, LE as LE, LT as LT, Max as Max, Min as Min,
    Mod as Mod, Mul as Mul, NE as NE, Not as Not, Or as Or, PrimExpr as PrimExpr, Ramp as Ramp,
    Range as Range, Select as Select, Shuffle as Shuffle, SizeVar as SizeVar,
    StringImm as StringImm, Sub as Sub, Var as Var,
)
from loopwright.ir.prim_op import (
    add as add, bitwise_and as bitwise_and, bitwise_not as bitwise_not,
    bitwise_or as bitwise_or, bitwise_xor as bitwise_xor, ceildiv as ceildiv, div as div,
    floordiv as floordiv, floormod as floormod, indexdiv as indexdiv, indexmod as indexmod,
    logical_and as logical_and, logical_not as logical_not, logical_or as logical_or,
    max_value as max_value, min_value as min_value, multiply as multiply, neg as neg,
    shift_left as shift_left, shift_right as shift_right, subtract as subtract,
    truncdiv as truncdiv, truncmod as truncmod,
)
from loopwright.ir.target import Target as Target
from loopwright.ir.types import PointerType as PointerType
from loopwright.script.parser.entry import PrimFuncDecorator as _PrimFuncDecorator
from loopwright.script.parser.frames import (
    BranchFrame as _BranchFrame, ForFrame as _ForFrame, IfFrame as _IfFrame,
    WhileFrame as _WhileFrame, Wrap as _Wrap,
)
from loopwright.script.parser.macro import MacroDecorator as _MacroDecorator
from loopwright.script.parser.tir_blocks import (
    axis as axis, block as block, block_attr as block_attr, init as init, reads as reads,
    where as where, writes as writes,
)
from loopwright.script.parser.tir_buffers import (
    alloc_buffer as alloc_buffer, allocate as allocate, allocate_const as allocate_const,
    arg as arg, as_region as as_region, buffer as buffer, decl_buffer as decl_buffer,
    func_attr as func_attr, func_name as func_name, func_ret as func_ret,
    match_buffer as match_buffer,
)
from loopwright.script.parser.tir_values import buffer_var as buffer_var, ptr as ptr, var as var
from loopwright.tir.buffer import Buffer as _Buffer, BufferRegion as _BufferRegion
from loopwright.tir.expr import (
    BufferLoad as BufferLoad, CommReducer as CommReducer, ProducerLoad as ProducerLoad,
    Reduce as Reduce,
)
from loopwright.tir.index_map import IndexMap as IndexMap
from loopwright.tir.op import (
    abs as abs, acos as acos, acosh as acosh, address_of as address_of, all as all, any as any,
    asin as asin, asinh as asinh, assume as assume, atan as atan, atan2 as atan2,
    atanh as atanh, call_cpacked as call_cpacked, call_cpacked_lowered as call_cpacked_lowered,
    call_extern as call_extern, call_intrin as call_intrin,
    call_llvm_intrin as call_llvm_intrin, call_llvm_pure_intrin as call_llvm_pure_intrin,
    call_packed as call_packed, call_packed_lowered as call_packed_lowered,
    call_pure_extern as call_pure_extern, call_tir as call_tir, ceil as ceil,
    checked_index as checked_index, clz as clz, copysign as copysign, cos as cos, cosh as cosh,
    erf as erf, exp as exp, exp10 as exp10, exp2 as exp2, expm1 as expm1, floor as floor,
    fma as fma, fmod as fmod, handle_add_byte_offset as handle_add_byte_offset, hypot as hypot,
    if_then_else as if_then_else, ignore_loop_partition as ignore_loop_partition,
    infinity as infinity, isfinite as isfinite, isinf as isinf, isnan as isnan,
    isnullptr as isnullptr, ldexp as ldexp, likely as likely, log as log, log10 as log10,
    log1p as log1p, log2 as log2, logaddexp as logaddexp, lookup_param as lookup_param,
    nearbyint as nearbyint, nextafter as nextafter, popcount as popcount, power as power,
    reinterpret as reinterpret, ret as ret, round as round, rsqrt as rsqrt, sigmoid as sigmoid,
    sin as sin, sinh as sinh, sqrt as sqrt, tan as tan, tanh as tanh, trunc as trunc,
    tvm_access_ptr as tvm_access_ptr, tvm_stack_alloca as tvm_stack_alloca,
    tvm_stack_make_array as tvm_stack_make_array, tvm_stack_make_shape as tvm_stack_make_shape,
    tvm_storage_sync as tvm_storage_sync, tvm_struct_get as tvm_struct_get,
    tvm_struct_set as tvm_struct_set, tvm_thread_allreduce as tvm_thread_allreduce,
    tvm_thread_invariant as tvm_thread_invariant, tvm_throw_last_error as tvm_throw_last_error,
    tvm_tuple as tvm_tuple, type_annotation as type_annotation, vectorcombine as vectorcombine,
    vectorhigh as vectorhigh, vectorlow as vectorlow,
)
from loopwright.tir.op_target import (
    TVMBackendAllocWorkspace as TVMBackendAllocWorkspace,
    TVMBackendFreeWorkspace as TVMBackendFreeWorkspace, anylist_getitem as anylist_getitem,
    anylist_resetitem as anylist_resetitem,
    anylist_setitem_call_cpacked as anylist_setitem_call_cpacked,
    anylist_setitem_call_packed as anylist_setitem_call_packed,
    create_barriers as create_barriers, dp4a as dp4a,
    end_profile_intrinsic as end_profile_intrinsic,
    get_active_lane_mask as get_active_lane_mask, get_vscale_expr as get_vscale_expr,
    make_filled_simdgroup_matrix as make_filled_simdgroup_matrix, mma_fill as mma_fill,
    mma_store as mma_store, prefetch as prefetch, ptx_arrive_barrier as ptx_arrive_barrier,
    ptx_arrive_barrier_expect_tx as ptx_arrive_barrier_expect_tx,
    ptx_commit_group as ptx_commit_group, ptx_cp_async as ptx_cp_async,
    ptx_cp_async_barrier as ptx_cp_async_barrier, ptx_cp_async_bulk as ptx_cp_async_bulk,
    ptx_init_barrier_thread_count as ptx_init_barrier_thread_count,
    ptx_ldmatrix as ptx_ldmatrix, ptx_mma as ptx_mma, ptx_mma_sp as ptx_mma_sp,
    ptx_wait_barrier as ptx_wait_barrier, ptx_wait_group as ptx_wait_group,
    q_multiply_shift as q_multiply_shift,
    q_multiply_shift_per_axis as q_multiply_shift_per_axis, simdgroup_load as simdgroup_load,
    simdgroup_multiply_accumulate as simdgroup_multiply_accumulate,
    simdgroup_store as simdgroup_store, start_profile_intrinsic as start_profile_intrinsic,
    trace as trace, tvm_bmma_sync as tvm_bmma_sync, tvm_fill_fragment as tvm_fill_fragment,
    tvm_load_matrix_sync as tvm_load_matrix_sync, tvm_mma_sync as tvm_mma_sync,
    tvm_store_matrix_sync as tvm_store_matrix_sync, tvm_warp_activemask as tvm_warp_activemask,
    tvm_warp_shuffle as tvm_warp_shuffle, tvm_warp_shuffle_down as tvm_warp_shuffle_down,
    tvm_warp_shuffle_up as tvm_warp_shuffle_up,
)
from loopwright.tir.stmt import ForKind as ForKind
from typing import Any as _Any

def Assert(condition: PrimExpr | int, message: PrimExpr | str | int) -> _Wrap: """Check a condition before the rest of the scope runs."""
class Buffer(_Buffer):
    """A buffer symbol: as the annotation of a parameter, or a view of the memory `data`."""
    def __init__(self, shape: int | _Sequence[PrimExpr | int], dtype: DataType | str = 'float32', data: Var | None = None, strides: _Sequence[_Any] | None = None, elem_offset: _Any = None, scope: str = 'global', align: int = 0, offset_factor: int = 0, buffer_type: str = '', axis_separators: _Any = None) -> None: """A buffer symbol: as the annotation of a parameter, or a view of the memory `data`."""
def Else() -> _BranchFrame: """The branch taken where the condition does not hold."""
def If(condition: PrimExpr | int) -> _IfFrame: """A branch: `with T.If(c): with T.Then(): ...`"""
def Let(expr: PrimExpr | int, where: dict[Var, _Any] | None = None) -> PrimExpr: """`expr` with variables standing for values: `T.Let(x + 1, where={x: y})`."""
def LetStmt(value: PrimExpr | int, type_annotation: _Any = None, *, var: Var | None = None) -> _Wrap: """A variable for the rest of the scope."""
class Ptr(Var):
    """`T.Ptr[T.float32]`, `T.Ptr("float32", "shared")`: a pointer variable, as an annotation."""
    def __init__(self, dtype: _Any, storage_scope: str = 'global') -> None: """`T.Ptr[T.float32]`, `T.Ptr("float32", "shared")`: a pointer variable, as an annotation."""
def Then() -> _BranchFrame: """The branch taken where the condition holds."""
def While(condition: PrimExpr | int) -> _WhileFrame: """A loop that runs while the condition holds."""
alloc_sblock = alloc_buffer
def atomic_add(*args: PrimExpr | int, dtype: DataType | str = 'handle') -> Call: ...
def attr(node: object, attr_key: str, value: PrimExpr | str | int) -> _Wrap: """A note about `node` that holds for the rest of the scope."""
def axis_separators(*positions: int) -> list[int]: """Axis separators of a buffer."""
class bfloat16(_Dtype, init=False): """A bfloat16 variable; with an argument, that value as bfloat16."""
def bind(value: PrimExpr | int, type_annotation: _Any = None, *, var: Var | None = None) -> _Wrap: """A variable for the rest of the scope (newer spelling)."""
class bool(_Dtype, init=False): """A bool variable; with an argument, that value as bool."""
class boolean(_Dtype, init=False): """A bool variable; with an argument, that value as bool."""
def broadcast(value: PrimExpr | int, lanes: PrimExpr | int) -> PrimExpr: """The vector of copies of a value."""
buffer_decl = buffer
def buffer_store(buffer: _Buffer, value: _Any, indices: list[_Any], predicate: _Any = None) -> None: """Store `value` at `indices`."""
def cast(src: _Any, dtype: _Any) -> PrimExpr: """`src` as `dtype`."""
def comm_reducer(combiner: _Callable[..., _Any], identity: _Sequence[PrimExpr | int]) -> CommReducer: """A commutative reduction: `T.comm_reducer(lambda x, y: x + y, [T.float32(0)])`."""
class complex128(_Dtype, init=False): """A complex128 variable; with an argument, that value as complex128."""
class complex64(_Dtype, init=False): """A complex64 variable; with an argument, that value as complex64."""
def env_thread(thread_tag: str, dtype: DataType | str = 'int32') -> Var: """The variable of a thread axis; `T.launch_thread` sets its extent."""
def evaluate(value: PrimExpr | _BufferRegion | int) -> None: """Evaluate an expression for its effect."""
fabs = abs
class float16(_Dtype, init=False): """A float16 variable; with an argument, that value as float16."""
class float32(_Dtype, init=False): """A float32 variable; with an argument, that value as float32."""
class float4_e2m1fn(_Dtype, init=False): """A float4_e2m1fn variable; with an argument, that value as float4_e2m1fn."""
class float64(_Dtype, init=False): """A float64 variable; with an argument, that value as float64."""
class float6_e2m3fn(_Dtype, init=False): """A float6_e2m3fn variable; with an argument, that value as float6_e2m3fn."""
class float6_e3m2fn(_Dtype, init=False): """A float6_e3m2fn variable; with an argument, that value as float6_e3m2fn."""
class float8_e3m4(_Dtype, init=False): """A float8_e3m4 variable; with an argument, that value as float8_e3m4."""
class float8_e4m3(_Dtype, init=False): """A float8_e4m3 variable; with an argument, that value as float8_e4m3."""
class float8_e4m3b11fnuz(_Dtype, init=False): """A float8_e4m3b11fnuz variable; with an argument, that value as float8_e4m3b11fnuz."""
class float8_e4m3fn(_Dtype, init=False): """A float8_e4m3fn variable; with an argument, that value as float8_e4m3fn."""
class float8_e4m3fnuz(_Dtype, init=False): """A float8_e4m3fnuz variable; with an argument, that value as float8_e4m3fnuz."""
class float8_e5m2(_Dtype, init=False): """A float8_e5m2 variable; with an argument, that value as float8_e5m2."""
class float8_e5m2fnuz(_Dtype, init=False): """A float8_e5m2fnuz variable; with an argument, that value as float8_e5m2fnuz."""
class float8_e8m0fnu(_Dtype, init=False): """A float8_e8m0fnu variable; with an argument, that value as float8_e8m0fnu."""
def grid(*extents: PrimExpr | int) -> _ForFrame[tuple[Var, ...]]: """Nested serial loops; an extent may be a pair (start, stop)."""
class handle(Var):
    """A pointer variable; `dtype`: the type it points to."""
    def __init__(self, dtype: str | _Callable[..., _Any] | None = None, storage_scope: str = 'global', *, is_size_var: _py.bool = False) -> None: """A pointer variable; `dtype`: the type it points to."""
def index_map(mapping: _Callable[..., _Any], *, inverse_index_map: _Callable[..., _Any] | None = None, index_dtype: DataType | str = 'int64') -> IndexMap: """How indices move: `T.index_map(lambda i, j: (j, i))`."""
inline: _MacroDecorator
class int1(_Dtype, init=False): """A int1 variable; with an argument, that value as int1."""
class int16(_Dtype, init=False): """A int16 variable; with an argument, that value as int16."""
class int2(_Dtype, init=False): """A int2 variable; with an argument, that value as int2."""
class int32(_Dtype, init=False): """A int32 variable; with an argument, that value as int32."""
class int4(_Dtype, init=False): """A int4 variable; with an argument, that value as int4."""
class int64(_Dtype, init=False): """A int64 variable; with an argument, that value as int64."""
class int8(_Dtype, init=False): """A int8 variable; with an argument, that value as int8."""
def iter_var(v: Var | str, dom: Range | tuple[PrimExpr | int, PrimExpr | int], iter_type: str, thread_tag: str = '') -> IterVar: """An axis from its parts."""
def large_uint_imm(*args: PrimExpr | int, dtype: DataType | str = 'handle') -> Call: ...
def launch_thread(thread: Var | str, extent: PrimExpr | int) -> _Wrap: """Run the rest of the scope on `extent` threads of an axis; binds its variable."""
def let(v: Var, value: PrimExpr | int, body: PrimExpr | int | None = None) -> _Any: """A let expression, or without `body` a let for the rest of the scope."""
macro: _MacroDecorator
def max(a: PrimExpr | _BufferRegion | int, b: PrimExpr | _BufferRegion | float) -> PrimExpr: """The larger of two."""
class meta_var:
    """`x = T.meta_var(value)`: x is the Python value itself, no variable of the function."""
    def __init__(self, value: _Any) -> None: ...
    @property
    def meta_value(self) -> _Any: """The value, for a loop over it."""
def min(a: PrimExpr | int, b: PrimExpr | float) -> PrimExpr: """The smaller of two."""
def parallel(start: PrimExpr | int, stop: PrimExpr | int | None = None, *, annotations: _Mapping[str, _Any] | None = None) -> _ForFrame[Var]: """A loop whose iterations run on the threads of the pool."""
pow = power
prim_func: _PrimFuncDecorator
def ramp(base: PrimExpr | int, stride: PrimExpr | int, lanes: int) -> PrimExpr: """The vector base, base + stride, ..."""
def realize(buffer_slice: _Any, storage_scope: str, condition: _Any = True) -> _Wrap: """A region of a buffer exists for the rest of the scope."""
sblock = block
sblock_alloc_buffer = alloc_buffer
sblock_attr = block_attr
def serial(start: PrimExpr | int, stop: PrimExpr | int | None = None, *, annotations: _Mapping[str, _Any] | None = None) -> _ForFrame[Var]: """A loop whose iterations run in order."""
def target(target_config: str | _Mapping[str, _Any], host: str | None = None) -> Target: """A target, as the value of an attribute."""
def thread_binding(start: PrimExpr | int, stop: str | int | None = None, thread: str | None = None, *, annotations: dict[str, _Any] | None = None) -> _ForFrame[Var]: """A loop whose iterations are the threads of an axis such as "threadIdx.x"."""
def thread_return(*args: PrimExpr | int, dtype: DataType | str = 'handle') -> Call: ...
tvm_call_cpacked = call_cpacked
tvm_call_packed = call_packed
def tvm_call_trace_packed(*args: PrimExpr | int, dtype: DataType | str = 'handle') -> Call: ...
def tvm_check_return(*args: PrimExpr | int, dtype: DataType | str = 'handle') -> Call: ...
def tvm_context_id(*args: PrimExpr | int, dtype: DataType | str = 'handle') -> Call: ...
def tvm_static_handle(*args: PrimExpr | int, dtype: DataType | str = 'handle') -> Call: ...
class uint1(_Dtype, init=False): """A uint1 variable; with an argument, that value as uint1."""
class uint16(_Dtype, init=False): """A uint16 variable; with an argument, that value as uint16."""
class uint2(_Dtype, init=False): """A uint2 variable; with an argument, that value as uint2."""
class uint32(_Dtype, init=False): """A uint32 variable; with an argument, that value as uint32."""
class uint4(_Dtype, init=False): """A uint4 variable; with an argument, that value as uint4."""
class uint64(_Dtype, init=False): """A uint64 variable; with an argument, that value as uint64."""
class uint8(_Dtype, init=False): """A uint8 variable; with an argument, that value as uint8."""
def undef(dtype: DataType | str = 'int32') -> Call: """A value that is never read."""
def unroll(start: PrimExpr | int, stop: PrimExpr | int | None = None, *, annotations: _Mapping[str, _Any] | None = None) -> _ForFrame[Var]: """A loop whose body is repeated."""
def vectorized(start: PrimExpr | int, stop: PrimExpr | int | None = None, *, annotations: _Mapping[str, _Any] | None = None) -> _ForFrame[Var]: """A loop that becomes vector instructions."""
class void(PrimExpr):
    """A variable of no type."""
    def __init__(self, expr: _Any = None, *, is_size_var: _py.bool = False) -> None: """A variable of no type."""
class _Dtype(PrimExpr):
    """A float32 variable; with an argument, that value as float32."""
    def __init__(self, expr: PrimExpr | float | None = None, is_size_var: _py.bool = False) -> None: """A float32 variable; with an argument, that value as float32."""
bfloat16x2 = bfloat16x4 = bfloat16x8 = bfloat16x16 = bfloat16x32 = bfloat16x64 = bfloat16
booleanx2 = booleanx4 = booleanx8 = booleanx16 = booleanx32 = booleanx64 = boolean
float16x2 = float16x4 = float16x8 = float16x16 = float16x32 = float16x64 = float16
float32x2 = float32x4 = float32x8 = float32x16 = float32x32 = float32x64 = float32
float64x2 = float64x4 = float64x8 = float64x16 = float64x32 = float64x64 = float64
int16x2 = int16x4 = int16x8 = int16x16 = int16x32 = int16x64 = int16
int32x2 = int32x4 = int32x8 = int32x16 = int32x32 = int32x64 = int32
int64x2 = int64x4 = int64x8 = int64x16 = int64x32 = int64x64 = int64
int8x2 = int8x4 = int8x8 = int8x16 = int8x32 = int8x64 = int8
uint16x2 = uint16x4 = uint16x8 = uint16x16 = uint16x32 = uint16x64 = uint16
uint32x2 = uint32x4 = uint32x8 = uint32x16 = uint32x32 = uint32x64 = uint32
uint64x2 = uint64x4 = uint64x8 = uint64x16 = uint64x32 = uint64x64 = uint64
uint8x2 = uint8x4 = uint8x8 = uint8x16 = uint8x32 = uint8x64 = uint8
