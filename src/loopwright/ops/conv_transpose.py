"""Transposed convolutions: the gradients of convolutions with respect to their data."""

from __future__ import annotations

import math

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.dtype import DataType, numpy_dtype
from ..ir.op import Op
from ..ir.prim_expr import IntImm, PrimExpr
from ..ir.prim_op import cast, ceildiv, const, floordiv, floormod, multiply
from ..relax.expr import Call
from ..relax.layout import LayoutPlan, LayoutQuery
from ..relax.struct_info import TensorStructInfo
from ..tir import layout as layout_of
from .blocks import extent, from_plain, index_in, shape_in, spatial, to_plain
from .common import accumulator, compute, contracted, listed, rounded, void_or, widened
from .conv import (
    AXIS_NAMES,
    check_dtypes,
    check_groups,
    check_rank,
    constant_channels,
    expand_padding,
    expand_per_axis,
    is_number,
)
from .core import case, op
from .extents import check_multiple, differ, simplify, text
from .layout import pack_weight
from .layout_rules import numbered
from .params import DType, Ints, Tensor


@op("relax.nn.conv2d_transpose", mixed="always")
def conv2d_transpose(
    data: Tensor, weight: Tensor, strides: Ints = (1, 1), padding: Ints = (0, 0, 0, 0),
    output_padding: Ints = (0, 0), dilation: Ints = (1, 1), groups: int = 1,
    data_layout: str = "NCHW", kernel_layout: str = "IOHW", out_layout: str | None = None,
    out_dtype: DType | None = None,
):  # fmt: skip
    """The gradient of conv2d with respect to its data: out[n, o, y * stride + k - padding] gathers
    data[n, i, y] * weight[i, o, k]."""
    options = (strides, padding, output_padding, dilation, groups)
    dtype = void_or(out_dtype, data.dtype)
    layouts = layout_of(data_layout), layout_of(kernel_layout)
    if data_layout == out_layout and _is_apart(weight.shape, layouts, *options):
        return _transposed_apart(data, weight, layouts, dtype)
    plain = _plain(data, layouts[0], "NCHW"), _plain(weight, layouts[1], "IOHW")
    result = transposed(*plain, *options, dtype)
    return _stored(result, layout_of(out_layout or data_layout), "NCHW")


def _plain(x, layout, plain):
    """A tensor of some layout with the axes `plain`."""
    if str(layout) == plain:
        return x
    shape = [extent(layout, x.shape, letter) for letter in plain]
    cell = lambda *i: x(*index_in(layout, dict(zip(plain, i, strict=True))))  # noqa: E731
    return compute(shape, cell, "T_layout_trans", tag="injective")


def _stored(x, layout, plain):
    """A tensor with the axes `plain` in some layout; zeros fill the last block."""
    if str(layout) == plain:
        return x
    sizes = dict(zip(plain, x.shape, strict=True))

    def cell(*i):
        at = dict(zip(layout, i, strict=True))
        factors = {letter: layout.factor_of(letter) for letter in plain}
        split = [letter for letter in plain if factors[letter] > 0]
        for letter in split:
            at[letter] = at[letter] * factors[letter] + at[letter.lower()]
        value = x(*(at[letter] for letter in plain))
        for letter in split:
            value = tir.if_then_else(at[letter] < sizes[letter], value, const(0, x.dtype))
        return value

    return compute(shape_in(layout, sizes), cell, "T_layout_trans", tag="injective")


def _is_apart(kernel, layouts, strides, padding, output_padding, dilation, groups):
    """Whether a transposed convolution in blocks has windows that do not overlap: kernels as
    long as the strides."""
    data, weight = layouts
    block = data.factor_of("C")
    if str(data) != f"NCHW{block}c" or str(weight) != f"IOHW{block}i{block}o" or groups != 1:
        return False
    whole = [*dilation] == [1, 1] and not any((*padding, *output_padding))
    return whole and all(map(is_number, kernel[2:4], strides))


def transposed(
    data: te.Tensor, weight: te.Tensor, strides: list[int], padding: list[int],
    output_padding: list[int], dilation: list[int], groups: int, dtype: DataType,
) -> te.Tensor:  # fmt: skip
    """The tensor expression of a transposed convolution along one axis or more, channels first."""
    rank = len(data.shape) - 2
    letters = "DHW"[3 - rank :]
    wide = accumulator(dtype)
    before, _ = expand_padding(padding, rank)
    extents = _transposed_extents(
        data.shape, weight.shape, strides, padding, output_padding, dilation
    )
    per_out, per_in = weight.shape[1], simplify(floordiv(weight.shape[0], groups))
    zero = const(0, "int64")
    rc = te.reduce_axis((zero, per_in), name="rc")
    axes = [
        _Taps(*one)
        for one in zip(weight.shape[2:], data.shape[2:], strides, dilation, before, strict=True)
    ]
    taps = [
        te.reduce_axis((zero, axis.count), name=f"r{s}")
        for axis, s in zip(axes, letters.lower(), strict=True)
    ]

    def cell(nn, ff, *at):
        group, inner = floordiv(ff, per_out), floormod(ff, per_out)
        channel = group * per_in + rc if groups > 1 else rc
        reads = [axis.at(index, r) for axis, index, r in zip(axes, at, taps, strict=True)]
        term = multiply(
            cast(wide, data(nn, channel, *(source for source, _, _ in reads))),
            cast(wide, weight(channel, inner if groups > 1 else ff, *(k for _, k, _ in reads))),
        )
        fits = tir.all(*(c for _, _, inside in reads for c in inside))
        return te.sum(tir.if_then_else(fits, term, const(0, wide)), axis=[rc, *taps])

    shape = [data.shape[0], simplify(per_out * groups), *extents]
    names = [AXIS_NAMES[s] for s in letters]
    name = f"conv{rank}d_transpose_nc{letters.lower()}"
    total = te.compute(shape, cell, name=name, varargs_names=names)
    return rounded(total, dtype)


def _transposed_apart(data, weight, layouts, dtype):
    """A transposed convolution in blocks whose windows do not overlap: each output pixel depends on
    one input pixel and one kernel tap."""
    layout, kernel = layouts
    wide = accumulator(dtype)
    rows, cols = weight.shape[2], weight.shape[3]
    zero, block = const(0, "int64"), layout.factor_of("C")
    rc = te.reduce_axis((zero, data.shape[1]), name="rc")
    ri = te.reduce_axis((zero, const(block, "int64")), name="ri")

    def cell(n, o, y, x, oi):
        at = {"N": n, "C": (rc, ri), "H": floordiv(y, rows), "W": floordiv(x, cols)}
        tap = {"I": (rc, ri), "O": (o, oi), "H": floormod(y, rows), "W": floormod(x, cols)}
        lhs = cast(wide, data(*index_in(layout, at)))
        return te.sum(multiply(lhs, cast(wide, weight(*index_in(kernel, tap)))), axis=[rc, ri])

    shape = _apart_shape(data.shape, weight.shape)
    names = ["nn", "ff", "yy", "xx", "fi"]
    name = f"conv2d_transpose_{layout}".replace("NCHW", "nchw")
    return rounded(te.compute(shape, cell, name=name, varargs_names=names), dtype)


def _apart_shape(shape, kernel):
    return [
        shape[0],
        kernel[1],
        simplify(shape[2] * kernel[2]),
        simplify(shape[3] * kernel[3]),
        kernel[5],
    ]


class _Taps:
    """The data that contributes to an output pixel along one axis of a transposed convolution. Only each
    `stride`-th tap of the kernel meets a data element; without a dilation, only these are visited."""

    def __init__(
        self, window: PrimExpr, extent: PrimExpr, stride: int, dilation: int, before: int
    ) -> None:
        self.window, self.extent, self.before = window, extent, before
        self.stride, self.dilation = stride, dilation
        self.skips = stride > 1 and dilation == 1
        self.count = simplify(ceildiv(window, stride)) if self.skips else window

    def at(self, index, r):
        """(data index, kernel index, conditions that they exist) of tap number r."""
        start, stride = index + self.before, self.stride
        if self.skips:
            source, tap = floordiv(start, stride) - r, floormod(start, stride) + r * stride
            inside = [source >= 0, source < self.extent]
            whole = is_number(simplify(floormod(self.window, stride)), 0)
            return source, tap, inside if whole else [*inside, tap < self.window]
        shifted = start - r * self.dilation
        if stride == 1:
            return shifted, r, [shifted >= 0, shifted < self.extent]
        source = floordiv(shifted, stride)
        fits = tir.EQ(floormod(shifted, stride), const(0, "int64"))
        return source, r, [fits, source >= 0, source < self.extent]


def _transposed_extents(shape, kernel, strides, padding, output_padding, dilation):
    rank = len(shape) - 2
    before, after = expand_padding(padding, rank)
    extents = []
    for k in range(rank):
        window = (kernel[2 + k] - 1) * dilation[k] + 1
        grown = (shape[2 + k] - 1) * strides[k] + window
        extents.append(simplify(grown - (before[k] + after[k]) + output_padding[k]))
    return extents


@conv2d_transpose.build
def _(**arguments):
    check_groups(arguments["groups"])
    arguments["strides"] = expand_per_axis(listed(arguments["strides"]), 2, "strides")
    before, after = expand_padding(listed(arguments["padding"]), 2)
    arguments["padding"] = [*before, *after]
    arguments["output_padding"] = expand_per_axis(
        listed(arguments["output_padding"]), 2, "output_padding"
    )
    arguments["dilation"] = expand_per_axis(listed(arguments["dilation"]), 2, "dilation")
    arguments["out_layout"] = arguments["out_layout"] or arguments["data_layout"]
    return arguments


def _infer(data: TensorStructInfo, weight: TensorStructInfo, out_dtype=None, **attrs):
    dtype = void_or(out_dtype, data.dtype)
    shape, kernel = data.get_shape(), weight.get_shape()
    layouts = {k: layout_of(attrs[f"{k}_layout"]) for k in ("data", "kernel", "out")}
    letters = spatial(layouts["data"])
    check_rank("data", data, attrs["data_layout"])
    check_rank("weight", weight, attrs["kernel_layout"])
    check_dtypes(data, weight)
    largest = [max(pair) for pair in zip(attrs["strides"], attrs["dilation"], strict=True)]
    if any(o >= most for o, most in zip(attrs["output_padding"], largest, strict=True)):
        what = "output_padding is smaller than the strides, or the dilation"
        raise ValueError(explain(what, got=f"{attrs['output_padding']} for {largest}"))
    if shape is None or kernel is None:
        return TensorStructInfo(dtype=dtype, ndim=len(layouts["out"]))
    shape = [extent(layouts["data"], shape, letter) for letter in "NC" + letters]
    kernel = [extent(layouts["kernel"], kernel, letter) for letter in "IO" + letters]
    check_multiple(kernel[0], const(attrs["groups"], "int64"), "the channels that the weight takes")
    if differ(shape[1], kernel[0]):
        what = f"the weight takes {text(kernel[0])} channels"
        raise ValueError(explain(what, got=f"data of {text(shape[1])} channels"))
    extents = _transposed_extents(
        shape,
        kernel,
        attrs["strides"],
        attrs["padding"],
        attrs["output_padding"],
        attrs["dilation"],
    )
    if any(isinstance(size, IntImm) and size.value < 0 for size in extents):
        what = "the padding takes more than the result has"
        raise ValueError(
            explain(what, got=f"padding {attrs['padding']}, extents {[text(e) for e in extents]}")
        )
    sizes = {"N": shape[0], "C": simplify(kernel[1] * attrs["groups"])}
    sizes |= dict(zip(letters, extents, strict=True))
    return TensorStructInfo(shape_in(layouts["out"], sizes), dtype)


conv2d_transpose.infer(_infer)


def numpy_transposed(data, weight, strides, padding, output_padding, dilation, groups):
    """The numpy reference of a transposed convolution along one axis or more, channels first."""
    spatial_axes, window = data.shape[2:], weight.shape[2:]
    before, after = expand_padding(padding, len(window))
    whole = [
        (d - 1) * s + (k - 1) * gap + 1 + more
        for d, s, k, gap, more in zip(spatial_axes, strides, window, dilation, output_padding)
    ]
    x, kernels = widened(data), widened(weight)
    parts = []
    for part, own in zip(np.split(x, groups, 1), np.split(kernels, groups), strict=True):
        total = np.zeros((own.shape[1], len(x), *whole), x.dtype)
        for tap in np.ndindex(*window):
            starts = [t * gap for t, gap in zip(tap, dilation, strict=True)]
            reads = zip(starts, strides, spatial_axes, strict=True)
            spots = (slice(t, t + d * s, s) for t, s, d in reads)
            total[(..., *spots)] += contracted(own[(..., *tap)], part, ([0], [1]))
        parts.append(total.swapaxes(0, 1))
    ends = zip(before, after, whole, strict=True)
    out = np.concatenate(parts, 1)[(..., *(slice(b, d - a) for b, a, d in ends))]
    return out.astype(data.dtype)


@conv2d_transpose.numpy
def _(data, weight, *args, out_dtype=None, **attrs):
    kind = data.dtype if out_dtype is None else numpy_dtype(out_dtype)
    data = to_plain(data, attrs.pop("data_layout"), "NCHW").astype(kind)
    weight = to_plain(weight, attrs.pop("kernel_layout"), "IOHW").astype(kind)
    out_layout = attrs.pop("out_layout")
    return from_plain(numpy_transposed(data, weight, *args, **attrs), out_layout, "NCHW")


@conv2d_transpose.layout
def _(call: Call, query: LayoutQuery) -> LayoutPlan | None:
    """Blocks of channels, only if each output pixel has one tap."""
    attrs, weight = call.attrs, call.args[1]
    if not query.block or constant_channels(call) is None:
        return None
    apart = list(attrs.strides) == list(weight.data.shape[2:]) and not any(attrs.padding)
    plain = attrs.data_layout == "NCHW" and attrs.groups == 1 and list(attrs.dilation) == [1, 1]
    if not (apart and plain and not any(attrs.output_padding)):
        return None
    data, kernel = f"NCHW{query.block}c", f"IOHW{query.block}i{query.block}o"
    image = numbered(data, "NCHW")
    changed = {"data_layout": data, "out_layout": data, "kernel_layout": kernel}
    packed = {1: pack_weight.builder(weight, kernel)}
    return LayoutPlan((image, None), (image,), changed, packed)


conv2d_transpose.samples(
    case((1, 4, 5, 6), (4, 3, 2, 2), strides=[2, 2]),
    case((2, 4, 5, 5), (4, 2, 3, 3), strides=[2, 2], padding=[1, 1], output_padding=[1, 1]),
    case((1, 4, 4, 4), (4, 2, 3, 3), groups=2, padding=[1, 1]),
    case((1, 4, 5, 4), (3, 3, 3, 4), data_layout="NHWC", kernel_layout="OHWI"),
    case((1, 1, 4, 5, 4), (4, 3, 3, 3), data_layout="NCHW4c", padding=[1, 1]),
    case(
        (1, 2, 3, 4, 4),
        (2, 1, 2, 2, 4, 4),
        strides=[2, 2],
        data_layout="NCHW4c",
        kernel_layout="IOHW4i4o",
    ),
)


@op("relax.nn.join_phases")
def join_phases(data: Tensor, strides: Ints, before: Ints, after: Ints):
    """(batch, product of strides * channels, *sides) as (batch, channels, *(side * stride - before - after)):
    pixels that are a stride apart come from one group of channels, the first pixels from the first group;
    before, after: the widths that are cut off at the ends."""
    batch, phases, *sides = data.shape
    channels = simplify(floordiv(phases, math.prod(strides)))
    pairs = zip(sides, strides, before, after, strict=True)
    cut = [simplify(multiply(side, s) - (b + a)) for side, s, b, a in pairs]

    def cell(*i):
        n, c, *at = i
        phase, pixel = const(0, "int64"), []
        for p, s, b in zip(at, strides, before, strict=True):
            phase = phase * s + floormod(p + b, s)
            pixel.append(floordiv(p + b, s))
        return data(n, phase * channels + c, *pixel)

    return compute([batch, channels, *cut], cell, "join_phases", axes="i", tag="injective")


@join_phases.numpy
def _(data, strides, before, after):
    batch, phases, *sides = data.shape
    rank, channels = len(sides), phases // math.prod(strides)
    parts = data.reshape(batch, *strides, channels, *sides)
    order = [axis for k in range(rank) for axis in (2 + rank + k, 1 + k)]
    whole = [side * s for side, s in zip(sides, strides, strict=True)]
    parts = parts.transpose(0, 1 + rank, *order).reshape(batch, channels, *whole)
    ends = zip(before, whole, after, strict=True)
    return np.ascontiguousarray(parts[:, :, *[slice(b, w - a) for b, w, a in ends]])


join_phases.samples(
    case((2, 12, 5), strides=[3], before=[1], after=[3]),
    case((1, 8, 3, "w"), strides=[2, 2], before=[1, 0], after=[0, 1]),
)


def _flat(attrs):
    """The attributes of the 2-D operator, which leave the height unchanged."""
    before, after = expand_padding(attrs["padding"], 1)
    return {
        "strides": [1, *attrs["strides"]],
        "padding": [0, *before, 0, *after],
        "output_padding": [0, *attrs["output_padding"]],
        "dilation": [1, *attrs["dilation"]],
        "groups": attrs["groups"],
        "data_layout": "NCHW",
        "kernel_layout": "IOHW",
        "out_layout": "NCHW",
        "out_dtype": attrs["out_dtype"],
    }


def _with_height(x, name):
    shape = [x.shape[0], x.shape[1], const(1, "int64"), x.shape[2]]
    return compute(shape, lambda n, c, _, w: x(n, c, w), name, tag="injective")


@op("relax.nn.conv1d_transpose", mixed="always")
def conv1d_transpose(
    data: Tensor, weight: Tensor, strides: Ints = 1, padding: Ints = 0, output_padding: Ints = 0,
    dilation: Ints = 1, groups: int = 1, data_layout: str = "NCW", kernel_layout: str = "IOW",
    out_layout: str | None = None, out_dtype: DType | None = None,
):  # fmt: skip
    """The gradient of conv1d with respect to its data."""
    data = _plain(data, layout_of(data_layout), "NCW")
    weight = _plain(weight, layout_of(kernel_layout), "IOW")
    attrs = {
        "strides": strides,
        "padding": padding,
        "output_padding": output_padding,
        "dilation": dilation,
        "groups": groups,
        "out_dtype": out_dtype,
    }
    wide = conv2d_transpose(
        _with_height(data, "T_data"), _with_height(weight, "T_weight"), **_flat(attrs)
    )
    shape = [wide.shape[0], wide.shape[1], wide.shape[3]]
    zero = const(0, "int64")
    result = compute(shape, lambda n, c, w: wide(n, c, zero, w), "T_squeeze", tag="injective")
    return _stored(result, layout_of(out_layout or data_layout), "NCW")


@conv1d_transpose.build
def _(**arguments):
    check_groups(arguments["groups"])
    before, after = expand_padding(listed(arguments["padding"]), 1)
    arguments["padding"] = [*before, *after]
    for name in ("strides", "output_padding", "dilation"):
        arguments[name] = expand_per_axis(listed(arguments[name]), 1, name)
    arguments["out_layout"] = arguments["out_layout"] or arguments["data_layout"]
    return arguments


conv1d_transpose.infer(_infer)


@conv1d_transpose.numpy
def _(data, weight, **attrs):
    wide = Op.get("relax.nn.conv2d_transpose").get_attr("FNumpy")
    data = to_plain(data, attrs["data_layout"], "NCW")
    weight = to_plain(weight, attrs["kernel_layout"], "IOW")
    out = wide(data[:, :, None], weight[:, :, None], **_flat(attrs))
    return from_plain(out[:, :, 0], attrs["out_layout"], "NCW")


conv1d_transpose.samples(
    case((1, 3, 7), (3, 4, 3), strides=[2], padding=[1], output_padding=[1]),
    case((2, 4, "n"), (4, 2, 2), strides=[2], groups=2),
    case((1, 2, 5), (2, 3, 3), dilation=[2], padding=[1, 2]),
    case((1, 5, 2), (2, 3, 3), data_layout="NWC", out_layout="NCW2c"),
)
