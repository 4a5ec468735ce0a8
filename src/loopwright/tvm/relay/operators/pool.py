"""Pooling: over windows, over output_size windows that cover the data, over all of it."""

from __future__ import annotations

from typing import Any

from ....ir.dtype import DataType
from ....ir.prim_op import min_value
from ....ops.blocks import extent
from ....ops.core import FUSABLE
from ....tir import layout as layout_of
from ...topi import nn as topi_nn
from . import layouts
from .common import LETTERS, per_axis, windows
from .core import Input, R, Row, builder, kernel, op, view
from .transform import dims_of

_ATTRS = ("pool_size", "strides", "dilation")
# Of pooling whose windows are as large as the data: a mean sums many elements.
_MIXED = {"max": "follow", "avg": "never"}


def _pool(kind: str, rank: int) -> Row:
    options = dict.fromkeys(_ATTRS, (1,) * rank)
    options |= {"padding": (0,) * rank, "layout": f"NC{LETTERS[rank]}", "out_layout": ""}
    options |= {"ceil_mode": False} | ({"count_include_pad": False} if kind == "avg" else {})

    @op(f"nn.{kind}_pool{rank}d", attrs=f"{kind.title()}Pool{rank}DAttrs", options=options,
        kind=FUSABLE, mixed="follow", layout=layouts.imaging)  # fmt: skip
    def pool(data: Input, **attrs: Any) -> Any:
        """The greatest value or the mean of each window; in a mean the padding counts only with
        `count_include_pad`."""
        if kind == "max":
            data, attrs["padding"] = _least_around(data, attrs)
        attrs["out_layout"] = attrs["out_layout"] or attrs["layout"]
        return getattr(R.nn, f"{kind}_pool{rank}d")(data, **attrs)

    pool.build(lambda **attrs: windows(attrs, rank, *_ATTRS))
    return pool


def _least_around(data: Any, attrs: dict[str, Any]) -> Any:
    """Data and padding where a window may have padding alone, whose greatest value is the least finite
    number: that padding becomes a part of the data."""
    dtype, padding = DataType(data.struct_info.dtype), attrs["padding"]
    windows = zip(attrs["pool_size"], attrs["dilation"], strict=True)
    extents = [int(d) * (int(k) - 1) + 1 for k, d in windows]
    if not dtype.is_float or all(int(p) < r for p, r in zip(padding, extents * 2, strict=True)):
        return data, padding
    plan = layout_of(attrs["layout"])
    letters = [c for c in plan if c in "DHW"]
    sides = dict(zip(letters, zip(padding, padding[len(letters) :], strict=False), strict=True))
    widths = [int(v) for c in plan for v in sides.get(c, (0, 0))]
    least = float(min_value(dtype).value)
    return builder().emit(R.nn.pad(data, widths, "constant", least)), [0] * len(padding)


def _gradient(kind: str) -> None:
    backward = getattr(R.grad, f"{kind}_pool2d_backward")

    def max_pool2d_grad(
        out_grad: Input, data: Input, pool_size: Any = (1, 1), strides: Any = (1, 1),
        padding: Any = (0, 0), layout: str = "NCHW", out_layout: str = "", ceil_mode: bool = False,
        count_include_pad: bool = False,
    ) -> Any:  # fmt: skip
        """The gradient of the pooling with respect to its data."""
        options = (list(pool_size), list(strides), list(padding), [1, 1], bool(ceil_mode))
        return backward(out_grad, data, *options, bool(count_include_pad), layout, layout)

    row = op(f"nn.{kind}_pool2d_grad", attrs=f"{kind.title()}Pool2DAttrs")(max_pool2d_grad)
    row.build(lambda **params: windows(params, 2, "pool_size", "strides"))
    row.infer(lambda types, attrs: types[1])


def _adaptive(kind: str, rank: int) -> None:
    plain = f"NC{LETTERS[rank]}"

    @op(f"nn.adaptive_{kind}_pool{rank}d", attrs=f"AdaptivePool{rank}DAttrs", kind=FUSABLE,
        mixed=_MIXED[kind], layout=layouts.imaging)  # fmt: skip
    def adaptive(
        data: Input, output_size: Any = None, layout: str = plain, out_layout: str = ""
    ) -> Any:
        """The greatest value or mean of output_size windows that cover the data; without a size,
        each element is one."""
        plan, shape = layout_of(layout), dims_of(data)
        have = [extent(plan, shape, letter) for letter in LETTERS[rank]]
        sizes = list(output_size) or have
        if kind == "avg":
            average = getattr(R.nn, f"adaptive_avg_pool{rank}d")
            return average(data, list(output_size) or None, layout, out_layout or layout)
        name = "adaptive_pool" + ("" if rank == 2 else f"{rank}d")
        return kernel(getattr(topi_nn, name), data, sizes, "max", layout)

    def build(**attrs: Any) -> dict[str, Any]:
        size = attrs["output_size"]
        attrs["output_size"] = () if size is None else per_axis(size, rank)
        return attrs

    adaptive.build(build)
    if rank == 2:
        return

    @view(f"nn.global_{kind}_pool{rank}d")
    def of_all(data: Any, layout: str = plain, out_layout: str = "") -> Any:
        """The greatest value or mean of each channel."""
        return adaptive.builder(data, 1, layout, out_layout)


def _global(kind: str) -> None:
    @op(f"nn.global_{kind}_pool2d", attrs="GlobalPool2DAttrs", kind=FUSABLE, mixed=_MIXED[kind],
        layout=layouts.imaging)  # fmt: skip
    def of_all(data: Input, layout: str = "NCHW", out_layout: str = "") -> Any:
        """The greatest value or mean of each channel."""
        axes = [n for n, letter in enumerate(layout_of(layout)) if letter in "HW"]
        return (R.mean if kind == "avg" else R.max)(data, axes, True)


for _kind in ("max", "avg"):
    for _rank in LETTERS:
        _pool(_kind, _rank)
        _adaptive(_kind, _rank)
    _global(_kind)
    _gradient(_kind)
