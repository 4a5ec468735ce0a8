"""Passes on TensorIR: one file each, whose docstring shows a function before and after. A pass is loaded when it is first named.

Made by `python -m tools.make_stubs`.
"""

from collections.abc import Callable as _Callable, Iterable as _Iterable
from loopwright.tir.transform.base import PrimFuncPass as PrimFuncPass
from loopwright.tir.transform.dtype.int4_storage_legalize import (
    Int4StorageLegalize as Int4StorageLegalize,
)
from loopwright.tir.transform.dtype.lower_custom_datatypes import (
    LowerCustomDatatypes as LowerCustomDatatypes,
)
from loopwright.tir.transform.gpu.annotate_device_regions import (
    AnnotateDeviceRegions as AnnotateDeviceRegions,
)
from loopwright.tir.transform.gpu.decorate_device_scope import (
    DecorateDeviceScope as DecorateDeviceScope,
)
from loopwright.tir.transform.gpu.default_gpu_schedule import (
    DefaultGPUSchedule as DefaultGPUSchedule,
)
from loopwright.tir.transform.gpu.lower_cross_thread_reduction import (
    LowerCrossThreadReduction as LowerCrossThreadReduction,
)
from loopwright.tir.transform.gpu.lower_device_kernel_launch import (
    LowerDeviceKernelLaunch as LowerDeviceKernelLaunch,
)
from loopwright.tir.transform.gpu.lower_device_storage_access_info import (
    LowerDeviceStorageAccessInfo as LowerDeviceStorageAccessInfo,
)
from loopwright.tir.transform.gpu.lower_thread_allreduce import (
    LowerThreadAllreduce as LowerThreadAllreduce,
)
from loopwright.tir.transform.gpu.lower_warp_memory import LowerWarpMemory as LowerWarpMemory
from loopwright.tir.transform.gpu.merge_shared_memory_allocations import (
    MergeSharedMemoryAllocations as MergeSharedMemoryAllocations,
)
from loopwright.tir.transform.gpu.split_host_device import SplitHostDevice as SplitHostDevice
from loopwright.tir.transform.gpu.thread_sync import ThreadSync as ThreadSync
from loopwright.tir.transform.gpu.unify_thread_binding import (
    UnifyThreadBinding as UnifyThreadBinding,
)
from loopwright.tir.transform.gpu.verify_memory import VerifyMemory as VerifyMemory
from loopwright.tir.transform.lower.compact_buffer_allocation import (
    CompactBufferAllocation as CompactBufferAllocation,
)
from loopwright.tir.transform.lower.convert_blocks_to_opaque import (
    ConvertBlocksToOpaque as ConvertBlocksToOpaque,
)
from loopwright.tir.transform.lower.convert_for_loops_to_serial import (
    ConvertForLoopsToSerial as ConvertForLoopsToSerial,
)
from loopwright.tir.transform.lower.flatten_buffer import FlattenBuffer as FlattenBuffer
from loopwright.tir.transform.lower.inject_double_buffer import (
    InjectDoubleBuffer as InjectDoubleBuffer,
)
from loopwright.tir.transform.lower.inject_software_pipeline import (
    InjectSoftwarePipeline as InjectSoftwarePipeline,
)
from loopwright.tir.transform.lower.inject_virtual_thread import (
    InjectVirtualThread as InjectVirtualThread,
)
from loopwright.tir.transform.lower.join_stores import JoinStores as JoinStores
from loopwright.tir.transform.lower.lower_init_block import LowerInitBlock as LowerInitBlock
from loopwright.tir.transform.lower.lower_intrin import LowerIntrin as LowerIntrin
from loopwright.tir.transform.lower.lower_match_buffer import LowerMatchBuffer as LowerMatchBuffer
from loopwright.tir.transform.lower.lower_opaque_block import LowerOpaqueBlock as LowerOpaqueBlock
from loopwright.tir.transform.lower.lower_scalar_ops import LowerScalarOps as LowerScalarOps
from loopwright.tir.transform.lower.plan_and_update_buffer_allocation_location import (
    PlanAndUpdateBufferAllocationLocation as PlanAndUpdateBufferAllocationLocation,
)
from loopwright.tir.transform.lower.plan_unified_memory import (
    PlanUnifiedMemory as PlanUnifiedMemory,
)
from loopwright.tir.transform.lower.transpose_in_registers import (
    TransposeInRegisters as TransposeInRegisters,
)
from loopwright.tir.transform.lower.unpack_signatures import UnpackSignatures as UnpackSignatures
from loopwright.tir.transform.lower.unroll_loop import UnrollLoop as UnrollLoop
from loopwright.tir.transform.lower.vectorize_loop import VectorizeLoop as VectorizeLoop
from loopwright.tir.transform.optimize.hoist_divisions import HoistDivisions as HoistDivisions
from loopwright.tir.transform.optimize.hoist_if_then_else import HoistIfThenElse as HoistIfThenElse
from loopwright.tir.transform.optimize.hoist_values import HoistValues as HoistValues
from loopwright.tir.transform.optimize.loop_partition import LoopPartition as LoopPartition
from loopwright.tir.transform.optimize.remove_no_op import RemoveNoOp as RemoveNoOp
from loopwright.tir.transform.optimize.simplify import Simplify as Simplify
from loopwright.tir.transform.pipeline import (
    default_tir_pipeline as default_tir_pipeline, finalize as finalize,
    lower_to_loops as lower_to_loops,
)
from loopwright.tir.transform.verify.fill_new_memory import FillNewMemory as FillNewMemory
from loopwright.tir.transform.verify.instrument_bound_checkers import (
    BoundCheckersIfWanted as BoundCheckersIfWanted,
    InstrumentBoundCheckers as InstrumentBoundCheckers,
)
from loopwright.tir.transform.verify.skip_assert import (
    AssertsIfWanted as AssertsIfWanted, SkipAssert as SkipAssert,
)
from loopwright.tir.transform.verify.verify_externs import VerifyExterns as VerifyExterns
from loopwright.tir.transform.verify.verify_parallel import VerifyParallel as VerifyParallel
from loopwright.tvm.tir_transform.annotate_entry_func import AnnotateEntryFunc as AnnotateEntryFunc
from loopwright.tvm.tir_transform.apply import Apply as Apply
from loopwright.tvm.tir_transform.bf16_compute_legalize import (
    BF16ComputeLegalize as BF16ComputeLegalize,
)
from loopwright.tvm.tir_transform.bf16_storage_legalize import (
    BF16StorageLegalize as BF16StorageLegalize,
)
from loopwright.tvm.tir_transform.bind_target import BindTarget as BindTarget
from loopwright.tvm.tir_transform.common_subexpr_elim import (
    CommonSubexprElimTIR as CommonSubexprElimTIR,
)
from loopwright.tvm.tir_transform.convert_ssa import ConvertSSA as ConvertSSA
from loopwright.tvm.tir_transform.filter import Filter as Filter
from loopwright.tvm.tir_transform.force_narrow_index_to_int32 import (
    ForceNarrowIndexToInt32 as ForceNarrowIndexToInt32,
)
from loopwright.tvm.tir_transform.fp8_compute_legalize import (
    FP8ComputeLegalize as FP8ComputeLegalize,
)
from loopwright.tvm.tir_transform.fp8_storage_legalize import (
    FP8StorageLegalize as FP8StorageLegalize,
)
from loopwright.tvm.tir_transform.hoist_expression import (
    HoistExpression as HoistExpression, HoistedConditionals as HoistedConditionals,
    HoistedLetBindings as HoistedLetBindings,
)
from loopwright.tvm.tir_transform.inline_private_functions import (
    InlinePrivateFunctions as InlinePrivateFunctions,
)
from loopwright.tvm.tir_transform.instrument_profile_intrinsics import (
    InstrumentProfileIntrinsics as InstrumentProfileIntrinsics,
)
from loopwright.tvm.tir_transform.lower_tvm_builtin import LowerTVMBuiltin as LowerTVMBuiltin
from loopwright.tvm.tir_transform.make_packed_api import MakePackedAPI as MakePackedAPI
from loopwright.tvm.tir_transform.make_unpacked_api import MakeUnpackedAPI as MakeUnpackedAPI
from loopwright.tvm.tir_transform.narrow_data_type import NarrowDataType as NarrowDataType
from loopwright.tvm.tir_transform.pointer_value_type_rewrite import (
    PointerValueTypeRewrite as PointerValueTypeRewrite,
)
from loopwright.tvm.tir_transform.reduce_branching_through_overcompute import (
    ReduceBranchingThroughOvercompute as ReduceBranchingThroughOvercompute,
)
from loopwright.tvm.tir_transform.remove_assume import RemoveAssume as RemoveAssume
from loopwright.tvm.tir_transform.remove_store_undef import RemoveStoreUndef as RemoveStoreUndef
from loopwright.tvm.tir_transform.renormalize_split_pattern import (
    RenormalizeSplitPattern as RenormalizeSplitPattern,
)
from loopwright.tvm.tir_transform.rewrite_unsafe_select import (
    RewriteUnsafeSelect as RewriteUnsafeSelect,
)
from loopwright.tvm.tir_transform.storage_rewrite import StorageRewrite as StorageRewrite
from loopwright.tvm.tir_transform.verify_vtcm_limit import VerifyVTCMLimit as VerifyVTCMLimit
from typing import Any as _Any

def prim_func_pass(pass_func: _Callable[..., _Any] | None = None, opt_level: int | None = None, name: str | None = None, required: _Iterable[str] | None = None, traceable: bool = False) -> _Any: """Makes a pass of a function `f(func, mod, ctx)`, or of a class with such a method `transform_function`."""
