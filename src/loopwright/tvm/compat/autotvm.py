"""What scripts that do not tune take from TVM 0.18's `autotvm`.

Kernels are scheduled by rules here (`sched`), without records of tuned schedules: a context
of records changes nothing, and what tunes raises an error. A template's choices may be written down and
read, as for TVM's fallbacks of convolutions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import wraps
from math import prod
from typing import Any, NamedTuple

from ...base.errors import explain
from ...te.tensor import Tensor
from ..target_info import llvm_get_vector_width
from ..topi.padding import get_pad_tuple, listed
from ..topi.utils import get_const_tuple


class FallbackContext(nullcontext[None]):
    """The context where no record is known, which is so everywhere here."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: dict[Any, Any] = {}


@dataclass(frozen=True)
class SplitEntity:
    """How a loop is split: the extents of the parts, the outermost first."""

    size: list[int]


@dataclass(frozen=True)
class OtherOptionEntity:
    """A choice by value."""

    val: Any


class FallbackConfigEntity(dict[str, Any]):
    """The choices of a template without a record, by name."""

    is_fallback = True


class Workload(NamedTuple):
    """The sizes of a convolution that its schedule depends on."""

    in_dtype: str
    out_dtype: str
    height: int
    width: int
    in_filter: int
    out_filter: int
    kernel_h: int
    kernel_w: int
    padt: int
    padl: int
    padb: int
    padr: int
    dilation_h: int
    dilation_w: int
    stride_h: int
    stride_w: int

    @property
    def out_width(self) -> int:
        """The width of the result."""
        window = (self.kernel_w - 1) * self.dilation_w + 1
        return (self.width + self.padl + self.padr - window) // self.stride_w + 1


# The axes of an image (channels, height, width) and of the filters (out, in, height, width); blocks of
# channels follow.
_AXES = {
    "NCHW": ((1, 2, 3), (0, 1, 2, 3)),
    "NHWC": ((3, 1, 2), (3, 2, 0, 1)),
    "NCHWc": ((1, 2, 3), (0, 1, 2, 3)),
}


def get_workload(
    data: Tensor,
    kernel: Tensor,
    stride: int | Sequence[int],
    padding: str | int,
    dilation: int,
    out_dtype: str,
    data_layout: str = "NCHW",
) -> Workload:
    """The workload of a convolution; of a depthwise one, where the channels are in blocks, or where
    there is a filter for each channel, of fewer channels. Raises ValueError for another layout."""
    if data_layout not in _AXES:
        what = "a workload is of an image in one of the layouts"
        raise ValueError(explain(what, got=data_layout, instead=" ".join(_AXES)))
    (c, h, w), (o, i, kh, kw) = _AXES[data_layout]
    image, filters = get_const_tuple(data.shape), get_const_tuple(kernel.shape)
    channels = image[c] * prod(image[4:])
    depthwise = data_layout == "NCHWc" or (filters[o] == channels > filters[i])
    out = filters[o] * filters[i] * prod(filters[4:]) if depthwise else filters[o]
    strides, steps = ((listed(value) * 2)[:2] for value in (stride, dilation))
    spans = [(filters[k] - 1) * step + 1 for k, step in zip((kh, kw), steps, strict=True)]
    sizes = (image[h], image[w], channels, out, filters[kh], filters[kw])
    pads = get_pad_tuple(padding, spans)
    return Workload(str(data.dtype), out_dtype, *sizes, *pads, *steps, *strides)


def fallback_schedule(cfg: FallbackConfigEntity, wkl: Workload) -> None:
    """Put TVM's choices for a convolution without a record into `cfg`: channels in vectors, and the
    number of columns that registers hold."""
    lanes = llvm_get_vector_width() // 32
    outer = _most(wkl.out_filter, lanes)
    sizes = {"tile_ic": wkl.in_filter, "tile_oc": wkl.out_filter, "tile_ow": wkl.out_width}
    inner = {
        "tile_ic": _most(wkl.in_filter, outer),
        "tile_oc": outer,
        "tile_ow": _most(wkl.out_width, 31),
    }
    for name, size in sizes.items():
        cfg[name] = SplitEntity([size // inner[name], inner[name]])
    cfg["unroll_kw"] = OtherOptionEntity(False)


def _most(size: int, limit: int) -> int:
    """The greatest divisor of a size within a limit."""
    return next(n for n in range(limit, 0, -1) if size % n == 0)


def context(target: str, extra_files: Any = None) -> FallbackContext:
    """`tophub.context`: the context of a target's tuned schedules."""
    return FallbackContext()


def untuned(*args: Any, **options: Any) -> Any:
    """A call of AutoTVM or the auto-scheduler. Raises NotImplementedError."""
    what = "templates of AutoTVM and the auto-scheduler are left out"
    hint = "relay.build, which schedules by the target's rules, or a schedule with tir.Schedule"
    raise NotImplementedError(explain(what, got="a call that reads or tunes one", instead=hint))


def _template(name: str, func: Callable[..., Any] | None = None) -> Any:
    """`autotvm.register_topi_compute` and `register_topi_schedule`: a function without its first
    parameter, the choices of a template, which there are none of here."""

    def decorate(fn: Callable[..., Any]) -> Any:
        @wraps(fn)
        def plain(*args: int | Sequence[int], **options: int) -> Any:
            return fn(FallbackConfigEntity(), *args, **options)

        return plain

    return decorate if func is None else decorate(func)


register_topi_compute = register_topi_schedule = _template
get_config = FallbackConfigEntity
task_create = untuned
extract_from_program = extract_from_multiple_program = extract_tasks = untuned
apply_history_best = apply_graph_best = ApplyHistoryBest = untuned
measure_option = LocalBuilder = LocalRunner = RPCRunner = untuned
GATuner = GridSearchTuner = RandomTuner = TaskScheduler = TuningOptions = XGBTuner = untuned
