"""TVM 0.18's `topi.generic`, `topi.x86`, `topi.cuda`, ...: computations and schedules by machine.

    C = topi.x86.conv2d_nchw(A, W, (1, 1), 1, (1, 1))
    s = topi.x86.schedule_conv2d_nchw([C])
    f = tvm.build(s, [A, W, C], "llvm")

A computation is the one of `topi` and `topi.nn` here, whatever the machine; variants that say how
it runs (`conv2d_nhwc_spatial_pack`) compute the same. A schedule has no steps, so that the build
schedules it by the target's rules; a `tir.Schedule` is scheduled by them at once. The schedules of
machines that no code is made for raise an error where they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import te, tir
from ...base.errors import explain
from ...sched import ApplyDefaultSchedule
from ...te.tensor import Tensor
from .. import topi
from ..topi import nn

# A variant's name -> the computation.
VARIANTS = {
    "compute_conv2d_NHWC": "conv2d_nhwc",
    "compute_conv2d_NHWC_hybrid": "conv2d_nhwc",
    "compute_conv2d_NHWC_hybrid_SME": "conv2d_nhwc",
    "compute_conv2d_NHWC_hybrid_SVE": "conv2d_nhwc",
    "compute_conv2d_NHWC_quantized_interleaved": "conv2d_nhwc",
    "compute_conv2d_NHWC_quantized_native": "conv2d_nhwc",
    "compute_depthwise_conv2d_nhwc": "depthwise_conv2d_nhwc",
    "conv2d_nchw_spatial_pack": "conv2d_nchw",
    "conv2d_nchw_winograd": "conv2d_nchw",
    "conv2d_nhwc_spatial_pack": "conv2d_nhwc",
    "conv2d_nhwc_winograd_direct": "conv2d_nhwc",
    "conv2d_nhwc_winograd_tensorcore": "conv2d_nhwc",
    "conv2d_nhwc_tensorcore": "conv2d_nhwc",
    "conv3d_ncdhw_winograd": "conv3d_ncdhw",
    "conv3d_ndhwc_tensorcore": "conv3d_ndhwc",
    "dense_dynamic": "dense",
    "dense_nopack": "dense",
    "dense_tensorcore": "dense",
    "batch_matmul_tensorcore": "batch_matmul",
    "depthwise_conv2d_nchw_spatial_pack": "depthwise_conv2d_nchw",
}
# The files in these folders; other names are members of one.
FILES = frozenset(
    "conv1d conv2d conv3d depthwise_conv2d group_conv2d injective nn pooling reduction".split()  # noqa: SIM905
)


def schedule(outs: Any, *layouts: Any, **options: Any) -> Any:
    """A schedule of tensors that leaves all to the target's rules; a `tir.Schedule` of a function
    is scheduled by them. Layouts and options are read off the computation instead."""
    if isinstance(outs, tir.Schedule):
        return tir.Schedule(ApplyDefaultSchedule()(outs.mod))
    if isinstance(outs, te.Schedule):
        return outs
    tensors = [outs] if isinstance(outs, te.Tensor) else list(outs)
    return te.create_schedule([tensor.op for tensor in tensors])


def _refused(name: str) -> Callable[..., Any]:
    def refuse(*args: Tensor | Sequence[Tensor], **options: Any) -> Any:
        what = f"{name} is for a machine that no code is made for"
        hint = "use topi's computation with topi.generic's schedule, for a CPU"
        raise NotImplementedError(explain(what, got="a call of it", instead=hint))

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


def names(schedules: bool, spelled: dict[str, Callable[..., Any]]) -> Callable[[str], Any]:
    """The `__getattr__` of a machine's module; `schedules`: whether code is made for it;
    `spelled`: computations of its own."""

    def get(name: str) -> Any:
        base = VARIANTS.get(name, name)
        if base in spelled:
            return spelled[base]
        if name.startswith(("schedule_", "default_schedule")):
            return schedule if schedules else _refused(name)
        if name not in FILES or base != name:
            for module in (nn, topi):
                if callable(getattr(module, base, None)):
                    return getattr(module, base)
            if not schedules and any(name.startswith(f"{kernel}_") for kernel in dir(nn)):
                return _refused(name)  # a variant of a computation
        raise AttributeError(f"topi has no {name!r} by machine")

    return get
