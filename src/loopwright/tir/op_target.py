"""Intrinsics of the runtime and of particular targets: thin wrappers generated from two tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.registry import registering
from ..ir.dtype import DataType
from ..ir.op import register_op
from ..ir.prim_expr import Call, PrimExpr
from ..ir.prim_op import const, convert, vscale
from ..runtime import register_func
from .op import _packed_arg, call_intrin

# name -> (result type; "" = the second argument's type, effect)
_FIXED: dict[str, tuple[str, str]] = {
    "start_profile_intrinsic": ("handle", "opaque"),
    "end_profile_intrinsic": ("handle", "opaque"),
    "tvm_warp_shuffle": ("", "opaque"),
    "tvm_warp_shuffle_up": ("", "opaque"),
    "tvm_warp_shuffle_down": ("", "opaque"),
    "tvm_warp_activemask": ("uint32", "opaque"),
    "tvm_load_matrix_sync": ("handle", "opaque"),
    "tvm_mma_sync": ("handle", "opaque"),
    "tvm_bmma_sync": ("handle", "opaque"),
    "tvm_fill_fragment": ("handle", "opaque"),
    "tvm_store_matrix_sync": ("handle", "opaque"),
    "ptx_commit_group": ("", "opaque"),
    "ptx_wait_group": ("", "opaque"),
    "ptx_cp_async_barrier": ("", "opaque"),
    "ptx_init_barrier_thread_count": ("", "opaque"),
    "ptx_arrive_barrier": ("", "opaque"),
    "ptx_arrive_barrier_expect_tx": ("", "opaque"),
    "ptx_wait_barrier": ("", "opaque"),
    "create_barriers": ("", "opaque"),
    "make_filled_simdgroup_matrix": ("handle", "opaque"),
    "simdgroup_load": ("handle", "opaque"),
    "simdgroup_store": ("handle", "opaque"),
    "simdgroup_multiply_accumulate": ("handle", "opaque"),
    "q_multiply_shift": ("int32", "pure"),
    "q_multiply_shift_per_axis": ("int32", "pure"),
    "TVMBackendAllocWorkspace": ("handle", "opaque"),
    "TVMBackendFreeWorkspace": ("int32", "opaque"),
    "anylist_getitem": ("handle", "read"),
    "anylist_resetitem": ("int32", "opaque"),
    "prefetch": ("void", "opaque"),
}
# The first argument is the result type.
TYPED = (
    *("ptx_mma", "ptx_mma_sp", "mma_store", "mma_fill", "ptx_ldmatrix", "ptx_cp_async"),
    *("ptx_cp_async_bulk",),
)
_BY_VALUE = {"tvm_warp_shuffle": 1, "tvm_warp_shuffle_up": 1, "tvm_warp_shuffle_down": 1}
# The result types of those whose arguments say nothing of it.
RESULTS = {name: dtype or "void" for name, (dtype, _) in _FIXED.items() if name not in _BY_VALUE}


def _fixed(name: str) -> Callable[..., PrimExpr]:
    def build(*args: Any) -> PrimExpr:
        kind = RESULTS.get(name) or convert(args[_BY_VALUE[name]]).dtype
        return call_intrin(kind, f"tir.{name}", *args)

    return build


def _typed(name: str) -> Callable[..., PrimExpr]:
    def build(dtype: Any, *args: Any) -> PrimExpr:
        operands = [a for a in args if a is not None]
        return call_intrin(dtype, f"tir.{name}", *operands)

    return build


def _install() -> None:
    for name, (_, effect) in _FIXED.items():
        register_op(f"tir.{name}").set_attr("effect", effect)
        _publish(name, _fixed(name))
    for name in TYPED:
        register_op(f"tir.{name}").set_attr("effect", "opaque")
        _publish(name, _typed(name))


def _publish(name: str, build: Callable[..., PrimExpr]) -> None:
    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"A call of the intrinsic tir.{name}."
    globals()[name] = build
    __all__.append(name)


def dp4a(vec1: Any, vec2: Any, acc: Any = 0) -> PrimExpr:
    """The dot product of two int8x4 vectors, added to `acc`."""
    a, b = convert(vec1), convert(vec2)
    kind = "uint32" if a.dtype.is_uint and b.dtype.is_uint else "int32"
    total = const(acc, kind) if isinstance(acc, int) else convert(acc)
    return call_intrin(kind, "tir.dp4a", a, b, total)


def trace(args: Any, trace_action: str = "tvm.default_trace_action") -> PrimExpr:
    """Call the registered function `trace_action` on `args`. The value is what it returns, or the
    last argument where it returns None; the default prints the arguments."""
    values = [convert(trace_action), *(_packed_arg(a) for a in args)]
    return Call(values[-1].dtype, "tir.tvm_call_trace_packed", values)


@register_func("tvm.default_trace_action", override=True)
def _print_values(*args: Any) -> None:
    print(list(args))


def anylist_setitem_call_packed(list_handle: Any, index: Any, name: str, *args: Any) -> PrimExpr:
    """list[index] = the packed function `name` applied to `args`."""
    operands = (list_handle, index, name, *args)
    return call_intrin("int32", "tir.anylist_setitem_call_packed", *operands)


def anylist_setitem_call_cpacked(list_handle: Any, index: Any, name: str, *args: Any) -> PrimExpr:
    """list[index] = the function `name` of this module applied to `args`."""
    operands = (list_handle, index, name, *args)
    return call_intrin("int32", "tir.anylist_setitem_call_cpacked", *operands)


def get_active_lane_mask(dtype: Any, base: Any, limit: Any) -> PrimExpr:
    """The mask of the lanes k with base + k < limit."""
    return call_intrin(dtype, "tir.get_active_lane_mask", base, limit)


def get_vscale_expr(dtype: Any, min_size: int = 128) -> PrimExpr:
    """The lanes of a vector register of at least `min_size` bits: vscale times a number."""
    return vscale() * (min_size // (DataType(dtype).lane_bytes * 8))


__all__ = [
    "anylist_setitem_call_cpacked",
    "anylist_setitem_call_packed",
    "dp4a",
    "get_active_lane_mask",
    "get_vscale_expr",
    "trace",
]
with registering(__name__):
    _install()
    register_op("tir.tvm_call_trace_packed").set_attr("effect", "opaque")
