"""What topi's functions compute, in numpy, and the schedule of a target: for tests.

    expected = topi.testing.conv2d_nchw_python(a, w, stride=1, padding="SAME")
    compute, schedule = topi.testing.dispatch(target, {"generic": (f, g), "gpu": (h, k)})

The names and arguments are TVM's. The graph's operators have numpy references of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ... import te
from ...ir.dtype import DataType, numpy_dtype
from ...ir.target import Target
from ...ops import OPERATORS
from ...ops.conv import expand_per_axis
from ...ops.conv_transpose import numpy_transposed
from ...runtime import tensor
from ...runtime.device import Device
from ...te.tensor import Tensor
from .nn import conv2d_nchw
from .padding import Ints, Padding, get_pad_tuple, listed
from .testing_image import affine_grid_python as affine_grid_python
from .testing_image import correlation_nchw_python as correlation_nchw_python
from .testing_image import crop_and_resize_python as crop_and_resize_python
from .testing_image import deformable_conv2d_nchw_python as deformable_conv2d_nchw_python
from .testing_image import deformable_conv2d_nhwc_python as deformable_conv2d_nhwc_python
from .testing_image import grid_sample_python as grid_sample_python
from .testing_image import lstm_python as lstm_python
from .testing_image import resize1d_python as resize1d_python
from .testing_image import resize2d_python as resize2d_python
from .testing_image import resize3d_python as resize3d_python
from .testing_image import roi_align_nchw_python as roi_align_nchw_python
from .testing_image import roi_align_nhwc_python as roi_align_nhwc_python
from .testing_image import roi_pool_nchw_python as roi_pool_nchw_python

Array = np.ndarray[Any, Any]


def dispatch(target: str, dispatch_map: Mapping[str, Any]) -> Any:
    """The entry of the first of a target's keys ("cpu", "gpu", ...) that a table has, else of
    "generic"."""
    keys = Target(target).keys
    return dispatch_map[next((key for key in keys if key in dispatch_map), "generic")]


def _schedule(target: str) -> Callable[[Any], te.Schedule]:
    def schedule(outs: Tensor | Sequence[Tensor]) -> te.Schedule:
        tensors = [outs] if isinstance(outs, te.Tensor) else list(outs)
        return te.create_schedule([t.op for t in tensors])

    return schedule


get_injective_schedule = get_broadcast_schedule = get_elemwise_schedule = _schedule
get_reduce_schedule = _schedule


def get_conv2d_nchw_implement(target: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """(computation, schedule) of conv2d for a target."""
    return conv2d_nchw, _schedule(target)


def compare_numpy_tvm(
    inputs: Sequence[Array], output: Array, target: str, device: Device,
    compute: Callable[..., Tensor], schedule: Callable[[list[Tensor]], te.Schedule],
) -> None:  # fmt: skip
    """Check that a computation, built for a target, returns `output`. Raises AssertionError."""
    with Target(target):
        placeholders = [
            te.placeholder(a.shape, str(a.dtype), f"in{n}") for n, a in enumerate(inputs)
        ]
        result = compute(*placeholders)
        built = te.build(schedule([result]), [*placeholders, result], target)
    got = tensor(np.zeros(output.shape, output.dtype), device)
    built(*(tensor(a, device) for a in inputs), got)
    np.testing.assert_allclose(got.numpy(), output, atol=1e-4, rtol=1e-4)


def _meaning(name: str) -> Callable[..., Any]:
    """The numpy meaning of a graph operator."""
    return OPERATORS[f"relax.{name}"].op.get_attr("FNumpy")


# -- convolutions ------------------------------------------------------------------------------------


def _conv(
    a: Array, w: Array, stride: Ints, padding: Padding, data: str, kernel: str, groups: int = 1,
    dilation: int = 1,
) -> Array:  # fmt: skip
    rank = len(data) - 2
    steps, dilations = (expand_per_axis(listed(v), rank, "stride") for v in (stride, dilation))
    window = [w.shape[kernel.index(n)] for n in data if n in "DHW"]
    dilated = [(k - 1) * h + 1 for k, h in zip(window, dilations, strict=True)]
    pads = get_pad_tuple(padding, dilated)
    return _meaning(f"nn.conv{rank}d")(a, w, steps, pads, dilations, groups, data, kernel, data)


def _conv_of(data: str, kernel: str) -> Callable[..., Array]:
    def conv(a_np: Array, w_np: Array, stride: Ints, padding: Padding, groups: int = 1) -> Array:
        return _conv(a_np, w_np, stride, padding, data, kernel, groups)

    return conv


conv2d_nchw_python = _conv_of("NCHW", "OIHW")
conv2d_nhwc_python = _conv_of("NHWC", "HWIO")
conv2d_hwcn_python = _conv_of("HWCN", "HWIO")
conv3d_ncdhw_python = _conv_of("NCDHW", "OIDHW")
conv3d_ndhwc_python = _conv_of("NDHWC", "DHWIO")


def group_conv1d_ncw_python(
    a_np: Array, w_np: Array, stride: int, padding: Padding, dilation: int, groups: int = 1
) -> Array:
    """A convolution of data NCW by a kernel OIW, in groups."""
    return _conv(a_np, w_np, stride, padding, "NCW", "OIW", groups, dilation)


conv1d_ncw_python = group_conv1d_ncw_python


def depthwise_conv2d_python_nchw(
    input_np: Array, filter_np: Array, stride: int, padding: str | int
) -> Array:
    """Each channel of data NCHW by its own filters: a kernel (channel, multiplier, H, W)."""
    channels, times, *window = filter_np.shape
    flat = filter_np.reshape(channels * times, 1, *window)
    return _conv(input_np, flat, stride, padding, "NCHW", "OIHW", channels)


def depthwise_conv2d_python_nhwc(
    input_np: Array, filter_np: Array, stride: int, padding: int
) -> Array:
    """Each channel of data NHWC by its own filters: a kernel (H, W, channel, multiplier)."""
    data, kernel = input_np.transpose(0, 3, 1, 2), filter_np.transpose(2, 3, 0, 1)
    return depthwise_conv2d_python_nchw(data, kernel, stride, padding).transpose(0, 2, 3, 1)


def depthwise_conv2d_python_nchwc(
    input_np: Array, filter_np: Array, stride: int, padding: int
) -> Array:
    """Each channel of data in blocks by its own filters: a kernel (block, 1, H, W, 1, channel)."""
    n, blocks, height, width, size = input_np.shape
    data = input_np.transpose(0, 1, 4, 2, 3).reshape(n, blocks * size, height, width)
    outer, _, rows, columns, _, inner = filter_np.shape
    kernel = filter_np.transpose(0, 5, 1, 4, 2, 3).reshape(data.shape[1], -1, rows, columns)
    out = depthwise_conv2d_python_nchw(data, kernel, stride, padding)
    return out.reshape(n, outer, inner, *out.shape[2:]).transpose(0, 1, 3, 4, 2)


def dilate_python(
    input_np: Array, strides: Sequence[int], dilation_value: float = 0.0, out_dtype: Any = None
) -> Array:
    """`strides[n] - 1` elements of `dilation_value` between those along each axis n."""
    shape = [(d - 1) * s + 1 for d, s in zip(input_np.shape, strides, strict=True)]
    out = np.full(shape, dilation_value, out_dtype or input_np.dtype)
    out[tuple(slice(None, None, s) for s in strides)] = input_np
    return out


def group_conv1d_transpose_ncw_python(
    a_np: Array, w_np: Array, stride: Ints, padding: Ints, output_padding: Ints, groups: int = 1
) -> Array:
    """The gradient of a convolution with respect to its data, channels first, kernel IO..."""
    rank = a_np.ndim - 2
    steps = expand_per_axis(listed(stride), rank, "stride")
    pads = get_pad_tuple(padding, w_np.shape[2:])
    more = expand_per_axis(listed(output_padding), rank, "output_padding")
    return numpy_transposed(a_np, w_np, steps, pads, more, [1] * rank, groups)


conv1d_transpose_ncw_python = group_conv1d_transpose_ncw_python
conv2d_transpose_nchw_python = conv3d_transpose_ncdhw_python = group_conv1d_transpose_ncw_python


def conv2d_transpose_nhwc_python(
    a_nhwc: Array, weight: Array, weight_format: str, stride: int, padding: int,
    output_padding: Sequence[int] = (0, 0),
) -> Array:  # fmt: skip
    """A transposed convolution of data NHWC by a kernel of a layout such as "HWIO"."""
    kernel = weight.transpose([weight_format.index(n) for n in "IOHW"])
    data = a_nhwc.transpose(0, 3, 1, 2)
    out = conv2d_transpose_nchw_python(data, kernel, stride, padding, output_padding)
    return out.transpose(0, 2, 3, 1)


# -- layers ------------------------------------------------------------------------------------------


def softmax_python(a_np: Array, axis: int = 1) -> Array:
    """softmax along `axis`."""
    return _meaning("nn.softmax")(a_np, axis=axis)


def log_softmax_python(a_np: Array, axis: int = 1) -> Array:
    """The logarithm of softmax along `axis`."""
    return _meaning("nn.log_softmax")(a_np, axis=axis)


def layer_norm_python(
    data: Array, gamma: Array, beta: Array, axis: int, epsilon: float = 1e-5
) -> Array:
    """Normalized over `axis`, scaled by gamma, moved by beta."""
    return _meaning("nn.layer_norm")(data, gamma, beta, listed(axis), epsilon)


def rms_norm_python(data: Array, weight: Array, axis: int, epsilon: float = 1e-5) -> Array:
    """Divided by the root of the mean of squares over `axis`, times the weight."""
    return _meaning("nn.rms_norm")(data, weight, listed(axis), epsilon)


def group_norm_python(
    data: Array, gamma: Array, beta: Array, num_groups: int, channel_axis: int, axes: Sequence[int],
    epsilon: float = 1e-5,
) -> Array:  # fmt: skip
    """Normalized in groups of channels."""
    norm = _meaning("nn.group_norm")
    return norm(data, gamma, beta, num_groups, channel_axis, listed(axes), epsilon)


def instance_norm_python(
    data: Array, gamma: Array, beta: Array, axis: Sequence[int], epsilon: float = 1e-5
) -> Array:
    """Each channel (axis 1) normalized over `axis`."""
    return _meaning("nn.instance_norm")(data, gamma, beta, 1, listed(axis), epsilon)


def batch_norm(
    x: Array, gamma: Array, beta: Array, moving_mean: Array, moving_var: Array, axis: int,
    epsilon: float, center: bool, scale: bool, training: bool, momentum: float,
) -> list[Array]:  # fmt: skip
    """[normalized, moving mean, moving variance]"""
    norm = _meaning("nn.batch_norm")
    tensors = (x, gamma, beta, moving_mean, moving_var)
    return list(norm(*tensors, axis, epsilon, center, scale, momentum, training))


def l2_normalize_python(a_np: Array, eps: float, axis: int | None = None) -> Array:
    """Divided by the root of the sum of squares over `axis`, at least the root of `eps`."""
    total = np.sum(a_np * a_np, None if axis is None else tuple(listed(axis)), keepdims=True)
    return a_np / np.sqrt(np.maximum(total, eps))


def lrn_python(a_np: Array, size: int, axis: int, bias: float, alpha: float, beta: float) -> Array:
    """Divided by (bias + alpha / size * the squares of `size` neighbours along `axis`) ** beta."""
    grown = [(size // 2, size // 2) if n == axis else (0, 0) for n in range(a_np.ndim)]
    squares = np.pad(a_np * a_np, grown)
    windows = np.lib.stride_tricks.sliding_window_view(squares, 2 * (size // 2) + 1, axis)
    return a_np / (bias + alpha * windows.sum(-1) / size) ** beta


def poolnd_python(
    np_data: Array, kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int], padding_before: Sequence[int],
    padding_after: Sequence[int], pool_type: str, count_include_pad: bool = True, ceil_mode: bool = False,
    dtype: str = "float32", layout: str | None = None,
) -> Array:  # fmt: skip
    """The "max" or "avg" of windows along one to three axes."""
    rank = np_data.ndim - 2
    pads = [*listed(padding_before), *listed(padding_after)]
    layout = layout or f"NC{'DHW'[3 - rank :]}"
    pool = _meaning(f"nn.{pool_type}_pool{rank}d")
    pooled = pool(
        np_data, pool_size=kernel, strides=strides, padding=pads, dilation=dilation,
        ceil_mode=ceil_mode, count_include_pad=count_include_pad, layout=layout, out_layout=layout,
    )  # fmt: skip
    return np.where(np.isneginf(pooled), 0, pooled).astype(dtype)  # padding alone: 0


def adaptive_pool(np_data: Array, out_size: Sequence[int], pool_type: str, layout: str) -> Array:
    """The "max" or "avg" of out_size windows that cover the image."""
    axes = [layout.index(n) for n in "DHW" if n in layout]
    out_size = (out_size,) * len(axes) if isinstance(out_size, int) else out_size
    out = np.moveaxis(np_data, axes, range(-len(axes), 0))
    whole = np.empty((*out.shape[: -len(axes)], *out_size), np_data.dtype)
    for at in np.ndindex(*out_size):
        rows = zip(at, out.shape[-len(axes) :], out_size, strict=True)
        spans = [slice(i * s // n, -(-(i + 1) * s // n)) for i, s, n in rows]
        take = np.max if pool_type == "max" else np.mean
        whole[(..., *at)] = take(out[(..., *spans)], tuple(range(-len(axes), 0)))
    return np.moveaxis(whole, range(-len(axes), 0), axes)


def pool_grad_nchw(
    a_np: Array, out_grad_np: Array, pool_size: Sequence[int], strides: Sequence[int], padding: Sequence[int], pool_type: str,
    ceil_mode: bool, count_include_pad: bool = True,
) -> Array:  # fmt: skip
    """The gradient of a pool with respect to its data."""
    backward = _meaning(f"grad.{pool_type}_pool2d_backward")
    return backward(
        out_grad_np, a_np, pool_size=list(pool_size), strides=list(strides), padding=list(padding),
        dilation=[1, 1], ceil_mode=ceil_mode, count_include_pad=count_include_pad, layout="NCHW",
        out_layout="NCHW",
    )  # fmt: skip


def dense(
    x: Array, y: Array, bias: Array, use_bias: bool = False, use_relu: bool = False,
    out_dtype: DataType | str | None = None,
) -> Array:  # fmt: skip
    """x @ y transposed, plus the bias, at least 0."""
    kind = numpy_dtype(out_dtype) if out_dtype else x.dtype
    out = x.astype(kind) @ y.T.astype(kind)
    out = out + bias if use_bias else out
    return np.maximum(out, 0) if use_relu else out


def batch_matmul(
    x: Array, y: Array, out_dtype: Any = None, trans_x: bool = False, trans_y: bool = True
) -> Array:
    """Products of matrices, one per batch element; a batch of 1 serves all."""
    kind = numpy_dtype(out_dtype) if out_dtype else x.dtype
    a, b = (m.swapaxes(1, 2) if transpose else m for m, transpose in ((x, trans_x), (y, trans_y)))
    return a.astype(kind) @ b.astype(kind)


def nll_loss(
    predictions: Array, targets: Array, weights: Array, reduction: str = "mean",
    ignore_index: int = -100,
) -> Any:  # fmt: skip
    """The weighted negative log likelihood."""
    return _meaning("nn.nll_loss")(predictions, targets, weights, reduction, ignore_index)


# -- elements ----------------------------------------------------------------------------------------


def gather_python(data: Array, axis: int, indices: Array) -> Array:
    """The elements at `indices` along `axis`; other positions are those of the result."""
    return _meaning("gather_elements")(data, indices, axis)


def gather_nd_python(a_np: Array, indices_np: Array) -> Array:
    """The elements (or slices) at the positions in the columns of `indices_np`."""
    return a_np[tuple(indices_np.astype("int64"))]


def searchsorted_ref(
    sorted_sequence: Array, values: Array, right: bool, out_dtype: DataType | str
) -> Array:
    """Where each value would be inserted to keep the (last) axis in order."""
    side: Any = "right" if right else "left"
    rows = np.broadcast_to(sorted_sequence, (*values.shape[:-1], sorted_sequence.shape[-1]))
    out = np.empty(values.shape, numpy_dtype(out_dtype))
    for at in np.ndindex(*values.shape[:-1]):
        out[at] = np.searchsorted(rows[at], values[at], side=side)
    return out


def sequence_mask(data: Array, valid_length: Array, mask_value: int, axis: int) -> Array:
    """`mask_value` from position `valid_length[batch]` of `axis` on; the batch is the other one
    of the first two axes."""
    positions = np.arange(data.shape[axis])
    beyond = positions[:, None] >= valid_length if axis == 0 else positions >= valid_length[:, None]
    beyond = beyond.reshape(*beyond.shape, *[1] * (data.ndim - 2))
    return np.where(beyond, np.array(mask_value, data.dtype), data)


def slice_axis_python(data: Array, axis: int, begin: int, end: int | None = None) -> Array:
    """data[begin:end] along `axis`."""
    return data[(slice(None),) * (axis % data.ndim) + (slice(begin, end),)]


def _slices(
    shape: Sequence[int], begin: Sequence[int], end: Sequence[int], strides: Sequence[int] | None, slice_mode: str = "end",
    axes: Sequence[int] | None = None,
) -> tuple[slice, ...]:  # fmt: skip
    dims = list(range(len(begin))) if axes is None else [a % len(shape) for a in axes]
    slices = [slice(None)] * len(shape)
    for n, axis in enumerate(dims):
        step = 1 if strides is None or n >= len(strides) else strides[n]
        last = end[n] if n < len(end) else None
        if slice_mode == "size":
            step, last = 1, None if end[n] < 0 else begin[n] + end[n]
        slices[axis] = slice(begin[n], last, step)
    return tuple(slices)


def strided_slice_python(
    data: Array, begin: Sequence[int], end: Sequence[int], strides: Sequence[int] | None,
    slice_mode: str = "end", axes: Sequence[int] | None = None,
) -> Array:  # fmt: skip
    """Elements from `begin` to `end` in steps of `strides`, along `axes` (the first ones)."""
    return data[_slices(data.shape, begin, end, strides, slice_mode, axes)]


def strided_set_python(
    data: Array, v: Array, begin: Sequence[int], end: Sequence[int], strides: Sequence[int]
) -> Array:
    """The data with `v` from `begin` to `end` in steps of `strides`."""
    out = data.copy()
    out[_slices(data.shape, begin, end, strides)] = v
    return out


def one_hot(
    indices: Array, on_value: int, off_value: int, depth: int, axis: int, dtype: DataType | str
) -> Array:
    """`on_value` where the position along the new axis equals the index, else `off_value`."""
    position = axis % (indices.ndim + 1)
    hot = np.expand_dims(indices, position) == np.arange(depth).reshape(
        -1, *[1] * (indices.ndim - position)
    )
    return np.where(hot, on_value, off_value).astype(numpy_dtype(dtype))


def matrix_set_diag(
    input_np: Array, diagonal: Array, k: Ints = 0, align: str = "RIGHT_LEFT"
) -> Array:
    """Matrices with other values on diagonal `k`, or on those from k[0] to k[1], which are rows
    from the highest; short ones at the side that `align` says (of those above, below)."""
    out = input_np.copy()
    low, high = (k, k) if isinstance(k, int) else (k[0], k[-1])
    bands = diagonal if low != high else diagonal[..., None, :]
    rows, columns = out.shape[-2:]
    for n, d in enumerate(range(high, low - 1, -1)):
        length = min(rows + min(d, 0), columns - max(d, 0))
        above, below = (side == "RIGHT" for side in align.split("_"))
        right = (d >= 0 and above) or (d <= 0 and below)
        first = bands.shape[-1] - length if right else 0
        at = np.arange(length)
        out[..., at + max(-d, 0), at + max(d, 0)] = bands[..., n, first : first + length]
    return out


def space_to_depth_python(data: Array, block_size: int) -> Array:
    """Blocks of pixels of an NCHW image in channels."""
    n, c, h, w = data.shape
    cells = data.reshape(n, c, h // block_size, block_size, w // block_size, block_size)
    return cells.transpose(0, 3, 5, 1, 2, 4).reshape(n, -1, h // block_size, w // block_size)


def depth_to_space_python(data: Array, block_size: int, mode: str = "DCR") -> Array:
    """Channels of an NCHW image in blocks of pixels; the block's place is the first part of the
    channel ("DCR") or the last ("CRD")."""
    n, c, h, w = data.shape
    depth, b = c // block_size**2, block_size
    parts = (n, b, b, depth, h, w) if mode == "DCR" else (n, depth, b, b, h, w)
    order = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    return data.reshape(parts).transpose(order).reshape(n, depth, h * b, w * b)


def space_to_batch_nd_python(
    data: Array, block_shape: Sequence[int], pad_before: Sequence[int], pad_after: Sequence[int],
    pad_value: float = 0,
) -> Array:  # fmt: skip
    """Blocks of the axes after the first, once padded, in the batch."""
    m = len(block_shape)
    sides = list(zip(pad_before, pad_after, strict=True))
    wide = np.pad(
        data, [(0, 0), *sides, *[(0, 0)] * (data.ndim - 1 - m)], constant_values=pad_value
    )
    rest = wide.shape[1 + m :]
    pairs = [p for d, b in zip(wide.shape[1:], block_shape, strict=False) for p in (d // b, b)]
    cells = wide.reshape(wide.shape[0], *pairs, *rest)
    blocks, cell_axes = [2 * n + 2 for n in range(m)], [2 * n + 1 for n in range(m)]
    cells = cells.transpose(*blocks, 0, *cell_axes, *range(2 * m + 1, cells.ndim))
    return cells.reshape(-1, *pairs[::2], *rest)


def batch_to_space_nd_python(
    data: Array,
    block_shape: Sequence[int],
    crop_begin_list: Sequence[int],
    crop_end_list: Sequence[int],
) -> Array:
    """The inverse of `space_to_batch_nd_python`; the padding is cut."""
    m, batch = len(block_shape), data.shape[0] // int(np.prod(block_shape))
    cells = data.reshape(*block_shape, batch, *data.shape[1:])
    pairs = [p for n in range(m) for p in (m + 1 + n, n)]
    cells = cells.transpose(m, *pairs, *range(2 * m + 1, cells.ndim))
    sizes = [d * b for d, b in zip(data.shape[1:], block_shape, strict=False)]
    whole = cells.reshape(batch, *sizes, *data.shape[1 + m :])
    rows = zip(crop_begin_list, crop_end_list, sizes, strict=True)
    return whole[(slice(None), *(slice(b, d - e) for b, e, d in rows))]


def reorg_python(a_np: Array, stride: int) -> Array:
    """YOLO's reorg layer: the channels of an NCHW image spread over blocks of pixels, read on as an
    image of `stride ** 2` times the channels."""
    batch, c, h, w = a_np.shape
    parts = a_np.reshape(batch, c // stride**2, h, stride, w, stride).transpose(0, 3, 5, 1, 2, 4)
    return parts.reshape(batch, c * stride**2, h // stride, w // stride)
