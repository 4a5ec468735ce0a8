"""Intrinsics of the runtime and of particular targets: thin wrappers generated from a table."""

from __future__ import annotations

import sys
from ast import literal_eval
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import TYPE_CHECKING

from ..base.errors import explain
from ..base.late import own_names
from ..base.names import named as _named
from ..base.registry import registering
from ..ir.dtype import DataType
from ..ir.op import register_op
from ..ir.prim_expr import Call, PrimExpr, ScalarLike
from ..ir.prim_op import const, convert, vscale
from ..runtime import register_func
from .op import _packed_arg, call_intrin

if TYPE_CHECKING:
    from collections.abc import Sequence

# Parameters are words of a text, with defaults as in Python.
_MMA = "dtype shape A_layout B_layout A_dtype B_dtype C_dtype multiplicand_a a_index multiplicand_b b_index accumulator c_index"
_SYNC = "fragment_d index_d fragment_a index_a fragment_b index_b fragment_c index_c"
_FRAGMENT = "fragment m n k index buffer_ptr stride layout"
_SIMD = "d index ptr stride col=8 row=8 transpose_matrix=False"
_COPY = "dtype shared_ptr shared_offset global_ptr global_offset bytes"
# name -> (result type, parameters): "" is the type of the parameter `value`, None that of `dtype`,
# which is not an operand
_TABLE: dict[str, tuple[str | None, str]] = {
    "start_profile_intrinsic": ("handle", "id"),
    "end_profile_intrinsic": ("handle", "id"),
    "tvm_warp_shuffle": ("", "mask value warp_id width warp_size"),
    "tvm_warp_shuffle_up": ("", "mask value offset width warp_size"),
    "tvm_warp_shuffle_down": ("", "mask value offset width warp_size"),
    "tvm_warp_activemask": ("uint32", ""),
    "tvm_load_matrix_sync": ("handle", _FRAGMENT),
    "tvm_mma_sync": ("handle", _SYNC),
    "tvm_bmma_sync": ("handle", _SYNC),
    "tvm_fill_fragment": ("handle", "fragment m n k index value"),
    "tvm_store_matrix_sync": ("handle", _FRAGMENT),
    "ptx_mma": (None, f"{_MMA} saturate operator=None"),
    "ptx_mma_sp": (None, f"{_MMA} metadata meta_index sparse_selector saturate"),
    "mma_store": (None, "dtype m n dst_ptr src_ptr src_offset dst_stride"),
    "mma_fill": (None, "dtype local_size local_ptr offset"),
    "ptx_ldmatrix": (None, "dtype trans num type local_ptr local_offset smem_ptr smem_offset"),
    "ptx_cp_async": (None, _COPY),
    "ptx_cp_async_bulk": (None, f"{_COPY} barrier_id"),
    "ptx_commit_group": ("void", ""),
    "ptx_wait_group": ("void", "num"),
    "ptx_cp_async_barrier": ("void", "barrier_id"),
    "ptx_init_barrier_thread_count": ("void", "barrier_id thread_count"),
    "ptx_arrive_barrier": ("void", "barrier_id"),
    "ptx_arrive_barrier_expect_tx": ("void", "barrier_id byte_count"),
    "ptx_wait_barrier": ("void", "barrier_id"),
    "create_barriers": ("void", "barrier_count"),
    "make_filled_simdgroup_matrix": ("handle", "d index value col=8 row=8"),
    "simdgroup_load": ("handle", _SIMD),
    "simdgroup_store": ("handle", _SIMD),
    "simdgroup_multiply_accumulate": ("handle", "d index_d a index_a b index_b c index_c"),
    "q_multiply_shift": ("int32", "x y q s"),
    "q_multiply_shift_per_axis": ("int32", "x y ls rs q is_lshift_required is_rshift_required"),
    "TVMBackendAllocWorkspace": (
        "handle",
        "device_type device_id nbytes dtype_code_hint dtype_bits_hint",
    ),
    "TVMBackendFreeWorkspace": ("int32", "device_type device_id ptr"),
    "anylist_getitem": ("handle", "list_handle index"),
    "anylist_resetitem": ("int32", "list_handle index"),
    "prefetch": ("void", "address rw locality cache"),
}
_EFFECTS = {
    "q_multiply_shift": "pure",
    "q_multiply_shift_per_axis": "pure",
    "anylist_getitem": "read",
}  # of others: opaque
TYPED = tuple(name for name, (dtype, _) in _TABLE.items() if dtype is None)
# The result types of those whose arguments say nothing of it.
RESULTS = {name: dtype for name, (dtype, _) in _TABLE.items() if dtype}
_ITEM_CALLS = ("anylist_setitem_call_packed", "anylist_setitem_call_cpacked")
RESULTS |= dict.fromkeys(_ITEM_CALLS, "int32")


def _parameter(text: str) -> Parameter:
    name, _, default = text.partition("=")
    value = literal_eval(default) if default else Parameter.empty
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=value, annotation="Any")


def _counts(parameters: str) -> range:
    """How many operands a call may have."""
    words = [w for w in parameters.split() if w != "dtype"]
    return range(sum(not w.endswith("=None") for w in words), len(words) + 1)


COUNTS = {name: _counts(parameters) for name, (_, parameters) in _TABLE.items()}
COUNTS |= dict.fromkeys(_ITEM_CALLS, range(3, sys.maxsize))  # the function and any arguments


def _builder(name: str, parameters: str) -> Callable[..., PrimExpr]:
    signature = Signature([*map(_parameter, parameters.split())], return_annotation="PrimExpr")

    def build(*args: PrimExpr | str | int, **keywords: ScalarLike) -> PrimExpr:
        try:
            bound = signature.bind(*args, **keywords)
        except TypeError as error:
            raise TypeError(explain(f"{name}{signature}", got=str(error))) from None
        bound.apply_defaults()
        operands = dict(bound.arguments)
        kind = operands.pop("dtype", None) or RESULTS.get(name)
        values = [v for v in operands.values() if v is not None]
        return call_intrin(kind or convert(operands["value"]).dtype, f"tir.{name}", *values)

    build.__signature__ = signature
    return build


def _install() -> None:
    for name, (_, parameters) in _TABLE.items():
        register_op(f"tir.{name}").set_attr("effect", _EFFECTS.get(name, "opaque"))
        _publish(name, _builder(name, parameters))


def _publish(name: str, build: Callable[..., PrimExpr]) -> None:
    globals()[name] = _named(build, name, f"A call of the intrinsic tir.{name}.")
    __all__.append(name)


def dp4a(vec1: ScalarLike, vec2: ScalarLike, acc: ScalarLike = 0) -> PrimExpr:
    """The dot product of two int8x4 vectors, added to `acc`."""
    a, b = convert(vec1), convert(vec2)
    kind = "uint32" if a.dtype.is_uint and b.dtype.is_uint else "int32"
    total = const(acc, kind) if isinstance(acc, int) else convert(acc)
    return call_intrin(kind, "tir.dp4a", a, b, total)


def trace(
    args: Sequence[PrimExpr | str], trace_action: str = "tvm.default_trace_action"
) -> PrimExpr:
    """Call the registered function `trace_action` on `args`. The value is what it returns, or the
    last argument where it returns None; the default prints the arguments."""
    values = [convert(trace_action), *(_packed_arg(a) for a in args)]
    return Call(values[-1].dtype, "tir.tvm_call_trace_packed", values)


@register_func("tvm.default_trace_action", override=True)
def _print_values(*args: str | int) -> None:
    print(list(args))


def anylist_setitem_call_packed(
    list_handle: ScalarLike, index: int, func_name: str, *args: ScalarLike
) -> PrimExpr:
    """list[index] = the packed function `func_name` applied to `args`."""
    operands = (list_handle, index, func_name, *args)
    return call_intrin("int32", "tir.anylist_setitem_call_packed", *operands)


def anylist_setitem_call_cpacked(
    list_handle: ScalarLike, index: int, func_name: str, *args: ScalarLike
) -> PrimExpr:
    """list[index] = the function `func_name` of this module applied to `args`."""
    operands = (list_handle, index, func_name, *args)
    return call_intrin("int32", "tir.anylist_setitem_call_cpacked", *operands)


def get_active_lane_mask(dtype: str, base: ScalarLike, limit: ScalarLike) -> PrimExpr:
    """The mask of the lanes k with base + k < limit."""
    return call_intrin(dtype, "tir.get_active_lane_mask", base, limit)


def get_vscale_expr(dtype: str, min_size: int = 128) -> PrimExpr:
    """The lanes of a vector register of at least `min_size` bits: vscale times a number."""
    return vscale() * (min_size // (DataType(dtype).lane_bytes * 8))


__all__ = own_names(globals())
with registering(__name__):
    _install()
    register_op("tir.tvm_call_trace_packed").set_attr("effect", "opaque")
