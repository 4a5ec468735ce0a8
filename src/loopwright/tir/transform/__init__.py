"""Passes on TensorIR: one file each, whose docstring shows a function before and after."""

from .annotate_device_regions import AnnotateDeviceRegions
from .apply import Apply
from .bf16_compute_legalize import BF16ComputeLegalize
from .bf16_storage_legalize import BF16StorageLegalize
from .bind_target import BindTarget
from .common_subexpr_elim import CommonSubexprElimTIR
from .compact_buffer_allocation import CompactBufferAllocation
from .convert_blocks_to_opaque import ConvertBlocksToOpaque
from .convert_for_loops_to_serial import ConvertForLoopsToSerial
from .convert_ssa import ConvertSSA
from .decorate_device_scope import DecorateDeviceScope
from .filter import Filter
from .flatten_buffer import FlattenBuffer
from .force_narrow_index_to_int32 import ForceNarrowIndexToInt32
from .fp8_compute_legalize import FP8ComputeLegalize
from .fp8_storage_legalize import FP8StorageLegalize
from .hoist_divisions import HoistDivisions
from .hoist_expression import HoistedConditionals, HoistedLetBindings, HoistExpression
from .hoist_if_then_else import HoistIfThenElse
from .inject_double_buffer import InjectDoubleBuffer
from .inject_software_pipeline import InjectSoftwarePipeline
from .inject_virtual_thread import InjectVirtualThread
from .instrument_bound_checkers import InstrumentBoundCheckers
from .int4_storage_legalize import Int4StorageLegalize
from .loop_partition import LoopPartition
from .lower_cross_thread_reduction import LowerCrossThreadReduction
from .lower_custom_datatypes import LowerCustomDatatypes
from .lower_device_kernel_launch import LowerDeviceKernelLaunch
from .lower_init_block import LowerInitBlock
from .lower_intrin import LowerIntrin
from .lower_match_buffer import LowerMatchBuffer
from .lower_opaque_block import LowerOpaqueBlock
from .lower_thread_allreduce import LowerThreadAllreduce
from .lower_tvm_builtin import LowerTVMBuiltin
from .make_packed_api import MakePackedAPI
from .make_unpacked_api import MakeUnpackedAPI
from .narrow_data_type import NarrowDataType
from .pipeline import default_tir_pipeline, finalize, lower_to_loops
from .plan_and_update_buffer_allocation_location import PlanAndUpdateBufferAllocationLocation
from .prim_func_pass import PrimFuncPass, prim_func_pass
from .remove_assume import RemoveAssume
from .remove_no_op import RemoveNoOp
from .remove_store_undef import RemoveStoreUndef
from .renormalize_split_pattern import RenormalizeSplitPattern
from .rewrite_unsafe_select import RewriteUnsafeSelect
from .simplify import Simplify
from .skip_assert import SkipAssert
from .split_host_device import SplitHostDevice
from .storage_rewrite import StorageRewrite
from .thread_sync import ThreadSync
from .unify_thread_binding import UnifyThreadBinding
from .unroll_loop import UnrollLoop
from .vectorize_loop import VectorizeLoop
from .verify_memory import VerifyMemory
from .verify_externs import VerifyExterns
from .verify_parallel import VerifyParallel
