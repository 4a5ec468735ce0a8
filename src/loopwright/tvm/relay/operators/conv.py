"""Convolutions in any layout, and weights of convolutions that are transformed beforehand."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from ....base.errors import explain
from ....ir.prim_expr import IntImm, PrimExpr
from ....ops.blocks import shape_in
from ....ops.core import FUSABLE
from ....tir import layout as layout_of
from ...topi import nn as topi_nn
from ..types import Any as AnyDim
from ..types import TensorType
from . import layouts
from .common import LETTERS, as_plain, extents, windows
from .core import NO_OPTIONS, Input, Options, R, Row, builder, kernel, op
from .transform import dims_of


def _static(dim: IntImm) -> Any:
    return dim.value if isinstance(dim, IntImm) else None


def wide(data: Any, weight: Any, out_dtype: Any) -> tuple[Any, Any]:
    """Operands of two dtypes in that of the result."""
    kinds = [str(t.struct_info.dtype) for t in (data, weight)]
    if kinds[0] == kinds[1]:
        return data, weight
    kind = str(out_dtype or kinds[0])
    return R.astype(data, kind), R.astype(weight, kind)


def _one_filter_each(data: Any, weight: Any, groups: int, layouts: tuple[str, str]) -> Any:
    """The weight of a convolution with one group per channel: Relay counts the filters of a
    channel where others count input channels."""
    plan = layout_of(layouts[1])
    shape = dims_of(weight)
    if groups == 1 or not str(plan).isupper():
        return weight
    size = {letter: _static(shape[plan.index_of(letter)]) for letter in plan}
    channels = _static(dims_of(data)[layout_of(layouts[0]).index_of("C")])
    if not (channels == groups == size["O"] and size["I"] != 1):
        return weight
    order = "".join(plan)
    plain = "OI" + order.replace("O", "").replace("I", "")
    in_plain = as_plain(weight, order, plain)
    flat = [size["O"] * size["I"], 1, *(size[s] for s in plain[2:])]
    return as_plain(builder().emit(R.reshape(in_plain, flat)), plain, order)


def _window_types(
    rank: int, lead: Callable[[Any, Any, Any], tuple[Any, Any]]
) -> Callable[..., Any]:
    """The hook `arguments` that infers a weight's shape; lead(channels in, channels out, groups)
    are its extents by O and I."""

    def weight(data: TensorType, attrs: dict[str, Any]) -> Any:
        channels, window = attrs["channels"], attrs["kernel_size"]
        if not isinstance(data, TensorType) or channels is None or window is None:
            return None
        have = extents(data, attrs["data_layout"])["C"]
        out, inner = lead(have, channels, attrs["groups"])
        sizes = dict(zip(LETTERS[rank], window, strict=True), O=out, I=inner)
        return TensorType(shape_in(layout_of(attrs["kernel_layout"]), sizes), data.dtype)

    def arguments(types: list[Any], attrs: dict[str, Any]) -> Any:
        return None, weight(types[0], attrs)

    return arguments


def _share(dim: PrimExpr | int, groups: int) -> Any:
    return dim if isinstance(dim, AnyDim) else dim // groups


def _check_weight(types: list[Any], attrs: dict[str, Any], out: str) -> None:
    """Raise ValueError if a weight does not match the attributes. out: the letter of the results'
    channels (of a transposed one, of a group)."""
    have = extents(types[1], attrs["kernel_layout"])
    layout = attrs["data_layout"]
    want = dict(zip("DHW"[3 - len(have) + 2 :], attrs["kernel_size"] or (), strict=False))
    if attrs["channels"] is not None and out == "O" and attrs["groups"] == 1:
        want["O"] = attrs["channels"]
    for letter, size in want.items():
        if _static(have[letter]) not in (None, int(size)):
            what = f"the weight's extent {letter} differs from the attributes ({size})"
            raise ValueError(explain(what, got=f"{types[1]} in layout {attrs['kernel_layout']}"))
    extents(types[0], layout)


def conv_macs(types: list[Any], attrs: dict[str, Any], result: TensorType) -> int:
    """Those of a convolution, and of a transposed one by its results: each element of the result
    takes a window of the channels of its group."""
    channels = extents(types[0], attrs["data_layout"])["C"]
    weight = extents(types[1], attrs["kernel_layout"])
    window = attrs["kernel_size"] or [weight[letter] for letter in "DHW" if letter in weight]
    return prod([*result.concrete_shape, *map(int, window)]) * int(channels) // attrs["groups"]


def conv_options(
    rank: int, lead: str = "OI", steps: Options = NO_OPTIONS, layouts: Options = NO_OPTIONS
) -> Options:
    """The attributes of a convolution over `rank` axes. lead: the first letters of the kernel's
    layout; steps, layouts: more attributes after the dilation and the layouts."""
    letters, one, none = LETTERS[rank], (1,) * rank, (0,) * rank
    first = {"strides": one, "padding": none, "dilation": one, **steps}
    sizes = {"groups": 1, "channels": None, "kernel_size": None}
    plain = {"data_layout": f"NC{letters}", "kernel_layout": f"{lead}{letters}", "out_layout": ""}
    return {**first, **sizes, **plain, **layouts, "out_dtype": ""}


def conv_by(
    rank: int, data: Any, weight: Any, options: Options, kernel_layout: str, out_dtype: Any = None
) -> Any:
    """Relax's convolution by the attributes `options` and a weight in a layout."""
    steps = (list(options[name]) for name in ("strides", "padding", "dilation"))
    layout = options["data_layout"]
    layouts = (layout, kernel_layout, options["out_layout"] or layout)
    dtype = out_dtype or options["out_dtype"] or None
    return getattr(R.nn, f"conv{rank}d")(data, weight, *steps, options["groups"], *layouts, dtype)


def _conv(rank: int) -> Row:
    # As in TVM: one number along the only axis.
    single = {"strides": 1, "padding": 0, "dilation": 1} if rank == 1 else {}

    @op(f"nn.conv{rank}d", attrs=f"Conv{rank}DAttrs", options={**conv_options(rank), **single},
        kind=FUSABLE, mixed="always", layout=layouts.conv)  # fmt: skip
    def conv(data: Input, weight: Input, **options: Any) -> Any:
        """A convolution of data by a weight, in groups of channels."""
        layouts = (options["data_layout"], options["kernel_layout"])
        weight = _one_filter_each(data, weight, options["groups"], layouts)
        data, weight = wide(data, weight, options["out_dtype"])
        return conv_by(rank, data, weight, options, layouts[1])

    conv.build(lambda **options: windows(options, rank, "strides", "dilation", "kernel_size"))
    conv.arguments(_window_types(rank, lambda have, out, groups: (out, _share(have, groups))))
    conv.infer(lambda types, attrs: _check_weight(types, attrs, "O"))
    conv.macs(conv_macs)
    return conv


conv1d, conv2d, conv3d = map(_conv, LETTERS)


def _transposed(rank: int, data: Any, weight: Any, params: dict[str, Any]) -> Any:
    """A transposed convolution of plain layouts."""
    dtype = params["out_dtype"] or None
    if rank < 3:
        name = f"conv{rank}d_transpose"
        options = (params["output_padding"], params["dilation"], params["groups"])
        steps = map(list, (params["strides"], params["padding"], *options[:2]))
        return getattr(R.nn, name)(data, weight, *steps, params["groups"], out_dtype=dtype)
    kind = dtype or str(data.struct_info.dtype)
    if any(d != 1 for d in params["dilation"]):
        raise ValueError(explain("conv3d_transpose has no dilation", got=str(params["dilation"])))
    return kernel(
        topi_nn.group_conv3d_transpose_ncdhw, data, weight, list(params["strides"]),
        list(params["padding"]), kind, list(params["output_padding"]), params["groups"],
    )  # fmt: skip


def _conv_transpose(rank: int) -> Row:
    attributes = conv_options(rank, "IO", layouts={"output_padding": (0,) * rank})

    @op(f"nn.conv{rank}d_transpose", attrs=f"Conv{rank}DTransposeAttrs", options=attributes,
        kind=FUSABLE, mixed="always", layout=layouts.conv)  # fmt: skip
    def conv(data: Input, weight: Input, **options: Any) -> Any:
        """The gradient of a convolution with respect to its data."""
        data, weight = map(builder().emit, wide(data, weight, options["out_dtype"]))
        layout, plain = options["data_layout"], attributes["data_layout"]
        data = as_plain(data, layout, plain)
        weight = as_plain(weight, options["kernel_layout"], attributes["kernel_layout"])
        result = _transposed(rank, data, weight, options)
        return as_plain(builder().emit(result), plain, options["out_layout"] or layout)

    names = ("strides", "dilation", "kernel_size", "output_padding")
    conv.build(lambda **options: windows(options, rank, *names))
    conv.arguments(_window_types(rank, lambda have, out, groups: (_share(out, groups), have)))
    conv.infer(lambda types, attrs: _check_weight(types, attrs, "I"))
    conv.macs(conv_macs)
    return conv


conv1d_transpose, conv2d_transpose, conv3d_transpose = map(_conv_transpose, LETTERS)
