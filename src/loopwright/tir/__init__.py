"""TensorIR: scalar expressions, loops, blocks and buffers, under TVM's names.

Passes and schedules are subpackages (`loopwright.tir.transform`, `.schedule`).
"""

import importlib as _importlib
from typing import Any as _Any

from ..ir.op import Op as Op
from ..ir.prim_expr import EQ as EQ
from ..ir.prim_expr import GE as GE
from ..ir.prim_expr import GT as GT
from ..ir.prim_expr import LE as LE
from ..ir.prim_expr import LT as LT
from ..ir.prim_expr import NE as NE
from ..ir.prim_expr import Add as Add
from ..ir.prim_expr import And as And
from ..ir.prim_expr import BinaryOpExpr as BinaryOpExpr
from ..ir.prim_expr import Broadcast as Broadcast
from ..ir.prim_expr import Call as Call
from ..ir.prim_expr import Cast as Cast
from ..ir.prim_expr import CmpExpr as CmpExpr
from ..ir.prim_expr import ConstExpr as ConstExpr
from ..ir.prim_expr import Div as Div
from ..ir.prim_expr import ExprOp as ExprOp
from ..ir.prim_expr import FloatImm as FloatImm
from ..ir.prim_expr import FloorDiv as FloorDiv
from ..ir.prim_expr import FloorMod as FloorMod
from ..ir.prim_expr import IntImm as IntImm
from ..ir.prim_expr import IterVar as IterVar
from ..ir.prim_expr import Let as Let
from ..ir.prim_expr import LogicalExpr as LogicalExpr
from ..ir.prim_expr import Max as Max
from ..ir.prim_expr import Min as Min
from ..ir.prim_expr import Mod as Mod
from ..ir.prim_expr import Mul as Mul
from ..ir.prim_expr import Not as Not
from ..ir.prim_expr import Or as Or
from ..ir.prim_expr import PointerType as PointerType
from ..ir.prim_expr import PrimExpr as PrimExpr
from ..ir.prim_expr import PrimExprWithOp as PrimExprWithOp
from ..ir.prim_expr import PrimType as PrimType
from ..ir.prim_expr import Ramp as Ramp
from ..ir.prim_expr import Range as Range
from ..ir.prim_expr import Select as Select
from ..ir.prim_expr import Shuffle as Shuffle
from ..ir.prim_expr import SizeVar as SizeVar
from ..ir.prim_expr import StringImm as StringImm
from ..ir.prim_expr import Sub as Sub
from ..ir.prim_expr import Var as Var
from ..ir.prim_op import add as add
from ..ir.prim_op import cast as cast
from ..ir.prim_op import const as const
from ..ir.prim_op import convert as convert
from ..ir.prim_op import div as divide
from ..ir.prim_op import subtract as subtract
from . import analysis as analysis
from . import functor as functor
from . import ir_builder as ir_builder
from . import stmt_functor as stmt_functor
from .buffer import Buffer as Buffer
from .buffer import BufferRegion as BufferRegion
from .buffer import DataProducer as DataProducer
from .buffer import decl_buffer as decl_buffer
from .data_layout import BijectiveLayout as BijectiveLayout
from .data_layout import Layout as Layout
from .data_layout import bijective_layout as bijective_layout
from .data_layout import layout as layout
from .expr import BufferLoad as BufferLoad
from .expr import CommReducer as CommReducer
from .expr import ProducerLoad as ProducerLoad
from .expr import Reduce as Reduce
from .function import PrimFunc as PrimFunc
from .function import TensorIntrin as TensorIntrin
from .index_map import IndexMap as IndexMap
from .op import abs as abs
from .op import acos as acos
from .op import acosh as acosh
from .op import address_of as address_of
from .op import all as all
from .op import any as any
from .op import asin as asin
from .op import asinh as asinh
from .op import assume as assume
from .op import atan as atan
from .op import atan2 as atan2
from .op import atanh as atanh
from .op import bitwise_and as bitwise_and
from .op import bitwise_not as bitwise_not
from .op import bitwise_or as bitwise_or
from .op import bitwise_xor as bitwise_xor
from .op import call_cpacked as call_cpacked
from .op import call_cpacked_lowered as call_cpacked_lowered
from .op import call_extern as call_extern
from .op import call_intrin as call_intrin
from .op import call_llvm_intrin as call_llvm_intrin
from .op import call_llvm_pure_intrin as call_llvm_pure_intrin
from .op import call_packed as call_packed
from .op import call_packed_lowered as call_packed_lowered
from .op import call_pure_extern as call_pure_extern
from .op import call_tir as call_tir
from .op import ceil as ceil
from .op import ceildiv as ceildiv
from .op import clz as clz
from .op import copysign as copysign
from .op import cos as cos
from .op import cosh as cosh
from .op import div as div
from .op import erf as erf
from .op import exp as exp
from .op import exp2 as exp2
from .op import exp10 as exp10
from .op import floor as floor
from .op import floordiv as floordiv
from .op import floormod as floormod
from .op import fma as fma
from .op import fmod as fmod
from .op import handle_add_byte_offset as handle_add_byte_offset
from .op import hypot as hypot
from .op import if_then_else as if_then_else
from .op import ignore_loop_partition as ignore_loop_partition
from .op import indexdiv as indexdiv
from .op import indexmod as indexmod
from .op import infinity as infinity
from .op import isfinite as isfinite
from .op import isinf as isinf
from .op import isnan as isnan
from .op import isnullptr as isnullptr
from .op import ldexp as ldexp
from .op import likely as likely
from .op import log as log
from .op import log1p as log1p
from .op import log2 as log2
from .op import log10 as log10
from .op import logaddexp as logaddexp
from .op import logical_and as logical_and
from .op import logical_not as logical_not
from .op import logical_or as logical_or
from .op import lookup_param as lookup_param
from .op import match_types as match_types
from .op import max_value as max_value
from .op import maximum as maximum
from .op import min_value as min_value
from .op import minimum as minimum
from .op import multiply as multiply
from .op import nearbyint as nearbyint
from .op import neg as neg
from .op import nextafter as nextafter
from .op import popcount as popcount
from .op import pow as pow
from .op import power as power
from .op import reinterpret as reinterpret
from .op import ret as ret
from .op import round as round
from .op import rsqrt as rsqrt
from .op import shift_left as shift_left
from .op import shift_right as shift_right
from .op import sigmoid as sigmoid
from .op import sin as sin
from .op import sinh as sinh
from .op import sqrt as sqrt
from .op import tan as tan
from .op import tanh as tanh
from .op import trunc as trunc
from .op import truncdiv as truncdiv
from .op import truncmod as truncmod
from .op import tvm_access_ptr as tvm_access_ptr
from .op import tvm_stack_alloca as tvm_stack_alloca
from .op import tvm_stack_make_array as tvm_stack_make_array
from .op import tvm_stack_make_shape as tvm_stack_make_shape
from .op import tvm_storage_sync as tvm_storage_sync
from .op import tvm_struct_get as tvm_struct_get
from .op import tvm_struct_set as tvm_struct_set
from .op import tvm_thread_allreduce as tvm_thread_allreduce
from .op import tvm_thread_invariant as tvm_thread_invariant
from .op import tvm_throw_last_error as tvm_throw_last_error
from .op import tvm_tuple as tvm_tuple
from .op import type_annotation as type_annotation
from .op import undef as undef
from .op import vectorcombine as vectorcombine
from .op import vectorhigh as vectorhigh
from .op import vectorlow as vectorlow
from .op_target import TVMBackendAllocWorkspace as TVMBackendAllocWorkspace
from .op_target import TVMBackendFreeWorkspace as TVMBackendFreeWorkspace
from .op_target import anylist_getitem as anylist_getitem
from .op_target import anylist_resetitem as anylist_resetitem
from .op_target import anylist_setitem_call_cpacked as anylist_setitem_call_cpacked
from .op_target import anylist_setitem_call_packed as anylist_setitem_call_packed
from .op_target import create_barriers as create_barriers
from .op_target import dp4a as dp4a
from .op_target import end_profile_intrinsic as end_profile_intrinsic
from .op_target import get_active_lane_mask as get_active_lane_mask
from .op_target import make_filled_simdgroup_matrix as make_filled_simdgroup_matrix
from .op_target import mma_fill as mma_fill
from .op_target import mma_store as mma_store
from .op_target import ptx_arrive_barrier as ptx_arrive_barrier
from .op_target import ptx_arrive_barrier_expect_tx as ptx_arrive_barrier_expect_tx
from .op_target import ptx_commit_group as ptx_commit_group
from .op_target import ptx_cp_async as ptx_cp_async
from .op_target import ptx_cp_async_barrier as ptx_cp_async_barrier
from .op_target import ptx_cp_async_bulk as ptx_cp_async_bulk
from .op_target import ptx_init_barrier_thread_count as ptx_init_barrier_thread_count
from .op_target import ptx_ldmatrix as ptx_ldmatrix
from .op_target import ptx_mma as ptx_mma
from .op_target import ptx_mma_sp as ptx_mma_sp
from .op_target import ptx_wait_barrier as ptx_wait_barrier
from .op_target import ptx_wait_group as ptx_wait_group
from .op_target import q_multiply_shift as q_multiply_shift
from .op_target import q_multiply_shift_per_axis as q_multiply_shift_per_axis
from .op_target import simdgroup_load as simdgroup_load
from .op_target import simdgroup_multiply_accumulate as simdgroup_multiply_accumulate
from .op_target import simdgroup_store as simdgroup_store
from .op_target import start_profile_intrinsic as start_profile_intrinsic
from .op_target import trace as trace
from .op_target import tvm_bmma_sync as tvm_bmma_sync
from .op_target import tvm_fill_fragment as tvm_fill_fragment
from .op_target import tvm_load_matrix_sync as tvm_load_matrix_sync
from .op_target import tvm_mma_sync as tvm_mma_sync
from .op_target import tvm_store_matrix_sync as tvm_store_matrix_sync
from .op_target import tvm_warp_activemask as tvm_warp_activemask
from .op_target import tvm_warp_shuffle as tvm_warp_shuffle
from .op_target import tvm_warp_shuffle_down as tvm_warp_shuffle_down
from .op_target import tvm_warp_shuffle_up as tvm_warp_shuffle_up
from .op_target import vscale as vscale
from .reduction import comm_reducer as comm_reducer
from .reduction import max as max
from .reduction import min as min
from .reduction import sum as sum
from .stmt import Allocate as Allocate
from .stmt import AllocateConst as AllocateConst
from .stmt import AssertStmt as AssertStmt
from .stmt import AttrStmt as AttrStmt
from .stmt import Block as Block
from .stmt import BlockRealize as BlockRealize
from .stmt import BufferRealize as BufferRealize
from .stmt import BufferStore as BufferStore
from .stmt import DeclBuffer as DeclBuffer
from .stmt import Evaluate as Evaluate
from .stmt import For as For
from .stmt import ForKind as ForKind
from .stmt import IfThenElse as IfThenElse
from .stmt import LetStmt as LetStmt
from .stmt import MatchBufferRegion as MatchBufferRegion
from .stmt import SeqStmt as SeqStmt
from .stmt import Stmt as Stmt
from .stmt import While as While
from .stmt import stmt_list as stmt_list
from .stmt import stmt_seq as stmt_seq

# After everything that they stand on.
from . import tensor_intrin as tensor_intrin  # isort: skip
from . import schedule as schedule  # isort: skip
from .schedule import BlockRV as BlockRV  # isort: skip
from .schedule import BlockScope as BlockScope  # isort: skip
from .schedule import LoopRV as LoopRV  # isort: skip
from .schedule import Schedule as Schedule  # isort: skip
from .schedule import ScheduleError as ScheduleError  # isort: skip
from .schedule import ScheduleState as ScheduleState  # isort: skip
from . import transform as transform  # isort: skip
from .transform.gpu.verify_vtcm_limit import get_vtcm_compaction_passes as _compaction  # isort: skip

vars(analysis).update(get_vtcm_compaction_passes=_compaction)  # TVM has it there


def __getattr__(name: str) -> _Any:
    if name == "build":  # TVM's name in this module for what lies above this layer
        return _importlib.import_module("loopwright.driver").compile
    raise AttributeError(f"module 'tir' has no attribute {name!r}")
