"""topi's layers that have no graph operator: responses, recurrences, pixels in channels, bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import te, tir
from ...base.errors import explain
from ...ir.dtype import DataType
from ...ir.prim_expr import PrimExpr
from ...ops import OPERATORS
from ...ops.common import accumulator
from ...ops.conv import expand_per_axis
from ...te.tensor import Tensor
from .padding import Ints, Padding, get_pad_tuple, listed
from .utils import get_const_int, simplify


def _as(dtype: DataType, name: str, shape: Sequence[Any], element: Callable[..., Any]) -> Tensor:
    return te.compute(shape, lambda *i: element(*i).astype(dtype), name=name, tag="injective")


# -- padding -----------------------------------------------------------------------------------------


def get_padded_shape(
    data: Tensor, pad_before: Sequence[int], pad_after: Sequence[int] | None = None
) -> tuple[Any, ...]:
    """The shape of the padded data."""
    after = pad_before if pad_after is None else pad_after
    if not len(pad_before) == len(after) == data.ndim:
        what = f"padding takes two numbers for each of {data.ndim} axes"
        raise ValueError(explain(what, got=f"{list(pad_before)} and {list(after)}"))
    rows = zip(data.shape, pad_before, after, strict=True)
    return tuple(simplify(d + b + a) for d, b, a in rows)


def named(data: Tensor, name: str, attrs: dict[str, Any] | None = None) -> Tensor:
    """A computed tensor under a name, with `attrs` besides its own."""
    op = data.op
    return te.ComputeOp(name, op.tag, {**op.attrs, **(attrs or {})}, op.axis, op.body).output(0)


def _padding(mode: str) -> Callable[..., Tensor]:
    def padded(
        data: Tensor,
        pad_before: Sequence[int],
        pad_after: Sequence[int] | None = None,
        name: str = f"{mode.capitalize()}PadInput",
    ) -> Tensor:
        after = pad_before if pad_after is None else pad_after
        get_padded_shape(data, pad_before, after)
        widths = [get_const_int(w) for pair in zip(pad_before, after, strict=True) for w in pair]
        return named(OPERATORS["relax.nn.pad"](data, widths, mode, 0.0), name)

    padded.__name__ = padded.__qualname__ = f"{mode}_pad"
    padded.__doc__ = f'The data with borders of the mode "{mode}" of the graph\'s pad.'
    return padded


reflect_pad, replicate_pad, circular_pad = map(_padding, ("reflect", "replicate", "circular"))


def mirror_pad(
    data: Tensor, pad_before: Sequence[int], pad_after: Sequence[int] | None = None,
    mode: str = "SYMMETRIC", name: str = "MirrorPadInput",
) -> Tensor:  # fmt: skip
    """The data with mirrored borders, which repeat the edge ("SYMMETRIC") or not ("REFLECT")."""
    if mode not in ("SYMMETRIC", "REFLECT"):
        raise ValueError(explain('mirror_pad: mode is "SYMMETRIC" or "REFLECT"', got=repr(mode)))
    edge = int(mode == "SYMMETRIC")

    def element(*i: PrimExpr) -> Any:
        at = []
        for v, d, before in zip(i, data.shape, pad_before, strict=True):
            index = v - before
            index = tir.if_then_else(index < 0, -index - edge, index)
            at.append(tir.if_then_else(index >= d, 2 * d - 2 + edge - index, index))
        return data(*at)

    shape = get_padded_shape(data, pad_before, pad_after)
    return te.compute(shape, element, name=name, tag="injective")


# -- pixels, channels, batches -----------------------------------------------------------------------


def _image(layout: str) -> tuple[int, int, int]:
    """The axes of channels, rows and columns."""
    if layout not in ("NCHW", "NHWC"):
        raise ValueError(explain("the layout is NCHW or NHWC", got=layout))
    return layout.index("C"), layout.index("H"), layout.index("W")


def depth_to_space(
    data: Tensor, block_size: int, layout: str = "NCHW", mode: str = "DCR"
) -> Tensor:
    """Channels as blocks of pixels; the place in the block is the first part of the channel's number
    ("DCR") or the last one ("CRD")."""
    c, h, w = _image(layout)
    depth, b = simplify(data.shape[c] // block_size**2), block_size
    shape = list(data.shape)
    shape[c], shape[h], shape[w] = depth, simplify(shape[h] * b), simplify(shape[w] * b)

    def pixel(*i: PrimExpr) -> Any:
        at = list(i)
        inside = i[h] % b * b + i[w] % b
        at[c] = inside * depth + i[c] if mode == "DCR" else i[c] * b * b + inside
        at[h], at[w] = i[h] // b, i[w] // b
        return data(*at)

    return te.compute(shape, pixel, name="depth_to_space", tag="injective")


def space_to_depth(data: Tensor, block_size: int, layout: str = "NCHW") -> Tensor:
    """Blocks of pixels as channels, whose number has the place in the block first."""
    c, h, w = _image(layout)
    depth, b = data.shape[c], block_size
    shape = list(data.shape)
    shape[c], shape[h], shape[w] = simplify(depth * b * b), shape[h] // b, shape[w] // b

    def pixel(*i: PrimExpr) -> Any:
        at, inside = list(i), i[c] // depth
        at[c], at[h], at[w] = i[c] % depth, i[h] * b + inside // b, i[w] * b + inside % b
        return data(*at)

    return te.compute([simplify(d) for d in shape], pixel, name="space_to_depth", tag="injective")


def space_to_batch_nd(
    data: Tensor, block_shape: Sequence[int], pad_before: Sequence[int], pad_after: Sequence[int],
    pad_value: float = 0.0,
) -> Tensor:  # fmt: skip
    """Blocks of the axes after the first, once padded with `pad_value`, as further batches."""
    m = len(block_shape)
    rest = [0] * (data.ndim - 1 - m)
    rows = zip([0, *pad_before, *rest], [0, *pad_after, *rest], strict=True)
    widths = [get_const_int(w) for pair in rows for w in pair]
    wide = OPERATORS["relax.nn.pad"](data, widths, "constant", pad_value)
    blocks = [get_const_int(b) for b in block_shape]
    batch = data.shape[0]

    def element(*i: PrimExpr) -> Any:
        inside, at = i[0] // batch, []
        for v, b in reversed(list(zip(i[1 : 1 + m], blocks, strict=True))):
            at.append(v * b + inside % b)
            inside = inside // b
        return wide(i[0] % batch, *reversed(at), *i[1 + m :])

    shape = [batch, *(simplify(d // b) for d, b in zip(wide.shape[1:], blocks, strict=False))]
    for b in blocks:
        shape[0] = simplify(shape[0] * b)
    return te.compute([*shape, *wide.shape[1 + m :]], element, name="space_to_batch_nd")


def batch_to_space_nd(
    data: Tensor,
    block_shape: Sequence[int],
    crop_begin_list: Sequence[int],
    crop_end_list: Sequence[int],
) -> Tensor:
    """The inverse of `space_to_batch_nd`, whose padding is cut."""
    m, blocks = len(block_shape), [get_const_int(b) for b in block_shape]
    batch = data.shape[0]
    for b in blocks:
        batch = simplify(batch // b)
    rows = zip(data.shape[1:], blocks, crop_begin_list, crop_end_list, strict=False)
    sizes = [simplify(d * b - before - after) for d, b, before, after in rows]

    def element(*i: PrimExpr) -> Any:
        inside: Any = 0
        at = []
        for v, b, before in zip(i[1 : 1 + m], blocks, crop_begin_list, strict=True):
            index = v + before
            inside = inside * b + index % b
            at.append(index // b)
        return data(inside * batch + i[0], *at, *i[1 + m :])

    shape = [batch, *sizes, *data.shape[1 + m :]]
    return te.compute(shape, element, name="batch_to_space_nd", tag="injective")


def fifo_buffer(data: Tensor, buffer: Tensor, axis: int) -> Tensor:
    """The buffer moved on along `axis`: the data at its end."""
    which = axis % buffer.ndim
    old_rows = simplify(buffer.shape[which] - data.shape[which])

    def element(*i: PrimExpr) -> Any:
        moved = lambda by: [v + by if n == which else v for n, v in enumerate(i)]  # noqa: E731
        old = i[which] < old_rows
        return tir.if_then_else(old, buffer(*moved(data.shape[which])), data(*moved(-old_rows)))

    return te.compute(buffer.shape, element, name="new_buffer", tag="injective,fifo_buffer")


# -- responses ---------------------------------------------------------------------------------------


def lrn(
    data: Tensor, size: int, axis: int = 1, alpha: float = 0.0001, beta: float = 0.75,
    bias: float = 2,
) -> Tensor:  # fmt: skip
    """Divided by (bias + alpha / size * the squares of `size` neighbours along `axis`) ** beta."""
    wide, radius = accumulator(data.dtype), size // 2
    k = te.reduce_axis((0, 2 * radius + 1), name="k")

    def square(*i: PrimExpr) -> Any:
        index = i[axis] + k - radius
        at = [index if n == axis else v for n, v in enumerate(i)]
        value = data(*at).astype(wide)
        inside = tir.all(index >= 0, index < data.shape[axis])
        return te.sum(tir.if_then_else(inside, value * value, te.const(0, wide)), axis=k)

    squares = te.compute(data.shape, square, name="lrn_sum")
    number = lambda v: te.const(v, wide)  # noqa: E731
    return _as(
        data.dtype, "lrn", data.shape,
        lambda *i: data(*i).astype(wide)
        / tir.power(number(bias) + squares(*i) * number(alpha / size), number(beta)),
    )  # fmt: skip


def correlation_nchw(
    data1: Tensor, data2: Tensor, kernel_size: int, max_displacement: int, stride1: int,
    stride2: int, padding: Ints, is_multiply: bool,
) -> Tensor:  # fmt: skip
    """The mean, over a window of `kernel_size` and the channels, of the products (or distances) of two
    images, the second one displaced by up to `max_displacement` in steps of `stride2`: a channel
    for each displacement."""
    if kernel_size % 2 != 1:
        raise ValueError(explain("correlation_nchw: kernel_size is odd", got=kernel_size))
    before, after = (get_pad_tuple(padding, (1, 1))[n : n + 2] for n in (0, 2))
    widths = [0, 0, 0, 0, before[0], after[0], before[1], after[1]]
    one, two = (OPERATORS["relax.nn.pad"](d, widths, "constant", 0.0) for d in (data1, data2))
    steps = max_displacement // stride2
    count = 2 * steps + 1
    border = max_displacement + (kernel_size - 1) // 2
    height, width = (simplify((d - 2 * border + stride1 - 1) // stride1) for d in one.shape[2:])
    rc = te.reduce_axis((0, data1.shape[1]), name="rc")
    ry, rx = (te.reduce_axis((0, kernel_size), name=n) for n in ("ry", "rx"))

    def total(n: PrimExpr, q: PrimExpr, i: PrimExpr, j: PrimExpr) -> Any:
        y, x = i * stride1 + max_displacement + ry, j * stride1 + max_displacement + rx
        down, right = (q // count - steps) * stride2, (q % count - steps) * stride2
        a, b = one(n, rc, y, x), two(n, rc, y + down, x + right)
        return te.sum(a * b if is_multiply else tir.abs(a - b), axis=[rc, ry, rx])

    shape = (data1.shape[0], count * count, height, width)
    summed = te.compute(shape, total, name="correlation", tag="correlation_nchw")
    size = (data1.shape[1] * kernel_size * kernel_size).astype(data1.dtype)
    return te.compute(shape, lambda *i: summed(*i) / size, name="correlation_mean", tag="elemwise")


def _deformable_for(layout: str, doc: str) -> Callable[..., Tensor]:
    def convolution(
        data: Tensor, offset: Tensor, kernel: Tensor, strides: Ints, padding: Padding,
        dilation: Ints, deformable_groups: int, groups: int, out_dtype: DataType | str,
    ) -> Tensor:  # fmt: skip
        steps, gaps = (expand_per_axis(listed(v), 2, "stride") for v in (strides, dilation))
        permute, cast = OPERATORS["relax.permute_dims"], OPERATORS["relax.astype"]
        if layout == "NHWC":
            data, offset = (permute(t, [0, 3, 1, 2]) for t in (data, offset))
            kernel = permute(kernel, [3, 2, 0, 1])
        if out_dtype and out_dtype != data.dtype:  # sums are of the type of the result
            data, kernel = cast(data, out_dtype), cast(kernel, out_dtype)
        window = zip(kernel.shape[2:], gaps, strict=True)
        pads = get_pad_tuple(padding, [simplify((k - 1) * gap + 1) for k, gap in window])
        options = (None, steps, list(pads), gaps, groups, deformable_groups)
        out = OPERATORS["relax.nn.deform_conv2d"](data, offset, kernel, *options)
        return permute(out, [0, 2, 3, 1]) if layout == "NHWC" else out

    convolution.__name__ = convolution.__qualname__ = f"deformable_conv2d_{layout.lower()}"
    convolution.__doc__ = doc
    return convolution


deformable_conv2d_nchw = _deformable_for(
    "NCHW",
    "A convolution of data NCHW whose taps are moved by `offset`, (down, right) for each tap and "
    "pixel in channels, and read between pixels.",
)
deformable_conv2d_nhwc = _deformable_for(
    "NHWC", "`deformable_conv2d_nchw` of data NHWC by a kernel HWIO."
)
