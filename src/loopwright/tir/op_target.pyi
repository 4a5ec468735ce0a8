"""Intrinsics of the runtime and of particular targets: thin wrappers generated from two tables.

Made by `python -m tools.make_stubs`.
"""

from loopwright.ir.dtype import DataType as DataType
from loopwright.ir.op import register_op as register_op
from loopwright.ir.prim_expr import Call as Call, PrimExpr as PrimExpr
from loopwright.ir.prim_op import const as const, convert as convert, vscale as vscale
from loopwright.runtime.packed_func import register_func as register_func
from loopwright.tir.op import call_intrin as call_intrin
from typing import Any as _Any

def TVMBackendAllocWorkspace(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.TVMBackendAllocWorkspace."""
def TVMBackendFreeWorkspace(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.TVMBackendFreeWorkspace."""
def anylist_getitem(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.anylist_getitem."""
def anylist_resetitem(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.anylist_resetitem."""
def anylist_setitem_call_cpacked(list_handle: _Any, index: _Any, name: str, *args: _Any) -> PrimExpr: """list[index] = the function `name` of this module applied to `args`."""
def anylist_setitem_call_packed(list_handle: _Any, index: _Any, name: str, *args: _Any) -> PrimExpr: """list[index] = the packed function `name` applied to `args`."""
def create_barriers(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.create_barriers."""
def dp4a(vec1: _Any, vec2: _Any, acc: _Any = 0) -> PrimExpr: """The dot product of two int8x4 vectors, added to `acc`."""
def end_profile_intrinsic(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.end_profile_intrinsic."""
def get_active_lane_mask(dtype: _Any, base: _Any, limit: _Any) -> PrimExpr: """The mask of the lanes k with base + k < limit."""
def get_vscale_expr(dtype: _Any, min_size: int = 128) -> PrimExpr: """The lanes of a vector register of at least `min_size` bits: vscale times a number."""
def make_filled_simdgroup_matrix(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.make_filled_simdgroup_matrix."""
def mma_fill(dtype: _Any, *args: _Any) -> PrimExpr: """A call of the intrinsic tir.mma_fill."""
def mma_store(dtype: _Any, *args: _Any) -> PrimExpr: """A call of the intrinsic tir.mma_store."""
def prefetch(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.prefetch."""
def ptx_arrive_barrier(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.ptx_arrive_barrier."""
def ptx_arrive_barrier_expect_tx(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.ptx_arrive_barrier_expect_tx."""
def ptx_commit_group(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.ptx_commit_group."""
def ptx_cp_async(dtype: _Any, *args: _Any) -> PrimExpr: """A call of the intrinsic tir.ptx_cp_async."""
def ptx_cp_async_barrier(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.ptx_cp_async_barrier."""
def ptx_cp_async_bulk(dtype: _Any, *args: _Any) -> PrimExpr: """A call of the intrinsic tir.ptx_cp_async_bulk."""
def ptx_init_barrier_thread_count(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.ptx_init_barrier_thread_count."""
def ptx_ldmatrix(dtype: _Any, *args: _Any) -> PrimExpr: """A call of the intrinsic tir.ptx_ldmatrix."""
def ptx_mma(dtype: _Any, *args: _Any) -> PrimExpr: """A call of the intrinsic tir.ptx_mma."""
def ptx_mma_sp(dtype: _Any, *args: _Any) -> PrimExpr: """A call of the intrinsic tir.ptx_mma_sp."""
def ptx_wait_barrier(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.ptx_wait_barrier."""
def ptx_wait_group(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.ptx_wait_group."""
def q_multiply_shift(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.q_multiply_shift."""
def q_multiply_shift_per_axis(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.q_multiply_shift_per_axis."""
def simdgroup_load(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.simdgroup_load."""
def simdgroup_multiply_accumulate(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.simdgroup_multiply_accumulate."""
def simdgroup_store(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.simdgroup_store."""
def start_profile_intrinsic(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.start_profile_intrinsic."""
def trace(args: _Any, trace_action: str = 'tvm.default_trace_action') -> PrimExpr: """Call the registered function `trace_action` on `args`. The value is what it returns, or the last argument where it returns None; the default prints the arguments."""
def tvm_bmma_sync(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.tvm_bmma_sync."""
def tvm_fill_fragment(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.tvm_fill_fragment."""
def tvm_load_matrix_sync(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.tvm_load_matrix_sync."""
def tvm_mma_sync(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.tvm_mma_sync."""
def tvm_store_matrix_sync(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.tvm_store_matrix_sync."""
def tvm_warp_activemask(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.tvm_warp_activemask."""
def tvm_warp_shuffle(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.tvm_warp_shuffle."""
def tvm_warp_shuffle_down(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.tvm_warp_shuffle_down."""
def tvm_warp_shuffle_up(*args: _Any) -> PrimExpr: """A call of the intrinsic tir.tvm_warp_shuffle_up."""
