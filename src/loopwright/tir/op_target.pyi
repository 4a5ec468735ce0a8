"""Intrinsics of the runtime and of particular targets: thin wrappers generated from a table.

Made by `python -m tools.make_stubs`.
"""

from collections.abc import Sequence as _Sequence
from loopwright.ir.conversion import const as const, convert as convert, vscale as vscale
from loopwright.ir.dtype import DataType as DataType
from loopwright.ir.op import register_op as register_op
from loopwright.ir.prim_expr import Call as Call, PrimExpr as PrimExpr, ScalarLike as _ScalarLike
from loopwright.runtime.packed_func import register_func as register_func
from loopwright.tir.op import call_intrin as call_intrin
from typing import Any as _Any

def TVMBackendAllocWorkspace(device_type: _Any, device_id: _Any, nbytes: _Any, dtype_code_hint: _Any, dtype_bits_hint: _Any) -> PrimExpr: """A call of the intrinsic tir.TVMBackendAllocWorkspace."""
def TVMBackendFreeWorkspace(device_type: _Any, device_id: _Any, ptr: _Any) -> PrimExpr: """A call of the intrinsic tir.TVMBackendFreeWorkspace."""
def anylist_getitem(list_handle: _Any, index: _Any) -> PrimExpr: """A call of the intrinsic tir.anylist_getitem."""
def anylist_resetitem(list_handle: _Any, index: _Any) -> PrimExpr: """A call of the intrinsic tir.anylist_resetitem."""
def anylist_setitem_call_cpacked(list_handle: _ScalarLike, index: int, func_name: str, *args: _ScalarLike) -> PrimExpr: """list[index] = the function `func_name` of this module applied to `args`."""
def anylist_setitem_call_packed(list_handle: _ScalarLike, index: int, func_name: str, *args: _ScalarLike) -> PrimExpr: """list[index] = the packed function `func_name` applied to `args`."""
def create_barriers(barrier_count: _Any) -> PrimExpr: """A call of the intrinsic tir.create_barriers."""
def dp4a(vec1: _ScalarLike, vec2: _ScalarLike, acc: _ScalarLike = 0) -> PrimExpr: """The dot product of two int8x4 vectors, added to `acc`."""
def end_profile_intrinsic(id: _Any) -> PrimExpr: """A call of the intrinsic tir.end_profile_intrinsic."""
def get_active_lane_mask(dtype: str, base: _ScalarLike, limit: _ScalarLike) -> PrimExpr: """The mask of the lanes k with base + k < limit."""
def get_vscale_expr(dtype: str, min_size: int = 128) -> PrimExpr: """The lanes of a vector register of at least `min_size` bits: vscale times a number."""
def make_filled_simdgroup_matrix(d: _Any, index: _Any, value: _Any, col: _Any = 8, row: _Any = 8) -> PrimExpr: """A call of the intrinsic tir.make_filled_simdgroup_matrix."""
def mma_fill(dtype: _Any, local_size: _Any, local_ptr: _Any, offset: _Any) -> PrimExpr: """A call of the intrinsic tir.mma_fill."""
def mma_store(dtype: _Any, m: _Any, n: _Any, dst_ptr: _Any, src_ptr: _Any, src_offset: _Any, dst_stride: _Any) -> PrimExpr: """A call of the intrinsic tir.mma_store."""
def prefetch(address: _Any, rw: _Any, locality: _Any, cache: _Any) -> PrimExpr: """A call of the intrinsic tir.prefetch."""
def ptx_arrive_barrier(barrier_id: _Any) -> PrimExpr: """A call of the intrinsic tir.ptx_arrive_barrier."""
def ptx_arrive_barrier_expect_tx(barrier_id: _Any, byte_count: _Any) -> PrimExpr: """A call of the intrinsic tir.ptx_arrive_barrier_expect_tx."""
def ptx_commit_group() -> PrimExpr: """A call of the intrinsic tir.ptx_commit_group."""
def ptx_cp_async(dtype: _Any, shared_ptr: _Any, shared_offset: _Any, global_ptr: _Any, global_offset: _Any, bytes: _Any) -> PrimExpr: """A call of the intrinsic tir.ptx_cp_async."""
def ptx_cp_async_barrier(barrier_id: _Any) -> PrimExpr: """A call of the intrinsic tir.ptx_cp_async_barrier."""
def ptx_cp_async_bulk(dtype: _Any, shared_ptr: _Any, shared_offset: _Any, global_ptr: _Any, global_offset: _Any, bytes: _Any, barrier_id: _Any) -> PrimExpr: """A call of the intrinsic tir.ptx_cp_async_bulk."""
def ptx_init_barrier_thread_count(barrier_id: _Any, thread_count: _Any) -> PrimExpr: """A call of the intrinsic tir.ptx_init_barrier_thread_count."""
def ptx_ldmatrix(dtype: _Any, trans: _Any, num: _Any, type: _Any, local_ptr: _Any, local_offset: _Any, smem_ptr: _Any, smem_offset: _Any) -> PrimExpr: """A call of the intrinsic tir.ptx_ldmatrix."""
def ptx_mma(dtype: _Any, shape: _Any, A_layout: _Any, B_layout: _Any, A_dtype: _Any, B_dtype: _Any, C_dtype: _Any, multiplicand_a: _Any, a_index: _Any, multiplicand_b: _Any, b_index: _Any, accumulator: _Any, c_index: _Any, saturate: _Any, operator: _Any = None) -> PrimExpr: """A call of the intrinsic tir.ptx_mma."""
def ptx_mma_sp(dtype: _Any, shape: _Any, A_layout: _Any, B_layout: _Any, A_dtype: _Any, B_dtype: _Any, C_dtype: _Any, multiplicand_a: _Any, a_index: _Any, multiplicand_b: _Any, b_index: _Any, accumulator: _Any, c_index: _Any, metadata: _Any, meta_index: _Any, sparse_selector: _Any, saturate: _Any) -> PrimExpr: """A call of the intrinsic tir.ptx_mma_sp."""
def ptx_wait_barrier(barrier_id: _Any) -> PrimExpr: """A call of the intrinsic tir.ptx_wait_barrier."""
def ptx_wait_group(num: _Any) -> PrimExpr: """A call of the intrinsic tir.ptx_wait_group."""
def q_multiply_shift(x: _Any, y: _Any, q: _Any, s: _Any) -> PrimExpr: """A call of the intrinsic tir.q_multiply_shift."""
def q_multiply_shift_per_axis(x: _Any, y: _Any, ls: _Any, rs: _Any, q: _Any, is_lshift_required: _Any, is_rshift_required: _Any) -> PrimExpr: """A call of the intrinsic tir.q_multiply_shift_per_axis."""
def simdgroup_load(d: _Any, index: _Any, ptr: _Any, stride: _Any, col: _Any = 8, row: _Any = 8, transpose_matrix: _Any = False) -> PrimExpr: """A call of the intrinsic tir.simdgroup_load."""
def simdgroup_multiply_accumulate(d: _Any, index_d: _Any, a: _Any, index_a: _Any, b: _Any, index_b: _Any, c: _Any, index_c: _Any) -> PrimExpr: """A call of the intrinsic tir.simdgroup_multiply_accumulate."""
def simdgroup_store(d: _Any, index: _Any, ptr: _Any, stride: _Any, col: _Any = 8, row: _Any = 8, transpose_matrix: _Any = False) -> PrimExpr: """A call of the intrinsic tir.simdgroup_store."""
def start_profile_intrinsic(id: _Any) -> PrimExpr: """A call of the intrinsic tir.start_profile_intrinsic."""
def trace(args: _Sequence[PrimExpr | str], trace_action: str = 'tvm.default_trace_action') -> PrimExpr: """Call the registered function `trace_action` on `args`. The value is what it returns, or the last argument where it returns None; the default prints the arguments."""
def tvm_bmma_sync(fragment_d: _Any, index_d: _Any, fragment_a: _Any, index_a: _Any, fragment_b: _Any, index_b: _Any, fragment_c: _Any, index_c: _Any) -> PrimExpr: """A call of the intrinsic tir.tvm_bmma_sync."""
def tvm_fill_fragment(fragment: _Any, m: _Any, n: _Any, k: _Any, index: _Any, value: _Any) -> PrimExpr: """A call of the intrinsic tir.tvm_fill_fragment."""
def tvm_load_matrix_sync(fragment: _Any, m: _Any, n: _Any, k: _Any, index: _Any, buffer_ptr: _Any, stride: _Any, layout: _Any) -> PrimExpr: """A call of the intrinsic tir.tvm_load_matrix_sync."""
def tvm_mma_sync(fragment_d: _Any, index_d: _Any, fragment_a: _Any, index_a: _Any, fragment_b: _Any, index_b: _Any, fragment_c: _Any, index_c: _Any) -> PrimExpr: """A call of the intrinsic tir.tvm_mma_sync."""
def tvm_store_matrix_sync(fragment: _Any, m: _Any, n: _Any, k: _Any, index: _Any, buffer_ptr: _Any, stride: _Any, layout: _Any) -> PrimExpr: """A call of the intrinsic tir.tvm_store_matrix_sync."""
def tvm_warp_activemask() -> PrimExpr: """A call of the intrinsic tir.tvm_warp_activemask."""
def tvm_warp_shuffle(mask: _Any, value: _Any, warp_id: _Any, width: _Any, warp_size: _Any) -> PrimExpr: """A call of the intrinsic tir.tvm_warp_shuffle."""
def tvm_warp_shuffle_down(mask: _Any, value: _Any, offset: _Any, width: _Any, warp_size: _Any) -> PrimExpr: """A call of the intrinsic tir.tvm_warp_shuffle_down."""
def tvm_warp_shuffle_up(mask: _Any, value: _Any, offset: _Any, width: _Any, warp_size: _Any) -> PrimExpr: """A call of the intrinsic tir.tvm_warp_shuffle_up."""
