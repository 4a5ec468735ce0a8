"""topi's convolutions: one function for each layout, over the graph operators conv1d to conv3d."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ... import te, tir
from ...base.errors import explain
from ...ir.dtype import DataType
from ...ir.prim_expr import PrimExpr
from ...ops import OPERATORS
from ...ops.blocks import extent, spatial
from ...ops.common import void_or
from ...ops.conv import expand_per_axis
from ...ops.conv_transpose import transposed
from ...te.tensor import Tensor
from ...tir import layout as layout_of
from .padding import Ints, Padding, get_pad_tuple, listed
from .utils import get_const_int, simplify

# Name -> the layouts of data and kernel. Each has a form `group_...` with `groups` (of conv3d, the
# only form).
LAYOUTS = {
    "conv1d_ncw": ("NCW", "OIW"),
    "conv1d_nwc": ("NWC", "WIO"),
    "conv2d_nchw": ("NCHW", "OIHW"),
    "conv2d_nhwc": ("NHWC", "HWIO"),
    "conv2d_hwcn": ("HWCN", "HWIO"),
    "conv3d_ncdhw": ("NCDHW", "OIDHW"),
    "conv3d_ndhwc": ("NDHWC", "DHWIO"),
}


def default_kernel(data_layout: str) -> str:
    """The layout of the kernel for one of the data."""
    letters = "".join(n for n in data_layout if n in "DHW")
    return f"OI{letters}" if data_layout.startswith("NC") else f"{letters}IO"


def conv(
    inp: Tensor, filt: Tensor, stride: Ints, padding: Padding, dilation: Ints, groups: int,
    data_layout: str, kernel_layout: str = "", out_dtype: DataType | str | None = None,
    out_layout: str | None = None,
) -> Tensor:  # fmt: skip
    """A convolution of data and kernel in any layouts."""
    kernel = kernel_layout or default_kernel(data_layout)
    data, plan = layout_of(data_layout), layout_of(kernel)
    letters = spatial(data)
    rank = len(letters)
    steps = expand_per_axis(listed(stride), rank, "stride")
    dilations = expand_per_axis(listed(dilation), rank, "dilation")
    window = [extent(plan, list(filt.shape), s) for s in letters]
    dilated = [(k - 1) * h + 1 for k, h in zip(window, dilations, strict=True)]
    pads = get_pad_tuple(padding, [simplify(r) for r in dilated])
    return OPERATORS[f"relax.nn.conv{rank}d"](
        inp, filt, steps, pads, dilations, groups, data_layout, kernel, out_layout or data_layout,
        out_dtype,
    )  # fmt: skip


def _spelled(function: Callable[..., Tensor], **names: str) -> Callable[..., Tensor]:
    """The function with other names of its parameters, as TVM's differ; "" leaves one at its
    default."""
    plain = inspect.signature(function)
    old_names = {names.get(n, n): n for n in plain.parameters if names.get(n, n)}
    named = [plain.parameters[old].replace(name=new) for new, old in old_names.items()]
    signature = plain.replace(parameters=named)

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Tensor:
        bound = signature.bind(*args, **keywords)
        return function(**{old_names[name]: value for name, value in bound.arguments.items()})

    call.__signature__, call.__module__ = signature, __name__  # of a partial, it is functools'
    return call


# As in TVM; elsewhere the results have the type of the data.
_OUT_DTYPES = {"conv2d_nhwc": "float32", "conv3d_ndhwc": "float32"}


def _grouped(name: str, data: str, kernel: str) -> Callable[..., Tensor]:
    usual = _OUT_DTYPES.get(name)

    def convolution(
        Input: Tensor, Filter: Tensor, stride: Ints = 1, padding: Padding = "VALID",
        dilation: Ints = 1, groups: int = 1, out_dtype: DataType | str | None = usual,
    ) -> Tensor:  # fmt: skip
        return conv(Input, Filter, stride, padding, dilation, groups, data, kernel, out_dtype)

    convolution.__name__ = convolution.__qualname__ = name
    convolution.__doc__ = f"Convolution of data {data} by a kernel {kernel}, in groups."
    return convolution


def _plain(name: str, data: str, kernel: str) -> Callable[..., Tensor]:
    convolution = _spelled(_grouped(name, data, kernel), groups="")
    convolution.__doc__ = f"Convolution of data {data} by a kernel {kernel}."
    return convolution


(conv1d_ncw, conv1d_nwc, conv2d_nchw, conv2d_nhwc, conv2d_hwcn) = (
    _plain(name, *LAYOUTS[name]) for name in LAYOUTS if "3d" not in name
)
(group_conv1d_ncw, group_conv1d_nwc, group_conv2d_nchw, group_conv2d_nhwc) = (
    _grouped(f"group_{name}", *LAYOUTS[name])
    for name in LAYOUTS
    if "3d" not in name and name != "conv2d_hwcn"
)
_NAMES_1D = {"Input": "data", "Filter": "kernel", "stride": "strides"}
conv1d_ncw, conv1d_nwc, group_conv1d_ncw, group_conv1d_nwc = (
    _spelled(f, **_NAMES_1D) for f in (conv1d_ncw, conv1d_nwc, group_conv1d_ncw, group_conv1d_nwc)
)
conv3d_ncdhw, conv3d_ndhwc = (
    _grouped(name, *LAYOUTS[name]) for name in ("conv3d_ncdhw", "conv3d_ndhwc")
)


def conv1d(
    data: Tensor, kernel: Tensor, strides: int = 1, padding: str | int = "VALID", dilation: int = 1,
    groups: int = 1, data_layout: str = "NCW", kernel_layout: str = "", out_dtype: Any = None,
) -> Tensor:  # fmt: skip
    """1-D convolution; the kernel's layout follows the data's unless it is given."""
    return conv(
        data, kernel, strides, padding, dilation, groups, data_layout, kernel_layout, out_dtype
    )


def conv2d(
    input: Tensor, filter: Tensor, strides: int, padding: Ints, dilation: int,
    data_layout: str = "NCHW", kernel_layout: str = "", out_dtype: Any = None,
) -> Tensor:  # fmt: skip
    """2-D convolution; the kernel's layout follows the data's unless it is given."""
    return conv(input, filter, strides, padding, dilation, 1, data_layout, kernel_layout, out_dtype)


def conv2d_NCHWc(
    data: Tensor, kernel: Tensor, stride: int, padding: int, dilation: int, layout: str,
    out_layout: str, out_dtype: DataType | str = "float32",
) -> Tensor:  # fmt: skip
    """2-D convolution of data NCHW16c by a kernel OIHW16i16o, the blocks as its extents say."""
    blocks = f"OIHW{get_const_int(kernel.shape[4])}i{get_const_int(kernel.shape[5])}o"
    channels = get_const_int(data.shape[1] * data.shape[4])
    groups = channels // get_const_int(kernel.shape[1] * kernel.shape[4])
    return conv(
        data, kernel, stride, padding, dilation, groups, layout, blocks, out_dtype, out_layout
    )


def unpack_NCHWc_to_nchw(packed_out: Tensor, out_dtype: DataType | str) -> Tensor:
    """An image NCHW of one in blocks of channels."""
    n, blocks, height, width, size = packed_out.shape

    def pixel(n: PrimExpr, c: PrimExpr, h: PrimExpr, w: PrimExpr) -> Any:
        return packed_out(n, c // size, h, w, c % size).astype(out_dtype)

    shape = (n, simplify(blocks * size), height, width)
    return te.compute(shape, pixel, name="output_unpack", tag="injective")


# -- depthwise ---------------------------------------------------------------------------------------


def _one_filter_each(
    data: Tensor, kernel: Tensor, layout: str, options: tuple[Any, ...], out_dtype: str | None
) -> Tensor:
    """A convolution with one group per channel; kernel C, multiplier, height, width."""
    channels, times, height, width = kernel.shape

    def weight(o: PrimExpr, i: PrimExpr, y: PrimExpr, x: PrimExpr) -> Any:
        return kernel(o // times, o % times, y, x)

    flat = kernel
    if not isinstance(times, tir.IntImm) or times.value != 1:
        shape = (simplify(channels * times), 1, height, width)
        flat = te.compute(shape, weight, name="kernel_flat", tag="injective")
    return conv(data, flat, *options, get_const_int(channels), layout, "OIHW", out_dtype)


def depthwise_conv2d_nchw(
    Input: Tensor, Filter: Tensor, stride: int, padding: str | int, dilation: int,
    out_dtype: Any = None,
) -> Tensor:  # fmt: skip
    """Each channel of data NCHW by its own filters: a kernel (channel, multiplier, height, width)."""
    return _one_filter_each(Input, Filter, "NCHW", (stride, padding, dilation), out_dtype)


def depthwise_conv2d_nhwc(
    Input: Tensor, Filter: Tensor, stride: int, padding: int, dilation: int,
    kernel_layout: str = "HWOI", out_dtype: DataType | str | None = None,
) -> Tensor:  # fmt: skip
    """Each channel of data NHWC by its own filters: a kernel (height, width, channel, multiplier),
    with the last two swapped for "HWIO"."""
    if kernel_layout not in ("HWOI", "HWIO"):
        out_dtype, kernel_layout = kernel_layout, "HWOI"  # as before 0.10, without a layout
    order = [2, 3, 0, 1] if kernel_layout == "HWOI" else [3, 2, 0, 1]
    positions = [order.index(n) for n in range(4)]
    kernel = te.compute(
        [Filter.shape[n] for n in order],
        lambda *i: Filter(*(i[n] for n in positions)),
        name="kernel_first",
        tag="injective",
    )
    return _one_filter_each(Input, kernel, "NHWC", (stride, padding, dilation), out_dtype)


def depthwise_conv2d_NCHWc(
    Input: Tensor, Filter: Tensor, stride: Ints, padding: Ints, dilation: Ints, layout: str,
    out_layout: str, out_dtype: DataType | str | None = None,
) -> Tensor:  # fmt: skip
    """Each channel of data in blocks by its own filters: a kernel (block, 1, height, width, 1,
    channel in the block)."""
    blocks, _, height, width, _, size = Filter.shape
    flat = te.compute(
        (blocks, 1, height, width, size),
        lambda o, i, y, x, c: Filter(o, i, y, x, 0, c),
        name="kernel_flat",
        tag="injective",
    )
    channels = get_const_int(Input.shape[1] * Input.shape[4])
    image, kernel = layout, f"OIHW{get_const_int(size)}o"
    return conv(
        Input, flat, stride, padding, dilation, channels, image, kernel, out_dtype, out_layout
    )


def depthwise_conv2d_backward_input_nhwc(
    Filter: Tensor, Out_grad: Tensor, oshape: Sequence[Any], ishape: Sequence[Any],
    stride: Sequence[int], padding: int,
) -> Tensor:  # fmt: skip
    """The gradient of `depthwise_conv2d_nhwc` with respect to its data, of shape `ishape`."""
    height, width, _, times = Filter.shape
    steps = expand_per_axis(listed(stride), 2, "stride")
    top, left, *_ = get_pad_tuple(padding, (height, width))
    dh, dw, dc = (
        te.reduce_axis((0, e), n) for e, n in ((height, "dh"), (width, "dw"), (times, "dc"))
    )

    def element(b: PrimExpr, h: PrimExpr, w: PrimExpr, c: PrimExpr) -> Any:
        y, x = h + top - dh, w + left - dw
        inside = [y >= 0, y < oshape[1] * steps[0], x >= 0, x < oshape[2] * steps[1]]
        inside += [(v % s).equal(0) for v, s in zip((y, x), steps, strict=True) if s > 1]
        grad = Out_grad(b, y // steps[0], x // steps[1], c * times + dc)
        term = tir.if_then_else(tir.all(*inside), grad * Filter(dh, dw, c, dc), 0.0)
        return te.sum(term, axis=[dh, dw, dc])

    return te.compute(ishape, element, name="In_grad")


def depthwise_conv2d_backward_weight_nhwc(
    Input: Tensor, Out_grad: Tensor, oshape: Sequence[Any], fshape: Sequence[Any], stride: int,
    padding: int,
) -> Tensor:  # fmt: skip
    """The gradient of `depthwise_conv2d_nhwc` with respect to its kernel, of shape `fshape`."""
    steps = expand_per_axis(listed(stride), 2, "stride")
    top, left, *_ = get_pad_tuple(padding, fshape[:2])
    _, height, width, _ = Input.shape
    db, dh, dw = (
        te.reduce_axis((0, e), n) for e, n in zip(oshape[:3], ("db", "dh", "dw"), strict=True)
    )

    def element(fh: PrimExpr, fw: PrimExpr, c: PrimExpr, m: PrimExpr) -> Any:
        y, x = dh * steps[0] + fh - top, dw * steps[1] + fw - left
        inside = tir.all(y >= 0, y < height, x >= 0, x < width)
        grad = Out_grad(db, dh, dw, c * fshape[3] + m)
        return te.sum(tir.if_then_else(inside, grad * Input(db, y, x, c), 0.0), axis=[db, dh, dw])

    return te.compute(fshape, element, name="Weight_grad")


# -- transposed --------------------------------------------------------------------------------------


def dilate(
    data: Tensor,
    strides: Sequence[int],
    dilation_value: PrimExpr | float = 0.0,
    name: str = "DilatedInput",
) -> Tensor:
    """`strides[n] - 1` elements of `dilation_value` between those along each axis n."""
    if len(strides) != data.ndim:
        what = f"dilate takes a stride for each of {data.ndim} axes"
        raise ValueError(explain(what, got=str(list(strides))))
    gap = te.const(dilation_value, data.dtype)

    def element(*i: PrimExpr) -> Any:
        at = [v if s == 1 else v // s for v, s in zip(i, strides, strict=True)]
        there = [(v % s).equal(0) for v, s in zip(i, strides, strict=True) if s != 1]
        return tir.if_then_else(tir.all(*there), data(*at), gap) if there else data(*at)

    shape = [simplify((d - 1) * s + 1) for d, s in zip(data.shape, strides, strict=True)]
    return te.compute(shape, element, name=name, tag="injective,dilate")


def _transposed(
    data: Tensor, kernel: Tensor, stride: Ints, padding: Ints, grown: Ints, groups: int,
    dtype: str | None,
) -> Tensor:  # fmt: skip
    rank = data.ndim - 2
    steps = expand_per_axis(listed(stride), rank, "stride")
    more = expand_per_axis(listed(grown), rank, "output_padding")
    if any(m >= s for m, s in zip(more, steps, strict=True)) and any(more):
        what = "output_padding is less than the stride"
        raise ValueError(explain(what, got=f"{more} for strides {steps}"))
    pads = get_pad_tuple(padding, kernel.shape[2:])
    kind = void_or(dtype, data.dtype)
    return transposed(data, kernel, steps, [*pads], more, [1] * rank, groups, kind)


def _group_transpose(name: str) -> Callable[..., Tensor]:
    def convolution(
        data: Tensor, kernel: Tensor, stride: Ints, padding: Ints, out_dtype: DataType | str | None,
        output_padding: Ints, groups: int,
    ) -> Tensor:  # fmt: skip
        return _transposed(data, kernel, stride, padding, output_padding, groups, out_dtype)

    convolution.__name__ = convolution.__qualname__ = f"group_{name}"
    convolution.__doc__ = "A transposed convolution, channels first, by a kernel IO..., in groups."
    return convolution


def _transpose(name: str) -> Callable[..., Tensor]:
    convolution = _spelled(functools.partial(_group_transpose(name), groups=1), groups="")
    convolution.__name__ = convolution.__qualname__ = name
    convolution.__doc__ = "A transposed convolution, channels first, by a kernel IO..."
    return convolution


_TRANSPOSES = ("conv1d_transpose_ncw", "conv2d_transpose_nchw", "conv3d_transpose_ncdhw")
conv1d_transpose_ncw, conv2d_transpose_nchw, conv3d_transpose_ncdhw = map(_transpose, _TRANSPOSES)
group_conv1d_transpose_ncw, group_conv2d_transpose_nchw, group_conv3d_transpose_ncdhw = map(
    _group_transpose, _TRANSPOSES
)
_NAMES = {"data": "Input", "kernel": "Filter", "stride": "strides"}
conv2d_transpose_nchw = _spelled(conv2d_transpose_nchw, **_NAMES)
conv3d_transpose_ncdhw = _spelled(conv3d_transpose_ncdhw, **_NAMES)
group_conv3d_transpose_ncdhw = _spelled(group_conv3d_transpose_ncdhw, stride="strides")
