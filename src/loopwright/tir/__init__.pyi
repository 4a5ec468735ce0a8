"""TensorIR: scalar expressions, loops, blocks and buffers, under TVM's names.

Made by `python -m tools.make_stubs`.
"""

from loopwright.driver.front import compile as _compile
from loopwright.ir.conversion import (
    cast as cast, convert as convert, match_types as match_types, vscale as vscale,
)
from loopwright.ir.op import CallEffectKind as CallEffectKind, Op as Op
from loopwright.ir.prim_expr import (
    Add as Add, And as And, BinaryOpExpr as BinaryOpExpr, Broadcast as Broadcast, Call as Call,
    Cast as Cast, CmpExpr as CmpExpr, ConstExpr as ConstExpr, Div as Div, EQ as EQ,
    FloatImm as FloatImm, FloorDiv as FloorDiv, FloorMod as FloorMod, GE as GE, GT as GT,
    IntImm as IntImm, IterVar as IterVar, LE as LE, LT as LT, Let as Let,
    LogicalExpr as LogicalExpr, Max as Max, Min as Min, Mod as Mod, Mul as Mul, NE as NE,
    Not as Not, Or as Or, PrimExpr as PrimExpr, PrimExprWithOp as PrimExprWithOp, Ramp as Ramp,
    Range as Range, Select as Select, Shuffle as Shuffle, SizeVar as SizeVar,
    StringImm as StringImm, Sub as Sub, Var as Var,
)
from loopwright.ir.prim_op import (
    add as add, bitwise_and as bitwise_and, bitwise_not as bitwise_not,
    bitwise_or as bitwise_or, bitwise_xor as bitwise_xor, ceildiv as ceildiv, div as div,
    floordiv as floordiv, floormod as floormod, indexdiv as indexdiv, indexmod as indexmod,
    literal as _literal, logical_and as logical_and, logical_not as logical_not,
    logical_or as logical_or, max_value as max_value, maximum as maximum,
    min_value as min_value, minimum as minimum, multiply as multiply, neg as neg,
    shift_left as shift_left, shift_right as shift_right, subtract as subtract,
    truncdiv as truncdiv, truncmod as truncmod,
)
from loopwright.ir.types import PointerType as PointerType, PrimType as PrimType
from loopwright.tir import (
    analysis as analysis, ir_builder as ir_builder, schedule as schedule,
    stmt_functor as stmt_functor, tensor_intrin as tensor_intrin, transform as transform,
)
from loopwright.tir.buffer import (
    Buffer as Buffer, BufferRegion as BufferRegion, DataProducer as DataProducer,
    decl_buffer as decl_buffer,
)
from loopwright.tir.data_layout import (
    BijectiveLayout as BijectiveLayout, Layout as Layout, bijective_layout as bijective_layout,
    layout as layout,
)
from loopwright.tir.expr import (
    BufferLoad as BufferLoad, CommReducer as CommReducer, ProducerLoad as ProducerLoad,
    Reduce as Reduce,
)
from loopwright.tir.function import PrimFunc as PrimFunc, TensorIntrin as TensorIntrin
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
    tvm_tuple as tvm_tuple, type_annotation as type_annotation, undef as undef,
    vectorcombine as vectorcombine, vectorhigh as vectorhigh, vectorlow as vectorlow,
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
from loopwright.tir.reduction import (
    comm_reducer as comm_reducer, max as max, min as min, sum as sum,
)
from loopwright.tir.schedule.machinery.errors import ScheduleError as ScheduleError
from loopwright.tir.schedule.machinery.random_variables import BlockRV as BlockRV, LoopRV as LoopRV
from loopwright.tir.schedule.machinery.scope import BlockScope as BlockScope
from loopwright.tir.schedule.machinery.state import ScheduleState as ScheduleState
from loopwright.tir.schedule.schedule import Schedule as Schedule
from loopwright.tir.stmt import (
    Allocate as Allocate, AllocateConst as AllocateConst, AssertStmt as AssertStmt,
    AttrStmt as AttrStmt, Block as Block, BlockRealize as BlockRealize,
    BufferRealize as BufferRealize, BufferStore as BufferStore, DeclBuffer as DeclBuffer,
    Evaluate as Evaluate, For as For, ForKind as ForKind, IfThenElse as IfThenElse,
    LetStmt as LetStmt, MatchBufferRegion as MatchBufferRegion, SeqStmt as SeqStmt,
    Stmt as Stmt, While as While, stmt_list as stmt_list, stmt_seq as stmt_seq,
)
from loopwright.tvm.tir import functor as functor
from loopwright.tvm.tir.functor import (
    PyStmtExprMutator as PyStmtExprMutator, PyStmtExprVisitor as PyStmtExprVisitor,
)

ExprOp = PrimExpr
build = _compile
const = _literal
divide = div
fabs = abs
pow = power
