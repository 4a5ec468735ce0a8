"""Convolutions, in any data layout: NCHW, NHWC, NCHW16c, ... (see `tir.Layout`)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from .. import te
from ..base.errors import explain
from ..ir.dtype import DataType, numpy_dtype
from ..ir.prim_expr import Add, IntImm, IterVar, PrimExpr, Select, Sub
from ..ir.prim_op import (
    cast,
    ceildiv,
    const,
    floordiv,
    floormod,
    logical_and,
    maximum,
    minimum,
    multiply,
)
from ..relax.expr import Call, Constant
from ..relax.layout import PLAIN_CONVOLUTIONS, LayoutPlan, LayoutQuery
from ..relax.struct_info import TensorStructInfo
from ..tir import layout as layout_of
from ..tir.op import if_then_else
from .blocks import extent, from_plain, index_in, shape_in, sliding, spatial, to_plain
from .common import NO_INLINE, accumulator, compute, contracted, listed, rounded, void_or, widened
from .core import Operator, case, op
from .extents import check_multiple, differ, simplify, text
from .layout import pack_weight
from .layout_rules import numbered, spelled
from .nn import padded
from .params import DType, Ints, Tensor, whole


def expand_padding(padding: Iterable[Any], rank: int) -> tuple[list[int], list[int]]:
    """(before, after) for each spatial axis, from 1, `rank` or 2 * `rank` numbers."""
    values = [whole(p) for p in padding]
    if len(values) == 1:
        values = values * (2 * rank)
    elif len(values) == rank:
        values = values * 2
    if len(values) != 2 * rank:
        what = f"padding takes 1, {rank} or {2 * rank} numbers"
        raise ValueError(explain(what, got=list(padding)))
    return values[:rank], values[rank:]


def expand_per_axis(values: Iterable[Any], rank: int, name: str) -> list[int]:
    """One number per spatial axis; sizes and padding of outputs may be 0, nothing is negative."""
    numbers = [whole(v) for v in values]
    numbers = numbers * rank if len(numbers) == 1 else numbers
    if len(numbers) != rank:
        raise ValueError(explain(f"{name} takes 1 or {rank} numbers", got=list(values)))
    least = 0 if name in ("output_padding", "output_size", "size") else 1
    if any(n < least for n in numbers):
        raise ValueError(explain(f"{name} must be {least} or more", got=list(values)))
    return numbers


def conv_extent(
    size: PrimExpr, kernel: PrimExpr | int, stride: int, dilation: int, before: int, after: int
) -> PrimExpr:
    """Output extent of a window that slides along one axis (rounded down), as TVM writes it: a whole
    multiple of the stride is added outside of the division."""
    window = dilation * (kernel - 1) + 1
    grown = simplify(const(before + after, "int64") - window)
    if not isinstance(size, IntImm) and not isinstance(grown, IntImm) and stride == dilation == 1:
        return size + (before + after + 1) - kernel
    if isinstance(size, IntImm) or not isinstance(grown, IntImm):
        return simplify(floordiv(size + (before + after) - window, stride) + 1)
    inside = 0 if grown.value % stride == 0 else grown.value
    whole = simplify(floordiv(size + inside, stride))
    more = 1 + (0 if inside else grown.value // stride)
    if isinstance(whole, (Add, Sub)):  # the division gave a whole number itself
        return simplify(whole + more)
    return whole - -more if more < 0 else whole + more if more else whole


def _make(rank: int) -> Operator:
    letters = "DHW"[3 - rank :]
    name, data_default, kernel_default = f"conv{rank}d", f"NC{letters}", f"OI{letters}"

    def body(
        data: Tensor, weight: Tensor, strides: Ints = (1,) * rank, padding: Ints = (0,) * rank,
        dilation: Ints = (1,) * rank, groups: int = 1, data_layout: str = data_default,
        kernel_layout: str = kernel_default, out_layout: str | None = None,
        out_dtype: DType | None = None,
    ):  # fmt: skip
        plan = ConvPlan(data.shape, weight.shape, strides, padding, dilation, groups)
        plan.layouts(data_layout, kernel_layout, out_layout, rank)
        return convolve(plan, data, weight, void_or(out_dtype, data.dtype))

    body.__name__ = name
    body.__doc__ = (
        f"{rank}-D convolution: out[n, o, y] = sum over i, k of data[n, i, y * stride + k * "
        "dilation - padding] * weight[o, i, k], channels in `groups`. `padding` is 1, "
        f"{rank} or {2 * rank} numbers (all before, then all after)."
    )
    operator = op(f"relax.nn.{name}", mixed="always")(body)

    @operator.build
    def _(**arguments):
        return conv_arguments(rank, arguments)

    @operator.infer
    def _(data: TensorStructInfo, weight: TensorStructInfo, out_dtype=None, **attrs):
        check_dtypes(data, weight)
        return conv_info(rank, data, weight, out_dtype or data.dtype, **attrs)

    operator.layout(_conv_layout)
    operator.numpy(numpy_conv)
    operator.samples(*_cases(rank))
    return operator


def conv_arguments(rank: int, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a convolution's builder, one number for each side. Raises ValueError."""
    check_groups(arguments["groups"])
    arguments["strides"] = expand_per_axis(listed(arguments["strides"]), rank, "strides")
    before, after = expand_padding(listed(arguments["padding"]), rank)
    arguments["padding"] = [*before, *after]
    arguments["dilation"] = expand_per_axis(listed(arguments["dilation"]), rank, "dilation")
    arguments["out_layout"] = arguments["out_layout"] or arguments["data_layout"]
    return arguments


def conv_info(
    rank: int, data: TensorStructInfo, weight: TensorStructInfo, dtype: DataType | str,
    **attrs: Any,
) -> TensorStructInfo:  # fmt: skip
    """The type of a convolution's result. Raises ValueError where the shapes do not fit."""
    check_rank("data", data, attrs["data_layout"])
    check_rank("weight", weight, attrs["kernel_layout"])
    shape, kernel = data.get_shape(), weight.get_shape()
    if shape is None or kernel is None:
        return TensorStructInfo(dtype=dtype, ndim=len(layout_of(attrs["out_layout"])))
    windows = [attrs[k] for k in ("strides", "padding", "dilation", "groups")]
    plan = ConvPlan(shape, kernel, *windows)
    plan.layouts(attrs["data_layout"], attrs["kernel_layout"], attrs["out_layout"], rank)
    plan.check()
    return TensorStructInfo(plan.out_shape, dtype)


def check_groups(groups: int) -> None:
    """Raise ValueError if a convolution has no group."""
    if groups < 1:
        raise ValueError(explain("a convolution has at least one group", got=groups))


def check_dtypes(data: TensorStructInfo, weight: TensorStructInfo) -> None:
    """Raise TypeError if a convolution's operands differ in dtype."""
    kinds = {str(t.dtype) for t in (data, weight) if not t.dtype.is_void}
    if len(kinds) > 1:
        hint = "cast one side with astype"
        got = f"{data.dtype} and {weight.dtype}"
        raise TypeError(explain("operands of different dtypes", got=got, instead=hint))


def check_rank(what: str, info: TensorStructInfo, layout: str) -> None:
    """Raise ValueError if a tensor has not the rank or the blocks of its layout."""
    axes, dims = layout_of(layout), info.get_shape()
    if info.ndim not in (-1, len(axes)):
        raise ValueError(explain(f"{what} must have rank {len(axes)} ({layout})", got=info.ndim))
    for size, (letter, factor) in zip(dims or (), axes.parts, strict=False):
        if letter.islower() and differ(size, const(factor, "int64")):
            need = f"{what} must have blocks of {factor} ({layout})"
            raise ValueError(explain(need, got=text(size)))


def _cases(rank: int) -> list[Any]:
    ones, window = (1,) * rank, (3,) * rank
    spatial = {1: (9,), 2: (9, 7), 3: (5, 6, 4)}[rank]
    return [
        case((2, 4, *spatial), (6, 4, *window), padding=ones),
        case((1, 4, *spatial), (4, 1, *window), groups=4, strides=(2,) * rank, padding=ones),
        case(("n", 4, *spatial), (8, 2, *window), groups=2),
    ]


def _conv_layout(call: Call, query: LayoutQuery) -> LayoutPlan | None:
    """Blocks if the query has a block size; otherwise as `moved_conv`."""
    attrs = call.attrs
    if not query.block:
        return moved_conv(call, query)
    data, kernel = attrs.data_layout, attrs.kernel_layout
    plain = attrs.out_layout == data and (data, kernel) in PLAIN_CONVOLUTIONS
    return _in_blocks(call, query.block, query.inputs[0] is not None) if plain else None


def moved_conv(call: Call, query: LayoutQuery) -> LayoutPlan | None:
    """A convolution in the desired layouts, or in the data's current layout."""
    attrs = call.attrs
    data, kernel, out = attrs.data_layout, attrs.kernel_layout, attrs.out_layout
    if not (data + kernel + out).isupper():
        return None  # already blocked
    if query.desired:
        new_data, new_kernel = query.desired[:2]
        new_out = query.desired[2] if len(query.desired) > 2 else new_data
    elif query.inputs[0] is not None:
        new_data, new_kernel = str(spelled(query.inputs[0], data)), kernel
        new_out = new_data
    else:
        return None
    others = (None,) * (len(query.inputs) - 2)
    inputs = numbered(new_data, data), numbered(new_kernel, kernel), *others
    if any(spatial(layout_of(new)) != spatial(layout_of(data)) for new in (new_data, new_out)):
        return None  # strides and padding refer to this axis order
    changed = {"data_layout": new_data, "kernel_layout": new_kernel, "out_layout": new_out}
    return LayoutPlan(inputs, (numbered(new_out, out),), changed)


# With fewer output channels, vectors run along a row instead: 32 to 3 channels, 11 x 11, 41.4 to 8.8 ms
# (docs/notebook.md).
_FEW_RESULTS = 4
_FEW_CHANNELS = 8  # with fewer input channels, the plain layout is read


def _in_blocks(call: Call, size: int, is_blocked: bool) -> LayoutPlan | None:
    """A convolution with a constant weight on blocks of `size` channels, so that a kernel reads whole
    vectors of output channels."""
    attrs, weight = call.attrs, call.args[1]
    channels = constant_channels(call)
    if channels is None:
        return None
    kernel = weight.data.shape
    depthwise = attrs.groups > 1 and kernel[1] == 1 and kernel[0] == channels == attrs.groups
    groups = attrs.groups
    if groups > 1 and not depthwise:
        weight, groups = _groups_of_blocks(weight, attrs.groups, size)
        if groups == 0:
            return None
    if kernel[0] < _FEW_RESULTS and attrs.strides[-1] == 1:
        return None
    plain, weights = attrs.data_layout, attrs.kernel_layout
    image = numbered(f"{plain}{size}c", plain)
    changed: dict[str, Any] = {"out_layout": f"{plain}{size}c", "groups": groups}
    pixels = "apart"
    if attrs.groups == 1 and channels < _FEW_CHANNELS and not is_blocked:
        source, kernel_layout = None, f"{weights}{size}o"
    else:
        source, changed["data_layout"] = image, f"{plain}{size}c"
        read = min(channels, size)  # of a block: its padding is not read
        kernel_layout = f"{weights}{size}o" if depthwise else f"{weights}{read}i{size}o"
        one_tap = {*kernel[2:], *attrs.strides} == {1} and not any(attrs.padding)
        pixels = "merged" if one_tap and attrs.groups == 1 else "apart"
    if depthwise:
        changed["groups"] = -(-channels // size) * size
    changed["kernel_layout"] = kernel_layout
    packed = {1: pack_weight.builder(weight, kernel_layout)}
    return LayoutPlan((source, None), (image,), changed, packed, pixels=pixels)


# Groups that become one are multiplied by zeros, too: two of 8 channels are faster in a block of 16 than in the
# plain layout (ResNeXt-50's block of 28 x 28 pixels), four of 4 slower (56 x 56: 5.1 to 5.7 ms).
_MOST_MERGED = 2


def _groups_of_blocks(weight: Constant, groups: int, size: int) -> tuple[Constant, int]:
    """The weight of a convolution whose groups are whole blocks of channels, after adjacent ones became one
    where they are parts of a block, and their number; 0 where there are none."""
    count, per_group, *window = weight.data.shape
    results = count // groups
    for merged in range(1, _MOST_MERGED + 1):
        if not (groups % merged or results * merged % size or per_group * merged % size):
            break
    else:
        return weight, 0
    if merged > 1:
        wide = np.zeros((count, merged, per_group, *window), "float32")
        rows = np.arange(count)
        wide[rows, rows // results % merged] = weight.data.numpy()
        weight = Constant(wide.reshape(count, -1, *window))
    return weight, groups // merged


def constant_channels(call: Call) -> int | None:
    """The number of channels of the data, if it is known and the weight is a float32 constant."""
    shape, weight = call.args[0].struct_info.get_shape(), call.args[1]
    if not isinstance(weight, Constant) or str(weight.data.dtype) != "float32":
        return None
    if shape is None or len(shape) not in (3, 4, 5):
        return None
    return shape[1].value if isinstance(shape[1], IntImm) else None


class ConvPlan:
    """Extents and layouts of one convolution."""

    def __init__(
        self,
        data_shape: Iterable[Any],
        kernel_shape: Iterable[Any],
        strides: Iterable[int],
        padding: Iterable[Any],
        dilation: Iterable[int],
        groups: int,
    ) -> None:
        self.data_shape, self.kernel_shape = list(data_shape), list(kernel_shape)
        self.strides, self.dilation, self.groups = list(strides), list(dilation), groups
        self.padding = padding

    def layouts(self, data_layout, kernel_layout, out_layout, rank):
        """Set the layouts and compute the extents."""
        self.data, self.kernel = layout_of(data_layout), layout_of(kernel_layout)
        self.out = layout_of(out_layout or data_layout)
        self.before, self.after = expand_padding(self.padding, rank)
        self.strides = expand_per_axis(self.strides, rank, "strides")
        self.dilation = expand_per_axis(self.dilation, rank, "dilation")
        self.letters = spatial(self.data)
        k, d = self.kernel, self.data
        self.out_channels = extent(k, self.kernel_shape, "O")
        self.in_per_group = extent(k, self.kernel_shape, "I")
        self.in_channels = extent(d, self.data_shape, "C")
        self.window = [extent(k, self.kernel_shape, s) for s in self.letters]
        sizes = [extent(d, self.data_shape, s) for s in self.letters]
        self.extents = {"N": extent(d, self.data_shape, "N"), "C": self.out_channels}
        rows = zip(self.letters, sizes, self.window, self.strides, self.dilation, strict=True)
        for (s, size, window, stride, dil), b, a in zip(rows, self.before, self.after, strict=True):
            self.extents[s] = conv_extent(size, window, stride, dil, b, a)
        self.out_shape = shape_in(self.out, self.extents)

    def check(self):
        """Raise ValueError if the channels do not fit."""
        have, per_group, block = self.in_channels, self.in_per_group, self.data.factor_of("C")
        read, filled = simplify(per_group * self.groups), self.kernel.factor_of("I")
        if block > 0 and filled > 0:  # the last block may be read in part
            read = simplify(ceildiv(read, block) * block)
        elif filled > 0:  # the data are packed as they are padded
            have = simplify(ceildiv(have, filled) * filled)
        if differ(have, read):
            what = f"the weight takes {text(per_group)} channels in {self.groups} group(s)"
            hint = "check kernel_layout and groups"
            raise ValueError(explain(what, got=f"data of {text(have)} channels", instead=hint))
        check_multiple(self.out_channels, const(self.groups, "int64"), "the results' channels")
        results = self.out.factor_of("C")
        if results > 0 > self.kernel.factor_of("O"):  # a block is read whole
            check_multiple(self.out_channels, const(results, "int64"), "the weight's outputs")
        for s, size in self.extents.items():
            if s in self.letters and isinstance(size, IntImm) and size.value <= 0:
                raise ValueError(explain("the window is larger than the padded data", got=size))


def convolve(
    plan: ConvPlan, data: te.Tensor, weight: te.Tensor, dtype: DataType | str,
    fill: Any = None, attrs: dict[str, Any] | None = None,
) -> te.Tensor:  # fmt: skip
    """The tensor expression of a convolution. fill: the value around the image, which is then copied (None:
    zeros); attrs: annotations of the block of products."""
    if fill is None:
        source = _pad_data(plan, data)
    else:
        source = _copied(plan, data, fill)
    depthwise = plan.groups > 1 and is_number(plan.in_per_group, 1)
    channel_block = plan.out.factor_of("C")
    window = [
        te.reduce_axis((const(0, "int64"), w), name=f"r{s.lower()}")
        for s, w in zip(plan.letters, plan.window, strict=True)
    ]
    in_block = plan.data.factor_of("C")
    if in_block > 0 and plan.kernel.factor_of("I") > 0:
        in_block = plan.kernel.factor_of("I")
    wide = accumulator(dtype)
    channels = [] if depthwise else _channel_axes(plan, in_block, channel_block)

    def cell(*i):
        position = dict(zip(plan.out, i, strict=True))
        out = (position["C"], position["c"]) if channel_block > 0 else position["C"]
        at = {"N": position["N"]}
        rows = zip(plan.letters, window, plan.strides, plan.dilation, strict=True)
        for s, r, stride, dil in rows:
            at[s] = position[s] * stride + r * dil
        at["C"], inner = _input_channel(plan, out, channels, depthwise, channel_block)
        kernel_at: dict[str, Any] = dict(zip(plan.letters, window, strict=True))
        at["C"] = _as_stored(at["C"], plan.data, "C", in_block)
        kernel_at["O"] = _as_stored(out, plan.kernel, "O", channel_block)
        kernel_at["I"] = _as_stored(inner, plan.kernel, "I", in_block)
        lhs = cast(wide, source(*index_in(plan.data, at)))
        rhs = cast(wide, weight(*index_in(plan.kernel, kernel_at)))
        return te.sum(multiply(lhs, rhs), axis=[*channels[:1], *window, *channels[1:]])

    kind = "depthwise_conv" if depthwise else "group_conv" if plan.groups > 1 else "conv"
    name = f"{kind}{len(plan.letters)}d_{plan.out}".replace("NCHW", "nchw")
    names = [AXIS_NAMES[letter] for letter in plan.out]
    total = te.compute(plan.out_shape, cell, name=name, tag=name, attrs=attrs, varargs_names=names)
    return rounded(total, dtype)


def _as_stored(index, layout, letter, block):
    """An index of (block, element) in a tensor that may have other blocks: then the plain one."""
    stored = [factor for other, factor in layout.parts if other == letter.lower()]
    if not isinstance(index, tuple) or prod(stored) == block:
        return index
    axis = index[0]
    if len(stored) == 1 and isinstance(axis, IterVar) and is_number(axis.dom.extent, 1):
        return const(0, "int64"), index[1]  # a part of the only block
    return index[0] * block + index[1]


AXIS_NAMES = {"N": "nn", "C": "ff", "c": "fi", "D": "zz", "H": "yy", "W": "xx"}


def is_number(dim: object, value: int) -> bool:
    return isinstance(dim, IntImm) and dim.value == value


def _channel_axes(plan, in_block, out_block):
    zero = const(0, "int64")
    whole = plan.groups == 1
    if not whole and in_block > 0 < out_block and plan.kernel.factor_of("I") > 0:
        results = simplify(floordiv(plan.out_channels, plan.groups))
        pairs = (plan.in_per_group, in_block), (results, out_block)
        whole = all(is_number(simplify(floormod(n, block)), 0) for n, block in pairs)
    if in_block > 0 and whole:
        blocks = simplify(floordiv(plan.in_per_group, in_block))
        outer = te.reduce_axis((zero, blocks), name="rc")
        return [outer, te.reduce_axis((zero, const(in_block, "int64")), name="ri")]
    return [te.reduce_axis((zero, plan.in_per_group), name="rc")]


def _input_channel(plan, out, channels, depthwise, channel_block):
    """(index in the data, index in the weight) of the input channel."""
    zero = const(0, "int64")
    if depthwise and is_number(simplify(floordiv(plan.out_channels, plan.groups)), 1):
        return out, zero
    inner = tuple(channels) if len(channels) == 2 else channels[0] if channels else zero
    if plan.groups == 1:
        return inner, inner
    per_group = simplify(floordiv(plan.out_channels, plan.groups))
    if isinstance(inner, tuple):  # groups of whole blocks
        group = floordiv(out[0], simplify(floordiv(per_group, channel_block)))
        return (group * inner[0].dom.extent + inner[0], inner[1]), inner
    flat = out[0] * channel_block + out[1] if isinstance(out, tuple) else out
    first = floordiv(flat, per_group) * plan.in_per_group
    return first + inner, inner


def _pad_data(plan, data):
    if not any(plan.before) and not any(plan.after):
        return data
    grow = dict(zip(plan.letters, zip(plan.before, plan.after, strict=True), strict=True))
    sides = [grow.get(n, (0, 0)) for n in plan.data]
    return padded(data, [b for b, _ in sides], [a for _, a in sides], 0.0, "constant", "pad_temp")


def _copied(plan: ConvPlan, data: te.Tensor, fill: PrimExpr) -> te.Tensor:
    """The image with `fill` around it, in blocks of channels if the weight has some; the image itself if
    there is nothing to do. The channels that fill up a block have any value: their weights are 0."""
    block, stored, copied = plan.kernel.factor_of("I"), plan.data, plan.data
    packs = block > 0 > stored.factor_of("C")
    if packs:
        plan.data = copied = layout_of(f"{stored}{block}c")
    grow = dict(zip(plan.letters, zip(plan.before, plan.after, strict=True), strict=True))
    if not packs and not any(map(any, grow.values())):
        return data
    sizes = {n: extent(stored, data.shape, n) for n in stored if n.isupper()}

    def cell(*i):
        at: dict[str, Any] = dict(zip(copied, i, strict=True))
        columns, rows = [], []
        for letter in filter(lambda n: any(grow[n]), plan.letters):
            size, index = sizes[letter], at[letter] - grow[letter][0]
            inside = logical_and(index >= 0, index < size)
            if letter != plan.letters[-1] and isinstance(size, IntImm):
                # An element is read in any case, so that pixels do not branch on the condition of a row.
                index = minimum(maximum(index, const(0, "int64")), size - 1)
                rows.append(inside)
            else:
                columns.append(inside)
            at[letter] = index
        if packs:
            at["C"] = minimum(at["C"] * block + at.pop("c"), sizes["C"] - 1)
        value = data(*(at[n] for n in stored))
        value = Select(reduce(logical_and, rows), value, fill) if rows else value
        return if_then_else(reduce(logical_and, columns), value, fill) if columns else value

    grown = {n: simplify(size + sum(grow.get(n, ()))) for n, size in sizes.items()}
    shape = shape_in(copied, grown)
    return compute(shape, cell, "padded", attrs={NO_INLINE: True})


def numpy_conv(
    data, weight, strides, padding, dilation, groups, data_layout, kernel_layout, out_layout,
    out_dtype=None, fill=0,
):  # fmt: skip
    """numpy: a convolution of an image around which is `fill`."""
    kind = data.dtype if out_dtype is None else numpy_dtype(out_dtype)
    letters = spatial(layout_of(data_layout))
    rank = len(letters)
    x = to_plain(data, data_layout, "NC" + letters)
    w = to_plain(weight, kernel_layout, "OI" + letters)
    x, w = widened(x.astype(kind)), widened(w.astype(kind))
    x = x[:, : w.shape[1] * groups]
    before, after = expand_padding(padding, rank)
    x = np.pad(x, [(0, 0), (0, 0), *zip(before, after, strict=True)], constant_values=fill)
    views = sliding(x, w.shape[2:], strides, dilation)
    per_in, per_out, parts = w.shape[1], w.shape[0] // groups, []
    contract = tuple(range(2 + rank, 2 + 2 * rank))
    for g in range(groups):
        part = views[:, g * per_in : (g + 1) * per_in]
        kernel = w[g * per_out : (g + 1) * per_out]
        axes = ((1, *contract), tuple(range(1, 2 + rank)))
        parts.append(np.moveaxis(contracted(part, kernel, axes), -1, 1))
    return from_plain(np.concatenate(parts, 1).astype(kind), out_layout, "NC" + letters)


conv1d, conv2d, conv3d = _make(1), _make(2), _make(3)
conv2d.samples(
    case(
        (1, 2, 6, 5, 4),
        (2, 2, 3, 3, 4, 4),
        padding=1,
        data_layout="NCHW4c",
        kernel_layout="OIHW4i4o",
    ),
    case((1, 3, 6, 5), (2, 3, 3, 3, 4), padding=1, kernel_layout="OIHW4o", out_layout="NCHW4c"),
    case(
        (1, 2, 6, 5, 4),
        (2, 1, 3, 3, 4),
        padding=1,
        groups=8,
        data_layout="NCHW4c",
        kernel_layout="OIHW4o",
    ),
    case(
        (1, 1, 6, 5, 4),
        (2, 1, 3, 3, 3, 4),
        padding=1,
        data_layout="NCHW4c",
        kernel_layout="OIHW3i4o",
    ),
)
conv3d.samples(
    case(
        (1, 2, 3, 4, 5, 4),
        (2, 2, 1, 3, 3, 4, 4),
        padding=(0, 1, 1),
        data_layout="NCDHW4c",
        kernel_layout="OIDHW4i4o",
    )
)
